"""``bayesdp fit``: one release, several of one table, or two of two times (``--change``) in, a posterior out.

The draws, with the states of the chains, from which a fit goes on are beside the output, under another name when it has ended.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdp.cli.arguments import add_command, add_output, add_repeatable, check_output_file, pairs
from bayesdp.cli.errors import ADVICE, announce, interrupt_status, log_safely, say, status_of
from bayesdp.cli.files import warn_of_open_caches

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

    from bayesdp.inference.interrupt import StopOnCtrlC
    from bayesdp.inference.sampling import Drawn
    from bayesdp.release import Release

_TEXT = """\
The prior of the counts x is one of those below ({priors}), with
hyperparameters given as --hyper NAME=VALUE; or a model of your own: a Python file (it is run!) with a function
build_model(release) that returns a pymc.Model.

With --change the releases are two, of tables with the same cells at two times: the counts before and after are drawn jointly, under
the last prior below. What has changed is then said by
`bayesdp summary both.nc --var after --sum total --by county --change table:before`.

Several releases of one table are fitted together, as one table at one time: all their noisy and exact parts, the noise of
different releases being independent. Their labels must agree. Where answers that two of them give differ by more than their laws
explain, they are refused. A build_model of your own gets them as one release.

Ctrl-C ends sampling after the draw that is being made, pressed again in the middle of it, and what was drawn is saved; so do
SIGTERM and a closed terminal (unless run by nohup). When the draws have been made it skips what is computed from them.

Draws are written to a folder beside the output (.partial) as they come. Whatever ended the run, the same command with --resume
goes on where it was, and with a --seed ends with the same draws as a run that was never stopped. When the posterior is
saved in full the folder gets another name (.chains), from which --resume with a larger --draws goes on. Remove it when the posterior
is what you want.

