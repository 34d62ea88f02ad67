"""The linear estimate against generalised least squares with dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.hierarchies.axes import Axis
from bayesdp.hierarchies.two_pass import LevelData, tree_estimate


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


def _case(sizes, recodes, parents, totals, seed):
    """Random precisions and answers on a tree; the levels, and the dense problem: rows, right side, weights, exact rows and values."""
    rng = np.random.default_rng(seed)
    axes = [Axis.of(size, own) for size, own in zip(sizes, recodes, strict=True)]
    choices = [[None, *own, np.arange(size)] for size, own in zip(sizes, recodes, strict=True)]
    cells, leaves = int(np.prod(sizes)), len(parents[0])
    above = np.arange(leaves)
    levels, rows, right, weights, exact, known, fixed = [], [], [], [], [], [], []
    for number, parent in enumerate([*parents, None]):
        nodes = int(above.max()) + 1
        queries = []
        for pick in range(4):
            every = pick == 0 and number == 0
            codes = tuple(own[-1] if every else own[rng.integers(len(own))] for own in choices)
            matrix = _matrix(codes, sizes)
            precision = rng.uniform(0.2, 3.0, nodes)
            if pick == 2:
                precision[0] = 0.0
            answers = rng.normal(0.0, 5.0, (nodes, len(matrix)))
            spread = answers[:, matrix.argmax(axis=0)]
            queries.append((codes, precision, spread))
            for node in range(nodes):
                whole = np.kron((above == node)[None, :].astype(float), matrix)
                rows.append(whole)
                right.append(answers[node])
                weights.append(np.full(len(matrix), precision[node]))
        own_totals = None
        if number in totals:
            own_totals = rng.normal(20.0, 3.0, nodes)
            if nodes > 1:
                own_totals[-1] = np.nan
            for node in range(nodes):  # what the leaves say already
                if number and set(np.flatnonzero(above == node)) <= set(fixed):
                    own_totals[node] = np.nan
            if number == 0:
                fixed = list(np.flatnonzero(~np.isnan(own_totals)))
            for node in np.flatnonzero(~np.isnan(own_totals)):
                exact.append(np.kron((above == node)[None, :].astype(float), np.ones((1, cells))))
                known.append(own_totals[node])
        levels.append(LevelData(parent, queries, own_totals))
        if parent is not None:
            above = parent[above]
    return axes, levels, np.vstack(rows), np.concatenate(right), np.concatenate(weights), exact, known


def _dense(rows, right, weights, exact, known):
    covariance = np.linalg.inv(rows.T @ (weights[:, None] * rows))
    estimate = covariance @ rows.T @ (weights * right)
    if exact:
        a = np.vstack(exact)
        gain = covariance @ a.T @ np.linalg.inv(a @ covariance @ a.T)
        estimate, covariance = estimate + gain @ (np.array(known) - a @ estimate), covariance - gain @ a @ covariance
    return estimate, covariance


HALVES = np.array([0, 1, 1, 1])
THIRDS = np.array([0, 0, 1, 2])


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("sizes", "recodes", "parents", "totals"),
    [
        ((4, 2), ([HALVES], []), [np.array([0, 0, 0, 1, 1])], {1}),
        ((4, 3), ([HALVES, THIRDS], []), [np.array([0, 0, 1, 1, 2]), np.array([0, 0, 1])], {2}),
        ((2, 2, 3), ([], [], [np.array([0, 0, 1])]), [np.array([0, 0, 1])], {0, 1}),
        ((5,), ([],), [np.array([0, 0, 0])], set()),
    ],
    ids=["a recode", "two recodes that do not nest", "exact totals of leaves", "no total"],
)
def test_it_is_dense_least_squares(sizes, recodes, parents, totals, seed):
    axes, levels, *dense = _case(sizes, recodes, parents, totals, seed)
    estimate, covariance = _dense(*dense)
    cells, above = int(np.prod(sizes)), np.arange(len(parents[0]))
    for number, found in enumerate(tree_estimate(axes, levels)):
        for node in range(len(found.cells)):
            whole = np.kron((above == node)[None, :].astype(float), np.eye(cells))
            assert np.allclose(found.cells[node], whole @ estimate, rtol=0, atol=1e-8)
            own = whole @ covariance @ whole.T
            for codes, _, _ in levels[number].queries:
                matrix = _matrix(codes, sizes)
                variances = np.diag(matrix @ own @ matrix.T)[matrix.argmax(axis=0)]
                assert np.allclose(found.variance(codes)[node], variances, rtol=1e-8, atol=1e-9)
        if number < len(parents):
            above = parents[number][above]


def test_a_leaf_that_leaves_cells_open():
    total = LevelData(None, [((None,), np.ones(1), np.ones((1, 3)))])
    with pytest.raises(ValueError, match="needs answers at every leaf that fix every cell"):
        tree_estimate([Axis.of(3, [])], [total])


def test_exact_totals_that_contradict_one_another():
    parent = np.array([0, 0])
    every = ((np.arange(3),), np.ones(2), np.ones((2, 3)))
    levels = [LevelData(parent, [every], np.array([4.0, 5.0])), LevelData(None, [], np.array([10.0]))]
    with pytest.raises(
        ValueError, match="exact total 10 of node 0 contradicts those of the nodes below it, which add up to 9"
    ):
        tree_estimate([Axis.of(3, [])], levels)
