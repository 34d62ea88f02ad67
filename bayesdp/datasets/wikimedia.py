"""Reader of Wikimedia's daily files of differentially private page views by country, project and page.

In these files fields stand between tabs; in those of exact views of a day, between blanks.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.datasets.wikimedia_views import WIKIMEDIA_TERMS, WikimediaTerms, WikimediaViews, terms_of

_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)


def read_wikimedia(
    path: str | os.PathLike[str],
    *,
    project: str,
    pages: Sequence[str] | Sequence[int],
    countries: Sequence[str] | None = None,
    date: dt.date | str | None = None,
    terms: Mapping[str, str | WikimediaTerms] | None = None,
    totals: str | os.PathLike[str] | None = None,
    rest: str | None = None,
) -> WikimediaViews:
    r"""Read some pages of one day of Wikimedia's differentially private page views.

    The files are those of ``country_project_page``, ``country_project_page_historical`` and
    ``country_project_page_historical_pre_2017`` at analytics.wikimedia.org/published/datasets, one a day. A line has seven fields
    between tabs and no header: country, its code of two letters, project, page id, page title, Wikidata item and the noisy
    views; files without items have six.

    ==============================  ================================  =========
    Days                            Noise                             Published
    ==============================  ================================  =========
    1 July 2015 - 8 February 2017   Laplace, scale 300 (epsilon 1)    > 3500
    9 February 2017 - 5 Feb. 2023   Laplace, scale 30 (epsilon 1)     > 450
    from 6 February 2023            Gaussian, rho 0.015 (zCDP)        > 90
    ... countries of medium risk    Gaussian, rho 6.166e-4            > 550
    ... countries of higher risk    Gaussian, rho 1.546e-4            > 1000
    ==============================  ================================  =========

    What is documented, and what is not:

    * The numbers are whole, and were made with Tumult Analytics, which adds noise of whole numbers to counts: the laws here are
      `DiscreteLaplace` (which it calls geometric) and `DiscreteGaussian`. The documentation says Laplace and Gaussian.
    * For the days from 2023 the documentation states both rho = 0.015 and a "noise scale" of 10. The first ten views of a
      device are protected, each changes one count by one: noise of standard deviation sigma then has rho = 10 / (2 sigma^2),
      so that rho = 0.015 means ``sigma = 18.26``, and 10 is the number of views. A sigma of 10 would have rho = 0.05. The
      README's error of 35.7 at 95 % agrees: 1.96 x 18.26 = 35.8, where a sigma of 10 has 19.6. So the law here is that of
      sigma = 18.26; whoever knows better states `terms`.
    * The rows of medium and higher risk began on 15 February 2024. Their rho and thresholds are as others report them, who read
      the present documentation; which country had which risk on which day is in no file. Countries that were not always of lower
      risk are refused until `terms` says which they had.
    * On seven days of 2023 all rows, and for the United States the rows of 6 February to 19 September 2023, were made later with
      the noise of the historical files (scale 30, above 450). Others found that on some days of that time the rows of the United
      States have the Gaussian noise nevertheless; a row that is not above 450 then shows it, is refused, and `terms` says
      ``{"US": "gaussian-lower"}``.
    * A row is missing if its noisy number was not above the threshold, or if there was none: pages with 150 views or fewer in the
      world that day, and protected countries, were no candidates. See `WikimediaViews.censored`.
    * What is counted are the first ten different pages of a device a day from 2023, and all views before, which for those days
      protects 30 or 300 views of a day.

    Parameters
    ----------
    path : path
        A daily file, not compressed, in UTF-8.
    project : str
        As in the file: "en.wikipedia".
    pages : sequence of str or of int
        Titles as in the file ("Marie_Curie"), or page ids.
    countries : sequence of str, optional
        Codes ("FR"). By default those that have a row for one of the pages.
    date : datetime.date or str, optional
        The day, which fixes the law; by default that in the name of the file (``2023-02-06.tsv``).
    terms : mapping, optional
        By code, law and threshold of countries where they differ from those of the day: a name of `WIKIMEDIA_TERMS`, or
        `WikimediaTerms`. The key "*" is for all countries that are not named.
    totals : path, optional
        A file with exact views of the same day in all countries, as in the dumps "pageview_complete": fields between blanks, which
        are project, title, page id, access, views of the day and views by hour. Views of several accesses are added up.
    rest : str, optional
        A label for one more country, which stands for all views that the others do not hold: other countries, protected ones, and
        from 2023 on views beyond the first ten of a device. With it the totals are equalities, otherwise upper bounds.

    Returns
    -------
    WikimediaViews

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError, ValueError
        If a line is not of that form, a row is there twice or not above its threshold, the day is not known, a page has no
        total, or terms have to be stated. The message names the line.

    References
    ----------
    Wikimedia Foundation, README of each of the three data sets. Adeleye et al. (2023), Publishing Wikipedia usage data with strong
    privacy guarantees, arXiv:2308.16298.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "2023-03-01.tsv"
    ...     _ = path.write_text("France\tFR\ten.wikipedia\t20408\tMarie_Curie\tQ7186\t126\n")
    ...     views = read_wikimedia(path, project="en.wikipedia", pages=["Marie_Curie"], countries=["FR", "LU"])
    >>> views
    <WikimediaViews of en.wikipedia on 2023-03-01: 2 countries × 1 pages, 1 of 2 published
      law discrete-gaussian sigma=18.2574 above 90>
    """
    wanted = list(_listed(pages, "pages"))
    if isinstance(wanted[0], str) and "\t" in project:
        raise ValueError(f"project must be a name such as 'en.wikipedia', got {project!r}")
    target, day = Path(path), _day(path, date)
    asked = None if countries is None else _listed(countries, "countries")
    rows, codes, found_pages, smallest = _collect(target, project, wanted, asked)
    labels = sorted({row.code for row in rows}) if asked is None else list(asked)
    if not labels:
        raise ValueError(
            f"{printable(target)}: no row is about {project!r} and one of the pages {shown(wanted)}; titles have underscores as in "
            "the file. If they were under the threshold everywhere, name the countries"
        )
    if rest is not None and rest in labels:
        raise ValueError(f"rest must be a label that is no country of the table, got {rest!r}")
    if rest is not None and totals is None:
        raise ValueError("rest needs totals: without them nothing is known of the rest")
    per_country = terms_of(day, {code: codes.get(code, code) for code in labels}, _stated(terms, labels))
    values = np.full((len(labels), len(wanted)), np.nan)
    _fill(values, rows, labels, wanted, per_country, target)
    coords = {"country": labels, "page": wanted}
    could = np.array([code in codes for code in labels])[:, None] & np.array([own in found_pages for own in wanted])
    return WikimediaViews(
        published=xr.DataArray(values, coords=coords, dims=("country", "page"), name="views"),
        terms=tuple(per_country),
        day=day,
        project=project,
        could_be=xr.DataArray(could, coords=coords, dims=("country", "page"), name="could_be"),
        at_threshold=any(smallest.get(code) == own.threshold for code, own in zip(labels, per_country, strict=True)),
        totals=None if totals is None else page_totals(Path(totals), project, wanted),
        rest=rest,
    )


def _listed(items: Any, argument: str) -> tuple[Any, ...]:
    """Labels that were asked for: texts or whole numbers, at least one, all of one kind and different."""
    if isinstance(items, (str, bytes)) or not isinstance(items, Sequence):
        raise TypeError(f"{argument} must be a list, got {items!r}")
    listed = tuple(items)
    kinds = (str,) if argument == "countries" else (str, int)
    if not listed or not any(all(isinstance(own, kind) and own is not True for own in listed) for kind in kinds):
        what = "texts" if argument == "countries" else "titles, or of page ids, which are whole numbers"
        raise TypeError(f"{argument} must be a list of {what}, got {shown(listed) or 'none'}")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{argument} must be different, got {shown(listed)}")
    return listed


def _day(path: str | os.PathLike[str], date: dt.date | str | None) -> dt.date:
    name = Path(path).name if date is None else date
    if isinstance(name, dt.date):
        return name.date() if isinstance(name, dt.datetime) else name
    if not isinstance(name, str):
        raise TypeError(f"date must be a datetime.date or a text such as '2023-02-06', got {date!r}")
    match = _DAY.match(name) if date is None else _DAY.fullmatch(name)
    if match is not None:
        try:
            return dt.date(*(int(own) for own in match.groups()))
        except ValueError:
            match = None
    if date is None:
        raise ValueError(
            f"date must be stated, as the name of the file does not begin with it (2023-02-06.tsv): {printable(name)}"
        )
    raise ValueError(f"date must be a day such as '2023-02-06', got {name!r}")


def _stated(terms: Mapping[str, str | WikimediaTerms] | None, labels: Sequence[str]) -> dict[str, WikimediaTerms]:
    made: dict[str, WikimediaTerms] = {}
    for code, own in {} if terms is None else dict(terms).items():
        if isinstance(own, str) and own not in WIKIMEDIA_TERMS:
            raise ValueError(
                f"terms of {code!r} must be one of {shown(WIKIMEDIA_TERMS, 9)}, or WikimediaTerms; got {own!r}"
            )
        if not isinstance(own, (str, WikimediaTerms)):
            raise TypeError(f"terms of {code!r} must be a name or WikimediaTerms, got {type(own).__name__}")
        made[code] = WIKIMEDIA_TERMS[own] if isinstance(own, str) else own
    others = made.pop("*", None)
    return made if others is None else {code: made.get(code, others) for code in dict.fromkeys([*labels, *made])}


def _collect(
    path: Path, project: str, pages: Sequence[Any], countries: Sequence[str] | None
) -> tuple[list[_Row], dict[str, str], set[Any], dict[str, int]]:
    """Rows of the pages and countries; names of all countries by code; pages with a row; each country's smallest number."""
    by_title = isinstance(pages[0], str)
    wanted, inside = set(pages), None if countries is None else set(countries)
    rows, codes, found, smallest = [], dict[str, str](), set[Any](), dict[str, int]()
    for row in _rows_of_day(path):
        codes.setdefault(row.code, row.country)
        smallest[row.code] = min(row.views, smallest.get(row.code, row.views))
        page = row.title if by_title else row.page_id
        if row.project == project and page in wanted:
            found.add(page)
            if inside is None or row.code in inside:
                rows.append(row)
    return rows, codes, found, smallest


