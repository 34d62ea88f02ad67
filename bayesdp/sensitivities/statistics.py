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
import numpy.typing as npt

from bayesdp._docs import documented
from bayesdp._validate import boolean, choice, finite_array, positive_integer, probability
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
    changed, neighbours, statistics
        As for `Sensitivity`; None for all, where nothing was said, and for any number.
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
    if isinstance(given, Sequence) and any(isinstance(item, Sensitivity) for item in given):
        return _several(given)
    array = finite_array(given, "sensitivity")
    if array.ndim == 0:
        return StatedSensitivity(float(array))
    if array.ndim > 1:
        raise ValueError(f"sensitivity must be one number or a vector of them, got an array of shape {array.shape}")
    each = tuple(float(number) for number in array)
    return StatedSensitivity(math.fsum(each), largest=each, statistics=len(each))


def _several(given: Sequence[Any]) -> StatedSensitivity:
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
        if item.statistics is None:
            raise ValueError(
                f"sensitivity[{i}] is of any number of categories, so that it does not say which statistics it is of; give the "
                "largest l1 distance of the whole vector as a number"
            )
        largest += [item.largest] * item.statistics
        changed += item.statistics if item.changed is None else item.changed
    return StatedSensitivity(
        math.fsum(item.l1 for item in given),
        math.fsum(item.paper_l1 for item in given),
        tuple(largest),
        None if changed == len(largest) else changed,
        given[0].neighbours,
        len(largest),
    )


_PARAMETERS = """
n : int
    Number of records.
categories : int
    How many proportions are published; 1 for that of a yes-or-no question.
prob : float
    Which quantile, between 0 and 1 (exclusive).
data_bounds : pair of float
    Public bounds of the data: not their smallest and largest value.
other_bounds : pair of float
    Those of the second variable.
neighbours : {"substitution", "add-remove"}
method : {"inverted_cdf", "linear"}
    As in `numpy.quantile`.
ddof : {0, 1}
    The divisor is ``n - ddof``.
bounds_from_data : bool
    Say True if the bounds were computed from the data: refused (ValueError), with the reason. Nothing here can detect that: a
    bound that is the largest value of the data publishes the record that has it exactly, without noise, whatever epsilon is; one
    that is merely computed from the data makes the scale of the noise depend on them, and no epsilon is then stated by anything
    here."""


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
    return Sensitivity("proportion", l1, 1 / size, changed, neighbours, (0.0, 1.0), count)


@_documented
def mean_sensitivity(
    n: int, data_bounds: tuple[float, float], neighbours: str = "substitution", *, bounds_from_data: bool = False
) -> Sensitivity:
    """Sensitivity of the mean of n values between public bounds: their distance divided by n.

    Substitution moves the sum by at most R, the distance of the bounds. With one record more, the mean m of n - 1 values
    becomes ``m + (x - m)/n``, and ``|x - m| <= R``; both are attained. This falls with n.

    Examples
    --------
    >>> mean_sensitivity(50, (0.0, 10.0), "add-remove").l1
    0.2
    """
    low, high = public_bounds(data_bounds, "data_bounds", bounds_from_data)
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
    bounds_from_data: bool = False,
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
    low, high = public_bounds(data_bounds, "data_bounds", bounds_from_data)
    size = _moment_size(n, neighbours, ddof)
    change, most = _moment(size, ddof, (high - low) ** 2, neighbours)
    return Sensitivity("variance", change, change, 1, neighbours, (0.0, most))


