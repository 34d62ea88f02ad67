"""Directions of movement: random integer vectors that change no invariant.

A direction is drawn without looking at the table, and the step along it is then drawn from its exact conditional
law. That leaves every law on the fiber invariant whatever the distribution of the directions, so a family of moves
is judged only by what it connects and how fast it mixes. The families:

single
    one cell that no invariant sees.
product
    a product of differences. The dimensions are split into m factors; in each, two labels (or combinations of
    labels) of one class are drawn. m = 1 are the pair moves ``e_a - e_b`` of totals, m = 2 the 2x2 moves of two-way
    margins, m = 3 the basic moves of a three-way table with all two-way margins.
cycle
    a simple cycle of the bipartite graph of the allowed cells of a two-way table with structural zeros.
listed
    vectors of an explicit list (reduced lattice basis and short combinations of it).
sums
    signed sums of 1 + Geometric(1/2) moves of the other families. As the others generate the whole lattice, every
    integer direction has positive probability: no fiber is ever cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._nested import NestedSums
from bayesdp.invariants import Invariants
from bayesdp.lattices.basis import integer_kernel

__all__ = ["CYCLE", "LISTED", "MAX_FACTORS", "META", "PRODUCT", "SUMS", "Moves", "moves_for"]

type Ints = npt.NDArray[np.int64]

PRODUCT, LISTED, CYCLE, SUMS = 0, 1, 2, 3
MAX_FACTORS = 6
META = 2 + 4 * MAX_FACTORS
"""Width of a family's row: kind, number of factors, then four numbers a factor (see `_Pool`)."""

_ALL_SIGNED_SUMS = 9
"""Up to this many basis vectors, a listed family holds all their combinations with weights -1, 0, 1."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Families of directions, packed for the kernel.

    Parameters
    ----------
    meta : int64 array, shape (families, META)
        What each family is, and where its numbers start in `pool`.
    cumulative : float64 array, shape (families,)
        Cumulative probabilities of the families.
    pool : int64 array
        All index lists of all families, one after the other.
    longest : int
        Bound on the number of cells in one direction that is not a sum.
    proved : bool
        Whether the moves other than sums are known to connect every fiber of these invariants (a Markov basis).
    claim : str
        What is known of connectivity, in words.
    """

    meta: Ints
    cumulative: npt.NDArray[np.float64]
    pool: Ints
    longest: int
    proved: bool
    claim: str


class _Pool:
    """Appends index lists and remembers where they start."""

    def __init__(self) -> None:
        self.pieces: list[Ints] = []
        self.used = 0

    def add(self, values: Iterable[int] | Ints) -> int:
        piece = np.asarray(values, dtype=np.int64)
        start = self.used
        self.pieces.append(piece)
        self.used += len(piece)
        return start

    def array(self) -> Ints:
        return np.concatenate(self.pieces) if self.pieces else np.zeros(0, dtype=np.int64)


type _Classes = list[Ints]


def _factor(pool: _Pool, classes: _Classes) -> list[int]:
    """Four numbers of a factor: how many offsets, where they start, where their class, where the class bounds start."""
    kept = [c for c in classes if len(c) > 1]
    sizes = np.array([len(c) for c in kept], dtype=np.int64)
    offsets = pool.add(np.concatenate(kept))
    members = pool.add(np.repeat(np.arange(len(kept)), sizes))
    bounds = pool.add(np.concatenate([[0], np.cumsum(sizes)]))
    return [int(sizes.sum()), offsets, members, bounds]


def _classes_of(codes: Ints, offsets: Ints) -> _Classes:
    order = np.argsort(codes, kind="stable")
    return np.split(offsets[order], np.flatnonzero(np.diff(codes[order])) + 1)


def _set_partitions(items: Sequence[int]) -> Iterable[list[list[int]]]:
    if not items:
        yield []
        return
    head, *rest = items
    for smaller in _set_partitions(rest):
        yield [[head], *smaller]
        for i, block in enumerate(smaller):
            yield [*smaller[:i], [head, *block], *smaller[i + 1 :]]


