"""Tests of strata, and sums of noise, by enumeration."""

import math

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import brentq
from scipy.stats import kstest, nchypergeom_fisher, norm

import bayesdp as bdp
from bayesdp.privacy import approximate_dp, gaussian_dp
from bayesdp.privacy.canonical import GaussianNoise, Tulap
from bayesdp.significance import common_odds_ratio_test, odds_ratio_test_from_release
from bayesdp.significance._families import FamilySum, Hypergeometric, NoisyCount
from bayesdp.significance.corners import LaplaceNoise, WholeNoise, discrete_gaussian, is_whole, noise_of_sum
from tests.refusals import refused
from tests.significance.examples import SQUARE, geometric

BERKELEY = bdp.datasets.berkeley_admissions()
SMALL = xr.DataArray(
    [[[4, 3, 2], [2, 1, 5]], [[3, 1, 4], [6, 5, 1]]],
    dims=("sex", "admission", "school"),
    coords={"sex": ["men", "women"], "admission": ["yes", "no"], "school": ["A", "B", "C"]},
)
BOTH = bdp.Margins(SMALL, ["sex", "school"], ["admission", "school"])
EXACT = [bdp.Exact(bdp.Margins(SMALL, list(dims)), SMALL.sum(out)) for dims, out in (
    (("sex", "school"), "admission"), (("admission", "school"), "sex"))]  # fmt: skip
LAWS = [
    bdp.noise.LatticeLaplace(0.2),
    bdp.noise.LatticeGaussian(3.0),
    bdp.noise.ProjectedGaussian(3.0),
    bdp.noise.SubspaceNorm(0.3, "l1"),
    bdp.noise.ProjectedLaplace(2.5),
]


def released(law, steps, exact=EXACT):
    measured = bdp.Measured(bdp.Identity(SMALL), SMALL.values + SQUARE[:, :, None] * np.array(steps), law)
    return bdp.Release.from_published(SMALL, [measured], exact)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_noise_is_independent_between_strata_and_the_sum_is_of_the_corners(law):
    result = common_odds_ratio_test(released(law, [2, -1, 3]), strata="school", rng=5)
    assert (result.statistic, result.uniform is not None) == (9 + 4 + (result.uniform or 0.0), law.integer)
    assert (result.margins, result.strata) == (((6, 9, 7), (4, 6, 4), (7, 5, 6)), ("A", "B", "C"))
    corners = law.draw(np.random.default_rng(3), (2, 2, 3), 4000, bdp.Invariants(BOTH))[:, 0, 0, :]
    drawn = corners.sum(axis=1).astype(float)
    if law.integer:
        drawn += np.random.default_rng(4).random(4000) - 0.5
    assert kstest(drawn, result.noise.cdf).pvalue > 1e-4  # false alarms: one in 10,000 for each law


def test_size_and_power_by_enumeration():
    """Every table of the three strata, and every noise: the share of p-values up to alpha, with masses of its own."""
    noise = geometric(4 * 0.2, 60)
    total_noise = np.convolve(np.convolve(noise, noise), noise)
    steps = np.arange(total_noise.size) - total_noise.size // 2
    result = common_odds_ratio_test(released(LAWS[0], [0, 0, 0]), strata="school", rng=1)
    family = FamilySum(tuple(Hypergeometric(*own) for own in result.margins))

    def rejected(alpha, odds, null):
        log = math.log(null)
        cut = brentq(lambda u: NoisyCount(u, family, result.noise).pvalue(log, "greater") - alpha, -60, 80, xtol=1e-12)
        counts = np.ones(1)
        for r1, r2, c1 in result.margins:
            counts = np.convolve(counts, nchypergeom_fisher(r1 + r2, r1, c1, odds).pmf(np.arange(8)))
        return sum(p * float(total_noise @ np.clip(x + steps + 0.5 - cut, 0.0, 1.0)) for x, p in enumerate(counts))

    for alpha, null in ((0.05, 1.0), (0.3, 0.5)):
        assert rejected(alpha, null, null) == pytest.approx(alpha, rel=1e-8)
    # The null is its boundary: power rises with the odds ratio, so that the size is that at 1.
    power = [rejected(0.05, odds, 1.0) for odds in (0.3, 3.0, 10.0)]
    assert np.all(np.diff(power) > 0)
    assert power[-1] > 0.4


