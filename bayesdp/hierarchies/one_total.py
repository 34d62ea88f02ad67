"""Nonnegative least squares with one exact total, and rounding that keeps it: both have closed forms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

type Floats = npt.NDArray[np.float64]


def onto_total(values: npt.ArrayLike, total: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Floats:
    """Project onto the nonnegative tables of a given total, by weighted least squares.

    Minimises ``sum(weights * (x - values)**2)`` over ``x >= 0`` with ``sum(x) == total``: the solution is
    ``max(values - multiplier / weights, 0)``, and sorting finds how many cells are positive. Exact, in the
    time of a sort.

    Parameters
    ----------
    values : array_like, shape (..., cells)
        Noisy tables.
    total : array_like, shape (...)
        Their exact totals, at least 0.
    weights : array_like, shape (cells,) or that of `values`, optional
        Positive; inverse variances of the noise. Default: all equal.

    Returns
    -------
    numpy.ndarray
        Of the shape of `values`.

    Raises
    ------
    ValueError
        If a weight is not positive, the weights have another shape, or a total is negative.

    Examples
    --------
    >>> onto_total([5.0, 1.0, -3.0], 4.0)
    array([4., 0., 0.])
    """
    tables = np.asarray(values, dtype=np.float64)
    given = np.ones(tables.shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape not in (tables.shape[-1:], tables.shape) or not np.all(given > 0):
        raise ValueError(f"weights must be {tables.shape[-1]} positive numbers, got {weights!r}")
    exact = np.asarray(total, dtype=np.float64)[..., None]
    if np.any(exact < 0):
        raise ValueError(f"total must be at least 0, got {total!r}")
    given = np.broadcast_to(given, tables.shape)
    # A cell is positive if the multiplier is below its weight times its value: the cells enter in this order.
    entry = given * tables
    order = np.argsort(-entry, axis=-1)
    summed = np.cumsum(np.take_along_axis(tables, order, axis=-1), axis=-1)
    width = np.cumsum(np.take_along_axis(1 / given, order, axis=-1), axis=-1)
    multipliers = (summed - exact) / width  # if the first k cells are the positive ones
    positive = np.sum(np.take_along_axis(entry, order, axis=-1) > multipliers, axis=-1, keepdims=True)
    multiplier = np.take_along_axis(multipliers, np.maximum(positive, 1) - 1, axis=-1)
    return np.asarray(np.maximum(tables - multiplier / given, 0.0))


def round_to_total(values: npt.ArrayLike, total: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Round nonnegative tables to whole numbers of the same whole total: up where the remainder is largest.

    Parameters
    ----------
    values : array_like, shape (..., cells)
        Tables that add up to `total`, up to the errors of floating point.
    total : array_like of int, shape (...)

    Raises
    ------
    ValueError
        If they do not.

    Examples
    --------
    >>> round_to_total([1.4, 1.4, 1.2], 4)
    array([2, 1, 1])
    """
    tables = np.asarray(values, dtype=np.float64)
    nearest = np.rint(tables)
    # A number that is whole up to floating point is whole: 2.9999999 must not become 2.
    whole = np.where(np.abs(tables - nearest) < 1e-7, nearest, np.floor(tables)).astype(np.int64)
    missing = np.asarray(total)[..., None] - whole.sum(axis=-1, keepdims=True)
    if np.any(missing < 0) or np.any(missing > tables.shape[-1]):
        raise ValueError("the tables do not add up to the total")
    place = np.argsort(np.argsort(whole - tables, axis=-1, kind="stable"), axis=-1)
    return whole + (place < missing)
