"""What several releases of one table say together (`compose`), and whether their numbers fit their laws (`check_law`).

`joint_release` and `as_one` put them together, `posterior_release` and `tables_of_posterior` those that a posterior is based on, which
`check_posterior` compares with its draws.
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
    check_posterior,
    converged_of,
    draws_of,
    is_streamed,
    releases_of_posterior,
    releases_of_tables,
    tables_of_posterior,
)
from bayesdp.mechanisms.stated import LOSS_UNKNOWN

__all__ = [
    "CELLS", "LOSS_UNKNOWN", "Composition", "as_one", "check_law", "check_posterior", "compose", "converged_of",
    "draws_of", "is_nested", "is_streamed", "joint_release", "loss_at_difference", "posterior_release",
    "releases_of_posterior", "releases_of_tables", "tables_of_posterior",
]  # fmt: skip
