"""Runs that are killed again and again, at any moment: they end as if they had not been, and leave nothing behind."""

import multiprocessing
import random
import sys

import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies.priors import VaryingShares
from bayesdp.storage import journal as journals
from tests.streaming.cases import FRAME, small_release
from tests.streaming.parts import cases

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")]

RELEASE = small_release()


def hierarchy(folder=None):
    """Whose states are written all the time."""
    run = {"draws": 2_000, "tune": 400, "chains": 2, "cores": 2, "random_seed": 7, "quiet": True}
    record = bdp.Margins(FRAME, ["county", "race"])
    return bdp.fit_hierarchy(RELEASE, VaryingShares(), record=record, journal=folder, resume=folder is not None, **run)


def parts(folder=None):
    """Whose states are written after each phase."""
    return cases.fitted(draws=200, tune=50, chains=2, cores=2, folder=folder, resume=folder is not None)


@pytest.mark.parametrize(("kills", "longest"), [(8, 0.6), pytest.param(50, 0.2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fit", [hierarchy, parts])
def test_runs_that_are_killed_again_and_again(fit, kills, longest, tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "SECONDS", 0.01)
    whole = fit()  # and all is compiled, for the processes that are forked from this one
    dice, context, killed = random.Random(1), multiprocessing.get_context("fork"), 0
    while killed < kills:
        process = context.Process(target=fit, args=(tmp_path,))
        process.start()
        process.join(dice.uniform(0.0, longest))
        if process.exitcode is not None:
            assert process.exitcode == 0
            break
        process.kill()
        process.join()
        killed += 1
    again = fit(tmp_path)
    for group in ("posterior", "diagnostics"):
        xr.testing.assert_equal(again[group].to_dataset(), whole[group].to_dataset())
    assert killed > 3 * kills // 8
    assert not list(tmp_path.glob(".*"))
