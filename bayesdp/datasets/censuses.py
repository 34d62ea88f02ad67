"""Two censuses as their offices published them: tables whose cells and totals were each perturbed, or rounded, on their own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from bayesdp._validate import choice, name_list
from bayesdp.noise import CellKey, NoiseLaw, RandomRounding
from bayesdp.release import Release
from bayesdp.tables import read_office_csv

__all__ = ["statsnz_age_by_sex", "working_population"]

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

    Returns
    -------
    Release
        Of a table with dims ``(code of the smallest areas, sex, age, status)``, shape (23, 2, 13, 4) by default, and larger areas as
        groups. Status: EWFT and EWPT, employed and worked full time and part time; EAFW, employed and away from work; EHW_NS, hours
        not stated. Each of the 210 published numbers of an area of any level is a measurement under `law`, eight tables a level.

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
    chosen = {_CODES[choice(own, tuple(_CODES), "levels")]: own for own in name_list(levels, "levels")}
    begins = (within,) if isinstance(within, str) else name_list(within, "within")
    if not chosen or not begins or not all(own.isdigit() for own in begins):
        raise ValueError(f"levels and within must name one or more, in digits, got {levels!r} and {within!r}")
    with as_file(files("bayesdp.datasets").joinpath("abs_2016")) as extract:
        place = extract if folder is None else Path(folder)
        names = {code: [f"2016Census_W01{part}_AUS_{own}" for part in "AB"] for code, own in chosen.items()}
        parts = {
            code: [path for name in both for path in sorted(place.glob(f"{name}*.csv")) or [place / f"{name}.csv"]]
            for code, both in names.items()
        }
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
    return Release.from_published(tables[0].query.frame, [own.measured(assumed) for own in tables])


def statsnz_age_by_sex(electorates: str = "general", law: NoiseLaw | None = None) -> Release:
    """Residents of New Zealand's electorates by age and sex, census of 2013, as published: rounded at random to base 3.

    Parameters
    ----------
    electorates : {"general", "Māori"}
        Which sheet: residents of the 64 general electorates, or those of Māori descent of the 7 Māori electorates.
    law : NoiseLaw, optional
        Law of a published number given the count; by default the one that the office publishes, `RandomRounding` to base 3: a
        multiple of 3 stays, another count goes to the nearer multiple with probability 2/3.

    Returns
    -------
    Release
        Of a table with dims ``(row_header2, row_header3, col_header2)``, which are electorate, age in groups of five years, and sex;
        shape (64, 18, 2) or (7, 18, 2). Cells, every margin and the grand total were each rounded on their own, and each is a
        measurement: eight tables. Lines of islands, of areas outside of electorates (all without a number), of medians of age and of
        persons of 18 years and over are left out.

    Raises
    ------
    ValueError
        If `electorates` is neither.

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
    return Release.from_published(tables[0].query.frame, [own.measured(law or RandomRounding(3)) for own in tables])
