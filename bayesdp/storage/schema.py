"""What a stored release looks like: a Dataset with labelled numbers, and attributes that say what they are.

Attributes of the Dataset, version 1 of the schema:

===============  =====================================================================================
bayesdp_schema   version of the schema, an integer
frame            JSON: dimensions, labels, group labels of the table
measurements     JSON list: variable, name, query, law, and the invariants of lattice or projected noise
exact            JSON list: variable, query, sign
mechanism        JSON: description of the mechanism, or null
guarantee        JSON: what it protects, or null
simulated        0 or 1
writer           the version of bayesdp that wrote it
===============  =====================================================================================

Variables: ``measured_0``, ``exact_0``, ... with the dimensions of their queries. Where cells were not
published, ``measured_0_unmeasured`` is 1. Coordinates repeat the labels for people who open the file with
other tools; the frame in the attributes is what counts, and reading compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

import bayesdp
from bayesdp._validate import shown
from bayesdp.frames import Frame, Label
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise.base import NoiseLaw
from bayesdp.privacy import Guarantee
from bayesdp.queries import Query
from bayesdp.storage import strict_json
from bayesdp.storage.hdf5 import MAX_CELLS

if TYPE_CHECKING:
    from bayesdp.release import Release

__all__ = ["SCHEMA", "build", "describe", "from_dataset", "to_dataset", "upgraded"]

SCHEMA = 1
"""Version of the schema that this version of bayesdp writes."""

_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older version, what turns its description into that of the next version."""

_KEYS = {"frame", "measurements", "exact", "mechanism", "guarantee", "simulated", "writer"}
_MEASURED_KEYS = {"variable", "name", "query", "law", "invariants"}
_EXACT_KEYS = {"variable", "query", "sign"}


def describe(release: Release) -> dict[str, Any]:
    """Everything about a release but its numbers, as plain data; refused where it would be refused by a reader."""
    release.check_stated()
    return {
        "bayesdp_schema": SCHEMA,
        "frame": release.frame.describe(),
        "measurements": [
            {
                "variable": f"measured_{i}",
                "name": part.name,
                "query": part.query.describe(),
                "law": part.law.describe(),
                "invariants": None if part.invariants is None else part.invariants.describe(),
            }
            for i, part in enumerate(release.measurements)
        ],
        "exact": [
            {"variable": f"exact_{i}", "query": part.query.describe(), "sign": part.sign}
            for i, part in enumerate(release.exact)
        ],
        "mechanism": release.mechanism,
        "guarantee": None if release.guarantee is None else release.guarantee.to_dict(),
        "simulated": release.simulated,
        "writer": f"bayesdp {bayesdp.__version__}",
    }


def upgraded(version: Any, description: dict[str, Any]) -> dict[str, Any]:
    """A description as the present version of the schema has it.

    Raises
    ------
    ValueError
        If the version is no integer, unknown, or newer than `SCHEMA`.
    """
    number = strict_json.expect(version, int, "bayesdp_schema")
    if number > SCHEMA:
        raise ValueError(
            f"it is of version {number} of the schema, and this bayesdp ({bayesdp.__version__}) reads "
            f"versions up to {SCHEMA}; upgrade bayesdp to read it"
        )
    while number < SCHEMA:
        if number not in _UPGRADES:
            raise ValueError(f"there is no version {number} of the schema; versions are 1 to {SCHEMA}")
        description = _UPGRADES[number](description)
        number += 1
    return description


class Numbers:
    """Where a reader finds the numbers of a part: one of these for each kind of file."""

    def values(self, variable: str, query: Query) -> tuple[Any, Any]:
        """The values of a part and its mask of unmeasured cells (or None), in the order of the query."""
        raise NotImplementedError


