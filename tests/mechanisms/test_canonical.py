"""Canonical noise as mechanisms, for counts and by Theorem 37: the loss is spent exactly; posteriors by enumeration; tests; files."""

import json
import math

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln, softmax
from scipy.stats import kstest

import bayesdp as bdp
from bayesdp.mechanisms import CanonicalNoise, SemiCanonical
from bayesdp.noise import Canonical, NoiseLaw, ProjectedGaussian, Tulap
from bayesdp.privacy import approximate_dp, gaussian_dp, tensor_product, tradeoff, tradeoff_delta, tradeoff_epsilon
from bayesdp.privacy import describe_tradeoff as describe
from bayesdp.privacy import tradeoff_from_description as read
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.significance import odds_ratio_test, odds_ratio_test_from_release
from tests.refusals import refused

TABLE = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
COUNTS = [[20, 10], [5, 1], [0, 7]]
GRID = np.linspace(0.0, 1.0, 201)


def exact_curve(mechanism, shift):
    """Type II error of the best test between noise and shifted noise, from the densities on a grid, by sorting."""
    edges = np.arange(-40.0, 41.0) + 0.5
    cells = np.diff(mechanism.law.standard.cdf(edges))  # the density is constant on each, and the shifts are whole
    null, other = np.ones(1), np.ones(1)
    for own in shift:
        null = np.outer(null, cells).ravel()
        other = np.outer(other, np.roll(cells, round(own))).ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(null > 0, other / null, np.inf), kind="stable")
    a, w = np.cumsum(null[order]), np.cumsum(other[order])
    return np.asarray(1.0 - np.interp(GRID, np.append(0.0, a), np.append(0.0, w)))


def test_one_count_spends_all_of_it_and_two_have_the_tensor_product():
    for query in (Totals(TABLE), Identity(TABLE), Margins(TABLE, ["county"])):
        mechanism = CanonicalNoise(query, epsilon=1.0, neighbours="add-remove")
        assert (mechanism.law, mechanism.sensitivity) == (Tulap(1.0), 1.0)
        assert mechanism.tradeoff == mechanism.count_tradeoff == approximate_dp(1.0)
        np.testing.assert_allclose(exact_curve(mechanism, [1.0]), mechanism.tradeoff(GRID), rtol=0, atol=1e-9)
    mechanism = CanonicalNoise(TABLE, epsilon=1.0)
    assert mechanism.law == Tulap(0.5)
    assert mechanism.tradeoff(GRID) == pytest.approx(tensor_product(approximate_dp(0.5), approximate_dp(0.5))(GRID))
    np.testing.assert_allclose(exact_curve(mechanism, [1.0, -1.0]), mechanism.tradeoff(GRID), rtol=0, atol=1e-8)
    assert np.all(mechanism.tradeoff(GRID) >= approximate_dp(1.0)(GRID) - 1e-15)
    loose = CanonicalNoise(TABLE, epsilon=1.0, delta=0.01)
    assert tradeoff_delta(loose.tradeoff, 1.0) == pytest.approx(0.01, rel=1e-9)
    gaussian = CanonicalNoise(TABLE, mu=1.0)
    np.testing.assert_allclose(gaussian.tradeoff(GRID), gaussian_dp(1.0)(GRID), rtol=1e-12)
    assert gaussian.law == ProjectedGaussian(math.sqrt(2.0))


@pytest.mark.parametrize(
    ("stated", "kind"), [({"epsilon": 0.5}, "pure"), ({"epsilon": 0.5, "delta": 0.02}, "approximate"), ({"mu": 0.7}, "gdp")]
)  # fmt: skip
def test_guarantee_and_likelihood(stated, kind):
    mechanism = CanonicalNoise(Margins(TABLE, ["county"]), **stated, neighbours="add-remove")
    assert mechanism.guarantee.kind == kind
    off, own = np.array([0.3, -2.25, 5.5]), mechanism.count_tradeoff.canonical_noise()
    assert mechanism.logp(np.array([30, 6, 7]) + off, COUNTS) == pytest.approx(np.log(own.pdf(off)).sum())
    # From the operating system's entropy.
    assert ("no rounding" in str(mechanism.release(COUNTS).guarantee)) == (kind == "pure")


@pytest.mark.parametrize("delta", [None, 0.05])
def test_noise_from_integers_has_the_law(delta):
    # Entropy of the operating system, so no seed: a false alarm in 1e9 runs.
    mechanism = CanonicalNoise(Identity(TABLE), epsilon=1.0, delta=delta, neighbours="add-remove")
    law = mechanism.law.standard
    for rng in (None, np.random.default_rng(4)):
        draws = mechanism.noise(rng, size=150).ravel()
        assert kstest(draws, law.cdf).pvalue > 1e-9
        assert np.all(np.abs(draws) <= law.support()[1] + 2.0**-20)


