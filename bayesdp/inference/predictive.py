"""Draws from the prior beside a posterior."""

from __future__ import annotations

from typing import Any

import pymc as pm
import xarray as xr

from bayesdp.distributions.confidential_counts import ConfidentialCountsRV, FlatCountsRV
from bayesdp.inference.registry import releases_of
from bayesdp.lattices import sampler_for

__all__ = ["add_prior_predictive"]

_MOVES_A_SECOND = 1e6
_SECONDS = 10.0


def add_prior_predictive(tree: xr.DataTree, model: pm.Model, *, draws: int = 200, random_seed: Any = None) -> bool:
    """Add the groups ``prior`` and ``prior_predictive`` to a result, where they can be had in reasonable time.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `sample`; changed in place.
    model : pymc.Model
    draws : int
    random_seed : object, optional

    Returns
    -------
    bool
        False if nothing was added: a flat prior has no draws, and lattice noise that only Gibbs sampling can draw is too
        slow for a large table.
    """
    for rv in model.free_RVs:
        if isinstance(rv.owner.op, ConfidentialCountsRV) and isinstance(rv.owner.inputs[0].owner.op, FlatCountsRV):
            return False
    moves = 0.0
    for _, release in releases_of(model):
        for measured in release.measurements:
            if measured.law.support == "lattice" and measured.invariants is not None:
                kind = getattr(measured.law, "norm", "gaussian")
                scale = getattr(measured.law, "sigma" if kind == "gaussian" else "epsilon")
                sampler = sampler_for(measured.invariants, kind, scale)
                if not sampler.exact:
                    moves += draws * 1000.0 * measured.invariants.dimension
    if moves / _MOVES_A_SECOND > _SECONDS:
        return False
    prior = pm.sample_prior_predictive(draws, model=model, random_seed=random_seed)
    for group in ("prior", "prior_predictive"):
        if group in prior.children:
            tree[group] = prior[group]
    return True
