"""The density of a table along one direction: its ratios, tables of its weights, and draws where these would be too long."""

from __future__ import annotations

import math

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._numba import below, by_log_weight, compiled, exponential, inlined, inside, uniform
from bayesdp.fibers.kernel.state import (
    ACROSS,
    ALONG,
    BINOMIAL,
    EXP_MINUS_RATE,
    EXP_RATE,
    EXP_THETA,
    FLAT,
    GROUP_RATE,
    LINEAR,
    LOCATION,
    NEGBIN,
    NOISY,
    ONE,
    POISSON,
    PRECISION,
    RATE,
    ROW_RATE,
    SHAPE,
    SQUARED,
    THETA,
    UNBOUNDED,
    VALUE,
    WINDOW,
    WINDOW_ABOVE,
    WINDOW_BELOW,
    WINDOW_LENGTH,
    WINDOW_LOW,
    WINDOW_START,
    WINDOW_WEIGHT,
    X,
)

NEGLIGIBLE = 1e-17
"""Steps whose weight is below this share of the total are left out; a double cannot tell."""

SHORT = 1e-4
"""The same for a first, short table."""

REFLECT = 768
"""Of 1024 moves along short lines, how many reflect. Means mix fastest at 1024, squares at 0; here both do well."""

_FIRST = WINDOW // 5
"""Room for a first table. Ratios decrease, so that one which gets from 1 to 1e-4 of the total within this gets to 1e-17
within the window (17 / 4 as far): whether tables are used is known before the draw, and cannot depend on it."""

_LARGE = 1e200

IMPROPER = -(2**62)
"""Returned in place of a step when the law along a direction has no finite mass (flat prior, no noise, no bound)."""

_SCANNED = 1024
"""Laws that are not log-concave: longer intervals take a slice step instead of being tabulated."""


@compiled
def log_gamma_difference(a: float, k: float) -> float:
    """``lgamma(a + k) - lgamma(a)`` without the cancellation of two large numbers."""
    b = a + k
    if abs(k) <= 8.0:
        total = 0.0
        if k >= 0:
            for i in range(int(k)):
                total += math.log(a + i)
        else:
            for i in range(int(-k)):
                total -= math.log(b + i)
        return total
    if a < 20.0 or b < 20.0:
        return math.lgamma(b) - math.lgamma(a)
    # Stirling's series for both; the leading terms are combined before they are rounded.
    series = (1.0 / b - 1.0 / a) / 12.0 - (1.0 / (b * b * b) - 1.0 / (a * a * a)) / 360.0
    series += (1.0 / b**5 - 1.0 / a**5) / 1260.0
    return (a - 0.5) * math.log1p(k / a) + k * (math.log(b) - 1.0) + series


@inside
def _cell_log_ratio(family: int, theta: float, shape: float, x: int, step: int) -> float:
    """Log prior ratio of one cell going from x to x + step."""
    total = theta * step
    # In a loop: one call is compiled in place of three.
    for part in range(0 if family == FLAT else 1 if family == POISSON else 2):
        start, jump, sign = x + 1.0, float(step), -1.0
        if part == 1 and family == NEGBIN:
            start, sign = x + shape, 1.0
        elif part == 1:
            start, jump = shape - x + 1.0, float(-step)
        total += sign * log_gamma_difference(start, jump)
    return total


@compiled
def windowed(rows: Floats, windows: Floats, j: int, value: float) -> float:
    """The tabulated log-mass of row j at a value, without its weight; linear beyond its window."""
    start, at, last = int(rows[j, WINDOW_START]), value - rows[j, WINDOW_LOW], rows[j, WINDOW_LENGTH] - 1.0
    if at < 0.0:
        return float(windows[start] - rows[j, WINDOW_BELOW] * at)
    if at > last:
        return float(windows[start + int(last)] + rows[j, WINDOW_ABOVE] * (at - last))
    return float(windows[start + int(at)])


