"""Theorem 3.3 of Gao, Gong and Yu with its converse, and Corollary 3.10, by enumeration and by every mechanism at hand.

The converse: a mechanism M with the invariants is ``Pi_R A(x)`` plus a private mechanism with values in the null space. That
mechanism is ``Pi_N M``, whose law must depend on the table through ``Pi_N A(x)`` alone as far as privacy goes.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp.queries import LinearQuery, Totals

CELLS = {"cell": range(4)}
TOTAL = Totals(CELLS)
TABLE = np.array([3, 0, 5, 2])
MECHANISMS = {
    "projected gaussian": m.ProjectedGaussian(TOTAL, mu=0.6),
    "extended gaussian": m.ExtendedGaussian(TOTAL, mu=0.6),
    "correlated gaussian": m.CorrelatedGaussian(TOTAL, mu=0.6),
    "projected laplace": m.ProjectedLaplace(TOTAL, 0.6),
    "extended laplace": m.ExtendedLaplace(TOTAL, 0.6),
    "k-norm": m.KNorm(TOTAL, 0.6),
    "lattice laplace": m.LatticeLaplace(TOTAL, 0.6),
    "lattice gaussian": m.LatticeGaussian(TOTAL, rho=0.1),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_is_left_without_the_row_space_lies_in_the_null_space(name: str) -> None:
    """``M(x) - Pi_R A(x)`` has no total, exactly, and lies around ``Pi_N A(x)``: the noise is M minus A, which sums to zero."""
    mechanism = MECHANISMS[name]
    invariants = mechanism.answer_invariants
    released = np.asarray(mechanism.release(TABLE, rng=3).values, dtype=np.float64)
    row_space = TABLE - invariants.project(TABLE.astype(float))
    hat = released - row_space
    assert abs(hat.sum()) < 1e-9
    np.testing.assert_allclose(hat, invariants.project(hat), atol=1e-9)
    np.testing.assert_allclose(hat - invariants.project(TABLE.astype(float)), released - TABLE, atol=1e-9)


def test_the_converse_by_enumeration() -> None:
    """A mechanism that is not additive: randomised response on the difference of two cells, the sum of the pair exact.

    Its invariants hold, and it is private on the null space. The extension of its null space part has the same law: for every
    table of three records, output by output, and the loss of both over all neighbours with the same and with other sums is one.
    """
    tables = [(a, 3 - a) for a in range(4)]
    laws = {x: np.full(4, 0.1) + 0.6 * (np.arange(4) == x[0]) for x in tables}  # P(M(x) = (y, 3 - y))
    null = np.array([1.0, -1.0]) / math.sqrt(2)

    def hat(x: tuple[int, int]) -> dict[float, float]:
        """The law of the coordinate of ``M(x) - Pi_R A(x)``."""
        return {round(float(null @ np.array([y, 3 - y])), 9): laws[x][y] for y in range(4)}

    for x in tables:
        row_space = np.array(x) - null * (null @ np.array(x))
        again = {tuple(np.round(row_space + null * c).astype(int)): p for c, p in hat(x).items()}
        assert again == {(y, 3 - y): laws[x][y] for y in range(4)}  # Pi_R A plus the private part is M
    loss_hat = max(math.log(hat(x)[c] / hat(y)[c]) for x, y in permutations(tables, 2) for c in hat(x))
    loss_m = max(float(np.log(laws[x] / laws[y]).max()) for x, y in permutations(tables, 2))
    assert loss_hat == pytest.approx(loss_m) == pytest.approx(math.log(7))


HADAMARD = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # twice orthonormal coordinates of the null space
TURNED = LinearQuery(CELLS, HADAMARD, list("abc"))
FREE = bdp.Invariants(frame=CELLS)
KINDS = {
    "k-norm": lambda exact, query: m.KNorm(exact, 0.6, query=query),
    "extended gaussian": lambda exact, query: m.ExtendedGaussian(exact, mu=0.6, query=query),
    "best gaussian": lambda exact, query: m.CorrelatedGaussian(exact, mu=0.6, query=query),
}


@pytest.mark.parametrize("name", KINDS)
def test_corollary_3_10_the_best_with_invariants_is_the_best_for_the_null_space_part(name: str) -> None:
    """``opt^C(A) = opt(Pi_N A)``, within each class of mechanisms whose best is known.

    On one side the cells with an exact total, on the other no invariants, and Q^T x twice over as the query: four times the error.
    """
    make = KINDS[name]
    with_invariants, without = make(TOTAL, None), make(FREE, TURNED)
    assert without.error / 4 == pytest.approx(with_invariants.error, rel=1e-6)
    # And by the construction of the proof, draw by draw: the private answers of the one, put on the null space, are the other.
    noise = without.noise(np.random.default_rng(1), 30_000) @ HADAMARD / 4
    covariance = np.cov(noise.T)
    expected = with_invariants.error / 3 * (np.eye(4) - 0.25)
    assert np.abs(covariance - expected).max() < 0.06 * expected[0, 0]