def build(description: Mapping[str, Any], numbers: Numbers, max_cells: int | None = None) -> Release:
    """Make a release from its description and its numbers, with all the checks of a new release."""
    from bayesdp.release import Release

    known = strict_json.expect(description, dict, "the description of a release", _KEYS)
    frame = Frame.from_description(_frame_description(known["frame"]))
    _check_size(frame, MAX_CELLS if max_cells is None else max_cells)
    measurements = []
    for i, entry in enumerate(strict_json.expect(known["measurements"], list, "measurements")):
        own = _entry(entry, _MEASURED_KEYS, f"measured_{i}")
        query = _query(own["query"], frame)
        values, unmeasured = numbers.values(own["variable"], query)
        invariants = None if own["invariants"] is None else Invariants(_query(own["invariants"], frame), frame)
        law = NoiseLaw.from_description(own["law"])
        measurements.append(Measured(query, values, law, invariants, own["name"], unmeasured=unmeasured))
    exact = []
    for i, entry in enumerate(strict_json.expect(known["exact"], list, "exact")):
        own = _entry(entry, _EXACT_KEYS, f"exact_{i}")
        query = _query(own["query"], frame)
        exact.append(Exact(query, numbers.values(own["variable"], query)[0], own["sign"]))
    guarantee = None if known["guarantee"] is None else Guarantee.from_dict(known["guarantee"])
    if known["mechanism"] is not None:
        strict_json.expect(known["mechanism"], dict, "mechanism")
    simulated = strict_json.expect(known["simulated"], bool, "simulated")
    # Not `from_published`: its warning of post-processing was given when the release was made.
    release = Release(frame, tuple(measurements), tuple(exact), known["mechanism"], guarantee, simulated)
    release.check_feasible()
    release.check_stated()
    return release


def _entry(entry: Any, keys: set[str], variable: str) -> dict[str, Any]:
    own: dict[str, Any] = strict_json.expect(entry, dict, f"the entry of {variable}", keys)
    if own["variable"] != variable:
        raise ValueError(f"the entry of {variable} names the variable {own['variable']!r}")
    return own


def _frame_description(value: Any) -> dict[str, Any]:
    """Check the shape of a frame's description before it is taken apart."""
    own: dict[str, Any] = strict_json.expect(value, dict, "frame", {"dims", "labels", "groups"})
    for key in own:
        strict_json.expect(own[key], list, f"{key} of the frame")
    for labels in own["labels"]:
        strict_json.expect(labels, list, "labels of a dimension")
    for group in own["groups"]:
        if not isinstance(group, list) or len(group) != 3 or not isinstance(group[2], list):
            raise ValueError("groups of the frame must be lists of a name, a dimension and labels")
    return own


def _check_size(frame: Frame, max_cells: int) -> None:
    """A few labels along each dimension can make a table that no memory holds."""
    cells = prod(frame.shape)
    if cells > max_cells:
        raise ValueError(
            f"the table has {cells} cells, more than the limit of {max_cells}; if that is right, raise the "
            "limit with max_cells"
        )


def _query(value: Any, frame: Frame) -> Query:
    """Read a query; whatever is wrong with its description is a ValueError."""
    own = strict_json.expect(value, dict, "a query", {"parts"})
    for part in strict_json.expect(own["parts"], list, "parts of a query"):
        for key, items in strict_json.expect(part, dict, "a part of a query").items():
            strict_json.expect(items, list, f"{key} of a query")
    try:
        return Query.from_description(own, frame)
    except TypeError as error:
        raise ValueError(f"a query is damaged: {error}") from None


