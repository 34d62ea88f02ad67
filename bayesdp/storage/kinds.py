"""What the values of an HDF5 file may be: numbers and text, and nothing that netCDF does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

_BLOCK = 10_000


def kind_of(kind: h5py.h5t.TypeID, where: str) -> str:
    """The kind of a type: a number, fixed-length text, or text of any length; everything else is refused."""
    family = kind.get_class()
    if family in (h5py.h5t.INTEGER, h5py.h5t.FLOAT) and kind.get_size() <= 8:
        return "number"
    if family == h5py.h5t.ENUM and kind.get_size() == 1:
        return "number"  # how HDF5 writes booleans
    if family == h5py.h5t.STRING:
        return "text" if kind.is_variable_str() else "fixed text"
    raise holds_objects(where)


def holds_objects(where: str) -> ValueError:
    """The error of what is neither numbers nor text."""
    return ValueError(f"{where} holds objects; only numbers and text are read")


def check_characters(dataset: h5py.Dataset) -> None:
    """Check that texts of any length, which are known to fit into memory, are UTF-8."""
    if dataset.ndim != 1:
        blocks: Iterator[Any] = iter([dataset[()]])
    else:
        blocks = (dataset[start : start + _BLOCK] for start in range(0, dataset.size, _BLOCK))
    for block in blocks:
        for text in np.ravel(np.asarray(block, dtype=object)):
            text.decode("utf-8")


def check_written_again(item: Any, name: str, place: str) -> None:
    """Check that an attribute, which is known to fit into memory, can be written to a netCDF file."""
    # `name`: of its attribute, a number or text. `place`: for the message.
    values = np.asarray(item.attrs[name])
    if values.dtype.kind == "b":
        raise ValueError(f"{place} holds truth values, for which netCDF has no type; write 0 and 1")
    try:
        for text in values.reshape(-1).tolist() if values.dtype.kind in "OSU" else []:
            text.decode("utf-8") if isinstance(text, bytes) else text.encode("utf-8")
    except UnicodeError:
        raise ValueError(f"{place} holds text that is not UTF-8") from None
