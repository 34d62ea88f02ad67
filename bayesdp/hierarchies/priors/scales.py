"""Scales of leaves whose odds are beta distributed, and what they scatter around."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaln

from bayesdp.hierarchies.priors.base import Floats, Hyper, Ints
from bayesdp.hierarchies.priors.slices import slice_draws

SCALE_SHAPE = (math.log(2.0), 0.75)
"""Mean and standard deviation of log q: sizes of areas then scatter by a factor between 1.4 (q of 9) and 10 (q of 0.45)."""


def draw_typical(hyper: Hyper, prior: tuple[float, float], rng: np.random.Generator) -> dict[str, Floats]:
    """Draw what scales b scatter around, m and q of ``b / (1 + b) ~ Beta(m q, q)``, one after the other."""
    # `hyper` has `log_scale` (log b), shape (T,), `typical_scale` (m) and `scale_shape` (q). `prior`: mean and standard deviation
    # of log m; those of log q are `SCALE_SHAPE`. Returns new `typical_scale` and `scale_shape`.
    log_scale, (mean, spread) = hyper["log_scale"], prior
    leaves = len(log_scale)
    ups, downs = -np.logaddexp(0.0, -log_scale).sum(), -np.logaddexp(0.0, log_scale).sum()
    log_m, log_q = np.log(hyper["typical_scale"]).reshape(1), np.log(hyper["scale_shape"]).reshape(1)

    def log_density(log_m: Floats, log_q: Floats) -> Floats:
        p, q = np.exp(log_m + log_q), np.exp(log_q)
        normal = -0.5 * ((log_m - mean) / spread) ** 2 - 0.5 * ((log_q - SCALE_SHAPE[0]) / SCALE_SHAPE[1]) ** 2
        return np.asarray(normal + p * ups + q * downs - leaves * betaln(p, q))

    def of_m(value: Floats, _: Ints) -> Floats:
        return log_density(value, log_q)

    log_m = slice_draws(of_m, log_m, np.ones(1), rng)

    def of_q(value: Floats, _: Ints) -> Floats:
        return log_density(log_m, value)

    log_q = slice_draws(of_q, log_q, np.ones(1), rng)
    return {"typical_scale": np.exp(log_m[0]), "scale_shape": np.exp(log_q[0])}


def log_odds(p: Floats, q: Floats, rng: np.random.Generator) -> Floats:
    """Draw ``log(u / (1 - u))`` for u ~ Beta(p, q), shape of p and q."""
    return np.asarray(_log_gamma(p, rng) - _log_gamma(q, rng))


def _log_gamma(shape: Floats, rng: np.random.Generator) -> Floats:
    """Logarithms of gamma draws, also for shapes so small that the draws themselves are zero in floating point."""
    # Gamma(a) is Gamma(a + 1) times the a-th root of a uniform number.
    return np.asarray(np.log(rng.standard_gamma(shape + 1.0)) - rng.exponential(size=shape.shape) / shape)