def test_without_noise_it_is_the_exact_conditional_test():
    """As R's mantelhaen.test(exact = TRUE): by convolution of SciPy's hypergeometric masses; and Mantel-Haenszel's is near."""
    exact = [
        bdp.Exact(bdp.Margins(BERKELEY, [own, "department"]), BERKELEY.sum(other))
        for own, other in (("sex", "admission"), ("admission", "sex"))
    ]
    cells = bdp.Measured(bdp.Identity(BERKELEY), BERKELEY, bdp.noise.LatticeLaplace(20.0))
    release = bdp.Release.from_published(BERKELEY, [cells], exact)
    result = common_odds_ratio_test(release, "less", strata="department", rng=2)
    law = np.ones(1)
    for r1, r2, c1 in result.margins:
        law = np.convolve(law, nchypergeom_fisher(r1 + r2, r1, c1, 1.0).pmf(np.arange(min(r1, c1) + 1)))
    corner = int(BERKELEY.sel(sex="men", admission="admitted").sum())
    expected = law[:corner].sum() + (0.5 + result.uniform) * law[corner]
    assert result.pvalue == pytest.approx(expected, rel=1e-6)
    assert result.estimate == pytest.approx(0.9047, rel=0.01)  # the common odds ratio by Mantel and Haenszel


def test_one_stratum_is_the_test_of_one_table_and_strata_may_have_different_noise():
    table = SMALL.sel(school="A", drop=True)
    margins = bdp.Margins(table, ["sex"], ["admission"])
    for mechanism in (
        bdp.LatticeLaplace(margins, epsilon=0.2),
        bdp.mechanisms.SemiCanonical(margins, approximate_dp(1.0)),
        bdp.mechanisms.SemiCanonical(margins, gaussian_dp(1.0), {"sex": "women", "admission": "yes"}),
        bdp.mechanisms.SemiNorm(margins, epsilon=0.5),
    ):
        release = mechanism.release(table, rng=4)
        own = common_odds_ratio_test({"A": release}, "two-sided", 1.3, rng=7)
        one = odds_ratio_test_from_release(release, "two-sided", 1.3, rng=7)
        assert own.pvalue == pytest.approx(one.pvalue, rel=1e-9)
        assert own.confidence_interval(0.8) == pytest.approx(one.confidence_interval(0.8), rel=1e-7)
        assert own.estimate == pytest.approx(one.estimate, rel=1e-7)
    # Integer and Tulap noise in one sum; the corner by labels; rows exchanged turn the odds ratio over.
    tables = {label: SMALL.sel(school=label, drop=True) for label in "ABC"}
    margins = bdp.Margins(tables["A"], ["sex"], ["admission"])
    mechanisms = {
        "A": bdp.LatticeLaplace(margins, epsilon=0.3),
        "B": bdp.mechanisms.SemiCanonical(margins, approximate_dp(1.0)),
        "C": bdp.LatticeGaussian(margins, rho=0.1),
    }
    parts = {label: own.release(tables[label], rng=11) for label, own in mechanisms.items()}
    result = common_odds_ratio_test(parts)
    assert result.pvalue == common_odds_ratio_test(parts).pvalue  # Tulap noise brings its uniform: nothing is drawn
    assert "exact size given the margins of all 3 strata" in result.claim
    other = common_odds_ratio_test(parts, "less", cell={"sex": "women", "admission": "yes"})
    assert other.pvalue == pytest.approx(result.pvalue, rel=1e-9)
    assert other.estimate == pytest.approx(1.0 / result.estimate, rel=1e-6)
    parts["C"] = bdp.SemiGaussian(margins, mu=1.0).release(tables["C"], rng=11)
    with pytest.raises(NotImplementedError, match="no exact law is known here of the sum"):
        common_odds_ratio_test(parts)


ZERO = [0, 0, 0]
WHOLE = released(LAWS[0], ZERO)


test_what_cannot_be_tested_is_refused = refused(
    ((WHOLE, None), "strata must be a dimension of the table, one of 'sex', 'admission', 'school'", ValueError),
    ((WHOLE, "sex"), "2 x 2 in each stratum, and this one is 2 x 2 x 3", ValueError),
    ((released(bdp.noise.LatticeLaplace(0.2, "l2"), ZERO), "school"), "between strata", NotImplementedError),
    ((released(bdp.noise.SubspaceNorm(0.2, "linf"), ZERO), "school"), "between strata", NotImplementedError),
    ((released(bdp.noise.DiscreteLaplace(2.0), ZERO), "school"), "independent in each cell", NotImplementedError),
    ((released(bdp.noise.DiscreteLaplace(2.0), ZERO, EXACT[:1]), "school"), "leaves 6 dimensions free", ValueError),
    (({}, None), "at least one stratum", ValueError),
    (({"A": WHOLE}, None), "stratum A: the test is about a 2 x 2 table", ValueError),
    (({"A": WHOLE}, "school"), "keys of a mapping", ValueError),
    (({"A": WHOLE, "B": WHOLE}, None), "each needs noise of its own", ValueError),
    ((SMALL, "school"), "a Release or a mapping", TypeError),
    of=lambda case: common_odds_ratio_test(case[0], strata=case[1]),
)

X = np.linspace(-25.0, 25.0, 41)


