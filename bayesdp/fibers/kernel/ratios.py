"""Ratios of the density of a table along one direction, by steps and by differences of logarithms."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._jit import compiled, inlined, inside
from bayesdp.fibers.kernel.state import (
    ACROSS,
    ALONG,
    BINOMIAL,
    EXP_MINUS_RATE,
    EXP_RATE,
    EXP_THETA,
    FLAT,
    GROUP_RATE,
    LOCATION,
    NEGBIN,
    NOISY,
    POISSON,
    RATE,
    ROW_RATE,
    SHAPE,
    SQUARED,
    THETA,
    VALUE,
    WINDOW_ABOVE,
    WINDOW_BELOW,
    WINDOW_LENGTH,
    WINDOW_LOW,
    WINDOW_START,
    WINDOW_WEIGHT,
    X,
)

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


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
    for part in range(
        0 if family == FLAT else 1 if family == POISSON else 2
    ):  # a loop: one call is compiled in place of three
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
