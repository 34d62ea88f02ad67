"""Rounded noise against 50-digit tails, quadrature of the density over the cell, and numbers that are drawn and rounded by NumPy."""

import json
from itertools import pairwise

import mpmath
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from scipy import integrate, stats

import bayesdp as bdp
from bayesdp import distributions, noise
from bayesdp.noise import DiscreteLaplace, Gaussian, Laplace, NoiseLaw, Rounded, parse_law
from tests.comparison.chi_square import chi_square_pvalue
from tests.inference.oracle import assert_posterior, posterior_of, sample
from tests.refusals import refused

KINDS = [Laplace, Gaussian]


def exact(kind, scale, base, y, mu):
    """Logarithm of the mass from a difference of tails on one side of mu, to 60 digits."""
    with mpmath.workdps(60):
        off, half, width = abs(mpmath.mpf(float(y)) - mpmath.mpf(mu)), mpmath.mpf(base) / 2, mpmath.mpf(scale)
        tail = {
            Laplace: lambda z: mpmath.exp(-z) / 2 if z > 0 else 1 - mpmath.exp(z) / 2,
            Gaussian: lambda z: mpmath.erfc(z / mpmath.sqrt(2)) / 2,
        }[kind]
        return float(mpmath.log(tail((off - half) / width) - tail((off + half) / width)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.05, 0.7, 2.0, 40.0, 1e6])
