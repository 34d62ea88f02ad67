"""Draws of independent integer noise, cell by cell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayesdp import _validate
from bayesdp.noise._rng import count_of, generator_of
from bayesdp.noise.base import Floats, Ints

__all__ = ["draw_each"]


def draw_each(
    fill: Callable[..., None],
    rng: _validate.Seed,
    location: Floats,
    scale: Floats,
    size: int | None,
) -> Ints:
    """Run a compiled sampler over the cells; without `size` the result has the shape of one answer."""
    count = 1 if size is None else count_of(size)
    out = np.empty((count, location.size), dtype=np.int64)
    cells = [np.ascontiguousarray(array).reshape(-1) for array in (location, scale)]
    fill(generator_of(rng), *cells, out)
    return out.reshape(location.shape if size is None else (count, *location.shape))
