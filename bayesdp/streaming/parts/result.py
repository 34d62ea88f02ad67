"""The result of a run of parts as one tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._text import printable
from bayesdp.inference.diagnostics import Worst, diagnosed_variable, verdict_of
from bayesdp.queries import Query
from bayesdp.streaming.parts.checkpoint import Standing
from bayesdp.streaming.parts.mixing import Mixing

_SAID = 10
"""Parts that the message names at most."""


def tree_of_parts(
    standing: Standing,
    queries: dict[str, Query],
    ends: Sequence[int],
    labels: Sequence[str],
    results: Sequence[dict[str, xr.Dataset]],
    coupling: xr.Dataset,
    mixing: Mixing,
    determined: dict[str, npt.NDArray[np.bool_]],
) -> xr.DataTree:
    """Put together what was recorded above the parts, the statement of the coupling, a verdict, and the parts."""
    # `standing`: at the end of the run. `queries`: what was recorded above the parts. `ends`: the last draw of each phase, which
    # the joint draws are. `results`: of the parts. `determined`: which
    # answers of `queries` have one possible value.
    chains = len(standing.states)
    coords: dict[str, Any] = {"chain": np.arange(chains), "draw": np.asarray(ends)}
    arrays: dict[str, Any] = {}
    for name, query in queries.items():
        alone = len(query.parts) == 1 and query.dims != ("answer",)
        dims = query.dims if alone else (f"{name}_answer",)
        own = query.coords if alone else {dims[0]: query.names}
        if any(dim in coords and list(coords[dim]) != list(own[dim]) for dim in own):
            dims, own = (f"{name}_answer",), {f"{name}_answer": query.names}
        coords |= {dim: list(items) for dim, items in own.items()}
        shape = tuple(len(own[dim]) for dim in dims)
        values = np.stack([standing.tops[c][name].reshape(len(ends), *shape) for c in range(chains)])
        arrays[name] = (("chain", "draw", *dims), values)
    posterior = xr.Dataset(arrays, coords=coords)
    posterior.attrs["meaning"] = "joint draws of all parts: the tables at the end of each phase"
    diagnostics = _diagnostics(posterior, chains, labels, results, mixing)
    groups: dict[str, Any] = {"posterior": posterior, "coupling": coupling, "diagnostics": diagnostics}
    if determined:
        one = posterior.isel(chain=0, draw=0, drop=True)
        groups["determined"] = xr.Dataset(
            {name: one[name].copy(data=own.reshape(one[name].shape)) for name, own in determined.items()}
        )
    for label, own_groups in zip(labels, results, strict=True):
        groups |= {f"parts/{label}/{name}": own_data for name, own_data in own_groups.items()}
    return xr.DataTree.from_dict(groups)


def _diagnostics(
    posterior: xr.Dataset,
    chains: int,
    labels: Sequence[str],
    results: Sequence[dict[str, xr.Dataset]],
    mixing: Mixing,
) -> xr.Dataset:
    """Of what was recorded above the parts and of the sums of parts, with a verdict over that and all parts."""
    draws = posterior.sizes["draw"]
    arrays: dict[str, xr.DataArray] = {}
    seen: list[Worst] = []
    for given in posterior.data_vars.values():
        moved = ~(given == given.isel(chain=0, draw=0, drop=True)).all(("chain", "draw"))
        if moved.any():
            found, worst = diagnosed_variable(
                moved.rename(given.name), given.values, len(posterior.data_vars), "counts"
            )
            arrays |= found
            seen.append(worst)
    verdicts = [str(own["diagnostics"].attrs["verdict"]) for own in results]
    own_verdict = verdict_of(seen, chains, draws) if seen else {"verdict": "converged", "message": ""}
    every = [str(own_verdict["verdict"]), *verdicts, *(["not converged"] if mixing.message else [])]
    verdict = next((one for one in ("not converged", "not judged") if one in every), "converged")
    said = str(own_verdict["message"])
    told = (
        [said if own_verdict["verdict"] == verdict else f"Above the parts: {said.partition(': ')[2]}"] if seen else []
    )
    told += [f"{mixing.message}."] if mixing.message else []
    for kind in ("not converged", "not judged"):
        bad = [printable(label) for label, one in zip(labels, verdicts, strict=True) if one == kind]
        if bad:
            more = f" and {len(bad) - _SAID} more" if len(bad) > _SAID else ""
            words = "bad, too" if seen and kind == own_verdict["verdict"] else kind  # the verdict is said once
            told.append(f"{len(bad)} of {len(labels)} parts are {words}: {', '.join(bad[:_SAID])}{more}.")
    attributes = {name: own for name, own in own_verdict.items() if name not in ("verdict", "message", "converged")}
    message = " ".join(told) or f"All {len(labels)} parts converged."
    part = xr.DataArray(verdicts, dims="part", coords={"part": list(labels)})
    return xr.Dataset(
        {**mixing.arrays, **arrays, "verdict_of_part": part},
        attrs={**attributes, "verdict": verdict, "converged": int(verdict == "converged"), "message": message},
    )
