"""A 2 x 2 table whose margins are exact: the odds ratio, as a posterior and as a test.

Applicants to Berkeley in 1973 by sex and admission. Both margins are published exactly, the cells with integer noise
that changes no margin. Did men have better odds? The posterior of the odds ratio answers, and so does the uniformly most
powerful unbiased test of the same release; `bayesdp.significance.posterior_odds_ratio` puts them side by side.

Run it with ``python models/odds_ratio.py``.
"""

from __future__ import annotations

import numpy as np
import pymc as pm

import bayesdp as bdp
from bayesdp.priors import published_mean

__all__ = ["build_model", "make_release"]


def make_release(seed: int | None = 1973) -> bdp.Release:
    """Play the agency: both margins exact, lattice Laplace noise on the cells, (1, 0)-DP for one 2 x 2 move.

    Parameters
    ----------
    seed : int, optional
        Seed of a simulated release; None publishes for real, with the operating system's entropy.
    """
    table = bdp.datasets.berkeley_admissions().sum("department")
    mechanism = bdp.LatticeLaplace(bdp.Margins(table, ["sex"], ["admission"]), epsilon=0.25, norm="l1")
    return mechanism.release(table, rng=None if seed is None else np.random.default_rng(seed))


def build_model(release: bdp.Release) -> pm.Model:
    """Poisson counts with row effects, column effects and a log odds ratio, given a release.

    Parameters
    ----------
    release : Release
        Of a 2 x 2 table with exact margins.

    Returns
    -------
    pymc.Model

    Notes
    -----
    ``log rate = intercept + row + column +- log_odds_ratio / 4``, plus on the diagonal. Given both margins the corner then
    has Fisher's noncentral hypergeometric law with that odds ratio: the law that the test is about.
    """
    rows, columns = release.dims

    with pm.Model(coords=release.coords) as model:
        intercept = pm.Normal("intercept", np.log(published_mean(release)), 1.0)
        row_effect = pm.ZeroSumNormal("row_effect", 1.0, dims=rows)
        column_effect = pm.ZeroSumNormal("column_effect", 1.0, dims=columns)
        # An odds ratio between 1/7 and 7 (95%), before anything is seen.
        log_odds_ratio = pm.Normal("log_odds_ratio", 0.0, 1.0)
        square = np.array([[1.0, -1.0], [-1.0, 1.0]])
        log_rate = intercept + row_effect[:, None] + column_effect[None, :] + 0.25 * log_odds_ratio * square

        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(pm.math.exp(log_rate)), dims=release.dims)
        bdp.observe(release, x)
    return model


if __name__ == "__main__":
    published = make_release()
    print(published)
    with build_model(published):
        posterior = bdp.sample(chains=4, random_seed=1, nuts_sampler="pymc", target_accept=0.9)
    print(posterior["diagnostics"].attrs["message"])
    print(bdp.significance.posterior_odds_ratio(posterior, rng=np.random.default_rng(1)))
