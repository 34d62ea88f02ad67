"""What a release of a covariance matrix has to say of its law and its guarantee, given the variances that it publishes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import positive_integer, shown
from bayesdp.mechanisms.bounded.covariance import CovarianceMatrix
from bayesdp.mechanisms.bounded.covariance_elements import LAWS, as_matrix, element_law, upper_triangle, variables_of
from bayesdp.mechanisms.stated.agreement import alike
from bayesdp.noise import BoundedLaw, BoxNorm
from bayesdp.privacy import (
    Guarantee,
    PairLoss,
    StatisticGuarantee,
    covariance_sensitivity,
    truncated_epsilon,
    variance_sensitivity,
)
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.relations import Neighbours
from bayesdp.privacy.stated_losses import LossAt
from bayesdp.queries import Identity
from bayesdp.release import Measured

__all__ = ["PublishedElements", "published_elements"]


@dataclass(frozen=True)
class PublishedElements:
    """A mechanism for a covariance matrix, given what it has released: one for its elements."""

    query: Identity
    law: BoundedLaw | BoxNorm
    guarantee: StatisticGuarantee
    name: str = CovarianceMatrix.name

    @property
    def names(self) -> tuple[str, ...]:
        """Labels of the elements."""
        return tuple(map(str, self.query.frame.labels[0]))

    @property
    def true_epsilon(self) -> float:
        """What the release costs, or what is known of it: the loss at the released bounds."""
        return float(self.guarantee.parameters["epsilon"])


def published_elements(
    description: Mapping[str, Any], measured: Measured, stated: Guarantee | None
) -> PublishedElements:
    """The law and the guarantee that follow from the description of a mechanism and the released variances."""
    # `description`: as `CovarianceMatrix.describe` gives it, or the number of records alone, for matrices that somebody else has
    # published. `stated`: of the release.
    variables, released = variables_of(measured.query.frame), measured.law
    if variables is None or not isinstance(released, BoundedLaw) or not isinstance(released, tuple(LAWS.values())):
        raise ValueError(
            f"the mechanism {CovarianceMatrix.name!r} publishes elements named a:a, a:b and so on, with a law within bounds, but "
            f"released are {shown(measured.query.names)} with the law {released.name}"
        )
    matrix = as_matrix(np.where(measured.unmeasured, 0.0, measured.values))
    variances = np.diag(matrix)
    if set(description) == {"mechanism", "n"}:
        law, hidden, guarantee = _from_scales(positive_integer(description["n"], "n"), released, variances, stated)
    else:
        mechanism = CovarianceMatrix.from_description(description)
        if mechanism.names != variables:
            raise ValueError(
                f"its variables are {shown(mechanism.names)}, but released are those of {shown(variables)}"
            )
        (law, hidden), guarantee = mechanism.law_given(variances), mechanism.guarantee
    odd = np.flatnonzero(hidden != measured.unmeasured)
    if odd.size:
        raise ValueError(
            f"{measured.query.answer_name(int(odd[0]))} must be {'left out' if hidden[odd[0]] else 'published'}: covariances of a "
            "variable whose released variance is 0 are left out, and no others"
        )
    return PublishedElements(Identity(measured.query.frame), law, guarantee)


def _from_scales(
    n: int, released: BoundedLaw, variances: npt.NDArray[np.float64], stated: Guarantee | None
) -> tuple[BoundedLaw, npt.NDArray[np.bool_], StatisticGuarantee]:
    """What follows from the number of records and the scales."""
    # The upper bounds of the variances and the number of records fix the sensitivities, and these with the scales the loss of each
    # element. A covariance whose bounds are both 0 got no noise, but had a part of the budget, which is not known: then the
    # guarantee may state more.
    one, both = variance_sensitivity(n, (0.0, 1.0)), covariance_sensitivity(n, (0.0, 1.0), (0.0, 1.0))
    of_one: Any = one.bounds  # both sides are numbers, as they are of every moment
    of_both: Any = both.bounds
    rule = next(rule for rule, law in LAWS.items() if isinstance(released, law))
    scales, upper = (
        np.broadcast_to(side, (len(variances) * (len(variances) + 1) // 2,))
        for side in (released.scale, released.upper)
    )
    largest = np.diag(as_matrix(upper))
    law, hidden = element_law(rule, scales, variances, largest)
    # Bounds of a variance are in proportion to the square of the range of the data.
    ranges = upper_triangle(np.sqrt(np.outer(largest, largest)) / of_one[1])
    diagonal = upper_triangle(np.eye(len(variances))) == 1.0
    l1s = ranges * np.where(diagonal, one.l1, both.l1)
    far = np.where(diagonal, upper, ranges * (of_both[1] - of_both[0]))
    near = np.where(diagonal, upper, 2.0 * np.asarray(law.upper))
    kept = np.flatnonzero(~hidden)
    # In the paper's convention the loss is stated at the bounds at which it is largest, and else it is the same at all bounds.
    least, most = (
        math.fsum(
            float(l1s[k] / scales[k])
            if rule == "boundary-inflated"
            else truncated_epsilon(scales[k], widths[k], float(l1s[k]))
            for k in kept
        )
        for widths in (near, far)
    )
    claim = least if stated is None else stated.parameters.get("epsilon", math.nan)
    true = PureDP(claim if alike(claim, most) or (hidden.any() and claim >= least) else least)
    l1 = math.fsum(l1s)
    row = PairLoss(Neighbours("substitution", "data"), l1, "l1", true)
    made = StatisticGuarantee("pure", LossAt(true, l1), "l1", (row,))
    return law, hidden, made if stated is None else replace(made, person=stated.person)
