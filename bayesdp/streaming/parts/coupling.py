"""What couples parts, and by how much it can matter: by the linear estimate, whose errors do not depend on the answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._text import printable
from bayesdp.hierarchies.linear import gls
from bayesdp.hierarchies.structure import Structure
from bayesdp.queries import Query, SumPart
from bayesdp.release import Release
from bayesdp.streaming.parts.top import KnownAbove, NoisyAbove, cell_rows

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

_SLOWED = 1.0
"""Parts move together while their variance, times their number, is at most this many times that of the noise above."""


def own_errors(release: Release, keeps: Sequence[tuple[str, ...]], structure: Structure) -> list[Floats]:
    """Standard errors of linear estimates of sums over all leaves of a part, NaN where there is no linear estimate."""
    queries = [Query(release.frame, (SumPart(release.frame, keep),)) for keep in keeps]
    if not queries:
        return []
    try:
        estimate = gls(release, release.frame.dims[structure.axis])
        return [np.asarray(estimate.sd(query), dtype=np.float64).reshape(-1) for query in queries]
    except (ValueError, NotImplementedError):
        return [np.full(query.rows, np.nan) for query in queries]


def known_sums(structure: Structure, keep: tuple[str, ...]) -> Mask:
    """Which sums of cells over all leaves of a part its exact answers determine.

    A sum is known if at one level the exact sums of nodes are cut so that it is made up of whole ones; cells that cannot move count
    as known.
    """
    codes = cell_rows(structure.frame, structure.axis, keep)
    free = structure.free.any(axis=0)
    known = np.zeros(int(codes.max()) + 1, dtype=np.bool_)
    for j in range(len(known)):
        mine, others = free & (codes == j), free & (codes != j)
        known[j] = not mine.any() or any(
            bool((own[mine] >= 0).all()) and not np.isin(own[mine], own[others]).any() for own in structure.exact_class
        )
    return known


def check_known(
    exact: Sequence[KnownAbove], known: Sequence[Sequence[Mask]], tables: Ints, labels: Sequence[object]
) -> None:
    """Check exact sums above against parts that each have their exact sums."""
    # `known`: for each part, and each exact query, the sums that its own exact answers determine. `tables`, shape (K, C): sums over
    # the leaves of each part, of any table with its exact answers. NotImplementedError if an exact sum above has a part whose own
    # sum is not exact.
    for number, query in enumerate(exact):
        sums = np.zeros(len(query.values), dtype=np.int64)
        np.add.at(sums, query.row_of_cell, tables)
        for k, own in enumerate(known):
            missing = np.flatnonzero(~own[number])
            if missing.size:
                row = query.labels[int(query.rows[k, missing[0]])]
                raise NotImplementedError(
                    f"top: the exact answer {row!r} is about the part {labels[k]!r}, whose own sum is not exact. Counts would have to "
                    "go from part to part at once; fit all parts in one with bdp.fit_hierarchy"
                )
        wrong = {"=": sums != query.values, "<=": sums > query.values, ">=": sums < query.values}[query.sign]
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"top: the exact answer {query.labels[first]!r} is {query.sign} {query.values[first]}; the exact answers of the parts "
                f"add up to {sums[first]}"
            )


def together_at_most(noisy: Sequence[NoisyAbove], errors: Sequence[Sequence[Floats]], parts: int) -> int:
    """How many parts may move at a time so that dividing the noise above among them slows no typical sum down by much.

    A sum of variance v moves, given its share of noise of variance s^2 among m parts, with a standard deviation of
    ``sqrt(v s^2 / (v m + s^2))``: from one phase to the next its autocorrelation is about ``m v / (m v + s^2)``, here at most 1/2.
    """
    ratios = []
    for number, query in enumerate(noisy):
        for k, own in enumerate(errors):
            rows = query.rows[k]
            used = query.measured[rows]
            variance = np.square(own[number][used])
            if not np.isfinite(variance).all():
                return 1
            ratios.append(np.square(query.scale[rows])[used] / np.maximum(variance, 1e-12))
    every = np.concatenate(ratios) if ratios else np.zeros(0)
    if not every.size:
        return parts
    return int(np.clip(np.floor(_SLOWED * np.median(every)), 1, parts))


def coupling_of(
    noisy: Sequence[NoisyAbove], errors: Sequence[Sequence[Floats]], labels: Sequence[object], hyper: bool
) -> xr.Dataset:
    """The statement: for each noisy answer above, and each part that counts in it, standard errors without and with it.

    Linear: a part's own estimate of its sum has variance v_k, the noise above has s^2, and the sums of the other parts are known from
    their own releases only. With that one answer the variance of the part's sum is ``v_k - v_k^2 / (sum_j v_j + s^2)``, and that of
    the total of its parts is ``sum_j v_j`` without it and ``1 / (1 / sum_j v_j + 1 / s^2)`` with it.
    """
    arrays: dict[str, object] = {}
    coords: dict[str, object] = {"part": [str(label) for label in labels]}
    told = []
    most = 0.0
    for number, query in enumerate(noisy):
        shape = (len(labels), len(query.values))
        own = np.full(shape, np.nan)
        for k in range(len(labels)):
            own[k, query.rows[k]] = np.square(errors[k][number])
        counted = np.zeros(shape, dtype=np.bool_)
        np.put_along_axis(counted, query.rows, True, axis=1)
        total = np.where(counted, own, 0.0).sum(axis=0)
        noise = np.where(query.measured, np.square(query.scale), np.inf)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(own > 0.0, own / (total + noise), np.where(own == 0.0, 0.0, np.nan))
            of_total = np.where(total > 0.0, total / (total + noise), np.where(total == 0.0, 0.0, np.nan))
        dim = f"{query.name}_answer"
        coords[dim] = query.labels
        arrays[f"{query.name}_sd_without"] = (("part", dim), np.sqrt(own))
        arrays[f"{query.name}_sd_with"] = (("part", dim), np.sqrt(own * (1.0 - share)))
        arrays[f"{query.name}_total_sd_without"] = (dim, np.sqrt(total))
        arrays[f"{query.name}_total_sd_with"] = (dim, np.sqrt(total * (1.0 - of_total)))
        arrays[f"{query.name}_share"] = (("part", dim), share)
        arrays[f"{query.name}_total_share"] = (dim, of_total)
        seen = share[np.isfinite(share)]
        most = max(most, float(seen.max(initial=0.0)))
        told.append(query.name)
    found = xr.Dataset(arrays, coords=coords)
    found.attrs = {
        "coupled": [printable(name) for name in told],
        "left_out": "nothing of what was given"
        + ("" if noisy else "; no noisy answer above the parts was given, and if there are any they are not used"),
        "hyperparameters": (
            "each part has its own, and parts are pooled within themselves only"
            if hyper
            else "none: parts are independent a priori"
        ),
        "meaning": (
            "sd_without: standard error of a part's sum by the linear estimate from its own release. sd_with: with this one answer "
            "above besides. share: by which share of the variance that answer makes it smaller. total_: the same of the sum over the "
            "parts. NaN where the part's release alone has no linear estimate. Zeros, nonnegativity and the prior are not looked at, "
            "and several answers together can do more than one"
        ),
        "largest_share": most,
    }
    return found
