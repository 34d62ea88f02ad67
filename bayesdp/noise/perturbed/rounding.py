"""Counts that were rounded to a base, at random or to the nearest multiple."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.noise.perturbed.base import PerturbedLaw, Transitions, whole

_LARGEST_BASE = 1000


@dataclass(frozen=True, eq=False)
class RandomRounding(PerturbedLaw):
    """Counts rounded at random to one of the two nearest multiples of a base; multiples stay as they are.

    With r the remainder of x by the base, ``p(y = x - r + base | x) = u_r`` and ``p(y = x - r | x) = 1 - u_r``, independently for each
    answer. Unbiased rounding, the default, has ``u_r = r / base``.

    ========  ==========================================================
    Support   multiples of the base, at a distance below it from x
    Mean      x; for other probabilities x - r + base * u_r
    Variance  base**2 * u_r * (1 - u_r); unbiased ``r * (base - r)``
    ========  ==========================================================

    Not differentially private: a published 0 says for sure that x is below the base.

    Parameters
    ----------
    base : int
        At least 2, and at most 1000.
    probabilities : {"unbiased", "nearest"} or sequence of float, optional
        Of rounding up, ``u_r`` for the remainders 1 to base - 1. "nearest", for odd bases: to the nearest multiple with probability
        2/3, and else to the other; for base 3 that is the unbiased rounding. None is "unbiased".

    See Also
    --------
    bayesdp.distributions.RandomRounding : the same law as a PyMC distribution.
    bayesdp.noise.ConventionalRounding : rounding to the nearest multiple.

    References
    ----------
    Stats NZ rounds counts to base 3: to the nearest multiple with probability 2/3, to the other with 1/3. Statistics Canada
    rounds census counts at random to base 5, or 10.

    Examples
    --------
    >>> law = RandomRounding(base=3)
    >>> np.exp(law.log_each([9, 12], [10, 10])).round(4).tolist()
    [0.6667, 0.3333]
    >>> law.mean([10, 11]).tolist(), law.variance((2,), location=[10, 12]).tolist()
    ([10.0, 11.0], [2.0, 0.0])
    >>> print(RandomRounding(5, [0.1, 0.3, 0.7, 0.9]))
    random-rounding base=5 probabilities=0.1:0.3:0.7:0.9
    """

    base: int
    probabilities: Any = None

    name = "random-rounding"
    relation = "base=B, and probabilities=U1:U2:... of rounding up by remainder (or unbiased, or nearest)"

    def __post_init__(self) -> None:
        base = _base(self.base)
        given = "unbiased" if self.probabilities is None else self.probabilities
        if isinstance(given, str):
            _validate.choice(given, ("unbiased", "nearest"), "probabilities")
            if given == "nearest" and base % 2 == 0:
                raise ValueError(
                    f"probabilities must not be 'nearest' for an even base, whose middle has two nearest multiples, got base {base}"
                )
        else:
            given = _probabilities(given, base)
        self._set(base=base, probabilities=None if given == "unbiased" else given)

    @property
    def upwards(self) -> npt.NDArray[np.float64]:
        """Probability of rounding up for each remainder, that of 0 first."""
        rest = np.arange(self.base)
        if self.probabilities is None:
            return rest / self.base
        if self.probabilities == "nearest":
            return np.where(rest == 0, 0.0, np.where(2 * rest > self.base, 2.0 / 3.0, 1.0 / 3.0))
        return np.array([0.0, *self.probabilities])

    @cached_property
    def transitions(self) -> Transitions:
        """The table of probabilities: a row for each remainder."""
        up, rest = self.upwards, np.arange(self.base)
        mass = np.zeros((self.base, 2 * self.base - 1))
        mass[rest, self.base - 1 - rest] = 1.0 - up
        mass[rest[1:], 2 * self.base - 1 - rest[1:]] = up[1:]
        return Transitions(1 - self.base, mass, self.base)


@dataclass(frozen=True, eq=False)
class ConventionalRounding(PerturbedLaw):
    """Counts rounded to the nearest multiple of a base: no probability is involved, and the true count is only known to be near.

    ``p(y | x) = 1`` for y the nearest multiple of the base; in the middle between two (even bases only) that which `ties` says.

    ========  =============================================================
    Support   the multiple of the base that is nearest to x
    Mean      that multiple
    Variance  0
    ========  =============================================================

    Not differentially private.

    Parameters
    ----------
    base : int
        At least 2, and at most 1000.
    ties : {"up", "down", "even"}, default "up"
        Where to a count goes in the middle between two multiples of an even base; "even": to the multiple by an even number, as many
        computer languages round.

    See Also
    --------
    bayesdp.distributions.ConventionalRounding : the same law as a PyMC distribution.
    bayesdp.noise.RandomRounding : rounding at random.

    Examples
    --------
    >>> law = ConventionalRounding(base=10)
    >>> law.draw(1, (4,), location=[4, 5, 15, 16]).tolist()
    [0, 10, 20, 20]
    >>> ConventionalRounding(base=10, ties="even").draw(1, (4,), location=[4, 5, 15, 16]).tolist()
    [0, 0, 20, 20]
    """

    base: int
    ties: str = "up"

    name = "conventional-rounding"
    relation = "base=B, and ties=up, down or even for even bases"

    def __post_init__(self) -> None:
        self._set(base=_base(self.base))
        _validate.choice(self.ties, ("up", "down", "even"), "ties")

    @cached_property
    def transitions(self) -> Transitions:
        """The table of probabilities: a row for each remainder, by twice the base where ties go to even multiples."""
        base, half = self.base, self.base // 2
        tied = self.ties == "even" and base % 2 == 0
        rows = np.arange(2 * base if tied else base)
        rest = rows % base
        up = 2 * rest > base
        middle = 2 * rest == base
        if self.ties == "up":
            up |= middle
        elif tied:
            up |= middle & (rows > base)  # from 1.5 bases to 2
        mass = np.zeros((len(rows), base + 1))
        mass[rows, np.where(up, base - rest, -rest) + half] = 1.0
        return Transitions(-half, mass, len(rows))


def random_rounding(base: int, probabilities: str | Sequence[float] | None = None) -> RandomRounding:
    """Counts rounded at random to a base; see `RandomRounding`.

    Parameters
    ----------
    base : int
        3 at Stats NZ, 5 at Statistics Canada.
    probabilities : {"unbiased", "nearest"} or sequence of float, optional
        Of rounding up, by remainder; unbiased by default.

    Examples
    --------
    >>> print(random_rounding(3))
    random-rounding base=3
    """
    return RandomRounding(base, probabilities)


def conventional_rounding(base: int, ties: str = "up") -> ConventionalRounding:
    """Counts rounded to the nearest multiple of a base; see `ConventionalRounding`.

    Parameters
    ----------
    base : int
    ties : {"up", "down", "even"}, default "up"
        Where counts in the middle go.

    Examples
    --------
    >>> print(conventional_rounding(10))
    conventional-rounding base=10 ties=up
    """
    return ConventionalRounding(base, ties)


def _base(given: Any) -> int:
    base = _validate.positive_integer(whole(given), "base")
    if not 2 <= base <= _LARGEST_BASE:
        raise ValueError(f"base must be a whole number from 2 to {_LARGEST_BASE}, got {given!r}")
    return base


def _probabilities(given: Any, base: int) -> tuple[float, ...]:
    one = isinstance(given, (int, float)) and not isinstance(given, bool)
    items: Sequence[Any] = [given] if one else given
    if isinstance(items, dict) or not hasattr(items, "__len__"):
        raise TypeError(f"probabilities must be a list of numbers, 'unbiased' or 'nearest', got {given!r}")
    if len(items) != base - 1:
        raise ValueError(
            f"probabilities must have one number for each remainder from 1 to {base - 1} by the base {base}, got {len(items)}"
        )
    plain = [u.item() if isinstance(u, np.generic) else u for u in items]
    found = tuple(
        _validate.nonnegative_real(u, f"probabilities (of the remainder {r})") for r, u in enumerate(plain, 1)
    )
    for r, u in enumerate(found, 1):
        if u > 1.0:
            raise ValueError(f"probabilities must be at most 1, but that of the remainder {r} is {u!r}")
    return found
