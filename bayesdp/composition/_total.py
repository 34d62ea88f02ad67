"""The guarantee of several releases together, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from bayesdp.composition._convolved import Row, convolved_rows
from bayesdp.composition._lengths import Known, known_losses
from bayesdp.composition._losses import adjacent_row, common_kind, loss_of, neighbour_loss, total
from bayesdp.composition.nestedness import is_nested
from bayesdp.invariants import Invariants
from bayesdp.mechanisms.one_person import with_person
from bayesdp.privacy import DIFFERENCES, EXACT_SAMPLER, Difference, Guarantee, PairLoss
from bayesdp.privacy.caveats import Composed, Convolution, Fixed, OfReleases, OtherSamplers
from bayesdp.privacy.relations import Apart, ApartWithin, Kept, Neighbours
from bayesdp.privacy.stated_losses import LossAt
from bayesdp.privacy.words import Words
from bayesdp.queries import Totals
from bayesdp.release import Release
from bayesdp.sensitivities.differences import NORMS

NEIGHBOURS_APART = {"substitution": DIFFERENCES["substitution"], "add-remove": Difference("one record", 1.0, 1.0)}
"""How far neighbouring tables are apart."""


def total_guarantee(
    releases: Sequence[Release],
    joint: Release,
    differences: Sequence[Difference],
    delta: float | None,
    *,
    cells: bool = True,
    at_delta: float | None = None,
    all_rows: bool = False,
) -> tuple[Guarantee | None, str | None]:
    """The total guarantee of the releases, or why there is none: one of the two."""
    # `joint` has all their measurements and exact parts, `differences` are the smallest that keep all invariants; `delta` is only
    # to put mu and epsilon together. `cells`: whether to work out which cells are determined. With `at_delta` there are rows by
    # convolution at that delta, where they are better than sums or, with `all_rows`, wherever they can be worked out.
    noisy = [own for own in releases if own.measurements]
    silent = [str(k) for k, own in enumerate(releases, start=1) if own.measurements and own.guarantee is None]
    if silent:
        return None, f"unknown, because no loss is stated by release {', '.join(silent)}"
    if not joint.invariants.dimension:
        return None, "none can be stated, because no two tables agree on all invariants"
    if not noisy:
        return None, "none, because nothing is released but exact values"
    stated = [own.guarantee for own in noisy if own.guarantee is not None]
    kind = common_kind(stated, delta)
    unit = stated[0].unit if len({own.unit for own in stated}) == 1 and stated[0].unit in NORMS else "l1"
    by_sums: list[Row] = []

    def add(row: PairLoss, known: Sequence[Known]) -> None:
        by_sums.append(Row(row, tuple(known)))

    neighbours = [neighbour_loss(own) for own in noisy]
    relation: str | None = None
    relations = {found[0] for found in neighbours if found is not None}
    if None not in neighbours and len(relations) == 1:
        relation = relations.pop()
        apart = NEIGHBOURS_APART[relation]
        losses = [found[1] for found in neighbours if found is not None]
        add(PairLoss(Neighbours(relation, "joint"), apart.size(unit), unit, total(losses, kind, delta)), losses)
    adjacent, reach = [adjacent_row(own) for own in noisy], None
    if None not in adjacent:
        apart_by = [found for found in adjacent if found is not None]
        nearest, row = min(apart_by, key=lambda found: found[0])
        reach = nearest
        worst = [Known.of_row(g.kind, found[1].loss) for g, found in zip(stated, apart_by, strict=True)]
        # One norm, or the number of records, of which each is at most 2 in l1.
        one = len({found[1].norm for found in apart_by}) == 1
        size, norm = (row.size, row.norm) if one else (2.0 * nearest, "l1")
        within = any(isinstance(found[1].about, ApartWithin) for found in apart_by)
        add(
            PairLoss((ApartWithin if within else Apart)(nearest, joint=True), size, norm, total(worst, kind, delta)),
            worst,
        )
    sums = is_nested(joint.invariants, Invariants(Totals(joint.frame)))
    by_law = [known_losses(own, joint.invariants) for own in noisy]
    for difference in differences:
        found = [loss_of(own, difference, law, total_is_exact=sums) for own, law in zip(noisy, by_law, strict=True)]
        known = [own for own in found if own is not None]
        if len(known) == len(found):
            normal = all(own.normal is not None for own in known)
            exact = all(own.exact for own in known) and (kind != "approximate" or normal or len(known) == 1)
            lost = total(known, kind, delta)
            add(PairLoss(Kept(difference, "" if exact else "upper"), difference.size(unit), unit, lost), known)
    rows = [own.pairs for own in by_sums]
    if not rows:
        return None, "unknown, because the losses of the releases refer to differences that cannot be compared"
    convolved: list[PairLoss] = []
    if at_delta is not None:
        convolved = convolved_rows(noisy, by_sums, joint.invariants, at_delta, all_rows=all_rows)
    samplers = list(dict.fromkeys(own.sampler for own in stated if not own.sampler.exact))
    caveats: list[Words] = [Composed(len(releases)), *_caveats(releases)]
    if at_delta is not None and convolved:
        caveats.insert(1, Convolution(at_delta))
    if len(samplers) > 1:
        caveats.append(OtherSamplers(tuple(map(str, samplers[1:]))))
    whole = Guarantee(
        kind,
        LossAt(rows[0].loss, rows[0].size),
        rows[0].norm,
        (*rows, *convolved),
        determined_cells=joint.fiber.determined_names() if cells else (),
        determined_complete=joint.fiber.determined_is_complete if cells else None,
        sampler=samplers[0] if samplers else EXACT_SAMPLER,
        simulated=joint.simulated,
        caveats=tuple(dict.fromkeys(caveats)),
    )
    return with_person(whole, joint.invariants, relation, reach), None


def _caveats(releases: Sequence[Release]) -> list[Words]:
    """The caveats of all releases, each with the numbers of those that have it; caveats on arithmetic that all have stand alone."""
    of = {k: own.guarantee.caveats for k, own in enumerate(releases, start=1) if own.guarantee is not None}
    lines = dict.fromkeys(line for own in of.values() for line in own)
    holders = {line: tuple(k for k, own in of.items() if line in own) for line in lines}
    common = [own for own in lines if isinstance(own, Fixed) and own.of_all_noise and len(holders[own]) == len(of)]
    own = [OfReleases(holders[line], line) for line in lines if line not in common]
    return [*common, *((Fixed("of a release by itself"), *own) if own else ())]
