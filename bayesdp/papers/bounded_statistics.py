"""Proportions that add up to 1, as Liu (2019, Section 4.2) publishes them, each way with its exact likelihood.

Noisy proportions are divided by their sum (`RescaledProportions`, law `RescaledLaplace`), what is missing to 1 goes to one
category (`AllButOne`), or noisy sums in a tree are made consistent (`UniversalHistogram`); `MultipleSynthesis` publishes
several times with parts of the budget. The intervals of the paper are `proportion_interval` and `combine_syntheses`.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy import stats

from bayesdp import _validate, noise
from bayesdp._arrays import Floats
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.mechanisms.bounded.statistic_release import DescribedMechanism, checked_names
from bayesdp.mechanisms.bounded.statistics import CONVENTIONS, LAWS, MECHANISMS, LaplaceStatistics
from bayesdp.noise import NoiseLaw
from bayesdp.noise.arrays import located, positive_scale
from bayesdp.privacy import StatisticGuarantee, proportion_sensitivity, split_budget
from bayesdp.privacy.caveats import Fixed
from bayesdp.queries import Identity, LinearQuery, Query
from bayesdp.release import Measured, Release

__all__ = [
    "AllButOne", "MultipleSynthesis", "ProportionMechanism", "ProportionRelease", "RescaledLaplace", "RescaledProportions",
    "UniversalHistogram",
]  # fmt: skip


RULES = tuple(LAWS)

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_FAR = 45.0  # exp(-45) is 3e-20: what is left out on one side of a maximum
_TIE = 1.0 - 1e-13  # shares of equal values are equal floats; those that came through a file may have lost a digit
_EVEN = 1e-9  # the sum of shares may be so far from 1: they may come from text with nine digits
_OUTSIDE = ("keep", "clip")


@dataclass(frozen=True, eq=False)
class RescaledLaplace(NoiseLaw):
    r"""Shares ``y / sum(y)`` of independent Laplace values y around the confidential proportions, kept within 0 and 1.

    What Liu (2019, Section 4.2) publishes; the law is derived here. Where y has no value at a bound, the shares r have the density,
    in all of them but one,

    .. math:: f(r) = \int_0^{1/\max r} s^{k-1} \prod_j f_j(s r_j)\, ds

    over the sum s of y, with k the number of positive shares. Clipping (the BIT rule) puts atoms on the bounds, and so
    mass on faces of the simplex. A share of exactly 0 comes from the lower bound, and contributes the probability of its
    atom in place of a factor ``f_j``; the density is then that on the face of the other shares. Values at the upper
    bound are ties: where t shares tie at the largest share m, with t >= 2, those values were all 1, the sum was 1/m, and
    the density in the i other positive shares is ``m^-(i+1) / t`` times the probabilities of the atoms and the densities of
    ``r / m``; i = 0 leaves a probability. Where one share is the largest, the same with t = 1 is added to the integral.
    All values 0 have no shares: equal ones are published, and their probability is added to that of all values 1. (Two values that
    agree on the grid of a release between the bounds, and are the largest, are read as a tie: probability below 1e-5.)

    The integrand is a power times an exponential between kinks at ``mu / r``: Gauss-Legendre quadrature in each piece, on
    the part of it that matters, has errors near 1e-14 relative to the result.

    ========  ===============================================
    Support   shares from 0 to 1 that add up to 1
    Mean      no closed form
    Variance  no closed form: pictures simulate
    ========  ===============================================

    Parameters
    ----------
    b : float or array_like, shape (categories,)
        Scale of the noise before the division.
    rule : {"truncated", "boundary-inflated"}
        How the noisy values are kept between 0 and 1.

    Examples
    --------
    >>> law = RescaledLaplace(0.1, "boundary-inflated")
    >>> print(f"{law.log_density([0.3, 0.7], [0.25, 0.75]):.6f}")
    1.287090
    >>> print(f"{np.exp(law.log_density([0.0, 1.0], [0.05, 0.95])):.6f}")  # a vertex: a probability
    0.303254
    """

    b: float | Floats
    rule: str

    name = "rescaled-laplace"
    support = "simplex"
    family = "bounded"
    integer = False
    full_support = True
    kernel_parameters = ("b",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_scale(self.b, "b"))
        _validate.choice(self.rule, RULES, "rule")

    @cached_property
    def raw(self) -> noise.BoundedLaw:
        """The law of the values before they are divided by their sum."""
        return LAWS[self.rule](self.b, (0.0, 1.0))

    @property
    def limits(self) -> tuple[float, float]:
        """0 and 1."""
        return 0.0, 1.0

    def refusal(self, values: npt.ArrayLike) -> str:
        """Whether they are no vector of shares that add up to 1, or have zeros under truncation; see `NoiseLaw.refusal`."""
        shares = proportions(values, "values")
        total = float(shares.sum())
        if shares.ndim != 1:
            return f"values of the law {self.name!r} must be one vector of shares, got shape {shares.shape}"
        if abs(total - 1.0) >= _EVEN:
            return f"values must add up to 1 under the law {self.name!r}, as shares do, but add up to {total!r}"
        if self.rule == "truncated" and not np.all(shares > 0.0):
            return f"values must be greater than 0 under the law {self.name!r} with the rule 'truncated', which has no atom at 0"
        return ""

    def _least_losses(self, shape: tuple[int, ...]) -> dict[str, tuple[float, float]]:
        """For distances in l1; see `NoiseLaw._least_losses`."""
        # Shares with all of the mass in one category have a density that differs between proportions (1, 0, ...) and (1 - d/2, d/2,
        # 0, ...), which are d apart, by exp(d / (2 b)) for the share that is 0, and by factors above 1 for the share that is 1.
        return {"l1": (2.0, 2.0 * float(np.max(self.b)))}

    def draw(self, rng: _validate.Seed, shape: tuple[int, ...], size: int | None = None, invariants: Invariants | None = None,
             location: npt.ArrayLike | None = None) -> Floats:  # fmt: skip
        """Draw shares around confidential proportions, categories last; equal ones by default. See `NoiseLaw.draw`."""
        centre = proportions(located(1.0 / shape[-1] if location is None else location, shape), "location")
        return rescale(self.raw.draw(rng, shape, size, location=centre))

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Log-density of shares on their face of the simplex, of several vectors the sum; see `log_density`."""
        return float(np.sum(self.log_density(values, location)))

    def log_density(self, shares: npt.ArrayLike, location: npt.ArrayLike) -> Floats:
        """Log-density of shares, (..., categories), on their face of the simplex, given confidential proportions: shape (...).

        With respect to Lebesgue measure in all free shares but one; ``-inf`` where shares are negative or do not add up to 1 (to
        1e-9), and for zeros under truncation.
        """
        r, mu = np.broadcast_arrays(proportions(shares, "shares"), proportions(location, "location"))
        with np.errstate(divide="ignore"):
            return np.asarray(self._log_density(np, r, mu, self.b, self.rule))

    @classmethod
    def _log_density(cls, xp: Any, value: Any, mu: Any, b: Any, rule: str) -> Any:
        """`log_kernel` of shares; ``-inf`` for what are none."""
        valid = xp.all(value >= 0.0, axis=-1) & (xp.abs(xp.sum(value, axis=-1) - 1.0) < _EVEN)
        shares = xp.where(valid[..., None], value, 1.0 / value.shape[-1])
        return xp.where(valid, cls.log_kernel(xp, shares, mu, b, rule), -np.inf)

    @staticmethod
    def log_kernel(xp: Any, value: Any, mu: Any, b: Any, rule: str) -> Any:
        """Log-density of shares that add up to 1, given confidential proportions; see `bayesdp.noise.arrays` for xp.

        The shares decide on which face of the simplex the density is: no derivative with respect to them is right.
        """
        positive = value > 0.0
        if rule == "truncated":
            return xp.where(xp.all(positive, axis=-1), _smooth(xp, value, mu, b, rule), -np.inf)
        largest = xp.max(value, axis=-1, keepdims=True)
        top = value >= largest * _TIE
        ties = xp.sum(top, axis=-1)
        # The largest values are all at the upper bound.
        y = xp.where(top, 1.0, value / largest)
        found = xp.sum(noise.BoundaryInflatedLaplace.log_kernel(xp, y, mu, b, 0.0, 1.0), axis=-1)
        found = found - (xp.sum(positive & ~top, axis=-1) + 1.0) * xp.log(largest[..., 0]) - xp.log(1.0 * ties)
        found = xp.logaddexp(found, xp.where(ties < 2, _smooth(xp, value, mu, b, rule), -np.inf))
        # Where all are equal, all values may be at the lower bound as well.
        nothing = xp.sum(noise.Laplace.log_cdf_kernel(xp, 0.0, mu, b), axis=-1)
        return xp.logaddexp(found, xp.where(xp.all(top, axis=-1), nothing, -np.inf))


