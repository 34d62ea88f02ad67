"""Symmetric polytopes given by their vertices: their norms, their volumes, and noise of these norms. No PyMC.

- a polytope and its norm: `Hull`; with a list of vertices `SymmetricHull`; of all that a number of records can
  change without changing an invariant `SensitivityHull`, `sensitivity_hull`;
- noise with density proportional to ``exp(-epsilon ||v||)``: `sample_hull`, and how it is drawn: `choose_hull_sampler`.
"""

from bayesdp.lattices.polytopes.base import Hull, SymmetricHull
from bayesdp.lattices.polytopes.samplers import DEFAULT_SWEEPS, choose_hull_sampler, sample_hull
from bayesdp.lattices.polytopes.sensitivity import SensitivityHull, sensitivity_hull

__all__ = [
    "DEFAULT_SWEEPS", "Hull", "SensitivityHull", "SymmetricHull", "choose_hull_sampler", "sample_hull", "sensitivity_hull",
]  # fmt: skip
