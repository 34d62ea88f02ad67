"""The table of the calibration matrix: a CSV file with seed and versions, and what the page on calibration shows of it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bayesdp
from bayesdp.storage import write_text

__all__ = ["COLUMNS", "markdown_table", "versions", "write_table"]

COLUMNS = (
    "mechanism", "prior", "invariants", "simulations", "failed", "quantities", "worst_quantity", "ratio_of_errors",
    "p_case", "p_matrix", "held_50", "held_95", "seconds", "seed", "versions",
)  # fmt: skip
"""Of the table: p-values are adjusted for the quantities of a case, and then for the cases; ``held`` are shares of cells within the
middle of their posteriors, which older tables do not have."""


def versions() -> str:
    """Versions of what the results depend on."""
    return f"bayesdp {bayesdp.__version__} pymc {version('pymc')} numpy {version('numpy')}"


def write_table(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write the rows as CSV, atomically.

    Raises
    ------
    ValueError
        If a case has no results.
    OSError
        If the file cannot be written; what was there is there still.
    """
    listed = list(rows)
    failed = [
        f"{row['mechanism']} | {row['prior']} | {row['invariants']}: {row['error']}" for row in listed if "error" in row
    ]
    if failed:
        raise ValueError(f"{len(failed)} of {len(listed)} cases have no results: {'; '.join(failed)}")
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in listed:
        writer.writerow({key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()})
    write_text(path, text.getvalue(), overwrite=True)


def markdown_table(path: Path) -> str:
    """A row for each mechanism, with coverage, and the p-value of each prior and set of invariants, adjusted for a case's quantities.

    Parameters
    ----------
    path : Path
        What `write_table` has written.

    Returns
    -------
    str
        Coverage first, if all rows have it; a note at the smallest p-value; a last line that gives numbers, seed and versions.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = list(dict.fromkeys((row["prior"], row["invariants"]) for row in rows))
    least = min(float(row["p_case"]) for row in rows)

    def table(shown: Callable[[dict[str, str]], str]) -> list[str]:
        found: dict[str, dict[tuple[str, str], str]] = {}
        for row in rows:
            found.setdefault(row["mechanism"], {})[row["prior"], row["invariants"]] = shown(row)
        return [
            "| mechanism | " + " | ".join(f"{prior}; {invariants}" for prior, invariants in columns) + " |",
            "|---|" + "---:|" * len(columns),
            *(f"| {name} | " + " | ".join(p.get(c, "") for c in columns) + " |" for name, p in found.items()),
        ]

    def p_value(row: dict[str, str]) -> str:
        p = float(row["p_case"])
        return f"**{p:.2g}** ¹" if p == least else f"{p:.2g}"

    lines = []
    if all(row.get("held_95") for row in rows):
        lines = [
            "Cells within the 95 % (and the 50 %) in the middle of their posteriors, in percent of all simulations:",
            "",
            *table(lambda row: f"{100 * float(row['held_95']):.1f} ({100 * float(row['held_50']):.0f})"),
            "",
            "P-values:",
            "",
        ]
    lines += table(p_value)
    simulations, failed = (sum(int(row[name]) for row in rows) for name in ("simulations", "failed"))
    smallest = min(float(row["p_matrix"]) for row in rows)
    middle, chance = -math.expm1(math.log(0.5) / len(rows)), -math.expm1(len(rows) * math.log1p(-least))
    lines += [
        "",
        f"¹ The smallest of {len(rows)}. Of so many p-values of right posteriors the smallest is below {middle:.2g} in every second "
        f"table, and {least:.2g} or less in {chance:.0%} of all tables; at most, as a case's number is adjusted for its quantities.",
        "",
        f"{len(rows)} cases, {simulations:,} simulations, {failed} failed fits; smallest p-value adjusted for the cases "
        f"too: {smallest:.2g}. Seed {rows[0]['seed']}; {rows[0]['versions']}.",
    ]
    return "\n".join(lines) + "\n"
