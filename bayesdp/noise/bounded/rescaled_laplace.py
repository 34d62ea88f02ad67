"""The law of noisy proportions that were divided by their sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp._validate import choice, finite_array
from bayesdp.noise._arrays import positive_scale
from bayesdp.noise.base import Floats
from bayesdp.noise.bounded.boundary_inflated_laplace import BoundaryInflatedLaplace
from bayesdp.noise.bounded.truncated_laplace import TruncatedLaplace

__all__ = ["RULES", "RescaledLaplace"]

RULES = ("truncated", "boundary-inflated")
"""How noisy proportions are kept between 0 and 1 before they are divided by their sum."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_FAR = 45.0
"""exp(-45) is 3e-20: what is left out on one side of a maximum."""
_TIE = 1.0 - 1e-13
"""Shares of equal values are equal floats; those that came through a file may have lost a digit."""
_EVEN = 1e-9


@dataclass(frozen=True, eq=False)
class RescaledLaplace:
    r"""Shares ``y / sum(y)`` of independent Laplace values y around the confidential proportions, kept within 0 and 1.

    Where y has no value at a bound, the shares r have the density, in all of them but one,

    .. math:: f(r) = \int_0^{1/\max r} s^{k-1} \prod_j f_j(s r_j)\, ds

    over the sum s of y, with k the number of positive shares. Clipping (the BIT rule) puts atoms on the bounds, and so
    mass on faces of the simplex. A share of exactly 0 comes from the lower bound, and contributes the probability of its
    atom in place of a factor ``f_j``; the density is then that on the face of the other shares. Values at the upper
    bound are ties: where t shares tie at the largest share m, with t >= 2, those values were all 1, the sum was 1/m, and
    the density in the i other positive shares is ``m^-(i+1) / t`` times the probabilities of the atoms and the densities of
    ``r / m``; i = 0 leaves a probability. Where one share is the largest, the same with t = 1 is added to the integral.
    All values 0 have no shares: equal ones are published, and their probability is added to that of all values 1.

    The integrand is a power times an exponential between kinks at ``mu / r``: Gauss-Legendre quadrature in each piece, on
    the part of it that matters, has errors near 1e-14 relative to the result.

    Parameters
    ----------
    b : float or array_like, shape (categories,)
        Scale of the noise.
    rule : {"truncated", "boundary-inflated"}

    Raises
    ------
    ValueError
        If b is not positive and finite, or the rule is another.

    Notes
    -----
    Two values that agree on the grid of a release between the bounds are read as a tie at the bound if they are also the
    largest: an event of probability below 1e-5 at the grids that mechanisms use.

    References
    ----------
    Liu (2019), Section 4.2; the law is derived here.

    Examples
    --------
    >>> law = RescaledLaplace(0.1, "boundary-inflated")
    >>> print(f"{law.log_density([0.3, 0.7], [0.25, 0.75]):.6f}")
    1.287090
    >>> print(f"{np.exp(law.log_density([0.0, 1.0], [0.05, 0.95])):.6f}")  # a vertex: a probability
    0.303254
    """

    b: float | Floats
    rule: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_scale(self.b, "b"))
        choice(self.rule, RULES, "rule")

    @cached_property
    def raw(self) -> TruncatedLaplace | BoundaryInflatedLaplace:
        """The law of the values before they are divided by their sum."""
        kind = TruncatedLaplace if self.rule == "truncated" else BoundaryInflatedLaplace
        return kind(self.b, (0.0, 1.0))

    def draw(self, rng: _validate.Seed, location: npt.ArrayLike, size: int | None = None) -> Floats:
        """Draw shares around confidential proportions of shape (..., categories); with `size`, so many of each first."""
        centre = _proportions(location, "location")
        drawn = np.asarray(self.raw.draw(rng, centre.shape, size, location=centre), dtype=np.float64)
        total = drawn.sum(axis=-1, keepdims=True)
        return np.where(total > 0.0, drawn / np.where(total > 0.0, total, 1.0), 1.0 / centre.shape[-1])

    def log_density(self, shares: npt.ArrayLike, location: npt.ArrayLike) -> Floats:
        """Log-density of shares on their face of the simplex, given confidential proportions.

        Parameters
        ----------
        shares, location : array_like, shape (..., categories)
            Broadcast against one another.

        Returns
        -------
        numpy.ndarray, shape (...)
            With respect to Lebesgue measure in all free shares but one; ``-inf`` where shares are negative or do not add
            up to 1 (to 1e-9), and for zeros under truncation.
        """
        r, mu = np.broadcast_arrays(_proportions(shares, "shares"), _proportions(location, "location"))
        b = np.broadcast_to(np.asarray(self.b), r.shape)
        valid = np.all(r >= 0.0, axis=-1) & (np.abs(r.sum(axis=-1) - 1.0) < _EVEN)
        r = np.where(valid[..., None], r, 1.0 / r.shape[-1])
        positive = r > 0.0
        top = r >= r.max(axis=-1, keepdims=True) * _TIE
        ties = top.sum(axis=-1)
        with np.errstate(divide="ignore"):
            if self.rule == "truncated":
                found = np.where(np.all(positive, axis=-1), self._smooth(r, mu, b), -np.inf)
            else:
                found = np.logaddexp(
                    np.where(ties == 1, self._smooth(r, mu, b), -np.inf), self._at_the_top(r, mu, b, top)
                )
                nothing = np.sum(self.raw.log_kernel(np, np.zeros_like(r), mu, b, *_edges(r)), axis=-1)
                found = np.where(ties == r.shape[-1], np.logaddexp(found, nothing), found)
        return np.asarray(np.where(valid, found, -np.inf))

    def _inner(self, y: Floats, mu: Floats, b: Floats) -> Floats:
        """Log-density of values strictly between the bounds."""
        if self.rule == "truncated":
            return self.raw.log_kernel(np, y, mu, b, *_edges(y))
        return -np.abs(y - mu) / b - np.log(2.0 * b)

    def _at_the_top(self, r: Floats, mu: Floats, b: Floats, top: npt.NDArray[np.bool_]) -> Floats:
        """The part of the law where the largest values are all at the upper bound."""
        largest = r.max(axis=-1, keepdims=True)
        y = np.where(top, 1.0, np.where(r > 0.0, r / largest, 0.0))
        at_bounds = self.raw.log_kernel(np, y, mu, b, *_edges(r))
        free = (r > 0.0) & ~top
        each = np.where(free, self._inner(y, mu, b), at_bounds)
        i = free.sum(axis=-1)
        return np.asarray(each.sum(axis=-1) - (i + 1) * np.log(largest[..., 0]) - np.log(top.sum(axis=-1)))

    def _smooth(self, r: Floats, mu: Floats, b: Floats) -> Floats:
        """Logarithm of the integral over the sum of the values."""
        positive = r > 0.0
        power = np.asarray(positive.sum(axis=-1)[..., None] - 1.0, dtype=np.float64)
        most = 1.0 / r.max(axis=-1, keepdims=True)
        slope = r / b  # 0 for shares of 0, which drop out
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = np.sort(np.where(positive, np.clip(mu / np.where(positive, r, 1.0), 0.0, most), most), axis=-1)
        edges = np.concatenate([np.zeros_like(most), kinks, most], axis=-1)
        low, high = edges[..., :-1], edges[..., 1:]
        # Right of its kink a factor falls, left of it it rises.
        middle = 0.5 * (low + high)[..., None, :]
        signs = np.where(middle * r[..., None] < mu[..., None], 1.0, -1.0)
        c = np.sum(signs * slope[..., None], axis=-2)
        start, end = _that_matters(low, high, c, power)
        half = 0.5 * (end - start)
        s = start[..., None] + half[..., None] * (1.0 + _NODES)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.log(half)[..., None] + np.log(_WEIGHTS)
            terms = terms + np.where(power[..., None] > 0.0, power[..., None] * np.log(s), 0.0)
        for j in range(r.shape[-1]):  # one category at a time, to keep the arrays small
            mine = slope[..., j, None, None] * s - (mu / b)[..., j, None, None]
            terms = terms - np.where(positive[..., j, None, None], np.abs(mine), 0.0)
        constant = np.where(positive, self._inner(mu, mu, b), self._zero(mu, b)).sum(axis=-1)
        return np.asarray(constant + np.logaddexp.reduce(terms.reshape(*terms.shape[:-2], -1), axis=-1))

    def _zero(self, mu: Floats, b: Floats) -> Floats:
        if self.rule == "truncated":
            return np.full_like(mu, -np.inf)
        return self.raw.log_kernel(np, np.zeros_like(mu), mu, b, *_edges(mu))

    def describe(self) -> dict[str, Any]:
        """The law as plain data."""
        b = self.b
        return {
            "name": "rescaled-laplace",
            "b": b if isinstance(b, float) else np.asarray(b).tolist(),
            "rule": self.rule,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RescaledLaplace) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(self.describe()))


