"""Published tables of a country, each number perturbed on its own: ``python -m benchmarks.country FOLDER --states 1 2 --leaves SA2``.

The working population of the Australian census of 2016 (Australian Bureau of Statistics, Working Population Profile W01,
CC BY 2.5 AU; the files of the DataPack are in the folder): sex by 13 ages by 4 statuses, with all margins, of areas of several levels.
It streams a posterior of the finest level (`bayesdp.fit_hierarchy`) under all published numbers, and prints seconds, the smallest
effective sample size and the largest R-hat of the totals of each level, and of all cells, and the largest memory of the fit.
The law of the office is not published: deviations are uniform from -3 to 3 for counts of 6 and more, and below that those with
the largest entropy and mean 0 among 0 and 3, 4, ... An area that is the only part of another has its keys, and its numbers: they are
left out at the higher level.

New South Wales and Victoria by SA2, 108,368 cells and 261,240 numbers, ``--draws 1000 --tune 300 --thin 32`` (two chains in two
threads on two cores): 807 s in all, 1.76 GB. Totals: smallest bulk ESS 1,199 (SA2, SA3, SA4: an SA2 that is both by itself) and
2,022 (states); largest R-hat 1.0045 (SA2), 1.0060 (SA3), 1.0026 (SA4), 1.0020 (states). None of the 107,921 cells that move has
an R-hat above 1.05, the largest is 1.045; smallest ESS 174, 5% quantile 954. ``--thin 24``: 626 s, one cell at 1.052. A run of
``--tune 500 --thin 10`` was killed (SIGKILL) after 356 s with 351 and 521 draws, and went on from its journal to the end.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from benchmarks.memory import apart
from notebooks.real_tables_law import parted

__all__ = ["LAW", "main", "released", "table_prior"]

LAW = bdp.noise.TransitionTable(
    range(-3, 4),
    bdp.noise.CellKey(max_deviation=3, variance_at_most=4.0, not_smaller_than=3).transitions.mass,
)
"""What is supposed of the office's law: see above."""


LEVELS = ("SA2", "SA3", "SA4", "STE")
"""The finest first."""


def released(folder: Path, states: Sequence[str], leaves: str = "SA3") -> bdp.Release:
    """The release of some states with all levels above the leaves, as the office's files have them."""
    levels = LEVELS[LEVELS.index(leaves) :]
    return parted(bdp.datasets.working_population(LAW, levels=levels, within=states, folder=folder))


def table_prior(release: bdp.Release) -> FixedNegativeBinomial:
    """Counts vary about the mean of the published ones of their kind."""
    cells = next(own.values for own in release.measurements if own.query.is_identity)
    return FixedNegativeBinomial(mean=cells.mean(axis=0) + 0.5, shape=0.8)


def main() -> None:
    """Run it, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--states", nargs="+", default=["7"])
    parser.add_argument("--leaves", default="SA3", choices=LEVELS[:2])
    for name, default in (("draws", 1000), ("tune", 200), ("thin", 1), ("chains", 2), ("cores", 2), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--journal")
    given = parser.parse_args()
    began = time.perf_counter()
    release = released(given.folder, given.states, given.leaves)
    made = time.perf_counter() - began
    frame = release.frame
    levels = {
        f"by_{name}": bdp.Margins(frame, [name]) for name in (release.dims[0], *(name for name, _, _ in frame.groups))
    }
    used = apart(
        bdp.fit_hierarchy,
        release,
        table_prior(release),
        record=levels,
        draws=given.draws,
        tune=given.tune,
        thin=given.thin,
        chains=given.chains,
        cores=given.cores,
        random_seed=given.seed,
        journal=given.journal,
        resume=given.journal is not None,
        quiet=True,
    )
    tree = used.result
    took = time.perf_counter() - began
    print(
        f"{frame.shape}, {sum(int((~own.unmeasured).sum()) for own in release.measurements):,} answers, release {made:.0f} s"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in levels:
            ess, rhat = (tree["diagnostics"][f"{name}_{what}"].values for what in ("ess_bulk", "rhat"))
            print(f"{name}: smallest bulk ESS {np.nanmin(ess):.0f}, largest R-hat {np.nanmax(rhat):.4f}")
    rhat, ess = tree["cells"]["rhat"].values, tree["cells"]["ess"].values
    print(
        f"cells: {np.isfinite(rhat).sum():,} free, largest R-hat {np.nanmax(rhat):.3f}, {np.nansum(rhat > 1.05)} above 1.05, "
        f"{np.isposinf(rhat).sum()} frozen apart, smallest ESS {np.nanmin(ess):.0f}, 5% quantile {np.nanquantile(ess, 0.05):.0f}"
    )
    print(f"{took:.0f} s in all, {used.gigabytes:.2f} GB for the fit")


if __name__ == "__main__":
    main()
