"""The linear estimate of a release: generalised least squares on the tree of its geography, with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from bayesdp._validate import probability
from bayesdp.hierarchies.axes import Axis
from bayesdp.hierarchies.structure import best_axis, sum_parts
from bayesdp.hierarchies.tree import NoStructure, Tree, tree_of
from bayesdp.hierarchies.two_pass import LevelData, LevelEstimate, tree_estimate
from bayesdp.measurements import Exact, Measured
from bayesdp.queries import MatrixPart, Query, SumPart
from bayesdp.release import Release

__all__ = ["LinearEstimate", "gls"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Codes = tuple[Ints | None, ...]


@dataclass(frozen=True, eq=False)
class LinearEstimate:
    """Best linear unbiased estimates of sums of a table, with their standard errors.

    Nonnegativity, whole numbers, limits and cells that must be 0 are not looked at: estimates can be negative, and intervals are
    those of normal errors.

    Attributes
    ----------
    levels : tuple of str
        The levels of the tree, from the leaves up.
    ignored : tuple of str
        What of the release was not used.
    """

    tree: Tree
    estimates: tuple[LevelEstimate, ...]
    ignored: tuple[str, ...]

    @property
    def levels(self) -> tuple[str, ...]:
        """See the class."""
        return self.tree.levels

    def mean(self, query: Query) -> Floats:
        """Estimates of the answers of a query, of the query's shape."""
        return self._answers(query)[0]

    def sd(self, query: Query) -> Floats:
        """Their standard errors."""
        return self._answers(query)[1]

    def interval(self, query: Query, level: float = 0.95) -> tuple[Floats, Floats]:
        """Both ends of intervals, by normal errors."""
        mean, sd = self._answers(query)
        width = float(ndtri(0.5 + 0.5 * probability(level, "level"))) * sd
        return mean - width, mean + width

    def _answers(self, query: Query) -> tuple[Floats, Floats]:
        means, variances = [], []
        for part in sum_parts([query]):
            level = self.tree.level_of(part)
            codes = _codes(self.tree, part)
            rows = self.tree.rows(part)
            found = self.estimates[level]
            spread = found.variance(codes)
            mean, variance = np.empty(part.rows), np.empty(part.rows)
            for node in range(len(rows)):
                sums = np.bincount(rows[node], weights=found.cells[node], minlength=part.rows)
                own = np.unique(rows[node])
                mean[own] = sums[own]
            variance[rows] = spread
            means.append(mean)
            variances.append(np.maximum(variance, 0.0))
        shape = query.shape
        return np.concatenate(means).reshape(shape), np.sqrt(np.concatenate(variances)).reshape(shape)


def gls(release: Release, leaves: str | None = None) -> LinearEstimate:
    """Estimate a table by generalised least squares, exact totals included.

    Parameters
    ----------
    release : Release
        Of counts; its noisy parts are sums over one dimension's labels or groups of them that nest, by labels or groups of the
        other dimensions, with independent noise of known variance. Every cell of the leaves must follow from what is published
        of the leaf.
    leaves : str, optional
        The dimension of the leaves, such as ``"tract"``. By default the one with the most levels.

    Returns
    -------
    LinearEstimate

    Raises
    ------
    ValueError
        If the release is no such hierarchy; the message says why.
    NotImplementedError
        If sums of cells other than totals are exact.

    Notes
    -----
    Two passes over the tree, with a few small matrices a node: time and memory are linear in the number of cells.

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
    >>> estimate = gls(release)
    >>> estimate.mean(bdp.Identity(table)).round(2).tolist()
    [[4.67, 8.33], [1.67, 5.33]]
    """
    if release.about != "counts":
        raise ValueError("gls is for releases of counts; statistics have no tree")
    totals, ignored = _exact_totals(release)
    noisy = [(part, measured) for measured in release.measurements for part in sum_parts([measured.query])]
    axis, levels = best_axis(release.frame, [*(part for part, _ in noisy), *(part for part, _ in totals)], leaves)
    tree = tree_of(release.frame, axis, levels)
    dims = [d for d in range(len(release.frame.dims)) if d != axis]
    axes = [Axis.of(release.frame.shape[d], _recodes([part for part, _ in noisy], d)) for d in dims] or [Axis.of(1, [])]
    data = [_level_data(tree, level, release.measurements, totals) for level in range(len(tree.levels))]
    return LinearEstimate(tree, tuple(tree_estimate(axes, data)), tuple(ignored))


