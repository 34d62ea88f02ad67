"""The linear estimate of a release: generalised least squares on the tree of its geography, with intervals.

A small table that is no tree is estimated as a whole, from any weighted sums, with one dense matrix. The most precise answers that
fix the table, exact ones first, are its coordinates. Every other answer is a combination of those that are about as precise or more
so: in units of the noise all weights are moderate, whatever the sizes of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg as la
import xarray as xr
from scipy.special import ndtri

from bayesdp._arrays import Floats, Ints
from bayesdp._text import printable
from bayesdp._validate import probability
from bayesdp.frames import Frame
from bayesdp.hierarchies.released import Sums, axes_of, codes_of, is_product, level_data, noisy_answers
from bayesdp.hierarchies.structure import NoStructure, Tree, leaf_axes, levels_of, same_partition, sum_parts, tree_of
from bayesdp.hierarchies.two_pass import Axis, LevelEstimate, Unidentified, tree_estimate
from bayesdp.measurements import Exact, Measured
from bayesdp.measurements.consistency import FALSE_ALARMS, determined_answers
from bayesdp.queries import MatrixPart, Query, SumPart
from bayesdp.release import Release

MOST_CELLS = 2000
"""Tables of more cells are not estimated as a whole: the time grows with the third power."""

_DEPENDENT = 1e-12
"""Rows of length 1 depend on others where less than this is left of them: rounding leaves about 1e-15."""

_WHOLE = 1e-9
"""Weights that differ from whole numbers by less are such."""

_CONDITION = 1e9
"""How much larger rounding errors (1e-16) may become: standard errors, and estimates in their units, are good to about 1e-6."""


@dataclass(frozen=True, eq=False)
class WholeForm:
    """Coordinates, whose estimates are whole numbers and a rest; cells as combinations of them; the root of their covariance."""

    frame: Frame
    whole: Floats
    rest: Floats
    inverse: Floats
    root: Floats

    def answers(self, query: Query) -> tuple[Floats, Floats]:
        """Estimates of the answers, and their variances."""
        weights = _combined(query.matrix @ self.inverse)
        return weights @ self.whole + weights @ self.rest, np.square(weights @ self.root).sum(axis=1)

    def covariance(self, query: Query, node: object = None) -> Floats:
        """Covariances of all answers of a query."""
        if node is not None:
            raise ValueError(f"node must be None where a table is estimated as a whole, got {node!r}")
        spread = _combined(query.matrix @ self.inverse) @ self.root
        return np.asarray(spread @ spread.T)

    @property
    def words(self) -> str:
        """The size, in words."""
        return f"{self.frame.size} cells as a whole"


def whole_estimate(
    frame: Frame, noisy: Sequence[tuple[Query, Floats, Floats]], exact: Sequence[tuple[Query, Floats]]
) -> WholeForm:
    """Generalised least squares on all cells, from answers with inverse variances (0 where there is none) and exact answers."""
    # ValueError where a cell does not follow from these, exact ones contradict one another, or rounding errors are too large.
    stated = [(query, values, np.full(query.rows, np.inf)) for query, values in exact] + list(noisy)
    used = [(*answers, np.flatnonzero(answers[2])) for answers in stated]
    named = [(query, int(row)) for query, _, _, own in used for row in own]
    rows = np.concatenate([query.matrix.toarray()[own] * 1.0 for query, _, _, own in used])
    values = np.concatenate([answers[own] for _, answers, _, own in used])
    precision = np.concatenate([precision[own] for _, _, precision, own in used])
    sd, size = 1.0 / np.sqrt(precision), np.maximum(np.abs(rows).max(axis=1), 1.0)
    with np.errstate(divide="ignore"):
        rank = np.floor(np.log10(sd / size))  # powers of ten; exact answers come first
    basis = _basis(rows, rank)
    if len(basis) < frame.size:
        cell = int(np.square(np.linalg.qr(rows[basis].T)[0]).sum(axis=1).argmin())
        raise ValueError(
            f"the cell {frame.cell_name(cell)} does not follow from what is published, so it has no linear estimate"
        )
    inverse = np.linalg.inv(rows[basis])
    growth = (np.abs(inverse) @ np.abs(rows[basis])).sum(axis=1)
    weights = _combined(rows @ inverse)
    weights[rank[:, None] < rank[basis]] = 0.0  # coordinates that are less precise would have come later
    whole = np.rint(values)
    off = (whole - weights @ whole[basis]) + ((values - whole) - weights @ (values - whole)[basis])
    if np.any(np.abs(off[sd == 0.0]) > 0.5):
        raise ValueError("the exact values contradict one another")
    free, more = np.flatnonzero(sd[basis] > 0.0), np.setdiff1d(np.flatnonzero(sd), basis)
    noise, scaled = sd[basis][free], weights[np.ix_(more, free)] * sd[basis][free] / sd[more, None]
    sizes = np.square(scaled).sum(axis=1)
    for grown, which in (
        (growth, basis[np.argsort(-np.abs(inverse[growth.argmax()]))]),
        (sizes, more[np.argsort(-sizes)]),
    ):
        if grown.max(initial=0.0) > _CONDITION:
            raise ValueError(
                f"gls cannot estimate this table in binary64 numbers: rounding errors grow by a factor of {grown.max():.0e}, as "
                "answers nearly say the same or have weights of very different sizes; leave out, or state as Exact, some of "
                + "; ".join(printable(named[i][0].answer_name(named[i][1])) for i in which[:3])
            )
    factor = np.linalg.cholesky(np.eye(len(free)) + scaled.T @ scaled)
    root = np.zeros((frame.size, len(free)))
    root[free] = noise[:, None] * la.solve_triangular(factor, np.eye(len(free)), lower=True).T
    rest = (values - whole)[basis] + root @ (root[free].T / noise @ (scaled.T @ (off[more] / sd[more])))
    return WholeForm(frame, whole[basis], rest, inverse, root)


def _basis(rows: Floats, rank: Floats) -> Ints:
    """Independent rows, those of a lower rank first."""
    unit = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 0.5)).T
    span, found = np.zeros((rows.shape[1], 0)), [np.zeros(0, dtype=np.int64)]
    for own in np.unique(rank):
        new, left = np.flatnonzero(rank == own), unit[:, rank == own]
        for _ in range(2):  # the second time takes away what rounding left
            left = left - span @ (span.T @ left)
        columns, triangle, order = la.qr(left, mode="economic", pivoting=True)
        many = int((np.abs(np.diag(triangle)) > _DEPENDENT).sum())
        span = np.concatenate([span, columns[:, :many]], axis=1)
        found.append(new[order[:many]])
    return np.concatenate(found)


def _combined(weights: Floats) -> Floats:
    """Weights of coordinates in which whole numbers, zeros above all, have no rounding errors."""
    near = np.rint(weights)
    return np.where(np.abs(weights - near) < _WHOLE * np.maximum(np.abs(near), 1.0), near, weights)


type Answers = list[tuple[Query, Floats, Floats]]
"""Queries with their noisy answers and the inverse variances of the noise, flat."""


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
    exact : tuple of Exact
        Equal answers that were used: what follows from them has no error.
    """

    frame: Frame
    levels: tuple[str, ...]
    ignored: tuple[str, ...]
    form: TreeForm | WholeForm
    exact: tuple[Exact, ...] = ()

    def __repr__(self) -> str:
        more = f"; not used: {', '.join(self.ignored)}" if self.ignored else ""
        return f"<LinearEstimate: {printable(self.form.words)}; nonnegativity not used{more}>"

    def mean(self, query: Query) -> Floats:
        """Estimates of the answers of a query, of the query's shape."""
        return self._answers(query)[0]

    def sd(self, query: Query) -> Floats:
        """Their standard errors."""
        return self._answers(query)[1]

    def covariance(self, query: Query, node: object = None) -> Floats:
        """Covariances of the errors of the answers of a query at one node, shape (answers, answers); of all where `levels` is empty.

        Parameters
        ----------
        query : Query
            Sums by one set of labels.
        node : label, optional
            Of the level of the tree that the query keeps; None where it keeps none, and where `levels` is empty.

        Raises
        ------
        ValueError
            If there is no such node.
        """
        self._check(query)
        return self.form.covariance(query, node)

    def to_dataset(self, query: Query, level: float = 0.95) -> xr.Dataset:
        """The answers with their labels: ``mean``, ``sd``, and ``lower`` and ``upper`` of normal intervals of this probability."""
        mean, sd = self._answers(query)
        width = ndtri(0.5 + 0.5 * probability(level, "level")) * sd  # by normal errors
        numbers = {"mean": mean, "sd": sd, "lower": mean - width, "upper": mean + width}
        found = xr.Dataset({name: (query.dims, own) for name, own in numbers.items()}, coords=query.coords)
        found.attrs.update(
            method="generalised least squares", level=float(level), not_used=["nonnegativity", *self.ignored]
        )
        return found

    def _answers(self, query: Query) -> tuple[Floats, Floats]:
        self._check(query)
        mean, variance = self.form.answers(query)
        fixed = determined_answers(query, self.exact)
        mean, variance = np.where(fixed, np.rint(mean), mean), np.where(fixed, 0.0, variance)
        return mean.reshape(query.shape), np.sqrt(np.maximum(variance, 0.0)).reshape(query.shape)

    def _check(self, query: Query) -> None:
        if not query.frame.same_cells(self.frame):
            raise ValueError("query must be about the release's table (same dimensions and labels)")


