"""Canonical noise of any symmetric trade-off function, by recursion, and its second moment."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from bayesdp.privacy.tradeoffs.levels import Floats
from bayesdp.privacy.tradeoffs.noise import CanonicalNoise

if TYPE_CHECKING:
    from bayesdp.privacy.tradeoffs.base import TradeOff

__all__ = ["RecursiveNoise"]

_SMALLEST_DENSITY = 1e-12  # of the centre; below it f is 1 - alpha to double precision


@dataclass(frozen=True)
class RecursiveNoise(CanonicalNoise):
    """Canonical noise of any symmetric f by the recursion of Awan and Vadhan (paper 003, Lemma 36).

    Uniform between -1/2 and 1/2 with ``F(-1/2) = c = f(c)``, and ``F(x) = f(1 - F(x + 1))`` below. As f is
    convex every step shrinks the tail by at least ``c / (1 - c)``, so that the work stops when it is zero.

    Parameters
    ----------
    tradeoff : TradeOff
        A symmetric trade-off function other than 1 - alpha.

    Raises
    ------
    ValueError
        If it is not symmetric, or 1 - alpha up to 1e-12.
    """

    tradeoff: TradeOff
    _c: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.tradeoff.symmetric:
            raise ValueError(
                f"tradeoff must be symmetric (its own inverse) to have canonical noise, and {self.tradeoff!r} is not;"
                " see its method symmetrised()"
            )
        c = _fixed_point(self.tradeoff)
        if 1.0 - 2.0 * c < _SMALLEST_DENSITY:
            raise ValueError(f"tradeoff must differ from 1 - alpha: no noise attains that, but {self.tradeoff!r} does")
        object.__setattr__(self, "_c", c)

    def _start(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Steps k from z to the centre, ``z + k`` in (-1/2, 1/2], and both tails there, where F is linear."""
        steps = np.ceil(-z - 0.5)
        at, slope = z + steps, 1.0 - 2.0 * self._c
        return steps, self._c + slope * (at + 0.5), self._c + slope * (0.5 - at)

    def _walk(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Both tails and the density at z: k times ``F(x) = f(1 - F(x + 1))`` from the centre, densities by the chain rule."""
        left, low, high = (np.atleast_1d(part).reshape(-1).copy() for part in self._start(z))
        density = np.full(low.shape, 1.0 - 2.0 * self._c)
        going = np.flatnonzero((left > 0.0) & (low > 0.0))
        while going.size:
            density[going] *= self.tradeoff._slope(high[going], low[going])
            low[going], high[going] = self.tradeoff._errors(high[going], low[going])
            left[going] -= 1.0
            going = going[(left[going] > 0.0) & (low[going] > 0.0)]
        # A tail may have become zero within the centre's image of the last step, or steps earlier.
        density[low <= 0.0] = 0.0
        shape = np.shape(z)
        return low.reshape(shape), high.reshape(shape), density.reshape(shape)

    def _tails(self, z: Floats) -> tuple[Floats, Floats]:
        return self._walk(z)[:2]

    def _density(self, z: Floats) -> Floats:
        return self._walk(z)[2]

    def _log_tail(self, z: Floats) -> Floats:
        return self._log_walk(z)[0]

    def _log_density(self, z: Floats) -> Floats:
        return self._log_walk(z)[1]

    def _log_walk(self, z: Floats) -> tuple[Floats, Floats]:
        """Logarithms of the tail and of the density: no underflow, and one step for all that are left on a straight end."""
        left, low, _ = (np.atleast_1d(part).reshape(-1).copy() for part in self._start(z))
        with np.errstate(divide="ignore"):
            tail = np.log(low)
        density = np.full(low.shape, np.log(1.0 - 2.0 * self._c))
        end = self.tradeoff._linear_end()
        going = np.flatnonzero((left > 0.0) & (tail > -np.inf))
        while going.size:
            if end is not None:
                straight = going[tail[going] <= end[0]]
                tail[straight] += left[straight] * end[1]
                density[straight] += left[straight] * end[1]
                left[straight] = 0.0
                going = going[left[going] > 0.0]
            tail[going], step = self.tradeoff._log_step(tail[going])
            density[going] += step
            left[going] -= 1.0
            going = going[(left[going] > 0.0) & (tail[going] > -np.inf)]
        density[np.isneginf(tail)] = -np.inf
        return tail.reshape(np.shape(z)), density.reshape(np.shape(z))

    def var(self) -> float:
        """Variance: ``4`` times the integral of ``|x| F(x)`` over x < 0, cell by cell, split where F has kinks."""
        return recursive_variance(self)

    def _quantile(self, low: Floats) -> Floats:
        flat = np.atleast_1d(low).reshape(-1).copy()
        other = 1.0 - flat
        endless = self.tradeoff.power(0.0) == 0.0
        steps = np.zeros(flat.shape)
        going = np.flatnonzero((flat < self._c) & ~((flat == 0.0) & endless))
        while going.size:
            # A symmetric f is its own inverse: low = f(1 - next) means next = 1 - f(low).
            other[going], flat[going] = self.tradeoff._errors(flat[going], other[going])
            steps[going] += 1.0
            going = going[flat[going] < self._c]
        x = (flat - self._c) / (1.0 - 2.0 * self._c) - 0.5 - steps
        return np.where((np.asarray(low) == 0.0) & endless, -np.inf, x.reshape(np.shape(low)))


def _fixed_point(tradeoff: TradeOff) -> float:
    """Give the c in [0, 1/2] with ``f(c) = c``."""

    def excess(c: float) -> float:
        return float(tradeoff(c)) - c

    if excess(0.0) <= 0.0:
        return 0.0
    if excess(0.5) >= 0.0:
        return 0.5
    return float(brentq(excess, 0.0, 0.5, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=5000))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_PANELS = 16
"""Panels of each piece between two kinks, for trade-off functions that are curved there."""
_NEGLIGIBLE = 1e-18
"""The sum over cells ends where a cell adds less than this share."""


def recursive_variance(noise: RecursiveNoise) -> float:
    """Integrate ``4 |x| F(x)`` over the negative half line, cell by cell."""
    # `F(x) = f(1 - F(x + 1))` takes the nodes of one cell to those of the next, so that the work is linear in the number of cells.
    # If F has a kink at x it has one at `x - 1`; hence all kinks lie at the same places within their cells: where the quantiles of
    # the kinks of f lie. Between them Gauss's rule is exact for straight pieces. The relative error is about 1e-12 for piecewise
    # linear f and 1e-10 for smooth ones.
    f = noise.tradeoff
    kinks = f._kinks()
    kinks = kinks[(kinks > 0.0) & (kinks < 1.0)]
    at = np.asarray(noise.ppf(1.0 - kinks)) if kinks.size else np.empty(0)
    at = np.concatenate([at[np.isfinite(at)], -at[np.isfinite(at)], [float(noise.ppf(0.0))]])
    at = at[np.isfinite(at)]
    places = at - np.ceil(at - 0.5)  # to (-1/2, 1/2]
    panels = 1 if f._piecewise_linear else _PANELS
    edges = np.unique(np.concatenate([[-0.5, 0.0, 0.5], places]))
    fine = np.unique(np.concatenate([np.linspace(a, b, panels + 1) for a, b in itertools.pairwise(edges)]))
    centre, half = 0.5 * (fine[1:] + fine[:-1]), 0.5 * np.diff(fine)
    z = (centre[:, None] + half[:, None] * _NODES).reshape(-1)
    weight = (half[:, None] * _WEIGHTS).reshape(-1)
    low, high = noise._c + (1.0 - 2.0 * noise._c) * (z + 0.5), noise._c + (1.0 - 2.0 * noise._c) * (0.5 - z)
    total = _contribution(z, weight * (z < 0.0), low)
    while True:
        low, high = f._errors(high, low)
        z = z - 1.0
        more = _contribution(z, weight, low)
        total += more
        if more <= _NEGLIGIBLE * total or not np.any(low > 0.0):
            return 4.0 * total


def _contribution(z: Floats, weight: Floats, low: Floats) -> float:
    """The integral of ``|x| F(x)`` over one cell, by its nodes z and weights."""
    return float(np.sum(weight * -z * low))
