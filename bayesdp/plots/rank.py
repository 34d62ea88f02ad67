"""Rank plots, by ArviZ, of the quantities that mixed worst."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import arviz as az
import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.figure import Figure

from bayesdp._chains import ess_bulk
from bayesdp._validate import positive_integer
from bayesdp.plots.fit import Fit
from bayesdp.plots.style import WIDTH, cell_labels, percent, plain, style

__all__ = ["ranks", "worst_mixed"]

_ENVELOPE = 0.95
_ROUNDING = 1e-12


def worst_mixed(fit: Fit, quantities: int) -> list[tuple[str, npt.NDArray[np.float64]]]:
    """Draws of the quantities with the smallest bulk effective sample size, shape ``(chain, draw)``, with labels.

    Determined cells, and anything else that never moved but for rounding errors, are left out; so are the coordinates
    behind a continuous relaxation, which are the table in other words.
    """
    coordinates = None if fit.relaxation is None else f"{fit.name}_coordinates"
    found: list[tuple[float, str, npt.NDArray[np.float64]]] = []
    for name, own in fit.tree["posterior"].to_dataset().data_vars.items():
        if own.dtype.kind not in "iuf" or name == coordinates:
            continue
        draws = own.transpose("chain", "draw", ...).values.reshape(fit.chains, fit.draws, -1)
        flat = draws.reshape(-1, draws.shape[2])
        moves = np.flatnonzero(np.ptp(flat, axis=0) > _ROUNDING * np.abs(flat).max(axis=0))
        if not moves.size:
            continue
        moving = draws[..., moves].astype(np.float64)
        ess = ess_bulk(moving)
        for i in np.argsort(np.nan_to_num(ess, nan=0.0), kind="stable")[:quantities]:
            label = _label(fit, str(name), own, int(moves[i]))
            found.append((float(np.nan_to_num(ess[i], nan=0.0)), label, moving[..., i]))
    found.sort(key=lambda item: item[0])
    return [(label, draws) for _, label, draws in found[:quantities]]


def _label(fit: Fit, name: str, own: xr.DataArray, position: int) -> str:
    """A title as Matplotlib shall draw it."""
    if own.ndim == 2:
        return plain(name)
    if name == fit.name:
        return f"{plain(name)}: {cell_labels(fit.release.frame, [position])[0]}"
    place = np.unravel_index(position, own.transpose("chain", "draw", ...).shape[2:])
    dims = [dim for dim in own.dims if dim not in ("chain", "draw")]
    labels = [str(own[dim].values[i]) if dim in own.coords else str(i) for dim, i in zip(dims, place, strict=True)]
    return plain(f"{name}: {' · '.join(labels)}")


def ranks(posterior: xr.DataTree, *, quantities: int = 4) -> Figure | None:
    """Draw rank plots of the quantities with the smallest effective sample sizes.

    Chains that agree have lines inside the band; a line that leaves it is a chain that was somewhere else.

    Parameters
    ----------
    posterior : xarray.DataTree
        As `bayesdp.sample` returns it.
    quantities : int, default 4
        How many.

    Returns
    -------
    matplotlib.figure.Figure or None
        None for a single chain, which has nothing to be compared with, for fewer than four draws, and where nothing
        moves.

    Raises
    ------
    TypeError, ValueError
        If the DataTree is not a posterior of a release.

    Notes
    -----
    Counts are integers (unless relaxed), so that draws tie; ties are broken at random (with a fixed seed), or the ranks of chains that
    agree perfectly would not be uniform.

    """
    fit = Fit.of(posterior)
    positive_integer(quantities, "quantities")
    if fit.chains < 2 or fit.draws < 4:
        return None
    chosen = worst_mixed(fit, quantities)
    if not chosen:
        return None
    rng = np.random.default_rng(0)
    stacked = np.stack([_untied(draws, rng) for _, draws in chosen], axis=-1)
    labels = [f"{i + 1}" for i in range(len(chosen))]
    tree = az.from_dict({"posterior": {"quantity": stacked}}, dims={"quantity": ["which"]}, coords={"which": labels})
    return _drawn(tree, [label for label, _ in chosen])


def _untied(draws: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Ranks of the draws among all chains, ties broken at random."""
    flat = draws.reshape(-1)
    order = np.lexsort((rng.random(flat.size), flat))
    ranked = np.empty(flat.size)
    ranked[order] = np.arange(flat.size)
    return ranked.reshape(draws.shape)


def _drawn(tree: Any, titles: list[str]) -> Figure:
    # ArviZ draws through pyplot, which keeps figures open until they are closed.
    plt = import_module("matplotlib.pyplot")
    columns = min(2, len(titles))
    rows = -(-len(titles) // columns)
    with style():
        collection = az.plot_rank(
            tree,
            method="envelope",
            envelope_prob=_ENVELOPE,
            backend="matplotlib",
            col_wrap=columns,
            figure_kwargs={"figsize": (WIDTH, 0.6 + 1.9 * rows)},
        )
        drawn: Figure = collection.viz["figure"].item()
        for axes, title in zip(drawn.axes, titles, strict=False):
            axes.set_title(title, fontsize=10)
            axes.set_xlabel("")
        for axes in drawn.axes[len(titles) :]:  # of an odd number the last place stays empty
            axes.remove()
        label = f"fractional rank (band: simultaneous {percent(_ENVELOPE)} envelope of chains that agree)"
        drawn.supxlabel(label, fontsize=10)
        plt.close(drawn)
    return drawn
