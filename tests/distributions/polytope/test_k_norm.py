"""The K-norm law as a PyMC distribution, against `bayesdp.noise`, which tests/noise compares with closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from bayesdp import noise
from bayesdp.distributions import KNorm
from bayesdp.distributions.tables import GaugeOp, table_gauge
from bayesdp.polytopes import SymmetricHull
from tests.polytopes.examples import Programs, both_margins, moves, substitutions

# The same graphs without numba's seconds of compilation.
PYTHON = Mode(linker="py", optimizer="fast_compile")
CASES = {"facets": moves(3, 3), "programs": moves(4, 5), "one dimension": substitutions(4)}


@pytest.mark.parametrize("case", CASES)
def test_density_and_gradients(case: str) -> None:
    invariants, vertices = CASES[case]
    shape = invariants.frame.shape
    rng = np.random.default_rng(1)
    start, value = rng.integers(0, 20, shape).astype(float), rng.normal(size=shape) * 5
    value = start + invariants.project(value)
    mu, epsilon = pt.tensor("mu", shape=shape), pt.scalar("epsilon")
    logp = pm.logp(KNorm.dist(mu, epsilon, vertices=vertices, invariants=invariants), value)
    evaluate = pytensor.function([mu, epsilon], [logp, *pt.grad(logp, [mu, epsilon])], mode=PYTHON)
    found, in_mu, in_epsilon = evaluate(start, 0.7)
    law = noise.KNorm(0.7, vertices, invariants.coordinate_rule)
    assert found == pytest.approx(law.logp(value, start, invariants), rel=1e-12)
    n = invariants.dimension
    assert in_epsilon == pytest.approx(n / 0.7 - law.hull.gauge(invariants.coordinates(value - start)), rel=1e-12)
    for index in list(np.ndindex(shape))[:4]:
        step = np.zeros(shape)
        step[index] = 1e-5
        slope = (evaluate(start + step, 0.7)[0] - evaluate(start - step, 0.7)[0]) / 2e-5
        assert in_mu[index] == pytest.approx(slope, rel=1e-6, abs=1e-7)
    # Zero, not NaN, at the centre, and finite off the subspace.
    assert np.array_equal(evaluate(value, 0.7)[1], np.zeros(shape))
    assert np.isfinite(evaluate(start + 1.0, 0.7)[0])


@pytest.mark.system
def test_programs_in_compiled_code() -> None:
    # numba calls the solver; a batch in front of the table, and no warning about object mode.
    invariants, vertices = moves(3, 3)
    facets, program = SymmetricHull(vertices), Programs(vertices)
    tables = pt.tensor("tables", shape=(None, 2, 3, 3))
    graphs = [table_gauge(tables, hull, invariants) for hull in (facets, program)]
    gradients = [pt.grad(pt.sum(graph), tables) for graph in graphs]
    evaluate = pytensor.function([tables], [*graphs, *gradients])
    values = np.random.default_rng(2).normal(size=(3, 2, 3, 3))
    by_facets, by_program, first, second = evaluate(values)
    assert by_facets.shape == (3, 2)
    assert by_facets == pytest.approx(facets.gauge(invariants.coordinates(values)), rel=1e-12)
    assert by_program == pytest.approx(by_facets, rel=1e-12)
    assert second == pytest.approx(first, abs=1e-9)
    assert GaugeOp(program) == GaugeOp(Programs(vertices))
    assert GaugeOp(program) != GaugeOp(Programs(2 * vertices))


def test_ops_with_other_vertices_are_other_ops() -> None:
    # PyTensor merges and caches Ops that are equal: every parameter must be in __props__.
    invariants, vertices = moves(3, 3)
    table = np.zeros((3, 3))
    variables = [KNorm.dist(table, 0.7, vertices=v, invariants=invariants) for v in (vertices, 2 * vertices, vertices)]
    ops = [variable.owner.op for variable in variables]
    assert ops[0] == ops[2]
    assert len({*ops}) == 2
    other = invariants.from_coordinates(3 * vertices[0])
    both = pytensor.function([], [pm.logp(variable, other) for variable in variables], mode=PYTHON)()
    assert both[0] == both[2] != both[1]


def test_draws_in_a_model() -> None:
    invariants, vertices = moves(3, 3)
    table = np.arange(9).reshape(3, 3)
    with pm.Model(coords=invariants.frame.coords) as model:
        x = pm.Poisson("x", 5.0, dims=("row", "column"))
        KNorm("free", x, pm.HalfNormal("epsilon"), vertices=vertices, invariants=invariants, dims=("row", "column"))
        KNorm("noisy", x, 2.0, vertices=vertices, invariants=invariants, observed=table.astype(float))
    point = model.initial_point()
    assert np.array_equal(point["free"], point["x"])
    logp: Any = model.compile_logp(vars=[model["noisy"]], mode=PYTHON)
    expected = noise.KNorm(2.0, vertices).logp(table, table, invariants)
    assert logp({**point, "x": table}) == pytest.approx(expected, rel=1e-12)
    draws = pm.draw(KNorm.dist(table, 0.1, vertices=vertices, invariants=invariants), 200, random_seed=1)  # compiled
    assert draws.shape == (200, 3, 3)
    assert np.max(np.abs(invariants.matrix @ (draws - table).reshape(200, -1).T)) < 1e-10
    # Radii have mean n / epsilon = 40 and standard deviation 20: 4.5 standard errors.
    radii = SymmetricHull(vertices).gauge(invariants.coordinates(draws - table))
    assert abs(radii.mean() - 40) < 4.5 * 20 / np.sqrt(200)


def test_bad_arguments_are_named() -> None:
    invariants, vertices = moves(3, 3)
    with pytest.raises(ValueError, match="vertices have 4 coordinates, but these invariants leave 6 dimensions free"):
        KNorm.dist(np.zeros((3, 4)), 1.0, vertices=vertices, invariants=both_margins(3, 4))
    with pytest.raises(ValueError, match=r"mu must have the shape of the table, \(3, 3\), got \(3,\)"):
        KNorm.dist(np.zeros(3), 1.0, vertices=vertices, invariants=invariants)
    with pytest.raises(ValueError, match="epsilon must be finite and greater than 0"):
        KNorm.dist(np.zeros((3, 3)), 0.0, vertices=vertices, invariants=invariants)
    with pytest.raises(
        NotImplementedError, match=r"needs a dense matrix of .* numbers in the model, more than 4000000"
    ):
        table_gauge(pt.matrix(), SymmetricHull(vertices), both_margins(50, 50))
