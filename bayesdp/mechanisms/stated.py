"""Whether what a release says of its mechanism and its guarantee is true of its law and its exact parts.

A file can say anything. Where the mechanism is known, law and guarantee follow from its description, and are worked out again:
nobody shall read an epsilon that the noise does not have. Relations, caveats and other sentences are words, and may differ
between versions; the numbers may not. (Whoever changes a formula so that a mechanism states another loss than before has to
raise the version of the schema, and to say in `bayesdp.storage.schema` what becomes of older files.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesdp._validate import shown
from bayesdp.mechanisms.base import Mechanism
from bayesdp.mechanisms.correlated_gaussian import CorrelatedGaussian
from bayesdp.mechanisms.k_norm import KNorm
from bayesdp.mechanisms.semi_k_norm import SemiKNorm, SemiLatticeKNorm
from bayesdp.mechanisms.semi_norm import SemiNorm
from bayesdp.privacy import Guarantee, PairLoss
from bayesdp.privacy.one_person import OnePerson
from bayesdp.privacy.relations import Sentence
from bayesdp.queries import Query
from bayesdp.release import Measured, Release

__all__ = ["check_stated"]

_ROUNDING = 1e-6
"""Relative difference up to which two numbers are one: laws come from root finding, and another machine rounds otherwise."""

_COSTLY = (KNorm, CorrelatedGaussian, SemiKNorm, SemiLatticeKNorm, SemiNorm)
"""Their noise has the shape of a polytope or an ellipsoid that takes seconds, or minutes, to be found again."""

_FEW_CELLS = 6
"""Up to so many cells even these are made again."""

_MANY_CELLS = 100_000
"""Beyond this only what the description says is compared: a file is to be read in a second or two."""

_DETERMINED_AT_ONCE = 64
"""Up to so many cells, those that any invariants determine are worked out; of nested sums and two-way margins for every table."""

_COMPOSITION = re.compile(r"composition of ([1-9][0-9]*) releases", re.ASCII)
_LOSS = ("epsilon", "delta", "rho", "mu")


def check_stated(release: Release) -> None:
    """Check the mechanism and the guarantee of a release against its law, its query and its exact parts.

    Parameters
    ----------
    release : Release
        Whose mechanism may be None: then nothing is known that its guarantee could contradict but the determined cells.

    Raises
    ------
    ValueError
        If the mechanism is unknown, its description is not valid, or it has another law, query or invariants than the
        release; if the guarantee states another loss than the mechanism has, or other determined cells than the exact
        values determine. The message names both sides.
    """
    if release.guarantee is not None:
        _check_determined(release, release.guarantee)
    if release.mechanism is None:
        return
    name = release.mechanism.get("mechanism")
    composed = _COMPOSITION.fullmatch(name) if isinstance(name, str) else None
    if composed is not None:
        _check_composition(release, int(composed[1]))
        return
    if len(release.measurements) != 1:
        raise ValueError(
            f"mechanism {name!r} publishes one measurement, but the release has {len(release.measurements)}; leave mechanism out "
            "(null in a file)"
        )
    mechanism = _rebuilt(release.mechanism, release)
    if isinstance(mechanism, Mechanism):
        _check_measured(mechanism, release.measurements[0])
        _check_exact(mechanism, release)
        if release.guarantee is not None:
            _check_guarantee(mechanism, release.guarantee)
    else:
        _check_plain(release.mechanism, mechanism, release)


def _rebuilt(description: Mapping[str, Any], release: Release) -> Mechanism | type[Mechanism]:
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
    if not _alike(mine, theirs):
        raise ValueError(
            f"the mechanism {mechanism.name!r} has noise of the law {_words(mine)}, but the measurement says {_words(theirs)}"
        )
    if measured.query != mechanism.asked:
        raise ValueError(
            f"the mechanism {mechanism.name!r} adds its noise to {mechanism.asked!r}, but what was measured is {measured.query!r}"
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


def _check_guarantee(mechanism: Mechanism, stated: Guarantee) -> None:
    """Kind, parameters, rows and the statement about the sampler follow from the mechanism."""
    ways = []
    for method in ("auto", "exact", "mcmc"):
        try:
            ways += [mechanism._guarantee(method)]
            ways += [mechanism._published(method)]
        except (ValueError, NotImplementedError):  # this mechanism has no such way of drawing
            continue
    own = ways[0]
    for key in ("kind", "unit"):
        mine, theirs = getattr(own, key), getattr(stated, key)
        if mine != theirs:
            raise ValueError(
                f"the guarantee's {key} is {theirs!r}, but that of the mechanism {mechanism.name!r} is {mine!r}"
            )
    if not _alike(dict(own.parameters), dict(stated.parameters)):
        raise ValueError(
            f"the guarantee states {_words(stated.parameters)}, but noise of the mechanism {mechanism.name!r} as described has "
            f"{_words(own.parameters)}"
        )
    for row in stated.pairs:
        _check_row(row, own, mechanism)
    samplers = list(dict.fromkeys(way.sampler for way in ways))
    if stated.sampler not in samplers:
        raise ValueError(
            f"the guarantee's sampler is {stated.sampler!r}, but noise of the mechanism {mechanism.name!r} is drawn by "
            f"{' or '.join(map(repr, samplers))}"
        )
    if stated.person:
        _check_person(stated.person, [mechanism._for_one_person(way).person for way in ways], mechanism.name)


def _check_person(said: str, own: Sequence[str], name: str) -> None:
    """What is said of one person's record is what the mechanism says; of files of older versions the sentence has to do."""
    if isinstance(said, OnePerson):
        true = any(isinstance(way, OnePerson) and _alike(said.describe(), way.describe()) for way in own)
    else:
        true = said in own
    if not true:
        raise ValueError(f"person says {str(said)!r}, but the mechanism {name!r} states {str(own[0])!r}")


