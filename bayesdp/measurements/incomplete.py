"""Published answers of which some are missing: matched by label, whatever they come in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayesdp._pandas_tables import as_data_array
from bayesdp._validate import finite_array, nearest, shown
from bayesdp.frames import Frame
from bayesdp.measurements.checks import Mask, answers_stated
from bayesdp.queries import Query

type Floats = npt.NDArray[np.float64]


def published_answers(query: Query, published: Any) -> tuple[Floats, Mask]:
    """The numbers that were published, in the order of the query, and where there are some.

    Parameters
    ----------
    query : Query
    published : mapping, pandas.Series, pandas.DataFrame, xarray.DataArray or array_like
        A mapping from labels (of several dimensions, tuples) or names of answers to numbers; a Series with named levels, of which
        rows may be missing; a DataArray, of which labels may be missing; or numbers of the query's shape. NaN, None and
        masked numbers are missing.

    Returns
    -------
    values : float64 array, shape `query.shape`
        0 where nothing was published.
    there : bool array, shape `query.shape`

    Raises
    ------
    TypeError, ValueError
        If a label is no answer of the query, an answer comes twice, or a number is none.

    Examples
    --------
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": ["Alpha", "Beta", "Gamma"]})
    >>> published_answers(county, {"Gamma": 12, "county=Alpha": 95})
    (array([95.,  0., 12.]), array([ True, False,  True]))
    """
    if isinstance(published, np.ma.MaskedArray):
        published = np.where(
            np.ma.getmaskarray(published), np.nan, np.ma.getdata(published).astype(np.float64, copy=False)
        )
    if isinstance(published, pd.DataFrame):
        published = as_data_array(published, "published")
    if isinstance(published, xr.DataArray):
        found = _of_rows(query, _rows_of_array(query, published))
    elif isinstance(published, pd.Series):
        found = _of_rows(query, _rows_of_series(query, published))
    elif isinstance(published, Mapping):
        found = _of_rows(query, list(published.items()))
    else:
        if query.answer_frame is None and published is None:
            published = np.nan
        given = np.array(query.align(published, "published"), dtype=object).reshape(-1)
        found = [(i, number) for i, number in enumerate(given.tolist()) if not _missing(number)]
    values = np.zeros(query.rows)
    there: Mask = np.zeros(query.rows, dtype=np.bool_)
    for position, number in found:
        if isinstance(number, bool | np.bool_ | str | bytes | complex):
            raise TypeError(f"published must hold numbers, but {query.answer_name(position)} is {number!r}")
        if there[position]:
            raise ValueError(f"published has {query.answer_name(position)} twice")
        values[position], there[position] = number, True
    numbers = np.asarray(finite_array(values, "published", query.answer_name), dtype=np.float64)
    return numbers.reshape(query.shape), there.reshape(query.shape)


def chosen(query: Query, stated: Any, argument: str) -> Mask:
    """Answers that a caller states: True for all, a mask of the query's shape, or a list of names or label tuples."""
    if isinstance(stated, bool | np.bool_):
        return np.full(query.shape, bool(stated))
    if not isinstance(stated, list | tuple | set | frozenset | pd.Index):
        return answers_stated(query, stated, argument)
    places, mask = _places(query), np.zeros(query.rows, dtype=np.bool_)
    unknown = [item for item in stated if not isinstance(item, Hashable) or item not in places]
    if unknown:
        raise ValueError(
            f"{argument} has labels that are no answers of the query: {shown(unknown)}; answers are {nearest(unknown[0], query.names)}"
        )
    mask[[places[item] for item in stated]] = True
    return mask.reshape(query.shape)


def _places(query: Query) -> dict[Any, int]:
    """Positions of answers by their names, and by their labels: a tuple, or one alone."""
    frame = query.answer_frame
    places: dict[Any, int] = {}
    for position, name in enumerate(query.names):
        places.setdefault(name, position)
    if frame is not None:
        for position, labels in enumerate(_product(frame)):
            places[labels] = position
            if len(labels) == 1:
                places[labels[0]] = position
    return places


def _of_rows(query: Query, rows: Iterable[tuple[Any, Any]]) -> list[tuple[int, Any]]:
    """Positions of labelled numbers; missing numbers are left out, unknown labels refused."""
    places = _places(query)
    found, unknown = [], []
    for key, number in rows:
        position = places.get(key) if isinstance(key, Hashable) else None
        if position is None:
            unknown.append(key)
        elif not _missing(number):
            found.append((position, number))
    if unknown:
        raise ValueError(
            f"published has labels that are no answers of the query: {shown(unknown)}; answers are {nearest(unknown[0], query.names)}"
        )
    return found


def _product(frame: Frame) -> Iterable[tuple[Any, ...]]:
    return pd.MultiIndex.from_product(frame.labels) if len(frame.dims) > 1 else ((label,) for label in frame.labels[0])


def _rows_of_array(query: Query, array: xr.DataArray) -> list[tuple[Any, Any]]:
    dims = query.dims
    if set(array.dims) != set(dims):
        raise ValueError(f"published must have the dimensions {shown(dims)}, got {shown(array.dims)}")
    if not dims:
        return [(query.names[0], array.item())]
    return list(
        zip(_product(Frame.of(array.transpose(*dims))), array.transpose(*dims).values.reshape(-1).tolist(), strict=True)
    )


def _rows_of_series(query: Query, series: pd.Series) -> list[tuple[Any, Any]]:
    names, dims = list(series.index.names), list(query.dims)
    if set(names) != set(dims):
        raise ValueError(
            f"published is a Series, whose index levels must have the names {shown(dims)}, got {shown(names)}"
        )
    ordered = series if names == dims else series.reorder_levels([names.index(dim) for dim in dims])
    return list(zip(ordered.index.tolist(), ordered.tolist(), strict=True))


def _missing(number: Any) -> bool:
    return number is None or number is pd.NA or (isinstance(number, float) and np.isnan(number))
