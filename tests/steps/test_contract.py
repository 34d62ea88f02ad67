"""What PyMC asks of a step method, and what it does not check."""

from __future__ import annotations

import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import Competence, CompoundStep

import bayesdp as bdp
from bayesdp.inference import FiberGibbs, annotate, releases_of
from bayesdp.steps.fiber_gibbs import register

COUNTY = {"county": ["p", "q", "r", "s"]}
PUBLISHED = np.array([11, 19, 6, 2])
TOTAL = 40
RATE = np.array([10.0, 20.0, 5.0, 8.0])
"""Adds up to 43: the start that PyMC takes from the prior is off the fiber."""


def release(total: int = TOTAL) -> bdp.Release:
    return bdp.Release.from_published(
        COUNTY,
        measured=[bdp.Measured(bdp.Identity(COUNTY), PUBLISHED, bdp.noise.DiscreteLaplace(b=3.0))],
        exact=[bdp.Exact(bdp.Totals(COUNTY), total)],
    )


def build(before: bool = True, after: bool = False, total: int = TOTAL) -> pm.Model:
    """Counts with NUTS variables declared before or after them."""
    with pm.Model(coords=COUNTY) as model:
        scale = pm.LogNormal("scale", 0.0, 0.1) if before else 1.0
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE * scale), dims="county")
        if after:
            pm.Normal("later", 0.0, 1.0)
        bdp.observe(release(total), x)
    return model


def run(model: pm.Model, draws: int = 60, tune: int = 20, chains: int = 2, cores: int = 1, seed=1, **kwargs):
    with model:
        return pm.sample(
            draws=draws,
            tune=tune,
            chains=chains,
            cores=cores,
            random_seed=seed,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            **kwargs,
        )


@pytest.fixture(scope="module")
def plain() -> pm.Model:
    """Counts alone: no gradient is compiled."""
    return build(before=False)


@pytest.fixture(scope="module")
def mixed() -> pm.Model:
    return build(before=True, after=True)


@pytest.fixture
def step(plain) -> FiberGibbs:
    with plain:
        made = FiberGibbs()
    made.setup_chain(np.random.default_rng(3), 10, 10)
    return made


def start_of(model: pm.Model) -> dict[str, np.ndarray]:
    return model.initial_point()


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


class TestStarts:
    """The chains begin on the fiber however the model came about."""

    @pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
    def test_other_variables_before_or_after_the_counts(self, before, after):
        tree = run(build(before, after), draws=5, tune=5)
        assert (tree.posterior["x"].sum("county") == TOTAL).all()

    @pytest.mark.parametrize("cores", [1, 2])
    def test_a_start_for_each_chain(self, mixed, cores):
        kwargs = {"mp_ctx": "fork"} if cores == 2 else {}
        starts = [{"x": np.array([40, 0, 0, 0])}, {"x": np.array([3, 3, 3, 3])}, {"x": np.array([0, 0, 0, 40])}]
        tree = run(mixed, draws=5, tune=0, chains=3, cores=cores, initvals=starts, **kwargs)
        assert (tree.posterior["x"].sum("county") == TOTAL).all()

    def test_a_feasible_start_is_kept_as_the_first_state(self, plain):
        with plain:
            step = FiberGibbs()
        seen = []
        table = step.tables[0]
        original = table.chain.sweep
        table.chain.sweep = lambda moves: seen.append(table.chain.counts.copy()) or original(moves)
        for start in ([40, 0, 0, 0], [0, 1, 2, 37]):
            step.setup_chain(np.random.default_rng(1), 5, 5)
            step.step({"x": np.array(start)})
        np.testing.assert_array_equal(seen, [[40, 0, 0, 0], [0, 1, 2, 37]])

    def test_infeasible_starts_are_scattered(self, plain):
        with plain:
            step = FiberGibbs()
        table = step.tables[0]
        begun = []
        for seed in range(10):
            step.setup_chain(np.random.default_rng(seed), 5, 5)
            table.begin({"x": np.array([3, 3, 3, 3])}, step.rng)
            begun.append(tuple(table.chain.counts))
        assert len(set(begun)) > 5
        assert all(sum(b) == TOTAL for b in begun)

    def test_after_observing_and_doing(self, mixed):
        observed = pm.observe(mixed, {"later": 0.3})
        assert (run(observed, draws=5, tune=5).posterior["x"].sum("county") == TOTAL).all()
        done = pm.do(mixed, {"scale": 1.1})
        assert (run(done, draws=5, tune=5).posterior["x"].sum("county") == TOTAL).all()

    def test_after_copying_freezing_and_new_totals(self):
        model = build()
        for copy in (model.copy(), pm.model.fgraph.clone_model(model)):
            assert (run(copy, draws=3, tune=3).posterior["x"].sum("county") == TOTAL).all()
            with copy:
                pm.set_data({"exact_published": np.float64(55)})
            assert (run(copy, draws=3, tune=3).posterior["x"].sum("county") == 55).all()
        frozen = pm.model.transform.optimization.freeze_dims_and_data(model)
        assert (run(frozen, draws=3, tune=3).posterior["x"].sum("county") == TOTAL).all()
        with model:
            pm.set_data({"exact_published": np.float64(61), "noisy_published": PUBLISHED + 5.0})
        assert (run(model, draws=3, tune=3).posterior["x"].sum("county") == 61).all()

    def test_after_freezing_the_model(self):
        from pymc.model.transform.optimization import freeze_model

        frozen = freeze_model(build())
        assert (run(frozen, draws=3, tune=3).posterior["x"].sum("county") == TOTAL).all()
        with frozen:
            pm.set_data({"exact_published": np.float64(48)})
        assert (run(frozen, draws=3, tune=3).posterior["x"].sum("county") == 48).all()

    def test_totals_that_no_table_has_are_an_error_before_sampling(self):
        model = build(before=False)
        with model:
            pm.set_data({"exact_published": np.float64(-3)})
        with pytest.raises(ValueError, match="empty"):
            run(model)

    def test_no_start_with_positive_density_is_an_error(self):
        with pm.Model(coords=COUNTY) as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE), dims="county")
            bdp.observe(release(), x)
            pm.Potential("impossible", pm.math.switch(x[0] > TOTAL, 0.0, -np.inf))
        with pytest.raises(ValueError, match="no table of x was found"):
            run(model)


