"""Draw the picture of the front page: ``python docs/pictures/front.py`` writes ``docs/_static/pictures/front.svg``.

The release is that of the front page, the intervals are those of its posterior. The picture is stored, because a posterior takes
longer than a page.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pymc as pm
from matplotlib.figure import Figure

import bayesdp as bdp

OUTPUT = Path(__file__).parents[1] / "_static/pictures/front.svg"
LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
NOISY = np.array([[12, 5], [25, -3], [4, 11]])
EXACT = np.array([18, 24, 13])
BLUE, ORANGE, GREY = "#1b5e8c", "#b4500f", "#555555"


def posterior_counts() -> np.ndarray:
    """Draws of the counts, shape (draws, counties, education)."""
    noisy = bdp.Measured(bdp.Identity(LABELS), NOISY, bdp.noise.DiscreteGaussian(sigma=3.0))
    rows = bdp.Exact(bdp.Margins(LABELS, ["county"]), EXACT)
    release = bdp.Release.from_published(LABELS, measured=[noisy], exact=[rows])
    with pm.Model(coords=release.coords):
        rate = pm.Gamma("rate", 2.0, 0.1, dims=release.dims)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims)
        bdp.observe(release, x)
        posterior = bdp.sample(draws=500, tune=500, chains=4, cores=1, random_seed=1, quiet=True, progressbar=False)
    return np.asarray(posterior["posterior"]["x"].values).reshape(-1, *NOISY.shape)


def draw(counts: np.ndarray) -> Figure:
    """One row for each cell and each total: what was published, and what follows."""
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.add_subplot()
    ticks, names = [], []
    at = 0.0
    for i, county in enumerate(LABELS["county"]):
        for j, education in enumerate(LABELS["education"]):
            low, middle, high = np.quantile(counts[:, i, j], [0.025, 0.5, 0.975])
            first = i == j == 0
            axes.plot([low, high], [at, at], color=BLUE, linewidth=5, alpha=0.45, solid_capstyle="butt",
                      label="95 % interval of the count" if first else None)  # fmt: skip
            axes.plot(middle, at, "|", color=BLUE, markersize=13, markeredgewidth=2.5,
                      label="posterior median of the count" if first else None)  # fmt: skip
            axes.plot(NOISY[i, j], at, "o", color=ORANGE, label="published with noise" if first else None)
            ticks.append(at)
            names.append(f"{county}, {education}")
            at += 1.0
        totals = np.unique(counts[:, i].sum(axis=1))
        assert totals.tolist() == [EXACT[i]], "a draw does not meet the exact total"
        axes.plot(NOISY[i].sum(), at, "o", markerfacecolor="white", color=ORANGE,
                  label="sum of the noisy numbers" if i == 0 else None)  # fmt: skip
        axes.plot(totals, [at], "D", color=GREY, markersize=8,
                  label="exact total, met by every draw" if i == 0 else None)  # fmt: skip
        ticks.append(at)
        names.append(f"{county}, total")
        at += 1.6
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(ticks, names)
    axes.invert_yaxis()
    axes.set_xlabel("people")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


if __name__ == "__main__":
    with mpl.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "bayesdp", "font.family": "sans-serif", "font.size": 11}
    ):
        draw(posterior_counts()).savefig(OUTPUT, metadata={"Date": None})
