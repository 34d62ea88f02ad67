"""Margins, totals, and the table itself as queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayesdp._validate import shown
from bayesdp.frames import Frame
from bayesdp.queries.query import Query
from bayesdp.queries.sum_part import SumPart, kept_names


class Identity(Query):
    """The table itself, cell by cell.

    Parameters
    ----------
    frame : object
        Anything with labels: DataArray, Dataset, DataFrame, mapping, Frame.

    Examples
    --------
    >>> Identity({"county": ["Alpha", "Beta"]}).names
    ['county=Alpha', 'county=Beta']
    """

    def __init__(self, frame: Any) -> None:
        own = Frame.of(frame)
        super().__init__(own, (SumPart(own, own.dims),))


class Totals(Query):
    """Totals of the cells that share a group label; without one, the grand total.

    Parameters
    ----------
    frame : object
        Anything with labels: DataArray, Dataset, DataFrame, mapping, Frame.
    by : str or list of str, optional
        Group label (a non-dimension coordinate such as ``state``) or dimension; several are crossed.

    Examples
    --------
    >>> counties = {"county": ["IL: Adams", "IL: Cook", "IN: Lake"], "state": ("county", ["IL", "IL", "IN"])}
    >>> Totals(counties, by="state").names
    ['state=IL', 'state=IN']
    >>> int(Totals(counties).apply([1, 2, 3]))
    6
    """

    def __init__(self, frame: Any, by: str | Iterable[str] | None = None) -> None:
        own = Frame.of(frame)
        super().__init__(own, (SumPart(own, () if by is None else kept_names(by, "by")),))


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