def test_mass_has_all_digits_in_both_tails_and_for_small_cells(kind, scale):
    """From a scale of a hundredth of a cell to one of ten million cells, at and around the ends of cells, and far out."""
    for base in (0.1, 1.0, 5.0):
        law, y = Rounded(kind(scale), base), base * np.array([-300.0, -3, 0, 1, 2, 7, 40])
        for mu in (0.0, 0.4 * base, 0.5 * base, 12.0):
            np.testing.assert_allclose(
                law.log_each(y, mu), [exact(kind, scale, base, own, mu) for own in y], rtol=1e-13, atol=1e-13
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", [1, 5, 0.25])
def test_mass_is_the_density_over_the_cell_and_sums_to_1(kind, base):
    inner, mu = kind(1.7), 3.0
    law, y = Rounded(inner, base), base * np.arange(np.floor(-60 / base), np.ceil(70 / base))
    found = np.exp(law.log_each(y, mu))
    assert abs(found.sum() - 1.0) < 1e-12
    for own, mass in zip(y[::9], found[::9], strict=True):
        ends = sorted({own - base / 2, min(max(mu, own - base / 2), own + base / 2), own + base / 2})
        parts = [
            integrate.quad(lambda z: np.exp(inner.log_each(z, mu)), low, high, epsabs=0.0)[0]
            for low, high in pairwise(ends)
        ]
        assert mass == pytest.approx(sum(parts), rel=1e-9)
    assert np.all(np.isneginf(law.log_each(y + 0.4 * base, mu)))


@pytest.mark.parametrize(("kind", "draw"), [(Laplace, "laplace"), (Gaussian, "normal")])
def test_frequencies_of_simulated_rounding(kind, draw):
    """Drawn and rounded by NumPy alone; a false alarm in 1e-6 of seeds each."""
    drawn = getattr(np.random.default_rng(4), draw)(7.3, 3.0, 20_000)
    for law, published in (
        (Rounded(kind(3.0), 1), np.round(drawn)),
        (Rounded(kind(3.0), 5), 5 * np.round(drawn / 5)),
        (Rounded(kind(3.0), 0.1), np.round(drawn, 1)),
    ):
        grid = law._rounded(np.arange(-60.0, 75.0, law.base))
        seen = np.array([np.isclose(published, own, atol=1e-9).sum() for own in grid])
        assert seen.sum() == drawn.size
        assert chi_square_pvalue(seen, drawn.size * np.exp(law.log_each(grid, 7.3))) > 1e-6
        assert np.all(np.isfinite(law.log_each(published, 7.3)))  # 0.1 steps as floating point has them


@pytest.mark.parametrize("kind", KINDS)
def test_variance(kind):
    """By the sum of the mass; of large scales with the correction for rounding, and none where it depends on the true number."""
    for base, mu in ((1, 0), (5, 2), (0.5, 0.25)):
        law, y = Rounded(kind(1.3), base), base * np.arange(-400, 401)
        mass = np.exp(law.log_each(y, mu))
        expected = mass @ (y - mass @ y) ** 2
        np.testing.assert_allclose(law.variance((2,), location=[mu, mu]), expected, rtol=1e-9)
    edge = [float(Rounded(kind(scale), 1).variance(())) for scale in (999.0, 1001.0)]
    plain = [float(kind(scale).variance(())) + 1 / 12 for scale in (999.0, 1001.0)]
    np.testing.assert_allclose(edge, plain, rtol=1e-12)
    assert Rounded(kind(1.0), 5).variance((3,)) is None
    np.testing.assert_allclose(Rounded(kind([1.0, 2.0]), 1).variance((2,))[1], Rounded(kind(2.0), 1).variance(()))


@pytest.mark.parametrize(("kind", "base"), [(Laplace, 1), (Laplace, 5), (Gaussian, 1), (Gaussian, 0.1), (Gaussian, 10)])
def test_windows_of_the_kernel(kind, base):
    """Laplace exact everywhere, Gaussian for 40 scales; beyond them it falls at least as a tangent does."""
    law = Rounded(kind([0.4, 3.0, 3.0]), base)
    y = law._rounded(np.array([11.0, 20.0, -7.3]))
    windows, v = law.windows(y), np.arange(-120, 141)
    for i, value in enumerate(y):
        low, length, start = int(windows.low[i]), int(windows.length[i]), int(windows.start[i])
        found = windows.log_mass[start + np.clip(v - low, 0, length - 1)]
        found = found + np.where(v < low, windows.below[i] * (low - v), 0.0)
        found = found + np.where(v >= low + length, windows.above[i] * (v - (low + length - 1)), 0.0)
        near = np.abs(v - value) < (np.inf if kind is Laplace else 40 * law.noise.scale[i] + base / 2)
        expected = law.of_answer(i, (3,)).log_each(value, v)
        np.testing.assert_allclose(found[near], expected[near], rtol=1e-11, atol=1e-12)
        assert np.all(found[~near] < -700)


@pytest.mark.parametrize("kind", KINDS)
def test_pymc_with_a_scale_and_a_location_that_are_variables(kind):
    """Values as those of the law, gradients as its differences, in all branches."""
    mu, scale, y = pt.dscalar("mu"), pt.dscalar("scale"), np.array([0, 5, 10, 40])
    logp = pm.logp(distributions.Rounded.dist(mu, kind, 5, **{kind.scale_name: scale}, shape=4), y)
    mode = get_mode("FAST_COMPILE").excluding("local_add_canonizer", "local_mul_canonizer")
    evaluate = pytensor.function([mu, scale], [logp, *pt.grad(logp.sum(), [mu, scale])], mode=mode)
    for at, width in ((7.0, 2.0), (6.25, 0.7), (-60.3, 3.0), (11.0, 400.0)):
        own = lambda m, s: Rounded(kind(s), 5).logp(y, m)  # noqa: E731  # a formula
        found, by_mu, by_scale = evaluate(at, width)
        np.testing.assert_allclose(found, Rounded(kind(width), 5).log_each(y, at), rtol=1e-11, atol=1e-12)
        step = 1e-5 * width
        slopes = (own(at + step, width) - own(at - step, width), own(at, width + step) - own(at, width - step))
        np.testing.assert_allclose([by_mu, by_scale], np.array(slopes) / (2 * step), rtol=2e-4, atol=2e-6)
    numbers = pm.logp(distributions.Rounded.dist(3.0, kind(2.0), 0.1), pt.constant(np.array([0.3, 0.35]))).eval()
    np.testing.assert_allclose(numbers, [Rounded(kind(2.0), 0.1).log_each(0.3, 3.0), -np.inf])
    start = pm.distributions.distribution.support_point(distributions.Rounded.dist(np.array([2, 8]), kind(1.0), 5))
    np.testing.assert_array_equal(start.eval(), [0, 10])


@pytest.mark.system
@pytest.mark.parametrize("law", [Rounded(Laplace(2.0), 1), Rounded(Gaussian([1.0, 3.0, 2.0]), 5)], ids=str)
def test_the_posterior_of_a_small_table(law):
    """Three counts with an exact total, rounded: by enumeration of prior times mass."""
    query, rates = bdp.Identity({"area": ["a", "b", "c"]}), np.array([6.0, 2.0, 3.0])
    total = bdp.Exact(bdp.Totals(query.frame), 11)
    release = bdp.Release.from_published(query.frame, [bdp.Measured(query, [5, 0, 10], law)], [total])
    with pm.Model(coords=query.frame.coords) as model:
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rates), dims="area"))
    tables = np.array([(a, b, 11 - a - b) for a in range(12) for b in range(12 - a)])
    # By SciPy: the law of the noise at the ends of each cell.
    of = stats.laplace if isinstance(law.noise, Laplace) else stats.norm
    ends = [of.cdf(np.array([5, 0, 10]) + side * law.base / 2, tables, law.noise.scale) for side in (-1, 1)]
    logs = stats.poisson.logpmf(tables, rates).sum(axis=1) + np.log(ends[1] - ends[0]).sum(axis=1)
    density = model.compile_logp()
    found = np.array([density({"x": own}) for own in tables])
    np.testing.assert_allclose(found - found[0], logs - logs[0], atol=1e-8)
    assert_posterior(sample(model, draws=1500, tune=100, seed=5), tables, posterior_of(logs))


