"""Running a function in a forked process, with limits on processor time, memory and wall time."""

import faulthandler
import json
import os
import resource
import select
import signal
import time
from collections import namedtuple

_HARD_CPU = 12  # seconds of processor time after which the kernel ends a child; verdicts have limits of their own
_WALL = 90.0  # seconds after which it is ended whatever it does: a machine may be busy, but a child may wait for ever


Ended = namedtuple("Ended", "told signal seconds megabytes hung")
"""What a child sent, which signal ended it (0: none), its processor seconds and largest memory, and whether it took too long."""


def _status(*names):
    with open("/proc/self/status", encoding="ascii") as file:
        found = dict(line.split(":", 1) for line in file)
    return [int(found[name].split()[0]) for name in names]


def peak_megabytes(start):
    """The largest memory so far of this process and of those in which it has files read, above a start in kilobytes."""
    return max(0, _status("VmHWM")[0] - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - start) / 1024


def processor_seconds():
    """Processor time of this process and of those in which it has had files read."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used)


def in_child(task):
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run(task, theirs)
    os.close(theirs)
    raw, end, hung = b"", time.monotonic() + _WALL, False
    while True:
        ready, _, _ = select.select([ours], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            end, hung = time.monotonic() + _WALL, True
        elif block := os.read(ours, 1 << 16):
            raw += block
        else:
            break
    os.close(ours)
    _, status, used = os.wait4(pid, 0)
    told = [json.loads(line) for line in raw.split(b"\n")[:-1]]
    start = told.pop(0)["start"] if told else used.ru_maxrss
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return Ended(told, ended_by, used.ru_utime + used.ru_stime, max(0, used.ru_maxrss - start) / 1024, hung)


def _run(task, pipe):
    def tell(message):
        left = json.dumps(message).encode() + b"\n"
        while left:
            left = left[os.write(pipe, left) :]

    faulthandler.disable()  # pytest's: a crash that is judged here is no crash of the tests
    try:
        start, space = _status("VmRSS", "VmSize")
        tell({"start": start})
        quiet = os.open(os.devnull, os.O_RDWR)  # libraries in C write to the descriptors themselves
        for standard in (0, 1, 2):
            os.dup2(quiet, standard)
        limit = space * 1024 + 1536 * 2**20  # of addresses
        for what, soft, hard in (("CORE", 0, 0), ("CPU", _HARD_CPU, _HARD_CPU + 1), ("AS", limit, limit)):
            resource.setrlimit(getattr(resource, f"RLIMIT_{what}"), (soft, hard))
        task(tell, start)
    finally:
        os._exit(0)
