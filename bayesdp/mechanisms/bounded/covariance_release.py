"""A covariance matrix that was published element by element: its correlations, repair and likelihood (Liu 2019, Section 4.1)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import boolean, choice, finite_array, positive_integer, positive_real
from bayesdp._wiring import connected
from bayesdp.mechanisms.bounded.statistic_release import checked_names
from bayesdp.noise import BoundaryInflatedLaplace as InflatedLaw
from bayesdp.noise import TruncatedLaplace as TruncatedLaw
from bayesdp.noise.bounded.rescaled_laplace import RULES
from bayesdp.privacy import StatisticGuarantee

__all__ = ["CovarianceRelease", "covariance_edge"]

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CovarianceRelease:
    """A noisy covariance matrix with what is needed for its likelihood.

    Parameters
    ----------
    matrix : array_like, shape (variables, variables)
        Symmetric; every correlation is within -1 and 1, but the matrix may have negative eigenvalues.
    scales : array_like, shape (variables, variables)
        Scale of the noise on each element; 0 where the released variances leave no covariance but 0.
    largest : array_like, shape (variables,)
        Upper bounds of the variances.
    n : int
        Number of records.
    names : sequence of str
        Names of the variables.
    rule : {"boundary-inflated", "truncated"}
    guarantee : StatisticGuarantee, optional
    simulated : bool

    Raises
    ------
    ValueError
        If the matrix is not symmetric, or an element is outside its bounds; if the guarantee states another loss than the noise
        of these scales has. The message names both sides.
    """

    matrix: Floats
    scales: Floats
    largest: Floats
    n: int
    names: tuple[str, ...]
    rule: str = "boundary-inflated"
    guarantee: StatisticGuarantee | None = None
    simulated: bool = False

    def __post_init__(self) -> None:
        put = object.__setattr__
        arrays = {
            key: np.array(finite_array(getattr(self, key), key), float) for key in ("matrix", "scales", "largest")
        }
        matrix, size = arrays["matrix"], len(arrays["largest"]) if arrays["largest"].ndim == 1 else 0
        if size < 1 or matrix.shape != (size, size) or arrays["scales"].shape != (size, size):
            raise ValueError(
                f"matrix and scales must be square, with one upper bound for each variable, got shapes {matrix.shape}, "
                f"{arrays['scales'].shape} and {arrays['largest'].shape}"
            )
        if not (np.array_equal(matrix, matrix.T) and np.array_equal(arrays["scales"], arrays["scales"].T)):
            raise ValueError("matrix and scales must be symmetric")
        choice(self.rule, RULES, "rule")
        put(self, "n", positive_integer(self.n, "n"))
        put(self, "names", checked_names(self.names, (size,)))
        boolean(self.simulated, "simulated")
        variances = np.diag(matrix)
        wrong = np.flatnonzero((variances < 0.0) | (variances > arrays["largest"]))
        if wrong.size:
            i = int(wrong[0])
            name = printable(self.names[i])
            raise ValueError(
                f"matrix must have variances within 0 and their upper bounds, but that of {name} is {float(variances[i])!r}, "
                f"and its bound is {float(arrays['largest'][i])!r}"
            )
        for i, j in ((a, b) for a in range(size) for b in range(a + 1, size)):
            edge = covariance_edge(variances[i], variances[j])
            one, other = printable(self.names[i]), printable(self.names[j])
            if abs(matrix[i, j]) > edge:
                raise ValueError(
                    f"matrix must have correlations within -1 and 1, but the covariance of {one} and {other} "
                    f"is {float(matrix[i, j])!r}, beyond {edge!r}"
                )
            if (edge > 0.0) != (arrays["scales"][i, j] > 0.0):
                raise ValueError(
                    f"scales must be positive where both variances are, and 0 elsewhere, got {float(arrays['scales'][i, j])!r} for "
                    f"{one} and {other}"
                )
        if not np.all(np.diag(arrays["scales"]) > 0.0):
            raise ValueError("scales must be positive for every variance")
        for key, array in arrays.items():
            array.flags.writeable = False
            put(self, key, array)
        if self.guarantee is not None:
            connected("check a covariance matrix")(self)

    @property
    def correlation(self) -> Floats:
        """Correlations of the released matrix; NaN for a variable whose released variance is 0."""
        deviations = np.sqrt(np.diag(self.matrix))
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.clip(self.matrix / np.outer(deviations, deviations), -1.0, 1.0)
        found[np.diag_indices_from(found)] = np.where(deviations > 0.0, 1.0, np.nan)
        return np.asarray(found)

    @property
    def is_positive_definite(self) -> bool:
        """Whether all eigenvalues are positive, to rounding."""
        values = np.linalg.eigvalsh(self.matrix)
        return bool(values[0] > 1e-14 * max(values[-1], 0.0) and values[-1] > 0.0)

    def repaired(self, threshold: float = 1e-6) -> Floats:
        """A positive definite matrix near the released one, with the same variances: post-processing.

        Alternating projections of statsmodels (`corr_nearest`) on the correlations. For estimates only: the
        likelihood is that of the released elements, and needs no repair.

        Parameters
        ----------
        threshold : float
            Smallest eigenvalue of the correlations.

        Returns
        -------
        numpy.ndarray, shape (variables, variables)
            The released matrix itself where it is positive definite.

        Raises
        ------
        ImportError
            If a repair is needed and statsmodels is not installed.
        ValueError
            If a released variance is 0: no positive definite matrix has it.

        References
        ----------
        Higham (2002), Computing the nearest correlation matrix; Liu (2019), Section 4.1.
        """
        positive_real(threshold, "threshold")
        variances = np.diag(self.matrix)
        if np.any(variances <= 0.0):
            name = printable(self.names[int(np.argmin(variances))])
            raise ValueError(f"the released variance of {name} is 0, and no positive definite matrix has that variance")
        if self.is_positive_definite:
            return np.array(self.matrix)
        try:
            from statsmodels.stats.correlation_tools import corr_nearest  # type: ignore[import-not-found,import-untyped,unused-ignore]
            from statsmodels.tools.sm_exceptions import IterationLimitWarning  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise ImportError(
                "the nearest positive definite matrix is found by statsmodels, which is not installed: "
                "pip install 'bayesdp[covariance]'"
            ) from None
        with warnings.catch_warnings():
            # It nears the threshold from below without an end; the result is checked here.
            warnings.simplefilter("ignore", IterationLimitWarning)
            near = np.asarray(corr_nearest(self.correlation, threshold=threshold), dtype=np.float64)
        found = near * np.sqrt(np.outer(variances, variances))
        found = 0.5 * (found + found.T)
        if not np.linalg.eigvalsh(found)[0] > 0.0:
            raise ValueError(f"no positive definite matrix was found with threshold {threshold!r}; take a larger one")
        return np.asarray(found)

    def log_likelihood(self, covariance: npt.ArrayLike) -> Floats:
        """Log-density of the released elements given sample covariance matrices.

        Parameters
        ----------
        covariance : array_like, shape (..., variables, variables)
            Confidential sample covariance matrices, with divisor n - 1.

        Returns
        -------
        numpy.ndarray, shape (...)
            The density refers to Lebesgue measure plus point masses at the bounds, given the released variances for
            covariances.
        """
        truth = np.asarray(finite_array(covariance, "covariance"), dtype=np.float64)
        size = len(self.names)
        if truth.shape[-2:] != (size, size):
            raise ValueError(f"covariance must have shape (..., {size}, {size}), got {truth.shape}")
        kind = TruncatedLaw if self.rule == "truncated" else InflatedLaw
        total = np.zeros(truth.shape[:-2])
        for i, j in zip(*np.triu_indices(size), strict=True):
            low, high = self.bounds(int(i), int(j))
            if low < high:
                law = kind(float(self.scales[i, j]), (low, high))
                location = truth[..., i, j]
                total = total + law.log_each(np.broadcast_to(self.matrix[i, j], location.shape), location)
        return np.asarray(total)

    def bounds(self, i: int, j: int) -> tuple[float, float]:
        """Bounds of an element: public for a variance, from the released variances for a covariance."""
        if i == j:
            return 0.0, float(self.largest[i])
        edge = covariance_edge(self.matrix[i, i], self.matrix[j, j])
        return -edge, edge


def covariance_edge(first: float, second: float) -> float:
    """The largest covariance of two variables with these variances."""
    return math.sqrt(first) * math.sqrt(second)
