"""Arithmetic of the small blocks of many nodes at once: inverses, and exact sums taken into account."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space

from bayesdp.hierarchies.coordinates import Block, Coordinates

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]
type Exact = tuple[Floats, Mask, Floats]
"""Rows A, shape (rows, K); which nodes have them; tables in coordinates whose sums by A are right."""

_OPEN = 1e-13
"""Eigenvalues below this share of the largest are looked upon as 0: rounding leaves about 1e-16."""

_AGREE = 1e-6
"""Exact sums that differ by less than this share of their size agree."""


class Unidentified(ValueError):
    """A leaf whose answers leave a sum of its cells open."""

    def __init__(self, leaf: int) -> None:
        super().__init__(
            "the linear estimate needs answers at every leaf that fix every cell: a query of all cells, or several that do "
            f"together; leaf {leaf} has none"
        )
        self.leaf = leaf


class Contradiction(ValueError):
    """Exact sums of a node that contradict those below it, or one another."""

    def __init__(self, level: int, node: int) -> None:
        super().__init__(
            f"the exact sums of node {node} of level {level} contradict those of the nodes below it, or one another"
        )
        self.level, self.node = level, node


def inverse(matrices: Floats) -> Floats:
    """Inverses of matrices, shape (nodes, K, K); those of 1 x 1 matrices by division."""
    return 1.0 / matrices if matrices.shape[1] == 1 else np.linalg.inv(matrices)


def pseudo_inverse(matrices: Floats, size: Floats) -> Floats:
    """The same of positive semidefinite matrices, on what is above rounding errors of numbers of these sizes, shape (nodes,)."""
    if matrices.shape[1] == 1:
        above = matrices > _OPEN * size[:, None, None]
        return np.divide(1.0, matrices, out=np.zeros_like(matrices), where=above)
    values, vectors = np.linalg.eigh(matrices)
    scale = np.divide(1.0, values, out=np.zeros_like(values), where=values > _OPEN * size[:, None])
    return np.asarray((vectors * scale[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def at_leaves(space: Coordinates, block: Block, information: Floats, part: Floats, exact: Sequence[Exact]) -> Floats:
    """V of leaves with information L; `part` holds b, and then z."""
    if not exact:
        variance = _definite_inverse(information, np.arange(len(part)))
        part[:] = space.times(block, variance, part)
        return variance
    variance, folded = np.zeros_like(information), np.array(space.fold(part, block))
    for nodes, rows, target in _stacked(space, block, exact, 0):
        own, b = information[nodes], folded[nodes]
        left = np.eye(information.shape[1]) if rows is None else null_space(rows)
        start = np.zeros_like(b) if rows is None else rows.T @ target
        if left.shape[1]:
            variance[nodes] = left @ _definite_inverse(left.T @ own @ left, nodes) @ left.T
        folded[nodes] = start + variance[nodes] @ (b - own @ start)
    part[:] = space.unfold(folded, block)
    return variance


def condition(
    space: Coordinates, block: Block, variance: Floats, part: Floats, size: Floats, exact: Sequence[Exact], level: int
) -> None:
    """Take exact sums into account in V and z, in place; `size` says how large V was before there were any."""
    if not exact:
        return
    folded = np.array(space.fold(part, block))
    for nodes, rows, target in _stacked(space, block, exact, level):
        if rows is None:
            continue
        z, v = folded[nodes], variance[nodes]
        across = v @ rows.T
        gain = across @ pseudo_inverse(rows @ across, size[nodes])
        folded[nodes] = z = z + gain @ (target - rows @ z)
        _check(rows @ z, target, nodes, level)
        v = v - gain @ np.swapaxes(across, 1, 2)
        keep = np.eye(len(rows.T)) - rows.T @ rows  # what is exact has variance 0 without rounding errors
        variance[nodes] = keep @ (0.5 * (v + np.swapaxes(v, 1, 2))) @ keep
    part[:] = space.unfold(folded, block)


def _definite_inverse(matrices: Floats, nodes: Ints) -> Floats:
    if matrices.shape[1] == 1:
        smallest, largest = matrices[:, 0, 0], np.zeros(len(matrices))
    else:
        values = np.linalg.eigvalsh(matrices)
        smallest, largest = values[:, 0], values[:, -1]
    open_ = np.flatnonzero(smallest <= _OPEN * largest)
    if open_.size:
        raise Unidentified(int(nodes[open_[0]]))
    return inverse(matrices)


def _stacked(
    space: Coordinates, block: Block, exact: Sequence[Exact], level: int
) -> Iterator[tuple[Ints, Floats | None, Floats]]:
    """Nodes with the same exact queries: orthonormal rows that span their sums, and what these rows are."""
    kinds, kind_of = np.unique(np.stack([known for _, known, _ in exact]), axis=1, return_inverse=True)
    for kind, chosen in enumerate(kinds.T):
        nodes = np.flatnonzero(kind_of.reshape(-1) == kind)
        if not chosen.any():
            yield nodes, None, np.zeros(0)
            continue
        used = [own for own, here in zip(exact, chosen, strict=True) if here]
        stacked = np.concatenate([rows for rows, _, _ in used])
        right = np.concatenate([rows @ space.fold(table[nodes], block) for rows, _, table in used], axis=1)
        left, values, rows = np.linalg.svd(stacked, full_matrices=False)
        rank = int((values > _OPEN * values[0]).sum())
        rows, target = rows[:rank], (left[:, :rank] / values[:rank]).T @ right
        _check(stacked @ (rows.T @ target), right, nodes, level)
        yield nodes, rows, target


def _check(found: Floats, target: Floats, nodes: Ints, level: int) -> None:
    wrong = np.abs(found - target) > _AGREE * np.maximum(np.abs(target), 1.0)
    if wrong.any():
        raise Contradiction(level, int(nodes[np.flatnonzero(wrong.reshape(len(nodes), -1).any(axis=1))[0]]))
