"""Projected Laplace noise as PyMC distributions: in closed form, and with latent row-space noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.gradient import NullTypeGradError
from scipy.stats import kstest, poisson

import bayesdp as bdp
from bayesdp import noise
from bayesdp.distributions import ProjectedLaplace, ProjectedLaplaceGivenRows, RowSpaceNoise
from bayesdp.distributions.confidential_counts import ExactAnswers
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.projected_laplace import log_gram, row_basis
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.noise.oracles import all_margins, chi_square_pvalue, frame_of

ROWS = Invariants(Margins(frame_of(3, 4), ["d0"]))
BLOCKS = Invariants(LinearQuery(frame_of(6), [[0, 1, 0, 1, 1, 0], [2, 0, 0, 0, 0, -1]], ["a", "b"]))


def example(invariants: Invariants) -> tuple[Any, Any]:
    rng, shape = np.random.default_rng(4), invariants.frame.shape
    mu = rng.normal(size=shape) * 5
    return mu, mu + invariants.project(rng.laplace(size=shape) * 2)


class TestClosedForm:
    @pytest.mark.compiled
    def test_compiled(self) -> None:
        """What tests/distributions/test_table.py checks of graphs that Python evaluates."""
        mu, value = example(BLOCKS)
        location, b = pt.tensor("mu", shape=value.shape, dtype="float64"), pt.scalar("b")
        logp = pm.logp(ProjectedLaplace.dist(location, b, invariants=BLOCKS), value)
        run = pytensor.function([location, b], [logp, *pt.grad(logp, [location, b])])
        found, gradient, slope = run(mu, 1.3)
        assert found == pytest.approx(noise.ProjectedLaplace(1.3).logp(value, mu, BLOCKS), rel=1e-13)
        assert slope == pytest.approx((run(mu, 1.3 + 1e-6)[0] - run(mu, 1.3 - 1e-6)[0]) / 2e-6, rel=1e-7, abs=1e-7)
        for i, own in enumerate(np.eye(len(mu)) * 1e-5):
            assert gradient[i] == pytest.approx((run(mu + own, 1.3)[0] - run(mu - own, 1.3)[0]) / 2e-5, abs=1e-7)

    def test_batches(self) -> None:
        mu, value = example(ROWS)
        tables, scales = pt.tensor3("tables", shape=(None, 3, 4)), pt.vector("scales")
        logp = pm.logp(ProjectedLaplace.dist(tables, scales, invariants=ROWS), value)
        found, gradient = pytensor.function([tables, scales], [logp, pt.grad(logp.sum(), scales)])(
            np.stack([mu, mu + 0.5]), [1.0, 3.0]
        )
        single = [noise.ProjectedLaplace(b).logp(value, mu, ROWS) for b in (1.0, 3.0)]
        assert found == pytest.approx(single, rel=1e-12)
        assert gradient.shape == (2,)

    def test_second_derivatives_are_refused(self) -> None:
        mu, value = example(ROWS)
        b = pt.scalar("b")
        slope = pt.grad(pm.logp(ProjectedLaplace.dist(mu, b, invariants=ROWS), value), b)
        with pytest.raises(NullTypeGradError, match="BlocksDensity"):
            pt.grad(slope, b)

    @pytest.mark.system
    def test_nuts_on_a_continuous_table_with_a_known_total(self) -> None:
        # Three cells with total 12, normal prior on two coordinates. Oracle: quadrature on a grid of the plane.
        invariants, b = Invariants(Totals(frame_of(3))), 1.5
        basis, y = invariants.from_coordinates(np.eye(2)), np.array([9.0, 2.0, 1.0])
        with pm.Model():
            c = pm.Normal("c", 0.0, 2.0, shape=2)
            ProjectedLaplace("y", 4.0 + pt.dot(c, basis), b, invariants=invariants, observed=y)
            tree = pm.sample(
                1500, tune=500, chains=2, cores=1, random_seed=3, progressbar=False, quiet=True, nuts_sampler="pymc",
                compute_convergence_checks=False,
            )  # fmt: skip
        assert "tree_depth" in tree.sample_stats  # NUTS, not the Slice that a missing gradient would bring
        grid = np.linspace(-7, 9, 81)
        law = noise.ProjectedLaplace(b)
        logs = np.array(
            [
                [law.logp(y, 4.0 + np.array([p, q]) @ basis, invariants) - (p * p + q * q) / 8 for q in grid]
                for p in grid
            ]
        )
        mass = np.exp(logs - logs.max())
        mass /= mass.sum()
        for axis in (0, 1):
            cdf = np.cumsum(mass.sum(axis=1 - axis)) - 0.5 * mass.sum(axis=1 - axis)
            draws = tree.posterior["c"].values[..., axis].reshape(-1)[::6]  # thinned to be nearly independent
            # False-alarm rate 1e-4 for each of the two.
            assert kstest(draws, lambda x, cdf=cdf: np.interp(x, grid, cdf)).pvalue > 1e-4


class TestGivenRows:
    @pytest.mark.parametrize("invariants", [all_margins(2, 3), ROWS], ids=repr)
    def test_joint_density(self, invariants: Invariants) -> None:
        mu, value = example(invariants)
        w = np.random.default_rng(2).normal(size=invariants.rank)
        e = (value - mu).reshape(-1) + row_basis(invariants).T @ w
        expected = np.sum(-np.abs(e) / 1.7 - math.log(3.4)) + 0.5 * log_gram(invariants)
        variable = ProjectedLaplaceGivenRows.dist(mu, w, 1.7, invariants=invariants)
        assert pm.logp(variable, value).eval() == pytest.approx(expected, rel=1e-13)
        assert pm.logp(RowSpaceNoise.dist(1.7, invariants=invariants), w).eval() == 0.0

    def test_integrating_w_out_gives_the_projected_law(self) -> None:
        # On a line; rank 3 is compared with its closed form through the sampler, in tests/steps.
        invariants, b = Invariants(Totals(frame_of(4))), 0.9
        mu, value = example(invariants)
        w = np.linspace(-40, 40, 400_001)
        variable = ProjectedLaplaceGivenRows.dist(np.tile(mu, (w.size, 1)), w[:, None], b, invariants=invariants)
        logs = pm.logp(variable, value).eval()
        assert math.log(np.sum(np.exp(logs)) * (w[1] - w[0])) == pytest.approx(
            noise.ProjectedLaplace(b).logp(value, mu, invariants), rel=1e-7
        )

    def test_gradient_in_mu_and_b(self) -> None:
        invariants = all_margins(2, 3)
        mu, value = example(invariants)
        location, b = pt.matrix("mu", shape=(2, 3)), pt.scalar("b")
        w = np.random.default_rng(2).normal(size=invariants.rank)
        logp = pm.logp(ProjectedLaplaceGivenRows.dist(location, w, b, invariants=invariants), value)
        run = pytensor.function([location, b], [logp, *pt.grad(logp, [location, b])])
        _, gradient, slope = run(mu, 1.1)
        for index in np.ndindex(2, 3):
            shift = np.zeros((2, 3))
            shift[index] = 1e-6
            assert gradient[index] == pytest.approx(
                (run(mu + shift, 1.1)[0] - run(mu - shift, 1.1)[0]) / 2e-6, abs=1e-7
            )
        assert slope == pytest.approx((run(mu, 1.1 + 1e-6)[0] - run(mu, 1.1 - 1e-6)[0]) / 2e-6, rel=1e-7)

    def test_forward_draws(self) -> None:
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

    def test_bad_arguments(self) -> None:
        invariants = all_margins(2, 3)
        with pytest.raises(ValueError, match=r"w must have shape \(..., 4\), the rank"):
            ProjectedLaplaceGivenRows.dist(np.zeros((2, 3)), np.zeros(3), 1.0, invariants=invariants)
        with pytest.raises(ValueError, match="without invariants nothing is projected"):
            RowSpaceNoise.dist(1.0, invariants=Invariants(None, frame_of(3)))
        with pytest.raises(TypeError, match=r"invariants must be a bayesdp\.Invariants"):
            RowSpaceNoise.dist(1.0, invariants=bdp.Totals(frame_of(3)))


def test_whole_numbers_with_the_step_method_of_counts() -> None:
    # The closed form is no fast term of the kernel: moves are accepted or rejected on the compiled log-density. Against all
    # 28 tables of the fiber; false-alarm rate 1e-4 after thinning.
    frame, b, y = frame_of(3), 1.5, np.array([4.3, -0.9, 2.6])
    invariants, rate = Invariants(Totals(frame)), np.array([2.0, 1.0, 3.0])
    with pm.Model():
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate))
        ExactAnswers("total", x, query=Totals(frame), sign="=", observed=np.float64(6))
        ProjectedLaplace("y", x, b, invariants=invariants, observed=y)
        tree = pm.sample(
            4000, tune=100, chains=1, random_seed=2, progressbar=False, quiet=True, compute_convergence_checks=False
        )
    tables = np.array([(i, j, 6 - i - j) for i in range(7) for j in range(7 - i)])
    law = noise.ProjectedLaplace(b)
    logs = [law.logp(y, own, invariants) + poisson.logpmf(own, rate).sum() for own in tables]
    probabilities = np.exp(np.array(logs) - max(logs))
    draws = tree.posterior["x"].values[0, ::4] @ [7, 1, 0]
    assert chi_square_pvalue(draws, tables @ [7, 1, 0], probabilities / probabilities.sum()) > 1e-4
