"""Independent laws as PyMC distributions: against `bayesdp.noise`, PyMC's own checks, draws, posteriors."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy import stats
from scipy.stats import binom, kstest

from bayesdp import distributions, noise
from bayesdp.distributions import DiscreteGaussian, DiscreteLaplace
from bayesdp.privacy import canonical, tradeoff
from tests.noise.oracles import DecimalLaw, chi_square_pvalue

KINDS = {
    "laplace": (DiscreteLaplace, noise.DiscreteLaplace, "b"),
    "gaussian": (DiscreteGaussian, noise.DiscreteGaussian, "sigma"),
}
REAL = {
    "real laplace": (distributions.Laplace, noise.Laplace, stats.laplace),
    "real gaussian": (distributions.Gaussian, noise.Gaussian, stats.norm),
}
MUS = {"float64": [0.3, -4.2, 1e6 + 0.5, 0.499, 0.0], "int64": [0, -4, 10**6, 3, 7]}
COMPILED = [*((kind, "int64") for kind in KINDS), *((kind, "float64") for kind in (*KINDS, *REAL))]


@pytest.fixture(scope="module", params=COMPILED, ids="-".join)
def compiled(request):
    """The law; log-mass (or density) and log-cdf of one vector, and the gradients of their sums."""
    kind, dtype = request.param
    distribution, law, _ = {**KINDS, **REAL}[kind]
    value, mu, scale = pt.vector("value"), pt.vector("mu", dtype=dtype), pt.vector("scale")
    variable = distribution.dist(mu, scale)
    both = [pm.logp(variable, value), pm.logcdf(variable, value)]
    parameters = [mu, scale] if dtype == "float64" else [scale]
    mode = Mode(linker="numba") if dtype == "float64" and kind in KINDS else None  # as users have it
    values = pytensor.function([value, mu, scale], both, mode=mode)
    gradients = [slope for logs in both for slope in pt.grad(logs.sum(), parameters)]
    return law, dtype, values, pytensor.function([value, mu, scale], gradients)


@pytest.mark.parametrize("scale", [0.01, 0.4999, 0.5, 6.0, 15.99, 16.0, 1e5])
def test_mass_and_cdf(compiled, scale):
    kind, dtype, values, _ = compiled
    mu, law = np.array(MUS[dtype], dtype=dtype), kind(scale)
    for steps in [-12 * scale, -3, -1, 0, 1, 2, 5 * scale]:
        value = np.floor(mu + steps)
        logp, logcdf = values(value, mu, np.full(len(mu), scale))
        assert logp == pytest.approx(law.log_each(value, mu), rel=1e-12, abs=1e-13)
        assert logcdf == pytest.approx(law.log_cdf(value, mu), rel=1e-11 if law.integer else 1e-8, abs=1e-14)


def test_gradients_are_those_of_differences_and_finite(compiled):
    kind, dtype, values, slopes = compiled
    step, mu = 1e-6, np.array([0.3, -4.2, 2.7, 1.45] if dtype == "float64" else [0, -4, 2, 1], dtype=dtype)
    value = np.array([2.0, -5.0, 2.0, 1.0])
    moves = [(step, 0.0), (0.0, step)] if dtype == "float64" else [(0, step)]
    for scale in [0.3, 0.45, 0.7, 3.0, 20.0]:
        scales, numeric = np.full(4, scale), []
        for by_mu, by_scale in moves:
            up, down = values(value, mu + by_mu, scales + by_scale), values(value, mu - by_mu, scales - by_scale)
            numeric.append([(one - other) / (2 * step) for one, other in zip(up, down, strict=True)])
        for ours, theirs in zip(slopes(value, mu, scales), np.swapaxes(numeric, 0, 1).reshape(-1, 4), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6), (kind, scale)
    for scale, at in product([1e-3, 0.5, 16.0, 1e6], [-3.0, 0.0, 1.0, 50.0]):  # finite everywhere
        assert np.all(np.isfinite(slopes(np.full(4, at), mu, np.full(4, scale))))


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_costs_no_digits_and_fractions_have_no_mass(kind):
    distribution, law, _ = KINDS[kind]  # PyTensor stores 2.0 and 5 as float32 and int8 constants
    for scale in (2.0, 5, np.float32(2.5)):
        logp = pm.logp(distribution.dist(0.5, scale), 3).eval()
        assert logp == pytest.approx(law(float(scale)).logp(3, 0.5), rel=1e-14)
    value = pt.dscalar("value")  # PyMC itself casts constants to the type of the variable
    assert pm.logp(distribution.dist(0.5, 2.5), value).eval({value: 1.5}) == -np.inf


@pytest.mark.parametrize("mode", ["NUMBA", "FAST_COMPILE"])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_law_in_both_modes(kind, mode):
    variable = KINDS[kind][0].dist(-3.2, 1.5, size=30_000, rng=pytensor.shared(np.random.default_rng(11)))
    draws, exact = pytensor.function([], variable, mode=mode)(), DecimalLaw(kind, -3.2, 1.5)
    assert draws.dtype == np.int64
    assert chi_square_pvalue(draws, exact.k, np.exp(exact.log_mass)) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_model(kind):
    distribution, law, scale = KINDS[kind]
    counts = np.array([[4, 7, 2], [3, 3, 9]])
    with pm.Model(coords={"county": ["a", "b"], "age": [1, 2, 3]}) as model:
        x = pm.Poisson("x", 5.0, dims=("county", "age"))
        distribution("free", pt.as_tensor(np.array([0.2, 5.7])), **{scale: 2.0}, shape=(3, 2))
        distribution("noisy", x, **{scale: np.array([1.0, 2.0, 3.0])}, observed=counts, dims=("county", "age"))
    point = model.initial_point()
    assert np.array_equal(point["free"], [[0, 6]] * 3)
    total = model.compile_logp(vars=[model["noisy"]])({**point, "x": counts + 1})
    assert total == pytest.approx(law(np.array([1.0, 2.0, 3.0])).logp(counts, counts + 1), rel=1e-12)
    for wrong in (-1.0, np.nan):
        with pytest.raises(ValueError, match=rf"{scale} must be finite and greater than 0, got {wrong}"):
            distribution.dist(0, wrong)


@pytest.mark.parametrize("kind", REAL)
def test_draws_of_real_numbers(kind):
    own, _, exact = REAL[kind]  # false alarm 1e-4 each, for another seed
    draws = pm.draw(own.dist(np.array([2.5, -1.0]), np.array([0.5, 3.0]), size=(10_000, 2)), random_seed=4)
    assert stats.kstest(draws[:, 0], exact(2.5, 0.5).cdf).pvalue > 1e-4
    assert stats.kstest(draws[:, 1], exact(-1.0, 3.0).cdf).pvalue > 1e-4


COIN = tradeoff(binom.pmf(range(6), 5, 0.3), binom.pmf(range(6), 5, 0.7))
X = np.concatenate([np.linspace(-7.0, 7.0, 57) + 0.003, [-1e4, 2e4]])


def test_density_distribution_and_draws_of_tulap():
    epsilon, delta, value, mu = pt.dscalar(), pt.dscalar(), pt.dvector(), pt.dscalar()
    rv = distributions.Tulap.dist(mu=mu, epsilon=epsilon, delta=delta)
    outputs = [pm.logp(rv, value), pm.logcdf(rv, value), pt.grad(pm.logp(rv, value)[:-2].sum(), mu)]
    logs = pytensor.function([mu, value, epsilon, delta], outputs, mode="FAST_COMPILE")
    for e, d in ((1.0, 0.0), (0.5, 1e-7), (0.3, 0.05), (30.0, 1e-3), (1e-3, 0.0)):
        law = canonical.Tulap(e, d)
        density, below, slope = logs(1.0, X + 1.0, e, d)
        assert slope == 0.0
        np.testing.assert_allclose(density, law.logpdf(X), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(below, law.logcdf(X), rtol=1e-8, atol=1e-12)
    for d in (0.0, 0.05):  # two false alarms of 1e-4; the seed is fixed. The compiled sampler, and the one in NumPy
        law = canonical.Tulap(0.7, d)
        draws = pm.draw(distributions.Tulap.dist(mu=3.0, epsilon=0.7, delta=d, size=4000), random_seed=1)
        assert kstest(draws - 3.0, law.cdf).pvalue > 1e-4
        plain = distributions.Tulap.rv_type.rng_fn(np.random.default_rng(1), [3.0, 5.0], 0.7, d, (4000, 2))
        assert kstest((plain - [3.0, 5.0]).ravel(), law.cdf).pvalue > 1e-4


def test_generic_canonical_noise():
    law, rv = COIN.canonical_noise(), distributions.CanonicalNoise.dist(mu=[0.0, 1.0], tradeoff=COIN)
    np.testing.assert_allclose(pm.logp(rv, [0.3, 2.7]).eval(), law.logpdf([0.3, 1.7]), rtol=1e-12)
    draws = pm.draw(distributions.CanonicalNoise.dist(mu=2.0, tradeoff=COIN, size=3000), random_seed=2)
    assert kstest(draws - 2.0, law.cdf).pvalue > 1e-4
    with pytest.raises(TypeError, match="tradeoff must be a trade-off function"):
        distributions.CanonicalNoise.dist(mu=0.0, tradeoff=0.5)
    with pytest.raises(ValueError, match="must be symmetric"):
        distributions.CanonicalNoise.dist(mu=0.0, tradeoff=tradeoff([0.5, 0.5], [0.1, 0.9]))
    with pytest.raises(ValueError, match="epsilon must be"):
        distributions.Tulap.dist(mu=0.0, epsilon=-1.0)
