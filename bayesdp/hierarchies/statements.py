"""What is published of a hierarchy, as the linear estimate takes it: noisy sums with precisions, and exact sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.axes import Axis
from bayesdp.hierarchies.coordinates import Codes
from bayesdp.hierarchies.tree import Tree
from bayesdp.hierarchies.two_pass import LevelData
from bayesdp.queries import SumPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Noisy:
    """Noisy sums.

    Parameters
    ----------
    part : SumPart
    values, precision : float64 arrays, shape (rows,)
        The answers, and the inverse variances of their noise; 0 where an answer was not published.
    """

    part: SumPart
    values: Floats
    precision: Floats


@dataclass(frozen=True, eq=False)
class Known:
    """Exact sums, shape (rows,)."""

    part: SumPart
    values: Floats


def _dims(tree: Tree) -> list[int]:
    """The dimensions of the cells of a leaf."""
    return [d for d in range(len(tree.frame.dims)) if d != tree.axis]


def codes_of(tree: Tree, part: SumPart) -> Codes:
    """The codes of a part on each dimension of the cells; one dimension of one cell where there is none."""
    return tuple(None if part.levels[d] is None else part.codes[d] for d in _dims(tree)) or (None,)


def flat_codes(tree: Tree, part: SumPart) -> Codes:
    """The same on all cells of a leaf as one dimension."""
    code = np.zeros((), dtype=np.int64)
    for d in _dims(tree):
        own = part.codes[d]
        code = code[..., None] * (int(own.max()) + 1) + own
    return (code.reshape(-1),)


def axes_of(tree: Tree, parts: Sequence[SumPart]) -> list[Axis]:
    """The dimensions of the cells with the groups that these parts keep."""
    found = []
    for d in _dims(tree):
        recodes: dict[str, Ints] = {}
        for part in parts:
            name, codes = part.levels[d], part.codes[d]
            if name is not None and 1 < int(codes.max()) + 1 < len(codes):
                recodes[name] = codes
        found.append(Axis.of(tree.frame.shape[d], list(recodes.values())))
    return found or [Axis.of(1, [])]


def node_codes(tree: Tree, part: SumPart, level: int) -> Ints:
    """For each node of a level, the place of its answers along the leaf dimension of a part."""
    first = tree.node_range[0][tree.nodes_of(level)]
    return np.asarray(part.codes[tree.axis][tree.order][first])


def by_node(tree: Tree, part: SumPart, values: Floats) -> Floats:
    """Answers of a part, shape (rows,), as an array of shape ``(nodes of its level, *sums)``, 1 where a dimension is summed over."""
    sizes = [int(codes.max()) + 1 for codes in part.codes]
    nodes = node_codes(tree, part, tree.level_of(part))
    found = np.moveaxis(values.reshape(sizes), tree.axis, 0)[nodes]
    return found if found.ndim > 1 else found[:, None]


def in_part(tree: Tree, part: SumPart, answers: Floats) -> Floats:
    """The way back: shape ``(nodes, *sums)`` to (rows,)."""
    sizes = [int(codes.max()) + 1 for codes in part.codes]
    nodes = node_codes(tree, part, tree.level_of(part))
    found = np.empty((sizes[tree.axis], *(sizes[d] for d in _dims(tree))))
    found[nodes] = answers.reshape(len(nodes), *found.shape[1:])
    return np.moveaxis(found, 0, tree.axis).reshape(-1)


def is_product(tree: Tree, noisy: Sequence[Noisy]) -> bool:
    """Whether all answers of a query at a node have one precision: none is missing beside others."""
    for own in noisy:
        if np.any(own.precision != own.precision[0]):
            precision = by_node(tree, own.part, own.precision)
            flat = precision.reshape(len(precision), -1)
            if np.any(flat != flat[:, :1]):
                return False
    return True


def level_data(tree: Tree, noisy: Sequence[Noisy], known: Sequence[Known], product: bool) -> list[LevelData]:
    """What is published of the nodes of each level."""
    # `product`: in the dimensions of the cells, with one precision for all answers of a query at a node; otherwise with all cells
    # of a leaf as one dimension, and a precision an answer.
    queries: list[list[tuple[Codes, Floats, Floats]]] = [[] for _ in tree.levels]
    exact: list[list[tuple[Codes, Floats]]] = [[] for _ in tree.levels]
    for own in noisy:
        answers, precision = by_node(tree, own.part, own.values), by_node(tree, own.part, own.precision)
        flat = precision.reshape(len(precision), -1)
        if product:
            queries[tree.level_of(own.part)].append((codes_of(tree, own.part), flat[:, 0], answers))
        else:
            rows = answers.reshape(len(answers), -1)
            queries[tree.level_of(own.part)].append((flat_codes(tree, own.part), flat, rows))
    for stated in known:
        answers = by_node(tree, stated.part, stated.values)
        if product:
            exact[tree.level_of(stated.part)].append((codes_of(tree, stated.part), answers))
        else:
            exact[tree.level_of(stated.part)].append((flat_codes(tree, stated.part), answers.reshape(len(answers), -1)))
    return [
        LevelData(
            len(tree.nodes_of(level)),
            tree.parents(level) if level + 1 < len(tree.levels) else None,
            queries[level],
            exact[level],
        )
        for level in range(len(tree.levels))
    ]
