"""Readers of county tables of the 2010 Census from files that the user has, and of demonstration files beside them.

Demonstration files are trial runs of the Census Bureau's disclosure avoidance system. **They are for comparison, and no
releases**: noisy numbers that were then made whole, nonnegative and consistent (post-processed), so that no noise law describes
them. The attribute ``postprocessing`` of such a table says so, and :class:`bayesdp.Measured` refuses a table that has it.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr

from bayesdp._arrays import Ints
from bayesdp._validate import shown
from bayesdp.storage.csv_file import CsvFile, read_csv

POST_PROCESSED = "made whole, nonnegative and consistent by the TopDown algorithm"
"""The attribute ``postprocessing`` of tables from demonstration files."""

_LICENCE = "That of the file: it is the user's own"
_NAME = r"(?s:.+)", "a name must not be empty"
_STATE_CODE, _COUNTY_CODE = ((rf"\d{{{n}}}", f"a code must have {n} digits (leading zeros count)") for n in (2, 3))
# Below 2**53, so that a count is exact as float64 too.
_COUNT = r"\d{1,15}", "a count must be a whole number of at least 0, written in at most 15 digits and no other sign"


def _column(file: CsvFile, name: str, form: tuple[str, str]) -> list[str]:
    """The texts of a column, all of which have a form; ValueError that says what it is."""
    place, (pattern, rule) = file.column(name), form
    for line, fields in file.rows:
        if not re.fullmatch(pattern, fields[place], re.ASCII):
            raise ValueError(f"{file.at(line, name)}: {rule}, got {shown([fields[place]])}")
    return [fields[place] for _, fields in file.rows]


def _counts(file: CsvFile, columns: Sequence[str]) -> Ints:
    """Columns of counts as an array, shape (rows, columns)."""
    return np.array([list(map(int, _column(file, name, _COUNT))) for name in columns], dtype=np.int64).T


def _distinct(file: CsvFile, names: Sequence[str]) -> list[str]:
    """The names of the rows, one each; ValueError where one is there twice, or there is no row."""
    first: dict[str, int] = {}
    for (line, _), name in zip(file.rows, names, strict=True):
        if first.setdefault(name, line) != line:
            raise ValueError(f"{file.at(line)}: {name!r} is there already, in line {first[name]}")
    if not first:
        raise ValueError(f"{file.path}: there is no row below the header")
    return list(first)


def _codes(file: CsvFile, state: str, county: str) -> list[str]:
    """The five digits of each county."""
    pairs = zip(_column(file, state, _STATE_CODE), _column(file, county, _COUNTY_CODE), strict=True)
    return _distinct(file, [a + b for a, b in pairs])


_FORMS = {
    "plain": ("state_fips", "county_fips", "state", "county", "pop2010"),
    "NHGIS": ("STATEA", "COUNTYA", "STATE", "COUNTY", "H7V001"),
    "Census Bureau, co-est": ("STATE", "COUNTY", "STNAME", "CTYNAME", "CENSUS2010POP"),
}
"""Publisher -> columns: code of the state, of the county, name of the state, of the county, population."""

_LEVEL = "SUMLEV"  # the Census Bureau's files mix levels of geography
_STATE, _COUNTY = ("40", "040"), ("50", "050")


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

    Dims ``(county,)``, int64 counts of persons, in the order of the file. County names repeat across states, so the labels carry the
    state ("Illinois: Adams County"); the coordinate ``state`` groups them, for :class:`bayesdp.Totals`. In files of the Census Bureau
    the lines of states (SUMLEV 040) are compared with the sum of their counties, and left out.

    Parameters
    ----------
    path : path
        CSV in UTF-8 with a header. (The Census Bureau's files are in Latin-1: convert them first.)

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file; if the columns fit none of the forms, a code is not of two (state) or three (county) digits, a county
        is there twice, a state has two names, a population is not a whole number of at least 0, or (Census Bureau) the counties of a
        state do not add up to the state's own line. The message names the line.

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
    whole = read_csv(path)
    fitting = [form for form, columns in _FORMS.items() if set(columns) <= set(whole.header)]
    if len(fitting) != 1:
        raise ValueError(
            f"{whole.path}: columns are {shown(whole.header, 8)}, which fit {'more than one' if fitting else 'none'} of the known "
            f"forms: {'; '.join(', '.join(columns) for columns in _FORMS.values())}"
        )
    state_code, county_code, state, county, population = _FORMS[fitting[0]]
    states, file = _levels(whole)
    codes, names = _codes(file, state_code, county_code), _column(file, state, _NAME)
    _check_state_names(file, [code[:2] for code in codes], names)
    labels = _distinct(file, [f"{a}: {b}" for a, b in zip(names, _column(file, county, _NAME), strict=True)])
    populations = _counts(file, [population])[:, 0]
    for (line, fields), total in zip(states.rows, _counts(states, [population])[:, 0], strict=True):
        stated = fields[file.column(state)]
        added = populations[[name == stated for name in names]].sum()
        if added != total:
            raise ValueError(
                f"{file.at(line)}: {stated} has {total} persons, but its counties in the file have {added}"
            )
    return xr.DataArray(
        populations,
        dims=("county",),
        coords={"county": labels, "state": ("county", names)},
        name="population",
        attrs={
            "title": "Population of counties, 2010",
            "source": f"United States Census Bureau, 2010 Census; {file.path.name}, in the form of {fitting[0]}",
            "licence": _LICENCE,
        },
    )


def _levels(file: CsvFile) -> tuple[CsvFile, CsvFile]:
    """The lines of states, and those of counties."""
    if _LEVEL not in file.header:
        return replace(file, rows=()), file
    place = file.column(_LEVEL)
    for line, fields in file.rows:
        if fields[place] not in _STATE + _COUNTY:
            raise ValueError(f"{file.at(line)}: {_LEVEL} must be 040 (state) or 050 (county), got {fields[place]!r}")
    states, counties = (tuple(row for row in file.rows if row[1][place] in level) for level in (_STATE, _COUNTY))
    return replace(file, rows=states), replace(file, rows=counties)


def _check_state_names(file: CsvFile, codes: Sequence[str], names: Sequence[str]) -> None:
    """Check that each code of a state has one name, and each name one code."""
    name_of: dict[str, str] = {}
    code_of: dict[str, str] = {}
    for (line, _), code, name in zip(file.rows, codes, names, strict=True):
        if name_of.setdefault(code, name) != name or code_of.setdefault(name, code) != code:
            raise ValueError(
                f"{file.at(line)}: state {code} is {name!r}, but earlier lines have {name_of[code]!r} for {code} and "
                f"{code_of.get(name, code)} for {name!r}"
            )


_ORIGINS = {
    "nh_white": "White", "nh_black": "Black", "nh_aian": "American Indian", "nh_asian": "Asian",
    "nh_nhpi": "Pacific Islander", "nh_other": "other race", "nh_two": "two or more races", "hispanic": "Hispanic",
}  # fmt: skip
_SEXES = {"m": "male", "f": "female"}
_AGES = (
    "0-4", "5-9", "10-14", "15-17", "18-19", "20", "21", "22-24", "25-29", "30-34", "35-39", "40-44", "45-49", "50-54",
    "55-59", "60-61", "62-64", "65-66", "67-69", "70-74", "75-79", "80-84", "85+",
)  # fmt: skip


def read_county_demonstration(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read county tables of a demonstration release, beside the populations of the census.

    The columns are ``state_fips``, ``county_fips``, ``county``, ``pop2010_census`` and ``pop2010_das``; ``nh_white_das`` to
    ``nh_two_das`` (one race each, not Hispanic) and ``hispanic_das``; and ``male_das``, ``m_age01_das`` to ``m_age23_das``,
    ``female_das``, ``f_age01_das`` to ``f_age23_das``, the 23 age groups of table P12.

    **For comparison, and no release.** The demonstration is post-processed, its attribute ``postprocessing`` says so, and
    :class:`bayesdp.Measured` refuses it.

    A Dataset of int64 counts of persons: ``census`` and ``demonstration``, dims ``(county,)``; ``demonstration_origin``, dims
    ``(county, origin)``; ``demonstration_age``, dims ``(county, sex, age)``. Counties are labelled by their codes ("06001"), with the
    coordinates ``name`` and ``state`` (code). Of origin, sex and age the file has the demonstration only.

    Parameters
    ----------
    path : path
        CSV in UTF-8 with a header.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file; if a column is missing, a code or a count is none, a county is there twice, or the demonstration does
        not add up, which it does by its making. The message names the line.
    """
    file = read_csv(path)
    county = _codes(file, "state_fips", "county_fips")
    census, das = _counts(file, ["pop2010_census", "pop2010_das"]).T
    origin = _counts(file, [f"{name}_das" for name in _ORIGINS])
    sexes = _counts(file, ["male_das", "female_das"])
    groups = range(1, len(_AGES) + 1)
    ages = np.stack([_counts(file, [f"{sex}_age{i:02d}_das" for i in groups]) for sex in _SEXES], axis=1)
    _check_sum(file, origin.sum(axis=1), das, "the origins")
    for i, sex in enumerate(_SEXES.values()):
        _check_sum(file, ages[:, i].sum(axis=1), sexes[:, i], f"the ages of {sex}s")
    _check_sum(file, sexes.sum(axis=1), das, "males and females")
    found = xr.Dataset(
        {
            "census": (["county"], census, {"title": "Population of counties, 2010 Census"}),
            "demonstration": (["county"], das, {"title": "Population of counties, demonstration"}),
            "demonstration_origin": (["county", "origin"], origin, {"title": "Population by origin, demonstration"}),
            "demonstration_age": (
                ["county", "sex", "age"],
                ages,
                {"title": "Population by sex and age, demonstration"},
            ),
        },
        coords={
            "county": county,
            "origin": list(_ORIGINS.values()),
            "sex": list(_SEXES.values()),
            "age": list(_AGES),
            "name": ("county", [fields[file.column("county")] for _, fields in file.rows]),
            "state": ("county", [code[:2] for code in county]),
        },
        attrs={
            "source": f"United States Census Bureau, 2010 Census and demonstration data; {file.path.name}",
            "licence": _LICENCE,
        },
    )
    for name in ("demonstration", "demonstration_origin", "demonstration_age"):
        found[name].attrs["postprocessing"] = POST_PROCESSED
    return found


