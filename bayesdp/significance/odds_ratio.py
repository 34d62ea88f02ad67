"""Tests of the odds ratio of 2 x 2 tables whose margins are exact (paper 003, Section 5.3), from published numbers alone.

Of one noisy corner, of several of one table, and of one in each of several strata that have an odds ratio in common.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp._text import printable
from bayesdp._validate import Seed, generator_of, instance, shown
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.noise import LatticeGaussian, LatticeLaplace, ProjectedGaussian, ProjectedLaplace, SubspaceNorm
from bayesdp.privacy.canonical import GaussianNoise
from bayesdp.privacy.tradeoffs.base import TradeOff, checked
from bayesdp.privacy.tradeoffs.laws import gaussian_dp
from bayesdp.queries import Margins
from bayesdp.release import Release
from bayesdp.significance._families import (
    FamilySum,
    Hypergeometric,
    Inverted,
    Noise,
    NoisyCount,
    checked_null,
    documented_test,
    finite_statistic,
    margins,
)
from bayesdp.significance.corners import (
    MOVE,
    CornerNoise,
    NoisyCorner,
    WholeNoise,
    WiderNoise,
    canonical,
    check_margins,
    corner_position,
    family_of,
    is_whole,
    joined,
    leaves_only,
    noise_of_sum,
    noise_of_table,
    noisy_corner,
    noisy_corners,
    whole_variance,
)
from bayesdp.significance.rules import Rule, rule_of

_LARGEST = 8
"""Largest weight of whole-number noise: rounding costs less than a hundredth of the precision, and masses stay short."""


@dataclass(frozen=True)
class OddsRatioResult(Inverted):
    """What a noisy corner of a 2 x 2 table with exact margins says about the odds ratio ``x11 x22 / (x12 x21)``.

    Parameters
    ----------
    rows, column : tuple of int, int
        Row totals, and total of the first column.
    noise, tradeoff : Noise, str
        Law of N, and the trade-off function f in words: how hard it is to tell two tables that differ by one move (+1, -1, -1, +1).
    optimal : bool
        Whether the noise is canonical for f, the alternative one-sided, and the table not determined by its margins: then rejecting
        for small p is uniformly most powerful among the unbiased tests that satisfy Semi-DP with f.
    cell : str or None
        Labels of the corner x11, where a labelled release was tested.
    published, uniform : float or None
        The published noisy corner, or the weighted mean of several, and the U(-1/2, 1/2) that made integer noise continuous (of
        several releases, divided by the sum of their weights). Drawn once and kept: the p-value is randomised, and drawing again
        until it is small would not have the size that is stated.
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

    Given the margins every release says ``x11 + N_k``, with independent noise of one kind. The statistic is their mean with weights
    that are close to the inverse variances of the noise, and its law is worked out exactly: masses of whole-number noise are
    convolved (with whole weights up to 8; a release that would have less than 1/16 of the largest weight is left out), normal noise
    is normal again, and a sum of Laplace noise of one scale has a closed form. So the size is exact, whatever the margins. It is the
    most powerful test where all noise is normal: then the mean is canonical for the composition, ``sqrt(sum mu**2)``-GDP. Else
    the `tradeoff` of the result names the weights.

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
    if len(corners) == 1:
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


@dataclass(frozen=True)
class CommonOddsRatioResult(Inverted):
    """What noisy corners of several 2 x 2 tables with exact margins say about the odds ratio that all have.

    The statistic is the sum of the noisy corners, and of `uniform`.

    Parameters
    ----------
    strata, margins : tuple of str, tuple of (int, int, int)
        Labels of the strata, and for each the totals of the two rows and of the first column.
    cell : str
        Labels of the corner in the first stratum.
    noise, uniform : Noise, float or None
        Law of the noise of the sum, and the U(-1/2, 1/2) that makes whole-number noise continuous, as in `OddsRatioResult`.
    """

    strata: tuple[str, ...]
    margins: tuple[tuple[int, int, int], ...]
    cell: str
    noise: Noise
    uniform: float | None = None

    @property
    def _count(self) -> NoisyCount:
        family = FamilySum(tuple(Hypergeometric(*totals) for totals in self.margins))
        return NoisyCount(self.statistic, family, self.noise)

    @property
    def claim(self) -> str:
        """What the test is, in a sentence."""
        if self.determined:
            return "no test of the odds ratio: the margins determine the table of every stratum"
        sides = "twice the smaller one-sided p-value, " if self.alternative == "two-sided" else ""
        return (
            f"{sides}exact size given the margins of all {len(self.strata)} strata, if the odds ratio is the same in each; strata "
            "with opposite odds ratios may cancel out"
        )


