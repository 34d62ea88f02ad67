"""One test of the odds ratio from several noisy corners of the same table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from bayesdp._validate import Seed, generator_of
from bayesdp.composition import joint_release
from bayesdp.measurements import Measured
from bayesdp.noise import NoiseLaw
from bayesdp.privacy.canonical import GaussianNoise
from bayesdp.privacy.tradeoffs import gaussian_dp
from bayesdp.release import Release
from bayesdp.significance._noise import DiscreteGaussianNoise, Noise, WiderNoise, in_words
from bayesdp.significance._release_noise import cell_noise
from bayesdp.significance._sums import is_whole, laplaces, noise_of_sum
from bayesdp.significance.from_release import (
    NoisyCorner,
    check_table,
    corner_of_cell,
    corner_of_table,
    odds_ratio_test_from_release,
)
from bayesdp.significance.odds_ratio import OddsRatioResult, result_of

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
