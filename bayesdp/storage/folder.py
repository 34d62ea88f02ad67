"""Releases as folders of text: ``release.json`` says what is in them, CSV files have the numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bayesdp import _text
from bayesdp._text import csv_label
from bayesdp._validate import shown
from bayesdp.frames import Frame
from bayesdp.measurements import Exact, Measured
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage.csv_file import numbers, read_csv, write_csv
from bayesdp.storage.exchange import replacing_folder, told_of_previous
from bayesdp.storage.guarded import cell_limit, damaged
from bayesdp.storage.schema import build, checked_version, describe

MARKER = "release.json"
"""The file that makes a folder a stored release."""

_NAMED = 10_000
"""If more cells than this are missing from a file, they are not named."""
_VARIABLE = re.compile("(measured|exact)_[0-9]+")
"""What the parts of a release are called, whatever `MARKER` says."""


def _header(query: Query) -> tuple[str, ...]:
    """Columns of a part's CSV file: its dimensions and the value."""
    return (*map(csv_label, query.dims), "value")


def _cells(query: Query) -> list[tuple[str, ...]]:
    """Labels of each answer as text, in order."""
    return [tuple(map(csv_label, labels)) for labels in product(*query.coords.values())]


def write_folder(release: Release, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a release as a folder; see `bayesdp.Release.to_csv`."""
    parts: dict[str, Measured | Exact] = {f"measured_{i}": own for i, own in enumerate(release.measurements)}
    parts |= {f"exact_{i}": own for i, own in enumerate(release.exact)}
    description = _text.dumps(describe(release), "the release", indent=1)
    with replacing_folder(folder, overwrite=overwrite, marker=MARKER, parts=_parts) as temporary:
        (temporary / MARKER).write_text(description + "\n", encoding="utf-8")
        for name, part in parts.items():
            _check_writable(name, part.query)
            write_csv(temporary / f"{name}.csv", _header(part.query), _rows(part))


def _parts(folder: Path) -> set[str]:
    """The files that a stored release consists of, according to itself; ValueError if it is no release."""
    description = _description(folder)
    listed = [part for kind in ("measurements", "exact") for part in _text.expect(description.get(kind), list, kind)]
    names = {str(part.get("variable")) for part in listed if isinstance(part, dict)}
    return {MARKER, *(f"{name}.csv" for name in names if _VARIABLE.fullmatch(name))}


def _description(folder: Path) -> dict[str, Any]:
    """What ``release.json`` says, with the version of the schema."""
    try:
        text = (folder / MARKER).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{MARKER} is not text in UTF-8 ({error.reason} at byte {error.start})") from None
    description: dict[str, Any] = _text.expect(_text.loads(text, MARKER), dict, MARKER)
    if "bayesdp_schema" not in description:
        raise ValueError(f"{MARKER} holds no release: 'bayesdp_schema' is missing")
    return description


def _check_writable(name: str, query: Query) -> None:
    """Labels that text would not tell apart, or not keep, go into netCDF only."""
    if "value" in query.dims:
        raise ValueError(f"{name} has a dimension called 'value', the name of the column of numbers; use to_netcdf")
    for dim, labels in query.coords.items():
        texts = [csv_label(label) for label in labels]
        if len(set(texts)) < len(texts) or any(text != text.strip() for text in texts):
            raise ValueError(
                f"labels of {dim!r} differ only by type or have blanks around them, which a CSV file does "
                "not keep; use to_netcdf"
            )


def _rows(part: Measured | Exact) -> Iterator[list[object]]:
    hidden = part.unmeasured.reshape(-1) if isinstance(part, Measured) else np.zeros(part.values.size, np.bool_)
    for labels, value, blank in zip(_cells(part.query), part.values.reshape(-1).tolist(), hidden, strict=True):
        yield [*labels, "" if blank else value]


class _FolderNumbers:
    """Numbers from the CSV files of a folder; a `Numbers`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self, frame: Frame, parts: Mapping[str, Query]) -> None:
        del frame
        unknown = sorted({entry.name for entry in self.folder.iterdir()} - {MARKER} - {f"{name}.csv" for name in parts})
        if unknown:
            raise ValueError(f"the folder holds files that are not part of the release: {shown(unknown)}")

    def values(self, variable: str, query: Query) -> tuple[Any, Any]:
        file = read_csv(self.folder / f"{variable}.csv")
        if query.rows > len(file.rows) + _NAMED:  # before they are all written down to see which ones
            raise ValueError(f"{file.path.name}: {query.rows - len(file.rows)} of {query.rows} cells are missing")
        header = _header(query)
        if file.header != header:
            raise ValueError(f"{file.path.name}: the columns must be {header}, got {file.header}")
        position = {labels: i for i, labels in enumerate(_cells(query))}
        found: dict[int, tuple[int, str, str]] = {}
        for line, fields in file.rows:
            where = position.get(fields[:-1])
            if where is None:
                raise ValueError(f"{file.path.name}, line {line}: there is no cell {fields[:-1]}")
            if where in found:
                raise ValueError(f"{file.path.name}, line {line}: the cell {query.answer_name(where)} occurs twice")
            found[where] = (line, query.answer_name(where), fields[-1])
        missing = [name for i, name in enumerate(query.names) if i not in found]
        if missing:
            raise ValueError(f"{file.path.name}: cells are missing: {shown(missing)}")
        values = numbers(file, [found[i] for i in range(query.rows)]).reshape(query.shape)
        hidden = np.isnan(values)
        return values, hidden if hidden.any() else None


def read_folder(folder: str | os.PathLike[str], *, max_cells: int | None = None) -> Release:
    """Read a release from a folder; see `bayesdp.Release.from_csv`."""
    target = Path(folder)
    if not (target / MARKER).is_file():
        message = f"there is no release in {str(target)!r}: the file {MARKER} is missing"
        raise FileNotFoundError(message + told_of_previous(target))
    size = sum(entry.stat().st_size for entry in target.iterdir() if entry.is_file())
    with damaged(target):
        description = _description(target)
        version = description.pop("bayesdp_schema")
        return build(checked_version(version, description), _FolderNumbers(target), cell_limit(size, max_cells))
