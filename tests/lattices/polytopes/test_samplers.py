"""Draws of K-norm noise: radii are gamma variables, directions and moments as the geometry says."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import gamma, ks_2samp, kstest

from bayesdp._numba import seed_state
from bayesdp.invariants import Invariants
from bayesdp.lattices.polytopes import SymmetricHull, choose_hull_sampler, sample_hull, sensitivity_hull
from bayesdp.lattices.polytopes.base import draw_cones
from bayesdp.lattices.polytopes.samplers import draw_cube, draw_hit_and_run, envelope_of
from bayesdp.lattices.polytopes.sensitivity import _set_variances, proposal_for
from bayesdp.lattices.two_way import draw_two_way, two_way
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.comparison.chi_square import chi_square_pvalue
from tests.lattices.polytopes.examples import Programs, both_margins, moves, substitutions

HEXAGON = np.array([[1.0, 0.0], [0.7, 0.9], [-0.5, 1.1]])
LEVEL = 1e-5  # every test below makes at most 40 comparisons at this level


def draws_of(sampler, hull, epsilon, size, invariants):
    rng = np.random.default_rng(7)
    if sampler == "cones":
        return draw_cones(hull.vertices, hull.boundary, epsilon, rng, size)
    if sampler == "envelope":
        return envelope_of(hull, invariants).draw(epsilon, rng, size)
    if sampler == "algorithm-3":
        return draw_cube(hull, epsilon, rng, size)
    chains = sampler == "chains"
    return draw_hit_and_run(Programs(hull.vertices) if chains else hull, epsilon, rng, size, 10 if chains else 20)


def sensitivity(rows, columns, adjacency):
    invariants = both_margins(rows, columns)
    return invariants, sensitivity_hull(invariants, adjacency).vertices


def all_substitutions(rows, columns):
    """Differences of any two cells, as both margins see them."""
    invariants = both_margins(rows, columns)
    units = invariants.coordinates(np.eye(rows * columns).reshape(-1, rows, columns))
    return invariants, np.array([one - other for one, other in combinations(units, 2)])


CASES = [
    ("cones", moves(3, 3)),
    ("hit-and-run", moves(3, 3)),
    ("envelope", substitutions(5)),
    ("envelope", moves(3, 4)),
    ("envelope", moves(4, 3)),
    # Stretched, so that l1 noise is far from it.
    ("envelope", (substitutions(5)[0], substitutions(5)[1] * [1.0, 0.3, 1.0, 0.3])),
    ("hit-and-run", (substitutions(4)[0], substitutions(4)[1] * [1.0, 0.2, 5.0])),
    # With the 3-cycles, for which triangulation, envelope and cube know nothing of one another.
    ("cones", sensitivity(3, 3, 3)),
    ("envelope", sensitivity(3, 3, 3)),
    ("algorithm-3", sensitivity(3, 3, 3)),
    ("chains", all_substitutions(2, 3)),
]


@pytest.mark.parametrize(("sampler", "case"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_radii_and_second_moments(sampler, case):
    invariants, vertices = case
    hull, epsilon = SymmetricHull(vertices), 0.7
    size = 300 if sampler in ("chains", "hit-and-run") else 10_000
    draws = draws_of(sampler, hull, epsilon, size, invariants)
    assert draws.shape == (size, hull.dimension)
    # Radii: gamma of shape n and rate epsilon, whatever K.
    assert kstest(hull.gauge(draws), gamma(hull.dimension, scale=1 / epsilon).cdf).pvalue > LEVEL
    # Second moments of the triangulation; 5.3 standard errors are a level below 1e-5 for at most 28 products.
    expected, products = hull.second_moment / epsilon**2, draws[:, :, None] * draws[:, None, :]
    error = products.std(axis=0) / np.sqrt(size)
    assert np.max(np.abs(products.mean(axis=0) - expected) / error) < 5.3
    assert np.max(np.abs(draws.mean(axis=0)) / draws.std(axis=0)) < 5.3 / np.sqrt(size)


@pytest.mark.parametrize("sampler", ["cones", "hit-and-run"])
def test_directions_in_the_plane(sampler):
    # The probability of a sector is its share of the area of K: by quadrature of radius**2, by linear programs, not by facets.
    angles = np.linspace(0, 2 * np.pi, 601)
    rays = np.column_stack([np.cos(angles), np.sin(angles)])
    density = Programs(HEXAGON).gauge(rays) ** -2.0
    area = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1])))
    size = 10_000 if sampler == "cones" else 500
    draws = draws_of(sampler, SymmetricHull(HEXAGON), 2.0, size, None)
    turned = np.arctan2(draws[:, 1], draws[:, 0]) % (2 * np.pi)
    counts = np.histogram(turned, angles[::25])[0]
    assert chi_square_pvalue(counts, np.diff(area[::25]) / area[-1] * size) > LEVEL


def test_l1_proposals_of_blocks():
    rows = np.zeros((3, 9), dtype=int)  # two totals of different sizes, a cell alone in its total, and free cells
    rows[0, [0, 3, 5]], rows[1, [1, 2, 6, 7]], rows[2, 4] = 1, 1, 1
    invariants = Invariants(LinearQuery({"cell": range(9)}, rows, ["first", "second", "alone"]))
    size, rate = 20_000, 1.3
    draws = proposal_for(invariants).draw(rate, np.random.default_rng(1), size)
    assert np.max(np.abs(invariants.matrix @ draws.T)) < 1e-10
    assert np.all(draws[:, 4] == 0)
    for cells in ([0, 3, 5], [1, 2, 6, 7]):
        length = np.abs(draws[:, cells]).sum(axis=1)
        # In R**(m-1) with density exp(-rate l1 norm): the norm is a gamma variable of shape m - 1.
        assert kstest(length, gamma(len(cells) - 1, scale=1 / rate).cdf).pvalue > LEVEL
        m = len(cells)
        expected = (2 * m - 1) * (m - 1) / (rate**2 * (m + 1) * m)  # variance of a cell: s (D - D')
        assert draws[:, cells].var(axis=0) == pytest.approx(np.full(m, expected), rel=0.08)
    assert kstest(draws[:, 8] * rate, "laplace").pvalue > LEVEL
    assert abs(np.corrcoef(np.abs(draws[:, [0, 1, 8]]).T)[np.triu_indices(3, 1)]).max() < 4.5 / np.sqrt(size)


def l1_ball(rows, columns):
    """The l1 ball of tables with zero margins: the hull of the 2 x 2 moves and the 3-cycles, each of length 1."""
    invariants, steps = sensitivity(rows, columns, 3)
    return invariants, SymmetricHull(steps / np.abs(invariants.from_coordinates(steps)).sum(axis=(1, 2))[:, None])


def excess(tables, slopes, rate):
    """How far draws are from ``E[rate (slope along m) tanh(m @ z)] = E[m @ m / cosh(m @ z)**2]``, in standard errors.

    The means are over all 2 x 2 moves m. By integration by parts it is zero for a density proportional to ``exp(-rate norm(z))`` with
    `slopes` the gradient of the norm: this checks laws of directions at sizes for which no moments are known.
    """
    moved, slope = (along_moves(tables), along_moves(slopes))
    found = (rate * slope * np.tanh(moved) - 4.0 / np.cosh(moved) ** 2).mean(axis=(1, 2))
    return abs(found.mean()) / found.std() * np.sqrt(len(found))


def along_moves(tables):
    for axis in (1, 2):
        first, second = np.triu_indices(tables.shape[axis], 1)
        tables = np.take(tables, first, axis) - np.take(tables, second, axis)
    return tables


@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (3, 4), (5, 5), (7, 4), (10, 10)])
def test_l1_proposals_of_tables(shape):
    invariants, size, rate = both_margins(*shape), 10_000, 0.6
    draws = proposal_for(invariants).draw(rate, np.random.default_rng(2), size)
    assert np.max(np.abs(invariants.matrix @ draws.T)) < 1e-10
    length = np.abs(draws).sum(axis=1)
    assert kstest(length, gamma(invariants.dimension, scale=1 / rate).cdf).pvalue > LEVEL
    deviations = (draws**2).mean(axis=0) / (draws**2).mean() - 1  # cells are exchangeable
    assert np.max(np.abs(deviations)) < 5 * np.std(draws**2) / np.mean(draws**2) / np.sqrt(size)
    tables = draws[:2000].reshape(-1, *shape)
    assert excess(tables, np.sign(tables), rate) < 4.5
    if shape == (3, 4):  # the triangulation of their ball gives the second moments in closed form
        points, ball = invariants.coordinates(draws.reshape(-1, 3, 4)), l1_ball(3, 4)[1]
        assert ball.gauge(points) == pytest.approx(length, rel=1e-10)
        products = points[:, :, None] * points[:, None, :]
        error = products.std(axis=0) / np.sqrt(size)
        assert np.max(np.abs(products.mean(axis=0) - ball.second_moment / rate**2) / error) < 5.3


def log_trees(t):
    """Logarithm of ``det(A diag(t) A^T)`` for tables of weights, A the margins but one, shape (..., rows, columns)."""
    rows, columns = t.shape[-2:]
    margins = np.vstack([np.kron(np.eye(rows), np.ones(columns)), np.kron(np.ones(rows), np.eye(columns)[:-1])])
    return np.linalg.slogdet((margins * t.reshape(*t.shape[:-2], 1, -1)) @ margins.T)[1]


def concavity(t):
    """What ``log D`` of a table is above what it is by halves of its rows."""
    half = t.shape[1] // 2
    whole, first, second = (
        log_trees(2 * own) - np.log(2 * own.sum(axis=2)).sum(axis=1) for own in (t, t[:, :half], t[:, half:])
    )
    return whole - (t.shape[2] - 1) * np.log(2.0) - half / t.shape[1] * first - (1 - half / t.shape[1]) * second


@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (3, 3), (5, 3)])
def test_variances_of_proposals_by_weights(rows, columns):
    # Density exp(-sum t) det(A diag(t) A^T)**(-1/2): the same means as of exponential variables with that weight.
    size, rng = 60_000, np.random.default_rng(4)
    draws, state, graph = np.empty((size, rows, columns)), seed_state(rng), np.empty((columns, columns))
    logs = np.array([_set_variances(state, rows, draw, graph) for draw in draws])
    assert logs[:99] == pytest.approx((log_trees(draws) - np.log(draws.sum(axis=2)).sum(axis=1))[:99], rel=1e-9)
    free = rng.standard_exponential((5 * size, rows, columns))
    weights = np.exp(-0.5 * log_trees(free))
    for statistic in (log_trees, concavity, lambda t: concavity(t[:, :2]), lambda t: np.log(t.sum(axis=2)).max(axis=1)):
        own, other = statistic(draws), statistic(free)
        mean = np.average(other, weights=weights)
        error = np.hypot(own.std() / np.sqrt(size), np.linalg.norm(weights * (other - mean)) / weights.sum())
        assert abs(own.mean() - mean) < 4.5 * error


def test_l1_proposals_of_tables_are_fine_grained_integer_noise():
    # Another sampler of another law, row by row, which is this one for small rates.
    size, rate, rng = 1500, 0.03, np.random.default_rng(3)
    integers = draw_two_way(two_way(6, 6, rate), rng, size)[0]
    integers = rate * (integers + rng.uniform(-0.5, 0.5, integers.shape))  # or some products would be 0
    draws = proposal_for(both_margins(6, 6)).draw(1.0, np.random.default_rng(3), 4 * size).reshape(-1, 6, 6)
    for statistic in (
        lambda z: np.sum(z**4, axis=(1, 2)),
        lambda z: np.max(np.abs(z), axis=(1, 2)),
        lambda z: np.sum(np.abs(z), axis=2).min(axis=1),
        lambda z: np.sum(np.abs(z), axis=1).max(axis=1),
        lambda z: z[:, 0, 0] * z[:, 1, 1] * z[:, 0, 1] * z[:, 1, 0],
    ):
        assert ks_2samp(statistic(draws), statistic(integers)).pvalue > LEVEL


def test_the_sampler_is_chosen_by_what_is_known():
    invariants, vertices = moves(3, 3)
    assert choose_hull_sampler(SymmetricHull(vertices), invariants).name == "cones"
    program = Programs(vertices)
    assert choose_hull_sampler(program, invariants).name == "envelope"
    assert choose_hull_sampler(program).name == "hit-and-run"
    # One record comes or goes, 60 cells with a fixed total: l1 noise has hardly anything in common with the hull.
    many = Invariants(Totals({"cell": range(60)}))
    assert choose_hull_sampler(SymmetricHull(many.coordinates(np.eye(60))), many).name == "hit-and-run"
    forced = choose_hull_sampler(SymmetricHull(vertices), invariants, "mcmc", 12)
    assert (forced.exact, forced.name, forced.sweeps) == (False, "hit-and-run", 12)
    assert "12 sweeps, convergence not certified" in forced.words
    cube = choose_hull_sampler(program, invariants, "algorithm-3")
    assert (cube.exact, cube.name) == (True, "algorithm-3")
    # A table with both margins is known by its null space, in whatever form they are stated.
    frame = {"row": range(3), "column": range(4)}
    margins = Margins(frame, ["row"], ["column"])
    assert proposal_for(Invariants(LinearQuery(frame, margins.matrix.toarray(), margins.names))).table == (3, 4)
    flat = Invariants(Margins({"row": range(3), "one": ["only"], "column": range(4)}, ["row"], ["column"]))
    assert proposal_for(flat).table == (3, 4)
    assert proposal_for(Invariants(Margins({"a": range(2), "b": range(2), "c": range(2)}, ["a"], ["b"]))) is None
    with pytest.raises(NotImplementedError, match=r"no exact sampler is known for .*method='mcmc' draws approximately"):
        choose_hull_sampler(program, method="exact")
    with pytest.raises(ValueError, match="of dimension 6, but it has dimension 4"):
        choose_hull_sampler(program, both_margins(3, 4))
    with pytest.raises(ValueError, match="method must be one of"):
        sample_hull(program, 1.0, np.random.default_rng(1), 1, invariants, "gibbs")
    with pytest.raises(ValueError, match="sweeps must be an integer greater than 0"):
        choose_hull_sampler(program, invariants, "mcmc", 0)


@pytest.mark.parametrize(("size", "adjacency"), [(5, 3), (7, 2), (10, 2), (10, 3)])
def test_beyond_the_triangulation(size, adjacency):
    # Radii, directions, and zero margins; that the gauge is right is shown elsewhere. How fast is in benchmarks/.
    invariants = both_margins(size, size)
    hull = sensitivity_hull(invariants, adjacency)
    sampler = choose_hull_sampler(hull, invariants)
    assert (sampler.exact, sampler.name) == (True, "envelope")
    assert 0.1 < sampler.acceptance < 1.0
    draws = sample_hull(hull, 1.5, np.random.default_rng(4), 200, invariants)
    assert kstest(hull.gauge(draws), gamma(hull.dimension, scale=1 / 1.5).cdf).pvalue > LEVEL
    tables, slopes = (
        invariants.from_coordinates(points) for points in (draws, np.array([hull.subgradient(z)[1] for z in draws]))
    )
    assert excess(tables, slopes, 1.5) < 4.5
    assert np.max(np.abs(invariants.matrix @ tables.reshape(len(draws), -1).T)) < 1e-9


def test_acceptance_is_the_share_of_the_volume():
    invariants, ball = l1_ball(3, 3)
    for adjacency, reach in [(2, 4), (3, 6)]:
        vertices = sensitivity(3, 3, adjacency)[1]
        envelope = envelope_of(SymmetricHull(vertices), invariants)
        assert envelope.reach == pytest.approx(reach, rel=1e-12)
        share = np.exp(SymmetricHull(vertices).log_cone_mass - ball.log_cone_mass - 4 * np.log(reach))
        # 64 draws of a number in [0, 1]: five standard errors are at most 0.31.
        assert envelope.acceptance == pytest.approx(share, abs=0.2)
