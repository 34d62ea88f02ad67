"""Exact answers of the files: equalities, limits and structural zeros."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.datasets.nmf.binnings import Binning
from bayesdp.datasets.nmf.cells import Cells
from bayesdp.datasets.nmf.noisy import Bins, bins_of, in_order, level_query
from bayesdp.datasets.nmf.products import Product, plain_name
from bayesdp.datasets.nmf.rows import Row
from bayesdp.datasets.nmf.spine import Spine
from bayesdp.datasets.nmf.unused import Ledger
from bayesdp.frames import Frame
from bayesdp.measurements import SIGNS, Exact
from bayesdp.queries import LinearQuery, cell_list

type Ints = npt.NDArray[np.int64]

_NO_LIMIT = 10**11
"""An upper limit that says nothing: more than ten times the people of the Earth. It stands where a geounit states none."""


@dataclass(eq=False)
class Limits:
    """Constraints, gathered row by row.

    Parameters
    ----------
    spine, cells, product, ledger
    zeros : bool array, shape ``(leaves, *cells)``
        Cells that must be 0.
    parts : dict
        Level, name, sign and binnings -> values, shape (nodes, groups of each axis), and which nodes state them.
    """

    spine: Spine
    cells: Cells
    product: Product
    ledger: Ledger
    zeros: npt.NDArray[np.bool_] = field(init=False)
    parts: dict[tuple[str, str, str, Bins], tuple[Ints, npt.NDArray[np.bool_]]] = field(default_factory=dict)
    file: dict[tuple[str, str], Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.zeros = np.zeros((len(self.spine.leaves), *self.cells.shape), dtype=np.bool_)

    def add(self, level: str, row: Row, node: int) -> None:
        """Add the constraint of a geounit; ValueError that names the file and the geocode."""
        where = f"{row.file}: geocode {row.geocode}, {row.name}"
        what = f"{level}, {row.name}"
        if (row.geocode, row.name) in self.file:
            raise ValueError(f"{where} is there twice, also in {self.file[row.geocode, row.name]}")
        self.file[row.geocode, row.name] = row.file
        sign = _sign(row, self.product, where)
        try:
            bins = bins_of(row, self.product.histogram, _named(row, self.product))
        except LookupError as unknown:
            self.ledger.note(what, f"how it cuts the histogram is not known here: {unknown.args[0]}")
            return
        values = row.values.reshape([len(own.members) for own in bins])
        if sign != ">=" and values.min() < 0:
            raise ValueError(f"{where}: a count would be {sign} {values.min()}, but counts are at least 0")
        resolved = sign == ">=" or self._add_zeros(level, node, values, bins, what)
        trivial = not values.any() and (sign == ">=" or (sign == "=" and resolved))
        if not trivial:
            self._add_sums(level, plain_name(row.name), node, sign, values, bins, what)

    def _add_zeros(self, level: str, node: int, values: Ints, bins: Bins, what: str) -> bool:
        """Cells of which a sum is 0 must be 0. Whether the cells tell all that the zeros say."""
        zero = values == 0
        if not zero.any():
            return True
        inside, whole = [], True
        for cut, own in zip(self.cells.cuts, bins, strict=True):
            groups = [set(own.codes[list(members)].tolist()) for members in cut.members]
            inside.append([group.pop() if len(group) == 1 else -1 for group in map(set, groups)])
            whole = whole and all(len(group) == 1 for group in groups)
        # One more group, the last one, stands for values that are in no group: index -1. It is never zero.
        padded = np.pad(zero, [(0, 1)] * zero.ndim)
        mask = padded[np.ix_(*inside)].reshape(self.cells.shape)
        self.zeros[self.spine.node_of_leaf[level] == node] |= mask
        if not whole:
            self.ledger.note(what, "the cells of the table are cut more coarsely: zeros of parts of cells are not used")
        return whole

    def _add_sums(self, level: str, name: str, node: int, sign: str, values: Ints, bins: Bins, what: str) -> None:
        joined = joined_bins(bins, self.cells)
        if joined is None:
            if values.any():
                self.ledger.note(what, "it is about some values of an axis only, and states numbers other than 0")
            return
        if any(len(own.members) != len(new.members) for own, new in zip(bins, joined, strict=True)):
            self.ledger.note(
                what, f"used as sums by {', '.join(own.name for own in joined)} only: the cells are cut more coarsely"
            )
        sums = np.zeros([len(own.members) for own in joined], dtype=np.int64)
        np.add.at(sums, np.ix_(*(own.groups_in(new) for own, new in zip(bins, joined, strict=True))), values)
        nodes = len(self.spine.nodes[level])
        fill = 0 if sign == ">=" else _NO_LIMIT
        empty = (np.full((nodes, *sums.shape), fill, dtype=np.int64), np.zeros(nodes, dtype=np.bool_))
        table, stated = self.parts.setdefault((level, name, sign, joined), empty)
        table[node], stated[node] = sums, True

    def check(self, folder: Path) -> None:
        """Check that no lower limit is above an upper one; ValueError that names the file and the geocode."""
        for (level, name, sign, bins), (low, _) in self.parts.items():
            for (other_level, other, other_sign, other_bins), (high, _) in self.parts.items():
                if (sign, other_sign) not in ((">=", "<="), (">=", "="), ("=", "<=")):
                    continue
                if other_level != level or other_bins != bins:
                    continue
                wrong = np.argwhere(low > high) if sign == ">=" else np.argwhere((low > high) & (low != _NO_LIMIT))
                if len(wrong):
                    at = tuple(wrong[0])
                    groups = [own.labels[i] for own, i in zip(bins, at[1:], strict=True) if len(own.members) > 1]
                    raise ValueError(
                        f"{folder / f'{level}.parquet'}: constraints of {self.spine.nodes[level][at[0]]} contradict one another: "
                        f"{' '.join(groups) or 'the total'} is {sign} {low[at]} ({name}) and {other_sign} {high[at]} ({other})"
                    )

    def exact(self, frame: Frame) -> list[Exact]:
        """The constraints as exact parts of a release."""
        found = []
        for (level, _, sign, bins), (values, stated) in self.parts.items():
            query, part = level_query(frame, self.spine, level, self.cells.kept(bins))
            ordered = np.asarray(in_order(values, part, self.spine, level, self.cells, bins), dtype=np.int64)
            if sign != "=" or stated.all():
                found.append(Exact(query, ordered, sign))
                continue
            wide = np.broadcast_to(stated.reshape(-1, *(1,) * len(bins)), values.shape)
            rows = np.flatnonzero(in_order(wide, part, self.spine, level, self.cells, bins).reshape(-1))
            found.append(Exact(rows_of_part(frame, part.matrix, part.names, rows), ordered.reshape(-1)[rows]))
        cells = np.flatnonzero(self.zeros.reshape(-1))
        if cells.size:
            found.append(Exact(cell_list(frame, cells), np.zeros(cells.size, dtype=np.int64)))
        return found


def rows_of_part(frame: Frame, matrix: sp.csr_array, names: Sequence[str], rows: Ints) -> LinearQuery:
    """Some answers of a sum."""
    return LinearQuery(frame, matrix[rows], [names[i] for i in rows])


def joined_bins(bins: Iterable[Binning], cells: Cells) -> Bins | None:
    """The finest sums of both the cells and these binnings; None where a binning leaves values out."""
    joined = []
    for cut, own in zip(cells.cuts, bins, strict=True):
        if not own.covers:
            return None
        joined.append(own if cut.refines(own) else own.join(cut))
    return tuple(joined)


def _sign(row: Row, product: Product, where: str) -> str:
    sign = "=" if row.sign == "==" else row.sign
    if sign is None:
        # Some partitions lack the column; the names that are known say it all the same.
        name = plain_name(row.name)
        zeros = not row.values.any() and (name in product.constraints or _RELATIONSHIP.match(name))
        sign = ">=" if name.endswith("_lb") else "<=" if name.endswith("_ub") else None
        sign = "=" if sign is None and (zeros or name in product.constraints) else sign
    if sign not in SIGNS:
        raise ValueError(f"{where}: the sign must be one of {', '.join(SIGNS)}, got {row.sign!r}")
    return sign


_RELATIONSHIP = re.compile(r"relgq(\d+)_[a-z]")


def _named(row: Row, product: Product) -> tuple[str, ...] | None:
    """What a constraint is about, where its name says it: ``relgq6_...`` is about value 6 of the first axis."""
    match = _RELATIONSHIP.match(row.name)
    if match and product.histogram.names[0] == "relgq" and all(row.bins[1:]):
        return (f"relgq{match[1]}", *(str(own) for own in row.bins[1:]))
    return product.constraints.get(plain_name(row.name))