def _smooth(xp: Any, r: Any, mu: Any, b: Any, rule: str) -> Any:
    """Logarithm of the integral over the sum of the values."""
    positive = r > 0.0
    power = (xp.sum(positive, axis=-1) - 1.0)[..., None]
    most = 1.0 / xp.max(r, axis=-1, keepdims=True)
    slope = r / b  # 0 for shares of 0, which drop out
    kinks = xp.where(positive, xp.clip(mu / xp.where(positive, r, 1.0), 0.0, most), most)
    edges = xp.concatenate([0.0 * most, xp.sort(kinks, axis=-1), most], axis=-1)
    low, high = edges[..., :-1], edges[..., 1:]
    # Right of its kink a factor falls, left of it it rises.
    middle = 0.5 * (low + high)[..., None, :]
    c = xp.sum(xp.where(middle * r[..., None] < mu[..., None], 1.0, -1.0) * slope[..., None], axis=-2)
    start, end = _that_matters(xp, low, high, c, power)
    half = xp.maximum(0.5 * (end - start), 1e-300)
    s = start[..., None] + half[..., None] * (1.0 + _NODES)
    terms = xp.log(half)[..., None] + np.log(_WEIGHTS) + power[..., None] * xp.log(xp.maximum(s, 1e-300))
    centre = xp.where(positive, mu / b, 0.0)
    if xp is np:  # one category at a time, to keep the arrays small
        for j in range(r.shape[-1]):
            terms = terms - np.abs(slope[..., j, None, None] * s - centre[..., j, None, None])
    else:
        terms = terms - xp.sum(xp.abs(slope[..., None, None, :] * s[..., None] - centre[..., None, None, :]), axis=-1)
    peak = xp.max(terms, axis=(-2, -1))
    total = peak + xp.log(xp.sum(xp.exp(terms - peak[..., None, None]), axis=(-2, -1)))
    if rule == "truncated":
        return total + xp.sum(noise.TruncatedLaplace.log_kernel(xp, mu, mu, b, 0.0, 1.0), axis=-1)
    return total + xp.sum(xp.where(positive, -xp.log(2.0 * b), noise.Laplace.log_cdf_kernel(xp, 0.0, mu, b)), axis=-1)


