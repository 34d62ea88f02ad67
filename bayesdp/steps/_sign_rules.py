"""Signs of arrays, and what arithmetic makes of them: rules for sums, products, quotients, exponentials and the like.

For example, a product is always 0 where one factor is, and always positive where all factors are. The arithmetic is that
of real numbers, not of floats that underflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytensor.scalar as ps
from pytensor.scalar.math import Sigmoid, Softplus
from pytensor.tensor.math import Prod

type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Signs:
    """What is always so of each entry of an array, whatever the values of the variables are; all False: nothing is known."""

    zero: Mask  # whether the entry is always 0
    positive: Mask  # always above 0
    below: Mask  # always below 1
    one: Mask  # always 1

    @property
    def masks(self) -> tuple[Mask, Mask, Mask, Mask]:
        """All four."""
        return self.zero, self.positive, self.below, self.one

    def broadcast(self, shape: tuple[int, ...]) -> Signs:
        """The signs of the array broadcast to a shape."""
        return Signs(*(np.broadcast_to(mask, shape) for mask in self.masks))

    @property
    def nonnegative(self) -> Mask:
        """Entries that are known to be always 0 or always positive."""
        return np.asarray(self.zero | self.positive)


def of_numbers(values: npt.NDArray[Any]) -> Signs:
    """The signs of known numbers."""
    return Signs(values == 0, values > 0, values < 1, values == 1)


def nothing_known(shape: tuple[int, ...]) -> Signs:
    """The signs of an array of which nothing is known."""
    none = np.zeros(shape, dtype=np.bool_)
    return Signs(none, none, none, none)


def all_positive(shape: tuple[int, ...]) -> Signs:
    """The signs of an array whose entries are all positive."""
    none = np.zeros(shape, dtype=np.bool_)
    return Signs(none, ~none, none, none)


def _times(parts: list[Signs]) -> Signs:
    zero = np.any([p.zero for p in parts], axis=0)
    below = np.all([p.nonnegative & (p.below | p.one) for p in parts], axis=0) & np.any(
        [p.below for p in parts], axis=0
    )
    return Signs(zero, _every(parts, "positive"), below | zero, _every(parts, "one"))


def _plus(parts: list[Signs]) -> Signs:
    zero = _every(parts, "zero")
    alone = np.sum([~p.zero for p in parts], axis=0) <= 1
    return Signs(
        zero,
        np.all([p.nonnegative for p in parts], axis=0) & ~zero,
        alone & np.all([p.below for p in parts], axis=0),
        (alone & np.all([p.zero | p.one for p in parts], axis=0) & ~zero),
    )


def _minus(parts: list[Signs]) -> Signs:
    first, second = parts
    return Signs(
        first.zero & second.zero,
        (first.positive & second.zero) | (first.one & second.below),
        (first.below & second.zero) | (first.one & second.positive),
        first.one & second.zero,
    )


def _over(parts: list[Signs]) -> Signs:
    first, second = parts
    return Signs(
        first.zero & second.positive,
        first.positive & second.positive,
        (first.zero & second.positive) | (first.below & first.positive & second.one),
        first.one & second.one,
    )


def _zero_at_zero(parts: list[Signs]) -> Signs:
    """Functions f of one number with f(0) = 0 and f(x) > 0 for x > 0, such as squares and log(1 + x)."""
    [x] = parts
    return Signs(x.zero, x.positive, x.zero, np.zeros_like(x.zero))


def _power(parts: list[Signs]) -> Signs:
    base, exponent = parts
    none = np.zeros_like(base.zero)
    zero = base.zero & exponent.positive
    return Signs(zero, base.positive, zero, none)


def _largest(parts: list[Signs]) -> Signs:
    return Signs(
        _every(parts, "zero"),
        np.any([p.positive for p in parts], axis=0),
        _every(parts, "below"),
        _every(parts, "one"),
    )


def _smallest(parts: list[Signs]) -> Signs:
    least = np.all([p.nonnegative for p in parts], axis=0)
    return Signs(
        np.any([p.zero for p in parts], axis=0) & least,
        _every(parts, "positive"),
        np.any([p.below for p in parts], axis=0),
        _every(parts, "one"),
    )


def _every(parts: list[Signs], name: str) -> Mask:
    return np.asarray(np.all([getattr(part, name) for part in parts], axis=0))


def _positive_everywhere(parts: list[Signs]) -> Signs:
    return all_positive(parts[0].zero.shape)


def _sigmoid(parts: list[Signs]) -> Signs:
    some = np.ones(parts[0].zero.shape, dtype=np.bool_)
    return Signs(~some, some, some, ~some)


def _reciprocal(parts: list[Signs]) -> Signs:
    none = np.zeros_like(parts[0].zero)
    return Signs(none, parts[0].positive, none, none)


_RULES: list[tuple[Any, Callable[[list[Signs]], Signs]]] = [
    (ps.basic.Mul, _times),
    (ps.basic.Add, _plus),
    (ps.basic.Sub, _minus),
    (ps.basic.TrueDiv, _over),
    (ps.basic.Cast | ps.basic.Identity, lambda parts: parts[0]),
    (ps.basic.Exp | Softplus, _positive_everywhere),
    (Sigmoid, _sigmoid),
    (ps.basic.Sqr | ps.basic.Sqrt | ps.basic.Abs | ps.basic.Log1p | ps.basic.Expm1, _zero_at_zero),
    (ps.basic.Reciprocal, _reciprocal),
    (ps.basic.Pow, _power),
    (ps.basic.ScalarMaximum, _largest),
    (ps.basic.ScalarMinimum, _smallest),
]
"""Rules of operations that act entry by entry."""


NEEDS_FINITE = (_positive_everywhere, _sigmoid)
"""Rules that hold at finite numbers only: exp(-inf) is 0."""


def rule_of(op: Any) -> Callable[[list[Signs]], Signs] | None:
    """The rule of a scalar operation: from the signs of its arguments, of one shape, to those of its result."""
    return next((rule for kinds, rule in _RULES if isinstance(op, kinds)), None)


def reduced(op: Any, of: Signs) -> Signs:
    """The signs of a sum or product along axes."""
    axes = tuple(range(of.zero.ndim)) if op.axis is None else tuple(op.axis)
    none = np.zeros(of.zero.any(axis=axes).shape, dtype=np.bool_)
    if isinstance(op, Prod):
        return Signs(of.zero.any(axis=axes), of.positive.all(axis=axes), none, none)
    return Signs(of.zero.all(axis=axes), of.nonnegative.all(axis=axes) & of.positive.any(axis=axes), none, none)


def matrix_product(first: Signs, second: Signs) -> Signs:
    """The signs of a matrix product: each entry is a sum of products."""

    def count(one: Mask, other: Mask) -> Any:
        return np.matmul(one.astype(np.int64), other.astype(np.int64))

    # A term is 0 if one of its factors is: those where neither is known to be 0 are what is left.
    zero = count(~first.zero, ~second.zero) == 0
    positive = count(first.positive, second.positive)
    least = count(~first.zero, ~second.zero) == positive
    none = np.zeros(np.shape(zero), dtype=np.bool_)
    return Signs(np.asarray(zero), np.asarray(least & (positive > 0)), none, none)
