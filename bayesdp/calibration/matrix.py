"""The calibration matrix: every mechanism of the library against two priors and two sets of invariants.

``python -m bayesdp.calibration.matrix -o matrix.csv`` runs all cases (``make calibration``), each with a journal of its own, so that a
run that was stopped goes on; ``--only WORD`` and ``--n`` make it smaller. Each case is a model of a 2 x 3 table with few counts, whose
fiber has corners that samplers get wrong. A case's p-value is the smallest of its quantities, adjusted for their number;
over the cases it is adjusted again (Holm), so that the chance of any false alarm in the whole matrix is held.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from bayesdp import _validate, mechanisms
from bayesdp.calibration.progress import followed
from bayesdp.calibration.runners import in_processes, serially
from bayesdp.calibration.sbc import sbc, verdict_of
from bayesdp.calibration.verdict import Verdict, holm
from bayesdp.distributions import BoundaryInflatedLaplace, TruncatedLaplace
from bayesdp.inference import ConfidentialCounts, observe
from bayesdp.measurements import Exact
from bayesdp.queries import Margins, Query, Totals
from bayesdp.release import Release
from bayesdp.storage import replacing

__all__ = ["CASES", "Case", "main", "run_matrix", "write_table"]

TABLE = {"row": ["a", "b"], "column": ["u", "v", "w"]}
SHAPE = (2, 3)
BOUNDS = (0, 60)

INVARIANTS: dict[str, Query] = {"total": Totals(TABLE), "both margins": Margins(TABLE, ["row"], ["column"])}

PRIORS: dict[str, str] = {
    "Poisson, gamma rate": "one rate ~ Gamma(4, 1/2), cells ~ Poisson(rate); NUTS draws the rate",
    "negative binomial": "cells ~ NegativeBinomial(mean 8, shape 3): gamma rates of the cells, integrated out",
}

type Make = Callable[[Query], Any]
"""From invariants to a mechanism of the table that keeps them."""

KEEPING: dict[str, Make] = {
    "lattice Laplace, l1": lambda a: mechanisms.LatticeLaplace(a, epsilon=0.4, norm="l1"),
    "lattice Laplace, l2": lambda a: mechanisms.LatticeLaplace(a, epsilon=0.6, norm="l2"),
    "lattice Gaussian": lambda a: mechanisms.LatticeGaussian(a, rho=0.1),
    "projected Gaussian": lambda a: mechanisms.ProjectedGaussian(a, mu=0.5),
    "projected Laplace": lambda a: mechanisms.ProjectedLaplace(a, epsilon=0.8),
    "extended Gaussian": lambda a: mechanisms.ExtendedGaussian(a, mu=0.5),
    "extended Laplace": lambda a: mechanisms.ExtendedLaplace(a, epsilon=0.8),
    "correlated Gaussian": lambda a: mechanisms.CorrelatedGaussian(a, mu=0.5),
    "K-norm": lambda a: mechanisms.KNorm(a, epsilon=0.8),
    "Semi-DP Gaussian": lambda a: mechanisms.SemiGaussian(a, mu=0.7),
    "Semi-DP K-norm": lambda a: mechanisms.SemiKNorm(a, epsilon=1.0),
    "Semi-DP lattice K-norm": lambda a: mechanisms.SemiLatticeKNorm(a, epsilon=1.0),
    "Semi-DP lattice Laplace": lambda a: mechanisms.SemiLatticeLaplace(a, epsilon=1.2),
    "Semi-DP l1 norm": lambda a: mechanisms.SemiNorm(a, epsilon=1.0),
    "Semi-DP projected Laplace": lambda a: mechanisms.SemiProjectedLaplace(a, epsilon=1.0),
}
"""Mechanisms whose noise changes no invariant."""

INDEPENDENT: dict[str, Make] = {
    "discrete Laplace": lambda a: mechanisms.DiscreteLaplace(TABLE, epsilon=0.6),
    "discrete Gaussian": lambda a: mechanisms.DiscreteGaussian(TABLE, rho=0.08),
    "canonical noise": lambda a: mechanisms.CanonicalNoise(TABLE, epsilon=0.6, delta=1e-3),
    "truncated discrete Laplace": lambda a: mechanisms.TruncatedDiscreteLaplace(TABLE, epsilon=0.6, bounds=BOUNDS),
    "boundary-inflated discrete Laplace": lambda a: mechanisms.BoundaryInflatedDiscreteLaplace(
        TABLE, epsilon=0.6, bounds=BOUNDS
    ),
    "truncated discrete Gaussian": lambda a: mechanisms.TruncatedDiscreteGaussian(
        TABLE, BOUNDS, epsilon=0.8, delta=0.01, neighbours="add-remove"
    ),
    "boundary-inflated discrete Gaussian": lambda a: mechanisms.BoundaryInflatedDiscreteGaussian(
        TABLE, BOUNDS, rho=0.08
    ),
}
"""Mechanisms with independent noise; the exact answers are published beside it, as agencies do."""

STATISTICS: dict[str, tuple[Any, Any]] = {
    "truncated Laplace": (mechanisms.TruncatedLaplace, TruncatedLaplace),
    "boundary-inflated Laplace": (mechanisms.BoundaryInflatedLaplace, BoundaryInflatedLaplace),
}
"""Mechanisms of a statistic with bounds, here of the share of the first cell in the table; the invariants are beside it."""


@dataclass(frozen=True)
class Case:
    """A mechanism, a prior and invariants, as simulator and model.

    Attributes
    ----------
    mechanism : str
        Of `KEEPING`, `INDEPENDENT` or `STATISTICS`.
    prior : str
        Of `PRIORS`.
    invariants : str
        Of `INVARIANTS`.
    """

    mechanism: str
    prior: str
    invariants: str

    @property
    def name(self) -> str:
        """The three in one line."""
        return f"{self.mechanism} | {self.prior} | {self.invariants}"

    @cached_property
    def _made(self) -> Any:
        query = INVARIANTS[self.invariants]
        if self.mechanism in STATISTICS:
            return STATISTICS[self.mechanism][0](1.0, 0.04, (0.0, 1.0))
        return (KEEPING | INDEPENDENT)[self.mechanism](query)

    def simulate(self, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
        """A truth from the prior, and its release."""
        if self.prior == "negative binomial":
            x = rng.negative_binomial(3.0, 3.0 / 11.0, size=SHAPE)
            truth: dict[str, Any] = {"x": x}
        else:
            rate = rng.gamma(4.0, 2.0)
            x = rng.poisson(rate, size=SHAPE)
            truth = {"rate": rate, "x": x}
        query = INVARIANTS[self.invariants]
        exact = Exact(query, query.apply(x))
        if self.mechanism in STATISTICS:
            share = self._made.release(_share(x), rng=rng)
            return truth, (Release.from_published(TABLE, exact=[exact]), share)
        release = self._made.release(x, rng=rng)
        if self.mechanism in INDEPENDENT:
            release = Release(release.frame, release.measurements, (exact,))
        return truth, release

    def build_model(self, given: Any) -> pm.Model:
        """The model of a release."""
        release = given[0] if self.mechanism in STATISTICS else given
        with pm.Model(coords=release.coords) as model:
            if self.prior == "negative binomial":
                base = pm.NegativeBinomial.dist(mu=8.0, alpha=3.0)
            else:
                base = pm.Poisson.dist(pm.Gamma("rate", 4.0, 0.5))
            x = ConfidentialCounts("x", base, dims=release.dims)
            observe(release, x)
            if self.mechanism in STATISTICS:
                data = pm.Data("share_published", given[1].values)
                law = STATISTICS[self.mechanism][1]
                law("share", _share(x), given[1].law.b, lower=0.0, upper=1.0, observed=data)
        return model

    def update(self, given: Any) -> dict[str, Any]:
        """New numbers of the model of a statistic."""
        exact = np.asarray(given[0].exact[0].values, dtype=np.float64)
        return {"exact_published": exact, "share_published": given[1].values}

    def run(self, n: int, seed: int, path: Path | None = None) -> tuple[Verdict, float, int]:
        """Calibrate it; the verdict, the median of the seconds a simulation took, and how many failed."""
        sampler: dict[str, Any] = (
            {"draws": 400, "tune": 30} if self.prior == "negative binomial" else {"draws": 400, "tune": 200}
        )
        own = int(np.random.SeedSequence([seed, zlib.crc32(self.name.encode())]).generate_state(1)[0])
        update = self.update if self.mechanism in STATISTICS else None
        tree = sbc(
            self.simulate, self.build_model, n=n, seed=own, path=path, update=update, progressbar=False, identity=self.name, **sampler
        )  # fmt: skip
        seconds = float(tree["fits"].to_dataset()["seconds"].median())
        return verdict_of(tree), seconds, int(tree["verdict"].attrs["failed"])


def _share(x: Any) -> Any:
    return x[0, 0] / (1.0 + x.sum())


CASES: tuple[Case, ...] = tuple(
    Case(mechanism, prior, invariants)
    for mechanism in (*KEEPING, *INDEPENDENT, *STATISTICS)
    for prior in PRIORS
    for invariants in INVARIANTS
)
"""All cases."""

COLUMNS = (
    "mechanism", "prior", "invariants", "simulations", "failed", "quantities", "worst_quantity", "ratio_of_errors",
    "p_case", "p_matrix", "seconds", "seed", "versions",
)  # fmt: skip
"""Of the table: p-values are adjusted for the quantities of a case, and then for the cases."""


@dataclass(frozen=True)
class _Task:
    """Runs the case of a number; whole cases run in parallel, so that each is compiled once."""

    cases: tuple[Case, ...]
    n: int
    seed: int
    folder: Path | None

    def __call__(self, number: int) -> dict[str, Any]:
        case = self.cases[number]
        words = "".join(c if c.isalnum() else "-" for c in case.name)
        path = None if self.folder is None else self.folder / f"{words}.jsonl"
        verdict, seconds, failed = case.run(self.n, self.seed, path)
        worst = verdict.worst
        return {
            "number": number,
            "simulations": worst.n,
            "failed": failed,
            "quantities": len(verdict.quantities),
            "worst_quantity": worst.name,
            "ratio_of_errors": next((q.ratio for q in verdict.quantities if q.name == worst.name), float("nan")),
            "p_case": worst.p_adjusted,
            "seconds": seconds,
        }


def run_matrix(
    cases: Sequence[Case] = CASES,
    *,
    n: int = 300,
    seed: int = 1,
    workers: int = 1,
    folder: Path | None = None,
    progressbar: bool = False,
) -> list[dict[str, Any]]:
    """Run cases, and adjust their p-values for their number.

    Parameters
    ----------
    cases : sequence of Case
    n : int
        Simulations of each.
    seed : int
        Of the matrix; each case has a seed of its own from it and its name, so that cases are independent.
    workers : int
        Local processes, each with cases of its own.
    folder : Path, optional
        Of journals, one a case; made if need be. A run that was stopped goes on.
    progressbar : bool

    Returns
    -------
    list of dict
        Rows with the names of `COLUMNS`; a case that could not be run has an ``error`` instead of results.
    """
    chosen = tuple(cases)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    task = _Task(chosen, _validate.positive_integer(n, "n"), _validate.nonnegative_integer(seed, "seed"), folder)
    runner = in_processes(workers) if _validate.positive_integer(workers, "workers") > 1 else serially
    records = runner(task, range(len(chosen)))
    found = sorted(
        followed(records, total=len(chosen), done=0, words="cases", show=progressbar), key=lambda r: int(r["number"])
    )
    good = [record for record in found if "error" not in record]
    for record, p in zip(good, holm([record["p_case"] for record in good]), strict=True):
        record["p_matrix"] = float(p)
    rows = []
    for record in found:
        case = chosen[record.pop("number")]
        names = {"mechanism": case.mechanism, "prior": case.prior, "invariants": case.invariants}
        rows.append({**names, **record, "seed": seed, "versions": _versions()})
    return rows


def _versions() -> str:
    from importlib.metadata import version

    return " ".join(f"{name} {version(name)}" for name in ("bayesdp", "pymc", "numpy"))


def write_table(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write the rows as CSV, atomically.

    Raises
    ------
    ValueError
        If a case has no results.
    """
    listed = list(rows)
    failed = [
        f"{row['mechanism']} | {row['prior']} | {row['invariants']}: {row['error']}" for row in listed if "error" in row
    ]
    if failed:
        raise ValueError(f"{len(failed)} of {len(listed)} cases have no results: {'; '.join(failed)}")
    with replacing(path, overwrite=True) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in listed:
            shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
            writer.writerow(shown)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix from a command line.

    Returns
    -------
    int
        0 if no case is rejected, 1 if one is, 2 if one could not be run.
    """
    parser = argparse.ArgumentParser(prog="python -m bayesdp.calibration.matrix", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="a CSV file")
    parser.add_argument("--n", type=int, default=300, help="simulations of each case (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--folder", type=Path, help="of journals: a run that was stopped goes on")
    parser.add_argument("--only", default="", metavar="WORD", help="cases with this word in their names")
    parser.add_argument("--false-alarm", type=float, default=0.01, help="over the whole matrix (default: 0.01)")
    args = parser.parse_args(arguments)
    cases = [case for case in CASES if args.only in case.name]
    if not cases:
        parser.error(f"no case has {args.only!r} in its name")
    rows = run_matrix(
        cases, n=args.n, seed=args.seed, workers=args.workers, folder=args.folder, progressbar=sys.stderr.isatty()
    )
    for row in rows:
        print(json.dumps({key: value for key, value in row.items() if key != "versions"}))
    if any("error" in row for row in rows):
        return 2
    if args.output is not None:
        write_table(rows, args.output)
    rejected = [row for row in rows if row["p_matrix"] <= args.false_alarm]
    smallest = min(float(row["p_matrix"]) for row in rows)
    print(
        f"{len(rows)} cases, {len(rejected)} rejected at {args.false_alarm:g}; smallest adjusted p-value {smallest:.3g}"
    )
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main())
