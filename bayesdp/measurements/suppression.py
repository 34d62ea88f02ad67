"""True counts that were held back because they were small, or published as "so many or more": bounds, and what is assumed.

Published answers of which some are missing: matched by label, whatever they come in.

Noisy answers that are published only where they reach a threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr

from bayesdp._arrays import Floats, Mask
from bayesdp._validate import boolean, choice, finite_array, positive_integer, shown
from bayesdp.frames import Frame, as_data_array
from bayesdp.measurements.parts import Exact, Measured, answers_stated, places_of
from bayesdp.noise.base import NoiseLaw
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.noise.perturbed.cell_key import censored_counts
from bayesdp.noise.perturbed.censored import Censored
from bayesdp.queries import LinearQuery, Query
from bayesdp.queries.query import checked_query


def published_answers(query: Query, published: Any) -> tuple[Floats, Mask]:
    """The numbers that were published, in the order of the query, 0 where there are none, and where there are some.

    `published` has labels (of several dimensions, tuples) or names of answers, of which some may be missing, or the query's shape.
    """
    checked_query(query)
    if isinstance(published, np.ma.MaskedArray):
        published = np.ma.filled(published.astype(np.float64, copy=False), np.nan)
    if isinstance(published, pd.DataFrame):
        published = as_data_array(published, "published")
    if isinstance(published, xr.DataArray | pd.Series | Mapping):
        rows = _labelled_rows(query, published)
        positions = places_of(query, [key for key, _ in rows], "published")
    else:
        if query.answer_frame is None and published is None:
            published = np.nan
        given = np.array(query.align(published, "published"), dtype=object).reshape(-1)
        rows, positions = [(None, number) for number in given.tolist()], list(range(query.rows))
    values = np.zeros(query.rows)
    there: Mask = np.zeros(query.rows, dtype=np.bool_)
    for position, (_, number) in zip(positions, rows, strict=True):
        if number is None or number is pd.NA or (isinstance(number, float) and np.isnan(number)):
            continue
        if isinstance(number, bool | np.bool_ | str | bytes | complex):
            raise TypeError(f"published must hold numbers, but {query.answer_name(position)} is {number!r}")
        if there[position]:
            raise ValueError(f"published has {query.answer_name(position)} twice")
        values[position], there[position] = number, True
    numbers = np.asarray(finite_array(values, "published", query.answer_name), dtype=np.float64)
    return numbers.reshape(query.shape), there.reshape(query.shape)


def _labelled_rows(query: Query, published: xr.DataArray | pd.Series | Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Labels or names, and numbers."""
    if isinstance(published, Mapping):
        return list(published.items())
    dims = list(query.dims)
    if isinstance(published, pd.Series):
        names = list(published.index.names)
        if set(names) != set(dims):
            raise ValueError(
                f"published is a Series, whose index levels must have the names {shown(dims)}, got {shown(names)}"
            )
        ordered = published if names == dims else published.reorder_levels([names.index(dim) for dim in dims])
        return list(zip(ordered.index.tolist(), ordered.tolist(), strict=True))
    if set(published.dims) != set(dims):
        raise ValueError(f"published must have the dimensions {shown(dims)}, got {shown(published.dims)}")
    if not dims:
        return [(query.names[0], published.item())]
    array = published.transpose(*dims)
    return list(zip(product(*Frame.of(array).labels), array.values.reshape(-1).tolist(), strict=True))


ASSUMPTIONS = ("primary", "marked", "none")
"""What may be assumed of missing answers: all were small, those that are marked were, or nothing."""


