"""What a stored release says of itself beside its numbers: a description of plain data, in versions.

Entries of the description, version 2 of the schema:

===============  =====================================================================================
bayesdp_schema   version of the schema, an integer
about            ``counts`` or ``statistics``; version 1 knew counts only
frame            dimensions, labels, group labels of the table
measurements     list: variable, name, query, law, and the invariants of lattice or projected noise
exact            list: variable, query, sign
mechanism        description of the mechanism, or null
guarantee        what it protects, or null
simulated        whether the noise came from a generator whose seed somebody may know
writer           the version of bayesdp that wrote it
===============  =====================================================================================

`bayesdp.storage.netcdf` has it as attributes of a Dataset; `bayesdp.storage.noise_csv` makes it of a ``noise.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import bayesdp
from bayesdp import _text
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise.base import NoiseLaw
from bayesdp.privacy import Guarantee, StatisticGuarantee
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage.guarded import MAX_CELLS, check_labels

SCHEMA = 2
"""Version of the schema that this version of bayesdp writes."""

_PARTS = 500
"""Largest number of measurements, of exact parts, and of parts of all queries together."""

DIMENSIONS = 64
"""NumPy's arrays have no more."""

_PASSES = 100
"""Cells that all parts of queries pass through, and their answers, at most: this times the limit on the cells of a table."""

KEYS = {"about", "frame", "measurements", "exact", "mechanism", "guarantee", "simulated", "writer"}
"""Entries of a description beside the version."""

_MEASURED_KEYS = {"variable", "name", "query", "law", "invariants"}
_EXACT_KEYS = {"variable", "query", "sign"}
_OPTIONAL = {"assumption"}
"""Keys that an exact entry may have besides."""


def describe(release: Release) -> dict[str, Any]:
    """Everything about a release but its numbers, as plain data; refused where a reader would refuse it."""
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
            # Only where there is one, so that readers of before read the others.
            | ({} if part.assumption is None else {"assumption": part.assumption})
            for i, part in enumerate(release.exact)
        ],
        "mechanism": release.mechanism,
        "guarantee": None if release.guarantee is None else release.guarantee.to_dict(),
        "simulated": release.simulated,
        "writer": f"bayesdp {bayesdp.__version__}",
    }


def checked_version(version: Any, description: dict[str, Any]) -> dict[str, Any]:
    """A description, of which the version of the schema is the present one."""
    number = _text.expect(version, int, "bayesdp_schema")
    if number == SCHEMA:
        return description
    newer = f"and this bayesdp ({bayesdp.__version__}) reads versions up to {SCHEMA}; upgrade bayesdp to read it"
    why = newer if number > SCHEMA else "which no version of bayesdp that was published wrote"
    raise ValueError(f"it is of version {number} of the schema, {why}")


class Numbers(Protocol):
    """Where a reader finds the numbers of a part: one of these for each kind of file."""

    def naming(self, variable: str, what: str = "") -> AbstractContextManager[None]:
        """Name the place in the file in errors about a part, or with ``""`` about the release, and a field of it."""

    def check(self, frame: Frame, parts: Mapping[str, Query]) -> None:
        """Refuse what no release with these parts holds, from names and sizes, before any number is read."""

    def values(self, variable: str, query: Query) -> tuple[Any, Any]:
        """The values of a part and its mask of unmeasured cells (or None), in the order of the query."""


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
    known = _text.expect(description, dict, "the description of a release", KEYS)
    frame = Frame.from_description(_frame_description(known["frame"]))
    limit = MAX_CELLS if max_cells is None else max_cells
    _check_size(frame, limit)
    entries: dict[str, list[dict[str, Any]]] = {}
    for key, kind, keys in (("measurements", "measured", _MEASURED_KEYS), ("exact", "exact", _EXACT_KEYS)):
        listed = _text.expect(known[key], list, key)
        if len(listed) > _PARTS:
            raise ValueError(f"{key} has {len(listed)} entries, more than the {_PARTS} that are read")
        entries[key] = [_entry(entry, keys, f"{kind}_{i}") for i, entry in enumerate(listed)]
    measured, exact = entries["measurements"], entries["exact"]
    queries = {entry["variable"]: _query(entry["query"], frame) for entry in [*measured, *exact]}
    kept = [entry for entry in measured if entry["invariants"] is not None]
    invariants = {entry["variable"]: _query(entry["invariants"], frame) for entry in kept}
    for name, query in [*queries.items(), *invariants.items()]:
        _check_limit(query.rows, limit, f"a query of {name} has {query.rows} answers")
    # Each part of a query is a pass through the table, whether it has numbers in the file or not.
    parts = [part for query in [*queries.values(), *invariants.values()] for part in query.parts]
    if len(parts) > _PARTS or sum(part.rows for part in parts) + len(parts) * frame.size > _PASSES * limit:
        raise ValueError(
            f"its queries have {len(parts)} parts with {sum(part.rows for part in parts)} answers, too many for a file of this "
            "size; if that is right, raise the limit with max_cells"
        )
    return _Plan(frame, measured, exact, queries, invariants)