def _exact_totals(release: Release) -> tuple[list[tuple[SumPart, Ints]], list[str]]:
    """Exact totals of nodes, and what is not used."""
    totals: list[tuple[SumPart, Ints]] = []
    ignored = []
    for exact in release.exact:
        if exact.sign != "=" or any(isinstance(part, MatrixPart) for part in exact.query.parts):
            if exact.sign == "=" and not _zeros(exact):
                raise NotImplementedError(
                    f"gls takes exact totals of the levels of a tree; {exact!r} is exact in another way"
                )
            ignored.append(repr(exact))
            continue
        values = np.split(exact.values.reshape(-1), np.cumsum([part.rows for part in exact.query.parts])[:-1])
        for part, own in zip(sum_parts([exact.query]), values, strict=True):
            if len(part.keep) > 1:
                raise NotImplementedError(
                    f"gls takes exact totals of the levels of a tree; sums by {', '.join(part.keep)} are exact in another way"
                )
            totals.append((part, own))
    return totals, ignored


def _zeros(exact: Exact) -> bool:
    return not exact.values.any()


def _recodes(parts: list[SumPart], dim: int) -> list[Ints]:
    """The codes of the groups that parts keep of a dimension of the cells, each once."""
    found: dict[str, Ints] = {}
    for part in parts:
        name = part.levels[dim]
        if name is not None and name != part.frame.dims[dim]:
            found[name] = part.codes[dim]
    return list(found.values())


def _codes(tree: Tree, part: SumPart) -> Codes:
    dims = [d for d in range(len(part.frame.dims)) if d != tree.axis]
    return tuple(None if part.levels[d] is None else part.codes[d] for d in dims) or (np.zeros(1, dtype=np.int64),)


def _level_data(
    tree: Tree, level: int, measurements: tuple[Measured, ...], totals: list[tuple[SumPart, Ints]]
) -> LevelData:
    queries = []
    for measured in measurements:
        law = measured.law
        if law.keeps_invariants or not law.additive:
            raise NoStructure(f"gls needs independent noise that is added, and {law.name!r} is none")
        found = law.variance(measured.query.shape)
        if found is None:
            raise NoStructure(f"gls needs the variance of the noise, and that of {law.name!r} is not known")
        start, variance = 0, np.asarray(found, dtype=np.float64).reshape(-1)
        noisy = np.where(measured.unmeasured, 0.0, np.asarray(measured.values, dtype=np.float64)).reshape(-1)
        weight = np.where(measured.unmeasured.reshape(-1), 0.0, 1.0 / variance)
        for part in sum_parts([measured.query]):
            rows, own = tree.rows(part), slice(start, start + part.rows)
            start += part.rows
            if tree.level_of(part) != level:
                continue
            precision = weight[own][rows]
            if np.any(precision != precision[:, :1]):
                raise NotImplementedError(
                    f"gls needs one variance for all sums of a query at a node; those by {', '.join(part.keep)} differ, or some "
                    "are missing"
                )
            queries.append((_codes(tree, part), precision[:, 0], noisy[own][rows]))
    known = None
    for part, values in totals:
        if tree.level_of(part) == level:
            known = values[tree.rows(part)[:, 0]].astype(np.float64)
    return LevelData(tree.parents(level) if level + 1 < len(tree.levels) else None, queries, known)
