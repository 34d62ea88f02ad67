"""Tables of pandas as labelled arrays of xarray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import xarray as xr

from bayesdp._validate import shown


def as_data_array(table: pd.DataFrame | pd.Series, argument: str) -> xr.DataArray:
    """A pandas Series (one- or multi-index) or two-way DataFrame as a DataArray; axis names are required."""
    if isinstance(table, pd.DataFrame):
        names: Sequence[Any] = [table.index.name, table.columns.name]
        if any(not isinstance(name, str) for name in names):
            raise ValueError(
                f"{argument} is a DataFrame whose index and columns need names, got {names!r}; "
                "set them with .rename_axis(index='county', columns='education')"
            )
        return xr.DataArray(
            table.to_numpy(), dims=tuple(names), coords={names[0]: list(table.index), names[1]: list(table.columns)}
        )
    if any(not isinstance(name, str) for name in table.index.names):
        raise ValueError(f"{argument} is a Series whose index levels need names, got {list(table.index.names)!r}")
    if table.index.nlevels == 1:
        return xr.DataArray(
            table.to_numpy(), dims=(str(table.index.name),), coords={str(table.index.name): list(table.index)}
        )
    if not table.index.is_unique:
        raise ValueError(f"{argument} has repeated cells: {shown(table.index[table.index.duplicated()].unique())}")
    levels = [list(dict.fromkeys(table.index.get_level_values(i))) for i in range(table.index.nlevels)]
    full = pd.MultiIndex.from_product(levels, names=table.index.names)
    missing = [cell for cell in full if cell not in table.index]
    if len(missing):
        raise ValueError(
            f"{argument} lacks {len(missing)} cells: {shown(missing)}; state them, or mark them as unmeasured"
        )
    shape = tuple(len(level) for level in levels)
    return xr.DataArray(
        table.reindex(full).to_numpy().reshape(shape),
        dims=tuple(str(name) for name in table.index.names),
        coords={str(name): level for name, level in zip(table.index.names, levels, strict=True)},
    )
