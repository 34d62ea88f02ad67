"""Sums of squares and products of bounded values, for regressions given exact counts: how far records move them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import boolean, finite_array, positive_integer
from bayesdp.sensitivities.sensitivity import bounds_from_data_refused
from bayesdp.sensitivities.stated import StatedSensitivity


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

    Raises
    ------
    ValueError
        If a bound is not positive and finite.

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
