"""Wikimedia's differentially private page views: under which law and threshold they were published, files, and measurements."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import printable
from bayesdp._validate import instance, positive_integer, shown
from bayesdp.frames import Frame
from bayesdp.measurements import Measured, thresholded
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import Identity, Query, cell_list
from bayesdp.release import Release


@dataclass(frozen=True)
class WikimediaTerms:
    """The law of the noise, of whole numbers, and the number that a noisy count had to be above to be published.

    Raises
    ------
    TypeError, ValueError
        If the law is none of independent whole numbers, or the threshold is not a positive whole number.

    Examples
    --------
    >>> WIKIMEDIA_TERMS["laplace-30"]
    WikimediaTerms(law=DiscreteLaplace(b=30.0), threshold=450)
    """

    law: NoiseLaw
    threshold: int

    def __post_init__(self) -> None:
        instance(self.law, NoiseLaw, "law must be a noise law such as DiscreteGaussian(sigma=18.26)", quoted=True)
        if not (self.law.integer and self.law.independent):
            raise ValueError(
                f"law must be one of independent whole numbers, got {self.law.name!r}: page views are published whole"
            )
        positive_integer(self.threshold, "threshold")

    @classmethod
    def on(cls, day: dt.date | str, country: str) -> WikimediaTerms:
        """The documented terms of a country, by its code ("AU"), on a day ("2023-02-06").

        Raises
        ------
        ValueError
            If the day is none or before July 2015, or the terms depended on the risk of that country, which is in no file.

        Examples
        --------
        >>> WikimediaTerms.on("2023-02-05", "AU"), WikimediaTerms.on("2023-02-06", "AU").threshold
        (WikimediaTerms(law=DiscreteLaplace(b=30.0), threshold=450), 90)
        """
        when = day if isinstance(day, dt.date) else dt.date.fromisoformat(day)
        return _terms_of(when, country, country, {})


def _gaussian(rho: float) -> DiscreteGaussian:
    """Noise for the first ten views of a device: it changes ten counts by one each, an l2 change of at most sqrt(10)."""
    return DiscreteGaussian(sigma=math.sqrt(10.0 / (2.0 * rho)))


WIKIMEDIA_TERMS: Mapping[str, WikimediaTerms] = {
    "laplace-300": WikimediaTerms(DiscreteLaplace(b=300.0), 3500),
    "laplace-30": WikimediaTerms(DiscreteLaplace(b=30.0), 450),
    "gaussian-lower": WikimediaTerms(_gaussian(0.015), 90),
    "gaussian-medium": WikimediaTerms(_gaussian(6.166e-4), 550),
    "gaussian-higher": WikimediaTerms(_gaussian(1.546e-4), 1000),
}
"""Terms by name: of 2015 to 8 February 2017, of 9 February 2017 to 5 February 2023, and from then on by the risk of the country."""

_FIRST, _SECOND, _THIRD = dt.date(2015, 7, 1), dt.date(2017, 2, 9), dt.date(2023, 2, 6)
_TIERS = dt.date(2024, 2, 15)
_REPAIRED = frozenset(
    dt.date(2023, month, day) for month, day in ((6, 19), (10, 25), (11, 13), (11, 17), (11, 19), (11, 23), (11, 27))
)
_LAST_OF_GAP = dt.date(2023, 9, 19)

_NOT_ALWAYS_LOWER = frozenset(
    "AE AF AZ BD BH BT BY CN CU DJ EG ER ET HK HN IQ IR KH KP KW KZ LA MM MO NI OM PK PS RU RW SA SD SY TJ TM TR UZ VE VN YE".split()
)
"""Countries of medium or higher risk, or protected, in some version of the Country and Territory Protection List from 2024 on."""


def _terms_of(day: dt.date, code: str, country: str, stated: Mapping[str, WikimediaTerms]) -> WikimediaTerms:
    """The terms of a country on a day: those that are stated, else the documented ones."""
    if day < _FIRST:
        raise ValueError(
            f"date must be {_FIRST} or later, from when on Wikimedia publishes noisy page views, got {day}"
        )
    if code in stated:
        return stated[code]
    if day < _SECOND:
        return WIKIMEDIA_TERMS["laplace-300"]
    if day < _THIRD or day in _REPAIRED or (code == "US" and day <= _LAST_OF_GAP):
        return WIKIMEDIA_TERMS["laplace-30"]
    if day >= _TIERS and code in _NOT_ALWAYS_LOWER:
        raise ValueError(
            f"terms of {country!r} ({code}) must be stated: from {_TIERS} on noise and threshold depend on the risk of a country, "
            f"and that of {code} is not, or was not always, the lower one. Look it up in the Country and Territory Protection "
            f"List of that day, and give terms={{{code!r}: 'gaussian-medium'}} or 'gaussian-higher', 'gaussian-lower', or a "
            "WikimediaTerms; or leave the country out"
        )
    return WIKIMEDIA_TERMS["gaussian-lower"]


@dataclass(frozen=True, eq=False)
class WikimediaViews:
    """What one daily file says of some pages of a project: noisy views by country and page, and what is known of missing ones.

    Made by :func:`read_wikimedia`. The confidential table has the dimensions ``country`` and ``page``.

    Attributes
    ----------
    published : xarray.DataArray
        Noisy views, float64, dims ``(country, page)``; NaN where the file has no row.
    terms : tuple of WikimediaTerms
        Law and threshold of each country.
    at_threshold : bool
        Whether some row of these countries is equal to its threshold. The documentation says that rows are above it; a file that
        has such a row shows that equal ones are published too, and then rows below it only are missing.
    """

    published: xr.DataArray
    terms: tuple[WikimediaTerms, ...]
    day: dt.date
    project: str
    at_threshold: bool

    @property
    def frame(self) -> Frame:
        """Labels of the table."""
        return Frame.of(self.published)

    def measured(self) -> tuple[Measured, ...]:
        """The published rows as measurements, one for each law; of rows that are missing nothing is said.

        Rows are there because their noisy number is large: counts that were pushed up by the noise are there more often. With
        a prior that is learned from the table (a hierarchy), leaving out the missing rows makes its rates too large. `censored`
        says what missing rows say.
        """
        return tuple(
            Measured(query, values, terms.law, unmeasured=np.isnan(values))
            for query, values, terms, _ in self._groups()
            if not np.isnan(values).all()
        )

    def censored(self, *, candidates: Any) -> tuple[Measured, ...]:
        """The published rows, and those that were under the threshold, as measurements, one for each law.

        A row is missing for one of two reasons: its noisy number was not above the threshold, or there never was one, because
        the page had 150 views or fewer in the world that day, or the country is protected. The file does not say which.

        Parameters
        ----------
        candidates : True, or boolean array or DataArray with dims (country, page)
            Which rows could have been published. True: all of the table. Missing rows that are candidates contribute the probability
            that their noisy number is not above the threshold; of others nothing is known.

        Raises
        ------
        TypeError, ValueError
            If the candidates are not stated in one of these ways, or a published row is not among them.
        """
        could = self._candidates(candidates)
        found = []
        for query, values, terms, places in self._groups():
            known = could.reshape(-1)[places].reshape(query.shape)
            if known.any():
                below = terms.threshold + (0 if self.at_threshold else 1)
                found.append(thresholded(query, values, terms.law, below, candidates=known))
        return tuple(found)

    def release(self, *, candidates: Any = None) -> Release:
        """A release of the published rows (`measured`), or of the missing ones besides, where candidates are stated (`censored`)."""
        noisy = self.measured() if candidates is None else self.censored(candidates=candidates)
        return Release.from_published(self.frame, noisy)

    def _candidates(self, stated: Any) -> Mask:
        shape = self.published.shape
        if stated is True:
            could = np.ones(shape, dtype=np.bool_)
        elif isinstance(stated, (np.ndarray, xr.DataArray)) and stated.dtype == np.bool_:
            could = np.array(Identity(self.frame).align(stated, "candidates"), dtype=np.bool_)
        else:
            raise TypeError(
                "candidates must be True (every country and page of the table could have been published), or a boolean array or "
                f"DataArray of shape {shape}; got {type(stated).__name__}. A missing row may have been under the threshold, or no "
                "candidate at all, and the file does not say which"
            )
        outside = np.argwhere(~could & ~np.isnan(self.published.values))
        if len(outside):
            country, page = (str(labels[i]) for labels, i in zip(self.frame.labels, outside[0], strict=True))
            raise ValueError(
                f"candidates leaves out {printable(country)}, {printable(page)}, which was published ({len(outside)} in all)"
            )
        return could

    def _groups(self) -> Iterator[tuple[Query, Floats, WikimediaTerms, Ints]]:
        """For each terms: the cells as a query, their published numbers, the terms, and their places in the published table."""
        values, cells = self.published.values, np.arange(self.published.size).reshape(self.published.shape)
        distinct = list(dict.fromkeys(self.terms))
        if len(distinct) == 1:
            yield Identity(self.frame), values, distinct[0], cells.reshape(-1)
            return
        for terms in distinct:
            places = cells[[stated == terms for stated in self.terms]].reshape(-1)
            yield cell_list(self.frame, places), values.reshape(-1)[places], terms, places

    def __repr__(self) -> str:
        there = int(np.isfinite(self.published.values).sum())
        laws = list(dict.fromkeys(f"law {terms.law} above {terms.threshold}" for terms in self.terms))
        told = "; ".join(laws) if len(laws) <= 3 else shown(laws)
        countries, pages = self.published.shape
        return (
            f"<WikimediaViews of {printable(self.project)} on {self.day}: {countries} countries × {pages} pages, {there} of "
            f"{self.published.size} published\n  {told}>"
        )


_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)


def read_wikimedia(
    path: str | os.PathLike[str],
    *,
    project: str,
    pages: Sequence[str] | Sequence[int],
    countries: Sequence[str] | None = None,
    date: dt.date | str | None = None,
    terms: Mapping[str, str | WikimediaTerms] | None = None,
) -> WikimediaViews:
    r"""Read some pages of one day of Wikimedia's differentially private page views, as `WikimediaViews`.

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
    * For the days from 2023 the documentation states both rho = 0.015 and a "noise scale" of 10. The first ten views of a device are
      protected, each changes one count by one: rho = 10 / (2 sigma^2), so that ``sigma = 18.26``, and 10 is the number of views. The
      README's error of 35.7 at 95 % agrees: 1.96 x 18.26 = 35.8. Whoever knows better states `terms`.
    * The rows of medium and higher risk began on 15 February 2024. Their rho and thresholds are as others report them, who read
      the present documentation; which country had which risk on which day is in no file. Countries that were not always of lower
      risk are refused until `terms` says which they had.
    * On seven days of 2023 all rows, and for the United States the rows of 6 February to 19 September 2023, were made later with
      the noise of the historical files (scale 30, above 450). Others found that on some days of that time the rows of the United
      States have the Gaussian noise nevertheless; a row that is not above 450 then shows it, is refused, and `terms` says
      ``{"US": "gaussian-lower"}``.
    * A row is missing if its noisy number was not above the threshold, or if there was none: see `WikimediaViews.censored`.
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

    Raises
    ------
    FileNotFoundError, TypeError, ValueError
        If there is no such file; if a line is not of that form, a row is there twice or not above its threshold, the day is not known,
        or terms have to be stated. The message names the line.

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
    by_title = isinstance(wanted[0], str)
    if by_title and "\t" in project:
        raise ValueError(f"project must be a name such as 'en.wikipedia', got {project!r}")
    target, day = Path(path), _day(path, date)
    asked = None if countries is None else list(_listed(countries, "countries"))
    column = {label: i for i, label in enumerate(wanted)}
    rows: list[tuple[str, str, int, int]] = []  # where it stands, code, place of the page, views
    names, smallest = dict[str, str](), dict[str, int]()
    for where, country, code, of_project, page_id, title, views in _rows_of_day(target):
        names[code] = country
        smallest[code] = min(views, smallest.get(code, views))
        page = title if by_title else page_id
        if of_project == project and page in column and (asked is None or code in asked):
            there = f"{where}: {printable(country)} ({printable(code)}), {printable(title)}"
            rows.append((there, code, column[page], views))
    labels = sorted({code for _, code, _, _ in rows}) if asked is None else asked
    if not labels:
        raise ValueError(
            f"{printable(target)}: no row is about {project!r} and one of the pages {shown(wanted)}; titles have underscores as in "
            "the file. If they were under the threshold everywhere, name the countries"
        )
    stated = _stated(terms, labels)
    per_country = [_terms_of(day, code, names.get(code, code), stated) for code in labels]
    coords = {"country": labels, "page": wanted}
    published = xr.DataArray(np.full((len(labels), len(wanted)), np.nan), coords, ("country", "page"), name="views")
    line = {label: i for i, label in enumerate(labels)}
    for where, code, j, views in rows:
        i = line[code]
        if not np.isnan(published.values[i, j]):
            raise ValueError(f"{where} is there twice; if two pages have one title, ask for their page ids")
        if views < per_country[i].threshold:
            raise ValueError(
                f"{where} has {views} views, but under law {per_country[i].law} rows are published above "
                f"{per_country[i].threshold} only: that country has other terms on this day, give terms={{{code!r}: ...}} with "
                f"one of {shown(WIKIMEDIA_TERMS, 9)}"
            )
        published.values[i, j] = views
    return WikimediaViews(
        published=published,
        terms=tuple(per_country),
        day=day,
        project=project,
        at_threshold=any(smallest.get(code) == its.threshold for code, its in zip(labels, per_country, strict=True)),
    )


