"""Signals at every place of a run: what is there afterwards is complete, what is said is true, and no process is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

from bayesdp.cli.files import read_posterior, read_release
from tests.cli.conftest import MARGINS, NOISY, TABLE
from tests.cli.kills import PLACES, Ended, Job
from tests.cli.test_calibrate import MODEL

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc"),
    pytest.mark.system,
]

IMPORT = ["import", "noisy.csv", "--exact", "margins.csv", "--law", "discrete-gaussian sigma=5", "-o"]
SIZES = ["--chains", "2", "--draws", "200", "--tune", "50", "--seed", "1", "--quiet"]
FIT = ["fit", "release.nc", *SIZES, "-o"]
RELEASE = ["release", "table.csv", "--invariant", "margins:county", "--mechanism", "lattice-laplace", "--epsilon", "1"]
REPORT = ["report", "posterior.nc", "-o"]
RIGHT = MODEL.replace("EPSILON", "1.0")
INTERRUPTS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}

FIT_PLACES = list(PLACES)[:9]
KEPT = FIT_PLACES[1:]
"""Places of `fit` where a signal that can be caught leaves a file."""
SAVED = FIT_PLACES[5:]
"""Places of `fit` where the draws have been saved already."""


def fits(names: list[str], cores: list[int], places: list[str] = FIT_PLACES) -> list[Job]:
    return [
        Job([*FIT, "out.nc", "--cores", str(own)], "", place, name)
        for name in names for own in cores for place in places
    ]  # fmt: skip


def writers(names: list[str]) -> list[Job]:
    jobs = []
    for name in names:
        for place in ("releasing", "writing", "printing"):
            jobs.append(Job([*RELEASE, "-o", "out.nc"], "", place, name))
            jobs.append(Job([*RELEASE, "-o", "out.csv"], "", place, name))
            jobs.append(Job([*IMPORT, "out.nc"], "", place, name))
        jobs += [Job([*REPORT, "out.html"], "", place, name) for place in ("rendering", "writing", "printing")]
    return jobs


def calibrations(names: list[str], workers: list[int], places: tuple[str, ...] = ("simulating", "saving")) -> list[Job]:
    sizes = ["--n", "4", "--draws", "60", "--tune", "20", "--quiet"]
    return [
        Job(["calibrate", "right.py", *sizes, "-o", "out.nc", "--workers", str(own)], "", place, name)
        for name in names for own in workers for place in places
    ]  # fmt: skip


ALL = [
    *fits([*INTERRUPTS, "SIGKILL"], [1, 2]),
    *(Job([*FIT, "out.nc", "--cores", str(n)], "", place, name, hammer=True)
      for n in (1, 2) for place in FIT_PLACES for name in INTERRUPTS),
    *writers([*INTERRUPTS, "SIGKILL"]),
    *calibrations([*INTERRUPTS, "SIGKILL"], [1, 2]),
]  # fmt: skip


def label(job: Job) -> str:
    cores = f" on {job.command[-1]}" if {"--cores", "--workers"} & set(job.command) else ""
    again = " and on" if job.hammer else ""
    target = " to CSV" if job.command[-1] == "out.csv" else ""
    return f"{job.signal} in {job.command[0]}{target}{cores}, {job.place}{again}"


def done(jobs: list[Job], folder: Path, warm_up: list[list[str]]) -> dict[str, tuple[Job, Ended]]:
    """Do all jobs in one process and its forks, each in a folder of its own."""
    for name, text in (("noisy.csv", NOISY), ("margins.csv", MARGINS), ("table.csv", TABLE), ("right.py", RIGHT)):
        (folder / name).write_text(text)
    placed = []
    for i, job in enumerate(jobs):
        own = folder / f"job{i}"
        own.mkdir()
        placed.append(job._replace(folder=str(own)))
    # The inputs are made by the first commands, and are found from the folders of the jobs by their names.
    inputs = ("noisy.csv", "margins.csv", "table.csv", "release.nc", "posterior.nc", "right.py")
    for job in placed:
        for name in inputs:
            Path(job.folder, name).symlink_to(folder / name)
    process = subprocess.run(
        [sys.executable, "-m", "tests.cli.kills"],
        input=json.dumps({"folder": str(folder), "warm_up": warm_up, "jobs": placed}),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert len(lines) == len(jobs)
    return {label(job): (job, Ended(*json.loads(line))) for job, line in zip(placed, lines, strict=True)}


WARM_UP = [
    [*IMPORT, "release.nc"],
    ["fit", "release.nc", *SIZES, "--cores", "1", "-o", "posterior.nc"],
    [*RELEASE, "-o", "any.nc"],
    [*REPORT, "any.html"],
    ["calibrate", "right.py", "--n", "2", "--draws", "60", "--tune", "20", "--quiet", "-o", "sbc.nc"],
]


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> dict[str, tuple[Job, Ended]]:
    return done(ALL, tmp_path_factory.mktemp("kills"), WARM_UP)


def too_late(job: Job) -> bool:
    """Whether the signal comes when the result has its name, or gets it in any case."""
    writes = job.command[0] in ("release", "import") and job.place == "writing"
    return writes or job.place == "printing"


def check_processes_and_words(job: Job, ended: Ended) -> None:
    """What holds for every signal at every place."""
    assert ended.closed, "standard output is held open"
    assert ended.left == []
    assert "Traceback" not in ended.err
    if job.signal == "SIGKILL":
        assert ended.status == -signal.SIGKILL
        return
    # What is written already is no failure: whoever runs `release` again after one makes a second release.
    assert ended.status == (0 if too_late(job) else INTERRUPTS[job.signal]), ended.err
    assert [path.name for path in Path(job.folder).iterdir() if path.name.startswith(".")] == []
    there = [path.name for path in Path(job.folder).iterdir() if path.name.startswith("out")]
    if "out.nc.partial" in there:  # the journal of `fit`: where it stays, that is said
        there.remove("out.nc.partial")
        assert "with --resume the same command goes on" in ended.err
    assert ("nothing was written" in ended.err) == (there == []), ended.err


def check_fit(job: Job, ended: Ended) -> None:
    output = Path(job.folder, "out.nc")
    caught = job.signal != "SIGKILL"
    assert output.exists() == (job.place in (KEPT if caught else SAVED)), ended.err
    if not output.exists():
        return
    tree, release = read_posterior(str(output))
    assert release == read_release(str(Path(job.folder, "release.nc")))
    draws = tree["posterior"].sizes["draw"]
    early = job.place == "drawing"
    assert bool(tree.attrs.get("interrupted", 0)) == early
    assert 0 < draws < 200 if early else draws == 200
    assert (tree["posterior"]["x"].sum("education") == [16, 30, 10]).all()
    if caught:
        words = "only the draws so far were saved" if early else "all draws were saved; left out: "
        assert words in ended.err
        _, _, left_out = ended.err.partition("left out: ")
        if not early:
            assert ("diagnostics" in left_out) == (len(tree["diagnostics"].data_vars) == 0)
            assert ("draws of the prior" in left_out) == ("prior" not in tree.children)
            assert ("limits of the cells" in left_out) == ("fiber" not in tree.children)
    if len(tree["diagnostics"].data_vars) == 0:
        reason = "sampling was interrupted" if early else "the diagnostics were interrupted"
        if not caught:
            reason = "the run ended before the diagnostics"
        assert tree["diagnostics"].attrs["message"] == f"Convergence was not judged: {reason}."


def check_writer(job: Job, ended: Ended) -> None:
    output = Path(job.folder, job.command[-1])
    # An interrupt waits for the writing to end; a kill does not.
    last = ("writing", "printing") if job.signal != "SIGKILL" else ("printing",)
    assert output.exists() == (job.place in last)
    if output.exists():
        if job.signal != "SIGKILL":
            words = f"bayesdp {job.command[0]}: interrupted, {job.command[-1]} was written"
            if too_late(job):
                words = f"written to {job.command[-1]}" if job.place == "printing" else "had been written"
            assert words in ended.err
        if output.suffix == ".html":
            assert output.read_text().rstrip().endswith("</html>")
        else:
            assert read_release(str(output)).measurements


def check_calibration(job: Job, ended: Ended) -> None:
    output, partial = Path(job.folder, "out.nc"), Path(job.folder, "out.nc.partial.jsonl")
    caught = job.signal != "SIGKILL"
    assert output.exists() == (caught and job.place == "saving")
    assert partial.exists() != output.exists()
    if output.exists():
        assert "interrupted, out.nc was written" in ended.err
        with xr.open_datatree(output, engine="h5netcdf") as tree:
            assert tree["fits"].sizes["simulation"] == 4
    else:
        records = [json.loads(line) for line in partial.read_text().splitlines()][1:]
        assert len(records) == (4 if job.place == "saving" else 1)
        assert all("ranks" in record for record in records)
        if caught:
            assert "interrupted: 1 of 4 simulations are in out.nc.partial.jsonl; the same command goes on" in ended.err


CHECKS = {"fit": check_fit, "calibrate": check_calibration}


def check(job: Job, ended: Ended) -> None:
    check_processes_and_words(job, ended)
    CHECKS.get(job.command[0], check_writer)(job, ended)


@pytest.mark.slow
def test_nothing_is_lost_wherever_a_signal_hits(ended):
    """Every place, every signal, one and two cores, once and again and again; prints how many were tried and survived."""
    survived: dict[str, list[int]] = {}
    wrong = []
    for what, (job, one) in ended.items():
        counts = survived.setdefault(f"{job.command[0]}, {job.place}", [0, 0])
        counts[1] += 1
        try:
            check(job, one)
            counts[0] += 1
        except AssertionError as error:
            wrong.append(f"{what}: {error}")
    print("\n".join(f"{place}: {good} of {tried}" for place, (good, tried) in survived.items()))
    assert wrong == []


@pytest.mark.slow
def test_what_an_interrupt_leaves_is_read_by_summary_and_report(ended, run):
    """Without limits, without diagnostics, without draws of the prior."""
    for what in ("SIGTERM in fit on 1, limits", "SIGTERM in fit on 1, drawing", "SIGKILL in fit on 1, diagnostics"):
        job, _ = ended[what]
        shutil.copy(Path(job.folder, "out.nc"), "saved.nc")
        for command in (("summary", "saved.nc"), ("report", "saved.nc", "-o", "r.html", "--force")):
            result = run(*command)
            assert result.status == 3, result.err
            assert "judge convergence" in result.err or "Convergence was not judged" in result.err
