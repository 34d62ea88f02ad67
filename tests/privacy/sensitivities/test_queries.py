"""Sensitivities of queries and of statistics, against all pairs of neighbours by dense algebra."""

from itertools import combinations, combinations_with_replacement, pairwise, product

import numpy as np
import pytest
import scipy.linalg

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.privacy import neighbour_differences, projected_sensitivity, query_sensitivity, split_budget
from bayesdp.privacy.sensitivities import statistics as s
from bayesdp.queries import Identity, LinearQuery, Margins, SumPart, Totals
from tests.lattices.oracles import labels
from tests.privacy.sensitivities.random_tables import random_sums, random_table
from tests.refusals import refused

CASES = tuple(product(("l1", "l2"), ("substitution", "add-remove")))
EITHER = pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])


def dense(query):
    """The matrix of a query, sums written out cell by cell."""
    rows = []
    for part in query.parts:
        if not isinstance(part, SumPart):
            rows.append(part.matrix.toarray().astype(float))
            continue
        kept = [
            tuple(
                label if level == dim else query.frame.group(level)[1][query.frame.labels_of(dim).index(label)]
                for dim, level, label in zip(query.frame.dims, part.levels, cell, strict=True)
                if level is not None
            )
            for cell in product(*query.frame.labels)
        ]
        rows.append(np.array([[float(own == answer) for own in kept] for answer in dict.fromkeys(kept)]))
    return np.concatenate(rows)


def noise_space(asked, fixed):
    """An orthonormal basis, as columns, of ``W null(A)``."""
    left, sizes, _ = scipy.linalg.svd(asked @ scipy.linalg.null_space(fixed), full_matrices=False)
    return np.asarray(left[:, sizes > 1e-9])


def helmert_basis(invariants):
    """The rule helmert-1 for a table, from its description: Gram-Schmidt on differences of neighbouring classes."""
    frame, parts = invariants.frame, invariants.query.parts
    axes = []
    for axis, size in enumerate(frame.shape):
        partitions = {tuple(part.codes[axis].tolist()) for part in parts if isinstance(part, SumPart)}
        levels = sorted(partitions | {(0,) * size, tuple(range(size))}, key=max)
        labels = sorted(range(size), key=lambda i, levels=levels: [code[i] for code in levels])
        found = [np.ones(size) / np.sqrt(size)]
        for coarse, fine in pairwise(levels):
            for parent in dict.fromkeys(coarse[i] for i in labels):
                classes = list(dict.fromkeys(fine[i] for i in labels if coarse[i] == parent))
                for one, other in pairwise(classes):
                    vector = np.array([(c == one) / fine.count(one) - (c == other) / fine.count(other) for c in fine])
                    for known in found:
                        vector = vector - known * (known @ vector)
                    found.append(vector / np.linalg.norm(vector))
        axes.append(np.stack(found, axis=1))
    full = axes[0]
    for own in axes[1:]:
        full = np.kron(full, own)
    fixed = dense(invariants.query)
    basis = full[:, np.abs(fixed @ full).max(axis=0) < 1e-9]
    assert basis.shape[1] == frame.size - np.linalg.matrix_rank(fixed)
    return np.asarray(basis)


def largest(columns, norm, neighbours):
    vectors = columns.T
    if neighbours == "substitution":
        vectors = (vectors[:, None] - vectors).reshape(len(vectors) ** 2, -1)
    return float(np.linalg.norm(vectors, 1 if norm == "l1" else 2, axis=1).max())


