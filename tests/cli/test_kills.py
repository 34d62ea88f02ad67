"""Signals at every place of a run: what is there afterwards is complete, what is said is true, and no process is left."""

import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

from bayesdp.cli.files import read_posterior, read_release
from tests.cli.conftest import IMPORT, MARGINS, NOISY, RELEASE, TABLE
from tests.cli.kills import PLACES, Job, done

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
pytestmark = [on_linux, pytest.mark.system, pytest.mark.slow]

FIT = [*"fit release.nc --chains 2 --draws 200 --tune 50 --seed 1 --quiet -o".split()]
REPORT = ["report", "posterior.nc", "-o"]
INTERRUPTS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
SIGNALS = [*INTERRUPTS, "SIGKILL"]
FIT_PLACES = list(PLACES)[:9]
KEPT, SAVED = FIT_PLACES[1:], FIT_PLACES[5:]
"""Places of `fit` where a signal that can be caught leaves a file; and where the draws have been saved already."""
FILES = {"noisy.csv": NOISY, "margins.csv": MARGINS, "table.csv": TABLE}
MADE = [*RELEASE, "-o", "any.nc"]
WARM_UP = [[*IMPORT, "release.nc"], [*FIT, "posterior.nc", "--cores", "1"], MADE, [*REPORT, "any.html"]]
JOBS = [
    *(Job([*FIT, "out.nc", "--cores", str(cores)], "", place, name)
      for name in SIGNALS for cores in (1, 2) for place in FIT_PLACES),
    *(Job(command, "", place, name)
      for command in ([*RELEASE, "-o", "out.nc"], [*RELEASE, "-o", "out.csv"], [*IMPORT, "out.nc"])
      for name in SIGNALS for place in ("releasing", "writing", "printing")),
    *(Job([*REPORT, "out.html"], "", place, name) for name in SIGNALS for place in ("rendering", "writing", "printing")),
]  # fmt: skip


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    return done(tmp_path_factory.mktemp("kills"), FILES, WARM_UP, JOBS)


def too_late(job):
    """Whether the signal comes when the result has its name, or gets it in any case."""
    return job.place == "printing" or (job.command[0] in ("release", "import") and job.place == "writing")


def check_processes_and_words(job, ended):
    assert ended.closed, "standard output is held open"
    assert ended.left == []
    assert "Traceback" not in ended.err
    if job.signal == "SIGKILL":
        assert ended.status == -signal.SIGKILL
        return
    # What is written already is no failure: whoever runs `release` again after one makes a second release.
    assert ended.status == (0 if too_late(job) else INTERRUPTS[job.signal]), ended.err
    assert not list(Path(job.folder).glob(".*"))
    there = [name for name in ended.names if "/" not in name]
    if "out.nc.partial" in there:  # the journal of `fit`: where it stays, that is said
        there.remove("out.nc.partial")
        assert "with --resume the same command goes on" in ended.err
    assert ("nothing was written" in ended.err) == (there == []), ended.err


def check_fit(job, ended):
    output, caught = Path(job.folder, "out.nc"), job.signal != "SIGKILL"
    assert output.exists() == (job.place in (KEPT if caught else SAVED)), ended.err
    if not output.exists():
        return
    tree, release = read_posterior(str(output))
    assert release == read_release(str(Path(job.folder, "release.nc")))
    draws, early = tree["posterior"].sizes["draw"], job.place == "drawing"
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


def check_writer(job, ended):
    output = Path(job.folder, job.command[-1])
    # An interrupt waits for the writing to end; a kill does not.
    caught = job.signal != "SIGKILL"
    assert output.exists() == (job.place in (("writing", "printing") if caught else ("printing",)))
    if not output.exists():
        return
    if caught:
        words = f"bayesdp {job.command[0]}: interrupted, {job.command[-1]} was written"
        if too_late(job):
            words = f"written to {job.command[-1]}" if job.place == "printing" else "had been written"
        assert words in ended.err
    if output.suffix == ".html":
        assert output.read_text().rstrip().endswith("</html>")
    else:
        assert read_release(str(output)).measurements


def test_nothing_is_lost_wherever_a_signal_hits(ended):
    wrong = []
    for job, one in ended:
        try:
            check_processes_and_words(job, one)
            (check_fit if job.command[0] == "fit" else check_writer)(job, one)
        except AssertionError as error:
            wrong.append(f"{job.signal} in {' '.join(job.command)}, {job.place}: {error}")
    assert wrong == []


def test_what_an_interrupt_leaves_is_read_by_summary_and_report(ended, run):
    """Without limits, without diagnostics, without draws of the prior."""
    folders = {(job.signal, job.place): job.folder for job, _ in ended if job.command[0] == "fit"}
    for what in (("SIGTERM", "limits"), ("SIGTERM", "drawing"), ("SIGKILL", "diagnostics")):
        shutil.copy(Path(folders[what], "out.nc"), "saved.nc")
        for command in (("summary", "saved.nc"), ("report", "saved.nc", "-o", "r.html", "--force")):
            result = run(*command)
            assert result.status == 3, result.err
            assert re.search("judge convergence|Convergence was not judged", result.out + result.err)
