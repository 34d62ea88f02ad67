"""What every trade-off function has: both conventions, inverse, symmetrisation, group privacy, canonical noise.

Everything rests on one private method, ``_errors(a, s)``, which takes a type I error *and* its complement
``s = 1 - a`` and returns the type II error and the power. A number near 1 cannot hold a small tail, the pair
can: so tails of 1e-300 pass through compositions without loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.privacy.tradeoffs.levels import Floats, levels, plain
from bayesdp.privacy.tradeoffs.noise import CanonicalNoise
from bayesdp.privacy.tradeoffs.noise_recursion import RecursiveNoise

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

    # What it makes of itself is of modules that build on this one: the package hands them in.
    _symmetrised_with: ClassVar[Callable[[TradeOff, TradeOff], TradeOff]]
    _grouped: ClassVar[Callable[[TradeOff, int], TradeOff]]
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
        return self if self.symmetric else TradeOff._symmetrised_with(self, self.inverse())

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
        return self if steps == 1 else TradeOff._grouped(self, steps)

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
