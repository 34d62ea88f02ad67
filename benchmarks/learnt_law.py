"""A perturbation table that is not published, learnt with the counts: ``python -m benchmarks.learnt_law``.

1,000 areas of 104 cells (two sexes, 13 ages, four work statuses) with all margins of each area, every number perturbed on its own
by a law that the model does not know: 104,000 cells and 210,000 answers. ``--prior dirichlet`` draws by a law with a peak, and
learns its rows; ``--prior max-entropy`` draws by one of the family, and learns its variance. Printed is what is learnt beside the
truth, with R-hat, effective sample sizes, seconds and memory. ``--areas``, ``--draws``, ``--tune``, ``--sweeps`` make it smaller.
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import combinations, product
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import numpy.typing as npt
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


PEAK = np.array([[0, 0, 1, 0, 0], [0, 0.2, 0.6, 0.2, 0], [0.05, 0.15, 0.6, 0.15, 0.05]])
"""Rows of a law that publishes most numbers as they are."""

LAWS = {
    "dirichlet": bdp.noise.UnknownPerturbation(2),
    "max-entropy": bdp.noise.UnknownPerturbation(3, not_smaller_than=3, prior="max-entropy"),
}


def synthetic(
    areas: int, prior: str, seed: int = 1
) -> tuple[bdp.Release, npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """A release whose law is to be learnt, the rows that it was drawn by, and the true table."""
    rng, law = np.random.default_rng(seed), LAWS[prior]
    table = {"area": [f"a{i}" for i in range(areas)], **PROFILE}
    mean = rng.gamma(1.5, 20.0, (2, 13, 4)) + 1.0
    truth = rng.negative_binomial(0.8, 0.8 / (0.8 + mean), (areas, 2, 13, 4))
    rows = PEAK if prior == "dirichlet" else law.tables[len(law.tables) // 2]
    queries = queries_of(table)
    drawn = law.given(rows).draw_answers(rng, list(queries.values()), truth)
    measured = [bdp.Measured(q, y, law, name=name) for (name, q), y in zip(queries.items(), drawn, strict=True)]
    return bdp.Release.from_published(table, measured, simulated=True), rows, truth


def recovered(areas: int, prior: str, *, draws: int, tune: int, sweeps: int, seed: int = 1) -> dict[str, Any]:
    """Fit it by two chains; what is learnt of the last row, or of the variance, beside the truth."""
    release, rows, truth = synthetic(areas, prior)
    began = time.perf_counter()
    with model_of(release):
        tree: Any = bdp.sample(
            draws,
            tune=tune,
            chains=2,
            cores=1,
            random_seed=seed,
            quiet=True,
            progressbar=False,
            fiber_gibbs={"sweeps": sweeps},
        )
    posterior, law = tree.posterior, LAWS[prior]
    name = next(own for own in posterior if str(own).endswith("_law"))
    if prior == "dirichlet":
        learnt, true = posterior[name].values[:, :, -1], rows[-1]
    else:
        learnt, true = posterior[f"{name}_variance"].values[..., None], law.variances[len(law.tables) // 2, None]
    low, high = np.quantile(posterior["x"].values, [0.025, 0.975], axis=(0, 1))
    return {
        "cells": truth.size,
        "answers": sum(own.values.size for own in release.measurements),
        "true": np.round(true, 4).tolist(),
        "mean": learnt.mean(axis=(0, 1)).round(4).tolist(),
        "sd": learnt.std(axis=(0, 1)).round(4).tolist(),
        "errors in sd": ((learnt.mean(axis=(0, 1)) - true) / learnt.std(axis=(0, 1))).round(2).tolist(),
        "R-hat": [round(float(az.rhat(learnt[..., k])), 3) for k in range(learnt.shape[-1])],
        "ESS": [round(float(az.ess(learnt[..., k]))) for k in range(learnt.shape[-1])],
        "cells in their 95 % intervals": round(float(np.mean((low <= truth) & (truth <= high))), 4),
        "seconds": round(time.perf_counter() - began),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learnt_law", description=__doc__)
    parser.add_argument("--prior", choices=LAWS, default="dirichlet")
    for name, value in (("areas", 1000), ("draws", 300), ("tune", 100), ("sweeps", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for key, value in recovered(**vars(parser.parse_args())).items():
        print(f"{key}: {value}")


if __name__ == "__main__":
    main()
