"""The contract of all laws fails for a law that breaks it: in its mass, its draws, its moments, its words, its verbs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayesdp import noise
from tests.noise.contract import mass_checks, use_checks
from tests.noise.contract.examples import Example, example_of
from tests.noise.contract.masses import mass_of


def _scaled(method: Any, factor: float) -> Any:
    """A method whose result is multiplied."""
    return lambda *given, **named: factor * method(*given, **named)


def _shifted(method: Any, by: float) -> Any:
    return lambda *given, **named: method(*given, **named) + by


def _wider(method: Any) -> Any:
    """Noise of a law of twice the scale in the first answer, every second draw."""

    def draw(self: Any, rng: Any, shape: Any, size: Any = None, invariants: Any = None, location: Any = None) -> Any:
        found = method(self, rng, shape, size, invariants, location)
        centre = 0 if location is None else np.asarray(location)
        return centre + (found - centre) * np.where(np.arange(len(found)) % 2, 2, 1)[:, None]

    return draw


MASS = {
    "a mass with a wrong constant": ("discrete-laplace", "logp", lambda own: _shifted(own, 1e-4), "normalised"),
    "a density with a wrong constant": ("laplace", "logp", lambda own: _shifted(own, 1e-4), "normalised"),
    "a mass on a lattice with a wrong constant": ("lattice-laplace", "logp", lambda own: _shifted(own, 1e-3), "normalised"),
    "a density of tables with a wrong constant": ("projected-gaussian", "logp", lambda own: _shifted(own, 0.02), "normalised"),
    "a mass that is not that of PyMC": ("discrete-gaussian", "logp", lambda own: _scaled(own, 1.001), "pymc_mass"),
    "a wider mass": ("lattice-gaussian", "logp", lambda own: _scaled(own, 0.8), "draws"),
    "wider draws": ("discrete-gaussian", "draw", _wider, "draws"),
    "wider draws of tables": ("subspace-norm", "draw", _wider, "draws"),
    "draws beside the lattice": ("lattice-laplace", "draw", lambda own: _shifted(own, 1), "kept"),
    "draws of another type": ("discrete-laplace", "draw", lambda own: _scaled(own, 1.0), "draws"),
    "a larger variance": ("extended-laplace", "variance", lambda own: _scaled(own, 1.02), "variance"),
    "a larger variance of integers": ("discrete-laplace", "variance", lambda own: _scaled(own, 1.01), "variance"),
    "a wrong distribution function": ("truncated-laplace", "cdf", lambda own: _scaled(own, 0.999), "cdf"),
    "a higher picture": ("tulap", "picture", lambda own: _scaled(own, 1.05), "picture"),
    "a description with another parameter": (
        "laplace",
        "describe",
        lambda own: lambda self: {**own(self), "b": 2.0},
        "description",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MASS)
def test_a_broken_mass(case: str, monkeypatch) -> None:
    name, verb, broken, check = MASS[case]
    example = example_of(name)
    kept = getattr(mass_checks, f"check_{check}")
    kept(example, mass_of(example))
    monkeypatch.setattr(type(example.law), verb, broken(getattr(type(example.law), verb)))
    with pytest.raises(AssertionError):
        kept(example, mass_of(example))


def _of_other_norm(own: Any) -> Any:
    return lambda self, invariants: noise.KernelForm("l2" if self.norm == "l1" else "l1")


def _with_loss(own: Any) -> Any:
    return lambda self, query, invariants: noise.LossByLength(("pure",), "l1", noise.exponential_loss(0.5 / self.b))


USE = {
    "a kernel form of another scale": (
        "discrete-laplace",
        "kernel_form",
        lambda own: noise.KernelForm("l1", of_scale=False),
        "kernel",
    ),
    "a kernel form of another norm": ("lattice-laplace", "kernel_of", _of_other_norm, "kernel"),
    "a smaller loss than it has": ("laplace", "pair_loss", _with_loss, "pair_loss"),
}


@pytest.mark.parametrize("case", USE)
def test_a_broken_verb(case: str, monkeypatch) -> None:
    name, verb, broken, check = USE[case]
    example = example_of(name)
    monkeypatch.setattr(type(example.law), verb, broken(getattr(type(example.law), verb)))
    with pytest.raises(AssertionError):
        getattr(use_checks, f"check_{check}")(example, use_checks.fitted(example))


def test_a_law_with_another_log_mass_than_its_model(monkeypatch) -> None:
    """The distribution has its own graph of the log-density: a law that changes is noticed at the enumerated posterior."""
    example = example_of("gaussian")
    own = use_checks.fitted(example)
    use_checks.check_posterior(example, own)
    monkeypatch.setattr(noise.Gaussian, "logp", _scaled(noise.Gaussian.logp, 1.01))
    with pytest.raises(AssertionError):
        use_checks.check_posterior(example, own)


def test_secure_draws_of_another_law() -> None:
    example = example_of("discrete-laplace")
    assert example.secure is not None
    law, drawn = example.secure()
    wrong = Example(law, example.reach, secure=lambda: (noise.DiscreteLaplace(3.0), drawn))
    with pytest.raises(AssertionError):
        mass_checks.check_secure_draws(wrong, mass_of(example))
