"""Sensitivities of linear queries, exact: of a query, and of what invariants leave free of its answers.

Neighbouring tables differ by ``u``: ``e_i - e_j`` when one record changes its cell (substitution; any two cells, also
such that the invariants tell apart), ``e_i`` when one record comes or goes (add-remove). The sensitivity of a query ``W`` is
the largest ``|W u|``. Under invariants the noise lives on the space ``W null(A)``, with orthonormal basis ``Q``, and what
has to be hidden is ``Q^T W u`` (Gao, Gong and Yu, 2022, Theorem 3.3).

The l1 sensitivity in Helmert coordinates, without the coordinates. In the contrasts of a dimension (`NestedAxis`), a label is a
vector with few different entries: in the contrast of class k against the earlier classes of the same parent it has ``s_k`` if it
is in an earlier class, ``-W_k s_k / n_k`` if it is in class k, and 0 otherwise. For a pair of labels the contrasts of one level
thus fall into three regions in which both labels are multiples of the same numbers, and a region can be summed before dimensions
are multiplied: ``|Q^T (e_a - e_b)|_1 = sum |prod X_r - prod Y_r|`` over free combinations of regions, one for each dimension.

Not all pairs of labels have to be tried. With everything else fixed, the sum is a nonnegative multiple of what a
choice between labels adds, so that the best label can be chosen alone:

- a label that is not the later one of its pair within its parent: the first of the parent (``sqrt(a/(a+1)) - S_a``,
  with ``S_a`` the sum of the first ``s_k``, is 0 for the first two and falls);
- a label with itself, or with one of another parent: again the first, which has the longest vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints
from bayesdp._docs import documented
from bayesdp._nested import NestedAxis, NestedSums
from bayesdp.fibers.moves.basis import kernel_basis, leading_signs
from bayesdp.invariants import Invariants
from bayesdp.privacy.sensitivities.counted import changed_answers
from bayesdp.privacy.sensitivities.norms import (
    CHUNK,
    NEIGHBOURS,
    NORMS,
    check_size,
    distinct_columns,
    largest_distance,
    lengths,
    widest_pair,
)
from bayesdp.queries import Query, SumPart
from bayesdp.queries.query import checked_query

_MOST_TERMS = 3_000_000_000  # pairs of cells to be tried, times regions
_MOST_MOVED = 200_000_000  # the same for one block of a move, which is to be known in about a second
_MOST_PARENTS = 1500  # groups of labels of one dimension, all pairs of which are tried
_MOST_TYPES = 200_000_000  # combinations of types over all dimensions
_MOST_NUMBERS = 20_000_000  # differences times coordinates that are written out


class _Types(NamedTuple):
    """The types of pairs of labels of one dimension."""

    first: Floats  # one over the size of the class of each label, shape (types, levels)
    second: Floats
    shared: Floats  # the same where both labels are in one class, else 0
    same: Floats  # 1 where both are one label, shape (types,)


def projected_l2(nested: NestedSums, neighbours: str) -> float:
    """The largest ``|P u|_2`` over ``u = e_a - e_b`` (substitution) or ``u = e_a`` (add-remove), P the projection.

    P is ``I - sum_g w_g M_g``, where ``M_g`` averages within the classes of the levels g (`NestedSums.signed_levels`): an entry
    is a product, over the dimensions, of one over the size of the class that both labels are in, or zero. So
    ``|P (e_a - e_b)|^2 = P_aa + P_bb - 2 P_ab`` depends, in each dimension, only on the sizes of the classes of both labels and
    on the finest class that they share. There are few such *types* of pairs; two where no group labels are used.
    NotImplementedError if several dimensions have groups of many different sizes.
    """
    single = neighbours == "add-remove"
    axes = [_types(axis, single=single) for axis in nested.axes]
    total = math.prod(len(axis.same) for axis in axes)
    if total > _MOST_TYPES:
        raise NotImplementedError(
            f"the exact l2 sensitivity compares {total} combinations of group sizes on {len(axes)} dimensions, more than "
            f"{_MOST_TYPES}; use fewer group labels in the invariants, or groups of fewer different sizes"
        )
    # The first dimension is cut so that no block is larger than a chunk.
    head, *tail = axes
    step = max(CHUNK * len(head.same) // total, 1)
    blocks = (_Types(*(part[start : start + step] for part in head)) for start in range(0, len(head.same), step))
    return math.sqrt(max(0.0, *(float(_squares([block, *tail], nested, single=single).max()) for block in blocks)))


def _squares(axes: list[_Types], nested: NestedSums, *, single: bool) -> Floats:
    """``|P u|^2`` for every combination of types."""

    def outer(vectors: list[Floats]) -> Floats:
        return np.asarray(reduce(np.multiply.outer, vectors))

    squares = np.ones([len(axis.same) for axis in axes]) if single else 2.0 - 2.0 * outer([axis.same for axis in axes])
    for weight, levels in nested.signed_levels:
        chosen = list(zip(axes, levels, strict=True))
        squares -= weight * outer([axis.first[:, level] for axis, level in chosen])
        if not single:
            squares -= weight * outer([axis.second[:, level] for axis, level in chosen])
            squares += 2 * weight * outer([axis.shared[:, level] for axis, level in chosen])
    return squares


def _types(axis: NestedAxis, *, single: bool) -> _Types:
    """All types of pairs of labels, or only those of a label with itself."""
    sizes = [np.bincount(code)[code] for code in axis.codes]
    profile = np.zeros(axis.size, dtype=np.int64)
    for size in sizes:  # labels with the same sizes at all levels; one number a label sorts faster than a row
        _, profile = np.unique(profile * (axis.size + 1) + size, return_inverse=True)
    _, example = np.unique(profile, return_index=True)
    inverse = 1.0 / np.stack([size[example] for size in sizes], axis=1)
    finest = len(axis.codes) - 1
    each = np.arange(len(example))
    pairs = [np.stack([each, each, np.full(len(each), finest)])]
    if not single:
        pairs += [_diverging(axis, profile, level) for level in range(finest)]
    first, second, common = np.concatenate(pairs, axis=1)
    together = np.arange(finest + 1) <= common[:, None]
    shared = np.where(together, inverse[first], 0.0)
    return _Types(inverse[first], inverse[second], shared, (common == finest).astype(np.float64))


def _diverging(axis: NestedAxis, profile: Ints, level: int) -> Ints:
    """Types of pairs that share a class of a level but none of the next: profile, profile, level; shape (3, types)."""
    parent, child = axis.codes[level], axis.codes[level + 1]
    count = int(profile.max()) + 1
    _, example = np.unique(child * count + profile, return_index=True)
    rows = np.stack([parent[example], profile[example], child[example]])
    rows = rows[:, np.lexsort(rows[::-1])]
    # Of each profile two classes are enough: then another profile always finds one that is not its own.
    change = np.any(np.diff(rows[:2], axis=1, prepend=-1), axis=0)
    start = np.maximum.accumulate(np.where(change, np.arange(rows.shape[1]), 0))
    rows = rows[:, np.arange(rows.shape[1]) - start < 2]
    found: set[tuple[int, int]] = set()
    for block in np.split(rows, np.flatnonzero(np.diff(rows[0])) + 1, axis=1):
        apart = block[2][:, None] != block[2]
        a, b = np.nonzero(apart)
        found.update(zip(block[1][a].tolist(), block[1][b].tolist(), strict=True))
    listed = np.array(sorted(found), dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([listed, np.full((1, listed.shape[1]), level)])


_SECTIONS = {
    "Parameters": """
