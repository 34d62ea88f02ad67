"""What notebook 08 says in prose is what its stored cells and the stored counties say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
from scipy import stats

from benchmarks.calibration.counties import COLUMNS, PRIORS
from notebooks.measurement_files import coverage_of_counties

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
CELLS = json.loads((FOLDER / "08-measurement-files.ipynb").read_text(encoding="utf-8"))["cells"]
PROSE = " ".join(" ".join("".join(own["source"]).split()) for own in CELLS if own["cell_type"] == "markdown")
STORED = FOLDER / "data" / "calibration_counties.csv"


def _printed() -> str:
    outputs = [output for own in CELLS for output in own.get("outputs", [])]
    return "\n".join("".join(own.get("text", own.get("data", {}).get("text/plain", ""))) for own in outputs)


def test_every_stored_run_is_judged_converged():
    assert "Converged by the usual limits" in _printed()
    good, of = re.search(r"(\d+) of (\d+) runs are judged converged", _printed()).groups()
    assert good == of == "10"
    assert "NOT converged" not in _printed()


def test_the_shares_of_tracts_that_are_held_are_those_of_the_table():
    lines = _printed().splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["share", "block"])
    tract = next(i for i in range(start, len(lines)) if lines[i].split()[:2] == ["tract", "posterior"])
    rows = lines[tract].split()[2:4] + lines[tract + 1].split()[1:3]
    assert lines[tract + 1].split()[0] == "GLS"
    number, posterior, of_gls, gls = (float(own) for own in rows)
    assert number == of_gls
    held = round(number * posterior)
    assert f"held {held} of {number:.0f}**" in PROSE
    assert f"those of GLS, from the same measurements, held {round(number * gls)}" in PROSE
    assert f"with a probability of {stats.binom.cdf(held, number, 0.95):.1%}".replace("%", " %") in PROSE


def test_the_coverage_over_counties_is_that_of_the_file():
    """And within three standard errors of what is promised, as the prose says."""
    table = pd.read_csv(STORED)
    assert tuple(table) == COLUMNS
    assert set(table["prior"]) <= set(PRIORS)
    assert not table.duplicated(["prior", "county", "level", "quantity", "method"]).any()
    found = coverage_of_counties(table).loc["share", "tract", "posterior"]
    said = f"In {table['county'].nunique()} other counties the posterior held {found['held']:.0f} of {found['numbers']:.0f}"
    assert said in PROSE
    assert f"{found['coverage']:.1%} with a standard error of {found['standard error']:.1%}".replace("%", " %") in PROSE
    assert abs(found["coverage"] - 0.95) < 3 * found["standard error"]


def test_coverage_has_the_standard_error_of_counties():
    """Two counties that hold 1 of 2 and 4 of 4: 5 of 6, and residuals of -2/3 and 2/3, by hand."""
    rows = [("vs", i, "tract", "share", "GLS", n, held, 0.25 * n) for i, (n, held) in enumerate([(2, 1), (4, 4)])]
    found = coverage_of_counties(pd.DataFrame(rows, columns=list(COLUMNS))).loc["share", "tract", "GLS"]
    expected = (2 * (8 / 9)) ** 0.5 / 6
    assert abs(found["coverage"] - 5 / 6) < 1e-12
    assert abs(found["standard error"] - expected) < 1e-12
    assert abs(found["root mean square error"] - 0.5) < 1e-12
