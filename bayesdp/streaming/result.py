"""The result of a run as a tree of data sets: draws, cells and diagnostics of one, and what is put together of all parts."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _text
from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._chains import chain_statistics
from bayesdp._interrupts import give_back
from bayesdp._text import printable, shown
from bayesdp.fibers import Target
from bayesdp.frames import Frame
from bayesdp.hierarchies.modes import MissedModes, TiedGroups, compare_entries, entries_of, several_modes
from bayesdp.hierarchies.structure import Structure
from bayesdp.inference.diagnostics import (
    Worst,
    cell_limits,
    diagnosed_variable,
    not_diagnosed,
    rhat_limits,
    verdict_of,
    with_modes,
)
from bayesdp.measurements.consistency import unseen_tables
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage.journal import Arrays
from bayesdp.storage.posteriors import CELLS
from bayesdp.streaming.above import SUMS, NoisyAbove
from bayesdp.streaming.cells import Pooled, batching, pooled
from bayesdp.streaming.chains import Chain, longest_together
from bayesdp.streaming.part import PartContext


def part_result(context: PartContext, states: Sequence[Path | Chain]) -> dict[str, xr.Dataset]:
    """The result of a part from the states of all of its chains: draws, cells, diagnostics, and what was published."""
    chains = longest_together(
        [own if isinstance(own, Chain) else Chain.read(own, context, number) for number, own in enumerate(states)]
    )
    if context.groups is None:  # no chain has begun in this process
        context.new_kernel(np.random.default_rng(0))
    posterior = _posterior(context, chains)
    cells, found = _cells(context, chains)
    diagnostics = _diagnostics_of(posterior, context, chains, found)
    limits, release = limits_of(context.target, context.release, context.structure), context.release.to_dataset()
    return {"posterior": posterior, "cells": cells, "diagnostics": diagnostics, "release": release, "fiber": limits}


def unseen(context: PartContext) -> Floats:
    """The sums over the leaves, shape (3, C), of random tables that what is exact of a part does not see."""
    release, structure = context.release, context.structure
    known = limits_of(context.target, release, structure)["determined"].values
    tables = unseen_tables(release.frame, release.exact, known)[0].reshape(3, *release.frame.shape)
    return np.asarray(tables.sum(axis=1 + structure.axis).reshape(3, -1))


def _posterior(context: PartContext, chains: Sequence[Chain]) -> xr.Dataset:
    """The draws of queries of the table and of hyperparameters, cut to the shortest chain."""
    frame = context.release.frame
    draws = min(chain.draws for chain in chains)
    coords: dict[str, Any] = {"chain": [chain.number for chain in chains], "draw": np.arange(draws)}
    arrays: dict[str, Any] = {}
    for name, query in context.queries.items():
        # Taken out of the chains one by one: never are all answers in memory twice.
        answers = np.stack([chain.answers.pop(name)[:draws] for chain in chains])
        arrays[name] = recorded_draws(name, query, answers, coords, frame)
    for name, given in context.spec.prior.names.items():
        stacked = np.stack([chain.drawn.pop(name)[:draws] for chain in chains])
        dims, values, labels = _in_frame(stacked, given, context.structure)
        coords |= {dim: own for dim, own in labels.items() if dim not in coords}
        arrays[name] = (("chain", "draw", *dims), values)
    return xr.Dataset(arrays, coords=coords)


def recorded_draws(name: str, query: Query, answers: Ints, coords: dict[str, Any], frame: Frame) -> tuple[Any, ...]:
    """Draws of the answers of a query, shape (chains, draws, rows), as a variable; its labels go to `coords`."""
    dims, shape = _placed(name, query, coords)
    return ("chain", "draw", *dims), answers.reshape(*answers.shape[:2], *shape), _described(query, frame)


def _placed(name: str, query: Query, coords: dict[str, Any]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The dimensions of the answers of a query, and their lengths; its labels go to `coords`, where they do not contradict it."""
    alone = len(query.parts) == 1 and query.dims != ("answer",)
    labels = {dim: list(own) for dim, own in query.coords.items()} if alone else {}
    if not alone or any(dim in coords and list(coords[dim]) != own for dim, own in labels.items()):
        labels = {f"{name}_answer": list(query.names)}
    coords |= labels
    return tuple(labels), tuple(map(len, labels.values()))


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


