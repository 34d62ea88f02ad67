"""Normalisers of the lattice laws as PyTensor graphs, so that epsilon and sigma may be unknown.

The counterpart of ``LatticeLaplace.log_normaliser`` and ``LatticeGaussian.log_normaliser`` in `bayesdp.noise`, for every
positive epsilon and sigma. All are sums of exponentials with positive weights, with PyTensor's own gradients.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.special import logsumexp

from bayesdp.distributions.table_densities import symbolic_log_sum
from bayesdp.invariants import Invariants
from bayesdp.lattices.sums.l1_series import L1Series
from bayesdp.lattices.sums.sums import Multiples, ThetaSeries, ZeroSum, l1_sums, l2_sums
from bayesdp.noise import theta
from bayesdp.noise.lattice.base import GAUSSIAN_SWITCH, log_squared_binomials, trapezoid
from bayesdp.noise.lattice.lattice_gaussian import LatticeGaussian
from bayesdp.noise.lattice.lattice_laplace import LatticeLaplace, RadialSum, radial_sum
from bayesdp.noise.polytope.lattice_k_norm import LatticeKNorm


@symbolic_log_sum.register
def _gaussian(law: LatticeGaussian, sigma: Any, invariants: Invariants) -> Any | None:
    sums = l2_sums(invariants)
    if sums is None:
        return None
    total = pt.zeros_like(sigma)
    for part, number in sums.items():
        if isinstance(part, Multiples):
            total += number * theta.log_sum(None, sigma / part.length, pt)
        elif isinstance(part, ZeroSum):
            total += number * _gaussian_zero_sum(part.count, sigma / math.sqrt(part.copies))
        else:
            total += number * _theta_series(part.series, sigma / math.sqrt(part.copies))
    return total


@symbolic_log_sum.register
def _k_norm(law: LatticeKNorm, epsilon: Any, invariants: Invariants) -> Any | None:
    multiple = law.l1_multiple(invariants)
    return None if multiple is None else _of_norm("l1", multiple * epsilon, invariants)


@symbolic_log_sum.register
def _laplace(law: LatticeLaplace, epsilon: Any, invariants: Invariants) -> Any | None:
    return _of_norm(law.norm, epsilon, invariants)


def _of_norm(norm: str, epsilon: Any, invariants: Invariants) -> Any | None:
    if norm == "l2" and invariants.dimension > 1:
        rule = radial_sum(invariants)
        return None if rule is None else _radial(epsilon, rule)
    sums: Any = l1_sums(invariants) if norm == "l1" else l2_sums(invariants)
    if sums is None:
        return None
    total = pt.zeros_like(epsilon)
    for part, number in sums.items():
        if isinstance(part, Multiples):  # sum over j of exp(-rate |j|) = coth(rate / 2)
            total -= number * pt.log(pt.tanh(0.5 * epsilon * part.length))
        elif isinstance(part, ZeroSum):
            total += number * _laplace_zero_sum(part.count, epsilon * part.copies)
        else:
            total += number * _l1_series(part.series, epsilon * part.copies)
    return total


def _laplace_zero_sum(count: int, rate: Any) -> Any:
    """Legendre polynomial ``P_(count-1)(coth rate)``, see `bayesdp.lattices.exact.fixed_sum`."""
    terms = log_squared_binomials(count) - 2.0 * rate[..., None] * np.arange(count)
    return logsumexp(terms, axis=-1) - (count - 1) * pt.log(-pt.expm1(-2.0 * rate))


def _l1_series(series: L1Series, rate: Any) -> Any:
    terms = series.log_coefficients - rate[..., None] * series.exponents
    return logsumexp(terms, axis=-1) - series.power * pt.log(-pt.expm1(-series.period * rate))


def _gaussian_zero_sum(count: int, sigma: Any) -> Any:
    """Build `bayesdp.noise.lattice.base.gaussian_log_sum`; each side of the switch gets a harmless scale."""
    small, low, high = _both_sides(sigma, GAUSSIAN_SWITCH)
    nodes, k = trapezoid(count, GAUSSIAN_SWITCH)
    weights = 2.0 * pt.exp(-0.5 * (k / low[..., None]) ** 2)
    wave = pt.maximum(1.0 + pt.dot(weights, np.cos(np.outer(k, nodes))), 1e-17)
    direct = logsumexp(count * pt.log(wave), axis=-1) - math.log(nodes.size)
    dual = (count - 1) * pt.log(high * math.sqrt(2.0 * math.pi)) - 0.5 * math.log(count)
    return pt.switch(small, direct, dual)


def _theta_series(series: ThetaSeries, sigma: Any) -> Any:
    small, low, high = _both_sides(sigma, series.switch)
    direct = logsumexp(series.logs - 0.5 * series.squares / low[..., None] ** 2, axis=-1)
    waves = logsumexp(series.dual_logs - 2.0 * (math.pi * high[..., None]) ** 2 * series.dual_squares, axis=-1)
    dual = series.dimension * pt.log(high * math.sqrt(2.0 * math.pi)) - series.log_volume + waves
    return pt.switch(small, direct, dual)


def _radial(epsilon: Any, rule: RadialSum) -> Any:
    small, low, high = _both_sides(epsilon, rule.smallest)
    others = pt.log(high) + logsumexp(rule.log_weights - high[..., None] ** 2 * rule.inverse, axis=-1)
    return pt.switch(small, rule.log_scale - rule.dimension * pt.log(low), pt.softplus(others))


def _both_sides(scale: Any, at: float) -> tuple[Any, Any, Any]:
    """Whether a scale is below a number, and what each side may use in either case."""
    small = scale < at
    return small, pt.switch(small, scale, at), pt.switch(small, at, scale)
