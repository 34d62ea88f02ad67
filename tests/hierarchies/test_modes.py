"""The check for missed modes: it sees chains that cannot cross, and is silent about chains that can."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import binom

from bayesdp.hierarchies import modes
from bayesdp.hierarchies.kernel.sweeps import CROSS_CELLS, CROSS_DONORS
from bayesdp.hierarchies.structure import structure_of
from bayesdp.inference.diagnostics import diagnose, with_modes
from tests.hierarchies.cases import CASES, Case, drawn

SPLIT = Case((4, 2, 3), "AAAA", 240, noise=((("tract", "age", "race"), 25.0), (("tract", "race"), 0.8)))
"""About 10 counts of each race in a tract, of either age: the noise of a cell leaves open which of the two."""


def _chain(case, seed, shape=0.3):
    chain = case.chain(seed)
    cells = case.target.fiber.frame.size
    chain.set_prior(np.full(cells, -0.05), np.full(cells, shape))
    chain.load(case.target.fiber.find_point(np.full(cells, 5.0)).reshape(-1))
    return chain


def _run(numbers, crippled):
    """Draws of two chains from the given ends, flat in the frame, and their groups; the prior has a mode with each cell at nearly 0.
    Where crippled, cells move between tracts only: a race that is known to within a count keeps its tract's age."""
    kept, starts = [], []
    for number in numbers:
        chain = _chain(SPLIT, number, 0.001)
        modes.to_ends(chain, np.random.default_rng(0), number)
        starts.append(chain.state.counts.copy())
        if crippled:
            chain.mix[:] = 0
            chain.mix[[CROSS_CELLS, CROSS_DONORS]] = 100, 20
        chain.sweep(300)
        kept.append([chain.structure.in_frame(table) for table in drawn(chain, 1000)])
    differ = (np.array(starts) != starts[0]).any(axis=0)
    return np.array(kept), modes.TiedGroups(chain.structure, (chain.state.group_start, chain.state.group_cell), differ)


def test_chains_start_at_different_ends_of_groups_of_any_size_and_cells_not_far_from_their_answers():
    ends = []
    for number in (0, 1):
        chain = _chain(SPLIT, 1)
        before = chain.state.counts.reshape(-1, 2, 3).sum(axis=1)  # of each race
        modes.to_ends(chain, np.random.default_rng(1), number)
        counts, residuals = chain.state.counts.reshape(-1, 2, 3), chain.state.answers.copy()
        np.testing.assert_array_equal(counts.sum(axis=1), before)
        assert (counts.min(axis=1) == 0).all()
        chain.renew()
        np.testing.assert_array_equal(residuals, chain.state.answers)
        ends.append(counts.argmax(axis=1)[before > 0])
    assert ends[0].size > 8
    assert (ends[0] != ends[1]).all()
    case, ends = CASES["groups of four"], []
    for number in range(4):
        chain = case.chain(1)
        chain.load(case.target.fiber.find_point().reshape(-1))
        chain.state.answers[..., 1][chain.state.path[:, 0]] *= 1e-6  # nothing says where a cell is
        modes.to_ends(chain, np.random.default_rng(1), number)
        ends.append(chain.state.counts.argmax(axis=1)[chain.state.counts.sum(axis=1) > 0])
        assert (np.count_nonzero(chain.state.counts, axis=1) <= 1).all()
    assert ends[0].size > 0
    assert all(len(set(own)) == 4 for own in zip(*ends, strict=True))
    case = Case((2, 2, 2), "AA", 4000, noise=((("tract", "age", "race"), 5.0), (("tract", "race"), 1.0)))
    noisy, scale = case.target.terms[0].values, 5.0
    for number in (0, 1):
        chain = _chain(case, 1)
        chain.load(np.rint(case.target.fiber.find_point(noisy)).astype(np.int64).reshape(-1))
        before = chain.counts
        modes.to_ends(chain, np.random.default_rng(1), number)
        away = np.abs(chain.counts - noisy) / scale
        assert (away <= np.maximum(modes.FAR, np.abs(before - noisy) / scale)).all()
        assert away.max() > modes.FAR - 1  # and yet it is put as far as that


@pytest.mark.parametrize("name", CASES)
def test_ends_keep_exact_answers_limits_and_zeros(name):
    case = CASES[name]
    tables, _ = case.enumerate()
    for number in (0, 1, 2, None):
        chain = case.chain(1)
        chain.load(tables[0])
        modes.to_ends(chain, np.random.default_rng(3), number)
        assert (chain.counts == tables).all(axis=1).any()
        sums = chain.state.sums.copy()
        chain.renew()
        np.testing.assert_array_equal(sums, chain.state.sums)


