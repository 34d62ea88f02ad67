"""Simulation-based calibration: whether the posteriors of a model, its sampler and its mechanism are right.

How far a long run is, and how long it will take: in a terminal and in a notebook.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bayesdp import _validate
from bayesdp._interrupts import dispensable_progress
from bayesdp.calibration.journal import Check, Journal, by_name, number, rank, unit
from bayesdp.calibration.journal import count as whole_number
from bayesdp.calibration.quantities import Quantities, Quantity, checked_functions
from bayesdp.calibration.refit import Build, Update, described_task
from bayesdp.calibration.runners import Runner, in_processes, on_dask, serially
from bayesdp.calibration.sampling import SAMPLER
from bayesdp.calibration.simulated import Simulate
from bayesdp.calibration.study import Study
from bayesdp.calibration.verdict import Verdict, judge


def followed(
    records: Iterable[dict[str, Any]], *, total: int, done: int, words: str, show: bool
) -> Iterator[dict[str, Any]]:
    """Pass records on, and show how many have come, how many of them failed, and the time left.

    Parameters
    ----------
    records : iterable of dict
        With an ``error`` where something failed.
    total, done : int
        Records in all, and those of an earlier run.
    words : str
        What is counted.
    show : bool
        Whether to show anything.

    Examples
    --------
    >>> list(followed([{"number": 0}], total=1, done=0, words="fits", show=False))
    [{'number': 0}]
    """
    if not show:
        yield from records
        return
    if Console().is_jupyter:  # rich's bar needs a package of widgets there, and shows nothing without it
        yield from _in_a_notebook(records, total, done, words)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    with dispensable_progress(), Progress(*columns) as bar:
        task, failed = bar.add_task(words, total=total, completed=done, failed=0), 0
        for record in records:
            failed += "error" in record
            bar.update(task, advance=1, failed=failed)
            yield record


def _in_a_notebook(records: Iterable[dict[str, Any]], total: int, done: int, words: str) -> Iterator[dict[str, Any]]:
    """The same in a line of text that a notebook replaces as records come."""
    from IPython.display import display

    start, failed = time.monotonic(), 0
    first = {"text/plain": f"{words} {done}/{total}"}
    handle = display(first, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython states no types
    for come, record in enumerate(records, 1):
        failed += "error" in record
        passed = time.monotonic() - start
        left = passed / come * (total - done - come)
        spans = [timedelta(seconds=round(seconds)) for seconds in (passed, left)]
        line = f"{words} {done + come}/{total}, {spans[0]} passed, about {spans[1]} left, {failed} failed"
        handle.update({"text/plain": line}, raw=True)
        yield record


def sbc(
    simulate: Simulate,
    build_model: Build,
    quantities: Quantities = None,
    *,
    n: int,
    seed: int,
    also: Mapping[str, Quantity] | None = None,
    client: Any = None,
    workers: int = 1,
    update: Update | None = None,
    path: str | os.PathLike[str] | None = None,
    false_alarm: float = 0.01,
    progressbar: bool = True,
    identity: str = "",
    **sampler: Any,
) -> xr.DataTree:
    """Simulation-based calibration (Talts et al., 2018; Modrák et al., 2025) of a model with a release.

    Each simulation draws parameters and a confidential table from the prior, releases the table (its exact answers change
    from one to the next), fits the release, and ranks the truth among the draws. If model, sampler and noise law are
    right, each rank is uniform. Ties, which integers have many of, are broken at random; draws are thinned by their effective
    sample size; beside each quantity its squared standardised error is ranked as well, which is what notices posteriors that are
    too wide or too narrow.

    Parameters
    ----------
    simulate : callable
        ``simulate(rng)`` gives ``(truth, release)`` (or `Simulated`): values of all the model's free variables by name, drawn from the
        model's own prior, and the release of the table.
    build_model : callable
        ``build_model(release)`` gives a `pymc.Model`. It is compiled once and its numbers are replaced, see `Refit`.
    quantities : iterable of str or mapping, optional
        Variables by name, ``"log-likelihood"``, or functions of values and release; all variables and the log-likelihood
        if left out. Arrays are tested element by element.
    n : int
        Number of simulations.
    seed : int
        Of everything: the same seed gives the same ranks, wherever they are computed.
    also : mapping from name to function, optional
        Functions of values and release beside `quantities`. What exact answers say of parameters shows in functions of both
        only, such as the distance of a total from what a rate lets expect.
    client : distributed.Client or str, optional
        A Dask cluster, by its client or the address of its scheduler.
    workers : int
        Local processes; 1 runs here.
    update : callable, optional
        For releases that are not put into the model by `observe`: new values of its ``pm.Data``.
    path : path, optional
        A file for results as they come. If it is there, the run goes on where it was; it must be the same, but for `n`.
    false_alarm : float
        Chance that right posteriors are called wrong, over all quantities together.
    progressbar : bool
        Whether to show how far the run is.
    identity : str
        Says which model this is, for instance a version or a hash of its file: a run goes on with the same one only.
    **sampler
        For ``pm.sample``, for example ``draws=400, tune=400, chains=1``.

    Returns
    -------
    xarray.DataTree
        ``prior_sbc``: ranks on (0, 1), as ``arviz_plots.plot_ecdf_pit`` reads them; ``dispersion_sbc``: ranks of squared
        errors; ``verdict``: p-values by quantity, and the verdict in words in its attributes; ``fits``: effective sample
        size, seconds and divergences of each, and how many times as long as asked its chain had to be (``longer``);
        ``failures``: simulations that failed, with their errors. They are counted in the verdict's words, and never dropped
        silently.

    Raises
    ------
    ValueError
        If simulator and model disagree on names, all simulations failed, or the file is of another run.

    See Also
    --------
    coverage : intervals instead of ranks, beside naive analyses.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> labels = {"county": ["Alpha", "Beta"]}
    >>> mechanism = bdp.LatticeLaplace(bdp.Totals(labels), epsilon=0.5)
    >>> def simulate(rng):
    ...     x = rng.poisson(5.0, size=2)
    ...     return {"x": x}, mechanism.release(x, rng=rng)
    >>> def build_model(release):
    ...     with pm.Model(coords=release.coords) as model:
    ...         x = bdp.ConfidentialCounts("x", pm.Poisson.dist(5.0), dims="county")
    ...         bdp.observe(release, x)
    ...     return model
    >>> result = sbc(simulate, build_model, ["x"], n=20, seed=1, draws=100, tune=20, progressbar=False)
    >>> verdict_of(result).calibrated
    True
    """
    count = _validate.positive_integer(n, "n")
    own_seed = _validate.nonnegative_integer(seed, "seed")
    study = Study(simulate, build_model, quantities, own_seed, update, dict(sampler), checked_functions(also))
    tested = study.check()
    asked = [[name, function or "a variable"] for name, function in tested.items()]
    settings = {"sampler": SAMPLER | study.sampler, "identity": identity, "quantities": asked}
    about = described_task(study, study.draw(0), what="sbc", **settings)
    journal = Journal(None if path is None else Path(path), about, _RECORD)
    run_numbers(study, range(count), journal, choose_runner(client, workers), "simulations", progressbar)
    return _tree(count, journal, false_alarm, about, study.refit.reused)


_RECORD: dict[str, Check] = {
    "seconds": number,
    "ranks": by_name(rank),
    "dispersion": by_name(unit),
    "ess": number,
    "divergences": whole_number,
    "longer": whole_number,
}
"""Entries of the record of a simulation beside its number, as `Study` makes it."""


def choose_runner(client: Any, workers: int) -> Runner:
    """The runner: a cluster if `client` is given, local processes if there are several workers, otherwise this process."""
    count = _validate.positive_integer(workers, "workers")
    if client is not None:
        if count > 1:
            raise ValueError("give either client, a cluster, or workers, local processes, not both")
        return on_dask(client)
    return in_processes(count) if count > 1 else serially


def run_numbers(task: Any, numbers: range, journal: Journal, runner: Runner, words: str, progressbar: bool) -> None:
    """Run the numbers that the journal does not have yet; each record is in the journal before the next one is awaited."""
    left = [number for number in numbers if number not in journal.records]
    with closing(journal):
        for record in followed(
            runner(task, left),
            total=len(numbers),
            done=len(numbers) - len(left),
            words=words,
            show=progressbar and bool(left),
        ):
            journal.add(record)


def _tree(
    count: int, journal: Journal, false_alarm: float, about: Mapping[str, Any], reused: bool | None
) -> xr.DataTree:
    records = [journal.records[k] for k in range(count) if k in journal.records]
    good = [record for record in records if "error" not in record]
    bad = [record for record in records if "error" in record]
    if not good:
        raise ValueError(f"all {len(bad)} simulations failed; the first one: {bad[0]['error']}")
    names = list(good[0]["ranks"])
    odd = next((record["number"] for record in good if list(record["ranks"]) != names), None)
    if odd is not None:
        raise ValueError(
            f"quantities must be the same in all simulations, but simulation {odd} has others than the first"
        )
    ranks = {name: [float(record["ranks"][name]) for record in good] for name in names}
    squares = {
        name: [float(record["dispersion"][name]) for record in good] for name in names if name in good[0]["dispersion"]
    }
    verdict = judge(ranks, squares, false_alarm)
    coords = {"chain": [0], "draw": [record["number"] for record in good]}
    numbers = {"simulation": [record["number"] for record in good]}
    tree = xr.DataTree()
    for group, values in (("prior_sbc", ranks), ("dispersion_sbc", squares)):
        arrays = {name: (("chain", "draw"), np.array([row])) for name, row in values.items()}
        tree[group] = xr.DataTree(xr.Dataset(arrays, coords=coords))
    longer = [record["longer"] for record in good if record["longer"] > 1]
    tree["verdict"] = xr.DataTree(_verdict_table(verdict, len(good), len(bad), longer))
    tree["fits"] = xr.DataTree(
        xr.Dataset(
            {
                key: ("simulation", np.array([record[key] for record in good]))
                for key in ("ess", "seconds", "divergences", "longer")
            },
            coords=numbers,
        )
    )
    tree["failures"] = xr.DataTree(
        xr.Dataset(
            {"error": ("simulation", np.array([record["error"] for record in bad], dtype=object).astype(str))},
            coords={"simulation": [record["number"] for record in bad]},
        )
    )
    tree.attrs.update(
        {
            "seed": str(about["seed"]),
            "sampler": json.dumps(about["sampler"]),
            "versions": json.dumps(about["versions"]),
            "identity": about["identity"],
            "model_reused": "unknown" if reused is None else str(reused),
        }
    )
    return tree


def _verdict_table(verdict: Verdict, good: int, bad: int, longer: list[int]) -> xr.Dataset:
    columns = ("n", "p_ranks", "p_dispersion", "ratio", "p_adjusted")
    table = {key: ("quantity", np.array([getattr(q, key) for q in verdict.quantities])) for key in columns}
    said = f" {bad} of {good + bad} simulations failed and are left out: see the group failures." if bad else ""
    if longer:
        said += (
            f" {len(longer)} of {good} chains had too few effective draws, and were drawn again up to {max(longer)} times as long: "
            "see longer in the group fits."
        )
    return xr.Dataset(
        table,
        coords={"quantity": [q.name for q in verdict.quantities]},
        attrs={
            "calibrated": int(verdict.calibrated),
            "false_alarm": verdict.false_alarm,
            "message": str(verdict) + said,
            "simulations": good,
            "failed": bad,
        },
    )


def verdict_of(tree: xr.DataTree) -> Verdict:
    """Judge the ranks of a result again, for instance of one that was read from a file.

    Parameters
    ----------
    tree : xarray.DataTree
        What `sbc` gave.

    Returns
    -------
    Verdict
    """
    first, second = tree["prior_sbc"].to_dataset(), tree["dispersion_sbc"].to_dataset()
    return judge(
        {str(name): first[name].values.reshape(-1).tolist() for name in first.data_vars},
        {str(name): second[name].values.reshape(-1).tolist() for name in second.data_vars},
        float(tree["verdict"].attrs["false_alarm"]),
    )
