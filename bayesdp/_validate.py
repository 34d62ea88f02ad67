"""Argument checks: each returns the value it accepted, or raises an error that names the argument and what would have been valid."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import both_lists as both_lists
from bayesdp._text import meant as meant
from bayesdp._text import nearest as nearest
from bayesdp._text import shown as shown

type Seed = int | np.integer | np.random.Generator | None
"""What an argument ``rng`` may be, after NumPy's SPEC 7: an integer seed, a generator, or None for fresh entropy."""

MAX_COUNT = 2**53
"""Counts must be smaller than this in absolute value: beyond it float64 no longer holds every integer."""


def no_table(statements: Sequence[str], *, complete: bool = True) -> str:
    """The message that exact values leave no table of counts, in the words of the field."""
    # `complete`: whether the statements alone, like `total = -3`, contradict one another; otherwise they do together with others.
    message = shown(statements, _STATEMENTS, "; ", str)
    others = "" if complete else " (together with the other exact values)"
    return f"no nonnegative integer table satisfies the exact values: {message}{others}"


_STATEMENTS = 12
"""Most exact values that a message names."""

_LONGEST = 40
"""Most characters of a number that a message shows."""


def _as_float(value: Real) -> float:
    """The nearest float; infinity for integers and fractions beyond all floats, of which `float` makes an OverflowError."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]  # typeshed gives Real no comparison


def _number_text(value: Any) -> str:
    """A number for a message; of one with hundreds of digits, how long it is."""
    if isinstance(value, int) and value.bit_length() > _LONGEST * 3:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _real(value: Any, argument: str, kind: str, fits: Callable[[float], bool], rule: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{argument} must be {kind}, got {value!r} of type {type(value).__name__}")
    number = _as_float(value)
    if not (math.isfinite(number) and fits(number)):
        raise ValueError(f"{argument} must {rule}, got {_number_text(value)}")
    return number


def _integer(value: Any, argument: str, kind: str, least: int, rule: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{argument} must be {kind}, got {value!r} of type {type(value).__name__}")
    number = int(value)
    if number < least:
        raise ValueError(f"{argument} must be an integer {rule}, got {value!r}")
    return number


def finite_real(value: Any, argument: str) -> float:
    """Accept a finite real number."""
    return _real(value, argument, "a real number", lambda number: True, "be finite")


def positive_real(value: Any, argument: str) -> float:
    """Accept a finite real number greater than zero."""
    rule = "be a finite number greater than 0"
    return _real(value, argument, "a positive real number", lambda number: number > 0, rule)


def nonnegative_real(value: Any, argument: str) -> float:
    """Accept a finite real number that is zero or greater."""
    return _real(value, argument, "a real number >= 0", lambda number: number >= 0, "be a finite number of at least 0")


def positive_integer(value: Any, argument: str) -> int:
    """Accept an integer greater than zero."""
    return _integer(value, argument, "a positive integer", 1, "greater than 0")


def nonnegative_integer(value: Any, argument: str) -> int:
    """Accept an integer that is zero or greater."""
    return _integer(value, argument, "an integer >= 0", 0, "of at least 0")


def probability(value: Any, argument: str) -> float:
    """Accept a real number strictly between 0 and 1."""
    rule = "lie strictly between 0 and 1"
    return _real(value, argument, "a number between 0 and 1", lambda number: 0 < number < 1, rule)


def instance(value: Any, kind: Any, rule: str, *, quoted: bool = False) -> None:
    """Accept a value of a type, or of one of several; `quoted`: whether the message shows the value, or its type."""
    if not isinstance(value, kind):
        raise TypeError(f"{rule}, got {repr(value) if quoted else type(value).__name__}")


def set_fields(made: Any, **values: Any) -> None:
    """Set fields that were checked, of a frozen object that is being made."""
    for name, value in values.items():
        object.__setattr__(made, name, value)


def boolean(value: Any, argument: str) -> bool:
    """Accept True or False and nothing that merely looks like it."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{argument} must be True or False, got {value!r}")
    return bool(value)


