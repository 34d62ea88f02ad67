"""Tests from one release and from several: the noise of the corner, p-values, and what cannot be tested."""

import math

import numpy as np
import pytest
import xarray as xr
from scipy.stats import hypergeom, kstest, laplace, norm

import bayesdp as bdp
from bayesdp.privacy.canonical import GaussianNoise, Tulap
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp, tradeoff
from bayesdp.significance import odds_ratio_test, odds_ratio_test_from_release, odds_ratio_test_from_releases
from bayesdp.significance.corners import LaplaceNoise, WholeNoise, discrete_gaussian
from tests.refusals import refused
from tests.significance.examples import SQUARE, both_margins, geometric

LABELS = {"sex": ["men", "women"], "admission": ["yes", "no"]}
TABLE = xr.DataArray([[12, 30], [25, 17]], dims=list(LABELS), coords=LABELS)
MARGINS = bdp.Margins(TABLE, ["sex"], ["admission"])
EXACT = both_margins(TABLE)
LAWS = [
    (bdp.noise.LatticeLaplace(0.2), Tulap, "(0.8, 0)-DP"),  # 4 epsilon
    (bdp.noise.LatticeLaplace(0.3, "l2"), Tulap, "(0.6, 0)-DP"),  # 2 epsilon
    (bdp.noise.LatticeGaussian(3.0), WholeNoise, "discrete Gaussian of scale 1.5"),
    (bdp.noise.ProjectedGaussian(3.0), GaussianNoise, "0.6666666667-GDP"),  # the corner has half of sigma
    (bdp.noise.CorrelatedGaussian([[6.25]], "helmert-1"), GaussianNoise, "0.8-GDP"),
    (bdp.noise.ExtendedLaplace(2.5), LaplaceNoise, "scale 1.25"),
    (bdp.noise.ProjectedLaplace(2.5), LaplaceNoise, "scale 0.625"),
    (bdp.noise.KNorm(0.5, [[1.3]]), LaplaceNoise, "scale 1.3"),
    # One of each pair v, -v is listed, and it may be the negative one.
    (bdp.noise.KNorm(0.5, [[-2.6]]), LaplaceNoise, "scale 2.6"),
    (bdp.noise.SemiKNorm(0.7, 2), LaplaceNoise, "(0.7, 0)-DP"),  # the 2x2 move is the unit of the norm
    (bdp.noise.SubspaceNorm(0.3, "l1"), LaplaceNoise, "(1.2, 0)-DP"),
    (bdp.noise.SubspaceNorm(0.3, "l2"), LaplaceNoise, "(0.6, 0)-DP"),
    (bdp.noise.SubspaceNorm(0.3, "linf"), LaplaceNoise, "(0.3, 0)-DP"),
]


def released(law, j, exact=EXACT):
    return bdp.Release.from_published(TABLE, [bdp.Measured(bdp.Identity(TABLE), TABLE.values + j * SQUARE, law)], exact)


@pytest.mark.parametrize(("law", "kind", "words"), LAWS, ids=str)
def test_the_noise_of_the_corner_is_named_and_is_what_the_release_draws(law, kind, words):
    own = odds_ratio_test_from_release(released(law, 3))
    assert type(own.noise) is kind
    assert own.optimal == (kind is not LaplaceNoise)
    assert words in own.tradeoff
    assert ("most powerful" if own.optimal else "not canonical") in own.claim
    rng = np.random.default_rng(8)
    drawn = law.draw(rng, (2, 2), 4000, bdp.Invariants(MARGINS))[:, 0, 0].astype(float)
    if law.integer:
        drawn += rng.random(4000) - 0.5
    assert kstest(drawn, own.noise.cdf).pvalue > 1e-4  # false alarms: one in 10,000 for each law


