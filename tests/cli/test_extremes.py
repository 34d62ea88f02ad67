"""Numbers that nobody means: every numeric option ends in a result, or in one line and status 2, and never in a traceback."""

import time
from pathlib import Path

import pytest

from tests.cli.conftest import RELEASE, failed

EXTREMES = ("0", "-1", "nan", "inf", "1e-320", "1e-18", "1e18", "1e308", "1e400", "9" * 401, "x", "")
SEEDS = ("-1", "0", str(2**130), "9" * 401, "1.5", "x")
NUMBERS = ("0", "-1", "nan", "1e3", str(10**30), "9" * 401, "")
OF_RELEASES = (
    "lattice-laplace --epsilon=", "lattice-gaussian --rho=", "projected-gaussian --mu=", "correlated-gaussian --mu=",
    "extended-gaussian --delta=1e-6 --epsilon=", "projected-laplace --epsilon=", "k-norm --epsilon=",
    "lattice-laplace --epsilon=0.5 --sensitivity=", "projected-gaussian --epsilon=0.5 --delta=",
)  # fmt: skip
LAWS = (
    "discrete-laplace b=", "discrete-gaussian sigma=", "gaussian variance=", "lattice-laplace norm=l1 epsilon=",
    "extended-laplace coordinates=helmert-1 b=", "semi-k-norm adjacency=3 epsilon=", "semi-k-norm epsilon=1 adjacency=",
    "discrete-laplace epsilon=1 sensitivity=", "discrete-gaussian sensitivity=2 rho=", "tulap epsilon=1 sensitivity=1 delta=",
)  # fmt: skip


def ends_well(run, *arguments):
    began = time.monotonic()
    result = run(*arguments)
    told = result.err.strip().splitlines()
    refused = result.status == 2 and len(told) == 1 and "error: " in told[0]
    assert result.status == 0 or refused, (arguments, told[-3:])
    assert "Traceback" not in result.err
    assert time.monotonic() - began < 60.0, arguments  # compiling included


@pytest.mark.parametrize("words", OF_RELEASES)
def test_numbers_of_a_release(run, words):
    mechanism, *options, last = words.split()
    made = "release table.csv --invariant total --force -o out.nc --mechanism".split()
    for value in EXTREMES:
        ends_well(run, *made, mechanism, *options, last + value)


@pytest.mark.parametrize("law", LAWS)
def test_parameters_of_laws(run, law):
    for value in EXTREMES:
        ends_well(run, "import", "noisy.csv", "--law", law + value, "--force", "-o", "out.nc")


def test_numbers_of_a_seed_a_test_a_fit_and_a_calibration_that_do_not_start(run):
    # Before: an OverflowError with a traceback, after noise had been drawn.
    failed(run(*RELEASE[:-1], "1e-18", "-o", "out.nc"), "epsilon must be greater than 2**-46")
    for value in SEEDS:
        ends_well(run, *RELEASE, "--force", "-o", "out.nc", f"--seed={value}")
    Path("table.csv").write_text("sex,adm,count\nm,y,15\nm,n,8\nw,y,20\nw,n,10\n")
    both = "--invariant margins:sex --invariant margins:adm --mechanism lattice-laplace --epsilon=0.5 -o two.nc"
    assert run("release", "table.csv", *both.split()).status == 0
    Path("model.py").write_text("raise SystemExit('the model was run')\n")
    fit = ("fit", "two.nc", "-o", "out.nc", "--quiet", "--cores=1")
    for command, options, values in (
        (("test", "two.nc"), ("level", "null"), EXTREMES),
        (("test", "two.nc"), ("seed",), SEEDS),
        (fit, ("draws", "tune", "chains"), NUMBERS),
        (fit, ("hyper=shape",), ("0", "-1", "nan", "inf", "1e400", "9" * 401, "x")),
        (
            ("calibrate", "model.py", "-o", "out.nc"),
            ("n", "workers", "draws", "tune"),
            ("0", "-1", str(10**30), "9" * 401),
        ),
    ):
        for option in options:
            for value in values:
                ends_well(run, *command, f"--{option}={value}")
