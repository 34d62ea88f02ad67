"""The normaliser of lattice Gaussian noise, part by part."""

from __future__ import annotations

import math

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.lattices.sums.sums import Multiples, ZeroSum, l2_sums
from bayesdp.noise import theta
from bayesdp.noise.lattice.zero_sum import gaussian_log_sum


def l2_log_sum(invariants: Invariants, sigma: float) -> float | None:
    """Logarithm of the sum of `exp(-||z||_2**2 / (2 sigma**2))` over the lattice; None where it is not computed."""
    sums = l2_sums(invariants)
    if sums is None:
        return None
    terms = []
    for part, number in sums.items():
        if isinstance(part, Multiples):
            one = float(theta.log_sum(np.zeros(1), np.array([sigma / part.length]))[0])
        elif isinstance(part, ZeroSum):
            one = gaussian_log_sum(part.count, sigma / math.sqrt(part.copies))
        else:
            one = part.series.log_sum(sigma / math.sqrt(part.copies))
        terms.append(number * one)
    return math.fsum(terms)
