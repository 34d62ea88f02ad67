"""Views of Wikipedia's pages on an event, by day from one country, published with noise, and only where they are many.

Wikimedia adds noise to the views of each page from each country on each day, and publishes those whose noisy number is above a
threshold: Laplace noise of scale 30 and a threshold of 450 until 5 February 2023, Gaussian noise (rho = 0.015: a standard deviation
of 18.3) and one of 90 from then on (`bayesdp.datasets.WikimediaTerms.on`, whose file says which sigma follows from the
documents). What is asked is the total of an event. Adding up what is published leaves out every day that is not there.

**What an absent day means.** Its noisy number was under the threshold, also if nobody looked at the page: no views and noise are
under it all but surely, so that one likelihood, the probability of a number under the threshold, holds for both (``absent="under"``).
The documentation has a second reason: a page with 150 views or fewer in the world is no candidate that day, with any number up to
150 from this country (``absent="no candidate"``). The file does not say which it was. Fit both, and compare: where days of an event
are absent under a threshold of 450, they are what the answer depends on. Before a page was written it had no views: begin on the
first day that it had.

Read from top to bottom: this is how a model of such series is written. Run it with ``python models/page_views.py``, or with a file of
yours: ``python models/page_views.py FILE PAGE FIRST LAST COUNTRY``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import bayesdp as bdp
from bayesdp.datasets import WikimediaTerms

__all__ = [
    "build_model",
    "event_total",
    "make_release",
    "published_sum",
    "published_views",
    "read_release",
    "true_views",
    "write_file",
]

COUNTRY = "AU"
FIRST, LAST = "2023-01-28", "2023-02-24"
CANDIDATES = 150
"""Pages with this many views in the world, or fewer, were not published that day."""


def true_views(seed: int = 2023, first: str = FIRST, last: str = LAST) -> xr.DataArray:
    """Made-up views of two pages by day: one on a storm that comes and goes, and one that is looked at every day.

    The days are those around the change of the noise on 6 February 2023.
    """
    days = [str(day.date()) for day in pd.date_range(first, last)]
    rng, at = np.random.default_rng(seed), np.arange(len(days), dtype=float)
    rise, fall = 0.32 * len(days), 0.17 * len(days)
    storm = np.where(at < rise - 3, 15.0, 30.0 + 1500.0 * np.exp(-np.abs(at - rise) / fall))
    rates = np.stack([storm, 140.0 + 60.0 * np.sin(at / 5.0)]) * rng.lognormal(0.0, 0.15, (2, len(days)))
    return xr.DataArray(rng.poisson(rates), {"page_name": ["A storm", "Storms"], "date": days}, ("page_name", "date"))


def write_file(views: xr.DataArray, path: Path, seed: int | None = 1) -> None:
    """Play Wikimedia: add the noise of each day, and write the lines that are above the threshold of that day.

    Parameters
    ----------
    seed : int, optional
        Seed of simulated noise; None adds it for real, with the operating system's entropy.
    """
    rng = np.random.default_rng(seed)
    lines = ["page_name,date,views"]
    for day in views["date"].values:
        terms = WikimediaTerms.on(str(day), COUNTRY)
        noisy = terms.law.draw(rng, (views.sizes["page_name"],), location=views.sel(date=day).values)
        above = [
            f"{page},{day},{n}" for page, n in zip(views["page_name"].values, noisy, strict=True) if n > terms.threshold
        ]
        lines += above
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_release(
    path: Path, pages: Sequence[str], first: str, last: str, *, country: str = COUNTRY, absent: str = "under", simulated: bool = False
) -> bdp.Release:  # fmt: skip
    """Read some pages and days of a file with the columns ``page_name``, ``date`` and ``views``.

    Parameters
    ----------
    absent : {"under", "no candidate"}
        What a day without a line says: its noisy number was under the threshold, or the page had at most 150 views.

    Returns
    -------
    Release
        With one measurement for each law.
    """
    if absent not in ("under", "no candidate"):
        raise ValueError(f"absent must be 'under' or 'no candidate', got {absent!r}")
    (file,) = bdp.tables.read_office_csv(path, value="views", missing="below_threshold")
    unknown = set(pages) - set(file.labelled["page_name"].values.tolist())
    if unknown:
        raise ValueError(
            f"the file has no line of the pages {sorted(unknown)}: a page may have been under the threshold every day"
        )
    days = [str(day.date()) for day in pd.date_range(first, last)]
    # Days on which no page at all was published have no line of their own in the file.
    views = file.labelled.sel(page_name=list(pages)).reindex(date=days)
    of_day = [WikimediaTerms.on(day, country) for day in days]
    # The documents say "above"; where a line is equal to the threshold, equal numbers are published too.
    everything, parts, cells = file.labelled.min("page_name"), [], bdp.Identity(bdp.Frame.of(views))
    for terms in dict.fromkeys(of_day):
        own = (
            xr.DataArray([one == terms for one in of_day], {"date": days}, ("date",))
            .broadcast_like(views)
            .transpose(*views.dims)
        )
        least = everything.sel(
            date=[str(d) for d in everything["date"].values if WikimediaTerms.on(str(d), country) == terms]
        ).min()
        below = terms.threshold + (0 if least == terms.threshold else 1)
        there = views.where(own)
        if absent == "under":
            parts.append(bdp.thresholded(cells, there, terms.law, below, candidates=own.values))
        elif there.notnull().any():
            parts.append(bdp.Measured(cells, there.values, terms.law, unmeasured=there.isnull().values))
    few = np.flatnonzero(views.isnull().values) if absent == "no candidate" else np.array([], dtype=np.int64)
    exact = [bdp.Exact(bdp.queries.cell_list(cells.frame, few), [CANDIDATES] * few.size, "<=")] if few.size else []
    return bdp.Release.from_published(cells.frame, parts, exact, simulated=simulated)


def make_release(seed: int | None = 1) -> bdp.Release:
    """Write a file of made-up views, and read it."""
    views = true_views()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "views.csv"
        write_file(views, path, seed)
        return read_release(path, views["page_name"].values.tolist(), FIRST, LAST, simulated=seed is not None)


def published_views(release: bdp.Release) -> np.ndarray[Any, Any]:
    """Views as they were published, NaN on days that are absent."""
    values = [measured.published for measured in release.measurements]
    return np.where(np.isnan(values).all(axis=0), np.nan, np.nansum(values, axis=0))


def build_model(release: bdp.Release) -> pm.Model:
    """Overdispersed views, with a level and a variation for each page.

    Parameters
    ----------
    release : Release
        Of pages by days.

    Returns
    -------
    pymc.Model

    Notes
    -----
    ``x[page, day]`` is negative binomial with mean ``exp(level[page])`` and shape ``exp(log_shape[page])``: days of an event differ by
    a gamma factor that is integrated out. Given these an absent day is nothing but a count under the threshold, about as likely to
    be small as large. Nothing is said of neighbouring days. A level that walks from day to day says more of them, and is
    slow: views and levels of absent days then have only one another.
    """
    known = np.log(np.maximum(published_views(release), 1.0))
    with pm.Model(coords=release.coords) as model:
        level = pm.Normal("level", np.nanmedian(known), 1.5, dims="page_name")
        log_shape = pm.Normal("log_shape", 0.0, 1.0, dims="page_name")
        ones = np.ones(release.frame.shape)
        base = pm.NegativeBinomial.dist(
            mu=pm.math.exp(level)[:, None] * ones, alpha=pm.math.exp(log_shape)[:, None] * ones
        )
        x = bdp.ConfidentialCounts("x", base, dims=release.dims)
        bdp.observe(release, x)
    return model


def event_total(counts: xr.DataArray, page: str, first: str, last: str) -> xr.DataArray:
    """Views of a page from the first to the last day, both included, of draws of the table or of the truth."""
    return counts.sel(page_name=page, date=slice(first, last)).sum("date")


def published_sum(release: bdp.Release, page: str, first: str, last: str) -> tuple[int, int]:
    """The sum of what was published of a page and those days, and the number of days that are absent."""
    own = release.frame.data_array(published_views(release)).sel(page_name=page, date=slice(first, last))
    return int(own.sum()), int(own.isnull().sum())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        file_name, page, first, last, code = sys.argv[1:]
        published = read_release(Path(file_name), [page], first, last, country=code)
    else:
        page, first, last = "A storm", "2023-02-03", LAST
        published = make_release()
    print(published)
    with build_model(published):
        posterior = bdp.sample(chains=4, random_seed=1, nuts_sampler="pymc")
    print(posterior["diagnostics"].attrs["message"])
    total = event_total(posterior["posterior"].dataset["x"], page, first, last)
    low, high = total.quantile([0.05, 0.95]).values
    stated, days = published_sum(published, page, first, last)
    print(f"{page}, {first} to {last}: {low:,.0f} to {high:,.0f} views (90 %)")
    print(f"published numbers add up to {stated:,}; {days} days are absent")
    if len(sys.argv) == 1:
        print(f"the truth: {int(event_total(true_views(), page, first, last)):,}")
