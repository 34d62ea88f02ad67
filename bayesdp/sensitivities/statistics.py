"""Global sensitivities of statistics of bounded data, with the bounds of the statistics.

A global sensitivity is the largest difference of a statistic over all pairs of neighbouring data sets, and not over the
neighbours of the data at hand. Two definitions of neighbours (Liu 2019, Definition 1): ``"substitution"``, one of n records
is replaced; ``"add-remove"``, one record comes or goes, each statistic divided by its own number of records. With it a data
set of n records has neighbours with n - 1 and with n + 1; sensitivities and bounds here hold for both, so that a
data set of n records is hard to tell apart from those with one record less and from those with one more.
"""

from __future__ import annotations

from typing import Any

from bayesdp._validate import choice, positive_integer
from bayesdp.sensitivities.differences import NEIGHBOURS
from bayesdp.sensitivities.sensitivity import Sensitivity, number_of_records, public_bounds


def proportion_sensitivity(n: int, categories: int = 1, neighbours: str = "substitution") -> Sensitivity:
    """Sensitivity of the proportions of n records in disjoint categories.

    Substitution takes 1/n from one category and gives it to another. Without one record, proportions p of the other
    n - 1 become ``p + (e_j - p) / n`` with it, in the norm ``2 (1 - p_j) / n``: all may change, and 2/n is attained where
    ``p_j = 0``; a record more changes them by less. (The 1/n of the paper's Section 4.2 for added records keeps the divisor
    n, and with it n itself: then these are counts.)

    Parameters
    ----------
    n : int
        Number of records.
    categories : int
        How many proportions are published; 1 for that of a yes-or-no question.
    neighbours : {"substitution", "add-remove"}

    Returns
    -------
    Sensitivity

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


def mean_sensitivity(
    n: int, data_bounds: tuple[float, float], neighbours: str = "substitution", *, bounds_from_data: bool = False
) -> Sensitivity:
    """Sensitivity of the mean of n values between public bounds: their distance divided by n.

    Substitution moves the sum by at most R, the distance of the bounds. With one record more, the mean m of n - 1 values
    becomes ``m + (x - m)/n``, and ``|x - m| <= R``; both are attained. This falls with n.

    Parameters
    ----------
    n : int
        Number of records.
    data_bounds : pair of float
        Public bounds of the data: not their smallest and largest value.
    neighbours : {"substitution", "add-remove"}
    bounds_from_data : bool
        Say True if the bounds were computed from the data: refused, with the reason.

    Raises
    ------
    ValueError
        If the bounds come from the data. Nothing here can detect that: a bound that is the largest value of the data
        publishes the record that has it exactly, without noise, whatever epsilon is; one that is merely computed from the
        data makes the scale of the noise depend on them, and no epsilon is then stated by anything here.

    Examples
    --------
    >>> mean_sensitivity(50, (0.0, 10.0), "add-remove").l1
    0.2
    """
    low, high = public_bounds(data_bounds, "data_bounds", bounds_from_data)
    size, _ = number_of_records(n, neighbours)
    change = (high - low) / size
    return Sensitivity("mean", change, change, 1, neighbours, (low, high))


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

    Parameters
    ----------
    n : int
        Number of records.
    data_bounds : pair of float
        Public bounds of the data, see `mean_sensitivity`.
    neighbours : {"substitution", "add-remove"}
    ddof : {0, 1}
        The divisor is ``n - ddof``.
    bounds_from_data : bool
        Say True if the bounds were computed from the data: refused, with the reason.

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

    Parameters
    ----------
    n : int
        Number of records.
    data_bounds, other_bounds : pair of float
        Public bounds of the two variables, see `mean_sensitivity`.
    neighbours : {"substitution", "add-remove"}
    ddof : {0, 1}
        The divisor is ``n - ddof``.
    bounds_from_data : bool
        Say True if the bounds were computed from the data: refused, with the reason.

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


def histogram_sensitivity(neighbours: str = "substitution", n: int | None = None) -> Sensitivity:
    """Sensitivity of the counts of disjoint categories: 2 for substitution, 1 where a record comes or goes.

    Parameters
    ----------
    neighbours : {"substitution", "add-remove"}
    n : int, optional
        The public number of records, which bounds every count from above; for ``"add-remove"`` the bound is n + 1.

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
