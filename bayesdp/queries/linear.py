"""Any integer linear map of the cells as a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayesdp._validate import integer_array
from bayesdp.frames import Frame
from bayesdp.queries.matrix_part import checked_part
from bayesdp.queries.query import Query

__all__ = ["LinearQuery"]


class LinearQuery(Query):
    """Any integer linear map of the cells.

    Parameters
    ----------
    frame : object
        Anything with labels: DataArray, Dataset, DataFrame, mapping, Frame.
    matrix : array_like or scipy.sparse array, shape (rows, cells)
        Integer coefficients; columns are the cells in C order of the frame.
    names : sequence of str
        One name a row.

    Raises
    ------
    ValueError
        If the shape does not fit the frame or the names, or an entry is not a whole number below 2**53 in absolute value.

    Examples
    --------
    >>> households = {"type": ["owner", "renter", "vacant"]}
    >>> LinearQuery(households, [[1, 1, 0]], ["occupied"]).apply([4, 5, 6])
    array([9])
    """

    def __init__(self, frame: Any, matrix: Any, names: Sequence[str]) -> None:
        own = Frame.of(frame)
        # As coordinates: entries that are stated twice are added up below, where that is checked.
        entries = sp.coo_array(matrix if sp.issparse(matrix) else np.atleast_2d(np.asarray(matrix)))
        if isinstance(names, str):
            raise TypeError("names must be a sequence of strings, one a row")
        if entries.shape != (len(names), own.size):
            raise ValueError(
                f"matrix must have shape ({len(names)}, {own.size}): one row a name, one column a cell; got {entries.shape}"
            )
        values = integer_array(entries.data, "matrix", lambda i: f"entry ({entries.row[i]}, {entries.col[i]})")
        super().__init__(own, (checked_part(own, entries.row, entries.col, values, names),))
