"""Laplace mechanisms: noise of an l1 norm (projected, in coordinates), and of the l2 and l-infinity norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayesdp import noise
from bayesdp._validate import choice
from bayesdp.mechanisms.families import PureStatement, RealNoise
from bayesdp.mechanisms.protects import Neighbouring, SemiAdjacentAnswers, SemiAdjacentTables, WithinNoiseSpace
from bayesdp.noise.subspace.subspace_norm import NORMS
from bayesdp.privacy import DIFFERENCES, Difference
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.losses import PureDP


@dataclass(frozen=True)
class LaplaceNoise(PureStatement, RealNoise):
    """Laplace noise of a scale b."""

    @property
    def b(self) -> float:
        """The scale of the noise, ``sensitivity / epsilon``, in the unit of the answers."""
        return self._stated_size / self.epsilon

    @property
    def error(self) -> float:
        """Expected total squared error of the answers, ``2 * dimension * b**2``."""
        return 2.0 * self.answer_invariants.dimension * self.b**2

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(size / self.b)


@dataclass(frozen=True)
class ProjectedNoise(LaplaceNoise):
    """Independent Laplace noise, projected onto the space that the invariants leave free."""

    _law_caveats = (Fixed("projected"),)

    @property
    def law(self) -> noise.ProjectedLaplace:
        """The law of the noise."""
        return noise.ProjectedLaplace(self.b)


@dataclass(frozen=True)
class ExtendedLaplace(LaplaceNoise, WithinNoiseSpace):
    """Publish answers with Laplace noise that is independent in orthonormal coordinates ``Q`` of the noise space.

    The scale is ``b = sensitivity / epsilon`` with the l1 sensitivity of ``Q^T W x``. That depends on the coordinates,
    and so does the law of the noise: the release carries the rule that fixes them (`Invariants.coordinate_rule`).
    Unlike for the Gaussian, nothing says that this is less noise than that of `ProjectedLaplace`; compare `error`.

    Raises
    ------
    NotImplementedError
        If the table is too large for the sensitivity to be computed exactly.

    See Also
    --------
    bayesdp.noise.ExtendedLaplace, bayesdp.distributions.ExtendedLaplace : the law, also for PyMC; it takes b.

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
    _law_caveats = (Fixed("published coordinates"),)

    @property
    def _measure(self) -> dict[str, Any]:
        relations = self.answer_invariants
        helmert = relations.nested is not None and len(self.released_query.parts) == 1
        # Without relations, the answers themselves.
        return {"kind": "l1", "coordinates": relations.coordinates if relations.rank else None, "helmert": helmert}

    @property
    def law(self) -> noise.ExtendedLaplace:
        """The law of the noise."""
        return noise.ExtendedLaplace(self.b, self.answer_invariants.coordinate_rule)


@dataclass(frozen=True)
class ProjectedLaplace(ProjectedNoise, Neighbouring):
    """Publish answers with independent Laplace noise, projected so that it changes no invariant.

    The noise before the projection has the scale ``b = sensitivity / epsilon`` in every answer; the projection is
    post-processing. The noise after it is not a product, nor what conditioning on the invariants would give: its exact
    density is that of `bayesdp.noise.ProjectedLaplace`. It can be computed where no invariant shares a cell with another; elsewhere
    `logp` raises `NotImplementedError`, and posteriors have what the projection removed as a latent variable (`bayesdp.observe`
    does that).

    See Also
    --------
    ExtendedLaplace : independent noise in orthonormal coordinates of the noise space.
    bayesdp.noise.ProjectedLaplace, bayesdp.distributions.ProjectedLaplace : the law, also for PyMC; it takes b.

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


@dataclass(frozen=True)
class SemiProjectedLaplace(ProjectedNoise, SemiAdjacentTables):
    """Publish counts with independent Laplace noise of scale ``Delta_1(S_Semi) / epsilon``, projected onto the span.

    The l1 mechanism (Algorithm 4), and post-processing. `SemiNorm` with the norm l1 has less noise at the same loss.

    See Also
    --------
    bayesdp.papers.semi_dp.semi_project : the same for any additive noise, without a likelihood.
    bayesdp.noise.ProjectedLaplace, bayesdp.distributions.ProjectedLaplace : the law, also for PyMC; it takes b.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 26 and Algorithm 4.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = SemiProjectedLaplace(Margins(table, ["county"], ["education"]), epsilon=0.5)
    >>> mechanism.b, mechanism.error
    (12.0, 1152.0)
    """

    name = "semi-projected-laplace"


@dataclass(frozen=True)
class SemiNorm(PureStatement, RealNoise, SemiAdjacentAnswers):
    """Publish answers with noise of density ``exp(-epsilon ||z|| / Delta(S_Semi))`` on the span of the sensitivity space.

    With both margins of a table and two records the l1 norm is the best of the three, 6 to 13 percent above `SemiKNorm` in squared
    error. With three records, the default, the l-infinity norm is that of `SemiKNorm` for 3 x 3 tables, and the l1 norm the best of
    the three from 4 x 4 on. Noise is drawn exactly: for l2 under any invariants; for l1 and l-infinity under disjoint totals, both
    margins of a table (10 x 10 in tens of milliseconds) and, by rejection, other small tables. Where no exact sampler is
    practical, `noise`, `release` and `guarantee` say so by a `NotImplementedError`.

    Parameters
    ----------
    norm : {"l1", "l2", "linf"}, default "l1"

    See Also
    --------
    SemiLatticeLaplace : the same on integers, l1 and l2.
    SemiProjectedLaplace : independent Laplace noise, projected: more of it than here.
    bayesdp.noise.SubspaceNorm, bayesdp.distributions.SubspaceNorm : the law, also for PyMC.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 7 and Algorithms 4 to 6, on the span.

    Examples
    --------
    Expected squared error of a 3 x 3 table with both margins, in units of ``1 / epsilon**2``, for two records:

    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Margins(table, ["county"], ["education"])
    >>> for norm in ("l1", "l2", "linf"):
    ...     print(norm, round(SemiNorm(margins, epsilon=1.0, norm=norm, adjacency=2).error, 1))
    l1 50.7
    l2 80.0
    linf 64.6
    """

    norm: str = "l1"

    name = "semi-norm"

    def __post_init__(self) -> None:
        choice(self.norm, NORMS, "norm")
        super().__post_init__()

    @property
    def rate(self) -> float:
        """The rate of the noise per count, ``epsilon / sensitivity``."""
        return self.epsilon / self.sensitivity

    @property
    def law(self) -> noise.SubspaceNorm:
        """The law of the noise."""
        return noise.SubspaceNorm(self.rate, self.norm)

    @property
    def error(self) -> float | None:
        """Expected total squared error of the answers, or None where it has no closed form."""
        variance = self.law.variance(self.answer_invariants.frame.shape, self.answer_invariants)
        return None if variance is None else float(variance.sum())

    @property
    def _unit(self) -> str:
        return self.norm

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(self.rate * size)

    def _size_of(self, difference: Difference) -> float | None:
        if self.norm == "linf":
            # Each named difference changes its cells by one.
            return 1.0 if difference in DIFFERENCES.values() else None
        return difference.size(self.norm)
