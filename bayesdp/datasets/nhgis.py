"""Privacy-protected demonstration files of IPUMS NHGIS: two versions of tables of the 2010 Census, side by side."""

from __future__ import annotations

import os

import xarray as xr

from bayesdp._validate import shown
from bayesdp.datasets._columns import POST_PROCESSED, codes, counts
from bayesdp.storage.csv_file import read_csv

_PROTECTED, _SUMMARY = "_dp", "_sf"


def read_nhgis_demonstration(path: str | os.PathLike[str]) -> xr.Dataset:
    r"""Read a privacy-protected demonstration file of NHGIS.

    Such a file has a line for each unit of geography, the columns ``gisjoin``, ``name`` and ``state`` (in small or capital
    letters; name and state may be missing), and for each number of a table of the 2010 Census two columns: ``H72001_dp``, as
    a trial run of the Census Bureau's disclosure avoidance system made it, and ``H72001_sf``, as Summary File 1 has it.

    **For comparison, and no release.** The numbers of the trial run are noisy ones that were then made whole, nonnegative and
    consistent (post-processed), so that no noise law describes them. The attribute ``postprocessing`` says so, and
    :class:`bayesdp.Measured` refuses a table that has it. Those of Summary File 1 were
    published in 2011, themselves protected (households were swapped).

    Parameters
    ----------
    path : path
        CSV in UTF-8 with a header. It is held as text while it is read: cut a file of tracts or blocks to the columns that you
        need.

    Returns
    -------
    xarray.Dataset
        The tables ``demonstration`` and ``census``: int64 counts, dims ``(gisjoin, code)``, with codes of NHGIS such as "H72001"
        (its codebook names them) and, along ``gisjoin``, the coordinates ``name`` and ``state`` of the file as far as they are there.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If there is no column ``gisjoin``, a number has one of its two columns only, a unit is there twice, or a count is
        not a whole number of at least 0. The message names line and column.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "nhgis_ppdd_county.csv"
    ...     text = "gisjoin,name,state,H72001_dp,H72001_sf\nG0100010,Autauga County,01,54563,54571\n"
    ...     _ = path.write_text(text)
    ...     tables = read_nhgis_demonstration(path)
    >>> tables["demonstration"].sel(gisjoin="G0100010", code="H72001").item() - tables["census"].sel(code="H72001").item()
    -8
    """
    file = read_csv(path)
    place = {name.lower(): name for name in file.header}
    if "gisjoin" not in place:
        raise ValueError(f"{file.path}: there is no column 'gisjoin'; columns are {shown(file.header)}")
    found = {end: [name[: -len(end)] for name in file.header if name.endswith(end)] for end in (_PROTECTED, _SUMMARY)}
    protected, summary = found[_PROTECTED], found[_SUMMARY]
    if not protected or set(protected) != set(summary):
        alone = [name for end, other in ((_PROTECTED, summary), (_SUMMARY, protected)) for name in file.header
                 if name.endswith(end) and name[: -len(end)] not in other]  # fmt: skip
        raise ValueError(
            f"{file.path}: every number needs a column that ends in {_PROTECTED} and one that ends in {_SUMMARY}; "
            + (f"alone are {shown(alone)}" if alone else "there is none")
        )
    unit = codes(file, [place["gisjoin"]])
    coords: dict[str, object] = {"gisjoin": unit, "code": protected}
    for name in ("name", "state"):
        if name in place:
            coords[name] = ("gisjoin", [fields[file.column(place[name])] for _, fields in file.rows])
    attrs = {
        "source": f"IPUMS NHGIS, University of Minnesota, www.nhgis.org: {file.path.name}, from the United States Census Bureau",
        "licence": "That of the file: it is the user's own",
    }
    tables = {
        "demonstration": (_PROTECTED, {"postprocessing": POST_PROCESSED, "title": "2010 Census, demonstration data"}),
        "census": (_SUMMARY, {"title": "2010 Census, Summary File 1"}),
    }
    return xr.Dataset(
        {
            name: (("gisjoin", "code"), counts(file, [code + end for code in protected]), {**attrs, **own})
            for name, (end, own) in tables.items()
        },
        coords=coords,
        attrs=attrs,
    )
