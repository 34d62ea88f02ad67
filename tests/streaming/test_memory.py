"""Memory of a run: what it is stated to be, and that it does not grow with the number of draws."""

import tracemalloc

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import structure_of
from bayesdp.streaming.part import Budget, Plan
from benchmarks.census_like import census_like

pytestmark = pytest.mark.system

LEAVES, CELLS = 40, 150
PRIOR = FixedNegativeBinomial(2.0, 0.2)


def _release(leaves):
    labels = {
        "tract": list(range(leaves)),
        "age": list(range(CELLS)),
        "county": ("tract", [i // 8 for i in range(leaves)]),
    }
    rng = np.random.default_rng(1)
    truth = rng.poisson(rng.gamma(0.2, 10.0, size=(leaves, CELLS)))
    law = bdp.noise.DiscreteGaussian(2.0)
    parts = []
    for query in (bdp.Identity(labels), bdp.Margins(labels, ["tract"]), bdp.Margins(labels, ["county", "age"])):
        answers = query.apply(truth)
        parts.append(bdp.Measured(query, answers + law.draw(rng, answers.shape), law))
    return bdp.Release.from_published(labels, parts, [bdp.Exact(bdp.Totals(labels), int(truth.sum()))])


@pytest.fixture(scope="module")
def release():
    return _release(LEAVES)


def _stated(release, draws):
    plan = Plan(draws, 5, 2, 2, 1, 15, 64, 32, (0.025, 0.05, 0.5, 0.95, 0.975))
    return Budget.of(structure_of(target_of(release, "negbin")), plan, 0).total


def _peak(release, draws, **given):
    tracemalloc.start()
    try:
        bdp.fit_hierarchy(release, PRIOR, draws=draws, tune=5, chains=2, random_seed=1, quiet=True, **given)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_draws_and_is_what_was_stated(release):
    _peak(release, 8, cores=2)  # what is compiled and cached
    few, many = (_peak(release, draws, cores=2) for draws in (64, 640))
    assert many < 1.02 * few
    all_draws = 640 * 2 * LEAVES * CELLS * 8
    assert many < all_draws / 3
    stated = _stated(release, 640)
    assert 0.75 * stated < many < stated + 8e6  # megabytes that do not grow with the table, as the next test shows


def test_memory_grows_with_the_table_as_is_stated(release):
    twice = _release(2 * LEAVES)
    _peak(twice, 8, cores=2)
    growth = _peak(twice, 64, cores=2) - _peak(release, 64, cores=2)
    assert growth == pytest.approx(_stated(twice, 64) - _stated(release, 64), rel=0.15)


@pytest.mark.parametrize(
    ("leaves", "full", "cores"),
    [
        (100, False, 2),
        (50, True, 1),
        pytest.param(150, True, 2, marks=pytest.mark.slow),
        pytest.param(300, True, 1, marks=pytest.mark.slow),
        pytest.param(300, True, 2, marks=pytest.mark.slow),
    ],
)
def test_what_is_stated_is_what_a_release_like_the_census_takes(leaves, full, cores):
    """Within a quarter, with limits of sums and zeros (`full`, 30% of the cells can move) and without."""
    _peak(census_like(4, full=full).release, 8, cores=2)
    release = census_like(leaves, full=full).release
    plan = Plan(16, 5, 2, cores, 1, 15, 64, 32, (0.025, 0.05, 0.5, 0.95, 0.975))
    stated = Budget.of(structure_of(target_of(release, "negbin")), plan, 0).total
    assert 0.75 * stated < _peak(release, 16, cores=cores) < 1.25 * stated


def test_what_is_recorded_is_counted(release):
    structure = structure_of(target_of(release, "negbin"))
    plan = Plan(1_000, 5, 2, 2, 1, 15, 64, 32, (0.5,))
    budgets = [Budget.of(structure, plan, recorded) for recorded in (0, 1_000)]
    assert budgets[1].total - budgets[0].total == 3 * 1_000 * 2 * 1_000 * 8
    one = Budget.of(structure, Plan(1_000, 5, 4, 1, 1, 15, 64, 32, (0.5,)), 0)
    assert one.kernel == budgets[0].kernel // 2
    assert one.cells > 1.9 * budgets[0].cells
