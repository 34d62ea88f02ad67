"""Journals of calibrations, of fits and of draws: those who go on with them, of whose simulations none is really run."""

import json
from functools import cache
from types import SimpleNamespace

import numpy as np
import pymc as pm

import bayesdp as bdp
from bayesdp.calibration import fits, sbc, study
from bayesdp.inference.runs.journal import DrawJournal
from bayesdp.inference.runs.recorded import Stats, state_arrays
from bayesdp.priors import build_model as model_of
from bayesdp.steps import FiberGibbs
from tests.storage.examples import lattice
from tests.storage.fuzz.outcome import require
from tests.storage.fuzz.specimens import JOURNAL_NUMBERS, OF_SIMULATION, journal_lines, posterior


def simulate(rng):
    x = rng.poisson(5.0, size=2)
    return {"x": x}, bdp.LatticeLaplace(bdp.Totals({"county": ["Alpha", "Beta"]}), epsilon=0.5).release(x, rng=rng)


def build_model(release):
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(5.0), dims="county"))
    return model


def go_on(path):
    return sbc(simulate, build_model, ["x"], n=JOURNAL_NUMBERS, seed=1, path=path, progressbar=False, draws=10, tune=10)


def go_on_with_fits(path):
    releases = {"one": simulate(np.random.default_rng(1))[1], "two": simulate(np.random.default_rng(2))[1]}
    found = fits.fit_many(releases, build_model, seed=1, path=path, progressbar=False, draws=10, tune=10)
    return [found[name] for name in found]


def check_journal(value, again, output):
    """A journal that was gone on with is complete: going on once more gives the same."""
    other = again()
    pairs = zip(value, other, strict=True) if isinstance(value, list) else [(value, other)]
    same = all(one.identical(two) for one, two in pairs)
    require(same, "reading is not repeatable", "going on once more gave something else")


_GIVEN = {"draws": 6, "tune": 4, "chains": 2, "random_seed": 3, "nuts_sampler": "pymc"}


@cache
def _run():
    model = model_of(lattice(), "independent")
    return model, FiberGibbs(list(model.value_vars), model=model)


def write_draw_journal(path):
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
                told = stats if at + 1 in ends else list(stats)
                journal.keep(SimpleNamespace(chain=chain, draw_idx=at, tuning=at < 4, point=point, stats=told))


def read_draws(path):
    model, step = _run()
    with DrawJournal(path, model, _GIVEN, resume=True) as journal:
        journal.attach(step)
        return [repr(list(journal._kept(own).rows())) for own in journal._files if own]


def prepare_journals(folder):
    """Replace the simulations and fits by stubs, and write a journal of each kind."""
    write_draw_journal(folder / "draws.partial")
    study.Study.__call__ = lambda own, number: dict(number=number, ranks={"x[0]": 0.5}, **OF_SIMULATION)
    tree = posterior()
    fits._Fit.__call__ = lambda own, number: dict(number=number, name=own.names[number], tree=tree.copy(deep=True))
    go_on(journal := folder / "journal.jsonl")
    head = json.loads(journal.read_text(encoding="utf-8").splitlines()[0])
    journal.write_text(journal_lines(head), encoding="utf-8")
    go_on_with_fits(folder / "fits")
