"""Signals at every place of a fit: what is there afterwards is complete, what is said is true, and no process is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bayesdp.cli.files import read_posterior, read_release
from tests.cli.conftest import IMPORT, MARGINS, NOISY, ROOT
from tests.cli.kills import PLACES, Ended, Job

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc"),
    pytest.mark.system,
    pytest.mark.slow,
]

FIT = [*"fit release.nc --chains 2 --draws 200 --tune 50 --seed 1 --quiet -o".split()]
INTERRUPTS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
KEPT = [*PLACES][1:]
"""Places where a signal that can be caught leaves a file."""
SAVED = [*PLACES][5:]
"""Places where the draws have been saved already."""

FILES = {"noisy.csv": NOISY, "margins.csv": MARGINS}
WARM_UP = [[*IMPORT, "release.nc"], [*FIT, "posterior.nc", "--cores", "1"]]
JOBS = [
    Job([*FIT, "out.nc", "--cores", cores], "", place, name)
    for name in (*INTERRUPTS, "SIGKILL") for cores in ("1", "2") for place in PLACES
]  # fmt: skip


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> list[tuple[Job, Ended]]:
    """Do all jobs in one process and its forks, each in a folder of its own, with links to what the first commands made."""
    folder = tmp_path_factory.mktemp("kills")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    placed = [job._replace(folder=str(folder / f"job{i}")) for i, job in enumerate(JOBS)]
    for job in placed:
        Path(job.folder).mkdir()
        Path(job.folder, "release.nc").symlink_to(folder / "release.nc")
    process = subprocess.run(
        [sys.executable, "-m", "tests.cli.kills"],
        input=json.dumps({"folder": str(folder), "warm_up": WARM_UP, "jobs": placed}),
        capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    return [(job, Ended(*json.loads(line))) for job, line in zip(placed, lines, strict=True)]


def check_processes_and_words(job: Job, ended: Ended) -> None:
    """What holds for every signal at every place."""
    assert ended.closed, "standard output is held open"
    assert ended.left == []
    assert "Traceback" not in ended.err
    if job.signal == "SIGKILL":
        assert ended.status == -signal.SIGKILL
        return
    assert ended.status == INTERRUPTS[job.signal], ended.err
    names = [path.name for path in Path(job.folder).iterdir()]
    assert not any(name.startswith(".") for name in names)
    there = [name for name in names if name.startswith("out")]
    if "out.nc.partial" in there:  # the journal of `fit`: where it stays, that is said
        there.remove("out.nc.partial")
        assert "with --resume the same command goes on" in ended.err
    assert ("nothing was written" in ended.err) == (there == []), ended.err


def check_file(job: Job, ended: Ended) -> None:
    output = Path(job.folder, "out.nc")
    caught = job.signal != "SIGKILL"
    assert output.exists() == (job.place in (KEPT if caught else SAVED)), ended.err
    if not output.exists():
        return
    tree, release = read_posterior(str(output))
    assert release == read_release(str(Path(job.folder, "release.nc")))
    draws = tree["posterior"].sizes["draw"]
    early = job.place == "drawing"
    undiagnosed = len(tree["diagnostics"].data_vars) == 0
    assert bool(tree.attrs.get("interrupted", 0)) == early
    assert 0 < draws < 200 if early else draws == 200
    assert (tree["posterior"]["x"].sum("education") == [16, 30, 10]).all()
    if caught:
        assert ("only the draws so far were saved" if early else "all draws were saved; left out: ") in ended.err
    if caught and not early:
        left_out = ended.err.partition("left out: ")[2]
        assert ("diagnostics" in left_out) == undiagnosed
        assert ("draws of the prior" in left_out) == ("prior" not in tree.children)
        assert ("limits of the cells" in left_out) == ("fiber" not in tree.children)
    if undiagnosed:
        reason = "sampling was interrupted" if early else "the diagnostics were interrupted"
        reason = reason if caught else "the run ended before the diagnostics"
        assert tree["diagnostics"].attrs["message"] == f"Convergence was not judged: {reason}."


def test_nothing_is_lost_wherever_a_signal_hits(ended):
    """Every place, every signal, one and two cores."""
    wrong = []
    for job, one in ended:
        try:
            check_processes_and_words(job, one)
            check_file(job, one)
        except AssertionError as error:
            wrong.append(f"{job.signal} in {' '.join(job.command)}, {job.place}: {error}")
    assert wrong == []


def test_what_an_interrupt_leaves_is_read_by_summary_and_report(ended, run):
    """Without limits, without diagnostics, without draws of the prior."""
    folders = {(job.signal, job.place): job.folder for job, _ in ended}
    for what in (("SIGTERM", "limits"), ("SIGTERM", "drawing"), ("SIGKILL", "diagnostics")):
        shutil.copy(Path(folders[what], "out.nc"), "saved.nc")
        for command in (("summary", "saved.nc"), ("report", "saved.nc", "-o", "r.html", "--force")):
            result = run(*command)
            assert result.status == 3, result.err
            assert "judge convergence" in result.err or "Convergence was not judged" in result.err
