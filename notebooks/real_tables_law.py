"""The law of a perturbed release that is not published: learnt, and its picture beside a law that is supposed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pymc as pm
import xarray as xr
from matplotlib.figure import Figure

import bayesdp as bdp

__all__ = ["learn", "learnt_law", "of_australia", "parted", "with_law"]


def with_law(release: bdp.Release, law: bdp.noise.NoiseLaw, *, above: int = -1) -> bdp.Release:
    """The same published numbers under another law; with `above`, only those that are larger than that.

    Of counts as large as `above`, those with larger deviations stay: of the Australian numbers above 20, 2.2 % are 23 or less.
    """
    measured = []
    for own in release.measurements:
        left_out = np.asarray(own.unmeasured | (np.nan_to_num(own.values, nan=-np.inf) <= above))
        if not left_out.all():
            values = np.where(left_out, np.nan, own.values) if left_out.any() else own.values
            measured.append(bdp.Measured(own.query, values, law, name=own.name, unmeasured=left_out))
    return bdp.Release.from_published(release.frame, measured, release.exact)


def parted(release: bdp.Release) -> bdp.Release:
    """The release without what was published of larger areas with one part: they have its keys, and say nothing more."""
    below: Sequence[Any] = release.frame.coords[release.dims[0]]
    alone: dict[str, set[Any]] = {}
    for name, _, codes in release.frame.groups:
        parts = Counter(code for _, code in set(zip(below, codes, strict=True)))
        alone[name] = {code for code, many in parts.items() if many == 1}
        below = codes
    measured = []
    for own in release.measurements:
        first = own.query.dims[0] if own.query.dims else ""
        single = (
            np.isin(own.query.coords[first], list(alone[first])) if alone.get(first) else np.zeros(1, dtype=np.bool_)
        )
        left_out = np.asarray(own.unmeasured | single.reshape(-1, *[1] * (own.values.ndim - 1)))
        if not left_out.all():
            values = np.where(left_out, np.nan, own.values) if left_out.any() else own.values
            measured.append(bdp.Measured(own.query, values, own.law, name=own.name, unmeasured=left_out))
    return bdp.Release.from_published(release.frame, measured, release.exact)


def of_australia(folder: Path, law: bdp.noise.NoiseLaw, within: str = "123456789") -> bdp.Release:
    """Persons at work in Australia, as published: areas (SA3, SA4), states and, with all of them, the country; see `parted`."""
    release = bdp.datasets.working_population(law, levels=["SA3", "SA4", "STE"], within=list(within), folder=folder)
    if within != "123456789":
        return parted(release)
    frame, dims = release.frame, release.dims[1:]
    whole = pd.concat(
        [pd.read_csv(folder / f"2016Census_W01{part}_AUS.csv", index_col=0) for part in "AB"], axis=1
    ).iloc[0]
    measured = list(parted(release).measurements)
    for kept in product([True, False], repeat=3):
        labels = [
            frame.coords[d] if own else [all_] for d, own, all_ in zip(dims, kept, ("P", "Tot", "Tot"), strict=True)
        ]
        own = [dim for dim, keep in zip(dims, kept, strict=True) if keep]
        query = bdp.Margins(frame, own) if own else bdp.Totals(frame)
        values = whole[["_".join(one) for one in product(*labels)]].to_numpy().reshape(query.shape)
        measured.append(bdp.Measured(query, values, law, name=" ".join(["Australia", *own])))
    return bdp.Release.from_published(frame, measured)


def learn(
    release: bdp.Release, *, draws: int = 1000, tune: int = 300, seed: int = 1, sweeps: int = 1, cores: int = 1
) -> xr.DataTree:
    """Posterior of table and law, for a release of areas by cells, the cells first, under `bdp.noise.UnknownPerturbation`.

    Each cell of an area is negative binomial around the mean of the published numbers of that cell.
    """
    cells = np.where(release.measurements[0].unmeasured, np.nan, release.measurements[0].values)
    mean = np.nan_to_num(np.nansum(cells, axis=0) / np.maximum((~np.isnan(cells)).sum(axis=0), 1), nan=0.0)
    with pm.Model(coords=release.coords):
        base = pm.NegativeBinomial.dist(mu=np.broadcast_to(mean + 0.5, cells.shape), alpha=0.8)
        bdp.observe(release, bdp.ConfidentialCounts("x", base, dims=release.dims))
        return bdp.sample(
            draws,
            tune=tune,
            chains=2,
            cores=cores,
            random_seed=seed,
            quiet=True,
            progressbar=False,
            fiber_gibbs={"sweeps": sweeps},
        )


def learnt_law(posterior: xr.DataTree, beside: npt.ArrayLike | None = None, *, counts: Any = None) -> Figure:
    """Draw the rows of the law that was learnt: means and 90 % intervals of each probability.

    Parameters
    ----------
    posterior : xarray.DataTree
        Of `learn`.
    beside : array_like, shape (deviations,), optional
        Probabilities of the law that is supposed, of the last row.
    counts : sequence of int, optional
        Which rows: true counts, of which the last one stands for all larger ones; the first five after 0 and the last one by default.
    """
    draws = posterior["posterior"].dataset
    law = draws[next(str(name) for name in draws if str(name).endswith("_law"))]
    count, deviation = law.dims[-2:]
    known = law[count].values
    wanted = [*known[1:-1][:5], known[-1]] if counts is None else list(counts)
    drawn = Figure(figsize=(7.0, 1.3 * len(wanted)), layout="constrained")
    at = law[deviation].values
    for row, axes in zip(wanted, drawn.subplots(len(wanted), sharex=True, squeeze=False)[:, 0], strict=True):
        own = law.sel({count: row}).values.reshape(-1, len(at))
        low, high = np.quantile(own, [0.05, 0.95], axis=0)
        axes.bar(at, own.mean(axis=0), width=0.7, alpha=0.5, label="learnt, mean and 90 %")
        axes.vlines(at, low, high, color="black", linewidth=1.5)
        last = row == known[-1]
        if last and beside is not None:
            axes.plot(at, np.asarray(beside), "D", color="tab:red", markersize=5, label="supposed")
        axes.set_ylabel(f"count {row}{' or more' if last else ''}", rotation=0, ha="right", va="center")
        axes.set_ylim(0, max(1.15 * float(high.max()), 0.05))
    axes.set_xlabel("published number minus true count")
    axes.set_xticks(at)
    drawn.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False)
    drawn.supylabel("probability")
    return drawn
