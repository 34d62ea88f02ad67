"""How many answers of a measurement are known by a threshold only, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesdp.noise.perturbed.censored import Censored

if TYPE_CHECKING:
    from bayesdp.measurements.measured import Measured

__all__ = ["held_back"]


def held_back(measured: Measured) -> list[str]:
    """Phrases like "12 of them under 90", for answers of a law with thresholds; none for other laws.

    Examples
    --------
    >>> from bayesdp.measurements import Measured
    >>> from bayesdp.noise import Gaussian
    >>> from bayesdp.queries import Identity
    >>> cells = Identity({"county": ["Alpha", "Beta"]})
    >>> held_back(Measured(cells, [9, 30.5], Censored(Gaussian(2.0), below=10)))
    ['1 of them under 10']
    """
    law = measured.law
    if not isinstance(law, Censored):
        return []
    phrases = []
    for which, side, word in zip(law.censored(measured.values), (law.below, law.above), ("under", "over"), strict=True):
        count = int(np.sum(which & ~measured.unmeasured))
        if count:
            limit = f"{side:.17g}" if np.ndim(side) == 0 else "a threshold of their own"
            phrases.append(f"{count} of them {word} {limit}")
    return phrases
