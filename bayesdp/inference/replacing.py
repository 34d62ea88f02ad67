"""Put another release in the place of one that a model has observed, and warnings where that was done by hand."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm

from bayesdp.fibers import Fiber
from bayesdp.inference.continuous import continuous_tables
from bayesdp.inference.observed import Observed, observed_by, observed_once, releases_of, replace_observed
from bayesdp.inference.observing import check_bounded
from bayesdp.measurements import described
from bayesdp.release import Release


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
        If the model has observed no release of this kind, or several; if no table agrees with the new exact answers; for
        `ContinuousCounts`, if these differ from the old ones, on which the coordinates of the table depend.

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
    >>> [own == second for _, own in bdp.inference.releases_of(model)]
    [True]
    """
    if not isinstance(release, Release):
        raise TypeError(f"release must be a bayesdp.Release, got {type(release).__name__}")
    release = observed_once(release, quiet=True)
    entry = _chosen(model, release, None if replaces is None else observed_once(replaces, quiet=True))
    name, old, published = entry
    numbers = [measured.values.reshape(-1)[~measured.unmeasured.reshape(-1)] for measured in release.measurements]
    tables = continuous_tables(model)
    if release.about == "statistics":
        pass  # nothing is exact, and no cell has to be bounded
    elif name in tables:
        if release.exact != old.exact:
            raise ValueError(
                f"the exact answers of the release differ from those that {name} was made for: ContinuousCounts depends on them. "
                "Build the model anew"
            )
    else:
        others = [observed for known, observed in releases_of(model) if known == name and observed is not old]
        fiber = Fiber.of([*release.exact, *(part for other in others for part in other.exact)], release.frame)
        fiber.find_point()
        check_bounded(fiber, release, model[name])
        numbers += [exact.values.reshape(-1) for exact in release.exact]
    values: dict[str, npt.NDArray[np.float64]] = {
        data: new.astype(np.float64).reshape(before.shape)
        for (data, before), new in zip(published.items(), numbers, strict=True)
    }
    pm.set_data(values, model=model)
    replace_observed(model, entry, (name, release, values))


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
        pairs: dict[str, tuple[Any, Any]] = {
            "noise law": (mine.law, theirs.law),
            "invariants of the noise": (mine.invariants, theirs.invariants),
        }
        if mine.query != theirs.query:
            return f"it measures {described(theirs.query)}, not {described(mine.query)}"
        for what, (before, after) in pairs.items():
            if before != after:
                return f"the {what} of {described(mine.query)} is {after}, not {before}"
        if not np.array_equal(mine.unmeasured, theirs.unmeasured):
            return f"other answers of {described(mine.query)} were not published"
    for before, after in zip(old.exact, new.exact, strict=True):
        if (before.query, before.sign) != (after.query, after.sign):
            return (
                f"it has {described(after.query)} exactly ({after.sign}), not {described(before.query)} ({before.sign})"
            )
    return None


def warn_replaced(model: pm.Model) -> None:
    """Warn of releases whose numbers were replaced by hand, which the result leaves out.

    Warns
    -----
    UserWarning
    """
    current = {id(release) for _, release in releases_of(model)}
    for name, release, published in observed_by(model):
        if id(release) not in current:
            warnings.warn(
                f"numbers of the release of {name} ({', '.join(published)}) were replaced by pm.set_data: the result has no group "
                "for that release and no guarantee. bayesdp.set_release(model, release) replaces them with both",
                UserWarning,
                stacklevel=3,
            )


def warn_unobserved(model: pm.Model) -> None:
    """Warn of continuous counts whose noisy numbers were never observed.

    Warns
    -----
    UserWarning
    """
    known = {name for name, _, _ in observed_by(model)}
    for name in continuous_tables(model).keys() - known:
        warnings.warn(
            f"nothing noisy was observed of {name}: its posterior knows the exact answers only; call "
            f"bayesdp.observe(release, {name})",
            UserWarning,
            stacklevel=3,
        )
