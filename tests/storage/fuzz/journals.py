"""Journals: read by the calibration that goes on with them, none of whose simulations is really run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import bayesdp as bdp
from bayesdp.calibration import fits, sbc, study
from tests.storage.fuzz.outcome import Defect
from tests.storage.fuzz.specimens import JOURNAL_NUMBERS, journal_lines, posterior

_COUNTY = {"county": ["Alpha", "Beta"]}


def simulate(rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    """A truth and its release."""
    x = rng.poisson(5.0, size=2)
    return {"x": x}, bdp.LatticeLaplace(bdp.Totals(_COUNTY), epsilon=0.5).release(x, rng=rng)


def build_model(release: Any) -> pm.Model:
    """Its model."""
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(5.0), dims="county"))
    return model


def _not_run(self: Any, number: int) -> dict[str, Any]:
    """Stands for a simulation: its result, without any draw."""
    good = {
        "seconds": 0.1,
        "ranks": {"x[0]": 0.5},
        "dispersion": {"x[0]": 0.5},
        "ess": 40.0,
        "divergences": 0,
        "longer": 1,
    }
    return {"number": number, **good}


def go_on(path: Path) -> Any:
    """Go on with the calibration whose journal this is."""
    return sbc(simulate, build_model, ["x"], n=JOURNAL_NUMBERS, seed=1, path=path, progressbar=False, draws=10, tune=10)


def go_on_with_fits(path: Path) -> Any:
    """Go on with fits of several releases, and open each."""
    releases = {"one": simulate(np.random.default_rng(1))[1], "two": simulate(np.random.default_rng(2))[1]}
    found = fits.fit_many(releases, build_model, seed=1, path=path, progressbar=False, draws=10, tune=10)
    return [found[name] for name in found]


def check_journal(value: Any, again: Callable[[], Any], output: Path) -> None:
    """A journal that was gone on with is complete: going on once more gives the same."""
    other = again()
    equal = (
        [own.identical(two) for own, two in zip(value, other, strict=True)]
        if isinstance(value, list)
        else [value.identical(other)]
    )
    if not all(equal):
        raise Defect("reading is not repeatable", "going on once more gave something else")


def prepare_journals(folder: Path) -> None:
    """Replace the simulations and fits by stubs, and write a journal of each kind."""
    study.Study.__call__ = _not_run  # type: ignore[method-assign]  # this process runs no other simulation
    tree = posterior()
    fits._Fit.__call__ = lambda self, number: {  # type: ignore[method-assign]
        "number": number, "name": self.names[number], "tree": tree.copy(deep=True)
    }  # fmt: skip
    go_on(folder / "journal.jsonl")
    head = json.loads((folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()[0])
    lines = journal_lines(head).replace('"x": ', '"x[0]": ')
    (folder / "journal.jsonl").write_text(lines, encoding="utf-8")
    go_on_with_fits(folder / "fits")
