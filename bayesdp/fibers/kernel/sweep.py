"""Moves of a table, many in one kernel call: the law along one direction, and an exact draw from it.

Along ``x + k u`` the log-density is

    L(k) = sum_i prior_i(x_i + k u_i) - sum_j rate_j |r_j - k c_j| - A k^2 / 2 + B k - sum_g rate_g |r_g - k c_g|_2
           + sum_j w_j(v_j + k c_j)

with r the residuals of the noisy rows, v their values, w tabulated log-masses and c = M u. Four ways to draw k, all exact:

* log-concave L (all priors but shapes below 1, all noise but some that is tabulated): tabulate weights outwards from
  k = 0 by ratio recursions until the rest is below 1e-17 of the total;
* log-concave and wide, or a start in a far tail: rejection from a flat centre with two geometric tails, which
  concavity makes an upper bound;
* rows that count once where they are about the same records: see `classes`;
* not log-concave: tabulate the whole feasible interval in log space; where that is too long, one slice-sampling update that starts
  from the whole interval and shrinks it (Neal 2003), which leaves the law invariant.

The commonest case (products of differences, noise on single cells, a log-concave law) is written out once more in one loop, with
reflections besides: to hand arrays from function to function costs as much as the arithmetic of a move (`bayesdp._numba`).
"""

from __future__ import annotations

import math

import numpy as np

from bayesdp._arrays import Floats, Ints
from bayesdp._numba import below, compiled, inlined, inside, next_word, uniform
from bayesdp.fibers.kernel.classes import close_classes, draw_joined, open_classes, turn_cell
from bayesdp.fibers.kernel.state import (
    ACROSS,
    ALONG,
    EXP_MINUS_RATE,
    EXP_MINUS_THETA,
    EXP_RATE,
    EXP_THETA,
    FAR,
    FRACTIONAL,
    GROUP,
    LINEAR,
    LOCATION,
    LOWER,
    NOISY,
    ONE,
    PRECISION,
    ROW_LOWER,
    ROW_PRECISION,
    ROW_UPPER,
    SHAPE,
    SQUARED,
    UNIT_CELLS,
    UPPER,
    UPWARDS,
    VALUE,
    WINDOW,
    WINDOW_BENT,
    WINDOW_WEIGHT,
    ZERO,
    Line,
    State,
    X,
)
from bayesdp.fibers.kernel.weights import (
    IMPROPER,
    NEGLIGIBLE,
    REFLECT,
    SHORT,
    draw_unrestricted,
    draw_wide,
    find_step,
    reflected_step,
    tabulate,
    tabulate_units,
)
from bayesdp.fibers.moves.direction import draw_direction
from bayesdp.fibers.moves.moves import PRODUCT


