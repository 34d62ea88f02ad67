"""Global sensitivities of statistics of bounded data as values, with the bounds of the statistics, and what mechanisms make of them.

A global sensitivity is the largest difference of a statistic over all pairs of neighbouring data sets, and not over the
neighbours of the data at hand. Two definitions of neighbours (Liu 2019, Definition 1): ``"substitution"``, one of n records
is replaced; ``"add-remove"``, one record comes or goes, each statistic divided by its own number of records. With it a data
set of n records has neighbours with n - 1 and with n + 1; sensitivities and bounds here hold for both, so that a
data set of n records is hard to tell apart from those with one record less and from those with one more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp._docs import documented
from bayesdp._validate import boolean, choice, finite_array, positive_integer
from bayesdp.privacy.sensitivities.norms import NEIGHBOURS


@dataclass(frozen=True)
class Sensitivity:
    """How far the statistics of neighbouring data sets can be apart, and the interval that they cannot leave.

    Attributes
    ----------
    statistic : str
        What it is of.
    l1 : float
        Largest sum of the changes of all statistics.
    largest : float, tuple of float or None
        Largest change of one of them, or of each; None where nothing was said.
    changed : int or None
        How many can change together; None for all of them.
    neighbours : {"substitution", "add-remove"} or None
        Definition of neighbours; None where nothing was said.
    bounds : tuple of float
        Bounds of each statistic, None where it has none; those of neighbours are within them too.
    statistics : int or None, default 1
        How many statistics it is of; None for any number.
    paper_l1 : float, optional
        What Liu (2019) takes for the l1 sensitivity in the simulations, where that is another number: 1/n for proportions,
        however many.

    Examples
    --------
    >>> from bayesdp.privacy.sensitivities.statistics import mean_sensitivity
    >>> found = mean_sensitivity(50, (0.0, 10.0))
    >>> found.l1, found.bounds, found.statistics
    (0.2, (0.0, 10.0), 1)
    """

    statistic: str
    l1: float
    largest: float | tuple[float, ...] | None
    changed: int | None
    neighbours: str | None
    bounds: tuple[float | None, float | None] = (None, None)
    statistics: int | None = 1
    paper_l1: float | None = None

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
        for change in sorted(each, reverse=True)[:count]:
            changes.append(min(change, left))
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


_EACH = (
    "changing one record may change all of them, and their losses add up. Give one sensitivity for each statistic, as in "
    "sensitivity=[mean_sensitivity(...), mean_sensitivity(...)], or the largest l1 distance of the whole vector as a number"
)


def stated_sensitivity(given: Any) -> Sensitivity:
    """Read the argument `sensitivity` of a mechanism for statistics; several are added up."""
    if isinstance(given, Sensitivity):
        return given
    if isinstance(given, Sequence) and any(isinstance(item, Sensitivity) for item in given):
        return _several(given)
    array = finite_array(given, "sensitivity")
    if array.ndim == 0:
        return Sensitivity("stated", float(array), None, None, None, statistics=None)
    if array.ndim > 1:
        raise ValueError(f"sensitivity must be one number or a vector of them, got an array of shape {array.shape}")
    each = tuple(float(number) for number in array)
    return Sensitivity("stated", math.fsum(each), each, None, None, statistics=len(each))


def _several(given: Sequence[Any]) -> Sensitivity:
    """Sensitivities of statistics, or of vectors of them, one after the other."""
    largest: list[float] = []
    changed = 0
    for i, item in enumerate(given):
        if not isinstance(item, Sensitivity):
            raise TypeError(
                f"sensitivity must be all numbers or all of bayesdp.privacy.Sensitivity, but sensitivity[{i}] is {item!r}"
            )
        if item.neighbours != given[0].neighbours:
            raise ValueError(
                f"sensitivity must be of one kind of neighbours, got {given[0].neighbours!r} and, at sensitivity[{i}], "
                f"{item.neighbours!r}"
            )
        count = len(item.largest) if isinstance(item.largest, tuple) else item.statistics
        if count is None or item.largest is None:
            raise ValueError(f"sensitivity[{i}] does not say which statistics it is of, and how far each can change")
        largest += item.largest if isinstance(item.largest, tuple) else [item.largest] * count
        changed += count if item.changed is None else item.changed
    return Sensitivity(
        "several",
        math.fsum(item.l1 for item in given),
        tuple(largest),
        None if changed == len(largest) else changed,
        given[0].neighbours,
        statistics=len(largest),
        paper_l1=math.fsum(item.l1 if item.paper_l1 is None else item.paper_l1 for item in given),
    )


def public_bounds(bounds: Any, argument: str) -> tuple[float, float]:
    """Accept finite bounds in order."""
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


_PARAMETERS = """
n : int
    Number of records.
