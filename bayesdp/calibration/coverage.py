"""Do intervals hold the truth as often as they claim? For the posterior, and for naive analyses beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy import stats

from bayesdp import _validate
from bayesdp.calibration.journal import Journal, by_name, numbers
from bayesdp.calibration.naive import Naive, naive_analysis
from bayesdp.calibration.quantities import Quantities, as_points, checked_quantities, evaluate, scalars
from bayesdp.calibration.refit import Build, Refit, Update, described_task
from bayesdp.calibration.sampling import SAMPLER, quiet_sample
from bayesdp.calibration.sbc import choose_runner, run_numbers
from bayesdp.calibration.simulated import Simulate, simulated

POSTERIOR = "posterior"
"""Name of the analysis by the explicit likelihood."""


@dataclass
class _Repeat:
    """A task of a number: simulate one release, and compute the intervals of each analysis of it."""

    simulate: Simulate
    build_model: Build
    quantities: Quantities
    naive: list[str]
    probability: float
    seed: int
    update: Update | None = None
    sampler: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._refits: dict[str, Refit] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_refits": {}}

    def _analyses(self) -> list[Naive]:
        return [
            Naive(POSTERIOR, self.build_model, self.update),
            *(naive_analysis(name, self.build_model) for name in self.naive),
        ]

    def _seeds(self, number: int) -> list[np.random.SeedSequence]:
        return np.random.SeedSequence(self.seed, spawn_key=(number,)).spawn(2)

    def _sampled(self, model: pm.Model, seed: int) -> xr.Dataset:
        """Draws of the posterior; a single point without variables where a naive analysis leaves nothing unknown."""
        if not model.free_RVs:
            return xr.Dataset(coords={"chain": [0], "draw": [0]})
        return quiet_sample(model, SAMPLER | self.sampler, seed)["posterior"].to_dataset()

    def __call__(self, number: int) -> dict[str, Any]:
        if not self._refits:
            first = simulated(self.simulate, np.random.default_rng(self._seeds(0)[0])).release
            self._refits = {a.name: Refit(a.build_model, first, a.update) for a in self._analyses()}
        draw, fit = self._seeds(number)
        truth = simulated(self.simulate, np.random.default_rng(draw))
        tail = (1.0 - self.probability) / 2.0
        found: dict[str, dict[str, list[float]]] = {}
        for name, refit in self._refits.items():
            model = refit.model(truth.release)
            posterior = _with_fixed(self._sampled(model, int(fit.generate_state(1)[0])), model, truth.truth)
            points = as_points(truth, posterior)
            known = [str(variable) for variable in points.data_vars]
            for quantity, function in checked_quantities(self.quantities or known, known).items():
                true, draws = (evaluate(quantity, function, data, truth.release) for data in (points, posterior))
                for (label, one), (_, many) in zip(scalars(quantity, true), scalars(quantity, draws), strict=True):
                    low, high = np.quantile(many, [tail, 1.0 - tail], method="inverted_cdf")
                    found.setdefault(label, {})[name] = [float(one[0, 0]), float(many.mean()), float(low), float(high)]
        return {"number": number, "found": found}


def _with_fixed(posterior: xr.Dataset, model: pm.Model, truth: Mapping[str, Any]) -> xr.Dataset:
    """Add the table that a naive analysis takes for known to its posterior, with the same value in every draw."""
    for rv in model.observed_RVs:
        if rv.name in truth and rv.name not in posterior:
            data = model["as_published"].get_value()
            dims = [str(d) for d in model.named_vars_to_dims.get(rv.name, ())] or [
                f"{rv.name}_{i}" for i in range(data.ndim)
            ]
            spread = np.broadcast_to(data, (posterior.sizes["chain"], posterior.sizes["draw"], *data.shape))
            coords = {d: list(model.coords[d]) for d in dims if d in model.coords}
            posterior[rv.name] = xr.DataArray(spread, dims=("chain", "draw", *dims), coords=coords)
    return posterior


def coverage(
    simulate: Simulate,
    build_model: Build,
    quantities: Quantities = None,
    *,
    n: int,
    seed: int,
    probability: float = 0.95,
    naive: Iterable[str] = (),
    client: Any = None,
    workers: int = 1,
    update: Update | None = None,
    path: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
    **sampler: Any,
) -> xr.Dataset:
    """Coverage, bias and error of intervals over repeated releases.

    Parameters
    ----------
    simulate : callable
        As for `sbc`. With a truth drawn from the prior, intervals cover as often as they say. With one fixed truth, which is
        what a single table is, they need not: a prior that is far from it makes them fail.
    build_model : callable
    quantities : optional
        As for `sbc`, without the log-likelihood.
    n : int
        Releases.
    seed : int
    probability : float
        Of the equal-tailed intervals.
    naive : iterable of str
        Analyses to compare with, see `bayesdp.calibration.NAIVE`.
    client, workers, update, path, progressbar, **sampler
        As for `sbc`.

    Returns
    -------
    xarray.Dataset, dims (analysis, quantity)
        ``coverage`` with its Clopper-Pearson limits at 99% (``coverage_low``, ``coverage_high``), ``bias``, ``rmse`` of
        the mean, ``width`` of the intervals. Attributes ``n``, ``failed``, ``errors``.

    Raises
    ------
    ValueError
        If all fits failed, or an analysis is unknown or does not apply.
    """
    names = list(naive)
    for name in names:
        naive_analysis(name, build_model)
    level = _validate.probability(probability, "probability")
    count = _validate.positive_integer(n, "n")
    task = _Repeat(simulate, build_model, quantities, names, level, seed, update, dict(sampler))
    about = described_task(task, simulated(simulate, np.random.default_rng(task._seeds(0)[0])), what="coverage")
    journal = Journal(None if path is None else Path(path), about, {"found": by_name(by_name(numbers(4)))})
    run_numbers(task, range(count), journal, choose_runner(client, workers), "releases", progressbar)
    records = [journal.records[k] for k in range(count) if k in journal.records]
    good = [record["found"] for record in records if "error" not in record]
    errors = [f"{record['number']}: {record['error']}" for record in records if "error" in record]
    if not good:
        raise ValueError(f"all {len(errors)} releases failed; the first one: {errors[0]}")
    return _summary(good, errors, level)


def _summary(good: list[dict[str, dict[str, list[float]]]], errors: list[str], level: float) -> xr.Dataset:
    labels, analyses = list(good[0]), list(next(iter(good[0].values())))
    values = np.array([[[found[q][a] for q in labels] for a in analyses] for found in good])
    true, mean, low, high = np.moveaxis(values, -1, 0)
    n = len(good)
    hits = np.sum((low <= true) & (true <= high), axis=0)
    table = {
        "coverage": hits / n,
        "coverage_low": np.where(hits > 0, stats.beta.ppf(0.005, hits, n - hits + 1), 0.0),
        "coverage_high": np.where(hits < n, stats.beta.ppf(0.995, hits + 1, n - hits), 1.0),
        "bias": np.mean(mean - true, axis=0),
        "rmse": np.sqrt(np.mean((mean - true) ** 2, axis=0)),
        "width": np.mean(high - low, axis=0),
    }
    return xr.Dataset(
        {key: (("analysis", "quantity"), value) for key, value in table.items()},
        coords={"analysis": analyses, "quantity": labels},
        attrs={"n": n, "failed": len(errors), "errors": "; ".join(errors), "probability": level},
    )