def _check_sum(file: CsvFile, parts: Ints, whole: Ints, what: str) -> None:
    wrong = np.flatnonzero(parts != whole)
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(f"{file.at(file.rows[row][0])}: {what} add up to {parts[row]}, and not to {whole[row]}")


def demonstration_errors(
    census: xr.DataArray, demonstration: xr.DataArray, edges: Sequence[float] = (10_000, 100_000, 1_000_000)
) -> pd.DataFrame:
    """Errors of demonstration counts against those of the census, by size of the unit.

    A DataFrame with a row for each class that has units, from small to large, and one for ``all``. Columns: ``units``; ``exact``, how
    many have no error; ``mean``, the mean error (demonstration less census: bias); ``mean_absolute``; ``root_mean_square``;
    ``largest``, the largest absolute error; ``percent``, the mean absolute error in percent of the mean count; ``total``, the error of
    the sum of all units: 0 where it is kept exactly.

    Parameters
    ----------
    census, demonstration : xarray.DataArray
        Counts of the same units, one dimension, matched by label, as of :func:`read_county_demonstration`.
    edges : sequence of float
        Increasing counts of the census at which a class of sizes ends and the next begins.

    Raises
    ------
    ValueError
        If the tables have not one dimension and the same labels, or the edges do not increase.

    Examples
    --------
    >>> census = xr.DataArray([120, 40_000], coords={"county": ["a", "b"]})
    >>> demonstration = xr.DataArray([126, 39_994], coords={"county": ["a", "b"]})
    >>> demonstration_errors(census, demonstration)[["units", "mean", "total"]].to_dict("index")["all"]
    {'units': 2, 'mean': 0.0, 'total': 0}
    """
    if census.ndim != 1 or census.dims != demonstration.dims:
        raise ValueError(f"both tables must have the same one dimension, got {census.dims} and {demonstration.dims}")
    (dim,) = census.dims
    alone = set(census[dim].values.tolist()) ^ set(demonstration[dim].values.tolist())
    if alone or census.size != demonstration.size:
        raise ValueError(f"both tables must have the same labels of {dim!r}; in one only are {shown(sorted(alone))}")
    limits = np.asarray(edges, dtype=np.float64)
    if limits.ndim != 1 or np.any(np.diff(limits) <= 0):
        raise ValueError(f"edges must increase, got {edges!r}")
    truth = census.values
    error = demonstration.sel({dim: census[dim]}).values - truth
    place = np.searchsorted(limits, truth, side="right")
    ends = ["0", *(f"{edge:,.0f}" for edge in limits)]
    names = [f"{low} to below {high}" for low, high in itertools.pairwise(ends)] + [f"{ends[-1]} and more"]
    rows = {names[i]: _row(truth[place == i], error[place == i]) for i in range(len(names)) if np.any(place == i)}
    return pd.DataFrame.from_dict({**rows, "all": _row(truth, error)}, orient="index")


def _row(truth: np.ndarray, error: np.ndarray) -> dict[str, int | float]:
    size = np.abs(error)
    return {
        "units": int(error.size),
        "exact": int((error == 0).sum()),
        "mean": float(error.mean()),
        "mean_absolute": float(size.mean()),
        "root_mean_square": float(np.sqrt(np.mean(np.square(error.astype(np.float64))))),
        "largest": int(size.max()),
        "percent": 100.0 * float(size.sum()) / float(truth.sum()) if truth.sum() else float("nan"),
        "total": int(error.sum()),
    }
