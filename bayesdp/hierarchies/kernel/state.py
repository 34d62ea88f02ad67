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
    """What the moves read and write; the tuple is fixed, its arrays are not."""

    generator: npt.NDArray[np.uint64]  # state of the random generator, shape (4,)
    counts: Ints  # the table, shape (T, C)
    answers: Floats  # residual and precision of each sum at each node, shape (nodes, A, 2)
    answer_of: Ints  # the sums in which a cell counts, shape (C, queries)
    path: Ints  # the nodes of a leaf, from the leaf up to the root, shape (T, L)
    first: Ints  # with `last`: the leaves of a node are ``first .. last - 1``, shape (nodes,)
    last: Ints
    theta: Floats  # log weights of the prior, shape (rows, C)
    theta_row: Ints  # which row of `theta` holds for a leaf, shape (T,)
    alpha: Floats  # shape (rows, C)
    alpha_row: Ints  # which row of `alpha` holds for a leaf, shape (T,)
    beta: float  # see the table above
    free: npt.NDArray[np.bool_]  # cells that may move. The others keep their counts, shape (T, C)
    # Cells with the same number count in the same exact sums of a node at this level; -1 for cells that count in none, shape (L,
    # C).
    exact_class: Ints
    limited: bool  # whether any sum has limits; if not, the next four are not looked at
    sum_class: Ints  # the class of cells whose sums have limits, shape (C,)
    # `sums`, `sum_lower`, `sum_upper`: current values of these sums at each node, and their limits, shape (nodes, classes).
    sums: Ints
    sum_lower: Ints
    sum_upper: Ints
    group_start: Ints  # shape (T, groups + 1)
    # Free cells of a leaf that a precise answer ties together: entries ``group_start[t, g] .. group_start[t, g + 1] - 1``, shape
    # (entries,).
    group_cell: Ints
    free_start: Ints  # shape (T + 1,)
    free_cell: Ints  # free cells of each leaf, shape (entries,)
    visits: Ints  # how often each of them is visited, in units of `kernel.sweeps.MIX`, shape (entries,)
    donor_start: Ints  # shape (T, pair classes + 1)
    donor_cell: Ints  # cells of a leaf that other cells of their pair class are moved against, shape (entries,)
    # Cells with the same number are in the same exact class at every level: k counts may go from one to the other, shape (C,).
    pair_class: Ints
    weights: Floats  # work space: the weights of the points of a line, shape (ROOM,)
    scratch: Ints  # work space of directions with several cells: leaf, cell, entry, count, shape (4, 64)
    alphas: Floats  # work space of the same, shape (64,)
    occupied: Ints  # work space: the cells of a group that are not 0, shape (C,)
    tried: Ints  # how many moves were tried, shape (1,)
