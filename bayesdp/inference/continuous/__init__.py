"""Counts as real numbers on the space of the exact answers: an approximation for large counts, sampled by NUTS alone.

`polytope` finds a point inside the space, `coordinates` maps unconstrained numbers onto it, `continued` has the densities of
laws of whole numbers between them, and `relaxation` what the approximation costs.
"""

from __future__ import annotations

from bayesdp.inference.continuous.counts import (
    ContinuousCounts,
    ContinuousTable,
    observe_continuous,
)
from bayesdp.inference.observed import continuous_tables, is_continuous

__all__ = ["ContinuousCounts", "ContinuousTable", "continuous_tables", "is_continuous", "observe_continuous"]
