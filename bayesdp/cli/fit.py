"""``bayesdp fit``: one release or several of one table in, a posterior out."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdp.cli.arguments import add_command, add_output, pairs
from bayesdp.cli.errors import INTERRUPTED, NOT_CONVERGED, banner, say

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

    from bayesdp.release import Release

__all__ = ["add", "run"]

_TEXT = """\
The prior of the counts x is one of three, with hyperparameters given as --hyper NAME=VALUE; or a model of your
own: a Python file (it is run!) with a function build_model(release) that returns a pymc.Model.

Several releases of one table are fitted together: all their noisy and exact parts, the noise of different releases being
independent. Their labels must agree. A build_model of your own gets them as one release.

Ctrl-C stops sampling, and what was drawn is saved.

"""


def add(commands: Any) -> None:
    """Add the subcommand."""
    from bayesdp.priors import PRIORS

    own = add_command(
        commands,
        "fit",
        run,
        title="draw from the posterior of a release, or of several",
        text=_TEXT + "\n\n".join(prior.help() for prior in PRIORS.values()),
        example="bayesdp fit release.nc --prior log-linear --hyper effect_scale=1 --seed 1 -o posterior.nc",
    )
    own.add_argument(
        "release", metavar="RELEASE", nargs="+", help="the release: a .nc file or a folder; several of one table"
    )
    model = own.add_mutually_exclusive_group()
    model.add_argument("--prior", choices=tuple(PRIORS), help="prior of the counts (default: independent)")
    model.add_argument("--model", metavar="FILE.py", help="file with your own build_model(release)")
    own.add_argument(
        "--hyper", action="append", default=[], metavar="NAME=VALUE", help="a hyperparameter; may be repeated"
    )
    own.add_argument("--chains", type=int, default=4, help="number of chains (default: 4)")
    own.add_argument("--draws", type=int, default=1000, help="draws kept from each chain (default: 1000)")
    own.add_argument("--tune", type=int, default=1000, help="draws before them, for tuning (default: 1000)")
    own.add_argument("--seed", type=int, help="seed of the sampler, to repeat a run")
    own.add_argument("--cores", type=int, help="processes (default: one a chain, as many as there are cores)")
    own.add_argument("--quiet", action="store_true", help="no progress bar")
    add_output(own, "the posterior, a .nc file (an ArviZ DataTree)")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from bayesdp._validate import positive_integer
    from bayesdp.cli.files import read_releases
    from bayesdp.storage import check_output

    if Path(args.output).suffix.lower() != ".nc":
        raise ValueError(f"a posterior is written to a .nc file, got {args.output!r}")
    check_output(args.output, overwrite=args.force)
    for option in ("chains", "draws", "tune"):
        positive_integer(getattr(args, option), f"--{option}")
    if args.cores is not None:
        positive_integer(args.cores, "--cores")
    model, prior = _model(read_releases(args.release), args)
    tree, interrupted = _sampled(model, args)
    tree.attrs["command"] = shlex.join(["bayesdp", *args.argv])
    tree.attrs["prior"] = f"{prior}\n\n{tree.attrs['prior']}"
    if not interrupted:
        _add_prior_draws(tree, model, args.seed)
    _save(tree, args)
    posterior = tree["posterior"].to_dataset()
    attrs = tree["diagnostics"].attrs
    print(
        f"{posterior.sizes['chain']} chains of {posterior.sizes['draw']} draws written to {args.output}\n{attrs['message']}"
    )
    if interrupted:
        say("interrupted: only the draws so far were saved")
        return INTERRUPTED
    if not attrs["converged"]:
        banner("NOT CONVERGED. Do not report these results; run longer (--draws, --tune) or look at the model.")
        return NOT_CONVERGED
    return 0


def _model(release: Release, args: argparse.Namespace) -> tuple[pm.Model, str]:
    """The model that was asked for, and its prior in words for the report."""
    if args.model is not None:
        if args.hyper:
            raise ValueError("--hyper is for the default priors; a model of your own has its numbers in its file")
        model = _own_model(args.model, release)
        return model, f"A model of the user's own, {Path(args.model).name}:\n\n{Path(args.model).read_text('utf-8')}"
    from bayesdp.priors import PRIORS, build_model, describe_prior

    prior = args.prior or "independent"
    hyper = PRIORS[prior].parsed(pairs(args.hyper, "--hyper"))
    return build_model(release, prior, **hyper), describe_prior(release, prior, **hyper)


def _own_model(path: str, release: Release) -> pm.Model:
    """Run a user's file and build the model with it."""
    import pymc as pm

    from bayesdp.cli.users_file import function_of, load_file

    build = function_of(load_file(path), path, "build_model", "release")
    model = build(release)
    if not isinstance(model, pm.Model):
        raise TypeError(f"{path}: build_model must return a pymc.Model, got {type(model).__name__}")
    return model


def _sampled(model: pm.Model, args: argparse.Namespace) -> tuple[xr.DataTree, bool]:
    """Draw; the result, and whether Ctrl-C ended it early."""
    from bayesdp.cli.interrupt import StopOnCtrlC
    from bayesdp.inference import sample

    # PyMC's own default counts physical cores only, and runs one chain after the other on many machines.
    cores = args.cores or min(args.chains, os.cpu_count() or 1)
    with StopOnCtrlC() as stop, model, warnings.catch_warnings():
        # NUTS overflows on its first trial steps from a distant start, and rejects them.
        warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
        try:
            tree = sample(
                draws=args.draws,
                tune=args.tune,
                chains=args.chains,
                random_seed=args.seed,
                progressbar=not args.quiet and sys.stderr.isatty(),
                callback=stop,
                cores=cores,
            )
        except ValueError:
            # What PyMC says when no chain got past its tuning.
            if stop.interrupted:
                raise KeyboardInterrupt from None
            raise
    return tree, stop.interrupted


def _add_prior_draws(tree: xr.DataTree, model: pm.Model, seed: int | None) -> None:
    """Draws of the prior and of the noisy values that it leads one to expect, for the report's check."""
    from bayesdp.inference import add_prior_predictive

    if not add_prior_predictive(tree, model, random_seed=seed):
        say("no draws of the prior for the report: the prior is flat, or drawing from it would take long")


def _save(tree: xr.DataTree, args: argparse.Namespace) -> None:
    from bayesdp.storage import replacing

    with replacing(args.output, overwrite=args.force) as temporary:
        tree.to_netcdf(temporary, engine="h5netcdf")
