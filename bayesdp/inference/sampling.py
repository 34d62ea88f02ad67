"""Sample a model, and put what the posterior is of beside it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr
from pymc.stats.convergence import log_warnings, warn_divergences, warn_treedepth

import bayesdp
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV
from bayesdp.distributions.row_noise import RowSpaceNoiseRV
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.inference._draw_journal import DrawJournal
from bayesdp.inference._progress import diagnostics_lines
from bayesdp.inference._relaxation import declaration
from bayesdp.inference._running import sampled
from bayesdp.inference.continuous import continuous_tables
from bayesdp.inference.diagnostics import diagnose, not_diagnosed
from bayesdp.inference.memory import check_memory
from bayesdp.inference.registry import releases_of
from bayesdp.inference.replacing import warn_replaced, warn_unobserved
from bayesdp.release import Release
from bayesdp.steps import FiberGibbs
from bayesdp.steps.movement import movement
from bayesdp.steps.terms import exact_fiber
from bayesdp.storage import compress_draws

__all__ = ["annotate", "sample"]

_log = logging.getLogger(__name__)


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
        Draws before them, in which steps adapt, and which are thrown away; PyMC's own default (1000) if left out.
    chains : int, optional
        At least two tell whether they agree. PyMC's default: as many as `cores`, at least two.
    cores : int, optional
        Processes; PyMC's default is at most four.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Makes a run repeatable (on one platform and start method of processes).
    progressbar : bool or str
        Where standard error is no terminal, a line now and then instead of a bar, unless `quiet`.
    quiet : bool
        No messages and no warnings about convergence; the result's ``diagnostics`` have them.
    step : step method or list of them, optional
        For variables other than the counts, which `FiberGibbs` is assigned to by itself.
    initvals : dict or list of dict, optional
        Starts, one for all chains or one a chain. Counts that do not agree with the exact answers are moved to where they do.
    nuts_sampler : str, optional
        A model of `ContinuousCounts` is sampled by nutpie where it is installed, unless this or an argument that nutpie does
        not have is given, or a variable has a step method of its own.
    memory_check : bool
        Refuse before sampling what needs more memory than there is.
    journal : path, optional
        A file to which draws are written as they come, with the state of the sampler, every few seconds. Whatever ends the
        process, the same call with ``resume=True`` goes on from there: with a seed, on the same machine, it gives the draws that it
        would have given. The file stays until you remove it: do so when the result is saved. If the disk is full, sampling
        goes on with a warning, and the file ends there. Not for nutpie, and not for `trace`.
    resume : bool
        Go on with the draws in `journal`; begin where there are none. They must be of the same model, numbers, options, seed
        and versions; processes may be more or fewer.
    model : pymc.Model, optional
        The current model if left out.
    **kwargs
        As for ``pm.sample``; ``fiber_gibbs={"sweeps": 4}`` are options of the step method of the counts.

    Returns
    -------
    xarray.DataTree
        The groups of ``pm.sample`` and, for the (first) release of the model, ``release``, ``guarantee`` (where the
        mechanism is known), ``fiber`` (limits of each cell, which cells are determined, connectivity of the moves) and
        ``diagnostics``. For `ContinuousCounts` also ``relaxation``: which variable holds real numbers in the place of whole
        ones (attribute ``variable``), and the error of that where it is known; ``fiber`` then has the limits of whole numbers.

        Ctrl-C ends sampling after the draw that is being made, in all chains, and what was drawn is returned, with the
        attribute ``interrupted`` of the tree. (Before the first draw that is kept, and pressed twice, it is an interrupt like
        any other.) Ctrl-C while diagnostics are computed leaves them out: the draws are returned. If anything fails after
        sampling, the draws are in the attribute ``draws`` of the error (``sys.last_exc.draws`` in an interactive session).

        A run that was stopped and went on has the attribute ``resumed``: how often.

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
        If nothing was observed of a table, or `pm.set_data` has replaced numbers of a release.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> county = {"county": ["Alpha", "Beta"]}
    >>> release = bdp.Release.from_published(
    ...     county,
    ...     measured=[bdp.Measured(bdp.Identity(county), [30, 80], bdp.noise.DiscreteGaussian(sigma=5.0))],
    ...     exact=[bdp.Exact(bdp.Totals(county), 100)],
    ... )
    >>> with pm.Model(coords=release.coords):
    ...     x = bdp.FlatCounts("x", dims="county")
    ...     bdp.observe(release, x)
    ...     posterior = bdp.sample(draws=200, tune=50, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    >>> bool((posterior.posterior["x"].sum("county") == 100).all())
    True
    """
    stated = {
        "tune": tune,
        "chains": chains,
        "cores": cores,
        "random_seed": random_seed,
        "step": step,
        "initvals": initvals,
        "nuts_sampler": nuts_sampler,
        "model": model,
    }
    # What was not given is left to PyMC.
    kwargs |= {"draws": draws, "progressbar": progressbar, "quiet": quiet}
    kwargs |= {name: value for name, value in stated.items() if value is not None}
    model = pm.modelcontext(model)
    _check_steps(model, step)
    warn_unobserved(model)
    # PyMC's own checks divide by zero at cells that the exact answers determine; `diagnose` knows of them.
    kwargs.setdefault("compute_convergence_checks", False)
    if resume and journal is None:
        raise ValueError("resume=True needs the journal= to go on from")
    if journal is not None:
        kwargs.setdefault("nuts_sampler", "pymc")  # the only one that tells of each draw
    elif continuous_tables(model):
        kwargs.setdefault("nuts_sampler", _nuts_sampler(model, kwargs))
    if memory_check:
        check_memory(model, (), kwargs)
    with nullcontext() if journal is None else DrawJournal(journal, model, kwargs, resume=resume) as kept:
        if kept is not None and not quiet:
            kept.say()
        tree, interrupted = sampled(model, (), kwargs, kept)
    annotated = _annotated(tree, model, kwargs)
    if interrupted:
        annotated.attrs["interrupted"] = 1
    if kept is not None and kept.resumed:
        annotated.attrs["resumed"] = kept.resumed
    if not kwargs.get("quiet", False):
        log_warnings([*warn_divergences(annotated), *warn_treedepth(annotated)])
        if not annotated["diagnostics"].attrs["converged"]:
            _log.warning(annotated["diagnostics"].attrs["message"])
    return annotated


