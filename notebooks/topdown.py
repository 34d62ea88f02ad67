"""Tables made consistent in the manner of the Census Bureau's TopDown algorithm, for comparison only.

TopDown adds noise to every cell and then makes the table consistent: it projects the noisy table, by weighted
least squares, onto the tables that are nonnegative and have the exact totals. `simulate` simulates many releases
with the core of it, for one level of geography, nonnegativity and one total a group. `topdown_like` takes one release with a tree
of geography: from the top of the tree down nonnegative weighted least squares with sums that are exact or have limits, and rounding
that keeps these sums. With one exact total both have closed forms. None of it is the real
algorithm, whose queries, levels and rounding are many more (Abowd et al., 2022, "The 2020 Census Disclosure
Avoidance System TopDown Algorithm", Harvard Data Science Review).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xarray as xr
from scipy.optimize import LinearConstraint, milp
from scipy.sparse.linalg import splu

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import printable
from bayesdp.hierarchies.released import Sums, level_data, noisy_answers
from bayesdp.hierarchies.structure import Tree, leaf_axes, tree_of
from bayesdp.noise import DiscreteLaplace
from bayesdp.queries import SumPart
from bayesdp.release import Release

__all__ = ["simulate", "topdown_like"]

_REGULAR = 1e-10  # pivot of a constraint that others imply, relative to the weights
_WHOLE = 1e-6  # a number that is nearer to a whole one is whole
_ROUNDS, _SPLITTINGS, _GUESSES = 40, 100, 40


def simulate(
    truth: npt.ArrayLike,
    groups: npt.ArrayLike,
    b: float,
    rng: np.random.Generator,
    size: int,
    *,
    rounded: bool = True,
) -> npt.NDArray[np.int64] | Floats:
    """Simulate releases: discrete Laplace noise on every cell, then the projection with exact group totals.

    Parameters
    ----------
    truth : array_like of int, shape (units, categories)
        The confidential table, such as counties by race.
    groups : array_like, shape (units,)
        The group of each unit, such as its state; the total of each group is exact.
    b : float
        Scale of the noise on each cell, in counts.
    rng : numpy.random.Generator
        Source of randomness.
    size : int
        How many releases.
    rounded : bool
        Whether releases are rounded to whole numbers.

    Returns
    -------
    numpy.ndarray, shape (size, units, categories)

    Examples
    --------
    >>> table = np.array([[100, 0], [20, 3], [7, 7]])
    >>> found = simulate(table, ["A", "A", "B"], 5.0, np.random.default_rng(1), 4)
    >>> found[:, :2].sum(axis=(1, 2)).tolist(), found[:, 2].sum(axis=1).tolist(), int(found.min()) >= 0
    ([123, 123, 123, 123], [14, 14, 14, 14], True)
    """
    table = np.asarray(truth)
    members = np.asarray(groups)
    noisy = table + DiscreteLaplace(b).draw(rng, table.shape, size)
    out: npt.NDArray[Any] = np.empty(noisy.shape, dtype=np.int64 if rounded else np.float64)
    for group in dict.fromkeys(members.tolist()):
        own = members == group
        total = int(table[own].sum())
        found = onto_total(noisy[:, own].reshape(size, -1), np.full(size, total))
        settled = round_to_total(found, np.full(size, total)) if rounded else found
        out[:, own] = settled.reshape(size, -1, table.shape[1])
    return out


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
        As for :func:`bayesdp.gls`.

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
    published = _published(release, leaves)
    tree, top = published.tree, published.top
    tables = np.zeros((len(tree.nodes_of(top)), tree.cells), dtype=np.int64)
    for node in range(len(tables)):
        tables[node] = _family(published, top, np.array([node]), None)[0]
    for level in range(top - 1, -1, -1):
        parents = tree.parents(level)
        found = np.zeros((len(parents), tree.cells), dtype=np.int64)
        for node, table in enumerate(tables):
            children = np.flatnonzero(parents == node)
            found[children] = _family(published, level, children, table)
        tables = found
    result = release.frame.data_array(tree.in_frame(tables).reshape(release.frame.shape), "topdown_like")
    return result.assign_attrs(
        method="nonnegative least squares from the top down, rounded: for comparison only, biased and without intervals"
    )


class _Answers(NamedTuple):
    """Noisy sums of the cells of each node of a level."""

    codes: Ints  # the sum in which each cell counts, shape (C,)
    values: Floats  # shape (nodes, sums)
    weights: Floats  # precisions, 0 where nothing was published


class _Limits(NamedTuple):
    """Exact sums, or limits of sums, of the cells of each node of a level."""

    codes: Ints
    lower: Floats  # shape (nodes, sums)
    upper: Floats


@dataclass(frozen=True, eq=False)
class _Published:
    """What is published of each level, from the leaves up."""

    tree: Tree
    noisy: list[
        list[_Answers]
    ]  # with those of lower levels, added up, where the answers of a level do not fix every cell
    exact: list[list[_Limits]]  # with what follows for a node from its children
    free: list[Mask]  # cells that may be above 0, shape (nodes of the level, C)
    top: int  # the highest level of which something is published

    def name(self, level: int, node: int) -> str:
        """What a node is called: its own label, that of its group, or the first of its leaves."""
        tree = self.tree
        dim = tree.frame.dims[tree.axis]
        leaf = int(tree.order[tree.node_range[0][tree.nodes_of(level)[node]]])
        group = tree.levels[level]
        labels = tree.frame.labels_of(dim) if group in (dim, "all") else tree.frame.group(group)[1]
        return "" if group == "all" else str(labels[leaf])


def _published(release: Release, leaves: str | None) -> _Published:
    """Sort what is published by the levels of a tree."""
    noisy = [own for measured in release.measurements for own in Sums.of(*noisy_answers(measured))]
    stated, zero = _exact_parts(release)
    parts = [*(own.part for own in noisy), *(part for part, _, _ in stated)]
    tree = tree_of(release.frame, *leaf_axes(release.frame, parts, leaves)[0])
    depth = len(tree.levels)
    answers = [
        [_Answers(codes, values, weights) for (codes,), weights, values in level.queries]  # type: ignore[arg-type]
        for level in level_data(tree, noisy, product=False)
    ]
    limits: list[list[_Limits]] = [[] for _ in range(depth)]
    for part, sign, bounds in stated:
        value = bounds.astype(np.float64)[tree.answers(part)]
        lower = value if sign in ("=", ">=") else np.full(value.shape, -np.inf)
        upper = value if sign in ("=", "<=") else np.full(value.shape, np.inf)
        limits[tree.level_of(part)].append(_Limits(tree.cell_codes(part), lower, upper))
    used = [level for level in range(depth) if answers[level] or limits[level]]
    free: list[Mask] = [np.asarray(tree.leaves_by_cells(~zero), dtype=np.bool_)]
    for level in range(depth - 1):
        parents = tree.parents(level)
        free.append(_added(free[level].astype(np.float64), parents) > 0)
        limits[level + 1] += [
            _Limits(own.codes, _added(own.lower, parents), _added(own.upper, parents)) for own in limits[level]
        ]
    complete = [_enough(tree, answers, level, free) for level in range(depth)]
    return _Published(tree, complete, limits, free, max(used))


def _exact_parts(release: Release) -> tuple[list[tuple[SumPart, str, Ints]], Mask]:
    """Exact sums with their signs and values, and the cells, flat, that are 0."""
    found: list[tuple[SumPart, str, Ints]] = []
    zero = np.zeros(release.frame.size, dtype=np.bool_)
    for exact in release.exact:
        for part, rows in exact.query.placed_parts:
            own = exact.values.reshape(-1)[rows]
            if isinstance(part, SumPart):
                found.append((part, exact.sign, own))
            elif exact.sign != ">=" and not own.any() and part.matrix.data.min(initial=1) > 0:
                zero[part.matrix.indices] = True  # a sum of counts that is 0
            else:
                raise NotImplementedError(
                    f"topdown_like takes exact sums over labels, and cells that are 0; {exact!r} is exact in another way"
                )
    return found, zero


def _added(values: Floats, parents: Ints) -> Floats:
    """Sums of the children of each node."""
    first = np.flatnonzero(np.r_[True, np.diff(parents) != 0])
    return np.asarray(np.add.reduceat(values, first, axis=0))


def _enough(tree: Tree, answers: list[list[_Answers]], level: int, free: list[Mask]) -> list[_Answers]:
    """The answers of a level, and as many levels below, added up, as it takes to fix every cell."""
    found: list[_Answers] = []
    for below in range(level, -1, -1):
        for own in answers[below]:
            values, weights = own.values, own.weights
            for step in range(below, level):
                parents = tree.parents(step)
                known = weights > 0
                variance = _added(np.where(known, 1.0 / np.where(known, weights, 1.0), np.inf), parents)
                values, weights = _added(values, parents), 1.0 / variance
            found.append(_Answers(own.codes, values, weights))
        if _fixed(found, free[level]):
            return found
    raise ValueError(
        f"topdown_like needs answers at every leaf that fix every cell: a query of all cells, or several that do together; those of "
        f"{tree.levels[0]!r} do not"
    )


def _fixed(answers: list[_Answers], free: Mask) -> bool:
    """Whether answers that every node has fix every cell that may be above 0 somewhere."""
    cells = np.flatnonzero(free.any(axis=0))
    whole = [own.codes[cells] for own in answers if np.all(own.weights > 0)]
    if any(len(np.unique(codes)) == len(cells) for codes in whole):
        return True
    if not whole:
        return False
    rows = np.concatenate([np.equal.outer(np.unique(codes), codes) for codes in whole]).astype(np.float64)
    return bool(np.linalg.matrix_rank(rows) == len(cells))


def _family(published: _Published, level: int, nodes: Ints, parent: Ints | None) -> Ints:
    """Tables of sister nodes that add up to their parent's, shape (nodes, C)."""
    free = published.free[level][nodes]
    if parent is not None:
        free = free & (parent > 0)
        simple = _one_total_each(published, level, nodes, parent, free)
        if simple is not None:
            return simple
    found = np.zeros(free.shape, dtype=np.int64)
    rows, values, weights, constraints = _problem(published, level, nodes, parent, free)
    try:
        real = nonnegative_least_squares(rows, values, weights, constraints)
        found[free] = round_within(real, constraints)
    except NoTable as reason:
        names = ", ".join(printable(published.name(level, int(node))) for node in nodes[:3])
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        where = f"{published.tree.levels[level]} {names}{more}"
        raise ValueError(f"the tables of {where} cannot keep what is exact: {reason}") from None
    return found