def suppressed(
    query: Query,
    published: Any,
    *,
    below: int,
    positive: bool = True,
    assumption: str | None = None,
    marked: Any = None,
) -> tuple[Exact, ...]:
    """Exact answers of which small ones were suppressed, as exact parts of a release.

    A count that was suppressed because it was small (primary suppression) is known to be under the threshold. One that was
    suppressed so that others cannot be worked out from totals (complementary, or secondary, suppression) says nothing by itself.
    A table often does not tell which is which, and then the analysis rests on an assumption: it has to be named here,
    and is shown with the release and in reports.

    Parameters
    ----------
    query : Query
    published : mapping, pandas.Series, pandas.DataFrame, xarray.DataArray or array_like
        The answers that were published: labels or names with their counts; what is missing, or NaN, was suppressed.
    below : int
        Counts below this are suppressed.
    positive : bool, default True
        Whether zeros are published, so that a suppressed count is at least 1; False if zeros are suppressed too.
    assumption : {"primary", "marked", "none"}
        That all missing answers were suppressed because they were small; that those in `marked` were, and nothing of
        others that are missing; or nothing of any. There is no default.
    marked : boolean array or list, optional
        For "marked": the answers that the publisher marks as suppressed because they are small, as a mask of the query's
        shape, or a list of names or label tuples.

    Returns
    -------
    tuple of Exact
        Published answers, and lower and upper bounds of suppressed ones, for ``Release.from_published(..., exact=...)``.

    Raises
    ------
    TypeError, ValueError
        If no assumption is stated, a published count is one that would have been suppressed, or a marked one was published (it
        is named), or a label is unknown.

    Notes
    -----
    Suppression protects nobody in a sense that could be stated as a privacy loss, and none is stated: bounds and totals may determine
    suppressed counts, see `Fiber.determined_cells`. A release checks that some table has all bounds and totals, and
    otherwise names those that contradict one another.

    Examples
    --------
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": ["Alpha", "Beta", "Gamma"]})
    >>> for part in suppressed(county, {"Alpha": 17}, below=5, assumption="primary"):
    ...     print(part)
    <Exact: county=Alpha = 17>
    <Exact: 2 linear combinations, at least; assumed: every missing answer was suppressed for being from 1 to 4>
    <Exact: 2 linear combinations, at most; assumed: every missing answer was suppressed for being from 1 to 4>
    """
    limit = positive_integer(below, "below")
    least = 1 if boolean(positive, "positive") else 0
    if least > limit - 1:
        raise ValueError(f"below must be at least 2 where zeros are published, or nothing is suppressed, got {limit}")
    if assumption is None:
        raise ValueError(
            'assumption must be stated: "primary" (every missing answer was suppressed because it was small), "marked" (those in '
            'marked were, and the others may protect them), or "none" (missing answers say nothing)'
        )
    choice(assumption, ASSUMPTIONS, "assumption")
    values, there = published_answers(query, published)
    if (marked is None) == (assumption == "marked"):
        raise ValueError(f'marked goes with assumption="marked" and with no other, got assumption={assumption!r}')
    small = ~there if assumption == "primary" else np.zeros(query.shape, dtype=np.bool_)
    if assumption == "marked":
        small = answers_stated(query, marked, "marked")
        _refuse(query, small & there, values, "marked says that {} was suppressed, but it is published as {}")
    why = (
        "published has {} = {}, which would have been suppressed: counts from "
        + f"{least} to {limit - 1} are not published"
    )
    _refuse(query, there & (values >= least) & (values < limit), values, why)
    size, silent = f"{least} to {limit - 1}", int(np.sum(~there & ~small))
    rest = f"; nothing is assumed of {silent} other missing answers" if silent else ""
    told = {
        "primary": f"assumed: every missing answer was suppressed for being from {size}",
        "marked": f"as the publisher marks them, these answers were suppressed for being from {size}{rest}",
        "none": "",
    }[assumption]
    nothing = f"nothing is assumed of {silent} missing answers" if silent and not np.any(small) else None
    parts = [_part(query, there, values, "=", nothing)]
    if least:
        parts.append(_part(query, small, np.full(query.shape, least), ">=", told))
    parts.append(_part(query, small, np.full(query.shape, limit - 1), "<=", told))
    return tuple(part for part in parts if part is not None)


def top_coded(query: Query, published: Any, *, at_least: int, coded: Any) -> tuple[Exact, ...]:
    """Exact answers of which large ones are published as "so many or more", as exact parts of a release.

    Parameters
    ----------
    query : Query
    published : mapping, pandas.Series, pandas.DataFrame, xarray.DataArray or array_like
        The answers that were published as numbers: labels or names with their counts.
    at_least : int
        The number in "100 or more".
    coded : boolean array or list
        The answers that were published so, as a mask of the query's shape, or a list of names or label tuples. Other answers
        that are missing say nothing.

    Returns
    -------
    tuple of Exact
        Published answers, and lower bounds, for ``Release.from_published(..., exact=...)``.

    Raises
    ------
    TypeError, ValueError
        If a published count is one that would have been coded, or a coded one is published as another number (it is named).

    See Also
    --------
    suppressed : with ``positive=False`` for bottom coding, "fewer than 5".

    Examples
    --------
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": ["Alpha", "Beta"]})
    >>> top_coded(county, {"Beta": 17}, at_least=100, coded=["Alpha"])
    (<Exact: county=Beta = 17>, <Exact: county=Alpha >= 100; top-coded: published as 100 or more>)
    """
    limit = positive_integer(at_least, "at_least")
    values, there = published_answers(query, published)
    high = answers_stated(query, coded, "coded")
    _refuse(
        query,
        high & there,
        values,
        f"coded says that {{}} is published as {limit} or more, but it is published as {{}}",
    )
    why = f"published has {{}} = {{}}, but counts of {limit} or more are published as such"
    _refuse(query, there & (values >= limit), values, why)
    told = f"top-coded: published as {limit} or more"
    silent = int(np.sum(~there & ~high))
    nothing = f"nothing is assumed of {silent} missing answers" if silent else None
    parts = (
        _part(query, there, values, "=", nothing),
        _part(query, high, np.full(query.shape, limit), ">=", told),
    )
    return tuple(part for part in parts if part is not None)


