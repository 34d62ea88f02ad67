"""Covariance matrices, all elements published at once: noise in the norm of the element that changes most.

What is published of a covariance matrix whose elements have noise of one radius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp._validate import Seed, finite_array, nonnegative_real, positive_integer, positive_real, random_generator
from bayesdp.mechanisms.bounded.covariance_elements import (
    as_matrix,
    checked_covariance,
    element_frame,
    element_sensitivities,
    pairs_of_bounds,
    upper_triangle,
)
from bayesdp.mechanisms.bounded.covariance_release import MatrixRelease, read_only
from bayesdp.mechanisms.bounded.rules import DescribedMechanism
from bayesdp.mechanisms.bounded.statistic_release import checked_names
from bayesdp.mechanisms.bounded.statistics import PUBLIC_BOUNDS
from bayesdp.noise import BoxNorm
from bayesdp.privacy import FLOATING_POINT_CAVEAT, PairLoss, StatisticGuarantee
from bayesdp.privacy.caveats import GENERATOR_CAVEAT
from bayesdp.privacy.losses import LossAt, PureDP
from bayesdp.privacy.pairs import Neighbours
from bayesdp.privacy.words import Words
from bayesdp.queries import Identity
from bayesdp.release import Measured

type Floats = npt.NDArray[np.float64]

_GRID_BITS = 20


@dataclass(frozen=True)
class JointCovariance(DescribedMechanism):
    """Publish a covariance matrix with noise of one radius for all elements: about half of the epsilon for the same error.

    One record changes the element of variables with ranges R and R' by ``R R' / n`` at most, and can change all elements by that much
    at once. Noise whose density falls with the largest of these changes, `bayesdp.noise.BoxNorm` with scales
    ``R R' / (n epsilon)``, hides it with a loss of exactly epsilon, and no part of epsilon is given to single elements, as
    `CovarianceMatrix` does. Its mean squared error is ``(d + 1) (d + 2) / (6 d**2)`` times that of equal parts, d the number
    of elements, before anything is kept within bounds: 0.37 for two variables, 0.20 for five.

    Elements are published as they come out: a variance may be negative, and the matrix need not be positive semidefinite. To keep
    them within bounds would be post-processing, and would hide from the likelihood how far outside they were. That the
    confidential matrix is positive semidefinite is used by the posterior, whose model has no other matrices.

    Parameters
    ----------
    epsilon : float
        Loss for data sets of which one record is another, for all elements together.
    n : int
        Public number of records, at least 2. As it is public, nothing can be stated about adding or removing a record.
    data_bounds : sequence of pairs of float
        Public bounds of each variable.
    names : sequence of str, optional
        Names of the variables.

    Raises
    ------
    TypeError, ValueError
        If epsilon is not positive, n is too small, bounds are not pairs of finite numbers, the lower one first, or names do
        not fit.

    See Also
    --------
    CovarianceMatrix : element by element, within bounds, with a part of epsilon for each.
    bayesdp.inference.observe_covariance : the posterior for Gaussian records.

    References
    ----------
    Hardt and Talwar (2010), On the Geometry of Differential Privacy (K-norm noise); Liu (2019), Section 4.1 and Table 1 (the
    changes of the elements).

    Examples
    --------
    >>> mechanism = JointCovariance(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)], ["height", "weight"])
    >>> release = mechanism.release([[1.0, 0.5], [0.5, 2.0]], rng=np.random.default_rng(3))
    >>> release.guarantee.parameters["epsilon"]
    1.0
    >>> release.matrix.shape
    (2, 2)
    """

    epsilon: float
    n: int
    data_bounds: Any
    names: Any = None

    name: ClassVar[str] = "joint-covariance"

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        put(self, "n", positive_integer(self.n, "n"))
        put(self, "data_bounds", pairs_of_bounds(self.data_bounds))
        put(self, "names", checked_names(self.names, (len(self.data_bounds),)))
        _ = self.query, self.law  # that its elements can be named, and have scales

    @property
    def query(self) -> Identity:
        """The elements of the upper triangle, row by row."""
        return Identity(element_frame(self.names))

    @cached_property
    def sensitivities(self) -> Floats:
        """The largest change of each element by one record, shape (variables, variables)."""
        return as_matrix([own.l1 for own in element_sensitivities(self.n, self.data_bounds).values()])

    @cached_property
    def law(self) -> BoxNorm:
        """The law of the released elements around the confidential ones."""
        return BoxNorm(upper_triangle(self.sensitivities) / self.epsilon)

    @property
    def error(self) -> float:
        """Expected squared Frobenius error of the matrix."""
        each = as_matrix(self.law.variance((len(upper_triangle(self.sensitivities)),)))
        return float(each.sum())

    @property
    def largest(self) -> Floats:
        """The largest variance of data within the bounds, shape (variables,)."""
        found = element_sensitivities(self.n, self.data_bounds)
        upper: Any = [found[i, i].bounds[1] for i in range(len(self.names))]
        return np.array(upper, dtype=np.float64)

    def release(self, covariance: npt.ArrayLike, rng: Seed = None) -> JointCovarianceRelease:
        """Publish a sample covariance matrix (divisor n - 1).

        Released elements are multiples of a power of two that is at most a millionth of the element's scale.

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
        truth = upper_triangle(checked_covariance(covariance, self.names, self.largest, self.n))
        drawn = self.law.draw(random_generator(rng), truth.shape, location=truth)
        scales = np.broadcast_to(np.asarray(self.law.b), truth.shape)
        grid = np.array([math.ldexp(1.0, math.frexp(own)[1] - 1 - _GRID_BITS) for own in scales.tolist()])
        query, simulated = self.query, rng is not None
        return JointCovarianceRelease(
            query.frame,
            (Measured(query, np.rint(drawn / grid) * grid, self.law),),
            (),
            self.describe(),
            self._guarantee(() if simulated else (GENERATOR_CAVEAT,), simulated),
            simulated,
            "statistics",
        )

    @property
    def guarantee(self) -> StatisticGuarantee:
        """What the mechanism protects."""
        return self._guarantee((), False)

    def _guarantee(self, more: tuple[Words, ...], simulated: bool) -> StatisticGuarantee:
        loss, largest = PureDP(self.epsilon), float(self.sensitivities.max())
        return StatisticGuarantee(
            "pure",
            LossAt(loss, largest),
            "linf",
            (PairLoss(Neighbours("substitution", "data"), largest, "linf", loss),),
            simulated=simulated,
            caveats=(FLOATING_POINT_CAVEAT, *more, PUBLIC_BOUNDS),
        )

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data: ``{"mechanism": "joint-covariance", "epsilon": ..., ...}``."""
        stated = {item.name: getattr(self, item.name) for item in fields(self)}
        pairs = [[float(side) for side in pair] for pair in self.data_bounds]
        return {"mechanism": self.name, **stated, "data_bounds": pairs, "names": [*self.names]}


@dataclass(frozen=True, eq=False, repr=False)
class JointCovarianceRelease(MatrixRelease):
    """A `Release` of a noisy covariance matrix, as `bayesdp.mechanisms.JointCovariance` publishes it.

    `bayesdp.observe` takes it together with the sample covariance matrix as a function of the parameters of your model;
    `bayesdp.inference.observe_covariance` has the model of Gaussian records. Both have positive semidefinite matrices only, if
    the model writes them as ``chol @ chol.T`` or by variances and correlations.

    Raises
    ------
    ValueError
        If another mechanism published it, or what it says of its mechanism or its guarantee contradicts its law.

    Examples
    --------
    >>> from bayesdp.mechanisms import JointCovariance
    >>> mechanism = JointCovariance(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)], ["height", "weight"])
    >>> release = mechanism.release([[1.0, 0.5], [0.5, 2.0]], rng=np.random.default_rng(3))
    >>> bool(release.values.sel(element="height:weight") == release.matrix[0, 1])
    True
    >>> import pymc as pm
    >>> from bayesdp.inference import observe_covariance
    >>> with pm.Model() as model:
    ...     chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(2.0))
    ...     matrix = observe_covariance(release, chol)
    >>> [variable.name for variable in model.observed_RVs]
    ['noisy']
    """

    of_mechanism = "joint-covariance"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_mechanism()

    @cached_property
    def matrix(self) -> Floats:
        """The released matrix, shape (variables, variables); its eigenvalues, and its variances, may be negative."""
        return read_only(as_matrix(self.measurements[0].values))

    @cached_property
    def scales(self) -> Floats:
        """Scales of the noise, shape (variables, variables): in these, all elements share one radius."""
        return read_only(as_matrix(np.broadcast_to(np.asarray(self._law.b), self.frame.shape)))

    def repaired(self, smallest: float = 0.0) -> Floats:
        """The nearest positive semidefinite matrix: post-processing.

        Nearest in the Frobenius norm with each variable in units of its range: negative eigenvalues become `smallest`. For estimates
        only: the likelihood is that of the released elements, and needs no repair.

        Parameters
        ----------
        smallest : float
            Least eigenvalue in these units, times n and epsilon: one that is 1 stands for the scale of the noise.

        Returns
        -------
        numpy.ndarray, shape (variables, variables)
            The released matrix itself where no eigenvalue is below that.

        References
        ----------
        Higham (1988), Computing a nearest symmetric positive semidefinite matrix.
        """
        least = nonnegative_real(smallest, "smallest")
        # The scale of an element is the product of those of both variables.
        units = np.sqrt(np.diag(self.scales))
        values, vectors = np.linalg.eigh(self.matrix / np.outer(units, units))
        if values[0] >= least:
            return np.array(self.matrix)
        found = (vectors * np.maximum(values, least)) @ vectors.T * np.outer(units, units)
        return np.asarray(0.5 * (found + found.T))

    def log_likelihood(self, covariance: npt.ArrayLike) -> Floats:
        """Log-density of the released elements given sample covariance matrices.

        Parameters
        ----------
        covariance : array_like, shape (..., variables, variables)
            Confidential sample covariance matrices, with divisor n - 1.

        Returns
        -------
        numpy.ndarray, shape (...)
        """
        truth = np.asarray(finite_array(covariance, "covariance"), dtype=np.float64)
        size = len(self.names)
        if truth.shape[-2:] != (size, size):
            raise ValueError(f"covariance must have shape (..., {size}, {size}), got {truth.shape}")
        released, scales = (np.asarray(own) for own in (self.measurements[0].values, upper_triangle(self.scales)))
        return np.asarray(BoxNorm.log_kernel(np, released, upper_triangle(truth), scales))
