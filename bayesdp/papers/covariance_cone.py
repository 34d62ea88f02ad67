"""Covariance matrices as Liu (2019, Section 4.1) publishes them, element by element, and with noise of one radius for all elements.

`CovarianceMatrix` publishes variances within public bounds, then covariances within those that the released variances leave;
`JointCovariance` adds noise of the law `BoxNorm` (Hardt and Talwar, 2010) to all elements at once. Their releases know the matrix, its
correlations and its repair.
"""

from __future__ import annotations

import math
import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bayesdp import _validate, noise
from bayesdp._text import printable
from bayesdp._validate import (
    Seed,
    choice,
    finite_array,
    nonnegative_real,
    positive_integer,
    positive_real,
    random_generator,
    shown,
)
from bayesdp.invariants import Invariants
from bayesdp.mechanisms.bounded.real import CONVENTIONS, BoundaryInflatedLaplace, LaplaceStatistics, TruncatedLaplace
from bayesdp.mechanisms.bounded.rules import DescribedMechanism
from bayesdp.mechanisms.bounded.statistic_release import checked_names
from bayesdp.mechanisms.bounded.statistics import PUBLIC_BOUNDS, ROUNDING
from bayesdp.mechanisms.element_labels import element_frame, variables_of
from bayesdp.mechanisms.stated import alike
from bayesdp.noise import NoiseLaw
from bayesdp.noise.arrays import broadcast_scale, count_of, located, positive_scale, values_and_location
from bayesdp.noise.namespace import special
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    Guarantee,
    PairLoss,
    Sensitivity,
    StatisticGuarantee,
    covariance_sensitivity,
    split_budget,
    truncated_epsilon,
    variance_sensitivity,
)
from bayesdp.privacy.caveats import GENERATOR_CAVEAT, Fixed, PaperElements
from bayesdp.privacy.losses import LossAt, PureDP
from bayesdp.privacy.pairs import Neighbours
from bayesdp.privacy.words import Statement
from bayesdp.queries import Identity
from bayesdp.release import Measured, Release

__all__ = [
    "BoxNorm", "CovarianceMatrix", "CovarianceRelease", "JointCovariance", "JointCovarianceRelease",
]  # fmt: skip

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BoxNorm(NoiseLaw):
    r"""Noise of a vector with density ``exp(-max_i |z_i| / b_i) / (d! prod_i 2 b_i)``: K-norm noise whose ball is a box.

    All d entries share one radius, a gamma variable of shape d + 1; divided by it and by their scales, they are independent and
    uniform within -1 and 1. Two vectors are told apart with a loss of at most their largest difference in scales,
    ``max_i |x_i - y_i| / b_i``. A release that keeps that below epsilon adds up nothing over the entries.

    ========  ==========================================================
    Support   real vectors
    Mean      0
    Variance  ``b_i**2 (d + 1) (d + 2) / 3``
    ========  ==========================================================

    Parameters
    ----------
    b : float or array_like, shape (statistics,)
        Scale of each entry, in the unit of the statistic, from 2**-400 to 2**46.

    See Also
    --------
    bayesdp.papers.models.BoxNorm : the same law as a PyMC distribution.
    bayesdp.papers.covariance_cone.JointCovariance : the mechanism that adds this noise; it takes privacy parameters.
    KNorm : the ball of any vertices, for tables whose invariants are kept.

    References
    ----------
    Hardt and Talwar (2010), On the Geometry of Differential Privacy.

    Examples
    --------
    >>> law = BoxNorm([1.0, 2.0])
    >>> print(f"{law.logp([3.0, 1.0], [0.0, 0.0]):.6f} {-3.0 - math.log(2 * 2 * 4):.6f}")
    -5.772589 -5.772589
    """

    b: float | Floats

    name = "box-norm"
    support = "vectors"
    family = "polytope"
    integer = False
    everywhere = True
    kernel_parameters = ("b",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_scale(self.b, "b"))

    @staticmethod
    def log_kernel(xp: Any, value: Any, mu: Any, b: Any) -> Any:
        """Log-density of vectors of the same length d, shape (..., d); see `bayesdp.noise.namespace` for xp."""
        size = 1.0 * value.shape[-1]
        return (
            -xp.max(xp.abs(value - mu) / b, axis=-1)
            - xp.sum(xp.log(2.0 * b), axis=-1)
            - special(xp).gammaln(size + 1.0)
        )

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Log-density of all entries together; see `NoiseLaw.logp`."""
        y, mu = (own.reshape(-1) for own in values_and_location(values, location))
        scales = broadcast_scale(self.b, np.broadcast_shapes(np.shape(values), np.shape(location)), "b").reshape(-1)
        return float(self.log_kernel(np, y, mu, scales))

    def _least_losses(self, shape: tuple[int, ...]) -> dict[str, tuple[float, float]]:
        """The largest difference in scales: of one of a length in a norm, the least where all entries differ by equally many."""
        scales = np.broadcast_to(np.asarray(self.b), shape).reshape(-1)
        norms = {"l1": float(scales.sum()), "l2": float(np.linalg.norm(scales)), "linf": float(scales.max())}
        return {norm: (math.inf, unit) for norm, unit in norms.items()}

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Draw noise, or noisy vectors around a location, exactly. See `NoiseLaw.draw`."""
        generator = _validate.generator_of(rng)
        centre, scales = located(location, shape), broadcast_scale(self.b, shape, "b")
        lead = () if size is None else (count_of(size),)
        radius = generator.standard_gamma(math.prod(shape) + 1.0, lead + (1,) * len(shape))
        return np.asarray(centre + scales * radius * generator.uniform(-1.0, 1.0, (*lead, *shape)))

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats:
        """Variance of each entry; see `NoiseLaw.variance`."""
        size = math.prod(shape)
        return broadcast_scale(self.b, shape, "b") ** 2 * (size + 1.0) * (size + 2.0) / 3.0

    def refusal(self, values: npt.ArrayLike) -> str:
        """Why values are no vector; see `NoiseLaw.refusal`."""
        shape = np.shape(values)
        return "" if len(shape) == 1 else f"values of the law {self.name!r} must be one vector, got shape {shape}"

    def model_parameters(self) -> dict[str, Any]:
        """The scales; see `NoiseLaw.model_parameters`."""
        return {"b": self.b}


