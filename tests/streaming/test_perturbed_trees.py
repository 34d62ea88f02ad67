"""Hierarchies whose published numbers are perturbed: against enumeration, by journals, and what is refused."""

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from tests.hierarchies.test_walls import FIVE, MEAN, ONE, SHAPE, posterior, released
from tests.streaming.test_journal import FILE, Killed, often

LAW, FAR = bdp.noise.RandomRounding(3), 5.0  # standard errors: a false alarm in 1.7 million of each comparison


def fitted(release, **more):
    asked = {"draws": 2_000, "tune": 200, "thin": 2, "chains": 2, "random_seed": 4, "quiet": True, **more}
    return bdp.fit_hierarchy(release, FixedNegativeBinomial(MEAN, SHAPE), record=bdp.Margins(ONE, ["region"]), **asked)


@pytest.mark.parametrize("law", [LAW, bdp.noise.ConventionalRounding(5)], ids=str)
def test_probabilities_of_every_cell_are_those_of_enumeration(law):
    release = released(ONE, FIVE, law, 3)
    tables, exact = posterior("negbin", release)
    tree = fitted(release)
    found, ess = tree["cells"]["probability"], tree["cells"]["ess"].fillna(1.0).values
    assert found.dims == ("value", "area", "sex")
    for value in range(16):
        expected = ((tables == value) * exact[:, None]).sum(axis=0).reshape(3, 2)
        error = np.sqrt(expected * (1.0 - expected) / ess)
        assert np.all(np.abs(found.sel(value=value).values - expected) <= FAR * error + 1e-12)
    draws = tree["posterior"]["by_region"].sel(region="n")
    error = float(draws.std()) / np.sqrt(float(tree["diagnostics"]["by_region_ess_bulk"][0]))
    assert abs(float(draws.mean()) - exact @ tables[:, :4].sum(axis=1)) < FAR * error


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path, monkeypatch):
    """Among the draws of its first chain, and once more when it has ended."""
    release = released(ONE, FIVE, LAW, 3)
    asked = {"draws": 300, "thin": 1, "tune": 50}
    whole = fitted(release, **asked)
    with monkeypatch.context() as patched:
        often(patched, kill=120)
        with pytest.raises(Killed):
            fitted(release, journal=tmp_path / "journal", cores=1, **asked)
    with np.load(tmp_path / "journal" / FILE.format(0)) as state:
        assert 50 < int(state["done"]) < 350
    for _ in range(2):
        again = fitted(release, journal=tmp_path / "journal", resume=True, **asked)
        for name in ("posterior", "cells"):
            assert whole[name].to_dataset().identical(again[name].to_dataset())


def test_a_law_that_is_learnt_is_refused():
    cells = bdp.Measured(bdp.Identity(ONE), np.full((3, 2), 5), bdp.noise.UnknownPerturbation(2))
    with pytest.raises(NotImplementedError, match="laws that are known"):
        fitted(bdp.Release.from_published(ONE, [cells]))
