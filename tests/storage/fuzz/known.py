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

type Change = Callable[[Path], None]


@dataclass(frozen=True)
class Known:
    """A valid file, who reads it, what is made wrong with it, and what must come of it."""

    name: str
    target: str
    specimen: str
    change: Change
    expected: str = ""  # "refused" or "accepted"; empty where either is right


def _in_hdf5(change: Callable[[h5py.File], None]) -> Change:
    def run(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(file)

    return run


def _one_text(labels: bool) -> Change:
    """A thousand attributes, or labels, each of which is the same text of 400 kB."""
    return lambda path: bombs.share_one_text(path, length=400_000, many=1000, labels=labels)


def _zeros(kind: str, cells: int, chunks: int) -> Change:
    def run(file: h5py.File) -> None:
        for i in range(6):
            bombs.add_zeros(file, f"extra_{i}", chunks, cells, kind)

    return _in_hdf5(run)


def _sidecar(change: Callable[[Any], None]) -> Change:
    """A change of ``noise.json``, in which "DIGITS" stands for a number of 401 digits."""

    def run(path: Path) -> None:
        source = path / "DATA.noise.json"
        value = json.loads(source.read_text(encoding="utf-8"))
        change(value)
        source.write_text(json.dumps(value).replace('"DIGITS"', _DIGITS), encoding="utf-8")

    return run


def _seven_dimensions(known: Any) -> None:
    """Twelve labels along each of seven dimensions: 36 million cells in a file of less than a kilobyte."""
    names = [f"d{i}" for i in range(7)]
    known["table"] = {"dimensions": [{"name": name, "labels": [str(i) for i in range(12)]} for name in names]}
    part = {"column": "value", "query": {"kind": "cells"}, "law": {"law": "discrete-laplace", "b": 4.0}}
    known |= {"measured": [part], "exact": [], "mechanism": None, "guarantee": None}


def _digits(*place: Any) -> Change:
    def change(value: Any) -> None:
        for key in place[:-1]:
            value = value[key]
        value[place[-1]] = "DIGITS"

    return _sidecar(change)


_FIELDS: tuple[tuple[Any, ...], ...] = (
    ("noise_json",), ("table", "dimensions", 0, "labels", 0), ("measured", 0, "column"), ("measured", 0, "query", "kind"),
    ("measured", 0, "law", "epsilon"), ("measured", 0, "invariants"), ("exact", 0, "sign"), ("mechanism", "epsilon"),
    ("guarantee", "parameters", "epsilon"), ("simulated",),
)  # fmt: skip


def _counts(change: Callable[[Any], None]) -> Change:
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


_JOURNALS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
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
    "deep nesting": lambda lines: [*lines[:3], b"[" * 100_000, *lines[3:]],
    "not UTF-8": lambda lines: [*lines[:3], b"\xff\xfe", *lines[3:]],
}


def _lines(change: Callable[[list[bytes]], list[bytes]]) -> Change:
    def run(path: Path) -> None:
        path.write_bytes(b"\n".join(change(path.read_bytes().split(b"\n"))))

    return run


KNOWN: tuple[Known, ...] = (
    Known("seven dimensions", "release, columns", "lattice_columns", _sidecar(_seven_dimensions), "refused"),
    Known("one text, many attributes", "release, netCDF", "lattice.nc", _one_text(labels=False), "refused"),
    Known("one text, many attributes", "posterior", "posterior.nc", _one_text(labels=False)),
    Known("one text, many labels", "release, netCDF", "lattice.nc", _one_text(labels=True), "refused"),
    Known("unknown zeros", "table, netCDF", "table.nc", _zeros("i8", 500_000, 30), "refused"),
    Known("unknown zeros", "release of statistics", "statistics.nc", _zeros("i8", 500_000, 30), "refused"),
    Known("blank text of a fixed length", "posterior", "posterior.nc", _zeros("S20000", 100, 40)),
    Known("negative counts", "posterior", "posterior.nc", _counts(lambda x: x.__setitem__((0, 0, 0, 0), -1)), "refused"),
    Known("counts off their fiber", "posterior", "posterior.nc", _counts(lambda x: x.__setitem__((1, 3), x[1, 3] + 1)), "refused"),
    Known("no determined cells", "bayesdp summary", "posterior.nc", _in_hdf5(lambda file: file.__delitem__("fiber/determined"))),
    Known("no draws", "bayesdp summary", "posterior.nc", _no_draws, "refused"),
    Known("no draws", "posterior", "posterior.nc", _no_draws, "refused"),
    Known(
        "converged is text", "bayesdp summary", "posterior.nc",
        _in_hdf5(lambda file: file["diagnostics"].attrs.__setitem__("converged", "no")), "refused",
    ),
    *(Known(name, "journal of sbc", "journal.jsonl", _lines(change)) for name, change in _JOURNALS.items()),
    *(Known(f"401 digits at {own}", "release, columns", "lattice_columns", _digits(*own)) for own in _FIELDS),
)  # fmt: skip
"""In the order of their numbers."""
