"""What several releases reveal together about a difference between two tables that agree on all their invariants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesdp._validate import probability
from bayesdp.mechanisms._semi import semi_pair_words
from bayesdp.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    LatticeGaussian,
    LatticeLaplace,
    NoiseLaw,
    ProjectedGaussian,
)
from bayesdp.privacy import DIFFERENCES, Difference, Guarantee, PairLoss, gaussian_epsilon, gaussian_pairs, pure_pairs
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
    """Add losses, each with its kind: epsilon and delta by sums, rho by its sum, mu by the root of its squares."""
    mu = math.sqrt(sum(own["mu"] ** 2 for name, own in losses if name == "gdp"))
    if kind == "gdp":
        return {"mu": mu}
    if kind == "zcdp":
        return {"rho": sum(own["rho"] for _, own in losses)}
    epsilon = sum(own["epsilon"] for name, own in losses if name != "gdp")
    if kind == "pure":
        return {"epsilon": epsilon}
    spent = sum(own["delta"] for name, own in losses if name == "approximate")
    if mu:
        assert delta is not None  # `common_kind` has seen to it
        epsilon, spent = epsilon + gaussian_epsilon(delta, 1.0, mu), spent + delta
    return {"epsilon": epsilon, "delta": spent}


def neighbour_loss(release: Release) -> tuple[str, Loss] | None:
    """The relation of neighbouring tables that a release's mechanism protects, and the loss; None where not stated."""
    relation = (release.mechanism or {}).get("neighbours")
    if release.guarantee is None or not isinstance(relation, str):
        return None
    return relation, {name: v for name, v in release.guarantee.parameters.items() if name != "sensitivity"}


def loss_of(release: Release, difference: Difference, *, total_is_exact: bool) -> tuple[str, Loss] | None:
    """The kind and size of what one release loses at a difference that its invariants do not see; None if unknown.

    Noise of a known law on the cells: exactly. Otherwise the difference is taken in steps, each of one record, at the
    loss that the release states for neighbouring tables; or it is measured in the norm of the guarantee.
    """
    stated = release.guarantee
    if stated is None:
        return None
    known = _from_law(release, difference, stated)
    if known is not None:
        return stated.kind, known
    neighbours = neighbour_loss(release)
    if neighbours is not None:
        relation, loss = neighbours
        steps = difference.l1 if relation == "add-remove" else difference.l1 / 2
        same_total = total_is_exact or difference in DIFFERENCES.values()
        if relation == "substitution" and not (same_total and steps == int(steps)):
            return None  # one of the two tables may have more records
        return stated.kind, _steps(stated, loss, steps)
    if stated.unit not in NORMS:
        return _within_adjacency(release, difference, stated)
    size = difference.size(stated.unit) / stated.parameters.get("sensitivity", 1.0)
    loss = {name: v for name, v in stated.parameters.items() if name != "sensitivity"}
    if stated.kind == "approximate":
        return (stated.kind, loss) if size <= _LONGER else None
    return stated.kind, _steps(stated, loss, size)


def adjacent_row(release: Release) -> tuple[int, PairLoss] | None:
    """The adjacency of a Semi-DP release, and what it loses at worst between tables that far apart; None for others."""
    adjacency = (release.mechanism or {}).get("adjacency")
    if release.guarantee is None or not isinstance(adjacency, int):
        return None
    words = semi_pair_words(adjacency)
    return next(((adjacency, row) for row in release.guarantee.pairs if row.relation == words), None)


def _within_adjacency(release: Release, difference: Difference, stated: Guarantee) -> tuple[str, Loss] | None:
    """Semi-DP in a norm that a difference is not measured in: its worst loss, up to the number of records that it is for."""
    adjacency = (release.mechanism or {}).get("adjacency")
    if not isinstance(adjacency, int) or difference.l1 > 2.0 * adjacency:
        return None
    return stated.kind, dict(stated.pairs[0].loss)


def _steps(stated: Guarantee, loss: Loss, steps: float) -> dict[str, float]:
    """The loss of several steps, or of a multiple of a distance (group privacy)."""
    if stated.kind == "pure":
        return {"epsilon": loss["epsilon"] * steps}
    if stated.kind == "zcdp":
        return {"rho": loss["rho"] * steps**2}
    if stated.kind == "gdp":
        return {"mu": loss["mu"] * steps}
    epsilon = loss["epsilon"]
    # P <= e^epsilon P' + delta, k times: delta (1 + e^epsilon + ... + e^((k-1) epsilon)).
    return {"epsilon": epsilon * steps, "delta": loss["delta"] * sum(math.exp(epsilon * k) for k in range(int(steps)))}


def _from_law(release: Release, difference: Difference, stated: Guarantee) -> dict[str, float] | None:
    """The loss at a difference of cells from the law of the noise, in the kind that the release states."""
    if len(release.measurements) != 1 or not release.measurements[0].query.is_identity:
        return None
    law: NoiseLaw = release.measurements[0].law
    scale: Any = getattr(law, "b", getattr(law, "sigma", 1.0))
    if np.ndim(scale):
        return None
    if stated.kind == "pure":
        if isinstance(law, LatticeLaplace):
            return dict(pure_pairs(law.epsilon, law.norm, [difference])[0].loss)
        if isinstance(law, DiscreteLaplace | Laplace) or law.name == "projected-laplace":
            return dict(pure_pairs(1.0 / float(scale), "l1", [difference])[0].loss)
        return None
    if not isinstance(law, (ProjectedGaussian, LatticeGaussian, DiscreteGaussian, Gaussian)):
        return None
    continuous = isinstance(law, ProjectedGaussian | Gaussian)
    loss = gaussian_pairs(float(scale), [difference], delta=stated.parameters.get("delta"), continuous=continuous)[
        0
    ].loss
    wanted = {"zcdp": ("rho",), "approximate": ("epsilon", "delta"), "gdp": ("mu",)}[stated.kind]
    return {name: loss[name] for name in wanted} if all(name in loss for name in wanted) else None
