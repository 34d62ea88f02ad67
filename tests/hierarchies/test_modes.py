"""The check for missed modes: it sees chains that cannot cross, and is silent about chains that can."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import xarray as xr
from scipy.stats import binom

from bayesdp._chains import chain_statistics
from bayesdp.hierarchies.kernel.sweeps import CROSS_CELLS, CROSS_DONORS
from bayesdp.hierarchies.modes import (
    FAR,
    MissedModes,
    TiedGroups,
    compare_entries,
    entries_of,
    missed_modes_of_draws,
    tied_groups,
    to_ends,
)
from bayesdp.hierarchies.structure import structure_of
from bayesdp.inference.diagnostics import diagnose, with_modes
from tests.hierarchies.cases import CASES, Case, drawn

RATE = 1e-5
"""False alarms of each statistical comparison."""

LOOSE = 25.0
SPLIT = Case((4, 2, 3), "AAAA", 240, noise=((("tract", "age", "race"), LOOSE), (("tract", "race"), 0.8)))
"""About 10 counts of each race in a tract, of either age: the noise of a cell leaves open which of the two."""

PATIENT = Case((3, 2, 3), "AAA", 60, noise=((("tract", "age", "race"), 3.0), (("tract", "race"), 0.8)))
"""The same with modes that a chain crosses within a few sweeps."""


def _chain(case, seed, shape=0.3):
    chain = case.chain(seed)
    cells = case.target.fiber.frame.size
    chain.set_prior(np.full(cells, -0.05), np.full(cells, shape))
    chain.load(case.target.fiber.find_point(np.full(cells, 5.0)).reshape(-1))
    return chain


def _run(case, mix=None, numbers=(0, 1), draws=600, tune=50, seed=0, shape=0.3, apart=True):
    """Draws of several chains, flat in the frame, and their groups."""
    kept, starts = [], []
    for number in numbers:
        chain = _chain(case, 1000 * seed + number, shape)
        if apart:
            to_ends(chain, np.random.default_rng(seed), number)
        starts.append(chain.state.counts.copy())
        if mix is not None:
            chain.mix[:] = 0
            for move, times in mix.items():
                chain.mix[move] = times
        chain.sweep(tune)
        kept.append([chain.structure.in_frame(table) for table in drawn(chain, draws)])
    state = chain.state
    differ = (np.array(starts) != starts[0]).any(axis=0)
    return np.array(kept), TiedGroups(chain.structure, (state.group_start, state.group_cell), differ)


CRIPPLED = ((CROSS_CELLS, 100), (CROSS_DONORS, 20))
"""Cells move between tracts only: a race that is known to within a count keeps its tract's age."""


def test_two_chains_start_at_different_ends_of_every_group():
    one, two = _chain(SPLIT, 1), _chain(SPLIT, 2)
    before = one.state.counts.copy()
    to_ends(one, np.random.default_rng(1), 0)
    to_ends(two, np.random.default_rng(1), 1)
    assert (one.structure.sums_of_cells.T @ before.T != 0).any()
    for table in (one, two):
        counts = table.state.counts.reshape(-1, 2, 3)
        np.testing.assert_array_equal(counts.sum(axis=1), before.reshape(-1, 2, 3).sum(axis=1))  # of each race
        assert (counts.min(axis=1) == 0).all()
        residuals = table.state.answers.copy()
        table.renew()
        np.testing.assert_array_equal(residuals, table.state.answers)
    sums = before.reshape(-1, 2, 3).sum(axis=1) > 0
    assert sums.sum() > 8
    ends = [table.state.counts.reshape(-1, 2, 3).argmax(axis=1) for table in (one, two)]
    assert (ends[0] != ends[1])[sums].all()


def test_consecutive_chains_have_different_ends_in_groups_of_any_size():
    case = CASES["groups of four"]
    ends = []
    for number in range(4):
        chain = case.chain(1)
        chain.load(case.target.fiber.find_point().reshape(-1))
        chain.state.answers[..., 1][chain.state.path[:, 0]] *= 1e-6  # nothing says where a cell is
        to_ends(chain, np.random.default_rng(1), number)
        ends.append(chain.state.counts.argmax(axis=1))
        assert (np.count_nonzero(chain.state.counts, axis=1) <= 1).all()
    full = np.array(ends)[:, chain.state.counts.sum(axis=1) > 0]
    assert full.shape[1] > 0
    assert all(len(set(own)) == 4 for own in full.T)


@pytest.mark.parametrize("name", CASES)
def test_ends_keep_exact_answers_limits_and_zeros(name):
    case = CASES[name]
    tables = {table.tobytes() for table in case.enumerate()[0]}
    for number in (0, 1, 2, None):
        chain = case.chain(1)
        chain.load(case.enumerate()[0][0])
        to_ends(chain, np.random.default_rng(3), number)
        assert chain.counts.tobytes() in tables
        sums = chain.state.sums.copy()
        chain.renew()
        np.testing.assert_array_equal(sums, chain.state.sums)


