"""A simulation in the manner of the Census Bureau's TopDown algorithm, for comparison.

TopDown adds noise to every cell and then makes the table consistent: it projects the noisy table, by weighted
least squares, onto the tables that are nonnegative and have the exact totals. This module has the core of it
for one level of geography, nonnegativity and one total a group. It is a simulation and not the real
algorithm, whose queries, levels and rounding are many more (Abowd et al., 2022, "The 2020 Census Disclosure
Avoidance System TopDown Algorithm", Harvard Data Science Review).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.noise import DiscreteLaplace

__all__ = ["onto_total", "round_to_total", "simulate"]

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
    weights : array_like, shape (cells,), optional
        Positive; inverse variances of the noise. Default: all equal.

    Returns
    -------
    numpy.ndarray
        Of the shape of `values`.

    Examples
    --------
    >>> onto_total([5.0, 1.0, -3.0], 4.0)
    array([4., 0., 0.])
    """
    tables = np.asarray(values, dtype=np.float64)
    given = np.ones(tables.shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != tables.shape[-1:] or not np.all(given > 0):
        raise ValueError(f"weights must be {tables.shape[-1]} positive numbers, got {weights!r}")
    exact = np.asarray(total, dtype=np.float64)[..., None]
    if np.any(exact < 0):
        raise ValueError(f"total must be at least 0, got {total!r}")
    # A cell is positive if the multiplier is below its weight times its value: the cells enter in this order.
    entry = given * tables
    order = np.argsort(-entry, axis=-1)
    summed = np.cumsum(np.take_along_axis(tables, order, axis=-1), axis=-1)
    multipliers = (summed - exact) / np.cumsum(
        (1 / given)[order], axis=-1
    )  # if the first k cells are the positive ones
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

    Examples
    --------
    >>> round_to_total([1.4, 1.4, 1.2], 4)
    array([2, 1, 1])
    """
    tables = np.asarray(values, dtype=np.float64)
    whole = np.floor(tables).astype(np.int64)
    missing = np.asarray(total)[..., None] - whole.sum(axis=-1, keepdims=True)
    if np.any(missing < 0) or np.any(missing > tables.shape[-1]):
        raise ValueError("the tables do not add up to the total")
    place = np.argsort(np.argsort(whole - tables, axis=-1, kind="stable"), axis=-1)
    return whole + (place < missing)


def simulate(
    truth: npt.ArrayLike,
    groups: npt.ArrayLike,
    b: float,
    rng: np.random.Generator,
    size: int,
    *,
    rounded: bool = True,
) -> npt.NDArray[np.int64] | Floats:
    """Simulate releases: discrete Laplace noise on every cell, then the projection with exact group totals.

    Parameters
    ----------
    truth : array_like of int, shape (units, categories)
        The confidential table, such as counties by race.
    groups : array_like, shape (units,)
        The group of each unit, such as its state; the total of each group is exact.
    b : float
        Scale of the noise on each cell, in counts.
    rng : numpy.random.Generator
        Source of randomness.
    size : int
        How many releases.
    rounded : bool
        Whether releases are rounded to whole numbers.

    Returns
    -------
    numpy.ndarray, shape (size, units, categories)

    Examples
    --------
    >>> table = np.array([[100, 0], [20, 3], [7, 7]])
    >>> found = simulate(table, ["A", "A", "B"], 5.0, np.random.default_rng(1), 4)
    >>> found[:, :2].sum(axis=(1, 2)).tolist(), found[:, 2].sum(axis=1).tolist(), int(found.min()) >= 0
    ([123, 123, 123, 123], [14, 14, 14, 14], True)
    """
    table = np.asarray(truth)
    members = np.asarray(groups)
    noisy = table + DiscreteLaplace(b).draw(rng, table.shape, size)
    out: npt.NDArray[Any] = np.empty(noisy.shape, dtype=np.int64 if rounded else np.float64)
    for group in dict.fromkeys(members.tolist()):
        own = members == group
        total = int(table[own].sum())
        found = onto_total(noisy[:, own].reshape(size, -1), np.full(size, total))
        settled = round_to_total(found, np.full(size, total)) if rounded else found
        out[:, own] = settled.reshape(size, -1, table.shape[1])
    return out
