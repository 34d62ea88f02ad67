"""The projected Laplace law, against quadrature, closed forms, Fourier inversion and histograms."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from bayesdp._numba import seed_state
from bayesdp.invariants import Invariants
from bayesdp.noise import ProjectedLaplace
from bayesdp.noise.subspace.projected_laplace import blocks_density, draw_on_line, log_gram, row_basis, rows_of_cells
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.comparison.chi_square import chi_square_pvalue
from tests.noise.oracles import all_margins, frame_of


def line_by_quadrature(u, r, b):
    """Logarithm of the integral of exp(-sum |u + r w| / b), piece by piece."""
    knots = np.unique(-u / r)
    least = (np.abs(u + np.outer(knots, r)).sum(axis=1) / b).min()
    # Beyond the outermost knots the slope is sum |r| / b, so 800 of its units underflow; 60 are 1e-26.
    reach = 60.0 * b / np.abs(r).sum()
    areas = [
        quad(lambda w: math.exp(least - np.abs(u + r * w).sum() / b), *end, epsabs=0.0, epsrel=1e-13, limit=400)
        for end in itertools.pairwise([knots[0] - reach, *knots, knots[-1] + reach])
    ]
    return math.log(sum(area for area, _ in areas)) - least


def kernel(u, r, b):
    """One block, without the constants."""
    gradient, cells = np.full(len(u), np.nan), np.arange(len(u))
    value, slope = blocks_density(u, b, np.array([0, len(u)]), cells, r.astype(np.float64), gradient)
    return value + len(u) * math.log(2 * b), gradient, slope + len(u) / b


class TestOneBlock:
    @pytest.mark.parametrize("d", [1, 2, 5, 102])
    @pytest.mark.parametrize("general", [False, True])
    def test_integral(self, d, general):
        rng = np.random.default_rng(d)
        for b in (0.3, 2.0):
            u = rng.laplace(size=d) * 1.5
            r = rng.choice([-3.0, -1.0, 1.0, 2.0], d) if general else np.ones(d)
            assert kernel(u, r, b)[0] == pytest.approx(line_by_quadrature(u, r, b), rel=1e-12, abs=1e-12)

    @pytest.mark.parametrize("d", [2, 8, 102])
    def test_gradient_and_derivative(self, d):
        rng = np.random.default_rng(d)
        u, r, b, step = rng.laplace(size=d), rng.choice([-2.0, -1.0, 1.0], d), 1.3, 1e-5
        _, gradient, slope = kernel(u, r, b)
        found = [(kernel(u + step * e, r, b)[0] - kernel(u - step * e, r, b)[0]) / (2 * step) for e in np.eye(d)]
        assert gradient == pytest.approx(np.array(found), abs=1e-8)
        assert slope == pytest.approx((kernel(u, r, b + step)[0] - kernel(u, r, b - step)[0]) / (2 * step), rel=1e-7)
        assert abs(gradient @ r) < 1e-12  # nothing along the row

    def test_ties_also_far_from_the_mass(self):
        u, r = np.array([1.0, 1.0, -2.0, 1.0, -2.0, 1.0, 0.0, 0.0]), np.ones(8)
        assert kernel(u, r, 0.7)[0] == pytest.approx(line_by_quadrature(u, r, 0.7), rel=1e-13)
        # The density is once differentiable, so a tie is no kink: differences to both sides agree with the gradient.
        for side in (1e-6, -1e-6):
            found = (kernel(u + side * np.eye(8)[0], r, 0.7)[0] - kernel(u, r, 0.7)[0]) / side
            assert kernel(u, r, 0.7)[1][0] == pytest.approx(found, abs=1e-5)
        # Knots with all of the mass on one side are seen to apart from the others; ties must not fall in between.
        u = np.array([0.0] * 7 + [500.0] * 3 + [-500.0] * 3 + [60.0, 60.0, -60.0, 900.0])
        r = np.ones(len(u))
        value, gradient, slope = kernel(u, r, 1.0)
        assert value == pytest.approx(line_by_quadrature(u, r, 1.0), rel=1e-13)
        assert gradient[7:] == pytest.approx(-np.sign(u[7:]), abs=1e-12)
        assert slope == pytest.approx((kernel(u, r, 1 + 1e-6)[0] - kernel(u, r, 1 - 1e-6)[0]) / 2e-6, rel=1e-7)

    @pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6, 1e12])
    def test_extreme_scales(self, scale):
        # Stretching everything stretches the integral; at u / b of 1e9 nothing may overflow.
        u = np.array([1.0, -1.0, 0.3, 0.3, -0.6]) * scale
        for b in (1e-3 * scale, scale, 1e3 * scale):
            (value, gradient, slope), unit = kernel(u, np.ones(5), b), kernel(u / scale, np.ones(5), b / scale)
            assert value == pytest.approx(unit[0] + math.log(scale), rel=1e-13, abs=1e-13)
            assert gradient * scale == pytest.approx(unit[1], rel=1e-9, abs=1e-12)
            assert slope * scale == pytest.approx(unit[2], rel=1e-9)
        far, gradient, _ = kernel(np.array([1e6, -1e6]), np.ones(2), 1e-3)
        assert far == pytest.approx(math.log(2e6) - 2e9, rel=1e-15)  # flat between the knots
        assert gradient == pytest.approx([-1e3, 1e3], rel=1e-8)

    def test_long_blocks_are_sorted_elsewhere(self):
        # From 256 knots on NumPy sorts; the same integral from halves of the weights, which sort in numba.
        rng = np.random.default_rng(5)
        u = rng.laplace(size=200)
        expected = pytest.approx(kernel(u, np.ones(200), 1.0)[0], rel=1e-13)
        assert kernel(np.repeat(u, 2), np.ones(400), 2.0)[0] == expected
        assert kernel(2 * u, np.full(200, 2.0), 2.0)[0] == expected

    def test_draws_follow_the_density(self):
        # False-alarm rate 1e-4 for each case: chi-square over 40 bins of equal probability (by quadrature).
        state = seed_state(np.random.default_rng(8))
        cases = [([0.0, 1.0, 1.0, 4.0, -3.0], [1] * 5, 1.0), ([0.0, 1.0, 4.0], [2, 1, 3], 2.0)]
        for knots, weights, b in [*cases, ([0.0, 10.0], [1, 1], 1.0), ([3.0], [2], 1.0)]:
            k, a = np.array(knots), np.array(weights, dtype=np.float64)
            draws = np.array([draw_on_line(k, a, b, np.empty(len(k) + 1), state) for _ in range(4000)])
            grid = np.linspace(k.min() - 30 * b, k.max() + 30 * b, 200_001)
            density = np.exp(-np.sum(a[:, None] * np.abs(grid - k[:, None]), axis=0) / b)
            cdf = np.cumsum((density[1:] + density[:-1]) / 2)
            edges = np.interp(np.arange(1, 40) / 40, cdf / cdf[-1], grid[1:])
            counts = np.bincount(np.searchsorted(edges, draws), minlength=40)
            assert chi_square_pvalue(counts, np.full(40, 100.0)) > 1e-4


PAIRS = Invariants(Margins(frame_of(3, 3, 3), ["d0", "d1"], ["d0", "d2"], ["d1", "d2"]))
DEPENDENT = Invariants(LinearQuery(frame_of(4), [[1, 2, 0, 0], [2, 4, 0, 0], [0, 1, 1, 0]], ["a", "b", "c"]))


@pytest.mark.parametrize("invariants", [all_margins(2, 3, 4), PAIRS, DEPENDENT], ids=repr)
def test_basis_and_determinant_of_the_row_space(invariants):
    rows, all_rows = row_basis(invariants).toarray(), invariants.matrix.toarray()
    assert rows.shape == (invariants.rank, invariants.frame.size)
    assert np.linalg.matrix_rank(rows) == invariants.rank == np.linalg.matrix_rank(np.vstack([rows, all_rows]))
    assert log_gram(invariants) == pytest.approx(np.linalg.slogdet(rows @ rows.T)[1], rel=1e-12)
    (places, entries), w = rows_of_cells(invariants), np.random.default_rng(1).normal(size=invariants.rank)
    assert np.sum(w[places] * entries, axis=1) == pytest.approx(rows.T @ w, rel=1e-12)


def density(u, b, invariants):
    return ProjectedLaplace(b).logp(u, np.zeros(invariants.frame.shape), invariants)


class TestDensity:
    @pytest.mark.parametrize("d", [2, 5, 102])
    def test_one_total(self, d):
        invariants = Invariants(Totals(frame_of(d)))
        u = invariants.project(np.random.default_rng(d).laplace(size=d) * 2)
        expected = 0.5 * math.log(d) - d * math.log(2 * 1.7) + line_by_quadrature(u, np.ones(d), 1.7)
        assert density(u, 1.7, invariants) == pytest.approx(expected, rel=1e-12)

    def test_blocks_and_free_cells(self):
        # Sums of the three parts, each alone.
        invariants = Invariants(LinearQuery(frame_of(6), [[0, 1, 0, 1, 1, 0], [2, 0, 0, 0, 0, -1]], ["a", "b"]))
        u = invariants.project(np.random.default_rng(1).laplace(size=6) * 2)
        three, pair = np.array([1, 3, 4]), np.array([0, 5])
        expected = 0.5 * math.log(3) + line_by_quadrature(u[three], np.ones(3), 1.1)
        expected += 0.5 * math.log(5) + line_by_quadrature(u[pair], np.array([2.0, -1.0]), 1.1)
        expected += -abs(u[2]) / 1.1 - 6 * math.log(2.2)
        assert density(u, 1.1, invariants) == pytest.approx(expected, rel=1e-12)
        free = Invariants(None, frame_of(6))
        assert density(u, 0.6, free) == pytest.approx(-np.abs(u).sum() / 0.6 - 6 * math.log(1.2), rel=1e-12)
        # A total of one cell: its noise is zero, and the others are as without it.
        first = Invariants(LinearQuery(frame_of(3), [[3, 0, 0]], ["a"]))
        found = density(np.array([0.0, 1.0, -2.0]), 2.0, first)
        assert found == pytest.approx(-3.0 / 2.0 - 2 * math.log(4.0), rel=1e-14)

    def test_what_is_beyond_reach(self):
        with pytest.raises(NotImplementedError, match=r"6 cells hang together by invariants of rank 4.*RowSpaceNoise"):
            density(np.zeros((2, 3)), 1.0, all_margins(2, 3))
        with pytest.raises(NotImplementedError, match=r"3 cells hang together by invariants of rank 2"):
            density(np.zeros(3), 1.0, Invariants(LinearQuery(frame_of(3), [[1, 1, 1], [0, 1, 2]], ["a", "b"])))


@pytest.mark.parametrize("own", [all_margins(3, 4), Invariants(None, frame_of(3))], ids=repr)
def test_draws_have_the_variance_and_keep_the_sums(own):
    shape, law = own.frame.shape, ProjectedLaplace(2.0)
    noise = law.draw(np.random.default_rng(5), shape, 4000, own, location=np.full(shape, 10.0)) - 10.0
    assert np.max(np.abs(own.matrix @ noise.reshape(4000, -1).T), initial=0.0) < 1e-10
    basis, variance = own.from_coordinates(np.eye(own.dimension)), law.variance(shape, own)
    assert variance == pytest.approx(8.0 * np.sum(basis**2, axis=0), rel=1e-12)
    assert np.all(np.abs(noise.var(axis=0) / variance - 1) < 5 * math.sqrt(5 / 4000))  # kurtosis at most 6: below 1e-5
