"""What notebook 10 shows, as stored: its verdicts, its coverages, and the simulations of false alarms."""

import csv
import json
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
CELLS = json.loads((FOLDER / "10-real-tables.ipynb").read_text(encoding="utf-8"))["cells"]


def shown(word):
    """Text that the first cell with a word in its source has printed and returned."""
    cell = next(own for own in CELLS if own["cell_type"] == "code" and word in "".join(own["source"]))
    texts = [own.get("text") or own.get("data", {}).get("text/plain", []) for own in cell["outputs"]]
    return "".join(line for own in texts for line in own)


def test_numbers_that_were_left_out_are_held():
    """Within 4 standard errors of the intervals' own probability, or 1 point, as numbers of one table are not independent."""
    for word, rows in (('rows[f"{level:.0%}", "posterior, all"]', 6), ("electorates.predict(nz_left", 3)):
        lines = [own for own in shown(word).splitlines() if "sums of published" not in own]
        found = [own for line in lines for own in re.findall(r"(\d+)\s+([\d.]+)%\s+([\d.]+)%\s+[\d.]+$", line)]
        assert len(found) == rows
        for number, nominal, held in ((int(n), float(p) / 100, float(q) / 100) for n, p, q in found):
            assert abs(held - nominal) < max(4 * (nominal * (1 - nominal) / number) ** 0.5, 0.01)


def test_a_total_with_absent_days_is_beside_the_sum_and_the_truth():
    """That the truth is 7 above the second interval is said in the text."""
    lines = {
        own.rsplit(None, 2)[0].strip(): [int(n) for n in own.split()[-2:]]
        for own in shown("by_day[name]").splitlines()[-4:]
    }
    (low, high), (least, most) = lines["absent: under the threshold"], lines["absent: at most 150"]
    truth, stated = lines["truth"][0], lines["sum of what is published (4 days absent)"][0]
    assert low < high < most
    assert low < least < stated + 150
    assert abs(truth - (low + high) / 2) < 4 * (high - low) / 3.29  # within four standard deviations
    words = "".join("".join(own["source"]) for own in CELLS if own["cell_type"] == "markdown")
    assert ("the truth is above both intervals" in words) == (truth > most)


def test_the_law_is_not_refuted_and_another_one_is():
    words = shown("bdp.check_law(everything)")
    assert "differences that it cannot give" in words
    p = float(words.split("p = ")[1].split(",")[0])
    assert p > 1e-4
    assert "deviations of at most 2: p = 0," in words


def test_false_alarms_are_those_that_are_stored():
    with (FOLDER / "data/law_checks.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = shown("law_checks.csv").splitlines()
    for row in rows:
        line = next(own for own in lines if own.startswith(f"{row['law']}  "))
        assert line.removeprefix(row["law"]).split()[:4] == [row[name] for name in row if name.startswith("p <=")]
