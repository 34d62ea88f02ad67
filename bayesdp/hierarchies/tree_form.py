"""The linear estimate of a hierarchy, node by node, and the answers that follow from it.

Weighted sums of the cells of one node, such as published codes: which node each row is of, and with what weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp.hierarchies.statements import ExactSums, NoisySums, axes_of, codes_of, in_part, is_product, level_data
from bayesdp.hierarchies.tree import NoStructure, Tree
from bayesdp.hierarchies.two_pass import Axis, LevelEstimate, tree_estimate
from bayesdp.queries import MatrixPart, Query, SumPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


class _Rows(NamedTuple):
    """Rows with the same weights at nodes of one level."""

    level: int
    rows: list[int]  # their places in the part
    nodes: list[int]  # the node of each, numbered from 0 within the level
    weights: Floats  # of the cells of a node, in the order of the tree, shape (C,)


def _rows_at_nodes(tree: Tree, part: MatrixPart) -> Iterable[_Rows]:
    """Sort the rows of a part by level and weights; those that add up nothing are left out."""
    cells = tree.cells
    place = np.empty(tree.frame.size, dtype=np.int64)
    place[np.asarray(tree.leaves_by_cells(np.arange(tree.frame.size))).reshape(-1)] = np.arange(tree.frame.size)
    # The level and node of each span of leaves; of equal spans, the lowest.
    first, last = tree.node_range
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for level in range(len(tree.levels)):
        for number, node in enumerate(tree.nodes_of(level).tolist()):
            spans.setdefault((int(first[node]), int(last[node])), (level, number))
    found: dict[tuple[int, bytes], _Rows] = {}
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
        each = len(at) // (end - start)
        expected = (np.arange(start, end)[:, None] * cells + at[:each] - start * cells).reshape(-1)
        alike = np.array_equal(at, expected) and np.array_equal(weight, np.tile(weight[:each], end - start))
        if span is None or not alike:
            raise ValueError(
                f"the answer {part.name(row)!r} is no sum of the cells of one node of the tree, with the same weights at each of its "
                f"leaves; levels are {', '.join(tree.levels)}"
            )
        weights = np.zeros(cells)
        weights[at[:each] - start * cells] = weight[:each]
        alike_rows = found.setdefault((span[0], weights.tobytes()), _Rows(span[0], [], [], weights))
        alike_rows.rows.append(row)
        alike_rows.nodes.append(span[1])
    return found.values()


MOST_ENTRIES = 3 * 10**7
"""Covariances of all cells of every node have at most so many entries together; there are some five such arrays of float64."""

_MOST_RANGE = 1e9
"""The largest over the smallest variance of noise: rounding errors (1e-16) grow by about as much."""

_LARGE = 1e6
"""Answers of more standard deviations than this are counted from a table nearby, which takes twice the time."""


@dataclass(frozen=True, eq=False)
class TreeForm:
    """Estimates of the nodes of a tree, from the leaves up."""

    tree: Tree
    estimates: tuple[LevelEstimate, ...]
    product: bool  # whether the cells of a node have their dimensions, otherwise they are one
    near: Ints  # a table of whole numbers from which estimates are counted: answers with little noise keep their digits

    def answers(self, query: Query) -> tuple[Floats, Floats]:
        """Estimates of the answers, and their variances."""
        found = [self._weighted(part) if isinstance(part, MatrixPart) else self._sums(part) for part in query.parts]
        mean, variance = (np.concatenate(own) for own in zip(*found, strict=True))
        return mean + query.apply(self.near).reshape(-1), variance

    def _weighted(self, part: MatrixPart) -> tuple[Floats, Floats]:
        """The same for sums with weights, each of the cells of one node."""
        mean, variance = np.zeros(part.rows), np.zeros(part.rows)
        for own in _rows_at_nodes(self.tree, part):
            found = self.estimates[own.level]
            mean[own.rows] = found.cells[own.nodes] @ own.weights
            variance[own.rows] = found.variance_of(own.weights)[own.nodes]
        return mean, variance

    def _sums(self, part: SumPart) -> tuple[Floats, Floats]:
        """The same for sums by labels."""
        tree = self.tree
        try:
            found = self.estimates[tree.level_of(part)]
        except NoStructure:
            name = part.levels[tree.axis]
            raise ValueError(f"{name!r} is no level of the tree; levels are {', '.join(tree.levels)}") from None
        codes = codes_of(tree, part, self.product)
        return in_part(tree, part, found.sums(codes)), in_part(tree, part, found.variance(codes))

    @property
    def words(self) -> str:
        """The size, in words."""
        sizes = [len(own.tables) for own in self.estimates]
        nodes = ", ".join(f"{n} {name}" for n, name in zip(sizes, self.tree.levels, strict=True))
        return f"{nodes}; {self.tree.frame.size // sizes[0]} cells each"


def tree_form(tree: Tree, noisy: Sequence[NoisySums], known: Sequence[ExactSums]) -> TreeForm:
    """Estimate a hierarchy; Unidentified and Contradiction as in `tree_estimate`."""
    # NoStructure where answers of a query at a node differ in their variances and cells are too many for all covariances, or where
    # noise is of so different sizes that rounding errors would matter.
    used = [own for own in noisy if own.precision.any()]
    sharp = max(used, key=lambda own: own.precision.max(), default=None)
    least = min((own.precision[own.precision > 0.0].min() for own in used), default=np.inf)
    if sharp is not None and sharp.precision.max() > _MOST_RANGE * least:
        name, most = sharp.part.name(int(sharp.precision.argmax())), sharp.precision.max()
        raise NoStructure(
            f"the noise of {printable(name)} (sd {most**-0.5:.3g}) is too small beside the largest (sd {least**-0.5:.3g}) for "
            "binary64 numbers; state as Exact what is nearly exact"
        )
    product = is_product(tree, noisy)
    if not product and tree.nodes * tree.cells**2 > MOST_ENTRIES:
        raise NoStructure(
            f"answers of one query at a node differ in their variances, or some are missing, and {tree.nodes} nodes of {tree.cells} "
            f"cells are too many for a covariance of all cells each, which is done up to {MOST_ENTRIES:,} entries"
        )
    parts = [*(own.part for own in noisy), *(own.part for own in known)]
    axes = axes_of(tree, parts) if product else [Axis(np.arange(tree.cells))]
    near = np.zeros(tree.frame.shape, dtype=np.int64)
    found = tree_estimate(axes, level_data(tree, noisy, known, product))
    if max((np.abs(own.values) * np.sqrt(own.precision)).max(initial=0.0) for own in noisy) > _LARGE:
        near = np.asarray(tree.in_frame(np.rint(found[0].cells)), dtype=np.int64).reshape(tree.frame.shape)
        noisy = [replace(own, values=own.values - own.part.apply(near).reshape(-1)) for own in noisy]
        known = [replace(own, values=own.values - own.part.apply(near).reshape(-1)) for own in known]
        found = tree_estimate(axes, level_data(tree, noisy, known, product))
    return TreeForm(tree, tuple(found), product, near)
