"""A perturbation table that is not published, learnt with the counts: ``python -m benchmarks.learnt_law``.

1,000 areas of 104 cells (two sexes, 13 ages, four work statuses) with all margins of each area, every number perturbed on its own
by a law that the model does not know: 104,000 cells and 210,000 answers. ``--prior dirichlet`` draws by a law with a peak, and
learns its rows; ``--prior max-entropy`` draws by one of the family, and learns its variance. Printed is what is learnt beside the
truth, with R-hat, effective sample sizes, seconds and memory. ``--areas``, ``--draws``, ``--tune``, ``--sweeps`` make it smaller.
``--office FOLDER`` learns the law of the Australian tables instead, ``--above 20`` from larger numbers only. What was found is stored
in ``notebooks/data/learnt_laws.csv`` (``--output``).
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import numpy.typing as npt
import pandas as pd

import bayesdp as bdp
from benchmarks.calibration.table import versions
from benchmarks.memory import apart
from notebooks.real_tables_law import learn, of_australia, with_law

AGES = ["15_19", *(f"{age}_{age + 4}" for age in range(20, 75, 5)), "75ov"]
PROFILE = {"sex": ["M", "F"], "age": AGES, "work": ["EWFT", "EWPT", "EAFW", "EHW_NS"]}
"""The dimensions of an area in table W01 of the Working Population Profile."""


def queries_of(table: dict[str, list[str]]) -> dict[str, Any]:
    """All margins of each area by name, cells first."""
    _, *dims = table
    kept = [own for size in range(len(dims), -1, -1) for own in combinations(dims, size)]
    return {" ".join(["area", *own]): bdp.Margins(table, ["area", *own]) for own in kept}


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


def learnt(
    release: bdp.Release, true: npt.NDArray[np.float64] | None = None, **how: int
) -> tuple[list[dict[str, Any]], npt.NDArray[Any]]:
    """Fit it by two chains; what is learnt of the last row, or of the variance, a line each, and the draws of the counts."""
    began, law = time.perf_counter(), release.measurements[0].law
    assert isinstance(law, bdp.noise.UnknownPerturbation)
    posterior: Any = learn(release, **how).posterior
    name = next(str(own) for own in posterior if str(own).endswith("_law"))
    if law.prior == "dirichlet":
        own, named = posterior[name].values[:, :, -1], [f"p({deviation:+d})" for deviation in law.deviations]
    else:
        own, named = posterior[f"{name}_variance"].values[..., None], ["variance"]
    about = {
        "prior": law.prior,
        "cells": release.frame.size,
        "answers": sum(int((~part.unmeasured).sum()) for part in release.measurements),
        "draws": own.shape[0] * own.shape[1],
        "sweeps": how.get("sweeps", 1),
        "seconds": round(time.perf_counter() - began),
    }
    lines = []
    for k, quantity in enumerate(named):
        drawn = own[..., k]
        low, high = np.quantile(drawn, [0.025, 0.975])
        found = {
            "true": np.nan if true is None else true[k],
            "mean": drawn.mean(),
            "sd": drawn.std(),
            "low": low,
            "high": high,
            "rhat": float(az.rhat(drawn)),
            "ess": float(az.ess(drawn)),
        }
        rounded = {name: f"{value:.4g}" for name, value in found.items()}
        lines.append({"quantity": quantity, **rounded, **about})
    return lines, posterior["x"].values


def recovered(areas: int, prior: str, **how: int) -> list[dict[str, Any]]:
    """What is learnt of a synthetic release, beside the truth, and how many cells are in their 95 % intervals."""
    release, rows, truth = synthetic(areas, prior)
    law = LAWS[prior]
    lines, draws = learnt(release, rows[-1] if prior == "dirichlet" else law.variances[[len(law.tables) // 2]], **how)
    low, high = np.quantile(draws, [0.025, 0.975], axis=(0, 1))
    held = f"{np.mean((low <= truth) & (truth <= high)):.4f}"
    return [{"tables": "synthetic", **line, "cells held": held} for line in lines]


def _lines(release: bdp.Release, **how: int) -> list[dict[str, Any]]:
    """What is learnt, without the draws."""
    return learnt(release, **how)[0]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learnt_law", description=__doc__)
    parser.add_argument("--prior", choices=LAWS, default="dirichlet")
    parser.add_argument("--office", type=Path, help="folder of the Australian tables, in place of synthetic ones")
    parser.add_argument("--within", default="123456789", help="their states")
    parser.add_argument("-o", "--output", type=Path, help="a CSV file, to which lines are added")
    for name, value in (("areas", 1000), ("above", -1), ("draws", 300), ("tune", 100), ("sweeps", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    how = {"draws": given.draws, "tune": given.tune, "sweeps": given.sweeps}
    if given.office is None:
        took = apart(recovered, given.areas, given.prior, **how)
        lines = took.result
    else:
        law = bdp.noise.UnknownPerturbation(3, not_smaller_than=3, prior=given.prior)
        release = with_law(of_australia(given.office, law, given.within), law, above=given.above)
        named = f"Australian, states {given.within}" + (f", above {given.above}" if given.above >= 0 else "")
        took = apart(_lines, release, **how)
        lines = [{"tables": named, **line, "cells held": ""} for line in took.result]
    found = pd.DataFrame(lines).assign(gigabytes=round(took.gigabytes, 2), versions=versions())
    print(found.T.to_string())
    if given.output is not None:
        before = [pd.read_csv(given.output)] if given.output.exists() else []
        pd.concat([*before, found]).to_csv(given.output, index=False)


if __name__ == "__main__":
    main()
