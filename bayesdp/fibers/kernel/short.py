"""The commonest case in one loop: products of differences, noise on single cells, a log-concave law.

The same moves as `direction` and `line`, and reflections besides (`weights.reflected_step`). They are written out once
more, in a single function, because numba counts references to every array that it hands from function to function, and
those atomic operations cost as much as the arithmetic of a move.
"""

from __future__ import annotations

import numpy as np

from bayesdp._jit import inside
from bayesdp._random import below, next_word, uniform
from bayesdp.fibers.kernel.state import (
    EXP_MINUS_RATE,
    EXP_MINUS_THETA,
    EXP_RATE,
    EXP_THETA,
    FAR,
    FRACTIONAL,
    LINEAR,
    LOCATION,
    LOWER,
    ONE,
    PRECISION,
    SHAPE,
    UPPER,
    UPWARDS,
    WINDOW,
    ZERO,
    Line,
    State,
    X,
)
from bayesdp.fibers.kernel.weights import NEGLIGIBLE, REFLECT, SHORT, find_step, reflected_step, tabulate_units


@inside
def short_moves(moves: int, family: int, state: State, line: Line) -> tuple[int, int, int]:
    """Take up to `moves` steps; stop early at a direction that needs the general way."""
    # Changes the table and the generator of the state, and the work space. `family`: prior family, see `FAMILIES`. `state`: all
    # families of moves are products of differences, and there are no rows. Returns how many moves were taken, how many changed the
    # table, and the number of cells of the direction left in `line.cells` and `line.steps` for the general way (0: none).
    meta, cumulative, pool, generator = state.meta, state.cumulative, state.pool, state.generator
    cells_int, cells_float = state.cells_int, state.cells_float
    cells, steps, weights, near = line.cells, line.steps, line.weights, line.near
    changed = 0
    families = len(cumulative)
    for done in range(moves):
        which = 0
        if families > 1:
            v = uniform(generator)
            while which < families - 1 and v >= cumulative[which]:
                which += 1
        # The direction.
        count = ONE
        cells[0], steps[0] = 0, 1
        for factor in range(meta[which, 1]):
            start_of = 2 + 4 * factor
            position = below(generator, meta[which, start_of])
            bounds = meta[which, start_of + 3] + pool[meta[which, start_of + 2] + position]
            start = pool[bounds]
            other = start + below(generator, pool[bounds + 1] - start - 1)
            if other >= position:
                other += 1
            first = pool[meta[which, start_of + 1] + position]
            second = pool[meta[which, start_of + 1] + other]
            for i in range(count):
                cells[count + i] = cells[i] + second
                steps[count + i] = -steps[i]
                cells[i] += first
            count *= 2
        # The feasible interval, the Gaussian part, and the cells side by side: those that grow come first.
        low, high = -FAR, FAR
        curvature, slope, prior, fractional = 0.0, 0.0, 1.0, 0.0
        place, last = ZERO, 5 * (count - 1)
        for i in range(count):
            c, u = cells[i], steps[i]
            x = cells_int[c, X]
            below_x, above_x = x - cells_int[c, LOWER], cells_int[c, UPPER] - x
            if u > 0:
                low, high = max(low, -below_x), min(high, above_x)
                at = place
                place += 5
                prior *= cells_float[c, EXP_THETA]
            else:
                low, high = max(low, -above_x), min(high, below_x)
                at = last
                last -= 5
                prior *= cells_float[c, EXP_MINUS_THETA]
            q = cells_float[c, PRECISION]
            curvature += q
            slope += u * (cells_float[c, LINEAR] - q * x)
            fractional += cells_float[c, FRACTIONAL]
            near[at] = x
            near[at + 1] = cells_float[c, SHAPE]
            near[at + 2] = u * (cells_float[c, LOCATION] - x)
            near[at + 3] = cells_float[c, EXP_RATE]
            near[at + 4] = cells_float[c, EXP_MINUS_RATE]
        if low >= high:
            continue
        if fractional > 0.0:
            return done, changed, count
        # The step. Most moves along short lines reflect: see `reflected_step`. Whether one does depends on a coin and on
        # the line, not on where the table stands on it, so that the law of the table is left as it is. (A start that is
        # e^-300 less likely than the mode goes the general way; a double cannot tell what that does to the law.)
        word = next_word(generator)
        u01 = np.float64(np.int64(word >> np.uint64(11))) * (1.0 / 9007199254740992.0)
        reflect = high - low < WINDOW and np.int64(word & np.uint64(1023)) < REFLECT
        rising = count // 2
        first_up, first_down, k, edge, settled = 0, 0, 0, 0.0, False
        for attempt in range(2):  # compiled for each sign, which takes 6 percent off a move
            negligible = SHORT if attempt == 0 else NEGLIGIBLE
            up, total, rest = tabulate_units(1, high, UPWARDS, family, count, rising, prior, curvature, slope, near,
                                             weights, 1.0, negligible)  # fmt: skip
            if up < 0:
                break
            above = total - 1.0
            down, total, more = tabulate_units(-1, -low, ZERO, family, count, rising, prior, curvature, slope, near,
                                               weights, total, negligible)  # fmt: skip
            if down < 0:
                break
            if reflect:
                k, sure = reflected_step(u01, above, total - 1.0 - above, up, down, rest, more, weights)
                if attempt == 1 or sure:
                    settled = True
                    break
                continue
            if attempt == 0:
                first_up, first_down = up, down
            k, edge = find_step(u01 * total, first_up, up, first_down, down, weights)
            if attempt == 1 or u01 * (total + rest + more) < edge:
                settled = True
                break
        if not settled:
            return done, changed, count
        if k != 0:
            changed += 1
            for i in range(count):
                cells_int[cells[i], X] += k * steps[i]
    return moves, changed, 0