def gls(release: Release, leaves: str | None = None) -> LinearEstimate:
    """Estimate a table by generalised least squares, exact sums included.

    Parameters
    ----------
    release : Release
        Of counts, with independent noise of known variance. For a hierarchy of any size, its noisy and exact parts are sums over one
        dimension's labels or groups of them that nest, by labels or groups of the other dimensions, and every cell of the leaves
        follows from what is published of the leaf. Tables of up to 2,000 cells can have any other sums, with weights or without.
    leaves : str, optional
        The dimension of the leaves, such as ``"tract"``. By default the one that the most queries keep, of several the one with the
        most levels.

    Returns
    -------
    LinearEstimate

    Raises
    ------
    ValueError
        If noise is not independent or its variance is not known, a cell does not follow from what is published, rounding errors
        would matter, or a noisy answer is too far from what exact ones determine it to be (chance below 1e-6 for all together).
    NotImplementedError
        If a table of more than 2,000 cells is no such hierarchy, its largest noise is 30,000 times its smallest, or answers of one
        query at a node have different variances, or are missing in part, and the nodes times the square of their cells are
        more than 30 million.

    Notes
    -----
    Two passes over the tree, with a few small matrices a node: time and memory are linear in the number of cells. A query some
    of whose answers at a node are missing, or have another variance, takes a matrix of all cells a node instead. Noisy answers
    that exact ones determine are left out. Small tables with noise of very different sizes are estimated as a whole.

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
    noisy = [noisy_answers(measured) for measured in release.measurements]
    ignored = [f"limits {own!r}" for own in release.exact if own.sign != "="]
    equal = [own for own in release.exact if own.sign == "="]
    used = [own for own in equal if not _says_zero(own)]
    free = _without(noisy, used)
    levels: tuple[str, ...] = ()
    found: TreeForm | WholeForm
    try:
        known = [own for exact in used for own in Sums.of(exact.query, _flat(exact))]
        sums, fewer = ([own for one in answers for own in Sums.of(*one)] for answers in (noisy, free))
        tree = _tree(frame, [own.part for own in (*sums, *known)], leaves)
        # All answers of a query at a node are left out, or none.
        if is_product(tree, fewer) or not is_product(tree, sums):
            sums = fewer
        levels, found = tree.levels, tree_form(tree, [*sums, *known])
        ignored += [f"cells that must be 0 {own!r}" for own in equal if _says_zero(own)]
    except (NoStructure, Unidentified) as reason:
        if frame.size > MOST_CELLS and isinstance(reason, Unidentified):
            leaf = frame.labels[tree.axis][int(tree.order[reason.leaf])]
            name = f"{tree.levels[0]}={leaf}"
            raise ValueError(
                f"gls needs answers at every leaf that fix every cell: a query of all cells, or several that do together; {name} "
                f"has none (tables of up to {MOST_CELLS:,} cells can do without)"
            ) from None
        if frame.size > MOST_CELLS:
            raise NotImplementedError(
                f"gls takes tables of more than {MOST_CELLS:,} cells only where they are a tree: {reason}"
            ) from None
        used, free = equal, _without(noisy, equal)
        found = whole_estimate(frame, free, [(own.query, _flat(own)) for own in equal])
    fixed = [np.flatnonzero(before[2] != after[2]) for before, after in zip(noisy, free, strict=True)]
    if count := sum(map(len, fixed)):
        ignored.append(f"{count} noisy answers that exact ones determine")
    estimate = LinearEstimate(frame, levels, tuple(ignored), found, tuple(used))
    for measured, rows in zip(release.measurements, fixed, strict=True):
        if rows.size:
            _check(measured, rows, estimate, FALSE_ALARMS / count)
    return estimate


def _flat(exact: Exact) -> Floats:
    return exact.values.reshape(-1).astype(np.float64)


def _without(noisy: Answers, exact: Sequence[Exact]) -> Answers:
    """The same without noisy answers that exact ones determine."""
    return [(query, y, np.where(determined_answers(query, exact), 0.0, own)) for query, y, own in noisy]


def _check(measured: Measured, rows: npt.NDArray[np.intp], estimate: LinearEstimate, level: float) -> None:
    """Refuse noisy answers that are too far from what exact ones say that they are."""
    law, shape = measured.law, measured.query.shape
    stated = estimate.mean(measured.query).reshape(-1)[rows]
    off = np.asarray(measured.values, dtype=np.float64).reshape(-1)[rows] - stated
    scale: Any = getattr(law, "scale", None)
    if law.at_scales(1.0) is None:  # Chebyshev's inequality
        chance = np.broadcast_to(np.asarray(law.variance(shape)), shape).reshape(-1)[rows] / np.maximum(off**2, 1e-300)
    else:
        own = law.at_scales(np.broadcast_to(scale, shape).reshape(-1)[rows])
        chance = 2.0 * np.exp(np.minimum(own.log_cdf(off), own.log_sf(off - law.integer)))
    worst = int(chance.argmin())
    if chance[worst] < level:
        raise ValueError(
            f"the noisy answer {measured.query.answer_name(int(rows[worst]))} is {stated[worst] + off[worst]:.10g}, and exact answers "
            f"say that it is {stated[worst]:.10g}: noise of {law} is so far off with a probability of at most {chance[worst]:.0e}"
        )


def _says_zero(exact: Exact) -> bool:
    """Whether listed sums of cells with positive weights are 0."""
    weighted = [part for part in exact.query.parts if isinstance(part, MatrixPart)]
    all_weighted = len(weighted) == len(exact.query.parts)
    return all_weighted and not exact.values.any() and all(part.matrix.data.min(initial=0) >= 0 for part in weighted)


def _tree(frame: Frame, parts: list[SumPart], leaves: str | None) -> Tree:
    """The tree of what is published, and of groups of the leaves that nest with it."""
    axis, levels = leaf_axes(frame, parts, leaves)[0]
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


MOST_ENTRIES = 3 * 10**7
"""Covariances of all cells of every node have at most so many entries together; there are some five such arrays of float64."""

_MOST_RANGE = 1e9
"""The largest over the smallest variance of noise: rounding errors (1e-16) grow by about as much."""

_LARGE = 1e6
"""Answers of more standard deviations than this are counted from a table nearby, which takes twice the time."""


@dataclass(frozen=True, eq=False)
class TreeForm:
    """Estimates of the nodes of a tree, from the leaves up."""

    tree: Tree
    estimates: tuple[LevelEstimate, ...]
    product: bool  # whether the cells of a node have their dimensions, otherwise they are one
    near: Ints  # a table of whole numbers from which estimates are counted: answers with little noise keep their digits

    def answers(self, query: Query) -> tuple[Floats, Floats]:
        """Estimates of the answers, and their variances."""
        found = [self._weighted(part) if isinstance(part, MatrixPart) else self._sums(part) for part in query.parts]
        mean, variance = (np.concatenate(own) for own in zip(*found, strict=True))
        return mean + query.apply(self.near).reshape(-1), variance

    def _weighted(self, part: MatrixPart) -> tuple[Floats, Floats]:
        """The same for sums with weights, each of the cells of one node, with the same weights at each of its leaves."""
        tree, size = self.tree, self.tree.frame.size
        place = np.asarray(tree.in_frame(np.arange(size)))  # of each cell of the frame, in the order of the tree
        first, last = (own.tolist() for own in tree.node_range)
        spans: dict[tuple[int, int], int] = {}  # of equal spans of leaves, the lowest node
        for node, span in enumerate(zip(first, last, strict=True)):
            spans.setdefault(span, node)
        mean, variance = np.zeros(part.rows), np.zeros(part.rows)
        for row in range(part.rows):
            own = slice(part.matrix.indptr[row], part.matrix.indptr[row + 1])
            if own.start == own.stop:
                continue
            leaf, cell = np.divmod(place[part.matrix.indices[own]], tree.cells)
            start, end = int(leaf.min()), int(leaf.max()) + 1
            table = np.zeros((end - start, tree.cells))
            table[leaf - start, cell] = part.matrix.data[own]
            if (start, end) not in spans or np.any(table != table[0]):
                raise ValueError(
                    f"the answer {part.name(row)!r} is no sum of the cells of one node of the tree, with the same weights at each of "
                    f"its leaves; levels are {', '.join(tree.levels)}"
                )
            node = spans[start, end]
            level = int(np.searchsorted(tree.path[-1], node))
            found, number = self.estimates[level], node - int(tree.path[0, level])
            mean[row], variance[row] = found.cells[number] @ table[0], found.variance_of(table[0], number)
        return mean, variance

    def _sums(self, part: SumPart) -> tuple[Floats, Floats]:
        """The same for sums by labels."""
        found, codes = self.estimates[self._level(part)], codes_of(self.tree, part, self.product)
        rows, mean, variance = self.tree.answers(part), np.empty(part.rows), np.empty(part.rows)
        mean[rows], variance[rows] = (own.reshape(rows.shape) for own in (found.sums(codes), found.variance(codes)))
        return mean, variance

    def covariance(self, query: Query, node: object = None) -> Floats:
        """Covariances of the answers of a query at one node."""
        [part, *more] = sum_parts([query])
        if more:
            raise ValueError("covariance takes a query of one part: sums by the same labels")
        level, name, place = self._level(part), part.levels[self.tree.axis], 0
        if name is None and node is not None:
            raise ValueError(f"node must be None: the query adds up all of {self.tree.levels[0]!r}, got {node!r}")
        if name is not None:
            labels = part.answer_labels[part.keep.index(name)]
            if node not in labels:
                raise ValueError(f"node must be a label of {name!r}, such as {labels[0]!r}, got {node!r}")
            first = self.tree.first_leaves(level)
            place = int(np.flatnonzero(part.codes[self.tree.axis][first] == labels.index(node)).item())
        return self.estimates[level].covariance(codes_of(self.tree, part, self.product), place)

    def _level(self, part: SumPart) -> int:
        try:
            return self.tree.level_of(part)
        except NoStructure:
            name = part.levels[self.tree.axis]
            raise ValueError(f"{name!r} is no level of the tree; levels are {', '.join(self.tree.levels)}") from None

    @property
    def words(self) -> str:
        """The size, in words."""
        sizes = [len(own.tables) for own in self.estimates]
        nodes = ", ".join(f"{n} {name}" for n, name in zip(sizes, self.tree.levels, strict=True))
        return f"{nodes}; {self.tree.frame.size // sizes[0]} cells each"


def tree_form(tree: Tree, sums: Sequence[Sums]) -> TreeForm:
    """Estimate a hierarchy; Unidentified and Contradiction as in `tree_estimate`."""
    # NoStructure where answers of a query at a node differ in their variances and cells are too many for all covariances, or where
    # noise is of so different sizes that rounding errors would matter.
    noisy = [(own, own.precision) for own in sums if own.precision is not None]
    used = [(own, precision) for own, precision in noisy if precision.any()]
    sharp, most = max(used, key=lambda pair: pair[1].max(), default=(None, np.zeros(1)))
    least = min((precision[precision > 0.0].min() for _, precision in used), default=np.inf)
    if sharp is not None and most.max() > _MOST_RANGE * least:
        raise NoStructure(
            f"the noise of {printable(sharp.part.name(int(most.argmax())))} (sd {most.max() ** -0.5:.3g}) is too small beside the "
            f"largest (sd {least**-0.5:.3g}) for binary64 numbers; state as Exact what is nearly exact"
        )
    product = is_product(tree, sums)
    if not product and tree.nodes * tree.cells**2 > MOST_ENTRIES:
        raise NoStructure(
            f"answers of one query at a node differ in their variances, or some are missing, and {tree.nodes} nodes of {tree.cells} "
            f"cells are too many for a covariance of all cells each, which is done up to {MOST_ENTRIES:,} entries"
        )
    axes = axes_of(tree, sums) if product else [Axis(np.arange(tree.cells))]
    near = np.zeros(tree.frame.shape, dtype=np.int64)
    found = tree_estimate(axes, level_data(tree, sums, product))
    sizes = [(np.abs(own.values) * np.sqrt(precision)).max(initial=0.0) for own, precision in noisy]
    if max(sizes, default=0.0) > _LARGE:
        near = np.asarray(tree.in_frame(np.rint(found[0].cells)), dtype=np.int64).reshape(tree.frame.shape)
        sums = [replace(own, values=own.values - own.part.apply(near).reshape(-1)) for own in sums]
        found = tree_estimate(axes, level_data(tree, sums, product))
    return TreeForm(tree, tuple(found), product, near)
