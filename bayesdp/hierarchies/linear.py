"""The linear estimate of a release: generalised least squares on the tree of its geography, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.special import ndtri

from bayesdp._text import printable
from bayesdp._validate import probability
from bayesdp.frames import Frame
from bayesdp.hierarchies.statements import Known, Noisy
from bayesdp.hierarchies.structure import best_axis, sum_parts
from bayesdp.hierarchies.tree import NoStructure, Tree, levels_of, same_partition, tree_of
from bayesdp.hierarchies.tree_form import tree_form
from bayesdp.hierarchies.two_pass import Unidentified
from bayesdp.hierarchies.whole import MOST_CELLS, whole_estimate
from bayesdp.measurements import Exact, Measured
from bayesdp.queries import MatrixPart, Query, SumPart
from bayesdp.release import Release

__all__ = ["LinearEstimate", "gls"]

type Floats = npt.NDArray[np.float64]
type Answers = list[tuple[Query, Floats, Floats]]
"""Queries with their noisy answers and the inverse variances of the noise, flat."""


class _Form(Protocol):
    @property
    def words(self) -> str: ...
    def answers(self, query: Query) -> tuple[Floats, Floats]: ...
    def covariance(self, query: Query, node: object = None) -> Floats: ...


@dataclass(frozen=True, eq=False, repr=False)
class LinearEstimate:
    """Best linear unbiased estimates of sums of a table, with their standard errors.

    Nonnegativity, whole numbers, limits and cells of a hierarchy that must be 0 are not looked at: estimates can be negative, and
    intervals are those of normal errors.

    Attributes
    ----------
    frame : Frame
        Labels of the table.
    levels : tuple of str
        The levels of the tree, from the leaves up; none where a small table that is no tree was estimated as a whole.
    ignored : tuple of str
        What of the release was not used.
    """

    frame: Frame
    levels: tuple[str, ...]
    ignored: tuple[str, ...]
    form: _Form

    def __repr__(self) -> str:
        more = f"; not used: {', '.join(self.ignored)}" if self.ignored else ""
        return f"<LinearEstimate: {printable(self.form.words)}; nonnegativity not used{more}>"

    def mean(self, query: Query) -> Floats:
        """Estimates of the answers of a query, of the query's shape."""
        return self._answers(query)[0]

    def sd(self, query: Query) -> Floats:
        """Their standard errors."""
        return self._answers(query)[1]

    def interval(self, query: Query, level: float = 0.95) -> tuple[Floats, Floats]:
        """Both ends of intervals, by normal errors."""
        mean, sd = self._answers(query)
        width = _normal_width(level) * sd
        return mean - width, mean + width

    def covariance(self, query: Query, node: object = None) -> Floats:
        """Covariances of the errors of the answers of a query at one node.

        Parameters
        ----------
        query : Query
            Sums by one set of labels.
        node : label, optional
            Of the level of the tree that the query keeps; None where it keeps none, and where `levels` is empty.

        Returns
        -------
        float64 array, shape (answers, answers)
            Of the answers at this node in their order, or of all answers.

        Raises
        ------
        ValueError
            If there is no such node.
        """
        self._check(query)
        return self.form.covariance(query, node)

    def to_dataset(self, query: Query, level: float = 0.95) -> xr.Dataset:
        """The answers with their labels: variables ``mean``, ``sd``, ``lower`` and ``upper``.

        Parameters
        ----------
        query : Query
        level : float
            Probability of the intervals.
        """
        mean, sd = self._answers(query)
        width = _normal_width(level) * sd
        numbers = {"mean": mean, "sd": sd, "lower": mean - width, "upper": mean + width}
        found = xr.Dataset({name: (query.dims, own) for name, own in numbers.items()}, coords=query.coords)
        found.attrs.update(
            method="generalised least squares", level=float(level), not_used=["nonnegativity", *self.ignored]
        )
        return found

    def _answers(self, query: Query) -> tuple[Floats, Floats]:
        self._check(query)
        mean, variance = self.form.answers(query)
        return mean.reshape(query.shape), np.sqrt(np.maximum(variance, 0.0)).reshape(query.shape)

    def _check(self, query: Query) -> None:
        if not query.frame.same_cells(self.frame):
            raise ValueError("query must be about the release's table (same dimensions and labels)")


def _normal_width(level: float) -> float:
    """Half the width of an interval, in standard errors."""
    return float(ndtri(0.5 + 0.5 * probability(level, "level")))


