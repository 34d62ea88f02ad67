"""The sensitivity of a statistic as a value, and the checks that all statistics share."""

from __future__ import annotations

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
