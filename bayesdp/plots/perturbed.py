"""The law of a perturbed count: what may be published for one true count."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from bayesdp.measurements import Measured
from bayesdp.noise import PerturbedLaw
from bayesdp.plots.style import COLOURS, figure, plain, style

_MOST_BARS = 121


def count_shown(measured: Measured) -> int:
    """The true count of the picture: of those that can lead to the published value in the middle, one whose noise is largest.

    Examples
    --------
    >>> from bayesdp.noise import RandomRounding
    >>> from bayesdp.queries import Identity
    >>> cells = Identity({"county": ["Alpha", "Beta", "Gamma"]})
    >>> count_shown(Measured(cells, [3, 9, 60], RandomRounding(3)))
    7
    """
    law = measured.law
    assert isinstance(law, PerturbedLaw)
    published = np.sort(measured.values[~measured.unmeasured])
    middle = published[len(published) // 2 : len(published) // 2 + 1]
    windows = law.windows(middle)
    counts = windows.low[0] + np.flatnonzero(np.isfinite(windows.log_mass))
    variance = law.variance(counts.shape, location=counts)
    assert variance is not None
    return int(counts[int(np.argmax(variance.round(9)))])


def draw_perturbed_law(measured: Measured) -> Figure:
    """Draw the probabilities of what may be published for one true count."""
    law, count = measured.law, count_shown(measured)
    assert isinstance(law, PerturbedLaw)
    table = law.transitions
    values = np.arange(count + table.lowest, count + table.highest + 1)
    mass = np.exp(law.log_each(values, count))
    seen = np.flatnonzero(mass > 0.0)
    values, mass = values[seen[0] : seen[-1] + 1], mass[seen[0] : seen[-1] + 1]
    with style():
        drawn = figure(3.0)
        axes = drawn.add_subplot()
        if len(values) <= _MOST_BARS:
            axes.bar(values, mass, width=0.7, color=COLOURS["release"], alpha=0.75)
        else:
            axes.plot(values, mass, color=COLOURS["release"])
        axes.axvline(count, color=COLOURS["truth"], linestyle="--", linewidth=1.2, label=f"true count {count:,}")
        axes.set_title(f"Noise: {plain(law.name)}, what is published for a count of {count:,}")
        axes.set_xlabel("published value")
        axes.set_ylabel("probability")
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", integer=True)
        drawn.legend(loc="outside lower left", frameon=False, fontsize=9.5)
    return drawn
