"""Censored laws and their windows, and perturbed counts under a threshold, against 50-digit sums, SciPy's tails and sums."""

import json
from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp import noise
from bayesdp.noise import CellKey, Censored, DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, NoiseLaw, parse_law
from tests.inference.oracle import assert_posterior, posterior_of, sample
from tests.noise.oracles import DecimalLaw
from tests.refusals import refused


@pytest.mark.parametrize(("kind", "inner"), [("laplace", DiscreteLaplace(2.5)), ("gaussian", DiscreteGaussian(3.0))])
@pytest.mark.parametrize("mu", [7, 40])
def test_mass_is_that_of_the_law_and_its_tails(kind, inner, mu):
    """The tails are those of 50-digit sums, also where they are about e**-100 (mu = 40, threshold 4)."""
    exact = DecimalLaw(kind, mu, float(inner.scale))
    at, law = {int(k): i for i, k in enumerate(exact.k)}, Censored(inner, below=5, above=9)
    found = law.log_each([4, 5, 6, 9, 10], mu)
    expected = [exact.log_cdf[at[4]], *(exact.log_mass[at[k]] for k in (5, 6, 9)), exact.log_sf[at[9]]]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-14)
    assert np.all(np.isneginf(law.log_each([3, 11, 6.5, 4.5], mu)))


def test_tails_far_out_have_all_digits():
    """Where a probability is e**-5000: by SciPy's log-tails, and exact lines of the Laplace law."""
    normal = Censored(Gaussian(2.0), below=10.0, above=20.0)
    np.testing.assert_allclose(normal.log_each(9.0, 210.0), stats.norm.logcdf(10.0, 210.0, 2.0), rtol=1e-13)
    np.testing.assert_allclose(normal.log_each(21.0, -180.0), stats.norm.logsf(20.0, -180.0, 2.0), rtol=1e-13)
    sharp = Censored(DiscreteLaplace(0.5), below=10)
    # P(K <= 9) = q**(mu - 9) / (1 + q) for mu above 9
    np.testing.assert_allclose(sharp.log_each(9, 2509), -5000.0 - np.log1p(np.exp(-2.0)), rtol=1e-14)


def test_thresholds_of_their_own():
    law = Censored(DiscreteLaplace([1.0, 2.0]), below=[3, 5])
    each = [Censored(DiscreteLaplace(b), low).log_each(y, 4)[()] for b, low, y in ((1.0, 3, 2), (2.0, 5, 6))]
    np.testing.assert_array_equal(law.log_each([2, 6], [4, 4]), each)
    assert law.of_answer(1, (2,)) == Censored(DiscreteLaplace(2.0), 5)
    assert str(law.of_answer(0, (2,))) == "censored law=(discrete-laplace b=1) below=3"
    np.testing.assert_array_equal(law.coded([2, 4]), [2, 4])
    np.testing.assert_array_equal(law.coded([-7, 9]), [2, 9])


COUNTY = bdp.Identity({"county": ["Alpha", "Beta"]})
GEOMETRIC = DiscreteLaplace(2.0)
ROUNDED = noise.RandomRounding(base=3)


def test_descriptions_and_text():
    for law in (Censored(DiscreteGaussian(10.0), below=90), Censored(Laplace(2.0), above=7.5)):
        told = json.loads(json.dumps(law.describe(), allow_nan=False))
        assert NoiseLaw.from_description(told) == parse_law(str(law)) == law
    assert parse_law("censored law=(geometric epsilon=0.5 sensitivity=2) below=3") == Censored(DiscreteLaplace(4.0), 3)
    assert parse_law("Censored noise = ( Gaussian sd = 2.5 ) above=4") == Censored(Gaussian(2.5), above=4)


test_text_that_is_no_law = refused(
    ("censored below=3", "lacks parameter 'noise'"),
    ("censored law=discrete-laplace below=3", "law must be a noise law such as"),
    ("censored law=(discrete-laplace b=2 below=3", "parentheses .* must be closed"),
    ("censored law=((discrete-laplace b=2)) below=3", "with no others inside"),
    ("censored law=(lattice-laplace epsilon=1) below=3", "must be of independent noise"),
    ("censored law=(discrete-laplace b=2) below=2.5", "below must be a whole number"),
    ("censored law=(discrete-laplace b=2) under=2", "has no parameter 'under'; it takes law="),
    ("censored law=(nothing b=2) below=2", "unknown noise law 'nothing'"),
    of=parse_law,
)

