"""Read files one after the other, each in a process of its own, and say what each took: run as a script by the tests.

``python -m tests.storage.measured_reading kind=path ...`` prints a line of JSON for each: seconds of processor time and MB of
memory above those of the process that imported everything, and what came of it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import h5netcdf  # noqa: F401  # what reading imports is not the file's fault
import pyarrow.parquet  # noqa: F401

from bayesdp import _text  # noqa: F401
from bayesdp.cli.files import read_posterior, read_release
from bayesdp.mechanisms import StatisticRelease  # noqa: F401
from bayesdp.noise import read_ptable
from bayesdp.release import Release  # noqa: F401
from bayesdp.tables import read_office_csv, read_table
from tests.storage.fuzz.readers import read_measurements, read_report

READERS: dict[str, Callable[[Path], object]] = {
    "release": lambda path: read_release(str(path)),
    "posterior": lambda path: read_posterior(str(path)),
    "table": read_table,
    "wide": lambda path: read_office_csv(path, layout="wide", dims=["area", "name"]),
    "levels": lambda path: read_office_csv(path, levels={"upper": path.with_suffix(".upper.csv")}),
    "nhgis": lambda path: read_office_csv(
        path, layout="wide", dims=["gisjoin"], header=r"(?P<code>\w+)_(?P<version>dp|sf)", totals={"code": []}
    ),
    "measurements": read_measurements,
    "report": read_report,
    "perturbation": read_ptable,
}


def _measured(kind: str, path: str) -> dict[str, object]:
    before = _used()
    try:
        READERS[kind](Path(path))
        told = "read"
    except (ValueError, MemoryError) as error:
        told = f"{type(error).__name__}: {error}"
    seconds, megabytes = (after - own for after, own in zip(_used(), before, strict=True))
    return {"path": Path(path).name, "seconds": seconds, "megabytes": megabytes, "told": told}


def _used() -> tuple[float, float]:
    """Seconds of this process and of those that it has started, and megabytes of the largest of them."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used), max(own.ru_maxrss for own in used) / 1024


def main(first: str, *asked: str) -> None:
    """Read the first file once, so that all is imported, and then each in a child."""
    read_release(first)
    for one in asked:
        kind, path = one.split("=", 1)
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
            resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
            print(json.dumps(_measured(kind, path)), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print(
                json.dumps({"path": Path(path).name, "seconds": 20.0, "megabytes": 8192.0, "told": "killed"}),
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
