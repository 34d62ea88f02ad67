"""Whether the total loss that a composition states follows from the mechanisms that it lists.

The description of a composition has the mechanisms of its releases, and the release has their noise. So each release can be
made again, without its own guarantee, which may have said less than the mechanism's: fewer rows, and then the total is larger.
No total may be smaller than what follows from the mechanisms; of a composition of single releases none may be larger than what
follows from their parameters alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bayesdp._validate import probability, shown
from bayesdp.composition._total import NEIGHBOURS_APART, total_guarantee
from bayesdp.mechanisms.base import Mechanism
from bayesdp.mechanisms.one_person import with_person
from bayesdp.mechanisms.stated.statistics import alike, check_person, words
from bayesdp.mechanisms.stated.tables import LOSS_UNKNOWN, check_parts, number_of_releases, possible_guarantees, rebuilt
from bayesdp.privacy import EXACT_SAMPLER, Difference, Guarantee, PairLoss
from bayesdp.privacy.pairs import Convolved, Kept, Neighbours, Relation, SemiAdjacent, Sentence
from bayesdp.release import Measured, Release
from bayesdp.sensitivities.differences import NORMS
from bayesdp.sensitivities.kept import kept_differences

_KEYS = {"mechanism", "composition_of", "releases", LOSS_UNKNOWN, "delta", "at_delta"}
_DEEPEST = 100
"""The most levels of compositions within compositions."""

_ADDITIVE = ("pure", "zcdp", "gdp")
"""Kinds of which more releases never lose less; epsilon of a larger delta may be smaller."""


class _Part(NamedTuple):
    """A release of a composition, made again."""

    release: Release
    samplers: frozenset[str]


def check_total(release: Release) -> None:
    """Check the description of a composition and its total guarantee."""
    # `release`: several releases as one, with a mechanism that says `composition_of`.
    own = dict(release.mechanism or {})
    listed = list(_leaves(own, ""))
    described = [(name, part) for name, part in listed if part is not None]
    if len(described) > len(release.measurements):
        raise ValueError(
            f"mechanism {own['mechanism']!r} lists {len(described)} mechanisms, each with a measurement of its own, but the release "
            f"has {len(release.measurements)} measurements"
        )
    free = list(release.measurements)
    for name in {"delta", "at_delta"} & set(own):
        try:
            probability(own[name], name)
        except TypeError as error:
            raise ValueError(f"mechanism {own['mechanism']!r}: {error}") from None
    found = [_made_again(name, part, release, free) for name, part in described]
    parts = [part for part in found if part is not None]
    stated, reason = release.guarantee, own.get(LOSS_UNKNOWN, "")
    if not isinstance(reason, str) or (reason and stated is not None):
        raise ValueError(
            f"total_loss says why no guarantee is stated, {reason!r}, "
            + ("but there is one" if stated is not None else "and must be text")
        )
    if stated is None:
        return
    _check_itself(stated)
    if "at_delta" not in own and any(isinstance(row.about, Convolved) for row in stated.pairs):
        raise ValueError(
            f"the guarantee has rows by convolution, but mechanism {own['mechanism']!r} has no key at_delta"
        )
    flat = len(listed) == len(own["releases"])
    _check_loss(stated, parts, release, own, complete=not free, flat=flat)
    if not free:
        _check_sampler(stated, parts)
    _check_person(stated, release)


def _leaves(own: Mapping[str, Any], within: str, depth: int = 1) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """The mechanisms that are no compositions, each with a name for messages; None for a release without one."""
    name, parts = own.get("mechanism"), check_parts(own)
    unknown = sorted(set(own) - _KEYS)
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


def _made_again(name: str, description: Mapping[str, Any], release: Release, free: list[Measured]) -> _Part | None:
    """The release of one mechanism, with a measurement that is removed from `free`; None where making it again would take long."""
    mechanism = rebuilt(description, release)
    if not isinstance(mechanism, Mechanism):
        return None
    law, query = mechanism.law.describe(), mechanism.released_query
    measured = next((own for own in free if alike(law, own.law.describe()) and own.query == query), None)
    if measured is None:
        raise ValueError(
            f"{name} has the mechanism {mechanism.name!r} with noise of the law {words(law)} on {query!r}, but no measurement has it"
            f"{'' if len(free) == len(release.measurements) else ' beside those of other mechanisms'}; measurements are "
            f"{'; '.join(f'{words(own.law.describe())} on {own.query!r}' for own in release.measurements)}"
        )
    if "invariants" not in description:
        return None  # those of this release by itself are not known: its measurement stays free
    free.remove(measured)
    kept = set(mechanism.invariants.query.parts)
    exact = tuple(own for own in release.exact if own.sign == "=" and kept.issuperset(own.query.parts))
    ways = possible_guarantees(mechanism)
    guarantee = replace(ways[0], simulated=release.simulated)
    alone = Release(release.frame, (measured,), exact, mechanism.describe(), guarantee, release.simulated)
    return _Part(alone, frozenset(way.sampler for way in ways))


def _check_itself(stated: Guarantee) -> None:
    """The parameters are those of the first row, and each row is as long as what it is about."""
    for row in stated.pairs:
        known = _length(row)
        if known is not None and not alike(row.size, known):
            raise ValueError(
                f"the guarantee states a loss at {row.norm} distance {row.size:.10g} ({row.relation}), but these are "
                f"{known:.10g} apart"
            )
    if stated.pairs:
        first = stated.pairs[0]
        head = {**first.loss, "sensitivity": first.size}
        if not alike(dict(stated.parameters), head) or stated.unit != first.norm:
            raise ValueError(
                f"the guarantee states {words(stated.parameters)} in {stated.unit} norm, but its first row {words(head)} in "
                f"{first.norm} norm ({first.relation})"
            )


def _check_person(stated: Guarantee, release: Release) -> None:
    """Check that what is said of one person's record follows from the invariants and the rows."""
    relation = next((row.about.change for row in stated.pairs if isinstance(row.about, Neighbours)), None)
    reach = next((row.about.adjacency for row in stated.pairs if isinstance(row.about, SemiAdjacent)), None)
    true = with_person(stated, release.invariants, relation, reach).person
    check_person(stated.person, [true], "what follows from the invariants and the rows of the guarantee")


