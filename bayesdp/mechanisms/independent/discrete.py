"""Discrete Laplace noise on the answers of a query, without invariants.

Discrete Gaussian noise on the answers of a query, without invariants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

from bayesdp._validate import positive_real
from bayesdp.mechanisms._shared import drawn_exactly, laplace_scale, one_statement
from bayesdp.mechanisms.independent.base import DiscreteMechanism
from bayesdp.noise import DiscreteGaussian as DiscreteGaussianLaw
from bayesdp.noise import DiscreteLaplace as DiscreteLaplaceLaw
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    Guarantee,
    discrete_gaussian_epsilon,
    gaussian_rho,
    gaussian_sigma_for_rho,
    query_sensitivity,
    rho_to_epsilon,
    rho_within,
)
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import ZCDP, ApproximateDP, LossAt, PureDP, all_of
from bayesdp.queries import SumPart


@dataclass(frozen=True, init=False)
class DiscreteLaplace(DiscreteMechanism):
    """Publish answers with discrete Laplace noise, of mass ``exp(-|k| / b)``: pure differential privacy.

    The scale is ``b = sensitivity / epsilon``, with the largest l1 change of the answers between neighbouring tables.

    Parameters
    ----------
    table : Query, or labels of a table
        What the noise is added to: a query, or the cells of a table.
    epsilon : float
        Loss for neighbouring tables.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.
    query : Query, optional
        The query, where `table` is the labels.

    See Also
    --------
    bayesdp.noise.DiscreteLaplace : the law of the noise.
    LatticeLaplace : the same with invariants.

    References
    ----------
    Ghosh, Roughgarden and Sundararajan (2009), Universally Utility-Maximizing Privacy Mechanisms (the geometric mechanism).

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> mechanism = DiscreteLaplace(Margins(table, ["county"]), epsilon=0.5)
    >>> mechanism.law
    DiscreteLaplace(b=4.0)
    >>> release = mechanism.release([[20, 10], [5, 1]])  # from the operating system's entropy, with integers only
    >>> release.measurements[0].values.dtype
    dtype('int64')
    """

    epsilon: float

    name = "discrete-laplace"

    def __init__(self, table: Any, epsilon: float, *, neighbours: str = "substitution", query: Any = None) -> None:
        object.__setattr__(self, "epsilon", positive_real(epsilon, "epsilon"))
        self._prepare(table, query, neighbours)

    @property
    def sensitivity(self) -> float:
        """The largest l1 change of the answers between neighbouring tables."""
        return query_sensitivity(self.released_query, "l1", self.neighbours)

    @property
    def law(self) -> DiscreteLaplaceLaw:
        """The law of the noise."""
        return DiscreteLaplaceLaw(laplace_scale(self.sensitivity, self.epsilon))

    def _guarantee(self, method: str) -> Guarantee:
        drawn_exactly(method, "independent noise")
        return Guarantee(
            "pure",
            LossAt(PureDP(self.epsilon), self.sensitivity),
            "l1",
            self._neighbouring("l1", PureDP(self.epsilon)),
            caveats=(FLOATING_POINT_CAVEAT,),
        )


@dataclass(frozen=True, init=False)
class DiscreteGaussian(DiscreteMechanism):
    """Publish answers with discrete Gaussian noise, of mass ``exp(-k**2 / (2 sigma**2))``.

    State the loss for neighbouring tables by `rho` (concentrated), or by `epsilon` and `delta`. Where a neighbour changes
    one answer by one (add-remove, a single set of sums), epsilon and delta are those of the exact profile of the law, and
    sigma is the smallest that has them; elsewhere the bound of concentrated privacy is converted, which is safe but
    not tight.

    Parameters
    ----------
    table : Query, or labels of a table
        What the noise is added to: a query, or the cells of a table.
    rho : float, optional
        zCDP loss.
    epsilon, delta : float, optional
        Approximate differential privacy.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.
    query : Query, optional
        The query, where `table` is the labels.

    See Also
    --------
    bayesdp.noise.DiscreteGaussian : the law of the noise.
    LatticeGaussian : the same with invariants.

    References
    ----------
    Canonne, Kamath and Steinke (2020), The Discrete Gaussian for Differential Privacy, Theorems 4 and 7.

    Examples
    --------
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> DiscreteGaussian(counties, rho=0.125, neighbours="add-remove").sigma
    2.0
    >>> print(f"{DiscreteGaussian(counties, epsilon=1.0, delta=0.0072487768, neighbours='add-remove').sigma:.6f}")
    2.000000
    """

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    name = "discrete-gaussian"
    _for_invariants = "LatticeGaussian"

    def __init__(
        self,
        table: Any,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        neighbours: str = "substitution",
        query: Any = None,
    ) -> None:
        set_loss(self, rho, epsilon, delta)
        self._prepare(table, query, neighbours)

    @property
    def sensitivity(self) -> float:
        """The largest l2 change of the answers between neighbouring tables."""
        return query_sensitivity(self.released_query, "l2", self.neighbours)

    @property
    def _single(self) -> bool:
        """Whether neighbouring tables differ by one in one answer."""
        return (
            self.neighbours == "add-remove"
            and len(self.released_query.parts) == 1
            and isinstance(self.released_query.parts[0], SumPart)
        )

    @property
    def sigma(self) -> float:
        """The scale of the noise, in counts."""
        if self.epsilon is None or self.delta is None:
            assert self.rho is not None  # one of the two ways was taken
            return gaussian_sigma_for_rho(self.rho, self.sensitivity)
        safe = gaussian_sigma_for_rho(rho_within(self.epsilon, self.delta), self.sensitivity)
        return _smallest_sigma(self.epsilon, self.delta, safe) if self._single else safe

    @property
    def law(self) -> DiscreteGaussianLaw:
        """The law of the noise."""
        return DiscreteGaussianLaw(self.sigma)

    def _guarantee(self, method: str) -> Guarantee:
        drawn_exactly(method, "independent noise")
        sigma = self.sigma
        rho = ZCDP(gaussian_rho(sigma, self.sensitivity))
        stated: Loss = rho
        loss: Loss = rho
        if self.epsilon is not None and self.delta is not None:
            stated = ApproximateDP(self.epsilon, self.delta)
            epsilon = (
                discrete_gaussian_epsilon(self.delta, sigma) if self._single else rho_to_epsilon(rho.rho, self.delta)
            )
            loss = all_of([rho, ApproximateDP(epsilon, self.delta)])
        return Guarantee(
            stated.kind,
            LossAt(stated, self.sensitivity),
            "l2",
            self._neighbouring("l2", loss),
            caveats=(FLOATING_POINT_CAVEAT,),
        )


def set_loss(mechanism: Any, rho: float | None, epsilon: float | None, delta: float | None) -> None:
    """Set the fields that state the loss: rho, or epsilon and delta."""
    given = {"rho": rho, "epsilon": epsilon, "delta": delta}
    one_statement(given, (("rho",), ("epsilon", "delta")))
    for name, value in given.items():
        object.__setattr__(mechanism, name, None if value is None else float(value))


def _smallest_sigma(epsilon: float, delta: float, safe: float) -> float:
    """The scale at which the exact profile of a shift of one count goes through (epsilon, delta), on the safe side; at most `safe`."""

    def excess(sigma: float) -> float:
        return discrete_gaussian_epsilon(delta, sigma) - epsilon

    low = safe
    while excess(low) <= 0.0:
        low *= 0.5
        if low < 1e-3:  # all the mass is at zero: delta is close to 1
            return safe
    sigma = float(brentq(excess, low, safe, rtol=1e-14))
    while excess(sigma) > 0.0 and sigma < safe:
        sigma *= 1.0 + 1e-13
    return min(sigma, safe)