def _listed(items: Any, argument: str) -> tuple[Any, ...]:
    """Labels that were asked for: texts or whole numbers, at least one, all of one kind and different."""
    if isinstance(items, (str, bytes)) or not isinstance(items, Sequence):
        raise TypeError(f"{argument} must be a list, got {items!r}")
    listed = tuple(items)
    kinds = (str,) if argument == "countries" else (str, int)
    if not listed or not any(all(isinstance(item, kind) and item is not True for item in listed) for kind in kinds):
        what = "texts" if argument == "countries" else "titles, or of page ids, which are whole numbers"
        raise TypeError(f"{argument} must be a list of {what}, got {shown(listed) or 'none'}")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{argument} must be different, got {shown(listed)}")
    return listed


def _day(path: str | os.PathLike[str], date: Any) -> dt.date:
    """The day that was stated, else the one with which the name of the file begins."""
    if isinstance(date, dt.date):
        return date.date() if isinstance(date, dt.datetime) else date
    instance(date, str | None, "date must be a datetime.date or a text such as '2023-02-06'", quoted=True)
    match = _DAY.match(Path(path).name) if date is None else _DAY.fullmatch(date)
    with suppress(ValueError):
        if match is not None:
            return dt.date(*map(int, match.groups()))
    named = f", as the name of the file does not begin with it: {printable(Path(path).name)}"
    raise ValueError(f"date must be {'stated' + named if date is None else f'a day such as 2023-02-06, got {date!r}'}")


