"""What an agent publishes of a distributed release, and whether the pieces of all agents fit together."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

import bayesdp
from bayesdp import _validate
from bayesdp.frames import Frame
from bayesdp.mechanisms.base import Mechanism

_DRAWING = ("numpy", "scipy", "numba")
"""Packages whose other versions may draw other noise from the same seed."""

_ALIKE = {
    "mechanism": "another mechanism, or another order of the labels",
    "round_number": "another round",
    "versions": "other versions of the packages that draw the noise, which may draw other noise from the same seed",
    "check": "other noise: another seed, or hardware that computes otherwise",
}
"""In what the pieces of one release must be alike, and what to tell if they are not."""


@dataclass(frozen=True)
class Piece:
    """What one agent publishes: noisy values of its own cells, and what is needed to see that all agents drew the same noise.

    Plain data, for whatever way it is sent: ``Piece.from_dict(piece.to_dict())``.

    Attributes
    ----------
    cells : tuple of str
        Names of the cells.
    values : tuple of int or float
        Their noisy values.
    round_number : int
        Which release of the agents this belongs to.
    mechanism : str
        SHA-256 digest of the mechanism's description and of the labels.
    versions : str
        Versions of the packages that drew the noise.
    check : str
        SHA-256 code of the whole noise, keyed by the common seed (HMAC). Two agents have the same one just when they
        drew the same noise with the same seed; without the seed it tells nothing.
    """

    cells: tuple[str, ...]
    values: tuple[int | float, ...]
    round_number: int
    mechanism: str
    versions: str
    check: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(self.cells))
        object.__setattr__(self, "values", tuple(self.values))
        texts: list[Any] = [*self.cells, self.mechanism, self.versions, self.check]
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"cells, mechanism, versions and check of a piece must be strings, got {text!r}")
        _validate.nonnegative_integer(self.round_number, "round_number")
        if len(self.cells) != len(self.values) or not self.cells:
            raise ValueError(f"a piece needs one value a cell, got {len(self.values)} for {len(self.cells)} cells")
        for cell, value in zip(self.cells, self.values, strict=True):
            if type(value) not in (int, float):
                raise TypeError(f"the value of {cell} must be an int or a float, got {value!r}")
        _validate.finite_array(np.array(self.values), "values of a piece", self.cells.__getitem__)

    def to_dict(self) -> dict[str, Any]:
        """The piece as plain data (JSON keeps every bit of it)."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**found, "cells": list(self.cells), "values": list(self.values)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Piece:
        """Read what `to_dict` wrote.

        Raises
        ------
        TypeError, ValueError
            If a key is missing or unknown, or a value is not valid.
        """
        names = [item.name for item in fields(cls)]
        if set(description) != set(names):
            raise ValueError(f"a piece has the keys {', '.join(names)}; got {_validate.shown(sorted(description))}")
        return cls(**description)


def own_versions() -> str:
    """The versions that the noise may depend on, as a piece states them."""
    return ", ".join([f"bayesdp {bayesdp.__version__}", *(f"{name} {version(name)}" for name in _DRAWING)])


def mechanism_digest(mechanism: Mechanism) -> str:
    """A digest of the description of a mechanism and of the cells, in order."""
    described = [mechanism.describe(), list(mechanism.frame.dims), [list(own) for own in mechanism.frame.labels]]
    return hashlib.sha256(json.dumps(described, sort_keys=True, allow_nan=False).encode()).hexdigest()


def noise_check(seed: int, round_number: int, digest: str, noise: npt.NDArray[Any]) -> str:
    """A code of the noise that only holders of the seed can make or try out."""
    key = seed.to_bytes((seed.bit_length() + 7) // 8, "little")
    # Little-endian bytes and the kind of number, whatever the machine.
    numbers = noise.astype(noise.dtype.newbyteorder("<"), order="C")
    signed = f"bayesdp distributed noise\n{round_number}\n{digest}\n{numbers.dtype.str}\n".encode()
    return hmac.new(key, signed + numbers.tobytes(), hashlib.sha256).hexdigest()


def check_alike(pieces: list[Piece], mechanism: Mechanism) -> None:
    """Check that the pieces are of this mechanism, and that all agents drew the same noise."""
    expected = {"mechanism": mechanism_digest(mechanism)}
    for name, difference in _ALIKE.items():
        own = expected.get(name) or Counter(getattr(piece, name) for piece in pieces).most_common(1)[0][0]
        odd = [piece for piece in pieces if getattr(piece, name) != own]
        if odd:
            cells = _validate.shown(cell for piece in odd for cell in piece.cells)
            shown = f" ({getattr(odd[0], name)!r}, not {own!r})" if name in ("round_number", "versions") else ""
            raise ValueError(f"pieces do not fit together: those of {cells} were made with {difference}{shown}")


def values_by_cell(pieces: Iterable[Piece], frame: Frame) -> npt.NDArray[Any]:
    """The noisy values of all cells, in the order of the frame, if there is exactly one for each."""
    where = {name: position for position, name in enumerate(frame.cell_names())}
    if len(where) < frame.size:
        raise ValueError("labels of the table must have different names as text, such as not both 1 and '1'")
    listed = [(cell, value) for piece in pieces for cell, value in zip(piece.cells, piece.values, strict=True)]
    counts = Counter(cell for cell, _ in listed)
    for told, names in (
        ("are of cells that the table does not have", [cell for cell in counts if cell not in where]),
        ("hold cells more than once", [cell for cell, times in counts.items() if times > 1]),
        ("lack cells", [cell for cell in where if cell not in counts]),
    ):
        if names:
            raise ValueError(f"pieces {told}: {_validate.shown(names)}")
    values = np.empty(frame.size, dtype=np.result_type(*{type(value) for _, value in listed}))
    for cell, value in listed:
        values[where[cell]] = value
    return values.reshape(frame.shape)