def test_a_cell_is_not_put_far_from_its_own_noisy_answer():
    case = Case((2, 2, 2), "AA", 4000, noise=((("tract", "age", "race"), 5.0), (("tract", "race"), 1.0)))
    noisy, scale = case.target.terms[0].values, 5.0
    for number in (0, 1):
        chain = _chain(case, 1)
        chain.load(np.rint(case.target.fiber.find_point(noisy)).astype(np.int64).reshape(-1))
        before = chain.counts
        to_ends(chain, np.random.default_rng(1), number)
        away = np.abs(chain.counts - noisy) / scale
        assert (away <= np.maximum(FAR, np.abs(before - noisy) / scale)).all()
        assert away.max() > FAR - 1  # and yet it is put as far as that


@cache
def _split(numbers, mix=None):
    """Two chains from the given ends, under a prior that has one mode with each cell at nearly 0."""
    return _run(SPLIT, mix and dict(mix), numbers=numbers, draws=1500, tune=300, shape=0.001)


def test_chains_that_cannot_cross_look_good_when_they_start_alike():
    draws, tied = _split((0, 0), CRIPPLED)
    statistics = chain_statistics(draws)
    assert np.nanmax(statistics.rhat) < 1.05
    assert np.nanmin(statistics.ess_bulk) > 50
    found = missed_modes_of_draws(draws, tied)
    assert (found.verdict, found.alike) == ("not judged", 12)
    assert "says nothing" in found.message
    right, _ = _split((0, 0))
    means = [own.reshape(-1, 24).mean(axis=0) for own in (draws, right)]
    assert np.abs(means[0] - means[1]).max() > 3  # and they are wrong


def test_chains_that_cannot_cross_fail_the_check():
    draws, tied = _split((0, 1), CRIPPLED)
    found = missed_modes_of_draws(draws, tied)
    assert found.verdict == "disagree"
    assert found.disagreeing >= 8
    assert found.tested + found.alike + found.short == 12
    first = found.groups[0]
    assert {name.split(", ")[0] for name in first.cells} == {"age0", "age1"}
    assert len({name.split(", ")[1] for name in first.cells}) == 1
    assert max(max(own) - min(own) for own in first.means) > 3
    # The named means are those of the draws.
    leaf, race = int(first.leaf.removeprefix("tract")), int(first.cells[0].split("race")[1])
    np.testing.assert_allclose(first.means, draws.reshape(2, -1, 4, 2, 3)[:, :, leaf, :, race].mean(axis=1).T)
    assert first.leaf in found.message
    assert "missed a mode" in found.message
    assert found.attributes["missed_modes"] == "disagree"


def test_the_right_kernel_passes_on_the_same_table():
    found = missed_modes_of_draws(*_split((0, 1)))
    assert (found.verdict, found.tested) == ("none found", 12)


def test_the_right_kernel_passes():
    draws, tied = _run(PATIENT, draws=2000)
    found = missed_modes_of_draws(draws, tied)
    assert found.verdict == "none found", found
    assert found.tested + found.alike == 9
    assert found.tested >= 8
    assert "no group was found in which they disagree" in found.message


def _structure():
    target = SPLIT.target
    structure = structure_of(target, "tract")
    groups = tied_groups(structure, 0)
    return structure, groups


@pytest.mark.parametrize(("slow", "chains"), [(0.0, 2), (0.9, 2), (0.9, 4)])
def test_false_alarms_of_correlated_draws(slow, chains):
    """Draws of autoregressions whose means are equal; counts of rare events among them."""
    structure, groups = _structure()
    rng = np.random.default_rng(5)
    runs, rate, alarms, length = 150, 0.2, 0, 400
    for _ in range(runs):
        x = rng.normal(size=(chains, length, 24))
        x[:, 0] /= np.sqrt(1 - slow**2)
        for i in range(1, length):
            x[:, i] += slow * x[:, i - 1]
        draws = np.rint(np.exp(x / 2) if slow else np.maximum(x - 1.5, 0.0))
        tied = TiedGroups(structure, groups, np.ones((4, 6), dtype=np.bool_))
        alarms += missed_modes_of_draws(draws, tied, rate).verdict == "disagree"
    assert alarms <= binom.isf(RATE, runs, rate)


def _compared(structure, groups, means, sds, ess, apart):
    leaf, cell, _ = entries_of(groups)
    return compare_entries(TiedGroups(structure, groups, apart), *(own[:, leaf, cell] for own in (means, sds, ess)))


