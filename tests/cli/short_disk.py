"""What `test_short_disk` runs in a process of its own: every output with room on the disk, and again with none.

``python -m tests.cli.short_disk FOLDER`` prints one line of JSON. The system's limit on the length of files stands for the full
disk: a write beyond it is an error (EFBIG). Each run is a process forked from this one, so that imports cost once and a crash while it
ends is seen.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesdp.cli import main
from tests.cli.conftest import MARGINS, NOISY, TABLE

QUICK = ("--draws", "60", "--tune", "10", "--chains", "2", "--cores", "1", "--quiet")
IMPORT = ("import", "noisy.csv", "--exact", "margins.csv", "--law", "discrete-gaussian sigma=5")
RELEASE = ("release", "table.csv", "--invariant", "margins:county", "--mechanism", "lattice-laplace", "--epsilon", "1")
SQUARE = "sex,code,count\nmen,1,12\nmen,2,30\nwomen,1,25\nwomen,2,17\n"

COMMANDS: dict[str, tuple[tuple[str, ...], str, int]] = {
    # name: arguments, output, bytes that a file may have
    "import netcdf": ((*IMPORT, "--force", "-o", "release.nc"), "release.nc", 4000),
    "import CSV": ((*IMPORT, "--force", "-o", "release.csv"), "release.noise.json", 500),
    "release netcdf": ((*RELEASE, "--force", "-o", "own.nc"), "own.nc", 4000),
    "release CSV": ((*RELEASE, "--force", "-o", "own.csv"), "own.csv", 10),
    "fit": (("fit", "release.nc", *QUICK, "--seed", "1", "--force", "-o", "posterior.nc"), "posterior.nc", 8000),
    "test": (("test", "square.nc", "--force", "-o", "test.json"), "test.json", 100),
    "calibrate": (("calibrate", "model.py", "--force", "-o", "sbc.nc"), "sbc.nc", 4000),
    "calibrate journal": (("calibrate", "model.py", "--force", "-o", "sbc.nc"), "sbc.nc", 30),
    "calibrate report": (
        ("calibrate", "model.py", "--force", "-o", "sbc.nc", "--report", "sbc.html"), "sbc.html", 60_000,
    ),
}  # fmt: skip


def bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def forked(run: Callable[[], int], limit: int | None = None) -> tuple[int, str, str]:
    """Status (negative: a signal), standard output and standard error of a process of its own."""
    pipes = [os.pipe(), os.pipe()]
    gc.freeze()  # what was there before is not searched for garbage while the child ends, which would take a second
    child = os.fork()
    if not child:
        for number, (_, write) in enumerate(pipes, start=1):
            os.dup2(write, number)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        sys.exit(run())  # to the very end of the interpreter
    texts = []
    for _, write in pipes:
        os.close(write)
    for read, _ in pipes:
        with os.fdopen(read) as file:
            texts.append(file.read())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), texts[0], texts[1]


def observed(run: Callable[[], int], output: Path, limit: int) -> dict[str, Any]:
    first = forked(run)
    before, names = bytes_of(output), sorted(os.listdir())
    status, out, err = forked(run, limit)
    return {
        "file": output.name, "first": first[0], "first_err": first[2][-500:], "status": status, "out": out, "err": err,
        "unchanged": before is not None and bytes_of(output) == before,
        "new": [name for name in sorted(os.listdir()) if name not in names],
    }  # fmt: skip


def without_sampling() -> None:
    """Let `fit` and `calibrate` write results that are made up: what they sample is tested elsewhere, and takes minutes."""
    import bayesdp as bdp
    from bayesdp.calibration.runs import Journal
    from bayesdp.cli import calibrate, fit
    from bayesdp.inference import sampling
    from bayesdp.inference.sampling import Drawn
    from bayesdp.report import page as pages

    release = bdp.Release.from_netcdf("release.nc")
    told = {"message": "made up", "converged": 1}
    x = xr.DataArray(np.random.default_rng(1).integers(0, 2**40, (2, 60, 3, 2)), dims=("chain", "draw", *release.dims))
    parts = {"posterior": xr.Dataset({"x": x}), "release": release.to_dataset(), "diagnostics": xr.Dataset(attrs=told)}

    def drawn(*_: Any) -> Any:
        tree = xr.DataTree.from_dict(parts)
        tree.attrs["prior"] = "made up"
        return Drawn(None, tree, {}, {})

    def calibrated(args: Any, module: Any, partial: Path) -> xr.DataTree:
        journal = Journal(partial, {"seed": 1})
        for number in range(3):
            journal.add({"number": number, "rank": 7})
        verdict = xr.Dataset(attrs={"message": "made up", "calibrated": 1})
        return xr.DataTree.from_dict({"prior_sbc": xr.Dataset({"x": x}), "verdict": verdict})

    fit._drawn, fit._asked = drawn, lambda model, args: {}
    fit._add_prior_draws = lambda tree, model, seed, stop: True
    fit._model = lambda release, args: (nullcontext(), "made up")
    fit.journal_of = lambda model, args: nullcontext({})
    sampling.diagnosed = lambda run, given, stop, told: run.tree
    calibrate._calibrated = calibrated
    pages.calibration_page = lambda result, title: "page " * 20_000


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # fork in a process with threads of linear algebra
    os.chdir(sys.argv[1])
    os.environ["TMPDIR"] = sys.argv[1]
    square = ("release", "square.csv", "--invariant", "margins:sex", "--invariant", "margins:code", "--mechanism")
    for name, text in (("noisy", NOISY), ("margins", MARGINS), ("table", TABLE), ("square", SQUARE)):
        Path(f"{name}.csv").write_text(text)
    Path("model.py").write_text("def simulate(rng): ...\ndef build_model(release): ...\n")
    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        assert main([*square, "lattice-laplace", "--epsilon", "1", "--seed", "1", "-o", "square.nc"]) == 0
        assert main([*IMPORT, "--simulated", "-o", "release.nc"]) == 0
        sys.stdout = sys.__stdout__
    without_sampling()
    found = {}
    for name, (arguments, output, limit) in COMMANDS.items():
        found[name] = observed(lambda given=arguments: main([*given]), Path(output), limit)
        partial = Path("sbc.nc.partial.jsonl")
        if partial.exists():
            found[name]["again"] = forked(lambda given=arguments: main([*given]))[0]
            found[name]["partial_left"] = partial.exists()
    print(json.dumps(found))
