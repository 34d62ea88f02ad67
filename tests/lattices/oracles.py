"""Lattices enumerated by plain rational elimination, laws on them, and a chi-square test: no code of the package."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import numba as nb
import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from scipy.stats import chi2

from bayesdp._random import seed_state
from bayesdp.invariants import Invariants
from bayesdp.moves.direction import draw_direction
from bayesdp.moves.moves import Moves
from bayesdp.queries import LinearQuery, Margins, Totals

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

LEVEL = 1e-4
"""A correct sampler fails one chi-square test in ten thousand; seeds are fixed, so a test that passes goes on passing."""


def labels(*sizes: int) -> dict[str, list[int]]:
    """Dimensions a, b, c, ... with labels 0, 1, 2, ..."""
    return {name: list(range(size)) for name, size in zip("abcdefgh", sizes, strict=False)}


def one_way(*sizes: int) -> Invariants:
    """All one-way margins."""
    frame = labels(*sizes)
    return Invariants(Margins(frame, *[[dim] for dim in frame]))


def two_way_margins(*sizes: int) -> Invariants:
    """All two-way margins of a three-way table."""
    return Invariants(Margins(labels(*sizes), ["a", "b"], ["b", "c"], ["a", "c"]))


GENERAL = Invariants(LinearQuery(labels(5), [[1, 2, 0, 1, 0], [0, 1, 1, 1, 3]], ["first", "second"]))
BLOCKS = Invariants(Totals({"a": list(range(5)), "group": ("a", ["x", "x", "y", "x", "y"])}, by="group"))
LOOSE = Invariants(LinearQuery(labels(4), [[1, 0, 1, 1]], ["three"]))
"""Cell 1 is in no total."""

CASES = {
    "2x2": (one_way(2, 2), 30),
    "2x3": (one_way(2, 3), 14),
    "3x3": (one_way(3, 3), 8),
    "3x3x3": (two_way_margins(3, 3, 3), 2),
    "totals": (BLOCKS, 14),
    "loose": (LOOSE, 16),
    "general": (GENERAL, 16),
}
"""Invariants, and how far from zero the free cells are enumerated at a rate of about 1."""


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
    grid = np.array(list(product(range(-reach, reach + 1), repeat=len(free))), dtype=np.int64)
    points = np.zeros((len(grid), matrix.shape[1]), dtype=np.int64)
    points[:, free] = grid
    whole = np.ones(len(grid), dtype=np.bool_)
    for row, pivot in zip(rows, pivots, strict=True):
        scale = int(np.lcm.reduce([v.denominator for v in row]))
        values = -grid @ np.array([int(row[j] * scale) for j in free], dtype=np.int64)
        whole &= values % scale == 0
        points[:, pivot] = values // scale
    return points[whole]


def law_on(points: Ints, law: str, scale: float) -> Floats:
    """Probabilities of the points under a law of the noise."""
    if law == "l1":
        return np.asarray(softmax(-scale * np.abs(points).sum(axis=1)))
    squares = (points.astype(np.float64) ** 2).sum(axis=1)
    return np.asarray(softmax(-scale * np.sqrt(squares) if law == "l2" else -squares / (2.0 * scale**2)))


def pvalue(draws: Ints, points: Ints, probability: Floats) -> float:
    """Chi-square p-value of draws (rows) against a law on points (rows).

    Points that are expected fewer than ten times are one class, and so is whatever lies beyond the enumeration.
    """
    common = len(draws) * probability >= 10
    where = {tuple(point): i for i, point in enumerate(points[common].tolist())}
    found = [where.get(tuple(draw), len(where)) for draw in draws.tolist()]
    observed = np.bincount(found, minlength=len(where) + 1)
    expected = len(draws) * np.append(probability[common], 1.0 - probability[common].sum())
    if expected[-1] < 10:
        observed = np.append(observed[:-2], observed[-2:].sum())
        expected = np.append(expected[:-2], expected[-2:].sum())
    assert len(expected) > 1, "too few draws to test anything"
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, len(expected) - 1))


@nb.njit(cache=True)
def _directions(draws, meta, cumulative, pool, state, support, out):  # type: ignore[no-untyped-def]
    cells, steps = np.zeros(support, np.int64), np.zeros(support, np.int64)
    touched, dense = np.zeros(support, np.int64), np.zeros(out.shape[1], np.int64)
    for draw in range(draws):
        count = draw_direction(meta, cumulative, pool, state, cells, steps, dense, touched)
        for i in range(count):
            out[draw, cells[i]] += steps[i]
        if np.any(dense != 0):
            raise ValueError("the scratch array must be zero again")


def directions(moves: Moves, cells: int, draws: int, seed: int = 1) -> Ints:
    """Directions as the kernel draws them, one a row."""
    out = np.zeros((draws, cells), dtype=np.int64)
    state = seed_state(np.random.default_rng(seed))
    support = max(64 * moves.longest, 256)
    _directions(draws, moves.meta, moves.cumulative, moves.pool, state, support, out)
    return out


def distinct_up_to_sign(vectors: Ints) -> set[tuple[int, ...]]:
    """Different vectors, zero left out, first entry positive."""
    found = {tuple(v) for v in vectors.tolist() if any(v)}
    return {v if next(x for x in v if x) > 0 else tuple(-x for x in v) for v in found}


def components(tables: Ints, steps: Iterable[tuple[int, ...]]) -> int:
    """Number of connected pieces of a set of tables under steps of +1 and -1 times the given directions."""
    index = {tuple(table): i for i, table in enumerate(tables.tolist())}
    owner = list(range(len(index)))

    def root(i: int) -> int:
        while owner[i] != i:
            owner[i] = owner[owner[i]]
            i = owner[i]
        return i

    moves = [np.array(step) for step in steps]
    for table, i in index.items():
        for move in moves:
            other = index.get(tuple((np.array(table) + move).tolist()))
            if other is not None:
                owner[root(i)] = root(other)
    return len({root(i) for i in range(len(owner))})
