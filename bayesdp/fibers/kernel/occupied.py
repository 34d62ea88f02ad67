"""Families of directions that are drawn by looking at which cells are not 0, and the list of these cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp.moves.moves import MOST_FACTORS, Moves

type Ints = npt.NDArray[np.int64]

LONGEST = 6
"""A walk has at most this many labels of each of its two factors: 4 cells for each."""


class Donors(NamedTuple):
    """The families of directions that are drawn by looking at which cells are not 0, and the list of these cells."""

    factors: Ints  # 1 (pairs), 2 (squares) or 3 (cubes), shape (families,)
    # Where the label of a cell stands among those of each factor; -1 in a cell that the family does not move, shape (families, 3,
    # cells).
    place: Ints
    start: Ints  # where the labels of a factor begin in the next three, shape (families, 3)
    # `offset`, `first`, `last`: of each label: what it adds to the number of a cell, and where the labels begin and end that it may
    # be exchanged with.
    offset: Ints
    first: Ints
    last: Ints
    occupied: Ints  # work space: the cells above their lower bounds come first, shape (cells,)
    where: Ints  # work space: where each of them stands there; -1 for others, shape (cells,)
    whole: Ints  # how many of the families, those that come first, keep all answers of a set, shape (1,)
    nodes: Ints  # work space: the labels of a walk


def donors_of(moves: Moves, cells: int) -> Donors:
    """The families of up to three factors among the directions that keep precise noisy answers."""
    rows = moves.looking
    place = np.full((len(rows), MOST_FACTORS, cells), -1, dtype=np.int64)
    start = np.zeros((len(rows), MOST_FACTORS), dtype=np.int64)
    offsets, firsts, lasts = ([np.zeros(0, dtype=np.int64)] for _ in range(3))
    used = 0
    for family, row in enumerate(rows):
        grid = np.zeros((), dtype=np.int64)
        for factor in range(row[1]):
            size, at, members, bounds = row[2 + 4 * factor : 6 + 4 * factor]
            own = moves.pool[at : at + size]
            classes = moves.pool[members : members + size]
            offsets.append(own)
            firsts.append(moves.pool[bounds + classes])
            lasts.append(moves.pool[bounds + classes + 1])
            start[family, factor] = used
            used += int(size)
            grid = grid[..., None] + own
        for factor in range(row[1]):
            labels = np.arange(grid.shape[factor])
            place[family, factor, grid] = labels.reshape([-1 if axis == factor else 1 for axis in range(grid.ndim)])
    return Donors(
        factors=np.array([row[1] for row in rows], dtype=np.int64),
        place=place,
        start=start,
        offset=np.concatenate(offsets),
        first=np.concatenate(firsts),
        last=np.concatenate(lasts),
        occupied=np.zeros(cells, dtype=np.int64),
        where=np.full(cells, -1, dtype=np.int64),
        whole=np.array([moves.whole], dtype=np.int64),
        nodes=np.zeros(2 * LONGEST + 2, dtype=np.int64),
    )