@documented_test
def common_odds_ratio_test(
    releases: Release | Mapping[str, Release],
    alternative: str = "greater",
    null: float = 1.0,
    *,
    strata: str | None = None,
    cell: Mapping[str, Any] | None = None,
    rng: Seed = None,
) -> CommonOddsRatioResult:
    """Test the odds ratio that several 2 x 2 tables have in common, given the margins of each.

    The sum of the corners is sufficient for a common odds ratio (Birch, 1964): without noise, this is the exact conditional
    test of which the Mantel-Haenszel test is the large-sample form. The sum of the noisy corners is tested against its law:
    the convolution of one noncentral hypergeometric law a stratum and of the noise. Size and confidence intervals are exact
    for any margins and any number of strata. A stratum with much noise counts as one with little; where that differs widely,
    leave it out (before looking at its numbers).

    Parameters
    ----------
    releases : Release or mapping of Release
        One release of a table with dims (rows, columns, strata), in any order, of 2 x 2 x K cells whose margins are exact in each
        stratum and nothing else is; or a release of a 2 x 2 table for each stratum, as `odds_ratio_test_from_release` takes.
        Of one release, noise must be independent between strata: lattice Laplace and norm noise with l1, lattice Gaussian,
        projected Gaussian, projected Laplace. Of several, it must be of one kind, as for `odds_ratio_test_from_releases`.
    strata : str, optional
        Dimension of the strata; needed for one release.
    cell : mapping, optional
        Label of the other two dimensions: the cell that is x11, the first labels by default.

    Raises
    ------
    NotImplementedError
        If the law of a corner or of the sum is not known here.

    References
    ----------
    Birch (1964), The detection of partial association, I: the 2 x 2 case; Gart (1970); paper 003, Theorem 37, for one stratum.

    Examples
    --------
    Berkeley by department: men are not admitted more often, although they are over all departments.

    >>> import bayesdp as bdp
    >>> table = bdp.datasets.berkeley_admissions()
    >>> both = bdp.Margins(table, ["sex", "department"], ["admission", "department"])
    >>> release = bdp.LatticeLaplace(both, epsilon=0.25).release(table, rng=1973)
    >>> result = common_odds_ratio_test(release, "two-sided", strata="department", rng=1)
    >>> low, high = result.confidence_interval(0.95)
    >>> print(f"p = {result.pvalue:.2f}, odds ratio {result.estimate:.2f}, {low:.2f} to {high:.2f}")
    p = 0.18, odds ratio 0.89, 0.76 to 1.05
    """
    ratio = checked_null(alternative, null)
    corners = _of_mapping(releases, strata, cell) if isinstance(releases, Mapping) else _of_one(releases, strata, cell)
    published, noise, uniform = sum_of_corners(list(corners.values()), [1.0] * len(corners), rng)
    statistic = published + (uniform or 0.0)
    families = tuple(corner.family for corner in corners.values())
    return CommonOddsRatioResult(
        statistic=statistic,
        pvalue=NoisyCount(statistic, FamilySum(families), noise).pvalue(math.log(ratio), alternative),
        alternative=alternative,
        null=ratio,
        strata=tuple(map(str, corners)),
        margins=tuple((family.r1, family.r2, family.c1) for family in families),
        cell=next(iter(corners.values())).cell,
        noise=noise,
        uniform=uniform,
    )


def _of_mapping(
    releases: Mapping[Any, Any], strata: str | None, cell: Mapping[str, Any] | None
) -> dict[Any, NoisyCorner]:
    """The noisy corner of each stratum's own release."""
    if strata is not None:
        raise ValueError(f"strata={strata!r} is for one release; the keys of a mapping are the strata")
    if not releases:
        raise ValueError("releases must have at least one stratum, got none")
    for (other, one), (label, two) in itertools.combinations(releases.items(), 2):
        equal = isinstance(one, Release) and isinstance(two, Release) and one == two
        if one is two or (equal and not all(part.law.integer for part in one.measurements)):
            raise ValueError(f"strata {other!r} and {label!r} have the same release: each needs noise of its own")
    found = {}
    for label, release in releases.items():
        try:
            found[label] = noisy_corner(release, cell)
        except (ValueError, NotImplementedError) as error:
            raise type(error)(f"stratum {printable(str(label))}: {error}") from error
    return found


