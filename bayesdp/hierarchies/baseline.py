"""A table estimated in the manner of the Census Bureau's TopDown algorithm, for comparison only.

Nonnegative least squares with one exact total, and rounding that keeps it: both have closed forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xarray as xr

from bayesdp._text import printable
from bayesdp.hierarchies.constrained import Constraints, NoTable, nonnegative_least_squares, round_within
from bayesdp.hierarchies.published_sums import PublishedSums, published_sums
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]


def onto_total(values: npt.ArrayLike, total: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Floats:
    """Project onto the nonnegative tables of a given total, by weighted least squares.

    Minimises ``sum(weights * (x - values)**2)`` over ``x >= 0`` with ``sum(x) == total``: the solution is
    ``max(values - multiplier / weights, 0)``, and sorting finds how many cells are positive. Exact, in the
    time of a sort.

    Parameters
    ----------
    values : array_like, shape (..., cells)
        Noisy tables.
    total : array_like, shape (...)
        Their exact totals, at least 0.
    weights : array_like, shape (cells,) or that of `values`, optional
        Positive; inverse variances of the noise. Default: all equal.

    Returns
    -------
    numpy.ndarray
        Of the shape of `values`.


    Examples
    --------
    >>> onto_total([5.0, 1.0, -3.0], 4.0)
    array([4., 0., 0.])
    """
    tables = np.asarray(values, dtype=np.float64)
    given = np.ones(tables.shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape not in (tables.shape[-1:], tables.shape) or not np.all(given > 0):
        raise ValueError(f"weights must be {tables.shape[-1]} positive numbers, got {weights!r}")
    exact = np.asarray(total, dtype=np.float64)[..., None]
    if np.any(exact < 0):
        raise ValueError(f"total must be at least 0, got {total!r}")
    given = np.broadcast_to(given, tables.shape)
    # A cell is positive if the multiplier is below its weight times its value: the cells enter in this order.
    entry = given * tables
    order = np.argsort(-entry, axis=-1)
    summed = np.cumsum(np.take_along_axis(tables, order, axis=-1), axis=-1)
    width = np.cumsum(np.take_along_axis(1 / given, order, axis=-1), axis=-1)
    multipliers = (summed - exact) / width  # if the first k cells are the positive ones
    positive = np.sum(np.take_along_axis(entry, order, axis=-1) > multipliers, axis=-1, keepdims=True)
    multiplier = np.take_along_axis(multipliers, np.maximum(positive, 1) - 1, axis=-1)
    return np.asarray(np.maximum(tables - multiplier / given, 0.0))


def round_to_total(values: npt.ArrayLike, total: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Round nonnegative tables to whole numbers of the same whole total: up where the remainder is largest.

    Parameters
    ----------
    values : array_like, shape (..., cells)
        Tables that add up to `total`, up to the errors of floating point.
    total : array_like of int, shape (...)


    Examples
    --------
    >>> round_to_total([1.4, 1.4, 1.2], 4)
    array([2, 1, 1])
    """
    tables = np.asarray(values, dtype=np.float64)
    nearest = np.rint(tables)
    # A number that is whole up to floating point is whole: 2.9999999 must not become 2.
    whole = np.where(np.abs(tables - nearest) < 1e-7, nearest, np.floor(tables)).astype(np.int64)
    missing = np.asarray(total)[..., None] - whole.sum(axis=-1, keepdims=True)
    if np.any(missing < 0) or np.any(missing > tables.shape[-1]):
        raise ValueError("the tables do not add up to the total")
    place = np.argsort(np.argsort(whole - tables, axis=-1, kind="stable"), axis=-1)
    return whole + (place < missing)


type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]