def test_descriptions_and_text():
    for law in (Rounded(Laplace(2.0), 1), Rounded(Gaussian(0.5), 0.1), Rounded(Laplace(2.0), base=5)):
        told = json.loads(json.dumps(law.describe(), allow_nan=False))
        assert NoiseLaw.from_description(told) == parse_law(str(law)) == law
    assert parse_law("rounded law=(laplace epsilon=0.5 sensitivity=2) base=1") == Rounded(Laplace(4.0), 1)
    assert parse_law("Rounded noise = ( Normal sd = 2.5 ) base=10") == Rounded(Gaussian(2.5), 10)
    assert (Rounded(Laplace(2.0), 5).integer, Rounded(Laplace(2.0), 0.1).integer) == (True, False)
    assert (Rounded(Laplace(2.0), 5).additive, Rounded(Laplace(2.0), 0.1).additive) == (False, True)


COUNTY = bdp.Identity({"county": ["Alpha", "Beta"]})
test_what_is_refused = refused(
    ("rounded law=(laplace b=2)", TypeError, "base must be one number greater than 0.*got None"),
    ("rounded base=1", ValueError, "lacks parameter 'noise'"),
    ("rounded law=(laplace b=2) base=0", ValueError, "base must be a finite number greater than 0"),
    ("rounded law=(laplace b=2) base=-5", ValueError, "base must be a finite number greater than 0, got -5"),
    ("rounded law=(laplace b=2) base=nan", ValueError, "base must be a finite number greater than 0"),
    ("rounded law=(laplace b=2) base=1:5", TypeError, r"base must be one number greater than 0, such as 1, 5 or 0\.1"),
    ("rounded law=laplace base=1", TypeError, "law must be a noise law such as"),
    ("rounded law=(discrete-laplace b=2) base=5", TypeError, "law must be of real noise.*have ties"),
    ("rounded law=(random-rounding base=3) base=5", TypeError, "law must be Laplace or Gaussian noise"),
    ("rounded law=(lattice-laplace epsilon=1) base=5", TypeError, "law must be Laplace or Gaussian noise"),
    ("rounded law=(tulap epsilon=1) base=1", TypeError, "law must be Laplace or Gaussian noise"),
    ("rounded law=(projected-gaussian sigma=1) base=1", TypeError, "law must be Laplace or Gaussian noise"),
    ("rounded law=(laplace b=2) to=5", ValueError, "has no parameter 'to'; it takes law="),
    ("censored law=(laplace b=2) base=5", ValueError, "has no parameter 'base'"),
    (lambda: Rounded(Laplace(2.0), True), TypeError, "base must be a real number|base must be"),
    (lambda: Rounded(Laplace(2.0), [1.0, 5.0]), TypeError, "base must be one number"),
    (lambda: Rounded(Rounded(Laplace(2.0), 1), 5), TypeError, "law must be Laplace or Gaussian"),
    (lambda: Rounded(Rounded(Laplace(2.0), 0.1), 5), TypeError, "law must be Laplace or Gaussian"),
    (lambda: Rounded(base=5), TypeError, "law must be the noise law of the values before"),
    (lambda: bdp.Measured(COUNTY, [10, 7], Rounded(Laplace(2.0), 5)), "county=Beta is 7, which is no multiple of 5, the base"),
    (lambda: bdp.Measured(COUNTY, [1.5, 7.25], Rounded(Laplace(2.0), 0.1)), r"Beta is 7\.25, which is no multiple of 0\.1"),
    (lambda: bdp.Measured(COUNTY, [10, 5], Rounded(Laplace([1.0, 2.0, 3.0]), 5)), r"shape \(3,\)"),
    (lambda: distributions.Rounded.dist(3, DiscreteLaplace(2.0), 5), "law must be of real noise"),
    (lambda: distributions.Rounded.dist(3, Laplace, 5), "b of the law 'laplace' is missing"),
    (lambda: distributions.Rounded.dist(3, Laplace, -5, b=1.0), "base must be a finite number"),
    of=lambda own: own() if callable(own) else parse_law(own),
)  # fmt: skip


def test_numbers_that_were_rounded_name_the_law():
    """Whole numbers under a real law are told so, with the law that is right; saying that they were rounded names it too."""
    table = bdp.Identity({"cell": list(range(30))})
    values = np.round(np.random.default_rng(1).laplace(100.0, 2.0, 30))
    with pytest.warns(bdp.measurements.consistency.PostProcessedWarning, match=r"rounded law=\(laplace b=2\) base=1"):
        bdp.Release.from_published(table.frame, [bdp.Measured(table, values, Laplace(2.0))])
    with pytest.raises(ValueError, match=r"rounded law=\(laplace b=2\) base=1"):
        bdp.Measured(table, values, Laplace(2.0), postprocessing="rounded to whole numbers")
    again = bdp.Release.from_published(table.frame, [bdp.Measured(table, values, Rounded(Laplace(2.0), 1))])
    assert again.measurements[0].values.dtype == np.int64
    fives = 5 * np.round(values / 5)
    with pytest.warns(bdp.measurements.consistency.PostProcessedWarning, match=r"rounded law=\(laplace b=2\) base=5"):
        bdp.Release.from_published(table.frame, [bdp.Measured(table, fives, Laplace(2.0))])
    assert noise.parse_law("rounded law=(laplace b=2) base=5").refusals(fives) == {}
