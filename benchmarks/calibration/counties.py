"""How often 95 % intervals hold the truth in counties made up by the rules of `models/redistricting.py`, as notebook 08 counts it.

``python -m benchmarks.calibration.counties -o counties.csv`` makes counties anew, measures each once, and counts, of shares and of
large cells, how many the intervals of the posterior and of GLS hold: a row for each prior, county, level, quantity and method, so
that standard errors can be worked out from counties, within which nothing is independent. These counties are not drawn from a prior:
where the truth is, `benchmarks.calibration.hierarchy` is the exact check; this says what a prior costs where it is not true.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bayesdp.hierarchies.priors import AreaAndCell, CellPrior, VaryingShares
from bayesdp.queries import Identity
from bayesdp.storage import write_text
from bayesdp.streaming import fit_hierarchy
from models import redistricting
from notebooks.measurement_files import estimates, households

__all__ = ["COLUMNS", "PRIORS", "counted", "main"]

PRIORS: dict[str, CellPrior] = {
    "varying shares": VaryingShares(),
    "varying shares by tract": VaryingShares("tract"),
    "area and cell": AreaAndCell(),
}
"""What can be compared, with the default numbers."""

COLUMNS = ("prior", "county", "level", "quantity", "method", "numbers", "held", "squares")

LARGE = 10
"""People in a cell that is counted as large."""

FIRST = 100
"""Seed of the first county; notebook 08 has those from 0 on."""


def counted(prior: str, seed: int, *, draws: int = 400, tune: int = 200) -> pd.DataFrame:
    """Make up a county, measure it, fit it, and count.

    Parameters
    ----------
    prior : str
        Of `PRIORS`.
    seed : int
        Of the county, its release and its chains.
    draws, tune : int
        Of each of two chains: enough for shares, whose effective sample sizes are hundreds, and not for hyperparameters.

    Returns
    -------
    pandas.DataFrame
        The `COLUMNS`: of the ``numbers`` of a row so many are ``held``; ``squares`` is the sum of the squared errors, of shares or of
        counts.
    """
    truth = redistricting.make_county(seed, tracts=2, groups=2, blocks=4, dormitories=0.0)
    release = redistricting.make_release(seed, truth)
    own = households(release)
    tree = fit_hierarchy(
        own, PRIORS[prior], record={"people": Identity(own.frame)}, draws=draws, tune=tune, chains=2, cores=1,
        random_seed=seed, quiet=True, memory_check=False,
    )  # fmt: skip
    found = pd.concat(estimates(own, redistricting.true_table(release, truth)[:, 0], tree), ignore_index=True)
    found = found[found["method"].isin(["posterior", "GLS"])]
    large = (found["quantity"] == "cell") & (found["truth"] >= LARGE)
    found = found[large | (found["quantity"] == "share")]
    found = found.assign(
        quantity=found["quantity"].where(found["quantity"] == "share", "large cell"),
        held=(found["lower"] <= found["truth"]) & (found["truth"] <= found["upper"]),
        squares=(found["estimate"] - found["truth"]) ** 2,
    )
    by = found.groupby(["level", "quantity", "method"], as_index=False)
    rows = by.agg(numbers=("held", "size"), held=("held", "sum"), squares=("squares", "sum"))
    return rows.assign(prior=prior, county=seed)[list(COLUMNS)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status. What is in the file already is kept, and not worked out again."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.counties", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a CSV file, to which counties are added")
    parser.add_argument("--counties", type=int, default=60, help="of each prior (default: 60)")
    parser.add_argument("--only", choices=list(PRIORS), help="one prior")
    args = parser.parse_args(arguments)
    parts = [pd.read_csv(args.output)] if args.output.is_file() else []
    done = {(row.prior, row.county) for part in parts for row in part.itertuples()}
    for seed in range(FIRST, FIRST + args.counties):
        for prior in PRIORS if args.only is None else [args.only]:
            if (prior, seed) not in done:
                parts.append(counted(prior, seed))
                everything = pd.concat(parts, ignore_index=True)
                write_text(args.output, everything.to_csv(index=False, float_format="%.6g"), overwrite=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
