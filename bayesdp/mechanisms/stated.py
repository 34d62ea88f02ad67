"""What releases may state of their privacy: law and guarantee are worked out again from the description of the mechanism.

A file can say anything, and nobody shall read an epsilon that the noise does not have. Relations, caveats and other sentences are
words, and may differ between versions; the numbers may not. (A change of a formula by which a mechanism states another loss than
before needs a new version of the schema, and an upgrade of older files in `bayesdp.storage.schema`.) Of tables without a mechanism
everything is as stated; of statistics the law alone is known, and no guarantee may state less than it loses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesdp._validate import shown
from bayesdp._wiring import connected
from bayesdp.invariants import Invariants
from bayesdp.mechanisms.base import Mechanism
from bayesdp.mechanisms.bounded.statistic_release import DescribedMechanism, names_of
from bayesdp.mechanisms.k_norm import KNorm, SemiKNorm
from bayesdp.mechanisms.real import CorrelatedGaussian, SemiNorm
from bayesdp.noise import (
    BoundaryInflatedGaussian,
    BoundaryInflatedLaplace,
    NoiseLaw,
    TruncatedGaussian,
    TruncatedLaplace,
)
from bayesdp.privacy import Guarantee, PairLoss
from bayesdp.privacy.caveats import Smooth
from bayesdp.privacy.losses import Loss
from bayesdp.privacy.words import OnePerson, SemiAdjacent, SemiAdjacentWithin
from bayesdp.queries import Identity, Query
from bayesdp.release import Measured, Release

LOSS_UNKNOWN = "total_loss"
"""Key under which the description of a composition says why no total loss is stated."""

_ROUNDING = 1e-6
"""Relative difference up to which two numbers are one: laws come from root finding, and another machine rounds otherwise."""

_COSTLY = (KNorm, CorrelatedGaussian, SemiKNorm, SemiNorm)
"""Their noise has the shape of a polytope or an ellipsoid that takes seconds, or minutes, to be found again."""

_FEW_CELLS = 6
"""The largest table for which even these are made again."""

_MANY_CELLS = 100_000
"""In larger tables only what the description says is compared: a file is to be read in a second or two."""

_LISTED_AT_ONCE = 300_000
"""Sets of records that are listed, at most, to find how far apart protected tables of Semi-DP are: well below a second."""

_DETERMINED_AT_ONCE = 64
"""The largest table whose determined cells are worked out for invariants of any kind; for nested sums there is no limit."""


def alike(one: Any, other: Any) -> bool:
    """Whether two descriptions say the same, up to rounding of real numbers."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, str | bool | Mapping | None) or isinstance(other, str | bool | Mapping | None):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other) == 2:
        return all(map(alike, one, other))  # bounds: one side may be a number, and the other a list
    try:
        mine, theirs = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    except OverflowError:  # a whole number beyond all floats
        return bool(one == other)
    return mine.shape == theirs.shape and bool(np.allclose(mine, theirs, rtol=_ROUNDING, atol=0.0, equal_nan=True))


def words(description: Mapping[str, Any]) -> str:
    """A law or a loss in a few words, with all digits."""
    texts = []
    for key, value in description.items():
        if isinstance(value, list) and (len(value) > 2 or any(isinstance(row, list) and len(row) > 2 for row in value)):
            sizes = {np.shape(row) for row in value}
            shape = (len(value), *sizes.pop()) if len(sizes) == 1 else (sum(map(np.size, value)),)
            value = f"<{' × '.join(map(str, shape))} numbers>"
        texts.append(
            f"{value}" if key == "law" else f"{key} = {value!r}" if not isinstance(value, str) else f"{key} = {value}"
        )
    return ", ".join(texts)


def row_words(row: PairLoss) -> str:
    """A row of a guarantee in a few words, with all digits."""
    return f"{words(row.loss)} at {row.norm} distance {row.size:.10g} ({row.relation})"


