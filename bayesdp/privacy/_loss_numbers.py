"""Conversions between privacy losses as formulas of plain numbers; the classes in `bayesdp.privacy.losses` use them."""

from __future__ import annotations

import math

from scipy.special import ndtri_exp

from bayesdp import _validate

_LARGEST_EXPONENT = 700.0
"""Beyond it exp(x) is no binary64 number, and 1 + exp(x) is exp(x) to the last bit."""


def mu_of_epsilon(epsilon: float) -> float:
    """The smallest mu that pure epsilon implies, ``-2 Phi^-1(1 / (1 + e**epsilon))``; see `bayesdp.privacy.loss.Loss.to`."""
    # log(1 / (1 + e^epsilon)), in log space.
    return max(0.0, -2.0 * float(ndtri_exp(-_log_one_plus_exp(epsilon))))


def epsilon_of_delta(epsilon: float, delta: float, wanted: float) -> float:
    """The smallest epsilon at the delta that is asked for, no smaller than the given one, of an (epsilon, delta)-private mechanism."""
    # Such a mechanism is (e, d)-private just when `d >= 1 - (1 - delta) (1 + e**e) / (1 + e**epsilon)` for `e <= epsilon` (Kairouz,
    # Oh and Viswanath, 2015, Section 3: the trade-off functions).
    wanted = _validate.probability(wanted, "delta")
    if wanted < delta:
        raise ValueError(f"delta must be at least that of the loss, {delta:.6g}, got {wanted:.6g}")
    # 1 + e^e = (1 - asked) / (1 - delta) (1 + e^epsilon)
    log_sum = math.log1p(-wanted) - math.log1p(-delta) + _log_one_plus_exp(epsilon)
    if log_sum <= math.log(2.0):
        return 0.0
    return min(max(log_sum + math.log(-math.expm1(-log_sum)), 0.0), epsilon)


def delta_of_epsilon(epsilon: float, delta: float, wanted: float) -> float:
    """The smallest delta at the epsilon that is asked for; the inverse of `epsilon_of_delta`, at most 1."""
    wanted = _validate.nonnegative_real(wanted, "epsilon")
    if wanted >= epsilon or delta >= 1.0:
        return min(delta, 1.0)
    log_ratio = _log_one_plus_exp(wanted) - _log_one_plus_exp(epsilon)
    return min(1.0, max(delta, -math.expm1(log_ratio) + delta * math.exp(log_ratio)))


def group_delta(epsilon: float, delta: float, k: int) -> float:
    """``delta (1 + e**epsilon + ... + e**((k - 1) epsilon))``, at most 1, in log space."""
    if delta <= 0.0 or k == 1:
        return min(delta, 1.0)
    if epsilon == 0.0:
        return min(k * delta, 1.0)
    log_sum = (k - 1) * epsilon + math.log(-math.expm1(-k * epsilon)) - math.log(-math.expm1(-epsilon))
    log_delta = math.log(delta) + log_sum
    return 1.0 if log_delta >= 0.0 else math.exp(log_delta)


def _log_one_plus_exp(x: float) -> float:
    return x if x > _LARGEST_EXPONENT else math.log1p(math.exp(x))
