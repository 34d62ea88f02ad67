"""What is published of a covariance matrix, element by element: a release, with its correlations and their repair (Liu 2019, 4.1).

What releases of a covariance matrix have in common: records, variables, reading from files.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import choice, finite_array, positive_integer, positive_real, shown
from bayesdp.mechanisms.bounded.covariance_elements import (
    LAWS,
    as_matrix,
    covariance_edge,
    element_frame,
    element_law,
    upper_triangle,
    variables_of,
)
from bayesdp.mechanisms.bounded.statistic_release import checked_names
from bayesdp.noise.bounded.rescaled_laplace import RULES
from bayesdp.privacy import StatisticGuarantee
from bayesdp.queries import Identity
from bayesdp.release import Measured, Release

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class MatrixRelease(Release):
    """A `Release` of the elements of the upper triangle of a noisy covariance matrix, labelled ``a:a``, ``a:b`` and so on.

    Attributes
    ----------
    of_mechanism : str
        Name of the mechanism in descriptions and files.
    """

    of_mechanism: ClassVar[str]

    def _check_mechanism(self) -> None:
        """Check that this is what the mechanism publishes, and that what is stated is true of the noise; ValueError otherwise."""
        known = (self.mechanism or {}).get("mechanism")
        if known != self.of_mechanism or self.about != "statistics":
            kind = type(self).__name__
            raise ValueError(
                f"a {kind} needs a mechanism {self.of_mechanism!r}, got {known!r}: it says of how many records the matrix is; "
                "for others there is Release"
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
    def _law(self) -> Any:
        return self.measurements[0].law

    @cached_property
    def matrix(self) -> Floats:
        """The released matrix, shape (variables, variables)."""
        raise NotImplementedError("each kind of release says which of its elements are known without noise")

    @classmethod
    def of(cls, release: Release) -> Self:
        """A release of a covariance matrix, as files give it, with what this class offers.

        Raises
        ------
        ValueError
            If it is about something else.
        """
        return cls(**release.__getstate__())

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str], *, max_cells: int | None = None) -> Self:
        """Read a release from a netCDF-4 file written by `to_netcdf`; see `bayesdp.Release.from_netcdf`."""
        return cls.of(Release.from_netcdf(path, max_cells=max_cells))

    @classmethod
    def from_csv(
        cls,
        folder: str | os.PathLike[str],
        *,
        noise: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        max_cells: int | None = None,
    ) -> Self:
        """Read a release from a folder or a CSV file written by `to_csv`; see `bayesdp.Release.from_csv`."""
        return cls.of(Release.from_csv(folder, noise=noise, max_cells=max_cells))

    @property
    def is_positive_definite(self) -> bool:
        """Whether all eigenvalues are positive, to rounding."""
        values = np.linalg.eigvalsh(self.matrix)
        return bool(values[0] > 1e-14 * max(values[-1], 0.0) and values[-1] > 0.0)


def read_only(array: Floats) -> Floats:
    """The same array, which nobody can write to from here on."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False, init=False, repr=False)
