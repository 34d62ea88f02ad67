"""Draws of independent values, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.noise.arrays import count_of
from bayesdp.noise.base import Floats


def draw_each(fill: Any, rng: _validate.Seed, parameters: Sequence[Floats], size: int | None, *, integer: bool) -> Any:
    """Draws with parameters of one shape (the location first), shape ``(size, *shape)``, or that shape without `size`."""
    # `fill(rng, *parameters, out)` writes draws into `out`, shape (draws, cells), from flat parameters.
    shape = parameters[0].shape
    count = 1 if size is None else count_of(size)
    out = np.empty((count, parameters[0].size), dtype=np.int64 if integer else np.float64)
    cells = [np.ascontiguousarray(array, dtype=np.float64).reshape(-1) for array in parameters]
    fill(_validate.generator_of(rng), *cells, out)
    return out.reshape(shape if size is None else (count, *shape))
