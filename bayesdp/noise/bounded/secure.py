"""Bounded integer laws with integer arithmetic only, for releases."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from bayesdp.lattices.secure.coins import bernoulli_exp, exact_fraction, system_bits, uniform_integer
from bayesdp.noise.base import Ints
from bayesdp.noise.bounded.integers import BoundedDiscrete
from bayesdp.noise.secure import draw_independent


def draw_bounded(law: BoundedDiscrete, answers: Ints) -> Ints:
    """Draw a value of a bounded integer law around each answer, from the operating system's entropy.

    Clipping takes the noise of `draw_independent`. Truncation draws again until the value is inside: from the law without
    bounds, or where the interval is narrow uniformly, accepted with exactly the right probability.

    Parameters
    ----------
    law : BoundedDiscrete
        With one scale for all answers.
    answers : int64 array
        Within the bounds.

    Returns
    -------
    int64 array of the same shape

    Raises
    ------
    TypeError
        If the law has several scales.

    Examples
    --------
    >>> from bayesdp.noise import TruncatedDiscreteLaplace
    >>> drawn = draw_bounded(TruncatedDiscreteLaplace(2.0, (0, 9)), np.array([3, 9]))
    >>> bool(np.all((drawn >= 0) & (drawn <= 9)))
    True
    """
    scale = law.scale
    if not isinstance(scale, float):
        raise TypeError(f"law must have one scale for all answers, got {law}")
    centre = np.ascontiguousarray(answers, dtype=np.int64).reshape(-1)
    low, high = (np.broadcast_to(side, np.shape(answers)).reshape(-1) for side in law.bounds)
    free = law.free(scale)
    if law.has_atoms:
        noisy = centre + draw_independent(free, centre.size)
        clipped: Ints = np.clip(noisy, low, high).astype(np.int64).reshape(np.shape(answers))
        return clipped
    out = np.empty_like(centre)
    narrow = high - low <= 2.0 * scale
    for i in np.flatnonzero(narrow):
        out[i] = _by_acceptance(int(centre[i]), int(low[i]), int(high[i]), scale, law.exact_rate)
    open_cells = np.flatnonzero(~narrow)
    while open_cells.size:
        noisy = centre[open_cells] + draw_independent(free, open_cells.size)
        inside = (noisy >= low[open_cells]) & (noisy <= high[open_cells])
        out[open_cells[inside]] = noisy[inside]
        open_cells = open_cells[~inside]
    return out.reshape(np.shape(answers))


def _by_acceptance(mu: int, low: int, high: int, scale: float, rate: Callable[[int, Fraction], Fraction]) -> int:
    """Uniform proposals, accepted with the ratio of the masses of the proposal and of mu."""
    exact = exact_fraction(scale)
    while True:
        k = low + uniform_integer(system_bits, high - low + 1)
        if bernoulli_exp(system_bits, rate(k - mu, exact)):
            return k
