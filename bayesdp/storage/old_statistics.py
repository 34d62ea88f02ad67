"""Releases of statistics as version 0.1 development files had them: a format of their own, read as a release like any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from bayesdp import _strict_json as strict_json
from bayesdp.frames import Frame
from bayesdp.queries import Identity

__all__ = ["SINGLE", "modern"]

SINGLE = "single"
"""Label of a statistic that has no name, because it is the only one."""

_VERSION = 1
_ATTRIBUTE = "bayesdp_statistics"
_KEYS = {"version", "law", "mechanism", "guarantee", "simulated"}


def modern(dataset: xr.Dataset) -> xr.Dataset:
    """A Dataset as version 2 of the schema has it, of an older one that holds statistics; others are returned as they are.

    Raises
    ------
    ValueError
        If it has the attribute of such files and is none.
    """
    if _ATTRIBUTE not in dataset.attrs:
        return dataset
    if set(dataset.attrs) != {_ATTRIBUTE} or "noisy" not in dataset.data_vars or len(dataset.data_vars) != 1:
        raise ValueError(
            "it holds no release of statistics: 'noisy' and the attribute 'bayesdp_statistics' are all that it has"
        )
    text = strict_json.expect(dataset.attrs[_ATTRIBUTE], str, _ATTRIBUTE)
    known = strict_json.expect(strict_json.loads(text, _ATTRIBUTE), dict, "its description", _KEYS)
    if strict_json.expect(known["version"], int, "version") != _VERSION:
        raise ValueError(
            f"it is of version {known['version']} of releases of statistics, of which there is version {_VERSION} only"
        )
    noisy = dataset["noisy"]
    if noisy.ndim > 1 or set(noisy.dims) - {"statistic"} or (noisy.ndim and "statistic" not in dataset.coords):
        raise ValueError(f"noisy must be one number or a vector with named statistics, got dimensions {noisy.dims}")
    if noisy.dtype.kind not in "iuf":
        raise ValueError(f"noisy must hold numbers, got dtype {noisy.dtype}")
    names = [str(name) for name in np.asarray(dataset.coords["statistic"].values)] if noisy.ndim else [SINGLE]
    frame = Frame.of({"statistic": names})
    query = Identity(frame)
    simulated = strict_json.expect(known["simulated"], bool, "simulated")
    attrs: dict[str, Any] = {
        "bayesdp_schema": 2,
        "about": "statistics",
        "simulated": int(simulated),
        "writer": "bayesdp, before version 2 of the schema",
    }
    parts: dict[str, Any] = {
        "frame": frame.describe(),
        "measurements": [
            {"variable": "measured_0", "name": None, "query": query.describe(), "law": known["law"], "invariants": None}
        ],
        "exact": [],
        "mechanism": known["mechanism"],
        "guarantee": known["guarantee"],
    }
    attrs |= {key: strict_json.dumps(value, key) for key, value in parts.items()}
    values = np.asarray(noisy.values).reshape(frame.shape)
    return xr.Dataset({"measured_0": ("statistic", values)}, coords={"statistic": names}, attrs=attrs)
