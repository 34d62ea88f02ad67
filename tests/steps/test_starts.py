"""The chains begin on the fiber; prior and posterior predictive draws follow the model."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.optimization import freeze_model

import bayesdp as bdp
from bayesdp.inference import FiberGibbs
from tests.steps.models import COUNTY, PUBLISHED, RATE, TOTAL, build, release, run


class TestStarts:
    """The chains begin on the fiber however the model came about."""

    def assert_total(self, model, total=TOTAL, **options):
        tree = run(model, draws=3, **({"tune": 3} | options))
        assert (tree.posterior["x"].sum("county") == total).all()

    @pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
    def test_other_variables_before_or_after_the_counts(self, before, after):
        self.assert_total(build(before, after))

    @pytest.mark.parametrize("cores", [1, 2])
    def test_a_start_for_each_chain(self, mixed, cores):
        kwargs = {"mp_ctx": "fork"} if cores == 2 else {}
        starts = [{"x": np.array([40, 0, 0, 0])}, {"x": np.array([3, 3, 3, 3])}, {"x": np.array([0, 0, 0, 40])}]
        self.assert_total(mixed, tune=0, chains=3, cores=cores, initvals=starts, **kwargs)

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
        self.assert_total(pm.observe(mixed, {"later": 0.3}))
        self.assert_total(pm.do(mixed, {"scale": 1.1}))

    @pytest.mark.parametrize(
        "copied", [pm.Model.copy, freeze_model, lambda model: model], ids=["copy", "frozen", "itself"]
    )
    def test_after_copying_freezing_and_new_totals(self, copied):
        model = copied(build(before=False))
        self.assert_total(model)
        with model:
            pm.set_data({"exact_published": np.float64(55), "noisy_published": PUBLISHED + 5.0})
        self.assert_total(model, 55)

    def test_after_freezing_the_data(self):
        self.assert_total(pm.model.transform.optimization.freeze_dims_and_data(build(before=False)))

    def test_totals_that_no_table_has_are_an_error_before_sampling(self):
        model = build(before=False)
        with model:
            pm.set_data({"exact_published": np.float64(-3)})
        with pytest.raises(ValueError, match="no nonnegative integer table satisfies the exact values: total = -3"):
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
