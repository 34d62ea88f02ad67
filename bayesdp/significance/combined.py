"""One test of the odds ratio from several noisy corners of the same table.

Laws of weighted sums of independent noisy counts: of the counts, and of their noise.

Every noise that the tests know is whole-number noise plus a uniform, normal, a sum of Laplace variables of one scale, or something
else with a distribution function. Sums of the first kind are convolutions of masses, all terms positive, so that tails keep their
digits; normal and Laplace variables have closed forms; and whole-number noise plus *one* continuous law is a finite mixture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc

from bayesdp import _validate
from bayesdp._validate import Seed, generator_of
from bayesdp.composition import joint_release
from bayesdp.measurements import Measured
from bayesdp.noise import NoiseLaw
from bayesdp.noise.base import Floats
from bayesdp.privacy.canonical import GaussianNoise, Tulap
from bayesdp.privacy.tradeoffs.laws import gaussian_dp
from bayesdp.release import Release
from bayesdp.significance._families import NEGLIGIBLE, Family, Masses
from bayesdp.significance._noise import (
    DiscreteGaussianNoise,
    LaplaceNoise,
    Noise,
    WiderNoise,
    cell_noise,
    in_words,
    tabulated_cdf,
)
from bayesdp.significance.from_release import (
    NoisyCorner,
    check_table,
    corner_of_cell,
    corner_of_table,
    odds_ratio_test_from_release,
)
from bayesdp.significance.odds_ratio import OddsRatioResult, result_of

_TAILS = (1e-100, 1e-30)
"""Masses of whole-number noise below the first share of the largest are left out; below the second, where the sum is long."""
_MOST_PRODUCTS = 2e9
"""Of a convolution: about two seconds."""
_CHUNK = 4_000_000


@dataclass(frozen=True)
class FamilySum:
    """Sum of independent counts with a common odds ratio: again an exponential family, its masses a convolution."""

    parts: tuple[Family, ...]

    @property
    def low(self) -> int:
        """Smallest sum."""
        return sum(part.low for part in self.parts)

    @property
    def high(self) -> int:
        """Largest sum."""
        return sum(part.high for part in self.parts)

    def masses(self, log_odds: float, negligible: float = NEGLIGIBLE) -> Masses:
        """The law of the sum at some log odds, infinities included."""
        laws = [part.masses(log_odds, negligible) for part in self.parts]
        weights = reduce(np.convolve, (law.weights for law in laws))
        return Masses(sum(law.first for law in laws), weights / math.fsum(weights))


class _ByMasses:
    """Equality and text of laws that hold a table of masses."""

    mass: Floats

    def _key(self) -> tuple[Any, ...]:
        return (type(self), self.mass.tobytes(), getattr(self, "noise", None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByMasses) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key()[:2])


@dataclass(frozen=True, eq=False)
class WholeNoise(_ByMasses):
    """Symmetric whole-number noise plus an independent U(-1/2, 1/2)."""

    mass: Floats = field(repr=False)  # P(j) for j = 0, 1, ...; what is beyond is negligible
    _tail: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        beyond = np.cumsum(self.mass[::-1])[::-1]  # from the far end: small terms first
        object.__setattr__(self, "_tail", np.append(beyond[1:], 0.0))

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        return tabulated_cdf(self.mass, self._tail, x)


@dataclass(frozen=True)
class LaplacesNoise:
    """Sum of `terms` independent Laplace variables of scale b.

    With m = terms - 1 the density is ``exp(-s) sum_k (m + k)! / (k! (m - k)! 2**k) s**(m - k) / (m! 2**(m + 1) b)``,
    ``s = |x| / b``: a Bessel function of half-integer order. The tail adds up incomplete gamma functions, all positive.
    """

    b: float
    terms: int

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        at = np.asarray(x, dtype=np.float64) / self.b
        s, m = np.abs(at), self.terms - 1
        low = np.zeros_like(s)
        for k in range(m + 1):
            # The integral of s**(m - k) exp(-s) from s on is (m - k)! times gammaincc, which cancels the (m - k)! above.
            log_weight = math.lgamma(m + k + 1) - math.lgamma(k + 1) - math.lgamma(m + 1) - (m + 1 + k) * math.log(2.0)
            low = low + math.exp(log_weight) * gammaincc(m - k + 1, s)
        return np.where(at <= 0.0, low, 1.0 - low)


@dataclass(frozen=True, eq=False)
class MixedNoise(_ByMasses):
    """Symmetric whole-number noise plus independent continuous noise."""

    mass: Floats = field(repr=False)  # P(j) for j = -k, ..., k; what is beyond is negligible
    noise: Noise

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        at = np.asarray(x, dtype=np.float64)
        flat = at.reshape(-1)
        shifts = np.arange(self.mass.size) - self.mass.size // 2
        rows = max(1, _CHUNK // self.mass.size)
        found = [
            np.asarray(self.noise.cdf(flat[k : k + rows, None] - shifts)) @ self.mass for k in range(0, flat.size, rows)
        ]
        return np.concatenate([*found, np.empty(0)]).reshape(at.shape)


def is_whole(noise: Noise) -> bool:
    """Whether noise is whole-number noise plus an independent U(-1/2, 1/2): discrete noise, and Tulap noise with delta = 0."""
    # Tulap noise with delta > 0 ends within a unit cell, where it is no such sum.
    return isinstance(noise, (DiscreteGaussianNoise, WholeNoise)) or (isinstance(noise, Tulap) and noise.delta == 0.0)


def laplaces(noise: Noise) -> tuple[float, int] | None:
    """Scale and number of the Laplace variables that noise is the sum of; None for other noise."""
    return (noise.b, noise.terms) if isinstance(noise, LaplaceNoise) else None


def noise_of_sum(noises: Sequence[Noise], weights: Sequence[float]) -> Noise:
    """The law of `sum w_k N_k` of independent noise; two continuous laws are normal, or Laplace of one weighted scale."""
    # Whole-number noise counts without its uniforms, to whole weights; one U(-1/2, 1/2) is added if all noise is of that kind.
    whole = [(noise, round(weight)) for noise, weight in zip(noises, weights, strict=True) if is_whole(noise)]
    rest = [(noise, weight) for noise, weight in zip(noises, weights, strict=True) if not is_whole(noise)]
    if not whole:
        return _continuous(rest)
    mass = _convolved(whole)
    if rest:
        return MixedNoise(mass, _continuous(rest))
    return WholeNoise(mass[mass.size // 2 :])


def _continuous(parts: Sequence[tuple[Noise, float]]) -> Noise:
    if len(parts) == 1:
        noise, weight = parts[0]
        return noise if weight == 1.0 else WiderNoise(noise, weight)
    normal = [weight / noise.mu for noise, weight in parts if isinstance(noise, GaussianNoise)]
    if len(normal) == len(parts):
        return GaussianNoise(1.0 / math.hypot(*normal))
    found = [(own[0] * weight, own[1]) for noise, weight in parts if (own := laplaces(noise)) is not None]
    if len(found) == len(parts) and all(math.isclose(b, found[0][0], rel_tol=1e-12) for b, _ in found):
        return LaplacesNoise(found[0][0], sum(terms for _, terms in found))
    names = ", ".join(f"{noise!r} times {weight:.6g}" for noise, weight in parts)
    raise NotImplementedError(
        f"no exact law is known here of the sum of {names}: continuous noise adds up if it is all normal, or Laplace noise of "
        "one scale. Fit a model of all releases instead and look at the posterior"
    )


def _convolved(parts: Sequence[tuple[Noise, int]]) -> Floats:
    """Masses of ``sum a_k J_k`` at -k, ..., k."""
    for negligible in _TAILS:
        spread = [_spread(_whole_masses(noise, negligible), weight) for noise, weight in parts]
        lengths = np.cumsum([own.size for own in spread])
        if float(np.dot(lengths[:-1], [own.size for own in spread[1:]])) <= _MOST_PRODUCTS:
            return reduce(np.convolve, spread)
    raise NotImplementedError(
        f"the sum of noise so wide ({', '.join(repr(noise) for noise, _ in parts)}) is over more than {_MOST_PRODUCTS:.0e} pairs of "
        "whole numbers, which takes too long. Fit a model of all releases instead and look at the posterior"
    )


def _whole_masses(noise: Any, negligible: float) -> Floats:
    """``P(j)`` for j = 0, 1, ... without the uniform."""
    if isinstance(noise, WholeNoise):
        mass = noise.mass
    elif isinstance(noise, DiscreteGaussianNoise):
        mass = noise.masses
    else:
        steps = np.arange(math.ceil(-math.log(negligible) / noise.epsilon) + 1)
        mass = math.tanh(0.5 * noise.epsilon) * np.exp(-noise.epsilon * steps)
    return np.asarray(mass[mass > negligible * mass[0]], dtype=np.float64)


def _spread(half: Floats, weight: int) -> Floats:
    """Masses of ``weight J`` at every whole number, from those of J = 0, 1, ..."""
    whole = np.concatenate([half[:0:-1], half])
    found = np.zeros(weight * (whole.size - 1) + 1)
    found[:: _validate.positive_integer(weight, "weight")] = whole
    return found


_LARGEST = 8
"""Largest weight of whole-number noise: rounding costs less than a hundredth of the precision, and masses stay short."""


def odds_ratio_test_from_releases(
    releases: Release | Iterable[Release],
    alternative: str = "greater",
    null: float = 1.0,
    *,
    cell: Mapping[str, Any] | None = None,
    rng: Seed = None,
) -> OddsRatioResult:
    """Test the odds ratio from all noisy corners of one 2 x 2 table with both margins exact.

    Given the margins every release says ``x11 + N_k``, with independent noise. The statistic is their mean with weights that
    are close to the inverse variances of the noise, and its law is worked out exactly: masses of whole-number noise are
    convolved (with whole weights up to 8; a release that would have less than 1/16 of the largest weight is left out), normal
    noise is normal again, Laplace noise gets weights that make all scales one, and whole-number noise plus one continuous law is a
    mixture. So the size is exact, whatever the margins. It is not said to be the most powerful test, except where all noise is
    normal: then the mean is canonical for the composition, ``sqrt(sum mu**2)``-GDP.

    A release of the four cells with independent noise counts as four noisy corners.

    Parameters
    ----------
    releases : Release or iterable of Release
        Of the same table, each with noise of its own; one release with several measurements will do.
    alternative, null, cell, rng
        As for `odds_ratio_test_from_release`. A uniform is drawn, once, where all noise is of whole numbers; published Tulap
        noise brings its own.

    Returns
    -------
    OddsRatioResult
        Its `tradeoff` names the weights.

    Raises
    ------
    TypeError, ValueError
        As `odds_ratio_test_from_release`, and if the releases do not fit together or one is given twice.
    NotImplementedError
        If no law of one corner, or of the sum, is known.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.berkeley_admissions().sel(department="A", drop=True)
    >>> both = bdp.Margins(table, ["sex"], ["admission"])
    >>> releases = [bdp.LatticeLaplace(both, epsilon=e).release(table, rng=k) for k, e in enumerate([0.05, 0.1])]
    >>> result = odds_ratio_test_from_releases(releases, "less", rng=3)
    >>> print(f"p = {result.pvalue:.1e}, {result.claim}")
    p = 7.6e-04, exact size under a mean of 2 noisy corners with weights 0.2, 0.8; the noise is not canonical, so that the
    test is not the UMPU one
    """
    given = [releases] if isinstance(releases, Release) else list(releases)
    if not given:
        raise ValueError("releases must be at least one release, got none")
    joint = joint_release(given)
    check_table(joint)
    corners = _readings(joint, cell)
    if len(corners) == 1 and len(joint.measurements) == 1:
        return odds_ratio_test_from_release(joint, alternative, null, cell=cell, rng=rng)
    mean = _mean(corners)
    uniform = None
    if all(is_whole(noise) for noise in mean.noises):
        uniform = mean.uniform if mean.uniform is not None else float(generator_of(rng).random()) - 0.5
        uniform /= mean.total
    normal = [noise.mu for noise in mean.noises if isinstance(noise, GaussianNoise)]
    canonical = len(normal) == len(corners)
    weights = ", ".join(f"{weight / mean.total:.4g}" for weight in mean.weights)
    return result_of(
        mean.published + (uniform or 0.0),
        corners[0].family,
        GaussianNoise(math.hypot(*normal)) if canonical else mean.noise,
        in_words(gaussian_dp(math.hypot(*normal)))
        if canonical
        else f"a mean of {len(mean.weights)} noisy corners with weights {weights}",
        alternative,
        null,
        canonical=canonical,
        cell=corners[0].cell,
        published=mean.published,
        uniform=uniform,
    )


def without_uniform(corner: NoisyCorner) -> tuple[float, float | None]:
    """The corner without the uniform of whole-number noise, and that uniform if it was published (Tulap noise).

    The integer part of such noise is independent of its uniform, which says nothing of the table.
    """
    if not is_whole(corner.noise.noise) or corner.noise.integer:
        return corner.published, None
    nearest = math.floor(corner.published + 0.5)
    return float(nearest), corner.published - nearest


def _readings(joint: Release, cell: Mapping[str, Any] | None) -> list[NoisyCorner]:
    """The noisy corners that all measurements amount to."""
    found: list[NoisyCorner] = []
    for part in joint.measurements:
        if part.query.is_identity and not part.law.independent:
            found.append(corner_of_table(joint, part, cell))
            continue
        for k, measured in _cells(part):
            noise = cell_noise(_law_of_answer(part.law, k))
            found.append(corner_of_cell(joint, noise, measured, float(part.values.reshape(-1)[k]), cell))
    if not found:
        raise ValueError("the test needs noisy measurements of the cells, and the releases have none")
    return found


def _cells(part: Measured) -> list[tuple[int, int]]:
    """Published answers and the cell that each is, for queries that ask for single cells."""
    rows = part.query.matrix
    alone = bool(np.all(np.diff(rows.indptr) == 1) and np.all(rows.data == 1))
    if not alone or (rows.shape[0] > 1 and not part.law.independent):
        raise ValueError(
            f"the test needs noisy measurements of the cells or of single cells, and one is {part!r}: fit a model instead"
        )
    published = np.flatnonzero(~part.unmeasured.reshape(-1))
    return [(int(k), int(rows.indices[k])) for k in published]


def _law_of_answer(law: NoiseLaw, k: int) -> NoiseLaw:
    """The law of one answer, where scales may differ between answers."""
    own: Any = law
    scales = {item.name: getattr(own, item.name) for item in fields(own)}
    many = {name: np.asarray(scale).reshape(-1)[k] for name, scale in scales.items() if np.size(scale) > 1}
    changed: NoiseLaw = replace(own, **{name: float(scale) for name, scale in many.items()})
    return changed


@dataclass(frozen=True, eq=False)
class _Mean:
    """A weighted mean of noisy corners: weights before division by their sum, and noise of the mean."""

    published: float
    noises: list[Noise]
    weights: list[float]
    total: float
    noise: Noise
    uniform: float | None


def _mean(corners: list[NoisyCorner]) -> _Mean:
    weights = _weights([corner.noise.noise for corner in corners])
    kept = [(corner, weight) for corner, weight in zip(corners, weights, strict=True) if weight > 0.0]
    parts = [without_uniform(corner) for corner, _ in kept]
    numbers = [weight for _, weight in kept]
    total = math.fsum(numbers)
    published = math.fsum(weight * own[0] for own, weight in zip(parts, numbers, strict=True)) / total
    noises = [corner.noise.noise for corner, _ in kept]
    noise = WiderNoise(noise_of_sum(noises, numbers), 1.0 / total)
    uniform = next((own[1] for own in parts if own[1] is not None), None)
    return _Mean(published, noises, numbers, total, noise, uniform)


def _weights(noises: list[Noise]) -> list[float]:
    """Near the inverse variances: whole for whole-number noise, and such that Laplace noise has one scale."""
    precision = [1.0 / _variance(noise) for noise in noises]
    weights = list(precision)
    whole = [k for k, noise in enumerate(noises) if is_whole(noise)]
    scale = 1.0
    if whole:
        largest = max(precision[k] for k in whole)
        rounded = {k: round(_LARGEST * precision[k] / largest) for k in whole}
        common = math.gcd(*rounded.values())
        for k in whole:
            weights[k] = float(rounded[k] // common)
        scale = sum(weights[k] for k in whole) / sum(precision[k] for k in whole if weights[k])
    for k in range(len(noises)):
        if k not in whole:
            weights[k] = precision[k] * scale
    for k, weight in _laplace_weights({k: own for k, noise in enumerate(noises) if (own := laplaces(noise))}).items():
        weights[k] = weight * scale
    return weights


def _laplace_weights(parts: dict[int, tuple[float, int]]) -> dict[int, float]:
    """Weights c / b of scales b, for the most precise of the sums of the first 1, 2, ... that are narrowest; 0 for the others."""
    # c is such that the weights add up to the precision of their mean.
    order = sorted(parts, key=lambda k: parts[k][0] ** 2 * parts[k][1])
    found = {k: 0.0 for k in order}
    best = 0.0
    for many in range(1, len(order) + 1):
        inverse = sum(1.0 / parts[k][0] for k in order[:many])
        precision = inverse**2 / (2.0 * sum(parts[k][1] for k in order[:many]))
        if precision > best * (1.0 + 1e-12):
            best = precision
            found = {k: precision / inverse / parts[k][0] if k in order[:many] else 0.0 for k in order}
    return found


def _variance(noise: Any) -> float:
    """Variance of noise, that of whole-number noise without its uniform."""
    own = laplaces(noise)
    if own is not None:
        return 2.0 * own[1] * own[0] ** 2
    if isinstance(noise, DiscreteGaussianNoise):
        steps = np.arange(noise.masses.size)
        return max(2.0 * float(noise.masses @ steps**2), 1e-300)
    if isinstance(noise, WiderNoise):
        return noise.factor**2 * _variance(noise.noise)
    if is_whole(noise):
        return max(0.5 / math.sinh(min(0.5 * noise.epsilon, 300.0)) ** 2, 1e-300)
    return float(noise.var())
