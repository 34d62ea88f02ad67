"""Tests of the odds ratio of 2 x 2 tables whose margins are exact (paper 003, Section 5.3), from published numbers alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayesdp._validate import Seed, generator_of
from bayesdp.privacy.canonical import GaussianNoise
from bayesdp.privacy.tradeoffs.base import TradeOff, checked
from bayesdp.privacy.tradeoffs.laws import gaussian_dp
from bayesdp.release import Release
from bayesdp.significance._families import (
    Hypergeometric,
    Inverted,
    NoisyCount,
    checked_null,
    documented_test,
    finite_statistic,
    margins,
)
from bayesdp.significance._noise import LaplaceNoise, Noise, WiderNoise, is_whole, noise_of_sum, variance
from bayesdp.significance.corners import CornerNoise, NoisyCorner, canonical, joined, noisy_corner, noisy_corners
from bayesdp.significance.rules import Rule, rule_of

_LARGEST = 8
"""Largest weight of whole-number noise: rounding costs less than a hundredth of the precision, and masses stay short."""


@dataclass(frozen=True)
class OddsRatioResult(Inverted):
    """What a noisy corner of a 2 x 2 table with exact margins says about the odds ratio ``x11 x22 / (x12 x21)``.

    Parameters
    ----------
    rows : tuple of int
        Row totals.
    column : int
        Total of the first column.
    noise : Noise
        Law of N.
    tradeoff : str
        The trade-off function f in words: how hard it is to tell two tables that differ by one move (+1, -1, -1, +1).
    optimal : bool
        Whether the noise is canonical for f, the alternative one-sided, and the table not determined by its margins: then the
        test that rejects for small p is uniformly most powerful among the unbiased tests that satisfy Semi-DP with f. No
        two-sided p-value is called that.
    cell : str or None
        Labels of the corner x11, where a labelled release was tested.
    published : float or None
        The published noisy corner, or the weighted mean of several, where an integer release was tested: the statistic less
        `uniform`.
    uniform : float or None
        The U(-1/2, 1/2) that turned an integer release into canonical noise (of several releases, divided by the sum of their
        weights). Drawn once and kept: the p-value is randomised, and drawing again until it is small would not have the size
        that is stated.
    """

    rows: tuple[int, int]
    column: int
    noise: Noise
    tradeoff: str
    optimal: bool
    cell: str | None = None
    published: float | None = None
    uniform: float | None = None

    @property
    def _family(self) -> Hypergeometric:
        return Hypergeometric(*self.rows, self.column)

    @property
    def _count(self) -> NoisyCount:
        return NoisyCount(self.statistic, self._family, self.noise)

    def unbiased_test(self, alpha: float = 0.05) -> Rule:
        """Two-sided unbiased test of size alpha that this statistic can be put to: ``P(|U - k| > m)``.

        Its decision is ``result.unbiased_test(alpha).rejects(result.statistic)``. See `unbiased_odds_ratio`.
        """
        return rule_of("noisy-two-sided", alpha, self.null, self._family, self.noise, self.tradeoff)

    @property
    def claim(self) -> str:
        """What the test is, in a sentence."""
        if self.determined:
            return (
                f"no test of the odds ratio: the margins determine the table (the corner is {self._family.low}), whatever the "
                "odds ratio; the p-value compares the noise with its own law, and every odds ratio has the same one"
            )
        if self.optimal:
            return (
                f"uniformly most powerful among the unbiased tests that satisfy Semi-DP with f of {self.tradeoff} "
                f"(one-sided, {self.alternative})"
            )
        if self.alternative == "two-sided":
            return f"exact size under f of {self.tradeoff}; twice the smaller one-sided p-value, which is not the UMPU test"
        return f"exact size under {self.tradeoff}; the noise is not canonical, so that the test is not the UMPU one"


@documented_test
def odds_ratio_test(
    statistic: float,
    *,
    rows: tuple[int, int],
    column: int,
    tradeoff: TradeOff,
    alternative: str = "greater",
    null: float = 1.0,
) -> OddsRatioResult:
    """Test the odds ratio of a 2 x 2 table from a noisy corner and the exact margins.

    ``p = E F(H - U)`` for "greater", H the corner under the null odds ratio given the margins (Fisher's noncentral
    hypergeometric law) and F canonical noise of f. It is uniform under the null, and rejecting for ``p <= alpha`` is the
    uniformly most powerful unbiased test under Semi-DP. "two-sided" doubles the smaller one-sided p-value: of exact size,
    but not UMPU (see `umpu_odds_ratio`, which needs the data, and `unbiased_odds_ratio`).

    Source: paper 003, Theorem 37. The odds ratio is ``x11 x22 / (x12 x21)``, see docs/CORRECTIONS.md.

    Parameters
    ----------
    statistic : float
        ``U = x11 + N``, N a draw of ``tradeoff.canonical_noise()`` that was added before the corner was released.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import approximate_dp
    >>> result = odds_ratio_test(26.4, rows=(50, 50), column=40, tradeoff=approximate_dp(1.0, 0.01))
    >>> low, high = result.confidence_interval(0.95)
    >>> print(f"{result.pvalue:.6f} [{low:.4f}, {high})")
    0.010337 [1.3680, inf)
    """
    u, noise = finite_statistic(statistic), canonical(checked(tradeoff, "tradeoff"))
    return _result(u, margins(rows, column), noise, alternative, null)


def _result(
    statistic: float, family: Hypergeometric, noise: CornerNoise, alternative: str, null: float, **labels: Any
) -> OddsRatioResult:
    """The result of a test whose family and noise are known; `labels` are the last fields of `OddsRatioResult`."""
    ratio = checked_null(alternative, null)
    pvalue = NoisyCount(statistic, family, noise.noise).pvalue(math.log(ratio), alternative)
    optimal = noise.canonical and alternative != "two-sided" and not family.determined
    margins_and_noise = ((family.r1, family.r2), family.c1, noise.noise, noise.tradeoff)
    return OddsRatioResult(statistic, pvalue, alternative, ratio, *margins_and_noise, optimal, **labels)


@documented_test
def odds_ratio_test_from_release(
    release: Release,
    alternative: str = "greater",
    null: float = 1.0,
    *,
    cell: Mapping[str, Any] | None = None,
    rng: Seed = None,
) -> OddsRatioResult:
    """Test the odds ratio of a released 2 x 2 table with both margins exact.

    The noise of such a release is ``j (1, -1, -1, 1)``, so that its corner is ``x11 + j``, and the law of j is worked out
    from that of the release:

    ======================  ==================================  ==========================================  ====
    law                     corner                              canonical for                               UMPU
    ======================  ==================================  ==========================================  ====
    lattice Laplace, l1     geometric, plus the uniform: Tulap  (4 epsilon, 0)-DP                           yes
    lattice Laplace, l2     geometric, plus the uniform: Tulap  (2 epsilon, 0)-DP                           yes
    lattice K-norm          geometric, plus the uniform: Tulap  (epsilon ||(1, -1, -1, 1)||_K, 0)-DP        yes
    lattice Gaussian        discrete Gaussian plus the uniform  the trade-off of that law and its shift     yes
    Gaussian (Semi-DP,      normal, standard deviation s        1/s-GDP                                     yes
    projected, correlated)
    K-norm, any norm        Laplace                             not canonical: exact size, less power       no
    (Semi-DP), extended
    Laplace
    projected Laplace       sum of four Laplace variables       not canonical: exact size, less power       no
    ======================  ==================================  ==========================================  ====

    Where one cell alone was published, with independent noise and both margins exact (Theorem 37 as a mechanism), its noise is
    that of the corner: Tulap and normal noise are canonical; discrete Laplace and discrete Gaussian noise are, with the uniform;
    Laplace noise is not.

    UMPU is said of one-sided alternatives; the two-sided p-value, twice the smaller one-sided one, has the exact size only.

    For integer laws an independent U(-1/2, 1/2) is added: it stands for the randomisation of a discrete test, without
    which no test has exactly the size asked for. It makes the p-value random, so it is drawn once and kept in the result
    (`OddsRatioResult.uniform`): report that result, and do not draw again until a p-value pleases.

    Parameters
    ----------
    release : Release
        Of a 2 x 2 table, one measurement: of the cells under a law of the table above, or of one cell alone.

    Raises
    ------
    NotImplementedError
        If no law of the corner is known.

    See Also
    --------
    odds_ratio_test_from_releases : several releases of one table, or independent noise in each of its cells.
    common_odds_ratio_test : an odds ratio that strata have in common.
    independence_test_from_releases : larger two-way tables.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.berkeley_admissions().sum("department")
    >>> mechanism = bdp.LatticeLaplace(bdp.Margins(table, ["sex"], ["admission"]), epsilon=0.25)
    >>> release = mechanism.release(table, rng=1973)
    >>> result = odds_ratio_test_from_release(release, rng=1)
    >>> print(f"{result.cell}: p = {result.pvalue:.1e}, {result.tradeoff}, uniform {result.uniform:.3f}")
    sex=men, admission=admitted: p = 1.8e-22, (1, 0)-DP, uniform 0.012
    """
    corner = noisy_corner(release, cell)
    uniform = _drawn_uniform(rng) if corner.noise.integer else None
    statistic = corner.published + (uniform or 0.0)
    labels = {"cell": corner.cell, "published": corner.published, "uniform": uniform}
    return _result(statistic, corner.family, corner.noise, alternative, null, **labels)


def _drawn_uniform(rng: Seed) -> float:
    return float(generator_of(rng).random()) - 0.5


@documented_test
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
    normal: then the mean is canonical for the composition, ``sqrt(sum mu**2)``-GDP. The `tradeoff` of the result names the weights.

    A release of the four cells with independent noise counts as four noisy corners.

    Parameters
    ----------
    releases : Release or iterable of Release
        Of the same table, each with noise of its own; one release with several measurements will do.
    rng : int, numpy.random.Generator or None
        For the uniform, which is drawn once, where all noise is of whole numbers; published Tulap noise brings its own.

    Raises
    ------
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
    joint = joined(releases)
    corners = noisy_corners(joint, cell)
    if len(corners) == 1 and len(joint.measurements) == 1:
        return odds_ratio_test_from_release(joint, alternative, null, cell=cell, rng=rng)
    weights = _weights([corner.noise.noise for corner in corners])
    used = [corner for corner, weight in zip(corners, weights, strict=True) if weight > 0.0]
    weights = [weight for weight in weights if weight > 0.0]
    total = math.fsum(weights)
    published, noise, uniform = sum_of_corners(used, weights, rng)
    published /= total
    uniform = None if uniform is None else uniform / total
    normal = [corner.noise.noise.mu for corner in corners if isinstance(corner.noise.noise, GaussianNoise)]
    if len(normal) == len(corners):
        of_mean = canonical(gaussian_dp(math.hypot(*normal)))
    else:
        shares = ", ".join(f"{weight / total:.4g}" for weight in weights)
        words = f"a mean of {len(weights)} noisy corners with weights {shares}"
        of_mean = CornerNoise(WiderNoise(noise, 1.0 / total), words, canonical=False)
    labels = {"cell": corners[0].cell, "published": published, "uniform": uniform}
    return _result(published + (uniform or 0.0), corners[0].family, of_mean, alternative, null, **labels)


def sum_of_corners(
    corners: Sequence[NoisyCorner], weights: Sequence[float], rng: Seed
) -> tuple[float, Noise, float | None]:
    """Weighted sum of noisy corners without uniforms; its noise; and the uniform to add, published or drawn, where that is needed."""
    parts = [corner.without_uniform() for corner in corners]
    noises = [corner.noise.noise for corner in corners]
    uniform = None
    if all(is_whole(noise) for noise in noises):
        uniform = next((given for _, given in parts if given is not None), None)
        uniform = _drawn_uniform(rng) if uniform is None else uniform
    total = math.fsum(weight * number for (number, _), weight in zip(parts, weights, strict=True))
    return total, noise_of_sum(noises, weights), uniform


def _weights(noises: list[Noise]) -> list[float]:
    """Near the inverse variances: whole for whole-number noise, and such that Laplace noise has one scale."""
    precision = [1.0 / variance(noise) for noise in noises]
    whole = [k for k, noise in enumerate(noises) if is_whole(noise)]
    rounded: dict[int, float] = {}
    scale = 1.0
    if whole:
        largest = max(precision[k] for k in whole)
        steps = {k: round(_LARGEST * precision[k] / largest) for k in whole}
        common = math.gcd(*steps.values())
        rounded = {k: float(step // common) for k, step in steps.items()}
        scale = sum(rounded.values()) / sum(precision[k] for k in whole if rounded[k])
    laplace = _laplace_weights({k: noise for k, noise in enumerate(noises) if isinstance(noise, LaplaceNoise)})
    return [rounded[k] if k in rounded else scale * laplace.get(k, precision[k]) for k in range(len(noises))]


def _laplace_weights(parts: dict[int, LaplaceNoise]) -> dict[int, float]:
    """Weights c / b of scales b, for the most precise of the sums of the first 1, 2, ... that are narrowest; 0 for the others."""
    # c is such that the weights add up to the precision of their mean.
    order = sorted(parts, key=lambda k: variance(parts[k]))
    found = {k: 0.0 for k in order}
    best = 0.0
    for many in range(1, len(order) + 1):
        inverse = sum(1.0 / parts[k].b for k in order[:many])
        precision = inverse**2 / (2.0 * sum(parts[k].terms for k in order[:many]))
        if precision > best * (1.0 + 1e-12):
            best = precision
            found = {k: precision / inverse / parts[k].b if k in order[:many] else 0.0 for k in order}
    return found
