"""Tests of the odds ratio as functions of the confidential corner, with thresholds, size and power."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp.privacy.tradeoffs.base import TradeOff, checked
from bayesdp.significance._families import ALTERNATIVES, Family, Masses, Noise, at_odds_ratios, documented_test, margins
from bayesdp.significance.corners import in_words

type Form = Literal["greater", "less", "umpu-two-sided", "noisy-two-sided"]

_NEGLIGIBLE = 1e-30  # masses below this share of the largest, times alpha, have no say in size and unbiasedness
_SIZE_ERROR = 1e-7  # of alpha: an error of the size that is no longer rounding
_TOLERANCE = 4.0 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Rule:
    """A test of the odds ratio given both margins, as a function of the corner ``x = x11``.

    ================== ========================================  ===============================================
    form               probability of rejecting                  what it is
    ================== ========================================  ===============================================
    greater            ``F(x - threshold)``                      UMPU for odds ratios above the null
    less               ``F(threshold - x)``                      UMPU for odds ratios below it
    umpu-two-sided     ``F(|x - centre| - threshold)``           UMPU against both sides; needs the data
    noisy-two-sided    ``P(|x + N - centre| > threshold)``       unbiased; needs the noisy corner only; not UMPU
    ================== ========================================  ===============================================

    Make one with `bayesdp.significance.umpu_odds_ratio` or `bayesdp.significance.unbiased_odds_ratio`.

    Parameters
    ----------
    form : str
        As in the table.
    alpha, null : float
        Size, and odds ratio of the null hypothesis, ``x11 x22 / (x12 x21)``.
    family, noise, tradeoff : Family, Noise, str
        Law of the corner given the margins, canonical noise F, and the trade-off function in words.
    anchor, offset : int, float
        Whose sum is the threshold (one-sided) or the centre (two-sided), so that it keeps its digits with large counts.
    half_width : float
        Threshold of the two-sided forms; NaN otherwise.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import approximate_dp
    >>> from bayesdp.significance import umpu_odds_ratio
    >>> rule = umpu_odds_ratio(0.05, rows=(50, 50), column=40, tradeoff=approximate_dp(1.0))
    >>> print(f"{rule.threshold:.6f} {rule.size:.6f} {rule.power(3.0):.6f} {rule.probability(27):.6f}")
    24.608893 0.050000 0.758161 0.956792
    """

    form: Form
    alpha: float
    null: float
    family: Family = field(repr=False)
    noise: Noise
    tradeoff: str
    anchor: int = field(repr=False)
    offset: float = field(repr=False)
    half_width: float = field(default=math.nan, repr=False)

    @property
    def two_sided(self) -> bool:
        """Whether the test is against both sides."""
        return self.form in ("umpu-two-sided", "noisy-two-sided")

    @property
    def threshold(self) -> float:
        """m(t) of paper 003, Theorem 37; for two-sided forms the distance from `centre`."""
        return self.half_width if self.two_sided else self.anchor + self.offset

    @property
    def centre(self) -> float:
        """Centre of a two-sided test; NaN for one-sided ones."""
        return self.anchor + self.offset if self.two_sided else math.nan

    def probability(self, corner: npt.ArrayLike) -> Any:
        """Probability of rejecting, given the confidential corner.

        Parameters
        ----------
        corner : int or array_like of int
            Values of x11 that the margins allow. The result has its shape.
        """
        x = _validate.integer_array(corner, "corner")
        if np.any((x < self.family.low) | (x > self.family.high)):
            raise ValueError(
                f"corner must be from {self.family.low} to {self.family.high} with these margins, got {corner!r}"
            )
        found = rejection(self.form, self.noise, x.astype(np.float64) - self.anchor - self.offset, self.half_width)
        return found if x.ndim else float(found)

    def power(self, odds_ratio: npt.ArrayLike) -> Any:
        """Probability of rejecting, given the odds ratio and the margins.

        Parameters
        ----------
        odds_ratio : float or array_like
            At least 0; infinity is allowed. The result has its shape.
        """
        return at_odds_ratios(lambda log_odds: self._power(self.family.masses(log_odds)), odds_ratio)

    @property
    def size(self) -> float:
        """Probability of rejecting at the null: alpha, up to rounding."""
        return float(self.power(self.null))

    def _power(self, law: Masses) -> float:
        at = law.points - float(self.anchor) - self.offset
        return min(1.0, law.expectation(rejection(self.form, self.noise, at, self.half_width)))

    def rejects(self, statistic: float) -> bool:
        """Whether the noisy corner ``U = x11 + N`` is in the rejection region, without touching the data again.

        ValueError for the two-sided UMPU test: it is no function of a noisy corner.
        """
        u = _validate.finite_array(statistic, "statistic") - float(self.anchor) - self.offset
        if self.form == "umpu-two-sided":
            raise ValueError("the two-sided UMPU test needs the data: no noisy corner decides it; see probability()")
        if self.form == "noisy-two-sided":
            return bool(abs(u) > self.half_width)
        return bool(u >= 0.0 if self.form == "greater" else u <= 0.0)


def rejection(form: Form, noise: Noise, at: Floats, half_width: float) -> Floats:
    """Probability of rejecting at a distance `at` from the threshold or the centre."""
    if form == "greater":
        found = noise.cdf(at)
    elif form == "less":
        found = noise.cdf(-at)
    elif form == "umpu-two-sided":
        found = noise.cdf(np.abs(at) - half_width)
    else:
        found = noise.cdf(at - half_width) + noise.cdf(-at - half_width)
    return np.asarray(found, dtype=np.float64)


def _solved(form: Form, alpha: float, law: Masses, noise: Noise) -> tuple[int, float, float]:
    """Anchor, offset and half-width of a given size. Unbiased: the power has derivative 0 at the null, ``E (X - E X) phi(X) = 0``."""
    anchor = round(law.mean)
    if form in ("greater", "less"):
        sign = 1.0 if form == "greater" else -1.0

        def size(threshold: float, anchor: int) -> float:
            return law.expectation(rejection(form, noise, law.points - float(anchor) - threshold, math.nan))

        # The power of "greater" falls with the threshold, that of "less" rises.
        rough = _root(lambda m: sign * (alpha - size(m, anchor)))
        nearest = anchor + round(rough)
        return nearest, _root(lambda m: sign * (alpha - size(m, nearest)), rough - round(rough), 0.5), math.nan
    if law.weights.size == 1:  # one table: nothing to balance
        return law.first, 0.0, _half_width(form, alpha, law, noise, law.first, 0.0)
    deviation = law.points - law.mean

    def lean(offset: float) -> float:
        """Covariance of the count and the test: below 0 where the centre is too far right."""
        half_width = _half_width(form, alpha, law, noise, anchor, offset)
        return law.expectation(deviation * rejection(form, noise, law.points - float(anchor) - offset, half_width))

    offset = _root(lambda k: -lean(k), width=max(1.0, 0.1 * law.weights.size))
    return anchor, offset, _half_width(form, alpha, law, noise, anchor, offset)


def rule_of(form: Form, alpha: float, null: float, family: Family, noise: Noise, tradeoff: str) -> Rule:
    """The test of a form and a size at a null odds ratio; arguments are checked."""
    size = _validate.probability(alpha, "alpha")
    ratio = _validate.positive_real(null, "null")
    law = family.masses(math.log(ratio), _NEGLIGIBLE * size)
    anchor, offset, half_width = _solved(form, size, law, noise)
    found = law.expectation(rejection(form, noise, law.points - float(anchor) - offset, half_width))
    if abs(found - size) > _SIZE_ERROR * size:
        raise ValueError(
            f"the noise {noise!r} is too narrow for binary64 thresholds: the test would have size {found:.10g} and not {size:g}. "
            "Noise that narrow protects nothing: test without privacy"
        )
    return Rule(form, size, ratio, family, noise, tradeoff, anchor, offset, half_width)


def _half_width(form: Form, alpha: float, law: Masses, noise: Noise, anchor: int, offset: float) -> float:
    """Threshold at which a two-sided test with this centre has size alpha."""
    at = law.points - float(anchor) - offset
    return _root(lambda m: alpha - law.expectation(rejection(form, noise, at, m)))


def _root(rising: Callable[[float], float], start: float = 0.0, width: float = 1.0) -> float:
    """Where a rising function is 0: bracket by doubling, then Brent's method to the last digits."""
    left, right = start - width, start + width
    while rising(left) > 0.0:
        left, width = left - width, 2.0 * width
    while rising(right) < 0.0:
        right, width = right + width, 2.0 * width
    return float(brentq(rising, left, right, xtol=1e-15, rtol=_TOLERANCE, maxiter=500))