@inlined
def window_change(sign: int, rows: Floats, windows: Floats, met: Ints, met_steps: Floats, rows_met: int,
                   residuals: Floats) -> float:  # fmt: skip
    """What the tabulated log-masses change by in one step of that sign; moves their residuals along."""
    total = 0.0
    for i in range(rows_met):
        j = met[i]
        if rows[j, WINDOW_WEIGHT] > 0.0:
            after = residuals[i] - sign * met_steps[i]
            there = windowed(rows, windows, j, rows[j, NOISY] - after)
            total += rows[j, WINDOW_WEIGHT] * (there - windowed(rows, windows, j, rows[j, NOISY] - residuals[i]))
            residuals[i] = after
    return total


@inside
def log_ratio(k: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats, windows: Floats,
               cells: Ints, steps: Ints, count: int, met: Ints, met_steps: Floats, rows_met: int,
               curvature: float, slope: float) -> float:  # fmt: skip
    """L(k) - L(0)."""
    if k == 0:
        return 0.0
    total = slope * k - 0.5 * curvature * k * k
    for i in range(count):
        c = cells[i]
        x, jump = cells_int[c, X], steps[i] * k
        total += _cell_log_ratio(family, cells_float[c, THETA], cells_float[c, SHAPE], x, jump)
        if cells_float[c, RATE] > 0.0:
            residual = cells_float[c, LOCATION] - x
            total -= cells_float[c, RATE] * (abs(residual - jump) - abs(residual))
    for i in range(rows_met):
        j = met[i]
        if rows[j, ROW_RATE] > 0.0:
            residual = rows[j, NOISY] - rows[j, VALUE]
            total -= rows[j, ROW_RATE] * (abs(residual - met_steps[i] * k) - abs(residual))
        if rows[j, WINDOW_WEIGHT] > 0.0:
            there = windowed(rows, windows, j, rows[j, VALUE] + met_steps[i] * k)
            total += rows[j, WINDOW_WEIGHT] * (there - windowed(rows, windows, j, rows[j, VALUE]))
    for g in range(len(groups)):
        squared = groups[g, SQUARED]
        moved = squared - 2.0 * k * groups[g, ALONG] + groups[g, ACROSS] * k * k
        total -= groups[g, GROUP_RATE] * (math.sqrt(max(moved, 0.0)) - math.sqrt(squared))
    return total


@inlined
def rewind(
    cells_int: Ints, rows: Floats, cells: Ints, count: int, met: Ints, rows_met: int, moving: Ints, residuals: Floats
) -> None:
    """Put the moving counts and residuals back to k = 0."""
    for i in range(count):
        moving[i] = cells_int[cells[i], X]
    for i in range(rows_met):
        residuals[i] = rows[met[i], NOISY] - rows[met[i], VALUE]


@inlined
def advance(sign: int, k: int, family: int, cells_float: Floats, rows: Floats, groups: Floats, cells: Ints, steps: Ints,
             count: int, met: Ints, met_steps: Floats, rows_met: int, moving: Ints, residuals: Floats) -> float:  # fmt: skip
    """Go from step k to k + 1 (times `sign`): the ratio of the weights, without the Gaussian part and the tabulated one."""
    above, under = 1.0, 1.0
    for i in range(count):
        c = cells[i]
        jump = sign * steps[i]
        x = moving[i]
        if family != FLAT:
            # One unit at a time; the ratio is kept as a fraction and divided out now and then against overflow.
            theta = cells_float[c, EXP_THETA]
            for _ in range(abs(jump)):
                if jump > 0:
                    above *= theta
                    under *= x + 1.0
                    if family == NEGBIN:
                        above *= x + cells_float[c, SHAPE]
                    elif family == BINOMIAL:
                        above *= cells_float[c, SHAPE] - x
                    x += 1
                else:
                    above *= x
                    under *= theta
                    x -= 1
                    if family == NEGBIN:
                        under *= x + cells_float[c, SHAPE]
                    elif family == BINOMIAL:
                        under *= cells_float[c, SHAPE] - x
            if under > 1e100 or above > 1e100 or (i & 7) == 7:
                above /= under
                under = 1.0
        else:
            x += jump
        if cells_float[c, RATE] > 0.0:
            before = cells_float[c, LOCATION] - moving[i]
            change = abs(before - jump) - abs(before)
            if change == 1.0:
                above *= cells_float[c, EXP_MINUS_RATE]
            elif change == -1.0:
                above *= cells_float[c, EXP_RATE]
            else:
                above *= math.exp(-cells_float[c, RATE] * change)
        moving[i] = x
    for i in range(rows_met):
        j = met[i]
        if rows[j, ROW_RATE] > 0.0:
            after = residuals[i] - sign * met_steps[i]
            above *= math.exp(-rows[j, ROW_RATE] * (abs(after) - abs(residuals[i])))
            residuals[i] = after
    for g in range(len(groups)):
        b = sign * groups[g, ALONG]
        before = groups[g, SQUARED] - 2.0 * k * b + groups[g, ACROSS] * k * k
        after = groups[g, SQUARED] - 2.0 * (k + 1) * b + groups[g, ACROSS] * (k + 1) * (k + 1)
        above *= math.exp(-groups[g, GROUP_RATE] * (math.sqrt(max(after, 0.0)) - math.sqrt(max(before, 0.0))))
    return above / under


