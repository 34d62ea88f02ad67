"""A Dask cluster, whose address ``python -m tests.calibration.cluster`` prints, and commands that are killed, each in a process."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.kills import _session

N = 40
SECONDS = 0.15
"""Of a simulation that only draws a number."""

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
SCRIPT = [sys.executable, "-m", "tests.calibration.cluster"]


def seeded(starts: str) -> Callable[[int], dict[str, float]]:
    """A simulation whose result depends on its number alone; that it began is a line in a file."""

    def simulate(number: int) -> dict[str, float]:
        with Path(starts).open("a") as file:
            file.write(f"{number}\n")
        time.sleep(SECONDS)
        return {"number": number, "drawn": random.Random(number).random()}

    return simulate


def cluster() -> None:
    import distributed

    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", protocol="tcp"
    ) as own:
        print(own.scheduler_address, flush=True)
        sys.stdin.read()


@contextmanager
def started() -> Iterator[str]:
    with subprocess.Popen(SCRIPT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(timeout=60)


def records(journal: Path) -> list[Any]:
    if not journal.exists():
        return []
    return [json.loads(line) for line in journal.read_bytes().split(b"\n")[:-1]][1:]


def wait_for(what: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def killed(command: list[str], journal: Path, wanted: int) -> None:
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, env=ENVIRONMENT
    ) as process:
        try:
            wait_for(lambda: len(records(journal)) >= wanted or process.poll() is not None)
        finally:
            process.kill()
        said, _ = process.communicate(timeout=30)  # standard output is closed: nobody holds it
    assert process.returncode == -signal.SIGKILL, said
    assert _session(process.pid) == []


def work_left(address: str) -> tuple[int, int]:
    import distributed

    with distributed.Client(address) as client:
        known = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        held = client.run(lambda dask_worker: len(dask_worker.state.tasks))
    return known, sum(held.values())


if __name__ == "__main__":
    cluster()
