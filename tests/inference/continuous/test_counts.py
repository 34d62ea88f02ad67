"""Continuous counts against quadrature of the polytope, and against the posterior of whole numbers.

Quadrature needs no sampler: a model's density over its unconstrained coordinates must give tables the same moments as a
grid over the tables themselves. The tests that sample have fixed seeds; see `oracle.STANDARD_ERRORS` for false alarms.
"""

from __future__ import annotations

import re

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import bayesdp as bdp
from bayesdp import noise
from bayesdp.inference import FiberGibbs, annotate, releases_of
from bayesdp.inference.continuous import continuous_tables
from bayesdp.posterior import Posterior
from tests.inference.oracle import GRID, LINE, assert_mean, posterior_of, sample

pytestmark = pytest.mark.system

PAIR = {"county": ["p", "q"]}
ROWS, COLUMNS = bdp.Margins(GRID, ["county"]), bdp.Margins(GRID, ["education"])
LOW = np.array([[1.0, 4.0, 2.0], [3.0, 0.5, 6.0]])


def totalled(labels, values, total: int, law: noise.NoiseLaw | None = None) -> bdp.Release:
    """Noisy cells, their sum exact."""
    return bdp.Release.from_published(
        labels,
        measured=[bdp.Measured(bdp.Identity(labels), values, law or noise.DiscreteGaussian(sigma=3.0))],
        exact=[bdp.Exact(bdp.Totals(labels), total)],
    )


def two_way(table, law: noise.NoiseLaw, shift, *more: bdp.Exact) -> bdp.Release:
    """Noisy cells of a 2 x 3 table, both margins exact."""
    table = np.asarray(table)
    return bdp.Release.from_published(
        GRID,
        measured=[bdp.Measured(bdp.Identity(GRID), table + shift, law)],
        exact=[bdp.Exact(ROWS, table.sum(1)), bdp.Exact(COLUMNS, table.sum(0)), *more],
    )


SHIFT = np.array([[2, -3, 1], [-2, 3, -1]])
SMALL = np.array([[2, 5, 3], [4, 0, 6]])


def model_of(release: bdp.Release, base) -> pm.Model:
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.ContinuousCounts("x", base(), release))
    return model


def compiled(model: pm.Model):
    """The log-density, and the table, as functions of one point."""
    table = model.compile_fn(
        model.replace_rvs_by_values([model["x"]]), inputs=model.value_vars, on_unused_input="ignore"
    )
    return model.compile_logp(), lambda point: table(point)[0]


def over_coordinates(model: pm.Model, axes) -> tuple[np.ndarray, np.ndarray]:
    """Tables (points, cells) and probabilities on a product grid of the coordinates, evenly spaced in arsinh."""
    logp, table = compiled(model)
    [value] = model.value_vars
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    log_terms = np.array([logp({value.name: u}) for u in np.sinh(points)]) + np.log(np.cosh(points)).sum(axis=1)
    points = np.sinh(points)
    return np.array([table({value.name: u}).ravel() for u in points]), posterior_of(log_terms)


def assert_moments(found, expected, tolerance=2e-3) -> None:
    (x, p), (exact_x, exact_p) = found, expected
    mean, exact = p @ x, exact_p @ exact_x
    second = np.sqrt(np.maximum(exact_p @ exact_x**2 - exact**2, 0))
    assert np.abs(mean - exact).max() < tolerance * second.max()
    cross, exact_cross = (x.T * p) @ x - np.outer(mean, mean), (exact_x.T * exact_p) @ exact_x - np.outer(exact, exact)
    assert np.abs(cross - exact_cross).max() < 3 * tolerance * second.max() ** 2


def log_binomial_of_reals(x, y):
    return special.gammaln(x + y) - special.gammaln(x + 1.0) - special.gammaln(y)