def _that_matters(xp: Any, low: Any, high: Any, c: Any, power: Any) -> tuple[Any, Any]:
    """The part of a piece where ``s**power exp(c s)`` is not negligible against its maximum there; it is log-concave."""
    # Derivatives of the logarithm at the two ends; divisors are kept off 0.
    falls, rises = (power / xp.maximum(end, 1e-200) + c for end in (low, high))
    steep, spread = xp.maximum(xp.abs(c), 1e-200), xp.sqrt(2.0 * _FAR * power)
    peak = xp.where(rises >= 0.0, high, xp.where(falls <= 0.0, low, power / steep))
    left = xp.where(rises >= 0.0, _FAR / xp.maximum(rises, 1e-200), spread / steep)
    right = xp.where(falls <= 0.0, _FAR / xp.maximum(-falls, 1e-200), (spread + _FAR) / steep)
    return xp.maximum(low, peak - left), xp.minimum(high, peak + right)


def proportions(values: Any, argument: str, least: int = 2) -> Floats:
    """Accept finite numbers with so many entries or more along the last axis."""
    array = np.asarray(_validate.finite_array(values, argument), dtype=np.float64)
    if array.ndim < 1 or array.shape[-1] < least:
        raise ValueError(f"{argument} must have {least} entries or more along the last axis, got shape {array.shape}")
    return array


def rescale(noisy: npt.ArrayLike) -> Floats:
    """Divide noisy proportions, at least 0, by their sum (the first approach); where all are zero, all shares are equal."""
    array = proportions(noisy, "noisy")
    if np.any(array < 0.0):
        raise ValueError(f"noisy must be at least 0 to be divided by its sum, got {array[array < 0.0][0]!r}")
    total = array.sum(axis=-1, keepdims=True)
    return np.where(total > 0.0, array / np.where(total > 0.0, total, 1.0), 1.0 / array.shape[-1])


def all_but_one(noisy: npt.ArrayLike, position: int = -1, outside: str = "keep") -> Floats:
    """Put what is missing to 1 at a position of noisy shares of all other categories (the second approach).

    What is outside 0 to 1 then is kept, or clipped at 0 and the others divided by their sum (Remark 1).
    """
    array = proportions(noisy, "noisy", 1)
    _validate.choice(outside, _OUTSIDE, "outside")
    size = array.shape[-1] + 1
    if not -size <= position < size:
        raise ValueError(f"position must be one of the {size} categories, got {position!r}")
    last = 1.0 - array.sum(axis=-1)
    full = np.insert(array, position % size, last, axis=-1)
    return full if outside == "keep" else rescale(np.clip(full, 0.0, None))


