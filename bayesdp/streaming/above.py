"""What is published above the parts, and how its noise is divided among parts so that they can move side by side.

A noisy answer above the parts is ``y = sum_k u_k + e``, with the same sum of cells u_k of each part k that counts in it, and e normal
of variance s^2. While the parts of a set S of m move, and the others stand still, put

    ``z_k = u_k + e_k``,  e_k independent normal of variance s^2 / m,  given that ``sum_S z_k = y - sum_others u_k``.

Summed over z this gives back the law of y, so that the joint law of tables and z has the posterior of the tables as its marginal.
Given z, the parts of S are independent, each with one more noisy answer of its sum, z_k of variance s^2 / m; given the tables,
z_k is ``u_k + e_k + (y - sum_k u_k - sum_S e_k) / m``. Drawing z, and then moving each part of S by moves that leave its law given
z_k as it is, is a Gibbs step: exact for every S that is chosen without looking at the tables. With one part at a time it is the
plain Gibbs step, in which z_k is y minus the sum of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._validate import shown
from bayesdp.fibers import NoiseTerm
from bayesdp.frames import Frame
from bayesdp.hierarchies.linear import gls
from bayesdp.hierarchies.released import noise_term
from bayesdp.hierarchies.structure import Structure, sum_parts
from bayesdp.queries import Query, SumPart
from bayesdp.release import Release

SUMS = "sums of parts in "
"""Before the name of a noisy query above the parts: what each part adds to it, among what is recorded above the parts."""

type Dims = tuple[tuple[str, tuple[object, ...]], ...]
"""Dimensions with their labels."""


@dataclass(frozen=True, eq=False)
class PartTerm:
    """A noisy query above the parts, as one of them sees it: sums of its cells over all of its leaves."""

    keep: tuple[str, ...]  # what the sums keep of the cells
    measured: Mask  # sums that something was published of, shape (sums,)

    def on(self, frame: Frame) -> NoiseTerm:
        """As a term of the target of a part's table; its numbers are set before every use."""
        ones = np.ones(len(self.measured))
        return NoiseTerm(Query(frame, (SumPart(frame, self.keep),)), 0.0 * ones, "gaussian", ones, self.measured)


@dataclass(frozen=True, eq=False)
class Above:
    """Sums of one query over parts."""

    keep: tuple[str, ...]  # what the sums keep of the cells
    rows: Ints  # the answer that each sum of each part counts in, shape (K, sums)
    sum_of_cell: Ints  # the sum of a part that each cell counts in, shape (C,)
    labels: list[str]  # the answers in words

    def part_sums(self, tables: Ints) -> Ints:
        """What parts with these tables, by cells, add to the answers they count in, shape (parts, sums)."""
        # By weights, which are exact below 2**53 and ten times as fast as `np.add.at` on two axes.
        size = self.rows.shape[1]
        place = (np.arange(len(tables))[:, None] * size + self.sum_of_cell).reshape(-1)
        sums = np.bincount(place, weights=tables.reshape(-1), minlength=len(tables) * size)
        return np.asarray(sums.astype(np.int64).reshape(-1, size))

    def sums(self, tables: Ints) -> Ints:
        """The answers to tables of all parts by cells, shape (K, C)."""
        sums = np.zeros(len(self.labels), dtype=np.int64)
        np.add.at(sums, self.rows, self.part_sums(tables))
        return sums


@dataclass(frozen=True, eq=False)
class NoisyAbove(Above):
    """Noisy ones."""

    name: str
    values: Floats  # with `scale` and `measured`: shape (answers,)
    scale: Floats
    measured: Mask


@dataclass(frozen=True, eq=False)
class KnownAbove(Above):
    """Exact ones."""

    values: Ints
    sign: str


def parts_axis(frame: Frame, labels: Sequence[object], argument: str) -> int:
    """The dimension of a frame whose labels are the parts, in their order."""
    for axis, own in enumerate(frame.labels):
        if list(own) == list(labels):
            return axis
    raise ValueError(
        f"{argument} must be about a table that has the parts {shown(labels)}, in this order, as the labels of one dimension; "
        f"its dimensions are {shown(frame.dims)}"
    )


def cell_dims(frame: Frame, axis: int) -> Dims:
    """The other dimensions of a frame with their labels."""
    return tuple((dim, own) for i, (dim, own) in enumerate(zip(frame.dims, frame.labels, strict=True)) if i != axis)


def above(release: Release, labels: Sequence[object]) -> tuple[list[NoisyAbove], list[KnownAbove]]:
    """The sums of a release of parts by cells."""
    # NotImplementedError if noise is not normal and independent, or a query is no sum of cells.
    if release.about != "counts":
        raise ValueError("top is about statistics, which are real numbers; a hierarchy has counts in its cells")
    axis = parts_axis(release.frame, labels, "top")
    noisy: list[NoisyAbove] = []
    known: list[KnownAbove] = []
    for number, measured in enumerate(release.measurements):
        term = noise_term(measured)
        scale = np.broadcast_to(np.asarray(term.scale, dtype=np.float64), term.values.shape)
        sums = sum_parts([measured.query])
        for part, (_, rows) in zip(sums, measured.query.placed_parts, strict=True):
            name = measured.name or ("by_" + "_".join(part.keep) if part.keep else "total")
            if any(name == other.name for other in noisy):
                name = f"{name}_{number}"
            values = np.asarray(term.values, dtype=np.float64)[rows]
            noisy.append(NoisyAbove(*_rows(part, axis), name, values, scale[rows], term.measured[rows]))
    for exact in release.exact:
        for part, (_, rows) in zip(sum_parts([exact.query]), exact.query.placed_parts, strict=True):
            known.append(KnownAbove(*_rows(part, axis), exact.values.reshape(-1)[rows].astype(np.int64), exact.sign))
    return noisy, known