"""


def add(commands: Any) -> None:
    """Add the subcommand."""
    from bayesdp.priors import CHANGE, PRIORS

    command = add_command(
        commands,
        "fit",
        run,
        title="draw from the posterior of a release, or of several",
        text=_TEXT.format(priors=", ".join(PRIORS)) + "\n\n".join(prior.help() for prior in (*PRIORS.values(), CHANGE)),
        example="bayesdp fit release.nc --prior log-linear --hyper effect_scale=1 --seed 1 -o posterior.nc",
    )
    files = "the release: a .nc file, or a .csv file with noise.json; several of one table"
    command.add_argument("release", metavar="RELEASE", nargs="+", help=files)
    model = command.add_mutually_exclusive_group()
    model.add_argument("--prior", choices=tuple(PRIORS), help="prior of the counts (default: independent)")
    model.add_argument("--model", metavar="FILE.py", help="file with your own build_model(release)")
    model.add_argument("--change", action="store_true", help="two releases, of the same cells at two times")
    add_repeatable(command, "--hyper", "NAME=VALUE", "a hyperparameter")
    command.add_argument("--chains", type=int, default=4, help="number of chains (default: 4)")
    command.add_argument("--draws", type=int, default=1000, help="draws kept from each chain (default: 1000)")
    command.add_argument("--tune", type=int, default=1000, help="draws before them, for tuning (default: 1000)")
    command.add_argument("--seed", type=int, help="seed of the sampler, to repeat a run")
    command.add_argument("--cores", type=int, help="processes (default: one a chain, as many as there are cores)")
    command.add_argument("--quiet", action="store_true", help="no progress bar, or lines where there is no terminal")
    command.add_argument("--no-memory-check", action="store_true", help="go on even if the draws need too much memory")
    resumed = "go on with the draws of a run that was stopped, or has ended with fewer --draws; or begin, without any"
    by_cell = "compute each cell by itself, without chains, --tune and --cores: for the prior independent, noisy cells, nothing exact"
    command.add_argument("--cell-by-cell", action="store_true", help=by_cell)
    command.add_argument("--resume", action="store_true", help=resumed)
    add_output(command, "the posterior, a .nc file (an ArviZ DataTree)")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    import arviz_base  # noqa: F401  # for PyMC in the end: in it `lazy_loader` looks through all modules, of which there are few now

    from bayesdp._validate import positive_integer
    from bayesdp.cli.files import read_releases
    from bayesdp.inference.interrupt import StopOnCtrlC
    from bayesdp.inference.memory import check_memory

    args.partial = Path(f"{args.output}.partial")  # where the draws are written as they come
    args.ended = Path(f"{args.output}.chains")  # where they are when the posterior is saved in full
    args.overwrite = check_resume(args)
    for option in ("chains", "draws", "tune"):
        positive_integer(getattr(args, option), f"--{option}")
    if args.cores is not None:
        positive_integer(args.cores, "--cores")
    if args.cell_by_cell and (why := _not_by_cell(args)):
        raise ValueError(f"--cell-by-cell: {why}")
    if args.change and len(args.release) != 2:
        raise ValueError(f"--change takes two releases, before and after, and {len(args.release)} were given")
    release = None if args.change else read_releases(args.release)
    log_safely()
    warn_of_open_caches("fit")
    if args.cell_by_cell:
        return _by_cell(release, args)
    model, prior = _of_two_times(args) if release is None else _model(release, args)
    if not args.no_memory_check:
        try:
            check_memory(model, {"draws": args.draws, "tune": args.tune, "chains": args.chains}, "")
        except MemoryError as error:
            return _by_cell(release, args, str(error).strip())
    with model, StopOnCtrlC() as stop:
        return _saved(model, prior, args, stop)


def _saved(model: pm.Model, prior: str, args: argparse.Namespace, stop: StopOnCtrlC) -> int:
    """Draw and save; then add what is computed from the draws, and save again. In `stop` nothing but sampling is broken off."""
    from bayesdp.inference.sampling import diagnosed
    from bayesdp.posterior import PosteriorModel
    from bayesdp.storage import write_draws, write_draws_somewhere

    asked = _asked(model, args)
    with journal_of(model, args) as journal:
        run = _drawn(model, asked, stop, journal, args)
    tree, goes_on = run.tree, f"; {_GOES_ON}" if journal else ""
    tree.attrs["command"] = shlex.join(["bayesdp", *args.argv])
    tree.attrs["prior"] = f"{prior}\n\n{tree.attrs['prior']}"
    try:
        write_draws_somewhere(tree, args.output, overwrite=args.overwrite)
    except OSError:
        if holds_some(args.partial):
            say(f"the draws so far are in {args.partial}: {_GOES_ON}")
        raise
    try:
        diagnosed(run, asked, stop, told=False)
        prior_left_out = not stop.interrupted and not _add_prior_draws(tree, model, args.seed, stop)
        if tree["diagnostics"].data_vars or not stop.interrupted:
            write_draws(tree, args.output, overwrite=True)
    except BaseException:
        say(f"{args.output} has the draws, and nothing that is computed from them{goes_on}")
        raise
    drawn = PosteriorModel(tree)
    chains, draws = (drawn.variables.sizes[dim] for dim in ("chain", "draw"))
    announce(args.output, f"{chains} chains of {draws} draws written to {args.output}\n{drawn.message}")
    if stop.interrupted:
        say(f"interrupted: only the draws so far were saved{goes_on}")
        return interrupt_status()
    kept = put_away(args)
    if stop.pressed:
        missing = {
            "limits of the cells": run.fixed is None,
            "diagnostics": not tree["diagnostics"].data_vars,
            "draws of the prior": prior_left_out,
        }
        left_out = ", ".join(what for what, so in missing.items() if so)
        say(f"interrupted: all draws were saved; left out: {left_out or 'nothing'}")
        return interrupt_status()
    if not kept:
        return status_of(drawn, ADVICE)
    needed = float(drawn.diagnostics.get("draws_needed", 0.0))
    more = f"--draws {f'{needed:.0f}' if needed > args.draws else 'MORE'} --resume"
    return status_of(drawn, f"The same command with {more} goes on with these chains. {ADVICE}")


def _drawn(
    model: pm.Model, asked: Mapping[str, Any], stop: StopOnCtrlC, journal: Mapping[str, Any], args: argparse.Namespace
) -> Drawn:
    """Draw; if something fails afterwards, as for want of memory, save the draws, unless it is they that are wrong."""
    from bayesdp.inference.sampling import drawn
    from bayesdp.storage import write_draws_somewhere

    try:
        return drawn(model, asked, stop, **journal)
    except Exception as error:
        if hasattr(error, "draws") and not isinstance(error, ValueError):
            write_draws_somewhere(error.draws, args.output, overwrite=args.overwrite)
            say(f"{args.output} has the draws, and nothing that is computed from them")
        raise


def _of_two_times(args: argparse.Namespace) -> tuple[pm.Model, str]:
    """The model of two tables, and its prior in words for the report."""
    from bayesdp.cli.files import check_distinct, read_release
    from bayesdp.priors import CHANGE, build_change, describe_change

    check_distinct(args.release)
    before, after = map(read_release, args.release)
    hyper = CHANGE.parsed(pairs(args.hyper, "--hyper"))
    return build_change(before, after, **hyper), describe_change(before, after, **hyper)


def _model(release: Release, args: argparse.Namespace) -> tuple[pm.Model, str]:
    """The model that was asked for, and its prior in words for the report."""
    import pymc as pm

    from bayesdp.cli.files import function_of, load_file, need_counts
    from bayesdp.priors import PRIORS, build_model, describe_prior

    if args.model is None:
        need_counts(
            release,
            "give a model of your own with --model, in which bayesdp.observe(release, statistic) takes the statistic",
        )
        prior = args.prior or "independent"
        hyper = PRIORS[prior].parsed(pairs(args.hyper, "--hyper"))
        return build_model(release, prior, **hyper), describe_prior(release, prior, **hyper)
    if args.hyper:
        raise ValueError("--hyper is for the default priors; a model of your own has its numbers in its file")
    model = function_of(load_file(args.model), args.model, "build_model", "release")(release)
    if not isinstance(model, pm.Model):
        raise TypeError(f"{args.model}: build_model must return a pymc.Model, got {type(model).__name__}")
    return model, f"A model of the user's own, {Path(args.model).name}:\n\n{Path(args.model).read_text('utf-8')}"


def _not_by_cell(args: argparse.Namespace) -> str:
    """Which option no posterior cell by cell goes with, in words; else empty."""
    other = "--change" if args.change else "--model" if args.model else f"--prior {args.prior}"
    if other not in ("--prior None", "--prior independent"):
        return f"only the prior 'independent' has a posterior cell by cell, and {other} was given"
    return "a posterior cell by cell is computed anew, in seconds: leave out --resume" if args.resume else ""


def _by_cell(release: Release | None, args: argparse.Namespace, short: str = "") -> int:
    """Compute the posterior cell by cell and save it: as was asked for, or where draws do not fit into memory (`short`)."""
    from bayesdp.hierarchies.priors import FixedNegativeBinomial
    from bayesdp.inference import remove_journal
    from bayesdp.inference.memory import LARGE_TABLES
    from bayesdp.posterior import totals_of
    from bayesdp.priors import PRIORS, describe_prior, published_mean
    from bayesdp.storage import write_draws
    from bayesdp.streaming import fit_cells

    try:
        if (why := _not_by_cell(args)) or release is None:
            raise ValueError(f"{why}. {LARGE_TABLES}")
        hyper = PRIORS["independent"].parsed(pairs(args.hyper, "--hyper"))
        known = PRIORS["independent"].checked(hyper)
        mean = published_mean(release) if known["mean"] is None else known["mean"]
        prior, totals = FixedNegativeBinomial(mean, known["shape"]), totals_of(release.frame, ())
        sizes = {"draws": args.draws, "random_seed": args.seed, "memory_check": not args.no_memory_check}
        tree = fit_cells(release, prior, record=totals, **sizes)
    except ValueError as error:
        if not short:
            raise
        less = "Ask for fewer with --draws, --tune (which are held as well) and --chains; --no-memory-check goes on regardless"
        raise MemoryError(f"{short} {less}. {error}") from error
    tree.attrs["command"] = shlex.join(["bayesdp", *args.argv])
    tree.attrs["prior"] = describe_prior(release, "independent", **hyper)
    write_draws(tree, args.output, overwrite=args.overwrite)
    if args.force:
        remove_journal(args.partial)
    said = f"{short} So nothing was sampled.\n" if short else ""
    told = f"{args.draws} independent draws of {len(totals)} totals and margins, and the posterior of each cell, written to"
    announce(args.output, f"{said}{told} {args.output}\n{tree['diagnostics'].attrs['message']}")
    return 0


def _asked(model: pm.Model, args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of the sampler."""
    from bayesdp.inference.sampling import prepared

    # PyMC's own default counts physical cores only, and runs one chain after the other on many machines.
    cores = args.cores or min(args.chains, os.cpu_count() or 1)
    sizes = {"draws": args.draws, "tune": args.tune, "chains": args.chains, "cores": cores}
    seed = {} if args.seed is None else {"random_seed": args.seed}
    return prepared(model, sizes | seed | {"progressbar": not args.quiet, "quiet": False})


