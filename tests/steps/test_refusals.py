"""What must not pass: wrong tables, wrong bases, other step methods; and what must not leak."""

import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.inference import FiberGibbs, annotate, releases_of
from tests.inference.oracle import counts_model, noisy_cells
from tests.steps.models import COUNTY, RATE, release, run


class TestWrongTables:
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
        draws = run(model, draws=200).posterior["x"]
        assert draws.dtype == np.int64
        assert (draws.sum("county") == total).all()
        # Noise of sd 2 on both cells leaves sd sqrt(2) around the noisy value corrected by half the misfit of 3.
        first = draws.isel(county=0) - 1_000_000_000_000_000
        assert abs(float(first.mean()) + 1.5) < 0.5
        assert 1 < float(first.std()) < 2
        assert np.isfinite(model.compile_logp()({"x": draws.values[0, 0]}))


NOISY_ONLY = bdp.Release.from_published(COUNTY, measured=release().measurements)


class TestRefusals:
    def test_a_multinomial_that_contradicts_the_totals_or_lacks_them(self):
        multinomial, dirichlet, q = pm.Multinomial.dist, pm.DirichletMultinomial.dist, np.full(4, 0.25)
        for base, published, words in (
            (lambda: multinomial(n=39, p=q), release(), "has n = 39, but the exact answers add up to 40"),
            (lambda: dirichlet(n=41, a=np.ones(4)), release(), "has n = 41, but the exact answers add"),
            (lambda: multinomial(n=40, p=q), NOISY_ONLY, "not among the exact answers"),
            (lambda: multinomial(n=pm.Poisson("n", 40), p=q), release(), "must be a constant"),
        ):
            with pm.Model(coords=COUNTY):
                bdp.observe(published, bdp.ConfidentialCounts("x", base(), dims="county"))
                with pytest.raises(ValueError, match=words):
                    FiberGibbs()

    def test_a_forced_metropolis_step(self, mixed):
        with mixed:
            for given in ([[mixed["x"]]], []):
                with pytest.raises(ValueError, match=r"Metropolis for x.*leave the counts out of `step`"):
                    pm.Metropolis(*given)

    def test_tables_off_the_fiber_do_not_pass_for_a_posterior_nor_a_stuck_table_for_a_converged_one(self, plain):
        tree = run(plain, draws=200)
        stuck = tree.copy(deep=True)
        tree.posterior["x"][0, 3, 0] += 1
        with pytest.raises(ValueError, match="do not agree with the exact answers: another step method"):
            annotate(tree, plain)
        stuck.posterior["x"][:] = [10, 20, 5, 5]
        diagnostics = annotate(stuck, plain).diagnostics.attrs
        assert diagnostics["converged"] == 0
        assert "never did" in diagnostics["message"]

    def test_counts_that_are_not_confidential_or_flat_without_any_bound(self):
        with pm.Model(coords=COUNTY):
            with pytest.raises(TypeError, match="must be a ConfidentialCounts"):
                bdp.observe(release(), pm.Poisson("x", RATE, dims="county"))
            x = bdp.FlatCounts("flat", dims="county")
            with pytest.raises(ValueError, match="finite fiber"):
                bdp.observe(NOISY_ONLY, x)


class TestSecrets:
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