ONCE = "law must not be a censored one: state both thresholds at once"
test_what_is_refused = refused(
    (lambda: Censored(GEOMETRIC, 5, 4), "below must be at most above.* 5 and 4"),
    (lambda: Censored(GEOMETRIC, [1, 9], [3, 4]), r"they are not at position \(1,\): 9 and 4"),
    (lambda: Censored(GEOMETRIC, np.nan), "below must be a number"),
    (lambda: Censored(GEOMETRIC, np.inf), "below must be a number, or -inf"),
    (lambda: Censored(GEOMETRIC, "3"), "below must be a real number"),
    (lambda: Censored(GEOMETRIC, above=[True, 4.5]), "above must be a real number"),
    (lambda: Censored(GEOMETRIC, above=2.0**60), r"smaller than 2\*\*53"),
    (lambda: Censored(GEOMETRIC, np.array([3, -(2**60)])), r"smaller than 2\*\*53"),
    (lambda: Censored(GEOMETRIC, np.array([3.0, np.inf])), "below must be a number, or -inf"),
    (lambda: Censored(GEOMETRIC, np.array([3.0, 4.5])), "below must be a whole number"),
    (lambda: Censored(GEOMETRIC, np.array([True, False])), "below must be a real number"),
    (lambda: Censored(GEOMETRIC, []), r"at least one number, got an array of shape \(0,\)"),
    (lambda: Censored(GEOMETRIC, [1, 2], [3, 4, 5]), "shapes that fit"),
    (lambda: Censored(Gaussian(1.0), 3, 3), "below must be smaller than above"),
    (lambda: Censored(noise.Tulap(1.0), below=3), "law must be"),
    (lambda: Censored(None, below=3), "law must be"),
    (lambda: Censored(Censored(GEOMETRIC, 2), above=4), ONCE),
    (lambda: NoiseLaw.from_description({**Censored(GEOMETRIC, 2).describe(), "noise": Censored(GEOMETRIC, 2).describe()}), ONCE),
    (lambda: bdp.Measured(COUNTY, [12, 3], Censored(GEOMETRIC, 10)), "'censored', 9 to inf, but county=Beta is 3"),
    (lambda: bdp.Measured(COUNTY, [12, 9.5], Censored(Laplace(2.0), 10)), r"Beta is 9\.5, and numbers from 10 to inf"),
    (lambda: bdp.Measured(COUNTY, [12, 13], Censored(DiscreteLaplace([1.0, 2.0, 3.0]), 10)), r"b of .* has shape \(3,\)"),
    (lambda: bdp.Measured(COUNTY, [12, 13], Censored(GEOMETRIC, [1, 2, 3])), r"below of the law 'censored' has shape \(3,\)"),
    (lambda: noise.censored_counts(GEOMETRIC, 3), "one of perturbed counts"),
    (lambda: noise.censored_counts(ROUNDED, 0), "below"),
    (lambda: noise.censored_counts(ROUNDED, [1, 2]), "one whole number for all"),
    (lambda: Censored(ROUNDED, below=3), "censored_counts"),
    (lambda: bdp.thresholded(COUNTY, {"Alpha": 3}, ROUNDED, 6, candidates=True), "county=Alpha = 3, which is under"),
    (lambda: noise.TransitionTable([0, 1], [[1, 0], [0.5, 0.5]], below=3), "under 3 stand as 2, but row x = 0 gives 0 a prob"),
    (lambda: noise.TransitionTable([-2, -1, 0, 1, 2], [*np.eye(5)[[4, 3, 2]], [0.5, 0, 0.5, 0, 0]], below=3), "row x = 3 gives 1 a"),
)  # fmt: skip


def evaluated(windows, i, v):
    """The definition of the interface, by hand."""
    low, length, start = int(windows.low[i]), int(windows.length[i]), int(windows.start[i])
    inside = windows.log_mass[start + np.clip(v - low, 0, length - 1)]
    left = np.where(v < low, windows.below[i] * (low - v), 0.0)
    return inside + left + np.where(v >= low + length, windows.above[i] * (v - (low + length - 1)), 0.0)


LAPLACE = [
    Censored(DiscreteLaplace(3.0), below=10),
    Censored(DiscreteLaplace(0.3), below=10, above=14),
    Censored(DiscreteLaplace(40.0), above=12),
    Censored(Laplace(3.0), below=10.25, above=12.5),
]
NORMAL = [
    Censored(DiscreteGaussian(3.0), below=10),
    Censored(DiscreteGaussian(0.4), below=10, above=14),
    Censored(Gaussian(5.0), above=12.0),
]


def published(law):
    values = [11, 12] if law.integer else [10.5, 11.0, 12.0]
    return np.array([*(side for side in law.limits if np.isfinite(side)), *values])


