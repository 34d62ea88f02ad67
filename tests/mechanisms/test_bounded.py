"""Mechanisms on statistics within bounds: scales, losses by brute force, releases, files, posteriors, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp.mechanisms.composition import as_one
from bayesdp.papers import covariance_cone
from bayesdp.privacy import StatisticGuarantee, gaussian_delta, gaussian_sigma, truncated_epsilon
from bayesdp.privacy.bounded import truncated_loss
from bayesdp.privacy.sensitivities import statistics
from bayesdp.privacy.sensitivities.statistics import mean_sensitivity, proportion_sensitivity, variance_sensitivity
from tests.privacy.sensitivities.databases import tables_of
from tests.refusals import refused

KINDS = [m.TruncatedGaussian, m.BoundaryInflatedGaussian]
UNIT, SHARES = (0.0, 1.0), ["a", "b", "c", "d"]
SHARE, MEAN = proportion_sensitivity(50), mean_sensitivity(50, (0.0, 10.0))
THREE, VARIANCE = proportion_sensitivity(50, 3), variance_sensitivity(50, (0.0, 2.0))


@pytest.mark.parametrize("kind", KINDS)
def test_sigma_is_for_the_l2_sensitivity(kind):
    """Three means that a record changes by 0.2 each: 0.2 times the root of 3; proportions: two of them, by 1/n."""
    three = kind([MEAN] * 3, (0.0, 10.0), rho=0.5)
    assert (three.sensitivity, three.sigma) == pytest.approx((0.2 * np.sqrt(3), 0.2 * np.sqrt(3)))
    assert three.names == ("statistic 1", "statistic 2", "statistic 3")
    shares = kind(proportion_sensitivity(50, 4), UNIT, epsilon=1.0, delta=1e-6)
    expected = np.sqrt(2) / 50
    assert (shares.sensitivity, shares.sigma) == pytest.approx((expected, gaussian_sigma(1.0, 1e-6, expected)))
    added = kind(proportion_sensitivity(50, 4, "add-remove"), UNIT, rho=0.5)
    assert (added.sensitivity, added.neighbours) == (pytest.approx(expected), "add-remove")
    mixed = kind([THREE, VARIANCE], (0.0, [1, 1, 1, 1.1]), rho=0.5)
    assert mixed.sensitivity == pytest.approx(np.sqrt(2 / 50**2 + (4 / 50) ** 2))
    assert kind([3.0, 4.0], (0.0, 9.0), rho=0.5).sensitivity == pytest.approx(5.0)
    assert kind(5.0, (0.0, 9.0), rho=0.5, names=["a", "b"]).sensitivity == 5.0
    # With one bound, or with bounds that are far apart, truncation gains nothing.
    for sensitivity, bounds, size in ((1.0, (0.0, None), 1.0), (SHARE, UNIT, 1 / 50)):
        assert kind(sensitivity, bounds, epsilon=1.0, delta=1e-6).sigma == gaussian_sigma(1.0, 1e-6, size)
    # Narrow bounds need a sixth of the noise when truncated: w**2 / (2 sigma**2) is the pure epsilon of a whole interval.
    narrow = m.TruncatedGaussian(1.0, UNIT, epsilon=1.0, delta=1e-6)
    assert narrow.sigma == pytest.approx(1 / np.sqrt(2), rel=1e-3)
    assert gaussian_sigma(1.0, 1e-6) / narrow.sigma > 5.9


def _masses(law, s, points=2001):
    """Atoms, and probabilities of small intervals by the distribution function."""
    edges = np.linspace(*law.bounds, points)
    last = 1.0 - float(np.exp(law.log_cdf(np.nextafter(law.upper, -1.0), s))) if law.has_atoms else 0.0
    inner = np.diff(law.cdf(edges, np.full(points, s)))
    inner[-1] -= last
    return np.array([float(law.cdf(law.lower, s)), last, *inner])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sensitivity", "epsilon", "delta"), [(0.02, 1.0, 1e-3), (0.3, 0.5, 0.01), (1.0, 1.0, 1e-3)])
def test_the_stated_delta_is_true_for_all_pairs(kind, sensitivity, epsilon, delta):
    """The delta of pairs of values, by masses of 2,000 intervals, which can only be too small."""
    own, worst = kind(sensitivity, UNIT, epsilon=epsilon, delta=delta), 0.0
    for s in np.linspace(0.0, 1.0 - sensitivity, 21):
        one, two = _masses(own.law, s), _masses(own.law, s + sensitivity)
        assert one.sum() == pytest.approx(1.0, abs=1e-9)
        for p, q in ((one, two), (two, one)):
            worst = max(worst, float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum()))
    assert worst <= delta * (1 + 1e-9)
    assert worst > 0.9 * delta or kind is not m.TruncatedGaussian  # not more noise than needed
    assert own.guarantee.parameters == {"epsilon": epsilon, "delta": delta, "sensitivity": sensitivity}
    assert own.guarantee.pairs[0].loss["rho"] == pytest.approx(sensitivity**2 / (2 * own.sigma**2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [0.1, 0.5, 3.0])
def test_rho_is_true_for_all_orders(kind, sigma):
    """Renyi divergences of order 1.01 to 50 of pairs 0.2 apart, by quadrature: never above rho times the order."""
    own = kind(0.2, UNIT, rho=0.5 * (0.2 / sigma) ** 2)
    assert own.sigma == pytest.approx(sigma)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    y, weights = 0.5 * (1.0 + nodes), np.log(0.5 * weights)
    edges = np.array([0.0, 1.0] if own.law.has_atoms else [])

    def logs(s):
        inner = own.law.log_each(y, np.full(y.shape, s)) + weights
        return np.concatenate([own.law.log_each(edges, np.full(edges.shape, s)), inner])

    largest = 0.0
    for s in np.linspace(0.0, 0.8, 17):
        for p, q in ((logs(s), logs(s + 0.2)), (logs(s + 0.2), logs(s))):
            assert logsumexp(p) == pytest.approx(0.0, abs=1e-9)
            for order in (1.01, 1.5, 2.0, 5.0, 50.0):
                found = logsumexp(order * p + (1.0 - order) * q) / (order - 1.0) / order
                largest = max(largest, found / own.rho)
    assert 0.005 < largest <= 1.0 + 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [{"rho": 0.125}, {"epsilon": 1.0, "delta": 1e-6}], ids=["rho", "epsilon and delta"])
def test_files_keep_what_is_true_and_refuse_less(kind, loss, tmp_path):
    release = kind(SHARE, UNIT, **loss).release(0.3, rng=1)
    release.to_netcdf(tmp_path / "r.nc")
    again = m.StatisticRelease.from_netcdf(tmp_path / "r.nc")
    assert (again, again.guarantee) == (release, release.guarantee)
    for name in loss:
        less = replace(release.guarantee, parameters={**release.guarantee.parameters, name: 0.9 * loss[name]})
        with pytest.raises(ValueError, match=f"the guarantee states .*{name}"):
            replace(release, guarantee=less)
        with pytest.raises(ValueError, match="has noise of the law"):
            replace(release, mechanism={**release.mechanism, name: 0.5 * loss[name]})


@pytest.mark.parametrize("kind", [bdp.noise.TruncatedGaussian, bdp.noise.BoundaryInflatedGaussian])
def test_the_law_alone_bounds_what_may_be_stated(kind):
    """Wide bounds: rho is that of Gaussian noise, (0.1 / 0.05)**2 / 2 = 2, and delta its delta at values in the middle."""

    def state(which, bounds=UNIT, **numbers):
        guarantee = StatisticGuarantee(which, {**numbers, "sensitivity": 0.1}, "l2")
        return m.StatisticRelease(0.4, kind(0.05, bounds), guarantee=guarantee)

    delta = gaussian_delta(1.0, 0.05, 0.1)
    for which, true, less in (
        ("zcdp", {"rho": 2.0}, {"rho": 1.9}),
        ("gdp", {"mu": 2.0}, {"mu": 1.9}),
        ("approximate", {"epsilon": 1.0, "delta": 1.01 * delta}, {"epsilon": 1.0, "delta": 0.9 * delta}),
    ):
        state(which, **true)
        with pytest.raises(ValueError, match=r"for statistics that are 0.1 apart, but noise of the law .* at least"):
            state(which, **less)
    with pytest.raises(ValueError, match=r"delta = 0.0 at epsilon = 2.0 .* at least delta = 0\.\d"):
        state("pure", epsilon=2.0)
    with pytest.raises(ValueError, match=r"states rho = 1\.9"):
        state("zcdp", (0.0, None), rho=1.9)


def test_losses_of_several_releases_add_up(tmp_path):
    one, two = m.TruncatedGaussian(SHARE, UNIT, rho=0.1), m.BoundaryInflatedGaussian(SHARE, UNIT, rho=0.05)
    releases = [one.release(0.3, rng=1), two.release(0.3, rng=2)]
    whole = as_one(releases)
    assert whole.guarantee.parameters["rho"] == pytest.approx(0.15)
    whole.to_netcdf(tmp_path / "both.nc")
    assert bdp.Release.from_netcdf(tmp_path / "both.nc") == whole
    less = replace(whole.guarantee, parameters={"rho": 0.12, "sensitivity": 1 / 50})
    with pytest.raises(ValueError, match=r"states rho = 0.12, .*but its first row is rho = 0.15"):
        replace(whole, guarantee=less).check_stated()
    pairs = [m.TruncatedGaussian(SHARE, UNIT, epsilon=0.5, delta=d).release(0.3, rng=3) for d in (1e-6, 1e-5)]
    expected = {"epsilon": 1.0, "delta": 1.1e-5, "sensitivity": 1 / 50}
    assert bdp.compose(*pairs).guarantee.parameters == pytest.approx(expected)
    assert bdp.compose(releases[0], bdp.TruncatedLaplace(0.5, SHARE, UNIT).release(0.3, rng=3)).guarantee is None


@pytest.mark.parametrize("kind", KINDS)
def test_releases_follow_the_law_and_say_what_they_are(kind):
    """Kolmogorov and Smirnov on 1,000 statistics, which change by 0.1 in the l2 norm; false alarm in one of 10,000 seeds."""
    own = kind([0.1 / np.sqrt(1000)] * 1000, UNIT, rho=0.02)
    drawn = np.sort(own.release([0.1] * 1000, rng=5).values.values)
    upper = type(own.law)(own.sigma, UNIT).cdf(drawn, np.full(1000, 0.1))
    below = np.arange(1, 1001) / 1000
    last = np.append(drawn[1:] != drawn[:-1], True)
    assert np.max(np.abs(upper - below)[last]) < stats.kstwobign.isf(1e-4) / np.sqrt(1000)
    text = " ".join(str(kind(0.1, UNIT, rho=0.02).guarantee).split())
    assert text.startswith("Privacy guarantee: zero-concentrated differential privacy (rho) Changing one person's rec")
    assert "computed from the data they would publish something about them without noise" in text


def test_values_stand_on_a_grid_and_atoms_stay_atoms():
    """20,000 clipped releases: the share of each bound within 4.5 standard errors (1e-5), the rest strictly between."""
    mechanism = bdp.BoundaryInflatedLaplace(1.0, [0.5] * 20_000, ([0.1] * 20_000, [0.9] * 20_000))
    # Not released: noise of another scale than that of the mechanism is refused.
    object.__setattr__(mechanism, "scale", 0.5)
    location = np.full(20_000, 0.3)
    drawn = mechanism._rounded(mechanism.law.draw(np.random.default_rng(8), (20_000,), location=location))
    expected = mechanism.law.atoms(location)
    for edge, atom in ((0.1, expected[0][0]), (0.9, expected[1][0])):
        assert abs(np.mean(drawn == edge) - atom) < 4.5 * np.sqrt(atom * (1 - atom) / drawn.size)
    inner = drawn[(drawn > 0.1) & (drawn < 0.9)]
    assert np.array_equal(inner / mechanism.grid, np.rint(inner / mechanism.grid))
    assert mechanism.grid <= 0.5 * 2.0**-20
    # Values that round onto a bound are moved off it, not onto the atom.
    near = mechanism._rounded(np.full(20_000, np.nextafter(0.9, 0.0)))
    assert np.all((near < 0.9) & (near > 0.9 - 2 * mechanism.grid))


def test_paper_convention_states_the_true_epsilon():
    scalar = bdp.TruncatedLaplace(1.0, mean_sensitivity(50, UNIT), UNIT, convention="paper")
    assert (scalar.scale, scalar.true_epsilon) == (1 / 50, pytest.approx(1.49, abs=0.005))
    assert re.search(r"epsilon = 1\.4[89].*states as epsilon = 1\.", " ".join(str(scalar.guarantee).split()))
    shares = proportion_sensitivity(50, 4)
    vector = bdp.BoundaryInflatedLaplace(1.0, shares, UNIT, names=SHARES, convention="paper")
    assert (vector.scale, vector.true_epsilon) == (1 / 50, 2.0)
    both = bdp.TruncatedLaplace(1.0, shares, UNIT, names=SHARES, convention="paper")
    expected = truncated_epsilon(np.full(4, 1 / 50), 1.0, 2 / 50, largest=1 / 50, changed=2)
    assert both.true_epsilon == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(2.98, abs=0.005)
    default = bdp.TruncatedLaplace(1.0, shares, UNIT, names=SHARES)
    assert default.true_epsilon == pytest.approx(1.0, rel=1e-9)
    assert 2 / 50 < default.scale <= 4 / 50


def loss_of(law, first, second):
    """The largest log-ratio of the densities of two vectors: the one of each coordinate, over many outputs and both ways round."""
    first, second = np.atleast_1d(first), np.atleast_1d(second)
    low, high = np.broadcast_to(law.lower, first.shape), np.broadcast_to(law.upper, first.shape)
    each = np.zeros((2, len(first)))
    for i, (s, t) in enumerate(zip(first, second, strict=True)):
        inner = np.linspace(low[i], high[i], 9)[1:-1]
        # Density within the bounds, masses at them: each has its own measure, the same for both.
        outputs = np.concatenate([inner, [s, t], [low[i], high[i]] if law.has_atoms else []])
        outputs = outputs if law.has_atoms else outputs[(outputs >= low[i]) & (outputs <= high[i])]
        one = type(law)(law.b, (low[i], high[i]))
        ratio = one.log_each(outputs, np.full_like(outputs, s)) - one.log_each(outputs, np.full_like(outputs, t))
        each[:, i] = ratio.max(), (-ratio).max()
    return float(each.sum(axis=1).max())


@pytest.mark.parametrize("kind", [bdp.TruncatedLaplace, bdp.BoundaryInflatedLaplace])
def test_one_sensitivity_is_not_enough_for_several_statistics(kind):
    """Three means of the same records: one record moves each by 0.2, so that noise for one of them loses 3."""
    alone = kind(1.0, MEAN, (0.0, 10.0))
    assert loss_of(alone.law, [0.0, 0.0, 0.0], [0.2, 0.2, 0.2]) == pytest.approx(3.0, rel=1e-9)
    every = kind(1.0, [MEAN] * 3, (0.0, 10.0), names=["a", "b", "c"])
    assert (every.sensitivity, every.largest) == (pytest.approx(0.6), (0.2, 0.2, 0.2))
    assert loss_of(every.law, [0.0, 0.0, 0.0], [0.2, 0.2, 0.2]) == pytest.approx(every.true_epsilon, rel=1e-9)
    assert every.true_epsilon == pytest.approx(1.0, rel=1e-9)


def test_sensitivities_one_after_the_other():
    both = bdp.TruncatedLaplace(1.0, [THREE, VARIANCE], ([0.0] * 4, [1.0, 1.0, 1.0, 1.1]))
    assert (both.sensitivity, both.paper_sensitivity) == pytest.approx((2 / 50 + 4 / 50, 1 / 50 + 4 / 50))
    assert (both.largest, both.changed) == ((1 / 50, 1 / 50, 1 / 50, 4 / 50), 3)
    # A record that leaves the first category for the second, and changes the variance the most from 0.
    attained = loss_of(both.law, [1.0, 0.0, 0.0, 0.0], [0.98, 0.02, 0.0, 0.08])
    assert attained <= both.true_epsilon * (1 + 1e-9)
    assert bdp.TruncatedLaplace(1.0, [0.1, 0.3], ([0.0, None], [1.0, 2.0])).largest == (0.1, 0.3)
    # As many statistics as the sensitivity is of, also without names or bounds that say so.
    assert bdp.TruncatedLaplace(1.0, THREE, UNIT).names == ("statistic 1", "statistic 2", "statistic 3")
    sums = statistics.moment_sums_sensitivity((1.0, 2.0))
    assert bdp.BoundaryInflatedLaplace(1.0, [VARIANCE, sums], (-9.0, 9.0)).largest == (4 / 50, 1.0, 4.0, 4.0)


@pytest.mark.parametrize(("n", "k", "epsilon"), [(2, 3, 1.0), (5, 3, 12.0), (3, 4, 0.05)])
@pytest.mark.parametrize("convention", ["exact", "paper"])
def test_added_records_and_truncated_proportions_by_enumeration(n, k, epsilon, convention):
    """All data sets of n records, and all that have one more or one less: the stated loss is attained, not only an upper bound."""
    own = bdp.TruncatedLaplace(epsilon, proportion_sensitivity(n, k, "add-remove"), UNIT, convention=convention)
    pairs = [
        (table, table + more) for size in (n - 1, n) for table in tables_of(k, size) for more in np.eye(k, dtype=int)
    ]
    losses = [loss_of(own.law, table / table.sum(), more / more.sum()) for table, more in pairs]
    assert max(losses) == pytest.approx(own.true_epsilon, rel=1e-9)
    assert own.true_epsilon == pytest.approx(2 * float(truncated_loss(1 / n, own.scale, 1.0)), rel=1e-12)
    assert own.neighbours == "add-remove"
    if convention == "exact":
        assert own.true_epsilon == pytest.approx(epsilon, rel=1e-9)


def test_proportions_within_other_bounds_keep_the_upper_bound():
    """At most half in each category is public: two at a half lose more than one at 1 would, and all may change."""
    own = bdp.TruncatedLaplace(1.0, proportion_sensitivity(7, 4, "add-remove"), (0.0, 0.5))
    lost = loss_of(own.law, [0.5, 0.5, 0.0, 0.0], np.array([3, 3, 1, 0]) / 7)
    exact = bdp.TruncatedLaplace(1.0, proportion_sensitivity(7, 4, "add-remove"), UNIT)
    assert (own.changed, exact.changed) == (None, 2)
    assert 2 * float(truncated_loss(1 / 7, own.scale, 0.5)) < lost <= own.true_epsilon
    assert "at most this, where neighbours cannot attain all" in " ".join(str(own.guarantee).split())


BOUNDS = [(-3.0, 3.0), (-4.5, 4.5)]
TRUTH = np.array([[1.0, 0.7 * np.sqrt(2)], [0.7 * np.sqrt(2), 2.0]])


@pytest.mark.parametrize("parts", [None, [1e-4, 1 - 2e-4, 1e-4]])
def test_covariance_matrix_states_the_loss_of_no_path_but_of_the_worst(parts):
    paper = covariance_cone.CovarianceMatrix(1.0, 80, BOUNDS, rule="truncated", convention="paper", parts=parts)
    sizes = np.array([36.0, 54.0, 81.0]) / 80
    tops, scales = 80**2 / (4 * 79) * sizes, sizes / np.array(paper.parts)
    (text,) = {str(paper.release(TRUTH, rng=np.random.default_rng(seed)).guarantee) for seed in range(12)}
    assert f"The true epsilon of all is {paper.true_epsilon:.6g}" in " ".join(text.split())
    # Over all widths that released variances can leave for the covariance.
    edges = np.append(np.geomspace(1e-6, 1.0, 200), 1.0) * 2 * tops[1]
    variances = sum(float(truncated_loss(sizes[i], scales[i], tops[i])) for i in (0, 2))
    paths = variances + truncated_loss(sizes[1], scales[1], edges)
    assert paper.true_epsilon == pytest.approx(paths.max(), rel=1e-12)
    assert paths.min() < paths.max()
    assert paper.true_epsilon == pytest.approx(1.748 if parts is None else 1.490, abs=1e-3)
    for rule, convention in (("truncated", "exact"), ("boundary-inflated", "paper")):
        own = covariance_cone.CovarianceMatrix(1.0, 80, BOUNDS, rule=rule, convention=convention, parts=parts)
        assert own.true_epsilon == pytest.approx(1.0, rel=1e-12)


ADDED = variance_sensitivity(50, (0.0, 2.0), "add-remove")
read = m.StatisticMechanism.from_description
ONE = "is that of one statistic, but there are "


def laplace(sensitivity=0.1, bounds=UNIT, epsilon=1.0, **more):
    return bdp.TruncatedLaplace(epsilon, sensitivity, bounds, **more)


def normal(sensitivity=0.1, bounds=UNIT, **more):
    return m.TruncatedGaussian(sensitivity, bounds, **(more or {"rho": 0.1}))


test_bad_arguments_are_named = refused(
    (lambda: m.TruncatedGaussian(0.1, UNIT), "state the loss by rho= or epsilon= and delta="),
    (lambda: m.BoundaryInflatedGaussian(0.1, UNIT, rho=0.1, epsilon=1.0), "one of these only"),
    (lambda: normal(rho=-1.0), "rho must be"),
    (lambda: normal(epsilon=1.0, delta=1.0), "delta must"),
    (lambda: normal(0.0), "sensitivity must be"),
    (lambda: normal([0.1, 0.0]), "sensitivity must be greater than 0 for every"),
    (lambda: normal(bounds=(1.0, 0.0)), "reversed"),
    (lambda: normal(bounds=(None, None)), "both are infinite"),
    (lambda: normal(SHARE, rho=0.1, names=["a", "b"]), ONE + "2"),
    (lambda: normal(rho=0.1, neighbours="both"), "neighbours must be one of"),
    (lambda: normal().release(1.2), "within its bounds, 0 to 1"),
    (lambda: laplace(bounds=(1.0, 0.0)), "bounds must .*reversed: 1 and 0"),
    (lambda: laplace(bounds=(1.0, 1.0)), "equal: 1 and 1"),
    (lambda: bdp.BoundaryInflatedLaplace(1.0, 0.1, (None, None)), "both are infinite"),
    (lambda: laplace(epsilon=0.0), "epsilon must be a finite number greater than 0"),
    (lambda: laplace(0.0), "sensitivity must be a finite number greater"),
    (lambda: laplace(convention="loose"), "convention must be one of"),
    (lambda: laplace(names=["a", "a"]), "2 different strings"),
    (lambda: laplace([0.1] * 3, names=["a", "b"]), "do not fit one another"),
    (lambda: laplace([THREE], ([0.0] * 4, 1.0)), "do not fit one another"),
    (lambda: laplace().release(1.2), "within its bounds, 0 to 1"),
    (lambda: laplace().release([0.2, 0.3]), r"must have shape \(\)"),
    (lambda: laplace().release(float("nan")), "statistic must be finite"),
    (lambda: m.StatisticRelease(1.5, bdp.noise.TruncatedLaplace(1.0, (0, 1))), "'truncated-laplace', 0 to 1, but .*single is 1.5"),
    (lambda: read({"mechanism": "other"}), "one of boundary-inflated"),
    (lambda: read({"mechanism": "truncated-laplace", "epsilon": 1.0}), "lacks 'sensitivity', 'bounds'"),
    (lambda: laplace(MEAN, (0.0, 10.0), names=["a", "b", "c"]), ONE + "3: .* losses add up"),
    (lambda: bdp.BoundaryInflatedLaplace(1.0, MEAN, ([0.0, 0.0], [10.0, 10.0])), ONE + "2"),
    (lambda: laplace([0.2], (0.0, 10.0), names=["a", "b", "c"]), ONE + "3"),
    (lambda: laplace(VARIANCE, VARIANCE.bounds, names=SHARES), ONE + "4"),
    (lambda: laplace(SHARE, names=SHARES), ONE + "4"),
    (lambda: laplace([THREE, ADDED]), r"one kind of neighbours, got 'substitution' and, at sensitivity\[1\], 'add-remove'"),
    (lambda: laplace([THREE, 0.1]), r"all numbers or all of .*Sensitivity, but sensitivity\[1\] is 0.1"),
    (lambda: laplace([VARIANCE, statistics.stated_sensitivity(0.2)]), "one kind of neighbours"),
    (lambda: laplace([[0.1, 0.2]]), r"a vector of them, got an array of shape \(1, 2\)"),
    (lambda: laplace("wide"), "sensitivity must hold integers or real numbers"),
)  # fmt: skip
