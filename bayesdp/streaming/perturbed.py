"""A hierarchy whose published numbers are perturbed: its table moves along random lines, or by sets of axes where that is quicker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm

from bayesdp._arrays import Floats, Ints
from bayesdp._numba import seed_state
from bayesdp.distributions.confidential_counts import ConfidentialCounts
from bayesdp.fibers import NoiseTerm, Target
from bayesdp.fibers.chain import LONGEST_START, Chain, price_at
from bayesdp.fibers.kernel.state import FAMILIES
from bayesdp.fibers.windows import without_infinities
from bayesdp.hierarchies.kernel.walls import LONGEST, Walls, charge, sweep
from bayesdp.hierarchies.structure import Structure, structure_of, sum_parts
from bayesdp.inference import observe
from bayesdp.release import Release
from bayesdp.steps.reading import kernel_target, read_model

_OPEN = 2**30
"""Last place of the window of an answer that was not published."""

_SMALLEST = 128
"""Tables with as many cells that may move or fewer have other moves: ways through softer walls, which these lack."""

_MOST_AXES = 4
"""Axes of the cells of a leaf: a move along all of them changes twice two to so many cells."""

CLAIM = (
    "no Markov basis is known for these invariants: differences along sets of axes, in one leaf or between two, are mixed with random "
    "sums of up to 32 of them; which tables these reach, and how fast, is not proved"
)


def has_walls(target: Target, structure: Structure, smallest: int = _SMALLEST) -> bool:
    """Whether these moves are for a hierarchy: windows that end on both sides, one an answer, and one of every cell that may move."""
    # Nothing is exact, and no sum has limits of its own.
    other = target.fiber.invariants.rank or structure.limited or target.family == "binomial"
    if int(structure.free.sum()) <= smallest or other or len(structure.frame.shape) > 1 + _MOST_AXES:
        return False
    seen: set[tuple[int, int]] = set()
    cells = False
    for term in target.terms:
        own = term.windows
        if own is None or term.changing or (term.laws is not None and term.laws.any()):
            return False
        if np.isfinite([own.below, own.above]).any() or own.length.max(initial=0) > LONGEST:
            return False
        for part, (_, answers) in zip(sum_parts([term.query]), term.query.placed_parts, strict=True):
            level, query, rows = structure.where(part)
            if (level, query) in seen:
                return False
            seen.add((level, query))
            if level == 0 and rows.shape[1] == structure.free.shape[1]:
                cells = bool((term.measured[answers][rows] | ~structure.free).all())
    return cells


def walls_of(target: Target, structure: Structure) -> Walls:
    """What the kernel works on, at a table of zeros."""
    leaves, cells = structure.free.shape
    answers, queries = int(structure.query_start[-1]), structure.answer_of.shape[1]
    sizes = np.array([n for i, n in enumerate(structure.frame.shape) if i != structure.axis] or [1], dtype=np.int64)
    rows = np.zeros((structure.nodes, answers, 3), dtype=np.int32)
    rows[..., 1], rows[..., 2] = _OPEN, -1
    low = np.zeros((structure.nodes, answers), dtype=np.int64)
    levels = structure.path.shape[1]
    published = np.zeros((levels, queries), dtype=np.bool_)
    masses, before = [np.zeros(0)], 0
    for term in target.terms:
        assert term.windows is not None
        own, place = term.windows, np.cumsum(term.measured) - 1
        curved = np.array([np.ptp(own.log_mass[a : a + n]) > 0.0 for a, n in zip(own.start, own.length, strict=True)])
        for part, (_, among) in zip(sum_parts([term.query]), term.query.placed_parts, strict=True):
            level, query, where = structure.where(part)
            published[level, query] = True
            at = slice(int(structure.query_start[query]), int(structure.query_start[query + 1]))
            nodes, where = structure.nodes_of(level), where + among.start
            known, which = term.measured[where], place[where]
            rows[nodes, at, 1] = np.where(known, own.length[which] - 1, _OPEN)
            rows[nodes, at, 2] = np.where(known & curved[which], own.start[which] + before, -1)
            low[nodes, at] = np.where(known, own.low[which], 0)
            if level == 0 and where.shape[1] == cells:  # within the limits of cells
                system = target.fiber.system
                least, most = (structure.leaves_by_cells(own) for own in (system.lower, system.upper))
                first = np.maximum(low[nodes, at], least)
                rows[nodes, at, 2] += np.where(rows[nodes, at, 2] >= 0, first - low[nodes, at], 0)
                rows[nodes, at, 1] = np.minimum(low[nodes, at] + rows[nodes, at, 1], most) - first
                low[nodes, at] = first
        masses.append(without_infinities(own.log_mass))
        before += len(own.log_mass)
    rows[..., 0] = -low
    grid = np.indices(tuple(sizes.tolist())).reshape(len(sizes), -1)
    labels = np.zeros((len(sizes), queries), dtype=np.int64)  # how many of an axis a query tells apart
    for axis in range(len(sizes)):
        line = structure.answer_of[(grid == 0).sum(axis=0) + (grid[axis] > 0) >= len(sizes)]
        labels[axis] = [len(np.unique(own)) for own in line.T]
    keeps = labels > 1
    asked = np.zeros((levels, 1 << len(sizes), 1 + queries), dtype=np.int64)
    for level in range(levels):
        for chosen in range(asked.shape[1]):
            own_axes = [axis for axis in range(len(sizes)) if chosen >> axis & 1]
            found = np.flatnonzero(published[level] & keeps[own_axes].all(axis=0))
            asked[level, chosen, 0], asked[level, chosen, 1 : 1 + len(found)] = len(found), found
    room = 2 * levels * queries << len(sizes)
    return Walls(
        counts=np.zeros((leaves, cells), dtype=np.int64),
        free=np.ascontiguousarray(structure.free),
        weight=np.ones((leaves, cells)),
        shape=np.ones((leaves, cells)),
        path=np.ascontiguousarray(structure.path),
        leaves=np.ascontiguousarray(np.stack(structure.node_range, axis=1)),
        sizes=sizes,
        answer_of=np.ascontiguousarray(structure.answer_of),
        recoded=(keeps & (labels < sizes[:, None])).any(axis=0),
        asked=asked,
        rows=rows.reshape(-1, 3),
        answers=answers,
        masses=np.concatenate(masses),
        charges=np.ones(structure.nodes * answers),
        generator=np.ones(4, dtype=np.uint64),
        others=np.zeros((levels, 2), dtype=np.int64),
        cells=np.zeros(1 << len(sizes), dtype=np.int64),
        signs=np.zeros(1 << len(sizes), dtype=np.int64),
        touched=np.zeros(room, dtype=np.int64),
        by=np.zeros(room, dtype=np.int64),
        law=np.zeros((2, 2 * LONGEST + 1)),
    )


class _Perturbed:
    """What `TreeChain` is for normal noise: a table of leaves by cells that moves by sweeps."""

    structure: Structure
    missed: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[Ints, Ints]:
        """Cells that one sum ties together in such a way that they are compared: none."""
        return np.zeros((len(self.structure.order), 1), dtype=np.int64), np.zeros(0, dtype=np.int64)

    def learn(self) -> None:
        """While tuning, after each sweep."""

    def settle(self) -> None:
        """At the end of the tuning."""


class WalledTree(_Perturbed):
    """By moves along sets of axes."""

    def __init__(self, target: Target, structure: Structure, rng: np.random.Generator) -> None:
        self.structure, self.target = structure, target
        self.walls = walls_of(target, structure)
        self.walls.generator[:] = seed_state(rng)
        self._family = FAMILIES[target.family]
        self._zero = self.walls.rows[:, 0].copy()  # places of answers of 0
        guide = structure.leaves_by_cells(np.clip(np.rint(target.guide()), 0, None).astype(np.int64))
        fixed = structure.leaves_by_cells(target.fiber.system.lower)
        self.load(np.where(structure.free, guide, fixed).astype(np.int64))

    @property
    def table(self) -> Ints:
        """The table as it stands, leaves by cells."""
        return self.walls.counts

    def load(self, counts: Ints) -> None:
        """Put a table into the kernel, leaves by cells."""
        structure, walls = self.structure, self.walls
        walls.counts[:] = counts
        for nodes, tables in structure.tables_by_level(walls.counts):
            sums = tables @ structure.sums_of_cells
            at = (nodes[:, None] * walls.answers + np.arange(walls.answers)).reshape(-1)
            walls.rows[at, 0] = self._zero[at] + sums.reshape(-1)

    def set_cells(self, theta: Floats, alpha: Floats) -> None:
        """Set log weights and shapes of the prior in the order of the tree, shape (T, C) or (1, C)."""
        self.walls.weight[:], self.walls.shape[:] = np.exp(theta), alpha

    def begin_apart(self, rng: np.random.Generator) -> None:
        """Begin at a possible table: from the published cells, at a price that rises until no answer is forbidden."""
        walls, tenth = self.walls, max(self.walls.counts.shape[1] // 10, 1)
        for step in range(LONGEST_START):
            price, more = price_at(step)
            sweep(tenth, price, self._family, walls)
            if charge(more, walls) == 0.0:
                break
        walls.charges[:] = 1.0
        if charge(0.0, walls) > 0.0:
            raise ValueError(_NOTHING)

    def sweep(self) -> None:
        """About one move a cell."""
        sweep(self.walls.counts.shape[1], 0.0, self._family, self.walls)

    def saved(self) -> dict[str, npt.NDArray[Any]]:
        """What a chain goes on from."""
        own = self.walls
        return {name: getattr(own, name).copy() for name in ("counts", "generator")}

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Put a chain where it was, at a table that all published numbers can come from."""
        self.load(saved["counts"])
        if int(saved["counts"].sum()) >= _OPEN or charge(0.0, self.walls) > 0.0:
            raise ValueError("counts that the published numbers cannot come from")
        self.walls.generator[:] = saved["generator"]


