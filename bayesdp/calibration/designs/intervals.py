"""From posteriors to numbers: equal-tailed intervals of every question, and what many of them come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import stats

type Floats = npt.NDArray[np.float64]

_LIMITS = 0.95
"""Of the Clopper-Pearson limits of a coverage."""


def row_of(truth: Mapping[str, Floats], draws: Mapping[str, Floats], probabilities: Sequence[float]) -> Floats:
    """Truth, posterior mean, and the ends of each interval, by question."""
    # An end is a draw (of whole numbers an interval so has whole ends, and may hold more than its probability). Returns shape
    # (question, 2 + 2 * probabilities): NaN in the whole row of a question that has no finite answer in the truth or in a draw.
    tails = np.array([[(1.0 - p) / 2.0, (1.0 + p) / 2.0] for p in probabilities]).reshape(-1)
    rows = np.full((len(truth), 2 + tails.size), np.nan)
    for row, (label, true) in zip(rows, truth.items(), strict=True):
        many = draws[label]
        if np.isfinite(true[0, 0]) and np.all(np.isfinite(many)):
            ends = np.quantile(many, tails, method="inverted_cdf")
            row[:] = [true[0, 0], many.mean(), *ends]
    return rows


def summary_of(rows: Floats, probabilities: Sequence[float], questions: Sequence[str]) -> xr.Dataset:
    """Mean widths, coverage, bias and error over many releases of one candidate."""
    # `rows`, shape (release, question, 2 + 2 * probabilities): of `row_of`; NaN where there is nothing.
    used = ~np.isnan(rows[:, :, 0])
    n = used.sum(axis=0)
    error = rows[:, :, 1] - rows[:, :, 0]
    low, high = rows[:, :, 2::2], rows[:, :, 3::2]
    true = rows[:, :, :1]
    hits = np.sum((low <= true) & (true <= high), axis=0)  # no comparison with NaN is true
    of = n[:, None]
    tail = (1.0 - _LIMITS) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        lower = np.where(hits > 0, stats.beta.ppf(tail, hits, of - hits + 1), 0.0)
        upper = np.where(hits < of, stats.beta.isf(tail, hits + 1, of - hits), 1.0)
        by_probability = {
            "width": _mean(high - low),
            "width_error": _standard_error(high - low),
            "coverage": hits / of,
            "coverage_low": np.where(of > 0, lower, np.nan),
            "coverage_high": np.where(of > 0, upper, np.nan),
        }
    by_question = {
        "bias": _mean(error),
        "bias_error": _standard_error(error),
        "rmse": np.sqrt(_mean(error**2)),
        "used": n,
    }
    return xr.Dataset(
        {key: (("question", "probability"), value) for key, value in by_probability.items()}
        | {key: (("question",), value) for key, value in by_question.items()},
        coords={"question": list(questions), "probability": list(probabilities)},
    )


def _mean(values: Floats) -> Floats:
    """Mean over the releases that have a number; NaN where none has."""
    n = np.sum(~np.isnan(values), axis=0)
    return np.asarray(np.divide(np.nansum(values, axis=0), n, out=np.full(n.shape, np.nan), where=n > 0))


def _standard_error(values: Floats) -> Floats:
    """Standard error of that mean; NaN where fewer than two releases have a number."""
    n = np.sum(~np.isnan(values), axis=0)
    squares = np.nansum((values - _mean(values)) ** 2, axis=0)
    variance = np.divide(squares, n * (n - 1.0), out=np.full(n.shape, np.nan), where=n > 1)
    return np.asarray(np.sqrt(variance))
