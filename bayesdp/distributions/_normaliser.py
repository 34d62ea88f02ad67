"""Normalisers of the lattice laws as PyTensor graphs, so that epsilon and sigma may be unknown.

The counterpart of ``LatticeLaplace.log_normaliser`` and ``LatticeGaussian.log_normaliser`` in
`bayesdp.noise`.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.special import logsumexp

from bayesdp.distributions import _theta
from bayesdp.invariants import Invariants
from bayesdp.noise._parts import Line, parts
from bayesdp.noise._zero_sum import GAUSSIAN_SWITCH, log_squared_binomials, trapezoid

__all__ = ["gaussian_log_normaliser", "laplace_log_normaliser"]


def laplace_log_normaliser(epsilon: Any, invariants: Invariants, norm: str) -> Any | None:
    """Logarithm of the sum of ``exp(-epsilon ||z||)`` over the lattice; None without a closed form."""
    if norm == "l2" and invariants.dimension > 1:
        return None
    kinds = _kinds(invariants, 1 if norm == "l1" else 2)
    if kinds is None:
        return None
    total = pt.zeros_like(epsilon)
    for (count, size), number in kinds.items():
        rate = epsilon * size
        if count == 0:  # sum over j of exp(-rate |j|) = coth(rate / 2)
            total -= number * pt.log(pt.tanh(0.5 * rate))
        else:  # Legendre polynomial P_(count-1)(coth rate), see bayesdp.lattices.fixed_sum
            terms = log_squared_binomials(count) - 2.0 * rate[..., None] * np.arange(count)
            total += number * (logsumexp(terms, axis=-1) - (count - 1) * pt.log(-pt.expm1(-2.0 * rate)))
    return total


def gaussian_log_normaliser(sigma: Any, invariants: Invariants) -> Any | None:
    """Logarithm of the Gaussian sum over the lattice; None where no closed form is known."""
    kinds = _kinds(invariants, 2)
    if kinds is None:
        return None
    total = pt.zeros_like(sigma)
    for (count, size), number in kinds.items():
        if count == 0:
            total += number * _theta.log_sum(None, sigma / size)
        else:
            total += number * _gaussian_zero_sum(count, sigma / math.sqrt(size))
    return total


def _gaussian_zero_sum(count: int, sigma: Any) -> Any:
    """Build `bayesdp.noise._zero_sum.gaussian_log_sum`; each side of the switch gets a harmless scale."""
    small = sigma < GAUSSIAN_SWITCH
    low, high = pt.switch(small, sigma, GAUSSIAN_SWITCH), pt.switch(small, GAUSSIAN_SWITCH, sigma)
    nodes, k = trapezoid(count, GAUSSIAN_SWITCH)
    weights = 2.0 * pt.exp(-0.5 * (k / low[..., None]) ** 2)
    wave = pt.maximum(1.0 + pt.dot(weights, np.cos(np.outer(k, nodes))), 1e-17)
    direct = logsumexp(count * pt.log(wave), axis=-1) - math.log(nodes.size)
    dual = (count - 1) * pt.log(high * math.sqrt(2.0 * math.pi)) - 0.5 * math.log(count)
    return pt.switch(small, direct, dual)


def _kinds(invariants: Invariants, order: int) -> Counter[tuple[int, float]] | None:
    """How many parts there are of each kind: (0, length) for lines, (count, copies) for zero sums."""
    found = parts(invariants)
    if found is None:
        return None
    return Counter(
        (0, float(np.linalg.norm(part.entries.astype(np.float64), ord=order)))
        if isinstance(part, Line)
        else (part.count, float(part.copies))
        for part in found
    )
