"""Models and steps through `cloudpickle`, `copy.deepcopy` and other ways of starting processes are what they were before."""

import copy
import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode

import bayesdp as bdp
from bayesdp import distributions, noise, steps
from tests.inference.oracle import GRID, three_counties
from tests.noise.contract.examples import example_of
from tests.noise.contract.use_checks import model_of, released

SLOW = pytest.mark.slow
PLAIN = Mode(linker="py", optimizer=None)
"""Nothing is compiled: most of these models are asked for their log-density once."""


def poisson(name):
    example = example_of(name)
    return model_of(released(example.law, example.values))


def with_rates(law):
    release = three_counties(law=law)
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2.0, 1.0, dims=release.dims)
        pm.Deterministic("share", rate / rate.sum())
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims))
    return model


def flat():
    release = three_counties()
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.FlatCounts("x", dims=release.dims))
    return model


def latent_lattice():
    """Noise that is a variable of the model, with a step of its own."""
    margins = bdp.Invariants(bdp.Margins(GRID, ["county"], ["education"]))
    with pm.Model() as model:
        z = distributions.LatticeLaplace("z", np.zeros((2, 3), dtype=int), 0.5, invariants=margins, norm="l1")
        pm.Potential("prior", pm.logp(pm.Poisson.dist(3.0), np.array([[4, 1, 7], [2, 6, 3]]) - z).sum())
    return model


def through_pickle(own):
    return pickle.loads(cloudpickle.dumps(own))


def terms(model):
    """The log-density of every variable and potential at a point."""
    point = model.initial_point(random_seed=1)
    return [float(np.sum(own)) for own in model.compile_fn(model.logp(sum=False), mode=PLAIN)(point)]


def assert_pickles(model):
    again = through_pickle(model)
    assert list(again.named_vars) == list(model.named_vars)
    ours, theirs = ({dim: list(own or ()) for dim, own in one.coords.items()} for one in (model, again))
    assert ours == theirs
    expected = terms(model)
    assert all(np.isfinite(expected))
    np.testing.assert_array_equal(terms(again), expected)
    # What PyMC hangs on models and variables, and pickle could not write.
    assert again.str_repr() == model.str_repr()
    assert again._repr_latex_() == model._repr_latex_()
    assert all(rv._repr_latex_() is not None for rv in again.free_RVs)


@pytest.fixture(scope="module")
def mixed():
    """NUTS for the rates, a step for the counts, and one for the row-space noise."""
    model = with_rates(noise.ProjectedLaplace(1.5))
    assert [rv.name for rv in model.free_RVs] == ["rate", "x", "noisy_rows"]
    return model


def test_models_of_other_kinds_and_deep_copies(mixed):
    for model in (mixed, flat(), latent_lattice()):
        assert_pickles(model)
    # PyMC's copy has its observed variables in another order.
    again = copy.deepcopy(mixed)
    np.testing.assert_array_equal(sorted(terms(again)), sorted(terms(mixed)))
    assert {rv.name for rv in again.free_RVs} == {rv.name for rv in mixed.free_RVs}
    with again:
        assert copy.deepcopy(steps.FiberGibbs()).vars[0].name == "x"


@pytest.mark.system
@pytest.mark.parametrize("name", noise.law_names().split(", "))
def test_models_of_every_law(name):
    assert_pickles(poisson(name))


def drawn(step, point):
    """What a step does to a point, three times over, from a generator of its own."""
    step.setup_chain(np.random.default_rng(5), 5, 5)
    found = []
    for _ in range(3):
        point, _ = step.step(point)
        found += [np.array(value) for value in point.values()]
    return found


@pytest.mark.parametrize("name", ["tulap", "canonical", "k-norm", "boundary-inflated-discrete-laplace", "a rate"])
def test_steps_with_what_they_compiled(name):
    """Terms of windows, terms that the kernel does not know, and parameters that are variables."""
    model = with_rates(noise.DiscreteLaplace(2.0)) if name == "a rate" else poisson(name)
    with model:
        step = steps.FiberGibbs()
    point = model.initial_point(random_seed=1)
    for one, other in zip(drawn(step, point), drawn(through_pickle(step), point), strict=True):
        np.testing.assert_array_equal(one, other)


def draws(model, **own):
    given = {"chains": 2, "random_seed": 3, "progressbar": False, "quiet": True, "nuts_sampler": "pymc"}
    with model:
        return bdp.sample(draws=8, tune=8, **given, **own)["posterior"].to_dataset()


def test_nuts_keeps_one_mass_matrix_and_the_same_seed_gives_the_same_draws(mixed):
    """The matrix is tuned in one place, and used in another."""
    with mixed:
        step = through_pickle(pm.NUTS([mixed["rate"]]))
    assert step.integrator._potential is step.potential
    expected, found = draws(mixed, cores=1), draws(through_pickle(mixed), cores=1)
    assert float(expected["rate"].std()) > 0
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.system
@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=SLOW), pytest.param("forkserver", marks=SLOW)])
def test_the_other_ways_of_starting_processes(context):
    model = flat()
    found = draws(through_pickle(model), cores=2, mp_ctx=context)
    np.testing.assert_array_equal(found["x"], draws(model, cores=1)["x"])
