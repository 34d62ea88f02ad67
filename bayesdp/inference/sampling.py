"""Sample a model, in two stages, so that what was drawn can be saved before releases and diagnostics are put beside it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import pymc as pm
import xarray as xr
from pymc.stats.convergence import log_warnings, warn_divergences, warn_treedepth

from bayesdp._arrays import Mask
from bayesdp._numba import dispensable_caches
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV
from bayesdp.hierarchies.modes import TiedGroups
from bayesdp.inference.annotating import Tables, annotate, take_ends, what_holds
from bayesdp.inference.diagnostics import diagnose, not_diagnosed
from bayesdp.inference.interrupt import StopOnCtrlC, attach_draws, note_run
from bayesdp.inference.memory import check_memory
from bayesdp.inference.runs.journal import DrawJournal
from bayesdp.inference.runs.running import diagnostics_lines, sampled
from bayesdp.steps import FiberGibbs

__all__ = ["annotate", "prepared", "sample"]

_log = logging.getLogger(__name__)

_A_MOMENT = 2_000_000
"""Numbers whose diagnostics take about half a second."""


def sample(
    draws: int = 1000,
    *,
    tune: int | None = None,
    chains: int | None = None,
    cores: int | None = None,
    random_seed: Any = None,
    progressbar: Any = True,
    quiet: bool = False,
    step: Any = None,
    initvals: Any = None,
    nuts_sampler: str | None = None,
    memory_check: bool = True,
    journal: str | os.PathLike[str] | None = None,
    resume: bool = False,
    model: pm.Model | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    """Sample the posterior: ``pm.sample`` with the release, its guarantee and diagnostics in the result.

    Parameters
    ----------
    draws : int
        Draws to keep, a chain.
    tune : int, optional
        Draws before them, in which steps adapt; PyMC's own default (1000) if left out.
    chains : int, optional
        At least two tell whether they agree. PyMC's default: as many as `cores`, at least two.
    cores : int, optional
        Processes; PyMC's default is at most four.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Makes a run repeatable (on one platform and start method of processes).
    progressbar : bool or str
        Where standard error is no terminal, a line now and then instead of a bar, unless `quiet`.
    quiet : bool
        No messages and no warnings about convergence or slow forms; the result's ``diagnostics`` have them.
    step : step method or list of them, optional
        For variables other than the counts, which `FiberGibbs` is assigned to by itself.
    initvals : dict or list of dict, optional
        Starts, one for all chains or one a chain. Counts that do not agree with the exact answers are moved to where they do.
    nuts_sampler : str, optional
        As for ``pm.sample``; no other than PyMC's own samples counts.
    memory_check : bool
        Refuse before sampling what needs more memory than there is.
    journal : path, optional
        A folder to which draws are written as they come, with the state of the sampler; made if there is none. Whatever ends the
        process, the same call with ``resume=True`` goes on from there: with a seed, on the same machine, it gives the draws that it
        would have given. The folder stays until you remove it. If the disk is full, sampling goes on with a warning, and the draws
        in it end there. Not for nutpie, and not for `trace`.
    resume : bool
        Go on with the draws in `journal`; begin where there are none. They must be of the same model, numbers, options, seed
        and versions; processes may be more or fewer. `draws` may be more than then: a run that has ended goes on, without tuning
        again, with the draws that it would have given if it had been asked for so many.
    model : pymc.Model, optional
        The current model if left out.
    **kwargs
        As for ``pm.sample``; ``fiber_gibbs={"sweeps": 4}`` are options of the step method of the counts.

    Returns
    -------
    xarray.DataTree
        The groups of ``pm.sample`` and, for the (first) release of the model, ``release``, ``guarantee`` (where the
        mechanism is known), ``fiber`` (limits of each cell, which cells are determined, connectivity of the moves) and
        ``diagnostics``.

        Ctrl-C ends sampling after the draw that is being made, in all chains, pressed again in the middle of it, and what was
        drawn is returned, with the attribute ``interrupted``; diagnostics are then computed only where that takes a moment.
        (Before the first draw it is an interrupt like any other.) Ctrl-C after the last draw leaves out what is being computed
        from the draws. If anything fails after sampling, the draws are in the attribute ``draws`` of the error
        (``sys.last_exc.draws`` in an interactive session). A run that went on has the attribute ``resumed``: how often.

    Raises
    ------
    MemoryError
        If the draws need more memory than there is; it says how much, and what to record instead.
    FileExistsError
        If `journal` has draws, and `resume` is False.
    BlockingIOError
        If another process is writing to `journal`.
    ValueError
        If `journal` is of another run, which is said with both sides, or a step method's state cannot be written.
        If a step method that cannot move on a fiber is forced on the counts, or whole numbers in the model's data are none.

    Warns
    -----
    UserWarning
        If nothing was observed of a table, or `pm.set_data` has replaced numbers of a release; unless `quiet`, if each of more than
        50 cells has a gamma rate of its own, which could be integrated out.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> county = {"county": ["Alpha", "Beta"]}
    >>> measured = bdp.Measured(bdp.Identity(county), [30, 80], bdp.noise.DiscreteGaussian(sigma=5.0))
    >>> release = bdp.Release.from_published(county, [measured], [bdp.Exact(bdp.Totals(county), 100)])
    >>> with pm.Model(coords=release.coords):
    ...     x = bdp.FlatCounts("x", dims="county")
    ...     bdp.observe(release, x)
    ...     posterior = bdp.sample(draws=200, tune=50, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    >>> bool((posterior.posterior["x"].sum("county") == 100).all())
    True
    """
    # What was not given is left to PyMC.
    chosen: dict[str, Any] = {"tune": tune, "chains": chains, "cores": cores, "random_seed": random_seed, "step": step}
    chosen |= {"initvals": initvals, "nuts_sampler": nuts_sampler, "model": model}
    kwargs |= {"draws": draws, "progressbar": progressbar, "quiet": quiet}
    kwargs |= {name: value for name, value in chosen.items() if value is not None}
    model = pm.modelcontext(model)
    if resume and journal is None:
        raise ValueError("resume=True needs the journal= to go on from")
    asked = prepared(model, kwargs, kept=journal is not None)
    if memory_check:
        check_memory(model, asked)
    with dispensable_caches(), StopOnCtrlC() as stop:
        return diagnosed(drawn(model, asked, stop, journal, resume=resume), asked, stop)


def prepared(model: pm.Model, given: Mapping[str, Any], *, kept: bool = False) -> dict[str, Any]:
    """Arguments of ``pm.sample``, checked, and with the defaults in which we differ from PyMC; `kept`: there is a journal."""
    asked = dict(given)
    _check_steps(model, asked.get("step"))
    # PyMC's own checks divide by zero at cells that the exact answers determine; `diagnose` knows of them.
    asked.setdefault("compute_convergence_checks", False)
    if kept:
        asked.setdefault("nuts_sampler", "pymc")  # the only one with a callback after each draw
    return asked


def _check_steps(model: pm.Model, step: Any) -> None:
    """Check that no step method of PyMC is asked to move confidential counts."""
    given = [] if step is None else step if isinstance(step, Iterable) else [step]
    counts = {model.rvs_to_values[rv].name for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialCountsRV)}
    for part in (part for method in given for part in getattr(method, "methods", [method])):
        names = {v.name for v in getattr(part, "vars", [])} & counts
        if names and not isinstance(part, FiberGibbs):
            raise ValueError(
                f"step uses {type(part).__name__} for {', '.join(sorted(names))}: it cannot move inside the exact totals and "
                "would record tables that break them, or none but its start. Leave the counts out of `step`; FiberGibbs "
                "is assigned by itself"
            )


@dataclass(frozen=True)
class Drawn:
    """The draws of a model."""

    model: pm.Model
    # Draws, releases, limits of the cells, and in the place of diagnostics the reason why there are none yet: all that a file needs.
    tree: xr.DataTree
    # For each table, which cells have one possible value, or are at rest; None if Ctrl-C interrupted working that out.
    fixed: dict[str, Mask] | None
    # For tables that were moved as hierarchies, the groups of which chains began at different ends.
    tied: dict[str, TiedGroups]


def drawn(
    model: pm.Model,
    given: Mapping[str, Any],
    stop: StopOnCtrlC,
    journal: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
) -> Drawn:
    """Sample a model, and add its releases and the limits of its cells to the draws."""
    # `given`: arguments of `pm.sample`. `stop`: the context that this is called in. `journal`, `resume`: as in `sample`.
    # KeyboardInterrupt if Ctrl-C was pressed before there were draws to keep.
    with nullcontext() if journal is None else DrawJournal(journal, model, given, resume=resume) as written:
        if written is not None and not given.get("quiet", False):
            written.say()
        tree = sampled(model, given, stop, written)
    note_run(tree, resumed=0 if written is None else written.resumed, interrupted=stop.interrupted)
    with attach_draws(tree):
        tables = Tables.of(model)
        tables.add_releases(tree, model, given.get("random_seed"))
        ends = take_ends(tree)
        # This usually takes a moment: it is done after a Ctrl-C that has ended sampling, and skipped at a later one.
        limits = stop.optional(lambda: tables.add_limits(tree, model, ends))
        reason = "sampling was interrupted" if stop.interrupted else "the run ended before the diagnostics"
        tree["diagnostics"] = xr.DataTree(not_diagnosed(reason))
    return Drawn(model, tree, None, {}) if limits is None else Drawn(model, tree, *limits)


def diagnosed(run: Drawn, given: Mapping[str, Any], stop: StopOnCtrlC, *, told: bool = True) -> xr.DataTree:
    """Add the diagnostics, and log their message if `told`; none after Ctrl-C, and only quick ones after an interrupted run."""
    # `given`, `stop`: see `drawn`.
    tree, fixed, tied, quiet = run.tree, run.fixed, run.tied, given.get("quiet", False)
    lines = diagnostics_lines() if given.get("progressbar", True) and not quiet else None
    posterior = tree["posterior"].to_dataset()
    small = sum(variable.size for variable in posterior.data_vars.values()) <= _A_MOMENT

    found = None
    with attach_draws(tree):
        if fixed is not None and (small or not stop.interrupted):
            held = partial(what_holds, run.model)
            found = stop.optional(partial(diagnose, posterior, fixed, lines, tied, held))
        if found is not None:
            tree["diagnostics"] = xr.DataTree(found)
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
