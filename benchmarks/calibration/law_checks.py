"""False alarms of `bayesdp.check_law`: releases that follow their laws, under ten laws.

``python -m benchmarks.calibration.law_checks -o law_checks.csv`` simulates 10,000 releases of each law (a part of
``make calibration``) and writes a line for each; laws that the file has are not run again. A release has cells, totals of areas and
the grand total, each with noise of its own, and exact totals of sexes; cells have means of 0, 9 or 40, so that zeros and small
counts, whose rows are their own (cell keys, rounding), are among them.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import noise
from bayesdp.measurements import Exact, Measured
from bayesdp.measurements.consistency import law_check
from bayesdp.noise import NoiseLaw
from bayesdp.queries import Identity, Margins, Totals
from bayesdp.storage import write_text
from benchmarks.calibration.table import versions

__all__ = ["COLUMNS", "LAWS", "LEVELS", "TABLE", "false_alarms", "main", "published"]

type Floats = npt.NDArray[np.float64]

TABLE = {"area": [f"a{i}" for i in range(15)], "sex": ["f", "m"]}
UNIFORM = noise.TransitionTable(tuple(range(-3, 4)), ((0, 0, 0, 1, 0, 0, 0),) * 3 + ((1 / 7,) * 7,), period=1)
LAWS: Mapping[str, NoiseLaw] = {
    "gaussian": noise.Gaussian(4.0),
    "discrete gaussian": noise.DiscreteGaussian(1.5),
    "laplace": noise.Laplace(3.0),
    "discrete laplace": noise.DiscreteLaplace(1.0),
    "rounding at random": noise.RandomRounding(3),
    "cell keys": noise.CellKey(max_deviation=3, variance_at_most=4),
    "uniform": UNIFORM,
    "rounding": noise.ConventionalRounding(5),
    "rounded laplace": noise.Rounded(noise.Laplace(3.0), 1),
    "rounded gaussian": noise.Rounded(noise.Gaussian(0.2), 0.1),
}
LEVELS = (0.05, 0.01, 1e-3, 1e-4)
COLUMNS = ("law", "releases", *(f"p <= {level:g}" for level in LEVELS), "smallest", "seed", "versions")


def published(table: Any, queries: Any, counts: Any, law: Any, rng: Any, stated: Any = None) -> list[Measured]:
    """Answers as a law gives them, stated to be of another one."""
    drawn = law.draw_answers(rng, queries, counts)
    return [Measured(query, own, stated or law) for query, own in zip(queries, drawn, strict=True)]


def false_alarms(law: NoiseLaw, releases: int, seed: int) -> Floats:
    """The p-values of releases that follow their law."""
    rng, p = np.random.default_rng(seed), np.empty(releases)
    queries, exact = [Identity(TABLE), Margins(TABLE, ["area"]), Totals(TABLE)], Margins(TABLE, ["sex"])
    for run in range(releases):
        x = rng.poisson(rng.choice([0, 9, 40], size=(15, 2)))
        measured = published(TABLE, queries, x, law, rng)
        p[run] = law_check(measured, [Exact(exact, x.sum(axis=0))]).pvalue
    return p


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(description="False alarms of check_law.")
    parser.add_argument("-n", "--releases", type=int, default=10_000, help="releases of each law (default: 10000)")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the CSV file")
    options = parser.parse_args(arguments)
    stored = options.output.read_text(encoding="utf-8").splitlines() if options.output.exists() else []
    asked = {"releases": str(options.releases), "seed": str(options.seed), "versions": versions()}
    lines = [line for line in csv.DictReader(stored) if asked.items() <= line.items()]
    for name, law in LAWS.items():
        if any(line["law"] == name for line in lines):
            continue
        p = false_alarms(law, options.releases, options.seed)
        counted = {f"p <= {level:g}": str(int((p <= level).sum())) for level in LEVELS}
        lines.append({"law": name, **asked, **counted, "smallest": f"{p.min():.4g}"})
        print(f"{name}: {counted} of {options.releases}", flush=True)
        rows = [",".join(COLUMNS), *(",".join(line[column] for column in COLUMNS) for line in lines)]
        write_text(options.output, "\n".join(rows) + "\n", overwrite=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
