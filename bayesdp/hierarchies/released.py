"""A release as hierarchies take it: as the target of a chain, level by level, and cut into parts of its geography.

The target has its exact answers as a fiber and its noisy ones as normal terms, without a model. Linear estimates take what is
published of the nodes of each level. Cut at a level, there is what is about one part each, and what adds parts up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints
from bayesdp._validate import instance, shown
from bayesdp.fibers import NoiseTerm, Target
from bayesdp.frames import Frame
from bayesdp.hierarchies.structure import NoStructure, Tree, refines, sum_parts
from bayesdp.hierarchies.two_pass import Axis, Codes, LevelData
from bayesdp.measurements import Exact, Measured
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import LinearQuery, MatrixPart, Query, SumPart
from bayesdp.release import Release

_OTHERWISE = "put the release into a model with bdp.observe and draw with bdp.sample, which know it"


def target_of(release: Release, family: str) -> Target:
    """The posterior of a release's table under a prior of independent cells of a family, in the form that chains take."""
    if release.about != "counts":
        raise ValueError("release is about statistics, which are real numbers; a hierarchy has counts in its cells")
    return Target(release.fiber, tuple(noise_term(measured) for measured in release.measurements), family)


def noise_term(measured: Measured) -> NoiseTerm:
    """A noisy part of a release of a hierarchy as a term of a target; errors are those of `target_of`."""
    law, query = measured.law, measured.query
    form = law.kernel_form
    # Noise that is cut off at bounds has the form of its free law, with factors besides that this form does not have.
    normal = form is not None and form.kind == "gaussian" and form.coordinates is None
    if not normal or law.support not in ("integers", "reals"):
        raise NotImplementedError(
            f"hierarchies take normal noise that is independent in each answer, and the law of {measured!r} is {law.name!r}: "
            f"{_OTHERWISE}"
        )
    try:
        sum_parts([query])
    except NoStructure as reason:
        raise NotImplementedError(f"hierarchies take sums of cells, and {measured!r} is none: {_OTHERWISE}") from reason
    scale = np.broadcast_to(np.asarray(getattr(law, law.kernel_parameters[0]), dtype=np.float64), query.shape)
    unmeasured = measured.unmeasured.reshape(-1)
    values = np.where(unmeasured, 0.0, np.asarray(measured.values, dtype=np.float64).reshape(-1))
    return NoiseTerm(query, values, "gaussian", scale.reshape(-1).copy(), ~unmeasured)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums that were published, shape (rows,)."""

    part: SumPart
    values: Floats
    precision: Floats | None = None  # inverse variances of the noise, 0 where there is no answer; None of exact sums

    @classmethod
    def of(cls, query: Query, *numbers: Floats) -> list[Sums]:
        """Answers, and inverse variances, part by part; NoStructure if there are weights."""
        sum_parts([query])
        return [cls(part, *(own[rows] for own in numbers)) for part, rows in query.placed_parts]  # type: ignore[arg-type]


def noisy_answers(measured: Measured) -> tuple[Query, Floats, Floats]:
    """The answers of a measurement and the inverse variances of their noise, flat."""
    law, name = measured.law, measured.name or repr(measured)
    if law.keeps_invariants or not (law.additive and law.independent):
        raise ValueError(f"gls needs independent noise that is added, and {law.name!r} of {name} is none")
    found = law.variance(measured.query.shape)
    if found is None:
        raise ValueError(f"gls needs the variance of the noise, and that of {law.name!r} of {name} is not known")
    variance = np.broadcast_to(np.asarray(found, dtype=np.float64), measured.query.shape).reshape(-1)
    hidden = measured.unmeasured.reshape(-1)
    wrong = np.flatnonzero(~hidden & ~((variance > 0.0) & np.isfinite(variance)))
    if wrong.size:
        answer = measured.query.answer_name(int(wrong[0]))
        raise ValueError(
            f"gls needs noise of positive, finite variance, and that of {name} at {answer} is {variance[wrong[0]]:g}; state "
            "answers without noise as Exact"
        )
    values = np.where(hidden, 0.0, np.asarray(measured.values, dtype=np.float64).reshape(-1))
    return measured.query, values, np.where(hidden, 0.0, 1.0 / np.where(hidden, 1.0, variance))


def _dims(tree: Tree) -> list[int]:
    """The dimensions of the cells of a leaf."""
    return [d for d in range(len(tree.frame.dims)) if d != tree.axis]


def codes_of(tree: Tree, part: SumPart, product: bool) -> Codes:
    """The sum in which each cell counts, dimension by dimension of a product, or on all cells of a leaf as one dimension."""
    if product:
        return tuple(None if part.levels[d] is None else part.codes[d] for d in _dims(tree)) or (None,)
    return (tree.cell_codes(part),)


def axes_of(tree: Tree, sums: Sequence[Sums]) -> list[Axis]:
    """The dimensions of the cells with the groups that these sums keep."""
    found = []
    for d in _dims(tree):
        kept = {part.levels[d]: part.codes[d] for part in (own.part for own in sums)}
        recodes = [codes for name, codes in kept.items() if name is not None and 0 < codes.max() < len(codes) - 1]
        found.append(Axis.of(tree.frame.shape[d], recodes))
    return found or [Axis.of(1, [])]


def is_product(tree: Tree, sums: Sequence[Sums]) -> bool:
    """Whether all noisy answers of a query at a node have one precision: none is missing beside others."""
    for own in sums:
        if own.precision is not None and np.any(own.precision != own.precision[0]):
            precision = tree.by_node(own.part, own.precision)
            flat = precision.reshape(len(precision), -1)
            if np.any(flat != flat[:, :1]):
                return False
    return True


def level_data(tree: Tree, sums: Sequence[Sums], product: bool) -> list[LevelData]:
    """What is published of the nodes of each level."""
    # `product`: in the dimensions of the cells, with the mean precision of all answers of a query at a node, and none where one
    # of them is missing; otherwise with all cells of a leaf as one dimension, and a precision an answer.
    queries: list[list[tuple[Codes, Floats, Floats]]] = [[] for _ in tree.levels]
    exact: list[list[tuple[Codes, Floats]]] = [[] for _ in tree.levels]
    for own in sums:
        level, codes = tree.level_of(own.part), codes_of(tree, own.part, product)
        answers = tree.by_node(own.part, own.values)
        answers = answers if product else answers.reshape(len(answers), -1)
        if own.precision is None:
            exact[level].append((codes, answers))
            continue
        precision = tree.by_node(own.part, own.precision).reshape(len(answers), -1)
        if product:
            even = np.where((precision > 0.0).all(axis=1), precision.mean(axis=1), 0.0)
            precision = np.where((precision == precision[:, :1]).all(axis=1), precision[:, 0], even)
        queries[level].append((codes, precision, answers))
    parents = [tree.parents(level) for level in range(len(tree.levels) - 1)]
    return [
        LevelData(len(tree.nodes_of(level)), parent, queries[level], exact[level])
        for level, parent in enumerate([*parents, None])
    ]


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
        Of a table of parts by cells, with what adds up several parts, and group labels of parts; None if there is nothing.

    Raises
    ------
    ValueError
        If there is no such group label, an answer is about groups that cross the parts, or nothing is published of a part.
    NotImplementedError
        If noise is not independent, or an answer with weights has cells of several parts.

    Notes
    -----
    The noise of different answers is independent: the likelihood of `release` is the product of theirs. They have no guarantee: that
    of `release` is about all of them.

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
    instance(release, Release, "release must be a bayesdp.Release")
    instance(level, str, "level must be the name of a group label", quoted=True)
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
            missing, shape, law = hidden[rows], query.shape, _law_of(noisy, rows, query.shape)
            given = np.where(missing, np.nan, values[rows]) if missing.any() else values[rows]
            unmeasured = missing.reshape(shape) if missing.any() else None
            name = noisy.name if len(noisy.query.parts) == 1 else None
            measured[place].append(Measured(query, given.reshape(shape), law, name=name, unmeasured=unmeasured))
    for stated in release.exact:
        values = stated.values.reshape(-1)
        for place, (query, rows) in cut.pieces(stated.query):
            exact[place].append(Exact(query, values[rows].reshape(query.shape), stated.sign, stated.assumption))
    parts = {}
    for k, label in enumerate(cut.labels):
        if not measured[label] and not exact[label]:
            raise ValueError(f"release: nothing is published of the part {level}={label}")
        parts[label] = Release.from_published(cut.frames[k], measured[label], exact[label], simulated=release.simulated)
    if not measured[None] and not exact[None]:
        return parts, None
    return parts, Release.from_published(cut.top, measured[None], exact[None], simulated=release.simulated)


def _law_of(noisy: Measured, rows: Ints, shape: tuple[int, ...]) -> NoiseLaw:
    """The law of some answers: one with one number for all is kept; of others, with the numbers of these answers."""
    given = {name: np.asarray(getattr(noisy.law, name)) for name in noisy.law.kernel_parameters}
    if all(own.ndim == 0 for own in given.values()):
        return noisy.law
    if len(given) > 1:
        raise NotImplementedError(
            f"split takes laws with one parameter that varies between answers, not that of {noisy!r}"
        )
    [(name, scale)] = given.items()
    own = np.broadcast_to(scale, noisy.query.shape).reshape(-1)[rows].astype(np.float64)
    made: NoiseLaw = type(noisy.law)(**{name: own.reshape(shape)})
    return made


class _Cut:
    """Where the cells of a frame are when it is cut at a level."""

    def __init__(self, frame: Frame, level: str) -> None:
        self.frame, self.level = frame, level
        dim, own = frame.group(level)
        self.axis = frame.dims.index(dim)
        self.labels = list(dict.fromkeys(own))
        self.part_of_leaf = _codes(own)
        self.leaves = [np.flatnonzero(self.part_of_leaf == k) for k in range(len(self.labels))]  # of each part

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
        groups = []
        for name, of, own in frame.groups:
            if of != dim:
                groups.append((name, of, own))
            elif name != self.level and self._above(_codes(own)):
                groups.append((name, self.level, tuple(own[leaves[0]] for leaves in self.leaves)))
        return Frame(tuple(dims), tuple(labels), tuple(groups))

    def pieces(self, query: Query) -> Iterator[tuple[Label, Piece]]:
        """The places of the answers of a query, each with a query of the table there and the numbers of these answers."""
        for part, places in query.placed_parts:
            found = self._sums(part) if isinstance(part, SumPart) else self._weighted(part)
            for place, (there, rows) in found:
                yield place, (there, places.start + rows)

    def _above(self, codes: Ints) -> bool:
        """Whether groups of leaves are unions of parts."""
        return refines(self.part_of_leaf, codes)

    def _sums(self, part: SumPart) -> Iterator[tuple[Label, Piece]]:
        name, codes = part.levels[self.axis], part.codes[self.axis]
        rows = np.moveaxis(part.row_of_cell.reshape(self.frame.shape), self.axis, 0)
        if name is not None and refines(codes, self.part_of_leaf):
            # Of one node each, all leaves of a part, the label is that of the part.
            keep = tuple(own for own in part.keep if own != name) if self._above(codes) else part.keep
            for label, frame, leaves in zip(self.labels, self.frames, self.leaves, strict=True):
                yield label, _piece(SumPart(frame, keep), np.moveaxis(rows[leaves], 0, self.axis))
        elif self._above(codes):
            first = np.array([leaves[0] for leaves in self.leaves])
            yield None, _piece(SumPart(self.top, part.keep), np.moveaxis(rows[first], 0, self.axis))
        else:
            raise ValueError(
                f"release: answers by {name!r} are about groups of {self.frame.dims[self.axis]!r} that cross those of "
                f"{self.level!r}, so that it cannot be cut there"
            )

    def _weighted(self, part: MatrixPart) -> Iterator[tuple[Label, Piece]]:
        shape = [-1 if axis == self.axis else 1 for axis in range(len(self.frame.dims))]
        of_cell = np.broadcast_to(self.part_of_leaf.reshape(shape), self.frame.shape).reshape(-1)
        matrix, size = part.matrix.tocsr(), self.frame.size
        member = sp.csr_array((np.ones(size), (np.arange(size), of_cell)), shape=(size, len(self.labels)))
        touched = sp.csr_array(abs(matrix) @ member)  # of each row, the parts that its cells are in
        across = np.flatnonzero(np.diff(touched.indptr) > 1)
        if across.size:
            raise NotImplementedError(
                f"release: the answer {part.names[int(across[0])]!r} has weights and cells of several parts; state it as a sum "
                "that keeps labels, or fit all in one with bdp.fit_hierarchy or bdp.sample"
            )
        cells = np.arange(size).reshape(self.frame.shape)
        for k, (label, frame, leaves) in enumerate(zip(self.labels, self.frames, self.leaves, strict=True)):
            rows = touched[:, [k]].nonzero()[0]
            if rows.size:
                here = np.take(cells, leaves, axis=self.axis).reshape(-1)
                yield label, (LinearQuery(frame, matrix[rows][:, here], [part.names[int(i)] for i in rows]), rows)


def _codes(labels: tuple[Label, ...]) -> Ints:
    number = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return np.array([number[label] for label in labels], dtype=np.int64)


def _piece(part: SumPart, rows: Ints) -> Piece:
    """A part as a query, and which of the given answers each of its answers is: any cell that counts in it tells."""
    given = np.empty(part.rows, dtype=np.int64)
    given[part.row_of_cell] = rows.reshape(-1)
    return Query(part.frame, (part,)), given
