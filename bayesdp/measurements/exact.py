"""Exact answers of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import choice, integer_array, no_table
from bayesdp.frames import Frame
from bayesdp.measurements.checks import described, has_negative_entry, on_frame, read_only
from bayesdp.queries import Query

SIGNS = ("=", ">=", "<=")
"""How an exact value may bound its query: the answer is equal to, at least, or at most the value."""

_BOUND = {"=": "", ">=": ", at least", "<=": ", at most"}


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact answers of a query: an invariant and its published values.

    Parameters
    ----------
    query : Query
        What was asked of the confidential table.
    values : xarray.DataArray, pandas object or array_like, shape `query.shape`
        The answers, whole numbers of counts. Labelled values are matched by label.
    sign : {"=", ">=", "<="}
        Whether the true answers are equal to, at least or at most these values.
    assumption : str, optional
        What had to be assumed for this to hold, in a sentence that is shown wherever the answers are: that answers were
        suppressed because they were small, for example.

    Attributes
    ----------
    values : numpy.ndarray of int64
        Read-only, in the order of the query.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If labels do not match, a value is NaN, fractional or too large, or no table of counts can have it
        because the answer is a sum of counts and the value is negative. The message names the answer.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> Exact(Totals({"county": ["Alpha", "Beta"]}), 135)
    <Exact: grand total = 135>
    """

    query: Query
    values: npt.NDArray[np.int64]
    sign: str
    assumption: str | None

    def __init__(self, query: Query, values: Any, sign: str = "=", assumption: str | None = None) -> None:
        if not isinstance(query, Query):
            raise TypeError(f"query must be Identity, Margins, Totals or LinearQuery, got {type(query).__name__}")
        choice(sign, SIGNS, "sign")
        told: Any = assumption  # callers may pass anything
        if told is not None and not (isinstance(told, str) and told.strip()):
            raise TypeError(f"assumption must be a sentence or None, got {assumption!r}")
        array = integer_array(query.align(values, "values"), "values", query.answer_name)
        if sign != ">=":
            flat = array.reshape(-1)
            negative = np.flatnonzero((flat < 0) & ~has_negative_entry(query))
            if negative.size:
                where = int(negative[0])
                stated = f"{query.answer_name(where)} {sign} {flat[where]}"
                raise ValueError(f"{no_table([stated])} (a sum of counts is at least 0)")
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "values", read_only(array))
        object.__setattr__(self, "sign", sign)
        object.__setattr__(self, "assumption", assumption)

    def on_frame(self, frame: Frame) -> Exact:
        """The same exact answers with the group labels of `frame`, which labels the same cells."""
        query = on_frame(self.query, frame)
        return self if query is self.query else Exact(query, self.values, self.sign, self.assumption)

    @property
    def labelled(self) -> xr.DataArray:
        """The published values as a labelled DataArray."""
        if self.query.is_identity:
            return self.query.frame.data_array(self.values, "exact")
        return xr.DataArray(self.values, dims=self.query.dims, coords=self.query.coords, name="exact")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Exact)
            and (self.query, self.sign, self.assumption) == (other.query, other.sign, other.assumption)
            and np.array_equal(self.values, other.values)
        )

    def __hash__(self) -> int:
        return hash((self.query, self.sign, self.values.tobytes()))

    def __repr__(self) -> str:
        assumed = "" if self.assumption is None else f"; {printable(self.assumption)}"
        if self.query.rows > 1:
            return f"<Exact: {described(self.query)}{_BOUND[self.sign]}{assumed}>"
        what = "grand total" if self.query.names == ["total"] else self.query.answer_name(0)
        return f"<Exact: {what} {self.sign} {self.values.item()}{assumed}>"
