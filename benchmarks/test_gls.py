"""The linear estimate of a hierarchy: 100,000 leaves x 252, and against dense matrices and iterative least squares in one run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from bayesdp.hierarchies.two_pass import Axis, LevelData, LevelEstimate, tree_estimate

type Floats = npt.NDArray[np.float64]


def _problem(groups: int, each: int, sizes: tuple[int, ...]) -> tuple[list[Axis], list[LevelData]]:
    """Leaves in groups under one root; every sum over some dimensions of the cells is measured at every level."""
    rng = np.random.default_rng(1)
    levels = []
    parents = (np.repeat(np.arange(groups), each), np.zeros(groups, dtype=np.int64), None)
    for nodes, parent in zip((groups * each, groups, 1), parents, strict=True):
        queries = []
        for codes in itertools.product(*[(None, np.arange(n)) for n in sizes]):
            answers = rng.normal(20.0, 5.0, (nodes, *(1 if own is None else len(own) for own in codes)))
            queries.append((codes, np.full(nodes, rng.uniform(0.01, 0.3)), answers))
        levels.append(LevelData(nodes, parent, queries))
    return [Axis.of(n, []) for n in sizes], levels


def _rows(levels: list[LevelData], sizes: tuple[int, ...]) -> tuple[sp.csr_array, Floats]:
    """The same as rows over all cells, each divided by the standard deviation of its noise."""
    above, rows, right = np.arange(levels[0].nodes), [], []
    for level in levels:
        nodes = sp.csr_array((np.ones(len(above)), (above, np.arange(len(above)))))
        for codes, precision, answers in level.queries:
            own = sp.csr_array(np.ones((1, 1)))
            for code, size in zip(codes, sizes, strict=True):
                own = sp.kron(own, np.ones((1, size)) if code is None else sp.eye_array(size), format="csr")
            weight = np.repeat(np.sqrt(precision), answers.reshape(level.nodes, -1).shape[1])
            rows.append(sp.diags_array(weight) @ sp.kron(nodes, own, format="csr"))
            right.append(weight * answers.reshape(-1))
        above = above if level.parent is None else level.parent[above]
    return sp.csr_array(sp.vstack(rows)), np.concatenate(right)


def _seconds(function: Callable[[], Floats]) -> tuple[Floats, float]:
    start = time.process_time()
    return function(), time.process_time() - start


def _everything(axes: list[Axis], levels: list[LevelData]) -> list[LevelEstimate]:
    found = tree_estimate(axes, levels)
    for level, own in zip(levels, found, strict=True):
        assert own.cells.shape[0] == level.nodes
        for codes, _, _ in level.queries:
            own.variance(codes)
    return found


@pytest.mark.benchmark(group="linear estimate")
def test_a_hundred_thousand_leaves(benchmark, enter):
    axes, levels = _problem(1000, 100, (2, 2, 63))
    start = time.process_time()
    benchmark.pedantic(lambda: tree_estimate(axes, levels)[0].cells, rounds=1)
    enter("gls, 100,000 leaves x 252, cells of all nodes, CPU", time.process_time() - start, "s", at_most=5.0)


@pytest.mark.benchmark(group="linear estimate")
def test_against_dense_matrices_and_lsqr(benchmark, enter):
    sizes = (2, 2, 9)
    axes, levels = _problem(5, 8, sizes)
    found, own = _seconds(lambda: tree_estimate(axes, levels)[0].cells.reshape(-1))
    benchmark.pedantic(lambda: _everything(axes, levels), rounds=3)
    rows, right = _rows(levels, sizes)
    dense, slow = _seconds(lambda: np.linalg.lstsq(rows.toarray(), right, rcond=None)[0])
    np.testing.assert_allclose(found, dense, rtol=0, atol=1e-8)
    iterated, middling = _seconds(lambda: lsqr(rows, right, atol=1e-13, btol=1e-13, iter_lim=10_000)[0])
    np.testing.assert_allclose(found, iterated, rtol=0, atol=1e-6)
    enter("gls, 40 leaves x 36: dense least squares takes", slow / own, "times as long", at_least=20.0)
    enter("gls, 40 leaves x 36: lsqr, without variances, takes", middling / own, "times as long")


@pytest.mark.benchmark(group="linear estimate")
def test_against_lsqr_in_a_county(benchmark, enter):
    sizes = (2, 2, 63)
    axes, levels = _problem(10, 30, sizes)
    found, own = _seconds(lambda: tree_estimate(axes, levels)[0].cells.reshape(-1))
    benchmark.pedantic(lambda: _everything(axes, levels), rounds=1)
    rows, right = _rows(levels, sizes)
    iterated, slow = _seconds(lambda: lsqr(rows, right, atol=1e-13, btol=1e-13, iter_lim=10_000)[0])
    np.testing.assert_allclose(found, iterated, rtol=0, atol=1e-6)
    enter("gls, 300 leaves x 252: lsqr, without variances, takes", slow / own, "times as long", at_least=10.0)
