"""A common odds ratio over strata, from noisy 2 x 2 tables with exact margins each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp._text import printable
from bayesdp._validate import Seed, shown
from bayesdp.frames import Frame
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import LatticeGaussian, LatticeLaplace, NoiseLaw, ProjectedGaussian, ProjectedLaplace, SubspaceNorm
from bayesdp.queries import Identity, Margins
from bayesdp.release import Release
from bayesdp.significance._families import (
    FamilySum,
    Hypergeometric,
    Inverted,
    NoisyCount,
    checked_null,
    documented_test,
)
from bayesdp.significance._noise import Noise
from bayesdp.significance.corners import NoisyCorner, leaves_only, noisy_corner
from bayesdp.significance.odds_ratio import sum_of_corners


@dataclass(frozen=True)
class CommonOddsRatioResult(Inverted):
    """What noisy corners of several 2 x 2 tables with exact margins say about the odds ratio that all have.

    The statistic is the sum of the noisy corners, and of `uniform`.

    Parameters
    ----------
    strata : tuple of str
        Labels of the strata.
    margins : tuple of (int, int, int)
        Totals of the two rows and of the first column, for each stratum.
    cell : str
        Labels of the corner in the first stratum.
    noise : Noise
        Law of the noise of the sum.
    uniform : float or None
        The U(-1/2, 1/2) that makes whole-number noise continuous. Drawn once and kept, as in `OddsRatioResult`.
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
        projected Gaussian, projected Laplace.
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
    parts = releases if isinstance(releases, Mapping) else _by_stratum(releases, strata)
    if isinstance(releases, Mapping):
        _check_mapping(releases, strata)
    corners = [_corner(str(label), release, cell) for label, release in parts.items()]
    published, noise, uniform = sum_of_corners(corners, [1.0] * len(corners), rng)
    statistic = published + (uniform or 0.0)
    count = NoisyCount(statistic, FamilySum(tuple(corner.family for corner in corners)), noise)
    return CommonOddsRatioResult(
        statistic=statistic,
        pvalue=count.pvalue(math.log(ratio), alternative),
        alternative=alternative,
        null=ratio,
        strata=tuple(str(label) for label in parts),
        margins=tuple((corner.family.r1, corner.family.r2, corner.family.c1) for corner in corners),
        cell=corners[0].cell,
        noise=noise,
        uniform=uniform,
    )


def _corner(label: str, release: Release, cell: Mapping[str, Any] | None) -> NoisyCorner:
    try:
        return noisy_corner(release, cell)
    except (ValueError, NotImplementedError) as error:
        raise type(error)(f"stratum {printable(label)}: {error}") from error


def _check_mapping(releases: Mapping[Any, Any], strata: str | None) -> None:
    if strata is not None:
        raise ValueError(f"strata={strata!r} is for one release; the keys of a mapping are the strata")
    if not releases:
        raise ValueError("releases must have at least one stratum, got none")
    for (other, one), (label, two) in itertools.combinations(releases.items(), 2):
        equal = isinstance(one, Release) and isinstance(two, Release) and one == two
        if one is two or (equal and not all(part.law.integer for part in one.measurements)):
            raise ValueError(f"strata {other!r} and {label!r} have the same release: each needs noise of its own")


def _by_stratum(release: Any, strata: str | None) -> dict[Any, Release]:
    """One release a stratum, of a release whose noise is independent between them."""
    if not isinstance(release, Release):
        raise TypeError(f"releases must be a Release or a mapping of them, got {type(release).__name__}")
    frame = release.frame
    if strata not in frame.dims:
        raise ValueError(f"strata must be a dimension of the table, one of {shown(frame.dims)}, got {strata!r}")
    axis = frame.dims.index(strata)
    if len(frame.dims) != 3 or sorted(frame.shape[:axis] + frame.shape[axis + 1 :]) != [2, 2]:
        sizes = " x ".join(str(length) for length in frame.shape)
        raise ValueError(f"the table must be 2 x 2 in each stratum, and this one is {sizes} with strata {strata!r}")
    labels = frame.labels[axis]
    # The moves have no cell in common, so that whole tables which are combinations of them are whole combinations.
    moves = np.zeros((len(labels), *frame.shape), dtype=np.int64)
    for k in range(len(labels)):
        np.moveaxis(moves[k], axis, 0)[k] = [[1, -1], [-1, 1]]
    exact = all(part.sign == "=" for part in release.exact)
    if not exact or not leaves_only(release.invariants, moves):
        raise ValueError(
            f"both margins must be exact in each of the {len(labels)} strata, and no more: the exact part of this release leaves "
            f"{release.invariants.dimension} dimensions free"
        )
    if len(release.measurements) != 1 or not release.measurements[0].query.is_identity:
        raise ValueError(
            "the test needs a release with one noisy measurement, of the cells, and this one has "
            f"{shown(release.measurements) if release.measurements else 'none'}"
        )
    measured = release.measurements[0]
    if not leaves_only(measured.invariants or release.invariants, moves):
        raise ValueError(f"the noise of {measured!r} was drawn under other invariants than the margins of each stratum")
    _check_independent(measured.law)
    values = np.moveaxis(np.asarray(measured.values), axis, 0)
    points = np.moveaxis(release.fiber.find_point(), axis, 0)
    dims = tuple(dim for dim in frame.dims if dim != strata)
    square = Frame.of({dim: list(frame.labels_of(dim)) for dim in dims})
    found: dict[Any, Release] = {}
    for k, label in enumerate(labels):
        parts = [Exact(Margins(square, [dim]), points[k].sum(axis=1 - j)) for j, dim in enumerate(dims)]
        found[label] = Release(square, (Measured(Identity(square), values[k], measured.law),), tuple(parts))
    return found


def _check_independent(law: NoiseLaw) -> None:
    """Refuse laws whose noise is not independent between strata."""
    by_norm = isinstance(law, (LatticeLaplace, SubspaceNorm)) and law.norm == "l1"
    if by_norm or isinstance(law, (LatticeGaussian, ProjectedGaussian, ProjectedLaplace)):
        return
    if law.independent:
        why = "its noise is independent in each cell, so that no one number of a stratum carries it"
    else:
        why = "its noise is not known to be independent between strata, so that the law of the sum is not known here"
    raise NotImplementedError(
        f"there is no test of a common odds ratio from a release with the law {law.name!r}: {why}. Release each stratum by itself "
        "and give a mapping, or fit a model"
    )
