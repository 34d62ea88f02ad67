"""Partially pooled rates of a one-way table."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import TYPE_CHECKING, Any

from bayesdp.priors.prior import Hyperparameter, Prior

if TYPE_CHECKING:
    import pymc as pm

    from bayesdp.release import Release

_SPREAD = 0.75
"""With this spread on the log scale 95% of the prior of a scale lies within a factor 4.3 of its median.

Log-normal rather than half-normal: a scale of few groups has no mode at zero then, where NUTS would meet a funnel."""


def _group(release: Release, name: str | None) -> str | None:
    """The group label to pool within: the one named, the only one, or none."""
    # A label that all cells share is no group: differences between groups could not be learnt from it.
    from bayesdp._validate import shown

    names = [own for own, _, labels in release.frame.groups if len(set(labels)) > 1]
    if name is not None and name not in names:
        raise ValueError(f"group {name!r} is no group label of the table; there are {shown(names) or 'none'}")
    if name is None and len(names) > 1:
        raise ValueError(f"the table has several group labels; choose one of {shown(names)} with group=")
    return name or (names[0] if names else None)


def _build(release: Release, hyper: Mapping[str, Any]) -> pm.Model:
    import pymc as pm

    from bayesdp._validate import shown
    from bayesdp.inference import ConfidentialCounts, observe
    from bayesdp.priors.published import published_mean
    from bayesdp.queries import SumPart

    if len(release.dims) != 1:
        raise ValueError(
            "the prior 'hierarchical' is for tables of one dimension, and this one has "
            f"{shown(release.dims)}; use 'log-linear', or a model of your own"
        )
    mean = published_mean(release) if hyper["mean"] is None else hyper["mean"]
    (dim,) = release.dims
    group = _group(release, hyper["group"])
    with pm.Model(coords=release.coords) as model:
        centre = pm.Normal("log_mean", log(mean), hyper["centre_scale"])
        if group is not None:
            part = SumPart(release.frame, (group,))
            model.add_coord(group, part.answer_labels[0])
            between = pm.LogNormal("between_groups", log(hyper["between"]), _SPREAD)
            # Deviations that add up to zero, so that log_mean and their level do not take each other's place.
            deviation = pm.ZeroSumNormal(f"{group}_deviation", sigma=between, dims=group)
            centre = centre + deviation[part.codes[0]]
        within = pm.LogNormal("within_group", log(hyper["within"]), _SPREAD)
        if hyper["rates"] == "gamma":
            mu = pm.math.exp(centre) * pm.math.ones(release.frame.shape)
            base = pm.NegativeBinomial.dist(mu=mu, alpha=within**-2)
        else:
            base = pm.Poisson.dist(pm.math.exp(pm.Normal("log_rate", centre, within, dims=dim)))
        x = ConfidentialCounts("x", base, dims=release.dims)
        observe(release, x)
    return model


HIERARCHICAL = Prior(
    name="hierarchical",
    title="rates of a one-way table, partially pooled within groups",
    formula=(
        "log m[g] = log_mean + deviation[g],  log_mean ~ Normal(log(mean), centre_scale)\n"
        "deviation ~ ZeroSumNormal(between_groups), adding up to zero over the groups\n"
        "rate[i] ~ Gamma with mean m[group of i] and coefficient of variation within_group\n"
        "x[i] ~ Poisson(rate[i]);  the rates are integrated out (x[i] negative binomial)\n"
        f"between_groups ~ LogNormal(log(between), {_SPREAD}),  within_group ~ LogNormal(log(within), {_SPREAD})\n"
        "rates=lognormal: log rate[i] ~ Normal(log m[group of i], within_group) instead, with the log rates as\n"
        "parameters; slower, and much slower where the noise is larger than the root of the counts.\n"
        "Without group labels the deviations are left out."
    ),
    hyperparameters=(
        Hyperparameter("mean", None, "centre of the rates: the exact total, else the noisy one, per cell"),
        Hyperparameter("centre_scale", 1.5, "standard deviation of log_mean"),
        Hyperparameter("between", 0.5, "median of the differences between groups, on the log scale"),
        Hyperparameter("within", 1.0, "median of the differences within groups, relative"),
        Hyperparameter("rates", "gamma", "law of the rates within a group", ("gamma", "lognormal")),
        Hyperparameter("group", None, "group label to pool within", "text", "the only one"),
    ),
    build=_build,
)
"""Partially pooled cells."""
