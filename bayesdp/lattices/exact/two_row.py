"""The probability that two rows of noise, each with sum zero, add up to given columns.

For two independent rows with mass ``exp(-epsilon ||a||_1)`` and sum zero, and column sums S,

    q(S) = sum over a with sum zero of exp(-epsilon (||a||_1 + ||S + a||_1))
         = (1 / 2 pi) integral over the circle of prod_j psi_{S_j}(t) dt,
    psi_s(t) = sum over a of exp(-epsilon (|a| + |s + a|) + i t (a + s/2)),

which has, with ``x = exp(-2 epsilon)`` and s >= 0, the closed form

    exp(-epsilon s) [ sin((s+1) t/2) / sin(t/2) + 2 x (cos((s/2 + 1) t) - x cos(s t/2)) / (1 - 2 x cos t + x**2) ].

The mean over M equal steps in place of the integral adds the a whose sum is another multiple of M. By the
inequality of Cauchy and Schwarz these have at most the mass that they have for S = 0, which `two_row` keeps
below 1e-17 of the whole. By the same inequality ``q(S) <= q(0)``; and because ``||a|| + ||S + a|| >= ||S||``,

    q(S) <= exp(-(1 - theta) epsilon ||S||_1) P_{c-1}(coth 2 theta epsilon)   for every theta in (0, 1],

P_{c-1}(coth 2 epsilon) = q(0), c the number of columns: a bound that saves most evaluations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp.lattices.exact.fixed_sum import log_normaliser

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

MOST_NODES = 1 << 13
"""Largest M."""

_ALIASED = 1e-17
"""Share of the mass that other multiples of M may have."""

_THETAS = np.array([0.15, 0.3, 0.45, 0.6, 0.75, 0.9])


@dataclass(frozen=True, eq=False)
class TwoRow:
    """Tables for `two_row_ratio`."""

    sines: Floats  # with `cosines`: of ``pi k / M``, shape (2 M,)
    cosines: Floats
    log_zero: float  # ``log q(0)``
    # Slope and offset of the bounds on ``log q(S) / q(0)`` as functions of ``||S||_1``, shape (thetas, 2).
    bounds: Floats


def two_row(columns: int, epsilon: float) -> TwoRow | None:
    """Prepare to evaluate q; None where more than `MOST_NODES` nodes would be needed.

    Examples
    --------
    >>> print(f"{two_row(4, 0.25).log_zero:.6f}")  # P_3(coth 0.5)
    3.094985
    """
    log_zero = log_normaliser(columns, 2.0 * epsilon)
    nodes = _nodes(columns, epsilon, log_zero)
    if nodes is None:
        return None
    angles = math.pi * np.arange(2 * nodes) / nodes
    offsets = [log_normaliser(columns, 2.0 * theta * epsilon) - log_zero for theta in _THETAS]
    bounds = np.stack([-(1.0 - _THETAS) * epsilon, np.array(offsets)], axis=1)
    return TwoRow(np.sin(angles), np.cos(angles), log_zero, bounds)


def _nodes(columns: int, epsilon: float, log_zero: float) -> int | None:
    """How many nodes keep the aliased mass small: by Markov's inequality, for the best of many slopes."""
    # Mass of sum(a) = m with S = 0 is below e**(-slope m) times the c-th power of the sum over a of
    # e**(-2 epsilon |a| + slope a) = sinh(2 epsilon) / (cosh 2 epsilon - cosh slope), for every slope < 2 epsilon.
    rate = 2.0 * epsilon
    slopes = rate * np.linspace(0.05, 0.999, 200)
    # cosh(rate) - cosh(slope) and sinh(rate), both divided by e**rate, so that nothing overflows
    gap = 0.5 * (1.0 + np.exp(-2.0 * rate) - np.exp(slopes - rate) - np.exp(-slopes - rate))
    masses = columns * (np.log(-0.5 * np.expm1(-2.0 * rate)) - np.log(gap))
    # Both signs and all multiples together are below four times the first.
    needed = (masses - log_zero - math.log(_ALIASED) + math.log(4.0)) / slopes
    nodes = max(8, math.ceil(float(needed.min())), math.ceil(1.0 / rate))
    return nodes if nodes <= MOST_NODES else None


@nb.njit(cache=True, error_model="numpy")
def two_row_bound(size: int, bounds: Floats) -> float:
    """An upper bound on ``log(q(S) / q(0))``, given ``||S||_1``."""
    best = 0.0
    for i in range(len(bounds)):
        best = min(best, bounds[i, 0] * size + bounds[i, 1])
    return best


@nb.njit(cache=True, error_model="numpy")
def two_row_ratio(
    sums: Ints, epsilon: float, sines: Floats, cosines: Floats, log_zero: float, products: Floats
) -> float:
    """``q(S) / q(0)`` for column sums S; `products` is scratch, as long as half of `sines`.

    The angles t/2 are the multiples of pi / M, so that every sine and cosine is in the tables. The product is the
    same at t and -t: the sum of all S is zero, hence even.
    """
    x = math.exp(-2.0 * epsilon)
    steps = len(sines)
    nodes = steps // 2
    half = nodes // 2
    products[: half + 1] = 1.0
    for j in range(len(sums)):
        s = abs(sums[j])
        flat, near = (s + 1) % steps, (s + 2) % steps
        middle_step = s % steps
        at_flat, at_near, at_own = 0, 0, 0
        decay = math.exp(-epsilon * s)
        for k in range(half + 1):
            middle = sines[at_flat] / sines[k] if k > 0 else s + 1.0
            tail = 2.0 * x * (cosines[at_near] - x * cosines[at_own]) / (1.0 - 2.0 * x * cosines[2 * k] + x * x)
            products[k] *= decay * (middle + tail)
            at_flat += flat
            at_flat -= steps if at_flat >= steps else 0
            at_near += near
            at_near -= steps if at_near >= steps else 0
            at_own += middle_step
            at_own -= steps if at_own >= steps else 0
    total = products[0]
    for k in range(1, half + 1):
        # Every node but the first stands for two, and the one opposite to it, if there is one, for itself.
        total += products[k] if 2 * k == nodes else 2.0 * products[k]
    return float(total / nodes * math.exp(-log_zero))
