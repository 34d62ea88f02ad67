"""What is published of a covariance matrix whose elements have noise of one radius."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp._validate import finite_array, nonnegative_real
from bayesdp.mechanisms.bounded.covariance_elements import as_matrix, upper_triangle
from bayesdp.mechanisms.bounded.matrix_release import MatrixRelease, read_only
from bayesdp.noise import BoxNorm

type Floats = npt.NDArray[np.float64]


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
