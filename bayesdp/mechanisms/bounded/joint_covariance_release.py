"""What is published of a covariance matrix whose elements have noise of one radius."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import finite_array, nonnegative_real
from bayesdp.mechanisms.bounded.covariance_elements import as_matrix, upper_triangle, variables_of
from bayesdp.noise import BoxNorm
from bayesdp.release import Release

__all__ = ["JointCovarianceRelease"]

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class JointCovarianceRelease(Release):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        known = (self.mechanism or {}).get("mechanism")
        if known != "joint-covariance" or self.about != "statistics":
            raise ValueError(
                f"a JointCovarianceRelease needs a mechanism 'joint-covariance', got {known!r}; for others there is Release"
            )
        self.check_stated()

    @property
    def n(self) -> int:
        """Number of records."""
        return int((self.mechanism or {})["n"])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables."""
        return variables_of(self.frame) or ()

    @property
    def _law(self) -> BoxNorm:
        law: Any = self.measurements[0].law
        known: BoxNorm = law
        return known

    @cached_property
    def matrix(self) -> Floats:
        """The released matrix, shape (variables, variables); its eigenvalues, and its variances, may be negative."""
        return _read_only(as_matrix(self.measurements[0].values))

    @cached_property
    def scales(self) -> Floats:
        """Scales of the noise, shape (variables, variables): in these, all elements share one radius."""
        return _read_only(as_matrix(np.broadcast_to(np.asarray(self._law.b), self.frame.shape)))

    @classmethod
    def of(cls, release: Release) -> JointCovarianceRelease:
        """A release of a covariance matrix, as files give it, with what this class offers.

        Raises
        ------
        ValueError
            If it is about something else.
        """
        return cls(**release.__getstate__())

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str], *, max_cells: int | None = None) -> JointCovarianceRelease:
        """Read a release from a netCDF-4 file written by `to_netcdf`; see `bayesdp.Release.from_netcdf`."""
        return cls.of(Release.from_netcdf(path, max_cells=max_cells))

    @classmethod
    def from_csv(cls, folder: str | os.PathLike[str], *, max_cells: int | None = None) -> JointCovarianceRelease:
        """Read a release from a folder written by `to_csv`; see `bayesdp.Release.from_csv`."""
        return cls.of(Release.from_csv(folder, max_cells=max_cells))

    @property
    def is_positive_definite(self) -> bool:
        """Whether all eigenvalues are positive, to rounding."""
        values = np.linalg.eigvalsh(self.matrix)
        return bool(values[0] > 1e-14 * max(values[-1], 0.0) and values[-1] > 0.0)

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


def _read_only(array: Floats) -> Floats:
    array.flags.writeable = False
    return array