def _one_total_each(published: _Published, level: int, nodes: Ints, parent: Ints, free: Mask) -> Ints | None:
    """The closed form, where every answer is of one cell and nothing is exact but the parent's: cells have nothing in common."""
    noisy, cells = published.noisy[level], published.tree.cells
    if (
        published.exact[level]
        or not free[:, parent > 0].all()
        or any(len(np.unique(own.codes)) < cells for own in noisy)
    ):
        return None
    weight, weighted = np.zeros(free.shape), np.zeros(free.shape)
    for own in noisy:
        weight += own.weights[nodes][:, own.codes]
        weighted += (own.weights * own.values)[nodes][:, own.codes]
    real = onto_total((weighted / weight).T, parent, weight.T)
    return round_to_total(real, parent).T


def _problem(
    published: _Published, level: int, nodes: Ints, parent: Ints | None, free: Mask
) -> tuple[sp.csr_array, Floats, Floats, Constraints]:
    """The least-squares problem of sister nodes: rows, values, weights, constraints. Its unknowns are the free cells, node by node."""
    n, cells = int(free.sum()), np.nonzero(free)[1]
    used = [own.weights[nodes].reshape(-1) > 0 for own in published.noisy[level]]
    noisy = list(zip(published.noisy[level], used, strict=True))
    rows = sp.vstack([_indicator(own.codes, free)[here] for own, here in noisy], format="csr")
    values = np.concatenate([own.values[nodes].reshape(-1)[here] for own, here in noisy])
    weights = np.concatenate([own.weights[nodes].reshape(-1)[here] for own, here in noisy])
    known, lower, upper = [sp.csr_array((0, n))], [np.zeros(0)], [np.zeros(0)]
    if parent is not None:
        known.append(sp.csr_array((np.ones(n), (cells, np.arange(n))), shape=(free.shape[1], n)))
        lower.append(parent.astype(np.float64))
        upper.append(parent.astype(np.float64))
    for limits in published.exact[level]:
        known.append(_indicator(limits.codes, free))
        lower.append(limits.lower[nodes].reshape(-1))
        upper.append(limits.upper[nodes].reshape(-1))
    matrix = sp.csr_array(sp.vstack(known, format="csr"))
    return sp.csr_array(rows), values, weights, Constraints(matrix, np.concatenate(lower), np.concatenate(upper))


