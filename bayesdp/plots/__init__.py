"""Pictures of a posterior: each function takes the DataTree and returns a Matplotlib figure.

========================  ==========================================================================================
`intervals`               every cell: what was published, the posterior interval, the truth where it is known
`heatmaps`                posterior mean and standard deviation of a two-way table
`noise_law`               mass or density of the noise, with its standard deviation
`ranks`                   rank plots (ArviZ) of the quantities that mixed worst
`prior_predictive`        what the prior expected against what was published
========================  ==========================================================================================

Titles and axes name the probability and the kind of every interval. Colours are those of Okabe and Ito, which colour-blind
readers can tell apart, and shapes differ as well.
"""

from __future__ import annotations

from bayesdp.plots.cell_intervals import intervals
from bayesdp.plots.noise import noise_law
from bayesdp.plots.predictive import prior_predictive
from bayesdp.plots.rank import ranks
from bayesdp.plots.two_way import heatmaps

__all__ = ["heatmaps", "intervals", "noise_law", "prior_predictive", "ranks"]