categories : int
    How many proportions are published; 1 for that of a yes-or-no question.
data_bounds : pair of float
    Public bounds of the data, and not computed from them: the largest value is a record, which would be published without noise, and
    noise whose scale depends on the data has no epsilon. Nothing here can detect that.
other_bounds : pair of float
    Those of the second variable.
neighbours : {"substitution", "add-remove"}
ddof : {0, 1}
    The divisor is ``n - ddof``."""


_documented = documented({"Parameters": _PARAMETERS, "Returns": "Sensitivity"})


@_documented
def proportion_sensitivity(n: int, categories: int = 1, neighbours: str = "substitution") -> Sensitivity:
    """Sensitivity of the proportions of n records in disjoint categories.

    Substitution takes 1/n from one category and gives it to another. Without one record, proportions p of the other
    n - 1 become ``p + (e_j - p) / n`` with it, in the norm ``2 (1 - p_j) / n``: all may change, and 2/n is attained where
    ``p_j = 0``; a record more changes them by less. (The 1/n of the paper's Section 4.2 for added records keeps the divisor
    n, and with it n itself: then these are counts.)

    References
    ----------
    Liu (2019), Section 4.2.

    Examples
    --------
    >>> proportion_sensitivity(50, 4).l1
    0.04
    """
    (size, added), count = number_of_records(n, neighbours), positive_integer(categories, "categories")
    changed = 1 if count == 1 else (None if added else 2)
    l1 = (1 if count == 1 else 2) / size
    return Sensitivity("proportion", l1, 1 / size, changed, neighbours, (0.0, 1.0), count, 1 / size)


@_documented
def mean_sensitivity(n: int, data_bounds: tuple[float, float], neighbours: str = "substitution") -> Sensitivity:
    """Sensitivity of the mean of n values between public bounds: their distance divided by n.

    Substitution moves the sum by at most R, the distance of the bounds. With one record more, the mean m of n - 1 values
    becomes ``m + (x - m)/n``, and ``|x - m| <= R``; both are attained. This falls with n.

    Examples
    --------
    >>> mean_sensitivity(50, (0.0, 10.0), "add-remove").l1
    0.2
    """
    low, high = public_bounds(data_bounds, "data_bounds")
    size, _ = number_of_records(n, neighbours)
    change = (high - low) / size
    return Sensitivity("mean", change, change, 1, neighbours, (low, high))


@_documented
def variance_sensitivity(
    n: int,
    data_bounds: tuple[float, float],
    neighbours: str = "substitution",
    *,
    ddof: int = 1,
) -> Sensitivity:
    """Sensitivity of the variance of n values between public bounds: ``R**2 / n`` for the divisor n - 1.

    With m the mean of the other n - 1 values and SS their sum of squares, that of all is ``SS + (n-1)/n (x - m)**2``.
    Substituting x changes it by at most ``(n-1)/n R**2``, attained with the others at one bound. With a record more, the
    variance (divisor n - 1) changes by ``(x - m)**2 / n - SS / ((n-1)(n-2))``, of size ``R**2 / n`` at most, because SS is
    at most ``(n-1) R**2 / 4``. The divisor n (`ddof` 0) gives ``(n-1) R**2 / n**2`` for both. These fall with n.

    The largest variance is that of values half at one bound and half at the other. For an odd number of records it is
    another one than for an even number: the bound for ``"add-remove"`` is the largest over n - 1, n and n + 1 records.

    References
    ----------
    Liu (2019), Table 1.

    Examples
    --------
    >>> variance_sensitivity(50, (-3.0, 3.0)).l1
    0.72
    """
    low, high = public_bounds(data_bounds, "data_bounds")
    change, most = _moment(n, neighbours, ddof, (high - low) ** 2)
    return Sensitivity("variance", change, change, 1, neighbours, (0.0, most))


@_documented
def covariance_sensitivity(
    n: int,
    data_bounds: tuple[float, float],
    other_bounds: tuple[float, float],
    neighbours: str = "substitution",
    *,
    ddof: int = 1,
) -> Sensitivity:
    """Sensitivity of the covariance of n pairs of values: ``R1 R2 / n`` for the divisor n - 1.

    The sum of products of all is that of n - 1 pairs plus ``(n-1)/n (x - mx)(y - my)``. In units of the distances of the
    bounds, with u and v the means of the others, the products for two records differ by at most ``max(uv, (1-u)(1-v)) +
    max(u(1-v), (1-u)v)``, which is one of u, v, 1 - u and 1 - v or less: by 1, attained at u = v = 0. For a record more,
    products of the others of the opposite sign add ``min(uv, (1-u)(1-v)) / (n-2)`` to ``(1-u)(1-v) / n``, and the sum is
    at most 1/n for n >= 3. Bounds are those of `variance_sensitivity` with ``R1 R2`` for the square, on both sides of 0.

    References
    ----------
    Liu (2019), Table 1.

    Examples
    --------
    >>> covariance_sensitivity(50, (-3.0, 3.0), (-4.5, 4.5)).l1
    1.08
    """
    low, high = public_bounds(data_bounds, "data_bounds")
    other_low, other_high = public_bounds(other_bounds, "other_bounds")
    change, most = _moment(n, neighbours, ddof, (high - low) * (other_high - other_low))
    return Sensitivity("covariance", change, change, 1, neighbours, (-most, most))


def _moment(n: Any, neighbours: str, ddof: Any, square: float) -> tuple[float, float]:
    """Sensitivity and largest value of a second moment, for a product of distances of bounds."""
    if ddof not in (0, 1) or isinstance(ddof, bool):
        raise ValueError(f"ddof must be 0 or 1, got {ddof!r}")
    size, added = number_of_records(n, neighbours, 1 + ddof)
    change = square / size if ddof else square * (size - 1) / size**2
    sizes = (size - 1, size, size + 1) if added else (size,)
    return change, max(square * (m // 2) * (m - m // 2) / (m * (m - ddof)) for m in sizes)


def moment_sums_sensitivity(bounds: Any, *, intercept: bool = False, records: int = 1) -> Sensitivity:
    """How far `records` substituted records move the sums of all products ``z_i z_j``, i <= j, where ``|z_i| <= bounds[i]``.

    For z = (x, y) these are X'X, X'y and y'y, row by row of the upper triangle: ``(values.T @ values)[np.triu_indices(m)]``; with
    `intercept` the sums of the values, products with a constant, come before them.

    With exact counts of groups, `records` is the adjacency of Semi-DP: 1 for a total, 2 for groups whose sizes are exact, where
    two records may change places. The guarantee of a mechanism that takes this speaks of one substituted record; its loss
    then holds for two as well.

    Proof. Records z and w have ``a = (z + w) / 2`` and ``b = (z - w) / 2`` with ``|a_i| + |b_i| <= B_i``, and
    ``z_i z_j - w_i w_j = 2 (a_i b_j + a_j b_i)``. With nonnegative a and b nothing cancels, and ``a_i + b_i = B_i`` is best. So

    - one product changes by at most ``2 B_i B_j``, a square by ``B_i**2``, a sum by ``2 B_i``: all attained;
    - the sum of all absolute changes of products is ``2 (sum(a) sum(b) + sum(a b))``, at most ``sum(B)**2 / 2 + sum(B**2) / 2``,
      the sum of all ``B_i B_j``, i <= j: attained at ``z = B``, ``w = 0``;
    - with the sums of values, ``2 sum(b)`` more, the largest is at ``b_i = B_i / 2 + 1 / (2 (m + 1))`` for m values: larger by
      ``sum(B) + m / (2 (m + 1))``, attained if all ``B_i >= 1 / (m + 1)``, otherwise a bound;
    - the l2 norm is bounded by these numbers together: as many of the largest changes as fit into their sum. That is no less than
      the l2 sensitivity, and was at most 1.3 times it in all cases that were optimised.

    Several records add up.

    Parameters
    ----------
    bounds : sequence of float
        A public bound on the absolute value of each value.
    intercept : bool
        Whether the sums of the values come first.
    records : int
        How many records are substituted.

    Returns
    -------
    Sensitivity
        For the argument `sensitivity` of the mechanisms for statistics within bounds; `l1`, `l2` and `largest`, by sum.

    Examples
    --------
    >>> found = moment_sums_sensitivity((2.0, 3.0))
    >>> found.l1, found.largest
    (19.0, (4.0, 12.0, 9.0))
    """
    limits = np.asarray(finite_array(bounds, "bounds"), dtype=np.float64)
    if limits.ndim != 1 or not limits.size or not np.all(limits > 0.0):
        raise ValueError("bounds must be one positive number for each value of a record")
    many = positive_integer(records, "records")
    first, second = np.triu_indices(limits.size)
    products = limits[first] * limits[second]
    largest, l1 = np.where(first == second, 1.0, 2.0) * products, float(products.sum())
    if boolean(intercept, "intercept"):
        largest = np.concatenate([2.0 * limits, largest])
        l1 += float(limits.sum()) + limits.size / (2.0 * (limits.size + 1))
    # No more than the changes of all together: a single square with its sum.
    l1 = min(l1, float(largest.sum()))
    each = tuple((many * largest).tolist())
    return Sensitivity("moment sums", many * l1, each, None, "substitution", statistics=len(each))