class TestDensity:
    """No sampling: the change of variables, the continued mass functions and the noise, against a grid of tables."""

    @pytest.mark.parametrize("law", [noise.DiscreteGaussian(sigma=2.0), noise.LatticeLaplace(0.5)])
    def test_three_cells_with_their_total(self, law):
        # The noisy table has a negative cell: the posterior is piled up at the boundary.
        release = totalled(LINE, [8, -1, 5], 12, law)
        rate = np.array([6.0, 1.0, 4.0])
        model = model_of(release, lambda: pm.Poisson.dist(rate))
        step = 12 / 300
        own = np.arange(step / 2, 12, step)
        x = np.stack(np.meshgrid(own, own, indexing="ij"), axis=-1).reshape(-1, 2)
        x = np.column_stack([x, 12 - x.sum(1)])
        x = x[x[:, 2] > 0]
        away = x - [8, -1, 5]
        noisy = -(away**2).sum(1) / 8 if law.support == "integers" else -0.5 * np.abs(away).sum(1)
        expected = posterior_of(noisy + (x * np.log(rate) - special.gammaln(x + 1)).sum(1))
        axis = np.linspace(-4, 4, 150)
        assert_moments(over_coordinates(model, [axis, axis]), (x, expected))

    @pytest.mark.parametrize("bound", [None, 4], ids=["margins", "margins and a bound"])
    def test_two_margins(self, bound):
        more = (
            () if bound is None else (bdp.Exact(bdp.LinearQuery(GRID, [[0, 1, 0, 0, 0, 0]], ["cell"]), [bound], "<="),)
        )
        table = SMALL if bound is None else np.array([[2, 3, 3], [4, 2, 6]])
        release = two_way(table, noise.LatticeGaussian(2.0), SHIFT, *more)
        model = model_of(release, lambda: pm.NegativeBinomial.dist(mu=LOW, alpha=1.5))
        step = 0.04
        a, b = np.meshgrid(
            np.arange(step / 2, table.sum(), step), np.arange(step / 2, table.sum(), step), indexing="ij"
        )
        top = np.stack([a, b, table[0].sum() - a - b], axis=-1).reshape(-1, 3)
        x = np.concatenate([top, table.sum(0) - top], axis=1)
        x = x[(x > 0).all(1) & (x[:, 1] < (bound or np.inf))]
        mu = LOW.ravel()
        prior = (log_binomial_of_reals(x, 1.5) + x * np.log(mu / (mu + 1.5))).sum(1)
        expected = posterior_of(prior - ((x - (table + SHIFT).ravel()) ** 2).sum(1) / 8)
        axis = np.linspace(-5, 5, 170)
        assert_moments(over_coordinates(model, [axis, axis]), (x, expected), 6e-3)

    def test_cells_without_exact_answers(self):
        release = bdp.Release.from_published(
            PAIR, measured=[bdp.Measured(bdp.Identity(PAIR), [5, -2], noise.DiscreteGaussian(sigma=2.0))]
        )
        model = model_of(release, lambda: pm.Poisson.dist(3.0))
        grid = np.arange(0.01, 25, 0.02)
        x = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
        expected = posterior_of((x * np.log(3.0) - special.gammaln(x + 1) - (x - [5, -2]) ** 2 / 8).sum(1))
        axis = np.linspace(-4, 4, 150)
        assert_moments(over_coordinates(model, [axis, axis]), (x, expected))

    def test_two_cells_and_an_unknown_rate(self):
        # Rate and counts together; the total says about the rate what it says in a Poisson model.
        release = totalled(PAIR, [10, 3], 14, noise.DiscreteGaussian(sigma=2.0))
        with pm.Model(coords=PAIR) as model:
            rate = pm.Gamma("rate", 2.0, 0.5)
            bdp.observe(release, bdp.ContinuousCounts("x", pm.Poisson.dist(rate), release))
        logp, table = compiled(model)
        log_rate, u = np.meshgrid(np.linspace(-2, 5, 120), np.linspace(-8, 8, 120), indexing="ij")
        points = [
            {"rate_log__": np.array(r), "x_coordinates": np.array([v])}
            for r, v in zip(log_rate.flat, u.flat, strict=True)
        ]
        p = posterior_of(np.array([logp(point) for point in points]))
        first = np.array([table(point)[0] for point in points])
        grid = np.linspace(0.005, 13.995, 1400)
        exact = posterior_of(
            -special.gammaln(grid + 1) - special.gammaln(15 - grid) - ((grid - 10) ** 2 + (11 - grid) ** 2) / 8
        )
        assert p @ first == pytest.approx(exact @ grid, rel=1e-3)
        gamma = stats.gamma(2 + 14, scale=1 / (0.5 + 2))
        assert p @ np.exp(log_rate.ravel()) == pytest.approx(gamma.mean(), rel=1e-3)
        assert p @ np.exp(2 * log_rate.ravel()) == pytest.approx(gamma.var() + gamma.mean() ** 2, rel=1e-3)

    @pytest.mark.parametrize("exact", ["total", "margins"])
    def test_gradient(self, exact):
        law = noise.LatticeGaussian(2.0)
        release = two_way(SMALL, law, SHIFT)
        if exact == "total":
            release = totalled(GRID, SMALL + SHIFT, int(SMALL.sum()), law)
        model = model_of(release, lambda: pm.NegativeBinomial.dist(mu=LOW, alpha=1.5))
        logp, slope = model.compile_logp(), model.compile_dlogp()
        for seed in range(5):
            u = np.random.default_rng(seed).normal(size=model.initial_point()["x_coordinates"].shape) * (1 + seed / 2)
            h = 1e-6 * np.eye(len(u))
            numeric = [(logp({"x_coordinates": u + e}) - logp({"x_coordinates": u - e})) / 2e-6 for e in h]
            np.testing.assert_allclose(slope({"x_coordinates": u}), numeric, rtol=1e-5, atol=1e-5)