def check_guarantee(stated: Guarantee, ways: Sequence[Guarantee], who: str) -> None:
    """Check that all that a guarantee promises follows from the mechanism; it may leave rows and sentences out.

    `ways` are the guarantees of the mechanism, one for each way of drawing its noise; `who` ends in "has" or "have". The message names
    the field of the file that differs, and both sides.
    """
    true = [_promises(way) for way in ways]
    for field, promises in _promises(stated).items():
        known = [promise for way in true for promise in way[field]]
        for text, plain in promises:
            # Files of older versions have the sentence on one person without its numbers.
            if not any(_follows(plain, other) or (isinstance(plain, str) and text == mine) for mine, other in known):
                have = "; ".join(dict.fromkeys(mine for mine, _ in known)) or "nothing of it"
                raise ValueError(f"{field}: the guarantee states {text}, but {who} {have}")


def _follows(plain: Any, true: Any) -> bool:
    """Whether a promise is one that is true; a row may state fewer losses, but no epsilon without its delta."""
    if isinstance(plain, Mapping) and isinstance(true, Mapping) and "loss" in plain and "loss" in true:
        loss, known = plain["loss"], {name: true["loss"][name] for name in plain["loss"] if name in true["loss"]}
        if "epsilon" not in loss or "delta" in loss or "delta" not in true["loss"]:
            return alike({**plain, "loss": loss}, {**true, "loss": known})
    return alike(plain, true)


def _promises(guarantee: Guarantee) -> dict[str, list[tuple[str, Any]]]:
    """By the fields of a file, all that has to be true: in words, and as plain data."""
    rows = [row.to_dict() for row in guarantee.pairs]
    for row in rows:
        if "about" in row:
            del row["relation"]  # these are words
    person = guarantee.person
    about = person.describe() if isinstance(person, OnePerson) else person
    return {
        "kind": [(repr(guarantee.kind), guarantee.kind)],
        "unit": [(repr(guarantee.unit), guarantee.unit)],
        "parameters": [(words(guarantee.parameters), dict(guarantee.parameters))],
        "pairs": list(zip(map(row_words, guarantee.pairs), rows, strict=True)),
        "sampler": [(repr(str(guarantee.sampler)), str(guarantee.sampler))],
        "caveats": [(repr(str(item)), item.describe()) for item in guarantee.caveats if isinstance(item, Smooth)],
        "person": [(repr(str(person)), about)] if person else [],
    }


def composition_name(count: int) -> str:
    """What the composition of this number of releases is called in descriptions. It is for people: programs read the number."""
    return f"composition of {count} releases"


def number_of_releases(description: Mapping[str, Any] | None) -> int:
    """Of how many releases a described mechanism is the composition; 0 if it is none."""
    if description is None or "composition_of" not in description:
        return 0
    count = description["composition_of"]
    if not isinstance(count, int) or isinstance(count, bool) or count < 2:
        raise ValueError(f"composition_of must be the number of releases put together, at least 2, got {count!r}")
    return count


def check_stated(release: Release) -> None:
    """Check the mechanism and the guarantee of a release against its law, its query and its exact parts."""
    if release.guarantee is not None:
        _check_determined(release, release.guarantee)
    if number_of_releases(release.mechanism):
        connected("check a total")(release)
        return
    if release.mechanism is not None and len(release.measurements) != 1:
        raise ValueError(
            f"mechanism {release.mechanism.get('mechanism')!r} publishes one measurement, but the release has "
            f"{len(release.measurements)}; leave mechanism out (null in a file)"
        )
    if release.mechanism is not None:
        (_check_statistics if release.about == "statistics" else _check_table)(release, release.mechanism)
    elif release.about == "statistics" and release.guarantee is not None:
        for measured in release.measurements:
            _check_by_law(measured.law, measured.query.shape if names_of(release) else (), release.guarantee)


def _check_table(release: Release, description: Mapping[str, Any]) -> None:
    mechanism, measured = rebuilt(description, release), release.measurements[0]
    exact: dict[Any, Any] = {}  # the answers to each exact part
    for one in release.exact:
        if one.sign == "=":
            exact |= {part: np.ravel(one.values)[rows] for part, rows in one.query.placed_parts}
    _check_published(description, release, exact)
    if not isinstance(mechanism, Mechanism):
        _check_unmade(description, mechanism, release)
        return
    _check_measured(mechanism, measured)
    for part in mechanism.invariants.query.parts:
        if part not in exact:
            raise ValueError(
                f"the mechanism {mechanism.name!r} publishes {Query(release.frame, (part,))!r} exactly, but that is not among the "
                "exact parts of the release"
            )
    if release.guarantee is not None:
        ways = [mechanism._for_one_person(way) for way in possible_guarantees(mechanism)]
        earlier = replace(ways[0], pairs=mechanism._earlier_rows())
        check_guarantee(release.guarantee, [*ways, earlier], f"the mechanism {mechanism.name!r} has")


