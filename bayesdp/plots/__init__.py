"""Pictures: of a posterior, from its DataTree, of privacy guarantees, and of calibrations. Each function returns a Matplotlib figure.

`posterior` is what `bayesdp.sample` returns or a file holds, `prob` the probability of the equal-tailed intervals, `var` the table
by its name in the model, the first one by default, and `measurement` the place of a measurement among those of all releases of the
table. What is no posterior of a release, and arguments that are not valid, are refused by TypeError or ValueError.

Titles and axes name the probability and the kind of every interval. Colours are those of Okabe and Ito, which colour-blind
readers can tell apart, and shapes differ as well.

Examples
--------
>>> import bayesdp as bdp
>>> import pymc as pm
>>> county = {"county": ["Alpha", "Beta"]}
>>> measured = bdp.Measured(bdp.Identity(county), [30, 80], bdp.noise.DiscreteGaussian(sigma=5.0))
>>> release = bdp.Release.from_published(county, measured=[measured], exact=[bdp.Exact(bdp.Totals(county), 100)])
>>> with pm.Model(coords=release.coords):
...     bdp.observe(release, bdp.FlatCounts("x", dims="county"))
...     posterior = bdp.sample(draws=200, tune=50, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
>>> bdp.plots.intervals(posterior, prob=0.9).axes[0].get_xlabel()
'count'
>>> bdp.plots.noise_law(posterior).axes[0].get_xlabel()
'noise (count)'
>>> len(bdp.plots.ranks(posterior, quantities=2).axes)
2
"""

from bayesdp.plots.cells import heatmaps, intervals, prior_predictive
from bayesdp.plots.comparisons import calibration_dispersion, calibration_ranks, designs, law_comparison
from bayesdp.plots.noise import noise_law, tradeoffs
from bayesdp.plots.rank import ranks

__all__ = [
    "calibration_dispersion",
    "calibration_ranks",
    "designs",
    "heatmaps",
    "intervals",
    "law_comparison",
    "noise_law",
    "prior_predictive",
    "ranks",
    "tradeoffs",
]
