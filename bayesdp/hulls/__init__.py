"""Symmetric polytopes given by their vertices: their norms, their volumes, and noise of these norms. No PyMC.

- a polytope and its norm: `SymmetricHull`, `shared`;
- noise with density proportional to ``exp(-epsilon ||v||)``: `sample_hull`, and how it is drawn:
  `choose_hull_sampler`.
"""

from __future__ import annotations

from bayesdp.hulls.hull import SymmetricHull, shared
from bayesdp.hulls.samplers import DEFAULT_SWEEPS, choose_hull_sampler, sample_hull

__all__ = ["DEFAULT_SWEEPS", "SymmetricHull", "choose_hull_sampler", "sample_hull", "shared"]