_PROGRAM = 20_000
"""Cells of a table up to which an integer program finds the first one; larger ones begin at the published cells."""

_LEARN = 4
"""Shares of directions are learnt after one sweep in so many of the tuning."""

_ROUNDED = 1e-6
"""How far sums that moves keep up to date may be from those of the table, relative to the largest: far more than rounding."""

_NOTHING = (
    "no table was found that all published numbers can come from by their laws; bdp.check_law(release) tells of numbers that "
    "contradict one another"
)


def is_perturbed(release: Release) -> bool:
    """Whether it is of counts some of which are perturbed."""
    return release.about == "counts" and any(hasattr(own.law, "transitions") for own in release.measurements)


def perturbed_target(release: Release, family: str, leaves: str | None) -> tuple[Target, Structure]:
    """The posterior of a release's table as `bayesdp.observe` states it, and the tree that its queries ask for."""
    for own in release.measurements:
        if getattr(own.law, "name", "") == "unknown-perturbation":
            raise NotImplementedError(
                f"{own!r}: hierarchies take laws that are known; put the release into a model with bdp.observe and draw with "
                "bdp.sample, which learn it"
            )
    with pm.Model(coords=release.coords) as model:
        x = ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=1.0, alpha=1.0), dims=release.dims)
        observe(release, x)
    reading = read_model(model, model.rvs_to_values[x])
    parameters = [np.asarray(own.eval()) for own in reading.symbolic]  # all are numbers: nothing else is in the model
    target = replace(kernel_target(reading, parameters), family=family)
    # The tree follows from the queries alone; normal noise stands for the laws.
    queries = [(own.query, ~own.unmeasured.reshape(-1)) for own in release.measurements]
    terms = tuple(NoiseTerm(q, np.zeros(q.rows), "gaussian", np.ones(q.rows), keep) for q, keep in queries)
    structure = structure_of(Target(release.fiber, terms, family), leaves)
    fixed = np.asarray(structure.leaves_by_cells(target.fiber.system.fixed), dtype=np.bool_)
    structure = replace(structure, free=structure.free & ~fixed, proved=False)
    return target, replace(structure, claim=CLAIM if has_walls(target, structure) else target.moves.claim)


