"""The calibration of hierarchies: what is stored, that a run goes on, and that wrong noise is found."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from benchmarks.calibration.hierarchy import COLUMNS, FRAME, PRIORS, Simulation, main, run_prior

STORED = Path(__file__).parents[2] / "notebooks" / "data" / "calibration_hierarchy.csv"


def test_the_stored_results_have_200_simulations_and_no_rejection():
    with STORED.open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert {row["prior"] for row in rows} == set(PRIORS)
    assert min(int(row["simulations"]) for row in rows) >= 200
    assert min(float(row["p_adjusted"]) for row in rows) > 0.01
    for prior in PRIORS:
        names = {row["quantity"].split("[")[0] for row in rows if row["prior"] == prior}
        assert {"cells", "tract", "county x race", "age x race", "log-likelihood", *PRIORS[prior].names} <= names


def test_a_simulation_keeps_the_total_and_has_noise_as_stated():
    """One draw of each prior: the total is that of the table, and squared errors are those of the law (six standard deviations)."""
    for prior in PRIORS:
        hyper, table, release = Simulation(prior, 1).draw(np.random.default_rng(5))
        assert set(hyper) == set(PRIORS[prior].names)
        assert table.shape == FRAME.shape
        assert int(release.exact[0].values) == table.sum() > 0
        squares = np.concatenate(
            [
                np.square((own.values - own.query.apply(table)) / own.law.sigma).reshape(-1)
                for own in release.measurements
            ]
        )
        assert abs(squares.sum() - squares.size) < 6 * np.sqrt(2 * squares.size)


def test_a_run_goes_on_and_noise_that_is_understated_is_found(tmp_path):
    right, _ = run_prior("varying shares", n=6, seed=2, folder=tmp_path, draws=120, tune=60)
    assert right.calibrated  # false alarm 0.01
    lines = next(tmp_path.iterdir()).read_text().splitlines()
    assert len(lines) == 7
    wrong, numbers = run_prior("varying shares", n=10, seed=2, draws=120, tune=60, wrong=0.3)
    assert numbers["failed"] == 0
    assert not wrong.calibrated
    again, _ = run_prior("varying shares", n=6, seed=2, folder=tmp_path, draws=120, tune=60)
    assert [q.p_ranks for q in again.quantities] == [q.p_ranks for q in right.quantities]


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.calibration.hierarchy.Simulation", _short)
    target = tmp_path / "hierarchy.csv"
    assert main(["--only", "area", "--n", "6", "-o", str(target)]) == 0
    assert "area and cell: No sign of miscalibration" in capsys.readouterr().out
    with target.open() as file:
        assert {row["simulations"] for row in csv.DictReader(file)} == {"6"}


def _short(prior, seed, **settings):
    return Simulation(prior, seed, draws=120, tune=60, **settings)


def test_make_calibration_runs_every_prior_and_writes_what_is_stored():
    """As many simulations as the default says, 200: the stored rows are what the target makes."""
    rules = STORED.parents[2].joinpath("Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    command = next(line.split() for line in rules.splitlines() if "benchmarks.calibration.hierarchy" in line)
    assert command[command.index("--output") + 1] == "notebooks/data/calibration_hierarchy.csv"
    assert not {"--only", "--n"} & set(command)


def test_notebook_08_shows_what_is_stored():
    """A line for each prior with its simulations and quantities, in the stored output."""
    with STORED.open() as file:
        rows = list(csv.DictReader(file))
    notebook = json.loads((STORED.parents[1] / "08-measurement-files.ipynb").read_text(encoding="utf-8"))
    cell = next(own for own in notebook["cells"] if STORED.name in "".join(own["source"]) and own.get("outputs"))
    lines = [line.split() for line in cell["outputs"][0]["data"]["text/plain"]]
    for prior in PRIORS:
        own = [row for row in rows if row["prior"] == prior]
        smallest = min(float(row["p_adjusted"]) for row in own)
        shown = next(line for line in lines if line[: len(line) - 3] == prior.split())
        assert [float(number) for number in shown[-3:]] == [int(own[0]["simulations"]), len(own), smallest]