def _add_prior_draws(tree: xr.DataTree, model: pm.Model, seed: int | None, stop: StopOnCtrlC) -> bool:
    """Draws of the prior and of the noisy values that it leads one to expect, for the report's check; False if Ctrl-C came."""
    # They are an addition: whatever becomes of them, the posterior is saved.
    from bayesdp.inference import add_prior_predictive

    reason = "the prior is flat, or drawing from it would take long"
    had: bool | None = False
    try:
        had = stop.optional(lambda: add_prior_predictive(tree, model, random_seed=seed))
        if had is None:
            return False
    except Exception as error:  # a model of the user's own may have no way to draw
        reason = " ".join(str(error).split()) or type(error).__name__
    if not had:
        say(f"no draws of the prior for the report: {reason}")
    return True


def holds_some(path: Path) -> bool:
    """Whether there are draws to go on from."""
    from bayesdp.inference import holds_draws

    try:
        return holds_draws(path)
    except (OSError, ValueError):
        return False


def check_resume(args: argparse.Namespace) -> bool:
    """Check, before any work, that the output may be written, and that no draws of an earlier run get lost.

    Returns whether a file that is there is to be replaced: by --force, or as what an interrupted run has saved.
    """
    from bayesdp.inference import holds_draws

    if args.resume and args.force:
        raise ValueError(
            "--resume goes on with the draws of a run that was stopped, --force begins anew: give one of them"
        )
    goes_on = args.resume and os.path.lexists(args.output)
    replaced = bool(args.force or goes_on)
    check_output_file(args.output, (".nc",), "a posterior is written to a .nc file", force=True)
    held = holds_draws(args.partial)
    if held and not (args.resume or args.force):
        raise FileExistsError(
            f"{str(args.partial)!r} has draws of a run that did not end: --resume goes on with them, --force removes them and begins "
            "anew"
        )
    if goes_on:
        _check_interrupted(args, held)
    check_output_file(args.output, (".nc",), "a posterior is written to a .nc file", force=replaced)
    return replaced