@pytest.mark.parametrize("scale", [0.3, 6.0])
def test_discrete_gaussian_plus_uniform_is_canonical_for_its_shift(scale):
    # Lemma 36 of paper 003 applied to the trade-off of the law and its shift, against the closed form.
    reach = math.ceil(39 * scale)
    mass = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    f = tradeoff(np.append(mass, 0.0) / mass.sum(), np.append(0.0, mass) / mass.sum())
    x = np.linspace(-6 * scale - 2, 6 * scale + 2, 501)
    np.testing.assert_allclose(discrete_gaussian(scale).cdf(x), f.canonical_noise().cdf(x), rtol=1e-11)
    assert discrete_gaussian(scale).cdf([-1e300, 1e300, -np.inf, np.inf]).tolist() == [0.0, 1.0, 0.0, 1.0]


def test_an_integer_release_gives_the_test_of_tulap_noise_and_the_corner_is_chosen_by_labels():
    result = odds_ratio_test_from_release(released(bdp.noise.LatticeLaplace(0.25), 2), rng=np.random.default_rng(4))
    assert (result.published, result.uniform) == (14.0, np.random.default_rng(4).random() - 0.5)
    assert result.statistic == result.published + result.uniform
    direct = odds_ratio_test(result.statistic, rows=(42, 42), column=37, tradeoff=approximate_dp(1.0))
    assert (result.pvalue, result.noise) == (direct.pvalue, direct.noise)
    assert result.confidence_interval() == direct.confidence_interval()
    release = released(bdp.noise.ProjectedGaussian(2.0), 1.25)
    first = odds_ratio_test_from_release(release)
    assert first.cell == "sex=men, admission=yes"
    assert (first.rows, first.column, first.statistic, first.uniform) == ((42, 42), 37, 13.25, None)
    other = odds_ratio_test_from_release(release, "less", cell={"admission": "yes", "sex": "women"})
    assert (other.cell, other.statistic) == ("sex=women, admission=yes", 25 - 1.25)
    # Rows exchanged: the odds ratio is turned over, and so is the alternative.
    assert other.pvalue == pytest.approx(first.pvalue, rel=1e-12)
    both = odds_ratio_test_from_release(release, "greater", cell={"admission": "no", "sex": "women"})
    assert both.pvalue == pytest.approx(first.pvalue, rel=1e-12)


def alone(law, value, cell):
    """One noisy cell, and both margins exact."""
    corner = bdp.LinearQuery(TABLE, np.eye(4, dtype=int)[cell : cell + 1], names=["cell"])
    return bdp.Release.from_published(TABLE, [bdp.Measured(corner, [value], law)], EXACT)


ALONE = [
    (bdp.noise.Tulap(0.9, 0.01), approximate_dp(0.9, 0.01)),
    (bdp.noise.DiscreteLaplace(1.25), approximate_dp(0.8)),
    (bdp.noise.ProjectedGaussian(2.0), gaussian_dp(0.5)),
]


@pytest.mark.parametrize(("law", "tradeoff"), ALONE)
def test_a_cell_alone_is_the_mechanism_of_theorem_37(law, tradeoff):
    """The same p-value as of the corner itself, whichever cell was published, and draws of the law are the noise."""
    result = odds_ratio_test_from_release(alone(law, 15, 0), rng=3)
    direct = odds_ratio_test(15 + (result.uniform or 0.0), rows=(42, 42), column=37, tradeoff=tradeoff)
    assert result.pvalue == direct.pvalue
    assert result.optimal
    drawn = np.ravel(law.draw(np.random.default_rng(6), (1,), 4000, bdp.Invariants((), {"cell": [0]}))).astype(float)
    if law.integer:
        drawn += np.random.default_rng(7).random(4000) - 0.5
    assert kstest(drawn, result.noise.cdf).pvalue > 1e-4  # false alarms: one in 10,000 for each law
    # 3 too many in one cell is 3 too few in its neighbours: x12 = 30 and x21 = 25 in truth, x22 = 17.
    for cell, published in ((1, 27), (2, 22), (3, 20)):
        other = odds_ratio_test_from_release(alone(law, published, cell), rng=3)
        assert (other.published, other.rows, other.column) == (15.0, (42, 42), 37)
        assert other.pvalue == pytest.approx(result.pvalue, rel=1e-12)


