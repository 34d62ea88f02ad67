"""Laws that tabulate their log-mass, from the model to the posterior, against enumeration.

False alarms: see `tests.inference.oracle.STANDARD_ERRORS`.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.fibers import LogMassWindows
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian
from bayesdp.steps.reading import read_model
from tests.inference.oracle import LINE, Exactly, counts_model, noisy_cells, sample, tables_of
from tests.registering import only_here


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
LAW = Slipped(0.6)


def model_of(release):
    return counts_model(release, pm.Poisson.dist(2.5))


@pytest.mark.parametrize("unmeasured", [(), ["a=x, b=v"]])
def test_the_posterior_is_that_of_the_law(unmeasured):
    """A cell that was not published is bounded by the total of its row."""
    tables = np.array(list(product(range(9), repeat=4))).reshape(-1, 2, 2)
    published = np.array([[4, np.nan if unmeasured else 0], [1, 5]])
    cells = bdp.Measured(bdp.Identity(TABLE), published, LAW, unmeasured=unmeasured or None)
    rows = bdp.Measured(bdp.Margins(TABLE, ["a"]), [4, 7], LAW, name="by row")

    def slip(distance):
        return np.select([distance == 0, np.abs(distance) == 1, np.isnan(distance)], [0.4, 0.3, 1.0], 0.0)

    def logs(tables):
        answers = slip(published - tables).prod(axis=(1, 2)) * slip([4, 7] - tables.sum(axis=2)).prod(axis=1)
        with np.errstate(divide="ignore"):
            return np.log(answers) + stats.poisson.logpmf(tables, 2.5).sum(axis=(1, 2))

    model = model_of(bdp.Release.from_published(TABLE, [cells, rows]))
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
        sample(model_of(noisy_cells(TABLE, [[4, -3], [1, 5]], LAW)), 10, tune=10)


@pytest.mark.parametrize("law", [DiscreteLaplace(1.5), DiscreteGaussian(2.0), Gaussian(1.5)], ids=str)
def test_kernel_takes_them_and_has_the_posterior(law):
    rate = np.array([2.0, 4.0, 3.0])
    measured = bdp.thresholded(bdp.Identity(LINE), {"q": 7}, law, 5, candidates=["p", "q"])
    release = bdp.Release.from_published(LINE, [measured], [bdp.Exact(bdp.Totals(LINE), 12)])

    def logs(tables):
        under = law.log_cdf(4 if law.integer else 5.0, tables[:, 0])
        return stats.poisson.logpmf(tables, rate).sum(axis=1) + under + law.log_each(7, tables[:, 1])

    case = Exactly(counts_model(release, pm.Poisson.dist(rate)), tables_of(release), logs)
    case.check_densities()
    if isinstance(law, Gaussian):
        case.check_draws(draws=700, tune=50, seed=3)
