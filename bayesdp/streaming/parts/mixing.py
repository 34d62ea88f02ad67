"""Whether the sums of the parts moved enough: those that noisy answers above the parts tie to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._chains import chain_statistics
from bayesdp._text import printable
from bayesdp.inference.diagnostics import rhat_limits
from bayesdp.streaming.parts.checkpoint import SUMS, Standing
from bayesdp.streaming.parts.top import NoisyAbove

_ENOUGH = 40.0
"""Effective draws of a sum of a part, below which the spread of what depends on it is not to be trusted (a ninth of itself off)."""

_NAMED = 5
"""Queries that the message names at most."""


@dataclass(frozen=True, eq=False)
class Mixing:
    """How the sums of parts moved."""

    # For each noisy query above, effective sample sizes and R-hat of what each part adds to it, by part and answer. NaN where a
    # part does not count in an answer, or its exact answers determine its sum.
    arrays: dict[str, xr.DataArray]
    # Which queries hold the sums of the parts so tightly that they hardly moved from phase to phase; empty if there are none.
    message: str


def mixing_of(
    noisy: Sequence[NoisyAbove],
    standing: Standing,
    fixed: Sequence[Sequence[npt.NDArray[np.bool_]]],
    labels: Sequence[str],
) -> Mixing:
    """Look at the sums at the ends of all phases."""
    # `standing`: at the end of the run. `fixed`: for each part and query, the sums that the exact answers of the part determine.
    arrays: dict[str, xr.DataArray] = {}
    told: list[str] = []
    for number, query in enumerate(noisy):
        draws = np.stack([own[f"{SUMS}{query.name}"] for own in standing.tops]).astype(np.int64)
        chains, phases = draws.shape[:2]
        free = query.measured[query.rows] & ~np.stack([own[number] for own in fixed])
        flat = draws.reshape(chains, phases, -1)[..., free.reshape(-1)]
        moved = ~(flat == flat[:1, :1]).all(axis=(0, 1))
        sizes, ratios = np.zeros(moved.size), np.full(moved.size, np.nan)
        if phases >= 4 and moved.any():
            statistics = chain_statistics(flat[..., moved])
            sizes[moved], ratios[moved] = statistics.ess_bulk, statistics.rhat
            limits = np.full(moved.size, np.inf)
            limits[moved] = rhat_limits(flat[..., moved], statistics.rhat, len(noisy))
            # NaN: chains that stand still, each where it began
            slow = ~(sizes >= min(_ENOUGH, chains * phases / 4)) | ~(ratios <= limits)
            if slow.any():
                told.append(_slow(query, int(slow.sum()), np.nan_to_num(sizes), ratios))
        elif phases >= 4 and moved.size:
            told.append(_slow(query, moved.size, sizes, ratios))
        dims, coords = ("part", f"{query.name}_answer"), {"part": list(labels), f"{query.name}_answer": query.labels}
        for name, found in (("ess_bulk", sizes), ("rhat", ratios)):
            own = np.full(query.rows.shape, np.nan)
            own[free] = found
            full = np.full((len(labels), len(query.values)), np.nan)
            np.put_along_axis(full, query.rows, own, axis=1)
            arrays[f"{query.name}_of_part_{name}"] = xr.DataArray(full, dims=dims, coords=coords)
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    message = ""
    if told:
        message = (
            f"Sums of parts moved too little from phase to phase, held by the noisy answers above: {'; '.join(told[:_NAMED])}{more}. "
            "What depends on how these answers are divided among the parts is not to be trusted. Draw more, in shorter phases and "
            "with together=1; where an answer above is far more precise than the parts, fit all in one with bdp.fit_hierarchy"
        )
    return Mixing(arrays, message)


def _slow(query: NoisyAbove, number: int, sizes: npt.NDArray[np.float64], ratios: npt.NDArray[np.float64]) -> str:
    scale = query.scale[query.measured]
    seen = ratios[~np.isnan(ratios)]
    worst = f", R-hat up to {seen.max():.3f}" if seen.size else ""
    return (
        f"{printable(query.name)!r} (standard deviation of its noise from {scale.min():.3g}; {number} of {sizes.size} sums, smallest "
        f"effective sample size {sizes.min():.0f}{worst})"
    )
