"""Numbers that nobody means: every numeric option ends in a result, or in one line and status 2, and never in a traceback."""

from __future__ import annotations

import time

import pytest

EXTREMES = (
    "0", "-1", "nan", "inf", "-inf", "1e-320", "1e-300", "1e-18", "1e18", "1e308", "1e400", str(10**30), "9" * 401, "x", "",
)  # fmt: skip
SEEDS = ("-1", "0", str(2**64), str(2**130), "9" * 401, "1.5", "x")
LOSS = {
    "lattice-laplace": "epsilon",
    "lattice-gaussian": "rho",
    "projected-gaussian": "mu",
    "extended-gaussian": "epsilon",
    "correlated-gaussian": "mu",
    "projected-laplace": "epsilon",
    "extended-laplace": "epsilon",
    "k-norm": "epsilon",
}
LAWS = (
    "discrete-laplace b=", "discrete-gaussian sigma=", "laplace b=", "gaussian variance=", "lattice-laplace norm=l1 epsilon=",
    "lattice-gaussian sigma=", "projected-gaussian sigma=", "projected-laplace b=", "extended-laplace coordinates=helmert-1 b=",
    "semi-k-norm adjacency=3 epsilon=", "semi-k-norm epsilon=1 adjacency=",
    "discrete-laplace epsilon=1 sensitivity=", "discrete-gaussian sensitivity=2 rho=", "tulap epsilon=1 sensitivity=1 delta=",
)  # fmt: skip


def ends_well(run, *arguments: str) -> None:
    began = time.monotonic()
    result = run(*arguments)
    told = result.err.strip().splitlines()
    assert result.status == 0 or (result.status == 2 and len(told) == 1 and "error: " in told[0]), (
        arguments,
        told[-3:],
    )
    assert "Traceback" not in result.err
    assert time.monotonic() - began < 60.0, arguments  # compiling included


def released(mechanism: str) -> tuple[str, ...]:
    return ("release", "table.csv", "--invariant", "total", "--mechanism", mechanism, "--force", "-o", "out.nc")


@pytest.mark.parametrize("mechanism", LOSS)
def test_losses_of_a_release(run, mechanism):
    option = LOSS[mechanism]
    more = ("--delta=1e-6",) if mechanism == "extended-gaussian" else ()
    for value in EXTREMES:
        ends_well(run, *released(mechanism), f"--{option}={value}", *more)
        ends_well(run, *released(mechanism), f"--{option}={value}", *more, "--seed=1")


def test_other_numbers_of_a_release(run):
    for value in EXTREMES:
        ends_well(run, *released("lattice-laplace"), "--epsilon=0.5", f"--sensitivity={value}")
        ends_well(run, *released("lattice-gaussian"), "--rho=0.5", f"--sensitivity={value}")
        ends_well(run, *released("projected-gaussian"), "--epsilon=0.5", f"--delta={value}")
    for value in SEEDS:
        ends_well(run, *released("lattice-laplace"), "--epsilon=0.5", f"--seed={value}")


def test_so_small_an_epsilon_is_refused_before_noise_is_drawn(run):
    # Before: an OverflowError with a traceback, after noise had been drawn.
    result = run(*released("lattice-laplace"), "--epsilon", "1e-18")
    assert result.status == 2
    assert result.err.count("\n") == 1
    assert "epsilon must be greater than 2**-46" in result.err


@pytest.mark.parametrize("law", LAWS)
def test_parameters_of_laws(run, law):
    for value in EXTREMES:
        ends_well(run, "import", "noisy.csv", "--law", law + value, "--force", "-o", "out.nc")


def test_numbers_of_a_test_and_of_a_fit_that_does_not_start(run, tmp_path):
    (tmp_path / "two.csv").write_text("sex,adm,count\nm,y,15\nm,n,8\nw,y,20\nw,n,10\n")
    made = run(
        "release", "two.csv", "--invariant", "margins:sex", "--invariant", "margins:adm", "--mechanism", "lattice-laplace",
        "--epsilon=0.5", "-o", "two.nc",
    )  # fmt: skip
    assert made.status == 0
    for option in ("level", "null"):
        for value in EXTREMES:
            ends_well(run, "test", "two.nc", f"--{option}={value}")
    for value in SEEDS:
        ends_well(run, "test", "two.nc", f"--seed={value}")
    fit = ("fit", "two.nc", "-o", "out.nc", "--quiet", "--cores=1")
    for option in ("draws", "tune", "chains"):
        for value in ("0", "-1", "nan", "1e3", str(10**30), "9" * 401, ""):
            ends_well(run, *fit, f"--{option}={value}")
    for value in ("0", "-1", "nan", "inf", "1e400", "9" * 401, "x"):
        ends_well(run, *fit, f"--hyper=shape={value}")


@pytest.mark.parametrize("option", ["n", "workers", "draws", "tune"])
def test_a_calibration_without_end_is_not_begun(run, tmp_path, option):
    (tmp_path / "model.py").write_text("raise SystemExit('the model was run')\n")
    for value in ("0", "-1", str(10**30), "9" * 401):
        ends_well(run, "calibrate", "model.py", "-o", "out.nc", f"--{option}={value}")
