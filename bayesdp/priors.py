"""Default priors for the counts of a release, or of two: five documented models, built from published numbers only.

================  ===========================================================================================
``independent``   every cell has a rate of its own, nothing is shared
``log-linear``    main effects of each dimension, with cells that scatter around them
``hierarchical``  rates of a one-way table, partially pooled within groups
``shares``        sizes of areas, and shares of the other dimensions' cells that vary by area
``change``        two tables of the same cells at two times, with levels that persist and a common change
================  ===========================================================================================

They are a start. A model of one's own is a function ``build_model(release)`` in a file (see ``models/``). ``bayesdp --help`` reads
them, so that nothing slow to import, NumPy included, is imported with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, log, prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pymc as pm

    from bayesdp.queries import Query, SumPart
    from bayesdp.release import Release

__all__ = [
    "CHANGE",
    "PRIORS",
    "Hyperparameter",
    "Prior",
    "build_change",
    "build_model",
    "describe_change",
    "describe_prior",
    "published_mean",
]

_SPREAD = 0.75
"""With this spread on the log scale 95% of the prior of a scale lies within a factor 4.3 of its median.

Log-normal rather than half-normal: a scale of few groups has no mode at zero then, where NUTS would meet a funnel."""


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter: its name, in Python and on the command line, its default, what it is, and what values it takes."""

    name: str
    default: Any  # None: found from published numbers, as `text` says
    text: str
    kind: str | tuple[str, ...] = "positive"  # or "nonnegative", "boolean", "text"; a tuple lists the values
    default_text: str = "published"  # for a default of None

    def checked(self, value: Any) -> Any:
        """Accept a value, or raise an error that names the hyperparameter."""
        from bayesdp._validate import boolean, choice, instance, nonnegative_real, positive_real

        if value is None:
            return self.default
        if isinstance(self.kind, tuple):
            return choice(value, self.kind, self.name)
        if self.kind == "boolean":
            return boolean(value, self.name)
        if self.kind == "text":
            instance(value, str, f"{self.name} must be a string", quoted=True)
            return value
        return (positive_real if self.kind == "positive" else nonnegative_real)(value, self.name)

    def parsed(self, text: str) -> Any:
        """Read a value from the command line, and check it."""
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise ValueError(f"{self.name} must be true or false, got {text!r}")
            return text == "true"
        if isinstance(self.kind, tuple) or self.kind == "text":
            return self.checked(text)
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"{self.name} must be a number, got {text!r}") from None
        return self.checked(number)


@dataclass(frozen=True)
class Prior:
    """A default prior: its name, what it says in a few words, the model line by line, and what can be set."""

    name: str
    title: str
    formula: str
    hyperparameters: tuple[Hyperparameter, ...]
    # Of a release and `_hyper_of` it: a model with the counts ``x``. `CHANGE` takes two releases.
    build: Callable[..., pm.Model]

    def _of(self, name: str) -> Hyperparameter:
        known = {hyper.name: hyper for hyper in self.hyperparameters}
        if name not in known:
            raise ValueError(f"the prior {self.name!r} has no hyperparameter {name!r}; it has {', '.join(known)}")
        return known[name]

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All hyperparameters: those given, checked, and defaults for the others."""
        for name in given:
            self._of(name)
        return {hyper.name: hyper.checked(given.get(hyper.name)) for hyper in self.hyperparameters}

    def parsed(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Hyperparameters written as text, as on the command line."""
        return {name: self._of(name).parsed(text) for name, text in given.items()}

    def described(self, values: Mapping[str, Any]) -> str:
        """The prior with the values of its hyperparameters, for a report."""
        texts = [
            f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in values.items()
        ]
        return "\n".join([f"{self.name}: {self.title}", *self.formula.splitlines(), f"with {', '.join(texts)}"])

    def help(self) -> str:
        """The prior as the command line describes it."""
        lines = [f"{self.name}: {self.title}", *(f"    {line}" for line in self.formula.splitlines())]
        for hyper in self.hyperparameters:
            values = f" ({' or '.join(hyper.kind)})" if isinstance(hyper.kind, tuple) else ""
            default = hyper.default_text if hyper.default is None else str(hyper.default).lower()
            lines.append(f"      {hyper.name:<16} {hyper.text}{values} [default: {default}]")
        return "\n".join(lines)


