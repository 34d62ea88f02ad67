"""The linear estimate against generalised least squares with dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.hierarchies.two_pass import Axis, Contradiction, LevelData, Unidentified, tree_estimate

HALVES = np.array([0, 1, 1, 1])
THIRDS = np.array([0, 0, 1, 2])


def _sums(codes, size):
    """The matrix of sums of one dimension."""
    if codes is None:
        return np.ones((1, size))
    return (codes[None, :] == np.unique(codes)[:, None]).astype(float)


def _matrix(codes, sizes):
    found = np.ones((1, 1))
    for own, size in zip(codes, sizes, strict=True):
        found = np.kron(found, _sums(own, size))
    return found


def _shape(codes):
    return tuple(1 if own is None else int(own.max()) + 1 for own in codes)


class _Problem:
    """Random precisions and answers on a tree, and the same as rows over all cells of all leaves."""

    def __init__(self, sizes, recodes, parents, exact, seed):
        rng = np.random.default_rng(seed)
        self.sizes, self.parents = sizes, parents
        self.axes = [Axis.of(size, own) for size, own in zip(sizes, recodes, strict=True)]
        choices = [[None, *own, np.arange(size)] for size, own in zip(sizes, recodes, strict=True)]
        self.above = [np.arange(len(parents[0]))]
        for parent in parents:
            self.above.append(parent[self.above[-1]])
        truth = rng.poisson(9.0, (len(parents[0]), int(np.prod(sizes)))).astype(float)
        rows, right, weights, fixed, known = [], [], [], [], []
        self.levels = []
        for number, parent in enumerate([*parents, None]):
            nodes = int(self.above[number].max()) + 1
            queries = []
            for pick in range(4):
                every = pick == 0 and number == 0
                codes = tuple(own[-1] if every else own[rng.integers(len(own))] for own in choices)
                matrix = _matrix(codes, sizes)
                precision = rng.uniform(0.2, 3.0, nodes)
                if pick == 2:
                    precision[0] = 0.0
                answers = rng.normal(0.0, 5.0, (nodes, len(matrix)))
                queries.append((codes, precision, answers.reshape(nodes, *_shape(codes))))
                for node in range(nodes):
                    rows.append(self.whole(number, node, matrix))
                    right.append(answers[node])
                    weights.append(np.full(len(matrix), precision[node]))
            stated = []
            for codes, skip in exact.get(number, ()):
                matrix = _matrix(codes, sizes)
                values = np.stack([self.whole(number, node, matrix) @ truth.reshape(-1) for node in range(nodes)])
                values[: skip or 0] = np.nan
                stated.append((codes, values.reshape(nodes, *_shape(codes))))
                for node in range(skip or 0, nodes):
                    fixed.append(self.whole(number, node, matrix))
                    known.append(values[node])
            self.levels.append(LevelData(nodes, parent, queries, stated))
        self.estimate, self.covariance = _dense(rows, right, weights, fixed, known)

    def whole(self, level, node, matrix):
        return np.kron((self.above[level] == node)[None, :].astype(float), matrix)


def _dense(rows, right, weights, fixed, known):
    rows, right, weights = np.vstack(rows), np.concatenate(right), np.concatenate(weights)
    covariance = np.linalg.inv(rows.T @ (weights[:, None] * rows))
    estimate = covariance @ rows.T @ (weights * right)
    if fixed:
        a = np.vstack(fixed)
        gain = covariance @ a.T @ np.linalg.pinv(a @ covariance @ a.T, rcond=1e-11, hermitian=True)
        estimate, covariance = (
            estimate + gain @ (np.concatenate(known) - a @ estimate),
            covariance - gain @ a @ covariance,
        )
    return estimate, covariance


CASES = {
    "a recode and a total of a county": ((4, 2), ([HALVES], []), [[0, 0, 0, 1, 1]], {1: [((None, None), 1)]}),
    "two recodes that do not nest": ((4, 3), ([HALVES, THIRDS], []), [[0, 0, 1, 1, 2], [0, 0, 1]], {2: [((None, None), 0)]}),
    "exact totals at every level": (
        (2, 2, 3), ([], [], [np.array([0, 0, 1])]), [[0, 0, 1]], {n: [((None,) * 3, 0)] for n in (0, 1)},
    ),
    "nothing exact": ((5,), ([],), [[0, 0, 0]], {}),
    "sums by a dimension": ((3, 2), ([], []), [[0, 0, 1], [0, 0]], {1: [((np.arange(3), None), 0)], 2: [((None, None), 0)]}),
    "both margins of every leaf": (
        (3, 2), ([], []), [[0, 0, 1]], {0: [((np.arange(3), None), 0), ((None, np.arange(2)), 1)]},
    ),
    "groups of a leaf, cells of a county": (
        (4, 2), ([HALVES], []), [[0, 0, 1]], {0: [((HALVES, None), 1)], 1: [((np.arange(4), np.arange(2)), 1)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_it_is_dense_least_squares(name, seed):
    sizes, recodes, parents, exact = CASES[name]
    parents = [np.array(own) for own in parents]
    problem = _Problem(sizes, recodes, parents, exact, seed)
    cells = int(np.prod(sizes))
    # Also sums that nobody measured, by groups of no query.
    odd = tuple(np.arange(n) % 2 for n in sizes)
    for number, found in enumerate(tree_estimate(problem.axes, problem.levels)):
        for node in range(len(found.cells)):
            whole = problem.whole(number, node, np.eye(cells))
            assert np.allclose(found.cells[node], whole @ problem.estimate, rtol=0, atol=1e-8)
            own = whole @ problem.covariance @ whole.T
            for codes in [odd, *(codes for codes, _, _ in problem.levels[number].queries)]:
                matrix = _matrix(codes, sizes)
                covariance = matrix @ own @ matrix.T
                np.testing.assert_allclose(
                    found.sums(codes)[node].reshape(-1), matrix @ whole @ problem.estimate, atol=1e-8
                )
                np.testing.assert_allclose(found.variance(codes)[node].reshape(-1), np.diag(covariance), atol=1e-8)
                np.testing.assert_allclose(found.covariance(codes, node), covariance, atol=1e-8)


def test_a_precision_an_answer():
    """Cells as one axis of groups: every answer has its own precision, and some are missing."""
    rng = np.random.default_rng(4)
    cells, parent = 6, np.array([0, 0, 1])
    every, thirds = np.arange(cells), np.array([0, 0, 1, 1, 2, 2])
    levels, rows, right, weights = [], [], [], []
    for nodes, place in ((3, np.arange(3)), (2, parent)):
        queries = []
        for codes in (every, thirds):
            precision = rng.uniform(0.1, 4.0, (nodes, codes.max() + 1))
            if nodes == 2 or codes is thirds:
                precision[rng.random(precision.shape) < 0.4] = 0.0
            answers = rng.normal(size=precision.shape)
            queries.append(((codes,), precision, answers))
            for node in range(nodes):
                rows.append(np.kron((place == node)[None, :].astype(float), _sums(codes, cells)))
                right.append(answers[node])
                weights.append(precision[node])
        levels.append(LevelData(nodes, parent if nodes == 3 else None, queries))
    # Two counties at the top: two trees.
    estimate, covariance = _dense(rows, right, weights, [], [])
    found = tree_estimate([Axis(every)], levels)
    np.testing.assert_allclose(found[0].cells.reshape(-1), estimate, atol=1e-8)
    np.testing.assert_allclose(
        found[0].covariance((thirds,), 1), _sums(thirds, 6) @ covariance[6:12, 6:12] @ _sums(thirds, 6).T
    )


def test_a_leaf_that_leaves_cells_open():
    precision = np.array([1.0, 0.0])
    every = ((np.arange(3),), precision, np.ones((2, 3)))
    with pytest.raises(Unidentified, match=r"needs answers at every leaf that fix every cell.*leaf 1") as caught:
        tree_estimate([Axis.of(3, [])], [LevelData(2, np.zeros(2, int), [every]), LevelData(1, None, [])])
    assert caught.value.leaf == 1


def test_exact_sums_stand_for_answers():
    """Two cells, of which one sum is exact and the other one noisy, no answer of both."""
    axis = Axis(np.arange(2))
    level = LevelData(
        1, None, [((np.arange(2),), np.array([[4.0, 0.0]]), np.array([[3.0, 0.0]]))], [((None,), np.array([[10.0]]))]
    )
    [found] = tree_estimate([axis], [level])
    np.testing.assert_allclose(found.cells, [[3.0, 7.0]])
    np.testing.assert_allclose(found.covariance((np.arange(2),), 0), [[0.25, -0.25], [-0.25, 0.25]])


@pytest.mark.parametrize("recodes", [[], [np.array([0, 1, 1])]])
def test_exact_totals_that_contradict_one_another(recodes):
    every = ((np.arange(3),), np.ones(2), np.ones((2, 3)))
    leaves = LevelData(2, np.array([0, 0]), [every], [((None,), np.array([[4.0], [5.0]]))])
    fits, odd = (LevelData(1, None, [], [((None,), np.array([[total]]))]) for total in (9.0, 10.0))
    found = tree_estimate([Axis.of(3, recodes)], [leaves, fits])
    np.testing.assert_allclose(found[1].sums((None,)), [[9.0]])
    with pytest.raises(Contradiction, match="exact sums of node 0 of level 1 contradict those of the nodes below it"):
        tree_estimate([Axis.of(3, recodes)], [leaves, odd])