def _check_interrupted(args: argparse.Namespace, held: bool) -> None:
    """What --resume replaces has fewer draws than it is asked for, and the chains are all still there."""
    from bayesdp.cli.files import read_posterior

    if not held and not holds_some(args.ended):
        raise FileExistsError(
            f"{args.output!r} exists already, with no draws to go on from ({str(args.ended)!r} is missing or empty): "
            "nothing is left to do, or --force begins anew"
        )
    tree, _ = read_posterior(args.output)
    draws = tree["posterior"].sizes["draw"]
    # Draws alone are there when the run was ended, or the disk was full, before the rest was saved.
    if not int(tree.attrs.get("interrupted", 0)) and tree["diagnostics"].data_vars and args.draws <= draws:
        raise FileExistsError(
            f"{args.output!r} exists already and is of a run that ended, with {draws:,} draws of each chain: --resume goes on with "
            f"more, and --draws is {args.draws:,}; or name another output"
        )


@contextmanager
def journal_of(model: pm.Model, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Arguments of `bayesdp.sample` that have draws written as they come."""
    # Where draws are left when something ends the run, that is said; a folder that has none is removed.
    from bayesdp.inference import remove_journal, tells_of_draws

    own = args.partial
    if args.force and remove_journal(own):
        say(f"--force: draws of a run that did not end were removed ({own})")
    if not tells_of_draws(model):
        if args.resume:
            raise ValueError(
                "this model is sampled by nutpie, which does not tell of its draws before it ends: there is nothing that "
                "--resume could go on from; leave it out"
            )
        if not args.quiet:
            say("this model is sampled by nutpie: draws are saved at the end only, and --resume cannot go on with them")
        yield {}
        return
    again = args.resume and not holds_some(own) and holds_some(args.ended) and os.path.lexists(args.output)
    if again:
        remove_journal(own)  # an empty one
        args.ended.replace(own)
    try:
        yield {"journal": own, "resume": args.resume}
    except BaseException as error:
        if again and isinstance(error, ValueError):  # of another run: nothing was added
            own.replace(args.ended)
        elif not holds_some(own):
            with suppress(OSError, ValueError):  # it is not ours
                remove_journal(own)
        elif isinstance(error, KeyboardInterrupt):
            say(f"the draws so far are in {own}: {_GOES_ON}")
        raise


_GOES_ON = "with --resume the same command goes on"


def put_away(args: argparse.Namespace) -> bool:
    """Give the draws their other name, now that the posterior is saved in full; whether there are any."""
    from bayesdp.inference import remove_journal

    try:
        remove_journal(args.ended)
        if holds_some(args.partial):
            args.partial.replace(args.ended)
            return True
        remove_journal(args.partial)
    except (OSError, ValueError) as error:
        say(f"the posterior is saved; {args.partial} is not needed for it, and could not be renamed: {error}")
    return False