LAWS: Mapping[str, type[noise.BoundaryInflatedLaplace | noise.TruncatedLaplace]] = {
    "truncated": noise.TruncatedLaplace,
    "boundary-inflated": noise.BoundaryInflatedLaplace,
}
"""The law of each rule for bounds."""


def covariance_edge(first: float, second: float) -> float:
    """The largest covariance of two variables with these variances."""
    return math.sqrt(first) * math.sqrt(second)


def upper_triangle(matrix: npt.ArrayLike) -> Floats:
    """Elements of matrices, shape (..., variables, variables), in the order of `element_frame`, shape (..., elements)."""
    array = np.asarray(matrix, dtype=np.float64)
    return np.asarray(array[(..., *np.triu_indices(array.shape[-1]))])


def as_matrix(elements: npt.ArrayLike) -> Floats:
    """The symmetric matrix of elements in the order of `element_frame`, shape (variables, variables)."""
    values = np.asarray(elements, dtype=np.float64)
    size = (math.isqrt(8 * len(values) + 1) - 1) // 2
    matrix = np.empty((size, size))
    rows, columns = np.triu_indices(size)
    matrix[rows, columns] = matrix[columns, rows] = values
    return matrix


def element_law(
    rule: str, scales: Floats, variances: Floats, largest: Floats
) -> tuple[noise.BoundedLaw, npt.NDArray[np.bool_]]:
    """The law of the elements given the released variances, and which covariances are 0 without noise."""
    # `rule`: of `LAWS`. `scales`, shape (elements,): of the noise. `variances`, `largest`, shape (variables,): released variances
    # and their upper bounds. A variance is within 0 and its upper bound, a covariance within plus and minus the root of the product
    # of both released variances. Where a released variance is 0, so is the covariance, and nothing was measured. The law has no
    # meaning there, but needs numbers: bounds and scale are the root of the product of both upper bounds.
    rows, columns = np.triu_indices(len(variances))
    deviations, roots = np.sqrt(variances), np.sqrt(largest)
    diagonal = rows == columns
    edges = np.where(diagonal, largest[rows], deviations[rows] * deviations[columns])
    hidden = edges == 0.0
    widest = roots[rows] * roots[columns]
    upper = np.where(hidden, widest, edges)
    law = LAWS[rule](np.where(hidden, widest, scales), (np.where(diagonal, 0.0, -upper), upper))
    return law, hidden