def _indicator(codes: Ints, free: Mask) -> sp.csr_array:
    """Sums of the free cells with equal codes, node by node."""
    size = int(codes.max()) + 1
    rows = (np.arange(len(free))[:, None] * size + codes[None, :])[free]
    return sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(len(free) * size, len(rows)))


def onto_total(values: npt.ArrayLike, total: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Floats:
    """Project tables, shape (..., cells), onto the nonnegative ones of given totals, shape (...), by weighted least squares.

    Minimises ``sum(weights * (x - values)**2)`` over ``x >= 0`` with ``sum(x) == total``: the solution is
    ``max(values - multiplier / weights, 0)``, and sorting finds how many cells are positive.
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


def round_to_total(values: npt.ArrayLike, total: npt.ArrayLike) -> Ints:
    """Round nonnegative tables, shape (..., cells), to whole numbers of the same totals: up where the remainder is largest."""
    tables = np.asarray(values, dtype=np.float64)
    nearest = np.rint(tables)
    # A number that is whole up to floating point is whole: 2.9999999 must not become 2.
    whole = np.where(np.abs(tables - nearest) < 1e-7, nearest, np.floor(tables)).astype(np.int64)
    missing = np.asarray(total)[..., None] - whole.sum(axis=-1, keepdims=True)
    if np.any(missing < 0) or np.any(missing > tables.shape[-1]):
        raise ValueError("the tables do not add up to the total")
    place = np.argsort(np.argsort(whole - tables, axis=-1, kind="stable"), axis=-1)
    return whole + (place < missing)


class NoTable(ValueError):
    """No table keeps the constraints."""


@dataclass(frozen=True, eq=False)
class Constraints:
    """Limits of sums of the unknowns: ``lower <= matrix @ x <= upper``, exact where both are equal."""

    matrix: sp.csr_array  # shape (m, n)
    lower: Floats  # whole numbers or infinite, shape (m,)
    upper: Floats

    def with_slack(self) -> tuple[sp.csr_array, Floats]:
        """As equations: every limit of a sum that is not exact has an unknown of its own, which is at least 0."""
        exact = self.lower == self.upper
        below, above = ~exact & np.isfinite(self.lower), ~exact & np.isfinite(self.upper)
        matrix = sp.vstack([self.matrix[exact], self.matrix[below], self.matrix[above]], format="csr")
        slack = np.concatenate([np.zeros(exact.sum()), -np.ones(below.sum()), np.ones(above.sum())])
        columns = sp.diags_array(slack, format="csr")[:, np.flatnonzero(slack)]
        right = np.concatenate([self.lower[exact], self.lower[below], self.upper[above]])
        return sp.csr_array(sp.hstack([matrix, columns], format="csr")), right

    def check(self, n: int) -> None:
        """Raise NoTable if no nonnegative numbers keep them."""
        limits = LinearConstraint(self.matrix, self.lower, self.upper)
        if milp(np.zeros(n), bounds=(0, np.inf), constraints=[limits]).status == 2:
            raise NoTable("no nonnegative table has these sums")


def nonnegative_least_squares(rows: sp.csr_array, values: Floats, weights: Floats, constraints: Constraints) -> Floats:
    """Minimise ``sum(weights * (rows @ x - values)**2)`` over nonnegative x with given sums; rows, shape (m, n), are of rank n."""
    # The set of the unknowns that are 0 is guessed, the others solved for, and the guess mended by the signs of the solution and of
    # the multipliers (a primal-dual active set method) until the conditions of optimality hold. Should the guesses run in circles,
    # steps of an alternating direction method, which converges from everywhere, make a better one.
    n = rows.shape[1]
    if not n:
        round_within(np.zeros(0), constraints)  # nothing is free: the sums must be 0
        return np.zeros(0)
    equations, right = constraints.with_slack()
    size = equations.shape[1]
    wide = sp.csr_array(sp.hstack([rows, sp.csr_array((rows.shape[0], size - n))], format="csr"))
    problem = _Problem(wide, values, weights / np.median(weights), equations, right)
    zero = np.zeros(size, dtype=np.bool_)
    x, scaled = np.zeros(size), np.zeros(size)
    solver = None
    for _ in range(_ROUNDS):
        found = problem.from_guess(zero)
        if found is not None:
            return np.asarray(found[:n])
        solver = solver or problem.factor(np.arange(size), 1.0)
        for _ in range(_SPLITTINGS):
            step = problem.solve(solver, np.arange(size), x - scaled)[0]
            x, scaled = np.maximum(step + scaled, 0.0), np.minimum(step + scaled, 0.0)
        zero = x == 0
    constraints.check(n)
    raise ArithmeticError("nonnegative least squares did not converge")


@dataclass(frozen=True, eq=False)
class _Problem:
    rows: sp.csr_array
    values: Floats
    weights: Floats
    equations: sp.csr_array
    right: Floats

    def factor(self, kept: Ints, ridge: float) -> object:
        """The equations of optimality of some unknowns, factored; a ridge holds them near a point."""
        # The first block are these unknowns, the second weighted residuals, the third multipliers.
        rows, equations = self.rows[:, kept], self.equations[:, kept]
        corner = [
            [ridge * sp.eye_array(len(kept)), rows.T, equations.T],
            [rows, -sp.diags_array(1.0 / self.weights), None],
            [equations, None, -_REGULAR * sp.eye_array(len(self.right))],
        ]
        return splu(sp.csc_array(sp.block_array(corner, format="csc")))

    def solve(self, solver: object, kept: Ints, near: Floats) -> tuple[Floats, Floats]:
        """The unknowns (of which those that are not kept are 0) and the gradient, shape (n,) both."""
        found = solver.solve(np.concatenate([near, self.values, self.right]))  # type: ignore[attr-defined]  # of SuperLU
        x = np.zeros(self.rows.shape[1])
        x[kept], residuals, multipliers = np.split(found, [len(kept), len(kept) + len(self.values)])
        return x, self.rows.T @ residuals + self.equations.T @ multipliers

    def from_guess(self, zero: Mask) -> Floats | None:
        """The solution, from a guess of the unknowns that are 0; None if guesses do not settle."""
        for _ in range(_GUESSES):
            kept = np.flatnonzero(~zero)
            try:
                solver = self.factor(kept, 0.0)
            except RuntimeError:  # exactly singular: too many of them are 0 for the constraints
                return None
            x, gradient = self.solve(solver, kept, np.zeros(len(kept)))
            scale = max(float(np.abs(x).max(initial=0.0)), 1.0)
            if np.abs(self.equations @ x - self.right).max(initial=0.0) > 1e-6 * scale:
                return None
            slope = max(float(np.abs(self.weights * (self.rows @ x - self.values)).max(initial=0.0)), 1.0)
            wrong = (x < -1e-10 * scale) | (zero & (gradient < -1e-10 * slope))
            if not wrong.any():
                return np.maximum(x, 0.0)
            zero = np.where(zero, gradient > 0, x < 0)
        return None


def round_within(x: Floats, constraints: Constraints) -> Ints:
    """Round numbers that keep sums up or down to whole ones that keep them, with the least sum of distances."""
    nearest = np.rint(x)
    whole = np.where(np.abs(x - nearest) < _WHOLE, nearest, np.floor(x))
    left = x - whole
    if not len(constraints.lower):
        return (whole + (left > 0.5)).astype(np.int64)
    open_ = np.flatnonzero(left >= _WHOLE)
    missing = constraints.matrix @ whole
    if not open_.size:
        if np.any(missing < constraints.lower) or np.any(missing > constraints.upper):
            raise NoTable("no rounding keeps the sums")
        return whole.astype(np.int64)
    own = LinearConstraint(constraints.matrix[:, open_], constraints.lower - missing, constraints.upper - missing)
    found = milp(1.0 - 2.0 * left[open_], integrality=np.ones(len(open_)), bounds=(0, 1), constraints=[own])
    if found.x is None:
        raise NoTable("no rounding to neighbouring whole numbers keeps the sums")
    whole[open_] += np.rint(found.x)
    return whole.astype(np.int64)
