"""How often intervals hold the truth: width, coverage, bias and error over repeated releases."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp.calibration.fits import SAMPLER, Build, Simulations, Update, quiet_draws
from bayesdp.calibration.quantities import Quantities, Simulate, as_points, checked_quantities, evaluate, scalars
from bayesdp.calibration.runs import by_name, numbers
from bayesdp.calibration.verdict import share_limits


def row_of(true: float, draws: Floats, probabilities: Sequence[float]) -> Floats:
    """Truth, posterior mean, and the ends of each equal-tailed interval; all NaN where truth or draws are not finite."""
    # An end is a draw: of whole numbers an interval so has whole ends, and may hold more than its probability.
    tails = np.array([[(1.0 - p) / 2.0, (1.0 + p) / 2.0] for p in probabilities]).reshape(-1)
    if not (np.isfinite(true) and np.all(np.isfinite(draws))):
        return np.full(2 + tails.size, np.nan)
    return np.array([true, draws.mean(), *np.quantile(draws, tails, method="inverted_cdf")])


def summary_of(rows: Floats, probabilities: Sequence[float], names: Sequence[str], limits: float = 0.95) -> xr.Dataset:
    """Mean widths, coverage with its Clopper-Pearson limits, bias and error over many releases."""
    # `rows`, shape (release, name, 2 + 2 * probabilities): of `row_of`.
    n = np.sum(~np.isnan(rows[:, :, 0]), axis=0)
    error = rows[:, :, 1] - rows[:, :, 0]
    low, high, true = rows[:, :, 2::2], rows[:, :, 3::2], rows[:, :, :1]
    hits = np.sum((low <= true) & (true <= high), axis=0)  # no comparison with NaN is true
    lowest, highest = share_limits(hits, n[:, None], limits)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where no release, or only one, has a number
        by_probability = {
            "width": np.nanmean(high - low, axis=0),
            "width_error": np.nanstd(high - low, axis=0, ddof=1) / np.sqrt(n[:, None]),
            "coverage": hits / n[:, None],
            "coverage_low": lowest,
            "coverage_high": highest,
        }
        by_question = {
            "bias": np.nanmean(error, axis=0),
            "bias_error": np.nanstd(error, axis=0, ddof=1) / np.sqrt(n),
            "rmse": np.sqrt(np.nanmean(error**2, axis=0)),
            "used": n,
        }
    return xr.Dataset(
        {key: (("question", "probability"), value) for key, value in by_probability.items()}
        | {key: (("question",), value) for key, value in by_question.items()},
        coords={"question": list(names), "probability": list(probabilities)},
    )


@dataclass(kw_only=True)
class _Repeat(Simulations):
    """A task of a number: simulate one release, and compute the intervals of its posterior."""

    probability: float

    def __call__(self, number: int) -> dict[str, Any]:
        truth, seed = self.draw(number), int(self.streams(number)[1].generate_state(1)[0])
        posterior, _ = quiet_draws(self.refit.model(truth.release), SAMPLER | self.sampler, seed)
        points = as_points(truth, posterior)
        known = [str(variable) for variable in points.data_vars]
        found: dict[str, list[float]] = {}
        for quantity, function in checked_quantities(self.quantities or known, known).items():
            true, draws = (evaluate(quantity, function, data, truth.release) for data in (points, posterior))
            for (label, one), (_, many) in zip(scalars(quantity, true), scalars(quantity, draws), strict=True):
                found[label] = row_of(float(one[0, 0]), many, [self.probability]).tolist()
        return {"number": number, "found": found}


def coverage(
    simulate: Simulate,
    build_model: Build,
    quantities: Quantities = None,
    *,
    n: int,
    seed: int,
    probability: float = 0.95,
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
        As for `sbc`. What a naive analysis does (noise ignored, exact answers left out) shows when its model is given instead: with
        the same `seed` it gets the same releases.
    n, probability
        Releases, and the probability of the equal-tailed intervals.
    quantities, seed, client, workers, update, path, progressbar, **sampler
        As for `sbc`, quantities without the log-likelihood.

    Returns
    -------
    xarray.Dataset, dimension quantity
        ``coverage`` with its Clopper-Pearson limits at 99% (``coverage_low``, ``coverage_high``), ``bias``, ``rmse`` of
        the mean, ``width`` of the intervals. Attributes ``n``, ``failed``, ``errors``. ValueError if all fits failed.
    """
    level = _validate.probability(probability, "probability")
    count = _validate.positive_integer(n, "n")
    task = _Repeat(simulate, build_model, quantities, seed, update, dict(sampler), probability=level)
    where: Any = {"path": path, "client": client, "workers": workers, "progressbar": progressbar}
    good, bad, _ = task.run(count, "releases", {"found": by_name(numbers(4))}, **where, what="coverage")
    labels = list(good[0]["found"])
    rows = np.array([[record["found"][label] for label in labels] for record in good])
    found = summary_of(rows, [level], labels, 0.99).isel(probability=0, drop=True).rename(question="quantity")
    found = found.where(found["used"] == len(good))
    found.attrs = {
        "n": len(good),
        "failed": len(bad),
        "errors": "; ".join(f"{record['number']}: {record['error']}" for record in bad),
        "probability": level,
    }
    return found[["coverage", "coverage_low", "coverage_high", "bias", "rmse", "width"]]
