"""What notebooks 08, 09 and 10 show, as stored: verdicts, coverages, false alarms, and that the prose says the same."""

import csv
import json
import re
from pathlib import Path

import pandas as pd
from scipy import stats

from benchmarks.calibration.counties import COLUMNS, PRIORS
from notebooks.measurement_files import coverage_of_counties

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"


def cells(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]


def printed(*cells):
    outputs = [output for own in cells for output in own.get("outputs", [])]
    return "\n".join("".join(own.get("text", own.get("data", {}).get("text/plain", ""))) for own in outputs)


def prose(cells):
    return " ".join(" ".join("".join(own["source"]).split()) for own in cells if own["cell_type"] == "markdown")


COUNTIES, PERTURBED, REAL = map(
    cells, ("08-measurement-files.ipynb", "09-perturbed-tables.ipynb", "10-real-tables.ipynb")
)
PRINTED, PROSE = printed(*COUNTIES), prose(COUNTIES)


def test_the_first_tutorial_imports_three_names():
    code = ["".join(own["source"]) for own in cells("01-first-posterior.ipynb") if own["cell_type"] == "code"]
    imports = [re.findall(r"^\s*(?:import|from) .*", own, re.MULTILINE) for own in code]
    names = [re.sub(" +#.*", "", line).strip() for line in imports[0]]
    assert names == ["import first_posterior", "import pymc as pm", "import bayesdp as bdp"]
    assert not any(imports[1:])


def shown(word):
    """What the first cell of notebook 10 with a word in its source has printed."""
    return printed(next(own for own in REAL if own["cell_type"] == "code" and word in "".join(own["source"])))


def percent(number):
    return f"{number:.1%}".replace("%", " %")


def test_every_stored_run_is_judged_converged_and_the_shares_of_tracts_that_are_held_are_those_of_the_table():
    assert "Converged by the usual limits" in PRINTED
    assert re.search(r"(\d+) of (\d+) runs are judged converged", PRINTED).groups() == ("10", "10")
    assert "NOT converged" not in PRINTED
    table = PRINTED[re.search(r"^ *share +block ", PRINTED, re.MULTILINE).start() :]
    found = re.search(r"^ *tract +posterior +(\S+) +(\S+).*\n *GLS +(\S+) +(\S+)", table, re.MULTILINE)
    number, posterior, of_gls, gls = map(float, found.groups())
    assert number == of_gls
    held = round(number * posterior)
    assert f"held {held} of {number:.0f}**" in PROSE
    assert f"those of GLS, from the same measurements, held {round(number * gls)}" in PROSE
    assert f"with a probability of {percent(stats.binom.cdf(held, number, 0.95))}" in PROSE


def test_the_coverage_over_counties_is_that_of_the_file():
    """And within three standard errors of what is promised, as the prose says."""
    table = pd.read_csv(FOLDER / "data/calibration_counties.csv")
    assert tuple(table) == COLUMNS
    assert set(table["prior"]) <= set(PRIORS)
    assert not table.duplicated(["prior", "county", "level", "quantity", "method"]).any()
    found = coverage_of_counties(table).loc["share", "tract", "posterior"]
    said = f"In {table['county'].nunique()} other counties the posterior held {found['held']:.0f} of {found['numbers']:.0f}"
    assert said in PROSE
    assert f"{percent(found['coverage'])} with a standard error of {percent(found['standard error'])}" in PROSE
    assert abs(found["coverage"] - 0.95) < 3 * found["standard error"]


def test_the_stored_intervals_hold_what_they_promise():
    """Five laws, five quantities: each at least 90 % but for three standard errors, which of 25 one may miss by chance."""
    found, told = [], printed(*PERTURBED)
    for part in told.split("coverage, ")[1:]:
        found += re.findall(r"^[a-z][a-z ]+?\s+([\d.]+) \(([\d.]+)\)", part.split("mean width, ")[0], re.MULTILINE)
    assert len(found) == 25
    assert sum(float(coverage) < 0.9 - 3 * max(float(error), 0.01) for coverage, error in found) <= 1
    assert "PyMC" in told
    assert "quick run" not in told


def test_numbers_that_were_left_out_are_held():
    """Within 4 standard errors of the intervals' own probability, or 1 point, as numbers of one table are not independent."""
    for word, rows in (('rows[f"{level:.0%}", "posterior, all"]', 6), ("electorates.predict(nz_left", 3)):
        lines = [own for own in shown(word).splitlines() if "sums of published" not in own]
        found = [own for line in lines for own in re.findall(r"(\d+)\s+([\d.]+)%\s+([\d.]+)%\s+[\d.]+$", line)]
        assert len(found) == rows
        for number, nominal, held in ((int(n), float(p) / 100, float(q) / 100) for n, p, q in found):
            assert abs(held - nominal) < max(4 * (nominal * (1 - nominal) / number) ** 0.5, 0.01)


def test_a_total_with_absent_days_is_beside_the_sum_and_the_truth():
    rows = shown("by_day[name]").splitlines()[-4:]
    lines = {own.rsplit(None, 2)[0].strip(): [int(n) for n in own.split()[-2:]] for own in rows}
    (low, high), (least, most) = lines["absent: under the threshold"], lines["absent: at most 150"]
    truth, stated = lines["truth"][0], lines["sum of what is published (4 days absent)"][0]
    assert low < high < most
    assert low < least < stated + 150
    assert abs(truth - (low + high) / 2) < 4 * (high - low) / 3.29  # within four standard deviations
    assert ("the truth is above both intervals" in prose(REAL)) == (truth > most)


def test_the_law_is_not_refuted_and_another_one_is_and_false_alarms_are_those_that_are_stored():
    words = shown("bdp.check_law(everything)")
    assert "differences that it cannot give" in words
    p = float(words.split("p = ")[1].split(",")[0])
    assert p > 1e-4
    assert "deviations of at most 2: p = 0," in words
    with (FOLDER / "data/law_checks.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = shown("law_checks.csv").splitlines()
    for row in rows:
        line = next(own for own in lines if own.startswith(f"{row['law']}  "))
        assert line.removeprefix(row["law"]).split()[:4] == [row[name] for name in row if name.startswith("p <=")]
