"""Main effects of each dimension."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import TYPE_CHECKING, Any

from bayesdp.priors.prior import Hyperparameter, Prior

if TYPE_CHECKING:
    import pymc as pm

    from bayesdp.release import Release

_CV_SPREAD = 0.75
"""With this spread on the log scale 95% of the prior of cell_cv lies within a factor 4.3 of its median."""


def _build(release: Release, hyper: Mapping[str, Any]) -> pm.Model:
    import pymc as pm

    from bayesdp.inference import ConfidentialCounts, observe
    from bayesdp.priors.published import published_mean

    mean = published_mean(release) if hyper["mean"] is None else hyper["mean"]
    dims = release.dims
    with pm.Model(coords=release.coords) as model:
        log_rate = pm.Normal("intercept", log(mean), hyper["intercept_scale"])
        for axis, (dim, size) in enumerate(zip(dims, release.frame.shape, strict=True)):
            if size > 1:  # one label has no effect: it would have to be zero
                effect = pm.ZeroSumNormal(f"{dim}_effect", sigma=hyper["effect_scale"], dims=dim)
                log_rate = log_rate + effect.reshape([size if a == axis else 1 for a in range(len(dims))])
        rate = pm.Deterministic("rate", pm.math.exp(log_rate) * pm.math.ones(release.frame.shape), dims=dims)
        if hyper["overdispersion"] > 0:
            # Log-normal rather than half-normal: without a mode at zero NUTS meets no funnel there.
            scatter = pm.LogNormal("cell_cv", log(hyper["overdispersion"]), _CV_SPREAD)
            base = pm.NegativeBinomial.dist(mu=rate, alpha=scatter**-2)
        else:
            base = pm.Poisson.dist(rate)
        x = ConfidentialCounts("x", base, dims=dims)
        observe(release, x)
    return model


LOG_LINEAR = Prior(
    name="log-linear",
    title="main effects of each dimension, with cells that scatter around them",
    formula=(
        "log rate[i, j, ...] = intercept + effect_1[i] + effect_2[j] + ...\n"
        "intercept ~ Normal(log(mean), intercept_scale)\n"
        "effect_k ~ ZeroSumNormal(effect_scale), adding up to zero over the labels of dimension k\n"
        "x[i, j, ...] ~ Poisson(rate * g),  g ~ Gamma with mean 1 and coefficient of variation cell_cv\n"
        f"cell_cv ~ LogNormal(log(overdispersion), {_CV_SPREAD});  g is integrated out (x negative binomial)\n"
        "overdispersion=0 is the Poisson model without g: no association between the dimensions at all, "
        "which is a\nstrong statement when the margins are exact."
    ),
    hyperparameters=(
        Hyperparameter("mean", None, "centre of the rates: the exact total, else the noisy one, per cell"),
        Hyperparameter("intercept_scale", 1.0, "standard deviation of the intercept, on the log scale"),
        Hyperparameter("effect_scale", 1.5, "standard deviation of the main effects, on the log scale"),
        Hyperparameter("overdispersion", 0.5, "median of cell_cv; 0 for none", "nonnegative"),
    ),
    build=_build,
)
"""Main effects."""
