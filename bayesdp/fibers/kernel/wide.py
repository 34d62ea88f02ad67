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

    def f(k: int) -> float:
        return log_ratio(k, family, cells_int, cells_float, rows, groups, windows, cells, steps, count, met, met_steps,
                          rows_met, curvature, slope)  # fmt: skip

    # The mode: the last k at which the step from k - 1 to k does not lose. Bracket it by doubling, then bisect.
    left, right = max(low, -1), min(high, 1)
    width = 1
    while left > low and f(left) > f(left + 1):
        width *= 2
        left = max(low, left - width)
        if width > 2 * UNBOUNDED:
            return IMPROPER
    width = 1
    while right < high and f(right) > f(right - 1):
        width *= 2
        right = min(high, right + width)
        if width > 2 * UNBOUNDED:
            return IMPROPER
    while right - left > 1:
        middle = left + (right - left) // 2
        if f(middle) >= f(middle - 1):
            left = middle
        else:
            right = middle
    mode = right if f(right) >= f(left) else left
    peak = f(mode)
    if not abs(peak) < math.inf:
        return IMPROPER
    ends, falls, heights, masses = scratch[:2], scratch[2:4], scratch[4:6], scratch[6:9]
    for side in range(2):
        sign = 1 if side == 1 else -1
        bound = (high - mode) if side == 1 else (mode - low)
        near, far, step = 0, 0, 1
        while far < bound and peak - f(mode + sign * far) < 1.0:
            near = far
            far = min(bound, far + step)
            step *= 2
            if far >= UNBOUNDED // 2:  # it never fell: `UNBOUNDED` stands for no bound at all
                return IMPROPER
        while far - near > 1:
            middle = near + (far - near) // 2
            if peak - f(mode + sign * middle) < 1.0:
                near = middle
            else:
                far = middle
        ends[side] = far
        heights[side] = f(mode + sign * far) - peak
        # Concavity: beyond `far` every step loses at least as much as the step to it.
        falls[side] = f(mode + sign * (far - 1)) - f(mode + sign * far) if far > 0 else 0.0
        if heights[side] > -1.0:  # the bound came first: no tail
            falls[side] = math.inf
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
        if -exponential(generator) < f(k) - peak - bound_log:
            return int(k)


@inside
def draw_unrestricted(low: int, high: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats,
                  windows: Floats, generator: npt.NDArray[np.uint64], cells: Ints, steps: Ints, count: int, met: Ints,
                  met_steps: Floats, rows_met: int, curvature: float, slope: float, moving: Ints, residuals: Floats,
                  weights: Floats) -> int:  # fmt: skip
    """A law that need not be log-concave: tabulate the whole interval, or take one slice step on it."""

    def f(k: int) -> float:
        return log_ratio(k, family, cells_int, cells_float, rows, groups, windows, cells, steps, count, met, met_steps,
                          rows_met, curvature, slope)  # fmt: skip

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
    for side in range(2):
        sign = 1 if side == 1 else -1
        if (high if side == 1 else -low) < UNBOUNDED // 2:
            continue
        knot = 1.0
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
        far = int(knot) + 1
        while f(sign * far) > level:
            far *= 2
            if far > UNBOUNDED:
                return IMPROPER
        if side == 1:
            high = far
        else:
            low = -far
    while True:
        k = low + below(generator, high - low + 1)
        if f(k) > level:
            return k
        if k < 0:
            low = k + 1
        else:
            high = k - 1
