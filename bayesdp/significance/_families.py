"""The two laws of a count that the tests are about, as exponential families on a range of whole numbers.

Both have ``p(x + 1) / p(x) = odds * step(x)`` with a falling `step`: Fisher's noncentral hypergeometric law of the corner
of a 2 x 2 table given its margins, and the binomial law. Masses come from that ratio alone, outwards from the mode: no
logarithms of factorials, whose rounding grows with their size (1e-9 at a million).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from bayesdp import _validate
from bayesdp.noise.base import Floats

NEGLIGIBLE = 1e-300  # relative to the mode; the laws are log-concave, so that all beyond is smaller still
_MAX_LOG_ODDS = 600.0
"""Odds are taken within exp(+-600): with counts below 2**53 no more than 1e-180 of the mass is then away from the end."""
_FIRST_CHUNK = 256
_MOST = 2**21
"""Masses on either side of the mode. Margins of 10 thousand million records have 1e6; with this many a p-value takes seconds."""


@dataclass(frozen=True, eq=False)
class Masses:
    """Probabilities of consecutive whole numbers; what is left out is negligible."""

    first: int
    weights: Floats  # probabilities of first, first + 1, ...; they add up to 1

    @cached_property
    def points(self) -> Floats:
        """The numbers."""
        return np.arange(self.first, self.first + self.weights.size, dtype=np.float64)

    def expectation(self, values: Floats) -> float:
        """Expectation of a function given by its values, without rounding of the sum."""
        return math.fsum(self.weights * values)

    @cached_property
    def mean(self) -> float:
        """Expectation of the number."""
        return self.first + self.expectation(self.points - self.first)


class CountLaws(Protocol):
    """What a test asks of the laws of a count: its range, and its masses at some log odds."""

    @property
    def low(self) -> int:
        """Smallest count."""

    @property
    def high(self) -> int:
        """Largest count."""

    def masses(self, log_odds: float, negligible: float = NEGLIGIBLE) -> Masses:
        """The law at some log odds, infinities included; masses below `negligible` times the largest are left out."""


class Family(ABC):
    """Laws of a count on ``low, ..., high`` with natural parameter log odds."""

    @property
    @abstractmethod
    def low(self) -> int:
        """Smallest count."""

    @property
    @abstractmethod
    def high(self) -> int:
        """Largest count."""

    @abstractmethod
    def step(self, x: Floats) -> Floats:
        """``p(x + 1) / p(x)`` at odds 1, for low <= x < high: positive and falling."""

    def masses(self, log_odds: float, negligible: float = NEGLIGIBLE) -> Masses:
        """The law at some log odds, infinities included; masses below `negligible` times the largest are left out."""
        if math.isinf(log_odds):
            return Masses(self.high if log_odds > 0.0 else self.low, np.ones(1))
        odds = math.exp(min(max(log_odds, -_MAX_LOG_ODDS), _MAX_LOG_ODDS))
        mode = self._mode(odds)
        up = _outwards(self.high - mode, lambda k: odds * self.step(mode + k), negligible)
        down = _outwards(mode - self.low, lambda k: 1.0 / (odds * self.step(mode - 1.0 - k)), negligible)
        weights = np.concatenate([down[::-1], [1.0], up])
        return Masses(mode - down.size, weights / math.fsum(weights))

    def _mode(self, odds: float) -> int:
        """The first x from which the masses fall, by bisection."""
        left, right = self.low, self.high
        while left < right:
            middle = (left + right) // 2
            if odds * float(self.step(np.array(float(middle)))) < 1.0:
                right = middle
            else:
                left = middle + 1
        return left


def _outwards(length: int, ratio: Callable[[Floats], Floats], negligible: float) -> Floats:
    """Masses relative to the mode at distance 1, 2, ..., until the end or until they are negligible."""
    found: list[Floats] = []
    last, done, chunk = 1.0, 0, _FIRST_CHUNK
    while done < length and last > negligible:
        if done >= _MOST:
            raise NotImplementedError(
                f"the law of the count given the margins spreads over more than {_MOST:,} numbers on one side of its mode: "
                "for margins so large the sum is too long, and no expansion is known here. Margins of 10**10 records take seconds"
            )
        size = min(chunk, length - done)
        product = last * np.cumprod(ratio(np.arange(done, done + size, dtype=np.float64)))
        found.append(product)
        last, done, chunk = float(product[-1]), done + size, 2 * chunk
    if not found:
        return np.empty(0)
    whole = np.concatenate(found)
    return whole[whole > negligible]


@dataclass(frozen=True)
class Hypergeometric(Family):
    """Fisher's noncentral hypergeometric law: the corner x11 of a 2 x 2 table given both margins.

    ``P(x) = C(r1, x) C(r2, c1 - x) w**x / sum``, with odds ratio ``w = x11 x22 / (x12 x21)`` of the cell probabilities.

    Parameters
    ----------
    r1, r2 : int
        Row totals.
    c1 : int
        Total of the first column.
    """

    r1: int
    r2: int
    c1: int

    @property
    def low(self) -> int:
        """Smallest corner."""
        return max(0, self.c1 - self.r2)

    @property
    def high(self) -> int:
        """Largest corner."""
        return min(self.r1, self.c1)

    def step(self, x: Floats) -> Floats:
        """``x12 x21 / ((x11 + 1) (x22 + 1))``."""
        return np.asarray((self.r1 - x) * (self.c1 - x) / ((x + 1.0) * (self.r2 - self.c1 + x + 1.0)))


def margins(rows: Any, column: Any) -> Hypergeometric:
    """Accept the margins of a 2 x 2 table."""
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        raise ValueError(f"rows must be the totals of the two rows, (r1, r2), got {rows!r}")
    r1, r2 = (_validate.nonnegative_integer(total, f"rows[{i}]") for i, total in enumerate(rows))
    c1 = _validate.nonnegative_integer(column, "column")
    if r1 + r2 >= _validate.MAX_COUNT:
        raise ValueError(f"rows must add up to less than 2**53, got {rows!r}")
    if c1 > r1 + r2:
        raise ValueError(f"column must be at most the grand total {r1 + r2}, got {column!r}")
    return Hypergeometric(r1, r2, c1)


@dataclass(frozen=True)
class Binomial(Family):
    """Number of successes in n trials; the odds are those of a success."""

    n: int

    @property
    def low(self) -> int:
        """Smallest count: no success."""
        return 0

    @property
    def high(self) -> int:
        """Largest count: n successes."""
        return self.n

    def step(self, x: Floats) -> Floats:
        """``(n - x) / (x + 1)``."""
        return np.asarray((self.n - x) / (x + 1.0))
