"""Sums of ``exp(-rate ||z||)`` over a lattice, where they have a closed form."""

from __future__ import annotations

import math

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.lattices.fixed_sum import log_normaliser
from bayesdp.lattices.parts import Line, Table, lattice_parts

__all__ = ["laplace_log_sum"]


def laplace_log_sum(invariants: Invariants, norm: str, rate: float) -> float | None:
    """Logarithm of the sum of ``exp(-rate ||z||)`` over the integer vectors z that change no invariant.

    In the l1 norm it is a sum over the parts of the lattice: ``log coth(rate ||u||_1 / 2)`` for the multiples
    of a vector u, the logarithm of a Legendre polynomial for a fixed total (of ``coth 2 rate`` for a 2 x c table
    with both margins, which is a fixed total written twice).

    Parameters
    ----------
    invariants : Invariants
    norm : {"l1", "l2"}
    rate : float
        Per count.

    Returns
    -------
    float or None
        None where no closed form is known: larger tables, other general parts, and more than one dimension
        in the l2 norm.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "Mid", "High"]}
    >>> print(f"{laplace_log_sum(Invariants(Margins(table, ['county'], ['education'])), 'l1', 0.5):.6f}")
    0.735293
    """
    if norm == "l2" and invariants.dimension > 1:
        return None
    terms = []
    for part in lattice_parts(invariants):
        if isinstance(part, Line):
            length = float(np.linalg.norm(part.entries.astype(np.float64), ord=1 if norm == "l1" else 2))
            terms.append(-math.log(math.tanh(0.5 * rate * length)))
        elif isinstance(part, Table) and len(part.shape) == 1:
            terms.append(log_normaliser(part.shape[0], rate * part.copies))
        else:
            return None
    return math.fsum(terms)
