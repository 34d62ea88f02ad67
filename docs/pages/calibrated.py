"""What `make calibration` found for a mechanism, from the stored table."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from benchmarks.calibration.cases import INDEPENDENT, INVARIANTS, KEEPING, PERTURBED, STATISTICS
from benchmarks.calibration.table import markdown_table

__all__ = ["STORED", "cases", "front_table", "rows"]

STORED = Path(__file__).resolve().parents[2] / "notebooks/data/calibration_matrix.csv"


@cache
def cases() -> dict[str, object]:
    """Every case of the table by its name, with the mechanism that it releases with."""
    made = {name: make(INVARIANTS["total"]) for name, make in (KEEPING | INDEPENDENT).items()}
    return made | {name: mechanism for name, (_, mechanism) in STATISTICS.items()}


@cache
def _stored() -> tuple[dict[str, str], ...]:
    with STORED.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def rows(kinds: frozenset[type], law: type | None = None) -> str:
    """The rows of some mechanisms, and of a law that no mechanism here draws, as reStructuredText; empty if there are none."""
    names = [name for name, made in cases().items() if type(made) in kinds]
    names += [name for name, own in PERTURBED.items() if type(own) is law]
    own = [row for row in _stored() if row["mechanism"] in names]
    if not own:
        return ""
    text = ".. list-table::\n   :header-rows: 1\n\n   * - case\n     - prior\n     - exact\n     - simulations\n     - smallest p\n"
    for row in own:
        listed = (row["mechanism"], row["prior"], row["invariants"], row["simulations"], row["p_case"])
        text += "".join(f"   {'*' if i == 0 else ' '} - {value}\n" for i, value in enumerate(listed))
    return text + "\n"


def front_table() -> str:
    """The whole table, as Markdown."""
    return markdown_table(STORED)
