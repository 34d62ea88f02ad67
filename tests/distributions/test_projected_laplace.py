"""Projected Laplace noise as PyMC distributions: in closed form, and with latent row-space noise."""

import math

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.gradient import NullTypeGradError

from bayesdp import noise
from bayesdp.distributions import ProjectedLaplace, ProjectedLaplaceGivenRows, RowSpaceNoise
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.projected_laplace import log_gram, row_basis
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.noise.oracles import all_margins, frame_of

ROWS = Invariants(Margins(frame_of(3, 4), ["d0"]))
BLOCKS = Invariants(LinearQuery(frame_of(6), [[0, 1, 0, 1, 1, 0], [2, 0, 0, 0, 0, -1]], ["a", "b"]))


def example(invariants):
    rng, shape = np.random.default_rng(4), invariants.frame.shape
    mu = rng.normal(size=shape) * 5
    return mu, mu + invariants.project(rng.laplace(size=shape) * 2)


def assert_gradients(run, mu, b, step):
    """Of a function of location and scale that gives the log-density and its two gradients, against differences."""
    _, gradient, slope = run(mu, b)
    shifts = step * np.eye(mu.size).reshape(-1, *mu.shape)
    numeric = [(run(mu + own, b)[0] - run(mu - own, b)[0]) / (2 * step) for own in shifts]
    assert gradient.reshape(-1) == pytest.approx(np.array(numeric), abs=1e-7)
    assert slope == pytest.approx((run(mu, b + 1e-6)[0] - run(mu, b - 1e-6)[0]) / 2e-6, rel=1e-7, abs=1e-7)


class TestClosedForm:
    @pytest.mark.compiled
    def test_compiled(self):
        """What tests/distributions/test_table.py checks of graphs that Python evaluates."""
        mu, value = example(BLOCKS)
        location, b = pt.tensor("mu", shape=value.shape, dtype="float64"), pt.scalar("b")
        logp = pm.logp(ProjectedLaplace.dist(location, b, invariants=BLOCKS), value)
        run = pytensor.function([location, b], [logp, *pt.grad(logp, [location, b])])
        assert run(mu, 1.3)[0] == pytest.approx(noise.ProjectedLaplace(1.3).logp(value, mu, BLOCKS), rel=1e-13)
        assert_gradients(run, mu, 1.3, 1e-5)

    def test_batches_and_no_second_derivatives(self):
        mu, value = example(ROWS)
        tables, scales = pt.tensor3("tables", shape=(None, 3, 4)), pt.vector("scales")
        logp = pm.logp(ProjectedLaplace.dist(tables, scales, invariants=ROWS), value)
        run = pytensor.function([tables, scales], [logp, pt.grad(logp.sum(), scales)])
        found, gradient = run(np.stack([mu, mu + 0.5]), [1.0, 3.0])
        single = [noise.ProjectedLaplace(b).logp(value, mu, ROWS) for b in (1.0, 3.0)]
        assert found == pytest.approx(single, rel=1e-12)
        assert gradient.shape == (2,)
        b = pt.scalar("b")
        slope = pt.grad(pm.logp(ProjectedLaplace.dist(mu, b, invariants=ROWS), value), b)
        with pytest.raises(NullTypeGradError, match="BlocksDensity"):
            pt.grad(slope, b)


class TestGivenRows:
    @pytest.mark.parametrize("invariants", [all_margins(2, 3), ROWS], ids=repr)
    def test_joint_density_and_its_gradient_in_mu_and_b(self, invariants):
        mu, value = example(invariants)
        w = np.random.default_rng(2).normal(size=invariants.rank)
        e = (value - mu).reshape(-1) + row_basis(invariants).T @ w
        expected = np.sum(-np.abs(e) / 1.7 - math.log(3.4)) + 0.5 * log_gram(invariants)
        variable = ProjectedLaplaceGivenRows.dist(mu, w, 1.7, invariants=invariants)
        assert pm.logp(variable, value).eval() == pytest.approx(expected, rel=1e-13)
        assert pm.logp(RowSpaceNoise.dist(1.7, invariants=invariants), w).eval() == 0.0
        location, b = pt.matrix("mu", shape=mu.shape), pt.scalar("b")
        logp = pm.logp(ProjectedLaplaceGivenRows.dist(location, w, b, invariants=invariants), value)
        assert_gradients(pytensor.function([location, b], [logp, *pt.grad(logp, [location, b])]), mu, 1.1, 1e-6)

    def test_integrating_w_out_gives_the_projected_law(self):
        # On a line; rank 3 is compared with its closed form through the sampler, in tests/steps.
        invariants, b = Invariants(Totals(frame_of(4))), 0.9
        mu, value = example(invariants)
        w = np.linspace(-40, 40, 400_001)
        variable = ProjectedLaplaceGivenRows.dist(np.tile(mu, (w.size, 1)), w[:, None], b, invariants=invariants)
        logs, expected = pm.logp(variable, value).eval(), noise.ProjectedLaplace(b).logp(value, mu, invariants)
        assert math.log(np.sum(np.exp(logs)) * (w[1] - w[0])) == pytest.approx(expected, rel=1e-7)

    def test_forward_draws(self):
        invariants = all_margins(2, 3)
        mu, _ = example(invariants)
        with pm.Model() as model:
            w = RowSpaceNoise("w", 2.0, invariants=invariants)
            ProjectedLaplaceGivenRows("y", mu, w, 2.0, invariants=invariants)
        w_draws, y_draws = pm.draw([model["w"], model["y"]], 2000, random_seed=1)
        assert np.max(np.abs(invariants.matrix @ (y_draws - mu).reshape(-1, 6).T)) < 1e-10
        rows = row_basis(invariants).toarray()
        covariance = 8.0 * np.linalg.inv(rows @ rows.T)
        # Six standard errors of a variance with kurtosis 6 at most: false-alarm rate below 1e-7.
        assert np.all(np.abs(w_draws.var(axis=0) / np.diag(covariance) - 1) < 6 * math.sqrt(5 / 2000))
        variance = noise.ProjectedLaplace(2.0).variance((2, 3), invariants)
        assert np.all(np.abs(y_draws.var(axis=0) / variance - 1) < 6 * math.sqrt(5 / 2000))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"w must have shape \(..., 4\), the rank"):
        ProjectedLaplaceGivenRows.dist(np.zeros((2, 3)), np.zeros(3), 1.0, invariants=all_margins(2, 3))
    with pytest.raises(ValueError, match="without invariants nothing is projected"):
        RowSpaceNoise.dist(1.0, invariants=Invariants(None, frame_of(3)))
