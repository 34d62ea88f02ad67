"""Lengths of the differences that are kept, for whatever answers and for those of a fiber, against all pairs of tables."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

import bayesdp as bdp
from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import enumerate_fiber
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact
from bayesdp.mechanisms import k_norm
from bayesdp.privacy import DIFFERENCES, SensitivitySpace, gaussian_delta
from bayesdp.privacy.sensitivities import kept as module
from bayesdp.privacy.sensitivities import space
from bayesdp.privacy.sensitivities.kept import difference_lengths
from bayesdp.privacy.sensitivities.norms import DifferenceNorm
from bayesdp.privacy.sensitivities.space import realised_lengths
from bayesdp.privacy.words import BOUNDS
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.oracles import labels
from tests.privacy.sensitivities.databases import changes_by_pairs, fiber_of, weighted
from tests.privacy.sensitivities.random_tables import random_sums, random_table

MOVE, CYCLE = DIFFERENCES["2x2 move"], DIFFERENCES["3-cycle"]
GAUSSIAN = (bdp.ProjectedGaussian, bdp.ExtendedGaussian, bdp.CorrelatedGaussian)
PURE = (bdp.ProjectedLaplace, bdp.ExtendedLaplace, bdp.KNorm)
EVERY_KIND = pytest.mark.parametrize("kind", [*GAUSSIAN, *PURE])
COUNTIES = {"county": list(range(4)), "state": ("county", ["N", "N", "S", "S"]), "sex": ["f", "m", "x"]}
GROUPED = {
    "county": list(range(4)),
    "state": ("county", list("NSNN")),
    "sex": list("fmxy"),
    "kind": ("sex", list("ppqq")),
}
CUBE = labels(2, 3, 2)


@functools.cache
def kept(invariants, l1):
    """All kept differences of this l1 norm, by trying all labels: 3-cycles, or exchanges in blocks of dimensions."""
    shape, found = invariants.frame.shape, set()
    blocks = 2 if l1 == 6 else round(math.log2(l1))

    def add(split, signed):
        z = np.zeros(shape, dtype=np.int64)
        for sign, chosen in signed:
            where = dict(zip(itertools.chain(*split), itertools.chain(*chosen), strict=True))
            z[tuple(where[d] for d in range(len(shape)))] += sign
        found.add(tuple(z.ravel().tolist()))

    for own in itertools.product(range(blocks), repeat=len(shape)):
        if set(own) != set(range(blocks)):
            continue
        split = [[d for d in range(len(shape)) if own[d] == b] for b in range(blocks)]
        combos = [list(itertools.product(*(range(shape[d]) for d in block))) for block in split]
        if l1 == 6:
            for a, c in itertools.product(itertools.combinations(combos[0], 3), itertools.permutations(combos[1], 3)):
                add(split, [(1 - 2 * k, (a[i], c[(i + k) % 3])) for i in range(3) for k in (0, 1)])
        else:
            for pairs in itertools.product(*(itertools.combinations(own, 2) for own in combos)):
                ends = itertools.product(range(2), repeat=blocks)
                add(split, [((-1) ** sum(e), [pair[i] for pair, i in zip(pairs, e, strict=True)]) for e in ends])
    vectors = np.array(sorted(found), dtype=np.int64).reshape(-1, invariants.frame.size)
    return vectors[~np.any(vectors @ invariants.matrix.toarray().T, axis=1)]


def lengths(mechanism, vectors):
    """How far each difference moves the answers, in the norm of the mechanism, by dense algebra."""
    moved = vectors @ mechanism.released_query.matrix.toarray().T
    relations = mechanism.answer_invariants
    if isinstance(mechanism, bdp.ProjectedLaplace):
        return np.abs(moved).sum(axis=1)
    own = relations.coordinates(moved.reshape(-1, *relations.frame.shape))
    if isinstance(mechanism, bdp.ExtendedLaplace):
        return np.abs(own).sum(axis=1)
    if isinstance(mechanism, bdp.CorrelatedGaussian):
        scale = mechanism._scale_for(1.0) ** 2
        return np.sqrt(np.einsum("ij,jk,ik->i", own, np.linalg.inv(mechanism.covariance / scale), own))
    if isinstance(mechanism, bdp.KNorm):
        different = np.unique(np.round(np.concatenate([own, -own]), 9), axis=0)
        both = np.concatenate([mechanism.law.vertices, -mechanism.law.vertices]).T
        # The norm K as a linear program of its own.
        program = functools.partial(linprog, np.ones(both.shape[1]), A_eq=both, method="highs")
        return np.array([program(b_eq=point).fun for point in different[len(different) // 2 :]])
    return np.linalg.norm(own, axis=1)


def at_random(frame, seed, rows=5):
    own = bdp.Frame.of(frame)
    matrix = np.random.default_rng(seed).integers(-2, 4, size=(rows, own.size))
    return bdp.LinearQuery(own, matrix, [f"row {i}" for i in range(rows)])


BOTH = bdp.Margins(labels(3, 3), ["a"], ["b"])
PAIRS = bdp.Margins(CUBE, ["a", "b"], ["b", "c"], ["a", "c"])
STATES = bdp.Totals(COUNTIES, by=["state"]) + bdp.Margins(COUNTIES, ["sex"])
CROSSED = bdp.Totals(GROUPED, by=["state", "kind"]) + bdp.Margins(GROUPED, ["county"], ["sex"])
CASES = [
    (BOTH, None),
    (BOTH, bdp.Identity(labels(3, 3)) + at_random(labels(3, 3), 3, 2)),
    (bdp.Margins(CUBE, ["a"], ["b"], ["c"]), bdp.Margins(CUBE, ["a", "b"], ["b", "c"], ["c"])),
    (PAIRS, at_random(CUBE, 4, 4)),
    (bdp.Totals(CUBE), bdp.Margins(CUBE, ["b"], ["a", "c"])),
    (bdp.Margins(COUNTIES, ["county"], ["sex"]), bdp.Totals(COUNTIES, by=["state", "sex"])),
    (STATES, at_random(COUNTIES, 6, 4)),
    (CROSSED, None),
    (CROSSED, bdp.Identity(GROUPED) + bdp.Totals(GROUPED, by=["state", "sex"])),
]


@EVERY_KIND
@pytest.mark.parametrize(("invariants", "query"), CASES)
def test_the_largest_loss_of_all_conforming_pairs(kind, invariants, query):
    loss = {"epsilon": 0.8, "delta": 1e-3} if kind in GAUSSIAN else {"epsilon": 0.8}
    mechanism = kind(invariants, query=query, neighbours="add-remove", **loss)
    assert mechanism.differences
    for difference in mechanism.differences:
        [row] = [own for own in mechanism.guarantee.pairs if own.relation.startswith(difference.relation)]
        longest = lengths(mechanism, kept(mechanism.invariants, difference.l1)).max()
        assert not row.relation.endswith(BOUNDS["upper"])  # all of them are small enough to be compared
        assert row.size == pytest.approx(longest, rel=1e-7, abs=1e-12)
        if kind in PURE:
            step = 1.0 if kind is bdp.KNorm else mechanism.b * 0.8
            assert row.loss["epsilon"] == pytest.approx(0.8 * longest / step, rel=1e-7, abs=1e-12)
        else:
            scale = mechanism._scale_for(1.0) if kind is bdp.CorrelatedGaussian else mechanism.sigma
            assert row.loss["mu"] == pytest.approx(longest / scale, rel=1e-7, abs=1e-12)
            if longest:
                # What the worst of them attains at the stated epsilon is the stated delta.
                assert gaussian_delta(row.loss["epsilon"], 1.0, longest / scale) == pytest.approx(1e-3, rel=1e-4)


@EVERY_KIND
@pytest.mark.parametrize("invariants", [CROSSED, STATES])
@pytest.mark.parametrize("moves_are_listed", [True, False])
def test_what_is_not_compared_is_bounded_and_said_to_be(kind, invariants, moves_are_listed, monkeypatch):
    query = at_random(invariants.frame, 11, 3)
    monkeypatch.setattr(module, "count_cycles", lambda nested: 10**12)
    if not moves_are_listed:
        monkeypatch.setattr(module, "_WORK", 0)
        monkeypatch.setattr(module, "MOST_CELLS", 1)
        monkeypatch.setattr(k_norm, "_MEASURED", 0)
    loss = {"mu": 0.7} if kind in GAUSSIAN else {"epsilon": 0.7}
    for neighbours in ("substitution", "add-remove"):
        mechanism = kind(invariants, query=query, neighbours=neighbours, **loss)
        guarantee = mechanism.guarantee
        bounded = sum(own.relation.endswith(BOUNDS["upper"]) for own in guarantee.pairs)
        assert bounded == sum(d == CYCLE or not moves_are_listed for d in mechanism.differences)
        assert ("upper bound, not all such pairs were compared" in " ".join(str(guarantee).split())) == (bounded > 0)
        for difference in mechanism.differences:
            [row] = [own for own in guarantee.pairs if own.relation.startswith(difference.relation)]
            assert row.size >= lengths(mechanism, kept(mechanism.invariants, difference.l1)).max() * (1 - 1e-9)


def test_a_cycle_is_bounded_by_two_moves_only_where_it_is_two_moves(monkeypatch):
    """With both margins a 3-cycle is two kept moves. Where a group total keeps other cycles too, it is three steps."""
    monkeypatch.setattr(module, "count_cycles", lambda nested: 10**12)
    for invariants in (BOTH, CROSSED):
        mechanism = bdp.ProjectedGaussian(invariants, mu=1.0, query=at_random(invariants.frame, 3))
        rows, steps = mechanism.guarantee.pairs, 3.0 * mechanism.sensitivity
        [move, cycle] = [[r.size for r in rows if r.relation.startswith(d.relation)] for d in (MOVE, CYCLE)]
        assert cycle == pytest.approx([2.0 * move[0] if invariants is BOTH else steps])
        assert 2.0 * move[0] < steps


def test_a_hundred_thousand_cells():
    n, table = 320, labels(320, 320)
    both = bdp.Margins(table, ["a"], ["b"])
    gaussian = bdp.ExtendedGaussian(both, mu=1.0)
    _, move, cycle = gaussian.guarantee.pairs
    assert (move.relation, move.size, cycle.relation, cycle.size) == (
        MOVE.relation,
        2.0,
        CYCLE.relation,
        math.sqrt(6.0),
    )
    assert move.loss["mu"] == pytest.approx(2.0 / gaussian.sigma)
    # Two labels of a dimension of n differ most, in Helmert contrasts, as the first and the last: S_{n-2} + sqrt(n / (n - 1)).
    apart = sum(1.0 / math.sqrt(j * (j + 1)) for j in range(1, n - 1)) + math.sqrt(n / (n - 1))
    _, move, cycle = bdp.ExtendedLaplace(both, epsilon=1.0).guarantee.pairs
    assert (move.size, cycle.size) == pytest.approx((apart**2, 2 * apart**2))
    assert (move.relation, cycle.relation) == (MOVE.relation + BOUNDS["largest"], CYCLE.relation + BOUNDS["upper"])
    nothing = bdp.ProjectedLaplace(Invariants(None, table), epsilon=1.0, neighbours="add-remove").guarantee
    assert [row.loss["epsilon"] for row in nothing.pairs] == [1.0, 1.0, 2.0]


def test_queries_that_a_kind_of_difference_does_not_change():
    """One record substituted between the levels of c changes no margin of a and b: no loss, and it is stated so."""
    table = labels(2, 2, 2)
    margins, pairs = bdp.Margins(table, ["a"], ["b"]), bdp.Margins(table, ["a", "b"])
    for loss, name in (({"rho": 0.5}, "rho"), ({"epsilon": 1.0, "delta": 1e-6}, "epsilon")):
        _, substituted, move = bdp.ProjectedGaussian(margins, query=pairs, **loss).guarantee.pairs
        assert (substituted.size, substituted.loss[name], move.size) == (0.0, 0.0, 2.0)


@EVERY_KIND
@pytest.mark.parametrize(
    ("invariants", "query"),
    [
        (weighted([[1, 0, 1, 1, 2]]), at_random({"cell": range(5)}, 1, 3)),
        (weighted([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]]), None),
    ],
)
def test_general_invariants(kind, invariants, query):
    loss = {"mu": 0.5} if kind in GAUSSIAN else {"epsilon": 0.5}
    mechanism = kind(invariants, query=query, neighbours="add-remove", **loss)
    columns = mechanism.invariants.matrix.toarray()
    unit = np.eye(5, dtype=np.int64)
    changes = {2.0: [unit[i] - unit[j] for i, j in itertools.combinations(range(5), 2)], 1.0: list(unit)}
    assert len(mechanism.guarantee.pairs) > 1
    for size, listed in changes.items():
        vectors = np.array([z for z in listed if not np.any(columns @ z)])
        rows = [own for own in mechanism.guarantee.pairs[1:] if ("added to or" in own.relation) == (size == 1.0)]
        assert len(rows) == bool(len(vectors))
        for row in rows:
            assert row.size == pytest.approx(lengths(mechanism, vectors).max())
            assert row.relation.endswith(BOUNDS["largest"])


def test_general_invariants_without_equal_columns():
    mechanism = bdp.ExtendedGaussian(weighted([[1, 2, 3]]), mu=1.0, query=weighted([[1, 4, 9]]))
    _, row = mechanism.guarantee.pairs
    assert "the smallest change found" in row.relation
    assert row.size == pytest.approx(abs(1 + 4 - 9))  # of 1, 1, -1
    # Equal columns, but of cells that the query does not tell apart: the smallest change that it shows.
    mechanism = bdp.ExtendedGaussian(weighted([[1, 1, 2]]), mu=1.0, query=weighted([[3, 3, 1]]))
    _, equal, row = mechanism.guarantee.pairs
    assert "changes an answer" in row.relation
    assert (equal.size, row.size) == (0.0, pytest.approx(5.0))  # 3 + 3 - 1, or 2 * 3 - 1
    large = bdp.ProjectedGaussian(weighted([list(range(1, 501))]), mu=1.0)
    assert len(large.guarantee.pairs) == 1
    assert "nothing less than the loss of neighbouring tables is stated" in " ".join(str(large.guarantee).split())


def test_groups_that_cross_are_compared_or_bounded():
    """Three sets of groups that cross: compared where few are different, on 12 labels and on 500, else bounded."""
    for size, many in ((12, 3), (500, 3), (20_000, 1000)):
        rng = np.random.default_rng(size)
        groups = {f"g{i}": ("a", rng.integers(0, many, size=size).tolist()) for i in range(3)}
        table = {"a": list(range(size)), "b": [0, 1], **groups}
        stack = bdp.Totals(table, by=["g0"]) + bdp.Totals(table, by=["g1", "b"]) + bdp.Totals(table, by=["g2", "b"])
        invariants = Invariants(bdp.Margins(table, ["a"], ["b"]))
        [move] = difference_lengths(DifferenceNorm(stack, invariants, "substitution", 6.0, "l1"))
        first, second = (np.array(groups[name][1])[:500] for name in ("g1", "g2"))
        apart = (first[:, None] != first).astype(int) + (second[:, None] != second)
        assert (move.size, move.bound) == ((4.0 * apart.max(), "largest") if many == 3 else (12.0, "upper"))


REALISED = [
    (Totals(labels(3, 2, 3), by="a"), 0.15),
    (Margins(labels(3, 3), ["a"], ["b"]), 0.7),
    (Margins(labels(3, 2, 3), ["a", "b"], ["a", "c"]), 0.5),
    (Margins(labels(4, 2, 2), ["a", "b"], ["a", "c"]), 0.8),
    (Margins(labels(3, 3, 2), ["a", "b"], ["b", "c"], ["a", "c"]), 0.8),
    (weighted([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [1] * 6]), 1.0),
    (weighted([[1, 1, 1], [0, 1, 2]]), 3.0),
]


def of_pairs(fiber, a):
    """For k = 1, ..., a the largest norms of all differences of two tables at most k records apart."""
    tables = enumerate_fiber(fiber).reshape(-1, fiber.frame.size)
    best = np.zeros((a + 1, 3))
    for x in tables:
        z = tables - x
        records = np.abs(z).sum(axis=1) // 2
        for norm, size in enumerate((np.abs(z).sum(axis=1), (z * z).sum(axis=1), np.abs(z).max(axis=1))):
            np.maximum.at(best[:, norm], records[records <= a], size[records <= a])
    best = np.maximum.accumulate(best)
    return [(l1, math.sqrt(squared), most) for l1, squared, most in best.tolist()]


@pytest.mark.parametrize(("query", "mean"), REALISED)
def test_norms_are_those_of_all_pairs_of_tables(query, mean):
    rng = np.random.default_rng(11)
    moved = 0
    for _ in range(4):
        counts = rng.poisson(mean, size=query.frame.shape)
        fiber = fiber_of(counts, query)
        truth = of_pairs(fiber, 5)
        moved += truth[-1][0] > 0
        for a in (1, 2, 3, 5):
            assert realised_lengths(fiber, a) == pytest.approx(truth[a], rel=1e-14), (counts.tolist(), a)
    assert moved  # some fibers have several tables


def test_what_takes_too_long_is_refused(monkeypatch):
    many = Margins(labels(3, 3, 3), ["a", "b"], ["a", "c"])
    counts = np.stack([np.diag([own, 1, 1]) for own in (2, 3, 4)])
    for limit, value, fiber, adjacency, message in (
        ("_TABLES", 5, fiber_of(np.full((3, 3, 2), 9), REALISED[4][0]), 5, "by listing its tables"),
        ("_KINDS", 1, fiber_of(counts, many), 4, "more than 1 different parts"),
        ("_KINDS", 9, Fiber.of([Exact(weighted([[1, 1, 0]]), [2])]), 1, "determine the number of records"),
    ):
        monkeypatch.setattr(space, limit, value)
        with pytest.raises(NotImplementedError, match=message):
            realised_lengths(fiber, adjacency)
        monkeypatch.undo()


@pytest.mark.parametrize("asked", ["a sum", "sums", "any"])
def test_the_space_of_random_queries_is_that_of_all_pairs_of_tables(asked):
    rng = np.random.default_rng({"a sum": 3, "sums": 4, "any": 5}[asked])
    short = 0
    for _ in range(40):
        frame, names = random_table(rng, nested=False)
        exact = random_sums(rng, frame, names, 3)
        if asked == "any":
            query = LinearQuery(frame, rng.integers(-2, 3, (2, frame.size)), ["u", "v"])
        else:
            query = random_sums(rng, frame, names, 1 if asked == "a sum" else 2)
        adjacency = int(rng.integers(1, 4 if frame.size < 10 else 3))
        space = SensitivitySpace.semi(exact, adjacency, query)
        changes = changes_by_pairs(query, exact, adjacency)
        own = np.concatenate([space.differences, -space.differences])
        case = (exact.describe(), query.describe(), adjacency)
        assert sorted(own.tolist()) == changes.tolist(), case
        for order, norm in ((1, "l1"), (2, "l2"), (np.inf, "linf")):
            largest = max((np.linalg.norm(change, order) for change in changes), default=0.0)
            assert space.delta(norm) == pytest.approx(largest, abs=1e-12), case
        assert space.rank == (np.linalg.matrix_rank(changes.astype(float)) if len(changes) else 0), case
        short += space.is_of_answers and not query.is_identity and len(changes) > 0
    assert asked != "a sum" or short >= 3  # some of them by differences of the answers alone, without the table
