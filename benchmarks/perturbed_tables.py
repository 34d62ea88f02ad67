"""Tables that an office perturbed by cell keys, with margins perturbed on their own, and models of them.

`large` is the case of the issue: areas by categories, published with both margins and the total. `by_hand` is what one would write in
PyMC instead: the true counts summed out, each over the window of counts that its published value can come from. That is possible
for cells alone: a margin that is published, too, ties the cells of its line together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt

import bayesdp as bdp
from bayesdp.noise import CellKey

__all__ = ["LAW", "SHAPE", "Perturbed", "by_hand", "ours", "perturbed", "with_margins"]

LAW = CellKey(max_deviation=4, variance=2.0)
"""Deviations of up to 4, variance 2, zeros kept."""

SHAPE = 0.5
"""Of the negative binomial prior of the cells: many small counts, some large ones."""


@dataclass(frozen=True)
class Perturbed:
    """A table with its truth.

    Attributes
    ----------
    release : Release
    truth : int64 array, shape (areas, categories)
    """

    release: bdp.Release
    truth: npt.NDArray[np.int64]


def perturbed(areas: int, categories: int, *, margins: bool, mean: float = 5.0, seed: int = 1) -> Perturbed:
    """Draw a table, and publish it under `LAW`; with both margins and the total if `margins`."""
    rng = np.random.default_rng(seed)
    table = {"area": [f"a{i}" for i in range(areas)], "category": [f"c{j}" for j in range(categories)]}
    truth = rng.negative_binomial(SHAPE, SHAPE / (SHAPE + mean), (areas, categories))
    queries: dict[str, Any] = {"cells": bdp.Identity(table)}
    if margins:
        queries |= {
            "areas": bdp.Margins(table, ["area"]),
            "categories": bdp.Margins(table, ["category"]),
            "all": bdp.Totals(table),
        }
    drawn = LAW.draw_answers(rng, list(queries.values()), truth)
    measured = [bdp.Measured(query, y, LAW, name=name) for (name, query), y in zip(queries.items(), drawn, strict=True)]
    return Perturbed(bdp.Release.from_published(table, measured=measured), truth)


def with_margins(release: bdp.Release, mean: float = 5.0) -> pm.Model:
    """The joint model of cells, margins and total under a known prior; it records area totals and category shares."""
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=mean, alpha=SHAPE), dims=release.dims)
        bdp.observe(release, x)
        pm.Deterministic("area_total", x.sum(axis=1), dims="area")
        pm.Deterministic("category_share", x.sum(axis=0) / pt.maximum(x.sum(), 1), dims="category")
    return model


def ours(release: bdp.Release) -> pm.Model:
    """Cells alone, with a mean to estimate; the true counts are variables."""
    with pm.Model(coords=release.coords) as model:
        mean = pm.Gamma("mean", 2.0, 0.4)
        bdp.observe(
            release, bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=mean, alpha=SHAPE), dims=release.dims)
        )
    return model


def by_hand(release: bdp.Release) -> pm.Model:
    """The same posterior of the mean, with the true counts summed out: ``p(y) = sum_x p(x | mean) p(y | x)`` for each cell."""
    [cells] = release.measurements
    y = np.asarray(cells.values).reshape(-1)
    window = np.arange(-LAW.max_deviation, LAW.max_deviation + 1)
    x = y[:, None] + window
    possible = np.where(x >= 0, LAW.log_each(y[:, None], np.maximum(x, 0)), -np.inf)
    with pm.Model() as model:
        mean = pm.Gamma("mean", 2.0, 0.4)
        # Impossible counts have no part in the sum, rather than a log-mass of minus infinity, whose gradient is none.
        row, column = np.nonzero(np.isfinite(possible))
        terms = pm.logp(pm.NegativeBinomial.dist(mu=mean, alpha=SHAPE), x[row, column]) + possible[row, column]
        padded = pt.set_subtensor(pt.full(x.shape, -1e30)[row, column], terms)
        pm.Potential("published", pt.logsumexp(padded, axis=1).sum())
    return model
