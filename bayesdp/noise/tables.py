"""Argument checks shared by the laws that respect invariants."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate, lattices
from bayesdp.invariants import Invariants
from bayesdp.noise._rng import count_of, generator_of
from bayesdp.noise.base import Floats, Ints

__all__ = ["draw_on_lattice", "lattice_difference", "needed", "table_difference", "table_location"]


def needed(invariants: Invariants | None, shape: tuple[int, ...] | None, law: str) -> Invariants:
    """Insist on invariants, and on the shape of their table where one is given."""
    if not isinstance(invariants, Invariants):
        raise TypeError(f"the law {law!r} needs invariants (bayesdp.Invariants), got {invariants!r}")
    if shape is not None and tuple(shape) != invariants.frame.shape:
        raise ValueError(f"shape must be that of the table of the invariants, {invariants.frame.shape}, got {shape}")
    return invariants


def _table(values: Any, argument: str, invariants: Invariants) -> Floats | Ints:
    array = _validate.finite_array(values, argument, invariants.frame.cell_name)
    if array.shape != invariants.frame.shape:
        raise ValueError(f"{argument} must have the shape of the table, {invariants.frame.shape}, got {array.shape}")
    return array


def table_location(location: npt.ArrayLike | None, invariants: Invariants) -> Floats | Ints:
    """Accept a table of locations; zeros if None."""
    if location is None:
        return np.zeros(invariants.frame.shape, dtype=np.int64)
    return _table(location, "location", invariants)


def table_difference(values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants) -> Floats:
    """Values minus location, both of the shape of the table."""
    difference = _table(values, "values", invariants) - _table(location, "location", invariants)
    return np.asarray(difference, dtype=np.float64)


def lattice_difference(values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants) -> Ints | None:
    """Values minus location as integers, or None if they are off the lattice (exact integer arithmetic)."""
    difference = table_difference(values, location, invariants)
    whole = np.rint(difference).astype(np.int64)
    return whole if np.array_equal(whole, difference) and invariants.is_null(whole) else None


def draw_on_lattice(
    kind: str,
    scale: float,
    rng: _validate.Seed,
    size: int | None,
    invariants: Invariants,
    location: npt.ArrayLike | None,
) -> Ints:
    """Add lattice noise to a table of integers (zeros if None); without `size`, one table, no extra axis."""
    name = invariants.frame.cell_name
    centre = _validate.integer_array(table_location(location, invariants), "location", name)
    count = 1 if size is None else count_of(size)
    noise: Ints = lattices.sample_noise(invariants, kind, scale, rng=generator_of(rng), size=count)
    return centre + (noise[0] if size is None else noise)
