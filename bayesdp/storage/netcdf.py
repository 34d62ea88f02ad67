"""Releases as xarray Datasets, labelled numbers and attributes, which netCDF-4 files and the group ``release`` of a posterior hold.

Attributes are the entries of the description (`bayesdp.storage.schema`); all but ``bayesdp_schema``, ``about``, ``writer`` and
``simulated`` (0 or 1) are JSON. Variables are ``measured_0``, ``exact_0``, ... with the dimensions of their queries. Where cells were
not published, ``measured_0_unmeasured`` is 1. Coordinates repeat the labels for people who open the file with other tools; the frame
in the attributes is what counts, and reading compares the two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import xarray as xr

from bayesdp import _text
from bayesdp._validate import both_lists, shown
from bayesdp.frames import Frame, Label
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage.atomic import check_output, write_bytes
from bayesdp.storage.draws import netcdf_image
from bayesdp.storage.guarded import cell_limit, damaged
from bayesdp.storage.hdf5 import load_netcdf
from bayesdp.storage.schema import KEYS, build, checked_version, describe, planned

_PLAIN = {"bayesdp_schema", "about", "writer"}
"""Attributes that are no JSON."""


def _coordinate(labels: Sequence[Label]) -> Any:
    """Labels as netCDF can hold them: all strings, all integers or all floats; mixed ones as strings."""
    kinds = {type(label) for label in labels}
    if kinds == {int} and all(abs(int(label)) < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    if kinds == {float}:
        return np.array(labels, dtype=np.float64)
    return np.array([str(label) for label in labels], dtype=object)


def _dims(variable: str, query: Query) -> tuple[str, ...]:
    """Dimensions of a part's variable."""
    # A dimension of the table keeps its name. Others (a group label, or the rows of a stacked query) get the name of the variable
    # in front, because two parts may use one name for different things.
    return tuple(dim if dim in query.frame.dims else f"{variable}_{dim}" for dim in query.dims)


def _variables(release: Release) -> dict[str, xr.DataArray]:
    """Every variable of a stored release."""
    found = {}

    def add(name: str, query: Query, values: Any, what: str, suffix: str = "") -> None:
        dims = _dims(name, query)
        coords = {dim: _coordinate(labels) for dim, labels in zip(dims, query.coords.values(), strict=True)}
        found[name + suffix] = xr.DataArray(values, dims=dims, coords=coords, attrs={"long_name": what})

    for i, part in enumerate(release.measurements):
        add(f"measured_{i}", part.query, part.values, "published noisy values")
        if part.unmeasured.any():
            mask = part.unmeasured.astype(np.int8)
            add(f"measured_{i}", part.query, mask, "1 where no value was published", "_unmeasured")
    for i, exact in enumerate(release.exact):
        add(f"exact_{i}", exact.query, exact.values, "published exact values")
    return found


def to_dataset(release: Release) -> xr.Dataset:
    """A release as an xarray Dataset; see the module's docstring for what is in it."""
    variables = _variables(release)
    frame = release.frame
    used = {dim for array in variables.values() for dim in array.dims}
    groups = {name: (dim, _coordinate(labels)) for name, dim, labels in frame.groups if dim in used}
    attrs: dict[str, Any] = {}
    for key, value in describe(release).items():
        plain = key in _PLAIN
        attrs[key] = value if plain else int(value) if key == "simulated" else _text.dumps(value, key)
    return xr.Dataset(variables, coords=groups, attrs=attrs)


