"""Gamma rates that could be integrated out: told where that is true, and then with the right numbers."""

import re
import warnings
from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.integrate import quad

import bayesdp as bdp
from bayesdp.steps import FiberGibbs, supports
from bayesdp.steps.supports import warn_slow_rates
from tests.inference.oracle import noisy_cells

A, B = 12, 5
DIMS = ("area", "cell")
COORDS = {"area": np.arange(A), "cell": np.arange(B)}
FACTOR = np.linspace(0.5, 2.0, B)


def gamma(name="rate", **kwargs):
    return pm.Gamma(name, **({"alpha": 2.0, "beta": 0.1} | kwargs), dims=DIMS)


def counts(rate, name="x"):
    return bdp.ConfidentialCounts(name, pm.Poisson.dist(rate), dims=DIMS)


SLOW = {
    "alone": (lambda: counts(gamma()), "mu=20, alpha=2)"),
    "mu and sigma": (lambda: counts(gamma(alpha=None, beta=None, mu=6.0, sigma=3.0)), "mu=6, alpha=4)"),
    "deterministic": (lambda: counts(pm.Deterministic("d", gamma(), dims=DIMS)), "mu=20, alpha=2)"),
    "times": (lambda: counts(3.0 * gamma() * FACTOR), "mu=20 times what the rates multiply rate by, alpha=2)"),
    "over": (lambda: counts(gamma() / FACTOR), "mu=20 times what"),
    "other form": (lambda: counts(pm.Gamma("rate", 2.0, 0.1, shape=A * B).reshape((A, B))), "mu=20, alpha=2)"),
    "hyperparameter": (
        lambda: counts(gamma(alpha=pm.Exponential("shape", 1.0))),
        "mu=mean of rate, alpha=alpha) in the place of pm.Poisson.dist, with alpha",
    ),
    "random factor": (lambda: counts(gamma() * pm.LogNormal("exposure", shape=(A, 1))), "mu=20 times what"),
    "exponential": (lambda: counts(pm.Exponential("rate", 0.25, dims=DIMS)), "mu=4, alpha=1)"),
    "shown otherwise": (lambda: pm.Deterministic("total", counts(gamma()).sum()), "mu=20, alpha=2)"),
    "counts used": (lambda: pm.Poisson("y", counts(gamma()).sum() + 1.0, observed=3), "mu=20, alpha=2)"),
}
FINE = {
    "few cells": lambda: bdp.ConfidentialCounts("x", pm.Poisson.dist(pm.Gamma("r", 2.0, 1.0, shape=50)), shape=50),
    "one rate for all": lambda: counts(pm.Gamma("r", 2.0, 1.0)),
    "one rate an area": lambda: counts(pm.Gamma("r", 2.0, 1.0, shape=(A, 1)) * np.ones((A, B))),
    "marginal": lambda: bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=20.0, alpha=2.0), dims=DIMS),
    "log-normal": lambda: counts(pm.LogNormal("r", dims=DIMS)),
    "sum of two": lambda: counts(gamma() + 1.0),
    "a power": lambda: counts(gamma() ** 2),
    "a square": lambda: counts((own := gamma()) * own),
    "also the factor": lambda: counts((own := gamma()) / own.sum()),
    "shuffled": lambda: counts(gamma()[np.zeros(A, dtype=int)]),
    "used by another likelihood": lambda: (counts(own := gamma()), pm.Poisson("y", own.sum(), observed=3)),
    "used by a potential": lambda: (counts(own := gamma()), pm.Potential("p", -own.sum())),
    "used by other counts": lambda: (counts(own := gamma()), counts(own, "y")),
    "structural zeros": lambda: counts(gamma() * (np.arange(B) > 0)),
    "observed rates": lambda: counts(pm.Gamma("r", 2.0, 1.0, dims=DIMS, observed=np.ones((A, B)))),
}


def told(make):
    """What is said of a model."""
    with pm.Model(coords=COORDS) as model:
        make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rv in model.free_RVs:
            if FiberGibbs.belongs(rv):
                warn_slow_rates(model, [model.rvs_to_values[rv]])
    return [str(own.message) for own in caught]


@pytest.mark.parametrize("name", [*SLOW, *FINE])
def test_slow_rates_are_told_and_nothing_where_it_would_not_be_true(name):
    make, stated = SLOW.get(name) or (FINE[name], None)
    assert len(told(make)) == (name in SLOW)
    for said in told(make):
        assert "each of the 60 cells of x has a gamma rate of its own (rate)" in said
        assert stated in said


def test_what_is_told_is_true_of_each_counts():
    """A rate that is integrated out by quadrature leaves the negative binomial that the warning states."""
    [said] = told(lambda: counts(gamma(alpha=1.5, beta=0.5) * FACTOR))
    mean, alpha = map(float, re.search(r"mu=(\S+) times .*, alpha=([\d.]+)\)", said).groups())
    for factor, x in product(FACTOR[[0, -1]], (0, 1, 7)):
        own = stats.gamma(1.5, scale=2.0)
        exact, _ = quad(lambda g, f=factor, x=x, own=own: stats.poisson.pmf(x, f * g) * own.pdf(g), 0, 80)
        assert stats.nbinom.pmf(x, alpha, alpha / (alpha + mean * factor)) == pytest.approx(exact, rel=1e-6)
    names = [
        re.search("cells of ([xy]) has", said).group(1)
        for said in told(lambda: (counts(gamma()), counts(gamma("o"), "y")))
    ]
    assert names == ["x", "y"]


@pytest.fixture
def slow_model(monkeypatch):
    """Three cells with a gamma rate each, as if they were many."""
    monkeypatch.setattr(supports, "_FEW", 2)
    table = {"cell": ["a", "b", "c"]}
    with pm.Model(coords=table) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(pm.Gamma("rate", 0.8, 0.5, dims="cell")), dims="cell")
        bdp.observe(noisy_cells(table, [3, 0, 1], bdp.noise.DiscreteGaussian(1.5)), x)
    return model


RUN = {"draws": 4, "tune": 2, "chains": 2, "cores": 1, "random_seed": 3, "progressbar": False}


def _slow(caught):
    return [own for own in caught if "has a gamma rate of its own" in str(own.message)]


@pytest.mark.system
@pytest.mark.parametrize("sampler", [bdp.sample, pm.sample])
@pytest.mark.parametrize("made", [True, False])
@pytest.mark.filterwarnings("ignore:The number of samples is too small")
def test_it_is_told_once_however_a_model_is_sampled_and_of_the_users_line(slow_model, sampler, made):
    with slow_model, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = {"step": FiberGibbs()} if made else {}
        assert len(_slow(caught)) == int(made)
        sampler(**RUN, **options)
    [told] = _slow(caught)
    assert told.filename == __file__


def test_quiet_is_quiet_and_ends_with_the_run(slow_model):
    with slow_model, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bdp.sample(**RUN, quiet=True)
        assert not _slow(caught)
        FiberGibbs()
        assert len(_slow(caught)) == 1