PAIRED = {"sex": ["men", "women"], "admission": ["yes", "no"]}
BOTH = Margins(PAIRED, ["sex"], ["admission"])
PAIRED_COUNTS = np.array([[5, 3], [2, 6]])
RANDOMISED, STEPS = tradeoff([0.75, 0.25], [0.25, 0.75]), tradeoff([0.5, 0.3, 0.15, 0.05], [0.05, 0.15, 0.3, 0.5])
BOUNDED = tradeoff([0.0, 0.5, 0.25, 0.25], [0.25, 0.25, 0.5, 0.0])
PRODUCT = tensor_product(approximate_dp(0.4), approximate_dp(0.6))
FUNCTIONS = [approximate_dp(1.0), approximate_dp(0.8, 0.05), gaussian_dp(0.7), approximate_dp(0.3).group(2)]
FUNCTIONS += [RANDOMISED, STEPS, BOUNDED, PRODUCT]


@pytest.mark.parametrize("f", FUNCTIONS, ids=str)
def test_tables_a_step_apart_are_as_hard_to_tell_apart_as_f_says(f):
    """By the law's own density, integrated on a grid: the best test's power at every threshold, no more and no less."""
    mechanism, grid = SemiCanonical(BOTH, f), np.arange(-10, 10, 1 / 8) + 1 / 16
    tables = (PAIRED_COUNTS, PAIRED_COUNTS + np.array([[1, -1], [-1, 1]]))
    # Midpoint rule: exact for step functions, whose jumps are at half-integers; elsewhere they, and the ends of a
    # bounded law, lie within an interval. The likelihood ratio rises with the cell: the best tests reject for large cells.
    null, other = (np.exp([mechanism.logp([5 + z], table) for z in grid]) / 8 for table in tables)
    bounded = math.isfinite(f.canonical_noise().support()[1])
    error = 0.02 if bounded or isinstance(mechanism.law, Canonical) else 5e-4
    assert null.sum() == pytest.approx(1.0, abs=error)
    type_one = np.cumsum(null[::-1])
    type_two = null.sum() - np.cumsum(other[::-1])
    inside = (type_one > 0.01) & (type_one < 0.99)
    assert inside.sum() > 15
    np.testing.assert_allclose(type_two[inside], f(type_one[inside]), atol=2 * error)


@pytest.mark.parametrize("f", FUNCTIONS, ids=str)
def test_draws_guarantee_description_and_test(f):
    np.testing.assert_array_equal(read(json.loads(json.dumps(describe(f))))(GRID), f(GRID))
    assert NoiseLaw.from_description(json.loads(json.dumps(Canonical(f).describe()))) == Canonical(f)
    assert SemiCanonical(WEIGHTED, f).cell == {"cell": "b"}  # one that a step changes by one
    mechanism = SemiCanonical(BOTH, f, {"sex": "women", "admission": "yes"})
    noise = mechanism.noise(3, 4000).reshape(-1)
    assert kstest(noise, f.canonical_noise().cdf).pvalue > 1e-4  # false alarms: one in 10,000 for each function
    stated = mechanism.guarantee
    assert "women, admission=yes by one" in stated.pairs[0].relation
    loss = dict(stated.pairs[0].loss)
    assert stated.pairs[0].size == (2.0 if "mu" in loss else 4.0)
    if "mu" in loss:
        assert f == gaussian_dp(loss["mu"])
    else:
        assert loss["epsilon"] == pytest.approx(tradeoff_epsilon(f, loss.get("delta", 0.0)), rel=1e-9)
        assert math.isfinite(loss["epsilon"])
    # The test of a release is that of Theorem 37.
    release = SemiCanonical(BOTH, f).release(PAIRED_COUNTS, rng=4)
    found = odds_ratio_test_from_release(release)
    direct = odds_ratio_test(float(release.measurements[0].values[0]), rows=(8, 8), column=7, tradeoff=f)
    assert (found.pvalue, found.optimal) == (direct.pvalue, True)
    assert f"0.05: {float(f(0.05)):.6g}" in str(stated).replace("\n", " ").replace("    ", "")


def test_the_posterior_against_enumeration():
    """All tables with both margins, weighted by the prior and the law, which is bounded: it starts within its reach."""
    measured = bdp.Measured(SemiCanonical(BOTH, BOUNDED).released_query, [3.9], Canonical(BOUNDED))
    release = bdp.Release.from_published(PAIRED, [measured], [bdp.Exact(BOTH, [8, 8, 7, 9])])
    rate = np.array([[3.0, 6.0], [4.0, 4.0]])
    tables = np.array([[[x, 8 - x], [7 - x, 1 + x]] for x in range(8)])
    law = np.array([Canonical(BOUNDED).logp([3.9], [x]) for x in range(8)])
    expected = softmax((tables * np.log(rate) - gammaln(tables + 1)).sum(axis=(1, 2)) + law)
    assert 1 < np.count_nonzero(expected) <= 6
    with pm.Model(coords=release.coords):
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims)
        bdp.observe(release, x)
        tree = bdp.sample(draws=1000, tune=100, chains=2, cores=1, random_seed=5, progressbar=False, quiet=True)
    drawn = tree["posterior"]["x"].values[..., 0, 0].reshape(-1)
    found = np.bincount(drawn, minlength=8) / drawn.size
    # 2,000 draws: an effective size of 500 gives 0.022 as the largest standard error, and four of these a false alarm in 2,000.
    np.testing.assert_allclose(found, expected, atol=0.09)
    assert np.all(found[expected == 0.0] == 0.0)


