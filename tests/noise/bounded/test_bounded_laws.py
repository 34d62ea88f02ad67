"""Laws within bounds: densities, atoms, tails and moments against quadrature, summation and many digits."""

import json
from decimal import Decimal, localcontext

import flint
import numpy as np
import pytest
from flint import arb
from scipy import stats

from bayesdp import noise
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw, parse_law
from bayesdp.noise.bounded.base import sums_within
from tests.comparison.chi_square import chi_square_pvalue
from tests.comparison.enumeration import probabilities
from tests.refusals import refused

CONTINUOUS = [
    noise.TruncatedLaplace,
    noise.BoundaryInflatedLaplace,
    noise.TruncatedGaussian,
    noise.BoundaryInflatedGaussian,
]
DISCRETE = [
    noise.TruncatedDiscreteLaplace,
    noise.BoundaryInflatedDiscreteLaplace,
    noise.BoundaryInflatedDiscreteGaussian,
]
INF = np.inf


def by_definition(law, mu):
    """Values and probabilities of a discrete law: condition or clip the law without bounds."""
    s = float(law.scale)
    k = np.arange(np.floor(mu - 60 * s) - 60, np.ceil(mu + 60 * s) + 61)
    energy = np.abs(k - mu) / s if "laplace" in law.name else 0.5 * ((k - mu) / s) ** 2
    p, low, high = probabilities(-energy), max(law.lower, k[0]), min(law.upper, k[-1])
    values = np.arange(low, high + 1)
    if law.has_atoms:
        return values, np.bincount((np.clip(k, low, high) - low).astype(int), weights=p, minlength=len(values))
    inside = p[(k >= low) & (k <= high)]
    return values, inside / inside.sum()


CASES = [
    (1.0, (0.0, 1.0), 0.3),
    (1.0, (0.0, 1.0), 1.0),
    (0.02, (0.0, 1.0), 0.97),
    (0.5, (-2.0, INF), -1.8),
    (0.5, (-INF, 3.0), 2.0),
    (2.0, (-1.0, 4.0), 4.5),
    (0.3, (0.0, 1.0), -2.0),
    (0.3, (0.0, INF), -3.0),
]


def _free(law, mu):
    """The law without bounds, of SciPy."""
    return (stats.laplace if "laplace" in law.name else stats.norm)(mu, float(law.scale))


