"""Draws of independent values, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.noise.base import Floats
from bayesdp.noise.sizes import count_of, generator_of

__all__ = ["draw_each"]


def draw_each(fill: Any, rng: _validate.Seed, parameters: Sequence[Floats], size: int | None, *, integer: bool) -> Any:
    """Run a sampler over the cells; without `size` the result has the shape of one answer.

    Parameters
    ----------
    fill : callable
        ``fill(rng, *parameters, out)`` writes draws into ``out``, shape (draws, cells), from flat parameters.
    rng : int, numpy.random.Generator or None
    parameters : sequence of float64 array, of one shape
        The location first.
    size : int, optional
    integer : bool
        Whether the draws are int64.
    """
    shape = parameters[0].shape
    count = 1 if size is None else count_of(size)
    out = np.empty((count, parameters[0].size), dtype=np.int64 if integer else np.float64)
    cells = [np.ascontiguousarray(array, dtype=np.float64).reshape(-1) for array in parameters]
    fill(generator_of(rng), *cells, out)
    return out.reshape(shape if size is None else (count, *shape))