def build(description: Mapping[str, Any], numbers: Numbers, max_cells: int | None = None) -> Release:
    """Make a release from its description and its numbers, with all the checks of a new release."""
    plan = planned(description, max_cells)
    numbers.check(plan.frame, plan.queries)
    frame = plan.frame
    measurements = []
    for entry in plan.measurements:
        variable = entry["variable"]
        query, stated = plan.queries[variable], plan.invariants.get(variable)
        with numbers.naming(variable, ".law"):
            law = NoiseLaw.from_description(entry["law"])
        values, unmeasured = numbers.values(variable, query)
        with numbers.naming(variable):
            invariants = None if stated is None else Invariants(stated, frame)
            measurements.append(Measured(query, values, law, invariants, entry["name"], unmeasured=unmeasured))
    exact = []
    for entry in plan.exact:
        variable = entry["variable"]
        query, told = plan.queries[variable], entry.get("assumption")
        values = numbers.values(variable, query)[0]
        with numbers.naming(variable):
            assumption = None if told is None else _text.expect(told, str, f"the assumption of {variable}")
            exact.append(Exact(query, values, entry["sign"], assumption))
    about = _text.expect(description["about"], str, "about")
    kind: type[Guarantee] = StatisticGuarantee if about == "statistics" else Guarantee
    with numbers.naming("", "guarantee"):
        guarantee = None if description["guarantee"] is None else kind.from_dict(description["guarantee"])
    mechanism = description["mechanism"]
    if mechanism is not None:
        _text.expect(mechanism, dict, "mechanism")
    simulated = _text.expect(description["simulated"], bool, "simulated")
    # Not `from_published`: its warning of post-processing was given when the release was made.
    with numbers.naming(""):
        release = Release(frame, tuple(measurements), tuple(exact), mechanism, guarantee, simulated, about)
        release.check_feasible()
        release.check_stated()
    return release


def _entry(value: Any, keys: set[str], variable: str) -> dict[str, Any]:
    """The entry of one part, which has these keys and names the variable that is expected at its place."""
    known = keys | (_OPTIONAL & set(value)) if keys is _EXACT_KEYS and isinstance(value, dict) else keys
    entry: dict[str, Any] = _text.expect(value, dict, f"the entry of {variable}", known)
    if entry["variable"] != variable:
        raise ValueError(f"the entry of {variable} names the variable {entry['variable']!r}")
    return entry


def _frame_description(value: Any) -> dict[str, Any]:
    """Check the shape of a frame's description before it is taken apart."""
    frame: dict[str, Any] = _text.expect(value, dict, "frame", {"dims", "labels", "groups"})
    for key in frame:
        _text.expect(frame[key], list, f"{key} of the frame")
    if len(frame["dims"]) > DIMENSIONS or len(frame["groups"]) > _PARTS:
        sizes = f"{len(frame['dims'])} dimensions and {len(frame['groups'])} groups"
        raise ValueError(f"the table has {sizes}; at most {DIMENSIONS} and {_PARTS} are read")
    for labels in frame["labels"]:
        _text.expect(labels, list, "labels of a dimension")
    for group in frame["groups"]:
        if not isinstance(group, list) or len(group) != 3 or not isinstance(group[2], list):
            raise ValueError("groups of the frame must be lists of a name, a dimension and labels")
    return frame


def _check_size(frame: Frame, max_cells: int) -> None:
    """Refuse tables of more cells than allowed: a few labels along each of many dimensions make more than memory holds."""
    for name, labels in [*zip(frame.dims, frame.labels, strict=True), *((name, own) for name, _, own in frame.groups)]:
        check_labels(name, [len(str(label)) for label in labels])
    cells = prod(frame.shape)
    _check_limit(cells, max_cells, f"the table has {cells} cells")


def _check_limit(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise ValueError(f"{what}, more than the limit of {limit}; if that is right, raise the limit with max_cells")


def _query(value: Any, frame: Frame) -> Query:
    """Read a query; whatever is wrong with its description is a ValueError."""
    query = _text.expect(value, dict, "a query", {"parts"})
    for part in _text.expect(query["parts"], list, "parts of a query"):
        for key, items in _text.expect(part, dict, "a part of a query").items():
            _text.expect(items, str if key == "unit" else list, f"{key} of a query")
    try:
        return Query.from_description(query, frame)
    except TypeError as error:
        raise ValueError(f"a query is damaged: {error}") from None
