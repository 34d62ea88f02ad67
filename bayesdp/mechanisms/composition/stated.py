"""Whether the total loss that a composition states follows from the mechanisms that it lists.

The description of a composition has the mechanisms of its releases, and the release has their noise. So each release is made again,
and their total is put together again. Where all mechanisms are known, and none is a composition itself, the guarantee has to be that
total; else no row of it may state less than the known mechanisms lose together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bayesdp._validate import probability, shown
from bayesdp.mechanisms.base import Mechanism
from bayesdp.mechanisms.composition._total import APART, total_guarantee, with_total_person
from bayesdp.mechanisms.stated import (
    LOSS_UNKNOWN,
    alike,
    check_guarantee,
    composition_name,
    number_of_releases,
    possible_guarantees,
    published_statistics,
    rebuilt,
    row_words,
    words,
)
from bayesdp.privacy import EXACT_SAMPLER, Difference, Guarantee, PairLoss
from bayesdp.privacy.losses import ApproximateDP, LossAt
from bayesdp.privacy.sensitivities.kept import kept_differences
from bayesdp.privacy.sensitivities.norms import NORMS
from bayesdp.privacy.words import Conforming, Convolved, Neighbours, Relation, SamplerStatement, Sentence
from bayesdp.release import Measured, Release

_KEYS = {"mechanism", "composition_of", "releases", LOSS_UNKNOWN, "delta", "at_delta"}
_DEEPEST = 100
"""The most levels of compositions within compositions."""

_TOGETHER = "the mechanisms together have"

type _Part = tuple[Release, set[SamplerStatement]]
"""A release of a composition, made again, and how its noise may be drawn."""


def check_total(release: Release) -> None:
    """Check the description of a composition and its total guarantee."""
    # `release`: several releases as one, with a mechanism that says `composition_of`.
    description = dict(release.mechanism or {})
    listed = list(_leaves(description, ""))
    for name in {"delta", "at_delta"} & set(description):
        try:
            probability(description[name], name)
        except TypeError as error:
            raise ValueError(f"mechanism {description['mechanism']!r}: {error}") from None
    parts, unknown = (_statistics if release.about == "statistics" else _tables)(release, listed)
    stated, reason = release.guarantee, description.get(LOSS_UNKNOWN, "")
    if not isinstance(reason, str) or (reason and stated is not None):
        raise ValueError(
            f"total_loss says why no guarantee is stated, {reason!r}, "
            + ("but there is one" if stated is not None else "and must be text")
        )
    if stated is None:
        return
    exact = not unknown and len(listed) == len(description["releases"])
    if not unknown:
        chains = {way for _, ways in parts for way in ways} - {EXACT_SAMPLER}
        possible = [*([EXACT_SAMPLER] if all(EXACT_SAMPLER in ways for _, ways in parts) else []), *sorted(chains)]
        if stated.sampler not in possible:
            raise ValueError(
                f"sampler: the guarantee states {str(stated.sampler)!r}, but noise of the mechanisms is drawn by "
                f"{' or '.join(map(repr, map(str, possible)))}"
            )
    joint = release.invariants
    differences = kept_differences(joint) if release.about == "counts" and joint.dimension else ()
    alone = [part for part, _ in parts]
    deltas = description.get("delta"), description.get("at_delta")
    try:
        total, why = total_guarantee(
            alone, release, differences, deltas[0], cells=False, at_delta=deltas[1], all_rows=True
        )
    except ValueError as error:
        total, why = None, str(error)
    if total is None and exact:
        raise ValueError(f"the guarantee states {words(stated.parameters)}, but the total loss is: {why}")
    _check_itself(stated, release)
    if total is not None and exact:
        # Releases may state fewer rows than their mechanisms know, or larger losses: their total then is between these two.
        fewer = [
            replace(part, guarantee=replace(part.guarantee, pairs=())) for part in alone if part.guarantee is not None
        ]
        most = total_guarantee(fewer, release, differences, deltas[0], cells=False, all_rows=True)[0]
        above = () if most is None else most.pairs
        rows = tuple(next((mine for mine in total.pairs if _is_true(row, mine, above)), row) for row in stated.pairs)
        plain = replace(stated, pairs=rows, person="" if release.about == "counts" else stated.person)
        if rows and rows[0] in total.pairs:  # which may be another row than the first one of the total
            plain = replace(plain, parameters=total.parameters, unit=total.unit)
        check_guarantee(plain, [replace(total, sampler=stated.sampler)], _TOGETHER)
    else:
        _check_partly(stated, total, release, complete=not unknown)


def _leaves(description: Mapping[str, Any], within: str, depth: int = 1) -> Iterator[tuple[str, Any]]:
    """The mechanisms that are no compositions, each with a name for messages; None for a release without one."""
    count, parts, name = number_of_releases(description), description.get("releases"), description.get("mechanism")
    if name != composition_name(count):
        raise ValueError(f"mechanism is {name!r}, but by composition_of = {count} it is a {composition_name(count)!r}")
    if not isinstance(parts, list) or len(parts) != count:
        number = len(parts) if isinstance(parts, list) else "none"
        raise ValueError(f"mechanism {name!r} must list the mechanisms of all releases, got {number}")
    unknown = sorted(set(description) - _KEYS)
    if unknown:
        raise ValueError(f"mechanism {name!r} has no key {shown(unknown)}")
    if depth > _DEEPEST:
        raise ValueError(f"mechanism {name!r} is a composition within more than {_DEEPEST} others")
    for k, part in enumerate(parts, start=1):
        label = f"{within}release {k}"
        if part is not None and not isinstance(part, Mapping):
            raise ValueError(f"the mechanism of {label} must be a mapping or null, got {part!r}")
        if part is not None and number_of_releases(part):
            yield from _leaves(part, f"{label}, ", depth + 1)
        else:
            yield label, part


def _statistics(release: Release, listed: Sequence[tuple[str, Any]]) -> tuple[list[_Part], bool]:
    """The releases of statistics, made again in their order, and whether the loss of some is not known."""
    if len(listed) != len(release.measurements):
        raise ValueError(f"a composition of {len(listed)} releases has {len(release.measurements)} measurements")
    parts: list[_Part] = []
    for (_, part), measured in zip(listed, release.measurements, strict=True):
        if part is not None:
            mechanism = published_statistics(part, measured, release)
            guarantee = replace(mechanism.guarantee, simulated=release.simulated)
            alone = Release(release.frame, (measured,), (), None, guarantee, release.simulated, "statistics")
            parts.append((alone, {EXACT_SAMPLER}))
    # Of others a part of the loss alone.
    return parts, not all(part is not None and ("epsilon" in part or "rho" in part) for _, part in listed)


def _tables(release: Release, listed: Sequence[tuple[str, Any]]) -> tuple[list[_Part], bool]:
    """The releases of tables, made again, and whether there is other noise."""
    described = [(name, part) for name, part in listed if part is not None]
    if len(described) > len(release.measurements):
        raise ValueError(
            f"the composition lists {len(described)} mechanisms, each with a measurement of its own, but the release has "
            f"{len(release.measurements)} measurements"
        )
    free = list(release.measurements)
    parts = [_made_again(name, part, release, free) for name, part in described]
    return [part for part in parts if part is not None], bool(free)


def _made_again(name: str, description: Mapping[str, Any], release: Release, free: list[Measured]) -> _Part | None:
    """The release of one mechanism, with a measurement that is removed from `free`; None where making it again would take long."""
    mechanism = rebuilt(description, release)
    if not isinstance(mechanism, Mechanism):
        return None
    law, query = mechanism.law.describe(), mechanism.released_query
    measured = next((one for one in free if alike(law, one.law.describe()) and one.query == query), None)
    if measured is None:
        raise ValueError(
            f"{name} has the mechanism {mechanism.name!r} with noise of the law {words(law)} on {query!r}, but no measurement has it"
            f"{'' if len(free) == len(release.measurements) else ' beside those of other mechanisms'}; measurements are "
            f"{'; '.join(f'{words(one.law.describe())} on {one.query!r}' for one in release.measurements)}"
        )
    if "invariants" not in description:
        return None  # those of this release by itself are not known: its measurement stays free
    free.remove(measured)
    kept = set(mechanism.invariants.query.parts)
    exact = tuple(part for part in release.exact if part.sign == "=" and kept.issuperset(part.query.parts))
    ways = possible_guarantees(mechanism)
    guarantee = replace(ways[0], simulated=release.simulated)
    alone = Release(release.frame, (measured,), exact, mechanism.describe(), guarantee, release.simulated)
    return alone, {way.sampler for way in ways}


def _check_itself(stated: Guarantee, release: Release) -> None:
    """Check that each row is as long as what it is about, and that the rest follows from the rows."""
    for row in stated.pairs if release.about == "counts" else ():
        about = row.about.of if isinstance(row.about, Convolved) else row.about
        apart = about.difference if isinstance(about, Conforming) else None
        if isinstance(about, Neighbours):
            apart = APART[about.change]
        if apart is not None and row.norm in NORMS and not alike(row.size, apart.size(row.norm)):
            raise ValueError(
                f"pairs: the guarantee states {row_words(row)}, but these are {apart.size(row.norm):.10g} apart"
            )
    if stated.pairs:
        first = stated.pairs[0]
        if not alike(dict(stated.parameters), dict(LossAt(first.loss, first.size))) or stated.unit != first.norm:
            raise ValueError(
                f"parameters: the guarantee states {words(stated.parameters)} in {stated.unit} norm, but its first row is "
                f"{row_words(first)}"
            )
    if release.about == "counts":
        check_guarantee(
            replace(stated, pairs=()), [with_total_person(stated, release.invariants)], "from its rows follows"
        )


def _is_true(row: PairLoss, mine: PairLoss, most: Sequence[PairLoss]) -> bool:
    """Whether a stated row follows from a known one: of the same tables, of no smaller loss, and of none above that of `most`."""
    if _about(row.about) != _about(mine.about) or row.norm != mine.norm or not alike(row.size, mine.size):
        return False
    called_upper = isinstance(row.about, Conforming) and row.about.bound == "upper"  # which an exact loss is, too
    if (row.about != mine.about and not called_upper) or set(row.loss) != set(mine.loss):
        return False
    # By convolution a total has no largest value that follows from the parameters alone.
    largest = row.loss if isinstance(mine.about, Convolved) else mine.loss
    largest = next((one.loss for one in most if _about(one.about) == _about(mine.about)), largest)
    bounds = [(mine.loss[name], value, largest.get(name, value)) for name, value in row.loss.items()]
    return all(
        (low <= value or alike(low, value)) and (value <= high or alike(value, high)) for low, value, high in bounds
    )


def _check_partly(stated: Guarantee, known: Guarantee | None, release: Release, *, complete: bool) -> None:
    """Check that no row states less than the known mechanisms lose."""
    whole = stated.parameters
    for mine in known.pairs if known is not None else ():
        for row in stated.pairs or (PairLoss(mine.about, whole.size, stated.unit, whole.loss),):
            words_only = isinstance(row.about, Sentence) and not isinstance(mine.about, Convolved)
            of_same = _about(row.about) == _about(mine.about) or release.about == "statistics"
            if not of_same and not (words_only and row.norm == mine.norm and alike(row.size, mine.size)):
                continue
            # Epsilon of a larger delta may be smaller; at one delta, more releases never lose less by convolution.
            sums = isinstance(mine.loss, ApproximateDP) and not isinstance(mine.about, Convolved)
            less = (complete or not sums) and not mine.loss.implies(row.loss) and not alike({**mine.loss}, {**row.loss})
            if less or row.norm != mine.norm or not alike(row.size, mine.size):
                raise ValueError(
                    f"pairs: the guarantee states {row_words(row)}, but {_TOGETHER} at least {row_words(mine)}"
                )


def _about(relation: Relation) -> tuple[bool, Relation | Difference]:
    """The tables that a row is about, whatever it says of bounds, and whether it is by convolution."""
    of = relation.of if isinstance(relation, Convolved) else relation
    return isinstance(relation, Convolved), of.difference if isinstance(of, Conforming) else of
