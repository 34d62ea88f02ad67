"""The chains begin on the fiber; prior and posterior predictive draws follow the model."""

import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.optimization import freeze_dims_and_data, freeze_model

from tests.steps.models import PUBLISHED, TOTAL, build, run


def assert_total(model, total=TOTAL, **options):
    """The chains begin on the fiber."""
    tree = run(model, draws=3, **({"tune": 3} | options))
    assert (tree.posterior["x"].sum("county") == total).all()


def test_other_variables_after_the_counts_observing_and_doing(mixed):
    assert_total(build(before=False, after=True))
    assert_total(pm.observe(mixed, {"later": 0.3}))
    assert_total(pm.do(mixed, {"scale": 1.1}))


def test_a_start_for_each_chain(plain):
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
        run(model)
    with build(before=False) as model:
        pm.Potential("impossible", pm.math.switch(model["x"][0] > TOTAL, 0.0, -np.inf))
    with pytest.raises(ValueError, match="no table of x was found"):
        run(model)


def test_prior_predictive_follows_the_counts(mixed):
    with mixed:
        tree = pm.sample_prior_predictive(draws=200, random_seed=2)
    x, y = tree.prior["x"], tree.prior_predictive["noisy"]
    assert x.dims == ("chain", "draw", "county")
    np.testing.assert_array_equal(tree.prior_predictive["exact"], x.sum("county"))
    assert len(np.unique(tree.prior_predictive["exact"])) > 5
    assert abs(float((y - x).mean())) < 6 * 4.4 / np.sqrt(800)  # noise of sd 4.2
    assert 2.5 < float((y - x).std()) < 6
