"""What several releases of one table say together: their joint invariants, and the privacy that is left.

- `compose` several releases: joint invariant, joint fiber, its semi-adjacent parameter, cells that only the
  combination determines, total loss;
- `check_law`: whether their numbers are compatible with the laws stated of them;
- `joint_release`, `as_one`: their measurements and exact parts as one release, without and with their total guarantee;
- `posterior_release`: the same of the releases that a posterior is based on; `tables_of_posterior`: of each of its tables;
- `check_posterior`: whether its draws agree with them, `converged_of`: what it says of convergence;
- `Streamed`: what a result of `bayesdp.fit_hierarchy` has, whose draws of the cells were not kept;
- `loss_at_difference`: what releases lose at a difference of one's own choice, to compare those whose invariants are not the same;
- `is_nested`: whether the invariants of one release follow from those of another.
"""

from __future__ import annotations

from bayesdp.composition._total import is_nested
from bayesdp.composition.composing import (
    Composition,
    as_one,
    check_law,
    compose,
    joint_release,
    loss_at_difference,
    posterior_release,
)
from bayesdp.composition.posteriors import (
    CELLS,
    Streamed,
    check_posterior,
    converged_of,
    determined_of,
    draws_of,
    is_streamed,
    releases_of_posterior,
    releases_of_tables,
    tables_of_posterior,
)
from bayesdp.mechanisms.stated import LOSS_UNKNOWN

__all__ = [
    "CELLS", "LOSS_UNKNOWN", "Composition", "Streamed", "as_one", "check_law", "check_posterior", "compose", "converged_of",
    "determined_of", "draws_of", "is_nested", "is_streamed", "joint_release", "loss_at_difference", "posterior_release",
    "releases_of_posterior", "releases_of_tables", "tables_of_posterior",
]  # fmt: skip
