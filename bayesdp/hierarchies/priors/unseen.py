"""Centre and spread of effects of cells of which most have no count: moved together with these.

Given the log shapes, or other effects, of cells that are 0 everywhere, which the prior alone places, their centre and spread
hardly move, and the other way round; those of other cells are known too well to be moved along. So the first are moved along,
and the second are not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.priors.slices import FREEDOM, slice_draws

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]


def move_centre(
    effects: Floats,
    away: Callable[[float], float],
    seen: Mask,
    centre: tuple[float, float, float],
    variance: float,
    rng: np.random.Generator,
) -> float:
    """Draw a shift of the centre of normal effects, along with which all effects that are not seen move."""
    # `effects`, shape (n,): log shapes, or what their logarithms scatter around. `away`: of a shift s, to the log likelihood of all
    # effects that are not seen, at the effects plus s. `seen`, shape (n,). `centre`: the centre, and mean and variance of its
    # normal prior. `variance`: of the effects around it.
    (mean, prior_mean, prior_variance), known = centre, effects[seen] - centre[0]
    total = known.sum()
    precision = len(known) / variance + 1.0 / prior_variance

    def log_density(shift: Floats, _: npt.NDArray[np.int64]) -> Floats:
        s = float(shift[0])
        pull = total / variance - (mean - prior_mean) / prior_variance
        return np.asarray([pull * s - 0.5 * precision * s**2 + away(s)])

    return float(slice_draws(log_density, np.zeros(1), np.asarray([2.5 / np.sqrt(precision)]), rng)[0])


def move_spread(
    deviations: Floats,
    away: Callable[[float], float],
    seen: Mask,
    variance: float,
    spread: float,
    rng: np.random.Generator,
) -> float:
    """Draw the logarithm of a factor of the spread of normal effects, by which the deviations of all that are not seen grow."""
    # `deviations`, shape (n,): of the effects from their centres. `away`: of a factor, to the log likelihood of all effects that
    # are not seen, where their deviations are so many times as large. `seen`, shape (n,). `variance`, `spread`: the variance, and
    # the root of its prior mean; it is inverse gamma.
    known = 0.5 * float(np.square(deviations[seen]).sum()) + (FREEDOM - 1.0) * spread**2
    number = int(seen.sum()) + 2.0 * FREEDOM  # the density of the log variance has the power FREEDOM

    def log_density(factor: Floats, _: npt.NDArray[np.int64]) -> Floats:
        r = float(factor[0])
        return np.asarray([-number * r - known / variance * np.exp(-2.0 * r) + away(float(np.exp(r)))])

    return float(slice_draws(log_density, np.zeros(1), np.asarray([2.5 / np.sqrt(2.0 * number)]), rng)[0])


def zeros_away(place: Floats, deviations: Floats, misses: Floats) -> Callable[[float], float]:
    """The log likelihood of shapes whose counts are all 0, as a function of a factor of the deviations of their logarithms."""
    # `place`, `deviations`: logarithms of the shapes are their sums. `misses`: sums of `log(1 - u)` over the leaves, by which a
    # shape is multiplied.

    def away(factor: float) -> float:
        with np.errstate(over="ignore"):
            return float(np.where(misses < 0.0, np.exp(place + deviations * factor) * misses, 0.0).sum())

    return away
