"""What PyMC asks of a step method and does not check: contract, starts, and what must not pass or leak."""

import pickle
from functools import cache
from itertools import product
from typing import NamedTuple

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.optimization import freeze_dims_and_data, freeze_model
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import Competence

import bayesdp as bdp
from bayesdp.inference import FiberGibbs, annotate, releases_of
from bayesdp.steps import LatticeNoiseGibbs, RowNoiseGibbs, reading, register
from bayesdp.steps.fiber_gibbs import ENDS
from tests.inference.oracle import begun, counts_model, noisy_cells
from tests.inference.oracle import sample as run
from tests.steps.test_hierarchies import Case
from tests.steps.test_noise_gibbs import START, Y, row_model
from tests.steps.test_noise_gibbs import model_of as noise_model

COUNTY = {"county": ["p", "q", "r", "s"]}
PUBLISHED = np.array([11, 19, 6, 2])
TOTAL = 40
RATE = np.array([10.0, 20.0, 5.0, 8.0])
"""Adds up to 43: the start that PyMC takes from the prior is off the fiber."""


def release(total=TOTAL):
    return noisy_cells(COUNTY, PUBLISHED, bdp.noise.DiscreteLaplace(b=3.0), bdp.Exact(bdp.Totals(COUNTY), total))


def build(before=True, after=False):
    """Counts with NUTS variables declared before or after them."""
    with pm.Model(coords=COUNTY) as model:
        scale = pm.LogNormal("scale", 0.0, 0.1) if before else 1.0
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE * scale), dims="county")
        if after:
            pm.Normal("later", 0.0, 1.0)
        bdp.observe(release(), x)
    return model


plain = pytest.fixture(scope="module")(lambda: build(before=False))  # no gradient is compiled
mixed = pytest.fixture(scope="module")(lambda: build(before=True, after=True))


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


@pytest.fixture
def step(plain):
    return begun(FiberGibbs(model=plain))


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
    new, _ = begun(step).step({"x": np.array([1000, 0, 0, 0])})
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


def assert_total(model, total=TOTAL, **options):
    """The chains begin on the fiber."""
    tree = run(model, draws=3, **{"tune": 3} | options)
    assert (tree.posterior["x"].sum("county") == total).all()


def test_a_start_for_each_chain_other_variables_after_the_counts_observing_and_doing(plain, mixed):
    for model in (build(before=False, after=True), pm.observe(mixed, {"later": 0.3}), pm.do(mixed, {"scale": 1.1})):
        assert_total(model)
    starts = [{"x": np.array([40, 0, 0, 0])}, {"x": np.array([3, 3, 3, 3])}, {"x": np.array([0, 0, 0, 40])}]
    for more in ({}, {"cores": 2, "mp_ctx": "fork"}):
        assert_total(plain, tune=0, chains=3, initvals=starts, **more)


def test_a_feasible_start_is_kept_as_the_first_state_and_others_are_scattered(step):
    seen, table = [], step.tables[0]
    original = table.chain.sweep
    table.chain.sweep = lambda moves: seen.append(table.chain.counts.copy()) or original(moves)
    for start in ([40, 0, 0, 0], [0, 1, 2, 37]):
        step.setup_chain(np.random.default_rng(1), 5, 5)
        step.step({"x": np.array(start)})
    np.testing.assert_array_equal(seen, [[40, 0, 0, 0], [0, 1, 2, 37]])
    begun = set()
    for seed in range(10):
        step.setup_chain(np.random.default_rng(seed), 5, 5)
        table.begin({"x": np.array([3, 3, 3, 3])}, step.rng)
        begun.add(tuple(table.chain.counts))
    assert len(begun) > 5
    assert {sum(own) for own in begun} == {TOTAL}


@pytest.mark.parametrize("copied", [pm.Model.copy, freeze_model, lambda model: model, freeze_dims_and_data])
def test_after_copying_freezing_and_new_totals(copied):
    model = copied(build(before=False))
    assert_total(model)
    if copied is not freeze_dims_and_data:
        with model:
            pm.set_data({"exact_published": np.float64(55), "noisy_published": PUBLISHED + 5.0})
        assert_total(model, 55)


def test_totals_that_no_table_has_and_no_start_with_positive_density_are_errors_before_sampling():
    with build(before=False) as model:
        pm.set_data({"exact_published": np.float64(-3)})
    with pytest.raises(ValueError, match="no nonnegative integer table satisfies the exact values: total = -3"):
        run(model, 5, 5)
    with build(before=False) as model:
        pm.Potential("impossible", pm.math.switch(model["x"][0] > TOTAL, 0.0, -np.inf))
    with pytest.raises(ValueError, match="no table of x was found"):
        run(model, 5, 5)


def test_prior_predictive_follows_the_counts(mixed):
    with mixed:
        tree = pm.sample_prior_predictive(draws=200, random_seed=2)
    x, y = tree.prior["x"], tree.prior_predictive["noisy"]
    assert x.dims == ("chain", "draw", "county")
    np.testing.assert_array_equal(tree.prior_predictive["exact"], x.sum("county"))
    assert len(np.unique(tree.prior_predictive["exact"])) > 5
    assert abs(float((y - x).mean())) < 6 * 4.4 / np.sqrt(800)  # noise of sd 4.2
    assert 2.5 < float((y - x).std()) < 6