def compare(query, invariants):
    """Both sensitivities against all pairs of neighbours; whether the closed rule of coordinates was compared."""
    asked, free = dense(query), invariants.through(query)
    space = noise_space(asked, dense(invariants.query))
    assert space.shape[1] == free.dimension
    closed = free.dimension > 0 and query.is_identity and invariants.nested is not None
    for norm, neighbours in CASES:
        assert query_sensitivity(query, norm, neighbours) == pytest.approx(largest(asked, norm, neighbours))
        if norm == "l2" or not free.dimension:
            coordinates = space.T @ asked
        elif closed:
            coordinates = helmert_basis(invariants).T @ asked
        else:
            coordinates = free.coordinates(asked.T.reshape(-1, *free.frame.shape)).T
        found = projected_sensitivity(query, invariants, norm, neighbours)
        assert found == pytest.approx(largest(coordinates, norm, neighbours), abs=1e-9), (norm, neighbours)
    return closed


@pytest.mark.parametrize("nested", [True, False])
def test_sums_of_random_tables(nested):
    rng, closed = np.random.default_rng(20260101), 0
    for _ in range(40):
        frame, names = random_table(rng, nested=nested)
        invariants = Invariants(random_sums(rng, frame, names, 3))
        for query in (Identity(frame), random_sums(rng, frame, names, 1), random_sums(rng, frame, names, 3)):
            closed += compare(query, invariants)
    assert closed > (15 if nested else 3)


def test_general_integer_matrices_and_disjoint_totals_given_as_a_matrix_with_free_cells():
    rng = np.random.default_rng(7)
    for _ in range(20):
        frame = Frame.of({"cell": list(range(int(rng.integers(2, 9))))})
        rows = [rng.integers(-2, 4, size=(int(rng.integers(1, 5)), frame.size)) for _ in range(2)]
        query, fixed = (LinearQuery(frame, own, [f"q{i}" for i in range(len(own))]) for own in rows)
        for asked in (query + Totals(frame) if rng.random() < 0.3 else query, Identity(frame)):
            compare(asked, Invariants(fixed))
    frame = Frame.of({"cell": list(range(9))})
    for block in ([0, 0, 0, 1, 1, -1, -1, 0, 2], [0, 1, 2, 3, 4, 5, 6, 7, -1], [0, 0, 0, 0, 0, 0, 0, 0, 1]):
        rows = np.array([[int(b == k) for b in block] for k in range(max(block) + 1)])
        invariants = Invariants(LinearQuery(frame, rows, [f"t{i}" for i in range(len(rows))]))
        assert invariants.blocks is not None
        compare(Identity(frame), invariants)


def test_three_ways_of_grouping_that_cross_and_a_million_cells_under_two_way_margins():
    # The three ways of pairing up four labels: any two labels are together in exactly one of them.
    groups = {"one": "aabb", "two": "abab", "three": "abba"}
    frame = Frame.of({"cell": list(range(4)), **{name: ("cell", list(own)) for name, own in groups.items()}})
    for names, expected in ("one two three", 4.0), ("one two three cell", 6.0), ("one two", 4.0):
        assert query_sensitivity(Margins(frame, *([name] for name in names.split()))) == expected
    n = 1000
    query, margins = Identity(labels(n, n)), Margins(labels(n, n), ["a"], ["b"])
    # P = C x C with C = I - J/n; cells of one row are furthest apart: |C e|^2 |e - e'|^2. With l1, |Q^T e_ab|_1 is the product
    # of the lengths of two Helmert vectors; the first label has the longest.
    j = np.arange(1, n)
    longest = np.sum(1 / np.sqrt(j * (j + 1.0)))
    for norm, neighbours, expected in (
        ("l2", "substitution", np.sqrt(2 * (1 - 1 / n))), ("l2", "add-remove", 1 - 1 / n), ("l1", "add-remove", longest**2)
    ):  # fmt: skip
        assert projected_sensitivity(query, Invariants(margins), norm, neighbours) == pytest.approx(expected, rel=1e-12)
    assert query_sensitivity(query + margins + Totals(query.frame)) == 6.0


def up_to_sign(vectors):
    return {frozenset((tuple(np.round(v, 6) + 0.0), tuple(np.round(-v, 6) + 0.0))) for v in vectors}


