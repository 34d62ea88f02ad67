"""Which cells of a leaf are moved against which: groups that a precise answer ties together, and donors.

A sum that is known to within a few counts ties its cells: one can only grow when another shrinks. Which sums these are
follows from the
published variances alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.structure import Structure

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

DONORS = 8
"""Donors of a leaf in each pair class."""

_MIDDLING = (0.5, 50.0)
_VISITS = 3
"""Cells with typical counts in this range are visited more often than others: they, and sums with them, mix worst."""

_TIES = 0.25
"""A sum ties its cells if its precision is at least this share of the precision of all finer sums together."""


def tying_query(structure: Structure, precision: Floats) -> int | None:
    """The sums of a leaf that tie their cells; None where every sum is a single cell."""
    # `precision`, shape (queries,): inverse variances of the sums of each query in a leaf, averaged over leaves. Returns the finest
    # query, of those with sums of several cells, whose precision is at least a quarter of that of all queries together that tell
    # cells of one of its sums apart. If there is none, the one for which that share is largest.
    answer_of = structure.answer_of
    sums = np.diff(structure.query_start)
    coarse = [q for q in range(len(sums)) if sums[q] < len(answer_of)]
    if not coarse:
        return None
    share = np.zeros(len(sums))
    for q in coarse:
        finer = [o for o in range(len(sums)) if o != q and _tells_apart(answer_of[:, o], answer_of[:, q])]
        below = float(precision[finer].sum())
        share[q] = precision[q] / below if below > 0.0 else np.inf if precision[q] > 0.0 else 0.0
    ties = [q for q in coarse if share[q] >= _TIES]
    return max(ties, key=lambda q: (sums[q], share[q])) if ties else max(coarse, key=lambda q: (share[q], sums[q]))


def _tells_apart(one: Ints, other: Ints) -> bool:
    """Whether cells that count in one sum of `other` count in different sums of `one`."""
    return len(np.unique(np.stack([one, other]), axis=1).T) > len(np.unique(other))


def tied_groups(structure: Structure, query: int | None) -> tuple[Ints, Ints]:
    """Free cells of each leaf by the sums of a query and by pair class, as `State.group_start` and `State.group_cell`."""
    sums = np.zeros(len(structure.answer_of), dtype=np.int64) if query is None else structure.answer_of[:, query]
    group = np.unique(np.stack([sums, structure.pair_class]), axis=1, return_inverse=True)[1].reshape(-1)
    return _ragged(structure.free, group)


def tied_siblings(structure: Structure, precision: Floats) -> bool:
    """Whether the nodes right above the leaves are known better than the leaves, as block groups are when blocks are leaves."""
    # What is exchanged within a leaf then changes sums that are known well. A count in the wrong leaf mostly leaves it for another
    # one under the same node, and few cells are donors. `precision`, shape (nodes, A): inverse variances of the sums of each node;
    # see `State.answers`. False with fewer than two levels above the leaves: exchanges between any two leaves are then those
    # between siblings. Totals do not count, which exchanges within a leaf do not change.
    if len(structure.levels) < 3:
        return False
    columns = np.repeat(np.diff(structure.query_start) > 1, np.diff(structure.query_start))
    own, above = (_mean_of_a_cell(structure, precision[structure.nodes_of(level)] * columns) for level in (0, 1))
    return above > own


def _mean_of_a_cell(structure: Structure, precision: Floats) -> float:
    """The precision of all sums in which a cell counts, on average over cells and nodes."""
    return float(precision.mean(axis=0)[structure.answer_of].sum(axis=1).mean())


def donors_of(structure: Structure, counts: npt.NDArray[np.generic]) -> tuple[Ints, Ints]:
    """The free cells with the largest counts of each leaf and pair class, as `State.donor_start` and `State.donor_cell`."""
    # `counts`, shape (T, C): of a typical table, such as the means while tuning.
    kind = structure.pair_class
    chosen = np.zeros(structure.free.shape, dtype=np.bool_)
    size = np.where(structure.free, counts, -np.inf)
    for own in range(int(kind.max()) + 1):
        cells = np.flatnonzero(kind == own)
        most = cells[np.argsort(-size[:, cells], axis=1, kind="stable")[:, :DONORS]]
        np.put_along_axis(chosen, most, True, axis=1)
    return _ragged(chosen & structure.free, kind)


def visits_of(structure: Structure, counts: npt.NDArray[np.generic]) -> Ints:
    """How often the free cells of each leaf are visited in a sweep, as `State.visits`."""
    # Cells that are nearly always 0 are not visited less than once: in trials sums over cells mixed worse then. `counts`, shape (T,
    # C): of a typical table, such as the means while tuning.
    typical = np.asarray(counts, dtype=np.float64)[structure.free]
    low, high = _MIDDLING
    return np.where((typical >= low) & (typical < high), _VISITS, 1).astype(np.int64)


def _ragged(chosen: npt.NDArray[np.bool_], group: Ints) -> tuple[Ints, Ints]:
    """The chosen cells of each leaf, group by group: where each group starts, and the cells."""
    groups = int(group.max()) + 1
    leaf, cell = np.nonzero(chosen)
    key = leaf * groups + group[cell]
    order = np.argsort(key, kind="stable")
    size = np.bincount(key, minlength=len(chosen) * groups)
    starts = np.concatenate([[0], np.cumsum(size)])
    table = np.lib.stride_tricks.as_strided(
        starts, shape=(len(chosen), groups + 1), strides=(starts.strides[0] * groups, starts.strides[0])
    )
    return np.ascontiguousarray(table), cell[order].astype(np.int64)
