"""The laws that are stated in orthonormal coordinates as PyMC distributions, against `bayesdp.noise`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy.stats import chi2

from bayesdp import noise
from bayesdp.distributions import CorrelatedGaussian, ExtendedLaplace
from bayesdp.invariants import Invariants
from bayesdp.queries import LinearQuery, Totals
from tests.noise.oracles import all_margins, frame_of

OPEN = all_margins(3, 3)
TOTAL = Invariants(Totals(frame_of(2, 3)))
WEIGHTED = Invariants(LinearQuery(frame_of(4), [[1, 2, 0, 0], [0, 1, 1, 0]], ["a", "b"]))
INVARIANTS = [OPEN, TOTAL, WEIGHTED]

# The same graphs without numba's seconds of compilation.
PYTHON = Mode(linker="py", optimizer="fast_compile")


def covariance_of(invariants: Invariants) -> Any:
    root = np.random.default_rng(8).normal(size=(invariants.dimension,) * 2)
    return root @ root.T + 0.3 * np.eye(len(root))


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "laplace": (
        lambda mu, s, inv: ExtendedLaplace.dist(mu, s, invariants=inv),
        lambda s, inv: noise.ExtendedLaplace(s, inv.coordinate_rule),
    ),
    "gaussian": (
        lambda mu, s, inv: CorrelatedGaussian.dist(mu, s, covariance=covariance_of(inv), invariants=inv),
        lambda s, inv: noise.CorrelatedGaussian(s**2 * covariance_of(inv), inv.coordinate_rule),
    ),
}


def two_tables(invariants: Invariants) -> tuple[Any, Any]:
    """A table, and another with the same invariants."""
    shape = invariants.frame.shape
    table = np.arange(invariants.frame.size).reshape(shape)
    return table, table + invariants.project(np.random.default_rng(2).normal(size=shape) * 2)


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
@pytest.mark.parametrize("case", CASES)
def test_log_density_and_gradients(case: str, invariants: Invariants) -> None:
    make, law = CASES[case]
    table, other = two_tables(invariants)
    scale, mu = pt.scalar("scale"), pt.tensor("mu", dtype="float64", shape=table.shape)
    logp = pm.logp(make(mu, scale, invariants), other)
    evaluate = pytensor.function([mu, scale], [logp, *pt.grad(logp, [mu, scale])], mode=PYTHON)
    for value in (0.3, 2.0, 40.0):
        found, by_mu, by_scale = evaluate(table.astype(float), value)
        assert found == pytest.approx(law(value, invariants).logp(other, table, invariants), rel=1e-11)
        step = 1e-6 * value
        ends = [law(value + h, invariants).logp(other, table, invariants) for h in (step, -step)]
        assert by_scale == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-6)
        for index in np.ndindex(table.shape):
            unit = np.zeros(table.shape)
            unit[index] = 1e-6
            slope = (evaluate(table + unit, value)[0] - evaluate(table - unit, value)[0]) / 2e-6
            assert by_mu[index] == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_batches_and_tables_off_the_subspace(case: str) -> None:
    make, law = CASES[case]
    table, other = two_tables(OPEN)
    pair = np.stack([table, table + 1])  # the second breaks the invariants; what counts is its projection
    found = pm.logp(make(pair, 0.7, OPEN), other).eval(mode=PYTHON)
    expected = law(0.7, OPEN).logp(other, table, OPEN)
    assert found == pytest.approx([expected, expected], rel=1e-11)
    assert law(0.7, OPEN).logp(other, table + 1, OPEN) == -math.inf


@pytest.mark.parametrize("invariants", [OPEN, WEIGHTED], ids=repr)
@pytest.mark.parametrize("case", CASES)
def test_draws_follow_the_law(case: str, invariants: Invariants) -> None:
    make, law = CASES[case]
    table, _ = two_tables(invariants)
    op = make(table, 1.5, invariants).owner.op
    draws = op.rng_fn(np.random.default_rng(1), table, 1.5, size=(2000,))
    found = invariants.coordinates(draws - table)
    assert np.allclose(invariants.from_coordinates(found), draws - table, atol=1e-10)
    n = invariants.dimension
    # False-alarm rate 1e-4: sums of absolute (Laplace) or squared Mahalanobis (Gaussian) lengths are chi-square.
    if case == "laplace":
        level = chi2.cdf(2.0 * np.abs(found).sum() / 1.5, 2 * n * len(draws))
    else:
        covariance = law(1.5, invariants).covariance
        level = chi2.cdf(np.sum(found * np.linalg.solve(covariance, found.T).T), n * len(draws))
    assert 5e-5 < level < 1 - 5e-5
    support = make(table, 1.5, invariants)
    np.testing.assert_array_equal(pm.distributions.distribution.support_point(support).eval(mode=PYTHON), table)


def test_draws_through_pymc() -> None:
    table, _ = two_tables(WEIGHTED)
    both = [make(table, 1.5, WEIGHTED) for make, _ in CASES.values()]
    first, second = pm.draw(both, draws=3, random_seed=1)
    assert first.shape == second.shape == (3, 4)
    assert not np.array_equal(first[0], first[1])
    for draws in (first, second):
        assert np.allclose(WEIGHTED.matrix @ (draws - table).T, 0.0, atol=1e-10)


def test_in_a_model_with_gradients() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 10.0, shape=(3, 3))
        sigma = pm.HalfNormal("sigma", 5.0)
        ExtendedLaplace("laplace", mu, sigma, invariants=OPEN, coordinates="helmert-1", observed=np.eye(3))
        CorrelatedGaussian("gaussian", mu, covariance=covariance_of(OPEN), invariants=OPEN, observed=np.eye(3))
    value, gradient = model.compile_fn([model.logp(), model.dlogp()], mode=PYTHON)(model.initial_point())
    assert np.isfinite(value)
    assert np.all(np.isfinite(gradient))


def test_other_covariances_are_other_ops() -> None:
    # PyTensor merges and caches Ops that are equal: the covariance must be in __props__.
    table, other = two_tables(OPEN)
    covariance = covariance_of(OPEN)
    variables = [
        CorrelatedGaussian.dist(table, covariance=matrix, invariants=OPEN)
        for matrix in (covariance, covariance.copy(), 2.0 * covariance)
    ]
    ops = [variable.owner.op for variable in variables]
    assert ops[0] == ops[1]
    assert hash(ops[0]) == hash(ops[1])
    assert ops[0] != ops[2]
    assert noise.CorrelatedGaussian(covariance) != covariance.tobytes()
    first, _, last = pytensor.function([], [pm.logp(v, other) for v in variables], mode=PYTHON)()
    assert first != last


def test_bad_arguments_are_named() -> None:
    table = np.zeros((3, 3))
    with pytest.raises(ValueError, match="covariance has 2 rows, but the invariants leave 4 dimensions free"):
        CorrelatedGaussian.dist(table, covariance=np.eye(2), invariants=OPEN)
    with pytest.raises(ValueError, match=r"positive definite, but its smallest eigenvalue is -1.0"):
        CorrelatedGaussian.dist(table, covariance=-np.eye(4), invariants=OPEN)
    with pytest.raises(ValueError, match=r"stated in coordinates 'echelon-1', but these invariants .* 'helmert-1'"):
        CorrelatedGaussian.dist(table, covariance=np.eye(4), invariants=OPEN, coordinates="echelon-1")
    with pytest.raises(ValueError, match=r"stated in coordinates 'echelon-1', but these invariants .* 'helmert-1'"):
        ExtendedLaplace.dist(table, 1.0, invariants=OPEN, coordinates="echelon-1")
    with pytest.raises(ValueError, match="coordinates must be one of 'helmert-1', 'echelon-1', got 'mine'"):
        ExtendedLaplace.dist(table, 1.0, invariants=OPEN, coordinates="mine")
    with pytest.raises(ValueError, match="b must be finite and greater than 0"):
        ExtendedLaplace.dist(table, -1.0, invariants=OPEN)
    with pytest.raises(TypeError, match=r"invariants must be a bayesdp.Invariants"):
        ExtendedLaplace.dist(table, 1.0, invariants=[[1, 1, 1]])
    large = Invariants(Totals(frame_of(3000)))
    with pytest.raises(NotImplementedError, match="3000 cells and 2999 free dimensions needs a dense matrix"):
        pm.logp(ExtendedLaplace.dist(np.zeros(3000), 1.0, invariants=large), np.zeros(3000))
