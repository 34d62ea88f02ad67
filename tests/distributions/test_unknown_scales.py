"""The scale of every noise law as a variable of the model: its likelihood with all constants, what the kernel takes, posteriors.

`HOW` says law by law what may be unknown; docs/how-to/unknown-noise.md shows the same table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import bayesdp as bdp
from bayesdp.distributions.perturbed import PerturbedByRows
from bayesdp.distributions.registry import distribution_of
from bayesdp.inference import FiberGibbs
from bayesdp.noise import Censored, NoiseLaw, PerturbedLaw, TransitionTable, law_names
from tests.noise.contract.examples import LINE, TABLE, Example, example_of, variants
from tests.noise.contract.use_checks import RATE

FACTORS = (0.8, 1.0, 1.25)
PAGE = Path(__file__).parents[2] / "docs/how-to/unknown-noise.md"

HOW = {
    name: (what, how)
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
    for name, what, how in [[own.strip() for own in line.strip("|").split("|")]]
    if name != "law"
}
"""What of each law may be a variable, and how counts are moved then; why nothing may: the table of the page."""

TRIED = [
    name
    for name in (*HOW, *variants())
    if HOW[name if name in HOW else name.split()[0]][0] and not name.startswith("unknown-perturbation")
]
"""The rows of `UnknownPerturbation` have tests of their own (tests/steps/test_perturbation_gibbs.py)."""

QUICK = ("gaussian", "boundary-inflated-laplace", "projected-gaussian", "random-rounding")


@dataclass(frozen=True, eq=False)
class Scaled:
    """A law at a factor of its scale: of perturbed counts, its probabilities to a power of 1 over the factor."""

    example: Example

    @property
    def law(self) -> NoiseLaw:
        return self.example.law

    @property
    def parameter(self) -> str:
        own = self.law.uncensored if isinstance(self.law, Censored) else self.law
        return next(name for name in ("b", "sigma", "epsilon") if name in own.model_parameters())

    def at(self, factor: float) -> NoiseLaw:
        """By the law itself, without PyMC."""
        law = self.law
        if isinstance(law, PerturbedLaw):
            table = law.transitions
            deviations = np.arange(table.lowest, table.highest + 1)
            return TransitionTable(deviations.tolist(), self.rows(factor), table.period)
        own = law.uncensored if isinstance(law, Censored) else law
        moved = replace(own, **{self.parameter: factor * own.model_parameters()[self.parameter]})
        return Censored(moved, law.below, law.above) if isinstance(law, Censored) else moved

    def rows(self, factor: Any) -> Any:
        """NumPy or PyTensor."""
        mass = self.law.transitions.mass
        powers = np.where(mass > 0.0, np.where(mass > 0.0, mass, 1.0) ** (1.0 / factor), 0.0)
        if isinstance(factor, float):
            return powers / powers.sum(axis=1, keepdims=True)
        raised = pt.switch(mass > 0.0, pt.pow(np.where(mass > 0.0, mass, 1.0), 1.0 / factor), 0.0)
        return raised / raised.sum(axis=1, keepdims=True)

    def add(self, x: Any, factor: Any) -> None:
        """The observed variable, its scale the factor times that of the law."""
        law, values = self.law, self.example.values
        mu = x / TABLE.sum() if law.support == "simplex" else x
        if isinstance(law, PerturbedLaw):
            PerturbedByRows("noisy", mu, self.rows(factor), like=law, observed=values)
            return
        parameters = law.model_parameters()
        kept = {} if self.example.kept is None else {"invariants": self.example.kept}
        scale = {self.parameter: factor * parameters[self.parameter]}
        distribution_of(type(law))("noisy", mu=mu, **{**parameters, **scale}, **kept, observed=values)

    def model(self) -> pm.Model:
        with pm.Model(coords=LINE) as model:
            factor = pm.Uniform("factor", 0.5, 2.0)
            x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE), dims="county")
            self.add(x, factor)
            bdp.observe(bdp.Release.from_published(LINE, [], [bdp.Exact(bdp.Totals(LINE), int(TABLE.sum()))]), x)
        return model


def test_every_law_says_what_of_it_may_be_unknown() -> None:
    assert {name.split()[0] for name in HOW} == set(law_names().split(", "))
    assert HOW["discrete-laplace"] == ("b", "drawn exactly")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in TRIED])
def test_the_likelihood_of_a_scale_has_all_its_constants(name: str) -> None:
    """Between scales it changes by as much as the law says; the step method takes it as the table says."""
    own = Scaled(example_of(name))
    model = own.model()
    log_noise = model.compile_logp(vars=[model["noisy"]])
    point = model.initial_point() | {"x": TABLE}
    found = [float(log_noise({**point, "factor_interval__": np.array(np.log((f - 0.5) / (2.0 - f)))})) for f in FACTORS]
    exact = [own.at(f).logp(own.example.values, own.example.location, own.example.kept) for f in FACTORS]
    if own.law.name != "conventional-rounding":  # nothing in it is by chance
        assert np.ptp(exact) > 1e-3
    np.testing.assert_allclose(np.diff(found), np.diff(exact), atol=1e-7)
    with model:
        step = FiberGibbs()
    how = HOW[name if name in HOW else name.split()[0]][1]
    assert step.tables[0].exact_conditional == (how == "drawn exactly")
