"""The odds ratio of one release: families of tables, p-values, intervals, their size."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import fisher_exact, nchypergeom_fisher, norm

import bayesdp as bdp
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp, tradeoff
from bayesdp.significance import odds_ratio_test
from bayesdp.significance._families import Binomial, Hypergeometric, NoisyCount
from bayesdp.significance.corners import noisy_corner
from tests.refusals import refused
from tests.significance.examples import SQUARE, both_margins, corners, masses

STEPS = tradeoff([0.6, 0.25, 0.1, 0.05], [0.05, 0.1, 0.25, 0.6])
TRADEOFFS = [approximate_dp(1.0), approximate_dp(0.4, 0.05), gaussian_dp(0.8), STEPS]
MIDDLE = R1, R2, C1 = 9, 7, 6


def asked(u, f, alternative="greater", null=1.0):
    return odds_ratio_test(u, rows=(R1, R2), column=C1, tradeoff=f, alternative=alternative, null=null)


def test_p_values_computed_elsewhere_and_without_noise_those_of_fishers_test():
    for f, expected in (
        (approximate_dp(1), 0.012274126450),
        (approximate_dp(1, 0.01), 0.010336811134),
        (gaussian_dp(1), 0.007901356460),
    ):
        greater, less, both = (
            odds_ratio_test(26.4, rows=(50, 50), column=40, tradeoff=f, alternative=own)
            for own in ("greater", "less", "two-sided")
        )
        p = greater.pvalue, less.pvalue, both.pvalue
        assert p == pytest.approx((expected, 1 - expected, 2 * expected), abs=1e-12)
        assert (greater.optimal, both.optimal, "not the UMPU" in both.claim) == (True, False, True)
    # Nearly no noise, at a corner + u: the p-value lies between Fisher's with and without the corner itself.
    for null in (1.0, 2.5):
        law = nchypergeom_fisher(16, 10, 9, null)
        result = odds_ratio_test(8 + 0.3, rows=(10, 6), column=9, tradeoff=approximate_dp(60.0), null=null)
        assert result.pvalue == pytest.approx(law.sf(8) + 0.2 * law.pmf(8), rel=1e-6)
    fisher = fisher_exact([[8, 2], [1, 5]], alternative="greater").pvalue
    smallest = odds_ratio_test(7.5, rows=(10, 6), column=9, tradeoff=approximate_dp(60.0)).pvalue
    assert smallest == pytest.approx(fisher, rel=1e-12)


def test_the_p_value_is_a_tail_of_the_convolution_that_keeps_its_digits_and_does_not_overflow():
    # P(H + N >= U) by quadrature over the density of N, in place of E F(H - U).
    x, weights = corners(MIDDLE), masses(MIDDLE, 1.7)
    u = 4.31
    noise = norm(scale=2.0)
    tail = sum(w * quad(noise.pdf, u - h, u - h + 60, limit=200)[0] for h, w in zip(x, weights, strict=True))
    assert asked(u, gaussian_dp(0.5), null=1.7).pvalue == pytest.approx(tail, rel=1e-9)
    # Far above the margins only the last cell of E F(H - U) matters, up to the geometric tail of the noise.
    f, u = approximate_dp(1.0), 300.25
    expected = math.log(masses(MIDDLE, 1.0) @ np.exp(corners(MIDDLE))) + math.log(f.canonical_noise().cdf(-u))
    assert math.log(asked(u, f).pvalue) == pytest.approx(expected, rel=1e-13)
    for epsilon, u, alternative in itertools.product((1e-4, 1e4), (-1e4, 5.0, 1e4), ("greater", "less", "two-sided")):
        result = asked(u, approximate_dp(epsilon), alternative)
        assert 0.0 <= result.pvalue <= 1.0
        low, high = result.confidence_interval()
        assert 0.0 <= low <= high
    assert asked(1e4, gaussian_dp(1e4)).pvalue == 0.0


@pytest.mark.parametrize("f", TRADEOFFS)
@pytest.mark.parametrize("null", [1.0, 3.0])
def test_p_is_uniform_at_the_null_and_super_uniform_inside(f, null):
    # P(p <= a) exactly: p <= a is U >= u(a), with u(a) found by a search on p; then the law of U from coefficients.
    noise = f.canonical_noise()
    for level, (alternative, sign) in itertools.product((0.003, 0.05, 0.9), (("greater", 1.0), ("less", -1.0))):
        cut = brentq(lambda u: asked(u, f, alternative, null).pvalue - level, -200, 200, xtol=1e-13)  # noqa: B023
        rejects = noise.cdf(sign * (corners(MIDDLE) - cut))
        inside, there, outside = (masses(MIDDLE, null * math.exp(own)) @ rejects for own in (-sign, 0.0, sign))
        assert there == pytest.approx(level, abs=1e-11)
        assert inside < level < outside  # inside the null hypothesis, and outside


@pytest.mark.parametrize("f", TRADEOFFS)
@pytest.mark.parametrize(("u", "level"), [(-1.2, 0.95), (3.3, 0.5), (7.1, 0.95)])
def test_interval_and_p_value_agree(f, u, level):
    for alternative in ("greater", "less", "two-sided"):
        low, high = asked(u, f, alternative).confidence_interval(level)
        assert low <= high
        assert alternative != "greater" or high == math.inf
        assert alternative != "less" or low == 0.0
        for end, outwards in ((low, 0.99), (high, 1.01)):
            if 0.0 < end < math.inf:
                outside, there, inside = (asked(u, f, alternative, end * x).pvalue for x in (outwards, 1, 1 / outwards))
                assert there == pytest.approx(1 - level, abs=1e-10)
                assert outside < 1 - level < inside


def test_ends_are_infinite_exactly_where_no_odds_ratio_is_ruled_out():
    # At odds ratio 0 the corner is 0: the tail of the noise alone says whether 0 is ruled out.
    f = approximate_dp(1.0)
    noise = f.canonical_noise()
    for u in np.linspace(-8.0, 14.0, 23):
        low, high = asked(u, f, "two-sided").confidence_interval(0.95)
        assert (low == 0.0, high == math.inf) == (noise.cdf(0 - u) >= 0.025, noise.cdf(u - C1) >= 0.025)
    far = asked(40.0, approximate_dp(0.4, 0.05), "two-sided")  # bounded noise: far off the margins nothing is left
    assert (far.confidence_interval(), far.pvalue) == ((math.inf, math.inf), 0.0)


@pytest.mark.parametrize("f", TRADEOFFS)
def test_the_confidence_distribution_rises_and_has_the_bounds_as_quantiles(f):
    result = asked(3.2, f)
    w = np.array([0.0, *np.geomspace(1e-8, 1e8, 60), math.inf])
    rising = result.confidence_distribution(w)
    assert np.all(np.diff(rising) >= -1e-15)
    assert np.all(np.diff(rising[15:46]) > 0)
    noise = f.canonical_noise()
    assert rising[0] == pytest.approx(noise.cdf(0 - 3.2), abs=1e-15)
    assert rising[-1] == pytest.approx(noise.cdf(C1 - 3.2), abs=1e-15)
    low = result.confidence_interval(0.7).low
    assert result.confidence_distribution(low) == pytest.approx(0.3, abs=1e-11)


def called(wrong):
    given = {"statistic": 3.0, "rows": (R1, R2), "column": C1, "tradeoff": approximate_dp(1.0), **wrong}
    return odds_ratio_test(given.pop("statistic"), **given)


test_bad_arguments_are_named = refused(
    ({"rows": (3, -1)}, r"rows\[1\]", ValueError),
    ({"rows": (3, 4, 5)}, "totals of the two rows", ValueError),
    ({"rows": 7}, "totals of the two rows", ValueError),
    ({"column": 17}, "at most the grand total 16", ValueError),
    ({"column": 2.5}, "column", TypeError),
    ({"tradeoff": 1.0}, "a trade-off function such as gaussian_dp", TypeError),
    ({"tradeoff": tradeoff([0.5, 0.5], [0.9, 0.1])}, "symmetric", ValueError),
    ({"alternative": "bigger"}, "'greater', 'less', 'two-sided'", ValueError),
    ({"null": 0.0}, "null", ValueError),
    ({"statistic": math.nan}, "statistic", ValueError),
    ({"statistic": [1.0, 2.0]}, "one number", TypeError),
    ({"rows": (2**53, 1)}, r"2\*\*53", ValueError),
    of=called,
)
GIVEN = asked(3.0, approximate_dp(1.0))
test_bad_levels_are_named = refused(
    (lambda: GIVEN.confidence_interval(95), "level", ValueError),
    (lambda: GIVEN.confidence_distribution(-1.0), "odds_ratio must be at least 0", ValueError),
)
TABLE = xr.DataArray([[2, 4], [3, 6]], dims=("a", "b"), coords={"a": ["x", "y"], "b": ["u", "v"]})
INVARIANTS = bdp.Invariants(bdp.Margins(TABLE, ["a"], ["b"]))
LAWS = [
    bdp.noise.KNorm(0.5, np.array([[-2.6]])),  # one of each pair v, -v is listed, and it may be the negative one
    bdp.noise.SemiKNorm(0.7, 2),
    bdp.noise.SubspaceNorm(0.3, "l1"),
    bdp.noise.SubspaceNorm(0.3, "l2"),
    bdp.noise.SubspaceNorm(0.3, "linf"),
    bdp.noise.ExtendedLaplace(2.5),
    bdp.noise.LatticeLaplace(0.3, "l2"),
    bdp.noise.LatticeGaussian(3.0),
]


@pytest.mark.parametrize("law", LAWS)
def test_rejecting_for_p_up_to_alpha_has_probability_alpha(law):
    """At every null odds ratio, and for both alternatives; the noise law by its log-density along (1, -1, -1, 1) alone."""
    measured = bdp.Measured(bdp.Identity(TABLE), TABLE.values, law)
    corner = noisy_corner(bdp.Release(bdp.Frame.of(TABLE), (measured,), tuple(both_margins(TABLE))))
    # By the midpoint rule; for whole-number noise the points are the steps.
    width = 1.0 if law.integer else 0.004
    j = np.arange(-100.0, 100.5) if law.integer else np.arange(-40.0, 40.0, width) + 0.5 * width
    step, zero = law.logp(SQUARE, 0 * SQUARE, INVARIANTS), law.logp(0 * SQUARE, 0 * SQUARE, INVARIANTS)
    if law.name == "lattice-gaussian":
        mass = np.exp((step - zero) * j**2)
    else:  # every norm is linear along a line; that this one is, at two more points:
        for at in (3, -2):
            away = law.logp(at * SQUARE, 0 * SQUARE, INVARIANTS) - zero
            assert away == pytest.approx(abs(at) * (step - zero), rel=1e-9)
        mass = np.exp((step - zero) * np.abs(j))
    mass /= mass.sum()
    for alpha, null in ((0.05, 1.0), (0.2, 2.5)):
        table = nchypergeom_fisher(15, 6, 5, null).pmf(np.arange(6))
        for side, sign in (("greater", 1.0), ("less", -1.0)):
            given = corner.family, corner.noise.noise
            cut = brentq(lambda u: NoisyCount(u, *given).pvalue(math.log(null), side) - alpha, -40, 45)  # noqa: B023
            chances = [float(mass @ np.clip(0.5 + sign * (x + j - cut) / width, 0.0, 1.0)) for x in range(6)]
            assert table @ chances == pytest.approx(alpha, rel=1e-4)


def test_a_basis_of_a_larger_table_is_noisier_than_its_projection():
    """docs/papers/semi-dp.md: a record's move changes so many basis cells; canonical noise on them has that variance at mu = 1."""
    for size, basis in ((3, 4.0), (4, 6.0)):
        margins = bdp.Margins({"a": list(range(size)), "b": list(range(size))}, ["a"], ["b"])
        projected = bdp.SemiGaussian(margins, mu=1.0).law.variance((size, size), bdp.Invariants(margins))
        np.testing.assert_allclose(projected, 6.0 * (size - 1) ** 2 / size**2, rtol=1e-9)
        assert projected.max() < basis


