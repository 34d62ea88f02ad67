"""Every cell on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayesdp.priors.prior import Hyperparameter, Prior

if TYPE_CHECKING:
    import pymc as pm

    from bayesdp.release import Release


def _build(release: Release, hyper: Mapping[str, Any]) -> pm.Model:
    import pymc as pm

    from bayesdp.inference import ConfidentialCounts, observe
    from bayesdp.priors.published import published_mean

    mean = published_mean(release) if hyper["mean"] is None else hyper["mean"]
    shape = hyper["shape"]
    with pm.Model(coords=release.coords) as model:
        if hyper["collapsed"]:
            base = pm.NegativeBinomial.dist(mu=mean, alpha=shape)
        else:
            base = pm.Poisson.dist(pm.Gamma("rate", alpha=shape, beta=shape / mean, dims=release.dims))
        x = ConfidentialCounts("x", base, dims=release.dims)
        observe(release, x)
    return model


INDEPENDENT = Prior(
    name="independent",
    title="every cell has a rate of its own",
    formula=(
        "rate[i] ~ Gamma(shape, shape / mean)      mean `mean`, coefficient of variation 1 / sqrt(shape)\n"
        "x[i] ~ Poisson(rate[i])\n"
        "The rates are integrated out (x[i] negative binomial) unless collapsed=false. Given an exact "
        "grand total\nx is Dirichlet-multinomial with parameters `shape`, whatever the mean: uniform over "
        "all tables if shape=1."
    ),
    hyperparameters=(
        Hyperparameter("shape", 1.0, "shape of the gamma prior; smaller: cells differ more"),
        Hyperparameter("mean", None, "mean of the rates: the exact total, else the noisy one, per cell"),
        Hyperparameter("collapsed", True, "integrate the rates out; faster", "boolean"),
    ),
    build=_build,
)
"""Independent cells."""