def leaves_under(categories: int, branches: int = 2) -> list[int]:
    """How many leaves are under a node of each level under the root, from the top, of a full tree whose leaves are the categories."""
    leaves = _validate.positive_integer(categories, "categories")
    each = _validate.positive_integer(branches, "branches")
    if each < 2:
        raise ValueError(f"branches must be at least 2, got {branches!r}")
    sizes = [1]
    while sizes[0] * each < leaves:
        sizes.insert(0, sizes[0] * each)
    if sizes[0] * each != leaves:
        raise ValueError(
            f"a universal histogram with {each} branches has {each}, {each**2}, {each**3}, ... categories, got {leaves}; add "
            "categories that are known to be empty, or take another number of branches"
        )
    return sizes


def tree_sums(leaves: npt.ArrayLike, branches: int = 2) -> Floats:
    """All nodes under the root of the tree of sums, level by level from the top, the leaves last."""
    array = proportions(leaves, "leaves")
    sizes = leaves_under(array.shape[-1], branches)
    return np.concatenate([array.reshape(*array.shape[:-1], -1, size).sum(axis=-1) for size in sizes], axis=-1)


def consistent_tree(nodes: npt.ArrayLike, branches: int = 2, *, nonnegative: bool = True) -> Floats:
    """Least-squares tree of sums that adds up to 1, from equally noisy nodes in the order of `tree_sums`; then no node below 0.

    The pass upwards weights a node with ``(k^l - k^(l-1)) / (k^l - 1)`` and the sum of its children with ``(k^(l-1) - 1) /
    (k^l - 1)``, for k branches and l levels from the leaves (1); the pass downwards shares what is missing equally. Unless
    `nonnegative` is False, a negative node is set to 0 and its siblings scaled to their parent, from the top, so that every level
    adds up. Hay, Rastogi, Miklau and Suciu (2010), Theorem 3; Liu (2019), Section 4.2, steps 3 to 5 and footnote 3.
    """
    array = proportions(nodes, "nodes")
    k = _validate.positive_integer(branches, "branches")
    lead, sizes = array.shape[:-1], [k]
    while sum(sizes) < array.shape[-1]:
        sizes.append(sizes[-1] * k)
    if k < 2 or sum(sizes) != array.shape[-1]:
        raise ValueError(f"nodes must be all of a full tree with {k} branches under the root, got {array.shape[-1]}")
    levels = np.split(array, np.cumsum(sizes)[:-1], axis=-1)
    upward = [levels[-1]]
    for height, level in enumerate(reversed(levels[:-1]), start=2):
        of_node, of_sum = k**height - k ** (height - 1), k ** (height - 1) - 1
        sums = upward[0].reshape(*lead, -1, k).sum(axis=-1)
        upward.insert(0, (of_node * level + of_sum * sums) / (k**height - 1))
    parent, done = np.ones((*lead, 1)), []
    for level in upward:
        family = level.reshape(*lead, -1, k)
        family = family + (parent[..., None] - family.sum(axis=-1, keepdims=True)) / k
        if nonnegative:
            inner = np.clip(family, 0.0, None)
            sums = inner.sum(axis=-1, keepdims=True)
            family = np.where(sums > 0.0, inner * (parent[..., None] / np.where(sums > 0.0, sums, 1.0)), 0.0)
        parent = family.reshape(*lead, -1)
        done.append(parent)
    return np.concatenate(done, axis=-1)


@dataclass(frozen=True, eq=False, repr=False)
class ProportionRelease(Release):
    """A `Release` of proportions that add up to 1, made by a `ProportionMechanism`: with the shares that it publishes.

    `bayesdp.observe` takes it together with the confidential proportions of the records, such as ``counts / n``, written as a
    function of the parameters of your model. Its measurement is what was published: the shares themselves (`RescaledProportions`), or
    noisy proportions or sums of them, from which everybody can make the shares. For proportions with a law of your own there is
    `Release`.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> from bayesdp.papers.bounded_statistics import AllButOne
    >>> release = AllButOne(1.0, 50, ["rents", "owns", "other"]).release([10, 15, 25], rng=1)
    >>> import pymc as pm
    >>> with pm.Model(coords=release.coords) as model:
    ...     counts = pm.DirichletMultinomial("counts", 50, np.ones(3), dims="category")
    ...     bdp.observe(release, counts / 50)
    >>> [variable.name for variable in model.observed_RVs]
    ['noisy']
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_stated()
        _ = self._source  # that it publishes proportions

    @cached_property
    def _source(self) -> ProportionMechanism:
        return ProportionMechanism.from_description(cast(Any, self.mechanism))

    @property
    def shares(self) -> Floats:
        """The shares, which add up to 1, shape (categories,)."""
        source, published = self._source, np.array(self.measurements[0].values, dtype=np.float64)
        return published if source._SHARES_ONLY else source.shares(published)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the categories."""
        return tuple(map(str, self.frame.labels[0]))

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str], *, max_cells: int | None = None) -> Self:
        """Read a release from a netCDF-4 file written by `to_netcdf`; see `bayesdp.Release.from_netcdf`."""
        found = Release.from_netcdf(path, max_cells=max_cells)
        try:
            ProportionMechanism.from_description(cast(Any, found.mechanism))
        except ValueError:
            other = f"{str(path)!r} holds no release of proportions; for others there is Release.from_netcdf"
            raise ValueError(other) from None
        return cls(**found.__getstate__())


