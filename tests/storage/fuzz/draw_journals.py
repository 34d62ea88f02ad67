"""Journals of draws: what ``bayesdp fit --resume`` goes on with. Nothing is drawn here, neither to write them nor to read them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm

from bayesdp.inference.runs.journal import DrawJournal
from bayesdp.inference.runs.recorded import Stats, state_arrays
from bayesdp.priors import build_model
from bayesdp.steps import FiberGibbs
from tests.storage.examples import lattice

_GIVEN = {"draws": 6, "tune": 4, "chains": 2, "random_seed": 3, "nuts_sampler": "pymc"}


@cache
def _run() -> tuple[pm.Model, Any]:
    """A model, and its step method."""
    model = build_model(lattice(), "independent")
    return model, FiberGibbs(list(model.value_vars), model=model)


def write_draw_journal(path: Path) -> None:
    """A journal of made-up draws: all of the first chain, the tuning of the second one."""
    model, step = _run()
    point = model.initial_point()
    with DrawJournal(path, model, _GIVEN, resume=False) as journal:
        journal.attach(step)
        for chain, ends in ((0, (4, 7, 10)), (1, (4,))):
            for at in range(max(ends)):
                stats = Stats([{"moved": np.float64(0.5), "tune": at < 4}])
                if at + 1 in ends:
                    stats.state = state_arrays(step)
                told: Any = stats if at + 1 in ends else list(stats)
                journal.keep(SimpleNamespace(chain=chain, draw_idx=at, tuning=at < 4, point=point, stats=told))


def read_draws(path: Path) -> list[str]:
    """All draws and statistics that a run would go on with, as text."""
    model, step = _run()
    with DrawJournal(path, model, _GIVEN, resume=True) as journal:
        journal.attach(step)
        return [repr(list(journal._kept(own).rows())) for own in journal._files if own]