class LineTree(_Perturbed):
    """By random lines, as tables in general move."""

    def __init__(self, target: Target, structure: Structure, rng: np.random.Generator) -> None:
        self.structure = structure
        self.lines = Chain(target, rng, max(int(structure.free.sum()), 1))
        system = target.fiber.system
        self.lines.load(np.clip(np.rint(target.guide()).astype(np.int64), system.lower, system.upper))
        self._swept = 0

    @property
    def table(self) -> Ints:
        """The table as it stands, leaves by cells."""
        return np.asarray(self.structure.leaves_by_cells(self.lines.counts), dtype=np.int64)

    def set_cells(self, theta: Floats, alpha: Floats) -> None:
        """Set log weights and shapes of the prior in the order of the tree, shape (T, C) or (1, C)."""
        shape = self.structure.free.shape
        weights, shapes = (
            self.structure.in_frame(np.broadcast_to(own, shape)).astype(np.float64) for own in (theta, alpha)
        )
        self.lines.set_prior(weights, shapes)

    def begin_apart(self, rng: np.random.Generator) -> None:
        """Begin at a possible table far from those of other chains; the prior is set, and the table that of the published cells."""
        fiber, guide = self.lines.target.fiber, self.lines.target.guide()
        small = fiber.frame.size <= _PROGRAM
        if small or fiber.invariants.rank:
            self.lines.load(fiber.find_point(guide.reshape(fiber.frame.shape), self.lines.target.gaps).reshape(-1))
        if not self.lines.disperse() and not small:
            raise ValueError(_NOTHING)

    def sweep(self) -> None:
        """Move each free cell about once."""
        self.lines.move(1)

    def settle(self) -> None:
        """Shares of directions by what was learnt."""
        self.lines.settle()

    def learn(self) -> None:
        """How far steps along directions go, now and then."""
        self._swept += 1
        if self._swept % _LEARN == 0:
            self.lines.learn()

    def saved(self) -> dict[str, npt.NDArray[Any]]:
        """What a chain goes on from."""
        found = {name: getattr(self.lines, name).copy() for name in ("counts", "generator", "memory")}
        return found | {"swept": np.array(self._swept)}

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Put a chain where it was, with sums that are those of its table but for rounding."""
        lines, memory = self.lines, saved["memory"]
        lines.load(saved["counts"])
        sums = lines.memory[: len(lines.state.rows) + len(lines.state.groups)]
        room = _ROUNDED * max(1.0, float(np.abs(sums).max(initial=0.0)))
        if not np.allclose(memory[: len(sums)], sums, rtol=_ROUNDED, atol=room):
            raise ValueError("sums that are not those of its table")
        lines.generator[:] = saved["generator"]
        lines.remember(memory, same=True)
        self._swept = int(saved["swept"])