def pairs_of_bounds(data_bounds: Any) -> tuple[tuple[Any, ...], ...]:
    """Bounds of each variable; what they are is checked by the sensitivities."""
    if not hasattr(data_bounds, "__len__") or len(data_bounds) < 1:
        raise TypeError(f"data_bounds must be a pair of bounds for each variable, got {data_bounds!r}")
    return tuple(tuple(pair) for pair in data_bounds)


def checked_covariance(covariance: Any, names: Sequence[str], largest: Floats, n: int) -> Floats:
    """Accept a confidential sample covariance matrix."""
    # `covariance`, shape (variables, variables). `largest`, shape (variables,): upper bounds of the variances. `n`: number of
    # records, for the message. Returns shape (variables, variables): variances that are beyond 0 or their upper bound by rounding
    # are at it.

    def element_name(position: int) -> str:
        row, column = divmod(position, len(names))
        return f"the element of {' and '.join(names[i % len(names)] for i in (row, column))}"

    truth = np.array(finite_array(covariance, "covariance", element_name, confidential=True), dtype=np.float64)
    size = len(names)
    if truth.shape != (size, size):
        raise ValueError(f"covariance must be symmetric, of shape {(size, size)}, got shape {truth.shape}")
    variances = np.diag(truth).copy()
    deviations = np.sqrt(np.maximum(variances, 0.0))
    if np.any(np.abs(truth - truth.T) > ROUNDING * np.outer(deviations, deviations)):
        raise ValueError(f"covariance must be symmetric, of shape {(size, size)}, but it is not")
    if np.linalg.eigvalsh(truth)[0] < -ROUNDING * max(float(np.trace(truth)), 0.0):
        raise ValueError("covariance must be positive semidefinite, as sample covariance matrices are")
    outside = np.flatnonzero((variances < -ROUNDING * largest) | (variances > largest * (1.0 + ROUNDING)))
    if outside.size:
        bad = int(outside[0])
        raise ValueError(
            f"covariance must have a variance of {printable(names[bad])} of at most {largest[bad]:.6g}, which data within the "
            f"bounds can have at n = {n}: the bounds are wrong, or something else was computed"
        )
    np.fill_diagonal(truth, np.clip(variances, 0.0, largest))
    return truth


