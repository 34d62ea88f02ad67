"""Invariants and laws on their lattices, and what is compared with them: see tests/comparison."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from operator import add

import numba as nb
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import softmax

from bayesdp._numba import seed_state
from bayesdp.fibers.moves.direction import draw_direction
from bayesdp.fibers.moves.moves import Moves
from bayesdp.invariants import Invariants
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.comparison.chi_square import LEAST, draws_pvalue
from tests.comparison.enumeration import Floats, Ints, lattice_points
from tests.comparison.enumeration import eliminated as eliminated

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


def law_on(points: Ints, law: str, scale: float) -> Floats:
    """Probabilities of the points under a law of the noise."""
    if law == "l1":
        return np.asarray(softmax(-scale * np.abs(points).sum(axis=1)))
    squares = (points.astype(np.float64) ** 2).sum(axis=1)
    return np.asarray(softmax(-scale * np.sqrt(squares) if law == "l2" else -squares / (2.0 * scale**2)))


def pvalue(draws: Ints, points: Ints, probability: Floats) -> float:
    """Chi-square p-value of draws (rows) against a law on points (rows); what lies beyond them is with the rare ones."""
    common = len(draws) * probability >= LEAST
    return draws_pvalue(draws, points[common], probability[common])


def assert_mass(draws: Ints, points: Ints, probability: Floats) -> None:
    """One test at `LEVEL`."""
    assert pvalue(draws, points, probability) > LEVEL


def assert_follows(draws: Ints, matrix: Ints, reach: int, law: str, scale: float) -> None:
    """One test at `LEVEL` of draws (rows) against the law on enumerated vectors that the matrix sends to zero."""
    assert not np.any(matrix @ draws.T)
    points = _listed(matrix.astype(np.int64).tobytes(), matrix.shape, reach)
    assert_mass(draws, points, law_on(points, law, scale))


@lru_cache(maxsize=2)
def _listed(matrix: bytes, shape: tuple[int, ...], reach: int) -> Ints:
    return lattice_points(np.frombuffer(matrix, dtype=np.int64).reshape(shape), reach)


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
    out, support = np.zeros((draws, cells), dtype=np.int64), max(64 * moves.longest, 256)
    state = seed_state(np.random.default_rng(seed))
    _directions(draws, moves.meta, moves.cumulative, moves.pool, state, support, out)
    return out


def distinct_up_to_sign(vectors: Ints) -> set[tuple[int, ...]]:
    """Different vectors, zero left out, first entry positive."""
    found = {tuple(v) for v in vectors.tolist() if any(v)}
    return {v if next(x for x in v if x) > 0 else tuple(-x for x in v) for v in found}


def components(tables: Ints, steps: Iterable[tuple[int, ...]]) -> int:
    """Number of connected pieces of a set of tables under steps of +1 and -1 times the given directions."""
    index = {tuple(table): i for i, table in enumerate(tables.tolist())}
    moved = [(i, index.get(tuple(map(add, table, step)))) for step in steps for table, i in index.items()]
    rows, columns = np.array([pair for pair in moved if pair[1] is not None], dtype=int).reshape(-1, 2).T
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(index), len(index)))
    return int(connected_components(graph, directed=False)[0])
