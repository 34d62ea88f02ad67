"""Posteriors of tables whose draws do not fit in memory: `bdp.fit_hierarchy`, its arguments, its run, and its result."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import xarray as xr

from bayesdp._interrupts import deferred, handled, tell
from bayesdp._validate import choice, generator_of, instance, positive_integer, probability, shown
from bayesdp.frames import Frame
from bayesdp.hierarchies.modes import several_modes
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import NoStructure
from bayesdp.inference.annotating import add_group_labels, add_releases_to, said_of_run
from bayesdp.inference.interrupt import attach_draws, note_run
from bayesdp.inference.runs.fingerprint import fingerprint
from bayesdp.inference.runs.running import ProgressLines
from bayesdp.inference.sampling import tell_verdict
from bayesdp.measurements.consistency import warn_of_law
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage import compress_draws
from bayesdp.storage.journal import RunJournal
from bayesdp.streaming.chains import FEWEST
from bayesdp.streaming.driver import Driver, Runner
from bayesdp.streaming.part import PartContext, PartSpec, Plan
from bayesdp.streaming.result import part_result
from bayesdp.streaming.tables import check_tables, thinned, write_tables

_TUNE = 200
"""Fewest sweeps of the tuning by default: the table needs about 10 (20 tracts of 252 cells with the published variances), large trees
and hyperparameters more."""


def planned(
    priors: Sequence[CellPrior], draws: int, tune: int | None, chains: int | None, cores: int | None, thin: int, counts: int,
    bins: int, batches: int, quantiles: Iterable[float],
) -> Plan:  # fmt: skip
    """The numbers of a run, checked, with the priors of its parts."""
    for prior in priors:
        check_prior(prior)
    if chains is None:  # where several modes are possible, two of four chains may find the same one
        chains = 4 if any(map(several_modes, priors)) else 2
    if positive_integer(draws, "draws") < FEWEST:
        raise ValueError(f"draws must be at least {FEWEST}, below which nothing can be diagnosed, got {draws}")
    for value, name, least in ((bins, "bins", 8), (batches, "batches", 8)):
        if positive_integer(value, name) < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    processors = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
    return Plan(
        draws=draws,
        tune=max(draws // 5, _TUNE) if tune is None else positive_integer(tune, "tune"),
        chains=positive_integer(chains, "chains"),
        cores=min(chains * len(priors), processors or 1) if cores is None else positive_integer(cores, "cores"),
        thin=positive_integer(thin, "thin"),
        counts=positive_integer(counts, "counts"),
        bins=bins,
        batches=batches,
        quantiles=checked_shares(quantiles),
    )


def checked_shares(quantiles: Any) -> tuple[float, ...]:
    """Accept probabilities of quantiles."""
    if isinstance(quantiles, str) or not isinstance(quantiles, Iterable):
        raise TypeError(f"quantiles must be probabilities, got {quantiles!r}")
    return tuple(probability(own, "quantiles") for own in quantiles)


def check_prior(prior: Any) -> None:
    """Refuse what is no prior of the cells of a hierarchy."""
    if not all(hasattr(prior, name) for name in ("family", "names", "start", "update", "weights", "formula")):
        raise TypeError(
            "prior must be a prior of the cells of a hierarchy, such as bdp.hierarchies.priors.FixedNegativeBinomial(mean, shape), "
            f"got {prior!r}"
        )
    choice(prior.family, ("poisson", "negbin"), "prior.family")


def generator_from(seed: Any) -> np.random.Generator:
    """A generator from a seed, a sequence of seeds or a generator."""
    if isinstance(seed, (list, tuple, np.ndarray)):
        return np.random.default_rng(seed)
    return generator_of(seed)


_RESERVED = ("chain", "count", "draw", "share", "table", "value")
"""Names of dimensions and columns of the result."""


def refuse_reserved(frame: Frame) -> None:
    """Refuse labels of a table that the result has for itself."""
    reserved = [name for name in (*frame.dims, *(own for own, _, _ in frame.groups)) if name in _RESERVED]
    if reserved:
        raise ValueError(f"release: its table has {shown(reserved)}, which name dimensions of the result; rename them")


def fit_hierarchy(
    release: Release,
    prior: CellPrior,
    *,
    record: Query | Mapping[str, Query] | Iterable[Query] = (),
    draws: int = 1000,
    tune: int | None = None,
    chains: int | None = None,
    cores: int | None = None,
    thin: int = 1,
    tables: int = 100,
    tables_path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    journal: str | os.PathLike[str] | None = None,
    resume: bool = False,
    quantiles: Iterable[float] = (0.025, 0.05, 0.5, 0.95, 0.975),
    counts: int = 15,
    bins: int = 64,
    batches: int = 32,
    random_seed: Any = None,
    progressbar: bool = True,
    quiet: bool = False,
    memory_check: bool = True,
    leaves: str | None = None,
) -> xr.DataTree:
    """Sample the posterior of a hierarchy without keeping the draws of its cells.

    For tables of leaves (tracts, blocks) by cells with noisy and exact sums at levels of a tree of geography. The draws of the
    queries in `record` are kept; of every cell, means, variances, probabilities of small counts, quantiles, effective sample
    sizes and R-hat, for which memory does not grow with the number of draws.

    Parameters
    ----------
    release : Release
        Of counts, with independent normal noise (discrete or not) on sums of cells, or with perturbed sums (rounded, cell keys) by
        known laws. Of the latter, moves along sets of axes are quick where all cells are published, nothing is exact and no answers
        share their records; elsewhere the moves are those of `FiberGibbs`, some five times slower.
    prior : CellPrior
        Such as `bayesdp.hierarchies.priors.FixedNegativeBinomial`. Its hyperparameters are sampled too, and kept.
    record : Query, mapping or iterable of Query
        Queries of the release's table whose draws are kept, by name; without names ``by_county_race``, ``total`` or ``answers``.
        A name that labels have in the result, as `county`, becomes ``by_county``.
    draws, tune, thin : int
        Draws to keep, a chain, at least 4; sweeps before them, in which moves adapt (a fifth of `draws`, at least 200, if left out);
        sweeps from one draw to the next.
    chains : int, optional
        If left out four, and two where the posterior cannot have several modes: under a prior without hyperparameters that is
        Poisson, or negative binomial with shapes of at least 1.
    cores : int, optional
        Chains that run at the same time, in threads; as many as processors if left out. The draws do not depend on it.
    tables, tables_path, overwrite
        A parquet file for so many plausible tables, evenly spaced over the draws of all chains, see Notes; none is written without
        a path.
    journal : path, optional
        A folder, made if there is none, for the state of every chain once a minute or so. Remove it when the result is saved.
    resume : bool
        Go on from the states in `journal`, if there are any, with the same arguments: the result is that of a run that was never
        stopped. `cores`, `quantiles`, the name of `tables_path` and what is told may be others.
    quantiles, counts
        Which quantiles are given of each cell, and the largest count whose probability is.
    bins : int
        Bins of the histogram of a cell, at least 8. Quantiles of a cell whose draws differ by less than this are those of the draws.
    batches : int
        Batches of draws of a chain for the diagnostics of cells, at least 8. Their effective sample sizes have a relative standard
        error of ``sqrt(2 / (chains * batches - 1))``: 18% with 2 chains of 32.
    random_seed : int, sequence of int or numpy.random.Generator, optional
    progressbar, quiet, memory_check : bool
        A line on standard error now and then; no messages, and no verdict where chains did not converge (the result's
        ``diagnostics`` have it); refuse before sampling what needs more memory than there is.
    leaves : str, optional
        The dimension of the leaves, such as ``"tract"``. By default the one that the most queries keep, and of several the one with
        the most levels.

    Returns
    -------
    xarray.DataTree
        ``posterior`` (draws of `record` and of hyperparameters), ``cells``, with the dimensions of the table, ``release``,
        ``guarantee`` (where the mechanism is known), ``fiber`` (which cells have one possible value) and ``diagnostics``: effective
        sample sizes and R-hat of what was recorded, and a verdict over that and all cells, with a check for missed modes: chains
        start at random tables far apart, in independent pairs of opposite ones, and must come to the same. Its attribute
        ``missed_modes`` is ``"disagree"``, ``"not judged"`` (too few draws), ``"none found"``, or ``"agree"``: that is said only
        where the posterior cannot have several modes and chains began apart everywhere. In ``cells``:

        ==================  =================================================================================
        ``mean``, ``sd``    of the draws of all chains (``chain_mean``, ``chain_sd``: of each)
        ``probability``     share of draws in which the count is 0, 1, ..., `counts`
        ``quantile``        the smallest count with at least this share of the draws at or below it
        ``width``           1 where quantiles are those of the draws; else they are less than this many counts away
        ``ess``, ``rhat``   effective sample size of the mean, and split R-hat, from means of batches
        ==================  =================================================================================

        Ctrl-C ends sampling after the sweeps that are being made, and what was drawn is returned with the attribute
        ``interrupted``; before the fourth draw it is an interrupt like any other. No table is written then.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        If an argument is not valid, the release is no hierarchy, noise is not normal and independent, or `journal` is of another run.
    MemoryError
        If the run needs more memory than there is; it says how much for what, and what to change.
    FileExistsError, BlockingIOError
        If there are tables or states of a run already, and `overwrite` or `resume` is False; if another process writes to `journal`.
    OSError, ImportError
        If tables cannot be written (the draws are in the attribute ``draws`` of the error), or pyarrow is not installed.

    Notes
    -----
    The parquet file has a row for every cell of a table that is not 0, with the columns ``table`` (numbered from 0), ``chain``,
    ``draw``, the labels of the cell, group labels (such as the county of a tract) and ``count``. The key-value metadata has the
    seed, versions, the release and the prior.

    Where precise answers cut the cells of a leaf across each other (all margins by two of its three axes, say), some moves keep all
    of them: they change differences along two or three axes at once (`bayesdp.hierarchies.chain`). The verdict names precise
    answers that no move keeps at once. Where most cells are 0 and margins are all but exact these moves do not help enough: with
    variance 0.09, and one cell of 8 x 8 x 8 in thirteen not 0, chains from different starts did not agree, which the check says.
    What the quick moves of perturbed tables reach is not proved; the result's ``fiber`` says so.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> from bayesdp.hierarchies.priors import FixedNegativeBinomial
    >>> table = {"tract": ["a", "b"], "age": ["young", "old"]}
    >>> noise = bdp.noise.DiscreteGaussian(sigma=2.0)
    >>> release = bdp.Release.from_published(
    ...     table,
    ...     [bdp.Measured(bdp.Identity(table), [[3, 8], [0, 5]], noise)],
    ...     [bdp.Exact(bdp.Totals(table), 15)],
    ... )
    >>> prior = FixedNegativeBinomial(mean=4.0, shape=1.0)
    >>> tree = fit_hierarchy(release, prior, record=bdp.Margins(table, ["age"]), draws=200, random_seed=1, quiet=True)
    >>> tree["posterior"]["by_age"].dims
    ('chain', 'draw', 'age')
    >>> bool((tree["posterior"]["by_age"].sum("age") == 15).all())
    True
    >>> float(tree["cells"]["mean"].sum().round(6))
    15.0
    """
    instance(release, Release, "release must be a bayesdp.Release")
    plan = planned([prior], draws, tune, chains, cores, thin, counts, bins, batches, quantiles)
    context = PartContext(PartSpec(release, prior, plan, record=lambda _: record, leaves=leaves))
    frame = release.frame
    refuse_reserved(frame)
    try:
        structure = context.structure
    except NoStructure as reason:
        raise NoStructure(
            f"release is no hierarchy: {reason}. For tables in general use bdp.observe and bdp.sample"
        ) from reason
    warn_of_law(release.law_check)
    if memory_check:
        context.budget.check(plan)
    if resume and journal is None:
        raise ValueError("resume=True goes on from a journal: name its folder with journal=")
    generator = generator_from(random_seed)
    attributes = said_of_run(random_seed, prior.formula)
    number, target = 0, None
    if tables_path is not None:
        number = min(positive_integer(tables, "tables"), plan.chains * plan.draws)
        target = check_tables(tables_path, overwrite=overwrite)
    numbers = thinned(number, plan.chains, plan.draws)
    with ExitStack() as open_:
        folder = None
        if journal is not None:
            kept = open_.enter_context(closing(RunJournal(journal, resume=resume)))
            seed = None if random_seed is None else generator
            dim = frame.dims[structure.axis]
            kept.begin(
                fingerprint(
                    release=release, prior=prior, leaves=dim, record=context.queries, tables=number, seed=seed,
                    **plan.of_draws,
                )
            )  # fmt: skip
            generator = np.random.default_rng(kept.entropy) if random_seed is None else generator
            folder = kept.path.absolute()
        beside = folder
        if target is not None and folder is None:
            made = TemporaryDirectory(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
            beside = Path(open_.enter_context(made))
        runner = open_.enter_context(closing(Runner([context], (), None, plan.cores)))
        driver = Driver(
            runner, plan, [[rng] for rng in generator.spawn(plan.chains)], [plan.tune + plan.draws],
            ProgressLines("sampling", "sweeps") if progressbar and not quiet else None, folder,
            None if target is None or beside is None else (beside, numbers),
        )  # fmt: skip
        driver.resume()
        early = _run(driver)
        with deferred():
            tree = result_tree(driver.results(part_result)[0], release, attributes)
            tree.attrs["sampler"] = json.dumps(plan.of_sampler)
        note_run(tree, resumed=0 if journal is None else kept.resumed, interrupted=early)
        if target is not None and beside is not None and not early:
            with attach_draws(tree):
                write_tables(
                    target, structure, numbers, beside, {**attributes, "release": repr(release)}, overwrite=overwrite
                )
        return tell_verdict(tree, quiet=quiet)


def _run(driver: Driver) -> bool:
    """Sample; Ctrl-C ends all chains between two sweeps. Whether that was so early, with draws to keep."""
    watch = driver.runner.watch

    def note(number: int) -> None:
        if not watch.stopped:
            tell("interrupted: stopping after this sweep, keeping what was drawn")
        watch.stopped = True

    with handled(note):
        driver.run()
    drawn = [done - driver.plan.tune for done in watch.done.values()]
    early = watch.stopped and min(drawn) < driver.plan.draws
    if early and max(drawn) < FEWEST:
        raise KeyboardInterrupt
    return early


def result_tree(found: dict[str, xr.Dataset], release: Release, attributes: dict[str, str]) -> xr.DataTree:
    """The groups of a result with its release, in their order."""
    tree = xr.DataTree.from_dict({name: found[name] for name in ("posterior", "cells", "diagnostics")})
    tree.attrs.update(attributes)
    compress_draws(tree)
    add_releases_to(tree, [release], "")
    tree["fiber"] = xr.DataTree(found["fiber"])
    add_group_labels(tree, release.frame)
    return tree