def _check_statistics(release: Release, description: Mapping[str, Any]) -> None:
    mechanism = published_statistics(description, release.measurements[0], release)
    if release.guarantee is not None:
        check_guarantee(release.guarantee, [mechanism.guarantee], f"the mechanism {mechanism.name!r} has")


def rebuilt(description: Mapping[str, Any], release: Release) -> Mechanism | type[Mechanism]:
    """The mechanism of a description; only its class, where making it again would take long."""
    # Published by somebody else, the description may leave out what the exact parts of the release say.
    whole = {"invariants": release.invariants.describe(), **description}
    try:
        kind = Mechanism.described(whole)
        large = release.frame.size > (_FEW_CELLS if issubclass(kind, _COSTLY) else _MANY_CELLS)
        return kind if large else Mechanism.from_description(whole, release.frame)
    except (TypeError, ValueError, NotImplementedError, ArithmeticError) as error:
        raise ValueError(f"mechanism: {error}") from None


def possible_guarantees(mechanism: Mechanism) -> list[Guarantee]:
    """What the mechanism states, for each way of drawing its noise; the first by its usual way."""
    ways = []
    for method in ("auto", "exact", "mcmc"):
        try:
            ways += [mechanism._guarantee(method)]
            ways += [mechanism._published(method)]
        except (ValueError, NotImplementedError):  # this mechanism has no such way of drawing
            continue
    return ways


def _check_published(description: Mapping[str, Any], release: Release, exact: Mapping[Any, Any]) -> None:
    """Hold the key ``published`` of a mechanism, if it has one, against the exact parts of the release."""
    given = description.get("published")
    if given is None:
        return
    stated = description.get("invariants", release.invariants.describe())
    parts = Invariants.from_description(stated, release.frame).query.parts
    if not isinstance(given, list) or len(given) != len(parts):
        raise ValueError(
            f"published of a mechanism must have a list of answers for each of its {len(parts)} invariants"
        )
    for part, answers in zip(parts, given, strict=True):
        if part not in exact or answers != exact[part].tolist():
            raise ValueError(
                f"the noise of the mechanism is made for published answers to {Query(release.frame, (part,))!r} that are not "
                "those among the exact parts of the release"
            )


def _check_law(mechanism: Any, measured: Measured) -> None:
    mine, theirs = mechanism.law.describe(), measured.law.describe()
    if not alike(mine, theirs):
        raise ValueError(
            f"the mechanism {mechanism.name!r} has noise of the law {words(mine)}, but the release says {words(theirs)}"
        )


def _check_query(name: str, query: Query, measured: Measured) -> None:
    if measured.query != query:
        raise ValueError(
            f"the mechanism {name!r} adds its noise to {query!r}, but what was measured is {measured.query!r}"
        )


def _check_measured(mechanism: Mechanism, measured: Measured) -> None:
    """The law, the query and the invariants of the noise are those of the mechanism."""
    _check_law(mechanism, measured)
    _check_query(mechanism.name, mechanism.released_query, measured)
    kept = measured.invariants
    if kept is not None and set(kept.query.parts) != set(mechanism.invariants.query.parts):
        raise ValueError(
            f"the mechanism {mechanism.name!r} keeps {mechanism.invariants!r}, but the noise measured is said to keep {kept!r}"
        )


