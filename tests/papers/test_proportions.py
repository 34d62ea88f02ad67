"""Rescaled noisy proportions: the law against quadrature of its definition, the rules against linear algebra, the term of a model."""

import itertools
from functools import partial

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats
from scipy.optimize import approx_fprime

from bayesdp.papers import bounded_statistics as bounded
from bayesdp.papers import models
from bayesdp.papers.bounded_statistics import AllButOne, RescaledLaplace, RescaledProportions, UniversalHistogram
from tests.privacy.sensitivities.databases import tables_of
from tests.refusals import refused

BIT, CUT = "boundary-inflated", "truncated"


def _by_definition(shares, mu, b, rule):
    """Adaptive quadrature over the sum, with the density of Laplace noise of scipy; shares with one largest only."""
    r, centre = np.asarray(shares), np.asarray(mu)
    noise, positive = stats.laplace(loc=centre, scale=b), r > 0
    inside = noise.cdf(1.0) - noise.cdf(0.0) if rule == CUT else np.ones(len(r))
    zeros = np.prod(noise.cdf(0.0)[~positive]) if rule == BIT else float(np.all(positive))
    k, most = int(positive.sum()), 1.0 / r.max()

    def integrand(s):
        return float(s ** (k - 1) * np.prod((noise.pdf(s * r) / inside)[positive]))

    kinks = sorted({0.0, most, *(float(x) for x in (centre[positive] / r[positive]) if 0 < x < most)})
    found = sum(integrate.quad(integrand, a, c, epsabs=1e-13, epsrel=1e-11)[0] for a, c in itertools.pairwise(kinks))
    if rule == BIT:
        # y = s r with the largest at its atom; d(r) / d(y) has determinant 1 / s^k.
        others = positive & (r < r.max())
        found += most**k * float(noise.sf(1.0)[r == r.max()][0]) * float(np.prod(noise.pdf(most * r)[others]))
    return found * float(zeros)


@pytest.mark.parametrize("rule", [BIT, CUT])
@pytest.mark.parametrize("b", [0.03, 0.2, 1.5])
def test_density_by_quadrature_of_the_definition(rule, b):
    mu = np.array([0.1, 0.25, 0.65])
    cases = [[0.2, 0.3, 0.5], [0.05, 0.35, 0.6], [0.7, 0.2, 0.1], [0.0, 0.45, 0.55], [1.0, 0.0, 0.0]]
    found = np.exp(RescaledLaplace(b, rule).log_density(cases, mu))
    for case, value in zip(cases, found, strict=True):
        assert value == pytest.approx(_by_definition(case, mu, b, rule), rel=1e-9, abs=1e-300), case


@pytest.mark.parametrize("rule", [BIT, CUT])
@pytest.mark.parametrize("b", [1e-6, 0.3, 1e9])
@pytest.mark.parametrize("mu", [(0.3, 0.7), (0.0, 1.0), (0.5, 0.5)])
def test_total_mass_of_two_shares(rule, b, mu):
    law, cuts = RescaledLaplace(b, rule), {0.0, 0.5, 1.0, mu[0]}
    nodes, weights = np.polynomial.legendre.leggauss(60)
    cuts |= {min(max(mu[0] + sign * width * b, 0.0), 1.0) for sign in (-1, 1) for width in (1, 3, 8, 20, 45)}
    # A kink also where a kink of the integrand meets the end, r/max(r) = mu.
    cuts |= {m / (1 + m) for m in mu} | {1 / (1 + m) for m in mu}
    total = 0.0
    for low, high in itertools.pairwise(sorted(cuts)):
        x = low + 0.5 * (high - low) * (1 + nodes)
        total += 0.5 * (high - low) * float(weights @ np.exp(law.log_density(np.stack([x, 1 - x], axis=-1), mu)))
    if rule == BIT:
        total += float(np.exp(law.log_density([[0, 1], [1, 0], [0.5, 0.5]], mu)).sum())
    assert total == pytest.approx(1.0, abs=2e-6)


