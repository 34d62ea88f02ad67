"""``bayesdp calibrate``: a user's own model in, evidence that its posteriors are right out."""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdp._interrupts import deferred
from bayesdp.cli.arguments import add_command, add_output, check_output_file
from bayesdp.cli.errors import NOT_CALIBRATED, announce, banner, interrupt_status, log_safely, say
from bayesdp.cli.files import warn_of_open_caches

if TYPE_CHECKING:
    import xarray as xr

_TEXT = """\
MODEL.py is a Python file of your own. IT IS RUN, here and in every worker: use no file that you do not trust.
It defines

  simulate(rng)           draws parameters and a table from the model's prior, releases the table, and returns
                          ({name: value, ...}, release), with all free variables of the model by name
  build_model(release)    returns a pymc.Model

and, if it likes,

  quantities              what is tested: names, or a dictionary from names to functions of (values, release)
  also                    functions of (values, release) beside quantities, or beside all variables: a dictionary by name
  calibration_model(release)
                          instead of build_model, where that has a prior that depends on the release: nothing can be
                          drawn from such a prior, so that simulate needs one with fixed numbers
  update(release)         for releases that bdp.observe did not put into the model: new values of its pm.Data

Each simulation is fitted, and the true values are ranked among the posterior's draws. Results are written as they come to
a file beside the output (.partial.jsonl). Ctrl-C or SIGTERM stops; the same command goes on where the last one was."""


_MOST = {"n": 10**8, "workers": 4096, "draws": 10**8, "tune": 10**8}
"""More is a slip of the pen that nobody would see the end of."""


def add(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "calibrate",
        run,
        title="check by simulation that a model's posteriors are right",
        text=_TEXT,
        example="bayesdp calibrate models/delinquent_children.py --n 200 --workers 2 -o sbc.nc --report sbc.html",
    )
    command.add_argument("model", metavar="MODEL.py", help="your file; it is run")
    command.add_argument("--n", type=int, default=200, help="number of simulations (default: 200)")
    command.add_argument("--workers", type=int, default=1, help="local processes (default: 1)")
    command.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask scheduler (extra `cluster`) to run on")
    command.add_argument("--seed", type=int, default=1, help="the same seed gives the same ranks (default: 1)")
    command.add_argument("--draws", type=int, default=200, help="draws of each fit (default: 200)")
    command.add_argument("--tune", type=int, default=200, help="draws before them, for tuning (default: 200)")
    command.add_argument("--target-accept", type=float, help="of NUTS (default: PyMC's)")
    command.add_argument("--false-alarm", type=float, default=0.01, help="its chance for a right model (default: 0.01)")
    command.add_argument("--report", metavar="FILE.html", help="also write a report with pictures")
    command.add_argument("--quiet", action="store_true", help="no lines that say how far it is")
    add_output(command, "the ranks and the verdict, a .nc file")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from bayesdp._validate import nonnegative_integer, positive_integer, probability
    from bayesdp.cli.files import function_of, load_file
    from bayesdp.report import calibration_report
    from bayesdp.storage import netcdf_image, write_bytes

    check_output_file(args.output, (".nc",), "the result is written to a .nc file", force=args.force)
    if args.report is not None:
        check_output_file(args.report, (".html", ".htm"), "a report is written to an .html file", force=args.force)
    for option in ("n", "workers", "draws", "tune"):
        if positive_integer(getattr(args, option), f"--{option}") > _MOST[option]:
            raise ValueError(f"--{option} must be at most {_MOST[option]}")
    nonnegative_integer(args.seed, "--seed")
    probability(0.5 if args.target_accept is None else args.target_accept, "--target-accept")
    probability(args.false_alarm, "--false-alarm")
    if args.scheduler is not None and args.workers > 1:
        raise ValueError("give either --workers, local processes, or --scheduler, a cluster, not both")

    say(f"running the code in {args.model}")
    module = load_file(args.model)
    log_safely()
    warn_of_open_caches("calibrate")
    for name, arguments in (("simulate", "rng"), ("build_model", "release")):
        function_of(module, args.model, name, arguments)
    partial = Path(f"{args.output}.partial.jsonl")
    saved = False
    try:
        result = _calibrated(args, module, partial)
        with deferred():
            with _or_told(f"the simulations are in {partial}, and the same command goes on from there"):
                result.attrs["command"] = shlex.join(["bayesdp", *args.argv])
                write_bytes(args.output, netcdf_image(result), overwrite=args.force)
            saved = True
            if args.report is not None:
                title = f"Calibration of {Path(args.model).name}"
                with _or_told(
                    f"{args.output} is written, and the same command with --force writes the report from {partial}"
                ):
                    calibration_report(result, args.report, title=title, overwrite=args.force)
            partial.unlink()
    except KeyboardInterrupt:
        if saved or not partial.exists():
            raise
        done = max(0, partial.read_bytes().count(b"\n") - 1)
        say(f"interrupted: {done} of {args.n} simulations are in {partial}; the same command goes on from there")
        return interrupt_status()
    verdict = result["verdict"].attrs
    announce(args.output, f"{args.n} simulations written to {args.output}\n{verdict['message']}")
    if args.report is not None:
        announce(args.report, f"report written to {args.report}")
    if not verdict["calibrated"]:
        banner("NOT CALIBRATED. Do not trust the posteriors of this model with this sampler.")
        return NOT_CALIBRATED
    return 0


@contextmanager
def _or_told(what: str) -> Iterator[None]:
    """Say at an error of the system what is kept."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{error}; {what}") from error


def _calibrated(args: argparse.Namespace, module: Any, partial: Path) -> xr.DataTree:
    import cloudpickle

    from bayesdp.calibration import sbc

    cloudpickle.register_pickle_by_value(module)  # workers have no module of this name
    sampler = {} if args.target_accept is None else {"target_accept": args.target_accept}
    return sbc(
        module.simulate,
        getattr(module, "calibration_model", module.build_model),
        getattr(module, "quantities", None),
        n=args.n,
        seed=args.seed,
        also=getattr(module, "also", None),
        client=args.scheduler,
        workers=args.workers,
        update=getattr(module, "update", None),
        path=partial,
        false_alarm=args.false_alarm,
        progressbar=not args.quiet and sys.stderr.isatty(),
        identity=f"{Path(args.model).name}, SHA-256 {hashlib.sha256(Path(args.model).read_bytes()).hexdigest()}",
        draws=args.draws,
        tune=args.tune,
        **sampler,
    )
