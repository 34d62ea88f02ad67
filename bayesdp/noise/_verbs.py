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