def log_dirichlet_multinomial(x, a):
    n = x.sum()
    return (
        special.gammaln(n + 1) + special.gammaln(a.sum()) - special.gammaln(n + a.sum())
        + (special.gammaln(x + a) - special.gammaln(a) - special.gammaln(x + 1)).sum()
    )  # fmt: skip


def log_binomial(x, n, p):
    ways = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n + 1 - x)
    return (ways + x * np.log(p) + (n - x) * np.log(1 - p)).sum()


def log_multinomial(x, p):
    return special.gammaln(x.sum() + 1) + (x * np.log(p) - special.gammaln(x + 1)).sum()


SHARES, SHAPES = np.array([0.2, 0.3, 0.5]), np.array([0.5, 1.0, 2.0])
BASES = {
    "binomial": (lambda: pm.Binomial.dist(n=20, p=0.3), lambda x: log_binomial(x, 20, 0.3)),
    "multinomial": (lambda: pm.Multinomial.dist(n=12, p=SHARES), lambda x: log_multinomial(x, SHARES)),
    "dirichlet-multinomial": (
        lambda: pm.DirichletMultinomial.dist(n=12, a=SHAPES),
        lambda x: log_dirichlet_multinomial(x, SHAPES),
    ),
    "gamma": (lambda: pm.Gamma.dist(2.0, 0.5), lambda x: stats.gamma(2.0, scale=2.0).logpdf(x).sum()),
    "normal": (lambda: pm.Normal.dist(4.0, 2.0), lambda x: stats.norm(4.0, 2.0).logpdf(x).sum()),
}


@pytest.mark.parametrize("name", list(BASES))
def test_bases_between_whole_numbers(name):
    base, expected = BASES[name]
    release = totalled(LINE, [8, -1, 5], 12)
    logp, table = compiled(model_of(release, base))
    reference, reference_table = compiled(model_of(release, lambda: pm.Flat.dist()))
    for seed in range(3):
        u = {"x_coordinates": np.random.default_rng(seed).normal(size=2)}
        x = table(u)
        np.testing.assert_allclose(x, reference_table(u), rtol=1e-12)
        assert logp(u) - reference(u) == pytest.approx(expected(x), rel=1e-7)  # PyMC keeps 0.5 in single precision


