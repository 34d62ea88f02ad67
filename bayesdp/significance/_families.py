"""The two laws of a count that the tests are about, as exponential families on a range of whole numbers.

Both have ``p(x + 1) / p(x) = odds * step(x)`` with a falling `step`: Fisher's noncentral hypergeometric law of the corner
of a 2 x 2 table given its margins, and the binomial law. Masses come from that ratio alone, outwards from the mode: no
logarithms of factorials, whose rounding grows with their size (1e-9 at a million). With them p-values of a noisy count, and what
inverting these gives: intervals, a median-unbiased estimate, a confidence distribution.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp._docs import documented, with_shared_parameters

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
        return np.arange(self.first, self.first + self.weights.size, dtype=np.float64)

    def expectation(self, values: Floats) -> float:
        """Expectation of a function given by its values, without rounding of the sum."""
        return math.fsum(self.weights * values)

    @cached_property
    def mean(self) -> float:
        return self.first + self.expectation(self.points - self.first)


class Family:
    """Laws of a count on ``low, ..., high`` with natural parameter log odds, known by the ratio of neighbouring masses."""

    low: int
    high: int

    def step(self, x: Floats) -> Floats:
        """``p(x + 1) / p(x)`` at odds 1, for low <= x < high: positive and falling."""
        raise NotImplementedError

    @property
    def determined(self) -> bool:
        """Whether a single count is possible."""
        return self.low == self.high

    def masses(self, log_odds: float, negligible: float = NEGLIGIBLE) -> Masses:
        """The law at some log odds, infinities included; masses below `negligible` times the largest are left out."""
        if math.isinf(log_odds):
            return Masses(self.high if log_odds > 0.0 else self.low, np.ones(1))
        odds = math.exp(min(max(log_odds, -_MAX_LOG_ODDS), _MAX_LOG_ODDS))

        def falls(x: int) -> bool:
            return odds * float(self.step(np.array(float(x)))) < 1.0

        # The first x from which the masses fall.
        mode = self.low + bisect_left(range(self.low, self.high), True, key=falls)
        up = _outwards(self.high - mode, lambda k: odds * self.step(mode + k), negligible)
        down = _outwards(mode - self.low, lambda k: 1.0 / (odds * self.step(mode - 1.0 - k)), negligible)
        weights = np.concatenate([down[::-1], [1.0], up])
        return Masses(mode - down.size, weights / math.fsum(weights))


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
    """Fisher's noncentral hypergeometric law: the corner x11 of a 2 x 2 table given both margins, row totals r1 and r2, column c1.

    ``P(x) = C(r1, x) C(r2, c1 - x) w**x / sum``, with odds ratio ``w = x11 x22 / (x12 x21)`` of the cell probabilities.
    """

    r1: int
    r2: int
    c1: int

    @property
    def low(self) -> int:  # type: ignore[override]
        return max(0, self.c1 - self.r2)

    @property
    def high(self) -> int:  # type: ignore[override]
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
    def low(self) -> int:  # type: ignore[override]
        return 0

    @property
    def high(self) -> int:  # type: ignore[override]
        return self.n

    def step(self, x: Floats) -> Floats:
        return np.asarray((self.n - x) / (x + 1.0))


@dataclass(frozen=True)
class FamilySum(Family):
    """Sum of independent counts with a common odds ratio: again an exponential family, its masses a convolution."""

    parts: tuple[Hypergeometric, ...]

    @property
    def low(self) -> int:  # type: ignore[override]
        return sum(part.low for part in self.parts)

    @property
    def high(self) -> int:  # type: ignore[override]
        return sum(part.high for part in self.parts)

    def masses(self, log_odds: float, negligible: float = NEGLIGIBLE) -> Masses:
        """The law of the sum."""
        laws = [part.masses(log_odds, negligible) for part in self.parts]
        weights = reduce(np.convolve, (law.weights for law in laws))
        return Masses(sum(law.first for law in laws), weights / math.fsum(weights))


ALTERNATIVES: Final = ("greater", "less", "two-sided")
_COMMON = 1e-12  # tails above it keep their digits without the smallest masses
_UNIFORM = 1e-6  # what rounding of the statistic may do to a p-value
_WIDEST = 600.0  # log odds beyond which all mass is at the end, as in the families
FOR_LEVELS = 1e-30
"""Masses below this share of the largest have no say in p-values that are compared with 1 - level >= 1e-16, many times over."""


documented_test = documented(
    {
        "Parameters": """
alpha : float
    Size, between 0 and 1.
rows, column : tuple of int, int
    Totals of the two rows, and of the first column.