def test_whole_noise_is_enumerated_and_keeps_the_digits_of_its_tail():
    """Masses of J1 + 3 J2, pair by pair, and the uniform by a linear piece."""
    found = noise_of_sum([Tulap(0.5), discrete_gaussian(2.0)], [1.0, 3.0])
    assert isinstance(found, WholeNoise)
    one, two = geometric(0.5, 400), np.exp(-0.125 * np.arange(-60, 61) ** 2)
    two /= two.sum()
    total = np.zeros(2 * (400 + 180) + 1)
    for k, mass in enumerate(two):
        total[3 * k : 3 * k + one.size] += mass * one
    places = np.arange(-580, 581)
    expected = [total @ np.clip(x - places + 0.5, 0.0, 1.0) for x in X]
    np.testing.assert_allclose(found.cdf(X), expected, rtol=1e-11)
    assert found.cdf([-1e300, np.inf]).tolist() == [0.0, 1.0]
    # With delta > 0 Tulap noise ends within a cell: its fractional part is no independent uniform.
    kinds = (Tulap(1.0), Tulap(1.0, 0.1), discrete_gaussian(1.0), LaplaceNoise(1.0))
    assert [is_whole(own) for own in kinds] == [True, False, True, False]
    found = noise_of_sum([Tulap(0.3)], [1.0])
    np.testing.assert_allclose(found.cdf([-0.3, -40.2, -500.0]), Tulap(0.3).cdf([-0.3, -40.2, -500.0]), rtol=1e-12)
    # Two sides of one geometric law: P(J1 + J2 = j) = t**2 r**|j| (|j| + (1 + r**2) / (1 - r**2)), t = (1 - r) / (1 + r).
    r = math.exp(-0.3)
    both = noise_of_sum([Tulap(0.3), Tulap(0.3)], [1.0, 1.0])
    assert isinstance(both, WholeNoise)
    for j in (0, 1, 7, 200):
        exact = ((1 - r) / (1 + r)) ** 2 * r**j * (j + (1 + r * r) / (1 - r * r))
        assert both.mass[j] == pytest.approx(exact, rel=1e-11)


def test_continuous_noise_adds_up_where_it_has_a_closed_form():
    # Sums of Laplace noise are differences of two gamma variables with that shape.
    for terms, polynomial in (1, [0.5]), (2, [0.5, 0.25]), (4, [48 / 96, 33 / 96, 9 / 96, 1 / 96]):
        own, s = LaplaceNoise(1.7, terms), np.abs(X / 1.7)
        tail = np.exp(-s) * np.polynomial.polynomial.polyval(s, polynomial)
        np.testing.assert_allclose(own.cdf(X), np.where(X <= 0, tail, 1 - tail), rtol=1e-12)
        assert 0.0 < own.cdf(-900.0) < 1e-200
    normal = noise_of_sum([GaussianNoise(0.5), GaussianNoise(2.0)], [0.3, 1.0])
    np.testing.assert_allclose(normal.cdf(X), norm(scale=math.hypot(0.6, 0.5)).cdf(X), rtol=1e-12)
    assert noise_of_sum([LaplaceNoise(2.0), LaplaceNoise(1.0, 4)], [0.5, 1.0]) == LaplaceNoise(1.0, 5)
    one = LaplaceNoise(1.0)
    for noises in ([GaussianNoise(1.0), one], [one, LaplaceNoise(2.0)], [Tulap(0.5), one]):
        with pytest.raises(NotImplementedError, match="no exact law is known here of the sum"):
            noise_of_sum(noises, [1.0, 1.0])
    with pytest.raises(NotImplementedError, match="takes too long"):
        noise_of_sum([Tulap(5e-3), Tulap(5e-3)], [1.0, 8.0])


@pytest.mark.parametrize("log_odds", [0.0, 1.2, -math.inf, math.inf])
def test_sums_of_counts_are_enumerated(log_odds):
    tables = [(6, 9, 5), (3, 4, 2), (8, 1, 6)]
    own = FamilySum(tuple(Hypergeometric(*table) for table in tables))
    assert (own.low, own.high) == (0 + 0 + 5, 5 + 2 + 6)
    law = own.masses(log_odds)
    if math.isinf(log_odds):
        assert (law.first, law.weights.tolist()) == (own.high if log_odds > 0 else own.low, [1.0])
        return
    expected = np.zeros(14)
    single = [nchypergeom_fisher(r1 + r2, r1, c1, math.exp(log_odds)).pmf(np.arange(9)) for r1, r2, c1 in tables]
    for x in np.ndindex(9, 9, 9):
        if sum(x) < 14:
            expected[sum(x)] += math.prod(float(single[k][i]) for k, i in enumerate(x))
    np.testing.assert_allclose(law.weights, expected[law.first : law.first + law.weights.size], rtol=1e-9)