def exactly(family, odds):
    """Masses from binomial coefficients, in rational numbers."""
    if isinstance(family, Hypergeometric):
        r1, r2, c1 = family.r1, family.r2, family.c1
        ways = {x: math.comb(r1, x) * math.comb(r2, c1 - x) for x in range(max(0, c1 - r2), min(r1, c1) + 1)}
    else:
        ways = {x: math.comb(family.n, x) for x in range(family.n + 1)}
    weights = {x: own * odds**x for x, own in ways.items()}
    total = sum(weights.values())
    return {x: float(weight / total) for x, weight in weights.items()}


MARGINS = [(3, 9, 10), (1, 1, 1), (7, 0, 4), (5, 6, 0), (5, 6, 11), (200, 31, 77)]
FAMILIES = [*(Hypergeometric(*own) for own in MARGINS), Binomial(1), Binomial(301)]


@pytest.mark.parametrize("odds", [Fraction(1), Fraction(1, 50), Fraction(10**9)])
@pytest.mark.parametrize("family", FAMILIES)
def test_masses_are_those_of_exact_arithmetic(family, odds):
    law, exact = family.masses(math.log(odds)), exactly(family, odds)
    assert (min(exact), max(exact)) == (family.low, family.high)
    found = dict(zip(law.points.tolist(), law.weights.tolist(), strict=True))
    assert set(found) <= set(exact)
    for x, mass in exact.items():
        assert found.get(x, 0.0) == pytest.approx(mass, rel=2e-12, abs=1e-290)
    assert law.mean == pytest.approx(sum(x * mass for x, mass in exact.items()), rel=1e-12)


def test_extreme_odds_put_all_mass_at_an_end():
    for log_odds, end in ((-math.inf, 500_000), (-1e6, 500_000), (1e6, 10**6), (math.inf, 10**6)):
        law = Hypergeometric(10**6, 2 * 10**6, 2_500_000).masses(log_odds)
        assert (law.weights.max(), law.points[law.weights.argmax()]) == (1.0, end)
