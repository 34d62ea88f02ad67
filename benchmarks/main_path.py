"""How many files of the package the main path runs through, part by part, and how often it works out the fiber.

The path is that of a user: ``LatticeLaplace(...).release``, then `bayesdp.observe` in a model, then the first step of the
step method, then `bayesdp.sample` to the DataTree. A file counts where one of its functions is called (modules that are
only imported do not count). Everything runs once before, so that imports and compilation are over. Not collected by
`make bench`: run it by hand, ``python -m benchmarks.main_path``; it prints a table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm

import bayesdp as bdp
from bayesdp.fibers.system import System

PACKAGE = str(Path(bdp.__file__).parent)
PARTS = ("release", "observe", "first step", "sampling to the DataTree")
TABLE = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
COUNTS = np.array([[12, 3, 7], [4, 9, 1], [0, 15, 6]])


def main_path(counts: npt.NDArray[np.int64]) -> list[Callable[[], Any]]:
    """The parts in their order; each needs what the one before has made."""
    made: dict[str, Any] = {}

    def release() -> None:
        margins = bdp.Invariants(bdp.Margins(TABLE, ["county"], ["education"]))
        made["release"] = bdp.mechanisms.LatticeLaplace(margins, epsilon=1.0).release(counts, rng=1)

    def observe() -> None:
        with pm.Model(coords=made["release"].coords) as made["model"]:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(6.0), dims=made["release"].dims)
            bdp.observe(made["release"], x)

    def first_step() -> None:
        with made["model"] as model:
            made["step"] = bdp.steps.FiberGibbs([model["x"]])
            point = model.initial_point()
            made["step"].step(point)

    def sampling() -> None:
        with made["model"]:
            made["tree"] = bdp.sample(
                draws=20, tune=20, chains=1, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False
            )

    return [release, observe, first_step, sampling]


def measured(part: Callable[[], Any]) -> tuple[set[str], int]:
    """The files whose functions a part calls, and how often it works out a fiber (gathers its rows)."""
    files: set[str] = set()
    fibers = 0
    gathers = System.of.__func__.__code__  # type: ignore[attr-defined]

    def seen(frame: FrameType, event: str, _: Any) -> None:
        nonlocal fibers
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.add(frame.f_code.co_filename)
            fibers += frame.f_code is gathers

    sys.setprofile(seen)
    try:
        part()
    finally:
        sys.setprofile(None)
    return files, fibers


if __name__ == "__main__":
    for part in main_path(COUNTS + 1):  # another table: equal exact answers would share their fiber
        part()
    # The files that every part calls (checks, labels, text) are counted in every part.
    print(f"{'part':26s} {'files':>6s} {'fibers':>7s}")
    for name, part in zip(PARTS, main_path(COUNTS), strict=True):
        files, fibers = measured(part)
        print(f"{name:26s} {len(files):6d} {fibers:7d}")
