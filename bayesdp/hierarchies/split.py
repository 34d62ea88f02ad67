"""A release cut at a level of its geography: what is about one part each, and what adds parts up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import shown
from bayesdp.frames import Frame
from bayesdp.hierarchies.tree import same_partition
from bayesdp.measurements import Exact, Measured
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import LinearQuery, MatrixPart, Query, SumPart
from bayesdp.release import Release

type Ints = npt.NDArray[np.int64]
type Label = Any
type Piece = tuple[Query, Ints]
"""A query, and which of the given answers are its answers."""


def split(release: Release, level: str) -> tuple[dict[Label, Release], Release | None]:
    """Cut a release into one for each node of a level, and one of what is published above that level.

    Parameters
    ----------
    release : Release
        Of counts, with noise that is independent in each answer.
    level : str
        A group label of the table, such as ``"state"`` of counties: each of its nodes becomes a part.

    Returns
    -------
    parts : dict
        A release for each label of the level, in the order of the labels: of the leaves under that node, with everything that
        is published of single leaves, and of groups of them inside of the node.
    top : Release or None
        Of a table of parts by cells, with what adds up several parts; group labels of parts (regions of states) stay group labels.
        None if there is nothing.

        Together they say what `release` says: the noise of different answers is independent, so that the likelihood is their
        product. They have no guarantee: that of `release` is about all of them.

    Raises
    ------
    TypeError
        If `release` is no release, or `level` no string.
    ValueError
        If there is no such group label, an answer is about groups that cross the parts, or nothing is published of a part.
    NotImplementedError
        If noise is not independent, or an answer with weights has cells of several parts.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = {"county": ["a", "b", "c"], "state": ("county", ["S", "S", "T"])}
    >>> noise = bdp.noise.DiscreteGaussian(sigma=2.0)
    >>> release = bdp.Release.from_published(
    ...     table,
    ...     [bdp.Measured(bdp.Identity(table), [3, 8, 5], noise), bdp.Measured(bdp.Totals(table), 17, noise)],
    ...     [bdp.Exact(bdp.Totals(table, by="state"), [11, 4])],
    ... )
    >>> parts, top = split(release, "state")
    >>> parts["S"]
    <Release of a table county (2 cells)
      measured: 2 answers by county, law discrete-gaussian sigma=2
      exact: grand total = 11>
    >>> top
    <Release of a table state (2 cells)
      measured: grand total, law discrete-gaussian sigma=2>
    """
    if not isinstance(release, Release):
        raise TypeError(f"release must be a bayesdp.Release, got {type(release).__name__}")
    if not isinstance(level, str):
        raise TypeError(f"level must be the name of a group label, got {level!r}")
    if release.about != "counts":
        raise ValueError("release is about statistics, which have no geography to cut")
    known = [name for name, _, _ in release.frame.groups]
    if level not in known:
        raise ValueError(f"level must be a group label of the table ({shown(known) or 'it has none'}), got {level!r}")
    cut = _Cut(release.frame, level)
    places: list[Label] = [*cut.labels, None]  # None is the top
    measured: dict[Label, list[Measured]] = {place: [] for place in places}
    exact: dict[Label, list[Exact]] = {place: [] for place in places}
    for noisy in release.measurements:
        if noisy.law.keeps_invariants or not (noisy.law.additive and noisy.law.independent):
            raise NotImplementedError(
                f"split needs noise that is independent in each answer, and that of {noisy!r} is not: its likelihood is no "
                "product over parts. Use bdp.observe and bdp.sample"
            )
        values, hidden = noisy.values.reshape(-1), noisy.unmeasured.reshape(-1)
        for place, (query, rows) in cut.pieces(noisy.query):
            if hidden[rows].all():
                continue
            own, law = hidden[rows], _law_of(noisy, rows)
            shape = query.shape
            given = np.where(own, np.nan, values[rows]) if own.any() else values[rows]
            unmeasured = own.reshape(shape) if own.any() else None
            name = noisy.name if len(noisy.query.parts) == 1 else None
            measured[place].append(
                Measured(query, given.reshape(shape), law.of(shape), name=name, unmeasured=unmeasured)
            )
    for known_answers in release.exact:
        stated = known_answers.values.reshape(-1)
        for place, (query, rows) in cut.pieces(known_answers.query):
            exact[place].append(
                Exact(query, stated[rows].reshape(query.shape), known_answers.sign, known_answers.assumption)
            )
    parts = {}
    for k, label in enumerate(cut.labels):
        if not measured[label] and not exact[label]:
            raise ValueError(f"release: nothing is published of the part {level}={label}")
        parts[label] = Release.from_published(cut.frames[k], measured[label], exact[label], simulated=release.simulated)
    if not measured[None] and not exact[None]:
        return parts, None
    return parts, Release.from_published(cut.top, measured[None], exact[None], simulated=release.simulated)


@dataclass(frozen=True)
class _Law:
    """The law of some of the answers of a measurement."""

    law: NoiseLaw
    scale: npt.NDArray[np.float64] | None

    def of(self, shape: tuple[int, ...]) -> NoiseLaw:
        if self.scale is None:
            return self.law
        made: NoiseLaw = type(self.law)(**{self.law.kernel_parameters[0]: self.scale.reshape(shape)})
        return made


def _law_of(noisy: Measured, rows: Ints) -> _Law:
    """Laws with one number for all answers are kept; of others, the numbers of these answers."""
    given = {name: np.asarray(getattr(noisy.law, name)) for name in noisy.law.kernel_parameters}
    if all(own.ndim == 0 for own in given.values()):
        return _Law(noisy.law, None)
    if len(given) > 1:
        raise NotImplementedError(
            f"split takes laws with one parameter that varies between answers, not that of {noisy!r}"
        )
    (scale,) = given.values()
    return _Law(noisy.law, np.broadcast_to(scale, noisy.query.shape).reshape(-1)[rows].astype(np.float64))


class _Cut:
    """Where the cells of a frame are when it is cut at a level."""

    def __init__(self, frame: Frame, level: str) -> None:
        self.frame, self.level = frame, level
        dim, own = frame.group(level)
        self.axis = frame.dims.index(dim)
        self.labels = list(dict.fromkeys(own))
        number = {label: k for k, label in enumerate(self.labels)}
        self.part_of_leaf = np.array([number[label] for label in own], dtype=np.int64)

    @cached_property
    def leaves(self) -> list[Ints]:
        """The leaves of each part."""
        return [np.flatnonzero(self.part_of_leaf == k) for k in range(len(self.labels))]

    @cached_property
    def frames(self) -> list[Frame]:
        """The table of each part: its leaves, and those of their group labels that tell leaves of one part apart."""
        frame, dim = self.frame, self.frame.dims[self.axis]
        made = []
        for leaves in self.leaves:
            labels = list(frame.labels)
            labels[self.axis] = tuple(labels[self.axis][i] for i in leaves)
            groups = tuple(
                (name, of, tuple(own[i] for i in leaves) if of == dim else own)
                for name, of, own in frame.groups
                if of != dim or not self._above(_codes(own))
            )
            made.append(Frame(frame.dims, tuple(labels), groups))
        return made

    @cached_property
    def top(self) -> Frame:
        """The table of parts by cells."""
        frame, dim = self.frame, self.frame.dims[self.axis]
        dims, labels = list(frame.dims), list(frame.labels)
        dims[self.axis], labels[self.axis] = self.level, tuple(self.labels)
        groups = tuple(
            (
                name,
                self.level if of == dim else of,
                tuple(own[leaves[0]] for leaves in self.leaves) if of == dim else own,
            )
            for name, of, own in frame.groups
            if name != self.level and (of != dim or self._above(_codes(own)))
        )
        return Frame(tuple(dims), tuple(labels), groups)

    def pieces(self, query: Query) -> Iterator[tuple[Label, Piece]]:
        """The places of the answers of a query, each with a query of the table there and the numbers of these answers."""
        for part, places in query.placed_parts:
            found = self._sums(part) if isinstance(part, SumPart) else self._weighted(part)
            for place, (there, rows) in found:
                yield place, (there, places.start + rows)

    def _above(self, codes: Ints) -> bool:
        """Whether groups of leaves are unions of parts."""
        return bool(len(np.unique(np.stack([self.part_of_leaf, codes]), axis=1).T) == len(self.labels))

    def _sums(self, part: SumPart) -> Iterator[tuple[Label, Piece]]:
        name, codes = part.levels[self.axis], part.codes[self.axis]
        rest = tuple(own for own in part.keep if own != name)
        rows = np.moveaxis(part.row_of_cell.reshape(self.frame.shape), self.axis, 0)
        if name is not None and same_partition(codes, self.part_of_leaf):  # one node each: all leaves of a part
            keep = rest
        elif name is not None and _refines(codes, self.part_of_leaf):
            keep = part.keep
        elif self._above(codes):
            first = np.array([leaves[0] for leaves in self.leaves])
            yield None, _piece(SumPart(self.top, part.keep), np.moveaxis(rows[first], 0, self.axis))
            return
        else:
            raise ValueError(
                f"release: answers by {name!r} are about groups of {self.frame.dims[self.axis]!r} that cross those of "
                f"{self.level!r}, so that it cannot be cut there"
            )
        for label, frame, leaves in zip(self.labels, self.frames, self.leaves, strict=True):
            yield label, _piece(SumPart(frame, keep), np.moveaxis(rows[leaves], 0, self.axis))

    def _weighted(self, part: MatrixPart) -> Iterator[tuple[Label, Piece]]:
        shape = [-1 if axis == self.axis else 1 for axis in range(len(self.frame.dims))]
        of_cell = np.broadcast_to(self.part_of_leaf.reshape(shape), self.frame.shape).reshape(-1)
        matrix = part.matrix.tocsr()
        row = np.repeat(np.arange(part.rows), np.diff(matrix.indptr))
        own = of_cell[matrix.indices]
        least, most = np.full(part.rows, len(self.labels)), np.full(part.rows, -1)
        np.minimum.at(least, row, own)
        np.maximum.at(most, row, own)
        across = np.flatnonzero(least < most)
        if across.size:
            raise NotImplementedError(
                f"release: the answer {part.names[int(across[0])]!r} has weights and cells of several parts; state it as a sum "
                "that keeps labels, or fit all in one with bdp.fit_hierarchy or bdp.sample"
            )
        cells = np.arange(self.frame.size).reshape(self.frame.shape)
        for k, (label, frame, leaves) in enumerate(zip(self.labels, self.frames, self.leaves, strict=True)):
            rows = np.flatnonzero(most == k)
            if rows.size:
                here = np.take(cells, leaves, axis=self.axis).reshape(-1)
                yield label, (LinearQuery(frame, matrix[rows][:, here], [part.names[int(i)] for i in rows]), rows)


def _codes(labels: tuple[Label, ...]) -> Ints:
    number = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return np.array([number[label] for label in labels], dtype=np.int64)


def _refines(fine: Ints, coarse: Ints) -> bool:
    return bool(len(np.unique(np.stack([fine, coarse]), axis=1).T) == len(np.unique(fine)))


def _piece(part: SumPart, rows: Ints) -> Piece:
    """A part as a query, and which of the given answers each of its answers is: any cell that counts in it tells."""
    given = np.empty(part.rows, dtype=np.int64)
    given[part.row_of_cell] = rows.reshape(-1)
    return Query(part.frame, (part,)), given
