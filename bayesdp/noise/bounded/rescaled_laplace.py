"""The law of noisy proportions that were divided by their sum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp._validate import choice, finite_array
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import located, positive_scale
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.noise.bounded.laplace import BoundaryInflatedLaplace, TruncatedLaplace
from bayesdp.noise.independent.laws import Laplace

RULES = ("truncated", "boundary-inflated")
"""How noisy proportions are kept between 0 and 1 before they are divided by their sum."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_FAR = 45.0
"""exp(-45) is 3e-20: what is left out on one side of a maximum."""
_TIE = 1.0 - 1e-13
"""Shares of equal values are equal floats; those that came through a file may have lost a digit."""
EVEN = 1e-9
"""The sum of shares may be so far from 1: they may come from text with nine digits."""


@dataclass(frozen=True, eq=False)
class RescaledLaplace(NoiseLaw):
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

    ========  ===============================================
    Support   shares from 0 to 1 that add up to 1
    Mean      no closed form
    Variance  no closed form: pictures simulate
    ========  ===============================================

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

    name = "rescaled-laplace"
    support = "simplex"
    family = "bounded"
    integer = False
    everywhere = True
    kernel_parameters = ("b",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_scale(self.b, "b"))
        choice(self.rule, RULES, "rule")

    @cached_property
    def raw(self) -> TruncatedLaplace | BoundaryInflatedLaplace:
        """The law of the values before they are divided by their sum."""
        kind = TruncatedLaplace if self.rule == "truncated" else BoundaryInflatedLaplace
        return kind(self.b, (0.0, 1.0))

    @property
    def limits(self) -> tuple[float, float]:
        """0 and 1."""
        return 0.0, 1.0

    def refusal(self, values: npt.ArrayLike) -> str:
        """Whether they are no vector of shares that add up to 1, or have zeros under truncation; see `NoiseLaw.refusal`."""
        shares = proportions(values, "values")
        total = float(shares.sum())
        if shares.ndim != 1:
            return f"values of the law {self.name!r} must be one vector of shares, got shape {shares.shape}"
        if abs(total - 1.0) >= EVEN:
            return f"values must add up to 1 under the law {self.name!r}, as shares do, but add up to {total!r}"
        if self.rule == "truncated" and not np.all(shares > 0.0):
            return f"values must be greater than 0 under the law {self.name!r} with the rule 'truncated', which has no atom at 0"
        return ""

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Draw shares around confidential proportions, the categories along the last axis. See `NoiseLaw.draw`.

        Parameters
        ----------
        rng, size, invariants
            As for `NoiseLaw.draw`.
        shape : tuple of int
            Shape of the shares, (..., categories).
        location : array_like, optional
            Proportions, of that shape or one that spreads over it; equal ones by default.
        """
        centre = proportions(located(1.0 / shape[-1] if location is None else location, shape), "location")
        drawn = np.asarray(self.raw.draw(rng, shape, size, location=centre), dtype=np.float64)
        total = drawn.sum(axis=-1, keepdims=True)
        return np.where(total > 0.0, drawn / np.where(total > 0.0, total, 1.0), 1.0 / shape[-1])

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Log-density of shares on their face of the simplex, of several vectors the sum; see `log_density`."""
        return float(np.sum(self.log_density(values, location)))

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
        r, mu = np.broadcast_arrays(proportions(shares, "shares"), proportions(location, "location"))
        valid = np.all(r >= 0.0, axis=-1) & (np.abs(r.sum(axis=-1) - 1.0) < EVEN)
        r = np.where(valid[..., None], r, 1.0 / r.shape[-1])
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(valid, self.log_kernel(np, r, mu, self.b, self.rule), -np.inf))

    @staticmethod
    def log_kernel(xp: Any, value: Any, mu: Any, b: Any, rule: str) -> Any:
        """Log-density of shares that add up to 1, given confidential proportions.

        Parameters
        ----------
        xp : module
            NumPy or PyTensor, see `bayesdp.noise.namespace`.
        value : float64 array or tensor variable, shape (..., categories)
            The shares, which decide on which face of the simplex the density is: no derivative with respect to them is right.
        mu : float64 array or tensor variable, shape (..., categories)
        b : float64 array or tensor variable, shape () or (categories,)
        rule : {"truncated", "boundary-inflated"}
        """
        positive = value > 0.0
        if rule == "truncated":
            return xp.where(xp.all(positive, axis=-1), _smooth(xp, value, mu, b, rule), -np.inf)
        largest = xp.max(value, axis=-1, keepdims=True)
        top = value >= largest * _TIE
        ties = xp.sum(top, axis=-1)
        # The largest values are all at the upper bound.
        y = xp.where(top, 1.0, value / largest)
        found = xp.sum(BoundaryInflatedLaplace.log_kernel(xp, y, mu, b, 0.0, 1.0), axis=-1)
        found = found - (xp.sum(positive & ~top, axis=-1) + 1.0) * xp.log(largest[..., 0]) - xp.log(1.0 * ties)
        found = xp.logaddexp(found, xp.where(ties < 2, _smooth(xp, value, mu, b, rule), -np.inf))
        # Where all are equal, all values may be at the lower bound as well.
        nothing = xp.sum(Laplace.log_cdf_kernel(xp, 0.0, mu, b), axis=-1)
        return xp.logaddexp(found, xp.where(xp.all(top, axis=-1), nothing, -np.inf))