def _cells(context: PartContext, chains: Sequence[Chain]) -> tuple[xr.Dataset, Pooled]:
    """Summaries of every cell, with the dimensions of the table."""
    plan, frame = context.spec.plan, context.structure.frame
    length, _ = batching(plan.draws, plan.batches)
    kept = [chain.kept for chain in chains if chain.kept is not None]
    found = pooled(kept, [chain.draws for chain in chains], length, plan.quantiles)
    del kept
    for chain in chains:
        chain.kept = None  # most of the memory of a run, and not needed any more
    give_back()
    fixed = np.asarray(context.target.fiber.system.lower)  # of cells that cannot move, the counts
    variables: list[tuple[str, tuple[str, ...], npt.NDArray[Any], Any, str]] = [
        ("mean", (), found.mean, fixed, "mean of the draws of all chains"),
        ("sd", (), found.sd, 0.0, "standard deviation of the draws of all chains, over their number minus 1"),
        ("chain_mean", ("chain",), found.chain_mean, fixed, "mean of the draws of each chain"),
        ("chain_sd", ("chain",), found.chain_sd, 0.0, "standard deviation of the draws of each chain"),
        (
            "probability", ("value",), found.probability, fixed == np.arange(plan.counts + 1)[:, None],
            "share of the draws in which the count is the value",
        ),
        (
            "quantile", ("share",), _short(found.quantile, fixed), fixed,
            "the smallest count with at least this share of the draws at or below it; less than `width` counts away from it",
        ),
        ("width", (), _short(found.width), 1, "1 where quantiles are those of the draws; else the width of the widest bin"),
        (
            "ess", (), found.ess.astype(np.float32), np.nan,
            "effective sample size of the mean, from means of batches; NaN where the cell cannot move or never did",
        ),
        (
            "rhat", (), found.rhat.astype(np.float32), np.nan,
            "split R-hat, from means of batches; NaN where the cell cannot move or never did",
        ),
    ]  # fmt: skip
    arrays = {}
    for name, lead, values, elsewhere, meaning in variables:
        first = values.shape[:-1]
        table = np.array(np.broadcast_to(elsewhere, (*first, frame.size)), dtype=values.dtype, order="C")
        table[..., context.place] = values
        arrays[name] = ((*lead, *frame.dims), table.reshape(*first, *frame.shape), {"meaning": meaning})
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
        "chains": len(chains),
        "batch_length": length,
        "bins": plan.bins,
        "moving_cells": len(context.where),
    }
    return cells, found


def _short(values: Ints, *others: Ints) -> npt.NDArray[np.integer]:
    """Whole numbers in half of the memory, where they fit with all others of their table."""
    largest = max((int(own.max(initial=0)) for own in (values, *others)), default=0)
    return values.astype(np.int32) if largest < 2**31 else values


def _diagnostics_of(posterior: xr.Dataset, context: PartContext, chains: Sequence[Chain], found: Pooled) -> xr.Dataset:
    """Effective sample sizes and R-hat of what was recorded, and a verdict over that and all cells."""
    # A cell that could move and never did counts as not converged, unless it was 0 in every draw of every chain: of millions of
    # cells that are nearly always 0, many will be. Answers that never change are left to their cells.
    plan, structure = context.spec.plan, context.structure
    number, draws = len(chains), posterior.sizes["draw"]
    shortest = min(chain.draws for chain in chains)
    free = _moving(posterior)
    moved = (found.chain_sd > 0.0).any(axis=0) | (np.ptp(found.chain_mean, axis=0) > 0.0)
    groups = sum(bool(own.any()) for own in free.values()) + bool(moved.any())
    arrays, seen = _diagnosed(posterior, free, groups, context.spec.prior.names)
    still = ~moved & (found.mean > 0.0)
    if still.any():
        determined = structure.leaves_by_cells(context.target.fiber.determined().reshape(-1)).reshape(-1)
        still &= ~np.asarray(determined, dtype=np.bool_)[context.where]
    known = np.flatnonzero(np.isfinite(found.ess))
    place, frame = context.place[known], structure.frame
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
        attributes |= not_diagnosed(f"{shortest} draws of a chain are too few batches of {length}").attrs
        attributes["verdict_counts"] = "not judged"
    told = with_modes(attributes, {"cells": _modes(context, chains, found)})
    if context.missed:
        told["message"] += (
            f" The noisy answers of {shown(context.missed, write=str)} are far more precise than others, and no move of "
            "the sampler keeps all of them: what depends on how they divide among cells may mix slowly, and modes may be missed."
        )
    return xr.Dataset(arrays, attrs=told)


