"""Which differences between two tables keep all the invariants: the rows of a guarantee.

The moves that change no sum of nested labels, listed or by rules.

A move on k blocks of dimensions is a product of k differences of two (combinations of) labels. It changes no sum just
when, for every sum, the two labels of some block agree in what the sum keeps of it. A *rule* says at which level of each
dimension the two labels of its block agree; the rules here are the least strict ones, so that they give all such moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, permutations, product

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._nested import NestedSums
from bayesdp.invariants import Invariants
from bayesdp.moves.basis import integer_kernel
from bayesdp.moves.families import family_sizes
from bayesdp.moves.listed import short_combinations
from bayesdp.sensitivities.differences import DIFFERENCES, Difference

ADDED = Difference("one record added to or removed from a cell that no invariant counts", 1.0, 1.0)
"""The difference of general invariants that leave cells out."""

type Ints = npt.NDArray[np.int64]

_GENERAL_CELLS = 400
"""General invariants of larger tables: the search for short differences would take too long."""


def kept_differences(invariants: Invariants) -> tuple[Difference, ...]:
    """The smallest kinds of difference that change no invariant.

    Tables that differ by more are further apart, and protected less. Margins and totals: one record
    substituted, 2x2 moves and 3-cycles, 2x2x2 moves and so on, whichever the invariants let happen. General
    invariants: a record substituted between cells that all invariants treat alike, or the smallest change
    that a reduced basis shows.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> [d.l1 for d in kept_differences(Invariants(Margins(table, ["county"], ["education"])))]
    [4.0]
    """
    if invariants.nested is not None:
        return _of_sums(invariants.nested)
    alike = np.bincount(
        column_groups(invariants.matrix), minlength=1
    )  # cells with one column; first those that nothing counts
    found = [ADDED] if alike[0] else []
    if np.any(alike > 1):
        found.append(DIFFERENCES["substitution"])
    return tuple(found) if found else _shortest(invariants)


def _of_sums(nested: NestedSums) -> tuple[Difference, ...]:
    """The kinds of product moves that nested sums let happen, with 3-cycles beside 2x2 moves of three labels."""
    found: list[Difference] = []
    for sizes in family_sizes(nested):
        blocks = len(sizes)
        if blocks == 1:
            found.append(DIFFERENCES["substitution"])
        elif blocks == 2:
            found.append(DIFFERENCES["2x2 move"])
            if min(sizes) >= 3:
                found.append(DIFFERENCES["3-cycle"])
        else:
            size, name = 2.0**blocks, "x".join("2" * blocks)
            found.append(
                Difference(
                    f"{2 ** (blocks - 1)} records exchange categories within a {name} subtable, all its "
                    f"margins of fewer dimensions kept ({name} move)",
                    size,
                    math.sqrt(size),
                )
            )
    return tuple(sorted(dict.fromkeys(found), key=lambda difference: difference.l1))


def _shortest(invariants: Invariants) -> tuple[Difference, ...]:
    """The smallest change that the search has found, as a kind of its own; nothing where none was found."""
    vectors = found_changes(invariants)
    if not len(vectors):
        return ()
    shortest = vectors[np.argmin(np.abs(vectors).sum(axis=1))].astype(np.float64)
    return (
        Difference(
            "the smallest change found that keeps every invariant (there may be smaller ones)",
            float(np.abs(shortest).sum()),
            float(np.linalg.norm(shortest)),
            found=True,
        ),
    )


@lru_cache(maxsize=8)
def found_changes(invariants: Invariants) -> npt.NDArray[np.int64]:
    """Short changes of a table that keep general invariants, shape (changes, cells); none where it is too large to search."""
    if invariants.frame.size > _GENERAL_CELLS:
        return np.zeros((0, invariants.frame.size), dtype=np.int64)
    return short_combinations(integer_kernel(invariants.matrix.toarray()))


def column_groups(matrix: sp.csr_array) -> Ints:
    """For each cell a number that it shares with the cells that have the same column; 0 for a column of zeros."""
    columns = sp.csc_array(matrix)
    columns.sort_indices()
    group = np.zeros(columns.shape[1], dtype=np.int64)
    ends, seen = columns.indptr, {(b"", b""): 0}
    for cell in np.flatnonzero(np.diff(ends)).tolist():  # most cells may be in no invariant
        own = slice(ends[cell], ends[cell + 1])
        group[cell] = seen.setdefault((columns.indices[own].tobytes(), columns.data[own].tobytes()), len(seen))
    return group


type Block = tuple[int, ...]
type Rule = tuple[int, ...]

_AT_ONCE = 1 << 18
"""Moves in one array."""


def partitions(dims: int, blocks: int) -> list[tuple[Block, ...]]:
    """The ways to split the dimensions 0, 1, ..., dims - 1 into this number of blocks.

    Examples
    --------
    >>> partitions(3, 2)
    [((0, 1), (2,)), ((0, 2), (1,)), ((0,), (1, 2))]
    """
    found = []
    for own in product(range(blocks), repeat=dims):
        if tuple(dict.fromkeys(own)) == tuple(range(blocks)):  # blocks in the order of their first dimension
            found.append(tuple(tuple(d for d in range(dims) if own[d] == block) for block in range(blocks)))
    return found


def rules(nested: NestedSums, blocks: tuple[Block, ...]) -> list[Rule]:
    """The least strict rules under which moves on the blocks change no sum: a level for each dimension."""
    dims = len(nested.axes)
    found: set[Rule] = {(0,) * dims}
    for levels in nested.generators:
        added = [tuple(levels[d] if d in block else 0 for d in range(dims)) for block in blocks]
        longer = {tuple(map(max, rule, more)) for rule in found for more in added}
        found = {
            r for r in longer if not any(o != r and all(a <= b for a, b in zip(o, r, strict=True)) for o in longer)
        }
    return sorted(found)


def block_codes(nested: NestedSums, block: Block, levels: tuple[int, ...]) -> tuple[Ints, Ints]:
    """For each combination of the labels of a block: its class at the given levels of its dimensions, and its offset."""
    shape = [axis.size for axis in nested.axes]
    grid = np.indices([shape[d] for d in block]).reshape(len(block), -1)
    code, offset = np.zeros(grid.shape[1], dtype=np.int64), np.zeros(grid.shape[1], dtype=np.int64)
    for d, labels in zip(block, grid, strict=True):
        own = nested.axes[d].codes[levels[d]]
        code = code * (int(own.max()) + 1) + own[labels]
        offset += labels * math.prod(shape[d + 1 :])
    return code, offset


def pairs_of(code: Ints, most: int) -> tuple[Ints, Ints] | None:
    """All pairs of positions with equal codes, or None if they are more than `most`."""
    sizes = np.bincount(code)
    if int((sizes * (sizes - 1) // 2).sum()) > most:
        return None
    order = np.argsort(code, kind="stable")
    first, second = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for own in np.split(order, np.cumsum(sizes)[:-1]):
        i, j = np.triu_indices(own.size, 1)
        first.append(own[i])
        second.append(own[j])
    return np.concatenate(first), np.concatenate(second)


def product_moves(nested: NestedSums, blocks: int, most: int) -> Iterator[Ints] | None:
    """List the cells of all moves on this number k of blocks that change no sum, as arrays of shape ``(moves, 2**k)``.

    Signs alternate as those of a product: ``(-1)**(number of second labels)``, the last block running fastest. A move may come
    twice. None if there are more than `most` moves.
    """
    listed: list[list[tuple[Ints, Ints]]] = []
    count = 0
    for split in partitions(len(nested.axes), blocks):
        for rule in rules(nested, split):
            own = []
            for block in split:
                code, offset = block_codes(nested, block, rule)
                found = pairs_of(np.unique(code, return_inverse=True)[1], most)
                if found is None:
                    return None
                own.append((offset[found[0]], offset[found[1]]))
            count += math.prod(len(pair[0]) for pair in own)
            if count > most:
                return None
            listed.append(own)
    return (cells for own in listed for cells in _products(own))


def _products(pairs: list[tuple[Ints, Ints]]) -> Iterator[Ints]:
    """The cells of every product of one pair of each block, shape (moves, 2**blocks), at most `_AT_ONCE` moves at a time."""
    sizes = [len(pair[0]) for pair in pairs]
    for start in range(0, math.prod(sizes), _AT_ONCE):
        where = np.unravel_index(np.arange(start, min(start + _AT_ONCE, math.prod(sizes))), sizes)
        cells = np.zeros((len(where[0]), 1), dtype=np.int64)
        for pair, own in zip(pairs, where, strict=True):
            ends = np.stack([pair[0][own], pair[1][own]], axis=1)
            cells = (cells[:, :, None] + ends[:, None, :]).reshape(len(cells), -1)
        yield cells


def count_cycles(nested: NestedSums) -> int:
    """How many 3-cycles there are on the labels of all pairs of blocks, whether or not they change a sum."""
    total = 0
    for one, other in partitions(len(nested.axes), 2):
        sizes = [math.prod(nested.axes[d].size for d in block) for block in (one, other)]
        total += 6 * math.comb(sizes[0], 3) * math.comb(sizes[1], 3)
    return total


def cycles(nested: NestedSums) -> Iterator[Ints]:
    """List the cells of all 3-cycles that change no sum, shape (cycles, 6): +1 on the first three, -1 on the others.

    On labels ``a1, a2, a3`` of one block and ``c1, c2, c3`` of the other they are +1 at ``(a_i, c_i)`` and -1 at
    ``(a_i, c_{i+1})``. One of each cycle and its negative is listed.
    """
    tops = tuple(len(axis.codes) - 1 for axis in nested.axes)
    for first, last in partitions(len(nested.axes), 2):
        one, other = first, last
        if math.prod(nested.axes[d].size for d in one) > math.prod(nested.axes[d].size for d in other):
            one, other = other, one  # the first is run through one by one
        (_, left), (_, right) = block_codes(nested, one, tops), block_codes(nested, other, tops)
        sums = [(block_codes(nested, one, g)[0], block_codes(nested, other, g)[0]) for g in nested.generators]
        second = np.array(list(permutations(range(len(right)), 3)), dtype=np.int64).reshape(-1, 3)
        for a in combinations(range(len(left)), 3):
            keep = np.ones(len(second), dtype=np.bool_)
            for mine, theirs in sums:
                keep &= _vanishes(mine[list(a)], theirs[second])
            c = second[keep]
            for start in range(0, len(c), _AT_ONCE):
                yield np.concatenate(
                    [left[list(a)] + right[c[start : start + _AT_ONCE, turn]] for turn in ([0, 1, 2], [1, 2, 0])],
                    axis=1,
                )


def _vanishes(a: Ints, c: Ints) -> npt.NDArray[np.bool_]:
    """Whether a 3-cycle sums to zero on classes a, shape (3,), and c, shape (n, 3)."""
    # It does if all of one side are in one class, or if two labels of the one are and so are those two of the other that make their
    # four cells cancel: with `a_i` and `a_{i+1}` alike, `c_i` and `c_{i+2}`.
    if a[0] == a[1] == a[2]:
        return np.ones(len(c), dtype=np.bool_)
    zero = np.asarray((c[:, 0] == c[:, 1]) & (c[:, 1] == c[:, 2]))
    for i in range(3):
        if a[i] == a[(i + 1) % 3]:
            zero |= c[:, i] == c[:, (i + 2) % 3]
    return zero
