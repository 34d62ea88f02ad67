"""Exact answers as rows over cells: equalities, limits of rows, limits of single cells; and rows that are a forest of sets.

Totals of a tree of geography, limits of the sums of its nodes and cells that are 0 are such a family: any two of the sets of cells
that are added up are disjoint, or one holds the other (a laminar family), so that the sets are a forest. What a set can add up to is
an interval of whole numbers, found from the cells up: at least what its parts add up to at least, at most what they add up to at
most, within its own limits. All of it is attained, and numbers of the parts can be chosen one by one from the top down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._validate import no_table
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.queries import Query
from bayesdp.queries.parts import exact_product, largest_size

_MOST = 2.0**61
"""Sums stay below, so that int64 holds them."""


@dataclass(frozen=True, eq=False)
class Laminar:
    """A forest of sets of cells. Nodes are the sets and then the cells, and a last one above all that are in no set."""

    parent: Ints  # the smallest set that holds each node; ``sets + cells`` for none, shape (sets + cells,)
    # Nodes by the number of sets that hold them, those that are in none first, in the order of their parents.
    layers: tuple[Ints, ...]
    # `lower`, `upper`: what each node can be, given those below it, shape (sets + cells,); `UNBOUNDED` above where there is no limit.
    lower: Ints
    upper: Ints
    cells: int
    empty: int  # a set or cell that can be nothing, or -1

    @classmethod
    def of(cls, rows: sp.csr_array, low: Floats, high: Floats, lower: Ints, upper: Ints) -> Laminar | None:
        """The forest of sums with limits (infinite where there is none); None for weights, and sets that overlap without nesting."""
        cells = rows.shape[1]
        if np.any(rows.data != 1) or not _adds_up(low, high, lower, upper):
            return None
        found = _forest(rows)
        if found is None:
            return None
        parent, layers = found
        least = np.concatenate([np.maximum(low, 0), lower]).astype(np.int64)
        most = np.concatenate([np.minimum(high, UNBOUNDED), upper]).astype(np.int64)
        for nodes in layers[:0:-1]:
            above, starts = _families(parent, nodes)
            least[above] = np.maximum(least[above], np.add.reduceat(least[nodes], starts))
            most[above] = np.minimum(most[above], _most_of(most[nodes], starts))
        wrong = np.flatnonzero(least > most)
        return cls(parent, layers, least, most, cells, int(wrong[0]) if wrong.size else -1)

    def point(self, guide: Floats) -> Ints:
        """A table near `guide`, shape (cells,): its sums are as near as limits allow, from the top down."""
        # What the parts of a set have too much or too little is taken from or given to them alike, as far as each can go.
        wanted = np.zeros(len(self.parent), dtype=np.int64)
        largest = min(float(UNBOUNDED), _MOST / self.cells)
        near = np.rint(np.clip(guide, -largest, largest)).astype(np.int64)
        wanted[-self.cells :] = np.clip(near, self.lower[-self.cells :], self.upper[-self.cells :])
        for nodes in self.layers[:0:-1]:
            above, starts = _families(self.parent, nodes)
            sums = np.add.reduceat(wanted[nodes], starts)
            wanted[above] = np.clip(sums, self.lower[above], self.upper[above])
        for nodes in self.layers[1:]:
            above, starts = _families(self.parent, nodes)
            wanted[nodes] = _shared(wanted[nodes], self.lower[nodes], self.upper[nodes], starts, wanted[above])
        return wanted[-self.cells :].copy()

    def bounds(self) -> tuple[Ints, Ints]:
        """The least and the most that each cell can be, `UNBOUNDED` where there is no limit. All are attained."""
        least, most = self.lower.copy(), self.upper.copy()
        for nodes in self.layers[1:]:
            above, starts = _families(self.parent, nodes)
            sizes = np.diff(np.append(starts, len(nodes)))
            low, high = self.lower[nodes], self.upper[nodes]
            # What is left for a node when the others are as large, or as small, as they can be.
            open_ = high >= UNBOUNDED
            others_open = np.repeat(np.add.reduceat(open_.astype(np.int64), starts), sizes) - open_
            finite = np.where(open_, 0, high)
            others_high = np.repeat(np.add.reduceat(finite, starts), sizes) - finite
            others_low = np.repeat(np.add.reduceat(low, starts), sizes) - low
            top, bottom = np.repeat(most[above], sizes), np.repeat(least[above], sizes)
            most[nodes] = np.where(top >= UNBOUNDED, high, np.minimum(high, top - others_low))
            least[nodes] = np.where(others_open > 0, low, np.maximum(low, bottom - others_high))
        return least[-self.cells :], most[-self.cells :]


def _adds_up(*limits: Floats | Ints) -> bool:
    """Whether int64 holds all sums of finite limits, and float64 each of them."""
    largest = 0.0
    for limit in limits:
        finite = np.abs(limit[np.isfinite(limit) & (np.abs(limit) != UNBOUNDED)])
        largest = max(largest, float(finite.max(initial=0)))
    return largest < UNBOUNDED and largest * len(limits[-1]) < _MOST


def _most_of(most: Ints, starts: Ints) -> Ints:
    """What parts add up to at most, `UNBOUNDED` where one of them has no limit."""
    open_ = most >= UNBOUNDED
    sums = np.add.reduceat(np.where(open_, 0, most), starts)
    return np.where(np.logical_or.reduceat(open_, starts), UNBOUNDED, np.minimum(sums, UNBOUNDED))


def _forest(rows: sp.csr_array) -> tuple[Ints, tuple[Ints, ...]] | None:
    """The parent of each set and cell, and nodes by layers; None where sets overlap without one holding the other."""
    sets, cells = rows.shape
    size = np.diff(rows.indptr)
    set_of, cell_of = np.repeat(np.arange(sets), size), rows.indices
    # The sets of each cell, the largest first.
    order = np.lexsort((set_of, -size[set_of], cell_of))
    set_of, cell_of = set_of[order].astype(np.int64), cell_of[order].astype(np.int64)
    first = np.r_[True, cell_of[1:] != cell_of[:-1]] if len(cell_of) else np.zeros(0, dtype=np.bool_)
    above = np.where(first, sets + cells, np.r_[0, set_of[:-1]] if len(set_of) else set_of)
    parent = np.full(sets + cells, sets + cells, dtype=np.int64)
    parent[set_of] = above
    # If the next larger set is the same for all cells of a set, it holds them all, and so do those above it.
    if not np.array_equal(parent[set_of], above):
        return None
    last = np.r_[first[1:], True] if len(first) else first
    parent[sets + cell_of[last]] = set_of[last]
    depth = np.zeros(sets + cells + 1, dtype=np.int64)
    depth[-1] = -1
    place = np.arange(len(set_of)) - np.maximum.accumulate(np.where(first, np.arange(len(set_of)), 0))
    depth[set_of] = place
    depth[sets : sets + cells] = depth[parent[sets:]] + 1
    layers = []
    for layer in range(int(depth.max()) + 1):
        nodes = np.flatnonzero(depth[:-1] == layer)
        layers.append(nodes[np.argsort(parent[nodes], kind="stable")])
    return parent, tuple(layers)


def _families(parent: Ints, nodes: Ints) -> tuple[Ints, Ints]:
    """The parents of the nodes of a layer, each once, and where the children of each begin."""
    above = parent[nodes]
    starts = np.flatnonzero(np.r_[True, above[1:] != above[:-1]])
    return above[starts], starts


def _shared(wanted: Ints, lower: Ints, upper: Ints, starts: Ints, totals: Ints) -> Ints:
    """Numbers within limits with given sums: those that are wanted, all shifted alike, and ones more for the first that can."""
    sizes = np.diff(np.append(starts, len(wanted)))
    # None is more than the total of its family.
    high = np.minimum(upper, np.repeat(totals, sizes))

    def at(shift: Ints) -> Ints:
        return np.clip(wanted + np.repeat(shift, sizes), lower, high)

    # The largest shift for which the sum is at most the total, by bisection.
    low = np.minimum.reduceat(lower - wanted, starts)
    top = np.maximum.reduceat(high - wanted, starts) + 1
    while np.any(top - low > 1):
        middle = low + (top - low) // 2
        tried = at(middle)
        small = np.add.reduceat(tried.astype(np.float64), starts) < _MOST  # beyond that int64 might wrap
        fits = small & (np.add.reduceat(tried, starts) <= totals)
        low, top = np.where(fits, middle, low), np.where(fits, top, middle)
    found = at(low)
    missing = totals - np.add.reduceat(found, starts)
    more = at(low + 1) > found
    rank = np.cumsum(more) - more
    found += more & (rank - np.repeat(rank[starts], sizes) < np.repeat(missing, sizes))
    return found


type Answers = Sequence[tuple[Query, Ints]]

_SIGNS = ("=", ">=", "<=")


@dataclass(frozen=True, eq=False)
class System:
    """Exact answers as linear equalities ``matrix @ x = totals``, limits of sums of cells, and limits of single cells."""

    frame: Frame
    matrix: sp.csr_array  # equality rows over two or more cells, their totals and names
    totals: Ints
    names: list[str]
    limit_matrix: sp.csr_array  # rows over two or more cells with limits, infinite where there is none
    limit_lower: Floats
    limit_upper: Floats
    limit_names: list[str]
    lower: Ints  # limits that are stated of single cells, `UNBOUNDED` above where there is none
    upper: Ints

    @cached_property
    def laminar(self) -> Laminar | None:
        """The rows as sets that nest or are disjoint, where they are."""
        return Laminar.of(*self.limited_rows(), self.lower, self.upper)

    @property
    def fixed(self) -> Mask:
        """Cells whose value is stated."""
        return np.asarray(self.lower == self.upper)

    def limited_rows(self) -> tuple[sp.csr_array, Floats, Floats]:
        """All rows over two or more cells with their lower and upper limits, the equalities first; float64, as solvers take them."""
        rows = sp.csr_array(sp.vstack([self.matrix, self.limit_matrix], format="csr")).astype(np.float64)
        totals = self.totals.astype(np.float64)
        return rows, np.concatenate([totals, self.limit_lower]), np.concatenate([totals, self.limit_upper])

    @classmethod
    def of(cls, frame: Frame, equal: Answers, below: Answers, above: Answers) -> System:
        """Gather rows; rows over a single cell become limits of that cell, which must allow a whole number >= 0."""
        lower = np.zeros(frame.size, dtype=np.int64)
        upper = np.full(frame.size, UNBOUNDED, dtype=np.int64)
        none = sp.csr_array((0, frame.size), dtype=np.int64)
        matrices, totals = {sign: [none] for sign in _SIGNS}, {sign: [np.zeros(0, dtype=np.int64)] for sign in _SIGNS}
        names: dict[str, list[str]] = {sign: [] for sign in _SIGNS}
        by_sign = list(zip(_SIGNS, (equal, below, above), strict=True))
        for sign, answers in by_sign:
            for query, values in answers:
                # Not `query.matrix`, which the query would keep: an entry a cell, of a table that is large as a rule here.
                matrix = sp.csr_array(sp.vstack([part.matrix for part in query.parts], format="csr"))
                flat = values.reshape(-1)
                counts = np.diff(matrix.indptr)
                _check_no_cell(query, flat, np.flatnonzero(counts == 0), sign)
                empty = _single(query, matrix, flat, np.flatnonzero(counts == 1), sign, lower, upper)
                if empty is not None:
                    stated = ((s, query, values) for s, listed in by_sign for query, values in listed)
                    raise ValueError(no_table(_about(empty, stated)))
                several = np.flatnonzero(counts > 1)
                matrices[sign].append(matrix[several])
                totals[sign].append(flat[several])
                names[sign] += [query.answer_name(int(i)) for i in several]
        low, high = (np.concatenate(totals[sign]).astype(np.float64) for sign in _SIGNS[1:])
        return cls(
            frame,
            sp.csr_array(sp.vstack(matrices["="], format="csr")),
            np.concatenate(totals["="]),
            names["="],
            sp.csr_array(sp.vstack(matrices[">="] + matrices["<="], format="csr")),
            np.concatenate([low, np.full(len(high), -np.inf)]),
            np.concatenate([np.full(len(low), np.inf), high]),
            names[">="] + names["<="],
            lower,
            upper,
        )

    def free_totals(self) -> Ints:
        """What the equality rows leave for the cells that are not fixed."""
        fixed = np.where(self.fixed, self.lower, 0)
        return np.asarray(self.totals - _sums(self.matrix, fixed, self.names), dtype=np.int64)

    def allows(self, table: Ints) -> bool:
        """Whether a flat table has the exact answers, checked in integers (solvers work in floating point)."""
        equal = np.array_equal(_sums(self.matrix, table, self.names), self.totals)
        if not equal or np.any((table < self.lower) | (table > self.upper)):
            return False
        limited = _sums(self.limit_matrix, table, self.limit_names)
        return bool(np.all((limited >= self.limit_lower) & (limited <= self.limit_upper)))

    def checked(self, table: Ints) -> Ints:
        """The table, if it has the exact answers; else an error."""
        if not self.allows(table):
            raise ValueError(conflict(self))
        return table


def _sums(matrix: sp.csr_array, table: Ints, names: list[str]) -> Ints:
    """Sums of cells, exactly; an error where int64 might not hold one."""
    most = largest_size(matrix.data) * int(np.diff(matrix.indptr).max(initial=0))
    return np.asarray(exact_product(matrix, table[None], most, names.__getitem__)[0])


def _check_no_cell(query: Query, values: Ints, rows: Ints, sign: str) -> None:
    """Rows that add up no cell are 0."""
    stated = values[rows]
    wrong = np.flatnonzero(stated != 0 if sign == "=" else stated > 0 if sign == ">=" else stated < 0)
    if wrong.size:
        message = f"{query.answer_name(int(rows[wrong[0]]))} {sign} {stated[wrong[0]]}"
        raise ValueError(no_table([message]) + " (the answer adds up no cell, so it is 0)")


def _single(
    query: Query, matrix: sp.csr_array, values: Ints, rows: Ints, sign: str, lower: Ints, upper: Ints
) -> int | None:
    """Turn rows with one cell into limits of these cells, in place; a cell for which nothing is left, if there is one."""
    if not rows.size:
        return None
    at = matrix.indptr[rows]
    cell, entry, value = matrix.indices[at], matrix.data[at].astype(np.int64), values[rows]
    down = value // entry
    if sign == "=":
        odd = np.flatnonzero(value % entry)
        if odd.size:
            first = int(odd[0])
            name = query.frame.cell_name(int(cell[first]))
            reason = f" (the answer is {entry[first]} times the cell {name}, and no whole number fits)"
            raise ValueError(no_table([f"{query.answer_name(int(rows[first]))} = {value[first]}"]) + reason)
        low = high = down
    else:
        from_below = (entry > 0) == (sign == ">=")
        low = np.where(from_below, -((-value) // entry), 0)  # ceiling
        high = np.where(from_below, UNBOUNDED, down)
    np.maximum.at(lower, cell, low)
    np.minimum.at(upper, cell, high)
    wrong = np.flatnonzero((lower[cell] > upper[cell]) | (high < 0))
    return int(cell[wrong[0]]) if wrong.size else None


def _about(cell: int, stated: Iterable[tuple[str, Query, Ints]]) -> list[str]:
    """What is stated of a single cell."""
    found = []
    for sign, query, values in stated:
        matrix, flat = query.matrix, values.reshape(-1)
        for row in np.flatnonzero(np.diff(matrix.indptr) == 1):
            if matrix.indices[matrix.indptr[row]] == cell:
                found.append(f"{query.answer_name(int(row))} {sign} {flat[row]}")
    return list(dict.fromkeys(found))


def is_two_way(invariants: Invariants) -> bool:
    """Whether the invariants are exactly both margins of a two-way table."""
    return invariants.nested is not None and invariants.nested.is_two_way


def cells_of(system: System, row: int) -> Ints:
    """The cells that an equality row adds up."""
    return np.asarray(system.matrix.indices[system.matrix.indptr[row] : system.matrix.indptr[row + 1]])


def two_way_margins(system: System) -> tuple[Ints, Ints]:
    """Row and column totals of a two-way table, from equalities that are sums of one whole row or column (`is_two_way`)."""
    rows, columns = system.frame.shape
    row_total, column_total = np.zeros(rows, dtype=np.int64), np.zeros(columns, dtype=np.int64)
    for i, total in enumerate(system.totals):
        cells = cells_of(system, i)
        in_rows, in_columns = np.unique(cells // columns), np.unique(cells % columns)
        if len(in_rows) == 1 and len(cells) == columns:
            row_total[in_rows[0]] = total
        elif len(in_columns) == 1 and len(cells) == rows:
            column_total[in_columns[0]] = total
    return row_total, column_total


_LARGEST = 400_000
"""Statements times cells: beyond that the list is of those that an elastic program relaxes, and need not be complete."""

_MOST_STATEMENTS = 300
"""Each statement is left out once, which takes one linear program."""


@dataclass(frozen=True, eq=False)
class _Statements:
    """All statements of a system as rows ``low <= row @ x <= high``."""

    rows: sp.csr_array
    low: Floats
    high: Floats
    names: list[str]

    @classmethod
    def of(cls, system: System) -> _Statements:
        stated = np.flatnonzero((system.lower > 0) | (system.upper < UNBOUNDED))
        ones = np.ones(stated.size)
        cells = sp.csr_array((ones, (np.arange(stated.size), stated)), shape=(stated.size, system.frame.size))
        lower, upper = system.lower[stated], system.upper[stated]
        names = [f"{name} = {total}" for name, total in zip(system.names, system.totals.tolist(), strict=True)]
        limits = zip(system.limit_names, system.limit_lower.tolist(), system.limit_upper.tolist(), strict=True)
        names += [f"{name} >= {low:.0f}" if np.isfinite(low) else f"{name} <= {high:.0f}" for name, low, high in limits]
        for cell, low, high in zip(stated.tolist(), lower.tolist(), upper.tolist(), strict=True):
            name = system.frame.cell_name(cell)
            if low == high:
                names.append(f"{name} = {low}")
            else:
                ends = [f"{name} >= {low}"] * (low > 0) + [f"{name} <= {high}"] * (high < UNBOUNDED)
                names.append(" and ".join(ends))
        rows, least, most = system.limited_rows()
        every = sp.csr_array(sp.vstack([rows, cells], format="csr"))
        open_upper = np.where(upper == UNBOUNDED, np.inf, upper)
        return cls(every, np.concatenate([least, lower]), np.concatenate([most, open_upper]), names)

    def possible(self, kept: Ints, *, whole: bool) -> bool:
        """Whether some ``x >= 0`` fits the kept statements; an unfinished search counts as yes."""
        if not kept.size:
            return True
        result = scipy.optimize.milp(
            np.zeros(self.rows.shape[1]),
            integrality=np.full(self.rows.shape[1], int(whole)),
            bounds=(0, np.inf),
            constraints=(self.rows[kept], self.low[kept], self.high[kept]),
            options={"time_limit": 5.0},
        )
        return bool(result.status != 2)

    def needed(self, order: Ints, *, whole: bool) -> list[int]:
        """Statements without any one of which there is a table, found by leaving out one after the other."""
        kept = np.sort(order)
        for row in order:
            rest = kept[kept != row]
            if not self.possible(rest, whole=whole):
                kept = rest
        return [int(row) for row in kept]

    def relaxed(self) -> list[str]:
        """Statements that have to give way: those that an elastic linear program relaxes."""
        cells, rows = self.rows.shape[1], len(self.names)
        eye = sp.eye_array(rows, format="csr")
        result = scipy.optimize.milp(
            np.concatenate([np.zeros(cells), np.ones(2 * rows)]),
            bounds=(0, np.inf),
            constraints=(sp.hstack([self.rows, eye, -eye], format="csr"), self.low, self.high),
        )
        if result.x is None:
            return []
        slack = result.x[cells : cells + rows] + result.x[cells + rows :]
        return [name for name, s in zip(self.names, slack, strict=True) if s > 1e-6]


def conflict(system: System) -> str:
    """The error message of a system without a solution: the statements that contradict one another."""
    # Of a system of moderate size these are all needed: without any one of them there is a table (a deletion filter, Chinneck and
    # Dravnieks 1991, ORSA Journal on Computing 3(2)). Of a larger one they are some that would have to give way.
    statements = _Statements.of(system)
    every = np.arange(len(statements.names))
    if len(every) > _MOST_STATEMENTS or len(every) * system.frame.size > _LARGEST:
        return no_table(statements.relaxed() or statements.names, complete=False)
    whole = statements.possible(every, whole=False)  # real numbers would fit: only whole ones do not
    found = [statements.needed(order, whole=whole) for order in (every, every[::-1])]  # one may be the shorter
    return no_table([statements.names[row] for row in min(found, key=len)])


def propagated_bounds(system: System) -> tuple[Floats, Floats]:
    """Shrink limits of cells through every row until nothing changes; infinite where there is none."""
    # Floats hold these integers exactly, and sums of them below 2**53; what larger sums may be rounded by is left to the cells.
    lower = system.lower.astype(np.float64)
    upper = np.where(system.upper == UNBOUNDED, np.inf, system.upper.astype(np.float64))
    rows, low, high = system.limited_rows()
    if not rows.shape[0]:
        return lower, upper
    entries = rows.tocoo()
    row, cell, a = entries.row, entries.col, entries.data
    for _ in range(100):
        least = np.where(a > 0, a * lower[cell], a * upper[cell])
        most = np.where(a > 0, a * upper[cell], a * lower[cell])
        # What the other cells of the row contribute at least and at most (infinite if one of them is unbounded).
        others_least = _others(least, row, rows.shape[0])
        others_most = _others(most, row, rows.shape[0])
        room_high, room_low = high[row] - others_least, low[row] - others_most
        slack = 1e-9 + _rounding(least, most, np.maximum(*_sizes(low, high)), row) / np.abs(a)
        with np.errstate(invalid="ignore"):
            new_upper = np.floor(np.where(a > 0, room_high, room_low) / a + slack)
            new_lower = np.ceil(np.where(a > 0, room_low, room_high) / a - slack)
        before = np.concatenate([lower, upper])
        np.minimum.at(upper, cell, np.where(np.isnan(new_upper), np.inf, new_upper))
        np.maximum.at(lower, cell, np.where(np.isnan(new_lower), -np.inf, new_lower))
        if np.array_equal(before, np.concatenate([lower, upper])):
            break
    return lower, upper


def _sizes(*limits: Floats) -> list[Floats]:
    """Absolute values, 0 for infinite ones."""
    return [np.where(np.isinf(limit), 0.0, np.abs(limit)) for limit in limits]


def _rounding(least: Floats, most: Floats, totals: Floats, row: Ints) -> Floats:
    """For each entry, what float64 may have rounded the room in its row by: nothing, as long as all sums are below 2**53."""
    terms = np.bincount(row, minlength=len(totals))
    size = totals + np.bincount(row, weights=np.maximum(*_sizes(least, most)), minlength=len(totals))
    return np.asarray(np.where(size < UNBOUNDED, 0.0, size * (terms + 2) * 2.0**-52)[row])


def _others(values: Floats, row: Ints, rows: int) -> Floats:
    """For each entry, the sum of the other entries of its row, with infinities counted rather than added."""
    finite = np.where(np.isinf(values), 0.0, values)
    infinite = np.isinf(values).astype(np.int64)
    sums = np.bincount(row, weights=finite, minlength=rows)
    counts = np.bincount(row, weights=infinite, minlength=rows)
    sign = np.sign(np.bincount(row, weights=np.where(np.isinf(values), np.sign(values), 0.0), minlength=rows))
    unbounded = counts[row] - infinite > 0
    return np.where(unbounded, np.where(sign[row] > 0, np.inf, -np.inf), sums[row] - finite)
