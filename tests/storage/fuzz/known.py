"""Files that did harm once, or were taken for what they are not: the first cases of every run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import xarray as xr

from tests.storage.fuzz import hdf5_bombs as bombs

_DIGITS = "9" * 401
"""More digits than a float can hold, and fewer than Python refuses to read."""


@dataclass(frozen=True)
class Known:
    """A valid file, who reads it, what is made wrong with it, and what must come of it."""

    name: str
    target: str
    specimen: str
    change: Callable[[Path], None]
    expected: str = ""  # "refused" or "accepted"; empty where either is right


def _in_hdf5(change: Callable[[h5py.File], None]) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(file)

    return run


def _attribute(place: str, name: str, value: Any) -> Callable[[Path], None]:
    return _in_hdf5(lambda file: file[place].attrs.__setitem__(name, value))


def _field(place: str, attribute: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    """A change of the JSON in an attribute."""

    def run(file: h5py.File) -> None:
        value = json.loads(file[place].attrs[attribute])
        change(value)
        file[place].attrs[attribute] = json.dumps(value)

    return _in_hdf5(run)


def _attributes_of_one_text(path: Path) -> None:
    """A thousand attributes, each of which is the same text of 400 kB."""
    bombs.share_one_text(path, length=400_000, many=1000, labels=False)


def _labels_of_one_text(path: Path) -> None:
    bombs.share_one_text(path, length=400_000, many=2000, labels=True)


def _seven_dimensions(path: Path) -> None:
    """Twelve labels along each of seven dimensions: 36 million cells in a file of less than a kilobyte."""
    source = path / "DATA.noise.json"
    known = json.loads(source.read_text(encoding="utf-8"))
    names = [f"d{i}" for i in range(7)]
    known["table"] = {"dimensions": [{"name": name, "labels": [str(i) for i in range(12)]} for name in names]}
    part = {"column": "value", "query": {"kind": "cells"}, "law": {"law": "discrete-laplace", "b": 4.0}}
    known |= {"measured": [part], "exact": [], "mechanism": None, "guarantee": None}
    source.write_text(json.dumps(known), encoding="utf-8")
    (path / "DATA.csv").write_text(",".join([*names, "value"]) + "\n" + ",".join(["0"] * 7) + ",1\n", encoding="utf-8")


def _zeros(kind: str, cells: int, chunks: int) -> Callable[[Path], None]:
    def run(file: h5py.File) -> None:
        for i in range(6):
            bombs.add_zeros(file, f"extra_{i}", chunks, cells, kind)

    return _in_hdf5(run)


def _text_length(path: Path) -> None:
    """The first text that a variable refers to says that it has a gigabyte."""
    with h5py.File(path, "r") as file:
        at = file["county"].id.get_offset()
    raw = bytearray(path.read_bytes())
    raw[at : at + 4] = (2**30).to_bytes(4, "little")
    path.write_bytes(raw)


def _digits(place: tuple[Any, ...]) -> Callable[[Path], None]:
    """A field of ``noise.json`` that is a number of 401 digits."""

    def run(path: Path) -> None:
        source = path / "DATA.noise.json"
        value = json.loads(source.read_text(encoding="utf-8"))
        holder = value
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = "DIGITS"
        source.write_text(json.dumps(value).replace('"DIGITS"', _DIGITS), encoding="utf-8")

    return run


_FIELDS: tuple[tuple[Any, ...], ...] = (
    ("noise_json",), ("data",), ("data", "labels"), ("table",), ("table", "dimensions"), ("table", "dimensions", 0),
    ("table", "dimensions", 0, "name"), ("table", "dimensions", 0, "column"), ("table", "dimensions", 0, "labels"),
    ("table", "dimensions", 0, "labels", 0), ("measured",), ("measured", 0), ("measured", 0, "column"), ("measured", 0, "name"),
    ("measured", 0, "query"), ("measured", 0, "query", "kind"), ("measured", 0, "law"), ("measured", 0, "law", "law"),
    ("measured", 0, "law", "epsilon"), ("measured", 0, "law", "norm"), ("measured", 0, "invariants"),
    ("measured", 0, "invariants", "parts", 0, "kind"), ("exact",), ("exact", 0), ("exact", 0, "column"), ("exact", 0, "query"),
    ("exact", 0, "sign"), ("mechanism",), ("mechanism", "mechanism"), ("mechanism", "epsilon"), ("guarantee",), ("guarantee", "kind"),
    ("guarantee", "parameters"), ("guarantee", "parameters", "epsilon"), ("guarantee", "simulated"), ("simulated",), ("writer",),
)  # fmt: skip


def _lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    """A change of the lines of a journal."""

    def run(path: Path) -> None:
        path.write_bytes(b"\n".join(change(path.read_bytes().split(b"\n"))))

    return run


def _counts(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def run(file: h5py.File) -> None:
        values = file["posterior/x"][()]
        change(values)
        file["posterior/x"][...] = values

    return _in_hdf5(run)


def _no_draws(path: Path) -> None:
    """A posterior of no draws at all."""
    with xr.open_datatree(path, engine="h5netcdf") as file:
        tree = file.load()
    for group in ("posterior", "sample_stats"):
        tree[group].dataset = tree[group].to_dataset().isel(draw=slice(0, 0))
    for own in tree["posterior"].variables.values():
        own.encoding.clear()
    tree.to_netcdf(path, engine="h5netcdf")


_SMALL: tuple[Known, ...] = (
    Known("seven dimensions", "release, columns", "lattice_columns", _seven_dimensions, "refused"),
    Known("a length of a gigabyte", "release, netCDF", "lattice.nc", _text_length, "refused"),
    Known("one text, many attributes", "release, netCDF", "lattice.nc", _attributes_of_one_text, "refused"),
    Known("one text, many attributes", "posterior", "posterior.nc", _attributes_of_one_text),
    Known("one text, many labels", "release, netCDF", "lattice.nc", _labels_of_one_text, "refused"),
    Known("unknown zeros", "release, netCDF", "lattice.nc", _zeros("i8", 500_000, 30), "refused"),
    Known("unknown zeros", "table, netCDF", "table.nc", _zeros("i8", 500_000, 30), "refused"),
    Known("unknown zeros", "release of statistics", "statistics.nc", _zeros("i8", 500_000, 30), "refused"),
    Known("unknown zeros", "posterior", "posterior.nc", _zeros("i8", 500_000, 30)),
    Known("blank text of a fixed length", "release, netCDF", "lattice.nc", _zeros("S20000", 100, 40), "refused"),
    Known("blank text of a fixed length", "posterior", "posterior.nc", _zeros("S20000", 100, 40)),
)  # fmt: skip

_INCONSISTENT: tuple[Known, ...] = (
    Known("negative counts", "posterior", "posterior.nc", _counts(lambda x: x.__setitem__((0, 0, 0, 0), -1)), "refused"),
    Known("counts off their fiber", "posterior", "posterior.nc", _counts(lambda x: x.__setitem__((1, 3), x[1, 3] + 1)), "refused"),
    Known("no determined cells", "bayesdp summary", "posterior.nc", _in_hdf5(lambda file: file.__delitem__("fiber/determined"))),
    Known("no draws", "bayesdp summary", "posterior.nc", _no_draws, "refused"),
    Known("no draws", "posterior", "posterior.nc", _no_draws, "refused"),
    Known("converged is text", "bayesdp summary", "posterior.nc", _attribute("diagnostics", "converged", "no"), "refused"),
    Known("simulated twice", "release, netCDF", "lattice.nc", _attribute("/", "simulated", 0), "refused"),
    Known(
        "another epsilon than the law's", "release, netCDF", "lattice.nc",
        _field("/", "guarantee", lambda own: own["parameters"].update(epsilon=0.01)), "refused",
    ),
    Known(
        "an unknown mechanism", "release, netCDF", "lattice.nc",
        _field("/", "mechanism", lambda own: own.update(mechanism="magic")), "refused",
    ),
    Known("an unknown key", "release, netCDF", "lattice.nc", _field("/", "mechanism", lambda own: own.update(extra=1)), "refused"),
)  # fmt: skip

_JOURNALS: tuple[Known, ...] = tuple(
    Known(name, "journal of sbc", "journal.jsonl", _lines(change))
    for name, change in {
        "half a first line": lambda lines: [lines[0][:40]],
        "zeros at the end": lambda lines: [*lines[:-1], bytes(500)],
        "a line of zeros at the end": lambda lines: [*lines[:-1], bytes(500), b""],
        "zeros only": lambda lines: [bytes(500)],
        "a line that is a list": lambda lines: [*lines[:3], b"[1]", *lines[3:]],
        "a line that is an integer": lambda lines: [*lines[:3], b"1", *lines[3:]],
        "a first line that is an integer": lambda lines: [b"1", *lines[1:]],
        "no number": lambda lines: [lines[0], b'{"ranks": {}}', *lines[2:]],
        "no ranks": lambda lines: [lines[0], b'{"number": 0}', *lines[2:]],
        "an error that is a number": lambda lines: [lines[0], b'{"number": 0, "error": 3}', *lines[2:]],
        "a number of 401 digits": lambda lines: [lines[0], b'{"number": ' + _DIGITS.encode() + b"}", *lines[2:]],
        "a rank of 401 digits": lambda lines: [
            lines[0],
            lines[1].replace(b'"x[0]": 0.', b'"x[0]": ' + _DIGITS.encode()),
            *lines[2:],
        ],
        "deep nesting": lambda lines: [*lines[:3], b"[" * 100_000, *lines[3:]],
        "not UTF-8": lambda lines: [*lines[:3], b"\xff\xfe", *lines[3:]],
    }.items()
)

KNOWN: tuple[Known, ...] = (
    *_SMALL,
    *_INCONSISTENT,
    *_JOURNALS,
    *(
        Known(f"401 digits at {'/'.join(map(str, own))}", "release, columns", "lattice_columns", _digits(own))
        for own in _FIELDS
    ),
)
"""In the order of their numbers."""
