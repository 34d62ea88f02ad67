"""Log-likelihoods of published numbers beside a posterior, for comparison of models."""

from __future__ import annotations

from typing import Any

import pymc as pm
import xarray as xr

from bayesdp.distributions.confidential_counts import ExactAnswersRV
from bayesdp.distributions.perturbed import SameRecordsRV


def add_log_likelihood(tree: xr.DataTree, model: pm.Model | None = None, **kwargs: Any) -> xr.DataTree:
    """Add the group ``log_likelihood`` with the noisy measurements, and without the exact answers.

    ``pm.compute_log_likelihood`` takes all observed variables. The exact answers are one of them, with log-likelihood 0 at every
    draw: ArviZ then asks which one is meant. With one noisy measurement, ``az.loo`` and ``az.compare`` work without
    arguments on what this function adds; with several, pass ``var_name``. What leaving out one noisy number means under exact
    answers is in ``docs/ENTRIES.md``. Under laws that perturb the same records once (cell keys) each number has the log-likelihood
    that it has by itself: of answers about the same records the sum counts each.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `bayesdp.sample` or ``pm.sample``; changed in place.
    model : pymc.Model, optional
        The current one if left out.
    **kwargs
        As for ``pm.compute_log_likelihood``.

    Returns
    -------
    xarray.DataTree
        The same tree.

    Raises
    ------
    ValueError
        If the model has no noisy measurement.

    Examples
    --------
    >>> import arviz as az
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> county = {"county": ["Alpha", "Beta"]}
    >>> release = bdp.Release.from_published(
    ...     county,
    ...     measured=[bdp.Measured(bdp.Identity(county), [30, 80], bdp.noise.DiscreteGaussian(sigma=5.0))],
    ...     exact=[bdp.Exact(bdp.Totals(county), 100)],
    ... )
    >>> with pm.Model(coords=release.coords):
    ...     x = bdp.FlatCounts("x", dims="county")
    ...     bdp.observe(release, x)
    ...     posterior = bdp.sample(draws=200, tune=50, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    ...     _ = add_log_likelihood(posterior, progressbar=False)
    >>> list(posterior["log_likelihood"].data_vars)
    ['noisy']
    """
    model = pm.modelcontext(model)
    noisy = [rv.name for rv in model.observed_RVs if not isinstance(rv.owner.op, ExactAnswersRV | SameRecordsRV)]
    if not noisy:
        raise ValueError(
            "the model has no noisy measurement: exact answers alone have no likelihood to compare models by"
        )
    pm.compute_log_likelihood(tree, var_names=noisy, model=model, **kwargs)
    return tree
