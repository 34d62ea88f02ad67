"""Covariance matrices as Liu (2019, Section 4.1) publishes them, element by element.

`CovarianceMatrix` publishes variances within public bounds, then covariances within those that the released variances leave; its
`CovarianceRelease` knows the matrix, its correlations and its repair.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bayesdp import _validate, noise, privacy
from bayesdp._arrays import Floats, Mask
from bayesdp._text import printable
from bayesdp.frames import element_frame, variables_of
from bayesdp.mechanisms.bounded.statistic_release import DescribedMechanism, checked_names
from bayesdp.mechanisms.bounded.statistics import (
    CONVENTIONS,
    LAWS,
    MECHANISMS,
    PUBLIC_BOUNDS,
    ROUNDING,
    LaplaceStatistics,
)
from bayesdp.mechanisms.stated import alike
from bayesdp.privacy import Guarantee, StatisticGuarantee
from bayesdp.privacy.caveats import GENERATOR_CAVEAT, Fixed, PaperElements
from bayesdp.privacy.losses import LossAt, PureDP
from bayesdp.privacy.words import Neighbours, Statement
from bayesdp.queries import Identity
from bayesdp.release import Measured, Release

__all__ = ["CovarianceMatrix", "CovarianceRelease"]

type Path = str | os.PathLike[str]


def _upper_triangle(matrix: npt.ArrayLike) -> Floats:
    """Elements of matrices, shape (..., variables, variables), in the order of `element_frame`, shape (..., elements)."""
    array = np.asarray(matrix, dtype=np.float64)
    return np.asarray(array[(..., *np.triu_indices(array.shape[-1]))])


def _as_matrix(elements: npt.ArrayLike) -> Floats:
    """The symmetric matrix of elements in the order of `element_frame`, which nobody can write to."""
    values = np.asarray(elements, dtype=np.float64)
    size = (math.isqrt(8 * len(values) + 1) - 1) // 2
    matrix = np.empty((size, size))
    rows, columns = np.triu_indices(size)
    matrix[rows, columns] = matrix[columns, rows] = values
    matrix.flags.writeable = False
    return matrix


def _element_law(rule: str, scales: Floats, variances: Floats, largest: Floats) -> tuple[noise.BoundedLaw, Mask]:
    """The law of the elements given the released variances, and which covariances are 0 without noise."""
    # `scales`: of the noise of each element; `variances`, `largest`: released variances and their upper bounds. A variance is within 0
    # and its upper bound, a covariance within plus and minus the root of the product of both released variances. Where one of these is
    # 0, so is the covariance, and nothing was measured. The law has no meaning there, but needs numbers: bounds and scale are the root
    # of the product of both upper bounds.
    rows, columns = np.triu_indices(len(variances))
    deviations, roots = np.sqrt(np.maximum(variances, 0.0)), np.sqrt(largest)
    diagonal = rows == columns
    edges = np.where(diagonal, largest[rows], deviations[rows] * deviations[columns])
    hidden = edges == 0.0
    widest = roots[rows] * roots[columns]
    upper = np.where(hidden, widest, edges)
    return LAWS[rule](np.where(hidden, widest, scales), (np.where(diagonal, 0.0, -upper), upper)), hidden


def _checked_covariance(covariance: Any, names: Sequence[str], largest: Floats, n: int) -> Floats:
    """Accept a confidential sample covariance matrix; variances that are beyond 0 or their upper bound by rounding are at it."""
    of = [f"the element of {first} and {second}" for first in names for second in names]
    given = _validate.finite_array(covariance, "covariance", lambda i: of[i % len(of)], confidential=True)
    truth = np.array(given, dtype=np.float64)
    shape = (len(names), len(names))
    if truth.shape != shape:
        raise ValueError(f"covariance must be symmetric, of shape {shape}, got shape {truth.shape}")
    variances = np.diag(truth).copy()
    deviations = np.sqrt(np.maximum(variances, 0.0))
    if np.any(np.abs(truth - truth.T) > ROUNDING * np.outer(deviations, deviations)):
        raise ValueError(f"covariance must be symmetric, of shape {shape}, but it is not")
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


@dataclass(frozen=True, eq=False, init=False, repr=False)
class CovarianceRelease(Release):
    """A `Release` of a noisy covariance matrix: the elements of its upper triangle, labelled ``a:a``, ``a:b`` and so on.

    `bayesdp.observe` takes it together with the sample covariance matrix as a function of the parameters of your model.

    Parameters
    ----------
    matrix, scales : array_like, shape (variables, variables)
        Symmetric, every correlation within -1 and 1, but eigenvalues may be negative; and the scale of the noise on each element, 0
        where the released variances leave no covariance but 0.
    largest : array_like, shape (variables,)
        Upper bounds of the variances.
    n, names : int, sequence of str
        Number of records, and names of the variables.
    rule : {"boundary-inflated", "truncated"}
    mechanism : mapping, optional
        Description of the mechanism; where it is not known, that it published a covariance matrix of n records.
    guarantee, simulated
        As for `bayesdp.Release`.

    Examples
    --------
    >>> release = CovarianceRelease([[1.0, 0.4], [0.4, 2.0]], [[0.1, 0.2], [0.2, 0.3]], [9.0, 9.0], 200, ["height", "weight"])
    >>> float(release.values.sel(element="height:weight"))
    0.4
    """

    def __init__(self, matrix: Any = None, scales: Any = None, largest: Any = None, n: Any = None, names: Any = None,
                 rule: str = "boundary-inflated", guarantee: StatisticGuarantee | None = None, simulated: bool = False,
                 mechanism: Mapping[str, Any] | None = None, **fields: Any) -> None:  # fmt: skip
        if fields:  # of a Release, which `dataclasses.replace` gives in place of the matrix and what belongs to it
            super().__init__(mechanism=mechanism, guarantee=guarantee, simulated=simulated, **fields)
            return
        measured = _measured(matrix, scales, largest, names, rule)
        known = mechanism
        if known is None:
            known = {"mechanism": CovarianceMatrix.name, "n": _validate.positive_integer(n, "n")}
        super().__init__(measured.query.frame, (measured,), (), known, guarantee, simulated, "statistics")

    def __post_init__(self) -> None:
        super().__post_init__()
        known = (self.mechanism or {}).get("mechanism")
        if known != CovarianceMatrix.name or self.about != "statistics":
            raise ValueError(
                f"a CovarianceRelease needs a mechanism {CovarianceMatrix.name!r}, got {known!r}: it says of how many records the "
                "matrix is; for others there is Release"
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

    @property
    def _hidden(self) -> Mask:
        return self.measurements[0].unmeasured

    @cached_property
    def matrix(self) -> Floats:
        """The released matrix; its eigenvalues may be negative, and its covariances are 0 where a released variance is."""
        return _as_matrix(np.where(self._hidden, 0.0, self.measurements[0].values))

    @cached_property
    def scales(self) -> Floats:
        """Scales of the noise, shape (variables, variables); 0 where there was none."""
        return _as_matrix(np.where(self._hidden, 0.0, self._law.b))

    @classmethod
    def of(cls, release: Release) -> Self:
        """A release of a covariance matrix, as files give it, with what this class offers."""
        return cls(**release.__getstate__())

    @classmethod
    def from_netcdf(cls, path: Path, *, max_cells: int | None = None) -> Self:
        """Read a release from a netCDF-4 file written by `to_netcdf`; see `bayesdp.Release.from_netcdf`."""
        return cls.of(Release.from_netcdf(path, max_cells=max_cells))

    @classmethod
    def from_csv(
        cls, path: Path, *, noise: Path | Mapping[str, Any] | None = None, max_cells: int | None = None
    ) -> Self:
        """Read a release from a CSV file written by `to_csv`; see `bayesdp.Release.from_csv`."""
        return cls.of(Release.from_csv(path, noise=noise, max_cells=max_cells))

    def log_likelihood(self, covariance: npt.ArrayLike) -> Floats:
        """Log-density of the released elements given sample covariance matrices.

        With respect to Lebesgue measure, plus point masses at bounds; those of a covariance are what the released variances leave.

        Parameters
        ----------
        covariance : array_like, shape (..., variables, variables)
            Confidential sample covariance matrices, with divisor n - 1; the result has shape (...).
        """
        truth = np.asarray(_validate.finite_array(covariance, "covariance"), dtype=np.float64)
        size = len(self.names)
        if truth.shape[-2:] != (size, size):
            raise ValueError(f"covariance must have shape (..., {size}, {size}), got {truth.shape}")
        there = ~self._hidden
        elements, law = _upper_triangle(truth)[..., there], self._law
        released = np.broadcast_to(self.measurements[0].values[there], elements.shape)
        of_each = LAWS[self.rule](law.scale[there], (law.lower[there], law.upper[there])).log_each(released, elements)
        return np.asarray(of_each.sum(-1))

    @property
    def is_positive_definite(self) -> bool:
        """Whether all eigenvalues are positive, to rounding."""
        values = np.linalg.eigvalsh(self.matrix)
        return bool(values[0] > 1e-14 * max(values[-1], 0.0) and values[-1] > 0.0)

    @property
    def rule(self) -> str:
        """What was done at the bounds: "boundary-inflated" or "truncated"."""
        return _rule_of(self._law)

    @cached_property
    def largest(self) -> Floats:
        """Upper bounds of the variances, shape (variables,)."""
        return np.diag(_as_matrix(self._law.upper))

    @property
    def correlation(self) -> Floats:
        """Correlations of the released matrix; NaN for a variable whose released variance is 0."""
        deviations = np.sqrt(np.diag(self.matrix))
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.clip(self.matrix / np.outer(deviations, deviations), -1.0, 1.0)
        found[np.diag_indices_from(found)] = np.where(deviations > 0.0, 1.0, np.nan)
        return np.asarray(found)

    def repaired(self, threshold: float = 1e-6) -> Floats:
        """A positive definite matrix near the released one, or that itself, with the same variances: post-processing.

        Alternating projections on the correlations (Higham, 2002, Computing the nearest correlation matrix) of statsmodels, which must
        be installed. For estimates only: the likelihood is that of the released elements, and needs no repair.

        Parameters
        ----------
        threshold : float
            Smallest eigenvalue of the correlations.

        Raises
        ------
        ValueError
            If a released variance is 0: no positive definite matrix has it.
        """
        _validate.positive_real(threshold, "threshold")
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

    def bounds(self, i: int, j: int) -> tuple[float, float]:
        """Bounds of an element: public for a variance, from the released variances for a covariance."""
        edge = math.sqrt(self.matrix[i, i]) * math.sqrt(self.matrix[j, j])
        return (0.0, float(self.largest[i])) if i == j else (-edge, edge)


def _rule_of(law: Any) -> str:
    return next(rule for rule, kind in LAWS.items() if isinstance(law, kind))


def _measured(matrix: Any, scales: Any, largest: Any, names: Any, rule: str) -> Measured:
    """The elements with their law, checked."""
    given = {"matrix": matrix, "scales": scales, "largest": largest}
    released, widths, edges = (np.array(_validate.finite_array(value, key), float) for key, value in given.items())
    size = len(edges) if edges.ndim == 1 else 0
    if size < 1 or released.shape != (size, size) or widths.shape != (size, size):
        raise ValueError(
            f"matrix and scales must be square, with one upper bound for each variable, got shapes {released.shape}, {widths.shape} "
            f"and {edges.shape}"
        )
    if not (np.array_equal(released, released.T) and np.array_equal(widths, widths.T)):
        raise ValueError("matrix and scales must be symmetric")
    _validate.choice(rule, tuple(LAWS), "rule")
    known = checked_names(names, (size,)) or ()
    variances = np.diag(released)
    for i in np.flatnonzero((variances < 0.0) | (variances > edges))[:1]:
        raise ValueError(
            f"matrix must have variances within 0 and their upper bounds, but that of {printable(known[i])} is "
            f"{float(variances[i])!r}, and its bound is {float(edges[i])!r}"
        )
    most = np.outer(np.sqrt(variances), np.sqrt(variances))
    for i, j in np.argwhere((np.abs(released) > most) & ~np.eye(size, dtype=bool))[:1]:
        raise ValueError(
            f"matrix must have correlations within -1 and 1, but the covariance of {printable(known[i])} and {printable(known[j])} is "
            f"{float(released[i, j])!r}, beyond {float(most[i, j])!r}"
        )
    noisy = (most > 0.0) | np.eye(size, dtype=bool)
    wrong = np.argwhere((widths > 0.0) != noisy)
    if wrong.size:
        i, j = wrong[0]
        raise ValueError(
            f"scales must be positive where both variances are, as for every variance, and 0 elsewhere, got "
            f"{float(widths[i, j])!r} for {printable(known[i])} and {printable(known[j])}"
        )
    law, hidden = _element_law(rule, _upper_triangle(widths), variances, edges)
    values = np.where(hidden, np.nan, _upper_triangle(released))
    return Measured(Identity(element_frame(known)), values, law, unmeasured=hidden)


def _guaranteed(epsilon: float, l1: float, **told: Any) -> StatisticGuarantee:
    """Of data sets of which one record is another."""
    loss = PureDP(epsilon)
    row = privacy.PairLoss(Neighbours("substitution", "data"), l1, "l1", loss)
    return StatisticGuarantee("pure", LossAt(loss, l1), "l1", (row,), **told)


@dataclass(frozen=True)
class CovarianceMatrix(DescribedMechanism):
    """Publish a covariance matrix: variances within public bounds, then covariances within those of the released variances.

    Liu (2019), Section 4.1 and Table 1. The bounds of a covariance are computed from released values and cost nothing. They need not
    contain the confidential covariance: the noise is then as if it were at the nearer bound (truncated), or mostly at it (clipped).

    Parameters
    ----------
    epsilon : float
        Loss for data sets of which one record is another, for all elements together.
    n, data_bounds, names : int, sequence of pairs of float, sequence of str
        Public number of records, public bounds of each variable, and their names.
    rule : {"boundary-inflated", "truncated"}
    parts : sequence of float, optional
        Budget of each element of the upper triangle, row by row, adding up to epsilon; equal ones by default.
    convention : {"exact", "paper"}
        ``"paper"`` keeps the scale ``sensitivity / epsilon`` for truncated noise; the guarantee states the true epsilon,
        `true_epsilon`.

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
    parts: Any = field(default=None, kw_only=True)
    convention: str = field(default="exact", kw_only=True)

    name: ClassVar[str] = "covariance-matrix"

    def __post_init__(self) -> None:
        put, given = object.__setattr__, self.data_bounds
        put(self, "epsilon", _validate.positive_real(self.epsilon, "epsilon"))
        put(self, "n", _validate.positive_integer(self.n, "n"))
        if not hasattr(given, "__len__") or len(given) < 1:
            raise TypeError(f"data_bounds must be a pair of bounds for each variable, got {given!r}")
        put(self, "data_bounds", tuple(tuple(pair) for pair in given))  # what they are is checked by the sensitivities
        put(self, "names", checked_names(self.names, (len(given),)))
        elements = element_frame(self.names).size
        _validate.choice(self.rule, tuple(LAWS), "rule")
        _validate.choice(self.convention, CONVENTIONS, "convention")
        _ = self._sensitivities
        if self.parts is not None and len(self.parts) != elements:
            raise ValueError(
                f"parts must be one for each of {elements} elements of the upper triangle, got {len(self.parts)}"
            )
        parts = privacy.split_budget(self.epsilon, elements if self.parts is None else list(self.parts))
        put(self, "parts", parts)

    @cached_property
    def _sensitivities(self) -> dict[tuple[int, int], privacy.Sensitivity]:
        """Sensitivity of each element of the upper triangle, row by row, under substitution of one record."""
        bounds = self.data_bounds
        return {
            (i, j): privacy.covariance_sensitivity(self.n, bounds[i], bounds[j])
            if i < j
            else privacy.variance_sensitivity(self.n, bounds[i])
            for i, j in zip(*(side.tolist() for side in np.triu_indices(len(bounds))), strict=True)
        }

    @property
    def largest(self) -> Floats:
        """The largest variance of data within the bounds, shape (variables,)."""
        upper: Any = [self._sensitivities[i, i].bounds[1] for i in range(len(self.names))]
        return np.array(upper, dtype=np.float64)

    @property
    def true_epsilon(self) -> float:
        """What a release costs at most, whatever variances it publishes.

        Truncated noise of the paper's scale loses the most for covariances where the released variances are at their upper bounds. The
        loss for the variances that were released depends on the data, and says nothing about what could have been published.
        """
        if self.convention == "exact":
            return self.epsilon
        return math.fsum(self._element(pair, known.bounds).true_epsilon for pair, known in self._sensitivities.items())

    @property
    def guarantee(self) -> StatisticGuarantee:
        """What the mechanism protects: the same for all data and all noise, as a loss that varied would tell something itself."""
        return self._guarantee()

    def _guarantee(self, drawn: tuple[Statement, ...] = (), simulated: bool = False) -> StatisticGuarantee:
        paper = (PaperElements(self.true_epsilon),) if self.convention == "paper" else ()
        caveats = (privacy.FLOATING_POINT_CAVEAT, *drawn, PUBLIC_BOUNDS, *paper, Fixed("elements added up"))
        l1 = math.fsum(known.l1 for known in self._sensitivities.values())
        return _guaranteed(self.true_epsilon, l1, simulated=simulated, caveats=caveats)

    def _element(self, pair: tuple[int, int], bounds: Any) -> LaplaceStatistics:
        part = dict(zip(self._sensitivities, self.parts, strict=True))[pair]
        return MECHANISMS[self.rule](part, self._sensitivities[pair], bounds, convention=self.convention)

    def _given(self, pair: tuple[int, int], variances: Floats) -> LaplaceStatistics | None:
        """The mechanism for one element, given the released variances; None for a covariance that can only be 0."""
        i, j = pair
        edge = self.largest[i] if i == j else math.sqrt(variances[i]) * math.sqrt(variances[j])
        return self._element(pair, (0.0 if i == j else -edge, edge)) if edge else None

    def release(self, covariance: npt.ArrayLike, rng: _validate.Seed = None) -> CovarianceRelease:
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
            If the matrix is not symmetric and positive semidefinite, or a variance is larger than data within the bounds can have.
        """
        generator, simulated = _validate.random_generator(rng), rng is not None
        truth = _checked_covariance(covariance, self.names, self.largest, self.n)
        matrix, scales = np.zeros_like(truth), np.zeros_like(truth)
        for i, j in sorted(self._sensitivities, key=lambda pair: pair[0] != pair[1]):  # variances first
            mechanism = self._given((i, j), np.diag(matrix))
            if mechanism is None:
                continue  # a released variance of 0: the covariance is 0, and nothing is spent
            # The same law as for the covariance itself under truncation; see bayesdp.noise.TruncatedLaplace.
            drawn = np.asarray(mechanism.law.draw(generator, (), location=float(truth[i, j])), dtype=np.float64)
            matrix[i, j] = matrix[j, i] = float(mechanism._rounded(drawn))
            scales[i, j] = scales[j, i] = mechanism.scale
        guarantee = self._guarantee(() if simulated else (GENERATOR_CAVEAT,), simulated)
        told = (self.names, self.rule, guarantee, simulated, self.describe())
        return CovarianceRelease(matrix, scales, self.largest, self.n, *told)

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data: ``{"mechanism": name, "epsilon": ..., ...}``."""
        stated = {item.name: getattr(self, item.name) for item in fields(self)}
        pairs = [[float(side) for side in pair] for pair in self.data_bounds]
        listed = {name: [*value] for name, value in stated.items() if name in ("names", "parts")}
        return {"mechanism": self.name, **stated, "data_bounds": pairs, **listed}

    @classmethod
    def _that_published(cls, description: Mapping[str, Any], measured: Measured, stated: Guarantee | None) -> Any:
        """See `DescribedMechanism._that_published`; of matrices that others have published, n alone may be described."""
        variables, released = variables_of(measured.query.frame), measured.law
        if variables is None or not isinstance(released, tuple(LAWS.values())):
            raise ValueError(
                f"the mechanism {cls.name!r} publishes elements named a:a, a:b and so on, with a law within bounds, but "
                f"released are {_validate.shown(measured.query.names)} with the law {released.name}"
            )
        variances = np.diag(_as_matrix(np.where(measured.unmeasured, 0.0, measured.values)))
        if set(description) == {"mechanism", "n"}:
            n = _validate.positive_integer(description["n"], "n")
            scales, largest, rule, guarantee = _from_scales(n, released, variances, stated)
        else:
            own = cls.from_description(description)
            if own.names != variables:
                raise ValueError(
                    f"its variables are {_validate.shown(own.names)}, but released are those of {_validate.shown(variables)}"
                )
            elements = [own._given(pair, variances) for pair in own._sensitivities]
            scales = np.array([0.0 if element is None else element.scale for element in elements])
            largest, rule, guarantee = own.largest, own.rule, own.guarantee
        law, hidden = _element_law(rule, scales, variances, largest)
        odd = np.flatnonzero(hidden != measured.unmeasured)
        if odd.size:
            raise ValueError(
                f"{measured.query.answer_name(int(odd[0]))} must be {'left out' if hidden[odd[0]] else 'published'}: covariances of "
                "a variable whose released variance is 0 are left out, and no others"
            )
        query = Identity(measured.query.frame)
        told: dict[str, Any] = {
            "names": tuple(map(str, query.frame.labels[0])),
            "leaves_out": True,
            "guarantee": guarantee,
        }
        told["true_epsilon"] = float(guarantee.parameters["epsilon"])
        return SimpleNamespace(name=cls.name, query=query, law=law, **told)


