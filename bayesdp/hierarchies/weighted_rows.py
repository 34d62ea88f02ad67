"""Weighted sums of the cells of one node, such as published codes: which node each row is of, and with what weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.tree import Tree
from bayesdp.queries import MatrixPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with the same weights at nodes of one level.

    Parameters
    ----------
    level : int
    rows : int64 array
        Their places in the part.
    nodes : int64 array, of the same shape
        The node of each, numbered from 0 within the level.
    weights : float64 array, shape (C,)
        Of the cells of a node, in the order of the tree.
    """

    level: int
    rows: Ints
    nodes: Ints
    weights: Floats


def rows_at_nodes(tree: Tree, part: MatrixPart) -> list[Rows]:
    """Sort the rows of a part by level and weights; those that add up nothing are left out."""
    leaves = len(tree.order)
    cells = tree.frame.size // leaves
    place = np.empty(tree.frame.size, dtype=np.int64)
    place[np.asarray(tree.leaves_by_cells(np.arange(tree.frame.size))).reshape(-1)] = np.arange(tree.frame.size)
    # The level and node of each span of leaves; of equal spans, the lowest.
    first, last = tree.node_range
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for level in range(len(tree.levels)):
        for number, node in enumerate(tree.nodes_of(level).tolist()):
            spans.setdefault((int(first[node]), int(last[node])), (level, number))
    found: dict[tuple[int, bytes, bytes], tuple[list[int], list[int]]] = {}
    matrix = part.matrix
    for row in range(part.rows):
        own = slice(matrix.indptr[row], matrix.indptr[row + 1])
        if own.start == own.stop:
            continue
        at = place[matrix.indices[own]]
        order = np.argsort(at)
        at, weight = at[order], matrix.data[own][order]
        start, end = int(at[0]) // cells, int(at[-1]) // cells + 1
        span = spans.get((start, end))
        own_cells, own_weights = at[: len(at) // (end - start)] - start * cells, weight[: len(at) // (end - start)]
        expected = (np.arange(start, end)[:, None] * cells + own_cells).reshape(-1)
        alike = np.array_equal(at, expected) and np.array_equal(weight, np.tile(own_weights, end - start))
        if span is None or not alike:
            raise ValueError(
                f"the answer {part.name(row)!r} is no sum of the cells of one node of the tree, with the same weights at each of its "
                f"leaves; levels are {', '.join(tree.levels)}"
            )
        rows, nodes = found.setdefault((span[0], own_cells.tobytes(), own_weights.tobytes()), ([], []))
        rows.append(row)
        nodes.append(span[1])
    listed = []
    for (level, own_cells_, own_weights_), (rows, nodes) in found.items():
        weights = np.zeros(cells)
        weights[np.frombuffer(own_cells_, dtype=np.int64)] = np.frombuffer(own_weights_, dtype=np.int64)
        listed.append(Rows(level, np.asarray(rows), np.asarray(nodes), weights))
    return listed