class TestSpace:
    """Whatever the coordinates, the table is inside."""

    @pytest.mark.parametrize("scale", [1.0, 30.0])
    def test_margins_bounds_and_structural_zeros(self, scale):
        table = np.array([[7, 0, 3], [5, 0, 6]])
        more = (
            bdp.Exact(bdp.LinearQuery(GRID, [[1, 0, 1, 0, 0, 0]], ["both"]), [11], "<="),
            bdp.Exact(bdp.LinearQuery(GRID, [[0, 0, 1, 0, 0, 0]], ["one"]), [2], ">="),
        )
        release = two_way(table, noise.LatticeLaplace(0.5), SHIFT, *more)
        model = model_of(release, lambda: pm.Binomial.dist(n=8, p=0.4))
        logp, inside = compiled(model)
        np.testing.assert_array_equal(continuous_tables(model)["x"].fixed, table == 0)
        for seed in range(50):
            u = {"x_coordinates": scale * np.random.default_rng(seed).normal(size=1)}
            x = inside(u)
            np.testing.assert_allclose(x.sum(0), table.sum(0), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(x.sum(1), table.sum(1), rtol=1e-12)
            assert (x >= 0).all()
            assert (x <= 8).all()
            assert x[0, 2] >= 2 - 1e-12
            assert x[0, 0] + x[0, 2] <= 11
            assert np.isfinite(logp(u))
            assert (x[:, 1] == 0).all()

    def test_blocks_free_cells_zero_totals_and_single_cells(self):
        cells = {"c": list("abcdefgh")}
        blocks = bdp.LinearQuery(
            cells, [[1, 1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]], ["i", "j", "k"]
        )
        release = bdp.Release.from_published(
            cells,
            measured=[bdp.Measured(bdp.Identity(cells), [3, 90, 7, 1, -1, 5, 2, 60], noise.DiscreteLaplace(b=2.0))],
            exact=[bdp.Exact(blocks, [100, 0, 6])],
        )
        model = model_of(release, lambda: pm.Poisson.dist(9.0))
        logp, inside = compiled(model)
        assert continuous_tables(model)["x"].fixed.tolist() == [False] * 3 + [True] * 3 + [False] * 2
        for seed in range(20):
            u = {"x_coordinates": 5 * np.random.default_rng(seed).normal(size=4)}
            x = inside(u)
            assert x[:3].sum() == pytest.approx(100, rel=1e-12)
            assert x[3:6].tolist() == [0, 0, 6]
            assert (x >= 0).all()
            assert np.isfinite(logp(u))
        start = inside({"x_coordinates": np.zeros(4)})
        assert abs(start - [3, 90, 7, 0, 0, 6, 2, 60]).max() < 3

    def test_thousands_of_cells_without_a_dense_matrix(self):
        size = 3143
        labels = {"county": [f"c{i}" for i in range(size)]}
        rng = np.random.default_rng(1)
        counts, state = rng.poisson(rng.lognormal(5, 1.3, size)), np.sort(rng.integers(0, 51, size))
        rows = (state[None, :] == np.arange(51)[:, None]).astype(int)
        release = bdp.Release.from_published(
            labels,
            measured=[
                bdp.Measured(
                    bdp.Identity(labels), counts + rng.integers(-9, 10, size), noise.DiscreteGaussian(sigma=5.0)
                )
            ],
            exact=[bdp.Exact(bdp.LinearQuery(labels, rows, [f"s{i}" for i in range(51)]), rows @ counts)],
        )
        model = model_of(release, lambda: pm.Poisson.dist(300.0))
        logp, inside = compiled(model)
        u = {"x_coordinates": rng.normal(size=size - 51)}
        way = rng.normal(size=size - 51)
        ends = [logp({"x_coordinates": u["x_coordinates"] + h * way}) for h in (-1e-5, 1e-5)]
        assert model.compile_dlogp()(u) @ way == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-4)
        np.testing.assert_allclose(rows @ inside(u), rows @ counts, rtol=1e-12)
        assert np.isfinite(logp(u))
        with pytest.raises(NotImplementedError, match="3143 cells by 3092 free dimensions"):
            model_of(release, lambda: pm.Binomial.dist(n=30, p=0.5))


