"""The projected Laplace mechanism: pure differential privacy by real noise that keeps the invariants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bayesdp.mechanisms.subspace.laplace import SubspaceLaplace
from bayesdp.noise import ProjectedLaplace as Law
from bayesdp.privacy import Guarantee, query_sensitivity
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.stated_losses import LossAt
from bayesdp.sensitivities.norms import DifferenceNorm


@dataclass(frozen=True)
class ProjectedLaplace(SubspaceLaplace):
    """Publish answers with independent Laplace noise, projected so that it changes no invariant.

    The noise before the projection has the scale ``b = sensitivity / epsilon`` in every answer; the projection is
    post-processing. The noise after it is not a product, nor what conditioning on the invariants would give: its exact
    density is that of `bayesdp.noise.ProjectedLaplace`. It can be computed where no invariant shares a cell with another, and for
    few cells else: from 2 x 3 tables with both margins on, `logp` raises `NotImplementedError`, and posteriors have what the
    projection removed as a latent variable (`bayesdp.observe` does that).

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    epsilon : float
        Loss for neighbouring tables.
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (l1 distance 2 on the cells; the number of records is public),
        or one record comes or goes (1).

    Raises
    ------
    TypeError, ValueError
        If epsilon is not positive, or the invariants determine the whole table or all answers.

    See Also
    --------
    ExtendedLaplace : independent noise in orthonormal coordinates of the noise space.
    bayesdp.noise.ProjectedLaplace : the law of the noise.
    bayesdp.distributions.ProjectedLaplace : that law as a PyMC distribution; it takes b.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.8.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.queries import Totals
    >>> mechanism = ProjectedLaplace(Totals({"county": ["Alpha", "Beta", "Gamma"]}), epsilon=0.5)
    >>> mechanism.b
    4.0
    >>> float(mechanism.release([20, 10, 5], rng=np.random.default_rng(1)).values.sum())
    35.0
    """

    name = "projected-laplace"

    @cached_property
    def sensitivity(self) -> float:
        """The largest l1 distance between the answers of neighbouring tables, in counts."""
        return query_sensitivity(self.released_query, "l1", self.neighbours)

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return Law(self.b)

    @property
    def _own_guarantee(self) -> Guarantee:
        return Guarantee(
            "pure",
            LossAt(PureDP(self.epsilon), self.sensitivity),
            "l1",
            caveats=(Fixed("projected"),),
        )

    @property
    def _difference_norm(self) -> DifferenceNorm:
        return DifferenceNorm(self.released_query, self.invariants, self.neighbours, self.sensitivity, "l1")