@inlined
def draw_step(family: int, concave: bool, state: State, line: Line, count: int) -> int:
    """Draw the step along the direction in ``line.cells`` and ``line.steps``, and take it."""
    # `concave`: whether the law is log-concave but for tabulated rows, which say so themselves. `count`: number of cells of the
    # direction. Returns the step k (0: the table stays as it is), or `IMPROPER`.
    # Not handed on as tuples: numba counts references to every array of a tuple that a function gets.
    cells_int, cells_float, rows, groups = state.cells_int, state.cells_float, state.rows, state.groups
    indptr, indices, entries, generator = state.indptr, state.indices, state.entries, state.generator
    windows, laws, met_rows = state.windows, state.laws, state.met_rows
    cells, steps, moving, near, weights = line.cells, line.steps, line.moving, line.near, line.weights
    met, met_steps, mark, residuals = line.met, line.met_steps, line.mark, line.residuals
    # One pass over the cells: the feasible interval, the Gaussian part, and what the short way needs side by side.
    low, high = -FAR, FAR
    curvature, slope = 0.0, 0.0
    units, rising, prior = count <= UNIT_CELLS, ZERO, 1.0
    place, last = ZERO, 5 * (count - 1)
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
    rows_met, tabulated, straight = ZERO, count < 0, concave  # not `False`: see `state.ZERO`
    if len(rows) > 0:
        for i in range(count):
            c = cells[i]
            for at in range(indptr[c], indptr[c + 1]):
                j = indices[at]
                if mark[j] == 0:
                    met[rows_met] = j
                    met_steps[rows_met] = 0.0
                    rows_met += 1
                    mark[j] = rows_met
                met_steps[mark[j] - 1] += steps[i] * entries[at]
        for g in range(len(groups)):
            groups[g, ALONG], groups[g, ACROSS] = 0.0, 0.0
        kept = 0
        for i in range(rows_met):
            j, u = met[i], met_steps[i]
            mark[j] = 0
            if u == 0.0:
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
            if rows[j, WINDOW_WEIGHT] > 0.0:
                tabulated = True
                straight = straight and rows[j, WINDOW_BENT] == 0.0
            g = int(rows[j, GROUP])
            if g >= 0:
                groups[g, ALONG] += u * (rows[j, NOISY] - value)
                groups[g, ACROSS] += float(u) * u
        rows_met = kept
        if low >= high:
            return 0
    k, joined = 0, ZERO
    if len(laws) > 0:
        joined = open_classes(low, high, cells_int, rows, indptr, indices, cells, steps, count, mark, state.codes, laws,
                              state.classes, state.slots, met_rows)  # fmt: skip
    if joined > 0:
        others = ZERO  # the rows without classes come first
        for i in range(rows_met):
            if laws[met[i]] == 0:
                met[i], met[others] = met[others], met[i]
                met_steps[i], met_steps[others] = met_steps[others], met_steps[i]
                others += 1
        k = draw_joined(low, high, family, cells_int, cells_float, rows, groups, windows, generator, cells, steps, count, met,
                        met_steps, others, curvature, slope, weights, indptr, indices, mark, state.codes, laws, state.slots,
                        met_rows, state.differing[0], joined)  # fmt: skip
        close_classes(k, cells_int, rows, indptr, indices, cells, steps, count, mark, state.codes, laws, state.classes,
                      state.slots, met_rows, joined)  # fmt: skip
    elif straight:
        done = False
        u = uniform(generator)
        first_up, first_down = 0, 0
        # Twice at most: a short table usually settles the draw, because a bound on what it leaves out is known; if it
        # does not (once in thousands of moves), the table is written to the end and read in the same order.
        for attempt in range(2):
            negligible = SHORT if attempt == 0 else NEGLIGIBLE
            down, rest, more = -1, 0.0, 0.0
            if units and rows_met == 0:
                up, total, rest = tabulate_units(ONE, high, UPWARDS, family, count, rising, prior, curvature, slope, near,
                                                  weights, 1.0, negligible)  # fmt: skip
                if up >= 0:
                    down, total, more = tabulate_units(-ONE, -low, ZERO, family, count, rising, prior, curvature, slope, near,
                                                        weights, total, negligible)  # fmt: skip
            else:
                up, total, rest = tabulate(ONE, high, UPWARDS, family, cells_int, cells_float, rows, groups, windows, tabulated,
                                           cells, steps, count, met, met_steps, rows_met, curvature, slope, moving, residuals,
                                           weights, 1.0, negligible)  # fmt: skip
                if up >= 0:
                    down, total, more = tabulate(-ONE, -low, ZERO, family, cells_int, cells_float, rows, groups, windows, tabulated,
                                                 cells, steps, count, met, met_steps, rows_met, curvature, slope, moving, residuals,
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
            k = draw_wide(low, high, family, cells_int, cells_float, rows, groups, windows, generator, cells, steps, count, met,
                      met_steps, rows_met, curvature, slope, weights)  # fmt: skip
    else:
        k = draw_unrestricted(low, high, family, cells_int, cells_float, rows, groups, windows, generator, cells, steps, count, met,
                          met_steps, rows_met, curvature, slope, moving, residuals, weights)  # fmt: skip
    if k == 0 or k == IMPROPER:
        return k
    for i in range(count):
        cells_int[cells[i], X] += k * steps[i]
    for i in range(rows_met):
        rows[met[i], VALUE] += float(k * met_steps[i])
    for g in range(len(groups)):
        squared = groups[g, SQUARED] - 2.0 * k * groups[g, ALONG] + groups[g, ACROSS] * float(k) * k
        groups[g, SQUARED] = max(squared, 0.0)
    return k


@inside
def short_moves(moves: int, family: int, state: State, line: Line) -> tuple[int, int, int]:
    """Take up to `moves` steps; stop early at a direction that needs the general way."""
    # All families of moves are products of differences, and there are no rows. Returns how many moves were taken, how many changed
    # the table, and the number of cells of the direction left in `line.cells` and `line.steps` for the general way (0: none).
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


@inside
def add_up_squares(rows: Floats, groups: Floats) -> None:
    """Squared lengths of the residuals of l2 laws, from scratch: steps update them by differences, which loses digits for good."""
    if len(groups) == 0:
        return
    groups[:, SQUARED] = 0.0
    for j in range(len(rows)):
        g = int(rows[j, GROUP])
        if g >= 0:
            groups[g, SQUARED] += (rows[j, NOISY] - rows[j, VALUE]) ** 2


@inlined
def line_of(state: State) -> Line:
    """The work space, cut up once a call: making a view costs as much as drawing a number."""
    support, ints, floats = state.support, state.scratch_int, state.scratch_float
    most = len(ints) - 4 * support - len(state.rows)
    rest = floats[2 * WINDOW + 5 * UNIT_CELLS :]
    return Line(
        ints[:support],
        ints[support : 2 * support],
        ints[2 * support : 3 * support],
        ints[3 * support : 4 * support],
        ints[4 * support : 4 * support + most],
        rest[most:],
        ints[4 * support + most :],
        rest[:most],
        floats[: 2 * WINDOW],
        floats[2 * WINDOW : 2 * WINDOW + 5 * UNIT_CELLS],
    )


@compiled
def sweep(tables: Ints, moves: int, family: int, concave: bool, state: State) -> int:
    """For each row of `tables`, take `moves` exact-conditional steps along random directions, and write the table to the row."""
    # `tables`, shape (draws, cells); without rows, `moves` steps are taken once. `family`: see `FAMILIES`. `concave`: as `set_prior`
    # says. Returns how many steps changed the table; -1 if the law has no finite mass along a direction.
    changed = 0
    line, meta = line_of(state), state.meta
    short = concave and len(state.rows) == 0 and len(meta) > 0
    for which in range(len(meta)):  # in a loop: numpy would make arrays
        short = short and meta[which, 0] == PRODUCT and 2 ** meta[which, 1] <= UNIT_CELLS
    for draw in range(max(len(tables), 1)):
        add_up_squares(state.rows, state.groups)
        done = 0
        while done < moves:
            if short:
                taken, moved, count = short_moves(moves - done, family, state, line)
                done += taken
                changed += moved
                if count == 0:
                    break
            else:
                count = draw_direction(meta, state.cumulative, state.pool, state.generator, line.cells, line.steps,
                                       state.dense, line.touched)  # fmt: skip
            done += 1
            if count > 0:
                k = draw_step(family, concave, state, line, count)
                if k == IMPROPER:
                    return -1
                changed += k != 0
        if draw < len(tables):
            for cell in range(tables.shape[1]):  # a loop compiles in less time than a slice
                tables[draw, cell] = state.cells_int[cell, X]
    return changed


@compiled
def move_once(family: int, concave: bool, state: State) -> tuple[int, int]:
    """One direction and one step, to be accepted or taken back: its number of cells, and the step or `IMPROPER`."""
    line = line_of(state)
    count = draw_direction(state.meta, state.cumulative, state.pool, state.generator, line.cells, line.steps, state.dense,
                           line.touched)  # fmt: skip
    if count == 0:
        return 0, 0
    return count, draw_step(family, concave, state, line, count)


@compiled
def take_back(count: int, k: int, state: State) -> None:
    """Undo the step of the last `move_once`, whose direction still stands in the scratch arrays."""
    groups, rows, cells_int = state.groups, state.rows, state.cells_int
    indptr, indices, entries = state.indptr, state.indices, state.entries
    cells, steps = state.scratch_int[: state.support], state.scratch_int[state.support : 2 * state.support]
    for g in range(len(groups)):
        # The squared length after the step, minus what the step did to it.
        before = groups[g, SQUARED] + 2.0 * k * groups[g, ALONG] - groups[g, ACROSS] * float(k) * k
        groups[g, SQUARED] = max(before, 0.0)
    for i in range(count):
        c = cells[i]
        held = cells_int[c, X] != 0
        cells_int[c, X] -= k * steps[i]
        if len(state.laws) > 0 and held != (cells_int[c, X] != 0):
            turn_cell(c, not held, rows, indptr, indices, state.codes, state.laws, state.classes, state.slots)
        for at in range(indptr[c], indptr[c + 1]):
            rows[indices[at], VALUE] -= float(k * steps[i] * entries[at])
