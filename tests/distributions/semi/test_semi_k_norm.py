"""The K-norm laws of Semi-DP as PyMC distributions, against `bayesdp.noise`, which tests/noise compares with closed forms."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from bayesdp import noise
from bayesdp.distributions import LatticeKNorm, SemiKNorm
from tests.polytopes.examples import both_margins, substitutions

# The same graphs without numba's seconds of compilation.
PYTHON = Mode(linker="py", optimizer="fast_compile")
CASES = {
    "facets": (both_margins(3, 3), 3),
    "programs": (both_margins(4, 5), 3),
    "l1, a table": (both_margins(2, 4), 2),
    "l1, a total": (substitutions(4)[0], 2),
}


@pytest.mark.parametrize("case", CASES)
def test_density_and_gradients(case: str) -> None:
    invariants, adjacency = CASES[case]
    shape = invariants.frame.shape
    rng = np.random.default_rng(1)
    start = rng.integers(0, 20, shape).astype(float)
    value = start + invariants.project(rng.normal(size=shape) * 5)
    mu, epsilon = pt.tensor("mu", shape=shape), pt.scalar("epsilon")
    logp = pm.logp(SemiKNorm.dist(mu, epsilon, adjacency=adjacency, invariants=invariants), value)
    evaluate = pytensor.function([mu, epsilon], [logp, *pt.grad(logp, [mu, epsilon])], mode=PYTHON)
    found, in_mu, in_epsilon = evaluate(start, 0.7)
    law = noise.SemiKNorm(0.7, adjacency)
    assert found == pytest.approx(law.logp(value, start, invariants), rel=1e-9)
    size = law.hull(invariants).gauge(invariants.coordinates(value - start))
    assert in_epsilon == pytest.approx(invariants.dimension / 0.7 - size, rel=1e-9)
    for index in list(np.ndindex(shape))[:3]:
        step = np.zeros(shape)
        step[index] = 1e-5
        slope = (evaluate(start + step, 0.7)[0] - evaluate(start - step, 0.7)[0]) / 2e-5
        assert in_mu[index] == pytest.approx(slope, rel=1e-5, abs=1e-6)
    # Finite off the subspace: the norm of the projection.
    assert evaluate(start + 1.0, 0.7)[0] == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_mass_on_the_lattice(case: str) -> None:
    invariants, adjacency = CASES[case]
    shape = invariants.frame.shape
    law = noise.LatticeKNorm(0.9, adjacency)
    start = np.random.default_rng(2).integers(5, 20, shape)
    table = law.draw(np.random.default_rng(3), shape, None, invariants, start)
    variable = LatticeKNorm.dist(start, 0.9, adjacency=adjacency, invariants=invariants)
    expected = law.logp(table, start, invariants)
    assert pytensor.function([], pm.logp(variable, table), mode=PYTHON)() == pytest.approx(expected, rel=1e-9)
    epsilon = pt.scalar("epsilon")
    if case.startswith("l1"):
        # The normaliser is known, so epsilon need not be.
        free = pm.logp(LatticeKNorm.dist(start, epsilon, adjacency=adjacency, invariants=invariants), table)
        assert pytensor.function([epsilon], free, mode=PYTHON)(0.9) == pytest.approx(expected, rel=1e-9)
    else:
        with pytest.raises(NotImplementedError, match="epsilon must be a constant here: the normaliser"):
            LatticeKNorm.dist(start, epsilon, adjacency=adjacency, invariants=invariants)


def test_listed_vertices_and_draws() -> None:
    invariants = substitutions(3)[0]
    steps = [[2, -2, 0], [0, 1, -1]]
    table = np.array([4, 5, 6])
    variables = [
        LatticeKNorm.dist(table, 1.5, vertices=steps, invariants=invariants),
        LatticeKNorm.dist(table, 1.5, adjacency=1, invariants=invariants),
        LatticeKNorm.dist(table, 1.5, vertices=steps, invariants=invariants),
    ]
    # PyTensor merges and caches Ops that are equal.
    ops = [variable.owner.op for variable in variables]
    assert ops[0] == ops[2] != ops[1]
    logs = pytensor.function(
        [], [pm.logp(variable, table + np.array(steps[0])) for variable in variables], mode=PYTHON
    )()
    assert logs[0] == logs[2] == pytest.approx(-1.5, rel=1e-9)
    draws = ops[0].rng_fn(np.random.default_rng(1), table, 1.5, (20,))
    assert draws.shape == (20, 3)
    assert np.all(draws.sum(axis=1) == 15)
    margins = both_margins(3, 3)
    free = SemiKNorm.dist(np.zeros((3, 3)), 0.5, adjacency=3, invariants=margins)
    other = SemiKNorm.dist(np.zeros((3, 3)), 0.5, adjacency=2, invariants=margins)
    assert free.owner.op != other.owner.op
    assert free.owner.op.rng_fn(np.random.default_rng(1), np.zeros((3, 3)), 0.5, (4,)).shape == (4, 3, 3)
    with pytest.raises(ValueError, match="either adjacency or vertices"):
        LatticeKNorm.dist(table, 1.0, invariants=invariants)