def _check_unmade(description: Mapping[str, Any], kind: type[Mechanism], release: Release) -> None:
    """Of a mechanism that takes long to make: what got the noise, parameters that are stated twice, and what is known sooner."""
    measured, stated = release.measurements[0], release.guarantee
    law = measured.law.describe() if issubclass(kind, KNorm | SemiKNorm) else {}
    # Under the paper's convention another loss is stated than the one that was asked for.
    loss = {} if stated is None or description.get("convention") == "paper" else dict(stated.parameters)
    for claim, other in (("parameters: the guarantee states", loss), ("the law has", law)):
        for name in {"epsilon", "delta", "rho", "mu", "adjacency"} & set(description) & set(other):
            if not alike(description[name], other[name]):
                raise ValueError(
                    f"{claim} {name} = {other[name]!r}, but the mechanism {kind.name!r} has {description[name]!r}"
                )
    given: Any = description.get("query")
    adjacency = description.get("adjacency")
    records = adjacency if isinstance(adjacency, int) and 0 < adjacency <= _MANY_CELLS else 3
    soon = math.comb(release.frame.size + records, records) <= _LISTED_AT_ONCE or release.invariants.nested is not None
    try:
        asked = Identity(release.frame) if given is None else Query.from_description(given, release.frame)
        _check_query(kind.name, asked, measured)
        if not issubclass(kind, SemiKNorm | SemiNorm) or not soon:
            return
        whole = {"invariants": release.invariants.describe(), **description}
        mechanism = kind.from_description(whole, release.frame)
        _check_measured(mechanism, measured)
    except (TypeError, ValueError, NotImplementedError, ArithmeticError) as error:
        raise ValueError(f"mechanism: {error}") from None
    if given is not None and stated is not None:
        about = SemiAdjacent if mechanism.published is None else SemiAdjacentWithin
        rows = [(row.about, alike(dict(row.loss), {"epsilon": mechanism.epsilon})) for row in stated.pairs]
        if rows != [(about(mechanism.adjacency), True)]:
            raise ValueError(
                f"pairs: the guarantee must have one row, epsilon = {mechanism.epsilon!r} of the mechanism {kind.name!r} for tables "
                f"at most {mechanism.adjacency!r} substituted records apart, but it has other rows"
            )


def _check_determined(release: Release, stated: Guarantee) -> None:
    """The cells that are said not to be protected are those that the exact values determine."""
    if release.about == "statistics":
        if stated.determined_cells or stated.determined_complete is not None:
            named = shown(list(stated.determined_cells)) or f"determined_complete = {stated.determined_complete}"
            raise ValueError(f"the guarantee speaks of determined cells, {named}, but the statistics have no cells")
        return
    names = set(stated.determined_cells)
    if len(names) < len(stated.determined_cells):
        raise ValueError("determined_cells of the guarantee names a cell twice")
    if not names and not stated.determined_complete:
        return
    odd = sorted(names - set(release.frame.cell_names()))
    if odd:
        raise ValueError(f"determined_cells of the guarantee names {shown(odd)}, which the table does not have")
    if release.frame.size > _DETERMINED_AT_ONCE and release.invariants.nested is None:
        return
    determined = set(release.fiber.determined_names())
    free, hidden = sorted(names - determined), sorted(determined - names)
    if free:
        raise ValueError(
            f"determined_cells of the guarantee names {shown(free)}, which the exact values do not determine"
        )
    if hidden and stated.determined_complete:
        raise ValueError(
            f"the exact values determine {shown(hidden)}, but determined_cells of the guarantee, which is said to be complete, "
            "does not name it"
        )


def published_statistics(description: Any, measured: Measured, release: Release) -> Any:
    """The mechanism of a measurement of statistics, whose names, law and query it must have."""
    stated = None if number_of_releases(release.mechanism) else release.guarantee
    try:
        mechanism = DescribedMechanism._described(description)._that_published(description, measured, stated)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"mechanism: {error}") from None
    names = names_of(release)
    if mechanism.names != names:
        mine, theirs = (shown(each) if each else "a single one without a name" for each in (mechanism.names, names))
        raise ValueError(
            f"the mechanism {mechanism.name!r} publishes statistics of names {mine}, but released are {theirs}"
        )
    _check_law(mechanism, measured)
    # Which elements of a matrix are left out follows from the released variances.
    same = measured.query.shape == mechanism.query.shape and not (measured.query.matrix != mechanism.query.matrix).nnz
    if not same or (measured.unmeasured.any() and not mechanism.leaves_out):
        raise ValueError(
            f"the mechanism {mechanism.name!r} measures {shown(mechanism.query.names)}, but measured are "
            f"{shown(measured.query.names)} by another linear map, or not all of them"
        )
    return mechanism