def _agreements(partition: list[list[int]], generators: Sequence[tuple[int, ...]], dims: int) -> list[tuple[int, ...]]:
    """For each dimension, the level at which the two labels must agree, so that the product move changes no sum.

    A sum is unchanged when some factor's difference vanishes at the sum's levels, that is when the labels of that
    factor agree at them. Every choice of one factor a generator gives a valid rule; the least strict are kept.
    """
    rules = set()
    for choice in product(range(len(partition)), repeat=len(generators)):
        level = [0] * dims
        for generator, which in zip(generators, choice, strict=True):
            for dim in partition[which]:
                level[dim] = max(level[dim], generator[dim])
        rules.add(tuple(level))

    def weaker(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        return a != b and all(i <= j for i, j in zip(a, b, strict=True))

    return sorted(rule for rule in rules if not any(weaker(other, rule) for other in rules))


def _product_families(nested: NestedSums, allowed: npt.NDArray[np.bool_] | None) -> list[list[_Classes]]:
    """The factors of every product family that the structure allows, those of fewer factors first.

    A rule is left out where a family with fewer factors moves at least as freely (its moves generate these).
    """
    shape = tuple(axis.size for axis in nested.axes)
    strides = np.array([int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape))], dtype=np.int64)
    kept: list[tuple[list[list[int]], tuple[int, ...]]] = []
    families: list[list[_Classes]] = []
    for partition in sorted(_set_partitions(range(len(shape))), key=len):
        if len(partition) > MAX_FACTORS:
            continue
        for rule in _agreements(partition, nested.generators, len(shape)):
            if any(
                all(any(set(b) <= set(c) for c in coarse) for b in partition) and all(i <= j for i, j in zip(lax, rule, strict=True))
                for coarse, lax in kept
            ):
                continue
            factors = []
            for block in partition:
                sizes = [shape[dim] for dim in block]
                grid = np.indices(sizes).reshape(len(block), -1)
                codes = np.zeros(grid.shape[1], dtype=np.int64)
                for i, dim in enumerate(block):
                    code = nested.axes[dim].codes[rule[dim]]
                    codes = codes * (int(code.max()) + 1) + code[grid[i]]
                offsets = (strides[block][:, None] * grid).sum(axis=0)
                if allowed is not None and len(partition) == 1:
                    codes, offsets = codes[allowed[offsets]], offsets[allowed[offsets]]
                factors.append(_classes_of(codes, offsets))
            if all(any(len(c) > 1 for c in classes) for classes in factors):
                kept.append((partition, rule))
                families.append(factors)
    return families


def _is_decomposable(generators: Sequence[frozenset[int]]) -> bool:
    """Graham reduction: drop what is private to one generator, drop generators inside others, until nothing is left."""
    sets = [set(g) for g in generators]
    changed = True
    while changed and sets:
        changed = False
        for g in sets:
            private = {v for v in g if sum(v in h for h in sets) == 1}
            if private:
                g -= private
                changed = True
        reduced = [g for i, g in enumerate(sets) if g and not any(g < h or (g == h and i > j) for j, h in enumerate(sets))]
        changed |= len(reduced) < len(sets)
        sets = reduced
    return not sets


def _connectivity(nested: NestedSums) -> tuple[bool, str]:
    tops = tuple(len(axis.codes) - 1 for axis in nested.axes)
    if len(nested.generators) == 1:
        return True, "proved: pair moves connect every table with the same disjoint totals"
    plain = all(level in (0, top) for g in nested.generators for level, top in zip(g, tops, strict=True))
    sets = [frozenset(i for i, level in enumerate(g) if level) for g in nested.generators]
    if plain and _is_decomposable(sets):
        return True, (
            "proved: 2x2 moves connect every table with these margins (Diaconis and Sturmfels 1998 for two-way tables; "
            "Dobra 2003 for decomposable sets of margins)"
        )
    return False, _UNPROVED


