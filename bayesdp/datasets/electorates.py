"""New Zealand's electorates by age and sex, census of 2013: a table that was rounded at random to base 3."""

from __future__ import annotations

import re
from importlib.resources import as_file, files

from bayesdp._validate import choice
from bayesdp.noise import NoiseLaw, RandomRounding
from bayesdp.release import Release
from bayesdp.tables import read_office_csv

__all__ = ["statsnz_age_by_sex"]

_SHEETS = {"general": "Table 1", "Māori": "Table 1a"}


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
        If `electorates` is neither; `bayesdp.tables.read_office_csv` reads.

    Notes
    -----
    Source: Stats NZ, 2013 Census of Population and Dwellings, electorate tables 1 and 1a, as in the data set ``nzcensus2013``; five of
    its columns, nothing else changed. This work is based on/includes Stats NZ's data which are licensed by Stats NZ for reuse under
    the Creative Commons Attribution 4.0 International licence (CC BY 4.0). The text on licence and changes stands beside the data in
    ``statsnz_2013.LICENSE``.

    Examples
    --------
    >>> release = statsnz_age_by_sex()
    >>> [measured.values.size for measured in release.measurements]
    [2304, 1152, 128, 36, 64, 18, 2, 1]
    >>> int(release.measurements[0].labelled.sel(row_header2="Auckland Central", row_header3="0–4 Years", col_header2="Female"))
    1074
    """
    choice(electorates, tuple(_SHEETS), "electorates")
    with as_file(files("bayesdp.datasets").joinpath("statsnz_2013/age_sex_by_electorate.csv")) as path:
        tables = read_office_csv(
            path,
            dims=["row_header2", "row_header3", "col_header2"],
            ignore=["sheet"],
            lines={
                "sheet": _SHEETS[electorates],
                "row_header2": "(?!Area Outside|Total (North|South) Island|Total New Zealand).*",
                "row_header3": "(?!18 Years And Over|Median age).*",
            },
            totals={
                "row_header2": f"Total {electorates} electorates",
                "row_header3": re.compile("Total people, .*"),
                "col_header2": "Total people",
            },
            decimal=".",
        )
    stated = RandomRounding(3) if law is None else law
    return Release.from_published(tables[0].query.frame, [own.measured(stated) for own in tables])