class TestPredictive:
    def test_prior_predictive_follows_the_counts(self, mixed):
        with mixed:
            tree = pm.sample_prior_predictive(draws=200, random_seed=2)
        x, y = tree.prior["x"], tree.prior_predictive["noisy"]
        assert x.dims == ("chain", "draw", "county")
        np.testing.assert_array_equal(tree.prior_predictive["exact"], x.sum("county"))
        assert len(np.unique(tree.prior_predictive["exact"])) > 5
        assert abs(float((y - x).mean())) < 6 * 4.4 / np.sqrt(800)  # noise of sd 4.2
        assert 2.5 < float((y - x).std()) < 6

    def test_posterior_predictive_of_totals_is_constant(self, mixed):
        tree = run(mixed, draws=50)
        with mixed:
            predictive = pm.sample_posterior_predictive(
                tree, var_names=["exact", "noisy"], random_seed=2, progressbar=False
            ).posterior_predictive
        assert (predictive["exact"] == TOTAL).all()
        assert predictive["noisy"].dims == ("chain", "draw", "county")
        assert 2 < float((predictive["noisy"] - tree.posterior["x"]).std()) < 7


class TestWrongTables:
    def test_off_the_fiber_a_free_table_is_penalised_and_a_given_one_impossible(self, plain):
        logp = plain.compile_logp()
        off, on = {"x": np.array([1, 2, 3, 4])}, {"x": np.array([10, 20, 5, 5])}
        assert np.isfinite(logp(off))
        assert logp(off) < logp(on) - 9e5
        for value, finite in (([10, 20, 5, 5], True), ([1, 2, 3, 4], False)):
            given = pm.observe(plain, {"x": np.array(value)})
            assert np.isfinite(given.compile_logp()({})) == finite
            intervened = pm.do(plain, {"x": np.array(value)})
            assert np.isfinite(intervened.compile_logp()({})) == finite

    def test_counts_beyond_32_bits_are_exact(self):
        total = 3_000_000_000_000_001
        labels = {"county": ["p", "q"]}
        published = bdp.Release.from_published(
            labels,
            measured=[
                bdp.Measured(
                    bdp.Identity(labels),
                    [1_000_000_000_000_000, 2_000_000_000_000_004],
                    bdp.noise.DiscreteGaussian(sigma=2.0),
                )
            ],
            exact=[bdp.Exact(bdp.Totals(labels), total)],
        )
        with pm.Model(coords=labels) as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist([1e15, 2e15]), dims="county")
            bdp.observe(published, x)
        tree = run(model, draws=200)
        draws = tree.posterior["x"]
        assert draws.dtype == np.int64
        assert (draws.sum("county") == total).all()
        # Noise of sd 2 on both cells leaves sd sqrt(2) around the noisy value corrected by half the misfit of 3.
        first = draws.isel(county=0) - 1_000_000_000_000_000
        assert abs(float(first.mean()) + 1.5) < 0.5
        assert 1 < float(first.std()) < 2
        assert np.isfinite(model.compile_logp()({"x": draws.values[0, 0]}))


