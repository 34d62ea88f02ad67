"""What there is of one part of one chain between two tasks, as bytes: a task gets it and gives back a new one."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.streaming.cells import Kept

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_FAST = 1
"""Level of compression: most counts are small, and most histograms empty."""


def packed_arrays(arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """Arrays by name as compressed bytes: their description as a line of JSON, and their numbers. No pickles, which can run code."""
    given = {name: np.ascontiguousarray(own).reshape(own.shape) for name, own in arrays.items()}
    described = json.dumps([[name, own.dtype.str, own.shape] for name, own in given.items()]).encode()
    return zlib.compress(b"".join([described, b"\n", *(own.tobytes() for own in given.values())]), _FAST)


def unpacked_arrays(packed: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays again, which can be written to."""
    described, _, numbers = zlib.decompress(packed).partition(b"\n")
    arrays, start = {}, 0
    for name, kind, shape in json.loads(described):
        dtype = np.dtype(kind)
        if dtype.kind not in "biuf":
            raise ValueError(f"{name!r} is of type {dtype}")
        size = prod(shape)
        if start + size * dtype.itemsize > len(numbers):
            raise ValueError(f"{name!r} is cut off")
        arrays[name] = np.frombuffer(numbers, dtype, size, start).reshape(shape).copy()
        start += size * dtype.itemsize
    return arrays


@dataclass(eq=False)
class PartState:
    """One part of one chain."""

    counts: Ints  # shape (T, C)
    donor_start: Ints  # with `donor_cell`, `visits`: see `bayesdp.hierarchies.kernel.moves.State`; chosen while tuning
    donor_cell: Ints
    visits: Ints
    ends: Ints  # counts of the cells that can move in the first table, shape (F,)
    # While tuning, means of tables, the later ones with more weight; 0 before the first phase, shape (T, C).
    typical: Floats
    hyper: dict[str, Floats]  # hyperparameters
    kept: dict[str, npt.NDArray[Any]]  # the fields of `Kept` without `where`; empty while tuning

    def packed(self) -> bytes:
        """As bytes."""
        arrays = {own.name: getattr(self, own.name) for own in fields(self) if own.name not in ("hyper", "kept")}
        arrays |= {f"hyper_{name}": np.asarray(own) for name, own in self.hyper.items()}
        arrays |= {f"kept_{name}": own for name, own in self.kept.items()}
        return packed_arrays(arrays)

    @classmethod
    def unpacked(cls, packed: bytes) -> PartState:
        """From bytes."""
        arrays = unpacked_arrays(packed)

        def group(name: str) -> dict[str, npt.NDArray[Any]]:
            return {key.removeprefix(name): arrays.pop(key) for key in list(arrays) if key.startswith(name)}

        hyper, kept = group("hyper_"), group("kept_")
        return cls(**arrays, hyper=hyper, kept=kept)

    def keep(self, kept: Kept) -> None:
        """Take over what is kept of the cells."""
        self.kept = {name: own for name, own in kept._asdict().items() if name != "where"}

    def kept_at(self, where: Ints) -> Kept:
        """What is kept of the cells."""
        return Kept(where=where, **self.kept)
