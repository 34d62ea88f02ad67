"""Families of directions, packed into the arrays that the kernel reads, with the share of the directions that each has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._nested import Classes, classes_of
from bayesdp.moves.moves import CYCLE, EXACT, LISTED, MOST_FACTORS, PRODUCT, SUMS, Kept, Moves

__all__ = ["KEPT_SHARE", "UNPROVED", "Builder"]

type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

_SUMS_SHARE = 0.08
"""Weight of the random sums against all other families: they cost more and are needed rarely."""

KEPT_SHARE = 0.5
"""Share of the directions that keep precise noisy answers besides, where there are any."""

PARTS_SHARE = 0.2
"""What those that keep only some of the sums have of that, where others keep them all."""

UNPROVED = (
    "no Markov basis is known for these invariants, and none was found by computation: basic moves are mixed with "
    "random sums of them, which reach every table of the fiber with positive probability, but how fast is not proved"
)


def _packed(rows: Sequence[Sequence[int]]) -> Ints:
    """Rows of numbers in one array, with zeros at their ends."""
    packed = np.zeros((len(rows), max((len(row) for row in rows), default=2)), dtype=np.int64)
    for own, row in zip(packed, rows, strict=True):
        own[: len(row)] = row
    return packed


def _keys(vectors: sp.csr_array) -> list[tuple[bytes, bytes]]:
    """What tells the rows of a sparse matrix apart."""
    bounds = list(pairwise(vectors.indptr))
    cells, entries = vectors.indices.astype(np.int64), vectors.data.astype(np.int64)
    return [(cells[low:high].tobytes(), entries[low:high].tobytes()) for low, high in bounds]


class Builder:
    """Collects families: a row of `meta` and a weight each, and the lists that the rows point to."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._weights: list[float] = []
        self._pool: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._used = 0
        self._longest = 1
        self._sets: list[tuple[int, bool]] = []
        self._keeping = EXACT
        self._names: list[str] = []
        self._looking: list[list[int]] = []
        self._whole = 0
        self._known: set[tuple[bytes, bytes]] = set()
        self._looked: set[tuple[tuple[bytes, ...], ...]] = set()

    def product(self, factors: Sequence[Classes]) -> None:
        """Add products of differences; for each factor the classes of offsets that may be exchanged.

        Numbers of a factor: how many offsets, where they start, where the class of each starts, where the
        bounds of the classes start.
        """
        self._rows.append([PRODUCT, len(factors), *self._factors(factors)])
        self._weights.append(1.0)
        self._names.append(self._keeping)
        self._longest = max(self._longest, 2 ** len(factors))

    def _factors(self, factors: Sequence[Classes]) -> list[int]:
        numbers: list[int] = []
        for classes in factors:
            kept = [own for own in classes if len(own) > 1]
            sizes = np.array([len(own) for own in kept], dtype=np.int64)
            offsets = self._lay_down(np.concatenate(kept))
            members = self._lay_down(np.repeat(np.arange(len(kept)), sizes))
            bounds = self._lay_down(np.concatenate([[0], np.cumsum(sizes)]))
            numbers += [int(sizes.sum()), offsets, members, bounds]
        return numbers

    def pairs(self, codes: Ints, cells: Ints) -> None:
        """Add the pair moves of disjoint blocks: `cells`, and the block of each."""
        classes = classes_of(codes, cells) if cells.size else []
        if any(len(own) > 1 for own in classes):
            self.product([classes])

    def listed(self, vectors: sp.csr_array) -> None:
        """Add explicit vectors, one a row. Numbers: how many, where indptr, cells and entries start."""
        if not vectors.shape[0]:
            return
        self._known |= set(_keys(vectors))
        starts = [self._lay_down(array) for array in (vectors.indptr, vectors.indices, vectors.data)]
        self._add(LISTED, [[vectors.shape[0], *starts]], int(np.diff(vectors.indptr).max()))

    def further(self, vectors: sp.csr_array) -> None:
        """Add those of some explicit vectors that are not listed yet: a family of their own, so that short ones stay frequent."""
        new = [i for i, key in enumerate(_keys(vectors)) if key not in self._known]
        self.listed(sp.csr_array(vectors[new]))

    def cycles(self, rows: Ints, columns: Ints, cells: Ints) -> None:
        """Add the simple cycles of a bipartite graph whose edges are `cells`, each between one of the rows and one of the columns.

        Edges that no cycle passes through, as they end at a node that has no other, are left out. Numbers, for the rows and then for
        the columns: how many, where their neighbours, the bounds of these and the edges to them start.
        """
        while len(cells):
            alone = (np.bincount(rows)[rows] < 2) | (np.bincount(columns)[columns] < 2)
            if not alone.any():
                break
            rows, columns, cells = rows[~alone], columns[~alone], cells[~alone]
        if not len(cells):
            return
        ends = [np.unique(own, return_inverse=True)[1].reshape(-1) for own in (rows, columns)]
        numbers = []
        for own, other in (ends, ends[::-1]):
            order = np.lexsort((other, own))
            bounds = np.concatenate([[0], np.cumsum(np.bincount(own))])
            numbers.append([len(bounds) - 1, *map(self._lay_down, (other[order], bounds, cells[order]))])
        self._add(CYCLE, numbers, 2 * (numbers[0][0] + numbers[1][0]))

    def moves(self, proved: bool, claim: str) -> Moves:
        """Pack everything; random sums are added where connectivity is not proved."""
        self._share_out()
        looking = _packed(self._looking)
        if self._rows and not proved:
            self._rows.append([SUMS, 0])
            self._weights.append(_SUMS_SHARE * sum(self._weights))
            self._names.append("sums of several")
        meta = _packed(self._rows)
        cumulative = np.cumsum(self._weights, dtype=np.float64)
        if len(cumulative):
            cumulative /= cumulative[-1]
        names = tuple(self._names)
        return Moves(
            meta, cumulative, np.concatenate(self._pool), self._longest, proved, claim, looking, self._whole, names
        )

    def look(self, families: Sequence[Sequence[Classes]], whole: bool) -> None:
        """Have products of up to three differences drawn by looking at which cells are not 0; each of them once."""
        for factors in families:
            key = tuple(tuple(own.tobytes() for own in classes if len(own) > 1) for classes in factors)
            if len(factors) <= MOST_FACTORS and key not in self._looked:
                self._looked.add(key)
                self._whole += whole
                self._looking.append([PRODUCT, len(factors), *self._factors(factors)])

    def begin_set(self, own: Kept) -> None:
        """The families that follow keep a level of precise answers, or some of its sums; they get a share of the directions."""
        self._sets.append((len(self._rows), own.whole))
        self._keeping = own.name

    def _share_out(self) -> None:
        """Weights of the sets of families: those of the exact answers first, the others share `KEPT_SHARE`."""
        bounds = [0, *(start for start, _ in self._sets), len(self._rows)]
        kinds = [None, *(whole for _, whole in self._sets)]
        sets = [(*ends, kind) for ends, kind in zip(pairwise(bounds), kinds, strict=True) if ends[1] > ends[0]]
        numbers = {kind: sum(own == kind for *_, own in sets) for kind in (None, True, False)}
        if len(sets) < 2:
            return
        parts = KEPT_SHARE * (0.0 if not numbers[False] else PARTS_SHARE if numbers[True] else 1.0)
        shares = {None: 1.0 - KEPT_SHARE, True: KEPT_SHARE - parts, False: parts}
        for low, high, kind in sets:
            self._weights[low:high] = [shares[kind] / numbers[kind] / (high - low)] * (high - low)

    def _lay_down(self, values: npt.NDArray[np.integer]) -> int:
        """Append a list to the pool; returns where it starts."""
        start = self._used
        self._pool.append(np.asarray(values, dtype=np.int64))
        self._used += len(values)
        return start

    def _add(self, kind: int, factors: list[list[int]], longest: int) -> None:
        self._rows.append([kind, len(factors), *(n for factor in factors for n in factor)])
        self._weights.append(1.0)
        self._names.append(self._keeping)
        self._longest = max(self._longest, longest)
