"""What PyMC asks of a step method, and what it does not check."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import Competence

import bayesdp as bdp
from bayesdp.inference import FiberGibbs
from bayesdp.steps import register
from tests.steps.models import COUNTY, RATE, TOTAL, build, release, run, start_of


class TestOneStep:
    def test_keys_keep_their_order_and_the_point_its_values(self, mixed):
        with mixed:
            step = FiberGibbs()
        step.setup_chain(np.random.default_rng(1), 10, 10)
        point = start_of(mixed)
        for order in (list(point), list(point)[::-1]):
            given = {name: point[name] for name in order}
            kept = {name: value.copy() for name, value in given.items()}
            for value in given.values():
                value.setflags(write=False)  # multiprocess chains hold views of shared memory
            new, _ = step.step(given)
            assert list(new) == order
            for name, value in kept.items():
                np.testing.assert_array_equal(given[name], value)
            for value in given.values():
                value.setflags(write=True)

    def test_tables_of_successive_points_are_different_arrays(self, step, plain):
        first, _ = step.step(start_of(plain))
        kept = first["x"].copy()
        second, _ = step.step(first)
        assert not np.shares_memory(first["x"], second["x"])
        assert not np.shares_memory(second["x"], step.tables[0].chain.counts)
        np.testing.assert_array_equal(first["x"], kept)
        assert second["x"].dtype == np.int64
        assert second["x"].shape == (4,)

    def test_one_dictionary_of_scalar_statistics(self, step, plain):
        _, stats = step.step(start_of(plain))
        [own] = stats
        assert set(own) == set(FiberGibbs.stats_dtypes_shapes)
        for name, (dtype, shape) in FiberGibbs.stats_dtypes_shapes.items():
            assert shape == []
            assert np.ndim(own[name]) == 0
            assert np.asarray(own[name]).dtype == dtype
            assert 0.0 <= own[name] <= 1.0
            assert name.startswith("fiber_")

    def test_off_the_fiber_it_comes_back_at_the_first_step(self, step, plain):
        new, _ = step.step({"x": np.array([1000, 0, 0, 0])})
        assert new["x"].sum() == TOTAL

    def test_a_point_changed_from_outside_is_taken_up(self, step, plain):
        point, _ = step.step(start_of(plain))
        step.tables[0].chain.counts[:] = [0, 0, 0, TOTAL + 5]  # what another chain might have left behind
        new, _ = step.step(point)
        assert new["x"].sum() == TOTAL

    def test_sequential_chains_share_nothing(self, plain):
        # PyMC resets `sampling_state` between sequential chains; what is not in it would leak.
        with plain:
            step = FiberGibbs()
        state = step.sampling_state

        def chain(seed: int) -> np.ndarray:
            step.sampling_state = state
            step.setup_chain(np.random.default_rng(seed), 5, 5)
            point, draws = start_of(plain), []
            for _ in range(5):
                point, _ = step.step(point)
                draws.append(point["x"])
            return np.array(draws)

        first = chain(7)
        other = chain(8)
        np.testing.assert_array_equal(chain(7), first)
        assert not np.array_equal(first, other)

    def test_generator_state_belongs_to_the_sampling_state(self, step, plain):
        point, _ = step.step(start_of(plain))
        state = step.sampling_state
        first = [step.step(point)[0]["x"].copy() for _ in range(3)]
        step.sampling_state = state
        again = [step.step(point)[0]["x"].copy() for _ in range(3)]
        np.testing.assert_array_equal(first, again)

    def test_pickles_with_and_without_a_generic_part(self, plain):
        with pm.Model(coords=COUNTY) as generic:
            x = bdp.ConfidentialCounts("x", pm.ZeroInflatedPoisson.dist(psi=0.9, mu=RATE), dims="county")
            bdp.observe(release(), x)
        for model in (plain, generic):
            with model:
                step = FiberGibbs(sweeps=3)
            point, _ = step.step(start_of(model))
            copy = cloudpickle.loads(cloudpickle.dumps(step))
            assert copy.sweeps == 3
            assert [v.name for v in copy.vars] == ["x"]
            for made in (step, copy):
                made.setup_chain(np.random.default_rng(5), 5, 5)
            a, b = (made.step(point)[0]["x"] for made in (step, copy))
            np.testing.assert_array_equal(a, b)


class TestAssignment:
    def test_registered_once(self):
        register()
        register()
        assert STEP_METHODS.count(FiberGibbs) == 1

    def test_claims_counts_and_nothing_else(self, mixed):
        for rv in mixed.free_RVs:
            expected = Competence.IDEAL if rv.name == "x" else Competence.INCOMPATIBLE
            assert FiberGibbs.competence(rv, True) == expected
            assert FiberGibbs.competence(rv, False) == expected
        assert FiberGibbs._competence([mixed["x"]], [False]) == [Competence.IDEAL]

    def test_pymc_assigns_it_and_nuts(self, mixed):
        tree = run(mixed, draws=5, tune=5)
        assert {"fiber_changed", "fiber_accepted", "tree_depth"} <= set(tree.sample_stats.data_vars)
        assert tree.sample_stats["fiber_changed"].dims == ("chain", "draw")

    def test_user_options_arrive(self, plain):
        tree = run(plain, draws=5, tune=5, fiber_gibbs={"sweeps": 7})
        assert tree.posterior.sizes["draw"] == 5
        with plain:
            with pytest.raises(ValueError, match="sweeps"):
                FiberGibbs(sweeps=0)
            with pytest.raises(TypeError, match="sweeps"):
                FiberGibbs(sweeps=1.5)

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

    def test_says_what_it_guarantees(self, plain):
        with plain:
            [(name, claim)] = FiberGibbs().connectivity.items()
        assert name == "x"
        assert claim["proved"] is True
        assert "pair moves" in claim["claim"]


class TestReproducibility:
    def test_seeds_cores_and_chains(self, mixed):
        one = run(mixed, seed=11)
        again = run(mixed, seed=11)
        forked = run(mixed, seed=11, cores=2, mp_ctx="fork")
        other = run(mixed, seed=12)
        for name in ("x", "scale", "later"):
            np.testing.assert_array_equal(one.posterior[name], again.posterior[name])
            np.testing.assert_array_equal(one.posterior[name], forked.posterior[name])
            assert not np.array_equal(one.posterior[name], other.posterior[name])
            assert not np.array_equal(one.posterior[name][0], one.posterior[name][1])
        assert (one.posterior["x"].sum("county") == TOTAL).all()
        np.testing.assert_array_equal(one.sample_stats["fiber_changed"], forked.sample_stats["fiber_changed"])

    @pytest.mark.slow
    def test_spawned_processes_give_the_same_counts(self):
        model = build(before=False)
        one = run(model, seed=11)
        spawned = run(model, seed=11, cores=2, mp_ctx="spawn")
        np.testing.assert_array_equal(one.posterior["x"], spawned.posterior["x"])
