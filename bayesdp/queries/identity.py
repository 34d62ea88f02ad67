"""The table itself as a query."""

from __future__ import annotations

from typing import Any

from bayesdp.frames import Frame
from bayesdp.queries.query import Query
from bayesdp.queries.sum_part import SumPart


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