def published_mean(release: Release) -> float:
    """The average count of a cell, as far as published numbers tell.

    The exact grand total, or the sum of exact values that cover the whole table, over the number of cells. Without one, that of a
    noisy measurement that covers the table, or the standard deviation of its noise where that is known and larger. So that it can
    be the mean of a prior, a table has one person at least; 1 a cell if nothing covers it.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = {"county": ["Alpha", "Beta"]}
    >>> published_mean(bdp.Release.from_published(table, exact=[bdp.Exact(bdp.Totals(table), 135)]))
    67.5
    """
    size = release.frame.size
    for part in release.exact:
        if part.sign == "=" and (first := _covering(part.query)) is not None:
            return max(float(part.values.reshape(-1)[: first.rows].sum()), 1.0) / size
    for measured in release.measurements:
        first = _covering(measured.query)
        if first is not None:
            values, hidden = measured.values.reshape(-1)[: first.rows], measured.unmeasured.reshape(-1)[: first.rows]
            if not hidden.all():
                # Unpublished answers are taken to be like the others. Of a sum below its noise nothing is known but that.
                variance = measured.law.variance(measured.query.shape) if measured.law.independent else None
                noise = 0.0 if variance is None else float(variance.reshape(-1)[: first.rows].sum() ** 0.5)
                return max(float(values[~hidden].mean()) * first.rows, noise if isfinite(noise) else 0.0, 1.0) / size
    return 1.0


def _covering(query: Query) -> SumPart | None:
    """The first part of a query if it is a sum: its answers then add up to the total."""
    from bayesdp.queries import SumPart

    first = query.parts[0]
    return first if isinstance(first, SumPart) else None


def _hyper_of(prior: Prior, given: Mapping[str, Any], *releases: Release) -> dict[str, Any]:
    """All hyperparameters of a model of these releases: a mean that was left out is that of a cell, at the time in the middle."""
    values = prior.checked(given)
    if values["mean"] is None:
        values["mean"] = float(prod(map(published_mean, releases)) ** (1 / len(releases)))
    return values


def _model_of(law: Callable[[Release, Mapping[str, Any]], Any]) -> Callable[[Release, Mapping[str, Any]], pm.Model]:
    """What builds the model: a law of the counts, made within it of a release and its hyperparameters, and what was published."""

    def build(release: Release, hyper: Mapping[str, Any]) -> pm.Model:
        import pymc as pm

        from bayesdp.inference import ConfidentialCounts, observe

        with pm.Model(coords=release.coords) as model:
            observe(release, ConfidentialCounts("x", law(release, hyper), dims=release.dims))
        return model

    return build


def _independent(release: Release, hyper: Mapping[str, Any]) -> Any:
    import pymc as pm

    mean, shape = hyper["mean"], hyper["shape"]
    if hyper["collapsed"]:
        return pm.NegativeBinomial.dist(mu=mean, alpha=shape)
    return pm.Poisson.dist(pm.Gamma("rate", alpha=shape, beta=shape / mean, dims=release.dims))


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
        Hyperparameter("mean", None, "mean of the rates: the exact total, else the noisy one or its noise, per cell"),
        Hyperparameter("collapsed", True, "integrate the rates out; faster", "boolean"),
    ),
    build=_model_of(_independent),
)


def _log_linear(release: Release, hyper: Mapping[str, Any]) -> Any:
    import pymc as pm

    dims = release.dims
    log_rate = pm.Normal("intercept", log(hyper["mean"]), hyper["intercept_scale"])
    for axis, (dim, size) in enumerate(zip(dims, release.frame.shape, strict=True)):
        if size > 1:  # one label has no effect: it would have to be zero
            effect = pm.ZeroSumNormal(f"{dim}_effect", sigma=hyper["effect_scale"], dims=dim)
            log_rate = log_rate + effect.reshape([size if a == axis else 1 for a in range(len(dims))])
    rate = pm.Deterministic("rate", pm.math.exp(log_rate) * pm.math.ones(release.frame.shape), dims=dims)
    if hyper["overdispersion"] == 0:
        return pm.Poisson.dist(rate)
    scatter = pm.LogNormal("cell_cv", log(hyper["overdispersion"]), _SPREAD)
    return pm.NegativeBinomial.dist(mu=rate, alpha=scatter**-2)


