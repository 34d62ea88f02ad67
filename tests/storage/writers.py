"""What `test_atomic` runs in a process of its own: writers that race, and writers that are killed at each call of the system.

``python -m tests.storage.writers RACES 0|1`` (whether to kill as well) prints one line of JSON.
"""

from __future__ import annotations

import errno
import io
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayesdp.storage import write_text

OLD, NEW = "old " * 1000, "new " * 1500


def write_file(path: Path, text: str, *, overwrite: bool = False) -> None:
    write_text(path, text, overwrite=overwrite)


def content(path: Path) -> str | None:
    """The text under a name, None if there is nothing."""
    return path.read_text() if path.exists() else None


def without_links(*args: Any, **kwargs: Any) -> None:
    """As `os.link` on a file system that has no hard links."""
    raise PermissionError(errno.EPERM, "Operation not permitted")


WRITERS: dict[str, tuple[Callable[..., None], bool, bool]] = {
    # name: function, overwrite, with hard links
    "file": (write_file, False, True),
    "file-without-links": (write_file, False, False),
    "file-force": (write_file, True, True),
}


def _racer(number: int, kind: str, base: Path, races: int, barrier: Any, won: Any) -> None:
    write, overwrite, links = WRITERS[kind]
    if not links:
        os.link = without_links
    for race in range(races):
        barrier.wait()
        try:
            write(base / f"{race}", f"{number} " * 50, overwrite=overwrite)
            won[number * races + race] = 1
        except FileExistsError:
            pass


def race(kind: str, races: int, writers: int) -> dict[str, Any]:
    """How many of the writers of each race believe that they have written, and whether what is there is theirs."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        barrier, won = context.Barrier(writers), context.Array("i", races * writers)
        processes = [context.Process(target=_racer, args=(k, kind, base, races, barrier, won)) for k in range(writers)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        winners = [[k for k in range(writers) if won[k * races + i]] for i in range(races)]
        true = [content(base / f"{i}") in [f"{k} " * 50 for k in winners[i]] for i in range(races)]
        return {
            "winners": [len(own) for own in winners],
            "true": all(true),
            "left": sorted(name for name in os.listdir(base) if not name.isdigit()),
            "died": [process.exitcode for process in processes if process.exitcode],
        }


CALLS = ("open", "write", "fsync", "close", "chmod", "link", "replace", "rename", "unlink", "mkdir", "rmdir")
"""Functions of `os` that change something, or wait for the disk."""


def kill_at(call: int) -> None:
    """Kill this process at its `call`-th call of the system; a write writes half before."""
    made = 0

    def wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            made += 1
            if made > call:
                if name == "write":
                    function(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return called

    for name in CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))
    io.open = wrapped("open text", io.open)  # type: ignore[assignment]


def killed(kind: str, *, there: bool) -> dict[str, Any]:
    """Kill a writer at every call in turn; what is under the name afterwards, and whether a second writer succeeds."""
    write, overwrite, links = WRITERS[kind]
    states: list[str] = []
    recovered = 0
    while True:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "release"
            if there:
                write(target, OLD)
            child = os.fork()
            if not child:
                if not links:
                    os.link = without_links
                kill_at(len(states))
                write(target, NEW, overwrite=overwrite)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            names = {OLD: "old", NEW: "new", None: "nothing", "": "empty"}
            state = names.get(content(target), "BROKEN")
            if os.WIFEXITED(status):
                return {"states": states, "ended": state, "status": os.WEXITSTATUS(status), "recovered": recovered}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                write(target, NEW, overwrite=True)
            recovered += content(target) == NEW
            states.append(state)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # that something is kept, and that threads of linear algebra do not survive a fork
    races, kills = int(sys.argv[1]), int(sys.argv[2])
    found = {f"races {kind}": race(kind, races, 4) for kind in WRITERS}
    for kind, (_, overwrite, _) in WRITERS.items() if kills else ():
        found[f"kills {kind} 0"] = killed(kind, there=False)
        if overwrite:
            found[f"kills {kind} 1"] = killed(kind, there=True)
    print(json.dumps(found))