def _coordinate(labels: Sequence[Label]) -> Any:
    """Labels as netCDF can hold them: all strings, all integers or all floats; mixed ones as strings."""
    kinds = {type(label) for label in labels}
    if kinds == {int} and all(abs(int(label)) < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    if kinds == {float}:
        return np.array(labels, dtype=np.float64)
    return np.array([str(label) for label in labels], dtype=object)


def _layout(variable: str, query: Query) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Dimensions of a part's variable and their coordinates.

    A dimension of the table keeps its name. Others (a group label, or the rows of a stacked query) get the
    name of the variable in front, because two parts may use one name for different things.
    """
    frame = query.frame
    dims = tuple(dim if dim in frame.dims else f"{variable}_{dim}" for dim in query.dims)
    return dims, {dim: _coordinate(own) for dim, own in zip(dims, query.coords.values(), strict=True)}


def _variables(release: Release) -> dict[str, xr.DataArray]:
    """Every variable of a stored release."""
    found = {}
    for i, part in enumerate(release.measurements):
        dims, coords = _layout(f"measured_{i}", part.query)
        attrs = {"long_name": "published noisy values"}
        found[f"measured_{i}"] = xr.DataArray(part.values, dims=dims, coords=coords, attrs=attrs)
        if part.unmeasured.any():
            attrs = {"long_name": "1 where no value was published"}
            mask = part.unmeasured.astype(np.int8)
            found[f"measured_{i}_unmeasured"] = xr.DataArray(mask, dims=dims, coords=coords, attrs=attrs)
    for i, exact in enumerate(release.exact):
        dims, coords = _layout(f"exact_{i}", exact.query)
        attrs = {"long_name": "published exact values"}
        found[f"exact_{i}"] = xr.DataArray(exact.values, dims=dims, coords=coords, attrs=attrs)
    return found


def to_dataset(release: Release) -> xr.Dataset:
    """A release as an xarray Dataset; see the module's docstring for what is in it."""
    variables = _variables(release)
    frame = release.frame
    used = {dim for array in variables.values() for dim in array.dims}
    groups = {name: (dim, _coordinate(own)) for name, dim, own in frame.groups if dim in used}
    attrs: dict[str, Any] = {}
    for key, value in describe(release).items():
        plain = key in {"bayesdp_schema", "writer"}
        attrs[key] = value if plain else int(value) if key == "simulated" else strict_json.dumps(value, key)
    return xr.Dataset(variables, coords=groups, attrs=attrs)


class _DatasetNumbers(Numbers):
    """Numbers of a Dataset; notes which variables were asked for."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self.dataset = dataset

    def values(self, variable: str, query: Query) -> tuple[Any, Any]:
        values = self._array(variable, query)
        hidden = f"{variable}_unmeasured"
        if hidden not in self.dataset.data_vars:
            return values, None
        mask = self._array(hidden, query)
        if mask.dtype.kind not in "iub" or not np.isin(mask, (0, 1)).all():
            raise ValueError(f"{hidden} must hold 0 and 1 only")
        mask = mask.astype(np.bool_)
        if values[mask].any():
            raise ValueError(f"{variable} must be 0 where {hidden} is 1")
        return np.where(mask, np.nan, values), mask

    def _array(self, variable: str, query: Query) -> Any:
        if variable not in self.dataset.data_vars:
            raise ValueError(f"the variable {variable} is missing")
        array = self.dataset[variable]
        dims, _ = _layout(variable.removesuffix("_unmeasured"), query)
        if array.dims != dims or array.shape != query.shape:
            raise ValueError(
                f"{variable} must have dimensions {dims} of sizes {query.shape}, got {array.dims} of {array.shape}"
            )
        if array.dtype.kind not in "iufb":
            raise ValueError(f"{variable} must hold numbers, got dtype {array.dtype}")
        return array.values


def from_dataset(dataset: xr.Dataset, max_cells: int | None = None) -> Release:
    """A release from its Dataset; see `bayesdp.Release.from_dataset`."""
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
        elif key not in _KEYS - {"writer"} or not isinstance(value, str):
            description[key] = value
        else:
            description[key] = strict_json.loads(value, f"the attribute {key!r}")
    release = build(upgraded(version, description), _DatasetNumbers(dataset), max_cells)
    _check_nothing_else(dataset, release)
    return release


def _check_nothing_else(dataset: xr.Dataset, release: Release) -> None:
    """Check that a Dataset holds what the release needs, that alone, and the labels of the frame."""
    expected = to_dataset(release)
    unknown = sorted(map(str, set(dataset.variables) - set(expected.variables)))
    missing = sorted(map(str, set(expected.variables) - set(dataset.variables)))
    if unknown or missing:
        told = [f"{what}: {shown(which)}" for what, which in (("unknown", unknown), ("missing", missing)) if which]
        raise ValueError(f"it holds other variables than a release has ({'; '.join(told)})")
    for name, array in expected.variables.items():
        found = dataset.variables[name]
        if set(found.attrs) - {"long_name"}:
            raise ValueError(f"{name} has unknown attributes: {shown(sorted(set(found.attrs) - {'long_name'}))}")
        if name in expected.coords and (found.dims != array.dims or found.values.tolist() != array.values.tolist()):
            raise ValueError(f"the labels in the coordinate {name!r} differ from those of the frame")