@EITHER
def test_neighbour_differences_are_all_of_them_once(neighbours):
    rng = np.random.default_rng(11)
    frame = Frame.of({"a": range(3), "b": range(4), "pair": ("b", list("xxyy"))})
    matrix = rng.integers(-1, 3, size=(3, 12))
    matrix[:, 5] = matrix[:, 2]
    weighted = LinearQuery(frame, rng.integers(0, 2, (2, 12)), ["s", "t"])
    queries = [Identity(frame), Margins(frame, ["a"], ["b"]), LinearQuery(frame, matrix, list("pqr"))]
    for invariants in map(Invariants, (Margins(frame, ["a"], ["pair"]), Totals(frame), weighted)):
        for query in queries:
            free = invariants.through(query)
            if not free.dimension:
                continue
            images = free.coordinates(dense(query).T.reshape(-1, *free.frame.shape))
            apart = np.array([p - q for p, q in combinations(images, 2)])
            every = up_to_sign(images if neighbours == "add-remove" else apart)
            expected = {own for own in every if len(own) == 2}
            found = neighbour_differences(query, invariants, neighbours)
            assert found.shape == (len(expected), free.dimension)
            assert up_to_sign(found) == expected


def pairs(n, grid, neighbours):
    """Neighbouring data sets as multisets, of which one has n records."""
    for rest in combinations_with_replacement(grid, n - 1):
        for x in grid:
            if neighbours == "add-remove":
                yield (*rest, x), rest
            else:
                yield from (((*rest, x), (*rest, other)) for other in grid)
    if neighbours == "add-remove":
        yield from (((*data, x), data) for data in combinations_with_replacement(grid, n) for x in grid)


def extremes(n, grid, neighbours, statistic):
    """The smallest and the largest value over all data sets that have n records, or are neighbours of such, and the largest change."""
    found = [(statistic(a), statistic(b)) for a, b in pairs(n, grid, neighbours)]
    change = max(float(np.sum(np.abs(a - b))) for a, b in found)
    return float(np.min(found)), float(np.max(found)), change


@EITHER
@pytest.mark.parametrize("n", [3, 4])
def test_mean_and_variance(n, neighbours):
    grid = (0.0, 0.25, 0.5, 1.0)
    found = s.mean_sensitivity(n, (0.0, 1.0), neighbours)
    assert extremes(n, grid, neighbours, np.mean)[2] == pytest.approx(found.l1)
    for ddof in (0, 1):
        own = s.variance_sensitivity(n, (0.0, 1.0), neighbours, ddof=ddof)
        found = extremes(n, grid, neighbours, lambda x, d=ddof: np.var(x, ddof=d))
        assert found == pytest.approx((*own.bounds, own.l1))
        assert own.bounds[0] == 0.0
    scaled = s.variance_sensitivity(n, (-2.0, 3.0), neighbours)
    assert scaled.l1 == pytest.approx(25 * s.variance_sensitivity(n, (0.0, 1.0), neighbours).l1)


@EITHER
@pytest.mark.parametrize(("n", "ddof"), [(3, 1), (4, 0)])
def test_covariance(n, ddof, neighbours):
    grid = tuple((x, y) for x in (0.0, 1.0) for y in (0.0, 0.5, 1.0))
    own = s.covariance_sensitivity(n, (0.0, 1.0), (0.0, 1.0), neighbours, ddof=ddof)

    def covariance(data):
        x, y = np.asarray(data).T
        return float(np.sum((x - x.mean()) * (y - y.mean())) / (len(x) - ddof))

    assert extremes(n, grid, neighbours, covariance) == pytest.approx((*own.bounds, own.l1))


def test_bounds_of_variances_hold_for_neighbours_of_an_odd_number_of_records():
    """51 records: half of 50 at each bound have a larger variance than any 51 can have."""
    half = np.repeat([0.0, 1.0], 25)
    assert np.var(half, ddof=1) == pytest.approx(0.25510, abs=5e-6)
    for n in (49, 50, 51):
        low, high = s.variance_sensitivity(n, (0.0, 1.0), "add-remove").bounds
        assert low == 0.0 <= np.var(half, ddof=1) <= high * (1 + 1e-12)
        assert s.covariance_sensitivity(n, (0.0, 1.0), (0.0, 1.0), "add-remove").bounds == (-high, high)
    assert s.variance_sensitivity(51, (0.0, 1.0)).bounds[1] == pytest.approx(0.25490, abs=5e-6)