tradeoff : TradeOff
    Symmetric f that the noise is canonical for, as of `bayesdp.privacy.approximate_dp`.
alternative : {"greater", "less", "two-sided"}
null : float, default 1
    Odds ratio of the null hypothesis, ``x11 x22 / (x12 x21)``, greater than 0.
cell : mapping, optional
    Label of each dimension: the cell that is x11, for example ``{"sex": "men", "admission": "admitted"}``. The first
    labels by default. The odds ratio is turned over if one label is exchanged.
rng : int, numpy.random.Generator or None
    For the uniform, which is drawn once; None takes the operating system's entropy."""
    }
)


def finite_statistic(value: Any) -> float:
    """Accept a finite real number."""
    array = _validate.finite_array(value, "statistic")
    if array.ndim:
        raise TypeError(f"statistic must be one number, got an array of shape {array.shape}")
    return float(array)


def checked_null(alternative: str, null: float) -> float:
    """The odds ratio of the null hypothesis, checked with the alternative."""
    _validate.choice(alternative, ALTERNATIVES, "alternative")
    return _validate.positive_real(null, "null")


def at_odds_ratios(function: Callable[[float], float], odds_ratio: npt.ArrayLike) -> Any:
    """A function of the log odds ratio at one odds ratio (a float) or an array of them (an array of that shape)."""
    ratios = np.asarray(odds_ratio, dtype=np.float64)
    if np.any(~(ratios >= 0.0)):
        raise ValueError(f"odds_ratio must be at least 0, got {odds_ratio!r}")
    with np.errstate(divide="ignore"):
        logs = np.asarray(np.log(ratios))
    found = np.array([function(log_odds) for log_odds in logs.reshape(-1).tolist()])
    return found.reshape(logs.shape) if logs.ndim else float(found[0])


class Noise(Protocol):
    """Noise with a continuous distribution function, symmetric about 0."""

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function, accurate relative to itself in the lower tail."""


@dataclass(frozen=True)
class NoisyCount:
    """A published number `U = X + N`: X of a family, N noise that is symmetric about 0."""

    statistic: float
    family: Family
    noise: Noise

    def greater(self, log_odds: float, negligible: float = NEGLIGIBLE) -> float:
        """``P(X + N >= statistic) = E F(X - statistic)``: rises with the odds."""
        law = self.family.masses(log_odds, negligible)
        return min(1.0, law.expectation(self.noise.cdf(law.points - self.statistic)))

    def less(self, log_odds: float, negligible: float = NEGLIGIBLE) -> float:
        """``P(X + N <= statistic) = E F(statistic - X)``: falls with the odds."""
        law = self.family.masses(log_odds, negligible)
        return min(1.0, law.expectation(self.noise.cdf(self.statistic - law.points)))

    def pvalue(self, log_odds: float, alternative: str) -> float:
        """p-value; two-sided is twice the smaller one, exact because the noise is continuous."""
        self._check_resolution(log_odds)
        tails = {"greater": [self.greater], "less": [self.less]}.get(alternative, [self.greater, self.less])
        # The rough tail leaves out less than 1e-30 of each of some millions of masses: too little to matter above 1e-12.
        rough = [tail(log_odds, FOR_LEVELS) for tail in tails]
        values = [r if r > _COMMON else tail(log_odds) for r, tail in zip(rough, tails, strict=True)]
        return min(1.0, len(values) * min(values))

    def _check_resolution(self, log_odds: float) -> None:
        """Refuse noise so narrow that the statistic, a binary64 number, cannot carry it: its p-value would not be uniform.

        The statistic is known to one spacing s of numbers of its size. That moves the p-value by at most the largest mass times
        what noise and whole numbers can put into an interval of length s, ``P(|N| < s / 2) + s``.
        """
        largest = float(np.max(self.family.masses(log_odds, FOR_LEVELS).weights))
        spacing = float(np.spacing(max(abs(self.statistic), float(self.family.high), 1.0)))
        error = largest * (1.0 - 2.0 * float(self.noise.cdf(-0.5 * spacing)) + spacing)
        if error > _UNIFORM and not self.family.determined:
            raise ValueError(
                f"the noise {self.noise!r} is too narrow for the statistic {self.statistic!r}: binary64 numbers of this size are "
                f"{spacing:.1e} apart, so that the p-value could be off by {error:.1e}. Noise that narrow protects nothing: test "
                "without privacy"
            )

    def bounds(self, level: float, alternative: str) -> tuple[float, float]:
        """Log odds with a p-value above ``1 - level``; infinite ends where no odds are ruled out."""
        error = 1.0 - _validate.probability(level, "level")
        if alternative == "greater":
            return self.lower(error), math.inf
        if alternative == "less":
            return -math.inf, self.upper(error)
        return self.lower(0.5 * error), self.upper(0.5 * error)

    def lower(self, error: float) -> float:
        """Log odds at which `greater` is `error`; -inf if it is never below, inf if it is never above."""
        return _crossing(lambda log_odds: self.greater(log_odds, FOR_LEVELS), error)

    def upper(self, error: float) -> float:
        """Log odds at which `less` is `error`; inf if it is never below, -inf if it is never above."""
        return -_crossing(lambda log_odds: self.less(-log_odds, FOR_LEVELS), error)


def _crossing(rising: Callable[[float], float], level: float) -> float:
    """Where a rising function of the log odds takes a value; an infinity where its limits are on one side of it."""
    if rising(-math.inf) >= level:
        return -math.inf
    if rising(math.inf) <= level:
        return math.inf
    width = 1.0
    while width < _WIDEST and not rising(-width) < level < rising(width):
        width *= 2.0
    left, right = -min(width, _WIDEST), min(width, _WIDEST)
    if rising(left) >= level:  # the limit is nearer than rounding
        return -math.inf
    if rising(right) <= level:
        return math.inf
    return float(brentq(lambda log_odds: rising(log_odds) - level, left, right, xtol=1e-13, rtol=1e-14))


class ConfidenceInterval(NamedTuple):
    """Ends of a confidence interval, as SciPy's results name them."""

    low: float
    high: float


