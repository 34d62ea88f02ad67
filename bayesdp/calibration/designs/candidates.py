"""Candidates of a design: mechanisms, several of them together, or a function that releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp.frames import Frame
from bayesdp.mechanisms import Mechanism
from bayesdp.release import Release

type Releases = tuple[Release, ...]
"""What one candidate publishes of one table: at least one release, with independent noise."""

type Function = Callable[[xr.DataArray, np.random.Generator], Any]


@dataclass(frozen=True)
class Candidate:
    """One way to release a table.

    Attributes
    ----------
    name : str
    mechanisms : tuple of Mechanism
        Released one after the other; none where there is a function.
    function : callable, optional
        From a table and a generator to a release, or a sequence of releases.
    """

    name: str
    mechanisms: tuple[Mechanism, ...]
    function: Function | None = None

    def release(self, table: xr.DataArray, rng: np.random.Generator) -> Releases:
        """Release a table, and check what a function gives back.

        Raises
        ------
        TypeError, ValueError
            If a function gives back something else than releases of that table with noise and a guarantee.
        """
        if self.function is None:
            return tuple(own.release(table, rng) for own in self.mechanisms)
        given = self.function(table, rng)
        found = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
        if not found or not all(isinstance(own, Release) for own in found):
            raise TypeError(
                f"candidates[{self.name!r}] must give back a Release, or several, got {type(given).__name__}"
            )
        for own in found:
            if own.about != "counts":
                raise ValueError(
                    f"candidates[{self.name!r}] must release a table of counts, got a release of {own.about}"
                )
            self._check_frame(own.frame, Frame.of(table))
        silent = [own for own in found if own.measurements and own.guarantee is None]
        if silent or not any(own.measurements for own in found):
            why = "states no guarantee" if silent else "has no noise: every answer is exact"
            raise ValueError(
                f"candidates[{self.name!r}] is not private: a release of it {why}, so that no loss can be put beside its intervals"
            )
        return found

    def check(self, frame: Frame) -> None:
        """Check that the mechanisms are about the cells of a frame."""
        for own in self.mechanisms:
            self._check_frame(own.frame, frame)

    def _check_frame(self, own: Frame, frame: Frame) -> None:
        if not own.same_cells(frame):
            raise ValueError(
                f"candidates[{self.name!r}] is about the cells of {_cells(own)}, the others or the table about {_cells(frame)}: all "
                "candidates must be about the same dimensions and labels"
            )


def _cells(frame: Frame) -> str:
    return " × ".join(
        f"{dim} ({', '.join(map(str, own[:3]))}{', ...' if len(own) > 3 else ''})"
        for dim, own in zip(frame.dims, frame.labels, strict=True)
    )


def checked_candidates(candidates: Any) -> list[Candidate]:
    """Check the argument `candidates` of `design`."""
    if not isinstance(candidates, Mapping) or not candidates:
        raise TypeError(f"candidates must be a mapping from names to at least one mechanism, got {candidates!r}")
    found = []
    for name, given in candidates.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"candidates must have names, got {name!r}")
        listed = (given,) if isinstance(given, Mechanism) else given
        if isinstance(listed, Sequence) and listed and all(isinstance(own, Mechanism) for own in listed):
            found.append(Candidate(name, tuple(listed)))
        elif callable(given):
            found.append(Candidate(name, (), given))
        else:
            raise TypeError(
                f"candidates[{name!r}] must be a mechanism for tables, a list of such, or a function of a table and a generator, got "
                f"{type(given).__name__}"
            )
    return found


def labelled(values: npt.NDArray[Any], frame: Frame) -> xr.DataArray:
    """Tables with the labels of a frame; dimensions chain and draw in front where there are two more than those of the frame."""
    lead = ("chain", "draw")[: values.ndim - len(frame.dims)]
    coords = {dim: list(own) for dim, own in zip(frame.dims, frame.labels, strict=True)}
    return xr.DataArray(values, dims=(*lead, *frame.dims), coords=coords)
