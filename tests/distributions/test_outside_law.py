"""Laws that are defined outside of the package: a file of a law and a decorated class give all that laws of the package have."""

import pickle
from importlib import import_module
from inspect import signature

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from bayesdp import distributions, noise
from bayesdp.distributions import distribution_of, registry
from bayesdp.invariants import Invariants
from bayesdp.noise import NoiseLaw, base, parse_law
from bayesdp.queries import Totals
from bayesdp.steps.noise_gibbs import LatticeNoiseGibbs, NoiseTable
from tests.comparison.enumeration import probabilities
from tests.noise.oracles import all_margins, frame_of
from tests.refusals import refused

TOTAL = Invariants(Totals(frame_of(3)))
CENTRE, NINE = np.array([4, 9, 2]), np.zeros((3, 3))
CONSTANT = "epsilon must be a constant here: .* 'outside-lattice-maximum' with"
OFF, OTHER = CENTRE + np.array([[1, 0, 0], [1, 1, -2]])


@pytest.fixture(scope="module", autouse=True)
def outside():
    """The module of the law, whose names the registries forget afterwards."""
    module = import_module("tests.distributions.outside_law")  # registers
    yield module
    base._REGISTRY.pop(module.LatticeMaximum.name)
    registry._DISTRIBUTIONS.pop(module.LatticeMaximum)


class Softer(noise.LatticeLaplace):
    """A law that states nothing but its base."""


def test_it_is_registered_by_name_and_has_a_distribution_without_any_other_line(outside):
    law = outside.LatticeMaximum(0.7)
    assert NoiseLaw.from_description(law.describe()) == law == parse_law("outside-lattice-maximum epsilon=0.7")
    assert law != outside.LatticeMaximum(0.8)
    assert distribution_of(outside.LatticeMaximum) is outside.LatticeMaximumNoise
    assert list(signature(outside.LatticeMaximumNoise.dist).parameters) == ["mu", "epsilon", "invariants", "kwargs"]
    made = distribution_of(Softer)
    assert distribution_of(Softer) is made
    for thing in (made, made.rv_type):
        assert pickle.loads(pickle.dumps(thing)) is cloudpickle.loads(cloudpickle.dumps(thing)) is thing
    variable = made.dist(CENTRE, 0.7, invariants=TOTAL)
    assert pm.logp(variable, OTHER).eval() == pytest.approx(Softer(0.7).logp(OTHER, CENTRE, TOTAL), rel=1e-12)
    assert made.__doc__.startswith("A law that states nothing but its base.")

    class Silent(NoiseLaw):
        name = "silent"

    base._REGISTRY.pop("silent")
    with pytest.raises(NotImplementedError, match="no PyMC distribution is registered for the noise law 'silent'"):
        distribution_of(Silent)


def test_log_mass_against_brute_force(outside):
    epsilon, value, make = pt.scalar("epsilon"), pt.lvector("value"), outside.LatticeMaximumNoise.dist
    graphs = [pm.logp(make(CENTRE, scale, invariants=TOTAL), value) for scale in (0.7, epsilon)]
    evaluate = pytensor.function([value, epsilon], [*graphs, pt.grad(graphs[1], epsilon)])
    points = outside.triples(70)  # all noise with mass above 1e-17
    sizes = np.abs(points).max(axis=1)
    chosen, logs = sizes <= 2, np.log(probabilities(-0.7 * sizes))
    assert chosen.sum() == 19
    for point, expected in zip(points[chosen], logs[chosen], strict=True):
        by_constant, by_variable, slope = evaluate(CENTRE + point, 0.7)
        by_law = outside.LatticeMaximum(0.7).logp(CENTRE + point, CENTRE, TOTAL)
        assert [by_constant, by_variable, by_law] == pytest.approx([expected] * 3, rel=1e-12)
        # The derivative of the log-mass is the mean of the maximum, minus this one.
        assert slope == pytest.approx(np.exp(logs) @ sizes - np.abs(point).max(), abs=1e-10)
    assert outside.LatticeMaximum(0.7).logp(OFF, CENTRE, TOTAL) == -np.inf
    assert np.isfinite(evaluate(OFF, 0.7)[0])  # membership is decided by the exact part of a model


