"""Whether the guarantee of a released covariance matrix states the loss that noise of its scales has."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from bayesdp.mechanisms.bounded.covariance_release import CovarianceRelease
from bayesdp.mechanisms.stated.agreement import alike
from bayesdp.mechanisms.stated.statistics import check_guarantee
from bayesdp.privacy import PairLoss, covariance_sensitivity, truncated_epsilon, variance_sensitivity
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.relations import Neighbours
from bayesdp.privacy.stated_losses import LossAt

__all__ = ["check_covariance"]


def check_covariance(release: CovarianceRelease) -> None:
    """Check the guarantee of a covariance matrix.

    The upper bounds of the variances and the number of records fix the sensitivities, and these with the scales the loss of each
    element. A covariance whose bounds are both 0 got no noise, but had a part of the budget, which is not known any more: then
    the guarantee may state more.

    Raises
    ------
    ValueError
        If it states another loss, or another distance of neighbours. The message names both sides.
    """
    stated = release.guarantee
    if stated is None:
        return
    one, both = variance_sensitivity(release.n, (0.0, 1.0)), covariance_sensitivity(release.n, (0.0, 1.0), (0.0, 1.0))
    of_one: Any = one.bounds  # both sides are numbers, as they are of every moment
    of_both: Any = both.bounds
    # Bounds of a variance are in proportion to the square of the range of the data.
    ranges = np.sqrt(release.largest / of_one[1])
    size = len(ranges)
    l1s, here, widest, unspent = [], [], [], False
    for i, j in zip(*np.triu_indices(size), strict=True):
        l1 = float(ranges[i] * ranges[j] * (one.l1 if i == j else both.l1))
        l1s.append(l1)
        scale = float(release.scales[i, j])
        if not scale:
            unspent = True
            continue
        low, high = release.bounds(int(i), int(j))
        far = float(release.largest[i] if i == j else ranges[i] * ranges[j] * (of_both[1] - of_both[0]))
        here.append(_lost(release.rule, scale, high - low, l1))
        widest.append(_lost(release.rule, scale, far, l1))
    # In the paper's convention the loss is stated at the bounds at which it is largest, and else it is the same at all bounds.
    least, most = math.fsum(here), math.fsum(widest)
    claim = stated.parameters.get("epsilon", math.nan)
    true = claim if alike(claim, most) or (unspent and claim >= least) else least
    own = replace(
        stated,
        kind="pure",
        unit="l1",
        parameters=LossAt(PureDP(true), math.fsum(l1s)),
        pairs=(PairLoss(Neighbours("substitution", "data"), math.fsum(l1s), "l1", PureDP(true)),),
    )
    check_guarantee(own, stated, release.simulated, "the covariance matrix")


def _lost(rule: str, scale: float, width: float, l1: float) -> float:
    return l1 / scale if rule == "boundary-inflated" else truncated_epsilon(scale, width, l1)
