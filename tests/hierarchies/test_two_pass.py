"""What the two passes are alone for: a precision an answer, cells that are open, exact sums; `test_linear` has the rest, by `gls`."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.hierarchies.two_pass import Axis, Contradiction, LevelData, Unidentified, tree_estimate


def _sums(codes, size):
    """The matrix of sums of one dimension."""
    if codes is None:
        return np.ones((1, size))
    return (codes[None, :] == np.unique(codes)[:, None]).astype(float)


def _dense(rows, right, weights):
    rows, right, weights = np.vstack(rows), np.concatenate(right), np.concatenate(weights)
    covariance = np.linalg.inv(rows.T @ (weights[:, None] * rows))
    return covariance @ rows.T @ (weights * right), covariance


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
    estimate, covariance = _dense(rows, right, weights)
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
