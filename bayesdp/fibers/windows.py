"""Tabulated log-masses of noisy answers, as the kernel reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.fibers.kernel.state import IMPOSSIBLE

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

_ROUNDING = 1e-9
"""Differences of log-masses that count as none."""


@dataclass(frozen=True, eq=False)
class LogMassWindows:
    """The log-mass of published answers as functions of the true answer, each tabulated in a window.

    The log-mass of answer i, where the true answer is the whole number v, is ``log_mass[start[i] + v - low[i]]`` for
    ``low[i] <= v < low[i] + length[i]``. Below the window it is that at the lower end plus ``below[i] * (low[i] - v)``, and above it
    that at the upper end plus ``above[i] * (v - low[i] - length[i] + 1)``. It is right up to a constant for each answer.

    Parameters
    ----------
    low : int64 array, shape (answers,)
        The first true answer of each window.
    start : int64 array, shape (answers,)
        Where the window begins in `log_mass`; answers may share a part of it.
    length : int64 array, shape (answers,)
        At least 1.
    log_mass : float64 array, shape (n,)
        ``-inf`` for a true answer that cannot be, though not at either end of a window.
    below, above : float64 arrays, shape (answers,)
        At most 0; ``-inf`` where no true answer beyond the window can be.

    Raises
    ------
    ValueError
        If the shapes differ, a window is empty or reaches beyond `log_mass`, is impossible at one of its ends, or grows outwards.
    """

    low: Ints
    start: Ints
    length: Ints
    log_mass: Floats
    below: Floats
    above: Floats

    def __post_init__(self) -> None:
        shapes = {np.shape(part) for part in (self.low, self.start, self.length, self.below, self.above)}
        if len(shapes) > 1 or np.ndim(self.low) != 1:
            raise ValueError(
                f"low, start, length, below and above must have one shape (answers,), got {sorted(shapes)}"
            )
        if not len(self.low):
            return
        if np.min(self.length) < 1 or np.min(self.start) < 0 or np.max(self.start + self.length) > len(self.log_mass):
            raise ValueError(
                f"windows must have a length of at least 1 and lie within log_mass, which has {len(self.log_mass)} entries"
            )
        ends = np.concatenate([self.log_mass[self.start], self.log_mass[self.start + self.length - 1]])
        if not np.isfinite(ends).all() or np.isnan(self.log_mass).any() or np.isposinf(self.log_mass).any():
            raise ValueError("log_mass must be finite at both ends of every window, and finite or -inf between")
        if not (np.all(self.below <= 0.0) and np.all(self.above <= 0.0)):
            raise ValueError("below and above must be at most 0: the log-mass may not grow beyond a window")


@dataclass(frozen=True, eq=False)
class _Piece:
    """One window with its slopes: answers with the same piece are looked at once."""

    log_mass: Floats
    below: float
    above: float

    @property
    def bent(self) -> bool:
        """Whether the log-mass is not concave."""
        if np.isneginf(self.log_mass).any():  # the difference of two of them is not a number
            return True
        rises = np.concatenate([[-self.below], np.diff(self.log_mass), [self.above]])
        return bool(np.any(rises[1:] > rises[:-1] + _ROUNDING))

    @property
    def variance(self) -> float:
        """Of the true answer if all were equally likely before; infinite where the log-mass does not fall on both sides."""
        if self.below == 0.0 or self.above == 0.0:
            return np.inf
        top = float(self.log_mass.max())
        inside = np.exp(self.log_mass - top)
        place = np.arange(len(inside), dtype=np.float64)
        mass, first, second = (float((inside * place**power).sum()) for power in range(3))
        for at, height, slope, sign in (
            (0.0, inside[0], self.below, -1.0),
            (place[-1], inside[-1], self.above, 1.0),
        ):
            # A geometric tail: sum r^k, sum k r^k, sum k^2 r^k.
            r = float(np.exp(slope))
            if r >= 1.0:
                return np.inf
            zeroth, one, two = r / (1 - r), r / (1 - r) ** 2, r * (1 + r) / (1 - r) ** 3
            mass += float(height) * zeroth
            first += float(height) * (at * zeroth + sign * one)
            second += float(height) * (at * at * zeroth + 2 * sign * at * one + two)
        return max(second / mass - (first / mass) ** 2, 0.0)


def _pieces(windows: LogMassWindows) -> tuple[list[_Piece], Ints]:
    """The pieces that differ, and which of them each answer has."""
    if not len(windows.low):
        return [], np.zeros(0, dtype=np.int64)
    keys = np.stack([windows.start.astype(np.float64), windows.length.astype(np.float64), windows.below, windows.above])
    different, which = np.unique(keys, axis=1, return_inverse=True)
    pieces = []
    for start, length, below, above in different.T:
        own = windows.log_mass[int(start) : int(start) + int(length)]
        pieces.append(_Piece(own, float(below), float(above)))
    return pieces, which.reshape(-1)


def bent(windows: LogMassWindows) -> Mask:
    """For each answer, whether its log-mass is not concave."""
    pieces, which = _pieces(windows)
    return np.array([piece.bent for piece in pieces], dtype=np.bool_)[which]


def spread_of_windows(windows: LogMassWindows) -> Floats:
    """For each answer, the standard deviation of what it says of the true one; at least 1e-3, as it is divided by."""
    pieces, which = _pieces(windows)
    return np.maximum(np.sqrt(np.array([piece.variance for piece in pieces])), 1e-3)[which]


def without_infinities(log_mass: Floats) -> Floats:
    """The same with `IMPOSSIBLE` for what cannot be."""
    return np.maximum(log_mass, IMPOSSIBLE)
