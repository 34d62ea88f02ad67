"""Noisy page views by country and page, as measurements of one confidential table."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.datasets.wikimedia_terms import WikimediaTerms
from bayesdp.frames import Frame
from bayesdp.measurements import Exact, Measured
from bayesdp.queries import Identity, Margins, Query, cell_list
from bayesdp.release import Release

__all__ = ["WikimediaViews"]

type Mask = npt.NDArray[np.bool_]


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
        countries = [str(own) for own in self.published["country"].values]
        return Frame.of(
            {"country": countries + ([] if self.rest is None else [self.rest]), "page": self.published["page"].values}
        )

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
            Measured(query, np.where(np.isnan(values), np.nan, values), terms.law, unmeasured=np.isnan(values))
            for query, values, terms, _ in self._groups(np.ones(self.published.shape, dtype=np.bool_))
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
        thresholded = import_module("bayesdp.noise.perturbed.censored").thresholded
        found = []
        for query, values, terms, places in self._groups(could):
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

    def _groups(self, wanted: Mask) -> list[tuple[Query, Any, WikimediaTerms, npt.NDArray[np.int64]]]:
        """For each terms: the cells as a query, their published numbers, the terms, and their places in the published table."""
        frame = self.frame
        found: list[tuple[Query, Any, WikimediaTerms, npt.NDArray[np.int64]]] = []
        values, pages = self.published.values, self.published.shape[1]
        distinct = list(dict.fromkeys(self.terms))
        for terms in distinct:
            rows = np.array([i for i, own in enumerate(self.terms) if own == terms])
            places = (rows[:, None] * pages + np.arange(pages)).reshape(-1)
            if len(distinct) == 1 and self.rest is None:
                found.append((Identity(frame), values, terms, places))
            else:
                found.append((cell_list(frame, places), values.reshape(-1)[places], terms, places))
        return found

    def __repr__(self) -> str:
        there = int(np.isfinite(self.published.values).sum())
        laws = dict.fromkeys(f"law {own.law} above {own.threshold}" for own in self.terms)
        totals = "" if self.totals is None else f"\n  exact: views of {len(self.totals)} pages in all countries"
        countries, pages = self.published.shape
        return (
            f"<WikimediaViews of {printable(self.project)} on {self.day}: {countries} countries × {pages} pages, {there} of "
            f"{self.published.size} published\n  {shown_laws(laws)}{totals}>"
        )


def shown_laws(laws: Any) -> str:
    """Laws and thresholds in words."""
    listed = list(laws)
    return "; ".join(listed) if len(listed) <= 3 else shown(listed)
