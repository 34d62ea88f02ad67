"""What a stored release looks like: a Dataset with labelled numbers, and attributes that say what they are.

Attributes of the Dataset, version 2 of the schema:

===============  =====================================================================================
bayesdp_schema   version of the schema, an integer
about            ``counts`` or ``statistics``; version 1 knew counts only
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
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import xarray as xr

import bayesdp
from bayesdp import _strict_json as strict_json
from bayesdp._validate import shown
from bayesdp.frames import Frame, Label
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise.base import NoiseLaw
from bayesdp.privacy import Guarantee, StatisticGuarantee
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage.budget import MAX_CELLS
from bayesdp.storage.old_statistics import modern
from bayesdp.storage.older_compositions import with_number

__all__ = ["SCHEMA", "build", "check_dataset", "describe", "from_dataset", "to_dataset", "upgraded"]

SCHEMA = 2
"""Version of the schema that this version of bayesdp writes."""

_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: lambda old: {**old, "about": "counts"}}
"""For each older version, what turns its description into that of the next version."""

_PARTS = 500
"""Most measurements, exact parts, and parts of queries that are read."""

_PASSES = 100
"""Parts of queries times cells, and answers, of the largest table that a file may have."""

_KEYS = {"about", "frame", "measurements", "exact", "mechanism", "guarantee", "simulated", "writer"}
_PLAIN = {"bayesdp_schema", "about", "writer"}
"""Attributes that are no JSON."""

_MEASURED_KEYS = {"variable", "name", "query", "law", "invariants"}
_EXACT_KEYS = {"variable", "query", "sign"}


def describe(release: Release) -> dict[str, Any]:
    """Everything about a release but its numbers, as plain data; refused where it would be refused by a reader."""
    release.check_stated()
    return {
        "bayesdp_schema": SCHEMA,
        "about": release.about,
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
    # Not by version: the number came while version 2 was made, and files of that version are with it or without.
    return (
        description
        if "mechanism" not in description
        else {**description, "mechanism": with_number(description["mechanism"])}
    )


class Numbers:
    """Where a reader finds the numbers of a part: one of these for each kind of file."""

    def check(self, frame: Frame, parts: Mapping[str, Query]) -> None:
        """Refuse what no release with these parts holds, from names and sizes, before any number is read."""
        raise NotImplementedError

    def values(self, variable: str, query: Query) -> tuple[Any, Any]:
        """The values of a part and its mask of unmeasured cells (or None), in the order of the query."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Plan:
    """What a description says that there is: the frame, the entries, and the query of each part by its variable."""

    frame: Frame
    measurements: list[dict[str, Any]]
    exact: list[dict[str, Any]]
    queries: dict[str, Query]
    invariants: dict[str, Query]


def planned(description: Mapping[str, Any], max_cells: int | None = None) -> _Plan:
    """Take a description apart, and check the sizes that follow from it, before any number is read."""
    known = strict_json.expect(description, dict, "the description of a release", _KEYS)
    frame = Frame.from_description(_frame_description(known["frame"]))
    limit = MAX_CELLS if max_cells is None else max_cells
    _check_size(frame, limit)
    entries: dict[str, list[dict[str, Any]]] = {}
    for key, kind, keys in (("measurements", "measured", _MEASURED_KEYS), ("exact", "exact", _EXACT_KEYS)):
        own = strict_json.expect(known[key], list, key)
        if len(own) > _PARTS:
            raise ValueError(f"{key} has {len(own)} entries, more than the {_PARTS} that are read")
        entries[key] = [_entry(entry, keys, f"{kind}_{i}") for i, entry in enumerate(own)]
    both = [*entries["measurements"], *entries["exact"]]
    queries = {own["variable"]: _query(own["query"], frame) for own in both}
    invariants = {
        own["variable"]: _query(own["invariants"], frame)
        for own in entries["measurements"]
        if own["invariants"] is not None
    }
    for name, query in [*queries.items(), *invariants.items()]:
        if query.rows > limit:
            raise ValueError(
                f"a query of {name} has {query.rows} answers, more than the limit of {limit}; if that is right, raise the "
                "limit with max_cells"
            )
    # Each part of a query is a pass through the table, whether it has numbers in the file or not.
    parts = [part for query in [*queries.values(), *invariants.values()] for part in query.parts]
    if len(parts) > _PARTS or sum(part.rows for part in parts) + len(parts) * frame.size > _PASSES * limit:
        raise ValueError(
            f"its queries have {len(parts)} parts with {sum(part.rows for part in parts)} answers, too many for a file of this "
            "size; if that is right, raise the limit with max_cells"
        )
    return _Plan(frame, entries["measurements"], entries["exact"], queries, invariants)


