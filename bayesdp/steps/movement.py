"""The moves that a step method takes for a count variable, and whether they are proved to reach every table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pymc as pm

from bayesdp.fibers import Target
from bayesdp.hierarchies.structure import Structure, structure_of
from bayesdp.hierarchies.tree import NoStructure
from bayesdp.steps.terms import Reading, read_model

__all__ = ["HIERARCHY_CELLS", "Movement", "hierarchy_of", "kernel_target", "movement", "said_of"]

HIERARCHY_CELLS = 500
"""Fewest cells of a table that is moved as a hierarchy; below, the moves for tables in general do as well."""

_SUMS = (
    "basic moves are mixed with random sums of them, which reach every table that the model allows with positive "
    "probability, but how fast is not proved"
)


@dataclass(frozen=True, eq=False)
class Movement:
    """Whether the moves of a count variable connect all tables, and which cells cannot move.

    Parameters
    ----------
    proved : bool
        Whether they are proved to connect all tables that the model allows.
    claim : str
        What is known, in words.
    determined : bool array, shape (cells,)
        Cells with one possible count, by the exact answers, the limits of the base and the reach of bounded noise.
    """

    proved: bool
    claim: str
    determined: npt.NDArray[np.bool_]


def kernel_target(reading: Reading, zeros: bool = False) -> Target:
    """The target of the kernel.

    Parameters
    ----------
    zeros : bool
        Whether weights of the prior are 0 where a chain starts.
    """
    bounded = zeros or reading.cells_limited
    return Target(reading.fiber, reading.terms, reading.family or "flat", bounded=bounded, open=bool(reading.doubts))


def hierarchy_of(target: Target, reading: Reading) -> Structure | None:
    """The hierarchy as which a table is moved; None for the moves of tables in general.

    Those are taken for small tables, where something else in the model depends on the counts, and where there is no hierarchy.
    """
    other = reading.unknown or reading.rests or reading.family is None
    if other or target.fiber.frame.size < HIERARCHY_CELLS:
        return None
    try:
        return structure_of(target)
    except NoStructure:
        return None


def said_of(target: Target, reading: Reading) -> tuple[bool, str]:
    """Whether the moves of a target are proved to connect what the model allows, and what is known in words."""
    if reading.doubts:
        return False, f"nothing is proved, because {'; '.join(reading.doubts)}: {_SUMS}"
    structure = hierarchy_of(target, reading)
    if structure is not None:
        return structure.proved, structure.claim
    return target.moves.proved, target.moves.claim


def movement(model: pm.Model, value: object) -> Movement:
    """What is known of the moves that the step method takes for a count variable.

    Priors and noise of bounded support have bounds beside the exact answers: moves that are proved to connect all tables
    with the exact answers need not connect those within the bounds, and others are taken. Where the support of a base, a
    potential or another law is not known, nothing is proved.

    Parameters
    ----------
    value : tensor variable
        The value variable of a `ConfidentialCounts`.
    """
    reading = read_model(model, value)
    target = kernel_target(reading)
    return Movement(*said_of(target, reading), target.fiber.determined().reshape(-1))
