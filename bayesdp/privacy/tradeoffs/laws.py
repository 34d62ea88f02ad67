"""The trade-off functions of (epsilon, delta)-DP, of mu-GDP, and of Laplace noise shifted by a real number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from bayesdp import _validate
from bayesdp.privacy.tradeoffs.base import DiscretePair, SymmetricTradeOff, TradeOff
from bayesdp.privacy.tradeoffs.noise import CanonicalNoise, Floats, GaussianNoise, Tulap

_EXP_MAX = 700.0  # exp of more than this is taken in log space
_SAME = 1e-12


@dataclass(frozen=True)
class ApproximateTradeOff(SymmetricTradeOff):
    """Trade-off function of (epsilon, delta)-DP; see `bayesdp.privacy.tradeoffs.approximate_dp`.

    Parameters
    ----------
    epsilon, delta : float
        Already checked.
    """

    epsilon: float
    delta: float

    def canonical_noise(self) -> CanonicalNoise:
        """Give Tulap noise, the only canonical noise of (epsilon, delta)-DP (Awan and Dong, 2022)."""
        return Tulap(self.epsilon, self.delta)

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        shrink = math.exp(-self.epsilon)
        steep = self._steep(a)
        type_two = np.maximum(np.maximum(0.0, 1.0 - self.delta - steep), shrink * (s - self.delta))
        power = np.minimum(np.minimum(1.0, self.delta + steep), -math.expm1(-self.epsilon) + shrink * (a + self.delta))
        return type_two, power

    def _slope(self, a: Floats, s: Floats) -> Floats:
        shrink = math.exp(-self.epsilon)
        grow = math.exp(self.epsilon) if self.epsilon < _EXP_MAX else math.inf
        crossing = (1.0 - self.delta) * shrink / (1.0 + shrink)
        return np.where(a < crossing, grow, np.where(s < self.delta, 0.0, shrink))

    def _log_step(self, log_s: Floats) -> tuple[Floats, Floats]:
        log_t, log_slope = super()._log_step(log_s)
        if self.delta > 0.0:
            return log_t, log_slope
        end, log_shrink = self._linear_end() or (-np.inf, 0.0)  # exp(-epsilon) may underflow
        return np.where(log_s <= end, log_s + log_shrink, log_t), np.where(log_s <= end, log_shrink, log_slope)

    def _linear_end(self) -> tuple[float, float] | None:
        return (-math.log1p(math.exp(-self.epsilon)), -self.epsilon) if self.delta == 0.0 else None

    def _kinks(self) -> Floats:
        shrink = math.exp(-self.epsilon)
        crossing = (1.0 - self.delta) * shrink / (1.0 + shrink)
        return np.array([crossing, 1.0 - self.delta] if self.delta else [crossing])

    @property
    def _piecewise_linear(self) -> bool:
        return True

    def _pair(self) -> DiscretePair:
        shrink = math.exp(-self.epsilon)
        small, large = (1.0 - self.delta) * shrink / (1.0 + shrink), (1.0 - self.delta) / (1.0 + shrink)
        p, q = [small, large], [large, small]
        if self.delta:
            p, q = [*p, self.delta], [*q, 0.0]
        if small == 0.0:  # exp(-epsilon) underflows: the mass of an outcome that tells the tables apart
            return DiscretePair(self.delta + large, tuple(p[1:]), (0.0,) * len(p[1:]))
        return DiscretePair(self.delta, tuple(p), tuple(q))

    def _steep(self, a: Floats) -> Floats:
        """``exp(epsilon) a`` without overflow; anything above 1 will do where it is above 1."""
        if self.epsilon < _EXP_MAX:
            return math.exp(self.epsilon) * a
        with np.errstate(divide="ignore"):
            return np.exp(np.minimum(self.epsilon + np.log(a), 1.0))


@dataclass(frozen=True)
class GaussianTradeOff(SymmetricTradeOff):
    """Trade-off function of mu-GDP; see `bayesdp.privacy.tradeoffs.gaussian_dp`.

    Parameters
    ----------
    mu : float
        Already checked.
    """

    mu: float

    def group(self, k: int) -> TradeOff:
        """Give ``G_{k mu}`` (Dong, Roth and Su, 2022, Section 2.5)."""
        return GaussianTradeOff(self.mu * _validate.positive_integer(k, "k"))

    def canonical_noise(self) -> CanonicalNoise:
        """Give ``N(0, 1 / mu**2)``, the log-concave canonical noise of mu-GDP (Awan and Dong, 2022)."""
        return GaussianNoise(self.mu)

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        threshold = _upper_quantile(a, s)
        return ndtr(threshold - self.mu), ndtr(self.mu - threshold)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.mu * _upper_quantile(a, s) - 0.5 * self.mu**2))

    def _log_step(self, log_s: Floats) -> tuple[Floats, Floats]:
        threshold = ndtri_exp(log_s)
        return log_ndtr(threshold - self.mu), self.mu * threshold - 0.5 * self.mu**2

    def _at_losses(self, losses: Floats) -> tuple[Floats, Floats]:
        return ndtr(-losses / self.mu - 0.5 * self.mu), ndtr(0.5 * self.mu - losses / self.mu)

    def _with(self, others: Sequence[TradeOff]) -> GaussianTradeOff:
        return GaussianTradeOff(math.hypot(self.mu, *(f.mu for f in others if isinstance(f, GaussianTradeOff))))


def _upper_quantile(a: Floats, s: Floats) -> Floats:
    return np.asarray(np.where(a <= 0.5, -ndtri(a), ndtri(s)))


def approximate_dp(epsilon: float, delta: float = 0.0) -> ApproximateTradeOff:
    """Give ``max(0, 1 - delta - exp(epsilon) alpha, exp(-epsilon) (1 - delta - alpha))``.

    Source: Wasserman and Zhou (2010); Dong, Roth and Su (2022, Proposition 2.5).

    Parameters
    ----------
    epsilon : float
        Zero or greater.
    delta : float, default 0
        At least 0 and less than 1.

    Examples
    --------
    >>> f = approximate_dp(1.0)
    >>> print(f"{f(0.05):.6f} {f.group(2)(0.05):.6f}")
    0.864086 0.630547
    """
    budget = _validate.nonnegative_real(epsilon, "epsilon")
    slack = _validate.nonnegative_real(delta, "delta")
    if slack >= 1.0:
        raise ValueError(f"delta must be at least 0 and less than 1, got {delta!r}")
    return ApproximateTradeOff(budget, slack)


def gaussian_dp(mu: float) -> GaussianTradeOff:
    """Give ``G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu)``, the trade-off of N(0, 1) and N(mu, 1).

    Source: Dong, Roth and Su (2022, Definition 2.6).

    Parameters
    ----------
    mu : float
        Greater than zero.

    Examples
    --------
    >>> print(f"{gaussian_dp(0.5).group(2)(0.05):.6f}")
    0.740489
    """
    return GaussianTradeOff(_validate.positive_real(mu, "mu"))


@dataclass(frozen=True)
class LaplaceTradeOff(SymmetricTradeOff):
    """Trade-off function of standard Laplace noise around 0 and around `shift` (Dong, Roth and Su, 2022, Section A.6).

    The best tests reject large values: ``f(alpha) = F(F^-1(1 - alpha) - shift)``, F the distribution function.

    Parameters
    ----------
    shift : float
        How far the two centres are apart, in scales of the noise; greater than zero.

    Examples
    --------
    >>> print(f"{LaplaceTradeOff(1.0)(0.05):.6f}")  # exp(1) * 0.05 is the power
    0.864086
    """

    shift: float

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        with np.errstate(divide="ignore"):
            quantile = np.where(a <= 0.5, -np.log(2.0 * np.minimum(a, 0.5)), np.log(2.0 * np.minimum(s, 0.5)))
        moved = quantile - self.shift
        tail = 0.5 * np.exp(-np.abs(moved))
        return np.where(moved <= 0.0, tail, 1.0 - tail), np.where(moved <= 0.0, 1.0 - tail, tail)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            quantile = np.where(a <= 0.5, -np.log(2.0 * np.minimum(a, 0.5)), np.log(2.0 * np.minimum(s, 0.5)))
        return np.asarray(np.exp(np.clip(2.0 * quantile - self.shift, -self.shift, self.shift)))

    def _linear_end(self) -> tuple[float, float] | None:
        return -self.shift - math.log(2.0), -self.shift

    def _at_losses(self, losses: Floats) -> tuple[Floats, Floats]:
        x = 0.5 * (losses + self.shift)
        a, power = 0.5 * np.exp(-np.abs(x)), 1.0 - 0.5 * np.exp(-np.abs(self.shift - x))
        all_of_it = losses < -self.shift * (1.0 - _SAME)
        none_of_it = losses >= self.shift * (1.0 - _SAME)
        a, power = (np.where(all_of_it, 1.0, np.where(none_of_it, 0.0, own)) for own in (a, power))
        return a, power