def test_a_cell_alone_with_discrete_gaussian_wider_tulap_or_plain_real_noise():
    gaussian = odds_ratio_test_from_release(alone(bdp.noise.DiscreteGaussian(2.0), 15, 0), rng=1)
    assert gaussian.noise == discrete_gaussian(2.0)
    assert gaussian.optimal
    wide = odds_ratio_test_from_release(alone(bdp.noise.Tulap(1.0, 0.0, sensitivity=3.0), 15, 0))
    assert not wide.optimal
    assert "3 times noise that is canonical for (1, 0)-DP" in wide.claim
    drawn = bdp.noise.Tulap(1.0, 0.0, sensitivity=3.0).draw(np.random.default_rng(2), (4000,))
    assert kstest(drawn, wide.noise.cdf).pvalue > 1e-4
    # Normal noise is canonical; Laplace noise is not, and its p-value is the tail of the convolution.
    normal = odds_ratio_test_from_release(alone(bdp.noise.Gaussian(2.0), 15.5, 0))
    direct = odds_ratio_test(15.5, rows=(42, 42), column=37, tradeoff=gaussian_dp(0.5))
    assert (normal.pvalue, normal.optimal, normal.tradeoff) == (direct.pvalue, True, "0.5-GDP")
    plain = odds_ratio_test_from_release(alone(bdp.noise.Laplace(1.25), 15.5, 0))
    corners = np.arange(38)
    expected = hypergeom(84, 42, 37).pmf(corners) @ laplace(scale=1.25).cdf(corners - 15.5)
    assert plain.pvalue == pytest.approx(expected, rel=1e-9)
    assert not plain.optimal
    assert "(0.8, 0)-DP" in plain.claim
    assert odds_ratio_test_from_release(alone(bdp.noise.Laplace(1.25), 26.5, 1)).pvalue == pytest.approx(plain.pvalue)


def test_margins_that_determine_the_table_are_said_to_do_so():
    """Whatever is published, and whatever the odds ratio: nothing is most powerful where there is nothing to find."""
    for rows, column in (((12, 0), 5), ((3, 4), 0), ((3, 4), 7)):
        result = odds_ratio_test(2.5, rows=rows, column=column, tradeoff=approximate_dp(1.0))
        assert (result.determined, result.optimal, math.isnan(result.estimate)) == (True, False, True)
        assert [own in result.claim for own in ("margins determine the table", "most powerful")] == [True, False]
        assert result.confidence_interval(0.9) in ((0.0, math.inf), (math.inf, math.inf))
    assert not odds_ratio_test(2.5, rows=(12, 1), column=5, tradeoff=approximate_dp(1.0)).determined


NULL = hypergeom(84, 42, 37).pmf(np.arange(38))