class TestRefusals:
    def test_counts_that_are_not_confidential_counts(self):
        with pm.Model(coords=COUNTY):
            x = pm.Poisson("x", RATE, dims="county")
            with pytest.raises(TypeError, match="must be a ConfidentialCounts"):
                bdp.observe(release(), x)

    def test_a_multinomial_that_contradicts_the_totals(self):
        for base in (pm.Multinomial.dist(n=39, p=np.full(4, 0.25)), pm.DirichletMultinomial.dist(n=41, a=np.ones(4))):
            with pm.Model(coords=COUNTY) as model:
                x = bdp.ConfidentialCounts("x", base, dims="county")
                bdp.observe(release(), x)
            with pytest.raises(ValueError, match=r"has n = (39|41), but the exact answers add up to 40"):
                run(model)

    def test_a_multinomial_whose_n_is_not_published_exactly_or_not_known(self):
        noisy_only = bdp.Release.from_published(COUNTY, measured=release().measurements)
        with pm.Model(coords=COUNTY) as model:
            x = bdp.ConfidentialCounts("x", pm.Multinomial.dist(n=40, p=np.full(4, 0.25)), dims="county")
            bdp.observe(noisy_only, x)
        with pytest.raises(ValueError, match="not among the exact answers"):
            run(model)
        with pm.Model(coords=COUNTY) as model:
            n = pm.Poisson("n", 40)
            x = bdp.ConfidentialCounts("x", pm.Multinomial.dist(n=n, p=np.full(4, 0.25)), dims="county")
            bdp.observe(release(), x)
        with pytest.raises(ValueError, match="must be a constant"):
            run(model)

    def test_a_forced_metropolis_step(self, plain, mixed):
        with plain:
            forced = pm.Metropolis([plain["x"]])
            with pytest.raises(ValueError, match="Metropolis for x"):
                bdp.sample(step=forced)
        with mixed:
            both = CompoundStep([pm.NUTS([mixed["scale"], mixed["later"]]), pm.Metropolis([mixed["x"]])])
            with pytest.raises(ValueError, match="Metropolis for x"):
                bdp.sample(step=both)
            with pytest.raises(ValueError, match="Metropolis for x"):
                bdp.sample(step=[pm.Metropolis([mixed["x"]])])

    @pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")  # in pm.Metropolis
    def test_what_a_forced_step_makes_of_plain_pymc_does_not_pass_for_a_posterior(self, plain):
        # Plain pm.sample obeys. From a start off the fiber it records tables off the fiber ...
        with plain:
            off = {"x": np.array([1000, 0, 0, 0])}
            tree = run(plain, draws=20, tune=0, step=pm.Metropolis([plain["x"]]), initvals=off)
            with pytest.raises(ValueError, match="do not agree with the exact answers: another step method"):
                annotate(tree, plain)
            # ... and from a start on it nothing but the start.
            start = {"x": np.array([10, 20, 5, 5])}
            tree = annotate(run(plain, draws=200, step=pm.Metropolis([plain["x"]]), initvals=start), plain)
        assert (tree.posterior["x"] == start["x"]).all()
        assert tree.diagnostics.attrs["converged"] == 0
        assert "never did" in tree.diagnostics.attrs["message"]

    def test_flat_counts_without_any_bound(self):
        noisy_only = bdp.Release.from_published(COUNTY, measured=release().measurements)
        with pm.Model(coords=COUNTY):
            x = bdp.FlatCounts("x", dims="county")
            with pytest.raises(ValueError, match="finite fiber"):
                bdp.observe(noisy_only, x)


class TestSecrets:
    def test_the_release_remembered_by_a_model_is_what_was_published(self):
        # A mechanism's release of a table with recognisable counts; its noise has large variance.
        secret = np.array([987_654_321, 123_456_789, 55_555_555, 44_444_447])
        table = bdp.Frame.of(COUNTY).data_array(secret)
        made = bdp.LatticeLaplace(bdp.Totals(table), epsilon=1e-4).release(table, rng=np.random.default_rng(77_777_777))
        with pm.Model(coords=COUNTY) as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(3e8), dims="county")
            bdp.observe(made, x)
            step = FiberGibbs()
        kept = pickle.dumps(releases_of(model)) + cloudpickle.dumps(model) + cloudpickle.dumps(step)
        for value in (*secret.tolist(), 77_777_777):
            for dtype in ("<i8", ">i8", "<f8", ">f8", "<i4"):
                assert np.asarray(value, dtype=dtype).tobytes() not in kept
            assert str(value).encode() not in kept
