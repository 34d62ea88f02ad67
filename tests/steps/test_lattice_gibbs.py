"""Latent lattice noise: its posterior against enumeration, the same posterior as latent counts, and PyMC's contract."""

import subprocess
import sys
from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy.special import softmax
from scipy.stats import gamma, poisson

import bayesdp as bdp
from bayesdp.distributions import LatticeGaussian, LatticeLaplace
from bayesdp.steps import LatticeNoiseGibbs
from tests.lattices.oracles import LEVEL, lattice_points, law_on, pvalue
from tests.steps.models import begun

TABLE = {"county": ["p", "q"], "education": ["a", "b", "c"]}
MARGINS = bdp.Margins(TABLE, ["county"], ["education"])
BOTH = bdp.Invariants(MARGINS)
Y = np.array([[4, -1, 7], [2, 6, 3]])
"""A published table with a negative count: noise of zero is not a feasible start."""
START = np.array([[3, 0, 7], [3, 5, 3]])
"""A nonnegative table with the margins of Y."""
RATE = np.array([[3.0, 2.0, 5.0], [3.0, 4.0, 4.0]])
LAWS = {"l1": 0.4, "l2": 0.7, "gaussian": 1.8}


def noise_of(law, around=None, **more):
    mu = np.zeros_like(Y) if around is None else around
    if law == "gaussian":
        return LatticeGaussian("z", mu, LAWS[law], invariants=BOTH, **more)
    return LatticeLaplace("z", mu, LAWS[law], invariants=BOTH, norm=law, **more)


def model_of(law, later=False):
    with pm.Model() as model:
        z = noise_of(law)
        x = pm.Deterministic("x", Y - z)
        pm.Potential("prior", pm.logp(pm.Poisson.dist(RATE), x).sum())
        if later:
            pm.Normal("later")
    return model


def posterior(law):
    """Tables and their probabilities, by enumeration."""
    points = lattice_points(BOTH.matrix.toarray(), 25)
    with np.errstate(divide="ignore"):
        weight = np.log(law_on(points, law, LAWS[law])) + poisson.logpmf(Y.ravel() - points, RATE.ravel()).sum(axis=1)
    return Y.ravel() - points, softmax(weight)


def step_of(model, **options):
    with model:
        return begun(LatticeNoiseGibbs(**options))


def draws_of(model, draws, sweeps=2):
    """Noise of all cells, and the shares of accepted moves."""
    step = step_of(model, sweeps=sweeps)
    point, found, accepted = model.initial_point(), [], []
    for _ in range(draws):
        point, [stats] = step.step(point)
        found.append(point["z"].reshape(-1))
        accepted.append(stats["lattice_accepted"])
    return np.array(found), accepted


class TestLaw:
    """A right sampler fails one of these in ten thousand runs; 40 moves lie between two draws on a lattice of dimension 2."""

    @pytest.mark.parametrize("law", ["l1", *(pytest.param(o, marks=pytest.mark.system) for o in ("l2", "gaussian"))])
    def test_posterior_with_latent_noise(self, law):
        noise, accepted = draws_of(model_of(law), 300, sweeps=20)
        assert pvalue(Y.reshape(-1) - noise, *posterior(law)) > LEVEL
        assert 0.05 < np.mean(accepted) < 1.0

    @pytest.mark.parametrize("law", list(LAWS))
    def test_noise_alone_has_its_own_law_around_any_table(self, law):
        around = Y if law == "l1" else np.zeros_like(Y)
        with pm.Model() as model:
            noise_of(law, around)
        found, accepted = draws_of(model, 2000)
        assert set(accepted) == {1.0}
        points = lattice_points(BOTH.matrix.toarray(), 25)
        assert pvalue(found - around.reshape(-1), points, law_on(points, law, LAWS[law])) > LEVEL


