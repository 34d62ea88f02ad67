"""What a model observes of releases, and what it has observed, so that `sample` can put it beside the posterior."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.raise_op import CheckAndRaise

from bayesdp._arrays import Floats
from bayesdp.distributions.confidential_counts import answers
from bayesdp.distributions.registry import add_likelihood, is_discrete
from bayesdp.measurements import Measured
from bayesdp.measurements.consistency import CountedOnceWarning, counted_once
from bayesdp.release import Release


def observed_once(release: Release, earlier: Sequence[Release] = (), *, quiet: bool = False) -> Release:
    """The release without answers that it, or an earlier one of its table, has before, under laws that give one cell one value."""
    # `quiet`: nothing is said, because it was said before.
    exact = [part for observed in (*earlier, release) for part in observed.exact]
    before = [measured for observed in earlier for measured in observed.measurements]
    measurements, said = counted_once(release.measurements, before, exact)
    if said is None:
        return release
    if not measurements and not release.exact:
        raise ValueError(f"release says nothing that was not observed before: {said}")
    if not quiet:
        warnings.warn(said, CountedOnceWarning, stacklevel=3)
    return replace(release, measurements=measurements)


type Observed = tuple[str, Release, dict[str, Floats]]
"""Name of a count variable, what was observed of it, and the published numbers by the name of their ``pm.Data``."""

_ATTRIBUTE = "_bayesdp_releases"


def remember(
    model: pm.Model, release: Release, name: str, published: Mapping[str, Floats], replaces: Observed | None = None
) -> None:
    """Note in the model through which release a table was observed, with the names and values of its ``pm.Data``."""
    entry, known = (name, release, dict(published)), observed_by(model)
    found = (*known, entry) if replaces is None else tuple(entry if one is replaces else one for one in known)
    setattr(model, _ATTRIBUTE, found)


def observed_by(model: pm.Model) -> tuple[Observed, ...]:
    """All that a model has observed, with the numbers that it was observed with; empty for copies made by PyMC."""
    return tuple(getattr(model, _ATTRIBUTE, ()))


def releases_of(model: pm.Model) -> tuple[tuple[str, Release], ...]:
    """Pairs of the name of a count variable and a release of it.

    Empty for copies of a model made by PyMC. A release whose numbers `pm.set_data` has replaced is left out: the posterior
    is no longer that of this release.
    """
    return tuple(
        (name, release)
        for name, release, published in observed_by(model)
        if all(np.array_equal(model[data].get_value(), values) for data, values in published.items())
    )


def numbers_of(model: pm.Model, releases: Sequence[Release]) -> dict[str, Floats] | None:
    """Values for the ``pm.Data`` of a model, of a release in the place of each that it has observed; None if something is lacking."""
    noted = observed_by(model)
    if len(noted) != len(releases):
        return None
    found: dict[str, Floats] = {}
    for (_, observed, published), release in zip(noted, releases, strict=True):
        mine, theirs = (published_numbers(one) for one in (observed, observed_once(release, quiet=True)))
        if not set(mine) <= set(theirs):
            return None
        # In the order of the release: first what was measured, then what is exact.
        found |= {
            name: theirs[key].reshape(model[name].get_value(borrow=True).shape)
            for name, key in zip(published, mine, strict=True)
        }
    return found


def published_numbers(release: Release) -> dict[tuple[object, ...], Floats]:
    """The published numbers in the order of a release, by query and sign, and by number where one query is there several times."""
    found: dict[tuple[object, ...], Floats] = {}
    parts = [(m.query, "~", m.values.reshape(-1)[~m.unmeasured.reshape(-1)]) for m in release.measurements]
    parts += [(exact.query, exact.sign, exact.values.reshape(-1)) for exact in release.exact]
    for query, sign, values in parts:
        count = 0
        while (query, sign, count) in found:
            count += 1
        found[query, sign, count] = values.astype(np.float64)
    return found


def free_name(model: pm.Model, base: str) -> str:
    """A name that is not taken in the model, nor that of its published numbers."""
    taken = set(model.named_vars) | set(model.coords)
    name, count = base, 1
    while name in taken or f"{name}_published" in taken:
        count += 1
        name = f"{base}_{count}"
    return name


def answer_dims(model: pm.Model, name: str, query: Any, measured: Any = None) -> tuple[str, ...]:
    """Dimensions of the answers: those of the query where the model has the same labels, else one of their own."""
    if measured is None and len(query.parts) == 1:
        coords = query.coords
        for dim, labels in coords.items():
            if dim not in model.coords:
                model.add_coord(dim, labels)
        if all(tuple(model.coords[dim]) == tuple(labels) for dim, labels in coords.items()):
            return tuple(query.dims)
    dim_name = f"{name}_answer"
    names = query.names if measured is None else [n for n, m in zip(query.names, measured, strict=True) if m]
    model.add_coord(dim_name, names)
    return (dim_name,)


def _whole(data: Any) -> Any:
    """Data, with a check that raises when a log-density is computed with fractions."""
    check = CheckAndRaise(ValueError, f"{data.name} must hold whole numbers, as its noise law has no others")
    return check(data, pt.all(pt.eq(data, pt.round(data))))


def observe_noisy(model: pm.Model, measured: Measured, x: Any) -> Any:
    """Add the likelihood of a noisy measurement; returns the data variable of its numbers."""
    query, law = measured.query, measured.law
    name = free_name(model, measured.name or "noisy")
    # Laws of whole tables take a grand total for a table of one cell.
    alone = not query.shape and law.keeps_invariants
    keep = ~measured.unmeasured.reshape(-1) if alone or measured.unmeasured.any() else None
    dims = answer_dims(model, name, query, keep)
    shape = query.shape if keep is None and len(dims) == len(query.shape) else (-1,)
    values = measured.values.reshape(-1)[keep] if keep is not None else measured.values.reshape(shape)
    data = pm.Data(f"{name}_published", values.astype(np.float64), dims=dims)
    mu = answers(query, x, keep)
    parameters = law.model_parameters()
    if not law.keeps_invariants:
        for parameter, value in parameters.items():
            if isinstance(value, np.ndarray):
                spread = np.broadcast_to(value, query.shape).reshape(-1)
                parameters[parameter] = spread[keep] if keep is not None else spread.reshape(shape)
    # PyMC would cut fractions set by `pm.set_data` to whole numbers. The step method of counts refuses them; where NUTS samples
    # alone, the graph has to.
    observed = data if is_discrete(mu) or not law.integer else _whole(data)
    add_likelihood(law, name, mu, parameters, invariants=measured.noise_invariants, observed=observed, dims=dims)
    return data


def warn_replaced(model: pm.Model) -> None:
    """Warn of releases whose numbers were replaced by hand, which the result leaves out."""
    current = {id(release) for _, release in releases_of(model)}
    for name, release, published in observed_by(model):
        if id(release) not in current:
            warnings.warn(
                f"numbers of the release of {name} ({', '.join(published)}) were replaced by pm.set_data: the result has no group "
                "for that release and no guarantee. bayesdp.set_release(model, release) replaces them with both",
                UserWarning,
                stacklevel=3,
            )