@dataclass(frozen=True, eq=False, repr=False)
class MatrixRelease(Release):
    """A `Release` of the elements of the upper triangle of a noisy covariance matrix, labelled ``a:a``, ``a:b`` and so on.

    `of_mechanism` is the name of the mechanism in descriptions and files.
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
        """A release of a covariance matrix, as files give it, with what this class offers."""
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

    def _elements_of(self, covariance: npt.ArrayLike) -> Floats:
        """The upper triangles of confidential matrices of these variables, shape (..., elements)."""
        truth = np.asarray(finite_array(covariance, "covariance"), dtype=np.float64)
        size = len(self.names)
        if truth.shape[-2:] != (size, size):
            raise ValueError(f"covariance must have shape (..., {size}, {size}), got {truth.shape}")
        return upper_triangle(truth)

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
    ...     bdp.observe(release, bdp.papers.models.sample_covariance("S", chol, release.n, 2))
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
        truth = self._elements_of(covariance)
        kept = ~self._hidden
        law = LAWS[self.rule](self._law.scale[kept], (self._law.lower[kept], self._law.upper[kept]))
        location = truth[..., kept]
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
    choice(rule, tuple(LAWS), "rule")
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


@dataclass(frozen=True)
class _MatrixMechanism(DescribedMechanism):
    """What publishes a covariance matrix of n records within public bounds."""

    epsilon: float
    n: int
    data_bounds: Any
    names: Any = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        put(self, "n", positive_integer(self.n, "n"))
        put(self, "data_bounds", pairs_of_bounds(self.data_bounds))
        put(self, "names", checked_names(self.names, (len(self.data_bounds),)))
        element_frame(self.names)  # that its elements can be named

    @cached_property
    def _sensitivities(self) -> dict[tuple[int, int], Sensitivity]:
        """Sensitivity of each element of the upper triangle, row by row, under substitution of one record."""
        bounds, size = self.data_bounds, len(self.data_bounds)
        return {
            (i, j): variance_sensitivity(self.n, bounds[i])
            if i == j
            else covariance_sensitivity(self.n, bounds[i], bounds[j])
            for i in range(size)
            for j in range(i, size)
        }

    @property
    def largest(self) -> Floats:
        """The largest variance of data within the bounds, shape (variables,)."""
        upper: Any = [self._sensitivities[i, i].bounds[1] for i in range(len(self.names))]
        return np.array(upper, dtype=np.float64)

    @property
    def guarantee(self) -> StatisticGuarantee:
        """What the mechanism protects: the same for all data and all noise, as a loss that varied would tell something itself."""
        return self._guarantee(simulated=True, published=False)

    @abstractmethod
    def _stated(self) -> tuple[float, str, float, tuple[Statement, ...]]:
        """Norm and length of the largest change, the loss, and reservations."""

    def _guarantee(self, simulated: bool, published: bool = True) -> StatisticGuarantee:
        size, norm, epsilon, more = self._stated()
        loss, drawn = PureDP(epsilon), () if simulated else (GENERATOR_CAVEAT,)
        return StatisticGuarantee(
            "pure",
            LossAt(loss, size),
            norm,
            (PairLoss(Neighbours("substitution", "data"), size, norm, loss),),
            simulated=simulated and published,
            caveats=(FLOATING_POINT_CAVEAT, *drawn, PUBLIC_BOUNDS, *more),
        )

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data: ``{"mechanism": name, "epsilon": ..., ...}``."""
        stated = {item.name: getattr(self, item.name) for item in fields(self)}
        pairs = [[float(side) for side in pair] for pair in self.data_bounds]
        return {"mechanism": self.name, **stated, "data_bounds": pairs, "names": [*self.names]}


