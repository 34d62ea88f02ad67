"""True counts that were held back because they were small, or published as "so many or more": bounds, and what is assumed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import boolean, choice, positive_integer
from bayesdp.measurements.checks import Mask
from bayesdp.measurements.exact import Exact
from bayesdp.measurements.incomplete import chosen, published_answers
from bayesdp.queries import LinearQuery, Query

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
    values, there = _counts(query, published)
    if (marked is None) == (assumption == "marked"):
        raise ValueError(f'marked goes with assumption="marked" and with no other, got assumption={assumption!r}')
    small = ~there if assumption == "primary" else np.zeros(query.shape, dtype=np.bool_)
    if assumption == "marked":
        small = chosen(query, marked, "marked")
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
    values, there = _counts(query, published)
    high = chosen(query, coded, "coded")
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


def _counts(query: Query, published: Any) -> tuple[npt.NDArray[np.float64], Mask]:
    """Published answers and where they are; fractions are refused when exact parts are made of them."""
    if not isinstance(query, Query):
        raise TypeError(f"query must be Identity, Margins, Totals or LinearQuery, got {type(query).__name__}")
    return published_answers(query, published)


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
    own = LinearQuery(query.frame, sp.csr_array(query.matrix[rows]), [names[int(row)] for row in rows])
    return Exact(own, values.reshape(-1)[rows], sign, assumption)
