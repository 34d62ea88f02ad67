"""The labels of a table, and nothing else of it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import both_lists, nearest, shown

__all__ = ["Frame", "Label"]

type Label = str | int | float


def as_data_array(table: pd.DataFrame | pd.Series, argument: str) -> xr.DataArray:
    """A pandas Series (one- or multi-index) or two-way DataFrame as a DataArray; axis names are required."""
    if isinstance(table, pd.DataFrame):
        names: list[Any] = [table.index.name, table.columns.name]
        if any(not isinstance(name, str) for name in names):
            raise ValueError(
                f"{argument} is a DataFrame whose index and columns need names, got {names!r}; "
                "set them with .rename_axis(index='county', columns='education')"
            )
        levels = [list(table.index), list(table.columns)]
    else:
        names, levels = list(table.index.names), [list(table.index)]
        if any(not isinstance(name, str) for name in names):
            raise ValueError(f"{argument} is a Series whose index levels need names, got {names!r}")
        if len(names) > 1:
            if not table.index.is_unique:
                repeated = table.index[table.index.duplicated()].unique()
                raise ValueError(f"{argument} has repeated cells: {shown(repeated)}")
            levels = [list(dict.fromkeys(table.index.get_level_values(level))) for level in range(len(names))]
            full = pd.MultiIndex.from_product(levels, names=names)
            if missing := [cell for cell in full if cell not in table.index]:
                raise ValueError(
                    f"{argument} lacks {len(missing)} cells: {shown(missing)}; state them, or mark them as unmeasured"
                )
            table = table.reindex(full)
    values = table.to_numpy().reshape([len(level) for level in levels])
    return xr.DataArray(values, dims=tuple(names), coords=dict(zip(names, levels, strict=True)))


def _label(value: Any, dim: str) -> Label:
    """One label as a plain Python value; only strings and numbers can be written to a file and read back."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeError(
            f"labels of {dim!r} must be strings or numbers, got {value!r} of type {type(value).__name__}; "
            "convert them, for example with .astype(str)"
        )
    return value


def _labels(values: Any, dim: str, *, unique: bool) -> tuple[Label, ...]:
    labels = tuple(_label(value, dim) for value in values)
    if not labels:
        raise ValueError(f"dimension {dim!r} has no labels; a table needs at least one cell")
    if unique and len(set(labels)) < len(labels):
        repeated = [label for label, times in Counter(labels).items() if times > 1]
        raise ValueError(f"labels of {dim!r} must be distinct, but these occur more than once: {shown(repeated)}")
    return labels


