"""Parameters that several mechanisms check alike: how the loss is stated and noise is drawn; scales, rounded up."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from bayesdp._validate import choice, positive_real, probability
from bayesdp.noise.arrays import positive_number

__all__ = ["drawn_exactly", "laplace_scale", "one_statement"]


def drawn_exactly(method: Any, noise: str = "the noise of this mechanism") -> None:
    """Check the method of noise that has no Markov chain; `noise` is its name in the message."""
    if choice(method, ("auto", "exact", "mcmc"), "method") == "mcmc":
        raise ValueError(f"method must be 'auto' or 'exact': {noise} is always drawn exactly")


def laplace_scale(sensitivity: float, epsilon: float, name: str = "sensitivity / epsilon") -> float:
    """The scale `sensitivity / epsilon`, rounded up: exact noise of one rounded down would cost a little more than epsilon."""
    b = positive_number(sensitivity / epsilon, name)
    return b if Fraction(b) * Fraction(epsilon) >= Fraction(sensitivity) else math.nextafter(b, math.inf)


def one_statement(given: dict[str, float | None], ways: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Check that the loss is stated in exactly one of the `ways`, and that its numbers are valid; return that way."""
    # `given` has each parameter with its value, None where it was left out; a way has the names that belong together.
    stated = tuple(name for name, value in given.items() if value is not None)
    if stated not in ways:
        known = " or ".join(" and ".join(f"{name}=" for name in way) for way in ways)
        raise ValueError(f"state the loss by {known}, and by one of these only; got {', '.join(stated) or 'none'}")
    for name in stated:
        if name == "delta":
            probability(given[name], name)
        else:
            positive_real(given[name], name)
    return stated