def _length(row: PairLoss) -> float | None:
    """How far apart the tables of a row are, where that follows from what the row is about; else None."""
    about = row.about.of if isinstance(row.about, Convolved) else row.about
    apart = about.difference if isinstance(about, Kept) else None
    if isinstance(about, Neighbours):
        apart = NEIGHBOURS_APART[about.change]
    return None if apart is None or row.norm not in NORMS else apart.size(row.norm)


def _check_loss(
    stated: Guarantee, parts: Sequence[_Part], release: Release, own: Mapping[str, Any], *, complete: bool, flat: bool
) -> None:
    """Check that no row states less than the known mechanisms lose together, and none more than they can, where all are known."""
    try:
        least, reason = _total(parts, release, own, rows=True)
        most = _total(parts, release, own, rows=False)[0] if complete and flat else None
    except ValueError as error:
        least, most, reason = None, None, str(error)
    if least is None:
        # Within other compositions losses may have been put together in another way.
        if complete and flat:
            raise ValueError(f"the guarantee states {words(stated.parameters)}, but the total loss is: {reason}")
        return
    unknown = not complete and not (least.kind in _ADDITIVE and stated.kind in (least.kind, "approximate"))
    if complete and flat and least.kind != stated.kind:
        raise ValueError(
            f"the guarantee's kind is {stated.kind!r}, but that of the mechanisms together is {least.kind!r}"
        )
    whole = stated.parameters
    rows = stated.pairs or (PairLoss(Sentence("tables at that distance"), whole.size, stated.unit, whole.loss),)
    for row in rows:
        # At one delta, more releases never lose less by convolution.
        if not unknown or isinstance(row.about, Convolved):
            _check_row(row, least, most, complete=complete, flat=flat)


def _total(
    parts: Sequence[_Part], release: Release, own: Mapping[str, Any], *, rows: bool
) -> tuple[Guarantee | None, str | None]:
    """The total of the parts, with what their mechanisms say of particular pairs or by their parameters alone."""
    alone = [part.release for part in parts]
    if not rows:
        alone = [replace(one, guarantee=replace(one.guarantee, pairs=())) for one in alone if one.guarantee is not None]
    joint = release.invariants
    differences = kept_differences(joint) if joint.dimension else ()
    # By convolution a total has no largest value that follows from the parameters alone.
    at_delta = own.get("at_delta") if rows else None
    return total_guarantee(alone, release, differences, own.get("delta"), cells=False, at_delta=at_delta, all_rows=True)