def test_extreme_scales_values_at_the_bounds_and_scales_per_category():
    wide = RescaledLaplace(1e9, BIT)
    # Each value is 0 or 1 with probability 1/2: the centre is all of one kind.
    assert np.exp(wide.log_density([[0.5, 0.5], [1.0, 0.0]], [0.2, 0.8])) == pytest.approx([0.5, 0.25], rel=1e-6)
    assert np.isfinite(RescaledLaplace(1e-9, CUT).log_density([0.9, 0.1], [0.0, 1.0]))
    assert np.isfinite(RescaledLaplace(0.01, CUT).log_density(np.linspace(1, 2, 60) / 90, np.full(60, 1 / 60)))
    law = RescaledLaplace([0.1, 0.3], BIT)
    assert law.log_density([[0.4, 0.6], [0.0, 1.0]], [[[0.3, 0.7]], [[0.6, 0.4]]]).shape == (2, 2)
    expected = stats.laplace.cdf(0, 0.3, 0.1) * stats.laplace.sf(0, 0.7, 0.3)
    assert np.exp(law.log_density([0.0, 1.0], [0.3, 0.7])) == pytest.approx(expected, rel=1e-9)
    assert RescaledLaplace(0.1, CUT).log_density([0.0, 1.0], [0.5, 0.5]) == -np.inf
    tied = RescaledLaplace(0.1, CUT).log_density([[0.5, 0.5], [0.5 + 1e-9, 0.5 - 1e-9]], [0.5, 0.5])  # no atoms
    assert tied[0] == pytest.approx(tied[1], rel=1e-6)
    assert np.all(law.log_density([[0.4, 0.5], [-0.1, 1.1]], [0.3, 0.7]) == -np.inf)
    assert law == RescaledLaplace(np.array([0.1, 0.3]), BIT)


NAMES = ["a", "b", "c", "d"]
KINDS = [RescaledProportions, AllButOne, UniversalHistogram]


def test_rescaling_and_all_but_one_with_its_repair():
    noisy = np.array([[[0.2, 0.3], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.7]]])
    assert np.allclose(bounded.rescale(noisy), [[[0.4, 0.6], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]]])
    assert np.allclose(bounded.rescale([[0.0, 0.0, 0.0]]), 1 / 3)
    noisy = [[0.1, 0.2], [0.8, 0.6]]
    assert np.allclose(bounded.all_but_one(noisy, 1), [[0.1, 0.7, 0.2], [0.8, -0.4, 0.6]])
    assert np.allclose(bounded.all_but_one(noisy, 1, "clip"), [[0.1, 0.7, 0.2], [0.8 / 1.4, 0.0, 0.6 / 1.4]])
    rng = np.random.default_rng(7)
    kept, clipped = (AllButOne(0.1, 20, NAMES, last="a", outside=rule) for rule in ("keep", "clip"))
    assert min(kept.release([0, 5, 5, 10], rng).shares[0] for _ in range(20)) < 0
    assert min(clipped.release([0, 5, 5, 10], rng).shares.min() for _ in range(20)) >= 0