def test_in_a_model(outside):
    with pm.Model() as model:
        epsilon, x = pm.HalfNormal("epsilon"), pm.Poisson("x", 5.0, shape=3)
        outside.LatticeMaximumNoise("noisy", x, epsilon, invariants=TOTAL, observed=CENTRE)
    assert "noisy ~ LatticeMaximum(x, epsilon)" in model.str_repr()
    point = {"epsilon_log__": np.log(0.7), "x": OTHER}
    expected = outside.LatticeMaximum(0.7).logp(CENTRE, OTHER, TOTAL)
    for own in (model, pickle.loads(cloudpickle.dumps(model))):
        assert own.compile_logp(vars=[own["noisy"]])(point) == pytest.approx(expected, rel=1e-12)


test_bad_arguments_are_named = refused(
    (lambda own: own.LatticeMaximumNoise.dist(NINE, pt.dscalar(), invariants=all_margins(3, 3)), NotImplementedError, CONSTANT),
    (lambda own: own.LatticeMaximumNoise.dist(CENTRE, invariants=TOTAL), TypeError, "required argument: 'epsilon'"),
    (lambda own: own.LatticeMaximumNoise.dist(CENTRE, 0.7), TypeError, r"required.*argument: 'invariants'"),
    (lambda own: own.LatticeMaximumNoise.dist([1, 2], 0.7, invariants=TOTAL), ValueError, r"mu must .*, \(3,\), got \(2,\)"),
    (lambda own: own.LatticeMaximum(0.7).logp(CENTRE, CENTRE), TypeError, "maximum' needs invariants"),
    (lambda own: own.LatticeMaximum(0.7).draw(1, (3,), None, TOTAL, [0.5, 0, 0]), ValueError, "must hold whole numbers"),
    of=lambda call: call(import_module("tests.distributions.outside_law")),
)  # fmt: skip


def test_latent_noise_moves_by_the_form_that_the_law_states(outside):
    class ByScale(noise.LatticeLaplace):
        kernel_form = noise.KernelForm("l1", of_scale=True)

        def log_kernel(self, xp, measured, scale, invariants):
            return super().log_kernel(xp, measured, 1.0 / scale, invariants)

        def kernel_of(self, invariants):
            return self.kernel_form

    made = distributions.distribution_of(ByScale)
    registry._DISTRIBUTIONS.pop(ByScale)
    with pm.Model() as model:
        variables = [
            outside.LatticeMaximumNoise("unknown", CENTRE, 0.7, invariants=TOTAL),
            made("scale", CENTRE, 4.0, invariants=TOTAL),
            distributions.LatticeLaplace("rate", CENTRE, 0.25, invariants=TOTAL),
        ]
    assert [own.owner.op.moved_only_by for own in variables] == ["", "LatticeNoiseGibbs", "LatticeNoiseGibbs"]
    assert [LatticeNoiseGibbs.belongs(own) for own in variables] == [False, True, True]
    unknown = "unknown cannot be sampled: no step method keeps latent noise of this law"
    with pytest.raises(ValueError, match=unknown), model:
        pm.Metropolis([variables[0]])
    tables = [NoiseTable(model, model.rvs_to_values[own], np.random.default_rng(1), {}) for own in variables[1:]]
    for table in tables:
        table.refresh(model.initial_point(), OTHER)
    np.testing.assert_array_equal(tables[0].state.rows, tables[1].state.rows)


def test_without_docstrings_nothing_breaks_and_the_kind_of_a_distribution_is_that_of_its_law(monkeypatch):
    monkeypatch.setattr(noise.Laplace, "__doc__", None)  # as by python -OO
    assert registry.distribution_doc(noise.Laplace, None, "Laplace", ["mu", "b"]).startswith("Parameters\n")
    wrong = r"Wrong must be a subclass of pymc\.Discrete, as the law 'discrete-laplace' is"
    with pytest.raises(TypeError, match=wrong):

        @distributions.scalar_distribution(noise.DiscreteLaplace)
        class Wrong(pm.Continuous):
            """Of real numbers."""