def _refuse(query: Query, wrong: Mask, values: Any, why: str) -> None:
    """Raise for the first answer that is wrong, with its name and value."""
    where = np.flatnonzero(wrong)
    if where.size:
        first = int(where[0])
        raise ValueError(why.format(query.answer_name(first), f"{values.reshape(-1)[first]:.17g}"))


def _part(query: Query, which: Mask, values: Any, sign: str, assumption: str | None) -> Exact | None:
    """The exact part of some answers; None for none."""
    rows = np.flatnonzero(which)
    if not rows.size:
        return None
    if rows.size == query.rows:
        return Exact(query, values, sign, assumption)
    names = query.names
    some = LinearQuery(query.frame, sp.csr_array(query.matrix[rows]), [names[int(row)] for row in rows])
    return Exact(some, values.reshape(-1)[rows], sign, assumption)


_WHY = (
    "candidates must say which answers could have been published: True for all answers of the query, a boolean array of its "
    "shape, or a list of names or label tuples. A candidate that is missing was under the threshold, which tells something of "
    "it; of an answer that was no candidate (not asked for, not collected, held back for another reason) nothing is known. "
    "Without the list the two cannot be told apart"
)


def thresholded(
    query: Query,
    published: Any,
    law: NoiseLaw,
    below: Any,
    *,
    candidates: Any = None,
    name: str | None = None,
) -> Measured:
    """Noisy answers of which those under a threshold were left out.

    An answer that could have been published and was not contributes the probability that its noisy value was under the
    threshold. Leaving such answers out of the model instead, as if they were missing at random, makes true counts too
    large: those that are missing are small ones.

    Parameters
    ----------
    query : Query
        What was asked of the confidential table.
    published : mapping, pandas.Series, pandas.DataFrame, xarray.DataArray or array_like
        The answers that were published: labels or names with their numbers; what is missing, or NaN, was not published.
    law : NoiseLaw
        Of the noise, or of the perturbed counts, without the threshold.
    below : float or array_like
        The smallest noisy value that is published, one for all or one for each answer.
    candidates : bool, boolean array or list
        Which answers could have been published: True for all of them, a mask of the query's shape, or a list of names or label
        tuples. It has to be stated. All others are unmeasured: nothing is known of them.
    name : str, optional
        Name of the measurement.

    Returns
    -------
    Measured
        Under the law ``Censored(law, below)``, or, of perturbed counts, `bayesdp.noise.censored_counts`, a table of probabilities. Its
        repr says how many answers are under the threshold and how many unmeasured; `published` is NaN for both.

    Raises
    ------
    TypeError, ValueError
        If candidates are not stated, a published answer is none of them or under the threshold (it is named), a label is unknown, or
        the law is none that can be censored.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Identity
    >>> page = Identity({"country": ["FR", "IS", "NO", "SE"]})
    >>> views = thresholded(page, {"FR": 214, "SE": 96}, DiscreteGaussian(sigma=10.0), 90, candidates=["FR", "NO", "SE"])
    >>> views
    <Measured: 4 answers by country, 1 of them under 90, 1 of them unmeasured, law censored law=(discrete-gaussian sigma=10) below=90>
    >>> views.values
    array([214,   0,  89,  96])
    >>> views.published
    array([214.,  nan,  nan,  96.])
    """
    checked_query(query)
    if candidates is None:
        raise ValueError(_WHY)
    censored: NoiseLaw
    if isinstance(law, PerturbedLaw):
        censored, low = censored_counts(law, below), np.asarray(below, dtype=np.float64)
    else:
        censored = Censored(law, below=below)
        low = np.asarray(censored.below)
    if np.any(np.isinf(low)):
        raise ValueError("below must be the smallest value that is published, a finite number for each answer")
    try:
        low = np.broadcast_to(low, query.shape)
    except ValueError:
        raise ValueError(
            f"below has shape {low.shape}, which does not fit the answers of the query, of shape {query.shape}"
        ) from None
    values, there = published_answers(query, published)
    possible = answers_stated(query, candidates, "candidates")
    flat, limit = values.reshape(-1), low.reshape(-1)
    why = "published has {}, which is not among the candidates, the answers that could have been published"
    _refuse(query, there & ~possible, values, why)
    for where in np.flatnonzero(there.reshape(-1) & (flat < limit)).tolist():
        raise ValueError(
            f"published has {query.answer_name(where)} = {flat[where]:.17g}, which is under the threshold: nothing below "
            f"{limit[where]:.17g} is published. Is the threshold right, and is it one on the noisy value?"
        )
    coded = np.where(there, values, np.where(possible, low - 1.0, np.nan))
    return Measured(query, coded, censored, name=name, unmeasured=np.asarray(~possible))
