"""The calibration matrix: every mechanism of the library against two priors and two sets of invariants.

``python -m benchmarks.calibration.matrix -o matrix.csv`` runs all cases (``make calibration``), each with a journal of its
own, so that a run that was stopped goes on; ``--only WORD`` and ``--n`` make it smaller, and ``--beside CSV`` puts the cases of a
stored table beside them. A case's p-value is the smallest of
its quantities, adjusted for their number; over the cases it is adjusted again (Holm), so that the chance of any false alarm
in the whole matrix is held.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesdp import _validate
from bayesdp.calibration.runs import followed, in_processes, serially
from bayesdp.calibration.verdict import holm
from benchmarks.calibration.cases import CASES, Case
from benchmarks.calibration.table import markdown_table, versions, write_table

__all__ = ["beside", "main", "run_matrix"]


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
        verdict, seconds, failed, held = case.run(self.n, self.seed, path)
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
            **held,
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
        rows.append({**names, **record, "seed": seed, "versions": versions()})
    return rows


def beside(rows: Sequence[dict[str, Any]], stored: Path) -> list[dict[str, Any]]:
    """The cases of a stored table with these in the place of theirs, in the order of `CASES`; p-values adjusted for all of them.

    Cases have seeds of their own, so that it makes no difference whether they were run together.

    Raises
    ------
    ValueError
        If the seed of the matrix is another one, or a case of the library is in neither.
    """
    with stored.open(encoding="utf-8", newline="") as file:
        read: list[dict[str, Any]] = list(csv.DictReader(file))
    found = {_name(row): row for row in (*read, *rows)}
    seeds = {str(row["seed"]) for row in found.values()}
    if len(seeds) > 1:
        raise ValueError(f"seed must be that of the stored table: there are {', '.join(sorted(seeds))}")
    missing = [case.name for case in CASES if case.name not in found]
    if missing:
        raise ValueError(f"cases that are in neither: {_validate.shown(missing)}")
    whole = [found[case.name] for case in CASES]
    adjusted = holm([float(row["p_case"]) for row in whole])
    return [{**row, "p_matrix": float(p)} for row, p in zip(whole, adjusted, strict=True)]


def _name(row: dict[str, Any]) -> str:
    return f"{row['mechanism']} | {row['prior']} | {row['invariants']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix from a command line.

    Returns
    -------
    int
        0 if no case is rejected, 1 if one is, 2 if one could not be run.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.matrix", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="a CSV file")
    parser.add_argument("--n", type=int, default=300, help="simulations of each case (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--folder", type=Path, help="of journals: a run that was stopped goes on")
    parser.add_argument("--only", default="", metavar="WORD", help="cases with this word in their names")
    parser.add_argument("--beside", type=Path, metavar="CSV", help="a stored table, whose other cases are kept")
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
    if args.beside is not None:
        rows = beside(rows, args.beside)
    if args.output is not None:
        try:
            write_table(rows, args.output)
        except OSError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        print(markdown_table(args.output))
    rejected = [row for row in rows if row["p_matrix"] <= args.false_alarm]
    smallest = min(float(row["p_matrix"]) for row in rows)
    print(
        f"{len(rows)} cases, {len(rejected)} rejected at {args.false_alarm:g}; smallest adjusted p-value {smallest:.3g}"
    )
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main())