@pytest.mark.parametrize("law", [*LAPLACE, *NORMAL], ids=str)
def test_laplace_is_exact_everywhere_and_gaussian_for_40_scales_and_falls_beyond(law):
    normal = law in NORMAL
    reach = max(int(40 * float(law.uncensored.scale)), 60) if normal else 3000
    y, v = published(law), np.arange(10 - reach, 12 + reach)
    windows = law.windows(y)
    for i, value in enumerate(y):
        np.testing.assert_allclose(evaluated(windows, i, v), law.log_each(value, v), rtol=1e-11, atol=1e-12)
        if normal:
            far = evaluated(windows, i, np.arange(-1000, 1001))
            assert np.all(np.diff(np.diff(far)) <= 1e-7)  # log-concave, tangents included
            assert (far[-1] if value <= 12 and not value == law.limits[1] else far[0]) < -700


def test_answers_share_windows_unless_they_would_be_too_long():
    law = Censored(DiscreteGaussian(5.0), below=[10] * 4 + [90] * 4)
    windows = law.windows(np.array([9, 9, 12, 400, 89, 89, 1000, 95]))
    assert len(set(windows.start.tolist())) == 2  # published, and under a threshold
    np.testing.assert_array_equal(windows.low[4] - windows.low[0], 80)
    assert Censored(DiscreteLaplace(2.0), below=3).windows(np.full((2, 3), 2)).low.shape == (6,)
    assert Censored(DiscreteLaplace(1e7), below=3).windows(np.array([2])) is None  # left to the compiled density
    assert Censored(DiscreteLaplace(1e4), below=3).windows(np.array([2])) is not None


KEYS, RATES = CellKey(max_deviation=3, variance=2.0), [8.0, 2.0, 3.0]
LAWS = [
    ROUNDED,
    noise.ConventionalRounding(base=10),
    KEYS,
    CellKey(max_deviation=3, variance=2.0, not_smaller_than=2, zeros="perturbed"),
    noise.TransitionTable.by_count({0: {0: 1}, 1: {-1: 0.25, 0: 0.5, 1: 0.25}, 2: {-1: 0.5, 0: 0.5}}, period=0),
]


@pytest.mark.parametrize("below", [1, 3, 7])
@pytest.mark.parametrize("law", LAWS)
def test_the_code_has_the_probability_of_all_that_it_stands_for(law, below):
    coded, last = noise.censored_counts(law, below), int(min(law.transitions.largest_count, 60))
    for x in range(last + 1):
        y = np.arange(-20, x + 80)
        plain = np.exp(law.log_each(y, x))
        expected = np.where(y >= below, plain, 0.0)
        expected[y == below - 1] = plain[y < below].sum()
        np.testing.assert_allclose(np.exp(coded.log_each(y, x)), expected, atol=1e-15)
    assert coded.same_cell_same_value == law.same_cell_same_value
    again = NoiseLaw.from_description(coded.describe())
    assert again == coded
    [(why, which)] = again.withheld([below - 1, below]).items()
    assert (why, which.tolist()) == (f"under {below}", [True, False])
    assert law.withheld([0, below]) == {}


def test_numbers_that_are_held_back_and_the_log_density_of_their_model():
    """Three counts with an exact total, one of them published: prior times mass of all that the codes stand for, by enumeration."""
    query = bdp.Identity({"area": ["a", "b", "c"]})
    noisy = bdp.thresholded(query, {"a": 6}, KEYS, 4, candidates=True)
    assert noisy.values.tolist() == [6, 3, 3]
    np.testing.assert_array_equal(noisy.published, [6, np.nan, np.nan])
    with pm.Model(coords=query.frame.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATES), dims="area")
        bdp.observe(bdp.Release.from_published(query.frame, [noisy], [bdp.Exact(bdp.Totals(query.frame), 11)]), x)
    tables = np.array([own for own in product(range(3, 10), range(7), range(7)) if sum(own) == 11])
    codes = np.exp(KEYS.log_each(np.arange(-3, 4), np.arange(7)[:, None])).sum(axis=1)  # 7 and more are not held back
    exact = stats.poisson.logpmf(tables, RATES).sum(axis=1) + np.log(codes)[tables[:, 1:]].sum(axis=1)
    exact += KEYS.log_each(6, tables[:, 0])
    density = model.compile_logp()
    found = np.array([density({"x": own}) for own in tables])
    np.testing.assert_allclose(found - found[0], exact - exact[0], atol=1e-9)
    assert_posterior(sample(model, draws=1500, tune=100, seed=5), tables, posterior_of(exact))
    hidden = bdp.Measured(COUNTY, [12, np.nan], Censored(Laplace(2.0), below=0.5), unmeasured=["county=Beta"])
    assert hidden.unmeasured.tolist() == [False, True]
    ends = noise.TransitionTable([0, 2], [[0, 1], [1, 0]], period=0, below=1)
    assert ends.withheld([0, 2])["under 1"].tolist() == [True, False]