def _annotated(tree: xr.DataTree, model: pm.Model, given: Any) -> xr.DataTree:
    """The annotated tree; whatever happens meanwhile, the draws are not lost."""
    told = diagnostics_lines() if given.get("progressbar", True) and not given.get("quiet", False) else None
    try:
        return annotate(tree, model, seed=given.get("random_seed"), told=told)
    except KeyboardInterrupt:
        tree["diagnostics"] = xr.DataTree(not_diagnosed("the diagnostics were interrupted"))
        return tree
    except Exception as error:
        setattr(error, "draws", tree)  # noqa: B010  # no attribute that a type checker could know
        error.add_note("What was drawn is not lost: it is in the attribute `draws` of this error.")
        raise


def _nuts_sampler(model: pm.Model, given: Any) -> str:
    """Nutpie where it is installed and applies; stated, as PyMC's own choice depends on what is installed too."""
    only_pymc = {"step", "init", "initvals", "trace", "callback", "return_inferencedata", "nuts"} & set(given)
    # Row-space noise has its own step method, next to which PyMC refuses nutpie.
    stepped = any(isinstance(rv.owner.op, RowSpaceNoiseRV) for rv in model.free_RVs)
    if only_pymc or stepped or model.discrete_value_vars or find_spec("nutpie") is None:
        return "pymc"
    return "nutpie"


def _check_steps(model: pm.Model, step: Any) -> None:
    counts = {model.rvs_to_values[rv].name for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialCountsRV)}
    given = [] if step is None else list(step) if isinstance(step, Iterable) else [step]
    for method in given:
        for part in getattr(method, "methods", [method]):
            names = {v.name for v in getattr(part, "vars", [])} & counts
            if names and not isinstance(part, FiberGibbs):
                raise ValueError(
                    f"step uses {type(part).__name__} for {', '.join(sorted(names))}: it cannot move inside the exact totals and "
                    "would record tables that break them, or none but its start. Leave the counts out of `step`; FiberGibbs "
                    "is assigned by itself"
                )


def _add_releases(tree: xr.DataTree, releases: list[Release], suffix: str) -> None:
    for j, release in enumerate(releases):
        ending = suffix if j == 0 else f"{suffix}_{j + 1}"
        tree[f"release{ending}"] = xr.DataTree(release.to_dataset())
        if release.guarantee is not None:
            attrs = {"guarantee": json.dumps(release.guarantee.to_dict()), "text": str(release.guarantee)}
            tree[f"guarantee{ending}"] = xr.DataTree(xr.Dataset(attrs=attrs))


def _add_group_labels(tree: xr.DataTree, frame: Frame) -> None:
    """Group labels of a table, as coordinates of the posterior that are no dimensions."""
    posterior = tree["posterior"].to_dataset()
    new = {
        name: (dim, list(labels))
        for name, dim, labels in frame.groups
        if name not in posterior.variables and posterior.sizes.get(dim) == len(labels)
    }
    if new:
        tree["posterior"].dataset = posterior.assign_coords(new)


