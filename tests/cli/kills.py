"""Runs of the command line that a signal hits at a chosen place, or that find little room; a script that reads and does jobs.

Importing PyMC and compiling takes longer than the runs: so one process does that once, and forks a process for each run.
In it a function of the package (or of the standard library) is replaced by one that first sends a signal: to the whole
session, as a terminal or a scheduler does; SIGKILL to the main process alone. Or files may have so many bytes only (EFBIG).
"""

import errno
import functools
import gc
import importlib
import itertools
import json
import multiprocessing.util
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import NamedTuple

PLACES = {
    "tuning": ("bayesdp.inference.runs.running", "_Callback.__call__", 5),
    "drawing": ("bayesdp.inference.runs.running", "_Callback.__call__", 130),
    "building the trace": ("pymc.sampling.mcmc", "_choose_chains", 1),
    "limits": ("bayesdp.inference.annotating", "_limits", 1),
    "writing": ("bayesdp.storage.atomic", "sync_file", 1),
    "written": ("bayesdp.inference.sampling", "diagnosed", 1),
    "diagnostics": ("bayesdp.inference.sampling", "diagnose", 1),
    "prior draws": ("bayesdp.inference", "add_prior_predictive", 1),
    "writing again": ("bayesdp.storage.atomic", "sync_file", 2),
    "releasing": ("bayesdp.cli.files", "write_release", 1),
    "rendering": ("bayesdp.report.page", "page", 1),
    "printing": ("builtins", "print", 1),
}
"""Where: a module, a function in it, and at which call."""

WAIT, ORPHANS = 600.0, 15.0
"""Seconds for a run to end, also on a busy machine; and for its workers to end, and for standard output to be closed."""


class Job(NamedTuple):
    """One run: a command, a folder to run in, and where to send which signal; or bytes of a file, files of the journal, their pace."""

    command: list[str]
    folder: str = ""
    place: str = ""
    signal: str = ""
    limit: int = 0
    files: int = 0
    seconds: float = 5.0


class Ended(NamedTuple):
    """What became of it: the status (negative for a signal), its output, and processes of its session and files that are left."""

    status: int
    out: str
    err: str
    closed: bool
    left: list[str]
    names: list[str]


def done(folder, files, warm_up, jobs):
    """Do all jobs in one process and its forks, each in a folder of its own, with links to what is there after the first commands."""
    for name, text in files.items():
        (folder / name).write_text(text)
    placed = [job._replace(folder=str(folder / (job.folder or f"job{i}"))) for i, job in enumerate(jobs)]
    script = subprocess.run(
        [sys.executable, "-m", "tests.cli.kills"],
        input=json.dumps({"folder": str(folder), "warm_up": warm_up, "jobs": placed}),
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert script.returncode == 0, script.stderr
    lines = script.stdout.splitlines()
    return [(job, Ended(*json.loads(line))) for job, line in zip(placed, lines, strict=True)]


def _replace(job):
    module_name, name, which = PLACES[job.place]
    *parents, last = name.split(".")
    owner = functools.reduce(getattr, parents, importlib.import_module(module_name))
    real, calls, main = getattr(owner, last), itertools.count(1), os.getpid()

    def signalled(*args, **kwargs):
        # What is printed for the user alone, and files but those of the journal.
        other = kwargs.get("file") is not None if module_name == "builtins" else ".partial/" in str(args[:1])
        if os.getpid() == main and not other and next(calls) == which:
            if job.signal == "SIGKILL":
                os.kill(main, signal.SIGKILL)
            os.killpg(0, signal.Signals[job.signal])
        return real(*args, **kwargs)

    setattr(owner, last, signalled)


def _run(job):
    from bayesdp.cli import main as command_line
    from bayesdp.inference.runs import journal, recorded

    os.chdir(job.folder)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    if job.place:
        _replace(job)
    if job.limit:
        write, recorded.SECONDS = journal.write_arrays, job.seconds

        def full(file, arrays):
            if len(list(file.parent.glob("chain-*.npz"))) >= job.files:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            write(file, arrays)

        journal.write_arrays = full
        resource.setrlimit(resource.RLIMIT_FSIZE, (job.limit, job.limit))
    status = command_line(job.command)
    sys.stdout.flush()
    sys.stderr.flush()
    if job.limit:
        sys.exit(status)  # to the very end of the interpreter
    multiprocessing.util._exit_function()
    os._exit(status)


def _session(leader):
    """Processes of a session that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(words[3]) == leader and words[0] != "Z":
                found.append((folder / "cmdline").read_text().replace("\0", " ").strip())
        except OSError:  # it has just ended
            continue
    return found


def _follow(job):
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        for opened, number in ((writes, 1), (os.open(f"{job.folder}/stderr", os.O_WRONLY | os.O_CREAT), 2)):
            os.dup2(opened, number)
            os.close(opened)
        os.close(reads)
        try:
            _run(job)
        except Exception:
            traceback.print_exc()
            os._exit(99)
    os.close(writes)
    deadline = time.monotonic() + WAIT
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
            break
        time.sleep(0.02)
    out, closed, deadline = b"", False, time.monotonic() + ORPHANS
    while not closed and select.select([reads], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(reads, 65536)
        out, closed = out + piece, not piece
    os.close(reads)
    while (left := _session(child)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        os.killpg(child, signal.SIGKILL)
    err = Path(job.folder, "stderr").read_text()
    Path(job.folder, "stderr").unlink()
    paths = [own for pattern in ("out*", "out*.partial/chain*") for own in Path(job.folder).glob(pattern)]
    names = sorted(str(own.relative_to(job.folder)) for own in paths)
    return Ended(os.waitstatus_to_exitcode(ended[1]), out.decode(), err, closed, left, names)


def main():
    """Warm up with the first command lines, then do the jobs, and write what became of each as a line of JSON."""
    from bayesdp.cli import main as command_line

    given = json.load(sys.stdin)
    stdout = os.dup(1)
    os.dup2(2, 1)
    os.chdir(given["folder"])
    for command in given["warm_up"]:
        command_line(command)
    inputs = [path for path in Path().resolve().iterdir() if path.is_file()]
    gc.freeze()  # what is there is not searched for garbage while a child ends, which would take a second
    for job in (Job(*own) for own in given["jobs"]):
        Path(job.folder).mkdir(exist_ok=True)
        for path in inputs:
            if not (link := Path(job.folder, path.name)).exists():
                link.symlink_to(path)
        os.write(stdout, json.dumps(_follow(job)).encode() + b"\n")


if __name__ == "__main__":
    main()
