"""How much memory a function takes: in a process of its own, with all processes that it starts.

The largest memory of a process that ran other things is theirs; so is the `ru_maxrss` of a process that comes from it, for Linux
hands that on. Libraries, and what a fork shares with the process that it came from, are in the resident memory of each of them. Here
the process is new; while it works its memory is looked at from outside, some twenty times a second, and pages are counted once: those
of no file by the number of processes that share them (`Pss_Anon` of Linux), those of files (libraries) as in the process that has
most of them. What the process itself reaches between two looks is not missed: the system keeps that (`VmHWM`). Elsewhere than on
Linux it is `ru_maxrss` of the process, and of as many children as it says, each like the largest.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, set_start_method
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Took", "apart"]

_SECONDS = 0.05
"""How often the processes are looked at."""

_LINUX = sys.platform == "linux"


class Took(NamedTuple):
    """What a function gave, and the memory that it took, in GB of 10^9 bytes."""

    result: Any
    gigabytes: float  # the largest of all its processes together, what they share counted once
    before: float  # of its process before: libraries, and what came with the function
    in_full: float  # what they share counted for each


def apart(function: Callable[..., Any], *arguments: Any, children: int = 0, **named: Any) -> Took:
    """Call a function of a module in a new process; `children`: how many it starts at a time, for systems that do not tell."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pid, before = pool.submit(_begin, function).result()
        once, in_full, ended = 0.0, 0.0, threading.Event()

        def look() -> None:
            nonlocal once, in_full
            while not ended.wait(_SECONDS):
                now = together(pid)
                once, in_full = max(once, now[0]), max(in_full, now[1])

        watching = threading.Thread(target=look, daemon=True)
        watching.start()
        try:
            result, alone, child = pool.submit(_call, function, arguments, named).result()
        finally:
            ended.set()
            watching.join()
    beside = 0.0 if _LINUX else children * child
    return Took(result, max(once, alone + beside), before, max(in_full, alone + beside))


def _begin(function: Callable[..., Any]) -> tuple[int, float]:
    """In the new process, which has imported the function's module by now: its number, and its memory."""
    # A process that was spawned would spawn those of chains, which the processes of users fork.
    set_start_method(None, force=True)
    return os.getpid(), _largest(resource.RUSAGE_SELF)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, float, float]:
    result = function(*arguments, **named)
    return result, _largest(resource.RUSAGE_SELF), _largest(resource.RUSAGE_CHILDREN)


def _largest(who: int) -> float:
    if _LINUX and who == resource.RUSAGE_SELF:
        return _numbers(os.getpid(), "status")["VmHWM"] * 1024 / 1e9
    return resource.getrusage(who).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e9 / 1024)


def together(pid: int) -> tuple[float, float]:
    """GB that a process and all that come from it have now, what they share once and in full; 0 where the system does not say."""
    anonymous = files = resident = 0
    for own in _family(pid):
        rollup, status = _numbers(own, "smaps_rollup"), _numbers(own, "status")
        anonymous += rollup.get("Pss_Anon", 0) + rollup.get("Pss_Shmem", 0)
        files = max(files, status.get("RssFile", 0))
        resident += status.get("VmRSS", 0)
    return (anonymous + files) * 1024 / 1e9, resident * 1024 / 1e9


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in _tasks(pid):
        for child in _text(task / "children").split():
            yield from _family(int(child))


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:  # it has ended meanwhile
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _numbers(pid: int, name: str) -> dict[str, int]:
    """Kilobytes by name, of a file of the system about a process."""
    words = (line.split() for line in _text(Path(f"/proc/{pid}/{name}")).splitlines())
    return {own[0].rstrip(":"): int(own[1]) for own in words if len(own) == 3 and own[2] == "kB"}