def _rows(part: SumPart, axis: int) -> tuple[tuple[str, ...], Ints, Ints, list[str]]:
    """The fields of `Above`."""
    name = part.levels[axis]
    keep = tuple(own for own in part.keep if own != name)
    rows = np.moveaxis(part.row_of_cell.reshape(part.frame.shape), axis, 0).reshape(part.frame.shape[axis], -1)
    kept = SumPart(part.frame, keep).row_of_cell.reshape(part.frame.shape)
    sum_of_cell = np.asarray(np.take(kept, 0, axis=axis).reshape(-1), dtype=np.int64)
    first = np.unique(sum_of_cell, return_index=True)[1]
    return keep, rows[:, first], sum_of_cell, part.names


def split_noise(
    noisy: Sequence[NoisyAbove], tables: Ints, moving: Ints, rng: np.random.Generator
) -> list[tuple[list[Floats], list[Floats]]]:
    """Draw z, given the sums over the leaves of all parts: for each that moves the values and scales of its sums, query by query."""
    values: list[list[Floats]] = [[] for _ in moving]
    scales: list[list[Floats]] = [[] for _ in moving]
    for query in noisy:
        rows, current = query.rows[moving], query.part_sums(tables[moving])
        sharing = np.maximum(np.bincount(rows.reshape(-1), minlength=len(query.values)), 1.0)
        spread = query.scale / np.sqrt(sharing)
        noise = rng.standard_normal(rows.shape) * spread[rows]
        added = np.bincount(rows.reshape(-1), weights=noise.reshape(-1), minlength=len(query.values))
        shift = (query.values - query.sums(tables) - added) / sharing
        for i in range(len(moving)):
            values[i].append(current[i] + noise[i] + shift[rows[i]])
            scales[i].append(spread[rows[i]])
    return list(zip(values, scales, strict=True))


def own_errors(release: Release, keeps: Sequence[tuple[str, ...]], structure: Structure) -> list[Floats]:
    """Standard errors of linear estimates of sums over all leaves of a part, NaN where there is no linear estimate."""
    queries = [Query(release.frame, (SumPart(release.frame, keep),)) for keep in keeps]
    if not queries:
        return []
    try:
        estimate = gls(release, release.frame.dims[structure.axis])
        return [np.asarray(estimate.sd(query), dtype=np.float64).reshape(-1) for query in queries]
    except (ValueError, NotImplementedError):
        return [np.full(query.rows, np.nan) for query in queries]


def known_sums(structure: Structure, keep: tuple[str, ...]) -> Mask:
    """Which sums of cells over all leaves of a part are made up of whole exact sums of one level, and cells that cannot move."""
    codes = structure.cell_codes(SumPart(structure.frame, keep))
    free = structure.free.any(axis=0)
    known = np.zeros(int(codes.max()) + 1, dtype=np.bool_)
    for j in range(len(known)):
        mine, others = free & (codes == j), free & (codes != j)
        known[j] = not mine.any() or any(
            bool((own[mine] >= 0).all()) and not np.isin(own[mine], own[others]).any() for own in structure.exact_class
        )
    return known


def check_known(
    exact: Sequence[KnownAbove], known: Sequence[Sequence[Mask]], tables: Ints, labels: Sequence[object]
) -> None:
    """Check exact sums above against parts that each have their exact sums."""
    # `known`: by part and query, the sums that its own exact answers determine. `tables`, (K, C): sums over the leaves of each part.
    for number, query in enumerate(exact):
        sums = query.sums(tables)
        for k, own in enumerate(known):
            missing = np.flatnonzero(~own[number])
            if missing.size:
                row = query.labels[int(query.rows[k, missing[0]])]
                raise NotImplementedError(
                    f"top: the exact answer {row!r} is about the part {labels[k]!r}, whose own sum is not exact. Counts would have to "
                    "go from part to part at once; fit all parts in one with bdp.fit_hierarchy"
                )
        wrong = {"=": sums != query.values, "<=": sums > query.values, ">=": sums < query.values}[query.sign]
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"top: the exact answer {query.labels[first]!r} is {query.sign} {query.values[first]}; the exact answers of the parts "
                f"add up to {sums[first]}"
            )


def parts_per_round(noisy: Sequence[NoisyAbove], errors: Sequence[Sequence[Floats]], parts: int) -> int:
    """How many parts may move at a time so that dividing the noise above among them slows no typical sum down by much.

    A sum of variance v moves, given its share of noise of variance s^2 among m parts, with a standard deviation of
    ``sqrt(v s^2 / (v m + s^2))``: from one phase to the next its autocorrelation is about ``m v / (m v + s^2)``, here at most 1/2.
    """
    ratios = []
    for number, query in enumerate(noisy):
        for k, own in enumerate(errors):
            rows = query.rows[k]
            used = query.measured[rows]
            variance = np.square(own[number][used])
            if not np.isfinite(variance).all():
                return 1
            ratios.append(np.square(query.scale[rows])[used] / np.maximum(variance, 1e-12))
    every = np.concatenate(ratios) if ratios else np.zeros(0)
    if not every.size:
        return parts
    return int(np.clip(np.floor(np.median(every)), 1, parts))
