"""Default priors for the counts of a release: four documented models, built from published numbers only.

================  ===========================================================================================
``independent``   every cell has a rate of its own, nothing is shared
``log-linear``    main effects of each dimension, with cells that scatter around them
``hierarchical``  rates of a one-way table, partially pooled within groups
``shares``        sizes of areas, and shares of the other dimensions' cells that vary by area
================  ===========================================================================================

They are a start. A model of one's own is a function ``build_model(release)`` in a file (see ``models/``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayesdp.priors.hierarchical import HIERARCHICAL
from bayesdp.priors.independent import INDEPENDENT
from bayesdp.priors.log_linear import LOG_LINEAR
from bayesdp.priors.prior import Hyperparameter, Prior
from bayesdp.priors.published import published_mean
from bayesdp.priors.shares import SHARES

if TYPE_CHECKING:
    import pymc as pm

    from bayesdp.release import Release

__all__ = ["PRIORS", "Hyperparameter", "Prior", "build_model", "describe_prior", "published_mean"]

PRIORS: dict[str, Prior] = {prior.name: prior for prior in (INDEPENDENT, LOG_LINEAR, HIERARCHICAL, SHARES)}
"""The default priors by name."""


def build_model(release: Release, prior: str = "independent", **hyper: Any) -> pm.Model:
    """A PyMC model of a release under one of the default priors; the counts are its variable ``x``.

    Parameters
    ----------
    release : Release
        What was published.
    prior : {"independent", "log-linear", "hierarchical", "shares"}
        Which prior.
    **hyper
        Its hyperparameters; ``PRIORS[prior].hyperparameters`` lists them with their defaults, and
        ``PRIORS[prior].formula`` is the model.

    Returns
    -------
    pymc.Model
        Sample it with `bayesdp.sample` or ``pm.sample``.

    Raises
    ------
    ValueError
        If a name or a value is not valid, or the prior is not for such a table.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> release = bdp.Release.from_published(
    ...     table,
    ...     measured=[bdp.Measured(bdp.Identity(table), [[9, 1], [12, -2]], bdp.noise.DiscreteGaussian(3.0))],
    ...     exact=[bdp.Exact(bdp.Totals(table), 20)],
    ... )
    >>> model = build_model(release, "log-linear", overdispersion=0.3)
    >>> [rv.name for rv in model.free_RVs]
    ['intercept', 'county_effect', 'education_effect', 'cell_cv', 'x']
    """
    chosen = _prior_of(prior)
    return chosen.build(release, chosen.checked(hyper))


def describe_prior(release: Release, prior: str = "independent", **hyper: Any) -> str:
    """The prior that `build_model` gives a release, in words and formulas, with its numbers; for a report.

    Parameters
    ----------
    release, prior, **hyper
        As for `build_model`.

    Returns
    -------
    str
        Several lines.
    """
    chosen = _prior_of(prior)
    values = chosen.checked(hyper)
    if "mean" in values and values["mean"] is None:
        values["mean"] = published_mean(release)
    return chosen.described({name: value for name, value in values.items() if value is not None})


def _prior_of(name: str) -> Prior:
    from bayesdp._validate import choice  # NumPy comes with it, which `bayesdp --help` does without

    return PRIORS[choice(name, tuple(PRIORS), "prior")]