@EITHER
@pytest.mark.parametrize("n", [2, 3])
def test_proportions(n, neighbours):
    own, every = s.proportion_sensitivity(n, 3, neighbours), [*pairs(n, (0, 1, 2), neighbours)]
    counts = np.array([[np.bincount(x, minlength=3) for x in pair] for pair in every])
    change = np.abs(np.diff(counts / counts.sum(axis=2, keepdims=True), axis=1))
    assert (change.sum(axis=2).max(), change.max()) == pytest.approx((own.l1, own.largest))
    assert own.statistics == 3
    if neighbours == "substitution":
        assert np.count_nonzero(counts[:, 0] - counts[:, 1], axis=1).max() == own.changed == 2
    single = s.proportion_sensitivity(n, neighbours=neighbours)
    assert extremes(n, (0.0, 1.0), neighbours, np.mean)[2] == pytest.approx(single.l1)


def test_budgets_add_up_and_entries_are_in_the_order_of_the_sums():
    assert 1.0 - 1e-15 <= sum(split_budget(1.0, 3)) <= 1.0
    assert split_budget(0.3, [0.1, 0.2]) == (0.1, 0.2)
    # Of x, y, then x^2, x y, y^2.
    assert s.moment_sums_sensitivity((2.0, 5.0), intercept=True).largest == (4.0, 10.0, 4.0, 20.0, 25.0)


MOMENTS = [((1.0, 1.0), False), ((2.0, 1.0), False), ((10.0, 0.3), False), ((1.0, 2.0, 3.0), False), ((1.5,), True),
         ((1.0, 1.0), True), ((0.1, 4.0), True), ((2.0, 1.0, 3.0), True)]  # fmt: skip


def changes(pairs, bounds, intercept):
    """What one record in the place of another changes the sums by, shape (k, 2, values) to (k, sums), written out by hand."""
    records = pairs * bounds
    if intercept:
        records = np.concatenate([np.ones((*records.shape[:-1], 1)), records], axis=-1)
    first, second = np.triu_indices(records.shape[-1])
    products = records[..., first] * records[..., second]
    return (products[:, 0] - products[:, 1])[:, int(intercept) :]  # the constant is the same for both


def farthest(bounds, intercept, order):
    """The largest norm of a change: random pairs, vertices and centres, the best 20 improved by ever smaller steps."""
    rng = np.random.default_rng(3)
    shape = (2, len(bounds))
    pairs = np.concatenate([rng.uniform(-1, 1, (4000, *shape)), rng.choice([-1.0, -0.4, 0.0, 1.0], (4000, *shape))])
    for step in 0.5 * 0.8 ** np.arange(60):
        sizes = np.linalg.norm(changes(pairs, bounds, intercept), order, axis=1)
        best = pairs[np.argsort(sizes)[-20:]]
        near = np.repeat(best, 60, axis=0)
        pairs = np.concatenate([best, np.clip(near + step * rng.normal(size=near.shape), -1.0, 1.0)])
    return float(sizes.max())


