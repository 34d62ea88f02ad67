"""Answers above the parts that are far more precise than the parts: said, by name."""

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.streaming.above import NoisyAbove, parts_per_round, split_noise
from tests.streaming.parts.cases import FRAME, PRIOR, country, posterior


def _release(sigma):
    return country(((("county", "race"), 2.0), (("race",), sigma)))


def _fitted(parts, top, draws=150, phase=2, tune=40):
    run = {"draws": draws, "tune": tune, "phase": phase, "together": 1, "random_seed": 1, "quiet": True}
    return bdp.fit_parts(parts, PRIOR, top=top, **run)["diagnostics"].to_dataset()


def test_a_top_that_is_far_more_precise_is_named_and_exact_sums_and_few_phases_are_no_alarm():
    """The posterior has several ways to divide a sum of 4 among the states; chains of one part at a time do not change theirs."""
    release = _release(0.1)
    diagnostics = _fitted(*split(release, "state"))
    tables, probability = posterior(release)
    of_state = bdp.Margins(FRAME, ["race", "state"]).apply(tables)[:, 0]
    _, where = np.unique(of_state, axis=0, return_inverse=True)
    assert (np.bincount(where.reshape(-1), weights=probability) > 0.05).sum() > 2
    assert diagnostics.attrs["verdict"] == "not converged"
    assert "'by_race' (standard deviation of its noise from 0.1; " in diagnostics.attrs["message"]
    assert "bdp.fit_hierarchy" in diagnostics.attrs["message"]
    assert diagnostics["by_race_of_part_ess_bulk"].min() < 40
    parts, blunt = split(_release(1.5), "state")
    total = bdp.Totals({"state": ["S", "T", "U"], "race": ["a", "b"]})
    top = bdp.Release.from_published(total.frame, [bdp.Measured(total, 7, bdp.noise.DiscreteGaussian(0.1))])
    found = [_fitted(parts, top, draws=20, tune=4), *(_fitted(parts, blunt, 10, phase, 4) for phase in (5, 10))]
    assert not any("Sums of parts" in own.attrs["message"] for own in found)
    assert np.isnan(found[0]["total_of_part_rhat"]).all()


@pytest.mark.system
def test_a_top_as_precise_as_the_parts_is_not():
    diagnostics = _fitted(*split(_release(1.5), "state"), draws=1_000)
    assert "Sums of parts moved too little" not in diagnostics.attrs["message"]
    assert diagnostics["by_race_of_part_ess_bulk"].min() > 40
    assert diagnostics["by_race_of_part_rhat"].max() < 1.1
    assert diagnostics["by_race_of_part_rhat"].sizes == {"part": 3, "by_race_answer": 2}  # though nothing was recorded


PARTS = 12


def _total(noise, answers=1):
    """Sums over all parts, each with noise of this scale; of more than one only the first was measured."""
    own, labels = np.arange(answers), [str(i) for i in range(answers)]
    numbers = {"values": np.zeros(answers), "scale": np.full(answers, noise), "measured": own < 1, "labels": labels}
    return NoisyAbove(name="total", keep=(), rows=np.tile(own, (PARTS, 1)), sum_of_cell=own, **numbers)


@pytest.mark.parametrize(("sd", "noise"), [(1.0, 1.0), (1.0, 0.4), (1.0, 2.1), (0.7, 1.5), (0.5, 2.0)])
def test_as_many_as_leave_the_autocorrelation_at_one_half(sd, noise):
    """Given its share z of the noise, of variance s**2 / m, a difference of two parts is drawn about v / (v + s**2 / m) of that of
    their z, which is the difference as it stood and noise: so this is its autocorrelation."""
    query = _total(noise)
    found = parts_per_round([query], [[np.array([sd])]] * PARTS, PARTS)

    def autocorrelation(moving):
        tables = np.arange(PARTS)[:, None]
        given = split_noise([query], tables, np.arange(moving), np.random.default_rng(1))
        # What is given to those that move, and what the others have, add up to the published sum.
        assert sum(own[0][0] for own, _ in given) + tables[moving:].sum() == pytest.approx(query.values[0], abs=1e-9)
        return sd**2 / (sd**2 + float(given[0][1][0][0]) ** 2)

    assert 1 <= found <= PARTS
    assert found == 1 or autocorrelation(found) <= 0.5 + 1e-12
    assert found == PARTS or autocorrelation(found + 1) > 0.5


def test_what_it_is_worked_out_from():
    one = [[np.array([1.0])]] * PARTS
    assert parts_per_round([], [[]] * PARTS, PARTS) == PARTS
    assert parts_per_round([_total(1.8)], one, PARTS) == 3
    # Sums of which nothing was published do not count, and one part without an estimate may be much wider than the noise.
    assert parts_per_round([_total(1.8, 2)], [[np.array([1.0, np.nan])]] * PARTS, PARTS) == 3
    assert parts_per_round([_total(1.8)], [*one[1:], [np.array([np.nan])]], PARTS) == 1
