"""Descriptions with one field changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest

from bayesdp.release import Release
from bayesdp.storage.schema import describe


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, below in items:
        yield from places(below, (*path, key))


def mutations(value: Any) -> Iterator[tuple[str, Any]]:
    """Values of another kind, with another sign, beyond all numbers, and another valid-looking one."""
    yield "object", {"a": 1}
    yield "long", 10**400
    if isinstance(value, bool):
        yield from (("other", not value), ("text", str(value)), ("number", int(value)))
    elif isinstance(value, int | float):
        yield from (
            ("text", str(value)),
            ("truth", True),
            ("negative", -value - 1),
            ("larger", value * 1.5 + 1),
            ("null", None),
        )
    elif isinstance(value, str):
        yield from (("other", value + "x"), ("number", 7), ("null", None))
    elif isinstance(value, dict):
        yield from (("unknown", {**value, "extra": 1}), ("list", [1]))
    elif isinstance(value, list):
        yield from (("text", "x"), ("longer", [*value, "extra"]), ("number", 3))
    else:
        yield from (("text", "x"), ("number", 3))


def at(description: Any, path: tuple) -> Any:
    for key in path:
        description = description[key]
    return description


def mutants(description: dict[str, Any]) -> Iterator[tuple[tuple, str, dict[str, Any]]]:
    for path in places(description):
        parent, key = path[:-1], path[-1]
        for kind, value in mutations(at(description, path)):
            changed = copy.deepcopy(description)
            at(changed, parent)[key] = value
            yield path, kind, changed
        changed = copy.deepcopy(description)
        del at(changed, parent)[key]
        yield path, "removed", changed


def described(release: Release) -> dict[str, Any]:
    """What a netCDF file says of a release beside its numbers."""
    found: dict[str, Any] = json.loads(json.dumps(describe(release)))
    return found


def read_with(release: Release, description: dict[str, Any]) -> Release:
    """Read a release whose description was changed, as a reader of files does: whatever is wrong is a ValueError."""
    stored = release.to_dataset()
    plain = ("bayesdp_schema", "about", "writer", "simulated")
    stored.attrs = {key: value if key in plain else json.dumps(value) for key, value in description.items()}
    try:
        return Release.from_dataset(stored)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(str(error)) from None


def refused_with(release: Release, path: tuple, value: Any, file: str, folder: Path, message: str) -> None:
    """A release is written, one field of what the file says is changed, and reading it is an error with this message."""
    if file == "noise.json":
        release.to_csv(folder / "stored.csv")
        source = folder / "stored.noise.json"
        told = json.loads(source.read_text())
        path = ("measured", *path[1:]) if path[0] == "measurements" else path
        at(told, path[:-1])[path[-1]] = value
        source.write_text(json.dumps(told))
    else:
        release.to_netcdf(folder / "stored.nc")
        with h5py.File(folder / "stored.nc", "r+") as stored:
            told = {path[0]: int(value)} if len(path) == 1 else {path[0]: json.loads(stored.attrs[path[0]])}
            if len(path) > 1:
                at(told, path[:-1])[path[-1]] = value
            stored.attrs[path[0]] = told[path[0]] if len(path) == 1 else json.dumps(told[path[0]])
    with pytest.raises(ValueError, match=message):
        Release.from_csv(folder / "stored.csv") if file == "noise.json" else Release.from_netcdf(folder / "stored.nc")
