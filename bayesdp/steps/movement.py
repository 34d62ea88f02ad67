"""The moves that a step method takes for a count variable, and whether they are proved to reach every table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pymc as pm

from bayesdp.fibers import Target
from bayesdp.fibers.precise import spread_of
from bayesdp.hierarchies.structure import NoStructure, Structure, structure_of
from bayesdp.steps.terms import Reading, read_model

HIERARCHY_CELLS = 100
"""Fewest cells of a table that is moved as a hierarchy.

Effective draws of cells a CPU second, smallest and median, with the published variances of tracts and their county, by the moves for
tables in general and by those of hierarchies (two chains, one after the other in one run): 365 and 2,000 against 4,700 and 5,400
with 100 cells, 160 and 810 against 1,700 and 2,500 with 240. With 48 cells it is 720 and 3,700 against 4,500 and 5,400, where
either takes a moment, and the moves of hierarchies would have to be compiled for it.
"""

type Floats = npt.NDArray[np.float64]

_SUMS = (
    "basic moves are mixed with random sums of them, which reach every table that the model allows with positive "
    "probability, but how fast is not proved"
)


@dataclass(frozen=True, eq=False)
class Movement:
    """Whether the moves of a count variable connect all tables, and which cells cannot move."""

    proved: bool  # whether they are proved to connect all tables that the model allows
    claim: str  # what is known, in words
    # Cells with one possible count, by the exact answers, the limits of the base and the reach of bounded noise, shape (cells,).
    determined: npt.NDArray[np.bool_]
    structure: Structure | None  # of a table that is moved as a hierarchy


def kernel_target(reading: Reading, parameters: Sequence[Floats] | None = None) -> Target:
    """The target of the kernel."""
    # `parameters`: the numbers of `Reading.symbolic` where a chain starts. They decide once and for all which noisy answers are
    # precise beside the others and get directions that keep them, also where scales and prior are variables of the model. If left
    # out, there are no such directions.
    family = reading.family or "flat"
    if parameters is None:
        return Target(
            reading.fiber, reading.terms, family, bounded=reading.cells_limited, open=bool(reading.doubts), spread=0.0
        )
    theta, shape, *others = parameters
    terms = tuple(t if t.changing else replace(t, scale=s) for t, s in zip(reading.terms, others, strict=False))
    return Target(
        reading.fiber,
        terms,
        family,
        # Weights of 0 at cells that are known anyway limit nothing.
        bounded=bool((np.isneginf(theta) & ~reading.fiber.system.fixed).any()) or reading.cells_limited,
        open=bool(reading.doubts),
        spread=spread_of(family, theta, shape, terms),
    )


def hierarchy_of(target: Target, reading: Reading) -> Structure | None:
    """The hierarchy as which a table is moved; None for the moves of tables in general.

    Those are taken for small tables, where something else in the model depends on the counts, and where there is no hierarchy.
    Precise answers that overlap in three ways are no reason: hierarchies have moves for them (`bayesdp.hierarchies.chain`). Of
    sparse tables with three precise two-way margins the smallest effective draws of a cell a CPU second, and R-hat, were 5.8 and
    1.050 by the moves for tables in general and 19.5 and 1.015 by those of hierarchies for 10 x 4 x 6 cells, 0.65 and 1.23 against
    2.9 and 1.05 for 8 x 8 x 8, and 86 and 1.008 against 365 and 1.002 for 5 x 4 x 5.
    """
    cells = target.fiber.frame.size
    other = reading.unknown or reading.rests or reading.family is None
    if other or cells < HIERARCHY_CELLS:
        return None
    try:
        return structure_of(target)
    except NoStructure:
        return None


def said_of(target: Target, reading: Reading, structure: Structure | None) -> tuple[bool, str]:
    """Whether the moves of a target are proved to connect what the model allows, and what is known in words."""
    if reading.doubts:
        return False, f"nothing is proved, because {'; '.join(reading.doubts)}: {_SUMS}"
    if structure is not None:
        return structure.proved, structure.claim
    # The directions that keep noisy answers besides take nothing away, and need not be built to say this.
    return target.fiber_moves.proved, target.fiber_moves.claim


def movement(model: pm.Model, value: object) -> Movement:
    """What is known of the moves that the step method takes for a count variable."""
    # Priors and noise of bounded support have bounds beside the exact answers: moves that are proved to connect all tables with the
    # exact answers need not connect those within the bounds, and others are taken. Where the support of a base, a potential or
    # another law is not known, nothing is proved. `value` is the value variable of a `ConfidentialCounts`.
    reading = read_model(model, value)
    target = kernel_target(reading)
    structure = hierarchy_of(target, reading)
    return Movement(*said_of(target, reading, structure), target.fiber.determined().reshape(-1), structure)