LOG_LINEAR = Prior(
    name="log-linear",
    title="main effects of each dimension, with cells that scatter around them",
    formula=(
        "log rate[i, j, ...] = intercept + effect_1[i] + effect_2[j] + ...\n"
        "intercept ~ Normal(log(mean), intercept_scale)\n"
        "effect_k ~ ZeroSumNormal(effect_scale), adding up to zero over the labels of dimension k\n"
        "x[i, j, ...] ~ Poisson(rate * g),  g ~ Gamma with mean 1 and coefficient of variation cell_cv\n"
        f"cell_cv ~ LogNormal(log(overdispersion), {_SPREAD});  g is integrated out (x negative binomial)\n"
        "overdispersion=0 is the Poisson model without g: no association between the dimensions at all, "
        "which is a\nstrong statement when the margins are exact."
    ),
    hyperparameters=(
        Hyperparameter("mean", None, "centre of the rates: the exact total, else the noisy one or its noise, per cell"),
        Hyperparameter("intercept_scale", 1.0, "standard deviation of the intercept, on the log scale"),
        Hyperparameter("effect_scale", 1.5, "standard deviation of the main effects, on the log scale"),
        Hyperparameter("overdispersion", 0.5, "median of cell_cv; 0 for none", "nonnegative"),
    ),
    build=_model_of(_log_linear),
)


def _group(release: Release, name: str | None) -> str | None:
    """The group label to pool within: the one named, the only one, or none."""
    # A label that all cells share is no group: differences between groups could not be learnt from it.
    from bayesdp._validate import shown

    names = [group for group, _, labels in release.frame.groups if len(set(labels)) > 1]
    if name is not None and name not in names:
        raise ValueError(f"group {name!r} is no group label of the table; there are {shown(names) or 'none'}")
    if name is None and len(names) > 1:
        raise ValueError(f"the table has several group labels; choose one of {shown(names)} with group=")
    return name or (names[0] if names else None)


def _hierarchical(release: Release, hyper: Mapping[str, Any]) -> Any:
    import pymc as pm

    from bayesdp._validate import shown
    from bayesdp.queries import SumPart

    if len(release.dims) != 1:
        raise ValueError(
            "the prior 'hierarchical' is for tables of one dimension, and this one has "
            f"{shown(release.dims)}; use 'log-linear', or a model of your own"
        )
    group = _group(release, hyper["group"])
    centre = pm.Normal("log_mean", log(hyper["mean"]), hyper["centre_scale"])
    if group is not None:
        part = SumPart(release.frame, (group,))
        pm.modelcontext(None).add_coord(group, part.answer_labels[0])
        between = pm.LogNormal("between_groups", log(hyper["between"]), _SPREAD)
        # Deviations that add up to zero, so that log_mean and their level do not take each other's place.
        deviation = pm.ZeroSumNormal(f"{group}_deviation", sigma=between, dims=group)
        centre = centre + deviation[part.codes[0]]
    within = pm.LogNormal("within_group", log(hyper["within"]), _SPREAD)
    if hyper["rates"] == "gamma":
        return pm.NegativeBinomial.dist(mu=pm.math.exp(centre) * pm.math.ones(release.frame.shape), alpha=within**-2)
    return pm.Poisson.dist(pm.math.exp(pm.Normal("log_rate", centre, within, dims=release.dims)))


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
        Hyperparameter("mean", None, "centre of the rates: the exact total, else the noisy one or its noise, per cell"),
        Hyperparameter("centre_scale", 1.5, "standard deviation of log_mean"),
        Hyperparameter("between", 0.5, "median of the differences between groups, on the log scale"),
        Hyperparameter("within", 1.0, "median of the differences within groups, relative"),
        Hyperparameter("rates", "gamma", "law of the rates within a group", ("gamma", "lognormal")),
        Hyperparameter("group", None, "group label to pool within", "text", "the only one"),
    ),
    build=_model_of(_hierarchical),
)


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


