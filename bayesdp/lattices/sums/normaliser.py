"""Sums of ``exp(-rate ||z||_1)`` over a lattice, exact for every rate."""

from __future__ import annotations

import math

from bayesdp.invariants import Invariants
from bayesdp.lattices.exact.fixed_sum import log_normaliser
from bayesdp.lattices.sums.sums import Multiples, ZeroSum, l1_sums


def l1_log_sum(invariants: Invariants, rate: float) -> float | None:
    """Logarithm of the sum of ``exp(-rate ||z||_1)`` over the integer vectors z that change no invariant.

    It is a sum over the parts of the lattice: ``log coth(rate ||u||_1 / 2)`` for the multiples of a vector u, the
    logarithm of a Legendre polynomial for a fixed total (of ``coth 2 rate`` for a 2 x c table with both margins, which
    is a fixed total written twice), and a rational function of ``exp(-rate)`` for other small lattices
    (`bayesdp.lattices.sums.l1_series`).

    Parameters
    ----------
    invariants : Invariants
    rate : float
        Per count.

    Returns
    -------
    float or None
        None where a part of the lattice is neither in closed form nor small enough to be counted.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "Mid", "High"]}
    >>> print(f"{l1_log_sum(Invariants(Margins(table, ['county'], ['education'])), 0.5):.6f}")
    0.735293
    """
    sums = l1_sums(invariants)
    if sums is None:
        return None
    terms = []
    for part, number in sums.items():
        if isinstance(part, Multiples):
            terms.append(-number * math.log(math.tanh(0.5 * rate * part.length)))
        elif isinstance(part, ZeroSum):
            terms.append(number * log_normaliser(part.count, rate * part.copies))
        else:
            terms.append(number * part.series.log_sum(rate * part.copies))
    return math.fsum(terms)
