"""The argument `sensitivity` of a mechanism for statistics: one number, one for each statistic, or `Sensitivity`.

The sensitivity of a statistic as a value, and the checks that all statistics share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayesdp._validate import boolean, choice, finite_array, positive_integer
from bayesdp.sensitivities.differences import NEIGHBOURS


@dataclass(frozen=True)
class Sensitivity:
    """How far the statistics of neighbouring data sets can be apart, and the interval that they cannot leave.

    Attributes
    ----------
    statistic : str
        What it is of.
    l1 : float
        Largest sum of the changes of all statistics.
    largest : float
        Largest change of one of them.
    changed : int or None
        How many can change together; None for all of them.
    neighbours : {"substitution", "add-remove"}
        Definition of neighbours.
    bounds : tuple of float
        Bounds of each statistic, None where it has none; those of neighbours are within them too.
    statistics : int or None, default 1
        How many statistics it is of; None for the counts of any number of disjoint categories.

    Examples
    --------
    >>> from bayesdp.sensitivities.statistics import mean_sensitivity
    >>> found = mean_sensitivity(50, (0.0, 10.0))
    >>> found.l1, found.bounds, found.statistics
    (0.2, (0.0, 10.0), 1)
    """

    statistic: str
    l1: float
    largest: float
    changed: int | None
    neighbours: str
    bounds: tuple[float | None, float | None]
    statistics: int | None = 1

    def __float__(self) -> float:
        return self.l1

    @property
    def paper_l1(self) -> float:
        """What Liu (2019) takes for the l1 sensitivity in the simulations: 1/n for proportions, however many."""
        return self.largest if self.statistic == "proportion" else self.l1


def bounds_from_data_refused(bounds_from_data: Any, argument: str) -> None:
    """ValueError, with the reason, if the user says that bounds come from the data."""
    if boolean(bounds_from_data, "bounds_from_data"):
        raise ValueError(
            f"{argument} must be public and the same for all data sets: bounds computed from the data publish something about "
            "them without noise (the largest value is a record), and they make the scale of the noise depend on the data, so "
            "that no epsilon holds. Take bounds from what is known of the variable, or release them first with a share of the "
            "budget (split_budget)"
        )


def public_bounds(bounds: Any, argument: str, bounds_from_data: Any) -> tuple[float, float]:
    """Accept finite bounds in order that do not come from the data."""
    bounds_from_data_refused(bounds_from_data, argument)
    if isinstance(bounds, str) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise TypeError(f"{argument} must be a pair (lower, upper), got {bounds!r}")
    low, high = (float(side) for side in finite_array(bounds, argument))
    if not low < high:
        raise ValueError(f"{argument} must be two different numbers, the lower one first, got {low} and {high}")
    return low, high


def number_of_records(n: Any, neighbours: Any, least: int = 1) -> tuple[int, bool]:
    """The number of records, and whether one comes or goes, so that statistics of one record less must exist as well."""
    size = positive_integer(n, "n")
    added = choice(neighbours, tuple(NEIGHBOURS), "neighbours") == "add-remove"
    if size < least + added:
        raise ValueError(f"n must be at least {least + added} for neighbours by {neighbours}, got {size}")
    return size, added


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
        """Check that there are as many statistics as the sensitivities are of."""
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
