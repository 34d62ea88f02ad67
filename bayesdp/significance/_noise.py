"""Noise of a single count, as the tests need it, and the laws that are not in `bayesdp.privacy.canonical`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.noise.base import Floats
from bayesdp.privacy.tradeoffs import TradeOff
from bayesdp.privacy.tradeoffs.laws import ApproximateTradeOff, GaussianTradeOff

_MAX_SCALE = 1e5  # of a discrete Gaussian: its table of tails then has four million entries
_FAR = 1e300
_REACH = 39.0  # exp(-39**2 / 2) is below the smallest double


class Noise(Protocol):
    """Noise with a continuous distribution function, symmetric about 0."""

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function, accurate relative to itself in the lower tail."""


def in_words(tradeoff: TradeOff) -> str:
    """Name a trade-off function.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import approximate_dp
    >>> in_words(approximate_dp(1.0, 0.01))
    '(1, 0.01)-DP'
    """
    if isinstance(tradeoff, ApproximateTradeOff):
        return f"({tradeoff.epsilon:.10g}, {tradeoff.delta:.10g})-DP"
    if isinstance(tradeoff, GaussianTradeOff):
        return f"{tradeoff.mu:.10g}-GDP"
    return repr(tradeoff)


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise of scale b. Not canonical: the canonical noise of (1/b, 0)-DP is Tulap."""

    b: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", _validate.positive_real(self.b, "b"))

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        at = np.asarray(x, dtype=np.float64) / self.b
        low = 0.5 * np.exp(-np.abs(at))
        return np.where(at <= 0.0, low, 1.0 - low)


@dataclass(frozen=True)
class WiderNoise:
    """Noise times a number."""

    noise: Noise
    factor: float

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        return self.noise.cdf(np.asarray(x, dtype=np.float64) / self.factor)


@dataclass(frozen=True)
class LaplaceSumNoise:
    """Sum of four independent Laplace variables of scale b: the corner of a projected Laplace release, b a quarter of its.

    As the difference of two gamma variables of shape 4 its density is ``exp(-s) (15 + 15 s + 6 s**2 + s**3) / (96 b)``,
    ``s = |x| / b``.
    """

    b: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", _validate.positive_real(self.b, "b"))

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        at = np.asarray(x, dtype=np.float64) / self.b
        s = np.minimum(np.abs(at), 1e4)  # exp(-1e4) is 0; the powers must not overflow before that
        low = np.exp(-s) * (48.0 + s * (33.0 + s * (9.0 + s))) / 96.0
        return np.where(at <= 0.0, low, 1.0 - low)


@dataclass(frozen=True)
class DiscreteGaussianNoise:
    r"""Discrete Gaussian noise plus an independent U(-1/2, 1/2): canonical for the trade-off of its shift by 1.

    For any symmetric integer law with log-concave masses p, let f be the trade-off of p and p shifted by 1. The sum with
    the uniform has ``F(-1/2) = P(J < 0) = c``, ``f(c) = c`` in the convention of Dong, Roth and Su, is linear between -1/2
    and 1/2, and ``F(x - 1) = f(1 - F(x))``, because the likelihood ratio is monotone: randomised tests that reject for
    large J are the best ones, and the uniform is their randomisation. That is Lemma 36 of paper 003. Tulap noise is the
    case of geometric masses.

    Parameters
    ----------
    scale : float
        ``P(j) \propto exp(-j**2 / (2 scale**2))``.

    Raises
    ------
    NotImplementedError
        If the scale is above 1e5: the tails are kept as a table.
    """

    scale: float
    _mass: Floats = field(init=False, repr=False, compare=False)
    _tail: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scale = _validate.positive_real(self.scale, "scale")
        if scale > _MAX_SCALE:
            raise NotImplementedError(
                f"a discrete Gaussian corner of scale {scale:g} is above {_MAX_SCALE:g}, for which tails are not tabulated"
            )
        with np.errstate(over="ignore", under="ignore"):
            mass = np.exp(-0.5 * (np.arange(math.ceil(_REACH * scale) + 2) / scale) ** 2)
        beyond = np.cumsum(mass[::-1])[::-1]  # from the far end: small terms first
        total = beyond[0] + beyond[1]
        object.__setattr__(self, "_mass", mass / total)
        object.__setattr__(self, "_tail", np.append(beyond[1:], 0.0) / total)  # P(J > j)

    @property
    def masses(self) -> Floats:
        """``P(j)`` for j = 0, 1, ..., without the uniform."""
        return self._mass

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        return tabulated_cdf(self._mass, self._tail, x)


def tabulated_cdf(mass: Floats, tail: Floats, x: npt.ArrayLike) -> Any:
    """Distribution function of symmetric whole-number noise plus a U(-1/2, 1/2), from ``P(J = j)`` and ``P(J > j)``."""
    at = np.clip(np.asarray(x, dtype=np.float64), -_FAR, _FAR)  # infinities have no cell
    z = -np.abs(at)
    steps = np.ceil(-z - 0.5)  # z lies in the unit cell around -steps
    j = np.minimum(steps, mass.size - 1.0).astype(np.int64)
    low = np.where(steps > j, 0.0, tail[j] + mass[j] * np.clip(z + steps + 0.5, 0.0, 1.0))
    return np.where(at <= 0.0, low, 1.0 - low)
