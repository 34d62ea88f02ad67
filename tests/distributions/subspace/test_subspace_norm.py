"""The l1, l2 and l-infinity laws on a subspace as PyMC distributions, against `bayesdp.noise` and slopes."""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from bayesdp import noise
from bayesdp.distributions import SubspaceNorm
from bayesdp.invariants import Invariants
from bayesdp.queries import LinearQuery, Totals
from tests.noise.oracles import frame_of

PYTHON = Mode(linker="py", optimizer="fast_compile")
TOTAL = Invariants(Totals(frame_of(2, 3)))
CROSSED = Invariants(LinearQuery(frame_of(4), [[1, 1, 1, 0], [0, 1, 1, 1]], ["left", "right"]))
"""The l1 law has no known normaliser here."""


@pytest.mark.parametrize("invariants", [TOTAL, CROSSED], ids=["total", "crossed"])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_log_density_and_gradients(norm: str, invariants: Invariants) -> None:
    shape, rng = invariants.frame.shape, np.random.default_rng(3)
    start = rng.integers(0, 20, shape).astype(float)
    value = start + invariants.project(rng.normal(size=shape) * 5)
    mu, epsilon = pt.tensor("mu", shape=shape), pt.scalar("epsilon")
    logp = pm.logp(SubspaceNorm.dist(mu, epsilon, norm=norm, invariants=invariants), value)
    evaluate = pytensor.function([mu, epsilon], [logp, *pt.grad(logp, [mu, epsilon])], mode=PYTHON)
    size = np.linalg.norm((value - start).ravel(), ord={"l1": 1, "l2": 2, "linf": math.inf}[norm])
    for rate in (0.01, 0.7, 30.0):
        found, _, by_epsilon = evaluate(start, rate)
        # The same up to a constant in epsilon too where the volume is not known.
        assert found == pytest.approx(noise.SubspaceNorm(rate, norm).logp(value, start, invariants), rel=1e-12)
        assert by_epsilon == pytest.approx(invariants.dimension / rate - size, rel=1e-10)
        # Off the subspace, where no two cells are equally far off: the largest one has a derivative.
        tilted = start + 0.1 * rng.normal(size=shape)
        by_mu = evaluate(tilted, rate)[1]
        for index in np.ndindex(shape):
            step = np.zeros(shape)
            step[index] = 1e-6
            slope = (evaluate(tilted + step, rate)[0] - evaluate(tilted - step, rate)[0]) / 2e-6
            assert by_mu[index] == pytest.approx(slope, rel=1e-5, abs=1e-6)
    assert np.array_equal(evaluate(value, 0.7)[1], np.zeros(shape))  # zero, not NaN, at the centre
    assert np.isfinite(evaluate(start + np.arange(invariants.frame.size).reshape(shape), 0.7)[0])


def test_norms_are_other_ops_and_batches_are_drawn() -> None:
    table = np.arange(6.0).reshape(2, 3)
    variables = [
        SubspaceNorm.dist(table, 0.7, invariants=TOTAL, **more) for more in ({}, {"norm": "l1"}, {"norm": "l2"})
    ]
    ops = [variable.owner.op for variable in variables]
    assert ops[0] == ops[1] != ops[2]
    draws = ops[2].rng_fn(np.random.default_rng(1), np.stack([table, table + 5]), np.array([0.01, 100.0]), size=(50, 2))
    assert draws.shape == (50, 2, 2, 3)
    spread = (draws - np.stack([table, table + 5])).std(axis=(0, 2, 3))
    # Radii of mean 500 and 0.05 over five dimensions, in six cells; 30% are more than four standard errors.
    assert spread == pytest.approx(math.sqrt(5 * 6 / 6) * np.array([100.0, 0.01]), rel=0.3)
    assert np.max(np.abs(draws.sum(axis=(2, 3)) - [15, 45])) < 1e-8
    with pytest.raises(ValueError, match="norm must be one of 'l1', 'l2', 'linf', got 'l3'"):
        SubspaceNorm.dist(table, 0.7, norm="l3", invariants=TOTAL)