@_documented
def covariance_sensitivity(
    n: int,
    data_bounds: tuple[float, float],
    other_bounds: tuple[float, float],
    neighbours: str = "substitution",
    *,
    ddof: int = 1,
    bounds_from_data: bool = False,
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
    low, high = public_bounds(data_bounds, "data_bounds", bounds_from_data)
    other_low, other_high = public_bounds(other_bounds, "other_bounds", bounds_from_data)
    size = _moment_size(n, neighbours, ddof)
    change, most = _moment(size, ddof, (high - low) * (other_high - other_low), neighbours)
    return Sensitivity("covariance", change, change, 1, neighbours, (-most, most))


@_documented
def histogram_sensitivity(neighbours: str = "substitution", n: int | None = None) -> Sensitivity:
    """Sensitivity of the counts of disjoint categories: 2 for substitution, 1 where a record comes or goes.

    The number of records n, where it is public, bounds every count from above; for ``"add-remove"`` the bound is n + 1.

    Examples
    --------
    >>> histogram_sensitivity("add-remove").l1
    1.0
    """
    added = choice(neighbours, tuple(NEIGHBOURS), "neighbours") == "add-remove"
    most = None if n is None else float(positive_integer(n, "n") + added)
    return Sensitivity("histogram", 1.0 if added else 2.0, 1.0, 1 if added else 2, neighbours, (0.0, most), None)


def _moment_size(n: Any, neighbours: str, ddof: Any) -> int:
    if ddof not in (0, 1) or isinstance(ddof, bool):
        raise ValueError(f"ddof must be 0 or 1, got {ddof!r}")
    return number_of_records(n, neighbours, 1 + ddof)[0]


def _moment(n: int, ddof: int, square: float, neighbours: str) -> tuple[float, float]:
    """Sensitivity and largest value of a second moment, for a product of distances of bounds."""
    change = square / n if ddof else square * (n - 1) / n**2
    sizes = (n - 1, n, n + 1) if neighbours == "add-remove" else (n,)
    return change, max(square * (m // 2) * (m - m // 2) / (m * (m - ddof)) for m in sizes)


@_documented
def quantile_sensitivity(
    n: int,
    prob: float,
    data_bounds: tuple[float, float],
    neighbours: str = "substitution",
    *,
    method: str = "inverted_cdf",
    bounds_from_data: bool = False,
) -> Sensitivity:
    """Sensitivity of a quantile of n values: nearly always the whole distance of the bounds.

    For a given order of the values the difference of two quantiles is linear in them: it is largest at a vertex, where all
    values are at one of the bounds. There it depends only on how many are at the lower one, and a quantile can tell only
    a few such numbers apart: they are all tried. Order statistics give the distance R of the bounds; interpolated ones
    ``max(g, 1 - g) R`` under substitution, with the weight g of the upper one. What one record more or less changes does not
    fall with n: for ``"add-remove"`` both are tried.

    Examples
    --------
    >>> quantile_sensitivity(11, 0.5, (0.0, 10.0)).l1, quantile_sensitivity(10, 0.5, (0.0, 10.0), method="linear").l1
    (10.0, 5.0)
    """
    low, high = public_bounds(data_bounds, "data_bounds", bounds_from_data)
    share = probability(prob, "prob")
    choice(method, ("inverted_cdf", "linear"), "method")
    size, added = number_of_records(n, neighbours)
    pairs = ((size, size - 1), (size + 1, size)) if added else ((size, size),)
    worst = max(_quantile_change(share, method, *pair) for pair in pairs)
    change = worst * (high - low)
    return Sensitivity("quantile", change, change, 1, neighbours, (low, high))


def _quantile_change(share: float, method: str, size: int, other: int) -> float:
    """The largest difference of a quantile of `size` numbers in [0, 1] and one of `other` neighbouring ones."""

    def quantile(zeros: int, count: int) -> float:
        """The quantile of `count` numbers of which `zeros` are 0 and the others 1."""
        if method == "inverted_cdf":
            return float(max(math.ceil(count * share), 1) > zeros)
        place = (count - 1) * share
        below = math.floor(place)
        first, second = float(below + 1 > zeros), float(below + 2 > zeros)
        return first + (place - below) * (second - first)

    middle, worst = math.floor(size * share), 0.0
    for zeros in range(max(middle - 3, 0), min(middle + 4, size) + 1):
        near = (zeros - 1, zeros) if other < size else (zeros - 1, zeros + 1)
        for z in (z for z in near if 0 <= z <= other):
            worst = max(worst, abs(quantile(zeros, size) - quantile(z, other)))
    return worst


def moment_sums(values: Any, *, intercept: bool = False) -> npt.NDArray[np.float64]:
    """The sums over records of all products ``z_i z_j``, i <= j: X'X, X'y and y'y for z = (x, y).

    Parameters
    ----------
    values : array_like, shape (records, values)
        Confidential values, predictors first.
    intercept : bool
        Whether the sums of the values come first: the products with a constant.

    Returns
    -------
    numpy.ndarray of float64
        The sums of the values (with `intercept`), then the products row by row of the upper triangle.

    Examples
    --------
    >>> moment_sums([[1.0, 2.0], [3.0, 4.0]]).tolist()  # xx, xy, yy
    [10.0, 14.0, 20.0]
    """
    array = np.asarray(
        finite_array(values, "values of records", lambda i: f"number {i + 1}", confidential=True), dtype=np.float64
    )
    if array.ndim != 2:
        raise ValueError(f"values must have shape (records, values), got {array.ndim} dimensions")
    products = (array.T @ array)[np.triu_indices(array.shape[1])]
    return np.concatenate([array.sum(axis=0), products]) if boolean(intercept, "intercept") else products


def moment_sums_sensitivity(
    bounds: Any, *, intercept: bool = False, records: int = 1, bounds_from_data: bool = False
) -> StatedSensitivity:
    """How far `records` substituted records move `moment_sums`, where ``|z_i| <= bounds[i]``.

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
        A public bound on the absolute value of each value, predictors first, in the order of `moment_sums`.
    intercept : bool
        As for `moment_sums`.
    records : int
        How many records are substituted.
    bounds_from_data : bool
        Say True if the bounds were computed from the data: refused, with the reason; see `mean_sensitivity`.

    Returns
    -------
    StatedSensitivity
        For the argument `sensitivity` of the mechanisms for statistics within bounds; `l1`, `l2` and `largest`, by sum.

    Examples
    --------
    >>> found = moment_sums_sensitivity((2.0, 3.0))
    >>> found.l1, found.largest
    (19.0, (4.0, 12.0, 9.0))
    """
    bounds_from_data_refused(bounds_from_data, "bounds")
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
    return StatedSensitivity(many * l1, largest=each, neighbours="substitution", statistics=len(each))
