"""Symmetric polytopes given by their vertices: their norms, their volumes, and noise of these norms. No PyMC.

- a polytope and its norm: `Hull`; with a list of vertices `SymmetricHull`, `shared`; of all that a number of records can
  change without changing an invariant `SensitivityHull`, `sensitivity_hull`; which of two norms is preferred: `containment_order`;
- noise with density proportional to ``exp(-epsilon ||v||)``: `sample_hull`, and how it is drawn:
  `choose_hull_sampler`;
- the same on the integer points that change no invariant: `sample_lattice`, `choose_lattice_sampler`.
"""

from __future__ import annotations

from bayesdp.polytopes.base import ContainmentOrder, Hull, SymmetricHull, containment_order, shared
from bayesdp.polytopes.samplers import (
    DEFAULT_SWEEPS,
    HULL_METHODS,
    choose_hull_sampler,
    choose_lattice_sampler,
    sample_hull,
    sample_lattice,
)
from bayesdp.polytopes.sensitivity import SensitivityHull, sensitivity_hull

__all__ = [
    "DEFAULT_SWEEPS",
    "HULL_METHODS",
    "ContainmentOrder",
    "Hull",
    "SensitivityHull",
    "SymmetricHull",
    "choose_hull_sampler",
    "choose_lattice_sampler",
    "containment_order",
    "sample_hull",
    "sample_lattice",
    "sensitivity_hull",
    "shared",
]