def _check_by_law(law: NoiseLaw, shape: tuple[int, ...], stated: Guarantee) -> None:
    """Refuse a guarantee that states less than the law loses at any rate, for want of a mechanism that would say it exactly.

    Statistics at one bound are told apart from others by values there. Clipped, the mass or density at the other bound differs by
    exactly exp(distance / b); truncated, that at the bound itself by this and the ratio of the normalisers, which is above 1.
    """
    claims = [("", stated.parameters.size, stated.parameters.loss)]
    claims += [(row.norm, row.size, row.loss) for row in stated.pairs]
    if isinstance(law, (TruncatedGaussian, BoundaryInflatedGaussian)):
        # For vectors nothing is known of the single statistics.
        for norm, size, loss in claims if not shape else ():
            if norm in ("", "l1", "l2", "linf"):
                _check_gaussian(law, size, loss)
        return
    if stated.kind != "pure":
        return
    losses = law._least_losses(shape)
    if isinstance(law, (TruncatedLaplace, BoundaryInflatedLaplace)):
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), shape) for side in law.bounds)
        losses = {"l1": (float(np.sum(high - low)), float(np.max(law.b)))}  # of several scales the largest
    for norm, (room, scale) in losses.items():
        for of, size, loss in claims:
            same = of == norm or (not of and (norm == stated.unit or not shape))
            if same and "epsilon" in loss:
                _at_least(law, size, "epsilon", loss["epsilon"], min(size, room) / scale)


def _at_least(law: NoiseLaw, size: float, name: str, value: float, least: float, there: str = "") -> None:
    if value < least and not alike(value, least):
        raise ValueError(
            f"the guarantee states {name} = {value!r}{there} for statistics that are {size!r} apart, but noise of the law "
            f"{words(law.describe())} loses at least {name} = {least!r}{there}"
        )


def _check_gaussian(law: TruncatedGaussian | BoundaryInflatedGaussian, size: float, loss: Loss) -> None:
    """Refuse a loss that is less than what the law loses for two values of one statistic so far apart.

    The values lie symmetrically about the middle of the bounds, or 12 standard deviations from the only bound. What they lose is
    compared by the divergence of order 1, which rho and half of the square of mu are not below, and by delta at the stated epsilon.
    """
    divergence, first, second = _of_pair(law, size)
    for kind, name, least in (("zcdp", "rho", divergence), ("gdp", "mu", math.sqrt(2.0 * max(divergence, 0.0)))):
        part = loss.stated(kind)
        if part is not None:
            _at_least(law, size, name, part[name], least)
    for part in filter(None, (loss.stated("pure"), loss.stated("approximate"))):
        epsilon = part["epsilon"]
        least = float(np.sum(np.maximum(first - math.exp(min(epsilon, 700.0)) * second, 0.0)))
        _at_least(law, size, "delta", part.get("delta", 0.0), max(least - 1e-12, 0.0), f" at epsilon = {epsilon!r}")


_REACH = 12.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def _of_pair(law: TruncatedGaussian | BoundaryInflatedGaussian, size: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Divergence of order 1 of two laws `size` apart, and their masses by quadrature; the atoms come first."""
    low, high, sigma = float(np.max(law.lower)), float(np.min(law.upper)), float(np.max(law.scale))
    t = min(size, high - low)
    if np.isinf(high) or np.isinf(low):
        middle = low + _REACH * sigma + t if np.isinf(high) else high - _REACH * sigma - t
    else:
        middle = 0.5 * (low + high)
    one, two = middle - 0.5 * t, middle + 0.5 * t
    start, end = max(low, one - _REACH * sigma), min(high, two + _REACH * sigma)
    y = start + 0.5 * (end - start) * (1.0 + _NODES)
    weights = np.log(0.5 * (end - start) * _WEIGHTS)
    edges = np.array([side for side in (low, high) if law.has_atoms and np.isfinite(side)])
    logs = [
        np.concatenate([law.log_each(edges, np.full(edges.shape, s)), law.log_each(y, np.full(y.shape, s)) + weights])
        for s in (one, two)
    ]
    first, second = np.exp(logs[0]), np.exp(logs[1])
    return float(np.sum(first * np.where(first > 0.0, logs[0] - logs[1], 0.0))), first, second
