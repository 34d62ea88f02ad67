"""Draws along a direction where a table of weights would be too long, or would miss a mode."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._jit import inside
from bayesdp._random import below, by_log_weight, exponential, uniform
from bayesdp.fibers.kernel.ratios import advance, log_ratio, rewind, window_change
from bayesdp.fibers.kernel.state import (
    EXP_THETA,
    LINEAR,
    LOCATION,
    NEGBIN,
    NOISY,
    ONE,
    PRECISION,
    RATE,
    SHAPE,
    UNBOUNDED,
    VALUE,
    WINDOW_LENGTH,
    WINDOW_LOW,
    WINDOW_WEIGHT,
    X,
)

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

IMPROPER = -(2**62)
"""Returned in place of a step when the law along a direction has no finite mass (flat prior, no noise, no bound)."""

_SCANNED = 1024
"""Laws that are not log-concave: longer intervals take a slice step instead of being tabulated."""


@inside
def draw_wide(low: int, high: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats,
          windows: Floats, generator: npt.NDArray[np.uint64], cells: Ints, steps: Ints, count: int, met: Ints, met_steps: Floats,
          rows_met: int, curvature: float, slope: float, scratch: Floats) -> int:  # fmt: skip
    """Rejection for a wide log-concave law: flat between two points one unit below the mode, geometric beyond."""
    # Four searches, away from where the last one ended, for the last place up to which something holds: every step downwards gains,
    # then upwards, which is the mode; then both ends of the flat part, up to which less than one unit is lost. By doubling, then
    # bisection. In one loop: what it calls is compiled for each place that calls it, which was half of the time of a first fit.
    ends, falls, heights, masses = scratch[:2], scratch[2:4], scratch[4:6], scratch[6:9]
    mode, peak = 0, 0.0
    for search in range(4):
        for_mode, side = search < 2, search % 2
        sign = 2 * side - 1
        bound = (high - mode) if side == 1 else (mode - low)
        near, far, step = 0, 0, 1  # `far`: where it is known not to hold; 0: nowhere yet
        while near < bound and far - near != 1:
            place = near + (far - near) // 2 if far > 0 else min(bound, near + step)
            step *= 2
            # It never falls: `UNBOUNDED` stands for no bound at all.
            if not for_mode and (place >= UNBOUNDED // 2 or not abs(peak) < math.inf):
                return IMPROPER
            before, after = 0.0, 0.0
            for k in range(place - 1, place + 1):
                before = after
                after = log_ratio(mode + sign * k, family, cells_int, cells_float, rows, groups, windows, cells, steps, count, met,
                                  met_steps, rows_met, curvature, slope)  # fmt: skip
            if after > before if for_mode else peak - after < 1.0:
                near = place
                heights[side] = after
            else:
                # Concavity: beyond `far` every step loses at least as much as the step to it.
                far = place
                falls[side] = before - after
                ends[side] = after
        if for_mode:
            if near > 0:
                mode, peak = mode + sign * near, heights[side]
        elif far > 0:
            heights[side], ends[side] = ends[side] - peak, far
        else:  # the bound came first: no tail
            falls[side], ends[side] = math.inf, bound
    masses[0] = ends[0] + ends[1] + 1.0
    for side in range(2):
        masses[1 + side] = 0.0
        if falls[side] < math.inf:
            masses[1 + side] = math.exp(heights[side]) * math.exp(-falls[side]) / -math.expm1(-falls[side])
    while True:
        u = uniform(generator) * (masses[0] + masses[1] + masses[2])
        if u < masses[0]:
            k = mode - int(ends[0]) + below(generator, int(masses[0]))
            bound_log = 0.0
        else:
            side = 0 if u < masses[0] + masses[1] else 1
            distance = exponential(generator) / falls[side]
            if distance > UNBOUNDED:
                continue
            beyond = 1 + math.floor(distance)
            far = int(ends[side]) + beyond
            k = mode + far if side == 1 else mode - far
            bound_log = heights[side] - falls[side] * beyond
            if k < low or k > high:
                continue
        height = log_ratio(k, family, cells_int, cells_float, rows, groups, windows, cells, steps, count, met, met_steps, rows_met,
                           curvature, slope)  # fmt: skip
        if -exponential(generator) < height - peak - bound_log:
            return int(k)


@inside
def draw_unrestricted(low: int, high: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats,
                  windows: Floats, generator: npt.NDArray[np.uint64], cells: Ints, steps: Ints, count: int, met: Ints,
                  met_steps: Floats, rows_met: int, curvature: float, slope: float, moving: Ints, residuals: Floats,
                  weights: Floats) -> int:  # fmt: skip
    """A law that need not be log-concave: tabulate the whole interval, or take one slice step on it."""
    span = high - low + 1
    if span <= _SCANNED:
        # To the low end in one jump, then upwards by ratios, in log space: valleys between modes may be deep.
        rewind(cells_int, rows, cells, count, met, rows_met, moving, residuals)
        for i in range(count):
            moving[i] += low * steps[i]
        for i in range(rows_met):
            residuals[i] -= low * met_steps[i]
        height, largest = 0.0, 0.0
        weights[0] = 0.0
        for i in range(1, span):
            k = low + i - 1
            ratio = advance(ONE, k, family, cells_float, rows, groups, cells, steps, count, met, met_steps, rows_met,
                             moving, residuals)  # fmt: skip
            height += math.log(ratio) + slope - curvature * (k + 0.5)
            height += window_change(ONE, rows, windows, met, met_steps, rows_met, residuals)
            weights[i] = height
            largest = max(largest, height)
        at = by_log_weight(generator, weights, span, largest)
        return low + at if at >= 0 else 0
    level = -exponential(generator)
    # A side without a bound, where all cells grow: priors with shape below 1 decrease, others do beyond their mode, and
    # noise does beyond its last knot. So the first point below the level that is past all of these ends the slice.
    knot = 1.0
    if max(high, -low) >= UNBOUNDED // 2:
        for i in range(count):
            if cells_float[cells[i], RATE] > 0.0 or cells_float[cells[i], PRECISION] > 0.0:
                centre = cells_float[cells[i], LOCATION]
                if cells_float[cells[i], PRECISION] > 0.0:
                    centre = max(abs(centre), abs(cells_float[cells[i], LINEAR] / cells_float[cells[i], PRECISION]))
                knot = max(knot, abs(centre - cells_int[cells[i], X]))
            weight, shape = cells_float[cells[i], EXP_THETA], cells_float[cells[i], SHAPE]
            if family == NEGBIN and shape > 1.0 and weight < 1.0:
                knot = max(knot, (shape * weight - 1.0) / (1.0 - weight) - cells_int[cells[i], X])
        for i in range(rows_met):
            knot = max(knot, abs((rows[met[i], NOISY] - rows[met[i], VALUE]) / met_steps[i]))
            if rows[met[i], WINDOW_WEIGHT] > 0.0:
                last = rows[met[i], WINDOW_LOW] + rows[met[i], WINDOW_LENGTH]
                knot = max(knot, abs((rows[met[i], WINDOW_LOW] - rows[met[i], VALUE]) / met_steps[i]))
                knot = max(knot, abs((last - rows[met[i], VALUE]) / met_steps[i]))
    # Both ends, then draws, in one loop: what it calls is compiled for each place that calls it.
    side, far = 0, int(knot) + 1
    while True:
        if side == 2:
            k = low + below(generator, high - low + 1)
        else:
            k = far if side == 1 else -far
            if (high if side == 1 else -low) < UNBOUNDED // 2:
                side += 1
                continue
        height = log_ratio(k, family, cells_int, cells_float, rows, groups, windows, cells, steps, count, met, met_steps, rows_met,
                           curvature, slope)  # fmt: skip
        if side == 2:
            if height > level:
                return k
            if k < 0:
                low = k + 1
            else:
                high = k - 1
        elif height > level:
            far *= 2
            if far > UNBOUNDED:
                return IMPROPER
        else:
            if side == 1:
                high = far
            else:
                low = -far
            side, far = side + 1, int(knot) + 1
