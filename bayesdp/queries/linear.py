"""Any linear map of the cells as a query: whole coefficients, or whole multiples of a unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from bayesdp._text import printable
from bayesdp._validate import integer_array
from bayesdp.frames import Frame
from bayesdp.queries.matrix_part import checked_part
from bayesdp.queries.query import Query
from bayesdp.queries.units import common_unit, exact_number, positive_unit, whole_multiples


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

    See Also
    --------
    LinearQuery.of_values : real coefficients.

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
        _check_shape(entries.shape, names, own)
        values = integer_array(entries.data, "matrix", lambda i: f"entry ({entries.row[i]}, {entries.col[i]})")
        super().__init__(own, (checked_part(own, entries.row, entries.col, values, names),))

    @classmethod
    def of_values(cls, frame: Any, matrix: Any, names: Sequence[str], unit: Any = None) -> Self:
        """A linear map with real coefficients, which are whole multiples of a unit.

        The answers are counted in that unit: they are whole numbers, so that sums, exact answers and noise on whole numbers stay
        exact, which multiples of 0.1 as floats would not be. So are the sensitivity, the noise and its scale: a mechanism for
        real coefficients ``unit * c`` is that for the whole numbers c, and its loss the same. `in_unit` gives answers as
        the real numbers that they stand for, ``query.unit`` the unit.

        Parameters
        ----------
        frame : object
            Anything with labels, as for `LinearQuery`.
        matrix : array_like or scipy.sparse array, shape (rows, cells)
            Real coefficients, read as the decimals that they print as (0.1 is a tenth), or `fractions.Fraction` or
            `decimal.Decimal`.
        names : sequence of str
            One name a row.
        unit : float, Fraction or Decimal, optional
            What all coefficients are whole multiples of; by default the largest such number.

        Raises
        ------
        TypeError, ValueError
            If the shape does not fit, or an entry is not a finite number, no whole multiple of the unit or 2**53 of it or
            more. The message names the answer and the cell.

        Examples
        --------
        Two sums over persons: income in thousands, and its square.

        >>> income = {"income": [12.5, 30.0, 47.5]}
        >>> query = LinearQuery.of_values(income, [[12.5, 30.0, 47.5], [156.25, 900, 2256.25]], ["sum", "squares"])
        >>> query.unit, query.apply([2, 1, 1])
        (Fraction(5, 4), array([  82, 2775]))
        >>> query.in_unit(query.apply([2, 1, 1]))
        array([ 102.5 , 3468.75])
        """
        own = Frame.of(frame)
        if sp.issparse(matrix):
            entries = sp.coo_array(matrix)
            rows, cells, data = entries.row, entries.col, entries.data
            shape = entries.shape
        else:
            dense = np.asarray(matrix)
            if dense.ndim == 1:
                dense = dense[None]
            shape = dense.shape
            rows, cells = (at.reshape(-1) for at in np.indices(shape)) if dense.ndim == 2 else ([], [])
            data = dense.reshape(-1)
        _check_shape(shape, names, own)
        listed = list(names)

        def place(i: int) -> str:
            return f"the entry of {printable(str(listed[rows[i]]))} and {own.cell_name(int(cells[i]))}"

        # Item by item: a float32 prints as its own shortest decimal, and not as that of the float64 with its value.
        exact = [exact_number(value, place(i)) for i, value in enumerate(data)]
        step = common_unit(exact) if unit is None else positive_unit(unit)
        whole = whole_multiples(exact, step, place, "matrix")
        made = cls.__new__(cls)
        Query.__init__(made, own, (checked_part(own, np.asarray(rows), np.asarray(cells), whole, listed, step),))
        return made


def _check_shape(shape: tuple[int, ...], names: Sequence[str], frame: Frame) -> None:
    if isinstance(names, str):
        raise TypeError("names must be a sequence of strings, one a row")
    if shape != (len(names), frame.size):
        raise ValueError(
            f"matrix must have shape ({len(names)}, {frame.size}): one row a name, one column a cell; got {shape}"
        )
