"""Mean and variance of a law, given that its value is within thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.noise.bounded.discrete import TruncatedDiscreteGaussian, TruncatedDiscreteLaplace
from bayesdp.noise.bounded.gaussian import TruncatedGaussian
from bayesdp.noise.bounded.truncated_laplace import TruncatedLaplace
from bayesdp.noise.independent.discrete_gaussian import DiscreteGaussian
from bayesdp.noise.independent.discrete_laplace import DiscreteLaplace
from bayesdp.noise.independent.gaussian import Gaussian
from bayesdp.noise.independent.laplace import Laplace

_TRUNCATED: dict[type[NoiseLaw], Any] = {
    DiscreteLaplace: TruncatedDiscreteLaplace,
    DiscreteGaussian: TruncatedDiscreteGaussian,
    Laplace: TruncatedLaplace,
    Gaussian: TruncatedGaussian,
}
"""The law given that it is within bounds, whose formulas these are."""

_MOST = 1_000_000
"""Values that are summed where there is no formula."""


def inner_moments(law: NoiseLaw, mu: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats] | None:
    """Mean and variance of values from `low` to `high`, given that they are there; None where nothing is known."""
    of: Any = law
    scale = np.broadcast_to(of.scale, mu.shape) if hasattr(law, "scale") else np.ones(mu.shape)
    mean, variance = np.zeros(mu.shape), np.zeros(mu.shape)
    open_ends, one = np.isinf(low) & np.isinf(high), low == high
    mean[one] = low[one]
    if np.any(open_ends):
        if not hasattr(law, "mean"):
            return None
        at = np.broadcast_to(mu, mu.shape)
        mean[open_ends] = np.asarray(of.mean(at))[open_ends]
        spread = law.variance(mu.shape, location=mu)  # type: ignore[call-arg]  # of laws with tails it depends on the location
        if spread is None:
            return None
        variance[open_ends] = np.asarray(spread)[open_ends]
    rest = ~(open_ends | one)
    if not np.any(rest):
        return mean, variance
    kind = _TRUNCATED.get(type(law))
    if kind is not None:
        inside = kind(scale[rest], (low[rest], high[rest]))
        mean[rest], variance[rest] = inside.mean(mu[rest]), inside.variance(mu[rest].shape, location=mu[rest])
        return mean, variance
    if not law.integer or np.any(np.isinf(low[rest] + high[rest])) or np.sum(high[rest] - low[rest]) > _MOST:
        return None
    for place in zip(*np.nonzero(rest), strict=True):
        y = np.arange(low[place], high[place] + 1.0)
        alone: Any = law.of_answer(int(np.ravel_multi_index(place, mu.shape)) if mu.ndim else 0, mu.shape)
        mass = np.exp(alone.log_each(y, np.full(y.shape, mu[place])))
        total = mass.sum()
        if total == 0.0:
            mean[place] = y[0]
            continue
        mean[place] = mass @ y / total
        variance[place] = mass @ (y - mean[place]) ** 2 / total
    return mean, variance
