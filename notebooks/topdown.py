"""A simulation in the manner of the Census Bureau's TopDown algorithm, for comparison.

TopDown adds noise to every cell and then makes the table consistent: it projects the noisy table, by weighted
least squares, onto the tables that are nonnegative and have the exact totals. This module simulates many releases
with the core of it, for one level of geography, nonnegativity and one total a group; for one release with a tree of geography
there is `bayesdp.hierarchies.topdown_like`. It is a simulation and not the real
algorithm, whose queries, levels and rounding are many more (Abowd et al., 2022, "The 2020 Census Disclosure
Avoidance System TopDown Algorithm", Harvard Data Science Review).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.topdown import onto_total, round_to_total
from bayesdp.noise import DiscreteLaplace

__all__ = ["simulate"]

type Floats = npt.NDArray[np.float64]


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
