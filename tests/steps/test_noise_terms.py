"""Laws of bounded support and laws that tabulate their log-mass, from the model to the posterior, against enumeration."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy.stats import poisson

import bayesdp as bdp
from bayesdp.calibration import sbc
from bayesdp.fibers import LogMassWindows
from bayesdp.mechanisms import CanonicalNoise
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian
from bayesdp.privacy.canonical import Tulap
from bayesdp.steps.fiber_gibbs import CountTable
from bayesdp.steps.reading import read_model
from tests.inference.oracle import LINE, Exactly, counts_model, noisy_cells, sample, tables_of
from tests.refusals import refused
from tests.registering import only_here

GRID = {"row": ["a", "b"], "column": ["u", "v", "w"]}
TOTAL = bdp.Totals(GRID)
MECHANISM = CanonicalNoise(GRID, epsilon=0.6, delta=1e-3)


def table_of(model, name="x"):
    return CountTable(model, model.rvs_to_values[model[name]], np.random.default_rng(1), {})


def simulate(rng):
    """Counts far from where the prior starts, beyond the reach of the noise, and their total."""
    rate = rng.gamma(2.0, 150.0)
    x = rng.poisson(rate, size=(2, 3))
    release = MECHANISM.release(x, rng=rng)
    return {"rate": rate, "x": x}, bdp.Release(release.frame, release.measurements, (bdp.Exact(TOTAL, x.sum()),))


def build(release):
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2.0, 1.0 / 150.0)
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims))
    return model


@pytest.mark.system
def test_no_simulation_with_large_counts_fails_and_one_model_serves_all():
    result = sbc(simulate, build, ["rate", "x"], n=8, seed=5, draws=100, tune=100, progressbar=False)
    assert result["verdict"].attrs["failed"] == 0
    assert result.attrs["model_reused"] == "True"


def test_steps_are_exact_conditional_starts_are_within_reach_and_given_counts_beyond_it_have_no_density():
    _, release = simulate(np.random.default_rng(3))
    model = build(release)
    table = table_of(model)
    assert table._rest is None
    law = Tulap(0.3, 1.0 - np.sqrt(1.0 - 1e-3))
    assert law.logpdf(0.2) == pytest.approx(release.measurements[0].law.log_density(0.2), abs=1e-12)
    end = law.support()[1]
    for seed in range(5):
        table.begin(model.initial_point(), np.random.default_rng(seed))
        assert np.all(np.abs(table.value - release.values.values) <= end)
        assert table.value.sum() == release.exact[0].values
    beyond = {"x": np.zeros((2, 3), dtype=np.int64)}
    given = pm.do(model, beyond)
    assert given.compile_logp(vars=[given["noisy"]])({"rate_log__": 0.0}) == -np.inf
    free = model.compile_logp(vars=[model["noisy"]])
    assert np.isfinite(free(model.initial_point() | beyond))


@pytest.mark.parametrize("exact", [False, True])
def test_margins_with_missing_and_half_way_numbers_against_enumeration(exact):
    frame = {"row": ["a", "b"], "column": ["u", "v"]}
    law, rate = bdp.noise.Tulap(0.7, 0.05), np.array([[2.0, 1.0], [0.5, 1.5]])
    rows = bdp.Measured(bdp.Margins(frame, ["row"]), [3.5, 1.2], law)
    cells = bdp.Measured(bdp.Identity(frame), [[1.7, np.nan], [-0.4, 2.5]], law, unmeasured=[("a", "v")])
    release = bdp.Release.from_published(frame, [rows, cells], [bdp.Exact(bdp.Totals(frame), 5)] * exact)

    def logs(tables):
        (a, b), (c, d) = np.moveaxis(tables, 0, -1)
        noise = np.array([3.5 - a - b, 1.2 - c - d, 1.7 - a, -0.4 - c, 2.5 - d])
        with np.errstate(divide="ignore"):
            return np.log(law.standard.pdf(noise)).sum(axis=0) + poisson.logpmf(tables, rate).sum(axis=(1, 2))

    tables = np.array(list(product(range(12), repeat=4))).reshape(-1, 2, 2)
    tables = tables[tables.sum(axis=(1, 2)) == 5] if exact else tables[np.isfinite(logs(tables))]
    case = Exactly(counts_model(release, pm.Poisson.dist(rate)), tables, logs)
    case.check_densities()
    if exact:
        assert not np.isfinite(logs(tables)).all()
    else:
        case.check_draws(draws=700, tune=50)


def test_parameters_that_are_variables_and_a_start_that_the_rest_of_the_model_allows():
    # Without delta epsilon may be free, and the steps are exact; with both, what the noise reaches is unknown.
    for epsilon, delta, exact in ((None, 0.0, True), (None, 0.01, False), ([0.5, 1.0], [0.0, 0.05], True)):
        with pm.Model() as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist([5.0, 6.0]))
            own = epsilon or pm.Uniform("epsilon", 0.2, 2.0)
            bdp.distributions.Tulap("noisy", x, own, delta, observed=np.array([4.2, 7.4]))
        table = table_of(model)
        assert (table._rest is None) is exact
    system, end = table.target.fiber.system, Tulap(1.0, 0.05).support()[1]
    assert (system.lower[1], system.upper[1]) == (np.ceil(7.4 - end), np.floor(7.4 + end))
    assert system.lower[0] == 0
    # A start that the rest of the model allows is not scattered away.
    # A law that the kernel does not know, of small support: from 30 away no random walk finds it.
    start = np.array([[300, 310, 320], [330, 340, 350]])
    with pm.Model() as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(np.full((2, 3), 200.0)))
        pm.Potential("near", pm.math.switch(pm.math.all(abs(x - start) <= 1), 0.0, -np.inf))
    found = sample(model, 50, tune=10, chains=1, initvals={"x": start})
    assert np.all(np.abs(found.posterior["x"].values - start) <= 1)


def unexplained(published, *total):
    sample(build(noisy_cells(GRID, np.full((2, 3), published), bdp.noise.Tulap(1.0, 0.1), *total)), 10, tune=10)


test_numbers_that_no_table_explains = refused(
    ([-9.0], "noise of bounded support cannot have made .*noisy row=.*published -9 with noise of at most"),
    ([9.0, bdp.Exact(TOTAL, 3)], "no table is left for x"),
    of=lambda given: unexplained(*given),
)


@dataclass(frozen=True, eq=False)
class Slipped(bdp.noise.NoiseLaw):
    """The count, or by chance a neighbour of it: ``share / 2`` on either side, ``1 - share`` for none."""

    share: float

    name = "slipped-in-tests"
    support = "integers"
    integer = True
    kernel_parameters = ("share",)

    @staticmethod
    def log_kernel(xp, value, mu, share):
        near = xp.abs(value - mu)
        return xp.where(xp.less(near, 0.5), xp.log1p(-share), xp.where(xp.less(near, 1.5), xp.log(share / 2), -np.inf))

    @staticmethod
    def fill(rng, mu, share, out):
        u = rng.random(out.shape)
        out[...] = np.rint(mu).astype(np.int64) + (u < share / 2) - (u > 1 - share / 2)

    def logp(self, values, location, invariants=None):
        return float(np.sum(self.log_kernel(np, np.asarray(values), np.asarray(location), self.share)))

    def windows(self, values):
        flat = np.asarray(values, dtype=np.int64).reshape(-1)
        share = np.broadcast_to(self.share, np.shape(values)).reshape(-1)
        table = np.stack([np.log(share / 2), np.log1p(-share), np.log(share / 2)], axis=1).reshape(-1)
        ends = np.full(len(flat), -np.inf)
        return LogMassWindows(flat - 1, 3 * np.arange(len(flat)), np.full(len(flat), 3), table, ends, ends)


@bdp.distributions.scalar_distribution(Slipped)
class SlippedVariable(pm.Discrete):
    """A count that slipped."""


registered = only_here(Slipped)
TABLE = {"a": ["x", "y"], "b": ["u", "v"]}
SLIPPED = Slipped(0.6)


@pytest.mark.parametrize("unmeasured", [(), ["a=x, b=v"]])
def test_the_posterior_is_that_of_the_law(unmeasured):
    """A cell that was not published is bounded by the total of its row."""
    tables = np.array(list(product(range(9), repeat=4))).reshape(-1, 2, 2)
    published = np.array([[4, np.nan if unmeasured else 0], [1, 5]])
    cells = bdp.Measured(bdp.Identity(TABLE), published, SLIPPED, unmeasured=unmeasured or None)
    rows = bdp.Measured(bdp.Margins(TABLE, ["a"]), [4, 7], SLIPPED, name="by row")

    def slip(distance):
        return np.select([distance == 0, np.abs(distance) == 1, np.isnan(distance)], [0.4, 0.3, 1.0], 0.0)

    def logs(tables):
        answers = slip(published - tables).prod(axis=(1, 2)) * slip([4, 7] - tables.sum(axis=2)).prod(axis=1)
        with np.errstate(divide="ignore"):
            return np.log(answers) + poisson.logpmf(tables, 2.5).sum(axis=(1, 2))

    model = counts_model(bdp.Release.from_published(TABLE, [cells, rows]), pm.Poisson.dist(2.5))
    case = Exactly(model, tables[np.isfinite(logs(tables))], logs)
    case.check_densities(most=80)
    if unmeasured:
        case.check_draws(draws=700, tune=50)


def test_a_share_that_is_unknown_is_left_to_the_compiled_density_and_what_no_count_can_lead_to_is_named():
    with pm.Model(coords=TABLE) as model:
        share = pm.Beta("share", 2, 2)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(2.5), dims=tuple(TABLE))
        SlippedVariable("noisy", x, share=share, observed=[[4, 0], [1, 5]])
    reading = read_model(model, model.rvs_to_values[model["x"]])
    assert not reading.terms
    assert [rv.name for rv in reading.unknown] == ["noisy"]
    with pytest.raises(ValueError, match=r"a=x, b=v.*published -3, which only -4 to -2 can lead to"):
        sample(counts_model(noisy_cells(TABLE, [[4, -3], [1, 5]], SLIPPED), pm.Poisson.dist(2.5)), 10, tune=10)


@pytest.mark.parametrize("law", [DiscreteLaplace(1.5), DiscreteGaussian(2.0), Gaussian(1.5)], ids=str)
def test_kernel_takes_them_and_has_the_posterior(law):
    rate = np.array([2.0, 4.0, 3.0])
    measured = bdp.thresholded(bdp.Identity(LINE), {"q": 7}, law, 5, candidates=["p", "q"])
    release = bdp.Release.from_published(LINE, [measured], [bdp.Exact(bdp.Totals(LINE), 12)])

    def logs(tables):
        under = law.log_cdf(4 if law.integer else 5.0, tables[:, 0])
        return poisson.logpmf(tables, rate).sum(axis=1) + under + law.log_each(7, tables[:, 1])

    case = Exactly(counts_model(release, pm.Poisson.dist(rate)), tables_of(release), logs)
    case.check_densities()
    if isinstance(law, Gaussian):
        case.check_draws(draws=700, tune=50, seed=3)


WITHIN_BOUNDS = [
    (bdp.noise.BoundaryInflatedLaplace(2.0, (0.0, 9.0)), [0.0, 9.0, 3.3]),
    (bdp.noise.TruncatedDiscreteLaplace([2.0, 1.0, 4.0], (0, [9, 9, 12])), [0, 8, 11]),
    (bdp.noise.BoundaryInflatedDiscreteGaussian(2.5, (0, 9)), [0, 9, 4]),
]


@pytest.mark.parametrize("limited", [True, False])
@pytest.mark.parametrize(("law", "values"), WITHIN_BOUNDS, ids=lambda own: getattr(own, "name", ""))
def test_counts_that_limits_keep_within_the_bounds_or_not(law, values, limited):
    """Clipped Laplace noise of counts within the bounds needs no accepting and rejecting; beyond them the law is the one for there."""
    cells, rate = bdp.Identity(LINE), np.array([3.0, 7.0, 5.0])
    limits = [bdp.Exact(cells, np.broadcast_to(law.upper, (3,)).astype(int), "<=")] if limited else []
    release = noisy_cells(LINE, values, law, *limits, bdp.Exact(bdp.Totals(LINE), 15))

    def logs(tables):
        return poisson.logpmf(tables, rate).sum(axis=1) + [law.logp(values, table) for table in tables]

    known = limited and isinstance(law, bdp.noise.BoundaryInflatedLaplace)
    Exactly(counts_model(release, pm.Poisson.dist(rate)), tables_of(release), logs, known=known).check_densities()
