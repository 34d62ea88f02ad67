"""A census table perturbed by cell keys at real size: ``python -m benchmarks.perturbed_runs``.

3,000 areas by 12 categories (`benchmarks.perturbed_tables`), published with both margins and the total, each perturbed on its own:
36,000 cells and 3,013 answers besides. It prints one line: seconds of sampling, the smallest bulk effective sample size and the
largest R-hat of all area totals and category shares, how many of them have their truth in a 95% interval, and the largest
memory. The goal is an effective sample size above 400 within 300 seconds on two cores. ``--areas``, ``--draws`` and
``--tune`` make it smaller.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from datetime import UTC, datetime
from typing import Any

import arviz as az
import numpy as np

import bayesdp as bdp
from benchmarks.memory import apart
from benchmarks.perturbed_tables import perturbed, with_margins

__all__ = ["large", "main"]


def large(
    areas: int = 3000,
    categories: int = 12,
    *,
    draws: int = 1000,
    tune: int = 200,
    chains: int = 4,
    cores: int = 2,
    seed: int = 1,
) -> dict[str, float]:
    """Fit a table, and read the diagnostics; the seed is that of the chains, the release stays the same."""
    case = perturbed(areas, categories, margins=True)
    model = with_margins(case.release)
    began, cpu = time.perf_counter(), _cpu()
    with model:
        posterior: Any = bdp.sample(
            draws, tune=tune, chains=chains, cores=cores, random_seed=seed, quiet=True, progressbar=False
        ).posterior
    found = {"seconds": time.perf_counter() - began, "cpu": _cpu() - cpu}
    sums = case.truth.sum(axis=1)
    truths = {"area_total": sums, "category_share": case.truth.sum(axis=0) / case.truth.sum()}
    ess, rhat, inside = [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantities that are determined have no spread
        for name, truth in truths.items():
            values = posterior[name]
            ess.append(np.asarray(az.ess(values, method="bulk")))
            rhat.append(np.asarray(az.rhat(values)))
            low, high = np.quantile(values.to_numpy(), [0.025, 0.975], axis=(0, 1))
            inside.append((low <= truth) & (truth <= high))
    found |= {
        "ess_areas": float(np.nanmin(ess[0])),
        "ess_shares": float(np.nanmin(ess[1])),
        "rhat": float(max(np.nanmax(own) for own in rhat)),
        "inside": float(np.concatenate(inside).mean()),
    }
    return found


def _cpu() -> float:
    """CPU seconds of this process and of those that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    """Run the case, and print its line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (
        ("areas", 3000),
        ("categories", 12),
        ("draws", 1000),
        ("tune", 200),
        ("chains", 4),
        ("cores", 2),
        ("seed", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = vars(parser.parse_args())
    load = os.getloadavg()[0]
    took = apart(large, children=given["cores"], **given)
    found = took.result
    print(
        f"{given['areas']:,} x {given['categories']}, {given['chains']} chains of {given['draws']:,} draws after {given['tune']:,}, "
        f"{given['cores']} cores, {datetime.now(UTC):%Y-%m-%d}: {found['seconds']:.0f} s ({found['cpu']:.0f} s of CPU), "
        f"smallest bulk ESS areas {found['ess_areas']:.0f}, shares {found['ess_shares']:.0f}, largest R-hat {found['rhat']:.4f}, "
        f"{found['inside']:.1%} in 95% intervals, {took.gigabytes:.2f} GB; "
        f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    )


if __name__ == "__main__":
    main()
