"""A small calibration matrix, and that a wrong mechanism in it is found."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp import mechanisms
from bayesdp.noise import law_names
from bayesdp.papers import bounded_statistics, covariance_cone
from benchmarks.calibration.cases import CASES, INVARIANTS, LEARNT, STATISTICS, Case
from benchmarks.calibration.matrix import beside, main, run_matrix
from benchmarks.calibration.table import COLUMNS, markdown_table, write_table

SMALL = [
    Case("lattice Laplace, l1", "negative binomial", "both margins"),
    Case("projected Gaussian", "negative binomial", "total"),
    Case("discrete Laplace", "negative binomial", "both margins"),
    Case("truncated Laplace", "negative binomial", "total"),
]


def test_every_noise_law_of_the_library_is_in_the_matrix():
    made = [case._made for case in CASES if case.mechanism not in STATISTICS]
    laws = {mechanism.law.name for mechanism in made}
    in_statistics = {"truncated-laplace", "boundary-inflated-laplace"}
    in_statistics |= {"truncated-gaussian", "boundary-inflated-gaussian"}
    assert in_statistics <= {mechanism.law.name for _, mechanism in STATISTICS.values()}
    # No mechanism draws these two, whose posteriors are listed (tests/inference/test_laws.py), nor canonical noise of any
    # function, which needs one free direction (tests/mechanisms/test_canonical.py).
    # The law of rescaled shares needs a public number of records: its posteriors are listed, too
    # (tests/papers/test_proportions_as_releases.py).
    elsewhere = {"laplace", "gaussian", "canonical", "rescaled-laplace"}
    # Rounding without chance, and tables of probabilities in general: posteriors by enumeration (tests/noise/perturbed).
    elsewhere |= {"conventional-rounding", "transition-table"}
    # Counts within bounds: no mechanism draws them, and posteriors are listed (tests/inference/test_laws.py).
    elsewhere |= {f"boundary-inflated-discrete-{own}" for own in ("laplace", "gaussian")} | {
        "truncated-discrete-laplace"
    }
    assert set(law_names().split(", ")) - laws - in_statistics == elsewhere
    assert len(CASES) == len({case.name for case in CASES})
    assert len(CASES) - len(LEARNT) == 4 * len({case.mechanism for case in CASES} - set(LEARNT))


def test_mechanisms_of_the_matrix_are_all_that_are_exported():
    used = {type(case._made).__name__ for case in CASES}
    known = {
        name
        for module in (mechanisms, bounded_statistics, covariance_cone)
        for name in module.__all__
        if isinstance(getattr(module, name), type) and hasattr(getattr(module, name), "release")
    }
    abstract = {"AdditiveMechanism", "Mechanism", "StatisticMechanism", "SemiProjectedMechanism", "ProportionMechanism"}
    # These publish statistics by rules, not a table: their posteriors are tested against enumeration and quadrature.
    rules = {"AllButOne", "CovarianceMatrix", "MultipleSynthesis", "RescaledProportions", "UniversalHistogram"}
    one_direction = {"SemiCanonical"}
    choices = {"PublishedChoice"}  # it releases what the mechanism drawn does
    assert known - used == (abstract & known) | rules | one_direction | choices


def test_new_cases_beside_a_stored_table(tmp_path):
    stored = [
        {
            "mechanism": c.mechanism,
            "prior": c.prior,
            "invariants": c.invariants,
            "p_case": 0.5,
            "p_matrix": 0.9,
            "seed": 1,
        }
        for c in CASES[:-1]
    ]
    path = tmp_path / "stored.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(stored[0]))
        writer.writeheader()
        writer.writerows(stored)
    last = CASES[-1]
    new = {"mechanism": last.mechanism, "prior": last.prior, "invariants": last.invariants, "p_case": 1e-4, "seed": 1}
    whole = beside([new], path)
    assert len(whole) == len(CASES)
    # Holm: the smallest of m p-values is multiplied by m; the others are 1.
    assert whole[-1]["p_matrix"] == pytest.approx(1e-4 * len(CASES))
    assert {row["p_matrix"] for row in whole[:-1]} == {1.0}
    with pytest.raises(ValueError, match="in neither: "):
        beside([], path)
    with pytest.raises(ValueError, match="seed must be that of the stored table: there are 1, 2"):
        beside([{**new, "seed": 2}], path)


def test_the_markdown_table_has_a_row_for_each_mechanism(tmp_path):
    rows = [
        {
            "mechanism": case.mechanism,
            "prior": case.prior,
            "invariants": case.invariants,
            "simulations": 300,
            "failed": 0,
            "p_case": 0.25,
            "p_matrix": 0.5,
            "seed": 1,
            "versions": "bayesdp 0",
        }
        for case in CASES
    ]
    blank = {name: "" for name in COLUMNS}
    write_table([blank | row for row in rows], tmp_path / "matrix.csv")
    text = markdown_table(tmp_path / "matrix.csv")
    lines = text.splitlines()
    assert len(lines) == 2 + len({case.mechanism for case in CASES}) + 2
    assert lines[2] == "| lattice Laplace, l1 | 0.25 | 0.25 | 0.25 | 0.25 |"
    assert lines[-1].startswith(
        f"{len(CASES)} cases, {300 * len(CASES):,} simulations, 0 failed fits; smallest p-value adjusted for the cases too: 0.5."
    )


STORED = Path(__file__).parents[2] / "notebooks" / "data" / "calibration_matrix.csv"


def test_the_stored_matrix_is_whole_and_is_what_the_page_shows():
    with STORED.open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["mechanism"], r["prior"], r["invariants"]) for r in rows] == [
        (c.mechanism, c.prior, c.invariants) for c in CASES
    ]
    assert min(int(row["simulations"]) for row in rows) >= 300
    assert {row["failed"] for row in rows} == {"0"}
    assert min(float(row["p_matrix"]) for row in rows) > 0.01
    assert markdown_table(STORED) in (STORED.parents[2] / "docs/explanations/calibration-table.md").read_text()


@pytest.mark.system
def test_right_mechanisms_pass_and_the_table_says_so(tmp_path):
    rows = run_matrix(SMALL, n=16, seed=2, folder=tmp_path / "journals")
    assert [row["mechanism"] for row in rows] == [case.mechanism for case in SMALL]
    assert all(row["failed"] == 0 for row in rows)
    assert min(row["p_matrix"] for row in rows) > 0.01  # false alarm 0.01 for another seed
    assert all(row["p_matrix"] >= row["p_case"] for row in rows)
    assert len(list((tmp_path / "journals").iterdir())) == 4
    write_table(rows, tmp_path / "matrix.csv")
    with (tmp_path / "matrix.csv").open() as file:
        read = list(csv.DictReader(file))
    assert tuple(read[0]) == COLUMNS
    assert [row["simulations"] for row in read] == ["16"] * 4
    assert read[0]["versions"].startswith("bayesdp ")
    again = run_matrix(SMALL, n=16, seed=2, folder=tmp_path / "journals")
    assert again == rows  # from the journals


@dataclass(frozen=True)
class Wrong(Case):
    """A case whose model makes a deliberate error."""

    error: str = ""

    def build_model(self, given):
        own = given.measurements[0]
        if self.error == "renormalised":
            # The prior of the table divided by its sum over the fiber: what the total says of the rate is lost.
            with pm.Model(coords=given.coords) as model:
                pm.Gamma("rate", 4.0, 0.5)
                x = bdp.ConfidentialCounts(
                    "x", pm.Poisson.dist(8.0), dims=given.dims
                )  # given the total, any number will do
                bdp.observe(given, x)
            return model
        return super().build_model(bdp.Release(given.frame, (own,), ()))


@pytest.mark.system
@pytest.mark.parametrize(
    ("error", "prior", "n", "where"),
    [
        ("invariants ignored", "negative binomial", 10, "error of exact answers"),
        pytest.param("renormalised", "Poisson, gamma rate", 30, "rate and table", marks=pytest.mark.slow),
    ],
)
def test_each_deliberate_error_is_found_among_right_cases(error, prior, n, where):
    right = Case("discrete Gaussian", prior, "total")
    rows = run_matrix([right, Wrong("discrete Gaussian", prior, "total", error)], n=n, seed=2)
    assert rows[0]["p_matrix"] > 0.01 >= rows[1]["p_matrix"]
    assert rows[1]["worst_quantity"] == where


def test_a_case_that_cannot_be_run_is_not_left_out(tmp_path):
    odd = Case("lattice Laplace, l1", "negative binomial", "nothing")
    rows = run_matrix([odd], n=2, seed=1)
    assert rows[0]["error"].startswith("KeyError")
    with pytest.raises(ValueError, match=r"1 of 1 cases have no results: lattice Laplace, l1 \| negative binomial"):
        write_table(rows, tmp_path / "matrix.csv")


@pytest.mark.system
def test_the_command(tmp_path, capsys):
    target = tmp_path / "matrix.csv"
    only = "projected Gaussian | negative binomial | total"
    assert main(["--only", only, "--n", "6", "-o", str(target)]) == 0
    assert "1 cases, 0 rejected at 0.01" in capsys.readouterr().out
    assert target.read_text().count("\n") == 2
    with pytest.raises(SystemExit):
        main(["--only", "no such thing"])
    assert set(INVARIANTS) == {"total", "both margins"}
