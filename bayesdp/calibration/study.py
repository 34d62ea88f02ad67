"""Simulation-based calibration: whether the posteriors of a model, its sampler and its mechanism are right.

One simulation draws a truth, releases it, fits the release and ranks the truth among the posterior's draws: a number that is uniform
on (0, 1) if the posterior is right.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._chains import ess_bulk, ess_mean
from bayesdp.calibration.fits import SAMPLER, Build, Simulations, Update, quiet_draws
from bayesdp.calibration.quantities import (
    EXACT_ANSWERS,
    LOG_LIKELIHOOD,
    Quantities,
    Quantity,
    Simulate,
    Simulated,
    as_points,
    checked_functions,
    checked_quantities,
    evaluate,
    exact_answers,
    scalars,
)
from bayesdp.calibration.runs import Check, by_name, number, rank, unit
from bayesdp.calibration.runs import count as whole_number
from bayesdp.calibration.verdict import Verdict, judge
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV
from bayesdp.distributions.tables import RowSpaceNoiseRV
from bayesdp.release import Release


def uniform_rank(truth: float, draws: npt.ArrayLike, rng: np.random.Generator) -> float:
    """Rank of the truth among draws, exactly uniform if they are exchangeable: ties and the place within the rank are at random."""
    # With r draws smaller and e equal it is (r + K + U) / (draws + 1), K uniform on 0, ..., e and U on (0, 1).
    values = np.asarray(draws, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"draws must be a vector of at least one number, got shape {values.shape}")
    if np.isnan(truth) or np.isnan(values).any():
        raise ValueError("truth and draws must be numbers, got NaN")
    smaller, equal = int(np.sum(values < truth)), int(np.sum(values == truth))
    place = smaller + int(rng.integers(equal + 1)) + rng.random()
    return float(place / (values.size + 1))


def squared_error_rank(truth: float, draws: npt.ArrayLike, rng: np.random.Generator) -> float:
    """Rank of the squared error of the truth among those of draws; NaN if all are one number."""
    # Errors are from the mean of truth and draws together, which treats all of them alike: the mean of the draws is nearer to them.
    values = np.asarray(draws, dtype=np.float64)
    if truth == values.min() == values.max():
        return float("nan")
    centre = (truth + values.sum()) / (values.size + 1)
    return uniform_rank((truth - centre) ** 2, (values - centre) ** 2, rng)


SHORT: dict[str, Any] = SAMPLER | {"draws": 200, "tune": 200}
"""Default arguments of ``pm.sample`` here: a rank asks for some tens of effective draws, and says where there are fewer."""
_FEWEST = 16
"""Effective draws of a rank. With fewer, chains that have not been everywhere are taken for fast ones."""
_LONGER = (1, 4, 16)
"""Chains are drawn again, so many times as long, while a quantity has fewer effective draws than a rank needs."""
_DIGITS = 36
"""Leading bits of a quantity that are compared: the last bits of compiled sums depend on machine and on whether code was read from
a file; they would decide the rank among tables with equal log-likelihoods, in place of chance."""
_LOCK = threading.Lock()  # PyMC models are built in a context of the process: one simulation at a time in each


class TooFewDraws(ValueError):
    """A chain has hardly moved: too few effective draws for a rank."""


@dataclass
class Study(Simulations):
    """The task of simulation-based calibration: calling it with a number runs the simulation of that number."""

    also: dict[str, Quantity] = field(default_factory=dict)

    def check(self) -> dict[str, Quantity | None]:
        """The quantities by name, if simulator, model and quantities agree on names: before anything is compiled."""
        truth, model = self.draw(0).truth, self.refit.template
        free = {rv.name for rv in model.free_RVs} - set(self._latent)
        known = free | {variable.name for variable in model.deterministics}
        missing, unknown = sorted(free - set(truth)), sorted(set(truth) - known)
        if missing or unknown:
            parts = [f"simulate gives no {name!r}, a variable of the model" for name in missing]
            parts += [f"simulate gives {name!r}, which the model does not have" for name in unknown]
            raise ValueError(f"simulate and build_model disagree on names: {'; '.join(parts)}")
        return self.tested(truth)

    @property
    def _latent(self) -> list[str]:
        """Latent variables that `observe` has added (the row-space part of projected noise), which no simulated truth has."""
        return [rv.name for rv in self.refit.template.free_RVs if isinstance(rv.owner.op, RowSpaceNoiseRV)]

    def tested(self, available: Iterable[Any]) -> dict[str, Quantity | None]:
        """The quantities by name; if the user has named none, the error of exact answers is among them."""
        # Where the likelihood is of the table and of a latent part of the noise together, its value at the truth is unknown.
        listed = checked_quantities(self.quantities, map(str, available))
        if self._latent and LOG_LIKELIHOOD in listed and listed[LOG_LIKELIHOOD] is None:
            if self.quantities is not None:
                raise ValueError(
                    f"quantities names {LOG_LIKELIHOOD!r}, but the likelihood is given {', '.join(self._latent)}, latent noise that "
                    "simulate does not know"
                )
            del listed[LOG_LIKELIHOOD]
        if self.quantities is None and isinstance(release := self.refit.first, Release) and release.exact:
            free = self.refit.template.free_RVs
            counts = [rv.name for rv in free if isinstance(rv.owner.op, ConfidentialCountsRV)]
            if len(counts) == 1:
                listed[EXACT_ANSWERS] = exact_answers(counts[0])
        taken = sorted(set(listed) & set(self.also))
        if taken:
            raise ValueError(f"also names {taken[0]!r}, which is among the quantities already")
        return listed | self.also

    def __call__(self, number: int) -> dict[str, Any]:
        """Run a simulation, with a longer chain where one has too few effective draws; its record has the entries of `_RECORD`."""
        settings, (_, ranks, sampler) = SHORT | self.sampler, self.streams(number)
        with _LOCK:
            start, truth, seed = time.perf_counter(), self.draw(number), int(sampler.generate_state(1)[0])
            for longer in _LONGER:
                # The tuning too: a chain that is slow forgets its start as slowly.
                chain = settings | {name: longer * settings[name] for name in ("draws", "tune")}
                posterior, divergences = quiet_draws(self.refit.model(truth.release), chain, seed)
                try:
                    found = self._ranked(truth, posterior, np.random.default_rng(ranks))
                except TooFewDraws:
                    if longer == _LONGER[-1]:
                        raise
                else:
                    break
        times = {"number": number, "seconds": time.perf_counter() - start}
        return times | found | {"divergences": divergences, "longer": longer}

    def _ranked(self, truth: Simulated, posterior: xr.Dataset, rng: np.random.Generator) -> dict[str, Any]:
        """Ranks of a truth among the draws, by quantity, and the smallest effective sample size."""
        points = as_points(truth, posterior)
        ranks: dict[str, float] = {}
        dispersion: dict[str, float] = {}
        smallest = float("inf")
        for name, function in self.tested(points.data_vars).items():
            true, draws = (
                self.refit.log_likelihood(truth.release, data)
                if name == LOG_LIKELIHOOD and function is None
                else evaluate(name, function, data, truth.release)
                for data in (points, posterior)
            )
            elements, least = list(zip(scalars(name, true), scalars(name, draws), strict=True)), float("inf")
            for (label, one), (_, many) in elements:
                at, settled = _settled(float(one[0, 0]), many)
                kept, ess = thinned(label, settled)
                least = min(least, ess)
                ranks[label] = uniform_rank(at, kept, rng)
                dispersion[label] = squared_error_rank(at, kept, rng)
            smallest = min(smallest, least)
            if len(elements) > 1:
                ones = np.array([one[0, 0] for (_, one), _ in elements])
                many = np.stack([many for _, (_, many) in elements], axis=-1)
                label = f"{name}: all squared errors"
                ranks[label] = joint_rank(label, ones, many, rng, least)
        return {"ranks": ranks, "dispersion": dispersion, "ess": smallest}


def _settled(truth: float, draws: Floats) -> tuple[float, Floats]:
    """Truth and draws rounded to `_DIGITS` leading bits, so that numbers equal up to rounding errors tie; whole numbers unchanged."""
    largest = float(np.abs(draws).max())
    if not 0.0 < largest < np.inf or (truth == np.rint(truth) and np.array_equal(draws, np.rint(draws))):
        return truth, draws
    quantum = 2.0 ** max(int(np.frexp(largest)[1]) - _DIGITS, -1000)
    if draws.max() - draws.min() < quantum:  # one number, even where the grid would part it
        middle = float(draws.flat[0])
        return middle if abs(truth - middle) < quantum else truth, np.full_like(draws, middle)
    return float(np.rint(truth / quantum) * quantum), np.rint(draws / quantum) * quantum


def thinned(label: str, draws: Floats) -> tuple[Floats, float]:
    """Every k-th draw, so that about as many are left as the effective sample size; and that size."""
    if not np.all(np.isfinite(draws)):
        raise ValueError(f"the quantity {label} of the posterior is not finite")
    if draws.min() == draws.max():  # determined: one value, of which independent draws cost nothing
        return draws.reshape(-1), float(draws.size)
    ess = float(np.nanmin([ess_bulk(draws), ess_mean(draws)]))
    kept = draws[:, :: ceil(draws.size / ess)].reshape(-1)
    if kept.size < _FEWEST:
        raise TooFewDraws(
            f"the chain of {draws.size} draws has an effective sample size of {ess:.1f} for {label}; at least {_FEWEST} are needed "
            "for a rank"
        )
    return kept, ess


def joint_rank(label: str, truth: Floats, draws: Floats, rng: np.random.Generator, ess: float) -> float:
    """Rank of the sum of squared standardised errors over the elements of an array, of which `ess` is the smallest of their sizes."""

    # An error of scale that is common to many cells shows in their sum long before it shows in any of them. The sum may be slower
    # than they are, and is about as often faster.
    def sums(rows: Floats, moving: Mask) -> Floats:
        own = rows[..., moving]
        axes = tuple(range(own.ndim - 1))
        return np.asarray((((own - own.mean(axis=axes)) / own.std(axis=axes)) ** 2).sum(axis=-1))

    _, slowest = thinned(label, sums(draws, draws.min(axis=(0, 1)) < draws.max(axis=(0, 1))))
    kept = draws[:, :: ceil(draws[..., 0].size / min(ess, slowest))].reshape(-1, draws.shape[-1])
    rows = np.vstack([truth, kept])
    found = sums(rows, rows.min(axis=0) < rows.max(axis=0))
    return uniform_rank(float(found[0]), found[1:], rng)


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
    sample size; beside each quantity its squared error is ranked as well, which is what notices posteriors that are
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
    n, seed : int
        Simulations, and the seed of everything: the same one gives the same ranks, wherever they are computed.
    also : mapping from name to function, optional
        Functions of values and release beside `quantities`. What exact answers say of parameters shows in functions of both
        only, such as the distance of a total from what a rate lets expect.
    client, workers : distributed.Client or str, optional; int
        A Dask cluster, by its client or the address of its scheduler; or so many local processes, of which 1 is this one.
    update : callable, optional
        For releases that are not put into the model by `observe`: new values of its ``pm.Data``.
    path : path, optional
        A file for results as they come. If it is there, the run goes on where it was; it must be the same, but for `n`.
    false_alarm : float
        Chance that right posteriors are called wrong, over all quantities together.
    identity : str
        Says which model this is, for instance a version or a hash of its file: a run goes on with the same one only.
    progressbar, **sampler
        A line on standard error now and then; arguments for ``pm.sample``, by default ``draws=200, tune=200, chains=1``.

    Returns
    -------
    xarray.DataTree
        ``prior_sbc``: ranks on (0, 1), as ``arviz_plots.plot_ecdf_pit`` reads them; ``dispersion_sbc``: ranks of squared errors;
        ``verdict``: p-values by quantity, and the verdict in words in its attributes; ``fits``: effective sample size, seconds and
        divergences of each, and how many times as long as asked its chain had to be (``longer``); ``failures``: simulations that
        failed, with their errors, which are counted in the verdict's words.

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
    settings: dict[str, Any] = {"sampler": SHORT | study.sampler, "identity": identity, "quantities": asked}
    where: Any = {"path": path, "client": client, "workers": workers, "progressbar": progressbar}
    good, bad, about = study.run(count, "simulations", _RECORD, **where, what="sbc", **settings)
    return _tree(good, bad, false_alarm, about, study.refit.reused)


_RECORD: dict[str, Check] = {
    "seconds": number,
    "ranks": by_name(rank),
    "dispersion": by_name(unit),
    "ess": number,
    "divergences": whole_number,
    "longer": whole_number,
}
"""Entries of the record of a simulation beside its number, as `Study` makes it."""


def _tree(
    good: list[dict[str, Any]],
    bad: list[dict[str, Any]],
    false_alarm: float,
    about: Mapping[str, Any],
    reused: bool | None,
) -> xr.DataTree:
    names = list(good[0]["ranks"])
    odd = next((record["number"] for record in good if list(record["ranks"]) != names), None)
    if odd is not None:
        raise ValueError(
            f"quantities must be the same in all simulations, but simulation {odd} has others than the first"
        )
    simulations = [record["number"] for record in good]
    ranks, squares = (
        xr.Dataset(
            {name: (("chain", "draw"), [[float(record[key][name]) for record in good]]) for name in good[0][key]},
            {"chain": [0], "draw": simulations},
        )
        for key in ("ranks", "dispersion")
    )
    errors = np.array([record["error"] for record in bad], dtype=object).astype(str)
    fits = {key: np.array([record[key] for record in good]) for key in ("ess", "seconds", "divergences", "longer")}
    groups = {
        "prior_sbc": ranks,
        "dispersion_sbc": squares,
        "verdict": _verdict_table(_judged(ranks, squares, false_alarm), len(bad), fits["longer"]),
        "fits": xr.Dataset({key: ("simulation", own) for key, own in fits.items()}, {"simulation": simulations}),
        "failures": xr.Dataset({"error": ("simulation", errors)}, {"simulation": [record["number"] for record in bad]}),
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {
        "seed": str(about["seed"]),
        "sampler": json.dumps(about["sampler"]),
        "versions": json.dumps(about["versions"]),
        "identity": about["identity"],
        "model_reused": "unknown" if reused is None else str(reused),
    }
    return tree


def _judged(ranks: xr.Dataset, squares: xr.Dataset, false_alarm: float) -> Verdict:
    of_ranks, of_squares = (
        {str(name): values.values.reshape(-1).tolist() for name, values in found.items()} for found in (ranks, squares)
    )
    return judge(of_ranks, of_squares, false_alarm)


def _verdict_table(verdict: Verdict, bad: int, lengths: Ints) -> xr.Dataset:
    columns = ("n", "p_ranks", "p_dispersion", "ratio", "p_adjusted")
    good, longer = lengths.size, lengths[lengths > 1]
    said = f" {bad} of {good + bad} simulations failed and are left out: see the group failures." if bad else ""
    if longer.size:
        said += (
            f" {longer.size} of {good} chains had too few effective draws, and were drawn again up to {longer.max()} times as long: "
            "see longer in the group fits."
        )
    return xr.Dataset(
        {key: ("quantity", np.array([getattr(q, key) for q in verdict.quantities])) for key in columns},
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
    """Judge the ranks of a result of `sbc` again, for instance of one that was read from a file."""
    ranks, squares = (tree[group].to_dataset() for group in ("prior_sbc", "dispersion_sbc"))
    return _judged(ranks, squares, float(tree["verdict"].attrs["false_alarm"]))