@dataclass(frozen=True)
class CovarianceMatrix(_MatrixMechanism):
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

    rule: str = field(default="boundary-inflated", kw_only=True)
    parts: Sequence[float] | None = field(default=None, kw_only=True)
    convention: str = field(default="exact", kw_only=True)

    name: ClassVar[str] = "covariance-matrix"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.rule, tuple(LAWS), "rule")
        choice(self.convention, CONVENTIONS, "convention")
        elements = len(self._sensitivities)
        if self.parts is not None and len(self.parts) != elements:
            raise ValueError(
                f"parts must be one for each of {elements} elements of the upper triangle, got {len(self.parts)}"
            )
        parts = split_budget(self.epsilon, elements if self.parts is None else list(self.parts))
        object.__setattr__(self, "parts", parts)

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
        truth = checked_covariance(covariance, self.names, self.largest, self.n)
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
        guarantee = self._guarantee(simulated)
        return CovarianceRelease(
            matrix, scales, self.largest, self.n, self.names, self.rule, guarantee, simulated, self.describe()
        )

    @classmethod
    def _that_published(
        cls, description: Mapping[str, Any], measured: Measured, stated: Guarantee | None
    ) -> PublishedElements:
        """See `DescribedMechanism._that_published`."""
        return published_elements(description, measured, stated)

    def _given(self, pair: tuple[int, int], variances: Floats) -> LaplaceStatistics | None:
        """The mechanism for one element, given the released variances; None for a covariance that can only be 0."""
        i, j = pair
        edge = self.largest[i] if i == j else covariance_edge(variances[i], variances[j])
        return self._element(pair, self._budget[pair], (0.0 if i == j else -edge, edge)) if edge else None

    def law_given(self, variances: npt.ArrayLike) -> tuple[noise.BoundedLaw, npt.NDArray[np.bool_]]:
        """The law of the upper triangle, row by row, given the released variances, and which covariances are 0 without noise.

        These are of a variable whose released variance is 0. The law has no meaning there.
        """
        released = np.asarray(finite_array(variances, "variances"), dtype=np.float64)
        elements = [self._given(pair, released) for pair in self._sensitivities]
        scales = np.array([0.0 if own is None else own.scale for own in elements])
        return element_law(self.rule, scales, released, self.largest)

    def _stated(self) -> tuple[float, str, float, tuple[Statement, ...]]:
        l1 = math.fsum(own.l1 for own in self._sensitivities.values())
        paper = (PaperElements(self.true_epsilon),) if self.convention == "paper" else ()
        return l1, "l1", self.true_epsilon, (*paper, Fixed("elements added up"))

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data: ``{"mechanism": "covariance-matrix", "epsilon": ..., ...}``."""
        return {**super().describe(), "parts": [*self._parts]}


@dataclass(frozen=True)
class PublishedElements:
    """A mechanism for a covariance matrix, given what it has released: one for its elements."""

    query: Identity
    law: noise.BoundedLaw | BoxNorm
    guarantee: StatisticGuarantee
    name: str = CovarianceMatrix.name

    leaves_out: ClassVar[bool] = True

    @property
    def names(self) -> tuple[str, ...]:
        """Labels of the elements."""
        return tuple(map(str, self.query.frame.labels[0]))

    @property
    def true_epsilon(self) -> float:
        """What the release costs, or what is known of it: the loss at the released bounds."""
        return float(self.guarantee.parameters["epsilon"])


def published_elements(
    description: Mapping[str, Any], measured: Measured, stated: Guarantee | None
) -> PublishedElements:
    """The law and the guarantee that follow from the description of a mechanism and the released variances."""
    # `description`: as `CovarianceMatrix.describe` gives it, or the number of records alone, for matrices that somebody else has
    # published. `stated`: of the release.
    variables, released = variables_of(measured.query.frame), measured.law
    if (
        variables is None
        or not isinstance(released, noise.BoundedLaw)
        or not isinstance(released, tuple(LAWS.values()))
    ):
        raise ValueError(
            f"the mechanism {CovarianceMatrix.name!r} publishes elements named a:a, a:b and so on, with a law within bounds, but "
            f"released are {shown(measured.query.names)} with the law {released.name}"
        )
    matrix = as_matrix(np.where(measured.unmeasured, 0.0, measured.values))
    variances = np.diag(matrix)
    if set(description) == {"mechanism", "n"}:
        law, hidden, guarantee = _from_scales(positive_integer(description["n"], "n"), released, variances, stated)
    else:
        mechanism = CovarianceMatrix.from_description(description)
        if mechanism.names != variables:
            raise ValueError(
                f"its variables are {shown(mechanism.names)}, but released are those of {shown(variables)}"
            )
        (law, hidden), guarantee = mechanism.law_given(variances), mechanism.guarantee
    odd = np.flatnonzero(hidden != measured.unmeasured)
    if odd.size:
        raise ValueError(
            f"{measured.query.answer_name(int(odd[0]))} must be {'left out' if hidden[odd[0]] else 'published'}: covariances of a "
            "variable whose released variance is 0 are left out, and no others"
        )
    return PublishedElements(Identity(measured.query.frame), law, guarantee)


def _from_scales(
    n: int, released: noise.BoundedLaw, variances: npt.NDArray[np.float64], stated: Guarantee | None
) -> tuple[noise.BoundedLaw, npt.NDArray[np.bool_], StatisticGuarantee]:
    """What follows from the number of records and the scales."""
    # The upper bounds of the variances and the number of records fix the sensitivities, and these with the scales the loss of each
    # element. A covariance whose bounds are both 0 got no noise, but had a part of the budget, which is not known: then the
    # guarantee may state more.
    one, both = variance_sensitivity(n, (0.0, 1.0)), covariance_sensitivity(n, (0.0, 1.0), (0.0, 1.0))
    of_one: Any = one.bounds  # both sides are numbers, as they are of every moment
    of_both: Any = both.bounds
    rule = next(rule for rule, law in LAWS.items() if isinstance(released, law))
    scales, upper = (
        np.broadcast_to(side, (len(variances) * (len(variances) + 1) // 2,))
        for side in (released.scale, released.upper)
    )
    largest = np.diag(as_matrix(upper))
    law, hidden = element_law(rule, scales, variances, largest)
    # Bounds of a variance are in proportion to the square of the range of the data.
    ranges = upper_triangle(np.sqrt(np.outer(largest, largest)) / of_one[1])
    diagonal = upper_triangle(np.eye(len(variances))) == 1.0
    l1s = ranges * np.where(diagonal, one.l1, both.l1)
    far = np.where(diagonal, upper, ranges * (of_both[1] - of_both[0]))
    near = np.where(diagonal, upper, 2.0 * np.asarray(law.upper))
    kept = np.flatnonzero(~hidden)
    # In the paper's convention the loss is stated at the bounds at which it is largest, and else it is the same at all bounds.
    least, most = (
        math.fsum(
            float(l1s[k] / scales[k])
            if rule == "boundary-inflated"
            else truncated_epsilon(scales[k], widths[k], float(l1s[k]))
            for k in kept
        )
        for widths in (near, far)
    )
    claim = least if stated is None else stated.parameters.get("epsilon", math.nan)
    true = PureDP(claim if alike(claim, most) or (hidden.any() and claim >= least) else least)
    l1 = math.fsum(l1s)
    row = PairLoss(Neighbours("substitution", "data"), l1, "l1", true)
    made = StatisticGuarantee("pure", LossAt(true, l1), "l1", (row,))
    return law, hidden, made if stated is None else replace(made, person=stated.person)


_GRID_BITS = 20


@dataclass(frozen=True)
class JointCovariance(_MatrixMechanism):
    """Publish a covariance matrix with noise of one radius for all elements: about half of the epsilon for the same error.

    One record changes the element of variables with ranges R and R' by ``R R' / n`` at most, and can change all elements by that much
    at once. Noise whose density falls with the largest of these changes, `bayesdp.papers.covariance_cone.BoxNorm` with scales
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

    See Also
    --------
    CovarianceMatrix : element by element, within bounds, with a part of epsilon for each.
    bayesdp.papers.models.observe_covariance : the posterior for Gaussian records.

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

    name: ClassVar[str] = "joint-covariance"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.law  # that its elements have scales

    @property
    def query(self) -> Identity:
        """The elements of the upper triangle, row by row."""
        return Identity(element_frame(self.names))

    @cached_property
    def sensitivities(self) -> Floats:
        """The largest change of each element by one record, shape (variables, variables)."""
        return as_matrix([own.l1 for own in self._sensitivities.values()])

    @cached_property
    def law(self) -> BoxNorm:
        """The law of the released elements around the confidential ones."""
        return BoxNorm(upper_triangle(self.sensitivities) / self.epsilon)

    @property
    def error(self) -> float:
        """Expected squared Frobenius error of the matrix."""
        each = as_matrix(self.law.variance((len(upper_triangle(self.sensitivities)),)))
        return float(each.sum())

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
            self._guarantee(simulated),
            simulated,
            "statistics",
        )

    def _stated(self) -> tuple[float, str, float, tuple[Statement, ...]]:
        return float(self.sensitivities.max()), "linf", self.epsilon, ()

    @classmethod
    def _that_published(
        cls, description: Mapping[str, Any], measured: Measured, stated: Guarantee | None
    ) -> PublishedElements:
        """See `DescribedMechanism._that_published`."""
        made = cls.from_description(description)
        return PublishedElements(made.query, made.law, made.guarantee, made.name)


@dataclass(frozen=True, eq=False, repr=False)
class JointCovarianceRelease(MatrixRelease):
    """A `Release` of a noisy covariance matrix, as `bayesdp.papers.covariance_cone.JointCovariance` publishes it.

    `bayesdp.observe` takes it together with the sample covariance matrix as a function of the parameters of your model;
    `bayesdp.papers.models.observe_covariance` has the model of Gaussian records. Both have positive semidefinite matrices only, if
    the model writes them as ``chol @ chol.T`` or by variances and correlations.

    Examples
    --------
    >>> from bayesdp.papers.covariance_cone import JointCovariance
    >>> mechanism = JointCovariance(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)], ["height", "weight"])
    >>> release = mechanism.release([[1.0, 0.5], [0.5, 2.0]], rng=np.random.default_rng(3))
    >>> bool(release.values.sel(element="height:weight") == release.matrix[0, 1])
    True
    >>> import pymc as pm
    >>> from bayesdp.papers.models import observe_covariance
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
        truth = self._elements_of(covariance)
        released, scales = (np.asarray(own) for own in (self.measurements[0].values, upper_triangle(self.scales)))
        return np.asarray(BoxNorm.log_kernel(np, released, truth, scales))
