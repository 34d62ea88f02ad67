"""The argument `sensitivity` of a mechanism for statistics: one number, one for each statistic, or `Sensitivity`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayesdp._validate import finite_array
from bayesdp.sensitivities.sensitivity import Sensitivity

_EACH = (
    "changing one record may change all of them, and their losses add up. Give one sensitivity for each statistic, as in "
    "sensitivity=[mean_sensitivity(...), mean_sensitivity(...)], or the largest l1 distance of the whole vector as a number"
)


@dataclass(frozen=True)
class StatedSensitivity:
    """Sensitivities of a vector of statistics, added up.

    Attributes
    ----------
    l1, paper_l1 : float
        Largest sum of the changes; and what the paper takes for it, None where it takes the same.
    largest : float, tuple of float or None
        Largest change of one, or of each; None where nothing was said.
    changed : int or None
        How many change together at most; None for all.
    neighbours : str or None
        What neighbours are, None where nothing was said.
    statistics : int or None
        How many statistics they are of, None for any number.
    fractions : bool
        Whether they are proportions of disjoint categories that have another total number with each neighbour.
    """

    l1: float
    paper_l1: float | None = None
    largest: float | tuple[float, ...] | None = None
    changed: int | None = None
    neighbours: str | None = None
    statistics: int | None = None
    fractions: bool = False

    @property
    def l2(self) -> float:
        """The largest l2 distance that these numbers allow; of a number for a vector, that number itself.

        The vector of changes with the largest entries first, as many as fit into l1, majorises every other one, and the sum of the
        squares is Schur-convex.
        """
        if self.largest is None:
            return self.l1
        count = self.statistics if self.changed is None else self.changed
        each = (
            [self.largest] * (count or math.ceil(self.l1 / self.largest))
            if isinstance(self.largest, float)
            else self.largest
        )
        left, changes = self.l1, []
        for own in sorted(each, reverse=True)[:count]:
            changes.append(min(own, left))
            left -= changes[-1]
        return math.hypot(*changes)

    def fits(self, shape: tuple[int, ...]) -> None:
        """Check that there are as many statistics as the sensitivities are of.

        Raises
        ------
        ValueError
            If not.
        """
        count = math.prod(shape)
        if self.statistics is None or self.statistics == count:
            return
        if self.statistics == 1:
            raise ValueError(f"sensitivity is that of one statistic, but there are {count}: {_EACH}")
        raise ValueError(
            f"sensitivity must be told of as many statistics as there are bounds or names, {count}, but it is of {self.statistics}"
        )


def stated_sensitivity(given: Any) -> StatedSensitivity:
    """Read the argument `sensitivity` of a mechanism for statistics."""
    if isinstance(given, StatedSensitivity):
        return given
    if isinstance(given, Sensitivity):
        return StatedSensitivity(
            given.l1,
            given.paper_l1,
            given.largest,
            given.changed,
            given.neighbours,
            given.statistics,
            (given.statistic, given.neighbours) == ("proportion", "add-remove"),
        )
    if isinstance(given, Sequence) and any(isinstance(own, Sensitivity) for own in given):
        return _several(given)
    array = finite_array(given, "sensitivity")
    if array.ndim == 0:
        return StatedSensitivity(float(array))
    each = tuple(float(own) for own in array.reshape(-1))
    if array.ndim > 1:
        raise ValueError(f"sensitivity must be one number or a vector of them, got an array of shape {array.shape}")
    return StatedSensitivity(math.fsum(each), largest=each, statistics=len(each))


def _several(given: Sequence[Any]) -> StatedSensitivity:
    """Sensitivities of statistics, or of vectors of them, one after the other."""
    largest: list[float] = []
    changed = 0
    for i, own in enumerate(given):
        if not isinstance(own, Sensitivity):
            raise TypeError(
                f"sensitivity must be all numbers or all of bayesdp.privacy.Sensitivity, but sensitivity[{i}] is {own!r}"
            )
        if own.neighbours != given[0].neighbours:
            raise ValueError(
                f"sensitivity must be of one kind of neighbours, got {given[0].neighbours!r} and, at sensitivity[{i}], "
                f"{own.neighbours!r}"
            )
        if own.statistics is None:
            raise ValueError(
                f"sensitivity[{i}] is of any number of categories, so that it does not say which statistics it is of; give the "
                "largest l1 distance of the whole vector as a number"
            )
        largest += [own.largest] * own.statistics
        changed += own.statistics if own.changed is None else own.changed
    return StatedSensitivity(
        math.fsum(own.l1 for own in given),
        math.fsum(own.paper_l1 for own in given),
        tuple(largest),
        None if changed == len(largest) else changed,
        given[0].neighbours,
        len(largest),
    )
