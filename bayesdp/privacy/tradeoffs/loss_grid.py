"""Privacy losses of one pair of laws on a grid, rounded to the safe side and to the other.

A trade-off function f is replaced by two laws on the losses ``j h``. From below by the largest of the lines of f with slopes
``exp(j h)``: it touches f at every slope of the grid, so that its error is of second order in h where the losses are spread out, and
of first order at atoms ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, 2022). From above by rounding every
loss down, which is of first order.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laplace import LaplaceTradeOff
from bayesdp.privacy.tradeoffs.laws import GaussianTradeOff
from bayesdp.privacy.tradeoffs.levels import Floats
from bayesdp.privacy.tradeoffs.profile import as_pair, stationary

LARGEST = 700.0
"""Privacy losses are cut at +-700: exp of more overflows."""
_TAIL = 9.0
"""Normal quantile: losses of probability below 1e-19 are cut off a curved function, to the safe side."""
_NEGLIGIBLE = 1e-19
"""Mass of the alternative that the largest loss of a curved function may leave out."""
_FAR = 37.5
"""Normal quantile below which levels underflow."""


def loss_range(f: TradeOff) -> tuple[float, float]:
    """Smallest and largest finite privacy loss ``log(-f')``, within +-700."""
    if f._piecewise_linear:
        pair = as_pair(f)
        p, q = np.array(pair.p), np.array(pair.q)
        losses = np.log(q[q > 0.0]) - np.log(p[q > 0.0])
        if not losses.size:
            return 0.0, 0.0
    else:
        start, low, high = float(f.power(0.0)), -_FAR, 0.0
        while high - low > 0.01:  # the type I error below which the alternative has next to no mass either
            middle = 0.5 * (low + high)
            enough = float(f.power(float(ndtr(middle)))) - start > _NEGLIGIBLE
            low, high = (low, middle) if enough else (middle, high)
        ends = np.array([min(low, -_TAIL), _TAIL])
        with np.errstate(divide="ignore"):
            losses = np.log(f._slope(ndtr(ends), ndtr(-ends)))
    return max(float(losses.min()), -LARGEST), min(float(losses.max()), LARGEST)


def rounded(f: TradeOff, h: float, pessimistic: bool) -> tuple[int, Floats, float]:
    """The alternative on the losses ``j h``: the smallest j, the masses from there on, and that on infinity.

    Parameters
    ----------
    f : TradeOff
        Of the pair of laws.
    h : float
        Width of the grid.
    pessimistic : bool
        Whether the pair is at least as hard to tell apart as these masses ("connect the dots"). Otherwise every loss is rounded
        down, and the pair is at least as easy to tell apart as these masses.
    """
    low, high = loss_range(f)
    j = np.arange(math.floor(low / h), math.ceil(high / h) + 2)  # one more: exp(h j) may be rounded down
    losses: Floats = np.asarray(h * j, dtype=np.float64)
    gamma = np.exp(losses)
    mass = np.zeros(j.size)
    if f._piecewise_linear:
        pair = as_pair(f)
        p, q, infinite = np.array(pair.p), np.array(pair.q), pair.start
        p, q = p[q > 0.0], q[q > 0.0]
        cell = np.clip(np.searchsorted(gamma, q / p, side="right") - 1, 0, max(j.size - 2, 0))
        beyond = q > gamma[-1] * p  # steeper than the largest loss: possible only at the limit of 700
        infinite, top = (infinite + math.fsum(q[beyond]), 0.0) if pessimistic else (infinite, math.fsum(q[beyond]))
        p, q, cell = p[~beyond], q[~beyond], cell[~beyond]
        bottom = 0.0
    else:
        a, power = _at_slopes(f, losses)  # a falls in j; between two grid points the slope is between gammas
        p, q = -np.diff(a), -np.diff(power)
        cell = np.arange(p.size)
        infinite = float(f.power(0.0))
        bottom, top = 1.0 - power[0], power[-1] - infinite
        if pessimistic:
            infinite, top = infinite + top, 0.0
        else:
            bottom = 0.0  # losses rounded down to minus infinity
    mass[0] += bottom
    mass[-1] += top
    if pessimistic and j.size > 1:
        # Part of the null mass to each neighbour, so that both laws keep their totals: what the lines of slope gamma do.
        above = np.clip((q - gamma[cell] * p) / (gamma[cell + 1] - gamma[cell]), 0.0, p)
        np.add.at(mass, cell, gamma[cell] * (p - above))
        np.add.at(mass, cell + 1, gamma[cell + 1] * above)
    else:
        np.add.at(mass, cell, q)
    return int(j[0]), mass, min(infinite, 1.0)


def _at_slopes(f: TradeOff, losses: Floats) -> tuple[Floats, Floats]:
    """Type I error and power of the test that rejects above each loss; in closed form where there is one."""
    if isinstance(f, GaussianTradeOff):
        return ndtr(-losses / f.mu - 0.5 * f.mu), ndtr(0.5 * f.mu - losses / f.mu)
    if isinstance(f, LaplaceTradeOff):
        return f.at_losses(losses)
    a, power, _ = stationary(f, np.exp(losses))
    return a, power