def _fill(values: Any, rows: list[_Row], labels: Sequence[str], pages: Sequence[Any], terms: Any, path: Path) -> None:
    """Put the rows into the table; ValueError where one is there twice, or not above its threshold."""
    place = {code: i for i, code in enumerate(labels)}
    column = {page: j for j, page in enumerate(pages)}
    for row in rows:
        i, j = place[row.code], column[row.title if isinstance(pages[0], str) else row.page_id]
        where = f"{printable(path)}, line {row.line}: {printable(row.country)} ({printable(row.code)}), {printable(row.title)}"
        if not np.isnan(values[i, j]):
            raise ValueError(f"{where} is there twice; if two pages have one title, ask for their page ids")
        if row.views < terms[i].threshold:
            raise ValueError(
                f"{where} has {row.views} views, but under law {terms[i].law} rows are published above {terms[i].threshold} only: "
                f"that country has other terms on this day, give terms={{{row.code!r}: ...}} with one of {shown(WIKIMEDIA_TERMS, 9)}"
            )
        values[i, j] = row.views


_MOST_DIGITS = 15
_LONGEST = 20_000
"""Characters of a line. A title has at most 255 bytes."""


class _Row(NamedTuple):
    """One line of a daily file."""

    line: int
    country: str
    code: str
    project: str
    page_id: int | None
    title: str
    views: int


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not empty; ValueError where they are no text or much too long."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST):
            number += 1
            if len(line) == _LONGEST:
                raise ValueError(f"{printable(path)}, line {number}: it is longer than {_LONGEST} bytes")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{printable(path)}, line {number}: it is not text in UTF-8; a compressed file has to be decompressed first"
                ) from error
            if text:
                yield number, text


