"""A table to start a chain from: the linear estimate, made nonnegative and whole, with all that is exact.

The whole numbers are near real ones and have nested sums that are given, or have limits. Sums are nested where each is a sum of
sums of the stage below: a total, the totals of its nodes, of classes of cells in each leaf, the cells. Limits are gathered from the
cells up; then each sum is divided among its parts from the top down, as near to what is aimed at as their limits allow. There is
a table if and only if no lower limit is above its upper one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints
from bayesdp._validate import Seed, generator_of, nonnegative_real
from bayesdp.fibers import Target
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.hierarchies.modes import tying_query
from bayesdp.hierarchies.released import Sums, axes_of, level_data
from bayesdp.hierarchies.structure import Structure, refines
from bayesdp.hierarchies.two_pass import Unidentified, tree_estimate
from bayesdp.queries import SumPart

_STEPS = 200
"""Steps of the search for a shift at most; some ten are usual, as the sums are piecewise linear in it."""


class Stage(NamedTuple):
    """Sums of one stage."""

    parent: Ints  # the sum of the stage above that each is a part of; 0 at the top, where there is one, shape (sums,)
    aim: Floats  # what each should be near to, shape (sums,)
    lower: Floats  # whole numbers, at least 0, shape (sums,)
    upper: Floats  # inf where there is no upper limit


def nearest(stages: Sequence[Stage]) -> Floats | None:
    """The sums of the last stage, of stages from the top down; None if there are none within all limits."""
    limits = [(stages[-1].lower, stages[-1].upper)]
    for stage, below in zip(reversed(stages[:-1]), reversed(stages[1:]), strict=True):
        low, high = (np.bincount(below.parent, weights=own, minlength=len(stage.aim)) for own in limits[-1])
        limits.append((np.maximum(low, stage.lower), np.minimum(high, stage.upper)))
    if any(np.any(low > high) for low, high in limits):
        return None
    (low, high), top = limits[-1], stages[0]
    values = np.rint(np.clip(top.aim, low, high))
    for stage, (low, high) in zip(stages[1:], reversed(limits[:-1]), strict=True):
        values = share_out(stage.aim, low, high, stage.parent, values)
    return values


def share_out(aim: Floats, lower: Floats, upper: Floats, parent: Ints, totals: Floats) -> Floats:
    """Divide totals among their parts: the nearest real numbers in the sense of least squares, rounded by largest remainders."""
    # `parent`: the total that each part is of. Limits and totals are whole numbers, these between the sums of those.
    real = np.clip(aim - _shifts(aim, lower, upper, parent, totals)[parent], lower, upper)
    return rounded(real, lower, upper, parent, totals)


def rounded(real: Floats, lower: Floats, upper: Floats, parent: Ints, totals: Floats) -> Floats:
    """Whole numbers near real ones within their limits, by largest remainders; for `share_out`, whose arguments they are."""
    # The real numbers may miss their totals by more than rounding: shifts are found to a share of the total.
    whole = np.clip(np.floor(real + 1e-9), lower, upper)
    while True:
        missing = totals - np.bincount(parent, weights=whole, minlength=len(totals))
        if not missing.any():
            return whole
        # Each part with room takes an equal share of what is missing, and those that lose most by rounding one more.
        gap, up = real - whole, missing[parent] > 0.0
        room = np.where(up, upper - whole, whole - lower)
        parts = np.flatnonzero((room > 0.0) & (missing[parent] != 0.0))
        own = parent[parts]
        order = np.lexsort((np.where(up, -gap, gap)[parts], own))
        parts, own = parts[order], own[order]
        sizes = np.bincount(own, minlength=len(totals))
        rank = np.arange(len(own)) - (np.cumsum(sizes) - sizes)[own]
        each, rest = np.divmod(np.abs(missing)[own], sizes[own])
        change = np.minimum(each + (rank < rest), room[parts])
        whole[parts] += np.where(up[parts], change, -change)


def _shifts(aim: Floats, lower: Floats, upper: Floats, parent: Ints, totals: Floats) -> Floats:
    """For each total the number that, taken from the aim of its parts and cut to their limits, makes them add up to it."""
    sums = len(totals)

    def added(values: Floats | npt.NDArray[np.bool_]) -> Floats:
        return np.bincount(parent, weights=values, minlength=sums)

    # All parts are at their upper limits left of `left`, and the sum is at least the total; at their lower ones right of `right`.
    left, right = np.full(sums, np.inf), np.full(sums, -np.inf)
    np.minimum.at(left, parent, np.where(np.isinf(upper), aim - totals[parent] - 1.0, aim - upper))
    np.maximum.at(right, parent, aim - lower)
    shift = np.clip((added(aim) - totals) / np.maximum(added(np.ones(len(aim))), 1.0), left, right)
    for _ in range(_STEPS):
        real = np.clip(aim - shift[parent], lower, upper)
        excess = added(real) - totals
        wrong = np.abs(excess) > 1e-9 * np.maximum(totals, 1.0)
        if not wrong.any():
            break
        left, right = np.where(excess > 0.0, shift, left), np.where(excess < 0.0, shift, right)
        slope = added((real > lower) & (real < upper))
        step = shift + np.divide(excess, slope, out=np.full(sums, np.inf), where=slope > 0.0)
        inside = (step > left) & (step < right)
        shift = np.where(wrong, np.where(inside, step, 0.5 * (left + right)), shift)
    return shift


type Limits = tuple[int, Ints, Floats, Floats]
"""Sums with limits: their level, the class of each cell, and the lower and upper limits, shape (nodes of the level, classes)."""


def start_table(
    target: Target, structure: Structure, rng: Seed, scatter: float = 1.0, *, opposite: bool = False
) -> Ints:
    """A table near the linear estimate that has all exact answers, zeros and limits: shape (T, C), in the order of the tree."""
    # `scatter` times noise of the same law is added to the answers before, with the other sign where it is `opposite`. Sums and
    # limits that do not nest are met by `Fiber.find_point`, which takes long.
    generator, size = generator_of(rng), nonnegative_real(scatter, "scatter") * (-1.0 if opposite else 1.0)
    noisy: list[Sums] = []
    for term in target.terms:
        sd = np.broadcast_to(np.asarray(term.scale, dtype=np.float64), term.measured.shape)
        answers = np.where(term.measured, term.values, 0.0) + size * sd * generator.standard_normal(len(sd))
        noisy += Sums.of(term.query, answers, np.where(term.measured, 1.0 / np.square(sd), 0.0))
    # Exact sums; what only says what a single cell is, is in the limits of the cells.
    known = [
        Sums(part, values.reshape(-1)[rows].astype(np.float64))
        for query, values in target.fiber.equalities
        for part, rows in query.placed_parts
        if isinstance(part, SumPart)
    ]
    tables = _estimates(structure, [*noisy, *known], generator, size)
    limits = _limits(structure, known)
    if limits is not None:
        found = nearest(_stages(target, structure, tables, limits, _ties(structure, noisy)))
        if found is not None:
            return found.astype(np.int64).reshape(tables[0].shape)
    point = target.fiber.find_point(structure.in_frame(np.maximum(tables[0], 0.0)))
    return np.asarray(structure.leaves_by_cells(point), dtype=np.int64)


def _estimates(structure: Structure, sums: list[Sums], rng: np.random.Generator, scatter: float) -> list[Floats]:
    """Estimates of the cells of the nodes of each level."""
    # A mean precision is near enough to start from. Where cells do not follow from what is published, an answer that weighs little
    # draws them towards equal shares, with random errors of the size of a count.
    axes, levels = axes_of(structure, sums), level_data(structure, sums, product=True)
    try:
        found = tree_estimate(axes, levels)
    except Unidentified:
        leaves = levels[0]
        every = tuple(np.arange(axis.cells) for axis in axes)
        weights = [precision for level in levels for _, precision, _ in level.queries if precision.any()]
        weak = 1e-4 * min((float(own[own > 0.0].min()) for own in weights), default=1.0)
        totals = [(own.values if own.precision is None else own.values[own.precision > 0.0]).sum() for own in sums]
        typical = 1.0 + max(0.0, *totals) / structure.free.size
        shares = scatter * typical * rng.standard_normal((leaves.nodes, *(axis.cells for axis in axes)))
        pseudo = (every, np.full(leaves.nodes, weak), shares)
        found = tree_estimate(axes, [replace(leaves, queries=[*leaves.queries, pseudo]), *levels[1:]])
    return [own.cells for own in found]


def _ties(structure: Structure, sums: list[Sums]) -> Ints:
    """The class of each cell by the precise sums of a leaf that tie cells together."""
    queries = len(structure.query_start) - 1
    precision = np.zeros(queries)
    for own in sums:
        if own.precision is not None and structure.level_of(own.part) == 0:
            precision[structure.where(own.part)[1]] += own.precision.mean()
    tying = tying_query(structure, precision) if queries else None
    return np.zeros(len(structure.answer_of), dtype=np.int64) if tying is None else structure.answer_of[:, tying]


def _limits(structure: Structure, known: list[Sums]) -> list[Limits] | None:
    """Exact sums and limits from the top down, each finer than those before; None if they do not nest."""
    # Limits that follow from those of the nodes below are left out.
    found: list[Limits] = []
    for own in known:
        values = own.values[structure.answers(own.part)]
        found.append((structure.level_of(own.part), structure.cell_codes(own.part), values, values))
    lower = np.maximum(structure.sum_lower, 0).astype(np.float64)
    upper = np.where(structure.sum_upper >= UNBOUNDED, np.inf, structure.sum_upper)
    for level in range(len(structure.levels)):
        nodes = structure.nodes_of(level)
        low, high = lower[nodes], upper[nodes]
        implied_low, implied_high = np.zeros_like(low), np.full_like(high, np.inf)
        if level:
            parent, below = structure.parents(level - 1), structure.nodes_of(level - 1)
            implied_high[:] = 0.0
            np.add.at(implied_low, parent, lower[below])
            np.add.at(implied_high, parent, upper[below])
            lower[nodes], upper[nodes] = np.maximum(low, implied_low), np.minimum(high, implied_high)
        if np.any(low > implied_low) or np.any(high < implied_high):
            found.append((level, structure.sum_class, low, high))
    found.sort(key=lambda limits: (-limits[0], int(limits[1].max())))
    nested = all(refines(fine, coarse) for (_, coarse, _, _), (_, fine, _, _) in itertools.pairwise(found))
    return found if nested else None


def _stages(
    target: Target, structure: Structure, tables: list[Floats], limits: list[Limits], ties: Ints
) -> list[Stage]:
    """All nodes with the classes that limits need there, the cells that precise answers tie in each leaf, and the cells."""
    cells = structure.cells
    cuts: list[tuple[int, Ints, Floats | float, Floats | float]] = []
    finest = np.zeros(cells, dtype=np.int64)
    for level in reversed(range(len(structure.levels))):
        cuts.append((level, finest, 0.0, np.inf))
        cuts += [own for own in limits if own[0] == level]
        finest = cuts[-1][1]
    tied = np.unique(np.stack([finest, ties]), axis=1, return_inverse=True)[1].reshape(-1)
    system = target.fiber.system
    low = np.asarray(structure.leaves_by_cells(system.lower), dtype=np.float64)
    high = np.asarray(structure.leaves_by_cells(np.where(system.upper >= UNBOUNDED, np.inf, system.upper)))
    cuts += [(0, tied, 0.0, np.inf), (0, np.arange(cells), low, high)]

    stages: list[Stage] = []
    above, before = cuts[0][:2]
    for level, classes, lower, upper in cuts:
        member = sp.csr_array((np.ones(cells), (np.arange(cells), classes)))
        aim = tables[level] @ member
        coarse = before[np.unique(classes, return_index=True)[1]]  # the class above of each class
        node_above = np.arange(len(aim))
        for step in range(level, above):
            node_above = structure.parents(step)[node_above]
        parent = node_above[:, None] * (int(before.max()) + 1) + coarse
        flat = (np.broadcast_to(own, aim.shape).reshape(-1) for own in (np.maximum(lower, 0.0), upper))
        stages.append(Stage(parent.reshape(-1), aim.reshape(-1), *flat))
        above, before = level, classes
    return stages
