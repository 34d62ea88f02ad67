"""What several releases of the same statistics cost together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from bayesdp.privacy import PairLoss, StatisticGuarantee
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.stated_losses import LossAt
from bayesdp.release import Release


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