def _count(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise ValueError(f"{where}: views must be a whole number of at least 0, got {text[:40]!r}")
    return int(text)


def _rows_of_day(path: Path) -> Iterator[_Row]:
    """The rows of a daily file, one after the other, so that a file of any size takes little memory."""
    fields_of_first, names = 0, dict[str, str]()
    for number, text in _lines(path):
        where = f"{printable(path)}, line {number}"
        fields = text.split("\t")
        if not fields_of_first:
            fields_of_first = len(fields)
            if fields_of_first not in (6, 7):
                raise ValueError(
                    f"{where}: a line must have seven fields between tabs (country, code, project, page id, title, item, views) or "
                    f"six (without item), got {len(fields)}"
                )
            if fields[0] == "country":
                continue
        if len(fields) != fields_of_first:
            raise ValueError(f"{where}: {len(fields)} fields, but the first line has {fields_of_first}")
        country, code, project, page_id, title = fields[:5]
        if names.setdefault(code, country) != country:
            raise ValueError(
                f"{where}: the code {code!r} is that of {printable(country)} here and of {printable(names[code])} before"
            )
        page = _count(page_id, where) if page_id else None
        yield _Row(number, country, code, project, page, title, _count(fields[-1], where))
    if not fields_of_first:
        raise ValueError(f"{printable(path)}: the file is empty")


def page_totals(path: Path, project: str, pages: Sequence[Any]) -> xr.DataArray:
    """Exact views of some pages in all countries, summed over accesses; int64, dims `(page,)`."""
    # Lines without a page id have `null` there.
    by_title = isinstance(pages[0], str)
    place = {str(page): j for j, page in enumerate(pages)}
    totals, seen = np.zeros(len(pages), dtype=np.int64), set[tuple[str, ...]]()
    found = np.zeros(len(pages), dtype=np.bool_)
    for number, text in _lines(path):
        where = f"{printable(path)}, line {number}"
        fields = text.split(" ")
        if len(fields) != 6:
            raise ValueError(
                f"{where}: a line must have six fields between blanks (project, title, page id, access, views of the day, views by "
                f"hour), got {len(fields)}"
            )
        page = fields[1] if by_title else fields[2]
        if fields[0] != project or page not in place:
            continue
        key = (page, fields[2], fields[3])
        if key in seen:
            raise ValueError(f"{where}: {printable(page)} by {printable(fields[3])} is there twice")
        seen.add(key)
        totals[place[page]] += _count(fields[4], where)
        found[place[page]] = True
    if not found.all():
        missing = [page for page, there in zip(pages, found, strict=True) if not there]
        raise ValueError(
            f"{printable(path)}: no line is about {project!r} and the pages {shown(missing)}, so that they have no total"
        )
    return xr.DataArray(totals, coords={"page": list(pages)}, dims=("page",), name="totals")