def _check_row(row: PairLoss, least: Guarantee, most: Guarantee | None, *, complete: bool, flat: bool) -> None:
    mine = _of(row, least)
    claim = f"the guarantee states {words(row.loss)} at {row.norm} distance {row.size:.10g} ({row.relation})"
    if not mine:
        if complete and flat:
            have = "; ".join(f"{words(one.loss)} ({one.relation})" for one in least.pairs)
            raise ValueError(f"{claim}, but the mechanisms together have {have}")
        return
    for name in mine[0].loss:
        value, low = row.loss.get(name), min(one.loss[name] for one in mine)
        if value is None:
            raise ValueError(
                f"{claim}, but it needs {name} beside it: the mechanisms together have {words(mine[0].loss)}"
            )
        above = None if most is None else _of(row, most)
        if most is not None and not above and isinstance(row.about, (SemiAdjacent, Neighbours)):
            above = mine
        high = max((one.loss[name] for one in above), default=None) if above else None
        if (value < low and not alike(value, low)) or (high is not None and value > high and not alike(value, high)):
            between = f" to {high!r}" if high is not None and not alike(low, high) else ""
            least_words = "" if complete and flat else "at least "
            raise ValueError(f"{claim}, but the mechanisms together have {least_words}{name} = {low!r}{between}")
    if flat and complete:
        odd = sorted(set(row.loss) - set(mine[0].loss))
        if odd:
            raise ValueError(
                f"{claim}, but nothing is known of {shown(odd)}: the mechanisms together have {words(mine[0].loss)}"
            )
        exact = {one.about.bound for one in mine if isinstance(one.about, Kept)}
        if isinstance(row.about, Kept) and row.about.bound not in (*exact, "upper"):
            raise ValueError(f"{claim}, as if all such pairs had this loss, but it is an upper bound")
        known = max((one.about.least for one in mine if isinstance(one.about, Convolved)), default=0.0)
        if isinstance(row.about, Convolved) and row.about.least > known and not alike(row.about.least, known):
            raise ValueError(f"{claim}, but what is known of smaller ones is that none below {known!r} will do")
        if not any(one.norm == row.norm and alike(one.size, row.size) for one in mine):
            far = "; ".join(f"{one.norm} distance {one.size:.10g}" for one in mine)
            raise ValueError(f"{claim}, but such tables are apart by {far}")


def _of(row: PairLoss, whole: Guarantee) -> list[PairLoss]:
    """The rows on the same pairs of tables; of a row in words only, those of the same length."""
    if isinstance(row.about, Sentence):
        by_sums = [one for one in whole.pairs if not isinstance(one.about, Convolved)]
        return [one for one in by_sums if one.norm == row.norm and alike(one.size, row.size)]
    if isinstance(row.about, Kept):
        apart = row.about.difference
        return [one for one in whole.pairs if isinstance(one.about, Kept) and one.about.difference == apart]
    if isinstance(row.about, Convolved):
        of = _plain(row.about)
        return [one for one in whole.pairs if isinstance(one.about, Convolved) and _plain(one.about) == of]
    return [one for one in whole.pairs if one.about == row.about]


def _plain(about: Convolved) -> Relation | Difference:
    """The tables that a row by convolution is about, whatever it says of bounds."""
    return about.of.difference if isinstance(about.of, Kept) else about.of


def _check_sampler(stated: Guarantee, parts: Sequence[_Part]) -> None:
    """Noise is drawn exactly if that of all releases is."""
    chains = sorted({own for part in parts for own in part.samplers if own != EXACT_SAMPLER})
    always = [EXACT_SAMPLER] if all(EXACT_SAMPLER in part.samplers for part in parts) else []
    if stated.sampler not in (*always, *chains):
        raise ValueError(
            f"the guarantee's sampler is {stated.sampler!r}, but the noise of the mechanisms is drawn by "
            f"{' or '.join(map(repr, (*always, *chains)))}"
        )