class TestRefusals:
    def test_off_the_fiber_a_free_table_is_penalised_and_a_given_one_impossible(self, plain):
        logp = plain.compile_logp()
        off, on = {"x": np.array([1, 2, 3, 4])}, {"x": np.array([10, 20, 5, 5])}
        assert np.isfinite(logp(off))
        assert logp(off) < logp(on) - 9e5
        for value, finite in ((on, True), (off, False)):
            for given in (pm.observe, pm.do):
                assert np.isfinite(given(plain, value).compile_logp()({})) == finite

    def test_counts_beyond_32_bits_are_exact(self):
        total = 3_000_000_000_000_001
        labels = {"county": ["p", "q"]}
        values, law = [1_000_000_000_000_000, 2_000_000_000_000_004], bdp.noise.DiscreteGaussian(sigma=2.0)
        published = noisy_cells(labels, values, law, bdp.Exact(bdp.Totals(labels), total))
        model = counts_model(published, pm.Poisson.dist([1e15, 2e15]))
        draws = run(model, 200, tune=20).posterior["x"]
        assert draws.dtype == np.int64
        assert (draws.sum("county") == total).all()
        # Noise of sd 2 on both cells leaves sd sqrt(2) around the noisy value corrected by half the misfit of 3.
        first = draws.isel(county=0) - 1_000_000_000_000_000
        assert abs(float(first.mean()) + 1.5) < 0.5
        assert 1 < float(first.std()) < 2
        assert np.isfinite(model.compile_logp()({"x": draws.values[0, 0]}))

    def test_multinomials_that_contradict_the_totals_or_lack_them_other_counts_and_flat_ones_without_bounds(self):
        multinomial, dirichlet, q = pm.Multinomial.dist, pm.DirichletMultinomial.dist, np.full(4, 0.25)
        noisy_only = noisy_cells(COUNTY, PUBLISHED, bdp.noise.DiscreteLaplace(b=3.0))
        for base, published, words in (
            (lambda: multinomial(n=39, p=q), release(), "has n = 39, but the exact answers add up to 40"),
            (lambda: dirichlet(n=41, a=np.ones(4)), release(), "has n = 41, but the exact answers add"),
            (lambda: multinomial(n=40, p=q), noisy_only, "not among the exact answers"),
            (lambda: multinomial(n=pm.Poisson("n", 40), p=q), release(), "must be a constant"),
        ):
            with pm.Model(coords=COUNTY):
                bdp.observe(published, bdp.ConfidentialCounts("x", base(), dims="county"))
                with pytest.raises(ValueError, match=words):
                    FiberGibbs()
        with pm.Model(coords=COUNTY):
            with pytest.raises(TypeError, match="must be a ConfidentialCounts"):
                bdp.observe(release(), pm.Poisson("x", RATE, dims="county"))
            x = bdp.FlatCounts("flat", dims="county")
            with pytest.raises(ValueError, match="finite fiber"):
                bdp.observe(noisy_only, x)

    def test_forced_metropolis_steps_and_tables_off_the_fiber_or_stuck_do_not_pass_for_a_posterior(self, plain, mixed):
        with mixed:
            for given in ([[mixed["x"]]], []):
                with pytest.raises(ValueError, match=r"Metropolis for x.*leave the counts out of `step`"):
                    pm.Metropolis(*given)
        tree = run(plain, 200, tune=20)
        stuck = tree.copy(deep=True)
        tree.posterior["x"][0, 3, 0] += 1
        with pytest.raises(ValueError, match="do not agree with the exact answers: another step method"):
            annotate(tree, plain)
        stuck.posterior["x"][:] = [10, 20, 5, 5]
        diagnostics = annotate(stuck, plain).diagnostics.attrs
        assert diagnostics["converged"] == 0
        assert "never did" in diagnostics["message"]

    def test_the_release_remembered_by_a_model_is_what_was_published(self):
        # A mechanism's release of a table with recognisable counts; its noise has large variance.
        secret = np.array([987_654_321, 123_456_789, 55_555_555, 44_444_447])
        table = bdp.Frame.of(COUNTY).data_array(secret)
        made = bdp.LatticeLaplace(bdp.Totals(table), epsilon=1e-4).release(table, rng=np.random.default_rng(77_777_777))
        model = counts_model(made, pm.Poisson.dist(3e8))
        step = FiberGibbs(model=model)
        kept = pickle.dumps(releases_of(model)) + cloudpickle.dumps(model) + cloudpickle.dumps(step)
        for value in (*secret.tolist(), 77_777_777):
            for dtype in ("<i8", ">i8", "<f8", ">f8", "<i4"):
                assert np.asarray(value, dtype=dtype).tobytes() not in kept
            assert str(value).encode() not in kept