def _moving(posterior: xr.Dataset) -> dict[str, xr.DataArray]:
    """Of each variable, which quantities are not the same in all draws."""
    return {
        str(name): ~(own == own.isel(chain=0, draw=0, drop=True)).all(("chain", "draw"))
        for name, own in posterior.data_vars.items()
    }


def _diagnosed(
    posterior: xr.Dataset, moving: dict[str, xr.DataArray], variables: int, parameters: Container[str]
) -> tuple[dict[str, xr.DataArray], list[Worst]]:
    """Diagnostics of the quantities that move, and the worst of each variable."""
    arrays: dict[str, xr.DataArray] = {}
    seen: list[Worst] = []
    for name, own in moving.items():
        kind = "parameters" if name in parameters else "counts"
        found, worst = diagnosed_variable(own.rename(name), posterior[name].values, variables, kind)
        arrays |= found
        seen.append(worst)
    return arrays, seen


def _modes(context: PartContext, chains: Sequence[Chain], found: Pooled) -> MissedModes:
    """Whether chains that started far apart agree."""
    structure, groups = context.structure, context.groups
    assert groups is not None
    ends = np.stack([chain.ends for chain in chains])
    leaf, cell, _ = entries_of(groups)
    place = np.searchsorted(context.where, leaf * structure.free.shape[1] + cell)  # cells of groups are free
    means, sds, ess = (own[:, place] for own in (found.chain_mean, found.chain_sd, found.chain_ess))
    apart, several = (ends != ends[0]).any(axis=0), several_modes(context.spec.prior)
    return compare_entries(TiedGroups(structure, groups, apart), means, sds, ess, several=several)


_ENOUGH = 40.0
"""Effective draws of a sum of a part, below which the spread of what depends on it is not to be trusted (a ninth of itself off)."""


type Mixing = tuple[dict[str, xr.DataArray], str]
"""How the sums of parts moved: by query above, part and answer, effective sample sizes and R-hat of what the part adds (NaN where it
counts in no such answer, or has that sum exact); and which queries hold sums so tightly that they hardly moved, in words."""


def mixing_of(
    noisy: Sequence[NoisyAbove], tops: Sequence[Arrays], fixed: Sequence[Sequence[Mask]], labels: Sequence[str]
) -> Mixing:
    """Look at the sums that were recorded of each chain; `fixed`, for each part and query, are those that exact answers determine."""
    arrays: dict[str, xr.DataArray] = {}
    told: list[str] = []
    for number, query in enumerate(noisy):
        draws = np.stack([own[f"{SUMS}{query.name}"] for own in tops])
        chains, phases = draws.shape[:2]
        free = query.measured[query.rows] & ~np.stack([own[number] for own in fixed])
        flat = draws.reshape(chains, phases, -1)[..., free.reshape(-1)]
        moved = ~(flat == flat[:1, :1]).all(axis=(0, 1))
        sizes, ratios = np.zeros(moved.size), np.full(moved.size, np.nan)
        limits = np.full(moved.size, np.inf)
        if phases >= 4 and moved.any():
            statistics = chain_statistics(flat[..., moved])
            sizes[moved], ratios[moved] = statistics.ess_bulk, statistics.rhat
            limits[moved] = rhat_limits(flat[..., moved], statistics.rhat, len(noisy))
        # NaN: chains that stand still, each where it began, and sums that never moved.
        slow = ~(sizes >= min(_ENOUGH, chains * phases / 4)) | ~(ratios <= limits)
        if phases >= 4 and slow.any():
            told.append(_slow(query, int(slow.sum()), np.nan_to_num(sizes), ratios))
        dims, coords = ("part", f"{query.name}_answer"), {"part": list(labels), f"{query.name}_answer": query.labels}
        for name, found in (("ess_bulk", sizes), ("rhat", ratios)):
            own = np.full(query.rows.shape, np.nan)
            own[free] = found
            full = np.full((len(labels), len(query.values)), np.nan)
            np.put_along_axis(full, query.rows, own, axis=1)
            arrays[f"{query.name}_of_part_{name}"] = xr.DataArray(full, dims=dims, coords=coords)
    message = ""
    if told:
        message = (
            "Sums of parts moved too little from phase to phase, held by the noisy answers above: "
            f"{shown(told, between='; ', write=str)}. What depends on how these answers are divided among the parts is not to be "
            "trusted. Draw more, in shorter phases and with together=1; where an answer above is far more precise than the parts, "
            "fit all in one with bdp.fit_hierarchy"
        )
    return arrays, message


