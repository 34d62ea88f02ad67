"""Numbers as the page writes them."""

from __future__ import annotations

import math

ABSENT = "–"
"""What stands where there is no number."""


def count(value: float) -> str:
    """A count or a published value.

    Examples
    --------
    >>> count(5105067.0), count(2.5), count(float("nan"))
    ('5,105,067', '2.50', '–')
    """
    if math.isnan(value):
        return ABSENT
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def decimal(value: float) -> str:
    """A mean: one decimal below a thousand, none beyond."""
    if math.isnan(value):
        return ABSENT
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def spread(value: float) -> str:
    """A standard deviation or a ratio, to three digits or so."""
    if math.isnan(value):
        return ABSENT
    if math.isinf(value):
        return "∞"
    return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"


def interval(lower: float, upper: float) -> str:
    """Both ends of an interval of counts."""
    return f"{count(lower)} to {count(upper)}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    Examples
    --------
    >>> plural(1, "cell"), plural(2, "cell")
    ('1 cell', '2 cells')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def significant(value: float) -> str:
    """A parameter, which may be of any size: to three digits.

    Examples
    --------
    >>> significant(0.012345), significant(-1.5), significant(23716.6)
    ('0.0123', '-1.5', '23,717')
    """
    if math.isnan(value):
        return ABSENT
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"