def _of_one(release: Any, strata: str | None, cell: Mapping[str, Any] | None) -> dict[Any, NoisyCorner]:
    """The noisy corner of each stratum, of a release whose noise is independent between them."""
    instance(release, Release, "releases must be a Release or a mapping of them")
    frame = release.frame
    if strata not in frame.dims:
        raise ValueError(f"strata must be a dimension of the table, one of {shown(frame.dims)}, got {strata!r}")
    axis = frame.dims.index(strata)
    dims = [dim for dim in frame.dims if dim != strata]
    if len(dims) != 2 or any(len(frame.labels_of(dim)) != 2 for dim in dims):
        sizes = " x ".join(str(length) for length in frame.shape)
        raise ValueError(f"the table must be 2 x 2 in each stratum, and this one is {sizes} with strata {strata!r}")
    labels = frame.labels[axis]
    # The moves have no cell in common, so that whole tables which are combinations of them are whole combinations.
    moves = np.stack([np.multiply.outer(unit, MOVE) for unit in np.eye(len(labels), dtype=np.int64)])
    moves = np.moveaxis(moves, 1, axis + 1)
    check_margins(release, [*dims, f"in each {strata}"], moves)
    if len(release.measurements) != 1 or not release.measurements[0].query.is_identity:
        raise ValueError(
            "the test needs a release with one noisy measurement, of the cells, and this one has "
            f"{shown(release.measurements) if release.measurements else 'none'}"
        )
    measured = release.measurements[0]
    if not leaves_only(measured.invariants or release.invariants, moves):
        raise ValueError(f"the noise of {measured!r} was drawn under other invariants than the margins of each stratum")
    law = measured.law
    by_norm = isinstance(law, (LatticeLaplace, SubspaceNorm)) and law.norm == "l1"
    if not by_norm and not isinstance(law, (LatticeGaussian, ProjectedGaussian, ProjectedLaplace)):
        raise NotImplementedError(
            f"there is no test of a common odds ratio from a release with the law {law.name!r}: its noise is "
            f"{'independent in each cell' if law.independent else 'not known to be independent between strata'}, so that the law of "
            "the sum is not known here. Release each stratum by itself and give a mapping, or fit a model"
        )
    square = Frame.of({dim: list(frame.labels_of(dim)) for dim in dims})
    row, column = corner_position(square, cell)
    noise = noise_of_table(law, Invariants(Margins(square, [dims[0]], [dims[1]])))
    values, points = (np.moveaxis(np.asarray(own), axis, 0) for own in (measured.values, release.fiber.find_point()))
    name = square.exact_cell_name(2 * row + column)
    return {
        label: NoisyCorner(float(values[k][row, column]), family_of(points[k], row, column), noise, name)
        for k, label in enumerate(labels)
    }


def sum_of_corners(
    corners: Sequence[NoisyCorner], weights: Sequence[float], rng: Seed
) -> tuple[float, Noise, float | None]:
    """Weighted sum of noisy corners without uniforms; its noise; and the uniform to add, published or drawn, where that is needed."""
    noise = noise_of_sum([corner.noise.noise for corner in corners], weights)
    numbers, uniform = [corner.published for corner in corners], None
    if isinstance(noise, WholeNoise):
        # Published Tulap noise has a uniform, of which its whole part is independent, and which says nothing of the table.
        whole = [corner.published if corner.noise.integer else math.floor(corner.published + 0.5) for corner in corners]
        brought = [
            number - place
            for number, place, corner in zip(numbers, whole, corners, strict=True)
            if not corner.noise.integer
        ]
        numbers, uniform = whole, brought[0] if brought else _drawn_uniform(rng)
    return math.fsum(weight * number for number, weight in zip(numbers, weights, strict=True)), noise, uniform


def _weights(noises: list[Noise]) -> list[float]:
    """The inverse variances of normal noise; whole numbers near them of whole-number noise; equal ones of other noise."""
    if not all(map(is_whole, noises)):
        return [noise.mu**2 if isinstance(noise, GaussianNoise) else 1.0 for noise in noises]
    precision = [1.0 / whole_variance(noise) for noise in noises]
    steps = [round(_LARGEST * own / max(precision)) for own in precision]
    return [float(step // math.gcd(*steps)) for step in steps]
