"""``bayesdp fit``: one release or several of one table in, a posterior out."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdp.cli.arguments import add_command, add_output, pairs
from bayesdp.cli.errors import INTERRUPTED, say
from bayesdp.cli.verdict import status_of

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

Ctrl-C stops sampling, and what was drawn is saved. Afterwards it skips what is computed from the draws.

Draws are written to a file beside the output (.partial) as they come. Whatever ended the run, the same command with --resume
goes on where it was, and with a --seed ends with the same draws as a run that was never stopped. The file is removed when
the posterior is saved in full.

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
    own.add_argument("--quiet", action="store_true", help="no progress bar, or lines where there is no terminal")
    own.add_argument(
        "--no-memory-check", action="store_true", help="go on where the draws need more memory than there is"
    )
    own.add_argument(
        "--resume",
        action="store_true",
        help="go on with the draws of a run that was stopped; begin where there are none",
    )
    add_output(own, "the posterior, a .nc file (an ArviZ DataTree)")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from bayesdp._validate import positive_integer
    from bayesdp.cli.files import read_releases
    from bayesdp.cli.resuming import check_resume, forget

    if Path(args.output).suffix.lower() != ".nc":
        raise ValueError(f"a posterior is written to a .nc file, got {args.output!r}")
    args.overwrite = check_resume(args)
    for option in ("chains", "draws", "tune"):
        positive_integer(getattr(args, option), f"--{option}")
    if args.cores is not None:
        positive_integer(args.cores, "--cores")
    model, prior = _model(read_releases(args.release), args)
    tree = _sampled(model, args)
    interrupted = bool(tree.attrs.get("interrupted", 0))
    tree.attrs["command"] = shlex.join(["bayesdp", *args.argv])
    tree.attrs["prior"] = f"{prior}\n\n{tree.attrs['prior']}"
    if not interrupted:
        _add_prior_draws(tree, model, args.seed)
    _save(tree, args)
    posterior = tree["posterior"].to_dataset()
    message = tree["diagnostics"].attrs["message"]
    print(f"{posterior.sizes['chain']} chains of {posterior.sizes['draw']} draws written to {args.output}\n{message}")
    if interrupted:
        say("interrupted: only the draws so far were saved; with --resume the same command goes on")
        return INTERRUPTED
    forget(args)
    return status_of(tree, "Do not report these results; run longer (--draws, --tune) or look at the model.")


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


def _sampled(model: pm.Model, args: argparse.Namespace) -> xr.DataTree:
    """Draw; Ctrl-C ends it early, and the attribute ``interrupted`` of the result says so."""
    from bayesdp.cli.resuming import kept
    from bayesdp.inference import sample
    from bayesdp.inference.memory import check_memory

    # PyMC's own default counts physical cores only, and runs one chain after the other on many machines.
    cores = args.cores or min(args.chains, os.cpu_count() or 1)
    asked = {"draws": args.draws, "tune": args.tune, "chains": args.chains, "cores": cores}
    if not args.no_memory_check:
        remedy = "Ask for fewer with --draws, --tune (which are held as well) and --chains; --no-memory-check goes on regardless"
        check_memory(model, (), asked, remedy)
    with model, kept(model, args) as journal:
        return sample(**asked, **journal, random_seed=args.seed, progressbar=not args.quiet, memory_check=False)


def _add_prior_draws(tree: xr.DataTree, model: pm.Model, seed: int | None) -> None:
    """Draws of the prior and of the noisy values that it leads one to expect, for the report's check.

    They are an addition: whatever becomes of them, the posterior is saved.
    """
    from bayesdp.inference import add_prior_predictive

    try:
        if not add_prior_predictive(tree, model, random_seed=seed):
            say("no draws of the prior for the report: the prior is flat, or drawing from it would take long")
    except KeyboardInterrupt:
        say("interrupted: no draws of the prior for the report; those of the posterior are saved")
    except Exception as error:  # a model of the user's own may have no way to draw
        told = " ".join(str(error).split()) or type(error).__name__
        say(f"no draws of the prior for the report: {told}")


def _save(tree: xr.DataTree, args: argparse.Namespace) -> None:
    from bayesdp.storage import write_draws

    write_draws(tree, args.output, overwrite=args.overwrite)
