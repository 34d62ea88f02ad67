"""What a law says of itself to the rest of the package: its form in the posterior kernel, and what it loses at a difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.fibers.windows import LogMassWindows
from bayesdp.privacy import Difference, gaussian_pairs
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import PureDP

__all__ = ["KernelForm", "LogMassWindows", "LossByLength", "exponential_loss", "normal_loss"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type LossOfLength = Callable[[float, float | None], Loss]


@dataclass(frozen=True)
class KernelForm:
    """The form in which the kernel of the posterior takes a law (`bayesdp.fibers.NoiseTerm`).

    Parameters
    ----------
    kind : {"l1", "l2", "gaussian"}
        ``-rate |r|`` a row, ``-rate ||r||_2`` over all rows, or ``-r^2 / (2 scale^2)`` a row.
    of_scale : bool
        Whether the rate of an l1 or l2 law is one over its parameter, a scale such as b.
    coordinates : callable, optional
        Gives the real combinations of the answers, shape ``(n, *answers)``, in which the law is a product; the answers
        themselves if left out.
    """

    kind: str
    of_scale: bool = False
    coordinates: Callable[[], Floats] | None = None


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


@dataclass(frozen=True)
class LossByLength:
    """In which norm a law hides differences, and the loss at a length.

    Parameters
    ----------
    kinds : tuple of str
        Definitions of privacy (`Guarantee.kind`) in which the loss can be stated.
    norm : {"l1", "l2"}
        Of what a difference between two tables changes in the answers.
    loss : callable
        From a length, and a delta where the definition has one, to a loss as in the rows of a guarantee.
    coordinates : callable, optional
        From answers, shape ``(m, *answers)``, to what the norm is of, shape ``(m, n)``; the answers themselves if left out.
    tight : bool
        Whether the loss at a length is this one, and no less.
    """

    kinds: tuple[str, ...]
    norm: str
    loss: LossOfLength
    coordinates: Callable[[Floats], Floats] | None = None
    tight: bool = True


def exponential_loss(rate: float) -> LossOfLength:
    """Pure privacy of noise whose log-density is ``-rate`` times a norm: ``epsilon = rate * length``."""
    return lambda size, _: PureDP(rate * size)


def normal_loss(sigma: float, *, continuous: bool) -> LossOfLength:
    """What normal noise loses at an l2 length; on integers (`continuous` False) an upper bound."""

    def loss(size: float, delta: float | None) -> Loss:
        apart = Difference("kept", size, size)
        return gaussian_pairs(sigma, [apart], delta=delta, continuous=continuous)[0].loss

    return loss