@pytest.mark.parametrize("crippled", [False, True])
def test_chains_that_cannot_cross_fail_the_check_and_the_right_kernel_passes_on_the_same_table(crippled):
    draws, tied = _run((0, 1), crippled)
    found = modes.missed_modes_of_draws(draws, tied)
    dims = SPLIT.target.fiber.frame.dims
    dataset = xr.Dataset({"x": (("chain", "draw", *dims), draws.reshape(*draws.shape[:2], 4, 2, 3))})
    nothing = {"x": np.zeros((4, 2, 3), dtype=np.bool_)}
    told = diagnose(dataset, nothing, tied={"x": tied}).attrs
    verdicts = [told[name] for name in ("verdict", "converged", "missed_modes")]
    assert "missed_modes" not in diagnose(dataset, nothing).attrs
    if not crippled:
        alike = modes.missed_modes_of_draws(*_run((0, 0), True))
        assert (alike.verdict, alike.alike, "says nothing" in alike.message) == ("not judged", 12, True)
        assert (found.verdict, found.tested, told["missed_modes_tested"]) == ("none found", 12, 12)
        assert verdicts == ["converged", 1, "none found"]
        assert "no group was found in which they disagree" in told["message"]
        return
    assert verdicts == ["not converged", 0, "disagree"]
    assert "tract" in told["missed_modes_message"]
    assert found.verdict == "disagree"
    assert found.disagreeing >= 8
    assert found.tested + found.alike + found.short == 12
    first = found.groups[0]
    ages, races = zip(*(name.split(", ") for name in first.cells), strict=True)
    assert (set(ages), len(set(races))) == ({"age0", "age1"}, 1)
    assert max(max(own) - min(own) for own in first.means) > 3
    # The named means are those of the draws.
    leaf, race = int(first.leaf.removeprefix("tract")), int(first.cells[0].split("race")[1])
    np.testing.assert_allclose(first.means, draws.reshape(2, -1, 4, 2, 3)[:, :, leaf, :, race].mean(axis=1).T)
    for said in (first.leaf, "missed a mode", "in 1.00% of runs at most, if their effective sample sizes are right"):
        assert said in found.message


def _tied():
    structure = structure_of(SPLIT.target, "tract")
    return modes.TiedGroups(structure, modes.tied_groups(structure, 0), np.ones((4, 6), dtype=np.bool_))


@pytest.mark.parametrize(("slow", "chains"), [(0.0, 2), (0.9, 2), (0.9, 4)])
def test_false_alarms_of_correlated_draws(slow, chains):
    """Draws of autoregressions whose means are equal; counts of rare events among them."""
    tied, rng = _tied(), np.random.default_rng(5)
    runs, rate, alarms, length = 150, 0.2, 0, 400
    for _ in range(runs):
        x = rng.normal(size=(chains, length, 24))
        x[:, 0] /= np.sqrt(1 - slow**2)
        for i in range(1, length):
            x[:, i] += slow * x[:, i - 1]
        draws = np.rint(np.exp(x / 2) if slow else np.maximum(x - 1.5, 0.0))
        alarms += modes.missed_modes_of_draws(draws, tied, rate).verdict == "disagree"
    assert alarms <= binom.isf(1e-5, runs, rate)


def test_means_that_are_apart_are_seen_from_the_first_significant_error_on():
    tied, means, sds, ess = _tied(), np.zeros((2, 4, 6)), np.ones((2, 4, 6)), np.full((2, 4, 6), 400.0)
    leaf, cell, _ = modes.entries_of(tied.groups)

    def found(chains=2):
        return modes.compare_entries(tied, *(own[:chains, leaf, cell] for own in (means, sds, ess)))

    assert found().verdict == "none found"
    assert (found(1).verdict, "two chains" in found(1).message) == ("not judged", True)
    for errors, verdict in ((3.0, "none found"), (5.0, "disagree")):
        means[1, 2, 4] = errors * np.sqrt(2 / 400)
        assert found().verdict == verdict
    assert [(own.leaf, round(own.errors, 6)) for own in found().groups] == [("tract2", 5.0)]
    # Few effective draws: they cannot be called agreeing, whatever their means.
    means[:] = 0.0
    ess[0, 1, 1] = 30.0
    assert (found().verdict, found().short) == ("not judged", 1)
    assert "fewer than 40 effective draws" in found().message
    # Constant chains with different counts are infinitely far apart, with equal ones they agree.
    ess[:] = 400.0
    sds[:] = 0.0
    assert found().verdict == "none found"
    means[1, 0, 0] = 1.0
    assert found().groups[0].errors == np.inf


USUAL = {"verdict": "converged", "converged": 1, "message": "Converged by the usual limits: R-hat at most 1.001."}
WORSE = USUAL | {"verdict": "not converged", "message": "NOT converged, as far as can be told: R-hat up to 1.5."}
NONE, SHORT, APART = (modes.MissedModes(2, 5, 0, own, other, (), 0.01) for own, other in ((0, 0), (2, 0), (0, 3)))


SAID_SHORT = "Too little to judge whether a mode was missed; the usual diagnostics are good: R-hat at most 1.001. Check"
SAID_APART = (
    "NOT converged, as far as can be told, because chains from different starts disagree, which the usual diagnostics"
)
SAID_APART += " do not show: R-hat at most 1.001. Chains disagree in 3 groups"


@pytest.mark.parametrize(
    ("usual", "checks", "verdict", "message", "converged"),
    [
        (USUAL, {}, ("converged", 1), "Converged by the usual limits: R-hat at most 1.001.", 1),
        (USUAL, {"x": NONE}, ("converged", 1), "Converged by the usual limits", 1),
        (USUAL, {"x": SHORT}, ("not judged", 0), SAID_SHORT, 0),
        (USUAL, {"x": APART, "y": NONE}, ("not converged", 0), SAID_APART, 1),
        (WORSE, {"x": APART}, ("not converged", 0), "NOT converged", 1),
    ],
)
def test_a_check_changes_the_verdict_by_itself(usual, checks, verdict, message, converged):
    found = with_modes(usual, checks)
    assert (found["verdict"], found["converged"] if usual is USUAL else 0) == verdict
    assert found["message"].startswith(message)
    assert found["message"].lower().count("converged") == converged
    if len(checks) == 2:
        assert (found["missed_modes_x"], found["missed_modes_y"]) == ("disagree", "none found")
