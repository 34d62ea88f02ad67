"""The step method of row-space noise: its law, what PyMC asks of it, and what it refuses."""

import math

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.stats import kstest

from bayesdp._random import seed_state
from bayesdp.distributions import ProjectedLaplaceGivenRows, RowSpaceNoise
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.projected_laplace import directions_of, row_basis, sweep
from bayesdp.queries import LinearQuery, Margins
from bayesdp.steps import RowNoiseGibbs
from tests.noise.oracles import all_margins, frame_of
from tests.steps.models import run

Y = np.array([[5.0, 3.0], [2.0, 7.0]])
MOVE = np.array([[1.0, -1.0], [-1.0, 1.0]])
PAIR = all_margins(2, 2)
WEIGHTED = Invariants(LinearQuery(frame_of(4), [[1, 2, 0, 0], [0, 1, -1, 3]], ["a", "b"]))


def chain(invariants, u, b, draws, thin=1):
    """Draws of w given u."""
    own, state = directions_of(invariants), seed_state(np.random.default_rng(7))
    w, out = np.zeros(invariants.rank), []
    e = u.reshape(-1).astype(np.float64)
    for _ in range(draws):
        sweep(e, w, b, own, thin, state)
        out.append(w.copy())
    assert e == pytest.approx(u.reshape(-1) + row_basis(invariants).T @ w, abs=1e-9)
    return np.array(out)


def grid_law(invariants, u, b, grid):
    """Cumulative marginal laws of each w on a grid, by summing the joint density over all of them."""
    rows = row_basis(invariants).toarray()
    axes = np.meshgrid(*[grid] * len(rows), indexing="ij", sparse=True)
    exponent = sum(
        np.abs(value + sum(r * w for r, w in zip(column, axes, strict=True) if r))
        for value, column in zip(u.reshape(-1), rows.T, strict=True)
    )
    mass = np.exp(-(exponent - exponent.min()) / b)
    laws = []
    for k in range(len(rows)):
        own = mass.sum(axis=tuple(a for a in range(len(rows)) if a != k))
        laws.append(np.cumsum(own / own.sum()) - 0.5 * own / own.sum())
    return laws


class TestLaw:
    def test_row_noise_given_the_projected_noise(self):
        # Against numerical integration over all w; false-alarm rate 1e-4 for each of nine comparisons.
        for invariants, u, points in (
            (PAIR, 1.2 * MOVE, 160),
            (all_margins(2, 3), np.array([[1.0, -3.0, 2.0], [-1.0, 3.0, -2.0]]), 48),
            (WEIGHTED, np.array([2.0, -1, -1, 0]), 400),
        ):
            grid = np.linspace(-11.0, 11.0, points)
            draws = chain(invariants, u, 1.5, 3000, thin=4)
            for own, law in zip(draws.T, grid_law(invariants, u, 1.5, grid), strict=True):
                assert kstest(own, np.interp, args=(grid, law)).pvalue > 1e-4

    def test_mixing(self):
        # Redundant rows are among the directions. Without them rows and columns rise and fall against each other, and the
        # smallest of these numbers of effective draws would be 0.22 a sweep.
        invariants = all_margins(4, 4)
        u = invariants.project(np.random.default_rng(1).laplace(size=(4, 4)))
        fitted = chain(invariants, u, 1.0, 4000) @ row_basis(invariants).toarray()
        assert min(float(az.ess(fitted[None, :, cell])) for cell in range(16)) > 0.4 * 4000


def model_of():
    """One real unknown along the only free direction, and latent row-space noise."""
    with pm.Model() as model:
        s = pm.Normal("s", 0.0, 2.0)
        w = RowSpaceNoise("w", 1.5, invariants=PAIR)
        ProjectedLaplaceGivenRows("y", Y - MOVE + s * MOVE, w, 1.5, invariants=PAIR, observed=Y)
    return model


class TestPosterior:
    @pytest.mark.system
    def test_of_a_continuous_table_against_quadrature(self):
        # NUTS for the table given w and exact draws of w: the posterior of the table must be that of the projected law.
        # False-alarm rate 1e-4.
        tree = run(model_of(), draws=2500, tune=300, seed=5)
        grid = np.linspace(-9.0, 11.0, 161)
        z = 4 * np.abs(1 - grid) / 1.5  # half a sum of four Laplace variables
        logs = np.log(15 + 15 * z + 6 * z**2 + z**3) - z - grid**2 / 8
        mass = np.exp(logs - logs.max())
        cdf = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
        draws = tree.posterior["s"].values
        thin = math.ceil(draws.size / float(az.ess(draws)))
        assert thin < 12
        assert kstest(draws[:, ::thin].reshape(-1), np.interp, args=(grid, cdf)).pvalue > 1e-4


class TestRefusals:
    def test_other_variables_and_noise_that_stands_nowhere_or_elsewhere(self):
        with model_of() as model:
            with pytest.raises(TypeError, match="'s' is not one"):
                RowNoiseGibbs([model["s"]])
            with pytest.raises(ValueError, match="sweeps"):
                RowNoiseGibbs(sweeps=0)
        with pm.Model() as alone:
            RowSpaceNoise("w", 1.0, invariants=PAIR)
        with model_of() as used:
            pm.Potential("again", -used["w"].sum())
        other = Invariants(LinearQuery(frame_of(2, 4), np.eye(2, 8, dtype=int), ["a", "b"]))
        with pm.Model() as mixed:
            w = RowSpaceNoise("w", 1.0, invariants=Invariants(Margins(frame_of(2, 4), ["d0"])))
            ProjectedLaplaceGivenRows("y", np.zeros((2, 4)), w, 1.0, invariants=other, observed=np.zeros((2, 4)))
        for model, words in (
            (alone, "what depends on it is: nothing"),
            (used, "what depends on it is: 'y', 'again'"),
            (mixed, "'w' and 'y' must have the same invariants"),
        ):
            with model, pytest.raises(ValueError, match=words):
                RowNoiseGibbs()