class _DatasetNumbers:
    """Numbers of a Dataset; a `Numbers`."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self.dataset = dataset

    def naming(self, variable: str, what: str = "") -> AbstractContextManager[None]:
        return nullcontext()  # names of variables are in the messages

    def values(self, variable: str, query: Query) -> tuple[Any, Any]:
        values = self.dataset[variable].values
        hidden = f"{variable}_unmeasured"
        if hidden not in self.dataset.data_vars:
            return values, None
        mask = self.dataset[hidden].values
        if mask.dtype.kind not in "iub" or not np.isin(mask, (0, 1)).all():
            raise ValueError(f"{hidden} must hold 0 and 1 only")
        mask = mask.astype(np.bool_)
        if values[mask].any():
            raise ValueError(f"{variable} must be 0 where {hidden} is 1")
        return np.where(mask, np.nan, values), mask

    def check(self, frame: Frame, parts: Mapping[str, Query]) -> None:
        variables = self.dataset.variables
        needed: dict[str, Query] = {}
        labels: dict[str, tuple[str, Any]] = {}  # of each coordinate: its dimension, and what it holds
        for name, query in parts.items():
            if name not in self.dataset.data_vars:
                raise ValueError(f"the variable {name} is missing")
            hidden = f"{name}_unmeasured"
            needed |= {name: query, **({hidden: query} if hidden in self.dataset.data_vars else {})}
            coordinates = zip(_dims(name, query), query.coords.values(), strict=True)
            labels |= {dim: (dim, _coordinate(own)) for dim, own in coordinates}
        labels |= {name: (dim, _coordinate(own)) for name, dim, own in frame.groups if dim in labels}
        unknown = sorted({*map(str, variables)} - {*needed, *labels})
        missing = sorted({*labels} - {*map(str, variables)})
        if unknown or missing:
            raise ValueError(
                f"it holds other variables than a release has ({both_lists(unknown=unknown, missing=missing)})"
            )
        for key, array in variables.items():
            name = str(key)
            odd = sorted(set(array.attrs) - {"long_name"})
            if odd:
                raise ValueError(f"{name} has unknown attributes: {shown(odd)}")
            if name in labels:
                dim, expected = labels[name]
                if array.dims != (dim,) or array.values.tolist() != expected.tolist():
                    raise ValueError(f"the labels in the coordinate {name!r} differ from those of the frame")
                continue
            dims, shape = _dims(name.removesuffix("_unmeasured"), needed[name]), needed[name].shape
            if array.dims != dims or array.shape != shape:
                raise ValueError(
                    f"{name} must have dimensions {dims} of sizes {shape}, got {array.dims} of {array.shape}"
                )
            if array.dtype.kind not in "iufb":
                raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}")


def from_dataset(dataset: xr.Dataset, max_cells: int | None = None) -> Release:
    """A release from its Dataset; see `bayesdp.Release.from_dataset`."""
    return build(_description(dataset), _DatasetNumbers(dataset), max_cells)


def check_dataset(dataset: xr.Dataset, max_cells: int | None = None) -> None:
    """Check that a Dataset has the names, sizes and labels of a release."""
    plan = planned(_description(dataset), max_cells)
    _DatasetNumbers(dataset).check(plan.frame, plan.queries)


def _description(dataset: xr.Dataset) -> dict[str, Any]:
    """The description of a release from the attributes of its Dataset."""
    attrs = {key: value.item() if isinstance(value, np.generic) else value for key, value in dataset.attrs.items()}
    if "bayesdp_schema" not in attrs:
        raise ValueError("it holds no release: the attribute 'bayesdp_schema' is missing")
    version = attrs.pop("bayesdp_schema")
    description: dict[str, Any] = {}
    for key, value in attrs.items():
        if key == "simulated":
            if not isinstance(value, (int, bool)) or value not in (0, 1):
                raise ValueError(f"simulated must be 0 or 1, got {value!r}")
            description[key] = bool(value)
        elif key not in KEYS - _PLAIN or not isinstance(value, str):
            description[key] = value
        else:
            description[key] = _text.loads(value, f"the attribute {key!r}")
    return checked_version(version, description)


def write_netcdf(release: Release, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a release to a netCDF-4 file; see `bayesdp.Release.to_netcdf`."""
    dataset = to_dataset(release)
    check_output(path, overwrite=overwrite)
    # Without a fill value: no number of a release means "missing".
    encoding = {str(name): {"_FillValue": None} for name in dataset.variables}
    write_bytes(path, netcdf_image(dataset, encoding), overwrite=overwrite)


def read_netcdf(path: str | os.PathLike[str], *, max_cells: int | None = None) -> Release:
    """Read a release from a netCDF-4 file; see `bayesdp.Release.from_netcdf`."""
    dataset = load_netcdf(path, max_cells=max_cells, release=True)
    with damaged(path):
        return from_dataset(dataset, cell_limit(os.stat(path).st_size, max_cells))