@dataclass(frozen=True)
class Tested(ABC):
    """What a noisy count says of a null hypothesis.

    Parameters
    ----------
    statistic : float
        The noisy count that was tested, ``U = X + N``.
    pvalue : float
        Uniform at the null hypothesis, and smaller the further the truth is on the alternative's side.
    alternative : {"greater", "less", "two-sided"}
    null : float
        Odds ratio (of `binomial_test` proportion) of the null hypothesis; its boundary for one-sided alternatives.
    """

    statistic: float
    pvalue: float
    alternative: str
    null: float

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = with_shared_parameters(cls)

    @property
    @abstractmethod
    def _count(self) -> NoisyCount:
        """The noisy number, with the laws of count and noise."""


class Inverted(Tested):
    """A test of an odds ratio that can be inverted."""

    def confidence_interval(self, level: float = 0.95) -> ConfidenceInterval:
        """Odds ratios whose p-value is above ``1 - level``: exact coverage, as the p-value is uniform.

        One-sided for a one-sided alternative: [low, inf) for "greater", [0, high) for "less".

        Parameters
        ----------
        level : float, default 0.95

        Returns
        -------
        ConfidenceInterval
            ``low`` is 0, or ``high`` infinite, where no odds ratio however extreme is ruled out. (inf, inf) or (0, 0),
            an interval without any odds ratio, where all are: the statistic is then far off what the margins allow.
        """
        low, high = self._count.bounds(level, self.alternative)
        return ConfidenceInterval(_exp(low), _exp(high))

    @property
    def estimate(self) -> float:
        """Median-unbiased estimate of the odds ratio: as often too small as too large, whatever the truth.

        The odds ratio at which both one-sided p-values are one half, and so inside every two-sided confidence interval that is not
        empty. 0 or infinite where the statistic is at the end of what the margins allow; NaN where they determine the table.

        Examples
        --------
        >>> from bayesdp.privacy.tradeoffs import approximate_dp
        >>> from bayesdp.significance import odds_ratio_test
        >>> result = odds_ratio_test(26.4, rows=(50, 50), column=40, tradeoff=approximate_dp(1.0, 0.01))
        >>> round(result.estimate, 4), round(float(result.confidence_distribution(result.estimate)), 6)
        (2.95, 0.5)
        """
        return math.nan if self.determined else _exp(self._count.lower(0.5))

    def confidence_distribution(self, odds_ratio: npt.ArrayLike) -> Any:
        """One-sided p-value ("greater") as a function of the null odds ratio: a distribution function of the odds ratio.

        Its quantiles are the confidence bounds. The rest below its limit at 0, and above that at infinity, is confidence
        in those ends.

        Parameters
        ----------
        odds_ratio : float or array_like
            At least 0; infinity is allowed. The result has its shape, and rises.
        """
        return at_odds_ratios(self._count.greater, odds_ratio)

    @property
    def determined(self) -> bool:
        """Whether the margins leave a single table: then nothing published says anything about the odds ratio."""
        return self._count.family.determined


def _exp(log: float) -> float:
    return math.inf if log == math.inf else math.exp(log)