@dataclass(frozen=True, eq=False)
class ProportionMechanism(DescribedMechanism):
    """Publish the proportions of n records in disjoint categories; see the subclasses."""

    epsilon: float
    n: int
    names: Any
    rule: str = field(default="boundary-inflated", kw_only=True)
    convention: str = field(default="exact", kw_only=True)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", _validate.positive_real(self.epsilon, "epsilon"))
        put(self, "n", _validate.positive_integer(self.n, "n"))
        _validate.choice(self.rule, RULES, "rule")
        _validate.choice(self.convention, CONVENTIONS, "convention")
        if isinstance(self.names, str) or not hasattr(self.names, "__len__") or len(self.names) < 2:
            raise ValueError(f"names must be those of two categories or more, got {self.names!r}")
        put(self, "names", checked_names(self.names, (len(self.names),)))

    @property
    @abstractmethod
    def query(self) -> Query:
        """What is measured of the proportions: each, all but one, or sums of them."""

    @cached_property
    def noise(self) -> LaplaceStatistics:
        """The mechanism that publishes the noisy values, before they are made to add up."""
        how: Any = {"names": self.query.names, "convention": self.convention, **self._sensitivity()}
        return MECHANISMS[self.rule](self.epsilon, bounds=(0.0, 1.0), **how)

    def _sensitivity(self) -> dict[str, Any]:
        """What one record changes of the values. With two categories of which one is published, neighbours are 1/n apart."""
        return {"sensitivity": proportion_sensitivity(self.n, self.query.rows)}

    @property
    def law(self) -> NoiseLaw:
        """The law of what is published."""
        return self.noise.law

    def statistics(self, counts: npt.ArrayLike) -> Floats:
        """The values that noise is put on, for counts of shape (..., categories)."""
        table = np.asarray(_validate.finite_array(counts, "counts", confidential=True), dtype=np.float64)
        if table.ndim < 1 or table.shape[-1] != len(self.names):
            raise ValueError(f"counts must have {len(self.names)} categories last, got shape {table.shape}")
        return np.asarray(self.query.apply(table) / self.n)

    @abstractmethod
    def shares(self, noisy: npt.ArrayLike) -> Floats:
        """Shares that add up to 1, from noisy values along the last axis: post-processing."""

    def log_likelihood(self, release: Release, counts: npt.ArrayLike) -> Floats:
        """Log-density of what was published given counts: of the shares, or of the noisy values that they are made of.

        Parameters
        ----------
        release : ProportionRelease or Release
            Of this mechanism.
        counts : array_like, shape (..., categories)
            Confidential counts of n records; the result has shape (...).
        """
        if getattr(release, "mechanism", None) != self.describe():
            raise ValueError(f"release must come from this mechanism, {self.describe()}, got {release!r}")
        release.check_stated()
        return self._log_density(np.asarray(release.measurements[0].values), self.statistics(counts))

    _SHARES_ONLY: ClassVar[bool] = False
    _STATED: ClassVar[Fixed]

    @property
    def _frame(self) -> Frame:
        return Frame.of({"category": list(self.names)})

    @property
    def true_epsilon(self) -> float:
        """What a release costs: that of the noise, which making the values add up does not change."""
        return self.noise.true_epsilon

    @property
    def guarantee(self) -> StatisticGuarantee:
        """What the mechanism protects, in words and numbers, and with what reservations."""
        return self._extended(self.noise.guarantee)

    def _extended(self, stated: StatisticGuarantee) -> StatisticGuarantee:
        return replace(stated, caveats=(*stated.caveats, self._STATED))

    def release(self, counts: npt.ArrayLike, rng: _validate.Seed = None) -> ProportionRelease:
        """Publish shares of confidential counts.

        Parameters
        ----------
        counts : array_like of int, shape (categories,)
            They add up to n.
        rng : int, numpy.random.Generator or None
            Without one, a generator as in `TruncatedLaplace.release`: do that to publish. With one the release is marked as simulated.
        """
        of = [f"that of {name}" for name in self.names]
        table = _validate.integer_array(counts, "counts", lambda i: of[i % len(of)], minimum=0, confidential=True)
        if table.shape != (len(self.names),):
            raise ValueError(f"counts must be one for each of {len(self.names)} categories, got shape {table.shape}")
        if _validate.exact_total(table) != self.n:
            raise ValueError(f"counts must add up to the public n = {self.n}, but they do not")
        noisy = self.noise.release(self.statistics(table), rng)
        published = self.shares(noisy.values) if self._SHARES_ONLY else noisy.values.values
        told = (self.describe(), self._extended(cast(StatisticGuarantee, noisy.guarantee)), noisy.simulated)
        return ProportionRelease(self._frame, (Measured(self.query, published, self.law),), (), *told, "statistics")

    def _log_density(self, values: Floats, location: Floats) -> Floats:
        law: Any = self.law
        return np.asarray(law.log_each(np.broadcast_to(values, location.shape), location).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class RescaledProportions(ProportionMechanism):
    """Publish noisy proportions divided by their sum, and nothing else (Section 4.2, the first approach).

    Where clipping makes them all 0, equal shares are published: a rule that does not look at the data, and costs nothing. Drawing
    again instead would condition on not having been there, whose probability depends on the data: the epsilon would not hold.

    Parameters
    ----------
    epsilon : float
        Loss for data sets of which one record is in another category.
    n, names : int, sequence of str
        Public number of records, and names of the categories.
    rule : {"boundary-inflated", "truncated"}
        How noisy proportions are kept between 0 and 1.
    convention : {"exact", "paper"}
        ``"paper"`` takes the scale ``1 / (n epsilon)``; the guarantee states the true epsilon.

    See Also
    --------
    bayesdp.papers.bounded_statistics.RescaledLaplace : the law of the shares.

    Examples
    --------
    >>> mechanism = RescaledProportions(1.0, 50, ["a", "b", "c"])
    >>> release = mechanism.release([10, 15, 25], rng=np.random.default_rng(1))
    >>> print(f"{release.shares.sum():.6f} {mechanism.true_epsilon}")
    1.000000 1.0
    >>> mechanism.log_likelihood(release, [[10, 15, 25], [25, 15, 10]]).round(2).tolist()
    [4.03, -9.64]
    """

    name = "rescaled-proportions"
    _SHARES_ONLY = True
    _STATED = Fixed("shares rescaled")

    def _sensitivity(self) -> dict[str, Any]:
        return {"names": self.names, **super()._sensitivity()}

    @property
    def law(self) -> RescaledLaplace:
        """The law of the shares."""
        return RescaledLaplace(self.noise.scale, self.rule)

    @property
    def query(self) -> Query:
        """Each proportion."""
        return Identity(self._frame)

    def shares(self, noisy: npt.ArrayLike) -> Floats:
        """Each divided by the sum of all; where all are 0, equal ones."""
        return rescale(noisy)

    def _log_density(self, values: Floats, location: Floats) -> Floats:
        return self.law.log_density(values, location)


@dataclass(frozen=True, eq=False)
class AllButOne(ProportionMechanism):
    """Publish noisy proportions of all categories but one, and what is missing to 1 for that one (Section 4.2; Remark 1).

    The missing share leaves its bounds where the others add up to more than 1. With ``outside="keep"`` it is published as it is,
    negative; ``"clip"`` publishes 0, and the others divided by their sum, beside the noisy values. Both are post-processing. Drawing
    again until it is inside would not be, as for `RescaledProportions`, and is not offered.

    Parameters
    ----------
    epsilon, n, names, rule, convention
        As for `RescaledProportions`.
    last : str, optional
        The category that gets no noise of its own; the last one by default.
    outside : {"keep", "clip"}
        What is published where its share is outside its bounds.

    Examples
    --------
    >>> mechanism = AllButOne(1.0, 50, ["a", "b", "c"], last="a")
    >>> release = mechanism.release([10, 15, 25], rng=np.random.default_rng(1))
    >>> release.measurements[0].query.names
    ['b', 'c']
    >>> mechanism.log_likelihood(release, [10, 15, 25]).shape
    ()
    """

    last: str | None = field(default=None, kw_only=True)
    outside: str = field(default="keep", kw_only=True)

    name = "all-but-one"
    _STATED = Fixed("shares but one")

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice(self.outside, _OUTSIDE, "outside")
        last = self.names[-1] if self.last is None else _validate.choice(self.last, self.names, "last")
        object.__setattr__(self, "last", last)

    @property
    def _place(self) -> int:
        return int(self.names.index(self.last))

    @cached_property
    def query(self) -> Query:
        """The proportions of all categories but one."""
        others = [i for i in range(len(self.names)) if i != self._place]
        picked = sp.eye_array(len(self.names), dtype=int, format="csr")[others]
        return LinearQuery(self._frame, picked, [self.names[i] for i in others])

    def shares(self, noisy: npt.ArrayLike) -> Floats:
        """All others, and what is missing to 1."""
        return all_but_one(noisy, self._place, self.outside)


@dataclass(frozen=True, eq=False)
class UniversalHistogram(ProportionMechanism):
    """Publish a tree of noisy sums of proportions, made consistent by least squares (Section 4.2, the third approach).

    One record counts once in each level of the tree, so that the scale of the noise is that of `RescaledProportions` times the number
    of levels (Hay, Rastogi, Miklau and Suciu, 2010). The release has the noisy sums, and inference conditions on them: the consistent
    tree is a function of them that forgets something.

    Parameters
    ----------
    epsilon, n, names, rule, convention
        As for `RescaledProportions`; the number of categories is a power of the branches.
    branches : int
        Children of each node.

    Examples
    --------
    >>> mechanism = UniversalHistogram(1.0, 50, ["a", "b", "c", "d"])
    >>> mechanism.noise.names
    ('a + b', 'c + d', 'a', 'b', 'c', 'd')
    >>> mechanism.noise.scale
    0.08
    """

    branches: int = field(default=2, kw_only=True)

    name = "universal-histogram"
    _STATED = Fixed("shares of a histogram")

    def __post_init__(self) -> None:
        super().__post_init__()
        leaves_under(len(self.names), self.branches)

    def _sensitivity(self) -> dict[str, Any]:
        levels, one = len(leaves_under(len(self.names), self.branches)), proportion_sensitivity(self.n, len(self.names))
        changes = {"largest": one.largest, "changed": 2 * levels}
        return {"sensitivity": levels * one.l1, "paper_sensitivity": levels * (1 / self.n), **changes}

    @cached_property
    def query(self) -> Query:
        """The sums in all nodes under the root, level by level from the top, the leaves last."""
        k, sizes = len(self.names), leaves_under(len(self.names), self.branches)
        groups = [self.names[i : i + size] for size in sizes for i in range(0, k, size)]
        labels = [" + ".join(group) if len(group) <= 4 else f"{group[0]} to {group[-1]}" for group in groups]
        sums = [sp.kron(sp.eye_array(k // size, dtype=int), np.ones((1, size), dtype=int)) for size in sizes]
        return LinearQuery(self._frame, sp.vstack(sums), labels)

    def shares(self, noisy: npt.ArrayLike) -> Floats:
        """The leaves of the consistent tree: least squares, then no node below 0."""
        return consistent_tree(noisy, self.branches)[..., -len(self.names) :]


def proportion_interval(shares: npt.ArrayLike, n: int, level: float = 0.95) -> tuple[Floats, Floats]:
    """The interval ``share -+ z sqrt(share (1 - share) / n)``, which takes noisy shares for those of the data.

    It leaves out the noise: this is why the intervals of Liu (2019) cover too little. A share outside 0 to 1 counts as the
    nearer of the two in the width; the ends can lie outside, too.
    """
    centre = np.asarray(_validate.finite_array(shares, "shares"), dtype=np.float64)
    inner, z = np.clip(centre, 0.0, 1.0), stats.norm.isf(0.5 - 0.5 * _validate.probability(level, "level"))
    half = z * np.sqrt(inner * (1 - inner) / _validate.positive_integer(n, "n"))
    return centre - half, centre + half


def combine_syntheses(
    estimates: npt.ArrayLike, variances: npt.ArrayLike, level: float = 0.95
) -> tuple[Floats, Floats, Floats]:
    """Combine m releases about the same records, along the first axis: mean, and a t interval of variance W + B/m.

    W is the mean of the variances that each release would have without noise, B the variance between the m estimates; the
    degrees of freedom are ``(m - 1)(1 + m W / B)^2``. B/m measures the noise, but no bias. Liu (2016); Reiter (2003), for
    partially synthetic data.
    """
    each = np.asarray(_validate.finite_array(estimates, "estimates"), dtype=np.float64)
    spread = np.asarray(_validate.finite_array(variances, "variances"), dtype=np.float64)
    if each.ndim < 1 or each.shape[0] < 2:
        raise ValueError(f"estimates must hold two releases or more along the first axis, got shape {each.shape}")
    if spread.shape != each.shape:
        raise ValueError(f"variances must have the shape of estimates, {each.shape}, got {spread.shape}")
    if np.any(spread < 0.0):
        raise ValueError(f"variances must be at least 0, got {spread[spread < 0.0][0]!r}")
    m = each.shape[0]
    between, within = each.var(axis=0, ddof=1), spread.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(between > 0.0, (m - 1) * (1.0 + m * within / between) ** 2, math.inf)
    size = stats.t.isf(0.5 - 0.5 * _validate.probability(level, "level"), freedom)
    half = size * np.sqrt(within + between / m)
    return each.mean(axis=0), each.mean(axis=0) - half, each.mean(axis=0) + half


@dataclass(frozen=True)
class MultipleSynthesis:
    """Publish proportions several times; the losses add up (Section 4.2, multiple synthesis).

    Each release has its share of the budget, and so more noise. `combine` is the rule of the paper; the Bayesian
    answer conditions on all releases: give each of them to `bayesdp.observe`.

    Parameters
    ----------
    mechanisms : sequence of ProportionMechanism
        Two or more, of the same records and categories.

    Examples
    --------
    >>> several = MultipleSynthesis.split(RescaledProportions, 1.0, 200, ["a", "b", "c"], parts=5)
    >>> print(f"{several.mechanisms[0].epsilon:.2f} {several.true_epsilon:.6f}")
    0.20 1.000000
    >>> releases = several.release([40, 60, 100], rng=np.random.default_rng(1))
    >>> estimate, low, high = several.combine(releases)
    >>> bool(np.all((low < estimate) & (estimate < high)))
    True
    """

    mechanisms: tuple[ProportionMechanism, ...]

    def __post_init__(self) -> None:
        given: Any = self.mechanisms
        if not isinstance(given, Sequence) or not all(isinstance(each, ProportionMechanism) for each in given):
            raise TypeError(f"mechanisms must be a sequence of mechanisms for proportions, got {given!r}")
        object.__setattr__(self, "mechanisms", tuple(given))
        if len(given) < 2:
            raise ValueError(f"mechanisms must be two or more, got {len(given)}")
        about = list(dict.fromkeys(f"n = {each.n} of {list(each.names)}" for each in given))
        if len(about) > 1:
            raise ValueError(f"mechanisms must be for the same records and categories, got {' and '.join(about[:2])}")

    @classmethod
    def split(cls, kind: type[ProportionMechanism], epsilon: float, n: int, names: Sequence[str], *,
              parts: int | Sequence[float] = 5, **parameters: Any) -> Self:  # fmt: skip
        """Make mechanisms of one kind, which takes `n`, `names` and `parameters`, that share a budget.

        Parameters
        ----------
        kind : type
            `RescaledProportions`, `AllButOne` or `UniversalHistogram`.
        epsilon, parts : float; int or sequence of float
            The whole budget; the number of equal parts, or the parts, which must add up to epsilon.
        """
        return cls(tuple(kind(part, n, names, **parameters) for part in split_budget(epsilon, parts)))

    @property
    def true_epsilon(self) -> float:
        """What all releases cost together."""
        return math.fsum(each.true_epsilon for each in self.mechanisms)

    def release(self, counts: npt.ArrayLike, rng: _validate.Seed = None) -> tuple[ProportionRelease, ...]:
        """Publish all; see `RescaledProportions.release`. The guarantee of each is that of one release."""
        generator = _validate.random_generator(rng)  # once: each release goes on where the last one stopped
        return tuple(each.release(counts, generator) for each in self.mechanisms)

    def combine(self, releases: Sequence[ProportionRelease], level: float = 0.95) -> tuple[Floats, Floats, Floats]:
        """Estimate, lower and upper ends of a t interval of every proportion, each of shape (categories,), by `combine_syntheses`."""
        if [release.mechanism for release in releases] != [each.describe() for each in self.mechanisms]:
            raise ValueError(f"releases must be one of each of the {len(self.mechanisms)} mechanisms, in their order")
        shares = np.stack([release.shares for release in releases])
        inner = np.clip(shares, 0.0, 1.0)
        return combine_syntheses(shares, inner * (1.0 - inner) / self.mechanisms[0].n, level)
