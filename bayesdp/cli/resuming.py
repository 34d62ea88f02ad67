"""The draws of a fit with the states of its chains, from which it goes on: beside the output, under another name when it has ended."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdp.cli.errors import say

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["check_resume", "kept", "partial", "put_away"]

ENDED = "chains"


def partial(args: argparse.Namespace, ending: str = "partial") -> Path:
    """Where the draws are written as they come; with the ending `ENDED`, where they are when the posterior is saved in full."""
    return Path(f"{args.output}.{ending}")


def check_resume(args: argparse.Namespace) -> bool:
    """Check, before any work, that the output may be written, and that no draws of an earlier run get lost."""
    # Returns whether a file that is there is to be replaced: by --force, or as what an interrupted run has saved.
    from bayesdp.inference import holds_draws
    from bayesdp.storage import check_output

    if args.resume and args.force:
        raise ValueError(
            "--resume goes on with the draws of a run that was stopped, --force begins anew: give one of them"
        )
    own = partial(args)
    held = holds_draws(own)
    if held and not (args.resume or args.force):
        raise FileExistsError(
            f"{str(own)!r} has draws of a run that did not end: --resume goes on with them, --force removes them and begins anew"
        )
    replaced = bool(args.force)
    if args.resume and os.path.lexists(args.output):
        _check_interrupted(args, held)
        replaced = True
    check_output(args.output, overwrite=replaced)
    return replaced


def _check_interrupted(args: argparse.Namespace, held: bool) -> None:
    """What --resume replaces has fewer draws than it is asked for, and the chains are all still there."""
    from bayesdp.cli.files import read_posterior

    if not held and not holds_some(partial(args, ENDED)):
        raise FileExistsError(
            f"{args.output!r} exists already, with no draws to go on from ({str(partial(args, ENDED))!r} is missing or empty): "
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
def kept(model: pm.Model, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Arguments of `bayesdp.sample` that have draws written as they come.

    Where draws are left when something ends the run, that is said; a file that has none is removed.
    """
    from bayesdp.inference import remove_journal, tells_of_draws

    own = partial(args)
    if args.force and remove_journal(own):
        say(f"--force: draws of a run that did not end were removed ({own})")
    ended = args.resume and not holds_some(own) and holds_some(partial(args, ENDED)) and os.path.lexists(args.output)
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
    if ended:
        partial(args, ENDED).replace(own)
    try:
        yield {"journal": own, "resume": args.resume}
    except BaseException as error:
        if ended and isinstance(error, ValueError):  # of another run: nothing was added
            own.replace(partial(args, ENDED))
        elif holds_some(own):
            if isinstance(error, KeyboardInterrupt):
                say_kept(own)
        else:
            with suppress(OSError, ValueError):  # it is not ours
                remove_journal(own)
        raise


def say_kept(path: Path) -> None:
    """Say where the draws are that a run can go on from."""
    say(f"the draws so far are in {path}: with --resume the same command goes on")


def holds_some(path: Path) -> bool:
    """Whether there are draws to go on from."""
    from bayesdp.inference import holds_draws

    try:
        return holds_draws(path)
    except (OSError, ValueError):
        return False


def put_away(args: argparse.Namespace) -> bool:
    """Give the draws their other name, now that the posterior is saved in full; whether there are any."""
    from bayesdp.inference import remove_journal

    try:
        remove_journal(partial(args, ENDED))
        if holds_some(partial(args)):
            partial(args).replace(partial(args, ENDED))
            return True
        remove_journal(partial(args))
    except (OSError, ValueError) as error:
        say(f"the posterior is saved; {partial(args)} is not needed for it, and could not be renamed: {error}")
    return False
