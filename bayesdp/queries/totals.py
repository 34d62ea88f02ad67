"""Totals by a group label, or of the whole table, as a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayesdp.frames import Frame
from bayesdp.queries.query import Query
from bayesdp.queries.sum_part import SumPart, kept_names


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
