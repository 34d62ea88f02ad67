"""What several releases reveal together about a difference between two tables that agree on all their invariants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

from bayesdp._validate import probability
from bayesdp.composition._lengths import Known
from bayesdp.privacy import DIFFERENCES, Difference, Guarantee, PairLoss, gaussian_sigma
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, Loss, PureDP, loss_from
from bayesdp.privacy.relations import Apart, ApartWithin, Kept, Neighbours
from bayesdp.release import Release
from bayesdp.sensitivities.differences import NORMS

_LONGER = 1.0 + 1e-12
"""A length up to this is 1: more of it is rounding."""


def common_kind(guarantees: Sequence[Guarantee], delta: float | None) -> str:
    """The definition of privacy in which the losses can be added, without giving any of them away."""
    # ValueError if there is none, or if a delta is needed and not given, or given and not needed.
    kinds = {own.kind for own in guarantees}
    needs_delta = "gdp" in kinds and bool(kinds & {"pure", "approximate"}) and "zcdp" not in kinds
    if delta is not None:
        probability(delta, "delta")
        if not needs_delta:
            raise ValueError(
                f"delta turns mu into epsilon where both are composed; these releases state {', '.join(sorted(kinds))}, "
                "so leave it out"
            )
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= {"pure", "approximate"}:
        return "approximate"
    if "zcdp" in kinds:
        raise ValueError(
            f"the releases state {', '.join(sorted(kinds))}, and zCDP has no exact conversion to or from the others; convert "
            "the losses yourself (bayesdp.privacy.rho_to_epsilon gives a bound) or release both by one definition"
        )
    if delta is None:
        raise ValueError(
            "the releases state mu in one place and epsilon in another: give delta, at which mu becomes epsilon exactly"
        )
    return "approximate"


def total(known: Sequence[Known], kind: str, delta: float | None) -> Loss:
    """The loss of all releases together, in the definition that `common_kind` has found."""
    # Normal noise adds up exactly by its mu: that of releases which state epsilon and delta first, at the sum of their deltas; then
    # that of releases which state mu, at the delta that was given to put mu and epsilon together.
    losses = [own.loss for own in known]
    if kind != "approximate":
        return _sum(losses)
    normal = [own for own in known if own.normal is not None]
    parts = [own.loss for own in known if own.normal is None and own.loss.kind != "gdp"]
    if len(normal) > 1:
        spent = math.fsum(own.loss.parameters["delta"] for own in normal)
        mu = _sum([own.normal for own in normal if own.normal is not None])
        parts.append(mu.at(spent) if spent < 1.0 else ApproximateDP(0.0, 1.0))
    else:
        parts += [own.loss for own in normal]
    by_mu = [own for own in losses if own.kind == "gdp"]
    if by_mu:
        assert delta is not None  # `common_kind` has seen to it
        parts.append(_sum(by_mu).at(delta))
    together = _sum(parts)
    return ApproximateDP(together.epsilon, 0.0) if isinstance(together, PureDP) else together


def _sum(losses: Sequence[Loss]) -> Loss:
    return reduce(lambda one, other: one.compose(other), losses)


def neighbour_loss(release: Release) -> tuple[str, Known] | None:
    """The relation of neighbouring tables that a release's mechanism protects, and the loss; None where not stated."""
    relation = (release.mechanism or {}).get("neighbours")
    if release.guarantee is None or not isinstance(relation, str):
        return None
    row = next((own.loss for own in release.guarantee.pairs if isinstance(own.about, Neighbours)), None)
    stated = release.guarantee.parameters.loss if row is None else row
    return relation, _with_mu(release, stated)


def loss_of(
    release: Release, difference: Difference, by_law: Mapping[Difference, Known], *, total_is_exact: bool
) -> Known | None:
    """What one release loses at a difference that its invariants do not see; None if unknown."""
    # The least of: what follows from the law of its noise (`by_law`, of `known_losses`); the row of its own guarantee on this kind
    # of difference; as many steps of one record as the difference takes, at the loss that it states for neighbouring tables, or the
    # difference in the norm of its guarantee. All are upper bounds, and the first may be exact. `total_is_exact`: whether all
    # tables that agree on the joint invariants have as many records.
    stated = release.guarantee
    if stated is None:
        return None
    found = [by_law[difference]] if difference in by_law else []
    row = _own_row(stated, difference)
    if row is not None:
        found.append(_with_mu(release, row))
    if not found or not found[0].exact:
        steps = _by_steps(release, difference, stated, total_is_exact=total_is_exact)
        if steps is not None:
            found.append(steps)
    return min(found, key=_size, default=None)