@inlined
def tabulate(sign: int, limit: int, at: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats,
             windows: Floats, tabulated: bool, cells: Ints, steps: Ints, count: int, met: Ints, met_steps: Floats, rows_met: int,
             curvature: float, slope: float, moving: Ints, residuals: Floats, weights: Floats, total: float,
             negligible: float) -> tuple[int, float, float]:  # fmt: skip
    """Write the weights of the steps of one sign from k = 0, where the weight is 1, until the rest is negligible."""
    # `at` is where the weight of the first step goes. Returns the number of steps written, the new total, and a bound on the weight of
    # the steps not written (ratios decrease, so a geometric series); -1 steps where the window is full or a weight grows too large.
    rewind(cells_int, rows, cells, count, met, rows_met, moving, residuals)
    exponent = sign * slope - 0.5 * curvature
    if exponent > 300.0:
        return -1, total, 0.0
    gauss, factor = 1.0, 1.0
    if curvature > 0.0 or slope != 0.0:
        gauss, factor = math.exp(exponent), math.exp(-curvature)
    weight = 1.0
    room = _FIRST if negligible > NEGLIGIBLE and limit > WINDOW else WINDOW
    for k in range(min(limit, room)):
        ratio = gauss * advance(sign, k, family, cells_float, rows, groups, cells, steps, count, met, met_steps,
                                 rows_met, moving, residuals)  # fmt: skip
        if tabulated:
            ratio *= math.exp(window_change(sign, rows, windows, met, met_steps, rows_met, residuals))
        gauss *= factor
        weight *= ratio
        if not weight < _LARGE:  # too large, or not a number
            return -1, total, 0.0
        weights[at + k] = weight
        total += weight
        if weight < negligible * total and ratio < 1.0:
            return k + 1, total, weight * ratio / (1.0 - ratio)
    return (limit if limit <= room else -1), total, 0.0


