"""The posterior of a hierarchy part by part: state by state, on a cluster or in one process."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesdp._validate import instance, positive_integer, shown
from bayesdp.frames import Frame
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.inference.annotating import said_of_run
from bayesdp.inference.runs.fingerprint import fingerprint
from bayesdp.inference.runs.running import ProgressLines
from bayesdp.inference.sampling import tell_verdict
from bayesdp.measurements.consistency import PostProcessedWarning
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage import compress_draws
from bayesdp.storage.journal import RunJournal
from bayesdp.streaming.above import Dims, PartTerm, above, cell_dims, check_known, parts_axis, parts_per_round
from bayesdp.streaming.cells import named_queries
from bayesdp.streaming.driver import Driver, Task, running
from bayesdp.streaming.fitting import generator_from, planned
from bayesdp.streaming.part import PartInfo, PartSpec, check_driver, info
from bayesdp.streaming.result import mixing_of, part_result, tree_of_parts

type Source = Release | Callable[[], Release]

_PHASE, _ALONE = 10, 100
"""Draws of a phase at most, where something couples the parts and where nothing does."""


def parts_of(parts: Any, prior: Any) -> tuple[list[Any], list[Source], list[CellPrior]]:
    """The labels of the parts, where each comes from, and its prior."""
    if not isinstance(parts, Mapping) or not parts:
        raise TypeError(f"parts must be releases by label, such as those of bdp.hierarchies.split, got {parts!r}")
    labels = list(parts)
    names = [str(label) for label in labels]
    wrong = [name for name in names if not name or "/" in name or name == "."]
    if wrong:
        raise ValueError(
            f"parts: labels name groups of the result, and {shown(wrong)} cannot (empty, '.', or with a slash)"
        )
    if len(set(names)) < len(names):
        raise ValueError("parts: two labels are the same in words; labels must differ as strings")
    for label, own in parts.items():
        if not isinstance(own, Release) and not callable(own):
            raise TypeError(f"parts: {label!r} must be a release, or a function that gives one, got {own!r}")
    if isinstance(prior, Mapping):
        lacking = [label for label in labels if label not in prior]
        if lacking:
            raise ValueError(f"prior: there is none for the parts {shown(lacking)}")
        priors = [prior[label] for label in labels]
    else:
        priors = [prior] * len(labels)
    return labels, list(parts.values()), priors


def draws_per_round(phase: int | None, draws: int, *, coupled: bool) -> int:
    """Draws of a phase."""
    if phase is None:
        most = _PHASE if coupled else _ALONE
        return max(own for own in range(1, most + 1) if draws % own == 0)
    if draws % positive_integer(phase, "phase"):
        raise ValueError(f"draws must be a multiple of phase, got {draws} and {phase}")
    return phase


def check_dims(infos: list[PartInfo], labels: list[Any], stated: Mapping[str, Dims]) -> None:
    """Check that all parts have the same cells, those which the arguments about what is above them state."""
    first = infos[0].dims
    for own, label in zip(infos, labels, strict=True):
        if own.dims != first:
            raise ValueError(
                f"parts: the cells of {label!r} are not those of {labels[0]!r}; all parts need the same dimensions with the same "
                "labels in the same order, other than that of their leaves (which `leaves` can name)"
            )
    for name, dims in stated.items():
        if dims != first:
            raise ValueError(
                f"{name}: its cells are not those of the parts; it needs the dimensions "
                f"{shown([dim for dim, _ in first])} with the same labels in the same order"
            )


def fit_parts(
    parts: Mapping[Any, Source],
    prior: CellPrior | Mapping[Any, CellPrior],
    *,
    top: Release | None = None,
    record: Query | Mapping[str, Query] | Iterable[Query] = (),
    record_parts: Callable[[Frame], Query | Mapping[str, Query] | Iterable[Query]] | None = None,
    draws: int = 1000,
    tune: int | None = None,
    chains: int | None = None,
    thin: int = 1,
    phase: int | None = None,
    together: int | None = None,
    client: Any = None,
    cores: int | None = None,
    folder: str | os.PathLike[str] | None = None,
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
    """Sample the posterior of a hierarchy that is given in parts, such as states, on one machine or many.

    The parts are what stands under one node of a level each (both branches of a state's spine are one part). What is published above
    them, as the queries about the whole country are, couples them, and is used exactly: the posterior is that of all parts and the
    top together, as `bdp.fit_hierarchy` would sample it from one release if each part had its own hyperparameters.

    Parameters
    ----------
    parts : mapping
        Releases by label, or functions without arguments that give them, such as one that reads the files of a state: it is called
        in every process that works on this part, and must give the same release each time. `bdp.hierarchies.split` makes parts
        out of one release.
    prior : CellPrior or mapping
        Of `bayesdp.hierarchies.priors`: one for all parts, or one for each label. Hyperparameters are each part's own.
    top : Release, optional
        What is published above the parts: noisy sums of a table of parts by cells, over all parts or groups of them (regions). Exact
        sums in it must follow from exact sums of the parts.
    record : queries, optional
        About a table of parts by cells: those whose draws are kept, in a list or by name. They are kept at the end of each phase.
    record_parts : callable, optional
        Gives such queries about a part's table, by its frame: ``lambda frame: bdp.Totals(frame, by="county")``. Each draw is kept.
    phase : int, optional
        Draws that a part makes on its own at a time; `draws` must be a multiple. Few mix the sums of parts better, many need fewer
        messages. By default the largest divisor of `draws` that is at most 10, or at most 100 where nothing couples the parts.
    together : int, optional
        Parts of a chain that move at the same time; the noise of what couples them is divided among them (see Notes). The more,
        the more workers are used, and the slower sums of parts mix. By default as many as slow them down by little.
    client : concurrent.futures.Executor, distributed.Client or str, optional
        Any executor (of processes, MPI or Slurm), a Dask cluster, or the address of its scheduler, to do the work in place of `cores`
        threads of this process. The draws are the same.
    folder : path, optional
        Where the states of all parts are, each in a file that is whole at any moment; made if there is none, and else empty or that of
        the run. Workers read and write them there, those on other machines under the same name. Without it states are sent through
        this process, which holds them all. If there is no room on the disk, the run goes on like that, and a warning says so.
    resume : bool
        Go on with the run in `folder`, if there is one, as in `bdp.fit_hierarchy` (`random_seed` may be left out).
    leaves : str, optional
        The dimension of the leaves in the parts. By default the one that `top` or `record` do not have, or else the one with the most
        levels.
    draws, tune, chains, cores, thin, quantiles, counts, bins, batches, random_seed, progressbar, quiet, memory_check
        As in `bdp.fit_hierarchy`. Tuning is rounded up to whole phases.

    Returns
    -------
    xarray.DataTree
        ``posterior``: the draws of `record`, joint over the parts, one for each phase. ``diagnostics``: a verdict over all.
        ``determined``: which answers of `record` the exact ones leave one value. Attribute ``coupled``: what couples the parts.
        ``parts/LABEL/``: for each part ``posterior``, ``cells``, ``diagnostics`` and ``release``, as in `bdp.fit_hierarchy`.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        If an argument is not valid, parts have different cells, exact sums of `top` contradict the parts or have parts without exact
        sums of their own, noise is not normal and independent, or the run in `folder` is another one. Errors about a part have a note
        with its label.
    FileExistsError, BlockingIOError
        If a run is saved in `folder` and `resume` is False, if `folder` has something else, or another process has a run there.
    RuntimeError
        If the same work is lost ten times, since its workers died.
    MemoryError
        If a part needs more memory than a process that works on it has, or the result more than there is here.

    Notes
    -----
    In each phase the parts of a chain move in a random order, `together` of them at a time, given their shares of what the noisy
    answers above leave to them, which are drawn anew each time; `bayesdp.streaming.above` says why that leaves the joint posterior
    as it is. The draws of one part within a phase go with one share and with the others as they stood: as draws of that part they
    have the posterior; as joint draws of all parts, those at the ends of phases have it.

    No move takes counts from one part and gives them to another at once. So where an answer above is known far more precisely than
    the parts know their own sums (its standard deviation is below about half a count, or a small share of theirs), the sums of
    parts mix slowly. ``diagnostics`` has effective sample sizes and R-hat of what each part adds to each answer above, at the ends
    of phases (``NAME_of_part_ess_bulk``, ``NAME_of_part_rhat``), recorded or not; where they are bad the verdict is *not converged*,
    and the message names the answers. Fit such a release in one.

    Plausible tables are not written; `bdp.fit_hierarchy` does that. A worker that dies costs what it was working on, and a pool of
    processes one of which died is replaced by another one like it. With a `folder` this process holds the sums of parts only.
    Ctrl-C raises KeyboardInterrupt; what was saved in `folder` stays.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> from bayesdp.hierarchies.priors import FixedNegativeBinomial
    >>> table = {"county": ["a", "b", "c", "d"], "state": ("county", ["S", "S", "T", "T"])}
    >>> noise = bdp.noise.DiscreteGaussian(sigma=3.0)
    >>> release = bdp.Release.from_published(
    ...     table, [bdp.Measured(bdp.Identity(table), [3, 8, 5, 0], noise), bdp.Measured(bdp.Totals(table), 12, noise)]
    ... )
    >>> parts, top = bdp.hierarchies.split(release, "state")
    >>> prior = FixedNegativeBinomial(mean=4.0, shape=1.0)
    >>> tree = fit_parts(
    ...     parts, prior, top=top, record=bdp.Totals(top.frame), draws=200, tune=50, random_seed=1, quiet=True
    ... )
    >>> tree["posterior"]["total"].dims
    ('chain', 'draw')
    >>> tree["parts/S/cells"]["mean"].dims
    ('county',)
    """
    labels, sources, priors = parts_of(parts, prior)
    names = [str(label) for label in labels]
    plan = planned(priors, draws, tune, chains, cores, thin, counts, bins, batches, quantiles)
    instance(top, Release | None, "top must be a bayesdp.Release")
    noisy, known = ([], []) if top is None else above(top, labels)
    size = draws_per_round(phase, plan.draws, coupled=bool(noisy))
    asked = None if together is None else positive_integer(together, "together")
    instance(record_parts, Callable | None, "record_parts must be a function of the frame of a part", quoted=True)
    queries, axis = named_queries(record, None, ()), 0
    stated: dict[str, Dims] = {} if top is None else {"top": cell_dims(top.frame, parts_axis(top.frame, labels, "top"))}
    if queries:
        frame = next(iter(queries.values())).frame
        axis = parts_axis(frame, labels, "record")
        stated["record"] = cell_dims(frame, axis)
    cells = next((tuple(dim for dim, _ in own) for own in stated.values()), None)
    sweeps = size * plan.thin  # of a phase of the tuning
    whole = replace(plan, tune=-(-plan.tune // sweeps) * sweeps, cores=1)  # a task is about one chain
    specs = [
        PartSpec(
            source, own, whole, tuple(PartTerm(query.keep, query.measured[query.rows[k]]) for query in noisy),
            tuple(query.keep for query in known), record_parts, leaves, cells,
        )
        for k, (source, own) in enumerate(zip(sources, priors, strict=True))
    ]  # fmt: skip
    if folder is None and resume:
        raise ValueError("resume needs the folder that the run was saved in")
    if folder is not None:
        Path(folder).parent.mkdir(parents=True, exist_ok=True)
    saved = nullcontext() if folder is None else closing(RunJournal(folder, resume=resume))
    with saved as journal, running(client, specs, labels, plan.cores) as runner:
        infos: list[PartInfo] = runner.run([Task(k, info, (memory_check,)) for k in range(len(labels))])
        check_dims(infos, labels, stated)
        told = [f"part {label!r}: {part.law}" for label, part in zip(labels, infos, strict=True) if part.law]
        if told:
            more = f" ({len(told) - 1} more such parts)" if len(told) > 1 else ""
            warnings.warn(f"{told[0]}{more}", PostProcessedWarning, stacklevel=2)
        if memory_check:
            answers = sum(query.rows.size for query in noisy) + sum(query.rows for query in queries.values())
            recorded = 3 * 8 * plan.chains * (plan.draws // size) * answers
            alone = plan.cores if client is None else 0
            check_driver([own.memory for own in infos], recorded, cores=alone, held=folder is None)
        used = min(asked or parts_per_round(noisy, [own.errors for own in infos], len(labels)), len(labels))
        entropy = int.from_bytes(generator_from(random_seed).bytes(16))
        if journal is not None and journal.saved is not None and random_seed is None:
            entropy = journal.entropy
        if journal is not None:
            recorded_parts = sorted({name for part in infos for name in part.recorded})
            run = fingerprint(
                parts=names, releases={name: part.release for name, part in zip(names, infos, strict=True)},
                prior=dict(zip(names, priors, strict=True)), top=top, record=queries,
                record_parts={name: [part.recorded.get(name) for part in infos] for name in recorded_parts},
                phase=size, together=used, leaves=leaves, seed=entropy, **plan.of_draws,
            )  # fmt: skip
            journal.entropy = entropy
            journal.begin(run)
        ends = np.arange(size - 1, plan.draws, size)
        seeds = [np.random.default_rng([entropy, k]).spawn(plan.chains) for k in range(len(labels))]
        driver = Driver(
            runner, whole, [[own[c] for own in seeds] for c in range(plan.chains)],
            [0, *range(sweeps, whole.tune + 1, sweeps), *(whole.tune + ends + 1).tolist()],
            ProgressLines("sampling", "sweeps") if progressbar and not quiet else None,
            None if journal is None else journal.path.absolute(),
            noisy=noisy, parts_per_round=used, entropy=entropy, axis=axis, queries=queries,
        )  # fmt: skip
        driver.resume()
        if driver.round == 0:
            driver.run(1)
            check_known(known, [own.known for own in infos], driver.sums[0], labels)
        driver.run()
        results, determined = driver.results(part_result), driver.determined()
    mixing = mixing_of(noisy, driver.tops, [own.fixed for own in infos], names)
    tree = tree_of_parts(driver.tops, queries, list(ends), names, results, mixing, determined)
    formula = priors[0].formula if len({own.formula for own in priors}) == 1 else "one for each part"
    sampler = json.dumps({**plan.of_sampler, "phase": size, "together": used})
    coupled = json.dumps([query.name for query in noisy])
    tree.attrs.update(said_of_run(random_seed, formula), sampler=sampler, coupled=coupled)
    compress_draws(tree)
    return tell_verdict(tree, quiet=quiet)
