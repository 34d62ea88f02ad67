"""What every trade-off function has: both conventions, inverse, symmetrisation, group privacy, canonical noise.

Everything rests on one private method, ``_errors(a, s)``, which takes a type I error *and* its complement
``s = 1 - a`` and returns the type II error and the power. A number near 1 cannot hold a small tail, the pair
can: so tails of 1e-300 pass through compositions without loss.

Trade-off functions made from others: symmetrised, for groups, and known between bounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bayesdp import _validate
from bayesdp.privacy.tradeoffs.noise import CanonicalNoise, Floats, RecursiveNoise, levels, plain

_LOG_SMALL = -667.0
"""Logarithm of 1e-290: below it a curve is continued as a straight line through its end."""


class TradeOff(ABC):
    """A trade-off function f: the smallest type II error of any test whose type I error is alpha.

    This is the convention of Dong, Roth and Su (2022): f is convex, falls, and ``f(alpha) <= 1 - alpha``.
    Paper 003 and Awan and Vadhan (2023) write the same curve as a rising function of ``1 - alpha``; that is
    `increasing`. A mechanism is f-DP when f bounds the trade-off of its outputs on every two neighbours.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import gaussian_dp
    >>> f = gaussian_dp(1.0)
    >>> print(f"{f(0.05):.6f} {f.power(0.05):.6f} {f.increasing(0.95):.6f}")
    0.740489 0.259511 0.740489
    """

    # Made by a module that builds on this one: the package hands it in.
    _tensor_product: ClassVar[Callable[..., TradeOff]]

    @abstractmethod
    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        """Type II error and power at type I error a, where s = 1 - a; each accurate where it is small."""

    @abstractmethod
    def _slope(self, a: Floats, s: Floats) -> Floats:
        """Give ``-f'(a)``, one of the two one-sided slopes at a kink."""

    @abstractmethod
    def inverse(self) -> TradeOff:
        """Give ``f^-1(beta) = inf {alpha : f(alpha) <= beta}``, the trade-off with the hypotheses exchanged."""

    def _log_step(self, log_s: Floats) -> tuple[Floats, Floats]:
        """``log f(1 - s)`` and ``log(-f'(1 - s))`` from ``log s``, finite where s itself underflows."""
        # Below 1e-290 the curve is taken for straight: exact for piecewise linear f, an upper bound for others, f being convex.
        s = np.exp(np.maximum(log_s, _LOG_SMALL))
        with np.errstate(divide="ignore"):
            log_t, log_slope = np.log(self._errors(1.0 - s, s)[0]), np.log(self._slope(1.0 - s, s))
        return log_t + np.minimum(log_s - _LOG_SMALL, 0.0), log_slope

    def _linear_end(self) -> tuple[float, float] | None:
        """``(log s, log m)`` if ``f(1 - s') = m s'`` for all s' up to s; None if not, or not known."""
        return None

    def _kinks(self) -> Floats:
        """Type I errors at which the slope may jump."""
        return np.empty(0)

    @property
    def _piecewise_linear(self) -> bool:
        """Whether f is straight between neighbouring kinks."""
        return False

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

    @property
    def lower(self) -> TradeOff:
        """A curve that is certainly not above f: f itself, unless f is known within bounds only."""
        return self

    @property
    def upper(self) -> TradeOff:
        """A curve that is certainly not below f. See `lower`."""
        return self

    @property
    def error(self) -> float:
        """Largest distance between `lower` and `upper`: 0 where f is known exactly."""
        return 0.0

    def tensor(self, *others: TradeOff, interval: float | None = None) -> TradeOff:
        """Give the tensor product, which is composition; see `bayesdp.privacy.tensor_product`.

        Examples
        --------
        >>> from bayesdp.privacy.tradeoffs import gaussian_dp
        >>> gaussian_dp(3.0).tensor(gaussian_dp(4.0))
        GaussianTradeOff(mu=5.0)
        """
        factors: Sequence[TradeOff] = (self, *others)
        return TradeOff._tensor_product(*factors, interval=interval)

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


class SymmetricTradeOff(TradeOff):
    """A trade-off function that is its own inverse, by what it is."""

    @property
    def symmetric(self) -> bool:
        """Whether f is its own inverse: yes."""
        return True

    def inverse(self) -> TradeOff:
        """Give the function itself, which is symmetric."""
        return self


