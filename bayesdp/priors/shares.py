"""Sizes of areas, and shares of cells that vary by area."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import TYPE_CHECKING, Any

from bayesdp.priors.prior import Hyperparameter, Prior

if TYPE_CHECKING:
    import pymc as pm

    from bayesdp.release import Release

_SPREAD = 0.75
"""With this spread on the log scale 95% of the prior of a scale lies within a factor 4.3 of its median."""


def _areas(release: Release, name: str | None) -> str:
    """The dimension of the areas: the one named, else the first with group labels, else the first."""
    from bayesdp._validate import shown

    if len(release.dims) < 2:
        raise ValueError(
            f"the prior 'shares' is for tables of two and more dimensions, areas by cells, and this one has only "
            f"{shown(release.dims)}; use 'hierarchical' or 'independent'"
        )
    if name is not None and name not in release.dims:
        raise ValueError(f"areas must be a dimension of the table, one of {shown(release.dims)}, got {name!r}")
    grouped = {dim for _, dim, _ in release.frame.groups}
    return name or next((dim for dim in release.dims if dim in grouped), release.dims[0])


def _build(release: Release, hyper: Mapping[str, Any]) -> pm.Model:
    import pymc as pm

    from bayesdp.inference import ConfidentialCounts, observe
    from bayesdp.priors.published import published_mean

    areas = _areas(release, hyper["areas"])
    mean = published_mean(release) if hyper["mean"] is None else hyper["mean"]
    axis = release.dims.index(areas)
    across = [n for a, n in enumerate(release.frame.shape) if a != axis]
    cells = release.frame.size // release.frame.shape[axis]
    with pm.Model(coords=release.coords) as model:
        centre = pm.Normal("area_size_centre", log(mean * cells), hyper["centre_scale"])
        spread = pm.LogNormal("area_size_spread", log(hyper["size_spread"]), _SPREAD)
        log_size = pm.Normal("log_area_size", centre, spread, dims=areas)
        weight = pm.math.ones(1)
        if cells > 1:  # one cell has all of its area
            weight = pm.math.softmax(pm.ZeroSumNormal("log_share", sigma=hyper["share_scale"], shape=cells))
        others = tuple(dim for dim in release.dims if dim != areas)
        share = pm.Deterministic("share", weight.reshape(across), dims=others)
        concentration = pm.LogNormal("concentration", log(hyper["concentration"]), 1.0)
        # The axis of the areas back in its place among the dimensions of the table.
        share = share.reshape([1 if a == axis else n for a, n in enumerate(release.frame.shape)])
        size = pm.math.exp(log_size).reshape([n if a == axis else 1 for a, n in enumerate(release.frame.shape)])
        base = pm.NegativeBinomial.dist(mu=size * share, alpha=concentration * share * pm.math.ones_like(size))
        x = ConfidentialCounts("x", base, dims=release.dims)
        observe(release, x)
    return model


SHARES = Prior(
    name="shares",
    title="sizes of areas, and shares of cells that vary by area",
    formula=(
        "rate[t, c] = size of area t * share of cell c in area t, for areas t and all cells c of an area:\n"
        "shares of area t ~ Dirichlet(concentration * share),  share = softmax(log_share)\n"
        "size of area t ~ Gamma with shape `concentration` and mean exp(log_area_size[t])\n"
        "x[t, c] ~ Poisson(rate[t, c]);  sizes and shares are integrated out (x[t, c] negative binomial\n"
        "with mean exp(log_area_size[t]) * share[c] and shape concentration * share[c])\n"
        "log_area_size ~ Normal(area_size_centre, area_size_spread)\n"
        "area_size_centre ~ Normal(log(mean * cells of an area), centre_scale)\n"
        "log_share ~ ZeroSumNormal(share_scale), adding up to zero over all cells of an area\n"
        f"area_size_spread ~ LogNormal(log(size_spread), {_SPREAD})\n"
        "concentration of the prior of shares, LogNormal(log(concentration), 1): large where areas are alike."
    ),
    hyperparameters=(
        Hyperparameter("mean", None, "centre of the rates: the exact total, else the noisy one, per cell"),
        Hyperparameter("centre_scale", 1.5, "standard deviation of area_size_centre"),
        Hyperparameter("size_spread", 0.75, "median of the spread of areas' sizes, on the log scale"),
        Hyperparameter("share_scale", 2.0, "standard deviation of the log shares"),
        Hyperparameter("concentration", 10.0, "median of the concentration of the shares"),
        Hyperparameter("areas", None, "dimension of the areas", "text", "the first with group labels, else the first"),
    ),
    build=_build,
)
"""Shares that vary by area."""
