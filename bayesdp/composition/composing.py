"""Put several releases of one confidential table together.

What several releases of the same statistics cost together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from bayesdp._validate import probability
from bayesdp.composition._total import total_guarantee
from bayesdp.composition.composed import Composition
from bayesdp.composition.joint import joint_release
from bayesdp.mechanisms.stated.tables import LOSS_UNKNOWN, composition_name
from bayesdp.privacy import Difference, Guarantee, PairLoss, StatisticGuarantee
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.stated_losses import LossAt
from bayesdp.release import Release
from bayesdp.sensitivities.kept import kept_differences


def total_of_statistics(releases: Sequence[Release]) -> tuple[StatisticGuarantee | None, str | None]:
    """The total loss of releases of statistics for neighbouring data sets, or why there is none.

    By basic composition: epsilons, deltas and rhos add up, as the noise of releases is independent.
    """
    stated = [own.guarantee for own in releases]
    if any(own is None for own in stated):
        return None, "a release states no loss"
    known = [own for own in stated if own is not None]
    about = {own.pairs[0].about if own.pairs else None for own in known}
    if len({own.kind for own in known}) != 1 or len(about) != 1 or None in about:
        return (
            None,
            "the releases state different definitions of privacy, or are about different neighbouring data sets",
        )
    first = known[0].pairs[0]
    total = _sum([own.parameters.loss for own in known])
    row = _sum([own.pairs[0].loss for own in known])
    size = max(own.parameters.get("sensitivity", 1.0) for own in known)
    caveats = tuple(dict.fromkeys(caveat for own in known for caveat in own.caveats))
    guarantee = StatisticGuarantee(
        known[0].kind,
        LossAt(total, size),
        known[0].unit,
        (PairLoss(first.about, size, first.norm, row),),
        simulated=any(own.simulated for own in known),
        caveats=caveats,
    )
    return guarantee, None


def _sum(losses: Sequence[Loss]) -> Loss:
    return reduce(lambda one, two: one.compose(two), losses)


def compose(*releases: Release, delta: float | None = None, at_delta: float | None = None) -> Composition:
    """Put several releases of one confidential table together, and say what they protect and reveal together.

    Each release protects pairs of tables that agree on its own invariants. Together they protect only pairs that agree
    on all of them (Proposition 2.9), and their invariants may determine cells that no release determines alone: the
    paper compares it with a linkage attack. The noise of the releases must be independent.

    Losses add: epsilon and delta by sums, rho by its sum, mu by the root of the sum of squares; epsilon of normal noise
    through its mu, exactly, at the sum of the deltas. Pure and approximate losses together are approximate; mu beside
    epsilon becomes epsilon at `delta`, by the exact profile of the Gaussian mechanism. Others are not mixed. The loss of
    each release for a particular difference between two tables is the least of: what follows from the law of its noise; the
    row of its own guarantee; as many steps of one record as the difference takes (`bayesdp.privacy.group_loss`). Rows that
    are not exact say that they are upper bounds, and so does a delta that has reached 1: no protection by this bound. Of
    statistics, releases of the same ones are composed, and epsilon for neighbouring data sets adds up.

    Parameters
    ----------
    *releases : Release
        At least two, about the same cells.
    delta : float, optional
        Only to put mu and epsilon together.
    at_delta : float, optional
        Also work out epsilon at this delta by convolution of the losses, strictly between 0 and 1: a row of its own for each
        kind of pairs where that epsilon is smaller than what follows from the sums. It is certain, for everything is rounded
        up. Of independent noise (`DiscreteLaplace`, `DiscreteGaussian`, `Laplace`) and normal noise the law of the loss is known;
        of other noise, and of noise within bounds, only the epsilon, or epsilon and delta, that the release loses, and the worst
        law with these is taken; of other noise with rho nothing, so that there is no such row. Where all laws are known exactly
        for all pairs of a row, it also says below which no epsilon will do. Not for statistics.

    Returns
    -------
    Composition
        Print it.

    Raises
    ------
    TypeError
        If an argument is no release.
    ValueError
        If there are fewer than two, one is given twice, they are about different tables, their exact parts
        contradict one another or leave no table of counts (the rows are named), or their losses cannot be added.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Proposition 2.9.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.mechanisms import ProjectedGaussian
    >>> from bayesdp.queries import Margins
    >>> labels = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> rng = np.random.default_rng(1)
    >>> table = [[5, 3], [2, 7], [4, 4]]
    >>> by_county = ProjectedGaussian(Margins(labels, ["county"]), mu=0.3).release(table, rng)
    >>> by_education = ProjectedGaussian(Margins(labels, ["education"]), mu=0.4).release(table, rng)
    >>> both = compose(by_county, by_education)
    >>> both
    <Composition of 2 releases: rank 4 from (3, 2), 2 dimensions free>
    >>> print(f"{both.guarantee.pairs[0].loss['mu']:.4f}")  # neighbouring tables
    0.5000

    Ten releases at epsilon = 0.2: by sums, and by convolution at a delta.

    >>> from bayesdp.mechanisms import DiscreteLaplace
    >>> from bayesdp.invariants import Invariants
    >>> plain = DiscreteLaplace(Invariants((), labels), epsilon=0.2)
    >>> ten = compose(*[plain.release(table, rng) for _ in range(10)], at_delta=1e-6)
    >>> for row in ten.guarantee.pairs:
    ...     if row.relation.startswith("neighbouring"):
    ...         print(row.loss)
    epsilon = 2
    epsilon = 1.78861, delta = 1e-06
    """
    if len(releases) < 2:
        raise ValueError(f"compose needs at least two releases, got {len(releases)}")
    if at_delta is not None:
        probability(at_delta, "at_delta")
    joint = joint_release(releases)
    if joint.about == "statistics":
        if at_delta is not None:
            raise ValueError("at_delta is for releases of tables, and these are of statistics: leave it out")
        differences: tuple[Difference, ...] = ()
        guarantee: Guarantee | None
        guarantee, unknown = total_of_statistics(releases)
    else:
        differences = kept_differences(joint.invariants) if joint.invariants.dimension else ()
        guarantee, unknown = total_guarantee(releases, joint, differences, delta, at_delta=at_delta)
    mechanism = together(releases, delta, at_delta)
    if guarantee is None:
        mechanism[LOSS_UNKNOWN] = unknown
    joint = replace(joint, guarantee=guarantee, mechanism=mechanism)
    return Composition(releases, joint, differences, unknown)


def together(releases: Sequence[Release], delta: float | None = None, at_delta: float | None = None) -> dict[str, Any]:
    """Describe a composition by the mechanisms of its releases, from which its total can be worked out again."""
    parts = [None if release.mechanism is None else dict(release.mechanism) for release in releases]
    count = len(releases)
    found: dict[str, Any] = {"mechanism": composition_name(count), "composition_of": count, "releases": parts}
    deltas = {"delta": delta, "at_delta": at_delta}
    return found | {name: float(value) for name, value in deltas.items() if value is not None}
