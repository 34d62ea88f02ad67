"""How large the noise of a measurement is: closed form where there is one, else by drawing from the law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.noise import NoiseLaw
from bayesdp.queries import SumPart
from bayesdp.release import Measured

type Floats = npt.NDArray[np.float64]

_STEPS = 3_000_000
"""Steps of the noise sampler that a picture is worth: about a second."""
_SWEEPS = 1000
_MOST, _FEWEST = 4000, 20
_LARGEST_DIMENSION = 5000


@dataclass(frozen=True, eq=False)
class NoiseScale:
    """Standard deviation of the noise of each answer.

    Parameters
    ----------
    sd : float array, shape (answers,)
        In counts; NaN where it is not known.
    draws : float array, shape (draws, answers), or None
        Noise that `sd` was computed from; None if there is a closed form.
    exchangeable : bool
        Whether the law and the invariants that it keeps treat all cells alike, so that `sd` pools them.
    """

    sd: Floats
    draws: Floats | None = None
    exchangeable: bool = False

    @property
    def words(self) -> str:
        """Where the numbers come from."""
        if np.isnan(self.sd).all():
            return "no closed form, and no simulation here (a table too large, or noise that depends on confidential numbers)"
        if self.draws is None:
            return "from the closed form of the law"
        pooled = (
            ", pooled over the cells because the law and the invariants treat them alike" if self.exchangeable else ""
        )
        return f"no closed form: from {len(self.draws)} simulated draws of the law{pooled}"


def noise_scale(measured: Measured) -> NoiseScale:
    """Find the standard deviation of the noise of each answer of a measurement, before any answers were held back.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Identity
    >>> cells = Identity({"county": ["Alpha", "Beta"]})
    >>> noise_scale(Measured(cells, [3, 4], DiscreteGaussian(sigma=5.0))).sd
    array([5., 5.])
    """
    law, invariants = measured.law.uncensored, measured.noise_invariants
    shape = measured.query.shape if invariants is None else invariants.frame.shape
    variance = law.variance(shape, invariants)
    if variance is not None:
        exchangeable = invariants is not None and law.isotropic and _are_margins(invariants)
        return NoiseScale(np.sqrt(np.broadcast_to(variance, shape)).reshape(-1), exchangeable=exchangeable)
    dimension = measured.query.rows if invariants is None else invariants.dimension
    if not law.additive or dimension > _LARGEST_DIMENSION:  # within bounds it depends on the confidential values
        return NoiseScale(np.full(measured.query.rows, np.nan))
    sweeps = _SWEEPS if invariants is not None else 1
    size = int(np.clip(_STEPS // (sweeps * max(dimension, 1)), _FEWEST, _MOST))
    # A fixed seed: the law is public, and a report that is written twice shall say the same.
    drawn = (
        law.draw(np.random.default_rng(0), shape, size=size, invariants=invariants).reshape(size, -1).astype(np.float64)
    )
    squares = (drawn**2).mean(axis=0)  # the mean of the noise is zero
    exchangeable = (_are_margins(invariants) if invariants is not None else not _varies(law)) and law.isotropic
    sd = np.sqrt(np.full_like(squares, squares.mean()) if exchangeable else squares)
    return NoiseScale(sd, drawn, exchangeable)


def _varies(law: NoiseLaw) -> bool:
    """Whether independent noise has parameters of its own in some answers."""
    return any(isinstance(value, np.ndarray) for value in law.model_parameters().values())


def _are_margins(invariants: Invariants) -> bool:
    """Whether the invariants are margins: permutations of labels that bring any cell to the place of any other keep these."""
    return all(
        isinstance(part, SumPart) and all(name in part.frame.dims for name in part.keep)
        for part in invariants.query.parts
    )
