"""The law of one integer coordinate given all others, in closed form, with its mass: what exact Gibbs steps need.

Along ``z + k b`` with integer entries of b the mass of k is

* l1: ``exp(-rate sum_i |z_i + k b_i|)``, whose logarithm is linear between knots: pieces of geometric laws, summed
  in closed form; energies are exact integers;
* Gaussian: a discrete Gaussian around ``-<z, b> / ||b||**2`` with scale ``sigma / ||b||``;
* l2: ``exp(-rate sqrt(||b||**2 (k - c)**2 + rest))``, tabulated outwards from its centre c by its values until the
  rest is below ``exp(-40)`` of the largest.

`describe` fills a small array with what `draw` and `log_mass` then read, so that two laws can be compared: a
maximal coupling needs masses and not only draws.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import uniform
from bayesdp.lattices.coupling.basis_law import GAUSSIAN, L1
from bayesdp.lattices.exact.centred import centred_gaussian, mass_ratio

__all__ = ["describe", "draw", "log_mass", "new_pieces"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

# Row 0 describes the whole law; l1 laws have one piece in each of the rows after it.
TOTAL, LEAST, CENTRE, REST, PIECES = 0, 1, 2, 3, 4
WEIGHT, FROM, SIGN, SLOPE, COUNT = 0, 1, 2, 3, 4
KNOT, ENTRY, VALUE = 5, 6, 7  # scratch for the sort

_NEGLIGIBLE = 40.0


def new_pieces(widest: int) -> Floats:
    """Room for the description of a law along vectors with at most so many entries."""
    return np.zeros((widest + 2, 8))


@nb.njit(cache=True, error_model="numpy")
def _energy(k: int, z: Ints, cells: Ints, entries: Ints, start: int, stop: int) -> int:
    total = 0
    for at in range(start, stop):
        total += abs(z[cells[at]] + k * entries[at])
    return total


@nb.njit(cache=True, error_model="numpy")
def _describe_l1(rate: float, z: Ints, cells: Ints, entries: Ints, start: int, stop: int, pieces: Floats) -> None:
    # Knots -z/b, by the integer at or below each: insertion sort, since vectors are short.
    count, weight = stop - start, 0.0
    for i in range(count):
        value, entry = z[cells[start + i]], entries[start + i]
        if entry < 0:
            value, entry = -value, -entry
        knot = (-value) // entry
        weight += entry
        place = i
        while place > 0 and pieces[place, KNOT] > knot:
            pieces[place + 1, KNOT] = pieces[place, KNOT]
            pieces[place + 1, ENTRY] = pieces[place, ENTRY]
            pieces[place + 1, VALUE] = pieces[place, VALUE]
            place -= 1
        pieces[place + 1, KNOT], pieces[place + 1, ENTRY], pieces[place + 1, VALUE] = knot, entry, value
    energy = float(_energy(int(pieces[1, KNOT]), z, cells, entries, start, stop))
    least = energy
    # Piece 1: everything up to the first knot, counted from its right end.
    made = 1
    pieces[1, WEIGHT], pieces[1, FROM], pieces[1, SIGN] = energy, pieces[1, KNOT], -1.0
    pieces[1, SLOPE], pieces[1, COUNT] = weight, math.inf
    slope = -weight
    i = 1
    while i <= count:
        knot = pieces[i, KNOT]
        step, after = slope, slope
        while i <= count and pieces[i, KNOT] == knot:
            entry, value = pieces[i, ENTRY], pieces[i, VALUE]
            step += abs(value + (knot + 1.0) * entry) - abs(value + knot * entry) + entry
            after += 2.0 * entry
            i += 1
        energy += step
        slope = after
        # Integers knot + 1 .. end lie between the same knots.
        number = math.inf if i > count else pieces[i, KNOT] - knot
        made += 1
        last = energy + slope * (number - 1.0) if i <= count else energy
        falls = slope < 0.0
        pieces[made, WEIGHT] = last if falls else energy
        pieces[made, FROM] = knot + number if falls else knot + 1.0
        pieces[made, SIGN] = -1.0 if falls else 1.0
        pieces[made, SLOPE], pieces[made, COUNT] = abs(slope), number
        least = min(least, pieces[made, WEIGHT])
        energy = last
    total = 0.0
    for p in range(1, made + 1):
        steepness, number = rate * pieces[p, SLOPE], pieces[p, COUNT]
        share = number
        if steepness > 0.0 and number > 1.0:
            share = 1.0 / -math.expm1(-steepness)
            if number < math.inf:
                share *= -math.expm1(-steepness * number)
        pieces[p, WEIGHT] = math.exp(-rate * (pieces[p, WEIGHT] - least)) * share
        pieces[p, SLOPE] = steepness
        total += pieces[p, WEIGHT]
    pieces[0, TOTAL], pieces[0, LEAST], pieces[0, PIECES] = total, least, made


@nb.njit(cache=True, error_model="numpy")
def _draw_l1(generator: Words, pieces: Floats) -> int:
    left = uniform(generator) * pieces[0, TOTAL]
    p, made = 1, int(pieces[0, PIECES])
    while p < made and left >= pieces[p, WEIGHT]:
        left -= pieces[p, WEIGHT]
        p += 1
    steepness, number = pieces[p, SLOPE], pieces[p, COUNT]
    if number == 1.0:
        return int(pieces[p, FROM])
    u = uniform(generator)
    if steepness == 0.0:
        step = math.floor(u * number)
    else:
        rest = -math.expm1(-steepness * number) if number < math.inf else 1.0
        step = math.floor(-math.log1p(-u * rest) / steepness)
    return int(pieces[p, FROM] + pieces[p, SIGN] * min(step, number - 1.0))


@nb.njit(cache=True, error_model="numpy")
def _l2_weight(k: float, rate: float, square: float, centre: float, rest: float, least: float) -> float:
    return rate * (math.sqrt(square * (k - centre) * (k - centre) + rest) - least)


@nb.njit(cache=True, error_model="numpy")
def _describe_l2(rate: float, square: float, pieces: Floats) -> None:
    centre, rest = pieces[0, CENTRE], pieces[0, REST]
    mode = math.floor(centre + 0.5)
    least = math.sqrt(square * (mode - centre) * (mode - centre) + rest)
    total = 1.0
    for sign in (1.0, -1.0):
        k = mode + sign
        while True:
            minus = _l2_weight(k, rate, square, centre, rest, least)
            if minus > _NEGLIGIBLE:
                break
            total += math.exp(-minus)
            k += sign
    pieces[0, TOTAL], pieces[0, LEAST] = total, least


@nb.njit(cache=True, error_model="numpy")
def _draw_l2(generator: Words, rate: float, square: float, pieces: Floats) -> int:
    centre, rest, least = pieces[0, CENTRE], pieces[0, REST], pieces[0, LEAST]
    mode = math.floor(centre + 0.5)
    left = uniform(generator) * pieces[0, TOTAL] - 1.0
    # In the order of the distance from the centre, so that most draws end soon.
    sign = 1.0 if centre >= mode else -1.0
    step = 1.0
    while left >= 0.0:
        for side in (sign, -sign):
            minus = _l2_weight(mode + side * step, rate, square, centre, rest, least)
            if side == sign and minus > _NEGLIGIBLE:
                return int(mode)  # rounding of the total: probability about 1e-16
            left -= math.exp(-minus)
            if left < 0.0:
                return int(mode + side * step)
        step += 1.0
    return int(mode)


@nb.njit(cache=True, error_model="numpy")
def describe(law: int, scale: float, z: Ints, norm: int, cells: Ints, entries: Ints, start: int, stop: int, square: int,
             pieces: Floats) -> None:  # fmt: skip
    """Describe the law of k along ``z + k b``.

    Parameters
    ----------
    law, scale : int, float
        As in `BasisLaw.arrays`.
    z : int64 array, shape (cells,)
    norm : int
        ``||z||_2**2``; not read for l1.
    cells, entries : int64 arrays
        Of all basis vectors; b is what lies between `start` and `stop`.
    square : int
        ``||b||_2**2``.
    pieces : float64 array
        From `new_pieces`; the description.
    """
    if law == L1:
        _describe_l1(scale, z, cells, entries, start, stop, pieces)
        return
    along = 0
    for at in range(start, stop):
        along += z[cells[at]] * entries[at]
    pieces[0, CENTRE] = -along / square
    if law == GAUSSIAN:
        sigma = scale / math.sqrt(square)
        ratio = mass_ratio(pieces[0, CENTRE], sigma, math.exp(-2.0 * (math.pi * sigma) ** 2))
        # Up to the sum around zero, which is the same for all laws along b.
        pieces[0, TOTAL] = ratio
    else:
        pieces[0, REST] = max(norm - along * (along / square), 0.0)
        _describe_l2(scale, float(square), pieces)


@nb.njit(cache=True, error_model="numpy")
def draw(law: int, scale: float, square: int, pieces: Floats, generator: Words) -> int:
    """Draw k from a law that `describe` described."""
    if law == L1:
        return _draw_l1(generator, pieces)
    if law == GAUSSIAN:
        return centred_gaussian(generator, pieces[0, CENTRE], scale / math.sqrt(square))
    return _draw_l2(generator, scale, float(square), pieces)


@nb.njit(cache=True, error_model="numpy")
def log_mass(k: int, law: int, scale: float, z: Ints, cells: Ints, entries: Ints, start: int, stop: int, square: int,
             pieces: Floats) -> float:  # fmt: skip
    """Logarithm of the mass of k; for Gaussian laws up to a constant that all laws along b share."""
    minus = math.log(pieces[0, TOTAL])
    if law == L1:
        minus += scale * (_energy(k, z, cells, entries, start, stop) - pieces[0, LEAST])
    elif law == GAUSSIAN:
        distance = (k - pieces[0, CENTRE]) / scale
        minus += 0.5 * square * distance * distance
    else:
        minus += _l2_weight(k, scale, float(square), pieces[0, CENTRE], pieces[0, REST], pieces[0, LEAST])
    return -minus
