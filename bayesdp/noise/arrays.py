"""What laws do with arrays: arguments checked and spread over cells, draws cell by cell, and formulas for NumPy and PyTensor at once.

A function of a law whose first argument is ``xp`` takes `numpy` and arrays, or `pytensor.tensor` and its variables; nothing of
PyTensor is imported here. It uses what both have under one name and with one meaning (arithmetic, comparisons, ``exp``,
``logaddexp``, ``round`` half to even, ``minimum``, ``clip``, ``where``, ``broadcast_arrays`` and others), and what stands at the
end here. Where one side of a ``where`` is not used, its argument must be harmless there, because PyTensor differentiates both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints
from bayesdp._validate import MAX_SCALE, MIN_SCALE, positive_number

type Limit = float | Floats


def positive_scale(value: Any, argument: str) -> float | Floats:
    """Accept one positive number, or an array of them that nobody can write to."""
    if np.ndim(value) == 0 and not isinstance(value, np.ndarray):
        return positive_number(value, argument)
    array = np.array(_validate.finite_array(value, argument), dtype=np.float64)
    flat = array.reshape(-1)
    bad = np.flatnonzero((flat < MIN_SCALE) | (flat >= MAX_SCALE))
    if bad.size:
        where = tuple(int(i) for i in np.unravel_index(bad[0], array.shape))
        raise ValueError(
            f"{argument} must be greater than 0 and smaller than 2**46 in every cell, "
            f"but at position {where} it is {flat[bad[0]]!r}"
        )
    if array.size == 0:
        raise ValueError(f"{argument} must hold at least one number, got an array of shape {array.shape}")
    if array.ndim == 0:
        return float(array)
    array.flags.writeable = False
    return array


def two_sensitivities(law: Any, loss: Any) -> str:
    """What one record changes in counts of disjoint cells, when, and the scale of a law that follows from a loss; for messages."""
    both = ((1.0, "1"), (2.0, "2")) if law.scale_name == "b" else ((1.0, "1"), (math.sqrt(2.0), "1.414214"))
    one, two = (f"sensitivity={told}, {law.scale_name} = {float(law._of_loss(loss, size)):.6g}" for size, told in both)
    return (
        f"how much one record changes the answers. In a table where each counts in one cell that is 1 if a record is added or removed "
        f"('unbounded': {one}), and {both[1][1]} if one is replaced, so that one cell loses what another gains ('bounded': {two}); "
        "it is more where a record counts in several cells, tables or days. The methods note says which"
    )


def broadcast_scale(scale: float | Floats, shape: tuple[int, ...], argument: str) -> Floats:
    """Spread a scale over the cells; one array entry per cell, nothing that would enlarge the table."""
    try:
        return np.broadcast_to(np.asarray(scale, dtype=np.float64), shape)
    except ValueError:
        raise ValueError(
            f"{argument} has shape {np.shape(scale)}, which does not fit values of shape {shape}"
        ) from None


def at_answers(value: npt.ArrayLike, answer: int | Ints, shape: tuple[int, ...]) -> Any:
    """A parameter at one answer of a query of this shape, a number, or at an array of places, in its shape unless it is one number."""
    if np.ndim(value) == 0:
        return value
    found = np.broadcast_to(value, shape).reshape(-1)[answer]
    return found if np.ndim(found) else found.item()


def located(location: npt.ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    """Spread a location (zero if None) over the cells."""
    centre = np.asarray(_validate.finite_array(0.0 if location is None else location, "location"), np.float64)
    try:
        return np.broadcast_to(centre, shape)
    except ValueError:
        raise ValueError(f"location has shape {centre.shape}, which does not fit the shape {shape}") from None


def values_and_location(values: npt.ArrayLike, location: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Accept finite values and locations of one shape, or of shapes that broadcast against each other."""
    first = np.asarray(_validate.finite_array(values, "values"), dtype=np.float64)
    second = np.asarray(_validate.finite_array(location, "location"), dtype=np.float64)
    try:
        shape = np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise ValueError(f"values of shape {first.shape} do not fit location of shape {second.shape}") from None
    return np.broadcast_to(first, shape), np.broadcast_to(second, shape)