def test_two_lattice_laplace_corners_by_enumeration_and_two_normal_ones_are_the_composition():
    """Weights 1 : 4 for epsilon 0.05 and 0.1; the p-value from every corner and every pair of steps."""
    parts = [released(bdp.noise.LatticeLaplace(e), j) for e, j in ((0.05, 4), (0.1, -3))]
    result = odds_ratio_test_from_releases(parts, rng=9)
    uniform = np.random.default_rng(9).random() - 0.5
    assert (result.published, result.uniform) == (pytest.approx((16 + 4 * 9) / 5), pytest.approx(uniform / 5))
    assert "weights 0.2, 0.8" in result.tradeoff
    steps = np.arange(-150, 151)
    sums = steps[:, None] + 4 * steps[None, :]
    masses = np.outer(geometric(0.2), geometric(0.4))
    expected = 0.0
    for x, mass in enumerate(NULL):
        reached = 5 * x + sums - (16 + 4 * 9)  # at least the published sum, with both uniforms
        expected += mass * float((masses * np.clip(reached - uniform + 0.5, 0.0, 1.0)).sum())
    assert result.pvalue == pytest.approx(expected, rel=1e-9)
    assert not result.optimal
    # Two normal corners: the mean by precision is canonical for sqrt(mu1**2 + mu2**2)-GDP, and the test is UMPU for that.
    parts = [released(bdp.noise.ProjectedGaussian(sigma), j) for sigma, j in ((3.0, 1.25), (5.0, -2.5))]
    result = odds_ratio_test_from_releases(parts)
    mu = [2 / 3.0, 2 / 5.0]
    mean = 12 + (mu[0] ** 2 * 1.25 - mu[1] ** 2 * 2.5) / (mu[0] ** 2 + mu[1] ** 2)
    direct = odds_ratio_test(mean, rows=(42, 42), column=37, tradeoff=gaussian_dp(math.hypot(*mu)))
    assert result.pvalue == pytest.approx(direct.pvalue, rel=1e-12)
    assert result.optimal
    assert result.tradeoff == direct.tradeoff
    assert NULL @ norm(scale=1 / math.hypot(*mu)).cdf(np.arange(38) - mean) == pytest.approx(result.pvalue, rel=1e-9)


def test_independent_noise_in_each_cell_is_four_corners():
    """Every cell says what the corner is. P-values of simulated releases are uniform."""
    rng = np.random.default_rng(5)
    law = bdp.noise.DiscreteLaplace(2.5)
    p = []
    for x in rng.hypergeometric(42, 42, 37, 60).tolist():
        values = np.array([[x, 42 - x], [37 - x, 5 + x]]) + law.draw(rng, (2, 2))
        release = bdp.Release(bdp.Frame.of(TABLE), (bdp.Measured(bdp.Identity(TABLE), values, law),), tuple(EXACT))
        p.append((result := odds_ratio_test_from_releases(release, rng=rng)).pvalue)
        signs = (values * SQUARE).sum() + 42 + 37 - 5  # x11 + (42 - x12) + (37 - x21) + (x22 - 5)
        assert result.published == pytest.approx(signs / 4)
    assert kstest(p, "uniform").pvalue > 1e-3  # a false alarm in 1,000; the seed is fixed
    scaled = bdp.noise.Gaussian(np.array([[1.0, 2.0], [2.0, 4.0]]))
    measured = bdp.Measured(bdp.Identity(TABLE), TABLE.values + 0.25, scaled)
    normal = odds_ratio_test_from_releases(bdp.Release.from_published(TABLE, [measured], EXACT))
    assert normal.tradeoff == f"{math.sqrt(1 + 0.25 + 0.25 + 1 / 16):.10g}-GDP"


def test_one_release_is_the_test_of_that_release_and_tulap_noise_brings_its_uniform():
    for release in (released(bdp.noise.LatticeLaplace(0.2), 3), released(bdp.noise.ProjectedGaussian(2.0), 1.25)):
        one = odds_ratio_test_from_releases([release], "two-sided", rng=2)
        assert one == odds_ratio_test_from_release(release, "two-sided", rng=2)
    parts = [bdp.mechanisms.SemiCanonical(MARGINS, approximate_dp(0.5)).release(TABLE, rng=k) for k in (0, 1)]
    result = odds_ratio_test_from_releases(parts)
    assert result == odds_ratio_test_from_releases(parts)  # nothing is drawn
    values = [float(own.measurements[0].values[0]) for own in parts]
    assert result.published == pytest.approx(sum(round(value) for value in values) / 2)
    assert result.uniform == pytest.approx((values[0] - round(values[0])) / 2)


def cells(law, exact, frame=TABLE):
    return bdp.Release.from_published(frame, [bdp.Measured(bdp.Identity(frame), frame, law)], exact)


