"""What PyMC asks of a step method, and the traps in it: each is a test."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.optimization import freeze_model
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import Competence

import bayesdp as bdp
from bayesdp.steps import FiberGibbs
from bayesdp.steps.fiber_gibbs import register

COUNTY = {"county": ["Alpha", "Beta", "Gamma"]}
FEW = {
    "draws": 60,
    "tune": 30,
    "chains": 2,
    "cores": 1,
    "progressbar": False,
    "quiet": True,
    "compute_convergence_checks": False,
}


def make_release(total=20, noisy=(5, 9, 7)):
    return bdp.Release.from_published(
        COUNTY,
        measured=[bdp.Measured(bdp.Identity(COUNTY), list(noisy), bdp.noise.DiscreteLaplace(b=3.0))],
        exact=[bdp.Exact(bdp.Totals(COUNTY), total)],
    )


def make_model(release=None, *, late=False):
    """A shared rate before the counts, and if asked for a variable after them."""
    release = make_release() if release is None else release
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2.0, 0.3)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="county")
        bdp.observe(release, x)
        if late:
            pm.Normal("late", 0.0, 1.0)
    return model


@pytest.fixture(scope="module")
def model():
    return make_model(late=True)


@pytest.fixture(scope="module")
def counts_only():
    """Without other variables, sampling needs no NUTS and next to no compilation."""
    release = make_release()
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(7.0), dims="county")
        bdp.observe(release, x)
    return model


def totals(tree):
    return np.unique(tree.posterior["x"].sum("county").values)


def test_registered_once():
    register()
    register()
    assert STEP_METHODS.count(FiberGibbs) == 1


def test_claims_counts_and_nothing_else(model):
    assert FiberGibbs.competence(model["x"], False) == Competence.IDEAL
    for name in ("rate", "late"):
        assert FiberGibbs.competence(model[name], True) == Competence.INCOMPATIBLE


def test_refuses_other_variables(model):
    with model, pytest.raises(TypeError, match="'rate_log__' is not one"):
        FiberGibbs([model["rate"]])


def test_the_point_keeps_its_order_and_is_not_written_to(model):
    point = model.initial_point()
    before = {name: value.copy() for name, value in point.items()}
    with model:
        step = FiberGibbs([model["x"]], rng=np.random.default_rng(1))
    new, [stats] = step.step(point)
    assert list(new) == list(point)
    assert all(np.array_equal(point[name], before[name]) for name in point)
    assert new["x"].sum() == 20
    assert new["x"].dtype == np.int64
    assert set(stats) == set(step.stats_dtypes_shapes)
    assert all(np.ndim(value) == 0 for value in stats.values())
    again, _ = step.step(new)
    assert again["x"] is not new["x"]


def test_options_go_through_pm_sample(counts_only):
    assert FiberGibbs.name == "fiber_gibbs"
    with counts_only, pytest.raises(ValueError, match="sweeps must be an integer greater than 0"):
        pm.sample(fiber_gibbs={"sweeps": 0}, random_seed=1, **FEW)


def test_sampling_repeats_from_its_seed_and_chains_differ(counts_only):
    first, second = (pm.sample(model=counts_only, random_seed=3, **FEW) for _ in range(2))
    other = pm.sample(model=counts_only, random_seed=4, **FEW)
    x = first.posterior["x"].values
    assert np.array_equal(x, second.posterior["x"].values)
    assert not np.array_equal(x, other.posterior["x"].values)
    assert not np.array_equal(x[0], x[1])
    assert not np.array_equal(x[0, 0], x[1, 0]) or not np.array_equal(x[0, 1], x[1, 1])


def test_one_process_and_two_give_the_same_numbers(counts_only):
    """And so nothing leaks from chain to chain: in two processes it could not."""
    one = pm.sample(model=counts_only, random_seed=3, **FEW)
    two = pm.sample(model=counts_only, random_seed=3, **{**FEW, "cores": 2})
    assert np.array_equal(one.posterior["x"].values, two.posterior["x"].values)


@pytest.mark.slow
def test_spawned_processes_give_the_same_numbers(counts_only):
    one = pm.sample(model=counts_only, random_seed=3, **FEW)
    spawned = pm.sample(model=counts_only, random_seed=3, mp_ctx="spawn", **{**FEW, "cores": 2})
    assert np.array_equal(one.posterior["x"].values, spawned.posterior["x"].values)


def test_a_step_travels_between_processes_with_its_state(counts_only):
    with counts_only:
        step = FiberGibbs([counts_only["x"]], rng=np.random.default_rng(2))
        point, _ = step.step(counts_only.initial_point())
        twin = cloudpickle.loads(cloudpickle.dumps(step))
    for _ in range(3):
        ours, _ = step.step(point)
        theirs, _ = twin.step(point)
        assert np.array_equal(ours["x"], theirs["x"])
        point = ours


def test_the_state_holds_all_that_changes(counts_only):
    with counts_only:
        step = FiberGibbs([counts_only["x"]], rng=np.random.default_rng(2))
    point, _ = step.step(counts_only.initial_point())
    kept = step.sampling_state
    first, _ = step.step(point)
    step.sampling_state = kept
    again, _ = step.step(point)
    assert np.array_equal(first["x"], again["x"])


def test_starts_are_feasible_with_variables_before_and_after_the_counts(model):
    tree = pm.sample(model=model, random_seed=1, nuts_sampler="pymc", **FEW)
    assert totals(tree) == [20]
    assert set(tree.posterior.data_vars) == {"rate", "x", "late"}
    assert set(FiberGibbs.stats_dtypes_shapes) <= set(tree.sample_stats.data_vars)


@pytest.mark.parametrize("change", ["copy", "do", "observe", "freeze"])
def test_starts_are_feasible_after(change, model):
    changed = {
        "copy": lambda: model.copy(),
        "do": lambda: pm.do(model, {"rate": 4.0}),
        "observe": lambda: pm.observe(model, {"rate": 4.0}),
        "freeze": lambda: freeze_model(model),
    }[change]()
    tree = pm.sample(model=changed, random_seed=1, nuts_sampler="pymc", **{**FEW, "draws": 20})
    assert totals(tree) == [20]


@pytest.mark.parametrize("total", [33, 3_000_000_000])
def test_a_total_can_be_replaced_even_beyond_32_bits(total, counts_only):
    """``pm.Data`` would wrap an integer total at 2**31; ours are stored as float64."""
    changed = counts_only.copy()
    with changed:
        pm.set_data({"exact_published": np.array(float(total))})
        tree = pm.sample(random_seed=1, **FEW)
    assert totals(tree) == [total]
    assert tree.posterior["x"].dtype == np.int64


@pytest.mark.parametrize(("start", "kept"), [([20, 0, 0], True), ([1, 1, 1], False), ([21, -1, 0], False)])
def test_a_feasible_start_is_kept_and_others_are_moved_onto_the_fiber(start, kept, counts_only):
    with counts_only:
        step = FiberGibbs([counts_only["x"]], rng=np.random.default_rng(2))
    table = step.tables[0]
    point = {**counts_only.initial_point(), "x": np.array(start)}
    table.begin(point, np.random.default_rng(0))
    assert table.target.fiber.contains(table.chain.counts.reshape(3).copy())
    assert np.array_equal(table.chain.counts, start) == kept


def test_each_chain_starts_elsewhere(counts_only):
    with counts_only:
        step = FiberGibbs([counts_only["x"]])
    starts = set()
    for seed in range(20):
        step.tables[0].begin(counts_only.initial_point(), np.random.default_rng(seed))
        starts.add(tuple(step.tables[0].chain.counts.tolist()))
    assert len(starts) > 5


def test_says_what_is_proved_of_its_moves(counts_only):
    with counts_only:
        step = FiberGibbs([counts_only["x"]])
    assert step.connectivity["x"]["proved"] is True
    assert "pair moves" in step.connectivity["x"]["claim"]


def test_predictives_follow_the_counts(model):
    with model:
        prior = pm.sample_prior_predictive(50, random_seed=1)
        assert np.array_equal(prior.prior_predictive["exact"], prior.prior["x"].sum("county"))
        noise = prior.prior_predictive["noisy"] - prior.prior["x"]
        assert abs(float(noise.mean())) < 2.5  # 150 draws, standard deviation 4.2: six standard errors
        tree = pm.sample(random_seed=1, nuts_sampler="pymc", **{**FEW, "draws": 20})
        later = pm.sample_posterior_predictive(tree, random_seed=1, progressbar=False)
    assert np.all(later.posterior_predictive["exact"] == 20)


@pytest.mark.parametrize(("table", "fits"), [([5, 8, 7], True), ([5, 8, 8], False)])
def test_an_observed_table_off_the_fiber_is_impossible(table, fits, counts_only):
    given = pm.observe(counts_only, {"x": np.array(table)})
    assert np.isfinite(given.compile_logp()(given.initial_point())) == fits


def test_metropolis_on_the_counts_is_refused(counts_only):
    with counts_only:
        forced = pm.Metropolis([counts_only["x"]])
        with pytest.raises(ValueError, match="Metropolis for x: it cannot move inside the exact totals"):
            bdp.sample(step=forced, random_seed=1, **FEW)


def test_counts_that_no_step_can_move_are_refused():
    release = make_release()
    with pm.Model(coords=release.coords):
        x = pm.Poisson("x", 7.0, dims="county")
        with pytest.raises(TypeError, match="x must be a ConfidentialCounts"):
            bdp.observe(release, x)


def test_the_log_density_off_the_fiber_is_a_constant(counts_only):
    """It must not tell the other variables anything: the same for every table that misses the totals."""
    logp = counts_only.compile_logp(vars=[counts_only["exact"]])
    assert logp({"x": np.array([1, 2, 3])}) == logp({"x": np.array([100, 2, 3])}) == -1e6
    assert logp({"x": np.array([10, 5, 5])}) == 0.0
