"""Perturbed and censored counts as PyMC distributions, and what `observe` makes of them: finite while the counts are free."""

import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode

import bayesdp as bdp
from bayesdp import distributions, noise
from bayesdp.distributions import Censored, distribution_of
from bayesdp.distributions.confidential_counts import OFF_FIBER
from bayesdp.distributions.perturbed import counts_of
from tests.noise.perturbed.records import FULL
from tests.refusals import refused

LABELS = {"area": ["Alpha", "Beta"]}
PUBLISHED = np.array([30, 45])
LAW = noise.RandomRounding(3)


@pytest.fixture(scope="module")
def model():
    """PyMC starts both counts at 4, which lead to neither published number."""
    release = bdp.Release.from_published(LABELS, [bdp.Measured(bdp.Identity(LABELS), PUBLISHED, LAW, name="published")])
    with pm.Model(coords=release.coords) as own:
        rate = pm.Exponential("rate", 1 / 4.0)
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="area"))
    return own


def test_log_mass_given_free_counts(model):
    """By hand: 31 becomes 30 with probability 2/3, 43 becomes 45 with 1/3; 30 and 45 stay; 4 and 33 become neither."""
    logp, point = model.compile_logp(vars=[model["published"]], sum=False), model.initial_point()
    assert point["x"].tolist() == [4, 4]
    for counts, expected in (
        ([31, 43], np.log([2 / 3, 1 / 3])),
        ([30, 45], [0.0, 0.0]),
        ([33, 45], [OFF_FIBER, 0.0]),
        ([4, 4], [OFF_FIBER, OFF_FIBER]),
    ):
        np.testing.assert_allclose(logp({**point, "x": np.array(counts)})[0], expected, rtol=1e-12)


def test_known_counts_have_no_mass_where_they_are_impossible(model):
    given = pm.do(model, {"x": np.array([4, 31])})
    rest = given.compile_logp(vars=[given["published"]], sum=False)
    np.testing.assert_array_equal(rest(given.initial_point())[0], [-np.inf, -np.inf])
    own = distributions.PerturbedByRows.dist(np.array([31, 33]), LAW.transitions.mass, LAW)
    np.testing.assert_allclose(pm.logp(own, PUBLISHED[[0, 0]]).eval(), [np.log(2 / 3), -np.inf], rtol=1e-12)
    with pm.Model() as outside_of_observe:
        x = pm.Poisson("x", 30.0)
        distributions.RandomRounding("published", mu=x, base=3, observed=30)
    for own in (outside_of_observe, pickle.loads(cloudpickle.dumps(outside_of_observe))):
        assert own.compile_logp(vars=[own["published"]])({"x": np.array(4)}) == -np.inf
    one, other, third = (variable(noise.RandomRounding(base), 4).owner.op for base in (3, 3, 5))
    assert one == other != third


LAWS = {
    "given": noise.RandomRounding(4, [0.1, 0.6, 1.0]),
    "even": noise.ConventionalRounding(4, "even"),
    "capped": noise.TransitionTable([-1, 0, 2], [[0, 1, 0], [0.25, 0.5, 0.25], [0.5, 0, 0.5]]),
    "mixed": noise.TransitionTable([-1, 0, 2], [[0, 0, 1], [0.25, 0.5, 0.25], [0, 1, 0], [0.5, 0, 0.5]], 2),
    "full": FULL,
}


def variable(law, mu):
    return distribution_of(type(law)).dist(mu, **law.model_parameters())


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_log_mass_is_that_of_the_law_wherever_values_and_counts_are_and_starts_are_possible(name, dtype):
    """Negative counts, counts beyond the table, fractions and values out of reach included."""
    law, counts = LAWS[name], [[0, 1, 2], [2, 1, 0] if name == "full" else [3, 17, 1000]]
    value, mu = pt.tensor("value", shape=(None,), dtype=dtype), pt.lvector("mu")
    evaluate = pytensor.function([value, mu], pm.logp(variable(law, mu), value))
    grid = np.arange(-4, 20, 1 if dtype == "int64" else 0.5)
    y, x = (own.reshape(-1) for own in np.meshgrid(grid, np.arange(-3, 18)))
    np.testing.assert_array_equal(evaluate(y.astype(dtype), x), law.log_each(y, x))
    assert np.isfinite(law.log_each(y, x)).sum() > 3
    own = variable(law, counts)
    for possible in (pm.draw(own, random_seed=1), pm.distributions.distribution.support_point(own).eval()):
        assert np.isfinite(law.log_each(possible, counts)).all()