def _shares(release: Release, hyper: Mapping[str, Any]) -> Any:
    import pymc as pm

    areas = _areas(release, hyper["areas"])
    axis = release.dims.index(areas)
    across = [n for a, n in enumerate(release.frame.shape) if a != axis]
    cells = release.frame.size // release.frame.shape[axis]
    centre = pm.Normal("area_size_centre", log(hyper["mean"] * cells), hyper["centre_scale"])
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
    return pm.NegativeBinomial.dist(mu=size * share, alpha=concentration * share * pm.math.ones_like(size))


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
        Hyperparameter("mean", None, "centre of the rates: the exact total, else the noisy one or its noise, per cell"),
        Hyperparameter("centre_scale", 1.5, "standard deviation of area_size_centre"),
        Hyperparameter("size_spread", 0.75, "median of the spread of areas' sizes, on the log scale"),
        Hyperparameter("share_scale", 2.0, "standard deviation of the log shares"),
        Hyperparameter("concentration", 10.0, "median of the concentration of the shares"),
        Hyperparameter("areas", None, "dimension of the areas", "text", "the first with group labels, else the first"),
    ),
    build=_model_of(_shares),
)

PRIORS: dict[str, Prior] = {prior.name: prior for prior in (INDEPENDENT, LOG_LINEAR, HIERARCHICAL, SHARES)}
"""The default priors by name."""


def build_model(release: Release, prior: str = "independent", **hyper: Any) -> pm.Model:
    """A PyMC model of a release under one of the default priors; the counts are its variable ``x``.

    Parameters
    ----------
    release : Release
    prior : {"independent", "log-linear", "hierarchical", "shares"}
    **hyper
        Its hyperparameters; ``PRIORS[prior].hyperparameters`` lists them with their defaults, and
        ``PRIORS[prior].formula`` is the model.

    Raises
    ------
    ValueError
        If a name or a value is not valid, or the prior is not for such a table.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> measured = bdp.Measured(bdp.Identity(table), [[9, 1], [12, -2]], bdp.noise.DiscreteGaussian(3.0))
    >>> release = bdp.Release.from_published(table, [measured], [bdp.Exact(bdp.Totals(table), 20)])
    >>> model = build_model(release, "log-linear", overdispersion=0.3)
    >>> [rv.name for rv in model.free_RVs]
    ['intercept', 'county_effect', 'education_effect', 'cell_cv', 'x']
    """
    chosen = _prior_of(prior)
    return chosen.build(release, _hyper_of(chosen, hyper, release))


def describe_prior(release: Release, prior: str = "independent", **hyper: Any) -> str:
    """The prior that `build_model` gives a release, in words and formulas, with its numbers; for a report."""
    chosen = _prior_of(prior)
    values = _hyper_of(chosen, hyper, release)
    return chosen.described({name: value for name, value in values.items() if value is not None})


def _change(before: Release, after: Release, hyper: Mapping[str, Any]) -> pm.Model:
    import pymc as pm

    from bayesdp.inference import ConfidentialCounts, observe

    dims, ones = before.dims, pm.math.ones(before.frame.shape)
    with pm.Model(coords=after.coords | before.coords) as model:
        centre = pm.Normal("log_mean", log(hyper["mean"]), hyper["centre_scale"])
        spread = pm.LogNormal("level_spread", log(hyper["level_spread"]), _SPREAD)
        level = pm.Normal("level", centre, spread, dims=dims)
        change = pm.Normal("change", 0.0, hyper["change_scale"])
        scatter = pm.LogNormal("cell_cv", log(hyper["scatter"]), _SPREAD)
        for name, release, half in (("before", before, -0.5), ("after", after, 0.5)):
            rate = pm.math.exp(level + half * change)
            law = pm.NegativeBinomial.dist(mu=rate, alpha=scatter**-2 * ones)
            observe(release, ConfidentialCounts(name, law, dims=dims))
    return model