class TestEpsilon:
    """The rate as a parameter of latent noise. Normalisers: `tests/distributions/test_lattice_normalisers.py`."""

    def test_density_with_latent_noise(self):
        """Of a total over three cells, in closed form: 2 * ||z||_inf = ||z||_1, and 6 m tables have norm 2 m."""
        total = bdp.Invariants(bdp.Totals({"county": ["p", "q", "r"]}))
        with pm.Model() as model:
            LatticeLaplace("z", np.zeros(3, dtype=int), pm.Gamma("epsilon", 2.0, 2.0), invariants=total)
        density, m = model.compile_logp(jacobian=False), np.arange(1, 4000)
        found, exact = [], []
        for epsilon, z in product((0.3, 0.9, 2.0), ([0, 0, 0], [3, -1, -2])):
            found.append(float(density({"epsilon_log__": np.log(epsilon), "z": np.array(z)})))
            log_sum = np.log1p((6.0 * m * np.exp(-2.0 * epsilon * m)).sum())
            exact.append(gamma.logpdf(epsilon, 2.0, scale=0.5) - np.abs(z).sum() * epsilon - log_sum)
        assert found == pytest.approx(exact, rel=1e-8)

    def test_refused_where_the_normaliser_is_not_known(self):
        five = bdp.Invariants(bdp.Margins({"a": range(5), "b": range(5)}, ["a"], ["b"]))
        for norm in ("l1", "l2"):
            with pm.Model():
                epsilon = pm.Gamma("epsilon", 2.0, 2.0)
                with pytest.raises(NotImplementedError, match="epsilon must be a constant here"):
                    LatticeLaplace("z", np.zeros((5, 5), dtype=int), epsilon, invariants=five, norm=norm)


class TestContract:
    def test_starts_on_the_lattice_where_the_model_allows_it_and_data_may_be_replaced(self):
        plain = model_of("l1")
        step = step_of(plain)
        np.testing.assert_array_equal(plain.initial_point()["z"], np.zeros_like(Y))
        for start in (np.zeros_like(Y), np.full_like(Y, 50)):
            step.setup_chain(np.random.default_rng(3), 10, 10)
            new, _ = step.step({"z": start})
            assert new["z"].dtype == np.int64
            assert BOTH.is_null(new["z"])
            assert (Y - new["z"] >= 0).all()
            assert not np.shares_memory(step.step(new)[0]["z"], new["z"])
        with pm.Model() as model:
            centre = pm.Data("centre", Y.astype(float))
            LatticeLaplace("z", centre.astype("int64"), 0.4, invariants=BOTH)
            pm.set_data({"centre": Y + 5.0})
        assert step_of(model).step(model.initial_point())[0]["z"].sum() == Y.sum() + 30

    @pytest.mark.system
    def test_assigned_to_whoever_imports_the_distributions_alone(self):
        # PyMC's own choice would be Metropolis, which leaves the lattice.
        program = """
import numpy as np, pymc as pm
from bayesdp import Invariants, Totals
from bayesdp.distributions import LatticeGaussian, LatticeLaplace
for law in (LatticeGaussian, LatticeLaplace):
    with pm.Model() as model:
        law('z', np.zeros(3, dtype=int), 2.0, invariants=Invariants(Totals({'county': [1, 2, 3]})))
    print(*[c.__name__ for c in pm.sampling.mcmc.assign_step_methods(model)[1]])
"""
        found = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=120)
        assert found.split() == ["LatticeNoiseGibbs"] * 2


class TestRefusals:
    def test_what_it_does_not_sample_and_a_model_that_allows_no_table(self):
        for build, error, words in (
            (lambda: pm.Poisson("y", 3.0), TypeError, "'y' is not one"),
            (lambda: noise_of("l1", pm.Poisson("x", RATE)), ValueError, "mu of the latent noise 'z' must be known"),
            (lambda: noise_of("l1", shape=(4, 2, 3)), ValueError, "not a batch"),
        ):
            with pm.Model():
                variable = build()
                with pytest.raises(error, match=words):
                    LatticeNoiseGibbs([variable])
        with pm.Model() as model:
            z = noise_of("l1")
            pm.Potential("never", pm.math.switch(z.sum() > 0, 0.0, -np.inf))
        with pytest.raises(ValueError, match="no noise 'z' was found that has positive density"):
            step_of(model).step(model.initial_point())
