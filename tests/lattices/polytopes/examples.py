"""Polytopes with closed forms, and those of tables."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.lattices.polytopes import SymmetricHull
from bayesdp.queries import Margins, Totals
from tests.comparison.enumeration import Floats


class Programs(SymmetricHull):
    """A hull whose norm is found by linear programs, as if it were too large for Qhull."""

    boundary = None


def both_margins(rows: int, columns: int) -> Invariants:
    frame = {"row": range(rows), "column": range(columns)}
    return Invariants(Margins(frame, ["row"], ["column"]))


def moves(rows: int, columns: int) -> tuple[Invariants, Floats]:
    """All 2 x 2 moves, in coordinates."""
    tables = []
    for (i, k), (j, m) in product(combinations(range(rows), 2), combinations(range(columns), 2)):
        tables.append(np.zeros((rows, columns)))
        tables[-1][[i, k, i, k], [j, m, m, j]] = 1, 1, -1, -1
    invariants = both_margins(rows, columns)
    return invariants, invariants.coordinates(np.array(tables))


def substitutions(cells: int) -> tuple[Invariants, Floats]:
    """All differences of two cells with a fixed total: the root polytope."""
    invariants, units = Invariants(Totals({"cell": range(cells)})), np.eye(cells)
    pairs = [units[i] - units[j] for i, j in combinations(range(cells), 2)]
    return invariants, invariants.coordinates(np.array(pairs))


def cube(dimension: int) -> Floats:
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * dimension)).reshape(dimension, -1).T
    return signs[signs[:, 0] > 0]
