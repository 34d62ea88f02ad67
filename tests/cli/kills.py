"""Runs of the command line that a signal hits at a chosen place; run as a script, which reads jobs and writes what became of them.

Importing PyMC and compiling takes longer than the runs: so one process does that once, and forks a process for each run.
In it a function of the package (or of the standard library) is replaced by one that first sends a signal: to the whole
session, as a terminal or a scheduler does; SIGKILL to the main process alone.
"""

import functools
import importlib
import itertools
import json
import multiprocessing.util
import os
import select
import signal
import sys
import time
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

WAIT, ORPHANS = 120.0, 15.0
"""Seconds for a run to end; and for its workers to end, and for standard output to be closed."""


class Job(NamedTuple):
    """One run: a command, a folder to run in, and where to send which signal."""

    command: list[str]
    folder: str
    place: str
    signal: str


class Ended(NamedTuple):
    """What became of it: the status (negative for a signal), its output, and processes of its session that are left."""

    status: int
    out: str
    err: str
    closed: bool
    left: list[str]


def _replace(job):
    module_name, name, which = PLACES[job.place]
    *parents, last = name.split(".")
    owner = functools.reduce(getattr, parents, importlib.import_module(module_name))
    real, calls, main = getattr(owner, last), itertools.count(1), os.getpid()

    def signalled(*args, **kwargs):
        counts = os.getpid() == main and (module_name != "builtins" or kwargs.get("file") is None)
        if counts and next(calls) == which:
            if job.signal == "SIGKILL":
                os.kill(main, signal.SIGKILL)
            os.killpg(0, signal.Signals[job.signal])
        return real(*args, **kwargs)

    setattr(owner, last, signalled)


def _run(job):
    """In the process of a run."""
    from bayesdp.cli import main

    os.chdir(job.folder)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    _replace(job)
    status = main(job.command)
    sys.stdout.flush()
    sys.stderr.flush()
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
        finally:
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
    return Ended(os.waitstatus_to_exitcode(ended[1]), out.decode(), err, closed, left)


def main():
    """Warm up with the first command line, then do the jobs of the rest, and write what became of each as a line of JSON."""
    from bayesdp.cli import main as command_line

    given = json.load(sys.stdin)
    stdout = os.dup(1)
    os.dup2(2, 1)
    os.chdir(given["folder"])
    for command in given["warm_up"]:
        command_line(command)
    for job in given["jobs"]:
        ended = _follow(Job(*job))
        os.write(stdout, json.dumps(ended).encode() + b"\n")


if __name__ == "__main__":
    main()
