"""Perturbed tables with known truth, their posteriors, and what users do today: what notebook 09 counts.

Repetitions stand side by side in one model, as a first dimension over which they share nothing: they are independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pymc as pm
import xarray as xr

import bayesdp as bdp

__all__ = [
    "COUNTIES",
    "RACES",
    "intervals",
    "model_of",
    "publish",
    "quantities",
    "summary",
    "suppress",
    "today",
    "truths",
]

type Floats = npt.NDArray[np.float64]

COUNTIES = 8
RACES = ("black", "american_indian", "asian", "other")
_Z = 1.6448536269514722  # 90 %


def truths(repetitions: int) -> xr.DataArray:
    """Real tables, another one each time: the counties of the Midwest with the fewest people, eight a table, by four small races."""
    counties = bdp.datasets.midwest_counties()
    order = np.argsort(counties.sum("race").values, kind="stable")
    if repetitions * COUNTIES > order.size:
        raise ValueError(f"repetitions must be at most {order.size // COUNTIES}, got {repetitions}")
    # Dealt out like cards, so that each table has small and large counties.
    chosen = order[: repetitions * COUNTIES].reshape(COUNTIES, repetitions).T
    values = counties.sel(race=list(RACES)).values[chosen]
    coords = {
        "table": [f"table {r + 1}" for r in range(repetitions)],
        "county": [f"county {k + 1}" for k in range(COUNTIES)],
        "race": list(RACES),
    }
    return xr.DataArray(values, coords, ("table", "county", "race"))


def _queries(table: xr.DataArray) -> list[Any]:
    return [
        bdp.Identity(table),
        *(bdp.Margins(table, dims) for dims in (["table", "county"], ["table", "race"], ["table"])),
    ]


def publish(table: xr.DataArray, law: Any, rng: np.random.Generator) -> bdp.Release:
    """Cells, counties, races and totals of each table, each perturbed on its own."""
    queries = _queries(table)
    drawn = law.draw_answers(rng, queries, table.values)
    parts = [bdp.Measured(query, values, law) for query, values in zip(queries, drawn, strict=True)]
    return bdp.Release.from_published(table, measured=parts, simulated=True)


def suppress(table: xr.DataArray, below: int) -> bdp.Release:
    """Cells of 1 to `below` - 1 are not published, the other cells and the totals of races are, as they are."""
    cells, _, races, _ = _queries(table)
    shown = np.where((table.values > 0) & (table.values < below), np.nan, table.values)
    parts = bdp.suppressed(cells, shown, below=below, assumption="primary")
    exact = [*parts, bdp.Exact(races, races.apply(table.values))]
    return bdp.Release.from_published(table, exact=exact, simulated=True)


def model_of(release: bdp.Release) -> pm.Model:
    """Overdispersed counts with a level for each race of each table, which nothing but this table informs."""
    with pm.Model(coords=release.coords) as model:
        level = pm.Normal("level", np.log(30.0), 2.0, dims=("table", "race"))
        variation = pm.HalfNormal("variation", 1.5, dims="table")
        ones = np.ones(release.frame.shape)
        mean = pm.math.exp(level)[:, None, :] * ones
        shape = ones / (variation**2 + 1e-3)[:, None, None]
        x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=mean, alpha=shape), dims=release.dims)
        bdp.observe(release, x)
    return model


def _log_odds(counts: Any) -> Any:
    """Of two counties and two races of a table, with 1/2 added to each count."""
    a, b, c, d = (
        np.asarray(counts)[..., i, j] + 0.5 for i, j in ((0, 1), (0, 2), (COUNTIES - 1, 1), (COUNTIES - 1, 2))
    )
    return np.log(a * d / (b * c))


def quantities(counts: Any) -> dict[str, Floats]:
    """What is asked of tables, shape (..., tables, counties, races); the last dimension of each answer runs within a table."""
    counts = np.asarray(counts, dtype=np.float64)
    races = counts.sum(axis=-2)
    total = races.sum(axis=-1, keepdims=True)
    return {
        "cell": counts.reshape(*counts.shape[:-2], -1),
        "county total": counts.sum(axis=-1),
        "race total": races,
        "share of a race": races / np.maximum(total, 1.0),
        "log odds ratio": _log_odds(counts)[..., None],
    }


def intervals(draws: Any) -> dict[str, tuple[Floats, Floats]]:
    """90 % equal-tailed intervals from draws, shape (chains, draws, tables, counties, races)."""
    flat = np.asarray(draws).reshape(-1, *np.shape(draws)[2:])
    found = {}
    for name, own in quantities(flat).items():
        method: Any = "linear" if name in ("share of a race", "log odds ratio") else "inverted_cdf"
        low, high = np.quantile(own, [0.05, 0.95], axis=0, method=method)
        found[name] = low, high
    return found


def today(
    cells: Any, reach: float, variance: float, margins: dict[str, Any] | None = None
) -> dict[tuple[str, str], tuple[Floats, Floats]]:
    """Intervals without a likelihood.

    Parameters
    ----------
    cells : array_like, shape (tables, counties, races)
        As published.
    reach : float
        The largest deviation: base - 1, or D.
    variance : float
        What users take for the variance of each published count.
    margins : dict, optional
        Published totals, by "county total" and "race total".

    Returns
    -------
    dict
        By method and quantity: "as it is" has no width; "+- reach" adds the largest deviation to a published number; "sums, sd" has
        normal intervals around sums of published cells, of shares and of the log odds ratio by the delta method.
    """
    cells = np.asarray(cells, dtype=np.float64)
    own = quantities(cells)
    total = cells.sum(axis=(-2, -1))[:, None]
    n, races = COUNTIES, len(RACES)
    found = {("as it is", name): (value, value) for name, value in own.items()}
    for name, value in {"cell": own["cell"], **(margins or {})}.items():
        flat = np.asarray(value, dtype=np.float64).reshape(len(cells), -1)
        found["± reach", name] = np.maximum(flat - reach, 0.0), flat + reach
    share = own["share of a race"]
    corner = cells[:, [0, 0, n - 1, n - 1], [1, 2, 1, 2]] + 0.5
    spread = {
        "cell": np.sqrt(variance) * np.ones_like(own["cell"]),
        "county total": np.sqrt(races * variance) * np.ones_like(own["county total"]),
        "race total": np.sqrt(n * variance) * np.ones_like(own["race total"]),
        "share of a race": np.sqrt(n * variance * ((1 - share) ** 2 + (races - 1) * share**2)) / np.maximum(total, 1.0),
        "log odds ratio": np.sqrt((variance / corner**2).sum(axis=-1, keepdims=True)),
    }
    for name, sd in spread.items():
        found["sums, sd", name] = own[name] - _Z * sd, own[name] + _Z * sd
    return found


def summary(
    truth: xr.DataArray,
    posterior: dict[str, tuple[Floats, Floats]],
    simple: dict[tuple[str, str], tuple[Floats, Floats]],
) -> Iterator[dict[str, Any]]:
    """Coverage with its standard error, and mean width, by quantity and method.

    Yields
    ------
    dict
        ``quantity``, ``method``, ``coverage``, ``standard error`` (over tables, which are independent; their numbers are not) and
        ``width``.
    """
    true = quantities(truth.values)
    methods = {("posterior", name): own for name, own in posterior.items()} | simple
    for (method, name), (low, high) in methods.items():
        held = (low - 1e-9 <= true[name]) & (true[name] <= high + 1e-9)
        by_table = held.mean(axis=-1)
        error = by_table.std(ddof=1) / np.sqrt(len(by_table)) if len(by_table) > 1 else np.nan
        yield {
            "quantity": name,
            "method": method,
            "coverage": by_table.mean(),
            "standard error": error,
            "width": (high - low).mean(),
        }


def as_table(rows: Any) -> pd.DataFrame:
    """Rows of `summary` with one column of coverage and one of width for each method."""
    frame = pd.DataFrame(list(rows))
    frame["coverage"] = [f"{c:.2f} ({e:.2f})" for c, e in zip(frame["coverage"], frame["standard error"], strict=True)]
    wide = frame.pivot(index="quantity", columns="method", values=["coverage", "width"])
    return wide.reindex(list(dict.fromkeys(frame["quantity"])))