def _check_members(tree: xr.DataTree, name: str, fiber: Fiber) -> None:
    """Draws off the fiber come from a step method that was forced on the counts."""
    draws = tree["posterior"][name].transpose("chain", "draw", ...).values
    off = sum(int(np.sum(~fiber.members(chain))) for chain in draws)
    if off:
        raise ValueError(
            f"{off} of {draws.shape[0] * draws.shape[1]} draws of {name} do not agree with the exact answers: another step "
            "method than FiberGibbs was forced on the counts. Leave them out of `step`; FiberGibbs is assigned by itself"
        )


def _limits(fiber: Fiber, frame: Frame, name: str) -> xr.Dataset:
    lower, upper = fiber.bounds()
    arrays = {"lower": lower, "upper": upper, "determined": fiber.determined()}
    return xr.Dataset(
        {label: frame.data_array(array) for label, array in arrays.items()},
        attrs={
            "variable": name,
            "bounds_exact": int(fiber.bounds_are_exact),
            "determined_complete": int(fiber.determined_is_complete),
        },
    )


def annotate(
    tree: xr.DataTree,
    model: pm.Model,
    *,
    seed: Any = None,
    command: str = "",
    told: Callable[[str, int, int], None] | None = None,
) -> xr.DataTree:
    """Add release, guarantee, fiber, relaxation, diagnostics and versions to the result of ``pm.sample``.

    Parameters
    ----------
    tree : xarray.DataTree
    model : pymc.Model
        The model that was sampled.
    seed : object, optional
        Seed of the sampler, for the record; the noise of a release has none here.
    command : str, optional
        The command line that made it.
    told : callable, optional
        For progress; see `diagnose`.

    Returns
    -------
    xarray.DataTree
        The same tree, whose posterior also has the group labels of the tables (``posterior["x"].groupby("state")``). A
        release whose numbers `pm.set_data` has replaced, with a warning, or that a copy of the model does not know, is left
        out. `bayesdp.set_release` keeps it.

    Raises
    ------
    ValueError
        If a draw of the counts does not agree with the exact answers.
    """
    tree.attrs.update(
        {
            "bayesdp_version": bayesdp.__version__,
            "pymc_version": pm.__version__,
            "numpy_version": np.__version__,
            "seed": "not recorded" if seed is None else str(seed),
            "command": command,
            "prior": "\n".join([model.str_repr(), *(table.prior for table in continuous_tables(model).values())]),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )
    compress_draws(tree)
    fixed: dict[str, npt.NDArray[np.bool_]] = {}
    by_name: dict[str, list[Release]] = {}
    warn_replaced(model)
    for name, release in releases_of(model):
        by_name.setdefault(name, []).append(release)
    counts = [rv for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialCountsRV)]
    for i, rv in enumerate(counts):
        name, value = rv.name, model.rvs_to_values[rv]
        releases = by_name.get(name, [])
        suffix = "" if i == 0 else f"_{name}"
        _add_releases(
            tree, releases, suffix
        )  # before whatever takes long: an interrupt then leaves a posterior of a release
        fiber = exact_fiber(model, value)
        # With `var_names`, functions of the table may have been recorded in its place.
        if name in tree["posterior"].data_vars:
            _check_members(tree, name, fiber)
        moves = movement(model, value)
        fixed[name] = fiber.determined() | moves.determined.reshape(fiber.frame.shape)
        limits = _limits(fiber, releases[0].frame if releases else fiber.frame, name)
        limits.attrs |= {"connectivity": moves.claim, "proved": int(moves.proved)}
        tree[f"fiber{suffix}"] = xr.DataTree(limits)
        _add_group_labels(tree, releases[0].frame if releases else fiber.frame)
    for name, table in continuous_tables(model).items():
        suffix = "" if "fiber" not in tree.children else f"_{name}"
        fixed[name] = table.fixed
        limits = _limits(table.release.fiber, table.release.frame, name)
        limits.attrs |= {"connectivity": "real tables: a convex set", "proved": 1}
        tree[f"fiber{suffix}"] = xr.DataTree(limits)
        tree[f"relaxation{suffix}"] = xr.DataTree(declaration(name))
        _add_releases(tree, by_name.get(name, []), suffix)
        _add_group_labels(tree, table.release.frame)
    tree["diagnostics"] = xr.DataTree(diagnose(tree["posterior"].to_dataset(), fixed, told))
    return tree