@pytest.mark.parametrize(("categories", "branches"), [(2, 2), (8, 2), (9, 3), (16, 4)])
def test_tree_is_the_least_squares_solution(categories, branches):
    rng, depths = np.random.default_rng(categories), range(1, len(bounded.leaves_under(categories, branches)) + 1)
    matrix = np.vstack([np.kron(np.eye(branches**d), np.ones(categories // branches**d)) for d in depths])
    leaves = rng.dirichlet(np.ones(categories))
    assert np.allclose(bounded.tree_sums(leaves, branches), matrix @ leaves)
    noisy = bounded.tree_sums(leaves, branches) + rng.normal(0, 0.3, len(matrix))
    # Normal equations with a multiplier for the sum of the leaves.
    one = np.ones((categories, 1))
    system = np.block([[matrix.T @ matrix, one], [one.T, np.zeros((1, 1))]])
    best = matrix @ np.linalg.solve(system, np.append(matrix.T @ noisy, 1.0))[:-1]
    assert np.allclose(bounded.consistent_tree(noisy, branches, nonnegative=False), best)
    stacked = bounded.consistent_tree(np.stack([noisy, noisy[::-1]]), branches)
    assert np.allclose(stacked[0], bounded.consistent_tree(noisy, branches))
    assert np.all(stacked >= 0)
    assert np.allclose(stacked, stacked[:, -categories:] @ matrix.T)
    assert stacked[:, -categories:].sum(axis=1) == pytest.approx([1.0, 1.0])


def test_tree_by_the_steps_of_the_paper():
    above, below = np.array([0.1, 0.8]), np.array([[0.0, 0.4], [0.3, 0.2]])
    top = below.sum(axis=1) / 3 + 2 * above / 3
    top += 0.5 * (1 - top.sum())
    left, right = below + 0.5 * (top - below.sum(axis=1))[:, None]
    assert left[0] < 0  # footnote 3
    assert np.allclose(bounded.consistent_tree([*above, *below.ravel()]), [*top, 0.0, top[0], *right])


def test_intervals_of_one_release_and_of_several():
    low, high = bounded.proportion_interval([0.2, -0.1], 100)
    assert low[0] == pytest.approx(0.2 - 1.959964 * 0.04, rel=1e-6)
    assert high[1] == low[1] == -0.1
    estimates, variances = np.array([[0.2, 0.5], [0.3, 0.5], [0.4, 0.5]]), np.full((3, 2), 0.004)
    centre, low, high = bounded.combine_syntheses(estimates, variances)
    # W = 0.004, B = 0.01, m = 3: T = 0.004 + 0.01 / 3, nu = 2 (1 + 3 * 0.4)^2 = 9.68.
    half = stats.t.ppf(0.975, 9.68) * np.sqrt(0.004 + 0.01 / 3)
    assert np.allclose(centre, [0.3, 0.5])
    assert high[0] - 0.3 == pytest.approx(half, rel=1e-12)
    assert 0.5 - low[1] == pytest.approx(1.9599639845 * np.sqrt(0.004), rel=1e-9)  # no noise seen: normal
    several = bounded.MultipleSynthesis.split(AllButOne, 1.0, 50, NAMES, parts=[0.5, 0.25, 0.25], rule="truncated")
    assert several.true_epsilon == pytest.approx(1.0, rel=1e-9)
    releases = several.release([5, 10, 15, 20], rng=np.random.default_rng(1))
    shares = np.stack([release.shares for release in releases])
    assert len(np.unique(shares, axis=0)) == 3
    inner = np.clip(shares, 0, 1)
    assert np.allclose(several.combine(releases, 0.9), bounded.combine_syntheses(shares, inner * (1 - inner) / 50, 0.9))


@pytest.mark.parametrize("rule", ["boundary-inflated", "truncated"])
@pytest.mark.parametrize("kind", KINDS)
def test_loss_of_neighbours_never_exceeds_epsilon(kind, rule):
    """Log-likelihood ratios of all pairs of neighbours at released values: below epsilon, and near it somewhere."""
    epsilon, n = 0.8, 3
    mechanism = kind(epsilon, n, NAMES, rule=rule)
    assert mechanism.true_epsilon == pytest.approx(epsilon, rel=1e-9)
    tables = tables_of(4, n)
    distances = np.abs(tables[:, None] - tables[None]).sum(axis=-1)
    rng, worst = np.random.default_rng(4), 0.0
    for table in tables[::3]:
        for _ in range(6 if rule == CUT else 2):
            logs = mechanism.log_likelihood(mechanism.release(table, rng), tables)
            assert np.all(np.isfinite(logs))
            worst = max(worst, float(np.abs(logs[:, None] - logs[None])[distances == 2].max()))
    assert 0.6 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_paper_convention_states_the_true_epsilon():
    """One record moves two proportions in each level: twice the paper's epsilon for clipping, more for truncation."""
    for kind, scale in zip(KINDS, [1 / 50, 1 / 50, 2 / 50], strict=True):
        paper = kind(1.0, 50, NAMES, convention="paper")
        assert (paper.noise.scale, paper.true_epsilon) == pytest.approx((scale, 2.0), rel=1e-12)
        assert kind(1.0, 50, NAMES, convention="paper", rule="truncated").true_epsilon > 2.9
        assert "true epsilon is 2" in " ".join(str(paper.guarantee).split())
    assert AllButOne(1.0, 50, ["yes", "no"]).noise.scale == pytest.approx(1 / 50)


def test_tree_likelihood_is_that_of_the_noisy_sums():
    mechanism = UniversalHistogram(1.0, 20, NAMES)
    release = mechanism.release([2, 4, 6, 8], rng=6)
    noise = stats.laplace(loc=np.array([6, 14, 2, 4, 6, 8]) / 20, scale=4 / 20)
    values = release.measurements[0].values
    each = np.where(values == 0, noise.logcdf(0), np.where(values == 1, noise.logsf(1), noise.logpdf(values)))
    assert mechanism.log_likelihood(release, [2, 4, 6, 8]) == pytest.approx(each.sum(), rel=1e-12)


RESCALED, ONE = RescaledProportions(1.0, 10, NAMES), AllButOne(1.0, 9, NAMES)
SPLIT = partial(bounded.MultipleSynthesis.split, AllButOne, 1.0, 9, NAMES)
SEVERAL = SPLIT(parts=[0.5, 0.25, 0.25])
test_bad_arguments_are_named = refused(
    (lambda: bounded.rescale([-0.1, 0.4]), "at least 0"),
    (lambda: bounded.rescale([0.4]), "2 entries or more"),
    (lambda: bounded.all_but_one([0.4], 2), "one of the 2 categories"),
    (lambda: bounded.all_but_one([0.4], 0, "redraw"), "outside must be one of"),
    (lambda: bounded.leaves_under(6), "2, 4, 8, .* got 6"),
    (lambda: bounded.consistent_tree([0.1] * 5), "full tree with 2 branches"),
    (lambda: bounded.combine_syntheses([0.1], [0.1]), "two releases or more"),
    (lambda: bounded.combine_syntheses([0.1, 0.2], [0.1, -0.1]), "at least 0"),
    (lambda: RescaledLaplace(0.0, BIT), "b must"),
    (lambda: RescaledLaplace(1.0, "clip"), "rule must be one of"),
    (lambda: RescaledLaplace(1.0, BIT).log_density(0.5, [0.5, 0.5]), "2 entries or more"),
    (lambda: RescaledLaplace(1.0, BIT).log_density([np.nan, 0.5], [0.5, 0.5]), "shares must be finite"),
    (lambda: RESCALED.release([1, 2, 3, 5]), "add up to the public n = 10, but they do not"),
    (lambda: RESCALED.release([-1, 3, 3, 5]), "at least 0, but that of a is not"),
    (lambda: RESCALED.release([5, 5]), "one for each of 4"),
    (lambda: RESCALED.log_likelihood(ONE.release([1, 2, 3, 3]), [1, 2, 3, 4]), "must come from this mechanism"),
    (lambda: RescaledProportions(1.0, 10, ["a"]), "two categories or more"),
    (lambda: RescaledProportions(1.0, 10, NAMES, rule="cut"), "rule must be one of"),
    (lambda: AllButOne(1.0, 10, NAMES, last="e"), "last must be one of"),
    (lambda: UniversalHistogram(1.0, 10, NAMES[:3]), "power|2, 4, 8"),
    (lambda: SPLIT(parts=[0.5, 0.4]), "add up to"),
    (lambda: bounded.MultipleSynthesis((ONE,)), "two or more, got 1"),
    (lambda: bounded.MultipleSynthesis((ONE, AllButOne(1.0, 8, NAMES))), "same records"),
    (lambda: bounded.MultipleSynthesis([1, 2]), "mechanisms for proportions"),
    (lambda: SEVERAL.combine(SEVERAL.release([1, 2, 3, 3], rng=1)[::-1]), "one of each of the 3 mechanisms, in their order"),
)  # fmt: skip
CASES = [(BIT, [0.2, 0.3, 0.5]), (BIT, [0.0, 0.45, 0.55]), (BIT, [1 / 3, 1 / 3, 1 / 3]), (CUT, [0.2, 0.3, 0.5])]


@pytest.mark.parametrize(("rule", "shares"), CASES)
def test_the_same_density_as_the_law(rule, shares):
    mu, b = pt.vector("mu"), pt.scalar("b")
    both = pm.logp(models.RescaledLaplace.dist(mu=mu, b=b, rule=rule), np.array(shares))
    compiled = pytensor.function([mu, b], [both, pt.grad(both, mu)], mode="FAST_COMPILE")
    for scale, point in itertools.product((0.02, 0.7), ([0.15, 0.32, 0.53], [0.0, 0.3, 0.7], [1.0, 0.0, 0.0])):
        law = RescaledLaplace(scale, rule)
        found, gradient = compiled(np.array(point), scale)
        assert found == pytest.approx(float(law.log_density(shares, point)), rel=1e-9, abs=1e-9)
        if min(point) > 0:
            numeric = approx_fprime(np.array(point), lambda x, law=law: float(law.log_density(shares, x)), 1e-7)
            assert np.allclose(gradient, numeric, rtol=1e-3, atol=1e-3)
