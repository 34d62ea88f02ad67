"""Posteriors of hierarchies at real size: ``python -m benchmarks.hierarchy_runs tracts`` (or ``full``, ``blocks``, ``state``).

Each case is a release like the Census Bureau's (`benchmarks.census_like`), fitted by `bdp.fit_hierarchy` with a fixed negative
binomial prior. It prints CPU seconds of its process, compiled code on disk, of the kernel and in all; its largest memory;
and the smallest effective sample sizes, by level of geography and of cells. ``--leaves`` and ``--draws`` make a case smaller;
``--seed`` is that of the chains; ``--cores 2`` runs chains side by side, which changes no draw.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.queries import Query, SumPart
from benchmarks.census_like import CensusLike, census_like
from benchmarks.memory import apart

__all__ = ["CASES", "Case", "Figures", "fitted"]

PRIOR = FixedNegativeBinomial(mean=2.0, shape=0.1)


@dataclass(frozen=True)
class Case:
    """A release, a run, and which answers are recorded.

    Attributes
    ----------
    leaves : int
    people : int
        In a leaf, on average.
    levels : tuple of (str, int)
        Above the leaves, with the number of leaves in a node; 0: all.
    leaf : str
    full : bool
        2,016 cells a leaf, not 252.
    draws, tune : int
        Of each of two chains.
    most : int
        Answers of a query that are recorded at most: draws of all would not fit in memory.
    watched : int
        Leaves of which more answers are recorded: all queries of at most eight answers a leaf.
    bins : int
        Of the histogram of each cell.
    goal : str
    """

    leaves: int
    draws: int
    tune: int
    goal: str
    people: int = 4000
    levels: tuple[tuple[str, int], ...] = (("county", 0),)
    leaf: str = "tract"
    full: bool = True
    most: int = 2_000
    watched: int = 0
    bins: int = 64


CASES = {
    "tracts": Case(20, 1200, 150, "answers and cells 400, 5 s of kernel, 20 s in all", full=False, most=10_000),
    "full": Case(100, 2200, 200, "answers of tracts and the county 400, cells 100, 120 s, 1 GB"),
    "blocks": Case(
        1000,
        1000,
        200,
        "answers and cells 100, 600 s",
        people=60,
        levels=(("block_group", 8), ("tract", 40), ("county", 0)),
        leaf="block",
    ),
    "state": Case(
        1500,
        1300,
        200,
        "answers of tracts and counties 400, cells 100, 1,200 s, 2 GB",
        levels=(("county", 100), ("state", 0)),
        most=1_500,
        watched=100,
        bins=32,
    ),
}
"""The cases of the table in docs/SPEED.md."""


@dataclass
class Figures:
    """What a run cost, and what it gave.

    Attributes
    ----------
    tree : DataTree
    seconds, kernel : float
        CPU seconds of the fit, and of the moves in it.
    ess, rhat : dict
        Smallest effective sample size and largest R-hat of the answers of each level, and of ``"cells"``.
    """

    tree: xr.DataTree
    seconds: float
    kernel: float
    ess: dict[str, float] = field(default_factory=dict)
    rhat: dict[str, float] = field(default_factory=dict)


def fitted(
    own: CensusLike, draws: int, tune: int, *, most: int, cores: int = 1, seed: int = 1, bins: int = 64
) -> Figures:
    """Fit, and read the diagnostics."""
    record = {
        f"{level}: {name}": query
        for (level, name), query in own.queries.items()
        if query.rows <= most and query.rows < own.release.frame.size
    }
    if "watched" in {name for name, _, _ in own.release.frame.groups}:
        leaf = own.release.frame.dims[0]
        for (level, name), query in own.queries.items():
            keep = tuple("watched" if label == leaf else label for label in query.parts[0].keep)
            part = SumPart(own.release.frame, keep)
            if level == leaf and query.rows <= 8 * own.release.frame.shape[0] and f"{level}: {name}" not in record:
                record[f"{level}: watched {name}"] = Query(own.release.frame, (part,))
    clock, sweep = [0.0], TreeChain.sweep

    def timed(chain: TreeChain, sweeps: int = 1) -> int:
        start = time.thread_time()
        changed = sweep(chain, sweeps)
        clock[0] += time.thread_time() - start
        return changed

    TreeChain.sweep = timed  # type: ignore[method-assign]
    try:
        start = time.process_time()
        tree = bdp.fit_hierarchy(
            own.release,
            PRIOR,
            record=record,
            draws=draws,
            tune=tune,
            chains=2,
            cores=cores,
            random_seed=seed,
            bins=bins,
            quiet=True,
        )
        found = Figures(tree, time.process_time() - start, clock[0])
    finally:
        TreeChain.sweep = sweep  # type: ignore[method-assign]
    diagnostics: Any = tree["diagnostics"]
    for name in record:
        level = name.split(":")[0]
        ess, rhat = diagnostics[f"{name}_ess_bulk"].values, diagnostics[f"{name}_rhat"].values
        if np.isfinite(ess).any():
            found.ess[level] = min(found.ess.get(level, np.inf), float(np.nanmin(ess)))
            found.rhat[level] = max(found.rhat.get(level, 0.0), float(np.nanmax(rhat)))
    cells: Any = tree["cells"]
    found.ess["cells"], found.rhat["cells"] = float(cells["ess"].min()), float(cells["rhat"].max())
    return found


def _run(case: Case, leaves: int, draws: int, tune: int, cores: int, seed: int) -> tuple[Figures, int, float, float]:
    """Figures, free cells, and CPU seconds of the release and of the whole process."""
    own = census_like(
        leaves, case.levels, leaf=case.leaf, full=case.full, people=case.people, watched=min(case.watched, leaves // 2)
    )
    built = time.process_time()
    found = fitted(own, draws, tune, most=case.most, cores=cores, seed=seed, bins=case.bins)
    return found, int(own.free.sum()), built, time.process_time()


def main() -> None:
    """Run a case, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--leaves", type=int)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--tune", type=int)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the chains; the release stays the same")
    given = parser.parse_args()
    case = CASES[given.case]
    leaves, draws = given.leaves or case.leaves, given.draws or case.draws
    load = os.getloadavg()
    took = apart(_run, case, leaves, draws, given.tune or case.tune, given.cores, given.seed)
    found, free, built, process = took.result
    diagnostics = found.tree["diagnostics"].attrs
    print(
        f"{given.case}: {leaves:,} leaves, {free:,} free cells, 2 chains of {draws:,} draws, "
        f"{datetime.now(UTC):%Y-%m-%d}; load {load[0]:.1f} before and {os.getloadavg()[0]:.1f} after on {os.cpu_count()} cores"
    )
    print(f"goal: {case.goal}")
    print(
        f"CPU seconds: imports and release {built:.1f}, kernel {found.kernel:.1f}, fit {found.seconds:.1f}, process "
        f"{process:.1f}; largest memory {took.gigabytes:.2f} GB, {took.before:.2f} of them libraries"
    )
    for name, ess in found.ess.items():
        print(f"{name:<12} smallest ESS {ess:8.0f}   largest R-hat {found.rhat[name]:.4f}")
    cells: Any = found.tree["cells"]
    low, middle = (float(cells["ess"].quantile(share)) for share in (0.001, 0.5))
    print(f"cells        one in 1,000 has an ESS below {low:.0f}; median {middle:.0f}")
    print(f"missed modes: {diagnostics['missed_modes']}; {diagnostics['missed_modes_message']}")


if __name__ == "__main__":
    main()
