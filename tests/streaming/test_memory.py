"""Memory of a run: what it is stated to be, and that it does not grow with the number of draws."""

import tracemalloc

import pytest

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import structure_of
from bayesdp.streaming.part import Budget, Plan
from benchmarks.census_like import census_like

pytestmark = pytest.mark.system

PRIOR = FixedNegativeBinomial(2.0, 0.2)


def _plan(draws, cores=2, chains=2, quantiles=5):
    return Plan(draws, 5, chains, cores, 1, 15, 64, 32, (0.025, 0.05, 0.5, 0.95, 0.975)[:quantiles])


def _structure(release):
    return structure_of(target_of(release, "negbin"))


def _peak(release, draws, cores=2):
    tracemalloc.start()
    try:
        bdp.fit_hierarchy(release, PRIOR, draws=draws, tune=5, chains=2, random_seed=1, quiet=True, cores=cores)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("leaves", "full", "cores"), [(100, False, 2), (30, True, 1), pytest.param(300, True, 2, marks=pytest.mark.slow)]
)
def test_what_is_stated_is_what_a_release_like_the_census_takes(leaves, full, cores):
    """Within a quarter, with limits of sums and zeros (`full`, 30% of the cells can move) and without."""
    _peak(census_like(4, full=full).release, 8)
    release = census_like(leaves, full=full).release
    stated = Budget.of(_structure(release), _plan(16, cores), 0).total
    assert 0.75 * stated < _peak(release, 16, cores) < 1.25 * stated


def test_what_is_recorded_is_counted_and_memory_does_not_grow_with_draws():
    structure = _structure(census_like(4, full=False).release)
    budgets = [Budget.of(structure, _plan(1_000, quantiles=1), recorded) for recorded in (0, 1_000)]
    assert budgets[1].total - budgets[0].total == 3 * 1_000 * 2 * 1_000 * 8
    one = Budget.of(structure, _plan(1_000, cores=1, chains=4, quantiles=1), 0)
    assert one.kernel == budgets[0].kernel // 2
    assert one.cells > 1.9 * budgets[0].cells
    release = census_like(4, full=True).release
    _, few, many = (_peak(release, draws) for draws in (8, 64, 400))  # first what is compiled and cached
    assert many < 1.02 * few
