"""What every trade-off function has: both conventions, inverse, symmetrisation, group privacy, canonical noise.

Everything rests on one private method, ``_errors(a, s)``, which takes a type I error *and* its complement
``s = 1 - a`` and returns the type II error and the power. A number near 1 cannot hold a small tail, the pair
can: so tails of 1e-300 pass through compositions without loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.privacy._canonical import CanonicalNoise
from bayesdp.privacy._canonical_recursion import RecursiveNoise
from bayesdp.privacy._levels import Floats, levels, plain

__all__ = ["Grouped", "Symmetrised", "TradeOff"]


class TradeOff(ABC):
    """A trade-off function f: the smallest type II error of any test whose type I error is alpha.

    This is the convention of Dong, Roth and Su (2022): f is convex, falls, and ``f(alpha) <= 1 - alpha``.
    Paper 003 and Awan and Vadhan (2023) write the same curve as a rising function of ``1 - alpha``; that is
    `increasing`. A mechanism is f-DP when f bounds the trade-off of its outputs on every two neighbours.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoff import gaussian_dp
    >>> f = gaussian_dp(1.0)
    >>> print(f"{f(0.05):.6f} {f.power(0.05):.6f} {f.increasing(0.95):.6f}")
    0.740489 0.259511 0.740489
    """

    @abstractmethod
    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        """Type II error and power at type I error a, where s = 1 - a; each accurate where it is small."""

    @abstractmethod
    def _slope(self, a: Floats, s: Floats) -> Floats:
        """Give ``-f'(a)``, one of the two one-sided slopes at a kink."""

    @abstractmethod
    def inverse(self) -> TradeOff:
        """Give ``f^-1(beta) = inf {alpha : f(alpha) <= beta}``, the trade-off with the hypotheses exchanged."""

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether f is its own inverse."""

    def __call__(self, alpha: npt.ArrayLike) -> Any:
        """Type II error at type I error alpha.

        Parameters
        ----------
        alpha : float or array_like
            Between 0 and 1.

        Returns
        -------
        float or ndarray
            Of the shape of alpha.

        Raises
        ------
        TypeError, ValueError
            If alpha does not hold numbers between 0 and 1.
        """
        a = levels(alpha, "alpha")
        return plain(self._errors(a, 1.0 - a)[0])

    def power(self, alpha: npt.ArrayLike) -> Any:
        """Largest power at type I error alpha, ``1 - f(alpha)``, to full relative accuracy for small alpha.

        Parameters, result and errors are those of a call.
        """
        a = levels(alpha, "alpha")
        return plain(self._errors(a, 1.0 - a)[1])

    def increasing(self, level: npt.ArrayLike) -> Any:
        """Give ``f(1 - level)``, to full relative accuracy for small levels: the convention of paper 003.

        In it group privacy is ``f o f o ...``, and canonical noise has ``F(x - 1) = f(F(x))``.

        Parameters
        ----------
        level : float or array_like
            One minus the type I error.

        Returns
        -------
        float or ndarray
            Type II error.

        Raises
        ------
        TypeError, ValueError
            If level does not hold numbers between 0 and 1.
        """
        s = levels(level, "level")
        return plain(self._errors(1.0 - s, s)[0])

    def symmetrised(self) -> TradeOff:
        """Give ``max(f, f^-1)``, which an f-DP mechanism satisfies when neighbours are mutual.

        Source: Dong, Roth and Su (2022, Proposition 2.4). The premise is that *every ordered pair* of
        neighbours is bounded by f. Where f is the trade-off of one ordered pair only, the other order has
        ``f^-1``, and a guarantee for both is at most ``min(f, f^-1)``: do not use this method there.
        """
        return self if self.symmetric else Symmetrised(self, self.inverse())

    def group(self, k: int) -> TradeOff:
        """Give ``1 - (1 - f)^{o k}``, what f-DP promises to groups of k (Dong, Roth and Su, 2022, Theorem 2.14).

        Parameters
        ----------
        k : int
            Size of the group, or number of steps between two tables, 1 or more.

        Returns
        -------
        TradeOff

        Raises
        ------
        TypeError, ValueError
            If k is not a positive integer.
        """
        steps = _validate.positive_integer(k, "k")
        return self if steps == 1 else Grouped(self, steps)

    def canonical_noise(self) -> CanonicalNoise:
        """Give a noise law with ``T(F, F(. - 1)) = f``: closed form where known, otherwise Lemma 36 of paper 003.

        Returns
        -------
        CanonicalNoise
            For a statistic of sensitivity 1; multiply the noise by the sensitivity otherwise.

        Raises
        ------
        ValueError
            If f is not symmetric, or is (nearly) ``1 - alpha``, which no noise attains.
        """
        return RecursiveNoise(self)


@dataclass(frozen=True)
class Symmetrised(TradeOff):
    """The larger of a trade-off function and its inverse.

    Parameters
    ----------
    one, other : TradeOff
        A trade-off function and its inverse.
    """

    one: TradeOff
    other: TradeOff

    @property
    def symmetric(self) -> bool:
        """Whether f is its own inverse: yes."""
        return True

    def inverse(self) -> TradeOff:
        """Give the function itself, which is symmetric."""
        return self

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        t1, w1 = self.one._errors(a, s)
        t2, w2 = self.other._errors(a, s)
        return np.maximum(t1, t2), np.minimum(w1, w2)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        t1, w1 = self.one._errors(a, s)
        t2, w2 = self.other._errors(a, s)
        first = np.where(t1 <= 0.5, t1 >= t2, w1 <= w2)  # compare the tail that has the digits
        return np.where(first, self.one._slope(a, s), self.other._slope(a, s))


@dataclass(frozen=True)
class Grouped(TradeOff):
    """Group privacy, ``1 - (1 - f)^{o k}``.

    Parameters
    ----------
    base : TradeOff
        The function f for a single step.
    k : int
        Number of steps.
    """

    base: TradeOff
    k: int

    @property
    def symmetric(self) -> bool:
        """Whether f is its own inverse: exactly if the base is (otherwise not claimed)."""
        return self.base.symmetric

    def inverse(self) -> TradeOff:
        """Give the inverse, the group function of the inverse."""
        return self if self.symmetric else Grouped(self.base.inverse(), self.k)

    def group(self, k: int) -> TradeOff:
        """Give the function of groups of groups: the numbers of steps multiply."""
        return Grouped(self.base, self.k * _validate.positive_integer(k, "k"))

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        for _ in range(self.k):
            s, a = self.base._errors(a, s)  # the power of one step is the type I error of the next
        return s, a

    def _slope(self, a: Floats, s: Floats) -> Floats:
        log_slope = np.zeros(np.shape(a))  # the factors may overflow and underflow where their product does not
        with np.errstate(divide="ignore", over="ignore"):
            for _ in range(self.k):
                step = np.log(self.base._slope(a, s))
                # 0 times infinity: past the end of the support nothing is left
                log_slope = np.where(np.isneginf(step) | np.isneginf(log_slope), -np.inf, log_slope + step)
                s, a = self.base._errors(a, s)
            return np.exp(log_slope)