def gls(release: Release, leaves: str | None = None) -> LinearEstimate:
    """Estimate a table by generalised least squares, exact sums included.

    Parameters
    ----------
    release : Release
        Of counts, with independent noise of known variance. For a hierarchy of any size, its noisy and exact parts are sums over one
        dimension's labels or groups of them that nest, by labels or groups of the other dimensions, and every cell of the leaves
        follows from what is published of the leaf. Tables of up to 2,000 cells can have any other sums, with weights or without.
    leaves : str, optional
        The dimension of the leaves, such as ``"tract"``. By default the one that the most queries
        keep, and of several the one with the most levels.

    Returns
    -------
    LinearEstimate
        Says in `LinearEstimate.ignored` what of the release it does not use.

    Raises
    ------
    ValueError
        If noise is not independent or its variance is not known, or a cell does not follow from what is published; the message
        says where.
    NotImplementedError
        If a table of more than 2,000 cells is no such hierarchy, or answers of one query at a node have different variances, or are
        missing in part, and the nodes times the square of their cells are more than 30 million.

    Notes
    -----
    Two passes over the tree, with a few small matrices a node: time and memory are linear in the number of cells. A query some
    of whose answers at a node are missing, or have another variance, takes a matrix of all cells a node instead.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = {"tract": ["a", "b"], "age": ["young", "old"]}
    >>> noise = bdp.noise.DiscreteGaussian(sigma=2.0)
    >>> release = bdp.Release.from_published(
    ...     table,
    ...     [
    ...         bdp.Measured(bdp.Identity(table), [[3, 8], [0, 5]], noise),
    ...         bdp.Measured(bdp.Margins(table, ["age"]), [5, 11], noise),
    ...     ],
    ...     [bdp.Exact(bdp.Totals(table), 20)],
    ... )
    >>> estimate = gls(release, "tract")
    >>> estimate
    <LinearEstimate: 2 tract, 1 all; 2 cells each; nonnegativity not used>
    >>> estimate.mean(bdp.Identity(table)).round(2).tolist()
    [[4.67, 8.33], [1.67, 5.33]]
    """
    if release.about != "counts":
        raise ValueError("gls is for releases of counts; statistics have no tree")
    frame = release.frame
    if leaves is not None and leaves not in frame.dims:
        raise ValueError(f"leaves must be a dimension of the table ({', '.join(frame.dims)}), got {leaves!r}")
    noisy = [_noisy(measured) for measured in release.measurements]
    limits = [f"limits {own!r}" for own in release.exact if own.sign != "="]
    equal = [own for own in release.exact if own.sign == "="]
    try:
        sums, known, zeros = _sums(noisy, equal)
        tree = _tree(frame, [*(own.part for own in sums), *(own.part for own in known)], leaves)
        found = tree_form(tree, sums, known)
    except (NoStructure, Unidentified) as reason:
        if frame.size <= MOST_CELLS:
            exact = [(own.query, own.values.reshape(-1).astype(np.float64)) for own in equal]
            return LinearEstimate(frame, (), tuple(limits), whole_estimate(frame, noisy, exact))
        if isinstance(reason, Unidentified):
            leaf = frame.labels[tree.axis][int(tree.order[reason.leaf])]
            name = f"{tree.levels[0]}={leaf}"
            raise ValueError(
                f"gls needs answers at every leaf that fix every cell: a query of all cells, or several that do together; {name} "
                f"has none (tables of up to {MOST_CELLS:,} cells can do without)"
            ) from None
        raise NotImplementedError(
            f"gls takes tables of more than {MOST_CELLS:,} cells only where they are a tree: {reason}"
        ) from None
    return LinearEstimate(frame, tree.levels, (*limits, *zeros), found)


def _noisy(measured: Measured) -> tuple[Query, Floats, Floats]:
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


def _sums(noisy: Answers, equal: Sequence[Exact]) -> tuple[list[Noisy], list[Known], list[str]]:
    """Noisy and exact sums part by part, and exact values that only say that cells are 0, in words.

    Raises
    ------
    NoStructure
        If there are weights.
    """
    sums, known, zeros = [], [], []
    for query, values, precision in noisy:
        start = 0
        for part in sum_parts([query]):
            own = slice(start, start + part.rows)
            sums.append(Noisy(part, values[own], precision[own]))
            start += part.rows
    for exact in equal:
        if _says_zero(exact):
            zeros.append(f"cells that must be 0 {exact!r}")
            continue
        ends = np.cumsum([part.rows for part in exact.query.parts])[:-1]
        for part, stated in zip(sum_parts([exact.query]), np.split(exact.values.reshape(-1), ends), strict=True):
            known.append(Known(part, stated.astype(np.float64)))
    return sums, known, zeros


def _says_zero(exact: Exact) -> bool:
    """Whether listed sums of cells with positive weights are 0."""
    weighted = [part for part in exact.query.parts if isinstance(part, MatrixPart)]
    all_weighted = len(weighted) == len(exact.query.parts)
    return all_weighted and not exact.values.any() and all(part.matrix.data.min(initial=0) >= 0 for part in weighted)


def _tree(frame: Frame, parts: list[SumPart], leaves: str | None) -> Tree:
    """The tree of what is published, and of groups of the leaves that nest with it."""
    axis, levels = best_axis(frame, parts, leaves)
    once = list({part.levels[axis]: part for part in parts}.values())
    for name, dim, _ in frame.groups:
        group = SumPart(frame, (name,))
        if dim == frame.dims[axis] and not any(same_partition(group.codes[axis], own) for _, own in levels):
            try:
                levels = levels_of(frame, axis, [*once, group])
            except NoStructure:
                continue
            once.append(group)
    return tree_of(frame, axis, levels)