@pytest.mark.parametrize(("limits", "intercept"), MOMENTS)
def test_the_stated_numbers_are_those_of_the_farthest_pair(limits, intercept):
    bounds = np.array(limits)
    stated = s.moment_sums_sensitivity(limits, intercept=intercept)
    l1, l2, linf = (farthest(bounds, intercept, order) for order in (1, 2, np.inf))
    m = len(bounds)
    if not intercept or np.min(bounds) >= 1 / (m + 1):
        assert stated.l1 == pytest.approx(l1, rel=1e-6)  # attained
    else:
        assert l1 <= stated.l1 * (1 + 1e-12) <= 1.02 * l1
    assert max(stated.largest) == pytest.approx(linf, rel=1e-6)
    assert l2 <= stated.l2 * (1 + 1e-12) <= 1.3 * l2
    rng = np.random.default_rng(4)
    found = np.abs(changes(rng.uniform(-1, 1, (5000, 2, m)), bounds, intercept))
    assert np.all(found <= np.array(stated.largest) * (1 + 1e-12))
    # Records may change places between groups: two of them at once.
    both = s.moment_sums_sensitivity(limits, intercept=intercept, records=2)
    assert (both.l1, both.l2) == (pytest.approx(2 * stated.l1), pytest.approx(2 * stated.l2))


CELLS, LARGE = Frame.of({"cell": range(3)}), Frame.of({"cell": range(3100)})
TOTAL = Invariants(Totals(CELLS))
SQUARES = LinearQuery(LARGE, [np.arange(3100), np.arange(3100) ** 2 % 3109], ["x", "y"])


def test_one_number_a_cell_or_few_in_the_l1_norm_take_no_pairs():
    assert query_sensitivity(LinearQuery(LARGE, [np.arange(3100)], ["x"]), "l2") == 3099.0
    u, v = dense(SQUARES)
    assert query_sensitivity(SQUARES, "l1") == max(np.ptp(u + v), np.ptp(u - v))  # the corners of the ball


test_bad_arguments_are_named = refused(
    (lambda: query_sensitivity(SQUARES, "l2"), "3100 of them"),
    (lambda: neighbour_differences(Identity(LARGE), Invariants(Totals(LARGE))), "more than 20000000 numbers"),
    (lambda: query_sensitivity(Identity(CELLS), "l3"), "norm must be one of 'l1', 'l2'"),
    (lambda: projected_sensitivity(Identity(CELLS), TOTAL, neighbours="bounded"), "must be one of 'substitution', 'add-remove'"),
    (lambda: query_sensitivity([1, 2]), "query must be"),
    (lambda: projected_sensitivity(Identity(CELLS), Totals(CELLS)), "must be an Invariants"),
    (lambda: projected_sensitivity(Identity({"other": range(3)}), TOTAL), "must be about the table"),
    (lambda: split_budget(1.0, [0.5, 0.4]), r"parts must add up to epsilon = 1.0, but .* add up to"),
    (lambda: split_budget(1.0, [0.5, 0.6]), "parts must add up"),
    (lambda: split_budget(1.0, []), "parts must add up"),
    (lambda: split_budget(1.0, [1.5, -0.5]), r"parts\[1\] must be a finite number greater than 0"),
    (lambda: split_budget(1.0, "half"), "parts must be a number of parts"),
    (lambda: s.mean_sensitivity(10, (1.0, 0.0)), "lower one first, got 1.0 and 0.0"),
    (lambda: s.mean_sensitivity(10, (1.0, np.inf)), "data_bounds must be finite"),
    (lambda: s.mean_sensitivity(0, (0.0, 1.0)), "n must be an integer greater than 0"),
    (lambda: s.mean_sensitivity(1, (0.0, 1.0), "add-remove"), "n must be at least 2"),
    (lambda: s.variance_sensitivity(2, (0, 1), "add-remove"), "n must be at least 3"),
    (lambda: s.variance_sensitivity(5, (0, 1), ddof=2), "ddof must be 0 or 1, got 2"),
    (lambda: s.variance_sensitivity(5, 1.0), "data_bounds must be a pair"),
    (lambda: s.proportion_sensitivity(5, neighbours="swap"), "neighbours must be one of"),
    *((lambda own=own: s.moment_sums_sensitivity(own), "bounds") for own in ((), (0.0, 1.0), (np.inf, 1.0), ((1.0, 2.0),))),
    (lambda: s.moment_sums_sensitivity((1.0,), records=0), "records"),
)  # fmt: skip
