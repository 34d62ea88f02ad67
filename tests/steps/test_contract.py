"""What PyMC asks of a step method, and what it does not check."""

from functools import cache
from itertools import product
from typing import NamedTuple

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import Competence

from bayesdp.inference import FiberGibbs
from bayesdp.steps import LatticeNoiseGibbs, RowNoiseGibbs, reading, register
from bayesdp.steps.fiber_gibbs import ENDS
from tests.inference.oracle import counts_model
from tests.steps.models import RATE, TOTAL, begun, build, release, run
from tests.steps.test_hierarchies import Case
from tests.steps.test_lattice_gibbs import START, Y
from tests.steps.test_lattice_gibbs import model_of as noise_model
from tests.steps.test_row_gibbs import model_of as row_model


class Method(NamedTuple):
    """A step method, a model with a variable of its kind, the variable's name, and a start where the prior's own will not do."""

    kind: type
    model: pm.Model
    name: str
    start: dict[str, np.ndarray] | None = None

    def step(self, **options):
        """As a chain gets it."""
        with self.model:
            return begun(self.kind(**options))


def other_base():
    """Counts whose base the kernel does not know."""
    return counts_model(release(), pm.ZeroInflatedPoisson.dist(psi=0.9, mu=RATE))


METHODS = {
    "counts": lambda: Method(FiberGibbs, build(before=True, after=True), "x"),
    "counts of another base": lambda: Method(FiberGibbs, other_base(), "x"),
    "a hierarchy": lambda: Method(FiberGibbs, Case().model(), "x"),
    "lattice noise": lambda: Method(LatticeNoiseGibbs, noise_model("l1", later=True), "z", {"z": Y - START}),
    "row noise": lambda: Method(RowNoiseGibbs, row_model(), "w"),
}
KINDS = {FiberGibbs, LatticeNoiseGibbs, RowNoiseGibbs}
built = cache(lambda name: METHODS[name]())


@pytest.fixture(params=METHODS)
def method(request, monkeypatch):
    if request.param == "a hierarchy":
        monkeypatch.setattr(reading, "HIERARCHY_CELLS", 0)
    return built(request.param)


class TestEveryMethod:
    def test_keys_keep_their_order_and_the_point_its_values(self, method):
        model, step = method.model, method.step()
        point = model.initial_point()
        for order in (list(point), list(point)[::-1]):
            given = {name: np.array(point[name]) for name in order}
            for value in given.values():
                value.setflags(write=False)  # multiprocess chains hold views of shared memory
            new, [stats] = step.step(given)
            assert list(new) == order
            assert new[method.name].shape == point[method.name].shape
            for name in order:
                np.testing.assert_array_equal(given[name], point[name])
            assert set(stats) == set(step.stats_dtypes_shapes)
            for name, (dtype, shape) in step.stats_dtypes_shapes.items():
                assert shape == list(np.shape(stats[name])) == []
                assert np.asarray(stats[name]).dtype == dtype
                assert name.startswith(("row_noise", ENDS)) or 0.0 <= stats[name] <= 1.0  # the others are shares

    def test_sequential_chains_share_nothing(self, method):
        """PyMC resets `sampling_state` between sequential chains; what is not in it would leak."""
        model, step = method.model, method.step()
        state = step.sampling_state

        def chain(seed):
            step.sampling_state = state
            step.setup_chain(np.random.default_rng(seed), 12, 5)
            point, draws = model.initial_point(), []
            for i in range(17):
                if i == 12:
                    step.stop_tuning()
                point, _ = step.step(point)
                draws.append(point[method.name])
            return np.array(draws)

        first, other = chain(7), chain(8)
        np.testing.assert_array_equal(chain(7), first)
        assert not np.array_equal(first, other)

    def test_generator_state_belongs_to_the_sampling_state_and_it_pickles(self, method):
        step = method.step(sweeps=3)
        point, _ = step.step(method.model.initial_point())
        state = step.sampling_state
        first = [step.step(point)[0][method.name].copy() for _ in range(3)]
        step.sampling_state = state
        np.testing.assert_array_equal([step.step(point)[0][method.name] for _ in range(3)], first)
        copy = cloudpickle.loads(cloudpickle.dumps(step))
        assert copy.sweeps == 3
        assert [variable.name for variable in copy.vars] == [method.name]
        for made in (step, copy):
            made.setup_chain(np.random.default_rng(5), 5, 5)
        np.testing.assert_array_equal(*(made.step(point)[0][method.name] for made in (step, copy)))

    def test_registered_once_and_assigned_to_its_own_kind_alone(self, method):
        register()
        register()
        assert STEP_METHODS.count(method.kind) == 1
        for rv, kind, gradient in product(method.model.free_RVs, KINDS, (True, False)):
            ideal = kind is method.kind and rv.name == method.name
            assert kind.competence(rv, gradient) == (Competence.IDEAL if ideal else Competence.INCOMPATIBLE)

    def test_seeds_cores_and_chains(self, method):
        """Chains of other processes are another run with the same seed."""
        one, forked, other = (
            run(method.model, 15, tune=10, seed=seed, initvals=method.start, **more)
            for seed, more in ((11, {}), (11, {"cores": 2, "mp_ctx": "fork"}), (12, {}))
        )
        assert set(method.kind.stats_dtypes_shapes) <= set(one.sample_stats.data_vars)
        for name, draws in one.posterior.data_vars.items():
            np.testing.assert_array_equal(draws, forked.posterior[name])
            assert not np.array_equal(draws, other.posterior[name])
            assert not np.array_equal(draws[0], draws[1])
        for name in method.kind.stats_dtypes_shapes:
            np.testing.assert_array_equal(one.sample_stats[name], forked.sample_stats[name])


def test_tables_of_successive_points_are_different_arrays_and_points_from_outside_are_taken_up(step, plain):
    first, _ = step.step(plain.initial_point())
    kept = first["x"].copy()
    second, _ = step.step(first)
    assert not np.shares_memory(first["x"], second["x"])
    assert not np.shares_memory(second["x"], step.tables[0].chain.counts)
    np.testing.assert_array_equal(first["x"], kept)
    assert (second["x"].dtype, second["x"].shape) == (np.int64, (4,))
    new, _ = step.step({"x": np.array([1000, 0, 0, 0])})
    assert new["x"].sum() == TOTAL
    step.tables[0].chain.counts[:] = [0, 0, 0, TOTAL + 5]  # what another chain might have left behind
    assert step.step(new)[0]["x"].sum() == TOTAL


def test_options_and_variables_of_the_user(plain, mixed):
    run(plain, draws=5, tune=5, fiber_gibbs={"sweeps": 7})
    for sweeps, error in ((0, ValueError), (1.5, TypeError)):
        with plain, pytest.raises(error, match="sweeps"):
            FiberGibbs(sweeps=sweeps)
    value = mixed.rvs_to_values[mixed["x"]]
    for given in (mixed["x"], value):
        assert FiberGibbs([given], model=mixed).vars == [value]
    with pytest.raises(TypeError, match="'scale_log__' is not one"):
        FiberGibbs([mixed["scale"]], model=mixed)
    with pm.Model():
        y = pm.Poisson("y", 3.0)
        with pytest.raises(TypeError, match="'y' is not one"):
            FiberGibbs([y])
