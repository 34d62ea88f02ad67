"""Sampling in two steps, so that what was drawn can be saved before anything else is done with it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr
from pymc.stats.convergence import log_warnings, warn_divergences, warn_treedepth

from bayesdp.hierarchies.modes import TiedGroups
from bayesdp.inference.annotating import Tables, take_ends
from bayesdp.inference.carrying import carried, note_run
from bayesdp.inference.diagnostics import diagnose, not_diagnosed
from bayesdp.inference.held import what_holds
from bayesdp.inference.interrupt import StopOnCtrlC
from bayesdp.inference.runs.journal import DrawJournal
from bayesdp.inference.runs.running import diagnostics_lines, sampled
from bayesdp.steps.slow_forms import slow_rates_told

_log = logging.getLogger("bayesdp.inference.sampling")

_A_MOMENT = 2_000_000
"""Numbers whose diagnostics take about half a second."""


@dataclass(frozen=True)
class Drawn:
    """The draws of a model.

    Attributes
    ----------
    model : pymc.Model
    tree : xarray.DataTree
        Draws, releases, limits of the cells, and in the place of diagnostics the reason why there are none yet: all that a
        file needs.
    fixed : dict or None
        For each table, which cells have one possible value, or are at rest; None if Ctrl-C interrupted working that out.
    tied : dict
        For tables that were moved as hierarchies, the groups of which chains began at different ends.
    """

    model: pm.Model
    tree: xr.DataTree
    fixed: dict[str, npt.NDArray[np.bool_]] | None
    tied: dict[str, TiedGroups] = field(default_factory=dict)


def drawn(
    model: pm.Model,
    given: Mapping[str, Any],
    stop: StopOnCtrlC,
    journal: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
) -> Drawn:
    """Sample a model, and add its releases and the limits of its cells to the draws.

    Parameters
    ----------
    given : mapping
        Arguments of ``pm.sample``.
    stop : StopOnCtrlC
        The context that this is called in.
    journal, resume
        See `bayesdp.sample`.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C was pressed before there were draws to keep.
    ValueError
        If a draw of the counts does not agree with the exact answers.
    """
    with nullcontext() if journal is None else DrawJournal(journal, model, given, resume=resume) as kept:
        if kept is not None and not given.get("quiet", False):
            kept.say()
        with slow_rates_told():  # by `prepared`, which comes before
            tree = sampled(model, (), given, stop, kept)
    note_run(tree, resumed=0 if kept is None else kept.resumed, interrupted=stop.interrupted)
    known: list[tuple[dict[str, npt.NDArray[np.bool_]], dict[str, TiedGroups]]] = []
    with carried(tree):
        tables = Tables.of(model)
        tables.add_releases(tree, model, given.get("random_seed"), "")
        ends = take_ends(tree)
        # This usually takes a moment: it is done after a Ctrl-C that has ended sampling, and skipped at a later one.
        stop.optional(lambda: known.append(tables.add_limits(tree, model, ends)))
        reason = "sampling was interrupted" if stop.interrupted else "the run ended before the diagnostics"
        tree["diagnostics"] = xr.DataTree(not_diagnosed(reason))
    return Drawn(model, tree, *known[0]) if known else Drawn(model, tree, None)


def diagnosed(run: Drawn, given: Mapping[str, Any], stop: StopOnCtrlC, *, told: bool = True) -> xr.DataTree:
    """Add the diagnostics, and log their message if `told`; none after Ctrl-C, and only quick ones after an interrupted run."""
    # `given`, `stop`: see `drawn`.
    tree, fixed, tied, quiet = run.tree, run.fixed, run.tied, given.get("quiet", False)
    lines = diagnostics_lines() if given.get("progressbar", True) and not quiet else None
    posterior = tree["posterior"].to_dataset()
    small = sum(variable.size for variable in posterior.data_vars.values()) <= _A_MOMENT

    found: list[xr.Dataset] = []
    with carried(tree):
        if fixed is not None and (small or not stop.interrupted):
            known = fixed
            stop.optional(lambda: found.append(diagnose(posterior, known, lines, tied, partial(what_holds, run.model))))
        if found:
            tree["diagnostics"] = xr.DataTree(found[0])
        elif not stop.interrupted:
            tree["diagnostics"] = xr.DataTree(not_diagnosed("the diagnostics were interrupted"))
    if not quiet:
        log_warnings([*warn_divergences(tree), *warn_treedepth(tree)])
    return tell_verdict(tree, quiet=quiet or not told)


def tell_verdict(tree: xr.DataTree, *, quiet: bool) -> xr.DataTree:
    """Log the message of the diagnostics, unless the chains converged; the tree."""
    if not (quiet or tree["diagnostics"].attrs["converged"]):
        _log.warning(tree["diagnostics"].attrs["message"])
    return tree