def _from_scales(
    n: int, released: Any, variances: Floats, stated: Guarantee | None
) -> tuple[Floats, Floats, str, StatisticGuarantee]:
    """Scales, upper bounds of the variances, rule and guarantee, from the number of records and the scales."""
    # The upper bounds of the variances and the number of records fix the sensitivities, and these with the scales the loss of each
    # element. A covariance whose bounds are both 0 got no noise, but had a part of the budget, which is not known: then the
    # guarantee may state more.
    one, both = privacy.variance_sensitivity(n, (0.0, 1.0)), privacy.covariance_sensitivity(n, (0.0, 1.0), (0.0, 1.0))
    of_one: Any = one.bounds  # both sides are numbers, as they are of every moment
    of_both: Any = both.bounds
    elements = (len(variances) * (len(variances) + 1) // 2,)
    scales, upper = (np.broadcast_to(side, elements) for side in (released.scale, released.upper))
    largest, rule = np.diag(_as_matrix(upper)), _rule_of(released)
    law, hidden = _element_law(rule, scales, variances, largest)
    # Bounds of a variance are in proportion to the square of the range of the data.
    ranges = _upper_triangle(np.sqrt(np.outer(largest, largest)) / of_one[1])
    diagonal = _upper_triangle(np.eye(len(variances))) == 1.0
    l1s = ranges * np.where(diagonal, one.l1, both.l1)
    far = np.where(diagonal, upper, ranges * (of_both[1] - of_both[0]))
    near = np.where(diagonal, upper, 2.0 * np.asarray(law.upper))

    def loss(k: int, width: float) -> float:
        exact = rule == "boundary-inflated"
        return float(l1s[k] / scales[k]) if exact else privacy.truncated_epsilon(scales[k], width, float(l1s[k]))

    # In the paper's convention the loss is stated at the bounds at which it is largest, and else it is the same at all bounds.
    least, most = (math.fsum(loss(k, widths[k]) for k in np.flatnonzero(~hidden).tolist()) for widths in (near, far))
    claim = least if stated is None else stated.parameters.get("epsilon", math.nan)
    true = claim if alike(claim, most) or (hidden.any() and claim >= least) else least
    made = _guaranteed(true, math.fsum(l1s))
    return scales, largest, rule, made if stated is None else replace(made, person=stated.person)
