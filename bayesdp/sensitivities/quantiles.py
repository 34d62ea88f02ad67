"""Global sensitivities of quantiles of bounded data."""

from __future__ import annotations

import math

from bayesdp._validate import choice, probability
from bayesdp.sensitivities.sensitivity import Sensitivity, number_of_records, public_bounds


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

    Parameters
    ----------
    n : int
        Number of records.
    prob : float
        Which quantile, between 0 and 1 (exclusive).
    data_bounds : pair of float
        Public bounds of the data, see `mean_sensitivity`.
    neighbours : {"substitution", "add-remove"}
    method : {"inverted_cdf", "linear"}
        As in `numpy.quantile`.
    bounds_from_data : bool
        Say True if the bounds were computed from the data: refused, with the reason.

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
