"""Draws from the prior, and log-likelihoods of published numbers, beside a posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesdp.distributions.confidential_counts import ConfidentialCountsRV, ExactAnswersRV, FlatCountsRV
from bayesdp.distributions.perturbed import SameRecordsRV, rows_of
from bayesdp.inference.observed import observed_by, releases_of

_MOST_MOVES = 1e7
"""Of Gibbs samplers; they take ten seconds."""


def add_prior_predictive(tree: xr.DataTree, model: pm.Model, *, draws: int = 200, random_seed: Any = None) -> bool:
    """Add the groups ``prior`` and ``prior_predictive`` to a result, in place, where they can be had in reasonable time.

    Returns
    -------
    bool
        False if nothing was added: a flat prior has no draws, lattice noise that only Gibbs sampling can draw is too slow
        for a large table, and a table of probabilities that knows no larger counts says nothing of them.

    Warns
    -----
    UserWarning
        If the model has Potentials, which draws from the prior leave out (as in PyMC).
    """
    counts = [rv.owner.inputs[0] for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialCountsRV)]
    if any(isinstance(base.owner.op, FlatCountsRV) for base in counts):
        return False
    moves = 0.0
    for measured in (measured for _, release in releases_of(model) for measured in release.measurements):
        law, kept = measured.law, measured.invariants
        if law.support == "counts" and np.isfinite(law.limits[1]):
            return False  # a count of the prior may be larger than the table knows
        if law.support == "lattice" and kept is not None:
            sampler = law.sampler(kept)
            if sampler is not None and not sampler.exact:
                moves += draws * 1000.0 * kept.dimension
    if moves > _MOST_MOVES:
        return False
    prior = pm.sample_prior_predictive(draws, model=model, random_seed=random_seed)
    _share_perturbations(prior, model, random_seed)
    for group in ("prior", "prior_predictive"):
        if group in prior.children:
            said = [rv.name for rv in model.observed_RVs if isinstance(rv.owner.op, SameRecordsRV)]
            tree[group] = xr.DataTree(prior[group].to_dataset().drop_vars(said, errors="ignore"))
    return True


def _share_perturbations(prior: xr.DataTree, model: pm.Model, random_seed: Any) -> None:
    """Draw anew what laws publish that perturb answers about the same records once; PyMC draws every variable on its own."""
    rng = np.random.default_rng(random_seed)
    tables, numbers = prior["prior"].to_dataset(), prior["prior_predictive"].to_dataset()
    for name, release, published in observed_by(model):
        parts = [
            (measured, numbers[data.removesuffix("_published")].values)
            for measured, data in zip(release.measurements, published, strict=False)
        ]
        for law in {measured.law for measured, _ in parts if measured.law.same_cell_same_value}:
            mine, rows = [(measured, values) for measured, values in parts if measured.law == law], rows_of(model, law)
            for place in np.ndindex(tables[name].shape[:2]):
                given: Any = law if rows is None else law.given(tables[rows.name].values[place])  # type: ignore[attr-defined]
                drawn = given.draw_answers(rng, [measured.query for measured, _ in mine], tables[name].values[place])
                for (measured, values), new in zip(mine, drawn, strict=True):
                    kept = new.reshape(-1)[~measured.unmeasured.reshape(-1)]
                    values[place] = kept.reshape(values.shape[2:])


def add_log_likelihood(tree: xr.DataTree, model: pm.Model | None = None, **kwargs: Any) -> xr.DataTree:
    """Add the group ``log_likelihood`` with the noisy measurements, and without the exact answers.

    ``pm.compute_log_likelihood`` takes the exact answers, too, with log-likelihood 0 at every draw: ArviZ then asks which one is
    meant. With one noisy measurement, ``az.loo`` and ``az.compare`` work without arguments on what this function adds; with several,
    pass ``var_name``. What leaving out one noisy number means under exact answers is in ``docs/ENTRIES.md``. Under laws that perturb
    the same records once (cell keys) each number has the log-likelihood that it has by itself.

    Parameters
    ----------
    tree : xarray.DataTree
        Changed in place.
    model : pymc.Model, optional
        The current one if left out.
    **kwargs
        As for ``pm.compute_log_likelihood``.

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
    >>> measured = bdp.Measured(bdp.Identity(county), [30, 80], bdp.noise.DiscreteGaussian(sigma=5.0))
    >>> release = bdp.Release.from_published(county, [measured], [bdp.Exact(bdp.Totals(county), 100)])
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
