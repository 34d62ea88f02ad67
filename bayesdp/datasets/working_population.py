"""The Working Population Profile of the Australian census of 2016: tables whose margins are all published and perturbed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from bayesdp._validate import choice, name_list
from bayesdp.noise import CellKey, NoiseLaw
from bayesdp.release import Release
from bayesdp.tables import read_office_csv

__all__ = ["working_population"]

_CODES = {"SA2": "SA2_MAINCODE_2016", "SA3": "SA3_CODE_2016", "SA4": "SA4_CODE_2016", "STE": "STE_CODE_2016"}


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
        Levels of geography that are read, from the smallest areas up. Those after the first are measurements of sums of areas.
    within : str or sequence of str
        Beginnings of the codes that are read: ``"7"`` for the Northern Territory, ``"8"`` for the Australian Capital Territory,
        ``"701"`` for one SA4.
    folder : path, optional
        A folder with files named as in the office's DataPack, ``2016Census_W01A_AUS_SA3.csv``; by default the extract that comes with
        this package: states 7 and 8, without SA2.

    Returns
    -------
    Release
        Of a table with dims ``(code of the smallest areas, sex, age, status)``, shape (23, 2, 13, 4) by default, and larger areas as
        groups. Status: EWFT and EWPT, employed and worked full time and part time; EAFW, employed and away from work; EHW_NS, hours
        not stated. Each of the 210 published numbers of an area of any level is a measurement under `law`, eight tables a level.

    Raises
    ------
    FileNotFoundError
        If the folder lacks a file.
    ValueError
        If no area is within, or a code begins with none of a larger area; see `bayesdp.tables.read_office_csv`, which reads.

    Notes
    -----
    Source: Australian Bureau of Statistics, 2016 Census of Population and Housing, Working Population Profile DataPack, catalogue
    number 2006.0, table W01 (files W01A and W01B), www.abs.gov.au. CC BY 2.5 AU; lines were chosen, nothing else changed. ABS data
    used with permission from the Australian Bureau of Statistics. The text on licence and changes stands beside the data in
    ``abs_2016.LICENSE``.

    Examples
    --------
    >>> release = working_population(levels=["SA3", "STE"], within="7")
    >>> release.dims, len(release.measurements), release.measurements[8].query.names[0]
    (('SA3_CODE_2016', 'sex', 'age', 'status'), 16, 'STE_CODE_2016=7, sex=M, age=15_19, status=EWFT')
    >>> [int(release.measurements[table].values.sum()) for table in (0, 7, 8, 15)]  # cells and total of areas, of the state
    [109666, 109745, 109765, 109756]
    """
    chosen = name_list(levels, "levels")
    begins = (within,) if isinstance(within, str) else name_list(within, "within")
    for level in chosen:
        choice(level, tuple(_CODES), "levels")
    if not chosen or not begins or not all(own.isdigit() for own in begins):
        raise ValueError(
            f"levels must name one or more, and within be beginnings of codes, got {levels!r} and {within!r}"
        )
    with as_file(files("bayesdp.datasets").joinpath("abs_2016")) as extract:
        place = extract if folder is None else Path(folder)
        parts = {_CODES[own]: [place / f"2016Census_W01{part}_AUS_{own}.csv" for part in "AB"] for own in chosen}
        smallest = _CODES[chosen[0]]
        tables = read_office_csv(
            parts.pop(smallest),
            levels=parts,
            layout="wide",
            dims=[smallest],
            header="(?P<sex>[MFP])_(?P<age>.+?)_(?P<status>EWFT|EWPT|EAFW|EHW_NS|Tot)",
            lines={_CODES[own]: f"({'|'.join(begins)}).*" for own in chosen},
            totals={"sex": "P", "age": "Tot", "status": "Tot"},
        )
    assumed = CellKey(max_deviation=3, variance_at_most=9.0, not_smaller_than=3) if law is None else law
    return Release.from_published(tables[0].query.frame, [own.measured(assumed) for own in tables])
