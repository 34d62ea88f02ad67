"""The K-norm law of Semi-DP as a PyMC distribution, against `bayesdp.noise`, which tests/noise compares with closed forms."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from bayesdp import noise
from bayesdp.distributions import SemiKNorm
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


def test_draws() -> None:
    margins = both_margins(3, 3)
    free = SemiKNorm.dist(np.zeros((3, 3)), 0.5, adjacency=3, invariants=margins)
    other = SemiKNorm.dist(np.zeros((3, 3)), 0.5, adjacency=2, invariants=margins)
    assert free.owner.op != other.owner.op
    assert free.owner.op.rng_fn(np.random.default_rng(1), np.zeros((3, 3)), 0.5, (4,)).shape == (4, 3, 3)