class CovarianceRelease(MatrixRelease):
    """A `Release` of a noisy covariance matrix: the elements of its upper triangle, labelled ``a:a``, ``a:b`` and so on.

    `bayesdp.observe` takes it together with the sample covariance matrix as a function of the parameters of your model.

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
    mechanism : mapping, optional
        Description of the mechanism; where it is not known, that it published a covariance matrix of n records.

    Raises
    ------
    ValueError
        If the matrix is not symmetric, or an element is outside its bounds; if the mechanism or the guarantee states another law or
        loss than the noise of these scales has. The message names both sides.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> release = CovarianceRelease([[1.0, 0.4], [0.4, 2.0]], [[0.1, 0.2], [0.2, 0.3]], [9.0, 9.0], 200, ["height", "weight"])
    >>> float(release.values.sel(element="height:weight"))
    0.4
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(2.0))
    ...     bdp.observe(release, bdp.inference.sample_covariance("S", chol, release.n, 2))
    >>> [variable.name for variable in model.observed_RVs]
    ['noisy']
    """

    of_mechanism = "covariance-matrix"

    def __init__(
        self,
        matrix: Any = None,
        scales: Any = None,
        largest: Any = None,
        n: Any = None,
        names: Any = None,
        rule: str = "boundary-inflated",
        guarantee: StatisticGuarantee | None = None,
        simulated: bool = False,
        mechanism: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        # `dataclasses.replace` gives the fields of a Release in place of the matrix and what belongs to it.
        if set(fields) == {"frame", "measurements", "exact", "about"}:
            super().__init__(mechanism=mechanism, guarantee=guarantee, simulated=simulated, **fields)
        elif fields:
            raise TypeError(
                "CovarianceRelease takes matrix, scales, largest, n, names, rule, guarantee, simulated and mechanism, not "
                f"{shown(fields)}"
            )
        else:
            measured = _measured(matrix, scales, largest, names, rule)
            known = (
                {"mechanism": "covariance-matrix", "n": positive_integer(n, "n")} if mechanism is None else mechanism
            )
            super().__init__(measured.query.frame, (measured,), (), known, guarantee, simulated, "statistics")
        self._check_mechanism()

    @property
    def rule(self) -> str:
        """What was done at the bounds: "boundary-inflated" or "truncated"."""
        return next(rule for rule, law in LAWS.items() if isinstance(self._law, law))

    @cached_property
    def matrix(self) -> Floats:
        """The released matrix, shape (variables, variables); 0 for covariances of a variable whose released variance is 0."""
        return read_only(as_matrix(np.where(self._hidden, 0.0, self.measurements[0].values)))

    @cached_property
    def scales(self) -> Floats:
        """Scales of the noise, shape (variables, variables); 0 where there was none."""
        return read_only(as_matrix(np.where(self._hidden, 0.0, self._law.scale)))

    @cached_property
    def largest(self) -> Floats:
        """Upper bounds of the variances, shape (variables,)."""
        return read_only(np.diag(as_matrix(self._law.upper)).copy())

    @property
    def _hidden(self) -> npt.NDArray[np.bool_]:
        return self.measurements[0].unmeasured

    @property
    def correlation(self) -> Floats:
        """Correlations of the released matrix; NaN for a variable whose released variance is 0."""
        deviations = np.sqrt(np.diag(self.matrix))
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.clip(self.matrix / np.outer(deviations, deviations), -1.0, 1.0)
        found[np.diag_indices_from(found)] = np.where(deviations > 0.0, 1.0, np.nan)
        return np.asarray(found)

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
        kept = ~self._hidden
        law = LAWS[self.rule](self._law.scale[kept], (self._law.lower[kept], self._law.upper[kept]))
        location = upper_triangle(truth)[..., kept]
        return np.asarray(
            law.log_each(np.broadcast_to(self.measurements[0].values[kept], location.shape), location).sum(-1)
        )

    def bounds(self, i: int, j: int) -> tuple[float, float]:
        """Bounds of an element: public for a variance, from the released variances for a covariance."""
        if i == j:
            return 0.0, float(self.largest[i])
        edge = covariance_edge(self.matrix[i, i], self.matrix[j, j])
        return -edge, edge


def _measured(matrix: Any, scales: Any, largest: Any, names: Any, rule: str) -> Measured:
    """The elements with their law, checked."""
    given = {"matrix": matrix, "scales": scales, "largest": largest}
    own, noise, edges = (np.array(finite_array(value, key), float) for key, value in given.items())
    size = len(edges) if edges.ndim == 1 else 0
    if size < 1 or own.shape != (size, size) or noise.shape != (size, size):
        raise ValueError(
            f"matrix and scales must be square, with one upper bound for each variable, got shapes {own.shape}, {noise.shape} and "
            f"{edges.shape}"
        )
    if not (np.array_equal(own, own.T) and np.array_equal(noise, noise.T)):
        raise ValueError("matrix and scales must be symmetric")
    choice(rule, RULES, "rule")
    known = checked_names(names, (size,)) or ()
    variances = np.diag(own)
    wrong = np.flatnonzero((variances < 0.0) | (variances > edges))
    if wrong.size:
        bad = int(wrong[0])
        raise ValueError(
            f"matrix must have variances within 0 and their upper bounds, but that of {printable(known[bad])} is "
            f"{float(variances[bad])!r}, and its bound is {float(edges[bad])!r}"
        )
    for i, j in zip(*np.triu_indices(size, 1), strict=True):
        edge = covariance_edge(variances[i], variances[j])
        one, other = printable(known[i]), printable(known[j])
        if abs(own[i, j]) > edge:
            raise ValueError(
                f"matrix must have correlations within -1 and 1, but the covariance of {one} and {other} is "
                f"{float(own[i, j])!r}, beyond {edge!r}"
            )
        if (edge > 0.0) != (noise[i, j] > 0.0):
            raise ValueError(
                f"scales must be positive where both variances are, and 0 elsewhere, got {float(noise[i, j])!r} for {one} and {other}"
            )
    if not np.all(np.diag(noise) > 0.0):
        raise ValueError("scales must be positive for every variance")
    law, hidden = element_law(rule, upper_triangle(noise), variances, edges)
    values = np.where(hidden, np.nan, upper_triangle(own))
    return Measured(Identity(element_frame(known)), values, law, unmeasured=hidden)
