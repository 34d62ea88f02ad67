"""Latent lattice noise: its posterior against enumeration, the same posterior as latent counts, and PyMC's contract."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy.integrate import trapezoid
from scipy.special import gammaln, logsumexp, softmax
from scipy.stats import gamma, poisson

import bayesdp as bdp
from bayesdp.distributions import LatticeGaussian, LatticeLaplace
from bayesdp.steps import LatticeNoiseGibbs
from tests.lattices.oracles import LEVEL, lattice_points, law_on, pvalue
from tests.steps.models import run

TABLE = {"county": ["p", "q"], "education": ["a", "b", "c"]}
MARGINS = bdp.Margins(TABLE, ["county"], ["education"])
BOTH = bdp.Invariants(MARGINS)
Y = np.array([[4, -1, 7], [2, 6, 3]])
"""A published table with a negative count: noise of zero is not a feasible start."""
RATE = np.array([[3.0, 2.0, 5.0], [3.0, 4.0, 4.0]])
LAWS = {"l1": 0.4, "l2": 0.7, "gaussian": 1.8}


def noise_of(law: str, **kwargs: Any) -> Any:
    if law == "gaussian":
        return LatticeGaussian("z", np.zeros_like(Y), LAWS[law], invariants=BOTH, **kwargs)
    return LatticeLaplace("z", np.zeros_like(Y), LAWS[law], invariants=BOTH, norm=law, **kwargs)


def model_of(law: str, later: bool = False) -> pm.Model:
    with pm.Model() as model:
        z = noise_of(law)
        x = pm.Deterministic("x", Y - z)
        pm.Potential("prior", pm.logp(pm.Poisson.dist(RATE), x).sum())
        if later:
            pm.Normal("later")
    return model


def posterior(law: str) -> tuple[np.ndarray, np.ndarray]:
    """Tables and their probabilities, by enumeration."""
    points = lattice_points(BOTH.matrix.toarray(), 25)
    with np.errstate(divide="ignore"):
        weight = np.log(law_on(points, law, LAWS[law])) + poisson.logpmf(Y.ravel() - points, RATE.ravel()).sum(axis=1)
    return Y.ravel() - points, softmax(weight)


@pytest.fixture(scope="module")
def plain() -> pm.Model:
    return model_of("l1")


@pytest.fixture
def step(plain) -> LatticeNoiseGibbs:
    with plain:
        made = LatticeNoiseGibbs()
    made.setup_chain(np.random.default_rng(3), 10, 10)
    return made


class TestLaw:
    """A right sampler fails one of these in ten thousand runs; 40 moves lie between two draws on a lattice of dimension 2."""

    @pytest.mark.parametrize("law", list(LAWS))
    @pytest.mark.system
    def test_posterior_with_latent_noise(self, law):
        tree = run(model_of(law), draws=2000, tune=50, lattice_noise_gibbs={"sweeps": 20})
        draws = tree.posterior["x"].values.reshape(-1, 6)
        assert pvalue(draws, *posterior(law)) > LEVEL
        accepted = tree.sample_stats["lattice_accepted"]
        assert 0.05 < float(accepted.mean()) < 1.0

    def test_latent_counts_have_the_same_posterior(self):
        release = bdp.Release.from_published(
            TABLE,
            measured=[bdp.Measured(bdp.Identity(TABLE), Y, bdp.noise.LatticeLaplace(LAWS["l1"]))],
            exact=[
                bdp.Exact(q, q.apply(Y)) for q in (bdp.Margins(TABLE, ["county"]), bdp.Margins(TABLE, ["education"]))
            ],
        )
        with pm.Model() as model:
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE))
            bdp.observe(release, x)
        draws = run(model, draws=2000, tune=50).posterior["x"].values.reshape(-1, 6)
        assert pvalue(draws, *posterior("l1")) > LEVEL

    @pytest.mark.parametrize("law", list(LAWS))
    def test_noise_alone_has_its_own_law(self, law):
        with pm.Model() as model:
            noise_of(law)
        tree = run(model, draws=2000, tune=20)
        assert (tree.sample_stats["lattice_accepted"] == 1.0).all()
        points = lattice_points(BOTH.matrix.toarray(), 25)
        assert pvalue(tree.posterior["z"].values.reshape(-1, 6), points, law_on(points, law, LAWS[law])) > LEVEL

    def test_noise_around_another_table(self):
        with pm.Model() as model:
            LatticeLaplace("z", Y, 0.4, invariants=BOTH)
        draws = run(model, draws=2000, tune=20).posterior["z"].values.reshape(-1, 6) - Y.ravel()
        points = lattice_points(BOTH.matrix.toarray(), 25)
        assert pvalue(draws, points, law_on(points, "l1", 0.4)) > LEVEL


class TestEpsilon:
    """The rate as a parameter, where the normaliser is known: a total over three cells."""

    TOTAL = bdp.Invariants(bdp.Totals({"county": ["p", "q", "r"]}))
    GRID = np.linspace(1e-4, 12.0, 6001)

    def log_sum(self, epsilon: np.ndarray) -> np.ndarray:
        """The normaliser by enumeration in closed form: 2 * ||z||_inf = ||z||_1, and 6 m tables have norm 2 m."""
        m = np.arange(1, 4000)
        return np.log1p(np.array([(6.0 * m * np.exp(-2.0 * e * m)).sum() for e in epsilon]))

    def check(self, draws: np.ndarray, density: np.ndarray) -> None:
        """Mean, mean square and median, each within 4 standard errors by batch means: false alarms below one in 5000."""
        density = density / trapezoid(density, self.GRID)
        centre = float(np.interp(0.5, np.cumsum(density) * (self.GRID[1] - self.GRID[0]), self.GRID))
        for function in (lambda e: e, lambda e: e**2, lambda e: (e < centre).astype(float)):
            batches = function(draws.reshape(40, -1)).mean(axis=1)
            expected = trapezoid(function(self.GRID) * density, self.GRID)
            assert abs(batches.mean() - expected) < 4.0 * batches.std(ddof=1) / np.sqrt(40) + 1e-4

    @pytest.mark.system
    def test_known_table(self):
        noise = np.array([2, -3, 1])
        with pm.Model() as model:
            epsilon = pm.Gamma("epsilon", 2.0, 2.0)
            LatticeLaplace(
                "y", np.array([10, 20, 5]), epsilon, invariants=self.TOTAL, observed=np.array([10, 20, 5]) + noise
            )
        draws = run(model, draws=4000, tune=500).posterior["epsilon"].values
        density = gamma.pdf(self.GRID, 2.0, scale=0.5) * np.exp(-6.0 * self.GRID - self.log_sum(self.GRID))
        self.check(draws, density)

    def test_both_margins_without_a_closed_form(self):
        square = bdp.Invariants(bdp.Margins({"a": range(3), "b": range(3)}, ["a"], ["b"]))
        table, noise = np.array([[4, 2, 7], [1, 9, 3], [6, 5, 2]]), np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]])
        with pm.Model() as model:
            epsilon = pm.Gamma("epsilon", 20.0, 20.0)
            LatticeLaplace("y", table, epsilon, invariants=square, observed=table + noise)
        draws = run(model, draws=4000, tune=500).posterior["epsilon"].values
        # Every table of norm up to 48 has its four free cells within 12 of zero; larger ones weigh nothing at such epsilon.
        free = np.stack(np.meshgrid(*[np.arange(-12, 13)] * 4, indexing="ij"), axis=-1).reshape(-1, 2, 2)
        sizes = (
            np.abs(free).sum(axis=(1, 2)) + np.abs(free.sum(axis=1)).sum(axis=1) + np.abs(free.sum(axis=2)).sum(axis=1)
        )
        sizes += np.abs(free.sum(axis=(1, 2)))
        norms, counts = np.unique(sizes, return_counts=True)
        log_sum = logsumexp(-np.outer(self.GRID, norms) + np.log(counts), axis=1)
        prior = gamma.pdf(self.GRID, 20.0, scale=0.05)
        assert trapezoid(prior[self.GRID < 0.4], self.GRID[self.GRID < 0.4]) < 1e-3
        self.check(draws, prior * np.exp(-6.0 * self.GRID - log_sum))

    @pytest.mark.system
    def test_latent_noise(self):
        y, rate = np.array([6, 1, 4]), np.array([2.0, 5.0, 4.0])
        with pm.Model() as model:
            epsilon = pm.Gamma("epsilon", 2.0, 2.0)
            z = LatticeLaplace("z", np.zeros(3, dtype=int), epsilon, invariants=self.TOTAL)
            pm.Potential("prior", pm.logp(pm.Poisson.dist(rate), y - z).sum())
        draws = run(model, draws=4000, tune=500).posterior["epsilon"].values
        tables = np.array([(a, b, 11 - a - b) for a in range(12) for b in range(12 - a)])
        prior = (tables * np.log(rate) - gammaln(tables + 1.0)).sum(axis=1)
        size = np.abs(y - tables).sum(axis=1)
        density = gamma.pdf(self.GRID, 2.0, scale=0.5) * np.exp(
            logsumexp(prior - np.outer(self.GRID, size), axis=1) - self.log_sum(self.GRID)
        )
        self.check(draws, density)

    def test_refused_where_the_normaliser_is_not_known(self):
        five = bdp.Invariants(bdp.Margins({"a": range(5), "b": range(5)}, ["a"], ["b"]))
        for norm in ("l1", "l2"):
            with pm.Model():
                epsilon = pm.Gamma("epsilon", 2.0, 2.0)
                with pytest.raises(NotImplementedError, match="epsilon must be a constant here"):
                    LatticeLaplace("z", np.zeros((5, 5), dtype=int), epsilon, invariants=five, norm=norm)


class TestContract:
    def test_starts_on_the_lattice_where_the_model_allows_it(self, step, plain):
        np.testing.assert_array_equal(plain.initial_point()["z"], np.zeros_like(Y))
        for start in (np.zeros_like(Y), np.full_like(Y, 50)):
            step.setup_chain(np.random.default_rng(3), 10, 10)
            new, _ = step.step({"z": start})
            assert new["z"].dtype == np.int64
            assert BOTH.is_null(new["z"])
            assert (Y - new["z"] >= 0).all()
            assert not np.shares_memory(step.step(new)[0]["z"], new["z"])

    def test_assigned_to_whoever_imports_the_distributions_alone(self):
        # PyMC's own choice would be Metropolis, which leaves the lattice.
        program = (
            "import numpy as np, pymc as pm\n"
            "from bayesdp import Invariants, Totals\n"
            "from bayesdp.distributions import LatticeGaussian, LatticeLaplace\n"
            "total = Invariants(Totals({'county': [1, 2, 3]}))\n"
            "for law in (LatticeGaussian, LatticeLaplace):\n"
            "    with pm.Model() as model:\n"
            "        law('z', np.zeros(3, dtype=int), 2.0, invariants=total)\n"
            "    print(*[c.__name__ for c in pm.sampling.mcmc.assign_step_methods(model)[1]])\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
        assert done.stdout.split() == ["LatticeNoiseGibbs"] * 2

    def test_data_may_be_replaced(self):
        with pm.Model() as model:
            centre = pm.Data("centre", Y.astype(float))
            LatticeLaplace("z", centre.astype("int64"), 0.4, invariants=BOTH)
            step = LatticeNoiseGibbs()
            pm.set_data({"centre": Y + 5.0})
        step.setup_chain(np.random.default_rng(3), 10, 10)
        assert step.step(model.initial_point())[0]["z"].sum() == Y.sum() + 30


def lattice_start() -> np.ndarray:
    """A nonnegative table with the margins of Y."""
    return np.array([[3, 0, 7], [3, 5, 3]])


class TestRefusals:
    def test_other_variables(self):
        with pm.Model():
            y = pm.Poisson("y", 3.0)
            with pytest.raises(TypeError, match="'y' is not one"):
                LatticeNoiseGibbs([y])

    def test_a_location_that_is_not_known(self):
        with pm.Model():
            x = pm.Poisson("x", RATE)
            LatticeLaplace("z", x, 0.4, invariants=BOTH)
            with pytest.raises(ValueError, match="mu of the latent noise 'z' must be known"):
                LatticeNoiseGibbs()

    def test_a_batch(self):
        with pm.Model():
            LatticeLaplace("z", np.zeros_like(Y), 0.4, invariants=BOTH, shape=(4, 2, 3))
            with pytest.raises(ValueError, match="not a batch"):
                LatticeNoiseGibbs()

    def test_a_model_that_allows_no_table(self):
        with pm.Model() as model:
            z = noise_of("l1")
            pm.Potential("never", pm.math.switch(z.sum() > 0, 0.0, -np.inf))
            step = LatticeNoiseGibbs()
        step.setup_chain(np.random.default_rng(3), 10, 10)
        with pytest.raises(ValueError, match="no noise 'z' was found that has positive density"):
            step.step(model.initial_point())