query : Query
    What is asked, or what noise is added to.
invariants : Invariants
    What is published exactly of the table.
norm : {"l1", "l2"}
    Norm of the change.
neighbours : {"substitution", "add-remove"}
    One record changes its cell, or one record comes or goes; also where the invariants tell.""",
    "Returns": "float\n    In counts. 0 if the invariants determine all the answers.",
}


@documented(_SECTIONS)
def query_sensitivity(query: Query, norm: str = "l1", neighbours: str = "substitution") -> float:
    """Give the largest change of a query's answers between neighbouring tables, exactly.

    For Identity, margins, totals and stacks of them, one record changes two answers of each part, or one; it is
    enough to find two cells that as many parts as possible tell apart. Nothing of the size of the table squared is
    looked at. For general matrices, the different columns are compared in pairs.

    Raises
    ------
    NotImplementedError
        If a general matrix has too many different columns.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> both = Margins({"county": ["Alpha", "Beta"], "education": ["Low", "High"]}, ["county"], ["education"])
    >>> query_sensitivity(both), query_sensitivity(both, neighbours="add-remove")
    (4.0, 2.0)
    """
    _check(query, norm, neighbours)
    parts = [part for part in query.parts if isinstance(part, SumPart)]
    if not query.parts:
        return 0.0
    if len(parts) == len(query.parts):
        changed = len(parts) if neighbours == "add-remove" else _told_apart(parts)
        return float(changed) if norm == "l1" else math.sqrt(changed)
    columns = sp.csc_array(query.matrix)
    if neighbours == "add-remove":
        entries = abs(columns).astype(np.float64)
        return float(entries.sum(axis=0).max() if norm == "l1" else math.sqrt(entries.power(2).sum(axis=0).max()))
    columns, what = columns[:, distinct_columns(columns)], "different columns of the query"
    rows, count = columns.shape
    if norm == "l2" and rows > 1:
        check_size(count, 1, what)
        return widest_pair((columns.T @ columns).toarray().astype(np.float64))
    if rows > 12:  # before the matrix is written out
        check_size(count, rows, what)
    return largest_distance(columns.T.toarray().astype(np.float64), norm, what)


def _told_apart(parts: Sequence[SumPart]) -> int:
    """The largest number of answers that one record changes when it changes its cell."""
    dims = range(len(parts[0].frame.dims))
    kept = [[part.codes[d] for part in parts if part.codes[d].max() > 0] for d in dims]
    if all(np.all([code != code[0] for code in codes], axis=0).any() for codes in kept if codes):
        # Always so for nested labels: one of another class of the coarsest.
        return 2 * sum(part.rows > 1 for part in parts)
    changed = changed_answers((), tuple(parts), 1, cycle=False)
    if changed is None:
        raise NotImplementedError(
            "the exact sensitivity of a stack of sums by sets of labels that cross on one dimension is found by comparing all "
            "pairs of labels; there are too many"
        )
    return changed


@documented(_SECTIONS)
def projected_sensitivity(
    query: Query, invariants: Invariants, norm: str = "l2", neighbours: str = "substitution"
) -> float:
    """Give the largest change, between neighbouring tables, of what the invariants leave free of a query's answers.

    The l2 norm is that of the projection ``P W u``, whatever the coordinates; the l1 norm is that of the coordinates
    ``invariants.through(query).coordinates(W u)``, and depends on their rule. The l2 norm is at most that of the query;
    the l1 norm is often larger, because one cell has a part in many coordinates.

    Raises
    ------
    NotImplementedError
        If there is no closed form and there are too many cells, or group labels, for comparing all pairs.

    Examples
    --------
    >>> from bayesdp.queries import Identity, Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> margins = Invariants(Margins(table, ["county"], ["education"]))
    >>> print(f"{projected_sensitivity(Identity(table), margins) ** 2:.4f}")
    1.3333
    """
    _check(query, norm, neighbours, invariants)
    free = invariants.through(query)
    if not free.dimension:
        return 0.0
    if not free.rank:  # nothing is projected away, and the coordinates are the answers
        return query_sensitivity(query, norm, neighbours)
    if _covers(query):
        # The contrasts of totals of a table with several dimensions are products, and cross its blocks.
        crossed = norm == "l1" and free.nested is not None and len(free.nested.axes) > 1
        if free.blocks is not None and not crossed:
            return _of_blocks(free.blocks, norm, neighbours)
        if free.nested is not None:
            return helmert_l1(free.nested, neighbours) if crossed else projected_l2(free.nested, neighbours)
    return _of_columns(query, free, norm, neighbours)


def _covers(query: Query) -> bool:
    """Whether the columns of the query are all unit vectors of its answers."""
    return len(query.parts) == 1 and isinstance(query.parts[0], SumPart)


def _of_blocks(blocks: Ints, norm: str, neighbours: str) -> float:
    """Disjoint totals: Helmert contrasts within blocks (for l1), unit vectors for free cells."""
    # The echelon coordinates of a block are Helmert contrasts of its cells in another order, of the same lengths.
    sizes = np.bincount(blocks[blocks >= 0]).astype(np.int64)
    sizes = sizes[sizes > 0]
    free = int(np.sum(blocks < 0))
    if norm == "l1":
        return block_l1(sizes, free, neighbours)
    if neighbours == "add-remove":
        return 1.0 if free else math.sqrt(1.0 - 1.0 / int(sizes.max()))
    # Two cells of one block, or two free cells, lose nothing; two blocks of single cells and one free cell are left.
    return math.sqrt(2.0) if free > 1 or sizes.max(initial=1) > 1 else 1.0


def _of_columns(query: Query, free: Invariants, norm: str, neighbours: str) -> float:
    """General relations: the different vectors ``W e_i``, in coordinates (l1) or by their inner products (l2)."""
    what = "different columns"
    columns = _distinct(query)
    if norm == "l1":
        check_size(columns.shape[1], max(free.dimension, free.frame.size), what)
        points = np.asarray(free.coordinates(_written_out(columns, free)))
        return (
            float(lengths(points, norm).max()) if neighbours == "add-remove" else largest_distance(points, norm, what)
        )
    if _covers(query):  # answers that all relations treat alike are exchangeable: two of each kind will do
        columns = columns[:, distinct_columns(sp.csc_array(free.matrix), copies=2)]
    check_size(columns.shape[1], 1, what)
    step = max(8_000_000 // free.frame.size, 1)
    gram = np.concatenate(
        [
            free.project(_written_out(columns[:, start : start + step], free)).reshape(-1, free.frame.size) @ columns
            for start in range(0, columns.shape[1], step)
        ]
    )
    return math.sqrt(max(float(np.diagonal(gram).max()), 0.0)) if neighbours == "add-remove" else widest_pair(gram)


def _distinct(query: Query) -> sp.csc_array:
    """The different vectors ``W e_i``, as columns."""
    if _covers(query):
        return sp.csc_array(sp.eye_array(query.rows, dtype=np.int64))
    columns = sp.csc_array(query.matrix)
    return columns[:, distinct_columns(columns)]


def _written_out(columns: sp.csc_array, free: Invariants) -> Floats:
    """Answers given as sparse columns, as dense tables."""
    return np.asarray(columns.T.toarray(), dtype=np.float64).reshape(-1, *free.frame.shape)


@documented({"Parameters": _SECTIONS["Parameters"]})
def neighbour_differences(query: Query, invariants: Invariants, neighbours: str = "substitution") -> Floats:
    """List the different vectors ``Q^T W u`` over all neighbouring tables: the sensitivity space of a query.

    Their symmetric hull is what noise of the K-norm mechanism and of correlated Gaussians is fitted to. Which of them are
    equal is decided in integers.

    Returns
    -------
    numpy.ndarray, shape (m, dimension)
        In the coordinates of ``invariants.through(query)``, one of each vector and its negative, without zero.

    Raises
    ------
    ValueError
        If there are too many vectors to list.

    Examples
    --------
    >>> from bayesdp.queries import Identity, Totals
    >>> table = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> differences = neighbour_differences(Identity(table), Invariants(Totals(table)))
    >>> [bool(abs(row @ row - 2) < 1e-12) for row in differences]
    [True, True, True]
    """
    _check(query, "l2", neighbours, invariants)
    free = invariants.through(query)
    if not free.dimension:
        return np.zeros((0, 0))
    columns = _distinct(query)
    count = columns.shape[1]
    pairs = count if neighbours == "add-remove" else count * (count - 1) // 2
    if max(pairs * free.dimension, count * free.frame.size) > _MOST_NUMBERS:
        raise ValueError(
            f"query has {count} different columns, and the {pairs} differences of neighbouring tables in {free.dimension} "
            f"coordinates are more than {_MOST_NUMBERS} numbers; use a mechanism that needs the sensitivity only"
        )
    # An integer basis of the null space has the same kernel as Q^T: it tells exactly which projections are equal.
    keys = np.asarray((kernel_basis(free) @ columns).T.toarray(), dtype=np.int64)
    kept = _first_of_each(keys)
    keys, points = keys[kept], np.asarray(free.coordinates(_written_out(columns[:, kept], free)))
    if neighbours == "substitution":
        a, b = np.triu_indices(len(kept), 1)
        keys, points = keys[a] - keys[b], points[a] - points[b]
    used = np.flatnonzero(np.any(keys != 0, axis=1))
    keys, points = keys[used], points[used]
    return np.asarray(points[_first_of_each(keys * leading_signs(keys)[:, None])])


def _first_of_each(rows: Ints) -> Ints:
    """Positions of the different rows."""
    return np.sort(np.unique(rows, axis=0, return_index=True)[1])


def _check(query: Query, norm: str, neighbours: str, invariants: Invariants | None = None) -> None:
    checked_query(query)
    _validate.choice(norm, NORMS, "norm")
    _validate.choice(neighbours, tuple(NEIGHBOURS), "neighbours")
    _validate.instance(invariants, Invariants | None, "invariants must be an Invariants")


def block_l1(sizes: Ints, free: int, neighbours: str) -> float:
    """The l1 sensitivity where the coordinates are Helmert contrasts within disjoint blocks of cells.

    Within a block of n cells, the cell at position k >= 1 (from 0) has the contrasts ``-sqrt(k / (k + 1))`` at k and
    ``s_j = 1 / sqrt(j (j + 1))`` at j > k. Two cells of one block differ most for the first and some later one:
    ``S_{k-1} + sqrt((k + 1) / k)``, with S the sums of s. `sizes` has the cells of each block; each of the `free` cells in no
    block is a coordinate of its own.
    """
    steps = np.arange(1, max(int(sizes.max(initial=1)), 2), dtype=np.float64)
    scales = 1.0 / np.sqrt(steps * (steps + 1))
    sums = np.concatenate([[0.0], np.cumsum(scales)])
    alone = sums[sizes - 1]
    longest = np.sort(np.concatenate([alone, np.ones(min(free, 2))]))[::-1]
    if neighbours == "add-remove":
        return float(longest[0])
    best = float(longest[:2].sum()) if len(longest) > 1 else 0.0
    if sizes.size and sizes.max() > 1:
        within = sums[:-1] + np.sqrt((steps + 1) / steps)
        best = max(best, float(within[: int(sizes.max()) - 1].max()))
    return best


class _Regions(NamedTuple):
    """Pairs of labels of one dimension, as sums over regions of contrasts."""

    first: Floats  # what the one label has there, shape (pairs, regions)
    second: Floats
    level: Ints  # that the contrasts of a region belong to, shape (regions,)


def helmert_l1(nested: NestedSums, neighbours: str) -> float:
    """The largest ``|Q^T u|_1`` over ``u = e_a - e_b`` (substitution) or ``u = e_a`` (add-remove).

    NotImplementedError if too many pairs of labels are left to be tried.
    """
    single = neighbours == "add-remove"
    listed = [_pairs(axis, single=single) for axis in nested.axes]
    levels = set(product(*(range(len(axis.codes)) for axis in nested.axes))) - nested.components
    # The longest dimension is the inner one.
    order = sorted(range(len(listed)), key=lambda i: len(listed[i][0]))
    counts = [len(listed[i][0]) for i in order]
    regions = [1 + (1 if single else 3) * (len(nested.axes[i].codes) - 1) for i in order]
    terms = math.prod(counts) * math.prod(regions)
    if terms > _MOST_TERMS:
        raise NotImplementedError(
            f"the exact l1 sensitivity of the coordinates would compare {math.prod(counts)} pairs of cells by "
            f"{math.prod(regions)} numbers, more than {_MOST_TERMS} in all; use noise that is scaled to the l2 sensitivity, "
            "or fewer group labels in the invariants"
        )
    axes = [_regions(nested.axes[i], *listed[i], single=single) for i in order]
    return _longest(axes, {tuple(level[i] for i in order) for level in levels}, single=single)


def move_l1(axes: Sequence[NestedAxis], classes: Sequence[Ints]) -> float:
    """The largest ``|Q^T (e_a - e_b)|_1`` in all coordinates, over cells of a block of dimensions whose labels agree in `classes`.

    What a product of differences is in coordinates is the product of what its factors are, so that this is the factor that
    one block of dimensions has in the length of a product move. `classes` has, for each dimension, the class of each label at one
    of the levels of its axis. NotImplementedError if too many pairs of labels are left to be tried.
    """
    chosen = []
    for axis, code in zip(axes, classes, strict=True):
        a, b = _pairs(axis, single=False)
        classes_of = code[axis.order]
        together = classes_of[a] == classes_of[b]
        chosen.append(_regions(axis, a[together], b[together], single=False))
    chosen.sort(key=lambda regions: len(regions.first))
    terms = math.prod(regions.first.size for regions in chosen)
    if terms > _MOST_MOVED:
        raise NotImplementedError(f"{terms} pairs of labels and regions are more than {_MOST_MOVED}")
    return _longest(chosen, None, single=False)


def _longest(axes: Sequence[_Regions], free: set[tuple[int, ...]] | None, *, single: bool) -> float:
    """The largest l1 norm over all products of pairs; of the regions those whose levels are in `free`, or all if it is None."""
    *outer, inner = axes
    best = 0.0
    tags = list(product(*(axis.level.tolist() for axis in outer)))
    for first, second in _blocks(outer, max(CHUNK // len(inner.first), 1)):
        lengths = np.zeros((len(first), len(inner.first)))
        for head, x, y in zip(tags, first.T, second.T, strict=True):
            for region, level in enumerate(inner.level.tolist()):
                if free is not None and (*head, level) not in free:
                    continue
                terms = np.multiply.outer(x, inner.first[:, region])
                lengths += terms if single else np.abs(terms - np.multiply.outer(y, inner.second[:, region]))
        best = max(best, float(lengths.max()))
    return best


def _blocks(axes: Sequence[_Regions], step: int) -> Iterator[tuple[Floats, Floats]]:
    """Products over dimensions for every combination of pairs, a few at a time: ``(pairs, combinations of regions)``."""
    shape = tuple(len(axis.first) for axis in axes)
    for start in range(0, math.prod(shape), step):
        where = np.unravel_index(np.arange(start, min(start + step, math.prod(shape))), shape) if shape else ()
        first = second = np.ones((len(where[0]) if where else 1, 1))
        for axis, rows in zip(axes, where, strict=True):
            first = (first[:, :, None] * axis.first[rows][:, None, :]).reshape(len(rows), -1)
            second = (second[:, :, None] * axis.second[rows][:, None, :]).reshape(len(rows), -1)
        yield first, second


def _pairs(axis: NestedAxis, *, single: bool) -> tuple[Ints, Ints]:
    """Positions, among the sorted labels, of the pairs that have to be tried."""
    starts = axis.starts[-2] if axis.size > 1 else np.zeros(1, dtype=np.int64)
    if single or axis.size == 1:
        return starts, starts
    count = len(starts)
    if count > _MOST_PARENTS:
        raise NotImplementedError(
            f"the exact l1 sensitivity of the coordinates of a table of several dimensions compares all pairs of groups of one "
            f"of them, and {count} groups are more than {_MOST_PARENTS}"
        )
    a, b = np.divmod(np.arange(count * count), count)  # the first labels of any two parents, or of one
    later = np.setdiff1d(np.arange(axis.size), starts)
    first = starts[np.searchsorted(starts, later, side="right") - 1]
    return np.concatenate([starts[a], first, later]), np.concatenate([starts[b], later, first])


def _regions(axis: NestedAxis, a: Ints, b: Ints, *, single: bool) -> _Regions:
    """The regions of pairs of sorted labels: one for the mean, three for each level of contrasts."""
    mean = np.full((len(a), 1), 1.0 / math.sqrt(axis.size))
    firsts, seconds, tags = [mean], [mean], [0]
    for level in range(1, len(axis.codes)):
        ratio, scale, parent, _ = axis.contrasts(level)
        until = np.cumsum(scale)  # including the class itself
        last = np.searchsorted(parent, parent, side="right") - 1
        later = until[last] - until
        itself = -ratio * scale
        x, y = (np.searchsorted(axis.starts[level], position, side="right") - 1 for position in (a, b))
        kin, same = parent[x] == parent[y], x == y
        low, high = np.minimum(x, y), np.maximum(x, y)
        # Contrasts in which only one label is not zero; that of the later label of a parent; what both have alike.
        between = np.abs(itself[low]) + until[np.maximum(high - 1, low)] - until[low]
        both = np.where(kin, np.where(same, np.abs(itself[x]) + later[x], later[high]), 0.0)
        met = kin & ~same
        only_x = np.where(met & (x < y), between, np.where(kin, 0.0, np.abs(itself[x]) + later[x]))
        only_y = np.where(met & (y < x), between, np.where(kin, 0.0, np.abs(itself[y]) + later[y]))
        zero = np.zeros(len(a))
        at_x = np.where(met, np.where(x > y, itself[x], scale[y]), zero)
        at_y = np.where(met, np.where(y > x, itself[y], scale[x]), zero)
        if single:
            firsts.append(both[:, None])
            seconds.append(both[:, None])
        else:
            firsts.append(np.stack([only_x, at_x, both], axis=1))
            seconds.append(np.stack([np.where(kin, only_y, 0.0), np.where(kin, at_y, only_y), both], axis=1))
        tags += [level] * (firsts[-1].shape[1])
    return _Regions(np.concatenate(firsts, axis=1), np.concatenate(seconds, axis=1), np.array(tags, dtype=np.int64))
