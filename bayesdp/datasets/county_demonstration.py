"""County tables of the 2010 Census as a trial run of the Census Bureau's disclosure avoidance system made them."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp.datasets._columns import POST_PROCESSED, codes, counts
from bayesdp.storage.csv_file import CsvFile, read_csv

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

    **For comparison, and no release.** The numbers of the demonstration are noisy ones that were then made whole, nonnegative
    and consistent (post-processed), so that no noise law describes them. The attribute ``postprocessing`` says so, and
    :class:`bayesdp.Measured` refuses a table that has it.

    Parameters
    ----------
    path : path
        CSV in UTF-8 with a header.

    Returns
    -------
    xarray.Dataset
        Int64 counts of persons: ``census`` and ``demonstration``, dims ``(county,)``; ``demonstration_origin``, dims ``(county,
        origin)``; ``demonstration_age``, dims ``(county, sex, age)``. Counties are labelled by their codes ("06001"), with the
        coordinates ``name`` and ``state`` (code). Of origin, sex and age the file has the demonstration only.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column is missing, a code or a count is none, a county is there twice, or the demonstration does not add up, which it
        does by its making. The message names the line.
    """
    file = read_csv(path)
    county = codes(file, ["state_fips", "county_fips"], [2, 3])
    census, das = counts(file, ["pop2010_census", "pop2010_das"]).T
    origin = counts(file, [f"{name}_das" for name in _ORIGINS])
    sexes = counts(file, ["male_das", "female_das"])
    ages = np.stack(
        [counts(file, [f"{sex}_age{i:02d}_das" for i in range(1, len(_AGES) + 1)]) for sex in _SEXES], axis=1
    )
    _check(file, origin.sum(axis=1), das, "the origins")
    for i, sex in enumerate(_SEXES.values()):
        _check(file, ages[:, i].sum(axis=1), sexes[:, i], f"the ages of {sex}s")
    _check(file, sexes.sum(axis=1), das, "males and females")
    made = {"postprocessing": POST_PROCESSED}
    return xr.Dataset(
        {
            "census": (("county",), census, {"title": "Population of counties, 2010 Census"}),
            "demonstration": (("county",), das, {"title": "Population of counties, demonstration", **made}),
            "demonstration_origin": (
                ("county", "origin"), origin, {"title": "Population by origin, demonstration", **made}
            ),
            "demonstration_age": (
                ("county", "sex", "age"), ages, {"title": "Population by sex and age, demonstration", **made}
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
            "licence": "That of the file: it is the user's own",
        },
    )  # fmt: skip


def _check(file: CsvFile, parts: npt.NDArray[np.int64], whole: npt.NDArray[np.int64], what: str) -> None:
    wrong = np.flatnonzero(parts != whole)
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(f"{file.at(file.rows[row][0])}: {what} add up to {parts[row]}, and not to {whole[row]}")
