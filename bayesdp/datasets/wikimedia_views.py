"""Noisy page views of Wikimedia: under which law and threshold they were published, and as measurements of one table."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import positive_integer, shown
from bayesdp.frames import Frame
from bayesdp.measurements import Exact, Measured, thresholded
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import Identity, Margins, Query, cell_list
from bayesdp.release import Release

type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class WikimediaTerms:
    """The law of the noise, and the number that a noisy count had to be above to be published.

    Parameters
    ----------
    law : NoiseLaw
        Of whole numbers.
    threshold : int
        Rows are published if their noisy count is above it.

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
        if not isinstance(self.law, NoiseLaw):
            raise TypeError(f"law must be a noise law such as DiscreteGaussian(sigma=18.26), got {self.law!r}")
        if not (self.law.integer and self.law.independent):
            raise ValueError(
                f"law must be one of independent whole numbers, got {self.law.name!r}: page views are published whole"
            )
        positive_integer(self.threshold, "threshold")

    @classmethod
    def on(cls, day: dt.date | str, country: str) -> WikimediaTerms:
        """The documented terms of a country on a day.

        Parameters
        ----------
        day : datetime.date or str
            Such as "2023-02-06".
        country : str
            Its code, such as "AU".

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
        return terms_of(when, {country: country}, {})[0]


def _gaussian(rho: float) -> DiscreteGaussian:
    """Noise for the first ten views of a device: it changes ten counts by one each, an l2 change of at most sqrt(10).

    With rho = 0.015 sigma is 18.26, and 1.96 sigma 35.8: the README's 95 % interval of 35.7. Its "noise scale 10" is no sigma.
    """
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
"""Countries that were of medium or higher risk, or protected altogether, on some version of the Country and Territory Protection
List from 2024 on. Which version held on a day is not in the files, so these are asked for and never guessed."""


def terms_of(day: dt.date, countries: Mapping[str, str], stated: Mapping[str, WikimediaTerms]) -> list[WikimediaTerms]:
    """The terms of some countries (code to name) on a day: those that are stated, else the documented ones."""
    if day < _FIRST:
        raise ValueError(
            f"date must be {_FIRST} or later, from when on Wikimedia publishes noisy page views, got {day}"
        )
    unknown = [code for code in stated if code not in countries]
    if unknown:
        raise ValueError(f"terms are stated for {shown(unknown)}, but the countries are {shown(countries)}")
    return [stated[code] if code in stated else _documented(day, code, name) for code, name in countries.items()]


def _documented(day: dt.date, code: str, name: str) -> WikimediaTerms:
    if day < _SECOND:
        return WIKIMEDIA_TERMS["laplace-300"]
    if day < _THIRD or day in _REPAIRED:
        return WIKIMEDIA_TERMS["laplace-30"]
    if code == "US" and day <= _LAST_OF_GAP:
        return WIKIMEDIA_TERMS["laplace-30"]
    if day >= _TIERS and code in _NOT_ALWAYS_LOWER:
        raise ValueError(
            f"terms of {name!r} ({code}) must be stated: from {_TIERS} on noise and threshold depend on the risk of a country, "
            f"and that of {code} is not, or was not always, the lower one. Look it up in the Country and Territory Protection List of "
            f"that day, and give terms={{{code!r}: 'gaussian-medium'}} or 'gaussian-higher', 'gaussian-lower', or a WikimediaTerms; "
            "or leave the country out"
        )
    return WIKIMEDIA_TERMS["gaussian-lower"]


@dataclass(frozen=True, eq=False)
class WikimediaViews:
    """What one daily file says of some pages of a project: noisy views by country and page, and what is known of missing ones.

    Made by :func:`read_wikimedia`. The confidential table has the dimensions ``country`` and ``page``; where totals were
    read, its last country stands for all views that the rows above do not hold.

    Attributes
    ----------
    published : xarray.DataArray
        Noisy views, float64, dims ``(country, page)``; NaN where the file has no row.
    terms : tuple of WikimediaTerms
        Law and threshold of each country, without the row of the rest.
    day : datetime.date
    project : str
    could_be : xarray.DataArray of bool
        Which rows the file itself shows to have been candidates: the page has a row in some country, and the country a row
        for some page of any project. Others may have been candidates or not.
    at_threshold : bool
        Whether some row of these countries is equal to its threshold. The documentation says that rows are above it; a file that
        has such a row shows that equal ones are published too, and then rows below it only are missing.
    totals : xarray.DataArray or None
        Exact views of each page in all countries, int64, dims ``(page,)``.
    rest : str or None
        The label of the country that stands for the rest.
    """

    published: xr.DataArray
    terms: tuple[WikimediaTerms, ...]
    day: dt.date
    project: str
    could_be: xr.DataArray
    at_threshold: bool
    totals: xr.DataArray | None
    rest: str | None

    @property
    def frame(self) -> Frame:
        """Labels of the table, with the row of the rest where there is one."""
        countries = [*map(str, self.published["country"].values), *([] if self.rest is None else [self.rest])]
        return Frame.of({"country": countries, "page": self.published["page"].values})

    @property
    def law(self) -> Any:
        """The law of the noise, where all countries have one.

        Raises
        ------
        ValueError
            If countries have different terms; see `terms`.
        """
        return self._one.law

    @property
    def threshold(self) -> int:
        """What noisy views have to be above, where all countries have one threshold; ValueError otherwise."""
        return self._one.threshold

    @property
    def _one(self) -> WikimediaTerms:
        if len(set(self.terms)) > 1:
            raise ValueError(
                f"countries have {len(set(self.terms))} different laws and thresholds; see the attribute terms, one entry a country"
            )
        return self.terms[0]

    @property
    def exact(self) -> tuple[Exact, ...]:
        """What is known without noise: the totals of the pages, if they were read; else nothing.

        With a row for the rest, all countries and the rest add up to the total. Without it the countries of the table have
        at most that many views.
        """
        if self.totals is None:
            return ()
        pages = Margins(self.frame, ["page"])
        return (Exact(pages, self.totals.values, "<=" if self.rest is None else "="),)

    def measured(self) -> tuple[Measured, ...]:
        """The published rows as measurements, one for each law; of rows that are missing nothing is said.

        Rows are there because their noisy number is large: counts that were pushed up by the noise are there more often. With
        a prior that is learned from the table (a hierarchy), leaving out the missing rows makes its rates too large. `censored`
        says what missing rows say.

        Returns
        -------
        tuple of Measured
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
        candidates : True, "certain", or boolean array or DataArray with dims (country, page)
            Which rows could have been published. True: all of the table. "certain": those of `could_be`. Missing rows that are
            candidates contribute the probability that their noisy number is not above the threshold; of others nothing is
            known.

        Returns
        -------
        tuple of Measured

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
        """A release of the published rows, the missing ones as far as candidates are stated, and exact totals.

        Parameters
        ----------
        candidates : optional
            As in `censored`; None for `measured`.
        """
        noisy = self.measured() if candidates is None else self.censored(candidates=candidates)
        return Release.from_published(self.frame, noisy, self.exact)

    def _candidates(self, stated: Any) -> Mask:
        shape = self.published.shape
        if stated is True:
            could = np.ones(shape, dtype=np.bool_)
        elif isinstance(stated, str) and stated == "certain":
            could = np.array(self.could_be.values, dtype=np.bool_)
        elif isinstance(stated, (np.ndarray, xr.DataArray)) and stated.dtype == np.bool_:
            labels = {dim: list(self.published[dim].values) for dim in self.published.dims}
            could = np.array(Identity(labels).align(stated, "candidates"), dtype=np.bool_)
        else:
            raise TypeError(
                "candidates must be True (every country and page of the table could have been published), 'certain' (those of "
                f"which the file shows it), or a boolean array or DataArray of shape {shape}; got {type(stated).__name__}. A missing "
                "row may have been under the threshold, or no candidate at all, and the file does not say which"
            )
        outside = np.argwhere(~could & ~np.isnan(self.published.values))
        if len(outside):
            country, page = (
                str(self.published[d].values[i]) for d, i in zip(("country", "page"), outside[0], strict=True)
            )
            raise ValueError(
                f"candidates leaves out {printable(country)}, {printable(page)}, which was published ({len(outside)} in all)"
            )
        return could

    def _groups(self) -> list[tuple[Query, Any, WikimediaTerms, npt.NDArray[np.int64]]]:
        """For each terms: the cells as a query, their published numbers, the terms, and their places in the published table."""
        frame = self.frame
        found: list[tuple[Query, Any, WikimediaTerms, npt.NDArray[np.int64]]] = []
        values, pages = self.published.values, self.published.shape[1]
        distinct = list(dict.fromkeys(self.terms))
        for terms in distinct:
            rows = np.array([i for i, stated in enumerate(self.terms) if stated == terms])
            places = (rows[:, None] * pages + np.arange(pages)).reshape(-1)
            if len(distinct) == 1 and self.rest is None:
                found.append((Identity(frame), values, terms, places))
            else:
                found.append((cell_list(frame, places), values.reshape(-1)[places], terms, places))
        return found

    def __repr__(self) -> str:
        there = int(np.isfinite(self.published.values).sum())
        laws = list(dict.fromkeys(f"law {terms.law} above {terms.threshold}" for terms in self.terms))
        told = "; ".join(laws) if len(laws) <= 3 else shown(laws)
        totals = "" if self.totals is None else f"\n  exact: views of {len(self.totals)} pages in all countries"
        countries, pages = self.published.shape
        return (
            f"<WikimediaViews of {printable(self.project)} on {self.day}: {countries} countries × {pages} pages, {there} of "
            f"{self.published.size} published\n  {told}{totals}>"
        )