def _slow(query: NoisyAbove, number: int, sizes: Floats, ratios: Floats) -> str:
    scale = query.scale[query.measured]
    seen = ratios[~np.isnan(ratios)]
    worst = f", R-hat up to {seen.max():.3f}" if seen.size else ""
    return (
        f"{printable(query.name)!r} (standard deviation of its noise from {scale.min():.3g}; {number} of {sizes.size} sums, smallest "
        f"effective sample size {sizes.min():.0f}{worst})"
    )


def tree_of_parts(
    tops: Sequence[Arrays],
    queries: dict[str, Query],
    ends: Sequence[int],
    labels: Sequence[str],
    results: Sequence[dict[str, xr.Dataset]],
    mixing: Mixing,
    determined: dict[str, Mask],
) -> xr.DataTree:
    """Put together what was recorded of each chain above the parts, at the `ends` of phases, a verdict, and the parts."""
    chains = len(tops)
    coords: dict[str, Any] = {"chain": np.arange(chains), "draw": np.asarray(ends)}
    arrays: dict[str, Any] = {}
    for name, query in queries.items():
        dims, shape = _placed(name, query, coords)
        arrays[name] = (("chain", "draw", *dims), np.stack([top[name].reshape(len(ends), *shape) for top in tops]))
    posterior = xr.Dataset(arrays, coords=coords)
    posterior.attrs["meaning"] = "joint draws of all parts: the tables at the end of each phase"
    diagnostics = _diagnostics(posterior, chains, labels, results, mixing)
    groups: dict[str, Any] = {"posterior": posterior, "diagnostics": diagnostics}
    if determined:
        one = posterior.isel(chain=0, draw=0, drop=True)
        groups["determined"] = xr.Dataset(
            {name: one[name].copy(data=own.reshape(one[name].shape)) for name, own in determined.items()}
        )
    for label, own_groups in zip(labels, results, strict=True):
        groups |= {f"parts/{label}/{name}": own_data for name, own_data in own_groups.items()}
    return xr.DataTree.from_dict(groups)


def _diagnostics(
    posterior: xr.Dataset, chains: int, labels: Sequence[str], results: Sequence[dict[str, xr.Dataset]], mixing: Mixing
) -> xr.Dataset:
    """Of what was recorded above the parts and of the sums of parts, with a verdict over that and all parts."""
    draws = posterior.sizes["draw"]
    sums, slow = mixing
    moving = {name: own for name, own in _moving(posterior).items() if own.any()}
    arrays, seen = _diagnosed(posterior, moving, len(posterior.data_vars), ())
    verdicts = [str(own["diagnostics"].attrs["verdict"]) for own in results]
    own_verdict = verdict_of(seen, chains, draws) if seen else {"verdict": "converged", "message": ""}
    every = [str(own_verdict["verdict"]), *verdicts, *(["not converged"] if slow else [])]
    verdict = next((one for one in ("not converged", "not judged") if one in every), "converged")
    said = str(own_verdict["message"])
    told = (
        [said if own_verdict["verdict"] == verdict else f"Above the parts: {said.partition(': ')[2]}"] if seen else []
    )
    told += [f"{slow}."] if slow else []
    for kind in ("not converged", "not judged"):
        bad = [label for label, one in zip(labels, verdicts, strict=True) if one == kind]
        if bad:
            words = "bad, too" if seen and kind == own_verdict["verdict"] else kind  # the verdict is said once
            told.append(f"{len(bad)} of {len(labels)} parts are {words}: {shown(bad, 10, write=str)}.")
    attributes = {name: own for name, own in own_verdict.items() if name not in ("verdict", "message", "converged")}
    message = " ".join(told) or f"All {len(labels)} parts converged."
    part = xr.DataArray(verdicts, dims="part", coords={"part": list(labels)})
    return xr.Dataset(
        {**sums, **arrays, "verdict_of_part": part},
        attrs={**attributes, "verdict": verdict, "converged": int(verdict == "converged"), "message": message},
    )