# The tails of the discrete Gaussian take seconds to compile; with a constant scale the contract of all laws compares them.
HEAVY = pytest.param(noise.DiscreteGaussian, marks=pytest.mark.system)
VALUES = np.array([4, 5, 7, 9, 10])


@pytest.mark.parametrize("law", [noise.DiscreteLaplace, HEAVY, noise.Laplace, noise.Gaussian])
def test_mass_with_a_scale_that_is_a_variable(law):
    mu, scale = pt.dscalar("mu"), pt.dscalar("scale")
    variable = Censored.dist(mu, law, 5, 9, **{law.scale_name: scale}, shape=5)
    logp = pm.logp(variable, VALUES if law.integer else VALUES.astype(float))
    graphs = [logp, *pt.grad(logp.sum(), [mu, scale])]
    mode = get_mode("FAST_COMPILE").excluding("local_add_canonizer", "local_mul_canonizer")
    evaluate = pytensor.function([mu, scale], graphs, mode=mode)
    for at, width in ((7.0, 2.0), (6.25, 0.7), (-60.3, 3.0), (80.4, 3.0)):
        found, by_mu, by_scale = evaluate(at, width)
        own = noise.Censored(law(width), 5, 9)
        np.testing.assert_allclose(found, own.log_each(VALUES, at), rtol=1e-10, atol=1e-12)
        step = 1e-5 * width
        if at == 7.0 and law in (noise.DiscreteLaplace, noise.Laplace):
            continue  # a kink
        right, left = own.logp(VALUES, at + step), own.logp(VALUES, at - step)
        np.testing.assert_allclose(by_mu, (right - left) / (2 * step), rtol=2e-4, atol=1e-5)
        wide, narrow = (noise.Censored(law(width + d), 5, 9).logp(VALUES, at) for d in (step, -step))
        np.testing.assert_allclose(by_scale, (wide - narrow) / (2 * step), rtol=2e-4, atol=1e-5)


def test_the_law_may_have_its_scale_and_thresholds_may_be_left_out():
    kind, inner = noise.DiscreteLaplace, noise.DiscreteLaplace(2.0)
    found = pm.logp(Censored.dist(3, law=inner, below=2), np.array([1, 2, 7])).eval()
    np.testing.assert_allclose(found, noise.Censored(inner, 2).log_each([1, 2, 7], 3))
    free = pm.logp(Censored.dist(3, kind, b=2.0), np.array([-40, 3, 90])).eval()
    np.testing.assert_allclose(free, inner.log_mass([-40, 3, 90], 3), rtol=1e-12)
    assert np.all(np.isneginf(pm.logp(Censored.dist(3, kind, b=2.0, below=2), np.array([0, -5])).eval()))
    fractions = pm.logp(Censored.dist(3.0, kind, b=2.0, below=2), pt.constant(np.array([2.5, 1.0]))).eval()
    np.testing.assert_allclose(fractions, [-np.inf, inner.log_cdf(1, 3.0)])
    start = pm.distributions.distribution.support_point(Censored.dist(np.array([2, 20]), law=inner, below=5))
    np.testing.assert_array_equal(start.eval(), [5, 20])


test_what_is_refused = refused(
    (lambda: distributions.RandomRounding.dist(pt.dvector("mu"), 3), "mu must hold counts, whole numbers, under the law"),
    (lambda: distributions.RandomRounding.dist(2.5, 3), "mu must hold counts"),
    (lambda: distributions.RandomRounding.dist(2, 1), "base must be a whole number from 2"),
    (lambda: counts_of(pm.Gamma.dist(2.0, 0.5), "random-rounding"), "whole numbers, under the law 'random-rounding'"),
    (lambda: Censored.dist(3, noise.Tulap), "law must be a type of noise law with a scale and tails"),
    (lambda: Censored.dist(3, noise.DiscreteLaplace(2.0), b=2.0), "b is given twice"),
    (lambda: Censored.dist(3, noise.DiscreteLaplace), "b of the law 'discrete-laplace' is missing"),
    (lambda: Censored.dist(3, noise.DiscreteLaplace, 5, 4, b=2.0), "below must be at most above"),
    (lambda: Censored.dist(3, noise.DiscreteLaplace, 2.5, b=2.0), "below must be a whole number"),
    (lambda: Censored.dist(3, noise.DiscreteLaplace, b=-1.0), "b must be finite and greater than 0"),
)  # fmt: skip
