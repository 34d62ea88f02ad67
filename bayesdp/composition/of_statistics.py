"""What several releases of the same statistics cost together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bayesdp.privacy import PairLoss, StatisticGuarantee
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.stated_losses import LossAt
from bayesdp.release import Release

__all__ = ["total_of_statistics"]


def total_of_statistics(releases: Sequence[Release]) -> tuple[StatisticGuarantee | None, str | None]:
    """The total loss of releases of statistics for neighbouring data sets, or why there is none.

    By basic composition: epsilons add up, as the noise of releases is independent.
    """
    stated = [own.guarantee for own in releases]
    if any(own is None for own in stated):
        return None, "a release states no loss"
    known = [own for own in stated if own is not None]
    about = {own.pairs[0].about if own.pairs else None for own in known}
    if {own.kind for own in known} != {"pure"} or len(about) != 1 or None in about:
        return (
            None,
            "the releases state different definitions of privacy, or are about different neighbouring data sets",
        )
    first = known[0].pairs[0]
    epsilon = math.fsum(own.parameters["epsilon"] for own in known)
    size = max(own.parameters.get("sensitivity", 1.0) for own in known)
    caveats = tuple(dict.fromkeys(caveat for own in known for caveat in own.caveats))
    guarantee = StatisticGuarantee(
        "pure",
        LossAt(PureDP(epsilon), size),
        known[0].unit,
        (PairLoss(first.about, size, first.norm, PureDP(epsilon)),),
        simulated=any(own.simulated for own in known),
        caveats=caveats,
    )
    return guarantee, None