def _that_matters(low: Floats, high: Floats, c: Floats, power: Floats) -> tuple[Floats, Floats]:
    """The part of a piece where ``s**power exp(c s)`` is not negligible against its maximum there; it is log-concave."""
    with np.errstate(divide="ignore", invalid="ignore"):
        falls = np.where(power > 0.0, power / low, 0.0) + c  # derivative of the logarithm at the lower end
        rises = np.where(power > 0.0, power / high, 0.0) + c
        spread, steep = np.sqrt(2.0 * _FAR * power), np.abs(c)
        peak = np.where(rises >= 0.0, high, np.where(falls <= 0.0, low, power / steep))
        left = np.where(rises > 0.0, _FAR / rises, np.where(rises == 0.0, math.inf, spread / steep))
        right = np.where(falls < 0.0, -_FAR / falls, np.where(falls == 0.0, math.inf, (spread + _FAR) / steep))
    return np.maximum(low, peak - left), np.minimum(high, peak + right)


def _edges(like: Floats) -> tuple[Floats, Floats]:
    return np.zeros_like(like), np.ones_like(like)


def _proportions(values: Any, argument: str) -> Floats:
    array = np.asarray(finite_array(values, argument), dtype=np.float64)
    if array.ndim < 1 or array.shape[-1] < 2:
        raise ValueError(
            f"{argument} must have two categories or more along the last axis, got an array of shape {array.shape}"
        )
    return array
