"""A loader for county populations of the 2010 Census, from a file that the user has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._validate import shown
from bayesdp.storage.csv_file import CsvFile, numbers, read_csv


class _Layout(NamedTuple):
    """The columns that one publisher uses."""

    publisher: str
    state_code: str
    county_code: str
    state: str
    county: str
    population: str


_LAYOUTS = (
    _Layout("plain", "state_fips", "county_fips", "state", "county", "pop2010"),
    _Layout("NHGIS", "STATEA", "COUNTYA", "STATE", "COUNTY", "H7V001"),
    _Layout("Census Bureau, co-est", "STATE", "COUNTY", "STNAME", "CTYNAME", "CENSUS2010POP"),
)

_LEVEL = "SUMLEV"  # the Census Bureau's files mix levels of geography
_STATE, _COUNTY = ("40", "040"), ("50", "050")
_MAX_DIGITS = 15  # below 2**53, so that a count is exact as float64 too

type _Rows = Sequence[tuple[int, tuple[str, ...]]]


def read_county_populations(path: str | os.PathLike[str]) -> xr.DataArray:
    r"""Read the populations of counties in the 2010 Census from a CSV file.

    The file is the user's own; the package ships none. Three forms are known by their columns, and others are
    refused; columns that are not listed are not read:

    ================= ================================================================
    form              columns
    ================= ================================================================
    plain             state_fips, county_fips, state, county, pop2010
    NHGIS             STATEA, COUNTYA, STATE, COUNTY, H7V001 (2010 Summary File 1, P1)
    Census Bureau     SUMLEV, STATE, COUNTY, STNAME, CTYNAME, CENSUS2010POP (co-est)
    ================= ================================================================

    Parameters
    ----------
    path : path
        CSV in UTF-8 with a header. (The Census Bureau's files are in Latin-1: convert them first.)

    Returns
    -------
    xarray.DataArray
        Dims ``(county,)``, int64 counts of persons, in the order of the file. County names repeat across
        states, so the labels carry the state ("Illinois: Adams County"); the coordinate ``state`` groups
        them, for :class:`bayesdp.Totals`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the columns fit none of the forms, a code is not of two (state) or three (county) digits, a county
        is there twice, a state has two names, a population is not a whole number of at least 0, or (Census
        Bureau) the counties of a state do not add up to the state's own line. The message names the line.

    Notes
    -----
    In files of the Census Bureau the lines of states (SUMLEV 040) are no counties: they are compared with
    the sum of their counties, and left out.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "counties.csv"
    ...     text = "state_fips,county_fips,state,county,pop2010\n17,001,Illinois,Adams County,67103\n"
    ...     _ = path.write_text(text)
    ...     table = read_county_populations(path)
    >>> int(table.sel(county="Illinois: Adams County")), table["state"].values.tolist()
    (67103, ['Illinois'])
    """
    file = read_csv(path)
    layout = _layout(file)
    counties, states = _levels(file)
    if not counties:
        raise ValueError(f"{file.path}: there is no county below the header")
    populations = _populations(file, layout, counties)
    names = _state_names(file, layout, counties)
    labels = _labels(file, layout, counties)
    _check_state_lines(file, layout, states, names, populations)
    return xr.DataArray(
        populations,
        dims=("county",),
        coords={"county": labels, "state": ("county", names)},
        name="population",
        attrs={
            "title": "Population of counties, 2010",
            "source": f"United States Census Bureau, 2010 Census; {file.path.name}, in the form of {layout.publisher}",
            "licence": "That of the file: it is the user's own",
        },
    )


def _layout(file: CsvFile) -> _Layout:
    fitting = [layout for layout in _LAYOUTS if set(layout[1:]) <= set(file.header)]
    if len(fitting) != 1:
        known = "; ".join(", ".join(layout[1:]) for layout in _LAYOUTS)
        found = "more than one" if fitting else "none"
        raise ValueError(
            f"{file.path}: columns are {shown(file.header, 8)}, which fit {found} of the known forms: {known}"
        )
    return fitting[0]


def _levels(file: CsvFile) -> tuple[_Rows, _Rows]:
    """Lines of counties, and lines of states."""
    if _LEVEL not in file.header:
        return file.rows, ()
    place = file.column(_LEVEL)
    for line, fields in file.rows:
        if fields[place] not in _STATE + _COUNTY:
            raise ValueError(f"{file.at(line)}: {_LEVEL} must be 040 (state) or 050 (county), got {fields[place]!r}")
    counties = [row for row in file.rows if row[1][place] in _COUNTY]
    return counties, [row for row in file.rows if row[1][place] in _STATE]


def _populations(file: CsvFile, layout: _Layout, rows: _Rows) -> npt.NDArray[np.int64]:
    state, county, population = (file.column(name) for name in (layout.state, layout.county, layout.population))
    cells = [(line, f"{fields[state]}: {fields[county]}", fields[population]) for line, fields in rows]
    for line, name, text in cells:
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
            raise ValueError(
                f"{file.at(line)}: the population of {name} must be a whole number of at least 0, written in "
                f"at most {_MAX_DIGITS} digits and no other sign, got {text!r}"
            )
    return np.asarray(numbers(file, cells), dtype=np.int64)


def _state_names(file: CsvFile, layout: _Layout, rows: _Rows) -> list[str]:
    """The state of each county; each code has one name, and each name one code."""
    code, name = file.column(layout.state_code), file.column(layout.state)
    name_of: dict[str, str] = {}
    code_of: dict[str, str] = {}
    for line, fields in rows:
        own, label = _digits(file, line, layout.state_code, fields[code], 2), fields[name]
        if not label:
            raise ValueError(f"{file.at(line)}: the name of the state ({layout.state}) is empty")
        if name_of.setdefault(own, label) != label or code_of.setdefault(label, own) != own:
            raise ValueError(
                f"{file.at(line)}: state {own} is {label!r}, but earlier lines have "
                f"{name_of[own]!r} for {own} and {code_of.get(label, own)} for {label!r}"
            )
    return [fields[name] for _, fields in rows]


def _labels(file: CsvFile, layout: _Layout, rows: _Rows) -> list[str]:
    """The labels of the counties; codes and labels are both distinct."""
    place = [file.column(name) for name in (layout.state_code, layout.county_code, layout.state, layout.county)]
    codes: dict[tuple[str, str], int] = {}
    labels: dict[str, int] = {}
    for line, fields in rows:
        state_code, county_code, state, county = (fields[i] for i in place)
        if not county:
            raise ValueError(f"{file.at(line)}: the name of the county ({layout.county}) is empty")
        code, label = (state_code, _digits(file, line, layout.county_code, county_code, 3)), f"{state}: {county}"
        first = min(codes.setdefault(code, line), labels.setdefault(label, line))
        if first != line:
            raise ValueError(f"{file.at(line)}: county {''.join(code)} ({label}) is there already, in line {first}")
    return list(labels)


def _digits(file: CsvFile, line: int, column: str, text: str, length: int) -> str:
    if len(text) != length or not (text.isascii() and text.isdigit()):
        raise ValueError(f"{file.at(line)}: {column} must have {length} digits, got {text!r} (leading zeros count)")
    return text


def _check_state_lines(
    file: CsvFile, layout: _Layout, states: _Rows, names: Sequence[str], populations: npt.NDArray[np.int64]
) -> None:
    for (line, fields), total in zip(states, _populations(file, layout, states).tolist(), strict=True):
        state = fields[file.column(layout.state)]
        own = int(populations[[name == state for name in names]].sum())
        if own != total:
            raise ValueError(f"{file.at(line)}: {state} has {total} persons, but its counties in the file have {own}")
