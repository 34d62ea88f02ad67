"""What several releases reveal together about a difference between two tables that agree on all their invariants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bayesdp._validate import probability
from bayesdp.composition._lengths import Known
from bayesdp.mechanisms._kept_lengths import AT_MOST, LARGEST
from bayesdp.mechanisms._semi import semi_pair_words
from bayesdp.noise import CorrelatedGaussian, ProjectedGaussian
from bayesdp.privacy import (
    DIFFERENCES,
    Difference,
    Guarantee,
    PairLoss,
    gaussian_epsilon,
    gaussian_sigma,
    group_loss,
)
from bayesdp.privacy.guarantee import NEIGHBOURING
from bayesdp.privacy.pairs import NORMS
from bayesdp.release import Release

__all__ = ["Loss", "adjacent_row", "common_kind", "loss_of", "neighbour_loss", "total"]

type Loss = Mapping[str, float]

_LONGER = 1.0 + 1e-12
"""Roundings in a comparison of lengths."""


def common_kind(guarantees: Sequence[Guarantee], delta: float | None) -> str:
    """The definition of privacy in which the losses can be added, without giving any of them away.

    Raises
    ------
    ValueError
        If there is none, a delta is needed and not given, or given and not needed.
    """
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


def total(losses: Sequence[tuple[str, Loss]], kind: str, delta: float | None) -> dict[str, float]:
    """Add losses, each with its kind: epsilon and delta by sums, rho by its sum, mu by the root of its squares.

    Epsilon and delta of Gaussian noise come with its mu: these are first put together exactly.
    """
    mu = math.sqrt(sum(own["mu"] ** 2 for name, own in losses if name == "gdp"))
    if kind == "gdp":
        return {"mu": mu}
    if kind == "zcdp":
        return {"rho": sum(own["rho"] for _, own in losses)}
    epsilon = sum(own["epsilon"] for name, own in losses if name != "gdp")
    if kind == "pure":
        return {"epsilon": epsilon}
    spent = sum(own["delta"] for name, own in losses if name == "approximate")
    gaussian = [own for name, own in losses if name == "approximate" and "mu" in own]
    if len(gaussian) > 1:
        joint = _epsilon(math.sqrt(sum(own["mu"] ** 2 for own in gaussian)), sum(own["delta"] for own in gaussian))
        epsilon = epsilon - sum(own["epsilon"] for own in gaussian) + joint
    if mu:
        assert delta is not None  # `common_kind` has seen to it
        epsilon, spent = epsilon + gaussian_epsilon(delta, 1.0, mu), spent + delta
    return {"epsilon": epsilon, "delta": min(spent, 1.0)}  # a delta of 1 is true of everything


def _epsilon(mu: float, delta: float) -> float:
    """The epsilon of Gaussian noise at a delta."""
    return gaussian_epsilon(delta, 1.0, mu) if mu > 0.0 and delta < 1.0 else 0.0


def neighbour_loss(release: Release) -> tuple[str, Loss] | None:
    """The relation of neighbouring tables that a release's mechanism protects, and the loss; None where not stated."""
    relation = (release.mechanism or {}).get("neighbours")
    if release.guarantee is None or not isinstance(relation, str):
        return None
    row = next((own.loss for own in release.guarantee.pairs if own.relation.startswith(NEIGHBOURING)), None)
    stated = release.guarantee.parameters if row is None else row
    return relation, _with_mu(release, {name: v for name, v in stated.items() if name != "sensitivity"})


def loss_of(
    release: Release, difference: Difference, by_law: Mapping[Difference, Known], *, total_is_exact: bool
) -> Known | None:
    """What one release loses at a difference that its invariants do not see; None if unknown.

    The least of: what follows from the law of its noise; the row of its own guarantee on this kind of difference; as many
    steps of one record as the difference takes, at the loss that it states for neighbouring tables, or the difference in
    the norm of its guarantee. All are upper bounds, and the first may be exact.

    Parameters
    ----------
    release : Release
    difference : Difference
    by_law : mapping
        What `bayesdp.composition._lengths.known_losses` found.
    total_is_exact : bool
        Whether all tables that agree on the joint invariants have as many records.
    """
    stated = release.guarantee
    if stated is None:
        return None
    found = [by_law[difference]] if difference in by_law else []
    row = _own_row(stated, difference)
    if row is not None:
        found.append(Known(stated.kind, _with_mu(release, row)))
    if not found or not found[0].exact:
        steps = _by_steps(release, difference, stated, total_is_exact=total_is_exact)
        if steps is not None:
            found.append(Known(stated.kind, steps))
    return min(found, key=_size, default=None)


