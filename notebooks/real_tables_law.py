"""The law of a perturbed release that is not published: learnt, and its picture beside a law that is supposed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr
from matplotlib.figure import Figure

import bayesdp as bdp

__all__ = ["learn", "learnt_law", "with_law"]


def with_law(release: bdp.Release, law: bdp.noise.NoiseLaw) -> bdp.Release:
    """The same published numbers under another law."""
    measured = [
        bdp.Measured(own.query, own.values, law, name=own.name, unmeasured=own.unmeasured)
        for own in release.measurements
    ]
    return bdp.Release.from_published(release.frame, measured, release.exact)


def learn(release: bdp.Release, *, draws: int = 1000, tune: int = 300, seed: int = 1, sweeps: int = 1) -> xr.DataTree:
    """Posterior of table and law, for a release of areas by cells, the cells first, under `bdp.noise.UnknownPerturbation`.

    Each cell of an area is negative binomial around the mean of the published numbers of that cell.
    """
    cells = np.asarray(release.measurements[0].values, dtype=np.float64)
    with pm.Model(coords=release.coords):
        base = pm.NegativeBinomial.dist(mu=np.broadcast_to(cells.mean(axis=0) + 0.5, cells.shape), alpha=0.8)
        bdp.observe(release, bdp.ConfidentialCounts("x", base, dims=release.dims))
        return bdp.sample(
            draws, tune=tune, chains=2, random_seed=seed, quiet=True, progressbar=False, fiber_gibbs={"sweeps": sweeps}
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
