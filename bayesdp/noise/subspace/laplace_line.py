"""Integrals of ``exp(-sum_i |u_i + r_i w| / b)`` over a line, with gradient, and draws from such a density.

The exponent is piecewise linear in w: its knots are ``-u_i / r_i``, and at each knot the slope grows by
``2 |r_i| / b``. So the integral is a sum of closed-form pieces after one sort. The exponent is measured from
its lowest knot, the weighted median, and grows outwards from there: only numbers of one sign are added, nothing
overflows, ties need no care. Gao, Gong and Yu (2022), Section 3.4, leave this density open.

With B pieces of mass ``M_j`` and F the share of the mass to the left of a knot, the derivative with respect to
``u_i`` is ``-sign(r_i) (1 - 2 F(-u_i / r_i)) / b``; it is continuous, so ties and kinks need no choice.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import exponential, uniform

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_NEGLIGIBLE = 50.0
"""Pieces beyond a knot that lies this much below the peak are left out.

They hold less than ``exp(-50) = 2e-22`` of the whole: the exponent is convex, so with h its rise at a knot at
distance l from the peak, what is beyond is at most ``exp(-h) l / h`` and what is before at least
``(1 - exp(-h)) l / h``.
"""

_LARGE = 256  # knots from which NumPy's vectorised sort beats numba's, the call out of compiled code included


@nb.njit(cache=True, error_model="numpy")
def order_of(knots: Floats) -> Ints:
    """Indices that sort the knots."""
    if len(knots) < _LARGE:
        return np.argsort(knots)
    with nb.objmode(order="int64[::1]"):
        order = np.argsort(knots)
    return order


@nb.njit(cache=True, error_model="numpy")
def _pieces(knots: Floats, weights: Floats, order: Ints, b: float, masses: Floats) -> tuple[float, float, int, int]:
    """Integrate between sorted knots: piece j ends at knot `order[j]`, the last one is the right tail."""
    # Returns the knot where the density peaks; the sum of the masses, in units of the density there; and the first and last of the
    # knots, in order, between which all of the mass is, but for tails that begin at the outermost knots. Knots that are not between
    # them differ from both.
    count = len(order)
    whole = 0.0
    for i in range(count):
        whole += weights[i]
    masses[: count + 1] = 0.0
    below, middle = weights[order[0]], 0
    while middle < count - 1 and 2.0 * below < whole:
        middle += 1
        below += weights[order[middle]]
    centre = knots[order[middle]]
    total = 0.0
    first, last = middle, middle
    for side in (1, -1):
        # Slope of the exponent on the way out; multiples of 1 / b, so it is exact up to one rounding.
        turn = 2.0 * below - whole if side == 1 else whole - 2.0 * (below - weights[order[middle]])
        at, here, rise, density = middle, centre, 0.0, 1.0
        while rise <= _NEGLIGIBLE:
            slope = turn / b
            following = at + side
            piece = at + 1 if side == 1 else at
            if following < 0 or following == count:
                masses[piece] = density / slope
                total += masses[piece]
                break
            there = knots[order[following]]
            gap = side * (there - here)
            step = gap * slope
            if step > 1e-280:
                change = math.expm1(-step)
                masses[piece] = -density * change / slope
                density += density * change
                rise += step
            else:  # a flat piece, or a tie
                masses[piece] = density * gap
            total += masses[piece]
            at, here = following, there
            turn += 2.0 * weights[order[at]]
        first, last = min(first, at), max(last, at)
    while first > 0 and knots[order[first - 1]] == knots[order[first]]:
        first -= 1
    while last < count - 1 and knots[order[last + 1]] == knots[order[last]]:
        last += 1
    return centre, total, first, last


@nb.njit(cache=True, error_model="numpy")
def blocks_density(
    u: Floats, b: float, starts: Ints, cells: Ints, entries: Floats, gradient: Floats
) -> tuple[float, float]:
    """Log-density of projected Laplace noise whose constraints are single rows on disjoint cells."""
    # `u`, shape (cells,): noise; what it has off the subspace is ignored. `starts`, shape (blocks + 1,): where the blocks start in
    # `cells`; those from `starts[-1]` on are in none. `cells`, `entries`, shape (cells,): the cells of each block, and their
    # entries in its row (not zero). `gradient`, shape (cells,): filled with the derivative in u. Returns `value`, without the
    # constant `sum over blocks of log ||row||`; `derivative`, in b.
    blocks = len(starts) - 1
    longest = 0
    for block in range(blocks):
        longest = max(longest, starts[block + 1] - starts[block])
    knots, weights, masses = np.empty(longest), np.empty(longest), np.empty(longest + 1)
    value, along = -len(cells) * math.log(2.0 * b), 0.0
    for block in range(blocks):
        first = starts[block]
        count = starts[block + 1] - first
        for i in range(count):
            knots[i] = -u[cells[first + i]] / entries[first + i]
            weights[i] = abs(entries[first + i])
        order = order_of(knots[:count])
        centre, total, low, high = _pieces(knots, weights, order, b, masses)
        # Most knots of a long block have all of the mass on one side: a pass in the order of the cells for those, because
        # going through a long block in the order of its knots would miss the cache at every step.
        below, above = knots[order[low]], knots[order[high]]
        depth, left = 0.0, 0.0
        for i in range(count):
            distance = weights[i] * abs(knots[i] - centre)
            depth += distance
            if knots[i] < below or knots[i] > above:
                along -= distance
                gradient[cells[first + i]] = (
                    (-entries[first + i] if knots[i] < below else entries[first + i]) / weights[i] / b
                )
        for j in range(low, high + 1):
            i = order[j]
            left += masses[j]
            balance = 1.0 - 2.0 * (left / total)
            gradient[cells[first + i]] = (-balance if entries[first + i] > 0.0 else balance) / b
            along += weights[i] * (knots[i] - centre) * balance
        value += math.log(total) - depth / b
    for i in range(starts[blocks], len(cells)):
        own = u[cells[i]]
        value -= abs(own) / b
        along -= abs(own)
        gradient[cells[i]] = -np.sign(own) / b
    # The law at b is that at 1 stretched b times, so the derivative in b is -(n + u . gradient) / b.
    return value, -(len(cells) - blocks + along / b) / b


@nb.njit(cache=True, error_model="numpy")
def line_integrals(offsets: Floats, entries: Floats, b: float) -> Floats:
    """Logarithms of the integrals of ``exp(-sum_i |u_i + r_i w| / b)`` over w, for many u."""
    # `offsets`, shape (many, cells): the u. `entries`, shape (cells,): the r; zeros are allowed, but not everywhere.
    used = np.flatnonzero(entries)
    weights = np.abs(entries[used])
    knots, masses = np.empty(len(used)), np.empty(len(used) + 1)
    out = np.empty(len(offsets))
    for k in range(len(offsets)):
        depth = 0.0
        for i in range(len(entries)):
            if entries[i] == 0.0:
                depth += abs(offsets[k, i])
        for i in range(len(used)):
            knots[i] = -offsets[k, used[i]] / entries[used[i]]
        centre, total, _, _ = _pieces(knots, weights, order_of(knots), b, masses)
        for i in range(len(used)):
            depth += weights[i] * abs(knots[i] - centre)
        out[k] = math.log(total) - depth / b
    return out


@nb.njit(cache=True, error_model="numpy")
def draw_on_line(knots: Floats, weights: Floats, b: float, masses: Floats, generator: npt.NDArray[np.uint64]) -> float:
    """Draw w with density proportional to ``exp(-sum_i weight_i |w - knot_i| / b)``, exactly."""
    # `knots`, `weights`, shape (cells,). `masses`, shape (cells + 1 at least,): scratch. `generator`, shape (4,): state of the
    # random generator, see `bayesdp._random`.
    count = len(knots)
    order = order_of(knots)
    _, total, _, _ = _pieces(knots, weights, order, b, masses)
    left = uniform(generator) * total
    piece = 0
    while piece < count and left >= masses[piece]:
        left -= masses[piece]
        piece += 1
    slope = 0.0
    for j in range(count):
        slope += weights[order[j]] if j < piece else -weights[order[j]]
    slope /= b
    if piece == 0 or piece == count:
        end: float = knots[order[max(piece - 1, 0)]]
        return end + exponential(generator) / slope
    # Inside, a truncated exponential that falls away from one end.
    low: float = knots[order[piece - 1]]
    high: float = knots[order[piece]]
    gap = high - low
    step = gap * abs(slope)
    share = uniform(generator)
    if step > 1e-280:
        share = -math.log1p(share * math.expm1(-step)) / step
    return low + gap * share if slope >= 0.0 else high - gap * share