class TestAgainstWholeNumbers:
    @pytest.mark.slow
    def test_two_margins_at_counts_of_a_hundred(self):
        # Against enumeration, at mean counts where the docstring says 0.00; and no divergence. FiberGibbs as well.
        table = np.array([[60, 120, 90], [110, 140, 80]])
        law = noise.LatticeGaussian(8.0)
        release = two_way(table, law, 3 * SHIFT)
        mu = table * np.array([[0.9, 1.1, 1.0], [1.2, 0.8, 1.0]])
        a, b = np.meshgrid(np.arange(271), np.arange(271), indexing="ij")
        top = np.stack([a, b, 270 - a - b], axis=-1).reshape(-1, 3)
        tables = np.concatenate([top, table.sum(0) - top], axis=1)
        tables = tables[(tables >= 0).all(axis=1)]
        noisy = -((tables - (table + 3 * SHIFT).ravel()) ** 2).sum(1) / (2 * 64)
        exact = posterior_of(noisy + stats.nbinom(3.0, 3.0 / (3.0 + mu.ravel())).logpmf(tables).sum(1))
        model = model_of(release, lambda: pm.NegativeBinomial.dist(mu=mu, alpha=3.0))
        with model:
            tree = bdp.sample(draws=1500, tune=400, chains=2, cores=1, random_seed=2, progressbar=False, quiet=True)
        assert int(tree.sample_stats["diverging"].sum()) == 0
        with pm.Model(coords=GRID) as whole:
            bdp.observe(
                release,
                bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=mu, alpha=3.0), dims=("county", "education")),
            )
            assert FiberGibbs().tables[0].exact_conditional
        other = sample(whole, draws=1500)
        for draws in (tree.posterior["x"].values, other.posterior["x"].values):
            draws = draws.reshape(*draws.shape[:2], 6)
            for i in range(6):
                mean = exact @ tables[:, i]
                spread = np.sqrt(exact @ (tables[:, i] - mean) ** 2)
                assert_mean(draws[..., i], mean, spread, f"cell {i}")
                assert_mean((draws[..., i] - mean) ** 2, spread**2, 1.5 * spread**2, f"variance of cell {i}")
        self.check_groups(tree, release)

    def check_groups(self, tree, release):
        assert {"posterior", "sample_stats", "observed_data", "release", "fiber", "diagnostics"} <= set(tree.children)
        assert tree["relaxation"].attrs["variable"] == "x"
        assert Posterior.of(tree).relaxation is not None
        assert "x: real numbers, nonnegative, that agree" in tree.attrs["prior"]
        assert tree.posterior["x"].dims == ("chain", "draw", "county", "education")
        assert tree["fiber"].attrs["variable"] == "x"
        assert (tree.posterior["x"] <= tree["fiber"]["upper"]).all()
        assert tree["diagnostics"].attrs["converged"] == 1
        again = bdp.Release.from_dataset(tree["release"].to_dataset())
        np.testing.assert_array_equal(again.values, release.values)

    @staticmethod
    def moments(mean: int, b: float, law: str, per_count: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the docstring's three cells: whole numbers (0 points a count), or real ones.

        A Poisson count with a Gamma(2) rate is negative binomial; at a known total, its mass is proportional to x + 1.
        """
        true = np.round(mean * np.array([0.5, 1.0, 1.5]))
        y = true + np.round(b * np.array([0.9, -1.3, 0.6]))
        low, high = np.maximum(true - 12 * b, 0), np.minimum(true + 12 * b, true.sum())
        if per_count:
            axes = [np.arange(low[k] * per_count, high[k] * per_count) / per_count + 0.5 / per_count for k in (0, 1)]
        else:
            axes = [np.arange(low[k], high[k] + 1) for k in (0, 1)]
        first, second = np.meshgrid(*axes, indexing="ij")
        x = np.stack([first, second, true.sum() - first - second], axis=-1).reshape(-1, 3)
        x = x[x[:, 2] >= -1e-9]
        away = np.abs(x - y) / b
        p = posterior_of((np.log1p(np.maximum(x, 0)) - (away if law == "laplace" else away**2 / 2)).sum(axis=1))
        return p @ x, np.sqrt(p @ x**2 - (p @ x) ** 2)

    def error(self, mean: int, b: float, law: str = "laplace") -> tuple[float, float]:
        whole, real = self.moments(mean, b, law, 0), self.moments(mean, b, law, 40 if mean * b < 100 else 8)
        return tuple(float(np.max(np.abs(r - w) / whole[1])) for r, w in zip(real, whole, strict=True))

    def test_the_errors_that_the_docstring_states(self):
        lines = re.findall(r"^ *(\d+) +(0\.\d\d) +(0\.\d\d) +(0\.\d\d) +(0\.\d\d)$", bdp.ContinuousCounts.__doc__, re.M)
        assert [int(line[0]) for line in lines] == [1, 5, 20, 100, 1000]
        for line in lines:
            found = [*self.error(int(line[0]), 2.0), *self.error(int(line[0]), 10.0)]
            np.testing.assert_allclose(found, [float(v) for v in line[1:]], atol=0.0075)
        for mean in (20, 100, 1000):
            assert max(self.error(mean, 2.0, "gaussian")) < 0.001


class TestModel:
    def test_a_second_release_and_replaced_numbers(self):
        release = totalled(LINE, [8, -1, 5], 12)
        second = bdp.Release.from_published(
            LINE, measured=[bdp.Measured(bdp.Identity(LINE), [6, 3, 2], noise.DiscreteLaplace(b=2.0))]
        )
        with pm.Model(coords=LINE) as model:
            x = bdp.ContinuousCounts("x", pm.Poisson.dist(4.0), release)
            bdp.observe(release, x)
            bdp.observe(second, x)
            assert len(releases_of(model)) == 2
            before = model.compile_logp()({"x_coordinates": np.zeros(2)})
            pm.set_data({"noisy_published": np.array([7.0, 1.0, 4.0])})
            assert model.compile_logp()({"x_coordinates": np.zeros(2)}) != before
        assert len(releases_of(model)) == 1
        assert [rv.name for rv in model.observed_RVs] == ["noisy", "noisy_2"]

    def test_further_exact_answers_are_refused(self):
        release, other = totalled(LINE, [8, -1, 5], 12), totalled(LINE, [8, -1, 5], 13)
        with pm.Model(coords=LINE):
            x = bdp.ContinuousCounts("x", pm.Poisson.dist(4.0), release)
            with pytest.raises(ValueError, match=r"does not obey .*total = 13"):
                bdp.observe(other, x)
            with pytest.raises(ValueError, match="about the table of x"):
                bdp.observe(totalled(PAIR, [8, 5], 12), x)

    @pytest.mark.parametrize(
        ("base", "error", "words"),
        [
            (lambda: 3.0, TypeError, "unnamed PyMC distribution"),
            (lambda: pm.ZeroInflatedPoisson.dist(psi=0.5, mu=3.0), TypeError, "no continuation between whole numbers"),
            (lambda: pm.Geometric.dist(p=0.3), TypeError, "no continuation between whole numbers"),
            (lambda: pm.Poisson.dist([1.0, 2.0]), ValueError, r"shape \(3,\), got shape \(2,\)"),
            (lambda: pm.Multinomial.dist(n=11, p=np.ones(3) / 3), ValueError, "n = 11 .* they say 12"),
            (lambda: pm.Binomial.dist(n=pm.Poisson("n", 30.0), p=0.3), NotImplementedError, "random n"),
            (
                lambda: pm.Binomial.dist(n=3, p=0.3),
                ValueError,
                "no nonnegative integer table satisfies the exact values: total = 12",
            ),
        ],
    )
    def test_bases_that_are_refused(self, base, error, words):
        release = totalled(LINE, [8, -1, 5], 12)
        with pm.Model(coords=LINE), pytest.raises(error, match=words):
            bdp.ContinuousCounts("x", base(), release)

    def test_other_bad_input(self):
        release = totalled(LINE, [8, -1, 5], 12)
        with pm.Model(), pytest.raises(ValueError, match="lacks the dimension 'county'"):
            bdp.ContinuousCounts("x", pm.Poisson.dist(4.0), release)
        with pm.Model(coords={"county": ["q", "p", "r"]}), pytest.raises(ValueError, match="other labels"):
            bdp.ContinuousCounts("x", pm.Poisson.dist(4.0), release)
        with pm.Model(coords=LINE):
            with pytest.raises(TypeError, match="release must be"):
                bdp.ContinuousCounts("x", pm.Poisson.dist(4.0), 3)
            with pytest.raises(TypeError, match="name must be"):
                bdp.ContinuousCounts("", pm.Poisson.dist(4.0), release)
            nothing = totalled(LINE, [0, 0, 0], 0)
            with pytest.raises(ValueError, match="determine every cell"):
                bdp.ContinuousCounts("x", pm.Poisson.dist(4.0), nothing)
            open_release = bdp.Release.from_published(
                LINE, measured=[bdp.Measured(bdp.Identity(LINE), [1, 2, 3], noise.DiscreteLaplace(b=2.0))]
            )
            with pytest.raises(ValueError, match="they leave it open"):
                bdp.ContinuousCounts("x", pm.Multinomial.dist(n=12, p=np.ones(3) / 3), open_release)

    def test_a_copy_of_the_model_is_annotated_without_a_release(self):
        model = model_of(totalled(LINE, [8, -1, 5], 12), lambda: pm.Poisson.dist(4.0))
        with model.copy() as copy:
            tree = pm.sample(draws=20, tune=20, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
                             compute_convergence_checks=False, nuts_sampler="pymc")  # fmt: skip
        annotated = annotate(tree, copy)
        assert "release" not in annotated.children
        assert "relaxation" not in annotated.children