def topdown_like(release: Release, leaves: str | None = None) -> xr.DataArray:
    """Estimate a table from the top of its tree down, as the Census Bureau's TopDown algorithm does: for comparison only.

    The table of the top is the nonnegative one nearest to its noisy answers, by least squares weighted with their precisions,
    that keeps what is exact; it is rounded to whole numbers that keep it too. Then the children of a node get the tables
    nearest to *their* noisy answers which add up to the node's, and so on down to the leaves.

    **This is no inference.** It says nothing about its own errors: there is no interval. It is biased: where noise is as large as
    the counts, cells of few are too large, because negative answers become 0, and large cells pay for that, because sums are kept.
    Answers of lower levels are not used further up, unless those of a level leave its cells open. Use a posterior
    or :func:`bayesdp.gls`, and this to see what tables made consistent in this way do.

    Parameters
    ----------
    release : Release
        Of counts. Its noisy parts are sums over the labels of one dimension or groups of them that nest, as for
        :func:`bayesdp.gls`, with independent noise of known variance. Exact answers, and limits, may be any such sums, and
        single cells may be exactly 0.
    leaves : str, optional
        The dimension of the leaves, such as ``"tract"``. By default the one that the most queries
        keep, and of several the one with the most levels.

    Returns
    -------
    xarray.DataArray
        int64 counts of the release's table: whole, nonnegative, with the exact answers.

    Raises
    ------
    ValueError
        If the release is no such hierarchy; if the answers at the leaves do not fix every cell; or if the tables of some
        node's children cannot keep what is exact (an algorithm that goes down only can get there; the message names the node).
    NotImplementedError
        If what is exact is no sum over labels, and no cell that is 0.

    Notes
    -----
    The Bureau's algorithm differs in much: its answers are fitted in several passes by importance, its rounding
    looks at several queries, and its spine is made for it.

    References
    ----------
    Abowd et al. (2022), The 2020 Census Disclosure Avoidance System TopDown Algorithm, Harvard Data Science Review, Special
    Issue 2.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = {"tract": ["a", "b"], "age": ["young", "old"]}
    >>> noise = bdp.noise.DiscreteGaussian(sigma=2.0)
    >>> measured = [bdp.Measured(bdp.Identity(table), [[-3, 8], [1, 5]], noise)]
    >>> release = bdp.Release.from_published(table, measured, [bdp.Exact(bdp.Totals(table), 12)])
    >>> topdown_like(release, "tract").values.tolist()
    [[0, 8], [0, 4]]
    """
    if release.about != "counts":
        raise ValueError("topdown_like is for releases of counts; statistics have no tree")
    sums = published_sums(release, leaves)
    tree = sums.tree
    top = sums.top
    tables = np.zeros((len(tree.nodes_of(top)), sums.cells), dtype=np.int64)
    for node in range(len(tables)):
        tables[node] = _family(sums, top, np.array([node]), None)[0]
    for level in range(top - 1, -1, -1):
        parents = tree.parents(level)
        found = np.zeros((len(parents), sums.cells), dtype=np.int64)
        for node, table in enumerate(tables):
            children = np.flatnonzero(parents == node)
            found[children] = _family(sums, level, children, table)
        tables = found
    result = release.frame.data_array(tree.in_frame(tables).reshape(release.frame.shape), "topdown_like")
    return result.assign_attrs(
        method="nonnegative least squares from the top down, rounded: for comparison only, biased and without intervals"
    )


def _family(sums: PublishedSums, level: int, nodes: Ints, parent: Ints | None) -> Ints:
    """Tables of sister nodes that add up to their parent's, shape (nodes, C)."""
    free = sums.free[level][nodes]
    if parent is not None:
        free = free & (parent > 0)
        simple = _one_total_each(sums, level, nodes, parent, free)
        if simple is not None:
            return simple
    problem = _problem(sums, level, nodes, parent, free)
    found = np.zeros(free.shape, dtype=np.int64)
    try:
        real = nonnegative_least_squares(problem.rows, problem.values, problem.weights, problem.constraints)
        whole = round_within(real, problem.constraints)
    except NoTable as reason:
        where = f"{sums.tree.levels[level]} {', '.join(printable(sums.name(level, int(node))) for node in nodes[:3])}"
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        raise ValueError(f"the tables of {where}{more} cannot keep what is exact: {reason}") from None
    found[free] = whole
    return found


def _one_total_each(sums: PublishedSums, level: int, nodes: Ints, parent: Ints, free: Mask) -> Ints | None:
    """The closed form, where every answer is of one cell and nothing is exact but the parent's: cells have nothing in common."""
    noisy = sums.noisy[level]
    if (
        sums.exact[level]
        or not free[:, parent > 0].all()
        or any(len(np.unique(own.codes)) < sums.cells for own in noisy)
    ):
        return None
    weight, weighted = np.zeros(free.shape), np.zeros(free.shape)
    for own in noisy:
        weight += own.weights[nodes][:, own.codes]
        weighted += (own.weights * own.values)[nodes][:, own.codes]
    real = onto_total((weighted / weight).T, parent, weight.T)
    return round_to_total(real, parent).T


@dataclass(frozen=True, eq=False)
class _LeastSquares:
    rows: sp.csr_array
    values: Floats
    weights: Floats
    constraints: Constraints


def _problem(sums: PublishedSums, level: int, nodes: Ints, parent: Ints | None, free: Mask) -> _LeastSquares:
    """The least-squares problem of sister nodes; its unknowns are the free cells, node by node."""
    groups, values, weights = [], [], []
    for own in sums.noisy[level]:
        used = own.weights[nodes].reshape(-1) > 0
        groups.append(_indicator(own.codes, free)[used])
        values.append(own.values[nodes].reshape(-1)[used])
        weights.append(own.weights[nodes].reshape(-1)[used])
    known, lower, upper = [], [], []
    if parent is not None:
        cells = np.broadcast_to(np.arange(sums.cells), free.shape)[free]
        one = (np.ones(len(cells)), (cells, np.arange(len(cells))))
        known.append(sp.csr_array(one, shape=(sums.cells, len(cells))))
        lower.append(parent.astype(np.float64))
        upper.append(parent.astype(np.float64))
    for limits in sums.exact[level]:
        known.append(_indicator(limits.codes, free))
        lower.append(limits.lower[nodes].reshape(-1))
        upper.append(limits.upper[nodes].reshape(-1))
    n = int(free.sum())
    constraints = Constraints(
        sp.csr_array(sp.vstack([sp.csr_array((0, n)), *known], format="csr")), _joined(lower), _joined(upper)
    )
    return _LeastSquares(sp.csr_array(sp.vstack(groups, format="csr")), _joined(values), _joined(weights), constraints)


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *parts])


def _indicator(codes: Ints, free: Mask) -> sp.csr_array:
    """Sums of the free cells with equal codes, node by node."""
    size = int(codes.max()) + 1
    rows = (np.arange(len(free))[:, None] * size + codes[None, :])[free]
    return sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(len(free) * size, len(rows)))
