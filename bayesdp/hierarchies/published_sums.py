"""What a release says about the nodes of a tree, level by level: noisy sums, exact sums and limits, cells that are 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.structure import best_axis, sum_parts
from bayesdp.hierarchies.tree import NoStructure, Tree, cell_codes, tree_of
from bayesdp.queries import SumPart
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Noisy sums of the cells of each node of a level.

    Parameters
    ----------
    codes : int64 array, shape (C,)
        The sum in which each cell counts.
    values, weights : float64 arrays, shape (nodes, sums)
        Answers and their precisions; 0 where nothing was published.
    """

    codes: Ints
    values: Floats
    weights: Floats


@dataclass(frozen=True, eq=False)
class Limits:
    """Exact sums, or limits of sums, of the cells of each node of a level; `lower`, `upper` have shape (nodes, sums)."""

    codes: Ints
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False)
class PublishedSums:
    """What is published of each level, from the leaves up.

    Parameters
    ----------
    tree : Tree
    noisy : tuple of tuples of NoisySums
        Enough to fix every cell of a node: where the answers of a level do not, those of the levels below, added up, are here too.
    exact : tuple of tuples of Limits
        What follows for a node from its children is here too.
    free : tuple of bool arrays, shape (nodes of the level, C)
        Cells that may be above 0.
    top : int
        The highest level of which something is published.
    """

    tree: Tree
    noisy: tuple[tuple[NoisySums, ...], ...]
    exact: tuple[tuple[Limits, ...], ...]
    free: tuple[Mask, ...]
    top: int

    @property
    def cells(self) -> int:
        """Number of cells of a leaf."""
        return int(self.free[0].shape[1])

    def name(self, level: int, node: int) -> str:
        """What a node is called: its own label, that of its group, or the first of its leaves."""
        tree = self.tree
        dim = tree.frame.dims[tree.axis]
        leaf = int(tree.order[tree.node_range[0][tree.nodes_of(level)[node]]])
        group = tree.levels[level]
        labels = tree.frame.labels_of(dim) if group in (dim, "all") else tree.frame.group(group)[1]
        return "" if group == "all" else str(labels[leaf])


def published_sums(release: Release, leaves: str | None = None) -> PublishedSums:
    """Sort what is published by the levels of a tree; see `baseline.topdown_like`."""
    noisy = [sum_parts([own.query]) for own in release.measurements]
    stated, zero = _exact_parts(release)
    parts = [*(part for own in noisy for part in own), *(part for part, _, _ in stated)]
    axis, levels = best_axis(release.frame, parts, leaves)
    tree = tree_of(release.frame, axis, levels)
    depth = len(tree.levels)

    answers: list[list[NoisySums]] = [[] for _ in range(depth)]
    for measured, own in zip(release.measurements, noisy, strict=True):
        law = measured.law
        if law.keeps_invariants or not law.additive:
            raise NoStructure(f"topdown_like needs independent noise that is added, and {law.name!r} is none")
        variance = law.variance(measured.query.shape)
        if variance is None:
            raise NoStructure(f"topdown_like needs the variance of the noise, and that of {law.name!r} is not known")
        spread = np.broadcast_to(np.asarray(variance, dtype=np.float64), measured.query.shape).reshape(-1)
        missing = measured.unmeasured.reshape(-1)
        values = np.where(missing, 0.0, np.asarray(measured.values, dtype=np.float64).reshape(-1))
        weights = np.where(missing, 0.0, 1.0 / spread)
        for part, (_, rows) in zip(own, measured.query.placed_parts, strict=True):
            codes, place = _sums_of(tree, part)
            answers[tree.level_of(part)].append(NoisySums(codes, values[rows][place], weights[rows][place]))

    limits: list[list[Limits]] = [[] for _ in range(depth)]
    for part, sign, bounds in stated:
        codes, place = _sums_of(tree, part)
        value = bounds[place].astype(np.float64)
        lower = value if sign in ("=", ">=") else np.full(value.shape, -np.inf)
        upper = value if sign in ("=", "<=") else np.full(value.shape, np.inf)
        limits[tree.level_of(part)].append(Limits(codes, lower, upper))
    used = [level for level in range(depth) if answers[level] or limits[level]]
    free: list[Mask] = [np.asarray(tree.leaves_by_cells(~zero), dtype=np.bool_)]
    for level in range(depth - 1):
        parents = tree.parents(level)
        free.append(_added(free[level].astype(np.float64), parents) > 0)
        limits[level + 1] += [
            Limits(own.codes, _added(own.lower, parents), _added(own.upper, parents)) for own in limits[level]
        ]
    complete = [_enough(tree, answers, level, free) for level in range(depth)]
    return PublishedSums(tree, tuple(complete), tuple(map(tuple, limits)), tuple(free), max(used))


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


def _sums_of(tree: Tree, part: SumPart) -> tuple[Ints, Ints]:
    """The sum in which each cell counts, shape (C,), and the answer of each node and sum, shape (nodes, sums)."""
    rows = tree.rows(part)
    codes = cell_codes(rows[0])
    return codes, rows[:, np.unique(codes, return_index=True)[1]]


def _added(values: Floats, parents: Ints) -> Floats:
    """Sums of the children of each node."""
    first = np.flatnonzero(np.r_[True, np.diff(parents) != 0])
    return np.asarray(np.add.reduceat(values, first, axis=0))


def _enough(tree: Tree, answers: list[list[NoisySums]], level: int, free: list[Mask]) -> tuple[NoisySums, ...]:
    """The answers of a level, and as many levels below, added up, as it takes to fix every cell."""
    found: list[NoisySums] = []
    for below in range(level, -1, -1):
        for own in answers[below]:
            values, weights = own.values, own.weights
            for step in range(below, level):
                parents = tree.parents(step)
                known = weights > 0
                variance = _added(np.where(known, 1.0 / np.where(known, weights, 1.0), np.inf), parents)
                values, weights = _added(values, parents), 1.0 / variance
            found.append(NoisySums(own.codes, values, weights))
        if _fixed(found, free[level]):
            return tuple(found)
    raise ValueError(
        f"topdown_like needs answers at every leaf that fix every cell: a query of all cells, or several that do together; those of "
        f"{tree.levels[0]!r} do not"
    )


def _fixed(answers: list[NoisySums], free: Mask) -> bool:
    """Whether answers that every node has fix every cell that may be above 0 somewhere."""
    cells = np.flatnonzero(free.any(axis=0))
    whole = [own.codes[cells] for own in answers if np.all(own.weights > 0)]
    if any(len(np.unique(codes)) == len(cells) for codes in whole):
        return True
    if not whole:
        return False
    rows = np.concatenate([np.equal.outer(np.unique(codes), codes) for codes in whole]).astype(np.float64)
    return bool(np.linalg.matrix_rank(rows) == len(cells))
