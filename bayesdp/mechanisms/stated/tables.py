"""What releases of tables may state of their privacy: the guarantee is worked out again from the mechanism.

A file can say anything. Where the mechanism is known, law and guarantee follow from its description, and are worked out again:
nobody shall read an epsilon that the noise does not have. Relations, caveats and other sentences are words, and may differ
between versions; the numbers may not. (A change of a formula by which a mechanism states another loss than before needs a new
version of the schema, and an upgrade of older files in `bayesdp.storage.schema`.)
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
from bayesdp.mechanisms.gaussian import CorrelatedGaussian
from bayesdp.mechanisms.k_norm import KNorm, SemiKNorm, SemiLatticeKNorm
from bayesdp.mechanisms.laplace import SemiNorm
from bayesdp.mechanisms.stated.statistics import LOSS, alike, check_loss, check_person, check_statistics, words
from bayesdp.privacy import Guarantee
from bayesdp.privacy.caveats import Smooth
from bayesdp.privacy.pairs import SemiAdjacent
from bayesdp.queries import Identity, Query
from bayesdp.release import Measured, Release

LOSS_UNKNOWN = "total_loss"
"""Key under which the description of a composition says why no total loss is stated."""


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


def check_parts(description: Mapping[str, Any]) -> list[Any]:
    """The descriptions that a composition lists, one for each of its releases."""
    count, parts = number_of_releases(description), description.get("releases")
    name = description.get("mechanism")
    if name != composition_name(count):
        raise ValueError(f"mechanism is {name!r}, but by composition_of = {count} it is a {composition_name(count)!r}")
    if not isinstance(parts, list) or len(parts) != count:
        number = len(parts) if isinstance(parts, list) else "none"
        raise ValueError(f"mechanism {name!r} must list the mechanisms of all releases, got {number}")
    return parts


def check_published(description: Mapping[str, Any], release: Release) -> None:
    """Hold the key ``published`` of a mechanism, if it has one, against the exact parts of the release."""
    given = description.get("published")
    if given is None:
        return
    whole = {"invariants": release.invariants.describe(), **description}
    parts = Invariants.from_description(whole["invariants"], release.frame).query.parts
    exact: dict[Any, list[int]] = {}
    for own in release.exact:
        if own.sign == "=":
            flat, start = np.asarray(own.values).reshape(-1).tolist(), 0
            for part in own.query.parts:
                exact[part] = flat[start : start + part.rows]
                start += part.rows
    if not isinstance(given, list) or len(given) != len(parts):
        raise ValueError(
            f"published of a mechanism must have a list of answers for each of its {len(parts)} invariants"
        )
    for part, answers in zip(parts, given, strict=True):
        if part not in exact or answers != exact[part]:
            raise ValueError(
                f"the noise of the mechanism is made for published answers to {Query(release.frame, (part,))!r} that are not "
                "those among the exact parts of the release"
            )


_COSTLY = (KNorm, CorrelatedGaussian, SemiKNorm, SemiLatticeKNorm, SemiNorm)
"""Their noise has the shape of a polytope or an ellipsoid that takes seconds, or minutes, to be found again."""

_FEW_CELLS = 6
"""The largest table for which even these are made again."""

_MANY_CELLS = 100_000
"""In larger tables only what the description says is compared: a file is to be read in a second or two."""

_LISTED_AT_ONCE = 300_000
"""Sets of records that are listed, at most, to find how far apart protected tables of Semi-DP are: well below a second."""

_DETERMINED_AT_ONCE = 64
"""The largest table whose determined cells are worked out for invariants of any kind; for nested sums there is no limit."""


def check_stated(release: Release) -> None:
    """Check the mechanism and the guarantee of a release against its law, its query and its exact parts."""
    # Without a mechanism nothing is known that the guarantee could contradict but the determined cells.
    if release.about == "statistics":
        composed = release.mechanism is not None and bool(number_of_releases(release.mechanism))
        check_statistics(release, len(check_parts(release.mechanism or {})) if composed else 0)
        return
    if release.guarantee is not None:
        _check_determined(release, release.guarantee)
    if release.mechanism is None:
        return
    if number_of_releases(release.mechanism):
        connected("check a total")(release)
        return
    if len(release.measurements) != 1:
        raise ValueError(
            f"mechanism {release.mechanism.get('mechanism')!r} publishes one measurement, but the release has "
            f"{len(release.measurements)}; leave mechanism out (null in a file)"
        )
    mechanism = rebuilt(release.mechanism, release)
    check_published(release.mechanism, release)
    if isinstance(mechanism, Mechanism):
        _check_measured(mechanism, release.measurements[0])
        _check_exact(mechanism, release)
        if release.guarantee is not None:
            _check_guarantee(mechanism, release.guarantee)
    else:
        _check_plain(release.mechanism, mechanism, release)
        _check_asked(release.mechanism, mechanism, release)


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


def _check_measured(mechanism: Mechanism, measured: Measured) -> None:
    """The law, the query and the invariants of the noise are those of the mechanism."""
    mine, theirs = mechanism.law.describe(), measured.law.describe()
    if not alike(mine, theirs):
        raise ValueError(
            f"the mechanism {mechanism.name!r} has noise of the law {words(mine)}, but the measurement says {words(theirs)}"
        )
    if measured.query != mechanism.released_query:
        raise ValueError(
            f"the mechanism {mechanism.name!r} adds its noise to {mechanism.released_query!r}, but what was "
            f"measured is {measured.query!r}"
        )
    kept = measured.invariants
    if kept is not None and not _same_rows(kept.query, mechanism.invariants.query):
        raise ValueError(
            f"the mechanism {mechanism.name!r} keeps {mechanism.invariants!r}, but the noise measured is said to keep {kept!r}"
        )


def _check_exact(mechanism: Mechanism, release: Release) -> None:
    """What the mechanism publishes exactly is published."""
    published = [part for own in release.exact if own.sign == "=" for part in own.query.parts]
    for part in mechanism.invariants.query.parts:
        if part not in published:
            raise ValueError(
                f"the mechanism {mechanism.name!r} publishes {Query(release.frame, (part,))!r} exactly, but that is not among the "
                "exact parts of the release"
            )
    for own in mechanism._public():
        if own not in release.exact:
            raise ValueError(
                f"the mechanism {mechanism.name!r} publishes the bounds {own!r}, but they are not among the exact parts of the release"
            )


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


def _check_guarantee(mechanism: Mechanism, stated: Guarantee) -> None:
    """Kind, parameters, rows and the statement about the sampler follow from the mechanism."""
    ways = possible_guarantees(mechanism)
    rows = (*ways[0].pairs, *mechanism._earlier_rows())
    check_loss(replace(ways[0], pairs=rows), stated, f"the mechanism {mechanism.name!r}")
    _check_smooth(ways, stated, f"the mechanism {mechanism.name!r}")
    samplers = list(dict.fromkeys(way.sampler for way in ways))
    if stated.sampler not in samplers:
        raise ValueError(
            f"the guarantee's sampler is {stated.sampler!r}, but noise of the mechanism {mechanism.name!r} is drawn by "
            f"{' or '.join(map(repr, samplers))}"
        )
    own = [mechanism._for_one_person(way).person for way in ways]
    check_person(stated.person, own, f"the mechanism {mechanism.name!r}")


def _check_smooth(ways: Sequence[Guarantee], stated: Guarantee, who: str) -> None:
    """How the loss grows with the distance is a promise: it must be that of the mechanism."""
    own = [caveat for way in ways for caveat in way.caveats if isinstance(caveat, Smooth)]
    for caveat in stated.caveats:
        if isinstance(caveat, Smooth) and not any(alike(caveat.describe(), mine.describe()) for mine in own):
            raise ValueError(
                f"the guarantee states smooth privacy with {words(caveat.describe())}, but {who} has "
                f"{words(own[0].describe()) if own else 'no such loss'}"
            )


def _check_plain(description: Mapping[str, Any], kind: type[Mechanism], release: Release) -> None:
    """Of a mechanism that is not made again: the parameters of privacy have one value wherever they are stated."""
    stated = {} if release.guarantee is None else dict(release.guarantee.parameters)
    printed = description.get("convention") == "paper"  # then another loss is stated than the one that was asked for
    law = release.measurements[0].law.describe()
    sides = [("the guarantee states", stated)] if not printed else []
    if issubclass(kind, KNorm | SemiKNorm | SemiLatticeKNorm):
        sides.append(("the law has", {name: law[name] for name in ("epsilon", "adjacency") if name in law}))
    for claim, other in sides:
        for name in (*LOSS, "adjacency"):
            if name in description and name in other and not alike(description[name], other[name]):
                raise ValueError(
                    f"{claim} {name} = {other[name]!r}, but the mechanism {kind.name!r} has {description[name]!r}"
                )


def _check_asked(description: Mapping[str, Any], kind: type[Mechanism], release: Release) -> None:
    """Of a mechanism that is not made again: what got the noise, and for Semi-DP the law and the loss of protected tables."""
    measured = release.measurements[0]
    given: Any = description.get("query")
    try:
        asked = Identity(release.frame) if given is None else Query.from_description(given, release.frame)
    except (TypeError, ValueError) as error:
        raise ValueError(f"mechanism: query: {error}") from None
    if measured.query != asked:
        raise ValueError(
            f"the mechanism {kind.name!r} adds its noise to {asked!r}, but what was measured is {measured.query!r}"
        )
    if not issubclass(kind, SemiKNorm | SemiNorm):
        return
    adjacency = description.get("adjacency")
    records = adjacency if isinstance(adjacency, int) and 0 < adjacency <= _MANY_CELLS else 3
    if math.comb(release.frame.size + records, records) > _LISTED_AT_ONCE and release.invariants.nested is None:
        return
    whole = {"invariants": release.invariants.describe(), **description}
    try:
        mechanism = kind.from_description(whole, release.frame)
        _check_measured(mechanism, measured)
    except (TypeError, ValueError, NotImplementedError, ArithmeticError) as error:
        raise ValueError(f"mechanism: {error}") from None
    if given is None or release.guarantee is None:
        return
    rows = [(row.about, dict(row.loss.parameters)) for row in release.guarantee.pairs]
    if [(about, alike(loss, {"epsilon": mechanism.epsilon})) for about, loss in rows] != [
        (SemiAdjacent(mechanism.adjacency), True)
    ]:
        raise ValueError(
            f"the mechanism {kind.name!r} states one loss, epsilon = {mechanism.epsilon!r} for tables at most "
            f"{mechanism.adjacency!r} substituted records apart, but the guarantee has other rows"
        )


def _check_determined(release: Release, stated: Guarantee) -> None:
    """The cells that are said not to be protected are those that the exact values determine."""
    names = set(stated.determined_cells)
    if len(names) < len(stated.determined_cells):
        raise ValueError("determined_cells of the guarantee names a cell twice")
    if not names and not stated.determined_complete:
        return
    cells = release.frame.cell_names()
    odd = sorted(names - set(cells))
    if odd:
        raise ValueError(f"determined_cells of the guarantee names {shown(odd)}, which the table does not have")
    if release.frame.size > _DETERMINED_AT_ONCE and release.invariants.nested is None:
        return
    own = set(release.fiber.determined_names())
    free = sorted(names - own)
    if free:
        raise ValueError(
            f"determined_cells of the guarantee names {shown(free)}, which the exact values do not determine"
        )
    hidden = sorted(own - names)
    if hidden and stated.determined_complete:
        raise ValueError(
            f"the exact values determine {shown(hidden)}, but determined_cells of the guarantee, which is said to be complete, "
            "does not name it"
        )


def _same_rows(one: Query, other: Query) -> bool:
    """Whether two queries ask for the same, in any order and however stacked."""
    return all(part in other.parts for part in one.parts) and all(part in one.parts for part in other.parts)