def _stated(terms: Mapping[str, str | WikimediaTerms] | None, labels: Sequence[str]) -> dict[str, WikimediaTerms]:
    """Terms by code, of all `labels` where "*" states them; ValueError if one is of no country that is there."""
    made: dict[str, WikimediaTerms] = {}
    for code, given in dict(terms or {}).items():
        if isinstance(given, str) and given not in WIKIMEDIA_TERMS:
            raise ValueError(
                f"terms of {code!r} must be one of {shown(WIKIMEDIA_TERMS, 9)}, or WikimediaTerms; got {given!r}"
            )
        instance(given, (str, WikimediaTerms), f"terms of {code!r} must be a name or WikimediaTerms")
        made[code] = WIKIMEDIA_TERMS[given] if isinstance(given, str) else given
    others = made.pop("*", None)
    unknown = [code for code in made if code not in labels]
    if unknown:
        raise ValueError(f"terms are stated for {shown(unknown)}, but the countries are {shown(labels)}")
    return made if others is None else dict.fromkeys(labels, others) | made


_LONGEST = 20_000
"""Bytes of a line. A title has at most 255."""


def _count(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ValueError(f"{where}: views must be a whole number of at least 0, got {text[:40]!r}")
    return int(text)


def _rows_of_day(path: Path) -> Iterator[tuple[str, str, str, str, int | None, str, int]]:
    """Line, country, code, project, page id, title and views, row by row, so that a file of any size takes little memory."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    width, names = 0, dict[str, str]()
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), 1):
            where = f"{printable(path)}, line {number}"
            if len(line) == _LONGEST:
                raise ValueError(f"{where}: it is longer than {_LONGEST} bytes")
            try:
                fields = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{where}: it is not text in UTF-8; a compressed file has to be decompressed first"
                ) from error
            if fields == [""]:
                continue
            first, width = not width, width or len(fields)
            if width not in (6, 7):
                raise ValueError(
                    f"{where}: a line must have seven fields between tabs (country, code, project, page id, title, item, views) or "
                    f"six (without item), got {len(fields)}"
                )
            if first and fields[0] == "country":
                continue
            if len(fields) != width:
                raise ValueError(f"{where}: {len(fields)} fields, but the first line has {width}")
            country, code, project, page_id, title = fields[:5]
            if names.setdefault(code, country) != country:
                raise ValueError(
                    f"{where}: the code {code!r} is that of {printable(country)} here and of {printable(names[code])} before"
                )
            page = _count(page_id, where) if page_id else None
            yield where, country, code, project, page, title, _count(fields[-1], where)
    if not width:
        raise ValueError(f"{printable(path)}: the file is empty")
