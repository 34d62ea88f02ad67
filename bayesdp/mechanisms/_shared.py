"""What mechanisms share: grids, largest counts, checks of privacy parameters, and what is said of exact drawing."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import MAX_COUNT, choice, exact_total, finite_array, integer_array, positive_real, probability
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.lattices.integers import round_to_lattice
from bayesdp.lattices.secure import has_secure
from bayesdp.noise.arrays import positive_number
from bayesdp.noise.secure import statement
from bayesdp.privacy.caveats import IntegersOnly, Rounded
from bayesdp.queries import Query


def secure_statement(invariants: Invariants, law: str, method: str) -> IntegersOnly | None:
    """Say how lattice noise is drawn without a generator; None where integers alone cannot do it, or MCMC is asked for."""
    return statement("integers", extra=False) if method != "mcmc" and has_secure(invariants, law) else None


type Floats = npt.NDArray[np.float64]

_GRID_BITS = 20
"""Released values are multiples of the noise scale, rounded down to a power of two, times 2**-20, or of 1 if less."""


def grid_for(scale: float) -> float:
    """The grid step for noise of a scale: a power of two of at most 1, so that counts are on it."""
    return math.ldexp(1.0, min(math.frexp(scale)[1] - 1 - _GRID_BITS, 0))


def on_grid(noise: Floats, grid: float, invariants: Invariants) -> Floats:
    """Noise of shape ``(..., *table)`` moved to nearby multiples of `grid`, a power of two, that change no invariant."""
    # ValueError if noise is 2**53 steps of the grid or more: float64 would round it.
    if np.max(np.abs(noise), initial=0.0) >= MAX_COUNT * grid:
        raise ValueError(
            f"the noise must be smaller than {MAX_COUNT * grid:.6g}, 2**53 steps of its grid, but it is not: take a smaller scale "
            "(a larger loss)"
        )
    whole = round_to_lattice(np.asarray(noise / grid, dtype=np.float64), invariants)
    return np.asarray(grid * whole, dtype=np.float64)


def grid_caveat(grid: float) -> Rounded:
    """What a guarantee says of the grid."""
    return Rounded(round(math.log2(grid)))


type Ints = npt.NDArray[np.int64]


def confidential_counts(table: Any, frame: Frame) -> Ints:
    """The counts of a confidential table in the order of its frame; labelled values are matched by label."""
    # ValueError if labels do not match, a count is missing, negative, fractional or too large, or the counts add up to 2**53 or
    # more. The message names the cell and the rule, and no value.
    counts = integer_array(frame.align(table, "table"), "table", frame.cell_name, minimum=0, confidential=True)
    if exact_total(counts) >= MAX_COUNT:
        raise ValueError("table must have counts that add up to less than 2**53, but they do not")
    return counts


def answers_of(query: Query, counts: Ints) -> Ints:
    """The answers of a query to confidential counts."""
    # ValueError if one is 2**53 or more in absolute value: such numbers could not be published, nor have noise added to them,
    # exactly. The message names the answer, and no value.
    return integer_array(query.apply(counts), "answers of the table", query.answer_name, confidential=True)


def add_noise(answers: Ints, noise: npt.NDArray[Any], step: float, name_of: Callable[[int], str]) -> npt.NDArray[Any]:
    """Answers with noise of the same shape, added without any rounding."""
    # The noise is a multiple of `step`, a power of two of at most 1: multiples of it are exact in float64 below 2**53 steps, sums
    # of them included. ValueError if an answer, the noise or their sum is larger: float64 would round it by an amount that depends
    # on the answer, and the release would no longer have its exact values. The message names the answer and shows no value.
    limit = MAX_COUNT * step
    bound = "2**53" if step == 1.0 else f"{limit:.6g}, which is 2**53 steps of the grid of the noise"
    if np.any((noise >= limit) | (noise <= -limit)):
        raise ValueError(f"the noise must be smaller than {bound}, but it is not: take a smaller scale (a larger loss)")
    noisy = answers + noise
    over = np.flatnonzero((answers >= limit) | (answers <= -limit) | (noisy >= limit) | (noisy <= -limit))
    if over.size:
        raise ValueError(
            f"answers of the table must be smaller than {bound}, with their noise, but {name_of(int(over[0]))} is not: they could "
            "not be added exactly"
        )
    return np.asarray(finite_array(noisy, "noisy answers", name_of, confidential=True))


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