def _check_row(row: PairLoss, own: Guarantee, mechanism: Mechanism) -> None:
    """A row of the guarantee is one of the mechanism's; of one that says in words only what it is about, the length has to do."""
    same = [mine for mine in own.pairs if mine.about == row.about]
    long = [mine for mine in own.pairs if mine.norm == row.norm and _alike(mine.size, row.size)]
    near = same or (long if isinstance(row.about, Sentence) else [])
    if any(_row_agrees(row, mine) for mine in near):
        return
    told = f"{_words(row.loss)} at {row.norm} distance {row.size:.10g} ({row.relation})"
    mine = "; ".join(f"{_words(own.loss)} at {own.norm} distance {own.size:.10g} ({own.relation})" for own in own.pairs)
    raise ValueError(f"the guarantee states {told}, but the mechanism {mechanism.name!r} has {mine or 'no such row'}")


def _row_agrees(row: PairLoss, mine: PairLoss) -> bool:
    alike = row.norm == mine.norm and _alike(row.size, mine.size) and set(row.loss) <= set(mine.loss)
    return alike and all(_alike(value, mine.loss[name]) for name, value in row.loss.items())


def _check_plain(description: Mapping[str, Any], kind: type[Mechanism], release: Release) -> None:
    """Of a mechanism that is not made again: the parameters of privacy have one value wherever they are stated."""
    stated = {} if release.guarantee is None else dict(release.guarantee.parameters)
    printed = description.get("convention") == "paper"  # then another loss is stated than the one that was asked for
    law = release.measurements[0].law.describe()
    sides = [("the guarantee states", stated)] if not printed else []
    if issubclass(kind, KNorm | SemiKNorm | SemiLatticeKNorm):
        sides.append(("the law has", {name: law[name] for name in ("epsilon", "adjacency") if name in law}))
    for words, other in sides:
        for name in (*_LOSS, "adjacency"):
            if name in description and name in other and not _alike(description[name], other[name]):
                raise ValueError(
                    f"{words} {name} = {other[name]!r}, but the mechanism {kind.name!r} has {description[name]!r}"
                )


def _check_composition(release: Release, count: int) -> None:
    """Several releases as one: their mechanisms are known, and their noise is there."""
    own = dict(release.mechanism or {})
    unknown = sorted(set(own) - {"mechanism", "releases", "total_loss"})
    if unknown:
        raise ValueError(f"mechanism {own['mechanism']!r} has no key {shown(unknown)}")
    parts = own.get("releases")
    if not isinstance(parts, list) or len(parts) != count or count < 2:
        number = len(parts) if isinstance(parts, list) else "none"
        raise ValueError(f"mechanism {own['mechanism']!r} must list the mechanisms of all releases, got {number}")
    reason = own.get("total_loss", "")
    if not isinstance(reason, str) or (reason and release.guarantee is not None):
        raise ValueError(
            f"total_loss says why no guarantee is stated, {reason!r}, "
            + ("but there is one" if release.guarantee is not None else "and must be text")
        )
    for k, part in enumerate(parts, start=1):
        if part is None:
            continue
        if not isinstance(part, Mapping):
            raise ValueError(f"the mechanism of release {k} must be a mapping or null, got {part!r}")
        if isinstance(part.get("mechanism"), str) and _COMPOSITION.fullmatch(part["mechanism"]):
            continue
        mechanism = _rebuilt(part, release)
        if isinstance(mechanism, Mechanism):
            law = mechanism.law.describe()
            if not any(_alike(law, measured.law.describe()) for measured in release.measurements):
                raise ValueError(
                    f"release {k} has the mechanism {mechanism.name!r} with noise of the law {_words(law)}, but no measurement "
                    f"has it; laws are {'; '.join(_words(measured.law.describe()) for measured in release.measurements)}"
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


def _alike(one: Any, other: Any) -> bool:
    """Whether two descriptions say the same, up to rounding of real numbers."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, str | bool | None) or isinstance(other, str | bool | None):
        return bool(one == other)
    mine, theirs = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    return mine.shape == theirs.shape and bool(np.allclose(mine, theirs, rtol=_ROUNDING, atol=0.0, equal_nan=True))


def _words(description: Mapping[str, Any]) -> str:
    """A law or a loss in a few words, with all digits."""
    told = []
    for key, value in description.items():
        if isinstance(value, list) and len(value) > 2:
            value = f"<{' × '.join(map(str, np.shape(value)))} numbers>"
        told.append(
            f"{value}" if key == "law" else f"{key} = {value!r}" if not isinstance(value, str) else f"{key} = {value}"
        )
    return ", ".join(told)
