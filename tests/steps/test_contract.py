"""What PyMC asks of a step method, and what it does not check."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import Competence

import bayesdp as bdp
from bayesdp.inference import FiberGibbs
from bayesdp.steps import LatticeNoiseGibbs, RowNoiseGibbs, reading, register
from bayesdp.steps.fiber_gibbs import ENDS
from tests.steps.models import COUNTY, RATE, TOTAL, build, release, run
from tests.steps.test_hierarchies import Case
from tests.steps.test_lattice_gibbs import Y, lattice_start
from tests.steps.test_lattice_gibbs import model_of as noise_model
from tests.steps.test_row_gibbs import model_of as row_model


class Method(NamedTuple):
    """A step method, a model with a variable of its kind, the variable's name, and a start where the prior's own will not do."""

    kind: type
    build: Callable[[], pm.Model]
    name: str
    start: dict[str, np.ndarray] | None = None


def other_base() -> pm.Model:
    """Counts whose base the kernel does not know."""
    with pm.Model(coords=COUNTY) as model:
        x = bdp.ConfidentialCounts("x", pm.ZeroInflatedPoisson.dist(psi=0.9, mu=RATE), dims="county")
        bdp.observe(release(), x)
    return model


METHODS = {
    "counts": Method(FiberGibbs, lambda: build(before=True, after=True), "x"),
    "counts of another base": Method(FiberGibbs, other_base, "x"),
    "a hierarchy": Method(FiberGibbs, lambda: Case().model(), "x"),
    "lattice noise": Method(LatticeNoiseGibbs, lambda: noise_model("l1", later=True), "z", {"z": Y - lattice_start()}),
    "row noise": Method(RowNoiseGibbs, row_model, "w"),
}
KINDS = {own.kind for own in METHODS.values()}


@cache
def built(name: str) -> pm.Model:
    return METHODS[name].build()


@pytest.fixture(params=METHODS)
def method(request, monkeypatch) -> tuple[Method, pm.Model]:
    if request.param == "a hierarchy":
        monkeypatch.setattr(reading, "HIERARCHY_CELLS", 0)
    return METHODS[request.param], built(request.param)


def begun(method, **options):
    """The step method and its model, as a chain gets them."""
    own, model = method
    with model:
        step = own.kind(**options)
    step.setup_chain(np.random.default_rng(3), 10, 10)
    return own, model, step


class TestEveryMethod:
    def test_keys_keep_their_order_and_the_point_its_values(self, method):
        own, model, step = begun(method)
        point = model.initial_point()
        for order in (list(point), list(point)[::-1]):
            given = {name: np.array(point[name]) for name in order}
            for value in given.values():
                value.setflags(write=False)  # multiprocess chains hold views of shared memory
            new, [stats] = step.step(given)
            assert list(new) == order
            assert new[own.name].shape == point[own.name].shape
            for name in order:
                np.testing.assert_array_equal(given[name], point[name])
            assert set(stats) == set(step.stats_dtypes_shapes)
            for name, (dtype, shape) in step.stats_dtypes_shapes.items():
                assert shape == []
                assert np.ndim(stats[name]) == 0
                assert np.asarray(stats[name]).dtype == dtype
                assert name.startswith(("row_noise", ENDS)) or 0.0 <= stats[name] <= 1.0  # the others are shares

    def test_sequential_chains_share_nothing(self, method):
        """PyMC resets `sampling_state` between sequential chains; what is not in it would leak."""
        own, model = method
        with model:
            step = own.kind()
        state = step.sampling_state

        def chain(seed: int) -> np.ndarray:
            step.sampling_state = state
            step.setup_chain(np.random.default_rng(seed), 12, 5)
            point, draws = model.initial_point(), []
            for i in range(17):
                if i == 12:
                    step.stop_tuning()
                point, _ = step.step(point)
                draws.append(point[own.name])
            return np.array(draws)

        first, other = chain(7), chain(8)
        np.testing.assert_array_equal(chain(7), first)
        assert not np.array_equal(first, other)

    def test_generator_state_belongs_to_the_sampling_state(self, method):
        own, model, step = begun(method)
        point, _ = step.step(model.initial_point())
        state = step.sampling_state
        first = [step.step(point)[0][own.name].copy() for _ in range(3)]
        step.sampling_state = state
        np.testing.assert_array_equal([step.step(point)[0][own.name] for _ in range(3)], first)

    def test_pickles(self, method):
        own, model, step = begun(method, sweeps=3)
        point, _ = step.step(model.initial_point())
        copy = cloudpickle.loads(cloudpickle.dumps(step))
        assert copy.sweeps == 3
        assert [variable.name for variable in copy.vars] == [own.name]
        for made in (step, copy):
            made.setup_chain(np.random.default_rng(5), 5, 5)
        np.testing.assert_array_equal(*(made.step(point)[0][own.name] for made in (step, copy)))

    def test_registered_once_and_assigned_to_its_own_kind_alone(self, method):
        own, model = method
        register()
        register()
        assert STEP_METHODS.count(own.kind) == 1
        for rv in model.free_RVs:
            for kind in KINDS:
                ideal = kind is own.kind and rv.name == own.name
                for gradient in (True, False):
                    expected = Competence.IDEAL if ideal else Competence.INCOMPATIBLE
                    assert kind.competence(rv, gradient) == expected

    def test_seeds_cores_and_chains(self, method):
        own, model = method
        one, again, forked, other = (
            run(model, seed=seed, initvals=own.start, **more)
            for seed, more in ((11, {}), (11, {}), (11, {"cores": 2, "mp_ctx": "fork"}), (12, {}))
        )
        assert set(own.kind.stats_dtypes_shapes) <= set(one.sample_stats.data_vars)
        for name, draws in one.posterior.data_vars.items():
            np.testing.assert_array_equal(draws, again.posterior[name])
            np.testing.assert_array_equal(draws, forked.posterior[name])
            assert not np.array_equal(draws, other.posterior[name])
            assert not np.array_equal(draws[0], draws[1])
        for name in own.kind.stats_dtypes_shapes:
            np.testing.assert_array_equal(one.sample_stats[name], forked.sample_stats[name])


def test_tables_of_successive_points_are_different_arrays(step, plain):
    first, _ = step.step(plain.initial_point())
    kept = first["x"].copy()
    second, _ = step.step(first)
    assert not np.shares_memory(first["x"], second["x"])
    assert not np.shares_memory(second["x"], step.tables[0].chain.counts)
    np.testing.assert_array_equal(first["x"], kept)
    assert (second["x"].dtype, second["x"].shape) == (np.int64, (4,))


def test_points_off_the_fiber_come_back_and_those_changed_from_outside_are_taken_up(step, plain):
    new, _ = step.step({"x": np.array([1000, 0, 0, 0])})
    assert new["x"].sum() == TOTAL
    step.tables[0].chain.counts[:] = [0, 0, 0, TOTAL + 5]  # what another chain might have left behind
    assert step.step(new)[0]["x"].sum() == TOTAL


class TestAssignment:
    def test_user_options_arrive(self, plain):
        run(plain, draws=5, tune=5, fiber_gibbs={"sweeps": 7})
        for sweeps, error in ((0, ValueError), (1.5, TypeError)):
            with plain, pytest.raises(error, match="sweeps"):
                FiberGibbs(sweeps=sweeps)

    def test_variables_may_be_random_or_value_variables(self, mixed):
        with mixed:
            for given in ([mixed["x"]], [mixed.rvs_to_values[mixed["x"]]]):
                assert FiberGibbs(given).vars == [mixed.rvs_to_values[mixed["x"]]]

    def test_other_variables_are_refused(self, mixed):
        with mixed, pytest.raises(TypeError, match="'scale_log__' is not one"):
            FiberGibbs([mixed["scale"]])
        with pm.Model() as other:
            y = pm.Poisson("y", 3.0)
        with other, pytest.raises(TypeError, match="'y' is not one"):
            FiberGibbs([y])