_UNPROVED = (
    "no Markov basis is known for these invariants: basic moves are mixed with random sums of them, so every table of the "
    "fiber is reached with positive probability, but how fast is not proved"
)


def _listed_vectors(basis: Ints) -> Ints:
    """A redundant list of directions from a reduced basis: the basis, then short sums and differences.

    For small kernels all combinations with weights in {-1, 0, 1} that are conformally primitive among themselves
    (no other listed vector lies inside them, sign by sign) are kept; that finds the 27 + 54 moves of 3x3x3 tables.
    """
    n = len(basis)
    if n == 0:
        return basis
    if n > _ALL_SIGNED_SUMS:
        pairs = [basis[i] + s * basis[j] for i in range(n) for j in range(i) for s in (1, -1) if np.any(basis[i] * basis[j])]
        stacked = np.concatenate([basis, np.array(pairs, dtype=np.int64).reshape(-1, basis.shape[1])])
        limit = 2 * int(np.abs(basis).sum(axis=1).max())
        return np.unique(stacked[np.abs(stacked).sum(axis=1) <= limit], axis=0)
    weights = np.array(list(product((-1, 0, 1), repeat=n)), dtype=np.int64)
    weights = weights[len(weights) // 2 + 1 :]  # one of each pair of opposite combinations
    vectors = np.unique(weights @ basis, axis=0)
    vectors = vectors[np.argsort(np.abs(vectors).sum(axis=1), kind="stable")]
    kept: list[Ints] = []
    signed = np.zeros((0, 2 * basis.shape[1]), dtype=np.int64)
    for v in vectors:
        both = np.concatenate([np.maximum(v, 0), np.maximum(-v, 0)])
        if not np.any(np.all(signed <= both, axis=1)):
            kept.append(v)
            other = np.concatenate([np.maximum(-v, 0), np.maximum(v, 0)])
            signed = np.concatenate([signed, both[None], other[None]])
    return np.array(kept, dtype=np.int64)


def moves_for(invariants: Invariants, fixed: npt.NDArray[np.bool_] | None = None) -> Moves:
    """The families of directions for some invariants.

    Parameters
    ----------
    invariants : Invariants
        What the directions must not change.
    fixed : bool array, shape (cells,), optional
        Cells that never move (structural zeros, cells published exactly): directions leave them alone.

    Returns
    -------
    Moves

    Notes
    -----
    Two-way margins without fixed cells, disjoint totals and decomposable sets of margins (Dobra 2003) have Markov
    bases of product moves: connectivity is proved. Two-way margins with fixed cells: simple cycles of the graph of
    free cells, proved (the matrix is totally unimodular). Everything else: basic moves and random sums of them.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> moves_for(Invariants(Margins(table, ["county"], ["education"]))).proved
    True
    """
    pool = _Pool()
    rows: list[list[int]] = []
    weights: list[float] = []
    cells = invariants.frame.size
    frozen = fixed is not None and bool(fixed.any())
    allowed = ~fixed if frozen and fixed is not None else np.ones(cells, dtype=np.bool_)
    longest = 1

    def family(kind: int, factors: list[list[int]], weight: float) -> None:
        flat = [kind, len(factors), *(n for factor in factors for n in factor)]
        rows.append(flat + [0] * (META - len(flat)))
        weights.append(weight)

    proved, claim = True, "proved: every cell moves on its own"
    if invariants.rank == 0:
        free = np.flatnonzero(allowed)
        _listed(pool, family, sp.csr_array((np.ones(len(free), dtype=np.int64), (np.arange(len(free)), free)), shape=(len(free), cells)))
    elif invariants.nested is not None:
        proved, claim = _connectivity(invariants.nested)
        families = _product_families(invariants.nested, allowed if frozen else None)
        for factors in families:
            longest = max(longest, 2 ** len(factors))
            family(PRODUCT, [_factor(pool, classes) for classes in factors], 1.0)
        only_pairs = all(len(factors) == 1 for factors in families)
        if frozen and not only_pairs:
            if _is_two_way(invariants.nested):
                longest = max(longest, 2 * sum(invariants.frame.shape))
                _cycles(pool, family, allowed.reshape(invariants.frame.shape))
                claim = "proved: simple cycles of the graph of free cells connect every two-way table with these margins"
            else:
                proved, claim = False, _UNPROVED
                kernel = _kernel_on(invariants, allowed)
                longest = max(longest, _listed(pool, family, kernel))
        elif not proved and cells <= 64:
            # Small tables: a list with every short primitive move mixes far better than random sums alone.
            longest = max(longest, _listed(pool, family, _kernel_on(invariants, allowed)))
    else:
        blocks = invariants.blocks
        if blocks is not None:
            proved, claim = True, "proved: pair moves connect every table with the same disjoint totals"
            free = np.flatnonzero(allowed & (blocks >= 0))
            classes = _classes_of(blocks[free], free) if free.size else []
            if any(len(c) > 1 for c in classes):
                longest = 2
                family(PRODUCT, [_factor(pool, classes)], 1.0)
            loose = np.flatnonzero(allowed & (blocks < 0))
            if loose.size:
                singles = sp.csr_array((np.ones(len(loose), dtype=np.int64), (np.arange(len(loose)), loose)), shape=(len(loose), cells))
                _listed(pool, family, singles)
        else:
            proved, claim = False, _UNPROVED
            longest = max(longest, _listed(pool, family, _kernel_on(invariants, allowed)))
    if rows and not proved:
        rows.append([SUMS, 0] + [0] * (META - 2))
        weights.append(0.08 * sum(weights))
    meta = np.array(rows, dtype=np.int64).reshape(-1, META)
    probabilities = np.array(weights, dtype=np.float64)
    cumulative = np.cumsum(probabilities) / probabilities.sum() if rows else np.zeros(0)
    return Moves(meta, cumulative, pool.array(), longest, proved, claim)


def _is_two_way(nested: NestedSums) -> bool:
    tops = tuple(len(axis.codes) - 1 for axis in nested.axes)
    return len(tops) == 2 and set(nested.generators) == {(tops[0], 0), (0, tops[1])}


def _kernel_on(invariants: Invariants, allowed: npt.NDArray[np.bool_]) -> sp.csr_array:
    """A redundant list of integer directions that leave the cells outside `allowed` alone."""
    free = np.flatnonzero(allowed)
    short = _listed_vectors(integer_kernel(invariants.matrix[:, free].toarray()))
    entries = sp.coo_array(short)
    return sp.csr_array((entries.data, (entries.row, free[entries.col])), shape=(len(short), invariants.frame.size), dtype=np.int64)


def _listed(pool: _Pool, family: object, vectors: sp.csr_array) -> int:
    """Add a listed family; returns the largest support."""
    if vectors.shape[0] == 0:
        return 0
    csr = sp.csr_array(vectors)
    numbers = [csr.shape[0], pool.add(csr.indptr), pool.add(csr.indices), pool.add(csr.data)]
    family(LISTED, [numbers], 1.0)  # type: ignore[operator]  # a local function of moves_for
    return int(np.diff(csr.indptr).max())


def _cycles(pool: _Pool, family: object, allowed: npt.NDArray[np.bool_]) -> None:
    """Add the cycles of the bipartite graph of allowed cells: neighbours of each row, then of each column."""
    numbers = []
    for grid in (allowed, allowed.T):
        bounds = np.concatenate([[0], np.cumsum(grid.sum(axis=1))])
        numbers.append([grid.shape[0], pool.add(np.nonzero(grid)[1]), pool.add(bounds), 0])
    family(CYCLE, numbers, 1.0)  # type: ignore[operator]  # a local function of moves_for
