"""Lattices and boxes listed by plain arithmetic, and laws on them; no code of the package."""

from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


def probabilities(logs: npt.ArrayLike) -> Floats:
    """Probabilities from logs of any shape up to a constant, all together."""
    own = np.asarray(logs, np.float64)
    return np.asarray(np.exp(own - logsumexp(own)))


def box(reach: int, cells: int) -> Ints:
    """All integer vectors with entries up to `reach` in size, shape (vectors, cells)."""
    return np.array(list(product(range(-reach, reach + 1), repeat=cells)), dtype=np.int64).reshape(-1, cells)


def eliminated(matrix: Ints) -> tuple[list[list[Fraction]], list[int]]:
    """Reduced echelon form and pivot columns."""
    rows = [[Fraction(int(v)) for v in row] for row in matrix]
    pivots: list[int] = []
    for column in range(matrix.shape[1]):
        at = next((i for i in range(len(pivots), len(rows)) if rows[i][column]), None)
        if at is None:
            continue
        rows[len(pivots)], rows[at] = rows[at], rows[len(pivots)]
        lead = rows[len(pivots)]
        scale = lead[column]
        lead[:] = [v / scale for v in lead]
        for i, row in enumerate(rows):
            if i != len(pivots) and row[column]:
                factor = row[column]
                rows[i] = [v - factor * w for v, w in zip(row, lead, strict=True)]
        pivots.append(column)
    return rows[: len(pivots)], pivots


def lattice_points(matrix: Ints, reach: int) -> Ints:
    """All integer vectors that the matrix sends to zero and whose free coordinates are within `reach` of zero."""
    rows, pivots = eliminated(matrix)
    free = [j for j in range(matrix.shape[1]) if j not in pivots]
    grid = box(reach, len(free))
    points = np.zeros((len(grid), matrix.shape[1]), dtype=np.int64)
    points[:, free] = grid
    whole = np.ones(len(grid), dtype=np.bool_)
    for row, pivot in zip(rows, pivots, strict=True):
        scale = int(np.lcm.reduce([v.denominator for v in row]))
        values = -grid @ np.array([int(row[j] * scale) for j in free], dtype=np.int64)
        whole &= values % scale == 0
        points[:, pivot] = values // scale
    return points[whole]
