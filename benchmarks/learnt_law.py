"""A perturbation table that is not published, learnt with the counts: ``python -m benchmarks.learnt_law``."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

import bayesdp as bdp

AGES = ["15_19", *(f"{age}_{age + 4}" for age in range(20, 75, 5)), "75ov"]
PROFILE = {"sex": ["M", "F"], "age": AGES, "work": ["EWFT", "EWPT", "EAFW", "EHW_NS"]}
"""The dimensions of an area in table W01 of the Working Population Profile."""

TOTALS = {"sex": "P", "age": "Tot", "work": "Tot"}


def queries_of(table: dict[str, list[str]]) -> dict[str, Any]:
    """All margins of each area by name, cells first."""
    _, *dims = table
    kept = [own for size in range(len(dims), -1, -1) for own in combinations(dims, size)]
    return {" ".join(["area", *own]): bdp.Margins(table, ["area", *own]) for own in kept}


def of_office(folder: Path, level: str, states: str, law: bdp.noise.NoiseLaw, *, above: int = -1) -> bdp.Release:
    """Table W01 of the areas of some states; with `above`, of the areas whose numbers are all larger than that."""
    files = [pd.read_csv(folder / f"2016Census_W01{part}_AUS_{level}.csv", index_col=0) for part in "AB"]
    data = pd.concat(files, axis=1)
    data.index = data.index.astype(str)
    data = data[data.index.str[0].isin(list(states)) & (data.min(axis=1) > above)]
    data = data[data["P_Tot_Tot"] > 0]
    table = {"area": list(data.index), **PROFILE}
    measured = []
    for name, query in queries_of(table).items():
        asked = [PROFILE[dim] if dim in name.split() else [TOTALS[dim]] for dim in PROFILE]
        values = data[["_".join(own) for own in product(*asked)]].to_numpy().reshape(query.shape)
        measured.append(bdp.Measured(query, values, law, name=name))
    return bdp.Release.from_published(table, measured)


def model_of(release: bdp.Release, spread: float = 0.8) -> pm.Model:
    """Each cell of an area is negative binomial around the mean of the published numbers of that cell."""
    cells = np.asarray(release.measurements[0].values, dtype=np.float64)
    with pm.Model(coords=release.coords) as model:
        base = pm.NegativeBinomial.dist(mu=np.broadcast_to(cells.mean(axis=0) + 0.5, cells.shape), alpha=spread)
        bdp.observe(release, bdp.ConfidentialCounts("x", base, dims=release.dims))
    return model