def draw_each(fill: Any, rng: np.random.Generator, parameters: Sequence[Floats], count: int, *, integer: bool) -> Any:
    """Draws with parameters of one shape (the location first), shape ``(count, *shape)``."""
    # `fill(rng, *parameters, out)` writes draws into `out`, shape (draws, cells), from flat parameters.
    out = np.empty((count, parameters[0].size), dtype=np.int64 if integer else np.float64)
    fill(rng, *(np.ascontiguousarray(array, dtype=np.float64).reshape(-1) for array in parameters), out)
    return out.reshape(count, *parameters[0].shape)


def checked_limit(value: Any, absent: float, argument: str, *, integer: bool) -> Limit:
    """Accept a limit, or one for each cell or answer; None and the infinity `absent` stand for none."""
    # `absent`: minus infinity for the smallest value, infinity for the largest one. `integer`: whether values, and so limits, are.
    if value is None:
        return absent
    numbers = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
    given = np.asarray(value, dtype=np.float64 if numbers else object)
    items: list[Any] = [] if numbers else [absent if item is None else item for item in given.reshape(-1)]
    largest = [np.max(np.abs(given), where=np.isfinite(given), initial=0.0)] if numbers else []  # says it of all
    for item in items + largest:
        # Text that looks like a number, and booleans, would become numbers.
        if isinstance(item, bool | np.bool) or not isinstance(item, Real):
            raise TypeError(f"{argument} must be a real number, an array of them or None, got {value!r}")
        plain: Any = item
        size = abs(plain.item() if hasattr(plain, "item") else plain)  # NumPy's smallest integer has no absolute value
        if _validate.MAX_COUNT <= size != np.inf:
            raise ValueError(f"{argument} must be smaller than 2**53 in absolute value, got {value!r}")
    array = given.copy() if numbers else np.array([float(item) for item in items]).reshape(given.shape)
    if not array.size:
        raise ValueError(f"{argument} must hold at least one number, got an array of shape {array.shape}")
    if np.any(np.isnan(array)) or np.any(array == -absent):
        raise ValueError(f"{argument} must be a number, or {absent} or None where there is none, got {value!r}")
    if integer and np.any(array != np.rint(array)):
        raise ValueError(f"{argument} must be a whole number, as values of the law are, got {value!r}")
    if array.ndim == 0:
        return float(array)
    array.flags.writeable = False
    return array


def whole(variable: Any) -> bool:
    """Whether an array or tensor has an integer (or Boolean) type."""
    return np.dtype(variable.dtype).kind in "iub"


def real(xp: Any, variable: Any) -> Any:
    """The same numbers in double precision."""
    return np.asarray(variable, dtype=np.float64) if xp is np else xp.cast(variable, "float64")


def equal(xp: Any, first: Any, second: Any) -> Any:
    """Where two arrays or tensors are equal."""
    return np.equal(first, second) if xp is np else xp.eq(first, second)


def finite(xp: Any, bound: Any, other: Any) -> Any:
    """A bound where it is finite, and a number in its place where it is not."""
    return xp.where(xp.isinf(bound), other, bound)


def special(xp: Any) -> Any:
    """Where ``erf``, ``erfc``, ``erfcx`` and ``gammainc`` are found."""
    return scipy.special if xp is np else xp


def softplus(xp: Any, x: Any) -> Any:
    """``log(1 + exp(x))``, for large x as well."""
    return np.logaddexp(0.0, x) if xp is np else xp.softplus(x)


def log1mexp(xp: Any, x: Any) -> Any:
    """``log(1 - exp(x))`` for x up to 0, with all digits at both ends."""
    if xp is not np:
        return xp.log1mexp(x)
    with np.errstate(divide="ignore"):
        return np.where(x > -math.log(2.0), np.log(-np.expm1(np.maximum(x, -1.0))), np.log1p(-np.exp(x)))
