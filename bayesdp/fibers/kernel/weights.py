"""Tables of the weights along a direction, outwards from where the table stands, and a draw from them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._jit import compiled, inlined
from bayesdp.fibers.kernel.ratios import advance, rewind, window_change
from bayesdp.fibers.kernel.state import BINOMIAL, FLAT, NEGBIN, WINDOW

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

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


@inlined
def tabulate(sign: int, limit: int, at: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats,
              groups: Floats, windows: Floats, tabulated: bool, cells: Ints, steps: Ints, count: int, met: Ints,
              met_steps: Floats, rows_met: int,
              curvature: float, slope: float, moving: Ints, residuals: Floats, weights: Floats,
              total: float, negligible: float) -> tuple[int, float, float]:  # fmt: skip
    """Write the weights of the steps of one sign from k = 0, where the weight is 1, until the rest is negligible.

    `at` is where the weight of the first step goes. Returns the number of steps written, the new total, and a bound on
    the weight of the steps not written (ratios decrease, so a geometric series); -1 steps where the window is full or
    a weight grows too large (a start far below the mode).
    """
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
    """`tabulate` for the common case: entries of the direction are +1 and -1, and only single cells are noisy.

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


@compiled
def reflected_step(share: float, above: float, under: float, up: int, down: int, rest: float, more: float,
                   weights: Floats) -> tuple[int, bool]:  # fmt: skip
    """Reflect the table's place on its line: the share of the law below it becomes the share above it."""
    # The place is `under` (the weight of all downward steps) plus `share`, uniform in [0, 1), of the weight 1 of the step k = 0, in
    # units of the total: uniform if the table follows the law. So is one minus the place, and the step that has it follows the law
    # too. On smooth laws that is overrelaxation: the table jumps to the other side of the mean, which mixes means faster than an
    # independent draw (Neal 1998, "Suppressing random walks in Markov chain Monte Carlo using ordered overrelaxation"). `share`:
    # uniform in [0, 1). `above`, `under`: weights of all tabulated upward and downward steps. `up`, `down`: their numbers. `rest`,
    # `more`: bounds on the weights of the upward and downward steps left out. Returns the step, and whether it is the same whatever
    # weight was left out.
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
