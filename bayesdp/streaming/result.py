"""The result of a run as a tree of data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _text
from bayesdp._interrupts import give_back
from bayesdp._text import printable
from bayesdp.composition import CELLS
from bayesdp.fibers import Target
from bayesdp.frames import Frame
from bayesdp.hierarchies.modes import MissedModes, compare_entries, entries_of, several_modes
from bayesdp.hierarchies.structure import Structure
from bayesdp.inference.diagnostics import Worst, cell_limits, diagnosed_variable, not_diagnosed, verdict_of, with_modes
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.streaming.budget import Plan
from bayesdp.streaming.cells import batching
from bayesdp.streaming.one_chain import OneChain
from bayesdp.streaming.pooling import Pooled, pooled

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_NAMED = 5
"""Precise queries that the message names at most."""

_MEANING = {
    "mean": "mean of the draws of all chains",
    "sd": "standard deviation of the draws of all chains, over their number minus 1",
    "chain_mean": "mean of the draws of each chain",
    "chain_sd": "standard deviation of the draws of each chain",
    "probability": "share of the draws in which the count is the value",
    "quantile": "the smallest count with at least this share of the draws at or below it; less than `width` counts away from it",
    "width": "1 where quantiles are those of the draws; else the width of the widest bin",
    "ess": "effective sample size of the mean, from means of batches; NaN where the cell cannot move or never did",
    "rhat": "split R-hat, from means of batches; NaN where the cell cannot move or never did",
}


def posterior_of(chains: Sequence[OneChain], structure: Structure, frame: Frame) -> xr.Dataset:
    """The draws of queries of `frame` and of hyperparameters, cut to the shortest chain."""
    draws = min(chain.draws for chain in chains)
    coords: dict[str, Any] = {"chain": [chain.number for chain in chains], "draw": np.arange(draws)}
    arrays: dict[str, Any] = {}
    for name, query in chains[0].queries.items():
        alone = len(query.parts) == 1 and query.dims != ("answer",)
        dims = query.dims if alone else (f"{name}_answer",)
        labels = query.coords if alone else {dims[0]: query.names}
        if any(dim in coords and list(coords[dim]) != list(own) for dim, own in labels.items()):
            dims, labels = (f"{name}_answer",), {f"{name}_answer": query.names}
        coords |= {dim: list(own) for dim, own in labels.items()}
        shape = query.shape if len(dims) == len(query.shape) else (query.rows,)
        # Taken out of the chains one by one: never are all answers in memory twice.
        answers = np.stack([chain.recorders.pop(name).answers[:draws].reshape(draws, *shape) for chain in chains])
        arrays[name] = (("chain", "draw", *dims), answers, _described(query, frame))
    for name, given in chains[0].prior.names.items():
        stacked = np.stack([chain.hyper.pop(name)[:draws] for chain in chains])
        dims, values, labels = _in_frame(stacked, given, structure)
        coords |= {dim: own for dim, own in labels.items() if dim not in coords}
        arrays[name] = (("chain", "draw", *dims), values)
    return xr.Dataset(arrays, coords=coords)


def _described(query: Query, frame: Frame) -> dict[str, str]:
    """The query for those who read its draws, where it can be stated with the labels of the release alone."""
    description = query.describe()
    try:
        same = Query.from_description(description, frame).parts == query.parts
    except (KeyError, ValueError):  # it has group labels that the release does not know
        same = False
    return {"query": _text.dumps(description, "query")} if same else {}


def limits_of(target: Target, release: Release, structure: Structure) -> xr.Dataset:
    """Which cells have one possible value, and what is known of the moves, as `bayesdp.sample` states it of a table."""
    frame, fiber = release.frame, target.fiber
    free = np.asarray(structure.in_frame(structure.free), dtype=np.bool_).reshape(frame.shape)
    determined = fiber.determined() | ~free
    return xr.Dataset(
        {"determined": frame.data_array(determined)},
        attrs={
            "variable": CELLS,
            "determined_complete": int(fiber.determined_is_complete),
            "connectivity": structure.claim,
            "proved": int(structure.proved),
        },
    )


def _in_frame(
    values: Floats, given: tuple[str, ...], structure: Structure
) -> tuple[tuple[str, ...], Floats, dict[str, list[Any]]]:
    """Draws of a hyperparameter with the labels of the frame, in its order."""
    frame, axis = structure.frame, structure.axis
    dims: list[str] = []
    labels: dict[str, list[Any]] = {}
    for own in given:
        place = 2 + len(dims)
        if own == "leaf":
            back = np.empty_like(values)
            back[(slice(None),) * place + (structure.order,)] = values
            values = back
            found = {frame.dims[axis]: list(frame.labels[axis])}
        elif own == "cell":
            found = {dim: list(frame.labels[i]) for i, dim in enumerate(frame.dims) if i != axis}
            sizes = tuple(len(items) for items in found.values())
            values = values.reshape(*values.shape[:place], *sizes, *values.shape[place + 1 :])
        elif own in structure.levels:
            nodes = structure.nodes_of(structure.levels.index(own))
            leaves = structure.order[structure.node_range[0][nodes]]
            known = {name: items for name, dim, items in frame.groups if dim == frame.dims[axis]}
            found = {own: [known[own][leaf] for leaf in leaves] if own in known else ["all"] * len(nodes)}
        else:
            found = {own: list(range(values.shape[place]))}
        dims += list(found)
        labels |= found
    return tuple(dims), values, labels


def cells_of(chains: Sequence[OneChain], structure: Structure, plan: Plan) -> tuple[xr.Dataset, Pooled]:
    """Summaries of every cell, with the dimensions of the table."""
    frame = structure.frame
    length, _ = batching(plan.draws, plan.batches)
    kept = [chain.kept for chain in chains if chain.kept is not None]
    found = pooled(kept, [chain.draws for chain in chains], length, plan.quantiles)
    del kept
    for chain in chains:
        chain.kept = None  # most of the memory of a run, and not needed any more
    give_back()
    fixed = np.asarray(chains[0].target.fiber.system.lower)  # of cells that cannot move, the counts
    spread = _Spread(structure, chains[0].where)
    numbers = len(chains)
    known: dict[str, tuple[npt.NDArray[Any], Any]] = {
        "mean": (found.mean, fixed),
        "sd": (found.sd, 0.0),
        "chain_mean": (found.chain_mean, fixed),
        "chain_sd": (found.chain_sd, 0.0),
        "probability": (found.probability, (fixed == np.arange(plan.counts + 1)[:, None])),
        "quantile": (_short(found.quantile, fixed), fixed),
        "width": (_short(found.width), 1),
        "ess": (found.ess.astype(np.float32), np.nan),
        "rhat": (found.rhat.astype(np.float32), np.nan),
    }
    lead = {"chain_mean": "chain", "chain_sd": "chain", "probability": "value", "quantile": "share"}
    arrays = {
        name: (
            (*([lead[name]] if name in lead else []), *frame.dims),
            spread(values, other),
            {"meaning": _MEANING[name]},
        )
        for name, (values, other) in known.items()
    }
    coords = {
        **frame.xarray_coords,
        "chain": [chain.number for chain in chains],
        "value": np.arange(plan.counts + 1),
        "share": list(plan.quantiles),
    }
    cells = xr.Dataset(arrays, coords=coords)
    cells.attrs = {
        "meaning": "the posterior of every cell of the table, from all draws, none of which was kept",
        "draws": [chain.draws for chain in chains],
        "chains": numbers,
        "batch_length": length,
        "bins": plan.bins,
        "moving_cells": len(chains[0].where),
    }
    return cells, found


def _short(values: Ints, *others: Ints) -> npt.NDArray[np.integer]:
    """Whole numbers in half of the memory, where they fit with all others of their table."""
    largest = max((int(own.max(initial=0)) for own in (values, *others)), default=0)
    return values.astype(np.int32) if largest < 2**31 else values


class _Spread:
    """Values of the cells that can move as tables of the frame."""

    def __init__(self, structure: Structure, where: Ints) -> None:
        self._structure = structure
        flat = np.asarray(structure.leaves_by_cells(np.arange(structure.frame.size))).reshape(-1)
        self.place = flat[where]
        fixed = np.ones(structure.frame.size, dtype=np.bool_)
        fixed[self.place] = False
        self._fixed = fixed

    def __call__(self, values: npt.NDArray[Any], other: Any) -> npt.NDArray[Any]:
        table = np.empty((*values.shape[:-1], self._structure.frame.size), dtype=values.dtype)
        table[..., self.place] = values
        rest = np.asarray(other)
        table[..., self._fixed] = rest[..., self._fixed] if rest.ndim else rest
        return table.reshape(*values.shape[:-1], *self._structure.frame.shape)


def diagnostics_of(
    posterior: xr.Dataset, chains: Sequence[OneChain], found: Pooled, target: Target, plan: Plan
) -> xr.Dataset:
    """Effective sample sizes and R-hat of what was recorded, and a verdict over that and all cells.

    A cell that could move and never did counts as not converged, unless it was 0 in every draw of every chain: of millions of
    cells that are nearly always 0, many will be. How many is in the attribute ``cells_always_zero``. Answers that never change are
    left to their cells.
    """
    number, draws = len(chains), posterior.sizes["draw"]
    shortest = min(chain.draws for chain in chains)
    free = {
        str(name): ~(own == own.isel(chain=0, draw=0, drop=True)).all(("chain", "draw"))
        for name, own in posterior.data_vars.items()
    }
    moved = (found.chain_sd > 0.0).any(axis=0) | (np.ptp(found.chain_mean, axis=0) > 0.0)
    groups = sum(bool(own.any()) for own in free.values()) + bool(moved.any())
    seen: list[Worst] = []
    arrays: dict[str, xr.DataArray] = {}
    for name, own in free.items():
        kind = "parameters" if name in chains[0].prior.names else "counts"
        own_arrays, worst = diagnosed_variable(own.rename(name), posterior[name].values, groups, kind)
        arrays |= own_arrays
        seen.append(worst)
    still = ~moved & (found.mean > 0.0)
    if still.any():
        determined = chains[0].structure.leaves_by_cells(target.fiber.determined().reshape(-1)).reshape(-1)
        still &= ~np.asarray(determined, dtype=np.bool_)[chains[0].where]
    known = np.flatnonzero(np.isfinite(found.ess))
    place, frame = _Spread(chains[0].structure, chains[0].where).place[known], chains[0].structure.frame
    length = batching(plan.draws, plan.batches)[0]
    limits = cell_limits(found.rhat[known], found.times[known], number, shortest, length, groups)
    stuck = bool(still.any() or np.isinf(found.rhat).any())
    numbers = found.rhat[known], limits, found.ess[known]
    seen.append(
        Worst.of("cells", "counts", *numbers, number, lambda i: f"cells[{frame.cell_name(int(place[i]))}]", stuck)
    )
    attributes = verdict_of(seen, number, draws)
    attributes["cells_always_zero"] = int((~moved & (found.mean == 0.0)).sum())
    if moved.any() and not known.size and attributes["verdict"] != "not converged":
        attributes |= not_diagnosed(
            f"{shortest} draws of a chain are too few batches of {batching(plan.draws, plan.batches)[0]}"
        ).attrs
        attributes["verdict_counts"] = "not judged"
    told = with_modes(attributes, {"cells": _modes(chains, found)})
    if chains[0].missed:
        told["message"] += f" {_missed(chains[0].missed)}"
    return xr.Dataset(arrays, attrs=told)


def _missed(queries: Sequence[str]) -> str:
    more = f" and {len(queries) - _NAMED} more" if len(queries) > _NAMED else ""
    return (
        f"The noisy answers of {', '.join(map(printable, queries[:_NAMED]))}{more} are far more precise than others, and no move of "
        "the sampler keeps all of them: what depends on how they divide among cells may mix slowly, and modes may be missed."
    )


def _modes(chains: Sequence[OneChain], found: Pooled) -> MissedModes:
    """Whether chains that started far apart agree."""
    first = chains[0]
    assert first.groups is not None
    ends = np.stack([chain.ends for chain in chains if chain.ends is not None])
    leaf, cell, _ = entries_of(first.groups)
    place = np.searchsorted(first.where, leaf * first.structure.free.shape[1] + cell)  # cells of groups are free
    means, sds, ess = (own[:, place] for own in (found.chain_mean, found.chain_sd, found.chain_ess))
    apart, several = (ends != ends[0]).any(axis=0), several_modes(first.prior)
    return compare_entries(first.structure, first.groups, means, sds, ess, apart, several=several)
