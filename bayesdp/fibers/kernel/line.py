"""The law of a table along one direction, and an exact draw from it.

Along ``x + k u`` the log-density is

    L(k) = sum_i prior_i(x_i + k u_i) - sum_j rate_j |r_j - k c_j| - A k^2 / 2 + B k - sum_g rate_g |r_g - k c_g|_2
           + sum_j w_j(v_j + k c_j)

with r the residuals of the noisy rows, v their values, w tabulated log-masses and c = M u. Four ways to draw k, all exact:

* log-concave L (all priors but shapes below 1, all noise but some that is tabulated): tabulate weights outwards from
  k = 0 by ratio recursions until the rest is below 1e-17 of the total;
* log-concave and wide, or a start in a far tail: rejection from a flat centre with two geometric tails, which
  concavity makes an upper bound;
* rows that count once where they are about the same records: see `classes`;
* not log-concave: tabulate the whole feasible interval in log space; where that is too long, one slice-sampling
  update that starts from the whole interval and shrinks it (Neal 2003), which leaves the law invariant.
"""

from __future__ import annotations

import math

from bayesdp._jit import inlined
from bayesdp._random import uniform
from bayesdp.fibers.kernel.classes import close_classes, draw_joined, open_classes
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
    WINDOW_BENT,
    WINDOW_WEIGHT,
    ZERO,
    Line,
    State,
    X,
)
from bayesdp.fibers.kernel.weights import NEGLIGIBLE, SHORT, find_step, tabulate, tabulate_units
from bayesdp.fibers.kernel.wide import IMPROPER, draw_unrestricted, draw_wide


@inlined
def draw_step(family: int, concave: bool, state: State, line: Line, count: int) -> int:
    """Draw the step along the direction in ``line.cells`` and ``line.steps``, and take it."""
    # Changes the table, the values of the rows and the l2 residuals of the state, its generator, and the work space. `family`:
    # prior family, see `FAMILIES`. `concave`: whether the law is log-concave but for tabulated rows, which say so themselves.
    # `count`: number of cells of the direction. Returns the step k (0: the table stays as it is), or `IMPROPER`.
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
                up, total, rest = tabulate(ONE, high, UPWARDS, family, cells_int, cells_float, rows, groups, windows,
                                            tabulated, cells, steps,
                                            count, met, met_steps, rows_met, curvature, slope, moving, residuals, weights,
                                            1.0, negligible)  # fmt: skip
                if up >= 0:
                    down, total, more = tabulate(-ONE, -low, ZERO, family, cells_int, cells_float, rows, groups, windows,
                                            tabulated, cells, steps,
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
        groups[g, SQUARED] = max(
            groups[g, SQUARED] - 2.0 * k * groups[g, ALONG] + groups[g, ACROSS] * float(k) * k, 0.0
        )
    return k