def test_means_that_are_apart_are_seen_from_the_first_significant_error_on():
    structure, groups = _structure()
    shape = (2, 4, 6)
    means, sds, ess = np.zeros(shape), np.ones(shape), np.full(shape, 400.0)
    apart = np.ones(shape[1:], dtype=np.bool_)
    assert _compared(structure, groups, means, sds, ess, apart).verdict == "none found"
    for errors, verdict in ((3.0, "none found"), (5.0, "disagree")):
        means[1, 2, 4] = errors * np.sqrt(2 / 400)
        found = _compared(structure, groups, means, sds, ess, apart)
        assert found.verdict == verdict
    assert [(own.leaf, round(own.errors, 6)) for own in found.groups] == [("tract2", 5.0)]
    # Few effective draws: they cannot be called agreeing, whatever their means.
    means[:] = 0.0
    ess[0, 1, 1] = 30.0
    found = _compared(structure, groups, means, sds, ess, apart)
    assert (found.verdict, found.short) == ("not judged", 1)
    assert "fewer than 40 effective draws" in found.message
    # Constant chains with different counts are infinitely far apart, with equal ones they agree.
    ess[:] = 400.0
    sds[:] = 0.0
    assert _compared(structure, groups, means, sds, ess, apart).verdict == "none found"
    means[1, 0, 0] = 1.0
    assert _compared(structure, groups, means, sds, ess, apart).groups[0].errors == np.inf


def test_one_chain_says_nothing():
    structure, groups = _structure()
    one = np.ones((1, 4, 6))
    found = _compared(structure, groups, one, one, one * 400, np.ones((4, 6), dtype=np.bool_))
    assert found.verdict == "not judged"
    assert "two chains" in found.message
    assert found.attributes["missed_modes"] == "not judged"


def _dataset(draws):
    dims = SPLIT.target.fiber.frame.dims
    return xr.Dataset({"x": (("chain", "draw", *dims), draws.reshape(*draws.shape[:2], 4, 2, 3))})


def test_the_diagnostics_of_a_posterior_say_it():
    nothing = {"x": np.zeros((4, 2, 3), dtype=np.bool_)}
    draws, tied = _split((0, 1))
    good = diagnose(_dataset(draws), nothing, tied={"x": tied}).attrs
    assert (good["verdict"], good["converged"], good["missed_modes"]) == ("converged", 1, "none found")
    assert good["missed_modes_tested"] == 12
    assert "no group was found in which they disagree" in good["message"]
    assert "missed_modes" not in diagnose(_dataset(draws), nothing).attrs
    draws, tied = _split((0, 1), CRIPPLED)
    bad = diagnose(_dataset(draws), nothing, tied={"x": tied}).attrs
    assert (bad["verdict"], bad["converged"], bad["missed_modes"]) == ("not converged", 0, "disagree")
    assert "tract" in bad["missed_modes_message"]


def test_a_check_changes_the_verdict_by_itself():
    converged = {
        "verdict": "converged",
        "converged": 1,
        "message": "Converged by the usual limits: R-hat at most 1.001.",
    }
    found = {
        verdict: MissedModes(2, 5, 0, short, disagree, (), 0.01)
        for verdict, short, disagree in (("none found", 0, 0), ("not judged", 2, 0), ("disagree", 0, 3))
    }
    assert {name: check.verdict for name, check in found.items()} == {name: name for name in found}
    assert with_modes(converged, {"x": found["none found"]})["verdict"] == "converged"
    few = with_modes(converged, {"x": found["not judged"]})
    assert (few["verdict"], few["converged"]) == ("not judged", 0)
    assert few["message"].startswith("Too little to judge")
    bad = with_modes(converged, {"x": found["disagree"], "y": found["none found"]})
    assert (bad["verdict"], bad["converged"]) == ("not converged", 0)
    assert (bad["missed_modes_x"], bad["missed_modes_y"]) == ("disagree", "none found")
    assert bad["message"].startswith(
        "NOT converged, as far as can be told, because chains from different starts disagree, which the usual diagnostics do not "
        "show: R-hat at most 1.001. Chains disagree in 3 groups"
    )
    assert bad["message"].lower().count("converged") == 1
    assert "converged" not in few["message"].lower()
    assert few["message"].startswith(
        "Too little to judge whether a mode was missed; the usual diagnostics are good: R-hat at most 1.001. Check"
    )
    worse = converged | {
        "verdict": "not converged",
        "message": "NOT converged, as far as can be told: R-hat up to 1.5.",
    }
    assert with_modes(worse, {"x": found["disagree"]})["message"].lower().count("converged") == 1
    assert with_modes(converged, {}) == converged


def test_the_message_says_what_its_rate_rests_on():
    draws, tied = _split((0, 1), CRIPPLED)
    message = missed_modes_of_draws(draws, tied).message
    assert "in 1.00% of runs at most, if their effective sample sizes are right" in message
