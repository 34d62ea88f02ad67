"""Moves from the exact conditional law of the terms that a kernel knows, corrected for the rest of the model.

The rest is everything else in the model that depends on the table: it enters through its compiled log-density.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_ATTEMPTS = 20_000
"""Moves in search of a first table that the rest of the model allows; some tenths of a second."""


def moved_into_support(density: Callable[[], float], move: Callable[[], object], attempts: int = _ATTEMPTS) -> int:
    """Move until the table has a positive density: 0 when it does; otherwise the number of moves tried in vain."""
    for _ in range(attempts):
        if density() > -np.inf:
            return 0
        move()
    return attempts


def accept_on_the_rest(
    rng: np.random.Generator,
    moves: int,
    density: Callable[[], float],
    propose: Callable[[], tuple[int, int]],
    take_back: Callable[[int, int], object],
) -> tuple[int, int]:
    """Propose moves, and accept each on the ratio of the rest of the model (Metropolis within Gibbs): how many changed, and passed."""
    # `density` is that of the rest at the table as it stands, a logarithm. `propose` moves the table, and tells the number of cells
    # moved and the step, 0 for none, which counts as accepted; `take_back` undoes the move with that number and step.
    height = density()
    changed = accepted = 0
    for threshold in np.log1p(-rng.random(moves)):
        count, step = propose()
        if step == 0:
            accepted += 1
            continue
        new = density()
        if new - height > threshold:
            height = new
            changed += 1
            accepted += 1
        else:
            take_back(count, step)
    return changed, accepted
