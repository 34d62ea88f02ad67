"""The law of a table along one direction, and an exact draw from it.

Along ``x + k u`` the log-density is

    L(k) = sum_i prior_i(x_i + k u_i) - sum_j rate_j |r_j - k c_j| - A k^2 / 2 + B k - sum_g rate_g |r_g - k c_g|_2

with r the residuals of the noisy rows and c = M u. Three ways to draw k, all exact:

* log-concave L (all priors but shapes below 1): tabulate weights outwards from k = 0 by ratio recursions until the
  rest is below 1e-17 of the total;
* log-concave and wide, or a start in a far tail: rejection from a flat centre with two geometric tails, which
  concavity makes an upper bound;
* not log-concave: tabulate the whole feasible interval in log space; where that is too long, one slice-sampling
  update that starts from the whole interval and shrinks it (Neal 2003), which leaves the law invariant.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from bayesdp.lattices.random import below, exponential, uniform
from bayesdp.lattices.state import (
    ACROSS,
    ALONG,
    BINOMIAL,
    EXP_MINUS_RATE,
    EXP_MINUS_THETA,
    EXP_RATE,
    EXP_THETA,
    FLAT,
    FRACTIONAL,
    GROUP,
    GROUP_RATE,
    LINEAR,
    LOCATION,
    LOWER,
    NEGBIN,
    NOISY,
    PRECISION,
    RATE,
    ROW_LOWER,
    ROW_PRECISION,
    ROW_RATE,
    ROW_UPPER,
    SHAPE,
    SQUARED,
    THETA,
    UNBOUNDED,
    UNIT_CELLS,
    UPPER,
    VALUE,
    WINDOW,
    X,
)

__all__ = ["IMPROPER", "NEGLIGIBLE", "SHORT", "draw_step", "find_step", "log_gamma_difference", "tabulate_units"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

IMPROPER = -(2**62)
"""Returned by `draw_step` when the law along a direction has no finite mass (flat prior, no noise, no bound)."""

NEGLIGIBLE = 1e-17
SHORT = 1e-6
_LARGE = 1e200
_SCANNED = 1024
"""Laws that are not log-concave: longer intervals take a slice step instead of being tabulated."""


@nb.njit(cache=True, error_model="numpy")
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


@nb.njit(cache=True, error_model="numpy")
def _cell_log_ratio(family: int, theta: float, shape: float, x: int, step: int) -> float:
    """Log prior ratio of one cell going from x to x + step."""
    total = theta * step
    if family != FLAT:
        total -= log_gamma_difference(x + 1.0, float(step))
    if family == NEGBIN:
        total += log_gamma_difference(x + shape, float(step))
    elif family == BINOMIAL:
        total -= log_gamma_difference(shape - x + 1.0, float(-step))
    return total


@nb.njit(cache=True, error_model="numpy")
def _log_ratio(k: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats,
               cells: Ints, steps: Ints, count: int, met: Ints, met_steps: Ints, rows_met: int,
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
    for g in range(len(groups)):
        squared = groups[g, SQUARED]
        moved = squared - 2.0 * k * groups[g, ALONG] + groups[g, ACROSS] * k * k
        total -= groups[g, GROUP_RATE] * (math.sqrt(max(moved, 0.0)) - math.sqrt(squared))
    return total


@nb.njit(cache=True, error_model="numpy")
def _rewind(
    cells_int: Ints,
    rows: Floats,
    cells: Ints,
    count: int,
    met: Ints,
    rows_met: int,
    moving: Ints,
    residuals: Floats,
) -> None:
    """Put the moving counts and residuals back to k = 0."""
    for i in range(count):
        moving[i] = cells_int[cells[i], X]
    for i in range(rows_met):
        residuals[i] = rows[met[i], NOISY] - rows[met[i], VALUE]


@nb.njit(cache=True, error_model="numpy")
def _advance(sign: int, k: int, family: int, cells_float: Floats, rows: Floats, groups: Floats, cells: Ints, steps: Ints,
             count: int, met: Ints, met_steps: Ints, rows_met: int, moving: Ints, residuals: Floats) -> float:  # fmt: skip
    """Go from step k to k + 1 (times `sign`): the ratio of the weights, without the Gaussian part."""
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


@nb.njit(cache=True, error_model="numpy")
def _tabulate(sign: int, limit: int, at: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats,
              groups: Floats, cells: Ints, steps: Ints, count: int, met: Ints, met_steps: Ints, rows_met: int,
              curvature: float, slope: float, moving: Ints, residuals: Floats, weights: Floats,
              total: float, negligible: float) -> tuple[int, float, float]:  # fmt: skip
    """Write the weights of the steps of one sign from k = 0, where the weight is 1, until the rest is negligible.

    `at` is where the weight of the first step goes. Returns the number of steps written, the new total, and a bound on
    the weight of the steps not written (ratios decrease, so a geometric series); -1 steps where the window is full or
    a weight grows too large (a start far below the mode).
    """
    _rewind(cells_int, rows, cells, count, met, rows_met, moving, residuals)
    exponent = sign * slope - 0.5 * curvature
    if exponent > 300.0:
        return -1, total, 0.0
    gauss, factor = 1.0, 1.0
    if curvature > 0.0 or slope != 0.0:
        gauss, factor = math.exp(exponent), math.exp(-curvature)
    weight = 1.0
    for k in range(min(limit, WINDOW)):
        ratio = gauss * _advance(sign, k, family, cells_float, rows, groups, cells, steps, count, met, met_steps,
                                 rows_met, moving, residuals)  # fmt: skip
        gauss *= factor
        weight *= ratio
        if not weight < _LARGE:  # too large, or not a number
            return -1, total, 0.0
        weights[at + k] = weight
        total += weight
        if weight < negligible * total and ratio < 1.0:
            return k + 1, total, weight * ratio / (1.0 - ratio)
    return (limit if limit <= WINDOW else -1), total, 0.0


@nb.njit(cache=True, error_model="numpy")
def tabulate_units(sign: int, limit: int, at: int, family: int, count: int, rising: int, prior: float, curvature: float,
                    slope: float, near: Floats, weights: Floats, total: float,
                    negligible: float) -> tuple[int, float, float]:  # fmt: skip
    """`_tabulate` for the common case: entries of the direction are +1 and -1, and only single cells are noisy.

    The same numbers in fewer operations. `near` holds, for each cell, its count, its prior shape, the distance to the
    knot of its Laplace noise (an integer), and the factors before and after the knot; the `rising` cells come first.
    `prior` is the product of the prior weights of one step up.
    """
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
    last = min(limit, WINDOW)
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
    return (k if limit <= WINDOW else -1), total, 0.0


@nb.njit(cache=True, error_model="numpy")
def find_step(target: float, first_up: int, up: int, first_down: int, down: int, weights: Floats) -> tuple[int, float]:
    """The step in whose share of the cumulated weights `target` falls, and the upper edge of that share.

    Order: 0, the first upward steps, the first downward steps, then the rest of both.
    """
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


@nb.njit(cache=True, error_model="numpy", inline="always")
def draw_step(family: int, concave: bool, cells_int: Ints, cells_float: Floats, indptr: Ints, indices: Ints, entries: Ints,
              rows: Floats, groups: Floats, generator: npt.NDArray[np.uint64], cells: Ints, steps: Ints, count: int,
              moving: Ints, met: Ints, met_steps: Ints, mark: Ints, weights: Floats, near: Floats,
              residuals: Floats) -> int:  # fmt: skip
    """Draw the step along the direction in ``cells`` and ``steps``, and take it.

    Returns
    -------
    int
        The step k (0: the table stays as it is), or `IMPROPER`.
    """
    # One pass over the cells: the feasible interval, the Gaussian part, and what the short way needs side by side.
    low, high = -UNBOUNDED, UNBOUNDED
    curvature, slope = 0.0, 0.0
    units, rising, prior = count <= UNIT_CELLS, 0, 1.0
    place, last = 0, 5 * (count - 1)
    for i in range(count):
        c, u = cells[i], steps[i]
        x = cells_int[c, X]
        if u == 1:
            low, high = max(low, cells_int[c, LOWER] - x), min(high, cells_int[c, UPPER] - x)
        elif u == -1:
            low, high = max(low, x - cells_int[c, UPPER]), min(high, x - cells_int[c, LOWER])
        else:
            units = False
            if u > 0:
                low = max(low, -((x - cells_int[c, LOWER]) // u))
                high = min(high, (cells_int[c, UPPER] - x) // u)
            else:
                low = max(low, -((cells_int[c, UPPER] - x) // -u))
                high = min(high, (x - cells_int[c, LOWER]) // -u)
        q = cells_float[c, PRECISION]
        if q > 0.0:
            curvature += q * u * u
            slope += u * (cells_float[c, LINEAR] - q * x)
        if units:
            if u > 0:
                at = place
                place += 5
                rising += 1
                prior *= cells_float[c, EXP_THETA]
            else:
                at = last
                last -= 5
                prior *= cells_float[c, EXP_MINUS_THETA]
            distance = u * (cells_float[c, LOCATION] - x)
            near[at] = x
            near[at + 1] = cells_float[c, SHAPE]
            near[at + 2] = distance
            near[at + 3] = cells_float[c, EXP_RATE]
            near[at + 4] = cells_float[c, EXP_MINUS_RATE]
            if cells_float[c, FRACTIONAL] > 0.0:
                units = False
    if low >= high:
        return 0
    rows_met = 0
    if len(rows) > 0:
        for i in range(count):
            c = cells[i]
            for at in range(indptr[c], indptr[c + 1]):
                j = indices[at]
                if mark[j] == 0:
                    met[rows_met] = j
                    met_steps[rows_met] = 0
                    rows_met += 1
                    mark[j] = rows_met
                met_steps[mark[j] - 1] += steps[i] * entries[at]
        for g in range(len(groups)):
            groups[g, ALONG], groups[g, ACROSS] = 0.0, 0.0
        kept = 0
        for i in range(rows_met):
            j, u = met[i], met_steps[i]
            mark[j] = 0
            if u == 0:
                continue
            met[kept], met_steps[kept] = j, u
            kept += 1
            value = rows[j, VALUE]
            if rows[j, ROW_UPPER] < math.inf:
                room = math.floor((rows[j, ROW_UPPER] - value) / abs(u))
                if u > 0:
                    high = min(high, room)
                else:
                    low = max(low, -room)
            if rows[j, ROW_LOWER] > -math.inf:
                room = math.floor((value - rows[j, ROW_LOWER]) / abs(u))
                if u > 0:
                    low = max(low, -room)
                else:
                    high = min(high, room)
            q = rows[j, ROW_PRECISION]
            if q > 0.0:
                curvature += q * u * u
                slope += u * q * (rows[j, NOISY] - value)
            g = int(rows[j, GROUP])
            if g >= 0:
                groups[g, ALONG] += u * (rows[j, NOISY] - value)
                groups[g, ACROSS] += float(u) * u
        rows_met = kept
        if low >= high:
            return 0
    k = 0
    if concave:
        done = False
        u = uniform(generator)
        first_up, first_down = 0, 0
        # Twice at most: a short table usually settles the draw, because a bound on what it leaves out is known; if it
        # does not (once in thousands of moves), the table is written to the end and read in the same order.
        for attempt in range(2):
            negligible = SHORT if attempt == 0 else NEGLIGIBLE
            down, rest, more = -1, 0.0, 0.0
            if units and rows_met == 0:
                up, total, rest = tabulate_units(1, high, WINDOW, family, count, rising, prior, curvature, slope, near,
                                                  weights, 1.0, negligible)  # fmt: skip
                if up >= 0:
                    down, total, more = tabulate_units(-1, -low, 0, family, count, rising, prior, curvature, slope, near,
                                                        weights, total, negligible)  # fmt: skip
            else:
                up, total, rest = _tabulate(1, high, WINDOW, family, cells_int, cells_float, rows, groups, cells, steps,
                                            count, met, met_steps, rows_met, curvature, slope, moving, residuals, weights,
                                            1.0, negligible)  # fmt: skip
                if up >= 0:
                    down, total, more = _tabulate(-1, -low, 0, family, cells_int, cells_float, rows, groups, cells, steps,
                                                  count, met, met_steps, rows_met, curvature, slope, moving, residuals,
                                                  weights, total, negligible)  # fmt: skip
            if down < 0:
                break
            if attempt == 0:
                first_up, first_down = up, down
            k, edge = find_step(u * total, first_up, up, first_down, down, weights)
            # Certain if the draw falls in the same step whatever the weight that was left out.
            if attempt == 1 or u * (total + rest + more) < edge:
                done = True
                break
        if not done:
            k = _wide(low, high, family, cells_int, cells_float, rows, groups, generator, cells, steps, count, met,
                      met_steps, rows_met, curvature, slope)  # fmt: skip
    else:
        k = _unrestricted(low, high, family, cells_int, cells_float, rows, groups, generator, cells, steps, count, met,
                          met_steps, rows_met, curvature, slope, moving, residuals, weights)  # fmt: skip
    if k == 0 or k == IMPROPER:
        return k
    for i in range(count):
        cells_int[cells[i], X] += k * steps[i]
    for i in range(rows_met):
        rows[met[i], VALUE] += float(k * met_steps[i])
    for g in range(len(groups)):
        groups[g, SQUARED] = max(
            groups[g, SQUARED] - 2.0 * k * groups[g, ALONG] + groups[g, ACROSS] * float(k) * k, 0.0
        )
    return k


@nb.njit(cache=True, error_model="numpy")
def _wide(low: int, high: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats,
          generator: npt.NDArray[np.uint64], cells: Ints, steps: Ints, count: int, met: Ints, met_steps: Ints,
          rows_met: int, curvature: float, slope: float) -> int:  # fmt: skip
    """Rejection for a wide log-concave law: flat between two points one unit below the mode, geometric beyond."""

    def f(k: int) -> float:
        return _log_ratio(k, family, cells_int, cells_float, rows, groups, cells, steps, count, met, met_steps,
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
    ends = np.empty(2, dtype=np.int64)
    falls = np.empty(2)
    heights = np.empty(2)
    for side in range(2):
        sign = 1 if side == 1 else -1
        bound = (high - mode) if side == 1 else (mode - low)
        near, far, step = 0, 0, 1
        while far < bound and peak - f(mode + sign * far) < 1.0:
            near = far
            far = min(bound, far + step)
            step *= 2
            if far >= UNBOUNDED:
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
    masses = np.zeros(3)
    masses[0] = float(ends[0] + ends[1] + 1)
    for side in range(2):
        if falls[side] < math.inf:
            masses[1 + side] = math.exp(heights[side]) * math.exp(-falls[side]) / -math.expm1(-falls[side])
    while True:
        u = uniform(generator) * (masses[0] + masses[1] + masses[2])
        if u < masses[0]:
            k = mode - ends[0] + below(generator, int(masses[0]))
            bound_log = 0.0
        else:
            side = 0 if u < masses[0] + masses[1] else 1
            distance = exponential(generator) / falls[side]
            if distance > UNBOUNDED:
                continue
            beyond = 1 + math.floor(distance)
            far = ends[side] + beyond
            k = mode + far if side == 1 else mode - far
            bound_log = heights[side] - falls[side] * beyond
            if k < low or k > high:
                continue
        if -exponential(generator) < f(k) - peak - bound_log:
            return int(k)


@nb.njit(cache=True, error_model="numpy")
def _unrestricted(low: int, high: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats,
                  generator: npt.NDArray[np.uint64], cells: Ints, steps: Ints, count: int, met: Ints, met_steps: Ints,
                  rows_met: int, curvature: float, slope: float, moving: Ints, residuals: Floats, weights: Floats) -> int:  # fmt: skip
    """A law that need not be log-concave: tabulate the whole interval, or take one slice step on it."""

    def f(k: int) -> float:
        return _log_ratio(k, family, cells_int, cells_float, rows, groups, cells, steps, count, met, met_steps,
                          rows_met, curvature, slope)  # fmt: skip

    span = high - low + 1
    if span <= _SCANNED:
        # To the low end in one jump, then upwards by ratios, in log space: valleys between modes may be deep.
        _rewind(cells_int, rows, cells, count, met, rows_met, moving, residuals)
        for i in range(count):
            moving[i] += low * steps[i]
        for i in range(rows_met):
            residuals[i] -= low * met_steps[i]
        height, largest = 0.0, 0.0
        weights[0] = 0.0
        for i in range(1, span):
            k = low + i - 1
            ratio = _advance(1, k, family, cells_float, rows, groups, cells, steps, count, met, met_steps, rows_met,
                             moving, residuals)  # fmt: skip
            height += math.log(ratio) + slope - curvature * (k + 0.5)
            weights[i] = height
            largest = max(largest, height)
        total = 0.0
        for i in range(span):
            weights[i] = math.exp(weights[i] - largest)
            total += weights[i]
        u = uniform(generator) * total
        for i in range(span):
            u -= weights[i]
            if u < 0.0:
                return low + i
        return 0
    level = -exponential(generator)
    # A side without a bound: priors with shape below 1 decrease, and noise does beyond its last knot, so the first
    # point below the level that is also past the knots ends the slice.
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
        for i in range(rows_met):
            knot = max(knot, abs(rows[met[i], NOISY] - rows[met[i], VALUE]))
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