CHANGE = Prior(
    name="change",
    title="two tables of the same cells: levels of cells that persist, a common change, and scatter of cells around it",
    formula=(
        "before[i] ~ Poisson(exp(level[i] - change / 2) * g[i]),  after[i] ~ Poisson(exp(level[i] + change / 2) * h[i])\n"
        "level[i] ~ Normal(log_mean, level_spread),  change ~ Normal(0, change_scale): log of the common ratio of rates\n"
        "g[i], h[i] ~ Gamma with mean 1 and coefficient of variation cell_cv, integrated out (counts negative binomial):\n"
        "the ratio of the rates of a cell scatters around exp(change) by about the factor exp(1.4 cell_cv)\n"
        "log_mean ~ Normal(log(mean), centre_scale)\n"
        f"level_spread ~ LogNormal(log(level_spread), {_SPREAD}),  cell_cv ~ LogNormal(log(scatter), {_SPREAD})\n"
        "Given the levels the two tables are independent: what one says of a cell is lent to the other by its level, the more\n"
        "the smaller cell_cv is."
    ),
    hyperparameters=(
        Hyperparameter("mean", None, "centre of the rates: of the exact or noisy totals of both, per cell"),
        Hyperparameter("centre_scale", 1.5, "standard deviation of log_mean"),
        Hyperparameter("level_spread", 1.0, "median of the differences between cells, on the log scale"),
        Hyperparameter("change_scale", 0.5, "standard deviation of the common change, on the log scale"),
        Hyperparameter("scatter", 0.2, "median of cell_cv"),
    ),
    build=_change,
)


def build_change(before: Release, after: Release, **hyper: Any) -> pm.Model:
    """A PyMC model of two tables with the same cells, of two times or places; the counts are ``before`` and ``after``.

    Each release has its own law, invariants and guarantee. Changes of cells and of their sums are differences or ratios of
    ``before`` and ``after``, draw by draw; the parameter ``change`` is the common change of the rates, on the log scale.

    Parameters
    ----------
    before, after : Release
        Of tables with the same dimensions and labels in the same order; groups may differ.
    **hyper
        ``CHANGE.hyperparameters`` lists them with their defaults, and ``CHANGE.formula`` is the model.

    Raises
    ------
    ValueError
        If the two tables have other cells (said by label), or the same noise, or a release is of statistics, or a value is not valid.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table, law = {"county": ["Alpha", "Beta"]}, bdp.noise.DiscreteGaussian(sigma=3.0)
    >>> years = [
    ...     bdp.Release.from_published(table, measured=[bdp.Measured(bdp.Identity(table), noisy, law)])
    ...     for noisy in ([31, 80], [40, 97])
    ... ]
    >>> model = build_change(*years, scatter=0.1)
    >>> [rv.name for rv in model.free_RVs]
    ['log_mean', 'level_spread', 'level', 'change', 'cell_cv', 'before', 'after']
    """
    from bayesdp._validate import shown
    from bayesdp.release import share_noise

    for name, release in (("before", before), ("after", after)):
        if release.about != "counts":
            raise ValueError(f"{name} must be a release of counts; this one is of statistics")
    one, other = before.frame, after.frame
    if one.dims != other.dims:
        raise ValueError(
            f"after must have the dimensions of before, {shown(one.dims)}, in this order; it has {shown(other.dims)}"
        )
    for dim, first, second in zip(one.dims, one.labels, other.labels, strict=True):
        if first != second:
            only = [label for label in second if label not in set(first)]
            lacking = [label for label in first if label not in set(second)]
            found = f"only in after: {shown(only)}; " * bool(only) + f"only in before: {shown(lacking)}" * bool(lacking)
            raise ValueError(
                f"after must have the labels of before along {dim!r}, in the same order "
                f"({found or 'they are in another order, as the lines of a file are'}): give both tables the cells that they share"
            )
    names = {"level", "change", "before", "after", "cell_cv", "log_mean", "level_spread"}
    if taken := sorted(names.intersection(one.dims)):
        raise ValueError(
            f"a dimension is called {shown(taken)}, as a variable of this model: rename it in both releases"
        )
    if share_noise(before, after):
        raise ValueError("after has a measurement of before, with the same values: noise of two times is independent")
    return CHANGE.build(before, after, _hyper_of(CHANGE, hyper, before, after))


def describe_change(before: Release, after: Release, **hyper: Any) -> str:
    """The prior that `build_change` gives two releases, in words and formulas, with its numbers; for a report."""
    return CHANGE.described(_hyper_of(CHANGE, hyper, before, after))


def _prior_of(name: str) -> Prior:
    from bayesdp._validate import choice  # NumPy comes with it, which `bayesdp --help` does without

    return PRIORS[choice(name, tuple(PRIORS), "prior")]
