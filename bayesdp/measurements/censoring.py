"""How many answers of a measurement are known by a threshold only, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bayesdp.measurements.measured import Measured


def held_back(measured: Measured) -> list[str]:
    """Phrases like "12 of them under 90", for answers of a law with thresholds; none for other laws.

    Examples
    --------
    >>> from bayesdp.measurements import Measured
    >>> from bayesdp.noise import Censored, Gaussian
    >>> from bayesdp.queries import Identity
    >>> cells = Identity({"county": ["Alpha", "Beta"]})
    >>> held_back(Measured(cells, [9, 30.5], Censored(Gaussian(2.0), below=10)))
    ['1 of them under 10']
    """
    counts = {
        why: int(np.sum(which & ~measured.unmeasured)) for why, which in measured.law.withheld(measured.values).items()
    }
    return [f"{count} of them {why}" for why, count in counts.items() if count]
