"""Noisy answers and exact constraints, gathered from the rows of files, as parts of a release; and what is not used of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bayesdp._arrays import Floats, Ints
from bayesdp.datasets.nmf.histograms import Binning, Cells, Histogram
from bayesdp.datasets.nmf.layout import Row, read_rows
from bayesdp.datasets.nmf.products import Product, plain_name
from bayesdp.datasets.nmf.spine import Found, Spine
from bayesdp.frames import Frame
from bayesdp.measurements import SIGNS, Exact, Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import LinearQuery, Query, SumPart, cell_list

type Bins = tuple[Binning, ...]


@dataclass(frozen=True)
class Unused:
    """Evidence of the files that is not in the release, or only in part: a level, or a level and a query, and why."""

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


class Ledger(dict[Unused, None]):
    """What is not used, each thing once, in the order in which it came."""

    def note(self, what: str, reason: str) -> None:
        """Add a line."""
        self[Unused(what, reason)] = None


def frame_of(spine: Spine, cells: Cells, asked: Iterable[Sequence[Binning]]) -> Frame:
    """The frame of the table: leaves by cells, with the levels above the leaves and the recodes of queries as groups."""
    leaf = spine.leaf.lower()
    source: dict[str, object] = {leaf: list(spine.leaves)}
    source |= {axis.name: list(cut.labels) for axis, cut in cells.axes}
    for level in spine.levels[1:]:
        source[level.lower()] = (leaf, [spine.nodes[level][node] for node in spine.node_of_leaf[level]])
    if spine.leaf != "US":
        source["state_fips"] = (leaf, [geocode[1:3] for geocode in spine.leaves])
    return Frame.of(source | cells.groups(asked))


def bins_of(row: Row, histogram: Histogram, named: tuple[str, ...] | None = None) -> Bins:
    """How a row cuts each axis: by its columns, or where the file lacks them by the name of the query."""
    # `named`: what the name means, one an axis; for constraints. LookupError if it is by a binning that is not known here.
    try:
        stated = row.bins if None not in row.bins else named or histogram.named(plain_name(row.name))
        try:
            bins = histogram.binned(map(str, stated))
        except ValueError:
            if named is None:
                raise
            bins = histogram.binned(named)
    except ValueError as unknown:
        raise LookupError(str(unknown)) from unknown
    shape = tuple(len(own.members) for own in bins)
    stated_shape = None if row.shape is None else tuple(n for n in row.shape if n != 1)
    if len(row.values) != np.prod(shape) or stated_shape not in (None, tuple(n for n in shape if n != 1)):
        raise ValueError(
            f"{row.where} has {len(row.values)} numbers of shape {row.shape}, but by "
            f"{', '.join(own.name for own in bins)} there are {' x '.join(map(str, shape))}"
        )
    return bins


def _sigma_of_variance(variance: Floats) -> Floats:
    """The scale sigma of discrete Gaussian noise of these variances."""
    # What files state is the variance of the discrete law (`computeDiscreteGaussianVariance` of programs/engine/primitives.py in
    # the Bureau's production code). From 1 on it is sigma**2 to 2e-7, which is as near as the files' float32 tells; below it is
    # less. `variance`: positive.
    stated, place = np.unique(variance, return_inverse=True)
    sigma = np.sqrt(stated)
    for i in np.flatnonzero(stated < 1.0):
        least = np.sqrt(0.5 / np.log(4.0 / stated[i]))  # the variance is below 4 exp(-1 / (2 sigma**2)) here
        sigma[i] = brentq(lambda own, of=stated[i]: discrete_variance(own) - of, least, 1.1, xtol=1e-15, rtol=1e-13)
    return np.asarray(sigma[place].reshape(variance.shape))


def discrete_variance(sigma: float) -> float:
    """The variance of discrete Gaussian noise of one scale."""
    return float(np.asarray(DiscreteGaussian(sigma=sigma).variance((1,))).reshape(-1)[0])


def _level_sums(
    frame: Frame, spine: Spine, level: str, cells: Cells, bins: Bins
) -> tuple[SumPart, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]]:
    """Sums of the geounits of a level, and what puts answers as files order them, by node and group of each axis, in their order."""
    part = SumPart(frame, (level.lower(), *cells.kept(bins)))
    position = {geocode: i for i, geocode in enumerate(spine.nodes[level])}
    orders = [[position[str(label)] for label in part.answer_labels[0]]]
    orders += [list(dict.fromkeys(cut.groups_in(own).tolist())) for cut, own in zip(cells.cuts, bins, strict=True)]
    return part, lambda values: values[np.ix_(*orders)].reshape(part.shape)


@dataclass(eq=False)
class Gathered:
    """The answers of one query at one level of `nodes` geounits, which are filled in as rows come."""

    level: str
    name: str
    bins: Bins
    nodes: int

    def __post_init__(self) -> None:
        shape = tuple(len(binning.members) for binning in self.bins)
        self.values = np.full((self.nodes, *shape), np.nan)  # NaN where nothing was measured
        self.variance = np.full(self.nodes, np.nan)  # of the discrete noise, NaN likewise

    def add(self, row: Row, bins: Bins, node: int) -> None:
        """Add the answers of a geounit; ValueError that names the file and the geocode."""
        if bins != self.bins:
            raise ValueError(
                f"{row.where} is by {', '.join(own.name for own in bins)}, other rows of the level by "
                f"{', '.join(own.name for own in self.bins)}"
            )
        if not (np.isfinite(row.variance) and row.variance > 0):
            stated = "is missing" if np.isnan(row.variance) else f"is {row.variance:g}"
            raise ValueError(f"{row.where}: the variance of the noise {stated}; it must be a positive number")
        self.values[node] = row.values.reshape(self.values.shape[1:])
        self.variance[node] = row.variance

    def measured(self, frame: Frame, spine: Spine, cells: Cells) -> Measured:
        """The answers as a noisy part of a release."""
        part, in_order = _level_sums(frame, spine, self.level, cells, self.bins)
        query, values = Query(frame, (part,)), in_order(self.values)
        variance = in_order(np.broadcast_to(self.variance.reshape(-1, *(1,) * len(self.bins)), self.values.shape))
        missing = np.isnan(values)
        # Where nothing was measured the scale means nothing, but must be some positive number.
        sigma = _sigma_of_variance(np.where(missing, 1.0, variance))
        known = np.unique(sigma[~missing])
        law = DiscreteGaussian(sigma=float(known[0]) if len(known) == 1 else sigma)
        name = f"{self.level.lower()}_{plain_name(self.name).replace(' * ', '_by_').replace(' ', '_')}"
        if missing.any():
            return Measured(query, values, law, name=name, unmeasured=missing)
        return Measured(query, values.astype(np.int64), law, name=name)


_NOT_STATED = {">=": 0, "<=": 10**11, "=": -1}
"""What stands where a geounit states none: limits that say nothing (more than ten times the people of the Earth), and no count."""


@dataclass(eq=False)
class Limits:
    """Constraints, gathered row by row."""

    spine: Spine
    cells: Cells
    product: Product
    ledger: Ledger

    def __post_init__(self) -> None:
        # Cells of leaves that must be 0.
        self.zeros = np.zeros((len(self.spine.leaves), *self.cells.shape), dtype=np.bool_)
        # Level, name, sign and binnings -> values, shape (nodes, groups of each axis).
        self.parts: dict[tuple[str, str, str, Bins], Ints] = {}

    def add(self, level: str, row: Row, node: int) -> None:
        """Add the constraint of a geounit; ValueError that names the file and the geocode."""
        what = f"{level}, {row.name}"
        sign = _sign(row, self.product)
        try:
            bins = bins_of(row, self.product.histogram, _named(row, self.product))
        except LookupError as unknown:
            self.ledger.note(what, f"how it cuts the histogram is not known here: {unknown.args[0]}")
            return
        values = row.values.reshape([len(own.members) for own in bins])
        if sign != ">=" and values.min() < 0:
            raise ValueError(f"{row.where}: a count would be {sign} {values.min()}, but counts are at least 0")
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
        if not all(binning.covers for binning in bins):
            if values.any():
                self.ledger.note(what, "it is about some values of an axis only, and states numbers other than 0")
            return
        # The finest sums of both the cells and these binnings.
        pairs = zip(self.cells.cuts, bins, strict=True)
        joined = tuple(own if cut.refines(own) else own.join(cut) for cut, own in pairs)
        if any(len(own.members) != len(new.members) for own, new in zip(bins, joined, strict=True)):
            self.ledger.note(
                what, f"used as sums by {', '.join(own.name for own in joined)} only: the cells are cut more coarsely"
            )
        sums = np.zeros([len(own.members) for own in joined], dtype=np.int64)
        np.add.at(sums, np.ix_(*(own.groups_in(new) for own, new in zip(bins, joined, strict=True))), values)
        if sums.min(initial=0) < 0:  # beyond 2**63
            raise ValueError(f"constraints of {self.spine.nodes[level][node]}: sums of {what} are too large")
        nodes = len(self.spine.nodes[level])
        empty = np.full((nodes, *sums.shape), _NOT_STATED[sign], dtype=np.int64)
        self.parts.setdefault((level, name, sign, joined), empty)[node] = sums

    def check(self, folder: Path) -> None:
        """Check that no lower limit is above an upper one; ValueError that names the file and the geocode."""
        pairs = permutations(self.parts.items(), 2)
        for ((level, name, sign, bins), low), ((other_level, other, other_sign, other_bins), high) in pairs:
            if (sign, other_sign) not in ((">=", "<="), (">=", "="), ("=", "<=")):
                continue
            if other_level != level or other_bins != bins:
                continue
            wrong = np.argwhere((low > high) & (high >= 0))
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
        for (level, _, sign, bins), values in self.parts.items():
            part, in_order = _level_sums(frame, self.spine, level, self.cells, bins)
            ordered = in_order(values)
            if sign != "=" or ordered.min() >= 0:
                found.append(Exact(Query(frame, (part,)), ordered, sign))
                continue
            rows = np.flatnonzero(ordered >= 0)  # of geounits that state it
            some = LinearQuery(frame, part.matrix[rows], [part.names[i] for i in rows])
            found.append(Exact(some, ordered.reshape(-1)[rows]))
        cells = np.flatnonzero(self.zeros.reshape(-1))
        if cells.size:
            found.append(Exact(cell_list(frame, cells), np.zeros(cells.size, dtype=np.int64)))
        return found


def _sign(row: Row, product: Product) -> str:
    sign = "=" if row.sign == "==" else row.sign
    if sign is None:
        # Some partitions lack the column; the names that are known say it all the same.
        name = plain_name(row.name)
        known = name in product.constraints or (_RELATIONSHIP.match(name) and not row.values.any())
        sign = ">=" if name.endswith("_lb") else "<=" if name.endswith("_ub") else "=" if known else None
    if sign not in SIGNS:
        raise ValueError(f"{row.where}: the sign must be one of {', '.join(SIGNS)}, got {row.sign!r}")
    return sign


_RELATIONSHIP = re.compile(r"relgq(\d+)_[a-z]")


def _named(row: Row, product: Product) -> tuple[str, ...] | None:
    """What a constraint is about, where its name says it: ``relgq6_...`` is about value 6 of the first axis."""
    match = _RELATIONSHIP.match(row.name)
    if match and product.histogram.names[0] == "relgq" and all(row.bins[1:]):
        return (f"relgq{match[1]}", *(str(own) for own in row.bins[1:]))
    return product.constraints.get(plain_name(row.name))


def names_of(found: Found, kind: str) -> dict[str, frozenset[str]]:
    """The names of rows at each level."""
    return {level: frozenset(name for place in own[kind] for _, name in place.keys) for level, own in found.items()}


def _rows(
    product: Product, spine: Spine, found: Found, kind: str, keep: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, Row, int]]:
    """Level, row and node of all rows whose names are to be kept; ValueError if one is there twice."""
    for level in spine.levels[::-1]:
        node = {geocode: i for i, geocode in enumerate(spine.nodes[level])}
        file: dict[tuple[str, str], Path] = {}
        for place in found[level][kind]:
            for row in read_rows(place, keep[level], product.histogram.names):
                key = (row.geocode, row.name)
                if key in file:
                    raise ValueError(f"{row.where} is there twice, also in {file[key]}")
                file[key] = row.file
                yield level, row, node[row.geocode]


def noisy_of(
    product: Product, spine: Spine, found: Found, cells: Cells, keep: Mapping[str, frozenset[str]], ledger: Ledger
) -> list[Gathered]:
    """The noisy answers of each level and query whose names are to be kept; what is not used is noted."""
    gathered: dict[tuple[str, str], Gathered] = {}
    for level, row, node in _rows(product, spine, found, "DPQuery", keep):
        what = f"{level}, {row.name}"
        try:
            bins = bins_of(row, product.histogram)
        except LookupError as unknown:
            ledger.note(what, f"how it cuts the histogram is not known here: {unknown.args[0]}")
            continue
        why = cells.span(bins)
        if why is not None:
            ledger.note(what, f"it is no sum of the cells: {why}")
            continue
        key = (level, row.name)
        if key not in gathered:
            gathered[key] = Gathered(level, row.name, bins, len(spine.nodes[level]))
        gathered[key].add(row, bins, node)
    for part in gathered.values():
        missing = np.count_nonzero(np.isnan(part.variance))
        if missing:
            ledger.note(f"{part.level}, {part.name}", f"{missing} of {part.nodes} geounits have no such measurement")
    return list(gathered.values())


def limits_of(product: Product, spine: Spine, found: Found, cells: Cells, ledger: Ledger) -> Limits:
    """The constraints of all levels."""
    limits = Limits(spine, cells, product, ledger)
    for level, row, node in _rows(product, spine, found, "Constraint", names_of(found, "Constraint")):
        limits.add(level, row, node)
    return limits
