"""A two-way table whose margins are exact: the 4 x 4 table of delinquent children.

The table counts (fictitious) delinquent children by county and by education of the head of household. The agency
publishes both margins exactly and every cell with noise that changes no margin. What can be said of the cells?

Read from top to bottom: this is how a model with `bayesdp` is written. Run it with ``python models/delinquent_children.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

import bayesdp as bdp
from bayesdp.priors import published_mean

__all__ = ["build_model", "calibration_model", "make_release", "simulate"]

MEAN_CELL = 8.0
"""A guess of the mean cell that looks at no table, for calibration."""


def make_release(seed: int | None = 2023) -> bdp.Release:
    """Play the agency: both margins exact, lattice Laplace noise on the cells.

    Parameters
    ----------
    seed : int, optional
        Seed of a simulated release; None publishes for real, with the operating system's entropy.
    """
    table = bdp.datasets.delinquent_children()
    mechanism = bdp.LatticeLaplace(bdp.Margins(table, ["county"], ["education"]), epsilon=0.25, norm="l1")
    return mechanism.release(table, rng=None if seed is None else np.random.default_rng(seed))


def build_model(release: bdp.Release, mean_cell: float | None = None) -> pm.Model:
    """Log-linear Poisson counts with overdispersion, given a release.

    Parameters
    ----------
    release : Release
        Of a two-way table with exact margins.
    mean_cell : float, optional
        What the prior expects of a cell; the exact grand total over the number of cells if left out.

    Returns
    -------
    pymc.Model

    Notes
    -----
    ``log rate = intercept + row + column``, independence of rows and columns, is where a statistician starts with a
    two-way table; the gamma factor of each cell (a negative binomial, once it is integrated out) lets cells depart
    from it. The exact margins are part of the likelihood: they inform the effects, and hold the counts on their fiber.
    """
    rows, columns = release.dims
    # Public knowledge sets the scale: the grand total is exact, so the mean cell is known.
    mean_cell = published_mean(release) if mean_cell is None else mean_cell

    with pm.Model(coords=release.coords) as model:
        intercept = pm.Normal("intercept", np.log(mean_cell), 1.0)
        row_effect = pm.ZeroSumNormal("row_effect", 1.0, dims=rows)
        column_effect = pm.ZeroSumNormal("column_effect", 1.0, dims=columns)
        mean = pm.math.exp(intercept + row_effect[:, None] + column_effect[None, :])

        # How far cells stray from independence: the coefficient of variation of the gamma factor is 1 / sqrt(shape).
        variation = pm.HalfNormal("variation", 0.5)
        shape = 1.0 / (variation**2 + 1e-6)

        # The counts that nobody outside the agency has seen. PyMC gives them to the step method that knows fibers.
        x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=mean, alpha=shape), dims=release.dims)

        # Noisy cells and exact margins, each as what it is: a likelihood.
        bdp.observe(release, x)
    return model


def simulate(rng: np.random.Generator) -> tuple[dict[str, Any], bdp.Release]:
    """Draw parameters and a table from the prior, and release the table: what ``bayesdp calibrate`` needs.

    Parameters
    ----------
    rng : numpy.random.Generator

    Returns
    -------
    truth : dict
        Values of all variables of the model.
    release : Release

    Notes
    -----
    A prior that is centred on a published number depends on the data, and there is nothing to draw from it: the number
    comes after the draw. So calibration is of `calibration_model`, the same model with a fixed guess in place of that
    number.
    """
    labels = bdp.datasets.delinquent_children()
    effects = [noise - noise.mean() for noise in rng.normal(0.0, 1.0, size=(2, 4))]  # the law of ZeroSumNormal
    truth: dict[str, Any] = {"intercept": rng.normal(np.log(MEAN_CELL), 1.0), "variation": abs(rng.normal(0.0, 0.5))}
    truth["row_effect"], truth["column_effect"] = effects
    mean = np.exp(truth["intercept"] + effects[0][:, None] + effects[1][None, :])
    shape = 1.0 / (truth["variation"] ** 2 + 1e-6)
    truth["x"] = rng.poisson(rng.gamma(shape, mean / shape))
    mechanism = bdp.LatticeLaplace(bdp.Margins(labels, ["county"], ["education"]), epsilon=0.25, norm="l1")
    return truth, mechanism.release(truth["x"], rng=rng)


def calibration_model(release: bdp.Release) -> pm.Model:
    """The model with a prior that looks at no release."""
    return build_model(release, MEAN_CELL)


if __name__ == "__main__":
    published = make_release()
    print(published)
    with build_model(published):
        posterior = bdp.sample(chains=4, random_seed=1, nuts_sampler="pymc", target_accept=0.95)
    print(posterior["diagnostics"].attrs["message"])
    print(posterior["posterior"]["x"].mean(("chain", "draw")).round(1).to_pandas())