@documented_test
def umpu_odds_ratio(
    alpha: float,
    *,
    rows: tuple[int, int],
    column: int,
    tradeoff: TradeOff,
    alternative: str = "greater",
    null: float = 1.0,
) -> Rule:
    """The uniformly most powerful unbiased test of the odds ratio under Semi-DP, as a function of the confidential corner.

    One-sided, ``phi(x) = F(x - m)`` with m such that the size is alpha (paper 003, Theorem 37). Two-sided,
    ``phi(x) = F(|x - k| - m)``, k and m such that the size is alpha and the power is least at the null: the form that Awan
    and Slavkovic (2018) prove for binomial data. docs/TWO-SIDED-TEST.md proves it for the odds ratio and every symmetric
    trade-off function; the tests compare its power with that of the best test, by linear programming, on small margins. The one bit
    that the test publishes is drawn once, with the `Rule.probability` of the confidential corner.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import gaussian_dp
    >>> rule = umpu_odds_ratio(0.05, rows=(12, 8), column=10, tradeoff=gaussian_dp(1.0), alternative="two-sided")
    >>> print(f"{rule.centre:.6f} {rule.size:.6f} {rule.power(0.2):.6f} {rule.power(5.0):.6f}")
    6.000000 0.050000 0.240697 0.240697
    """
    f = checked(tradeoff, "tradeoff")
    _validate.choice(alternative, ALTERNATIVES, "alternative")
    forms: dict[str, Form] = {"greater": "greater", "less": "less", "two-sided": "umpu-two-sided"}
    return rule_of(forms[alternative], alpha, null, margins(rows, column), f.canonical_noise(), in_words(f))


@documented_test
def unbiased_odds_ratio(
    alpha: float, *, rows: tuple[int, int], column: int, tradeoff: TradeOff, null: float = 1.0
) -> Rule:
    """The two-sided unbiased test of a *noisy* corner: reject if ``|U - k| > m``.

    k and m are such that the size is alpha and the derivative of the power at the null is 0. It is post-processing of
    U, and not the UMPU test, which no function of U alone attains.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import gaussian_dp
    >>> rule = unbiased_odds_ratio(0.05, rows=(12, 8), column=10, tradeoff=gaussian_dp(1.0))
    >>> print(f"{rule.centre:.4f} {rule.threshold:.4f} {rule.power(5.0):.6f} {rule.rejects(10.2)}")
    6.0000 2.9449 0.239143 True
    """
    f = checked(tradeoff, "tradeoff")
    return rule_of("noisy-two-sided", alpha, null, margins(rows, column), f.canonical_noise(), in_words(f))
