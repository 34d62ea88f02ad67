"""Counts with public bounds: discrete Laplace noise on the answers of a query, truncated or clipped (Liu 2019, discrete laws)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp._validate import choice, positive_real
from bayesdp.mechanisms.bounded.counts import PUBLIC_BOUNDS, BoundedCounts, ClippedCounts
from bayesdp.mechanisms.bounded.laplace_statistics import CONVENTIONS
from bayesdp.mechanisms.independent.discrete_laplace import DiscreteLaplace
from bayesdp.noise import BoundaryInflatedDiscreteLaplace as InflatedLaplaceLaw
from bayesdp.noise import TruncatedDiscreteLaplace as TruncatedLaplaceLaw
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    Guarantee,
    query_sensitivity,
    truncated_epsilon,
    truncated_scale,
)
from bayesdp.privacy.caveats import PaperScale
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.stated_losses import LossAt


@dataclass(frozen=True, init=False, eq=False)
class TruncatedDiscreteLaplace(BoundedCounts):
    """Publish answers with discrete Laplace noise given that the results are within public bounds.

    The scale is solved for, so that epsilon is the largest loss over all changes of the answers that one record can make: for
    cells it is attained, for other queries it may be an upper bound. The scale is more than the ``sensitivity / epsilon`` of
    noise without bounds, because the normaliser tells something about the answer.

    Parameters
    ----------
    table : Query, or labels of a table
        What is published: a query, or the cells of a table.
    epsilon : float
        Loss for neighbouring tables.
    bounds : pair of int or array_like
        Lower and upper bound of each answer, for example 0 and the public number of records; None where there is none. They
        must hold for all neighbours too: a table beyond them is refused, which tells it apart.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.
    query : Query, optional
        The query, where `table` is the labels.
    convention : {"exact", "paper"}
        ``"paper"`` keeps the scale ``sensitivity / epsilon``; the guarantee states the true epsilon.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid: bounds reversed, equal or fractional.

    See Also
    --------
    bayesdp.noise.TruncatedDiscreteLaplace : the law.
    BoundaryInflatedDiscreteLaplace : clipping, which costs no more than the noise.

    References
    ----------
    Liu (2019), Definition 2(a), for integers.

    Examples
    --------
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> mechanism = TruncatedDiscreteLaplace(counties, epsilon=0.5, bounds=(0, 50))
    >>> print(f"{mechanism.law.b:.4f} {mechanism.true_epsilon:.6f}")
    7.0644 0.500000
    >>> release = mechanism.release([0, 12, 38])  # from the operating system's entropy, with integers only
    >>> bool(release.values.min() >= 0 and release.values.max() <= 50)
    True
    """

    epsilon: float
    convention: str = field(default="exact", kw_only=True)

    name = "truncated-discrete-laplace"

    def __init__(
        self,
        table: Any,
        epsilon: float,
        bounds: Any,
        *,
        neighbours: str = "substitution",
        query: Any = None,
        convention: str = "exact",
    ) -> None:
        object.__setattr__(self, "epsilon", positive_real(epsilon, "epsilon"))
        object.__setattr__(self, "convention", choice(convention, CONVENTIONS, "convention"))
        self._bounded(table, bounds, query, neighbours)

    @property
    def sensitivity(self) -> float:
        """The largest l1 change of the answers between neighbouring tables."""
        return query_sensitivity(self.released_query, "l1", self.neighbours)

    @cached_property
    def _scale(self) -> float:
        if self.convention == "paper":
            return float(self.sensitivity / self.epsilon)
        largest, changed = self._changes
        low, high = self._sides
        return truncated_scale(
            self.epsilon, high - low, self.sensitivity, largest=largest, changed=changed, discrete=True
        )

    @cached_property
    def true_epsilon(self) -> float:
        """The largest loss over all changes of the answers that one record can make: never too small."""
        largest, changed = self._changes
        low, high = self._sides
        size = np.full(self.released_query.shape, self._scale)
        return truncated_epsilon(size, high - low, self.sensitivity, largest=largest, changed=changed, discrete=True)

    @property
    def law(self) -> TruncatedLaplaceLaw:
        """The law of the released values."""
        return TruncatedLaplaceLaw(self._scale, self.bounds)

    def _guarantee(self, method: str) -> Guarantee:
        choice(method, ("auto", "exact"), "method")
        true = self.true_epsilon
        paper = PaperScale(self._scale, self.epsilon, true, counts=True)
        return Guarantee(
            "pure",
            LossAt(PureDP(true), self.sensitivity),
            "l1",
            self._neighbouring("l1", PureDP(true)),
            caveats=(*((paper,) if self.convention == "paper" else ()), FLOATING_POINT_CAVEAT, PUBLIC_BOUNDS),
        )


@dataclass(frozen=True, init=False, eq=False)
class BoundaryInflatedDiscreteLaplace(ClippedCounts):
    """Publish answers with discrete Laplace noise, moved to the nearer public bound where the result is outside (BIT).

    Clipping is post-processing: epsilon, and the scale, are those of `DiscreteLaplace`.

    Parameters
    ----------
    table, epsilon, bounds, neighbours, query
        As for `TruncatedDiscreteLaplace`.

    See Also
    --------
    bayesdp.noise.BoundaryInflatedDiscreteLaplace : the law.

    References
    ----------
    Liu (2019), Definition 2(b), for integers.

    Examples
    --------
    >>> mechanism = BoundaryInflatedDiscreteLaplace({"county": ["Alpha", "Beta"]}, epsilon=0.5, bounds=(0, 50))
    >>> mechanism.law
    BoundaryInflatedDiscreteLaplace(b=4.0, bounds=(0.0, 50.0))
    """

    epsilon: float

    name = "boundary-inflated-discrete-laplace"

    def __init__(
        self, table: Any, epsilon: float, bounds: Any, *, neighbours: str = "substitution", query: Any = None
    ) -> None:
        object.__setattr__(self, "epsilon", positive_real(epsilon, "epsilon"))
        self._bounded(table, bounds, query, neighbours)

    @cached_property
    def _free(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.released_query, self.epsilon, neighbours=self.neighbours)

    @property
    def law(self) -> InflatedLaplaceLaw:
        """The law of the released values."""
        return InflatedLaplaceLaw(self._free.law.b, self.bounds)
