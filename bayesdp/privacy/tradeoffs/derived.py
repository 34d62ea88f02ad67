"""Trade-off functions made from others: symmetrised, for groups, and known between bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq

from bayesdp import _validate
from bayesdp.privacy.tradeoffs.base import SymmetricTradeOff, TradeOff
from bayesdp.privacy.tradeoffs.levels import Floats


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