def _pieces(function, points):
    """Integrals between neighbouring points, by Gauss's rule of 20 nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = 0.5 * np.diff(points)[:, None]
    return function(points[:-1, None] + half * (1.0 + nodes)) @ weights * half[:, 0]


def _by_quadrature(law, mu):
    """E (Y - mu) and E (Y - mu)**2 from the density of the law without bounds."""
    free, scale, low, high = _free(law, mu), float(law.scale), float(law.lower), float(law.upper)
    near = min(max(mu, low), high)
    shift = 0.0 if law.has_atoms else float(free.logpdf(near))  # far outside the density is small throughout
    reach, step = (60, 1.0) if "laplace" in law.name else (12, 0.5)
    left, right = max(low, min(mu, high) - reach * scale), min(high, max(mu, low) + reach * scale)
    knots = near + step * scale * np.arange(-reach / step, reach / step + 1)
    points = np.unique([left, right, *knots[(knots > left) & (knots < right)]])
    moments = [_pieces(lambda y, k=k: np.exp(free.logpdf(y) - shift) * (y - mu) ** k, points).sum() for k in range(3)]
    if not law.has_atoms:
        return moments[1] / moments[0], moments[2] / moments[0]
    atoms = [(edge - mu, tail) for edge, tail in ((low, free.cdf(low)), (high, free.sf(high))) if np.isfinite(edge)]
    return tuple(moments[k] + sum(tail * far**k for far, tail in atoms) for k in (1, 2))


@pytest.mark.parametrize("kind", CONTINUOUS)
@pytest.mark.parametrize(("scale", "bounds", "mu"), CASES)
def test_moments_are_those_of_quadrature_and_density_atoms_and_tails_agree(kind, scale, bounds, mu):
    law, (low, high) = kind(scale, bounds), bounds
    first, second = _by_quadrature(law, mu)
    assert law.bias(mu) == pytest.approx(first, rel=1e-9, abs=1e-12)
    assert law.mean(mu) == pytest.approx(mu + first, rel=1e-9, abs=1e-12)
    assert law.mse(mu) == pytest.approx(second, rel=1e-9)
    assert law.variance((), location=mu) == pytest.approx(second - first**2, rel=1e-7)
    if "gaussian" in law.name:
        assert law.variance((), location=mu) < scale**2  # what the privacy of truncated noise rests on
    free, near = _free(law, mu), min(max(mu, low), high)
    y = near + scale * np.array([-6.0, -3.0, -0.8, -0.05, 0.0, 0.05, 0.8, 3.0, 6.0])
    y = y[(y > low) & (y < high)]
    np.testing.assert_allclose(law.cdf(y, mu) + np.exp(law.log_sf(y, mu)), 1.0, rtol=1e-13)
    mass = _pieces(lambda x: np.exp(law.log_density(x, mu)), y)
    np.testing.assert_allclose(np.diff(law.cdf(y, mu)), mass, rtol=1e-9, atol=1e-13)
    inside = free.sf(low) - free.sf(high) if mu < low else free.cdf(high) - free.cdf(low)
    density = free.logpdf(y) - (0.0 if law.has_atoms else np.log(inside))
    np.testing.assert_allclose(law.log_density(y, mu), density, rtol=1e-9, atol=1e-9)
    atoms = (free.logcdf(low), free.logsf(high)) if law.has_atoms else (-INF, -INF)
    if law.has_atoms:
        np.testing.assert_allclose(law.atoms(mu), np.exp(atoms), rtol=1e-12)
    for edge, beyond, atom, cdf in ((low, -1e-9, atoms[0], 0.0), (high, 0.1, atoms[1], 1.0)):
        if np.isfinite(edge):
            assert law.cdf(edge + beyond, mu) == cdf
            assert law.log_density(edge + beyond, mu) == -INF
            assert not law.has_atoms or law.log_density(edge, mu) == pytest.approx(atom, rel=1e-10)
    assert not np.isfinite(low) or law.cdf(low, mu) == pytest.approx(np.exp(atoms[0]), rel=1e-9)


@pytest.mark.parametrize("b", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.0, 1e12), (-5e11, 5e11), (-1e-9, 1e-9)])
@pytest.mark.parametrize("share", [0.0, 1e-6, 0.37, 1.0])
def test_extreme_scales_and_bounds(b, low, high, share):
    """Moments, densities and tails against 60 digits, for scales and widths 18 to 21 orders of magnitude apart."""
    mu = low + share * (high - low)
    with localcontext() as context:
        context.prec = 60
        one, scale, s, c0, c1 = (Decimal(x) for x in (1.0, b, mu, low, high))
        below, above = (s - c0) / scale, (c1 - s) / scale
        e1, e2 = (-below).exp(), (-above).exp()
        z = one - e1 / 2 - e2 / 2
        bias = scale * ((1 + below) * e1 - (1 + above) * e2) / 2 / z
        square = scale**2 * (2 - (e1 * (below**2 + 2 * below + 2) + e2 * (above**2 + 2 * above + 2)) / 2) / z
        clipped = scale**2 * (2 - e1 * (1 + below) - e2 * (1 + above))
        y = float(mu + 0.25 * (high - mu)) if share < 1 else low
        density = -abs(Decimal(y) - s) / scale - (2 * scale).ln() - z.ln()
        numbers = (bias, square, square - bias**2, scale / 2 * (e1 - e2), clipped, density)
        expected = [float(value) for value in numbers]
    # Where the two sides cancel the bias is small: it is right to rounding of one side.
    cut, bit = noise.TruncatedLaplace(b, (low, high)), noise.BoundaryInflatedLaplace(b, (low, high))
    tolerance = 1e-14 * min(b, high - low)
    assert cut.bias(mu) == pytest.approx(expected[0], rel=1e-10, abs=tolerance)
    assert cut.mse(mu) == pytest.approx(expected[1], rel=1e-10)
    assert cut.variance((), location=mu) == pytest.approx(expected[2], rel=1e-9)
    assert bit.bias(mu) == pytest.approx(expected[3], rel=1e-10, abs=tolerance)
    assert bit.mse(mu) == pytest.approx(expected[4], rel=1e-10)
    assert cut.log_density(y, mu) == pytest.approx(expected[5], rel=1e-12)
    for law in (cut, bit):
        assert 0.0 <= law.cdf(y, mu) <= 1.0
        drawn = law.draw(np.random.default_rng(1), (50,), location=mu)
        assert np.all((drawn >= low) & (drawn <= high))


def _normal_between(low, high, mu, sigma):
    """Probability of an interval under the law without bounds, to 1000 bits."""

    def beyond(side, sign):
        return 0 if np.isinf(side) else ((arb(side) - arb(mu)) * sign / arb(sigma) / arb(2).sqrt()).erfc() / 2

    if low > mu:
        return beyond(low, 1) - beyond(high, 1)
    return beyond(high, -1) - beyond(low, -1) if high < mu else 1 - beyond(low, -1) - beyond(high, 1)


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 7.0, 1e9])
@pytest.mark.parametrize(("low", "high"), [(-2.0, 5.0), (0.0, INF), (-INF, 3.0), (0.0, 1e-9)])
def test_densities_and_tails_keep_their_digits(sigma, low, high):
    """Locations inside, outside and far outside, intervals much wider and much narrower than the noise."""
    law, checked = noise.TruncatedGaussian(sigma, (low, high)), 0
    with flint.ctx.workprec(1000):
        for mu in (-50.0, -3.0, -1e-9, 0.0, 0.2, 1.0, 2.5, 80.0):
            total = _normal_between(low, high, mu, sigma)
            for y in (0.3, 0.9999, 1e-10):
                if not low <= y <= high or not total > 0:
                    continue
                z = (arb(y) - arb(mu)) / arb(sigma)
                exact = -(z**2) / 2 - arb(sigma).log() - (2 * arb.pi()).log() / 2 - total.log()
                assert law.log_density(y, mu) == pytest.approx(float(exact), rel=1e-12, abs=1e-12), (mu, y)
                below, above = _normal_between(low, y, mu, sigma), _normal_between(y, high, mu, sigma)
                for found, part in ((law.log_cdf(y, mu), below), (law.log_sf(y, mu), above)):
                    expected = (part / total).log() if part > 0 else arb(0, 1)
                    if expected.rel_accuracy_bits() > 60:  # 1000 bits hold it
                        assert found == pytest.approx(float(expected), rel=1e-9, abs=1e-300), (mu, y)
                        checked += 1
    assert checked >= 8


@pytest.mark.parametrize("kind", [*CONTINUOUS[2:], DISCRETE[-1]])
def test_locations_far_outside_have_moments(kind):
    for sigma, bounds, mu, near in ((1.0, (None, 5), 1e9, 5.0), (1e-10, (0, 1), 3.0, 1.0), (1e-120, (0, 1), 0.0, 0.0)):
        law = kind(sigma, bounds)
        assert law.mean(mu) == pytest.approx(near, abs=1e-6)
        assert law.mse(mu) == pytest.approx((near - mu) ** 2, abs=1e-6)
        assert 0.0 <= law.variance((), location=mu) < 1e-6


@pytest.mark.parametrize("kind", DISCRETE)
@pytest.mark.parametrize(
    ("scale", "bounds", "mu"),
    [
        (2.0, (0, 4), 4.0),
        (0.05, (0, 3), 2.5),
        (3.3, (-5, INF), -4.0),
        (3.3, (-INF, 9), 2.25),
        (50.0, (0, 9), 3.0),
        (1.5, (0, 12), -4.0),
        (1.5, (0, 12), 14.5),
    ],
)
def test_discrete_laws_by_summation(kind, scale, bounds, mu):
    law = kind(scale, bounds)
    values, mass = by_definition(law, mu)
    if not np.isfinite(bounds).all():
        values, mass = values[mass > 1e-250], mass[mass > 1e-250]
    np.testing.assert_allclose(np.exp(law.log_mass(values, mu)), mass, rtol=1e-9, atol=1e-300)
    first, second = (float(np.sum((values - mu) ** k * mass)) for k in (1, 2))
    assert law.bias(mu) == pytest.approx(first, rel=1e-9, abs=1e-12)
    assert law.mse(mu) == pytest.approx(second, rel=1e-9)
    assert law.variance((), location=mu) == pytest.approx(second - first**2, rel=1e-8, abs=1e-13)
    np.testing.assert_allclose(law.cdf(values, mu), np.cumsum(mass), rtol=1e-9, atol=1e-15)
    backwards = np.cumsum(mass[::-1])[::-1]
    np.testing.assert_allclose(np.exp(law.log_sf(values[:-1], mu)), backwards[1:], rtol=1e-8, atol=1e-22)
    if law.has_atoms:
        expected = [mass[place] if np.isfinite(bounds[place]) else 0.0 for place in (0, -1)]
        np.testing.assert_allclose(law.atoms(mu), expected, rtol=1e-9)
    assert law.log_mass(values[0] + 0.5, mu) == -INF


def _inner_moments(free, scale, low, high, mu):
    """Bias and mean squared error of a free law given that it is within bounds; the law of censored values asks for these, too."""
    near, *sums = sums_within(free, *(np.array(value, dtype=np.float64) for value in (mu, scale, low, high)))
    mass, first, second = map(float, sums)
    shift = float(near) - mu
    return shift + first / mass, shift**2 + (2 * shift * first + second) / mass


@pytest.mark.parametrize("free", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize(("mu", "high"), [(0.3, 25_000), (-40.0, 30_000), (40_000.0, 30_000)])
def test_long_sums_are_right_to_the_last_digits(free, mu, high):
    """Sums of more than 20,000 terms, which are integrals with a correction, against all terms added up."""
    scale, k = 4000.0, np.arange(high + 1.0)
    mass = probabilities(-np.abs(k - mu) / scale if free is DiscreteLaplace else -0.5 * ((k - mu) / scale) ** 2)
    bias, square = _inner_moments(free, scale, 0, high, mu)
    assert bias == pytest.approx(float(mass @ (k - mu)), rel=1e-10, abs=1e-9)
    assert square == pytest.approx(float(mass @ (k - mu) ** 2), rel=1e-11)


@pytest.mark.parametrize("free", [DiscreteLaplace, DiscreteGaussian])
def test_discrete_extremes(free):
    """Noise far wider than the interval is uniform; far narrower it is none; a wide law is the continuous one (half a line)."""
    assert _inner_moments(free, 1e-9, 0, 10**12, 5.0) == (0.0, 0.0)
    assert _inner_moments(free, 1e9, 0, 1, 1.0) == pytest.approx((-0.5, 0.5), rel=1e-9)
    assert _inner_moments(free, 1e13, 0, 10**12, 0.0)[0] == pytest.approx(10.0**12 / 2, rel=0.02)
    mean = 1.0 if free is DiscreteLaplace else np.sqrt(2 / np.pi)
    bias, square = _inner_moments(free, 1e9, 0, 10**12, 0.0)
    assert bias == pytest.approx(mean * 1e9, rel=1e-7)
    assert square == pytest.approx((2.0 if free is DiscreteLaplace else 1.0) * 1e18, rel=1e-7)
    law = noise.TruncatedDiscreteLaplace(1e9, (0, 10**12))
    assert law.mean(0.0) == pytest.approx(1e9, rel=1e-7)
    assert law.log_mass(0.0, 0.0) == pytest.approx(-np.log(1e9), rel=1e-9)


DRAWN = [(2.0, (0, 9), 9.0), (20.0, (0, 9), 2.5), (2.0, (0, 90), -6.0), (1.7, (-4, None), -3.0)]


@pytest.mark.parametrize("kind", [*CONTINUOUS, *DISCRETE])
@pytest.mark.parametrize(("scale", "bounds", "mu"), DRAWN)
def test_draws_follow_the_law(kind, scale, bounds, mu):
    """Chi-square over some ten groups, 20,000 draws; 28 tests with a false alarm in 10,000 each."""
    law = kind(scale, bounds)
    drawn = law.draw(np.random.default_rng(20190729), (2,), 10_000, location=[mu, mu])
    assert drawn.shape == (10_000, 2)
    assert drawn.dtype == (np.int64 if law.integer else np.float64)
    assert np.all((drawn >= law.lower) & (drawn <= law.upper))
    # Up to ten values between the bounds, half a scale apart, around the one next to the location.
    step = 0.5 * min(float(law.scale), 0.2 * float(law.upper - law.lower))
    edges = float(np.clip(mu, law.lower, law.upper)) + step * np.arange(-6, 7)
    edges = np.unique(np.floor(edges) if law.integer else edges)
    edges = edges[(edges >= law.lower) & (edges < law.upper)]
    groups = np.searchsorted(edges, drawn.ravel(), side="left")  # (edge_i-1, edge_i]
    expected = np.diff(np.concatenate([[0.0], law.cdf(edges, mu), [1.0]]))
    possible, observed = np.where(expected > 1e-12, expected, 0.0), np.bincount(groups, minlength=len(expected))
    assert chi_square_pvalue(observed, possible * drawn.size, least=0.0) > 1e-4


def test_arrays_of_scales_and_bounds_and_digits_of_tails_next_to_a_bound():
    law = noise.TruncatedLaplace([0.5, 1.0, 2.0], ([0.0, -1.0, None], [1.0, 2.0, 5.0]))
    mu, y = np.array([0.2, 0.3, 4.0]), np.array([0.9, -0.5, -3.0])
    laws = [noise.TruncatedLaplace(b, ends) for b, ends in ((0.5, (0, 1)), (1.0, (-1, 2)), (2.0, (None, 5)))]
    each = [own.logp(v, at) for own, v, at in zip(laws, y, mu, strict=True)]
    assert law.logp(y, mu) == pytest.approx(sum(each))
    assert NoiseLaw.from_description(json.loads(json.dumps(law.describe(), allow_nan=False))) == law
    # By the formula, at a location at the bound that the value is next to.
    law, expected = noise.TruncatedLaplace(1.0, (0.0, 1.0)), np.log(np.expm1(-1e-9) / np.expm1(-1.0))
    assert law.log_cdf(1e-9, 0.0) == pytest.approx(expected, rel=1e-14)
    assert law.log_sf(1.0 - 2.0**-40, 1.0) == pytest.approx(np.log(np.expm1(-(2.0**-40)) / np.expm1(-1.0)), rel=1e-14)


test_what_is_refused = refused(
    ((1.0, 0.0), ValueError, "reversed: 1 and 0"),
    ((1.0, 1.0), ValueError, "equal: 1 and 1"),
    ((None, INF), ValueError, "both are infinite"),
    ((INF, 3.0), ValueError, "lower bound must be a number, or -inf or None"),
    ((0.0, float("nan")), ValueError, "upper bound must be a number, or inf or None"),
    (([0.0, 2.0], [1.0, 1.0]), ValueError, r"reversed at position \(1,\): 2 and 1"),
    ((0.0, "one"), TypeError, "upper bound must be a real number, an array of them or None, got 'one'"),
    ((False, True), TypeError, "lower bound must be a real number"),
    (0.0, TypeError, r"bounds must be a pair \(lower, upper\), got 0.0"),
    ((0, 1, 2), TypeError, "must be a pair"),
    ((0, 1e300), ValueError, r"smaller than 2\*\*53"),
    (([0, 0], [1, 1, 1]), ValueError, "shapes that fit"),
    ((0, 2.5), ValueError, "whole number"),
    (lambda: noise.TruncatedLaplace(0.0, (0, 1)), ValueError, "b must be a finite number greater than 0"),
    (
        lambda: noise.BoundaryInflatedDiscreteGaussian(-1.0, (0, 1)),
        ValueError,
        "sigma must be a finite number greater than 0",
    ),
    (
        lambda: noise.TruncatedLaplace(1.0, ([0, 0, 0], 1)).logp([0.1, 0.2], 0.5),
        ValueError,
        "does not fit values of shape",
    ),
    (lambda: parse_law("truncated-gaussian b=2.5 bounds=0:9"), ValueError, "sigma = sensitivity / sqrt"),
    of=lambda own: own() if callable(own) else noise.BoundaryInflatedDiscreteLaplace(1.0, own),
)


@pytest.mark.parametrize("theta", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("kind", [noise.TruncatedLaplace, noise.BoundaryInflatedLaplace])
def test_proposition_3_unbiased_and_consistent_for_the_parameter(kind, theta):
    """Liu (2019), by exact sums over the data: of n answers yes or no, X are yes: s = X/n, noise of scale 1/(n epsilon)."""
    errors = []
    for n in (20, 80, 320, 1280, 5120):
        b = 1.0 / (n * 0.5)
        law, s, mass = kind(b, (0.0, 1.0)), np.arange(n + 1) / n, stats.binom.pmf(np.arange(n + 1), n, theta)
        shift = law.bias(s)
        # What makes (a) true: the bias is below the scale at every s, and so on average over any s.
        assert np.abs(shift).max() <= (b if kind is noise.TruncatedLaplace else b / 2) * (1 + 1e-12)
        bias = float(mass @ (s + shift)) - theta
        assert abs(bias) <= b * (1 + 1e-12)  # (a)
        # E (s* - theta)**2 = E mse(s) + 2 E bias(s) (s - theta) + Var(s)
        error = float(mass @ (law.mse(s) + 2 * shift * (s - theta) + (s - theta) ** 2))
        most = (np.sqrt(2) * b + np.sqrt(theta * (1 - theta) / n)) ** 2
        assert error <= most * (1 + 1e-12)  # Minkowski, with Proposition 2
        errors.append(error)
        above, below = 1.0 - law.cdf(np.full(n + 1, theta + 0.05), s), law.cdf(np.full(n + 1, theta - 0.05), s)
        tail = float(mass @ (above + below))
        assert tail <= error / 0.05**2 + 1e-12  # Chebyshev
    assert tail < 1e-9  # (b), at the largest size
    assert np.all(np.diff(errors) < 0)
    # Four times the records divide the error by four at least, once the noise is the smaller part.
    assert errors[-1] < errors[-2] / 3.9


@pytest.mark.parametrize("kind", [noise.TruncatedLaplace, noise.BoundaryInflatedLaplace])
def test_propositions_1_and_2(kind):
    b, low, high = 0.7, -1.0, 2.0
    s = np.linspace(low, high, 31)
    p1, p2 = 0.5 * np.exp((low - s) / b), 0.5 * np.exp((s - high) / b)
    printed = b * (p1 - p2)  # Equation (7)
    if kind is noise.TruncatedLaplace:
        printed = ((b - low + s) * p1 - (b + high - s) * p2) / (1 - p1 - p2)  # Equation (6)
    law = kind(b, (low, high))
    np.testing.assert_allclose(law.bias(s), printed, atol=1e-14)
    assert np.all(law.mse(s) < 2 * b**2)
    assert law.bias(0.5) == pytest.approx(0.0, abs=1e-15)  # bounds symmetric about it: Proposition 1(a)
    both = noise.TruncatedLaplace(b, (low, high)).bias(s), noise.BoundaryInflatedLaplace(b, (low, high)).bias(s)
    assert np.all(both[0] * both[1] >= 0)  # (b)
    assert np.all(np.abs(both[0]) >= np.abs(both[1]) - 1e-15)  # (c)