@inlined
def tabulate_units(sign: int, limit: int, at: int, family: int, count: int, rising: int, prior: float, curvature: float,
                    slope: float, near: Floats, weights: Floats, total: float,
                    negligible: float) -> tuple[int, float, float]:  # fmt: skip
    """`tabulate` in fewer operations, where entries of the direction are +1 and -1, and only single cells are noisy."""
    # `near` holds, for each cell, its count, its prior shape, the distance to the knot of its Laplace noise (an integer), and the
    # factors before and after the knot; the `rising` cells come first. `prior`: product of the prior weights of one step up.
    exponent = sign * slope - 0.5 * curvature
    if exponent > 300.0:
        return -1, total, 0.0
    gauss, factor = 1.0, 1.0
    if curvature > 0.0 or slope != 0.0:
        gauss, factor = math.exp(exponent), math.exp(-curvature)
    growing, grown, shrinking, shrunk = 0, rising, rising, count
    direction = 1.0
    if sign < 0:
        prior = 1.0 / prior
        growing, grown, shrinking, shrunk = rising, count, 0, rising
        direction = -1.0
    weight = 1.0
    room = _FIRST if negligible > NEGLIGIBLE and limit > WINDOW else WINDOW
    last = min(limit, room)
    k = 0
    while k < last:
        above, under = gauss * prior, 1.0
        far = float(k)
        if family != FLAT:
            for i in range(growing, grown):
                under *= near[5 * i] + far + 1.0
            for i in range(shrinking, shrunk):
                above *= near[5 * i] - far
        if family == NEGBIN:
            for i in range(growing, grown):
                above *= near[5 * i] + far + near[5 * i + 1]
            for i in range(shrinking, shrunk):
                under *= near[5 * i] - far - 1.0 + near[5 * i + 1]
        elif family == BINOMIAL:
            for i in range(growing, grown):
                above *= near[5 * i + 1] - near[5 * i] - far
            for i in range(shrinking, shrunk):
                under *= near[5 * i + 1] - near[5 * i] + far + 1.0
        for i in range(count):
            above *= near[5 * i + 3] if direction * near[5 * i + 2] - far > 0.5 else near[5 * i + 4]
        gauss *= factor
        ratio = above / under
        weight *= ratio
        if not weight < _LARGE:
            return -1, total, 0.0
        weights[at + k] = weight
        total += weight
        k += 1
        if weight < negligible * total and ratio < 1.0:
            return k, total, weight * ratio / (1.0 - ratio)
    return (k if limit <= room else -1), total, 0.0


@inlined
def find_step(target: float, first_up: int, up: int, first_down: int, down: int, weights: Floats) -> tuple[int, float]:
    """The step in whose share of the cumulated weights `target` falls, and the upper edge of that share."""
    # Order: 0, the first upward steps, the first downward steps, then the rest of both.
    edge = 1.0
    if target < edge:
        return 0, edge
    for i in range(first_up):
        edge += weights[WINDOW + i]
        if target < edge:
            return i + 1, edge
    for i in range(first_down):
        edge += weights[i]
        if target < edge:
            return -(i + 1), edge
    for i in range(first_up, up):
        edge += weights[WINDOW + i]
        if target < edge:
            return i + 1, edge
    for i in range(first_down, down):
        edge += weights[i]
        if target < edge:
            return -(i + 1), edge
    return 0, 0.0


@compiled
def reflected_step(share: float, above: float, under: float, up: int, down: int, rest: float, more: float,
                   weights: Floats) -> tuple[int, bool]:  # fmt: skip
    """Reflect the table's place on its line: the share of the law below it becomes the share above it."""
    # The place is `under` (the weight of all downward steps) plus `share`, uniform in [0, 1), of the weight 1 of the step k = 0, in
    # units of the total: uniform if the table follows the law. So is one minus the place, and the step that has it follows the law
    # too (overrelaxation, Neal 1998). `above`, `under`: weights of all tabulated upward and downward steps; `up`, `down`: their
    # numbers; `rest`, `more`: bounds on the weights left out. Returns the step, and whether it is the same whatever was left out.
    # The weight to go from the upper edge of k = 0 to the new place; known up to -more and +rest.
    target = above - under - share
    if target >= 0.0:
        edge = 0.0
        for k in range(up):
            before, edge = edge, edge + weights[WINDOW + k]
            if target < edge:
                return k + 1, target + rest < edge and target - more >= before
        return up, False
    if target >= -1.0:
        return 0, target + rest < 0.0 and target - more >= -1.0
    target = -1.0 - target
    edge = 0.0
    for k in range(down):
        before, edge = edge, edge + weights[k]
        if target <= edge:
            return -(k + 1), target + more <= edge and target - rest > before
    return -down, False


@inside
def draw_wide(low: int, high: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats,
          windows: Floats, generator: Words, cells: Ints, steps: Ints, count: int, met: Ints, met_steps: Floats,
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
                  windows: Floats, generator: Words, cells: Ints, steps: Ints, count: int, met: Ints,
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
