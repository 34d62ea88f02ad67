"""Whole numbers near real ones whose nested sums are given, or have limits.

Sums are nested where each is a sum of sums of the stage below: a total, the totals of its nodes, of classes of cells in each leaf, the
cells. Limits are gathered from the cells up; then each sum is divided among its parts from the top down, as near to what is
aimed at as their limits allow. There is a table if and only if no lower limit is above its upper one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_STEPS = 200
"""Steps of the search for a shift at most; some ten are usual, as the sums are piecewise linear in it."""


@dataclass(frozen=True, eq=False)
class Stage:
    """Sums of one stage.

    Parameters
    ----------
    parent : int64 array, shape (sums,)
        The sum of the stage above that each is a part of; 0 at the top, where there is one.
    aim : float64 array, shape (sums,)
        What each should be near to.
    lower, upper : float64 arrays, shape (sums,)
        Whole numbers, at least 0; inf where there is no upper limit.
    """

    parent: Ints
    aim: Floats
    lower: Floats
    upper: Floats


def nearest(stages: Sequence[Stage]) -> Floats | None:
    """The sums of the last stage; None if there are none within all limits."""
    # `stages`: from the top down.
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
    # `aim`, `lower`, `upper`, shape (parts,): limits are whole numbers. `parent`, shape (parts,): the total that each is a part of.
    # `totals`, shape (sums,): whole numbers, between the sums of the limits. Returns shape (parts,): whole numbers with these
    # totals, within their limits.
    real = np.clip(aim - _shifts(aim, lower, upper, parent, totals)[parent], lower, upper)
    return rounded(real, lower, upper, parent, totals)


def rounded(real: Floats, lower: Floats, upper: Floats, parent: Ints, totals: Floats) -> Floats:
    """Whole numbers near real ones within their limits, by largest remainders; for `share_out`, whose arguments they are.

    The real numbers may miss their totals by more than rounding: shifts are found to a share of the total.
    """
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
