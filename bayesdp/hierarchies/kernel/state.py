"""The arrays that the moves of a hierarchy work on.

A table has T leaves of C cells. Leaves stand under nodes, one at each of L levels; a leaf is a node itself, at level 0. At
every node
the same A sums of cells may have been published with noise: column q of `answer_of` says in which of them a cell counts. For
each
node and sum there is a residual r (published minus current value) and a precision p, and the noise contributes ``-p r^2 /
2`` to
the log-density. A cell with count x contributes ``theta x + log h(x)``, with ``h(x + 1) / h(x) = (alpha + beta x) / (x + 1)``:

=================  =======  ======  =====================
prior of a cell    alpha    beta    h(x)
=================  =======  ======  =====================
flat               1        1       1
Poisson            1        0       1 / x!
negative binomial  shape r  1       Gamma(x + r) / x!
=================  =======  ======  =====================
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["ONE", "PRECISION", "RESIDUAL", "ROOM", "TWO", "UNBOUNDED", "ZERO", "State"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

RESIDUAL, PRECISION = 0, 1
"""Last axis of `State.answers`."""

ROOM = 4096
"""Points of a line that are tabulated at most."""

ZERO: Any = np.int64(0)
ONE: Any = np.int64(1)
TWO: Any = np.int64(2)
"""Arguments of compiled functions: for a 1 that it can read, Numba compiles a function once more."""

UNBOUNDED = 2**53
"""Stands for no upper limit of a sum; also the largest count."""


class State(NamedTuple):
    """What the moves read and write; the tuple is fixed, its arrays are not.

    Parameters
    ----------
    generator : uint64 array, shape (4,)
        State of the random generator.
    counts : int64 array, shape (T, C)
        The table.
    answers : float64 array, shape (nodes, A, 2)
        Residual and precision of each sum at each node.
    answer_of : int64 array, shape (C, queries)
        The sums in which a cell counts.
    path : int64 array, shape (T, L)
        The nodes of a leaf, from the leaf up to the root.
    first, last : int64 arrays, shape (nodes,)
        The leaves of a node are ``first .. last - 1``.
    theta : float64 array, shape (rows, C)
        Log weights of the prior.
    theta_row : int64 array, shape (T,)
        Which row of `theta` holds for a leaf.
    alpha : float64 array, shape (rows, C)
    alpha_row : int64 array, shape (T,)
        Which row of `alpha` holds for a leaf.
    beta : float
        See the table above.
    free : bool array, shape (T, C)
        Cells that may move. The others keep their counts.
    exact_class : int64 array, shape (L, C)
        Cells with the same number count in the same exact sums of a node at this level; -1 for cells that count in none.
    limited : bool
        Whether any sum has limits; if not, the next four are not looked at.
    sum_class : int64 array, shape (C,)
        The class of cells whose sums have limits.
    sums, sum_lower, sum_upper : int64 arrays, shape (nodes, classes)
        Current values of these sums at each node, and their limits.
    group_start : int64 array, shape (T, groups + 1)
    group_cell : int64 array, shape (entries,)
        Free cells of a leaf that a precise answer ties together: entries ``group_start[t, g] .. group_start[t, g + 1] - 1``.
    free_start : int64 array, shape (T + 1,)
    free_cell : int64 array, shape (entries,)
        Free cells of each leaf.
    visits : int64 array, shape (entries,)
        How often each of them is visited, in units of `kernel.sweeps.MIX`.
    donor_start : int64 array, shape (T, pair classes + 1)
    donor_cell : int64 array, shape (entries,)
        Cells of a leaf that other cells of their pair class are moved against.
    pair_class : int64 array, shape (C,)
        Cells with the same number are in the same exact class at every level: k counts may go from one to the other.
    weights : float64 array, shape (ROOM,)
        Work space: the weights of the points of a line.
    scratch : int64 array, shape (4, 64)
        Work space of directions with several cells: leaf, cell, entry, count.
    alphas : float64 array, shape (64,)
        Work space of the same.
    occupied : int64 array, shape (C,)
        Work space: the cells of a group that are not 0.
    tried : int64 array, shape (1,)
        How many moves were tried.
    """

    generator: npt.NDArray[np.uint64]
    counts: Ints
    answers: Floats
    answer_of: Ints
    path: Ints
    first: Ints
    last: Ints
    theta: Floats
    theta_row: Ints
    alpha: Floats
    alpha_row: Ints
    beta: float
    free: npt.NDArray[np.bool_]
    exact_class: Ints
    limited: bool
    sum_class: Ints
    sums: Ints
    sum_lower: Ints
    sum_upper: Ints
    group_start: Ints
    group_cell: Ints
    free_start: Ints
    free_cell: Ints
    visits: Ints
    donor_start: Ints
    donor_cell: Ints
    pair_class: Ints
    weights: Floats
    scratch: Ints
    alphas: Floats
    occupied: Ints
    tried: Ints