def _size(known: Known) -> tuple[float, ...]:
    """Order losses of one kind: a smaller delta goes before a smaller epsilon."""
    loss = known.loss
    return (loss.delta, loss.epsilon) if isinstance(loss, ApproximateDP) else tuple(loss.parameters.values())


def _own_row(stated: Guarantee, difference: Difference) -> Loss | None:
    """The loss that the release states for all differences of the kind."""
    if difference.found:
        return None  # another change may be the smallest of other invariants
    kept = ((own.about, own.loss) for own in stated.pairs)
    return next((loss for about, loss in kept if isinstance(about, Kept) and about.difference == difference), None)


def _by_steps(release: Release, difference: Difference, stated: Guarantee, *, total_is_exact: bool) -> Known | None:
    """The loss of as many neighbouring steps as the difference takes, or of its length; None where neither is known."""
    neighbours = neighbour_loss(release)
    if neighbours is not None:
        relation, loss = neighbours
        steps = difference.l1 if relation == "add-remove" else difference.l1 / 2
        same_total = total_is_exact or difference in DIFFERENCES.values()
        if relation == "substitution" and not (same_total and steps == int(steps)):
            return None  # one of the two tables may have more records
        return loss.group(int(steps))
    if len(release.measurements) != 1:
        return None  # the parameters of a composition are those of its first row, and of no other pair
    if stated.unit not in NORMS:
        return _within_adjacency(release, difference)
    size = difference.size(stated.unit) / stated.parameters.size
    whole = stated.loss
    if isinstance(whole, ApproximateDP):
        return Known.of_row(stated.kind, stated.parameters.loss) if size <= _LONGER else None
    # Noise of one norm: the loss follows the distance in it, also between whole numbers of steps.
    return Known(ZCDP(whole.rho * size**2) if isinstance(whole, ZCDP) else _times(whole, size))


def _times(loss: Loss, size: float) -> Loss:
    return loss_from(loss.kind, {name: value * size for name, value in loss.parameters.items()})


def _with_mu(release: Release, row: Loss) -> Known:
    """A loss that a release states; for normal noise with epsilon and delta, the mu that has these: its own is no larger."""
    assert release.guarantee is not None  # the row is one of its rows
    known = Known.of_row(release.guarantee.kind, row)
    normal = all(own.law.normal for own in release.measurements)
    loss = known.loss
    if known.normal is not None or not normal or len(release.measurements) != 1 or not isinstance(loss, ApproximateDP):
        return known
    if not 0.0 < loss.delta < 1.0:
        return known
    return Known(loss, GaussianDP(1.0 / gaussian_sigma(loss.epsilon, loss.delta, 1.0)))


def adjacent_row(release: Release) -> tuple[int, PairLoss] | None:
    """The adjacency of a Semi-DP release, and what it loses at worst between tables that far apart; None for others."""
    adjacency = (release.mechanism or {}).get("adjacency")
    if release.guarantee is None or not isinstance(adjacency, int):
        return None
    about = Apart(adjacency), ApartWithin(adjacency)
    return next(((adjacency, row) for row in release.guarantee.pairs if row.about in about), None)


def _within_adjacency(release: Release, difference: Difference) -> Known | None:
    """Semi-DP in a norm that a difference is not measured in: its worst loss, up to the number of records that it is for."""
    found = adjacent_row(release)
    if found is None or difference.l1 > 2.0 * found[0] or isinstance(found[1].about, ApartWithin):
        return None  # under the published answers not all differences of the kind need occur
    assert release.guarantee is not None  # `adjacent_row` found a row of it
    return Known.of_row(release.guarantee.kind, found[1].loss)