@dataclass(frozen=True)
class Frame:
    """The labels of a table: dimensions, the labels along each, and group labels of single dimensions.

    A frame is what queries, mechanisms and releases are built on. Only labels are read; the values of the
    object that it is made from are never looked at, so no query or release can contain a confidential count.
    Labels are published with every release: take them from a public list, not from the confidential file.

    Parameters
    ----------
    dims : tuple of str
        Names of the dimensions, in order.
    labels : tuple of tuple
        The labels along each dimension (strings or numbers), distinct within a dimension.
    groups : tuple of (str, str, tuple)
        Group labels: name, the dimension they belong to, and one label for each label of that dimension.

    Examples
    --------
    >>> frame = Frame.of({"county": ["Alpha", "Beta"], "education": ["Low", "High"]})
    >>> frame.shape, frame.cell_name(2)
    ((2, 2), 'county=Beta, education=Low')
    """

    dims: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]
    groups: tuple[tuple[str, str, tuple[Label, ...]], ...] = ()

    def __post_init__(self) -> None:
        if not self.dims:
            raise ValueError("a frame needs at least one dimension")
        for dim in self.dims:
            if not isinstance(dim, str) or not dim:  # type: ignore[redundant-expr]  # callers may pass anything
                raise TypeError(f"dimension names must be non-empty strings, got {dim!r}")
        for name in (*self.dims, *(group for group, _, _ in self.groups)):
            if "\0" in str(name):
                raise ValueError(
                    f"names of dimensions and groups must not hold the character NUL, got {name!r}: no file can have it"
                )
        if len(set(self.dims)) < len(self.dims):
            raise ValueError(f"dimension names must be distinct, got {shown(self.dims)}")
        if len(self.labels) != len(self.dims):
            raise ValueError(f"labels are needed for each of the {len(self.dims)} dimensions, got {len(self.labels)}")
        cleaned = tuple(_labels(labels, dim, unique=True) for dim, labels in zip(self.dims, self.labels, strict=True))
        object.__setattr__(self, "labels", cleaned)
        groups: list[tuple[str, str, tuple[Label, ...]]] = []
        for name, dim, labels in self.groups:
            if dim not in self.dims:
                raise ValueError(
                    f"group {name!r} belongs to {dim!r}, which is not among the dimensions {shown(self.dims)}"
                )
            if name in self.dims or name in [other for other, _, _ in groups]:
                raise ValueError(f"group name {name!r} is already taken by a dimension or by another group")
            cleaned_group = _labels(labels, name, unique=False)
            expected = len(cleaned[self.dims.index(dim)])
            if len(cleaned_group) != expected:
                raise ValueError(
                    f"group {name!r} needs {expected} labels, one for each of {dim!r}, got {len(cleaned_group)}"
                )
            groups.append((name, dim, cleaned_group))
        object.__setattr__(self, "groups", tuple(groups))

    @classmethod
    def of(cls, source: Any) -> Frame:
        """Read the labels of an xarray object, a pandas object, a mapping or another frame.

        Parameters
        ----------
        source : Frame, xarray.DataArray, xarray.Dataset, pandas.Series, pandas.DataFrame or mapping
            A mapping gives dimension -> labels, and group -> (dimension, labels) for group labels. One-dimensional
            non-dimension coordinates of an xarray object are its groups; a dimension without a coordinate is
            labelled 0, 1, 2, ... as in xarray. A DataFrame is read as a two-way table: its index and its columns
            must have names.

        Returns
        -------
        Frame
        """
        if isinstance(source, Frame):
            return source
        if isinstance(source, (pd.DataFrame, pd.Series)):
            source = as_data_array(source, "frame")
        if isinstance(source, (xr.DataArray, xr.Dataset)):
            return cls._of_xarray(source)
        if isinstance(source, Mapping):
            return cls._of_mapping(source)
        raise TypeError(
            "frame must be an xarray object, a pandas object, a mapping dimension -> labels or a Frame, "
            f"got {type(source).__name__}"
        )

    @classmethod
    def _of_xarray(cls, source: xr.DataArray | xr.Dataset) -> Frame:
        dims = tuple(str(dim) for dim in (source.dims if isinstance(source, xr.DataArray) else source.sizes))
        labels = tuple(
            tuple(source.coords[dim].values) if dim in source.coords else tuple(range(source.sizes[dim]))
            for dim in dims
        )
        groups = tuple(
            (str(name), str(coord.dims[0]), tuple(coord.values))
            for name, coord in source.coords.items()
            if name not in dims and coord.ndim == 1
        )
        return cls(dims, labels, groups)

    @classmethod
    def _of_mapping(cls, source: Mapping[Hashable, Any]) -> Frame:
        def is_group(value: Any) -> bool:
            return (
                isinstance(value, tuple)
                and len(value) == 2
                and isinstance(value[0], str)
                and not isinstance(value[1], str)
                and np.ndim(value[1]) == 1
            )

        for name, value in source.items():
            if isinstance(value, str) or np.ndim(value[1] if is_group(value) else value) != 1:
                raise TypeError(f"labels of {name!r} must be a sequence of strings or numbers, got {value!r}")
        dims = tuple(name for name, value in source.items() if not is_group(value))
        return cls(
            dims,  # type: ignore[arg-type]  # checked by __post_init__
            tuple(tuple(source[dim]) for dim in dims),
            tuple((str(name), value[0], tuple(value[1])) for name, value in source.items() if is_group(value)),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of labels along each dimension."""
        return tuple(len(labels) for labels in self.labels)

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def coords(self) -> dict[str, Any]:
        """Coordinates for `xarray` and for ``pm.Model(coords=...)``: dimension -> labels (groups left out)."""
        return {dim: list(labels) for dim, labels in zip(self.dims, self.labels, strict=True)}

    @property
    def xarray_coords(self) -> dict[str, Any]:
        """Coordinates with the group labels, for a DataArray."""
        return {**self.coords, **{name: (dim, list(labels)) for name, dim, labels in self.groups}}

    def group(self, name: str) -> tuple[str, tuple[Label, ...]]:
        """The dimension and the labels of a group."""
        for group, dim, labels in self.groups:
            if group == name:
                return dim, labels
        known = [*self.dims, *(group for group, _, _ in self.groups)]
        raise ValueError(f"{name!r} is neither a dimension nor a group label; those are {nearest(name, known)}")

    def labels_of(self, dim: str) -> tuple[Label, ...]:
        """The labels along one dimension."""
        if dim not in self.dims:
            raise ValueError(f"{dim!r} is not a dimension of the table; its dimensions are {nearest(dim, self.dims)}")
        return self.labels[self.dims.index(dim)]

    def cell_name(self, position: int) -> str:
        """The labels of one cell, given its position in C order, as they may be shown: see `bayesdp._text.printable`."""
        return printable(self.exact_cell_name(position))

    def exact_cell_name(self, position: int) -> str:
        """The labels of one cell, character for character: what names it in arguments and in files."""
        index = np.unravel_index(position, self.shape)
        return ", ".join(f"{dim}={names[int(i)]}" for dim, names, i in zip(self.dims, self.labels, index, strict=True))

    def cell_names(self) -> list[str]:
        """The labels of every cell, in C order, character for character."""
        along = [[f"{dim}={label}" for label in labels] for dim, labels in zip(self.dims, self.labels, strict=True)]
        return [", ".join(pieces) for pieces in itertools.product(*along)]

    def same_cells(self, other: Frame) -> bool:
        """Whether two frames label the same cells in the same order (groups may differ)."""
        return self.dims == other.dims and self.labels == other.labels

    def data_array(self, values: npt.NDArray[Any], name: str | None = None) -> xr.DataArray:
        """Values of shape ``(*shape,)`` as a labelled DataArray."""
        return xr.DataArray(
            np.asarray(values).reshape(self.shape), dims=self.dims, coords=self.xarray_coords, name=name
        )

    def align(self, values: Any, argument: str) -> npt.NDArray[Any]:
        """The values of a table in the order of this frame.

        Parameters
        ----------
        values : xarray.DataArray, pandas.Series, pandas.DataFrame or array_like
            Labelled values are matched by label, in whatever order they come; an array without labels must have
            exactly the shape of the frame.
        argument : str
            Name of the argument, for the message.

        Raises
        ------
        ValueError
            If dimensions or labels differ from those of the frame; the message lists them.
        """
        if isinstance(values, (pd.DataFrame, pd.Series)):
            values = as_data_array(values, argument)
        if not isinstance(values, xr.DataArray):
            array = np.asarray(values)
            if array.shape != self.shape:
                raise ValueError(
                    f"{argument} must have shape {self.shape} for dimensions {self.dims}, got {array.shape}"
                )
            return array
        if set(values.dims) != set(self.dims):
            raise ValueError(f"{argument} must have the dimensions {shown(self.dims)}, got {shown(values.dims)}")
        given = Frame.of(values)
        positions = []
        for dim, labels in zip(self.dims, self.labels, strict=True):
            theirs = given.labels_of(dim)
            where = {label: i for i, label in enumerate(theirs)}
            missing = [label for label in labels if label not in where]
            extra = sorted(set(theirs) - set(labels), key=str)
            if missing or extra:
                odd = both_lists(missing=missing, unknown=extra)
                raise ValueError(f"labels of {dim!r} in {argument} do not match the frame ({odd})")
            positions.append([where[label] for label in labels])
        array = values.transpose(*self.dims).values
        if all(np.array_equal(order, np.arange(len(order))) for order in positions):
            return np.asarray(array)
        return np.asarray(array[np.ix_(*positions)])

    def describe(self) -> dict[str, Any]:
        """The frame as plain lists and strings, for a file."""
        return {
            "dims": list(self.dims),
            "labels": [list(labels) for labels in self.labels],
            "groups": [[name, dim, list(labels)] for name, dim, labels in self.groups],
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Frame:
        """Rebuild a frame from `describe`."""
        unknown = set(description) - {"dims", "labels", "groups"}
        if unknown or not {"dims", "labels"} <= set(description):
            raise ValueError(f"a frame description has the keys dims, labels, groups; got {shown(sorted(description))}")
        groups = tuple((name, dim, tuple(labels)) for name, dim, labels in description.get("groups", []))
        return cls(tuple(description["dims"]), tuple(tuple(labels) for labels in description["labels"]), groups)


def _element_labels(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{first}:{other}" for i, first in enumerate(names) for other in names[i:])


def element_frame(names: Sequence[str]) -> Frame:
    """Labels of the elements of a symmetric matrix, by which it is known again: ``a:a``, ``a:b``, ``b:b`` for variables a and b."""
    # The upper triangle, row by row, as one dimension.
    labels = _element_labels(names)
    if len(set(labels)) < len(labels):
        twice = sorted({label for label in labels if labels.count(label) > 1})
        raise ValueError(f"names must give each pair of variables a label of its own, but two pairs are {shown(twice)}")
    return Frame.of({"element": labels})


def variables_of(frame: Frame) -> tuple[str, ...] | None:
    """The variables whose covariances a frame of `element_frame` labels; None for another frame."""
    size = (math.isqrt(8 * frame.size + 1) - 1) // 2
    if frame.dims != ("element",) or size * (size + 1) // 2 != frame.size:
        return None
    # The label of a variance is the name twice, with a colon in the middle; that of row i is at position i (2 size - i + 1) / 2.
    variances = [str(frame.labels[0][i * (2 * size - i + 1) // 2]) for i in range(size)]
    names = tuple(label[: len(label) // 2] for label in variances)
    return names if _element_labels(names) == frame.labels[0] else None
