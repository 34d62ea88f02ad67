"""Published codes as queries of a table that was read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse as sp

from bayesdp._validate import shown
from bayesdp.datasets.nmf.tables import Line, Published, lines_of
from bayesdp.frames import Frame
from bayesdp.queries import LinearQuery

type Mask = npt.NDArray[np.bool_]


def published_codes(*names: str) -> pd.DataFrame:
    """The lines of published tables.

    Parameters
    ----------
    *names : str
        Tables (``"P1"``) or codes (``"P1_003N"``), of one histogram: P1 to P5 of persons, H1 of housing units, P12 of the DHC.

    Returns
    -------
    pandas.DataFrame
        Index ``code``; columns ``label`` and ``depth`` (how far the line is set in).

    Examples
    --------
    >>> published_codes("P1").loc["P1_003N", "label"]
    'White alone'
    """
    _, lines = lines_of(*names)
    index = pd.Index([line.code for line in lines], name="code")
    return pd.DataFrame({"label": [line.label for line in lines], "depth": [line.depth for line in lines]}, index=index)


def code_query(table: Any, *names: str, by: str | None = None) -> LinearQuery:
    """Published codes as one query, so that all of them have one joint posterior.

    Parameters
    ----------
    table : object
        Anything with the labels of a table that `read_nmf` made: its release's frame, or draws without chain and draw.
    *names : str
        Tables (``"P1"``) or codes (``"P1_003N"``, ``"P12_020N"``).
    by : str, optional
        A level of geography, such as ``"tract"``: one answer a geounit and code. By default for all that was read.

    Returns
    -------
    LinearQuery
        Answers are called ``"P1_003N"``, or ``"tract=0501000100..., P1_003N"``.

    Raises
    ------
    ValueError
        If a code is not known, or the cells of the table are coarser than a code needs; the message names it.

    Examples
    --------
    >>> units = {"block": ["a", "b"], "h1": ["vacant", "occupied"]}
    >>> query = code_query(units, "H1")
    >>> query.names, query.apply([[1, 10], [2, 20]]).tolist()
    (['H1_001N', 'H1_002N', 'H1_003N'], [33, 30, 3])
    """
    frame = Frame.of(table)
    published, lines = lines_of(*names)
    masks = _masks(frame, published, lines)
    leaves = frame.shape[0]
    cells = frame.size // leaves
    node, labels = _nodes(frame, by)
    rows, columns = [], []
    for k, mask in enumerate(masks):
        own = np.flatnonzero(mask)
        columns.append((np.arange(leaves)[:, None] * cells + own).reshape(-1))
        rows.append(np.repeat(node * len(lines) + k, len(own)))
    at, cell = np.concatenate(rows), np.concatenate(columns)
    matrix = sp.csr_array((np.ones(len(at), dtype=np.int64), (at, cell)), shape=(len(labels) * len(lines), frame.size))
    return LinearQuery(frame, matrix, [f"{label}{line.code}" for label in labels for line in lines])


def _nodes(frame: Frame, by: str | None) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The node of each leaf, and how the names of its answers start."""
    leaf = frame.dims[0]
    if by is None:
        return np.zeros(frame.shape[0], dtype=np.int64), [""]
    if by == leaf:
        own = frame.labels_of(leaf)
    else:
        dim, own = frame.group(by)
        if dim != leaf:
            raise ValueError(
                f"by must be a level of geography, {leaf!r} or a group of it, got {by!r}, a group of {dim!r}"
            )
    place = {label: i for i, label in enumerate(dict.fromkeys(own))}
    return np.asarray([place[label] for label in own], dtype=np.int64), [f"{by}={label}, " for label in place]


def _masks(frame: Frame, published: Published, lines: tuple[Line, ...]) -> list[Mask]:
    """The cells of a leaf that count in each line, flat."""
    histogram = published.product.histogram
    dims = frame.dims[1:]
    odd = [dim for dim in dims if dim not in histogram.names]
    if odd:
        raise ValueError(
            f"{published.name} is a table of {published.product.name}, with the axes {shown(histogram.names)}, but the dimensions of "
            f"the table are {shown(frame.dims)}"
        )
    cuts = {dim: histogram.axis(dim).of_labels(frame.labels_of(dim)) for dim in dims}
    found = []
    for line in lines:
        whole = np.ones((1,) * len(dims), dtype=np.bool_)
        for name, values in line.selection.items():
            axis = histogram.axis(name)
            cut = cuts.get(name, axis.whole)
            own = np.zeros(len(cut.members), dtype=np.bool_)
            for i, members in enumerate(cut.members):
                inside = values & set(members)
                if inside and len(inside) < len(members):
                    how = f"cut by {cut.name!r}" if name in dims else "not there"
                    raise ValueError(
                        f"{line.code} ({line.label}) is no sum of the cells: the axis {name!r} of the table is {how}; read it with "
                        f"finer cells, such as cells={{{name!r}: 'detailed'}}"
                    )
                own[i] = bool(inside)
            if name in dims:
                whole = whole & own.reshape([-1 if dim == name else 1 for dim in dims])
        found.append(np.broadcast_to(whole, frame.shape[1:]).reshape(-1))
    return found
