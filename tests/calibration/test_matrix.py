"""A small calibration matrix, and that a wrong mechanism in it is found."""

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesdp as bdp
from bayesdp.noise import law_names
from benchmarks.calibration.cases import CASES, LEARNT, STATISTICS, Case
from benchmarks.calibration.matrix import main, run_matrix
from benchmarks.calibration.table import COLUMNS, markdown_table, write_table

SMALL = [
    Case(mechanism, "negative binomial", invariants)
    for mechanism, invariants in (
        ("lattice Laplace, l1", "both margins"),
        ("projected Gaussian", "total"),
        ("discrete Laplace", "both margins"),
        ("truncated Laplace", "total"),
    )
]


def test_every_noise_law_is_in_the_matrix_and_the_stored_one_is_whole_and_what_the_page_shows():
    laws = {case._made.law.name for case in CASES if case.mechanism not in STATISTICS}
    in_statistics = {f"{own}-{law}" for own in ("truncated", "boundary-inflated") for law in ("laplace", "gaussian")}
    assert in_statistics <= {mechanism.law.name for _, mechanism in STATISTICS.values()}
    # No mechanism draws these two, nor counts within bounds: their posteriors are listed (tests/inference/test_laws.py). Canonical
    # noise of any function needs one free direction (tests/mechanisms/test_canonical.py), and the law of rescaled shares a public
    # number of records (tests/papers/test_proportions_as_releases.py).
    elsewhere = {"laplace", "gaussian", "canonical", "rescaled-laplace", "truncated-discrete-laplace"}
    elsewhere |= {"boundary-inflated-discrete-laplace", "boundary-inflated-discrete-gaussian"}
    # Rounding without chance, and tables of probabilities in general: posteriors by enumeration (tests/noise/perturbed).
    elsewhere |= {"conventional-rounding", "transition-table"}
    assert set(law_names().split(", ")) - laws - in_statistics == elsewhere
    assert len(CASES) == len({case.name for case in CASES})
    assert len(CASES) - len(LEARNT) == 4 * len({case.mechanism for case in CASES} - set(LEARNT))
    with STORED.open() as file:
        rows = list(csv.DictReader(file))
    found = [(row["mechanism"], row["prior"], row["invariants"]) for row in rows]
    assert found == [(case.mechanism, case.prior, case.invariants) for case in CASES]
    assert min(int(row["simulations"]) for row in rows) >= 300
    assert {row["failed"] for row in rows} == {"0"}
    assert min(float(row["p_matrix"]) for row in rows) > 0.01
    assert markdown_table(STORED) in (STORED.parents[2] / "docs/explanations/calibration-table.md").read_text()


def test_the_smallest_p_value_has_a_note_that_says_what_to_expect_of_it(tmp_path):
    words = {
        "mechanism": "m",
        "prior": "p",
        "simulations": 300,
        "failed": 0,
        "p_matrix": 0.03,
        "seed": 1,
        "versions": "v",
    }
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(
            {**words, "invariants": name, "p_case": p} for name, p in (("a", 0.5), ("b", 0.01), ("c", 1.0))
        )
    text = markdown_table(tmp_path / "t.csv")
    assert "| m | 0.5 | **0.01** ¹ | 1 |" in text
    assert "in percent" not in text  # coverage is shown where all rows have it
    rows = pd.read_csv(tmp_path / "t.csv").assign(held_50=[0.5, 0.49, 0.52], held_95=[0.951, 0.94, 0.9])
    rows.to_csv(tmp_path / "t.csv", index=False)
    assert "| m | 95.1 (50) | 94.0 (49) | 90.0 (52) |" in markdown_table(tmp_path / "t.csv")
    smallest = np.random.default_rng(1).random((100_000, 3)).min(axis=1)  # of right posteriors
    middle, chance = (
        float(re.search(r"is below ([0-9.]+) in every second", text)[1]),
        re.search(r"in ([0-9]+)% of all", text)[1],
    )
    assert abs(np.mean(smallest < middle) - 0.5) < 0.01  # six standard errors, and the rounding to two digits
    assert abs(np.mean(smallest <= 0.01) - int(chance) / 100) < 0.008


STORED = Path(__file__).parents[2] / "notebooks" / "data" / "calibration_matrix.csv"


@pytest.mark.system
def test_right_mechanisms_pass_and_the_table_says_so(tmp_path, capsys):
    rows = run_matrix(SMALL, n=16, seed=2, folder=tmp_path / "journals")
    assert [row["mechanism"] for row in rows] == [case.mechanism for case in SMALL]
    assert all(row["failed"] == 0 for row in rows)
    # Cells of 4 x 16 tables: a few standard errors, about .08 and .04 with the dependence of the cells of a table.
    assert abs(np.mean([row["held_50"] for row in rows]) - 0.5) < 0.25
    assert np.mean([row["held_95"] for row in rows]) > 0.8
    assert min(row["p_matrix"] for row in rows) > 0.01  # false alarm 0.01 for another seed
    assert all(row["p_matrix"] >= row["p_case"] for row in rows)
    assert run_matrix(SMALL, n=16, seed=2, folder=tmp_path / "journals") == rows  # from the journals
    write_table(rows, tmp_path / "matrix.csv")
    read = pd.read_csv(tmp_path / "matrix.csv")
    assert (tuple(read), read["simulations"].tolist()) == (COLUMNS, [16] * 4)
    target, only = tmp_path / "one.csv", "projected Gaussian | negative binomial | total"
    assert main(["--only", only, "--n", "6", "-o", str(target)]) == 0
    assert "1 cases, 0 rejected at 0.01" in capsys.readouterr().out
    assert target.read_text().count("\n") == 2
    with pytest.raises(SystemExit):
        main(["--only", "no such thing"])


class Wrong(Case):
    def build_model(self, given):
        return super().build_model(bdp.Release(given.frame, given.measurements[:1], ()))


@pytest.mark.system
def test_a_deliberate_error_is_found_among_right_cases():
    own = ("discrete Gaussian", "negative binomial", "total")
    rows = run_matrix([Case(*own), Wrong(*own)], n=10, seed=2)
    assert rows[0]["p_matrix"] > 0.01 >= rows[1]["p_matrix"]
    assert rows[1]["worst_quantity"] == "error of exact answers"
