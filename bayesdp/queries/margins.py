"""Margins of a table as a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayesdp._validate import shown
from bayesdp.frames import Frame
from bayesdp.queries.query import Query
from bayesdp.queries.sum_part import SumPart, kept_names


class Margins(Query):
    """Margins of a table: for each list of dimensions, the sums over all the others.

    Parameters
    ----------
    frame : object
        Anything with labels: DataArray, Dataset, DataFrame, mapping, Frame.
    *dims : list of str
        The dimensions that each margin keeps. Group labels may stand for their dimension.

    Raises
    ------
    ValueError
        If a name is neither a dimension nor a group label, or no margin is named.

    Examples
    --------
    >>> both = Margins({"county": ["Alpha", "Beta"], "education": ["Low", "High"]}, ["county"], ["education"])
    >>> both.names
    ['county=Alpha', 'county=Beta', 'education=Low', 'education=High']
    """

    def __init__(self, frame: Any, *dims: str | Iterable[str]) -> None:
        own = Frame.of(frame)
        if not dims:
            raise ValueError("Margins needs at least one list of dimensions; for the grand total use Totals(frame)")
        parts = tuple(SumPart(own, kept_names(kept, "dims")) for kept in dims)
        if len(set(parts)) < len(parts):
            raise ValueError(f"the same margin is asked for twice: {shown(part.keep for part in parts)}")
        super().__init__(own, parts)
