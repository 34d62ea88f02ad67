"""What notebook 10 shows, as stored: its verdicts, its coverages, and the simulations of false alarms."""

from __future__ import annotations

import csv
import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
CELLS = json.loads((FOLDER / "10-real-tables.ipynb").read_text(encoding="utf-8"))["cells"]


def shown(word):
    """Text that the first cell with a word in its source has printed and returned."""
    cell = next(own for own in CELLS if own["cell_type"] == "code" and word in "".join(own["source"]))
    texts = [own.get("text") or own.get("data", {}).get("text/plain", []) for own in cell["outputs"]]
    return "".join(line for own in texts for line in own)


def test_numbers_that_were_left_out_are_held():
    for word in ('rows[f"{level:.0%}", "posterior, all"]', "electorates.predict(nz_left"):
        for line in shown(word).splitlines():
            if "%" not in line.split()[-2:][0] and line.split()[0] in ("50%", "90%", "95%"):
                number, nominal, held, _ = line.split()[-4:]
                nominal, held = (float(own.rstrip("%")) / 100 for own in (nominal, held))
                spread = (nominal * (1 - nominal) / int(number)) ** 0.5
                assert abs(held - nominal) < max(6 * spread, 0.02), line  # numbers of one table are not independent


def test_a_total_with_absent_days_holds_the_truth():
    lines = {
        line.rsplit(None, 2)[0]: [int(own) for own in line.split()[-2:]]
        for line in shown("by_day[name]").splitlines()[-4:]
    }
    low, high = lines["absent: under the threshold"]
    truth = lines["truth"][0]
    assert low <= truth <= high
    assert any(name.startswith("sum of what is published (4 days absent)") for name in lines)


def test_the_law_is_not_refuted_and_another_one_is():
    words = shown("bdp.check_law(everything)")
    assert "differences that it cannot give" in words
    p = float(words.split("p = ")[1].split(",")[0])
    assert p > 1e-4
    assert "deviations of at most 2: p = 0," in words


def test_summed_totals_are_told_of():
    words = shown("totals that are sums of cells")
    assert words.count("no measurements of their own") == 1
    assert "None" in words


def test_false_alarms_are_those_that_are_stored():
    with (FOLDER / "data/law_checks.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = shown("law_checks.csv").splitlines()
    for row in rows:
        line = next(own for own in lines if own.startswith(row["law"]))
        assert line.split()[-5:-1] == [row[name] for name in row if name.startswith("p <=")]
