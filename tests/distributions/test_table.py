"""The laws that keep invariants as PyMC distributions, against `bayesdp.noise`.

`bayesdp.noise` itself is compared with enumeration in tests/noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from bayesdp import noise
from bayesdp.distributions import LatticeGaussian, LatticeLaplace, ProjectedGaussian
from bayesdp.invariants import Invariants
from bayesdp.queries import Totals
from tests.noise.oracles import all_margins, frame_of

PAIR = all_margins(2, 2)
SUM = all_margins(2, 3)
OPEN = all_margins(3, 3)
TOTAL = Invariants(Totals(frame_of(2, 3)))

# The same graphs without numba's seconds of compilation.
PYTHON = Mode(linker="py", optimizer="fast_compile")
CASES = {
    "l1": (lambda mu, s, inv: LatticeLaplace.dist(mu, s, invariants=inv), noise.LatticeLaplace),
    "l2": (
        lambda mu, s, inv: LatticeLaplace.dist(mu, s, invariants=inv, norm="l2"),
        lambda s: noise.LatticeLaplace(s, "l2"),
    ),
    "gaussian": (lambda mu, s, inv: LatticeGaussian.dist(mu, s, invariants=inv), noise.LatticeGaussian),
    "projected": (lambda mu, s, inv: ProjectedGaussian.dist(mu, s, invariants=inv), noise.ProjectedGaussian),
}


def two_tables(invariants: Invariants) -> tuple[Any, Any]:
    """A table, and another with the same invariants."""
    shape = invariants.frame.shape
    table = np.arange(invariants.frame.size).reshape(shape)
    other = table.copy()
    other[0, 0] += 2
    other[0, 1] -= 2
    other[1, 0] -= 2
    other[1, 1] += 2
    return table, other


@pytest.mark.parametrize("invariants", [PAIR, SUM, OPEN, TOTAL], ids=repr)
@pytest.mark.parametrize("case", CASES)
def test_log_mass_with_a_constant_scale(case: str, invariants: Invariants) -> None:
    make, law = CASES[case]
    table, other = two_tables(invariants)
    found = pm.logp(make(table, 0.7, invariants), other).eval(mode=PYTHON)
    assert found == pytest.approx(law(0.7).logp(other, table, invariants), rel=1e-12)


@pytest.mark.parametrize(
    ("case", "invariants"),
    [("l1", SUM), ("l1", TOTAL), ("l2", PAIR), ("gaussian", PAIR), ("gaussian", TOTAL), ("projected", OPEN)],
)
def test_log_mass_and_gradient_with_an_unknown_scale(case: str, invariants: Invariants) -> None:
    make, law = CASES[case]
    table, other = two_tables(invariants)
    scale = pt.scalar("scale")
    logp = pm.logp(make(table, scale, invariants), other)
    evaluate = pytensor.function([scale], [logp, pt.grad(logp, scale)], mode=PYTHON)
    for value in [0.3, 0.8, 1.99999, 2.0, 3.0, 40.0]:
        expected = law(value).logp(other, table, invariants)
        step = 1e-6 * value
        slope = (
            law(value + step).logp(other, table, invariants) - law(value - step).logp(other, table, invariants)
        ) / (2 * step)
        found, gradient = evaluate(value)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert gradient == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("case", ["l2", "gaussian", "projected"])
def test_gradient_in_the_location(case: str) -> None:
    make, _ = CASES[case]
    table, other = two_tables(OPEN)
    mu = pt.matrix("mu", shape=(3, 3))
    logp = pm.logp(make(mu, 0.7, OPEN), other)
    evaluate = pytensor.function([mu], [logp, pt.grad(logp, mu)], mode=PYTHON)
    start = table + 0.1 * np.arange(9).reshape(3, 3)
    _, gradient = evaluate(start)
    for index in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[index] = 1e-5
        slope = (evaluate(start + step)[0] - evaluate(start - step)[0]) / 2e-5
        assert gradient[index] == pytest.approx(slope, rel=1e-6, abs=1e-7)
    assert np.array_equal(evaluate(other.astype(float))[1], np.zeros((3, 3)))  # zero, not NaN, at the centre


@pytest.mark.parametrize("case", CASES)
def test_log_mass_is_finite_off_the_lattice(case: str) -> None:
    # The exact part of a model decides membership; the noise terms only have to be numbers there.
    make, law = CASES[case]
    table, other = two_tables(OPEN)
    other[0, 0] += 1
    assert law(0.7).logp(other, table, OPEN) == -math.inf
    assert np.isfinite(pm.logp(make(table, 0.7, OPEN), other).eval())


@pytest.mark.parametrize(("case", "name"), [("l1", "epsilon"), ("l2", "epsilon"), ("gaussian", "sigma")])
def test_an_unknown_scale_needs_a_normaliser(case: str, name: str) -> None:
    make, _ = CASES[case]
    large = all_margins(5, 5)
    with pytest.raises(NotImplementedError, match=f"{name} must be a constant here.*neither a closed form nor.*16"):
        make(np.zeros((5, 5), dtype=int), pt.scalar(name), large)
    assert np.isfinite(pm.logp(make(np.zeros((5, 5), dtype=int), 0.7, large), np.zeros((5, 5))).eval(mode=PYTHON))


def test_ops_with_other_invariants_or_norms_are_other_ops() -> None:
    # PyTensor merges and caches Ops that are equal: every parameter must be in __props__.
    table, other = two_tables(SUM)
    variables = [
        LatticeLaplace.dist(table, 0.7, invariants=SUM),
        LatticeLaplace.dist(table, 0.7, invariants=SUM, norm="l2"),
        LatticeLaplace.dist(table, 0.7, invariants=TOTAL),
        LatticeLaplace.dist(table, 0.7, invariants=all_margins(2, 3)),
    ]
    ops = [variable.owner.op for variable in variables]
    assert ops[0] == ops[3]
    assert hash(ops[0]) == hash(ops[3])
    assert len({*ops}) == 3
    both = pytensor.function([], [pm.logp(variable, other) for variable in variables], mode=PYTHON)()
    assert both[0] != both[1] != both[2] != both[0]
    assert both[0] == both[3]


def test_projected_draws_keep_the_invariants_and_differ() -> None:
    rng = pytensor.shared(np.random.default_rng(1))
    location = np.arange(6.0).reshape(2, 3)
    mu = np.stack([location, location + 5])
    variable = ProjectedGaussian.dist(mu, np.array([1.0, 100.0]), invariants=SUM, shape=(300, 2, 2, 3), rng=rng)
    draws = pytensor.function([], variable)()
    assert draws.shape == (300, 2, 2, 3)
    noise_only = (draws - mu).reshape(-1, 6)
    assert np.max(np.abs(SUM.matrix @ noise_only.T)) < 1e-9
    deviations = (draws - mu).std(axis=(0, 2, 3))
    # Variances are 1/3 of sigma**2; 1800 dependent numbers each, six standard errors are below 20%.
    assert deviations / [1.0, 100.0] == pytest.approx([math.sqrt(1 / 3)] * 2, rel=0.2)


@pytest.mark.parametrize(("case", "invariants"), [("l1", TOTAL), ("gaussian", PAIR)])
def test_lattice_draws_keep_the_invariants_and_differ(case: str, invariants: Invariants) -> None:
    make, law = CASES[case]
    table, _ = two_tables(invariants)
    scale = 0.7 if case == "l1" else 5.0
    draws = pm.draw(make(table, scale, invariants), 50, random_seed=2)
    assert draws.shape == (50, *table.shape)
    assert draws.dtype == np.int64
    assert all(law(scale).logp(draw, table, invariants) > -math.inf for draw in draws)
    assert len(np.unique(draws, axis=0)) > 5


def test_in_a_model() -> None:
    table, other = two_tables(SUM)
    with pm.Model(coords=SUM.frame.coords) as model:
        x = pm.Poisson("x", 5.0, dims=("d0", "d1"))
        sigma = pm.HalfNormal("sigma", 2.0)
        free = ProjectedGaussian("free", x, sigma, invariants=SUM, dims=("d0", "d1"))
        ProjectedGaussian("noisy", x, 2.0, invariants=SUM, observed=other.astype(float), dims=("d0", "d1"))
        LatticeLaplace("whole", x, 0.5, invariants=SUM, observed=other, dims=("d0", "d1"))
    point = model.initial_point()
    assert np.array_equal(point["free"], point["x"])
    logp = model.compile_logp(vars=[model["noisy"], model["whole"]])({**point, "x": table})
    expected = noise.ProjectedGaussian(2.0).logp(other, table, SUM)
    assert logp == pytest.approx(expected + noise.LatticeLaplace(0.5).logp(other, table, SUM), rel=1e-12)
    predictive = pm.sample_prior_predictive(4, model=model, var_names=["free", "noisy"], random_seed=1)
    assert predictive.prior["free"].dims == ("chain", "draw", "d0", "d1")
    assert "LatticeLaplace(x, 0.5)" in model.str_repr()
    copied = model.copy()
    assert copied.compile_logp()(point) == pytest.approx(model.compile_logp()(point), rel=1e-14)
    assert free.dtype == "float64"


def test_bad_arguments_are_named() -> None:
    table = np.zeros((3, 3), dtype=int)
    with pytest.raises(TypeError, match=r"invariants must be a bayesdp\.Invariants, got str"):
        LatticeLaplace.dist(table, 0.5, invariants="margins")
    with pytest.raises(ValueError, match=r"mu must have the shape of the table, \(2, 3\), got \(3, 3\)"):
        ProjectedGaussian.dist(table, 0.5, invariants=SUM)
    with pytest.raises(ValueError, match=r"mu must have the shape of the table, \(2, 3\), got \(3,\)"):
        LatticeGaussian.dist(table[0], 0.5, invariants=SUM)
    with pytest.raises(ValueError, match="norm must be one of 'l1', 'l2', got 'max'"):
        LatticeLaplace.dist(table, 0.5, invariants=OPEN, norm="max")
    with pytest.raises(ValueError, match=r"epsilon must be finite and greater than 0, got 0\.0"):
        LatticeLaplace.dist(table, 0.0, invariants=OPEN)
