"""Many counts with one exact total: the populations of the 102 counties of Illinois.

The state total is exact by law, the counties are published with noise that adds up to zero. Here the noise (a few
persons) is tiny beside the counties (thousands to millions), and the question is how they are distributed.

Run it with ``python models/county_populations.py``.
"""

from __future__ import annotations

import numpy as np
import pymc as pm

import bayesdp as bdp
from bayesdp.priors import published_mean

__all__ = ["build_model", "make_release"]


def make_release(seed: int | None = 1990) -> bdp.Release:
    """Play the agency: the state total exact, lattice Laplace noise on the counties (drawn exactly).

    Parameters
    ----------
    seed : int, optional
        Seed of a simulated release; None publishes for real, with the operating system's entropy.
    """
    counties = bdp.datasets.illinois_counties()
    mechanism = bdp.LatticeLaplace(bdp.Totals(counties), epsilon=0.192, norm="l1")
    return mechanism.release(counties, rng=None if seed is None else np.random.default_rng(seed))


def build_model(release: bdp.Release) -> pm.Model:
    """Hierarchical Poisson-lognormal counts, given a release.

    Parameters
    ----------
    release : Release
        Of a table with one dimension and an exact total.

    Returns
    -------
    pymc.Model

    Notes
    -----
    ``x_i ~ Poisson(rate_i)``, ``log rate_i ~ Normal(level, spread)``: county sizes vary by factors, so they are modelled
    on the log scale. The rates are centred on their mean (not written as standardised deviations) because the data say
    much more about each of them than the prior does.

    Counts and rates take turns: the counts move given the rates, then NUTS moves the rates given the counts. That is quick
    as long as the noise is smaller than the Poisson scatter of a count (its square root), as here. With noise far above it
    the two would follow one another in small steps; then integrate the rates out, with gamma in place of lognormal rates:
    ``pm.NegativeBinomial.dist(mu=pm.math.exp(level), alpha=1 / spread**2)``.
    """
    (dim,) = release.dims
    mean_county = published_mean(release)  # the exact total over the number of counties: public, not a peek at the data

    with pm.Model(coords=release.coords) as model:
        level = pm.Normal("level", np.log(mean_county), 2.0)
        spread = pm.HalfNormal("spread", 1.5)
        log_rate = pm.Normal("log_rate", level, spread, dims=dim)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(pm.math.exp(log_rate)), dims=dim)
        bdp.observe(release, x)
    return model


if __name__ == "__main__":
    published = make_release()
    print(published)
    with build_model(published):
        posterior = bdp.sample(chains=4, random_seed=1, nuts_sampler="pymc")
    print(posterior["diagnostics"].attrs["message"])
    drawn = posterior["posterior"]
    print({name: round(float(drawn[name].mean()), 3) for name in ("level", "spread")})
