"""Put a release into a PyMC model, or another one in its place; a first table for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.traversal import ancestors

from bayesdp._validate import instance
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV, ExactAnswers, FlatCountsRV
from bayesdp.distributions.perturbed import SameRecords, SharedPart, rows_of
from bayesdp.fibers import Fiber
from bayesdp.frames import variables_of
from bayesdp.inference.observed import (
    Observed,
    answer_dims,
    free_name,
    observe_noisy,
    observed_by,
    observed_once,
    published_numbers,
    releases_of,
    remember,
)
from bayesdp.measurements import Exact, Measured, described
from bayesdp.measurements.consistency import warn_of_law
from bayesdp.mechanisms.composition import joint_release
from bayesdp.noise.base import shared_laws
from bayesdp.release import Release
from bayesdp.steps.base import shape_of

_NEVER_BY_CHANCE = 4
"""From so many equal noisy answers on, two measurements are taken for the same draw of noise; fewer may agree by chance."""


def observe(release: Release, x: Any) -> None:
    """Add a release to the current model: what is known of the counts becomes data.

    Every noisy measurement becomes an observed variable with its exact likelihood, every exact part an observed
    variable that holds the counts on their fiber. Several releases about one table are several calls.

    The published numbers are ``pm.Data``: ``noisy_published``, ``exact_published``, then ``noisy_2_published`` and so on, with the
    measurement's own name in the place of ``noisy`` where it has one. `bayesdp.set_release` replaces them all by another release of
    the same table, checked. `pm.set_data` replaces one, unchecked until the model is sampled; the result then leaves the release out.

    Parameters
    ----------
    release : Release
        What was published.
    x : ConfidentialCounts or tensor variable
        The counts, a variable of the current model with the dimensions of the release, in its order. Of a release of statistics:
        the statistics as a function of the parameters of the model, in the order of the release (a scalar for a single one without a
        name). If that is no variable of the model, it becomes one, ``pm.Deterministic("true_statistic", ...)``.

    Raises
    ------
    TypeError
        If `x` is not a `ConfidentialCounts` or `FlatCounts` variable of the current model. PyMC's own steps cannot move
        on a fiber: they would stay where they start for ever, without an error. Or if no variable of the model enters a statistic.
    ValueError
        If the dimensions or the shape do not match, no table agrees with the exact answers, the prior is flat and some cell
        has no upper bound, the release contradicts one that was observed before, or it was observed before: the same query
        with the same numbers, as when a notebook cell is run again (fewer than four numbers may agree by chance, and are refused
        with the same noise law only); or a cell has two values under a law that gives one cell one value. Two draws of noise that
        happen to be equal go into one `Release` as two measurements.

    Warns
    -----
    CountedOnceWarning
        If a cell was published in several tables with one perturbation, as under cell keys. It is counted once, and is unmeasured
        in the later tables of the release that is kept with the posterior. Equal noisy numbers under other laws are two measurements.
    PostProcessedWarning
        If published sums contradict one another more, or less, than the stated laws explain (`bayesdp.check_law`, p below 1e-4).

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> release = bdp.LatticeLaplace(bdp.Margins(table, ["county"], ["education"]), epsilon=0.25).release(table)
    >>> with pm.Model(coords=release.coords) as model:
    ...     x = bdp.ConfidentialCounts("x", pm.Poisson.dist(8.0), dims=release.dims)
    ...     bdp.observe(release, x)
    >>> [rv.name for rv in model.observed_RVs]
    ['noisy', 'exact', 'exact_2']
    """
    instance(release, Release, "release must be a bayesdp.Release")
    if release.about == "statistics":
        _observe_statistics(release, x)
        return
    model = pm.modelcontext(None)
    release = observed_once(release)
    _check_new(release, x, model)
    earlier = [
        known for name, known in releases_of(model) if name == getattr(x, "name", None) and known.about == release.about
    ]
    release = observed_once(release, earlier)
    # They fit together, and no noise is counted twice.
    joint = joint_release([*earlier, release]) if earlier else release
    warn_of_law(joint.law_check)
    _check_counts(release, x, model)
    fiber = joint.fiber
    fiber.find_point()
    _check_bounded(fiber, release, x)
    data = [observe_noisy(model, measured, x) for measured in release.measurements]
    _observe_same_records(model, x, release.measurements, data)
    data += [_observe_exact(model, exact, x) for exact in release.exact]
    remember(model, release, x.name, {published.name: published.get_value() for published in data})


def _check_bounded(fiber: Fiber, release: Release, x: Any) -> None:
    """Check that flat counts have finitely many tables."""
    if isinstance(x.owner.inputs[0].owner.op, FlatCountsRV):
        _, upper = fiber.bounds()
        if np.any(upper < 0):
            cell = int(np.flatnonzero(upper.reshape(-1) < 0)[0])
            raise ValueError(
                f"FlatCounts needs a finite fiber, but nothing exact bounds the cell {release.frame.cell_name(cell)} from above; "
                "use a proper prior, for example ConfidentialCounts with pm.Poisson.dist"
            )


def _check_new(release: Release, x: Any, model: pm.Model) -> None:
    """Check that no noisy numbers were observed before, which would count them twice, and that exact ones are not all known."""
    known = [observed for name, observed in releases_of(model) if name == getattr(x, "name", None)]
    before = [measured for observed in known for measured in observed.measurements]
    twice = [measured for measured in release.measurements if any(_same(measured, earlier) for earlier in before)]
    if twice or any(not release.measurements and release.exact == observed.exact for observed in known):
        part = f"its noisy numbers {described(twice[0].query)}" if twice else "its exact answers"
        raise ValueError(
            f"release has been observed already: {part} are data of {x.name} in this model, and would count twice. If a notebook "
            "cell was run again, build the model anew in it. If two draws of noise happen to be equal, put both into one Release, "
            "as two measurements"
        )


def _same(one: Measured, other: Measured) -> bool:
    """Whether two measurements are the same answers to the same query, whatever their names are."""
    # A different law makes them different only where they are so few that independent noise may agree by chance: a notebook cell
    # that is run again with a corrected scale has the same draw of noise.
    return (
        one.query == other.query
        and np.array_equal(one.values, other.values)
        and np.array_equal(one.unmeasured, other.unmeasured)
        and (one.law == other.law or int((~other.unmeasured).sum()) >= _NEVER_BY_CHANCE)
    )


def _check_counts(release: Release, x: Any, model: pm.Model) -> None:
    name = getattr(x, "name", None)
    owner = getattr(x, "owner", None)
    if owner is None or not isinstance(owner.op, ConfidentialCountsRV):
        raise TypeError(
            f"x must be a ConfidentialCounts (or FlatCounts) variable, got {name or x!r}. Under exact totals PyMC's own step "
            "methods cannot move a count: they would keep its first value for ever, without an error. Write "
            'ConfidentialCounts("x", pm.Poisson.dist(rate), dims=...) in place of pm.Poisson("x", rate, dims=...)'
        )
    if name not in model.named_vars or model.named_vars[name] is not x:
        raise TypeError(f"x must be a variable of the current model, but {name!r} is not registered in it")
    dims = model.named_vars_to_dims.get(name)
    if dims is not None and tuple(dims) != release.dims:
        raise ValueError(f"x must have the dimensions of the release in its order, {release.dims}, got {tuple(dims)}")
    if dims is not None:
        for dim, labels in zip(release.dims, release.frame.labels, strict=True):
            given = model.coords.get(dim)
            if given is not None and tuple(given) != tuple(labels):
                raise ValueError(
                    f"the model's labels of {dim!r} differ from those of the release; build it with pm.Model(coords=release.coords)"
                )
    shape = shape_of(x)
    if shape != release.frame.shape:
        raise ValueError(f"x must have the shape of the release, {release.frame.shape}, got {shape}")


def _observe_exact(model: pm.Model, exact: Exact, x: Any) -> Any:
    """Add the indicator of an exact part; returns the data variable of its numbers."""
    name = free_name(model, "exact")
    dims = answer_dims(model, name, exact.query)
    values = exact.values if len(dims) == exact.values.ndim else exact.values.reshape(-1)
    data = pm.Data(f"{name}_published", values.astype(np.float64), dims=dims)
    ExactAnswers(name, x, query=exact.query, sign=exact.sign, observed=data, dims=dims)
    return data


def _observe_same_records(model: pm.Model, x: Any, measurements: Sequence[Measured], data: Sequence[Any]) -> None:
    """Add the term of answers about the same records, where two answers may be; releases observed before are part of it."""
    known = [
        (measured, model[name])
        for variable, release, published in observed_by(model)
        if variable == x.name and release.about == "counts"
        for measured, name in zip(release.measurements, published, strict=False)
    ]
    pairs = [*known, *zip(measurements, data, strict=True)]
    laws = shared_laws([(measured.law, measured.query) for measured, _ in pairs])
    parts = []
    for (measured, numbers), shared in zip(pairs, laws, strict=True):
        published = ~measured.unmeasured.reshape(-1)
        law_of = np.where(published, shared, 0)
        parts.append((SharedPart(measured.query, measured.law, published, law_of), numbers))
    parts = [(part, numbers) for part, numbers in parts if part.shared.any()]
    before = {id(numbers) for _, numbers in known}
    count = sum(id(numbers) in before for _, numbers in parts)
    shared_parts, published_of = [part for part, _ in parts], [numbers for _, numbers in parts]
    if count == len(parts) or not _overlap(shared_parts):
        return
    tables = [rows for part in shared_parts if (rows := rows_of(model, part.law)) is not None]
    SameRecords(
        free_name(model, "same_records"),
        x,
        [*published_of, *tables],
        parts=shared_parts,
        known=count if _overlap(shared_parts[:count]) else 0,
        observed=np.int64(0),
    )


def _overlap(parts: Sequence[SharedPart]) -> bool:
    """Whether two answers under one law have a cell in common."""
    seen: Mapping[int, Any] = {}
    for part in parts:
        for law in np.unique(part.shared[part.shared > 0]).tolist():
            often = np.asarray(part.query.matrix[np.flatnonzero(part.shared == law)].sum(axis=0)).reshape(-1)
            seen = {**seen, law: seen.get(law, 0) + often}
    return any(bool(np.any(often > 1)) for often in seen.values())


def _observe_statistics(release: Release, statistic: Any) -> None:
    """Add the noisy part of a release of statistics to the current model."""
    # `statistic`: of a single one without a name, a scalar; of a covariance matrix, its elements or the matrix, of which the upper
    # triangle is taken. One that is no variable of the model becomes one, so that its posterior is recorded.
    model = pm.modelcontext(None)
    if any(observed == release for _, observed, _ in observed_by(model)):
        raise ValueError(
            "release has been observed already: its noisy numbers are data of this model, and would count twice. If a notebook "
            "cell was run again, build the model anew in it"
        )
    variable = _located(release, statistic, model)
    name = getattr(variable, "name", None)
    if name is None or model.named_vars.get(name) is not variable:
        name = free_name(model, "true_statistic")
        variable = pm.Deterministic(name, variable, dims=_dims(release, name, model) if variable.ndim else None)
    located = pt.reshape(variable, release.frame.shape)
    data = [observe_noisy(model, measured, located) for measured in release.measurements]
    remember(model, release, variable.name, {published.name: published.get_value() for published in data})


def _dims(release: Release, name: str, model: pm.Model) -> tuple[str, ...]:
    """Dimensions of a statistic: those of the release, unless the model has other labels of them."""
    found = []
    for dim, labels in release.coords.items():
        chosen = dim if dim not in model.coords or tuple(model.coords[dim]) == tuple(labels) else f"{name}_{dim}"
        model.add_coord(chosen, labels)
        found.append(chosen)
    return tuple(found)


def _located(release: Release, statistic: Any, model: pm.Model) -> Any:
    """The statistic as a tensor of the right shape that depends on the model."""
    try:
        variable = pt.as_tensor_variable(statistic)
    except (TypeError, NotImplementedError):
        raise TypeError(f"statistic must be a function of variables of the model, got {statistic!r}") from None
    if not set(model.basic_RVs) & set(ancestors([variable])):
        raise TypeError(
            "statistic must be a function of variables of the current model, such as successes / 50, but none of them enters it"
        )
    shape = release.frame.shape
    wanted = [shape, ()] if release.frame.size == 1 else [shape]
    given = shape_of(variable)
    names = variables_of(release.frame)
    if names is not None:
        square = (len(names), len(names))
        if given == square:
            return variable[np.triu_indices(len(names))]
        wanted.append(square)
    if given not in wanted:
        raise ValueError(
            f"statistic must have shape {' or '.join(map(str, wanted))}, as the release has {np.prod(shape)} statistics, got {given}"
        )
    return variable


def set_release(model: pm.Model, release: Release, *, replaces: Release | None = None) -> None:
    """Replace the published numbers of a model by those of another release of the same kind.

    The model keeps its graph, so that nothing is compiled anew where PyMC keeps compiled functions. `bayesdp.sample` then puts the
    new release and its guarantee beside the posterior.

    Parameters
    ----------
    model : pymc.Model
        That has called `bayesdp.observe`; not a copy that PyMC has made of it.
    release : Release
        With the same labels, and part by part the same queries, noise laws with their scales, unmeasured answers, and signs
        of the exact answers. Only the published numbers may differ.
    replaces : Release, optional
        Which of the observed releases it replaces; needed where the model has observed several of this kind.

    Raises
    ------
    TypeError
        If `release` is not a Release.
    ValueError
        If the model has observed no release of this kind, or several; if no table agrees with the new exact answers.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> mechanism = bdp.LatticeLaplace(bdp.Totals(table), epsilon=0.25)
    >>> first, second = mechanism.release(table), mechanism.release(table)
    >>> with pm.Model(coords=first.coords) as model:
    ...     x = bdp.ConfidentialCounts("x", pm.Poisson.dist(8.0), dims=first.dims)
    ...     bdp.observe(first, x)
    >>> bdp.set_release(model, second)
    >>> [known == second for _, known in bdp.inference.releases_of(model)]
    [True]
    """
    instance(release, Release, "release must be a bayesdp.Release")
    release = observed_once(release, quiet=True)
    entry = _chosen(model, release, None if replaces is None else observed_once(replaces, quiet=True))
    name, old, published = entry
    if release.about != "statistics":  # of which nothing is exact, and no cell has to be bounded
        others = [observed for known, observed in releases_of(model) if known == name and observed is not old]
        fiber = Fiber.of([*release.exact, *(part for other in others for part in other.exact)], release.frame)
        fiber.find_point()
        _check_bounded(fiber, release, model[name])
    numbers = published_numbers(release).values()
    values = {data: new.reshape(before.shape) for (data, before), new in zip(published.items(), numbers, strict=True)}
    pm.set_data(values, model=model)
    remember(model, release, name, values, replaces=entry)


def _chosen(model: pm.Model, release: Release, replaces: Release | None) -> Observed:
    """The entry of the model that a release is to replace."""
    entries = observed_by(model)
    if replaces is not None:
        entries = tuple(entry for entry in entries if entry[1] == replaces)
        if len(entries) != 1:
            raise ValueError(
                f"replaces must be a release that the model has observed once; it has, {len(entries)} times"
            )
    if not entries:
        raise ValueError(
            "the model has observed no release that it knows of: call bayesdp.observe first; copies of a model made by PyMC do not "
            "know theirs, so set the release before copying"
        )
    differences = [_difference(old, release) for _, old, _ in entries]
    fitting = [entry for entry, different in zip(entries, differences, strict=True) if different is None]
    if len(fitting) > 1:
        raise ValueError(f"the model has observed {len(fitting)} releases of this kind; say which one with replaces=")
    if not fitting:
        raise ValueError(
            f"release must be of the kind that the model has observed, but {differences[0]}. Build the model anew for it"
        )
    return fitting[0]


def _difference(old: Release, new: Release) -> str | None:
    """The first difference that keeps a release from replacing another one, in words; None if there is none."""
    if new.about != old.about:
        return f"it is about {new.about}, not {old.about}"
    if not new.frame.same_cells(old.frame):
        return f"it is about {new.frame}, not {old.frame}"
    if len(new.measurements) != len(old.measurements) or len(new.exact) != len(old.exact):
        return (
            f"it has {len(new.measurements)} noisy and {len(new.exact)} exact parts, not {len(old.measurements)} and "
            f"{len(old.exact)}"
        )
    for mine, theirs in zip(old.measurements, new.measurements, strict=True):
        asked = described(mine.query)
        if mine.query != theirs.query:
            return f"it measures {described(theirs.query)}, not {asked}"
        if mine.law != theirs.law:
            return f"the noise law of {asked} is {theirs.law}, not {mine.law}"
        if mine.invariants != theirs.invariants:
            return f"the invariants of the noise of {asked} is {theirs.invariants}, not {mine.invariants}"
        if not np.array_equal(mine.unmeasured, theirs.unmeasured):
            return f"other answers of {asked} were not published"
    for before, after in zip(old.exact, new.exact, strict=True):
        if (before.query, before.sign) != (after.query, after.sign):
            return (
                f"it has {described(after.query)} exactly ({after.sign}), not {described(before.query)} ({before.sign})"
            )
    return None


def feasible_point(release: Release) -> xr.DataArray:
    """A table of nonnegative whole numbers with the exact answers of a release, close to its noisy table if it has one.

    Nobody needs it for sampling: the step method finds its own start. It is not an estimate.

    Parameters
    ----------
    release : Release

    Raises
    ------
    ValueError
        If no table has these exact answers; the message names those that cannot all hold.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> county = {"county": ["Alpha", "Beta"]}
    >>> measured = bdp.Measured(bdp.Identity(county), [12, -3], bdp.noise.DiscreteGaussian(sigma=5.0))
    >>> release = bdp.Release.from_published(county, [measured], [bdp.Exact(bdp.Totals(county), 10)])
    >>> feasible_point(release).values
    array([10,  0])
    """
    guide = None
    for measured in release.measurements:
        if measured.query.is_identity:
            guide = np.where(measured.unmeasured, 0.0, measured.values)
            break
    return release.frame.data_array(Fiber.of(release.exact, release.frame).find_point(guide), name="feasible_point")