@dataclass(frozen=True)
class Symmetrised(SymmetricTradeOff):
    """The larger of a trade-off function and its inverse.

    Parameters
    ----------
    one, other : TradeOff
        A trade-off function and its inverse.
    """

    one: TradeOff
    other: TradeOff

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        t1, w1 = self.one._errors(a, s)
        t2, w2 = self.other._errors(a, s)
        return np.maximum(t1, t2), np.minimum(w1, w2)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        t1, w1 = self.one._errors(a, s)
        t2, w2 = self.other._errors(a, s)
        first = np.where(t1 <= 0.5, t1 >= t2, w1 <= w2)  # compare the tail that has the digits
        return np.where(first, self.one._slope(a, s), self.other._slope(a, s))

    def _log_step(self, log_s: Floats) -> tuple[Floats, Floats]:
        t1, m1 = self.one._log_step(log_s)
        t2, m2 = self.other._log_step(log_s)
        return np.maximum(t1, t2), np.where(t1 >= t2, m1, m2)

    def _linear_end(self) -> tuple[float, float] | None:
        ends = (self.one._linear_end(), self.other._linear_end())
        if ends[0] is None or ends[1] is None:
            return None
        return min(ends[0][0], ends[1][0]), max(ends[0][1], ends[1][1])  # the higher of two lines through the end

    def _kinks(self) -> Floats:
        kinks = np.unique(np.concatenate([[0.0, 1.0], self.one._kinks(), self.other._kinks()]))
        gap = self.one._errors(kinks, 1.0 - kinks)[0] - self.other._errors(kinks, 1.0 - kinks)[0]

        # The curves cross between two kinks at most once where both are straight: there the gap is straight as well.
        at = np.flatnonzero(gap[:-1] * gap[1:] < 0.0)
        if self._piecewise_linear:
            crossed = kinks[at] + (kinks[at + 1] - kinks[at]) * gap[at] / (gap[at] - gap[at + 1])
            return np.unique(np.concatenate([kinks[1:-1], crossed]))

        def difference(a: float) -> float:
            return float(self.one(a)) - float(self.other(a))

        crossings = [brentq(difference, kinks[i], kinks[i + 1], xtol=1e-300, rtol=4 * np.finfo(float).eps) for i in at]
        return np.unique(np.concatenate([kinks[1:-1], crossings]))

    @property
    def _piecewise_linear(self) -> bool:
        return self.one._piecewise_linear and self.other._piecewise_linear


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

    def _log_step(self, log_s: Floats) -> tuple[Floats, Floats]:
        log_slope = np.zeros(np.shape(log_s))
        for _ in range(self.k):
            log_s, step = self.base._log_step(log_s)
            log_slope = np.where(np.isneginf(step) | np.isneginf(log_slope), -np.inf, log_slope + step)
        return log_s, log_slope

    def _linear_end(self) -> tuple[float, float] | None:
        end = self.base._linear_end()
        return None if end is None else (end[0], self.k * end[1])  # the slope is at most 1: no step leaves the end

    def _kinks(self) -> Floats:
        kinks = self.base._kinks()
        back = self.base.inverse()
        found = [kinks]
        for _ in range(self.k - 1):
            # The type I errors whose power is a kink: f(a) = 1 - w, so a = f^-1(1 - w).
            inside = found[-1][(found[-1] > self.base.power(0.0)) & (found[-1] < 1.0)]
            found.append(back._errors(1.0 - inside, inside)[0])
        return np.unique(np.concatenate(found))

    @property
    def _piecewise_linear(self) -> bool:
        return self.base._piecewise_linear


@dataclass(frozen=True)
class Bracketed(TradeOff):
    """A trade-off function known between two others. Its own values are those of the lower one, the safe side.

    Parameters
    ----------
    low, high : TradeOff
        Bounds, the first nowhere above the second.
    """

    low: TradeOff
    high: TradeOff
    _gap: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_gap", largest_gap(self.low, self.high))

    @property
    def lower(self) -> TradeOff:
        """A curve that is certainly not above f."""
        return self.low

    @property
    def upper(self) -> TradeOff:
        """A curve that is certainly not below f."""
        return self.high

    @property
    def error(self) -> float:
        """Largest distance between the bounds."""
        return self._gap

    @property
    def symmetric(self) -> bool:
        """Whether the lower bound, whose values these are, is its own inverse."""
        return self.low.symmetric

    def inverse(self) -> TradeOff:
        """Give the inverse, between the inverses of the bounds."""
        both = self.low.symmetric and self.high.symmetric
        return self if both else Bracketed(self.low.inverse(), self.high.inverse())

    def symmetrised(self) -> TradeOff:
        """Give ``max(f, f^-1)``, between those of the bounds; see `TradeOff.symmetrised` for when that is a guarantee."""
        return self if self.symmetric else Bracketed(self.low.symmetrised(), self.high.symmetrised())

    def group(self, k: int) -> TradeOff:
        """Give the group function, between those of the bounds: it grows with f."""
        return Bracketed(self.low.group(k), self.high.group(k))

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        return self.low._errors(a, s)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        return self.low._slope(a, s)

    def _log_step(self, log_s: Floats) -> tuple[Floats, Floats]:
        return self.low._log_step(log_s)

    def _linear_end(self) -> tuple[float, float] | None:
        return self.low._linear_end()

    def _kinks(self) -> Floats:
        return self.low._kinks()

    @property
    def _piecewise_linear(self) -> bool:
        return self.low._piecewise_linear


def largest_gap(low: TradeOff, high: TradeOff) -> float:
    """Largest ``high - low``; both piecewise linear, so that the kinks of both are enough."""
    a = np.unique(np.clip(np.concatenate([[0.0, 1.0], low._kinks(), high._kinks()]), 0.0, 1.0))
    return max(0.0, float(np.max(high._errors(a, 1.0 - a)[0] - low._errors(a, 1.0 - a)[0])))
