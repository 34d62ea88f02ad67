"""Covariance matrices, published element by element within their bounds (Liu 2019, Section 4.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp._validate import Seed, choice, finite_array, positive_integer, positive_real, random_generator
from bayesdp.mechanisms.bounded.covariance_elements import (
    checked_covariance,
    covariance_edge,
    element_frame,
    element_law,
    element_sensitivities,
    pairs_of_bounds,
)
from bayesdp.mechanisms.bounded.covariance_release import CovarianceRelease
from bayesdp.mechanisms.bounded.real import CONVENTIONS, BoundaryInflatedLaplace, LaplaceStatistics, TruncatedLaplace
from bayesdp.mechanisms.bounded.rules import DescribedMechanism
from bayesdp.mechanisms.bounded.statistic_release import checked_names
from bayesdp.mechanisms.bounded.statistics import PUBLIC_BOUNDS
from bayesdp.noise import BoundedLaw
from bayesdp.noise.bounded.rescaled_laplace import RULES
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    PairLoss,
    Sensitivity,
    StatisticGuarantee,
    split_budget,
)
from bayesdp.privacy.caveats import GENERATOR_CAVEAT, Fixed, PaperElements
from bayesdp.privacy.losses import LossAt, PureDP
from bayesdp.privacy.pairs import Neighbours
from bayesdp.privacy.words import Words

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CovarianceMatrix(DescribedMechanism):
    """Publish a covariance matrix: variances within public bounds, then covariances within those of the released variances.

    The bounds of a covariance are computed from released values and cost nothing. They need not contain the
    confidential covariance: the noise is then as if it were at the nearer bound (truncated), or mostly at it (clipped).

    Parameters
    ----------
    epsilon : float
        Loss for data sets of which one record is another, for all elements together.
    n : int
        Public number of records.
    data_bounds : sequence of pairs of float
        Public bounds of each variable.
    names : sequence of str, optional
        Names of the variables.
    rule : {"boundary-inflated", "truncated"}
    parts : sequence of float, optional
        Budget of each element of the upper triangle, row by row, adding up to epsilon; equal ones by default.
    convention : {"exact", "paper"}
        ``"paper"`` keeps the scale ``sensitivity / epsilon`` for truncated noise; the guarantee states the true epsilon,
        `true_epsilon`.

    References
    ----------
    Liu (2019), Section 4.1 and Table 1.

    Examples
    --------
    >>> mechanism = CovarianceMatrix(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)], ["height", "weight"])
    >>> release = mechanism.release([[1.0, 0.5], [0.5, 2.0]], rng=np.random.default_rng(3))
    >>> release.guarantee.parameters["epsilon"] <= 1.0
    True
    >>> bool(abs(release.correlation[0, 1]) <= 1.0)
    True
    """

    epsilon: float
    n: int
    data_bounds: Any
    names: Any = None
    rule: str = field(default="boundary-inflated", kw_only=True)
    parts: Sequence[float] | None = field(default=None, kw_only=True)
    convention: str = field(default="exact", kw_only=True)

    name: ClassVar[str] = "covariance-matrix"

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        put(self, "n", positive_integer(self.n, "n"))
        choice(self.rule, RULES, "rule")
        put(self, "data_bounds", pairs_of_bounds(self.data_bounds))
        size = len(self.data_bounds)
        put(self, "names", checked_names(self.names, (size,)))
        choice(self.convention, CONVENTIONS, "convention")
        element_frame(self.names)  # that its elements can be named
        elements = size * (size + 1) // 2
        if self.parts is not None and len(self.parts) != elements:
            raise ValueError(
                f"parts must be one for each of {elements} elements of the upper triangle, got {len(self.parts)}"
            )
        put(self, "parts", split_budget(self.epsilon, elements if self.parts is None else list(self.parts)))
        _ = self._sensitivities

    @cached_property
    def _sensitivities(self) -> dict[tuple[int, int], Sensitivity]:
        return element_sensitivities(self.n, self.data_bounds)

    @property
    def true_epsilon(self) -> float:
        """What a release costs at most, whatever variances it publishes.

        Truncated noise of the paper's scale loses the more, the further its bounds are apart. Those of a covariance are the
        furthest where the released variances are at their upper bounds: what was lost for these is stated. The loss for the
        variances that were released instead depends on the data, and says nothing about what could have been published.
        """
        if self.convention == "exact":
            return self.epsilon
        return math.fsum(
            self._element(pair, part, self._sensitivities[pair].bounds).true_epsilon
            for pair, part in self._budget.items()
        )

    @property
    def _budget(self) -> dict[tuple[int, int], float]:
        return dict(zip(self._sensitivities, self._parts, strict=True))

    @property
    def _parts(self) -> Sequence[float]:
        return self.parts or ()  # never None once it is made

    def _element(self, pair: tuple[int, int], part: float, bounds: Any) -> LaplaceStatistics:
        """The mechanism for one element of the matrix."""
        kind = TruncatedLaplace if self.rule == "truncated" else BoundaryInflatedLaplace
        return kind(part, self._sensitivities[pair], bounds, convention=self.convention)

    def release(self, covariance: npt.ArrayLike, rng: Seed = None) -> CovarianceRelease:
        """Publish a sample covariance matrix (divisor n - 1).

        Parameters
        ----------
        covariance : array_like, shape (variables, variables)
            Confidential.
        rng : int, numpy.random.Generator or None
            Without one, a generator as in `TruncatedLaplace.release`: do that to publish.

        Raises
        ------
        ValueError
            If the matrix is not symmetric and positive semidefinite, or a variance is larger than data within the bounds
            can have; each to 1e-9 of the variances, for what rounding does.
        """
        rng = random_generator(rng)  # once: several draws follow
        truth = checked_covariance(covariance, self.names, self._largest, self.n)
        size = len(self.names)
        matrix, scales = np.zeros((size, size)), np.zeros((size, size))
        for i, j in sorted(self._sensitivities, key=lambda pair: pair[0] != pair[1]):  # variances first
            mechanism = self._given((i, j), np.diag(matrix))
            if mechanism is None:
                continue  # a released variance of 0: the covariance is 0, and nothing is spent
            # The same law as for the covariance itself under truncation; see bayesdp.noise.TruncatedLaplace.
            drawn = mechanism._rounded(
                np.asarray(mechanism.law.draw(rng, (), location=float(truth[i, j])), dtype=np.float64)
            )
            matrix[i, j] = matrix[j, i] = float(drawn)
            scales[i, j] = scales[j, i] = mechanism.scale
        simulated = rng is not None
        guarantee = self._guarantee(() if simulated else (GENERATOR_CAVEAT,), simulated)
        return CovarianceRelease(
            matrix, scales, self._largest, self.n, self.names, self.rule, guarantee, simulated, self.describe()
        )

    @property
    def _largest(self) -> Floats:
        """Upper bounds of the variances."""
        return np.array([self._sensitivities[i, i].bounds[1] for i in range(len(self.names))], dtype=np.float64)

    def _given(self, pair: tuple[int, int], variances: Floats) -> LaplaceStatistics | None:
        """The mechanism for one element, given the released variances; None for a covariance that can only be 0."""
        i, j = pair
        edge = self._largest[i] if i == j else covariance_edge(variances[i], variances[j])
        return self._element(pair, self._budget[pair], (0.0 if i == j else -edge, edge)) if edge else None

    def law_given(self, variances: npt.ArrayLike) -> tuple[BoundedLaw, npt.NDArray[np.bool_]]:
        """The law of the released elements given the released variances, and which covariances are 0 without noise.

        Parameters
        ----------
        variances : array_like, shape (variables,)
            Released ones, within 0 and their upper bounds.

        Returns
        -------
        law : BoundedLaw
            Of the upper triangle, row by row.
        without_noise : array of bool, shape (elements,)
            Covariances of a variable whose released variance is 0. The law has no meaning there.
        """
        released = np.asarray(finite_array(variances, "variances"), dtype=np.float64)
        elements = [self._given(pair, released) for pair in self._sensitivities]
        scales = np.array([0.0 if own is None else own.scale for own in elements])
        return element_law(self.rule, scales, released, self._largest)

    @property
    def guarantee(self) -> StatisticGuarantee:
        """What the mechanism protects: the same for all data and all noise.

        A loss that varies with what was released would tell something itself.
        """
        return self._guarantee((), False)

    def _guarantee(self, more: tuple[Words, ...], simulated: bool) -> StatisticGuarantee:
        whole, l1 = PureDP(self.true_epsilon), math.fsum(own.l1 for own in self._sensitivities.values())
        paper = (PaperElements(self.true_epsilon),) if self.convention == "paper" else ()
        return StatisticGuarantee(
            "pure",
            LossAt(whole, l1),
            "l1",
            (PairLoss(Neighbours("substitution", "data"), l1, "l1", whole),),
            simulated=simulated,
            caveats=(FLOATING_POINT_CAVEAT, *more, PUBLIC_BOUNDS, *paper, Fixed("elements added up")),
        )

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data: ``{"mechanism": "covariance-matrix", "epsilon": ..., ...}``."""
        stated = {item.name: getattr(self, item.name) for item in fields(self)}
        pairs = [[float(side) for side in pair] for pair in self.data_bounds]
        return {"mechanism": self.name, **stated, "data_bounds": pairs, "names": [*self.names], "parts": [*self._parts]}
