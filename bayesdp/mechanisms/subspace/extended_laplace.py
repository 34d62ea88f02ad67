"""The extended Laplace mechanism: independent Laplace noise in orthonormal coordinates of the noise space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bayesdp.mechanisms.subspace.laplace import SubspaceLaplace
from bayesdp.noise import ExtendedLaplace as Law
from bayesdp.privacy import Guarantee, projected_sensitivity
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.stated_losses import LossAt
from bayesdp.sensitivities.norms import DifferenceNorm


@dataclass(frozen=True)
class ExtendedLaplace(SubspaceLaplace):
    """Publish answers with Laplace noise that is independent in orthonormal coordinates ``Q`` of the noise space.

    The scale is ``b = sensitivity / epsilon`` with the l1 sensitivity of ``Q^T W x``. That depends on the coordinates,
    and so does the law of the noise: the release carries the rule that fixes them (`Invariants.coordinate_rule`).
    Unlike for the Gaussian, nothing says that this is less noise than that of `ProjectedLaplace`; compare `error`.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    epsilon : float
        Loss for neighbouring tables.
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell, or one record comes or goes.

    Raises
    ------
    TypeError, ValueError
        If epsilon is not positive, or the invariants determine the whole table or all answers.
    NotImplementedError
        If the table is too large for the sensitivity to be computed exactly.

    See Also
    --------
    bayesdp.noise.ExtendedLaplace : the law of the noise.
    bayesdp.distributions.ExtendedLaplace : that law as a PyMC distribution; it takes b.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.9.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> mechanism = ExtendedLaplace(Totals({"county": ["Alpha", "Beta", "Gamma"]}), epsilon=0.5)
    >>> print(f"{mechanism.sensitivity:.4f} {mechanism.law}")
    1.9319 extended-laplace b=3.8637 coordinates=helmert-1
    """

    name = "extended-laplace"

    @cached_property
    def sensitivity(self) -> float:
        """The largest l1 distance between the coordinates of the answers of neighbouring tables."""
        return projected_sensitivity(self.released_query, self.invariants, "l1", self.neighbours)

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return Law(self.b, self.answer_invariants.coordinate_rule)

    @property
    def _own_guarantee(self) -> Guarantee:
        return Guarantee(
            "pure",
            LossAt(PureDP(self.epsilon), self.sensitivity),
            "l1",
            caveats=(Fixed("published coordinates"),),
        )

    @property
    def _difference_norm(self) -> DifferenceNorm:
        relations = self.answer_invariants
        return DifferenceNorm(
            self.released_query,
            self.invariants,
            self.neighbours,
            self.sensitivity,
            "l1",
            relations.coordinates if relations.rank else None,  # without relations, the answers themselves
            helmert=relations.nested is not None and len(self.released_query.parts) == 1,
        )
