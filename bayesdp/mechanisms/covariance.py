"""Covariance matrices, published element by element within their bounds (Liu 2019, Section 4.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import Seed, choice, finite_array, positive_integer, positive_real, random_generator
from bayesdp.mechanisms.bounded_statistics import BoundaryInflatedLaplace, TruncatedLaplace
from bayesdp.mechanisms.covariance_release import CovarianceRelease, covariance_edge
from bayesdp.mechanisms.statistic_release import checked_names
from bayesdp.noise.rescaled_laplace import RULES
from bayesdp.privacy import PairLoss, Sensitivity, covariance_sensitivity, split_budget, variance_sensitivity

__all__ = ["CovarianceMatrix"]

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CovarianceMatrix:
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
        ``"paper"`` keeps the scale ``sensitivity / epsilon`` for truncated noise; the guarantee states the true epsilon.

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

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        put(self, "n", positive_integer(self.n, "n"))
        choice(self.rule, RULES, "rule")
        if not hasattr(self.data_bounds, "__len__") or len(self.data_bounds) < 1:
            raise TypeError(f"data_bounds must be a pair of bounds for each variable, got {self.data_bounds!r}")
        put(self, "data_bounds", tuple(tuple(pair) for pair in self.data_bounds))
        size = len(self.data_bounds)
        put(self, "names", checked_names(self.names, (size,)))
        elements = size * (size + 1) // 2
        if self.parts is not None and len(self.parts) != elements:
            raise ValueError(
                f"parts must be one for each of {elements} elements of the upper triangle, got {len(self.parts)}"
            )
        put(self, "parts", split_budget(self.epsilon, elements if self.parts is None else list(self.parts)))
        _ = self._sensitivities

    @cached_property
    def _sensitivities(self) -> dict[tuple[int, int], Sensitivity]:
        size = len(self.data_bounds)
        return {
            (i, j): variance_sensitivity(self.n, self.data_bounds[i])
            if i == j
            else covariance_sensitivity(self.n, self.data_bounds[i], self.data_bounds[j])
            for i in range(size)
            for j in range(i, size)
        }

    def release(self, covariance: npt.ArrayLike, rng: Seed = None) -> CovarianceRelease:
        """Publish a sample covariance matrix (divisor n - 1).

        Parameters
        ----------
        covariance : array_like, shape (variables, variables)
            Confidential.
        rng : int, numpy.random.Generator or None
            Without one, entropy of the operating system: do that to publish.

        Raises
        ------
        ValueError
            If the matrix is not symmetric and positive semidefinite, or a variance is larger than data within the bounds
            can have.
        """
        rng = random_generator(rng)  # once: several draws follow
        truth = np.asarray(finite_array(covariance, "covariance"), dtype=np.float64)
        size = len(self.names)
        if truth.shape != (size, size) or not np.allclose(truth, truth.T, rtol=1e-12, atol=0.0):
            raise ValueError(f"covariance must be symmetric, of shape {(size, size)}, got shape {truth.shape}")
        if np.linalg.eigvalsh(truth)[0] < -1e-9 * max(float(np.trace(truth)), 0.0):
            raise ValueError("covariance must be positive semidefinite, as sample covariance matrices are")
        kind = TruncatedLaplace if self.rule == "truncated" else BoundaryInflatedLaplace
        budget = dict(zip(self._sensitivities, self.parts or (), strict=True))
        matrix, scales, spent, stated = np.zeros((size, size)), np.zeros((size, size)), [], None
        for i, j in sorted(self._sensitivities, key=lambda pair: pair[0] != pair[1]):  # variances first
            own = self._sensitivities[i, j]
            edge = own.bounds[1] if i == j else covariance_edge(matrix[i, i], matrix[j, j])
            if not edge:
                continue  # a released variance of 0: the covariance is 0, and nothing is spent
            mechanism = kind(budget[i, j], own, (0.0 if i == j else -edge, edge), convention=self.convention)
            location = float(truth[i, j])
            if i == j and not mechanism.law.bounds[0] <= location <= mechanism.law.bounds[1] * (1.0 + 1e-12):
                raise ValueError(
                    f"covariance must have a variance of {self.names[i]} of at most {edge:.6g}, which data within the bounds can "
                    f"have at n = {self.n}: the bounds are wrong, or something else was computed"
                )
            # The same law as for the covariance itself under truncation; see bayesdp.noise.TruncatedLaplace.
            drawn = mechanism._rounded(np.asarray(mechanism.law.draw(rng, (), location=location), dtype=np.float64))
            matrix[i, j] = matrix[j, i] = float(drawn)
            scales[i, j] = scales[j, i] = mechanism.scale
            spent.append(mechanism.true_epsilon)
            stated = stated or mechanism._guarantee((), rng is not None)
        if stated is None:
            raise RuntimeError("there is a variance")
        # What is unspent depends on released values only; the whole is stated, so that it does not vary.
        whole = self.epsilon if self.convention == "exact" else max(math.fsum(spent), self.epsilon)
        neighbours = stated.pairs[0].relation
        l1 = math.fsum(own.l1 for own in self._sensitivities.values())
        guarantee = replace(
            stated,
            parameters={"epsilon": whole, "sensitivity": l1},
            pairs=(PairLoss(neighbours, l1, "l1", {"epsilon": whole}),),
            caveats=(
                *(c for c in stated.caveats if not c.startswith(("Paper convention", "Released values"))),
                "Bounds of covariances come from released variances. The losses of all elements are added up.",
            ),
        )
        largest = np.array([self._sensitivities[i, i].bounds[1] for i in range(size)], dtype=np.float64)
        return CovarianceRelease(matrix, scales, largest, self.n, self.names, self.rule, guarantee, rng is not None)
