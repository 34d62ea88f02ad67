"""Units of answers: real coefficients are whole multiples of a unit, exactly as the decimals that they print as."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import MAX_COUNT

ONE = Fraction(1)

_MOST_DIGITS = 40
"""Digits of numerator and denominator of a unit in a file."""


def exact_number(value: Any, argument: str) -> Fraction:
    """A number as a fraction: a float is the shortest decimal that it prints as, so that 0.1 is a tenth.

    Examples
    --------
    >>> exact_number(0.1, "x"), exact_number(np.float32(2.5), "x")
    (Fraction(1, 10), Fraction(5, 2))
    """
    kinds = (Rational, Real, np.number)
    if isinstance(value, (bool, np.bool_)) or not (isinstance(value, kinds) or hasattr(value, "as_integer_ratio")):
        raise TypeError(f"{argument} must be a real number, got {value!r}")
    if isinstance(value, Rational) or isinstance(value, np.integer):
        return Fraction(int(value)) if isinstance(value, np.integer) else Fraction(value)
    if not math.isfinite(value):
        raise ValueError(f"{argument} must be finite, got {value!r}")
    return Fraction(str(value))


def positive_unit(value: Any, argument: str = "unit") -> Fraction:
    """A unit that a user gives: a positive number."""
    unit = exact_number(value, argument)
    if unit <= 0:
        raise ValueError(f"{argument} must be greater than 0, got {value!r}")
    return unit


def unit_from_text(text: Any) -> Fraction:
    """The unit of a file, written as a fraction; only the one way to write it that this package has."""
    if not isinstance(text, str) or len(text) > 2 * _MOST_DIGITS + 1 or not all(own in "0123456789/" for own in text):
        raise ValueError(f"unit of a query must be a fraction such as '1/100', got {str(text)[:40]!r}")
    try:
        unit = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"unit of a query must be a fraction such as '1/100', got {text!r}") from None
    if unit <= 0 or str(unit) != text or unit == ONE:
        raise ValueError(f"unit of a query must be a positive fraction in lowest terms other than 1, got {text!r}")
    return unit


def shown_unit(unit: Fraction) -> str:
    """A unit for people: a decimal where it is a short one, otherwise the fraction.

    Examples
    --------
    >>> shown_unit(Fraction(1, 100)), shown_unit(Fraction(1, 3)), shown_unit(Fraction(1000))
    ('0.01', '1/3', '1000')
    """
    short = f"{float(unit):.15g}"
    return short if Fraction(short) == unit else str(unit)


def common_unit(values: Sequence[Fraction]) -> Fraction:
    """The largest number of which all are whole multiples; 1 if all are zero.

    Examples
    --------
    >>> common_unit([Fraction("0.5"), Fraction("0.75"), Fraction(2)])
    Fraction(1, 4)
    """
    below = math.lcm(*(own.denominator for own in values))
    above = math.gcd(*(int(own * below) for own in values))
    return Fraction(above, below) if above else ONE


def whole_multiples(
    values: Sequence[Fraction], unit: Fraction, name_of: Callable[[int], str], argument: str
) -> npt.NDArray[np.int64]:
    """Each value divided by the unit; ValueError that names the first one that is no whole multiple, or is too large."""
    made = np.zeros(len(values), dtype=np.int64)
    for i, value in enumerate(values):
        ratio = value / unit
        if ratio.denominator != 1:
            raise ValueError(
                f"{argument} must have whole multiples of the unit {shown_unit(unit)}, but {name_of(i)} is "
                f"{shown_unit(value)}: round it, or take a unit such as {shown_unit(common_unit([value, unit]))}"
            )
        if abs(ratio.numerator) >= MAX_COUNT:
            raise ValueError(
                f"{argument} must have multiples of the unit below 2**53, but {name_of(i)} is {shown_unit(value)} with the "
                f"unit {shown_unit(unit)}: round the entries to fewer digits"
            )
        made[i] = ratio.numerator
    return made
