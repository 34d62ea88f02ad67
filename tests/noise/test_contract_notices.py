"""The contract of all laws fails for a law that breaks it: in its mass, its draws, its moments, its words, its verbs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayesdp import noise
from tests.noise.contract import mass_checks, use_checks
from tests.noise.contract.examples import example_of
from tests.noise.contract.masses import mass_of


def _scaled(factor: float) -> Any:
    """A method whose result is multiplied."""
    return lambda method: lambda *given, **named: factor * method(*given, **named)


def _shifted(by: float) -> Any:
    return lambda method: lambda *given, **named: method(*given, **named) + by


def _wider(method: Any) -> Any:
    """Noise of a law of twice the scale in the first answer, every second draw."""

    def draw(self: Any, rng: Any, shape: Any, size: Any = None, invariants: Any = None, location: Any = None) -> Any:
        found = method(self, rng, shape, size, invariants, location)
        centre = 0 if location is None else np.asarray(location)
        return centre + (found - centre) * np.where(np.arange(len(found)) % 2, 2, 1)[:, None]

    return draw


def _renamed(method: Any) -> Any:
    return lambda self: {**method(self), "b": 2.0}


def _of_smaller_loss(method: Any) -> Any:
    return lambda self, query, invariants: noise.LossByLength(("pure",), "l1", noise.exponential_loss(0.5 / self.b))


BROKEN = [
    ("laplace", "logp", _shifted(1e-4), "normalised"),
    ("lattice-laplace", "logp", _shifted(1e-3), "normalised"),
    ("projected-gaussian", "logp", _shifted(0.02), "normalised"),
    ("discrete-gaussian", "logp", _scaled(1.001), "pymc_mass"),
    ("lattice-gaussian", "logp", _scaled(0.8), "draws"),
    ("discrete-gaussian", "draw", _wider, "draws"),
    ("subspace-norm", "draw", _wider, "draws"),
    ("lattice-laplace", "draw", _shifted(1), "kept"),
    ("extended-laplace", "variance", _scaled(1.02), "variance"),
    ("truncated-laplace", "cdf", _scaled(0.999), "cdf"),
    ("tulap", "picture", _scaled(1.05), "picture"),
    ("laplace", "describe", _renamed, "description"),
    ("gaussian", "logp", _scaled(1.01), "posterior"),
    ("discrete-laplace", "kernel_form", lambda own: noise.KernelForm("l1", of_scale=False), "kernel"),
    ("laplace", "pair_loss", _of_smaller_loss, "pair_loss"),
]


@pytest.mark.parametrize(("name", "verb", "broken", "check"), BROKEN)
def test_a_broken_law(name: str, verb: str, broken: Any, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    example = example_of(name)
    of_mass = hasattr(mass_checks, f"check_{check}")
    checked = getattr(mass_checks if of_mass else use_checks, f"check_{check}")
    prepare = mass_of if of_mass else use_checks.fitted
    checked(example, prepare(example))
    monkeypatch.setattr(type(example.law), verb, broken(getattr(type(example.law), verb)))
    with pytest.raises(AssertionError):
        checked(example, prepare(example))
