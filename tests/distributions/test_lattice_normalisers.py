"""Epsilon and sigma as unknowns, where the normaliser has no closed form: values, gradients, a posterior."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from bayesdp import noise
from bayesdp.distributions import LatticeLaplace
from bayesdp.distributions.tables import log_sum
from bayesdp.invariants import Invariants
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.comparison.enumeration import probabilities
from tests.noise.oracles import all_margins, frame_of, lattice_points

OPEN, CUBE = all_margins(3, 3), all_margins(2, 2, 2)
OVERLAP = Invariants(LinearQuery(frame_of(6), [[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]], ["first", "second"]))
TWICE = Invariants(Margins(frame_of(3, 3, 2), ["d0", "d1"], ["d1", "d2"], ["d0", "d2"]))
"""A 3 x 3 table, written twice."""
TOTAL = Invariants(Totals(frame_of(40)))
LAWS = {"l1": noise.LatticeLaplace, "l2": lambda s: noise.LatticeLaplace(s, "l2"), "gaussian": noise.LatticeGaussian}


@pytest.mark.parametrize("invariants", [OPEN, CUBE, OVERLAP, TWICE, TOTAL], ids=repr)
@pytest.mark.parametrize("case", LAWS)
def test_values_and_gradients(case, invariants):
    law, scale = LAWS[case], pt.vector("scale")
    value = log_sum(law(1.0), scale, invariants)
    evaluate = pytensor.function([scale], [value, pt.grad(value.sum(), scale)])
    grid = np.array([1e-3, 0.05, 0.3, 0.62, 0.8, 1.0, 2.5, 12.0, 400.0])
    found, slope = evaluate(grid)
    expected = [law(float(one)).log_normaliser(invariants) for one in grid]
    assert found == pytest.approx(np.array(expected, dtype=float), rel=1e-11, abs=1e-13)
    step = 1e-5 * grid
    numeric = (evaluate(grid + step)[0] - evaluate(grid - step)[0]) / (2.0 * step)
    assert np.all(np.isfinite(slope))
    assert slope == pytest.approx(numeric, rel=1e-6, abs=1e-8)
    if invariants is OPEN and case != "gaussian":  # minus the mean size, by enumeration
        size = np.linalg.norm(lattice_points(OPEN, 9), ord=int(case[1]), axis=1)
        assert evaluate(np.array([2.2]))[1] == pytest.approx(-probabilities(-2.2 * size) @ size, rel=1e-10)


def test_known_scales_are_numbers_and_batches_work():
    table, scales, symbol = np.zeros((2, 3, 3), dtype=int), np.array([0.5, 1.5]), pt.vector("epsilon")
    expected = np.array([noise.LatticeLaplace(s).logp(table[0], table[0], OPEN) for s in (0.5, 1.5)])
    for epsilon, given in ((scales, {}), (symbol, {symbol: scales})):
        found = pm.logp(LatticeLaplace.dist(table, epsilon, invariants=OPEN), table).eval(given)
        assert found == pytest.approx(expected, rel=1e-12)