def build(description: Mapping[str, Any], numbers: Numbers, max_cells: int | None = None) -> Release:
    """Make a release from its description and its numbers, with all the checks of a new release."""
    plan = planned(description, max_cells)
    numbers.check(plan.frame, plan.queries)
    frame = plan.frame
    measurements = []
    for own in plan.measurements:
        query = plan.queries[own["variable"]]
        values, unmeasured = numbers.values(own["variable"], query)
        stated = plan.invariants.get(own["variable"])
        invariants = None if stated is None else Invariants(stated, frame)
        law = NoiseLaw.from_description(own["law"])
        measurements.append(Measured(query, values, law, invariants, own["name"], unmeasured=unmeasured))
    exact = []
    for own in plan.exact:
        query = plan.queries[own["variable"]]
        exact.append(Exact(query, numbers.values(own["variable"], query)[0], own["sign"]))
    known = description
    about = strict_json.expect(known["about"], str, "about")
    kind: type[Guarantee] = StatisticGuarantee if about == "statistics" else Guarantee
    guarantee = None if known["guarantee"] is None else kind.from_dict(known["guarantee"])
    if known["mechanism"] is not None:
        strict_json.expect(known["mechanism"], dict, "mechanism")
    simulated = strict_json.expect(known["simulated"], bool, "simulated")
    # Not `from_published`: its warning of post-processing was given when the release was made.
    release = Release(frame, tuple(measurements), tuple(exact), known["mechanism"], guarantee, simulated, about)
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


def _dims(variable: str, query: Query) -> tuple[str, ...]:
    """Dimensions of a part's variable; see `_layout`."""
    return tuple(dim if dim in query.frame.dims else f"{variable}_{dim}" for dim in query.dims)


def _layout(variable: str, query: Query) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Dimensions of a part's variable and their coordinates.

    A dimension of the table keeps its name. Others (a group label, or the rows of a stacked query) get the
    name of the variable in front, because two parts may use one name for different things.
    """
    dims = _dims(variable, query)
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
        plain = key in _PLAIN
        attrs[key] = value if plain else int(value) if key == "simulated" else strict_json.dumps(value, key)
    return xr.Dataset(variables, coords=groups, attrs=attrs)


class _DatasetNumbers(Numbers):
    """Numbers of a Dataset, which may be lazy."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self.dataset = dataset

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
        needed: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {}
        for name, query in parts.items():
            if name not in self.dataset.data_vars:
                raise ValueError(f"the variable {name} is missing")
            needed[name] = (_dims(name, query), query.shape)
            if f"{name}_unmeasured" in self.dataset.data_vars:
                needed[f"{name}_unmeasured"] = needed[name]
        used = {dim for dims, _ in needed.values() for dim in dims}
        labels = used | {name for name, dim, _ in frame.groups if dim in used}
        unknown = sorted(map(str, set(variables) - set(needed) - labels))
        missing = sorted((set(needed) | labels) - set(map(str, variables)))
        if unknown or missing:
            told = [f"{what}: {shown(own)}" for what, own in (("unknown", unknown), ("missing", missing)) if own]
            raise ValueError(f"it holds other variables than a release has ({'; '.join(told)})")
        for key, array in variables.items():
            name = str(key)
            if set(array.attrs) - {"long_name"}:
                odd = sorted(set(array.attrs) - {"long_name"})
                raise ValueError(f"{name} has unknown attributes: {shown(odd)}")
            if name in labels:
                continue
            dims, shape = needed[name]
            if array.dims != dims or array.shape != shape:
                raise ValueError(
                    f"{name} must have dimensions {dims} of sizes {shape}, got {array.dims} of {array.shape}"
                )
            if array.dtype.kind not in "iufb":
                raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}")


def from_dataset(dataset: xr.Dataset, max_cells: int | None = None) -> Release:
    """A release from its Dataset; see `bayesdp.Release.from_dataset`.

    The Dataset may be lazy: its numbers are read when its names and sizes are known to be those of a release.
    """
    dataset = modern(dataset)
    release = build(_description(dataset), _DatasetNumbers(dataset), max_cells)
    _check_nothing_else(dataset, release)
    return release


def check_dataset(dataset: xr.Dataset, max_cells: int | None = None) -> None:
    """Check that a Dataset, which may be lazy, has the names and sizes of a release, without reading its numbers."""
    dataset = modern(dataset)
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
        elif key not in _KEYS - _PLAIN or not isinstance(value, str):
            description[key] = value
        else:
            description[key] = strict_json.loads(value, f"the attribute {key!r}")
    return upgraded(version, description)


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
        if name in expected.coords and (found.dims != array.dims or found.values.tolist() != array.values.tolist()):
            raise ValueError(f"the labels in the coordinate {name!r} differ from those of the frame")
