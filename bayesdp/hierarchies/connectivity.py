"""Whether the moves of a hierarchy reach every table, and which hierarchies they are refused for because they do not.

What is exact at a level cuts the cells into classes, whose sums at every node are known (`exact_classes`). Classes that unite
those of a lower level say nothing new: their sums are sums over children. What is left must get finer from level to level
(`effective_levels`): the sums of a leaf by age, say, and those of its county by age and sex. Each argument below is about
nonnegative tables without other limits; every move may take all counts of a cell that it takes some from.

Nothing exact
    Every free cell moves on its own: to 0, and from 0 to any other count.
Exact sums at one level
    The tables of one node and class have one total. Its places are the free cells of the class in the leaves of the node. Counts go
    from place to place within a leaf, by the donors of the leaf, which are among its places, and in the same cell between two leaves
    where it is free. Places that are linked in this way can all give their counts to one of them, and take them back in any other
    division. All are linked where every cell is free. With cells that are known the links are checked, place by place; a table of
    which they leave parts apart is refused, as sums of these moves would not join them either.
Exact sums at several levels, every cell free
    Let L0 < L1 < ... be these levels, each node N of L0 lying in one of L1, and so on, and B0, B1, ... the class of a cell at each,
    where B1 determines B0 and so on. The tables (N0, B0), (N1, B1), ... are known, and so are their sums. They are margins of a
    decomposable model, with the cliques {N0, B0}, {N1, B1}, ... and the separators {N1, B0}, {N2, B1}, ..., which follow one another
    as N1 is a function of N0 and B0 one of B1. (Labels of a node that has fewer children than others, or of a class with fewer
    cells, make cells that do not exist; they are zeros of a known margin, and the tables with zeros there are all tables of a
    fiber.) Its tables are connected by the moves that swap N0 between two counts that agree in a separator, or everything above it
    (Dobra, 2003, Bernoulli 9(6), 1093-1108): exchanges of two cells between two leaves, `kernel.moves.move_square`, whose cells are in
    one class at every level below the node where the leaves meet. Cells of one class in leaves of one node of L0 are linked as above,
    so that the counts that are swapped can be brought to one pair of cells and of leaves. Leaves of which every cell is known, such
    as the only tract of a county whose cells are published, are taken out of the tree: the sums of the others are known as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from bayesdp.hierarchies.tree import NoStructure, Tree, refines

type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

_SINGLE = "proved: every cell of a hierarchy moves on its own"
_LINKED = "proved: exchanges of counts within leaves and between them connect every table with these sums of the nodes"
_SQUARES = (
    "proved: exchanges within leaves and 2x2 exchanges between them connect every table with these sums of the nodes, which are "
    "margins of a decomposable model (Dobra 2003)"
)
LIMITED = (
    "nothing is proved where sums of cells have limits: the moves of the hierarchy are mixed with random sums of them, of up to 64 "
    "cells at once"
)
"""What is known of the moves where sums of cells have limits."""


def exact_classes(levels: int, cells: int, parts: Sequence[tuple[int, Ints]]) -> Ints:
    """Classes of cells at each level, shape (levels, cells): cells of one class count in the same exact sums of a node."""
    # `parts`: the level of each exact query, and the sum in which each cell counts. NoStructure if two queries of one level cut the
    # cells across each other: their sums are not those of classes.
    classes = np.full((levels, cells), -1, dtype=np.int64)
    for level, codes in parts:
        if (classes[level] < 0).all() or refines(codes, classes[level]):
            classes[level] = np.unique(codes, return_inverse=True)[1].reshape(-1)
        elif not refines(classes[level], codes):
            raise NoStructure("exact sums at one level of the tree cut the cells across each other")
    return classes


def effective_levels(classes: Ints) -> list[int]:
    """The levels whose exact sums do not follow from those of lower levels, from the leaves up."""
    # NoStructure if classes at two levels cut the cells across each other.
    found: list[int] = []
    for level, own in enumerate(classes):
        if own[0] < 0 or (found and refines(classes[found[-1]], own)):
            continue
        if found and not refines(own, classes[found[-1]]):
            raise NoStructure("exact sums at two levels of the tree cut the cells across each other")
        found.append(level)
    return found


def connection(tree: Tree, classes: Ints, free: Mask, *, limited: bool) -> tuple[bool, str]:
    """Whether the moves are proved to connect every table, and what is known in words."""
    # `classes`, shape (levels, cells): see `exact_classes`. `free`, shape (T, C): cells that may move. `limited`: whether sums of
    # cells have limits. NoStructure if not even sums of the moves reach every table.
    levels = effective_levels(classes)
    if not levels:
        proved, claim = True, _SINGLE
    elif free.all() or (len(levels) > 1 and (free.all(axis=1) | ~free.any(axis=1)).all()):
        proved, claim = True, _LINKED if len(levels) == 1 else _SQUARES
    elif len(levels) > 1:
        raise NoStructure("exact sums at several levels of the tree, beside cells that are known")
    elif levels[0] and not _linked(tree.path[:, levels[0]], classes[levels[0]], free):
        raise NoStructure("cells that are known leave no way between some leaves under an exact sum")
    else:
        proved, claim = True, _LINKED
    return (False, LIMITED) if limited else (proved, claim)


def _linked(node: Ints, kind: Ints, free: Mask) -> bool:
    """Whether the free cells of each class under each node are linked by common leaves and common cells."""
    # They are the edges of a graph between leaves and cells, with vertices of its own for each node and class.
    leaf, cell = np.nonzero(free)
    kinds, leaves, cells = int(kind.max()) + 1, *free.shape
    table = np.unique(node[leaf], return_inverse=True)[1].reshape(-1) * kinds + kind[cell]
    ends = np.concatenate([leaf * kinds + kind[cell], leaves * kinds + table // kinds * cells + cell])
    vertices = leaves * kinds + (int(table.max(initial=0)) // kinds + 1) * cells
    graph = sp.csr_array((np.ones(len(leaf)), tuple(ends.reshape(2, -1))), shape=(vertices, vertices))
    part = connected_components(graph, directed=False)[1][ends[: len(leaf)]]
    return refines(table, part)