def _smooth(xp: Any, r: Any, mu: Any, b: Any, rule: str) -> Any:
    """Logarithm of the integral over the sum of the values."""
    positive = r > 0.0
    power = (xp.sum(positive, axis=-1) - 1.0)[..., None]
    most = 1.0 / xp.max(r, axis=-1, keepdims=True)
    slope = r / b  # 0 for shares of 0, which drop out
    kinks = xp.where(positive, xp.clip(mu / xp.where(positive, r, 1.0), 0.0, most), most)
    edges = xp.concatenate([0.0 * most, xp.sort(kinks, axis=-1), most], axis=-1)
    low, high = edges[..., :-1], edges[..., 1:]
    # Right of its kink a factor falls, left of it it rises.
    middle = 0.5 * (low + high)[..., None, :]
    c = xp.sum(xp.where(middle * r[..., None] < mu[..., None], 1.0, -1.0) * slope[..., None], axis=-2)
    start, end = _that_matters(xp, low, high, c, power)
    half = xp.maximum(0.5 * (end - start), 1e-300)
    s = start[..., None] + half[..., None] * (1.0 + _NODES)
    terms = xp.log(half)[..., None] + np.log(_WEIGHTS) + power[..., None] * xp.log(xp.maximum(s, 1e-300))
    centre = xp.where(positive, mu / b, 0.0)
    if xp is np:  # one category at a time, to keep the arrays small
        for j in range(r.shape[-1]):
            terms = terms - np.abs(slope[..., j, None, None] * s - centre[..., j, None, None])
    else:
        terms = terms - xp.sum(xp.abs(slope[..., None, None, :] * s[..., None] - centre[..., None, None, :]), axis=-1)
    peak = xp.max(terms, axis=(-2, -1))
    total = peak + xp.log(xp.sum(xp.exp(terms - peak[..., None, None]), axis=(-2, -1)))
    if rule == "truncated":
        return total + xp.sum(TruncatedLaplace.log_kernel(xp, mu, mu, b, 0.0, 1.0), axis=-1)
    return total + xp.sum(xp.where(positive, -xp.log(2.0 * b), Laplace.log_cdf_kernel(xp, 0.0, mu, b)), axis=-1)


def _that_matters(xp: Any, low: Any, high: Any, c: Any, power: Any) -> tuple[Any, Any]:
    """The part of a piece where ``s**power exp(c s)`` is not negligible against its maximum there; it is log-concave."""
    # Derivatives of the logarithm at the two ends; divisors are kept off 0.
    falls, rises = (power / xp.maximum(end, 1e-200) + c for end in (low, high))
    steep, spread = xp.maximum(xp.abs(c), 1e-200), xp.sqrt(2.0 * _FAR * power)
    peak = xp.where(rises >= 0.0, high, xp.where(falls <= 0.0, low, power / steep))
    left = xp.where(rises >= 0.0, _FAR / xp.maximum(rises, 1e-200), spread / steep)
    right = xp.where(falls <= 0.0, _FAR / xp.maximum(-falls, 1e-200), (spread + _FAR) / steep)
    return xp.maximum(low, peak - left), xp.minimum(high, peak + right)


def proportions(values: Any, argument: str) -> Floats:
    """Accept finite numbers with two categories or more along the last axis."""
    array = np.asarray(finite_array(values, argument), dtype=np.float64)
    if array.ndim < 1 or array.shape[-1] < 2:
        raise ValueError(
            f"{argument} must have two categories or more along the last axis, got an array of shape {array.shape}"
        )
    return array