def queried(query, values):
    return bdp.Release.from_published(TABLE, [bdp.Measured(query, values, WIDE)], EXACT)


WIDE = bdp.noise.DiscreteGaussian(2.0)
THREE = xr.DataArray(np.arange(6).reshape(2, 3), dims=("a", "b"), coords={"a": [1, 2], "b": [1, 2, 3]})
TWICE = bdp.LinearQuery(TABLE, [[2, 0, 0, 0]], names=["twice"])
OTHER = bdp.Measured(bdp.Identity(TABLE), TABLE, bdp.noise.LatticeLaplace(0.2), bdp.Invariants(bdp.Totals(TABLE)))
INDEPENDENT = "independent in each cell"
CLIPPED = bdp.noise.BoundaryInflatedDiscreteLaplace(2.0, (0.0, 50.0))
NONE = bdp.Release.from_published(TABLE, [], EXACT)


test_releases_that_cannot_be_tested_are_refused_with_the_reason = refused(
    (cells(WIDE, [], THREE), r"about one of 2 x 3 \(a, b\)", ValueError),
    (cells(WIDE, EXACT[:1]), "leaves 2 dimensions free", ValueError),
    (cells(WIDE, [bdp.Exact(bdp.Identity(TABLE), TABLE)]), "leaves 0 dimensions free", ValueError),
    (cells(WIDE, [*EXACT, bdp.Exact(bdp.Totals(TABLE), 100, "<=")]), "bounds", ValueError),
    (cells(WIDE, EXACT), INDEPENDENT, NotImplementedError),
    (cells(bdp.noise.Laplace(2.0), EXACT), f"'laplace' that has 4, .* {INDEPENDENT}", NotImplementedError),
    (cells(bdp.noise.Tulap(0.5), EXACT), INDEPENDENT, NotImplementedError),
    (NONE, "has none", ValueError),
    (queried(TWICE, [24.0]), "noisy measurements of the cells or of single cells", ValueError),
    (alone(CLIPPED, 12, 0), "no test of a cell released with the law", NotImplementedError),
    (bdp.Release.from_published(TABLE, [OTHER], EXACT), "other invariants than both margins", ValueError),
    (TABLE, "must be a Release", TypeError),
    (released(bdp.noise.LatticeGaussian(1e6), 1), "scale 500000", NotImplementedError),
    of=odds_ratio_test_from_release,
)
LATTICE, NORMAL = released(bdp.noise.LatticeLaplace(0.2), 1), released(bdp.noise.ProjectedGaussian(2.0), 0.5)
PLAIN, WIDER = (released(bdp.noise.SubspaceNorm(epsilon, "l1"), 0.5) for epsilon in (0.3, 0.2))
test_questions_that_are_refused = refused(
    ({"alternative": "more"}, "alternative", ValueError),
    ({"cell": {"sex": "girls", "admission": "no"}}, r"label 'girls' of 'sex', which has 'men', 'women'", ValueError),
    ({"cell": {"sex": "men"}}, "a label for each of 'sex', 'admission'", ValueError),
    of=lambda asked: odds_ratio_test_from_release(LATTICE, **asked),
)
NO_LAW = "no exact law is known here of the sum"
test_what_cannot_be_combined_is_refused = refused(
    ([], "at least one release", ValueError),
    ([LATTICE, LATTICE], "again: its noise would be counted twice", ValueError),
    ([NORMAL, PLAIN], NO_LAW, NotImplementedError),
    ([LATTICE, PLAIN], NO_LAW, NotImplementedError),
    ([PLAIN, WIDER], NO_LAW, NotImplementedError),
    ([NONE], "none", ValueError),
    ([LATTICE, queried(bdp.Margins(TABLE, ["sex"]), [40, 44])], "of the cells or of single cells", ValueError),
    ([TABLE], "must be Release objects", TypeError),
    of=odds_ratio_test_from_releases,
)
