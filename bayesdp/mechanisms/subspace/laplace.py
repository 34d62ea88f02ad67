"""Laplace mechanisms of subspace differential privacy: projected noise, independent noise in coordinates, and mixtures of that."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp._validate import finite_array, positive_real
from bayesdp.mechanisms.subspace.base import SubspaceMechanism
from bayesdp.noise import ExtendedLaplace as ExtendedLaplaceLaw
from bayesdp.noise import MixedLaplace as MixedLaplaceLaw
from bayesdp.noise import ProjectedLaplace as ProjectedLaplaceLaw
from bayesdp.noise.subspace.laws import public_probabilities
from bayesdp.privacy import Guarantee, projected_sensitivity, query_sensitivity
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.losses import LossAt, PureDP
from bayesdp.sensitivities.norms import DifferenceNorm


@dataclass(frozen=True)
class SubspaceLaplace(SubspaceMechanism):
    """A subspace mechanism with Laplace noise: pure differential privacy at epsilon."""

    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", positive_real(self.epsilon, "epsilon"))

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The l1 distance between the answers of neighbouring tables that the scale is made for."""

    @property
    def b(self) -> float:
        """The scale of the noise, ``sensitivity / epsilon``, in the unit of the answers."""
        return self.sensitivity / self.epsilon

    @property
    def error(self) -> float:
        """Expected total squared error of the answers, ``2 * dimension * b**2``."""
        return 2.0 * self.answer_invariants.dimension * self.b**2

    @property
    def _noise_scale(self) -> float:
        return self.b

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(size / self.b)


@dataclass(frozen=True)
class InCoordinates(SubspaceMechanism):
    """Pure differential privacy by Laplace noise that is independent in orthonormal coordinates of the noise space."""

    @cached_property
    def sensitivity(self) -> float:
        """The largest l1 distance between the coordinates of the answers of neighbouring tables."""
        return projected_sensitivity(self.released_query, self.invariants, "l1", self.neighbours)

    @property
    def _own_guarantee(self) -> Guarantee:
        return Guarantee(
            "pure",
            LossAt(PureDP(self.epsilon), self.sensitivity),  # type: ignore[attr-defined]  # a field, or a property
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


@dataclass(frozen=True)
class ExtendedLaplace(InCoordinates, SubspaceLaplace):
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

    @property
    def law(self) -> ExtendedLaplaceLaw:
        """The law of the noise."""
        return ExtendedLaplaceLaw(self.b, self.answer_invariants.coordinate_rule)


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
    def law(self) -> ProjectedLaplaceLaw:
        """The law of the noise."""
        return ProjectedLaplaceLaw(self.b)

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


@dataclass(frozen=True)
class MixedLaplace(InCoordinates):
    """Publish answers with the noise of one of several `ExtendedLaplace` mechanisms, drawn with public probabilities.

    Which one it was stays unknown, so that the density of the answers is a mixture, and the loss is less than the largest
    of the epsilons: `epsilon` is the exact one, stated in the guarantee. Where the choice may be published use `PublishedChoice`,
    which takes mechanisms of all kinds.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    epsilons : sequence of float
        Losses for neighbouring tables of the mechanisms that are mixed.
    probabilities : sequence of float
        With which each of them is taken; they add up to 1.
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell, or one record comes or goes.

    Raises
    ------
    TypeError, ValueError
        If an epsilon or a probability is not positive, probabilities do not add up to 1 or are not as many as the epsilons,
        or the invariants determine the whole table or all answers.
    NotImplementedError
        If the table is too large for the sensitivity to be computed exactly.

    See Also
    --------
    bayesdp.noise.MixedLaplace : the law of the noise.
    bayesdp.distributions.MixedLaplace : that law as a PyMC distribution.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, end of Section 2.3; Kifer and Lin (2010), Towards an
    Axiomatization of Statistical Privacy and Utility (the privacy axiom of choice).

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> mechanism = MixedLaplace(Totals({"county": ["Alpha", "Beta", "Gamma"]}), [0.5, 1.0], [0.5, 0.5])
    >>> print(f"{mechanism.epsilon:.4f}")
    0.8780
    """

    epsilons: Any
    probabilities: Any

    name = "mixed-laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        given = np.asarray(finite_array(self.epsilons, "epsilons"), dtype=np.float64)
        weights = public_probabilities(self.probabilities, "probabilities")
        if given.shape != weights.shape:
            raise ValueError(
                f"epsilons must be as many as probabilities, {len(weights)}, got an array of shape {given.shape}"
            )
        object.__setattr__(self, "epsilons", tuple(positive_real(own, "epsilons") for own in given.tolist()))
        object.__setattr__(self, "probabilities", tuple(weights.tolist()))

    @cached_property
    def law(self) -> MixedLaplaceLaw:
        """The law of the noise."""
        scales = self.sensitivity / np.array(self.epsilons)
        smallest = float(scales.min())
        return MixedLaplaceLaw(smallest, scales / smallest, self.probabilities, self.answer_invariants.coordinate_rule)

    @property
    def epsilon(self) -> float:
        """The loss for neighbouring tables: exact, between the least and the largest of the epsilons."""
        return self.law.loss(self.sensitivity, self.answer_invariants.dimension)

    @property
    def error(self) -> float:
        """Expected total squared error of the answers: the mean of those of the mechanisms that are mixed."""
        law = self.law
        return 2.0 * self.answer_invariants.dimension * law.b**2 * float(law.weights @ law.ratios**2)

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data. See `Mechanism.describe`."""
        lists = {"epsilons": list(self.epsilons), "probabilities": list(self.probabilities)}
        return super().describe() | lists

    @property
    def _noise_scale(self) -> float:
        return self.law.b

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(self.law.loss(size, self.answer_invariants.dimension))
