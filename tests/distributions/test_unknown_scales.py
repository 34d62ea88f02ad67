"""The scale of every noise law as a variable of the model: its likelihood with all constants, and what the kernel takes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.distributions.perturbed import PerturbedByRows
from bayesdp.distributions.registry import distribution_of
from bayesdp.inference import FiberGibbs
from bayesdp.noise import Censored, PerturbedLaw, Rounded, TransitionTable, law_names
from tests.noise.contract.examples import LINE, TABLE, example_of, variants
from tests.noise.contract.use_checks import RATE

FACTORS = (0.8, 1.0, 1.25)
PAGE = Path(__file__).parents[2] / "docs/how-to/unknown-noise.md"

CELLS = [
    [own.strip() for own in line.strip("|").split("|")]
    for line in PAGE.read_text("utf-8").split("\n")
    if line[:2] == "| "
]
HOW = {name: (what, how) for name, what, how in CELLS if name != "law"}
"""What of each law may be a variable, and how counts are moved then; why nothing may: the table of the page."""

TRIED = [n for n in (*HOW, *variants()) if HOW[n.split()[0]][0] and not n.startswith("unknown-perturbation")]
"""The rows of `UnknownPerturbation` have tests of their own (tests/steps/test_noise_gibbs.py)."""

QUICK = ("gaussian", "boundary-inflated-laplace", "projected-gaussian", "random-rounding")


def rows(law, factor):
    """Probabilities of perturbed counts to a power of 1 over the factor, by NumPy or PyTensor."""
    mass = law.transitions.mass
    raised = np.where(mass > 0.0, mass, 1.0) ** (1.0 / factor) * (mass > 0.0)
    return raised / raised.sum(axis=1, keepdims=True)


def scale_of(law):
    return next(name for name in ("b", "sigma", "epsilon") if name in law.model_parameters())


def at(law, factor):
    """The law at a factor of its scale, by the law itself."""
    if isinstance(law, PerturbedLaw):
        table = law.transitions
        return TransitionTable(list(range(table.lowest, table.highest + 1)), rows(law, factor), table.period)
    if isinstance(law, Censored):
        return Censored(at(law.uncensored, factor), law.below, law.above)
    if isinstance(law, Rounded):
        return Rounded(at(law.noise, factor), law.base)
    return replace(law, **{scale_of(law): factor * law.model_parameters()[scale_of(law)]})


def model_of(example):
    """Counts with an exact sum, and numbers of the law at an unknown factor of its scale."""
    law, values = example.law, example.values
    with pm.Model(coords=LINE) as model:
        factor = pm.Uniform("factor", 0.5, 2.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE), dims="county")
        mu = x / TABLE.sum() if law.support == "simplex" else x
        if isinstance(law, PerturbedLaw):
            PerturbedByRows("noisy", mu, rows(law, factor), like=law, observed=values)
        else:
            given = law.model_parameters() | ({} if example.kept is None else {"invariants": example.kept})
            given[scale_of(law)] = factor * given[scale_of(law)]
            distribution_of(type(law))("noisy", mu=mu, **given, observed=values)
        bdp.observe(bdp.Release.from_published(LINE, [], [bdp.Exact(bdp.Totals(LINE), int(TABLE.sum()))]), x)
    return model


def test_every_law_says_what_of_it_may_be_unknown():
    assert {name.split()[0] for name in HOW} == set(law_names().split(", "))
    assert HOW["discrete-laplace"] == ("b", "drawn exactly")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in TRIED])
def test_the_likelihood_of_a_scale_has_all_its_constants(name):
    """Between scales it changes by as much as the law says; the step method takes it as the table says."""
    own = example_of(name)
    model = model_of(own)
    log_noise, point = model.compile_logp(vars=[model["noisy"]]), model.initial_point() | {"x": TABLE}
    found = [float(log_noise({**point, "factor_interval__": np.array(np.log((f - 0.5) / (2.0 - f)))})) for f in FACTORS]
    exact = [at(own.law, f).logp(own.values, own.location, own.kept) for f in FACTORS]
    if own.law.name != "conventional-rounding":  # nothing in it is by chance
        assert np.ptp(exact) > 1e-3
    np.testing.assert_allclose(np.diff(found), np.diff(exact), atol=1e-7)
    with model:
        step = FiberGibbs()
    assert (step.tables[0]._rest is None) == (HOW.get(name, HOW[name.split()[0]])[1] == "drawn exactly")
