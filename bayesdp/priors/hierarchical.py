"""Partially pooled rates of a one-way table."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import TYPE_CHECKING, Any

from bayesdp._validate import shown
from bayesdp.priors.prior import Hyperparameter, Prior

if TYPE_CHECKING:
    import pymc as pm

    from bayesdp.release import Release

__all__ = ["HIERARCHICAL"]


def _group(release: Release, name: str | None) -> str | None:
    """The group label to pool within: the one named, the only one, or none.

    A label that all cells share is no group: differences between groups could not be learnt from it.
    """
    names = [own for own, _, labels in release.frame.groups if len(set(labels)) > 1]
    if name is not None and name not in names:
        raise ValueError(f"group {name!r} is no group label of the table; there are {shown(names) or 'none'}")
    if name is None and len(names) > 1:
        raise ValueError(f"the table has several group labels; choose one of {shown(names)} with group=")
    return name or (names[0] if names else None)


def _build(release: Release, hyper: Mapping[str, Any]) -> pm.Model:
    import pymc as pm

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
            between = pm.HalfNormal("between", hyper["between_scale"])
            deviation = pm.Normal(f"{group}_deviation", 0.0, 1.0, dims=group)
            centre = centre + between * deviation[part.codes[0]]
        within = pm.HalfNormal("within", hyper["within_scale"])
        if hyper["rates"] == "gamma":
            base = pm.NegativeBinomial.dist(
                mu=pm.math.exp(centre) * pm.math.ones(release.frame.shape), alpha=within**-2
            )
        else:
            log_rate = pm.Normal("log_rate", centre, within, dims=dim)
            base = pm.Poisson.dist(pm.math.exp(log_rate))
        x = ConfidentialCounts("x", base, dims=release.dims)
        observe(release, x)
    return model


HIERARCHICAL = Prior(
    name="hierarchical",
    title="rates of a one-way table, partially pooled within groups",
    formula=(
        "log_rate[i] ~ Normal(log_mean + between * deviation[group of i], within)\n"
        "log_mean ~ Normal(log(mean), centre_scale);  deviation[g] ~ Normal(0, 1)\n"
        "between ~ HalfNormal(between_scale);  within ~ HalfNormal(within_scale)\n"
        "x[i] ~ Poisson(exp(log_rate[i]))\n"
        "rates=gamma: rate[i] ~ Gamma with mean exp(log_mean + ...) and coefficient of variation `within`, "
        "integrated\nout (x[i] negative binomial); faster, and better where the noise is larger than the "
        "counts.\nWithout group labels `between` and `deviation` are left out."
    ),
    hyperparameters=(
        Hyperparameter("mean", None, "centre of the rates: the exact total, else the noisy one, per cell"),
        Hyperparameter("centre_scale", 1.5, "standard deviation of log_mean"),
        Hyperparameter("between_scale", 1.0, "scale of the differences between groups, on the log scale"),
        Hyperparameter("within_scale", 1.5, "scale of the differences within groups, on the log scale"),
        Hyperparameter("rates", "lognormal", "law of the rates within a group", ("lognormal", "gamma")),
        Hyperparameter("group", None, "group label to pool within", "text", "the only one"),
    ),
    build=_build,
)
"""Partially pooled cells."""