def _size(known: Known) -> tuple[float, ...]:
    """Order losses of one kind: by mu where it is known, and a smaller delta goes before a smaller epsilon."""
    loss = known.loss
    if known.kind == "approximate":
        return (loss["delta"], loss["epsilon"])
    return (loss[{"pure": "epsilon", "zcdp": "rho", "gdp": "mu"}[known.kind]],)


def _own_row(stated: Guarantee, difference: Difference) -> Loss | None:
    """The loss that the release states for all differences of the kind."""
    relations = [difference.relation + words for words in ("", LARGEST, AT_MOST)]
    if "smallest change found" in difference.relation:
        return None  # another change may be the smallest of other invariants
    return next((row.loss for row in stated.pairs if row.relation in relations), None)


def _by_steps(
    release: Release, difference: Difference, stated: Guarantee, *, total_is_exact: bool
) -> Mapping[str, float] | None:
    neighbours = neighbour_loss(release)
    if neighbours is not None:
        relation, loss = neighbours
        steps = difference.l1 if relation == "add-remove" else difference.l1 / 2
        same_total = total_is_exact or difference in DIFFERENCES.values()
        if relation == "substitution" and not (same_total and steps == int(steps)):
            return None  # one of the two tables may have more records
        return _grouped(loss, int(steps))
    if len(release.measurements) != 1:
        return None  # the parameters of a composition are those of its first row, and of no other pair
    if stated.unit not in NORMS:
        return _within_adjacency(release, difference)
    size = difference.size(stated.unit) / stated.parameters.get("sensitivity", 1.0)
    loss = {name: v for name, v in stated.parameters.items() if name != "sensitivity"}
    if stated.kind == "approximate":
        return loss if size <= _LONGER else None
    return {name: value * (size**2 if name == "rho" else size) for name, value in loss.items()}


def _grouped(loss: Loss, steps: int) -> Mapping[str, float]:
    """Group privacy; for Gaussian noise by its mu, at the delta of one step."""
    if "mu" in loss and "delta" in loss:
        mu = steps * loss["mu"]
        return {"epsilon": _epsilon(mu, loss["delta"]), "delta": loss["delta"], "mu": mu}
    return group_loss(loss, steps)


def _with_mu(release: Release, loss: Loss) -> Loss:
    """Epsilon and delta of normal noise with the mu that has them: the mu of the noise is no larger."""
    normal = all(isinstance(own.law, (ProjectedGaussian, CorrelatedGaussian)) for own in release.measurements)
    if "mu" in loss or not normal or len(release.measurements) != 1 or not 0.0 < loss.get("delta", 0.0) < 1.0:
        return loss
    return {**loss, "mu": 1.0 / gaussian_sigma(loss["epsilon"], loss["delta"], 1.0)}


def adjacent_row(release: Release) -> tuple[int, PairLoss] | None:
    """The adjacency of a Semi-DP release, and what it loses at worst between tables that far apart; None for others."""
    adjacency = (release.mechanism or {}).get("adjacency")
    if release.guarantee is None or not isinstance(adjacency, int):
        return None
    words = semi_pair_words(adjacency)
    return next(((adjacency, row) for row in release.guarantee.pairs if row.relation == words), None)


def _within_adjacency(release: Release, difference: Difference) -> Mapping[str, float] | None:
    """Semi-DP in a norm that a difference is not measured in: its worst loss, up to the number of records that it is for."""
    found = adjacent_row(release)
    if found is None or difference.l1 > 2.0 * found[0]:
        return None
    return found[1].loss