def test_a_bounded_law_with_another_parameter_starts_within_reach():
    """NUTS looks at the model before the step of the counts has moved; counts in the hundreds, a vague rate."""
    release = SemiCanonical(Totals({"cell": ["a", "b"]}), BOUNDED).release([400, 250], rng=2)
    with pm.Model(coords=release.coords):
        rate = pm.Gamma("rate", 2.0, 0.005, dims="cell")
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="cell")
        bdp.observe(release, x)
        tree = bdp.sample(draws=50, tune=50, chains=2, cores=1, random_seed=5, progressbar=False, quiet=True)
    reach = BOUNDED.canonical_noise().support()[1]
    assert np.all(np.abs(tree["posterior"]["x"].values[..., 0] - release.measurements[0].values[0]) <= reach)


TEN, ALL = Margins(TABLE, ["county"], ["education"]), LinearQuery(TABLE, np.ones((1, 6), dtype=int), ["all"])
THREE = Margins({"a": range(3), "b": range(3)}, ["a"], ["b"])
WEIGHTED = LinearQuery({"cell": ["a", "b"]}, [[1, 2]], ["w"])  # a step is (2, -1)
test_bad_arguments_are_named = refused(
    (lambda: CanonicalNoise(TABLE), "epsilon"),
    (lambda: CanonicalNoise(TABLE, epsilon=1.0, mu=1.0), "mu"),
    (lambda: CanonicalNoise(TABLE, epsilon=0.0), "epsilon must be"),
    (lambda: CanonicalNoise(TABLE, epsilon=1.0, delta=1.0), "delta must lie strictly between 0 and 1"),
    (lambda: CanonicalNoise(TABLE, mu=-1.0), "mu must be"),
    (lambda: CanonicalNoise(Totals(TABLE), epsilon=1.0), "no two neighbouring tables"),
    (lambda: CanonicalNoise(TEN, epsilon=1.0), "one set of sums of disjoint cells"),
    (lambda: CanonicalNoise(ALL, 1.0, neighbours="add-remove"), "one set of sums"),
    (lambda: CanonicalNoise(TABLE, 1.0).noise(method="mcmc"), "always drawn exactly"),
    (lambda: SemiCanonical(THREE, approximate_dp(1.0)), "leave 4 dimensions free, and canonical noise .* needs exactly one"),
    (lambda: SemiCanonical(BOTH, 1.0), r"tradeoff must be a trade-off function of bayesdp\.privacy, got float"),
    (lambda: SemiCanonical(BOTH, tradeoff([1.0, 0.0], [0.0, 1.0])), "it protects nothing"),  # when it is made
    (lambda: SemiCanonical(BOTH, tradeoff([0.6, 0.4], [0.1, 0.9])), "symmetric"),
    (lambda: SemiCanonical(BOTH, approximate_dp(1.0), {"sex": "girls", "admission": "no"}), "'girls' of 'sex', which has 'men'"),
    (lambda: SemiCanonical(BOTH, approximate_dp(1.0), {"sex": "men"}), "a label for each of 'sex', 'admission'"),
    (lambda: SemiCanonical(WEIGHTED, approximate_dp(1.0), {"cell": "a"}), "cell=a changes by 2"),
    (lambda: SemiCanonical(LinearQuery({"cell": ["a", "b"]}, [[2, 3]], ["w"]), approximate_dp(1.0)), "no cell changes by one"),
)  # fmt: skip
NESTED = {"tradeoff": "group", "base": {"tradeoff": "gaussian-dp", "mu": 1.0}, "k": 1}
test_bad_descriptions_are_refused = refused(
    ({"tradeoff": "exotic"}, "unknown trade-off function 'exotic'; known are approximate-dp"),
    ({"tradeoff": "gaussian-dp"}, "'gaussian-dp' has mu"),
    ({"tradeoff": "gaussian-dp", "mu": -1.0}, "mu must be"),
    (NESTED | {"k": 10**9}, "k must be at most 10000"),
    (NESTED | {"base": NESTED}, "base of a group must not be a group itself"),
    (NESTED | {"base": 3}, "must be a mapping"),
    ({"tradeoff": "pair", "start": 0.0, "p": [0.5, 0.5], "q": [0.1, 0.9]}, "falling order"),
    ({"tradeoff": "pair", "start": 0.0, "p": [0.5, 0.4], "q": [0.9, 0.1]}, "add up to 1"),
    ({"tradeoff": "pair", "start": 0.0, "p": [1.0], "q": [0.5, 0.5]}, "as many masses"),
    of=read,
)  # fmt: skip