def choice(value: Any, options: Sequence[str], argument: str) -> str:
    """Accept one of a few strings."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(
            f"{argument} must be one of {', '.join(map(repr, options))}, got {value!r}{meant(value, options)}"
        )
    return value


def name_list(given: Any, argument: str) -> tuple[str, ...]:
    """A list of names, checked."""
    listed = isinstance(given, Iterable) and not isinstance(given, (str, Mapping))
    if not listed or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{argument} must be a list of names, got {given!r}")
    found = tuple(given)
    if len(set(found)) < len(found):
        raise ValueError(f"{argument} has a name twice: {shown(found)}")
    return found


def finite_array(
    values: Any, argument: str, name_of: Callable[[int], str] = str, *, confidential: bool = False
) -> Floats | Ints:
    """Accept numbers that are finite and below `MAX_COUNT` in size; integers stay int64, the rest is float64."""
    # `name_of` makes of a flat position the label of the cell, for the message; where `confidential`, this shows no value.
    # Booleans, strings and objects are refused.
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{argument} must hold integers or real numbers, got an array of dtype {array.dtype}")
    flat = array.reshape(-1)
    if array.dtype.kind == "f":
        _refuse(~np.isfinite(flat), f"{argument} must be finite", name_of, flat, confidential)
    big = (flat >= MAX_COUNT) | (flat <= -MAX_COUNT)
    _refuse(big, f"{argument} must be smaller than 2**53 in absolute value", name_of, flat, confidential)
    return array.astype(np.float64) if array.dtype.kind == "f" else array.astype(np.int64)


def integer_array(
    values: Any,
    argument: str,
    name_of: Callable[[int], str] = str,
    *,
    minimum: int | None = None,
    confidential: bool = False,
) -> Ints:
    """Accept whole numbers (an integer dtype, or floats that hold integers exactly) as int64; see `finite_array`."""
    array = finite_array(values, argument, name_of, confidential=confidential)
    flat = array.reshape(-1)
    if array.dtype.kind == "f":
        rule = f"{argument} must hold whole numbers"
        _refuse(flat != np.rint(flat), rule, name_of, flat, confidential, "no whole number")
    if minimum is not None:
        _refuse(flat < minimum, f"{argument} must be at least {minimum}", name_of, flat, confidential)
    return array.astype(np.int64)


def _refuse(bad: Mask, rule: str, name_of: Any, flat: Floats | Ints, confidential: bool, instead: str = "not") -> None:
    """Say which value breaks a rule, and what it is where that may be told."""
    if bad.any():
        where = int(bad.argmax())
        raise ValueError(f"{rule}, but {name_of(where)} is {instead if confidential else flat[where]}")


def exact_total(values: Ints) -> int:
    """The sum of integers as a Python integer: int64 would wrap without a word."""
    # Halves of 32 bits, of which int64 adds up two thousand million.
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def random_generator(rng: Seed) -> np.random.Generator | None:
    """Accept a generator, an integer that seeds one, or None, which stays None: some callers then draw by other means."""
    # A function that draws more than once has to ask once, at its door: an integer makes the same generator every time.
    if rng is None or isinstance(rng, np.random.Generator):
        return rng
    given: Any = rng
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise TypeError(
            f"rng must be an integer seed, a numpy.random.Generator or None, got {given!r} of type {type(given).__name__}"
        )
    if given < 0:
        raise ValueError(f"rng must be a seed of at least 0, a numpy.random.Generator or None, got {given!r}")
    return np.random.default_rng(int(given))


def generator_of(rng: Seed) -> np.random.Generator:
    """Accept what `random_generator` accepts; None makes a generator from the entropy of the operating system."""
    generator = random_generator(rng)
    return np.random.default_rng() if generator is None else generator


MAX_SCALE = 2.0**46
"""Scales must be smaller, so that noise at a hundred scales stays below 2**53 and is an exact integer."""

MIN_SCALE = 2.0**-400
"""Scales must be at least this, so that squares of what is measured in them are numbers too; nobody needs smaller ones."""


def positive_rate(value: Any, argument: str) -> float:
    """Accept one positive number whose inverse is a scale: more than ``1 / MAX_SCALE``, at most ``1 / MIN_SCALE``."""
    rate = positive_real(value, argument)
    if not 1.0 / MAX_SCALE < rate <= 1.0 / MIN_SCALE:
        raise ValueError(
            f"{argument} must be greater than 2**-46, so that noise is not of 2**53 or more, and at most 2**400, got {value!r}"
        )
    return rate


def positive_number(value: Any, argument: str) -> float:
    """Accept one positive number below `MAX_SCALE`."""
    scale = positive_real(value, argument)
    if not MIN_SCALE <= scale < MAX_SCALE:
        raise ValueError(f"{argument} must be smaller than 2**46, and at least 2**-400, got {value!r}")
    return scale
