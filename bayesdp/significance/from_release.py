"""The test of the odds ratio as post-processing of a release, without touching the data again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp._text import printable
from bayesdp._validate import Seed, generator_of, shown
from bayesdp.frames import Frame
from bayesdp.measurements import Measured
from bayesdp.noise.base import Ints
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.significance._families import Hypergeometric, NoisyCount, margins
from bayesdp.significance._noise import CornerNoise, cell_noise, corner_noise
from bayesdp.significance.odds_ratio import OddsRatioResult, result_of

_MOVE = np.array([[1, -1], [-1, 1]])


@dataclass(frozen=True)
class NoisyCorner:
    """What a release says of its corner x11.

    Parameters
    ----------
    published : float
        The noisy corner.
    family : Hypergeometric
        Law of the corner given the exact margins.
    noise : CornerNoise
    cell : str
        Labels of the corner.
    """

    published: float
    family: Hypergeometric
    noise: CornerNoise
    cell: str


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
    alternative : {"greater", "less", "two-sided"}
        Of the odds ratio of the population, ``x11 x22 / (x12 x21)``.
    null : float, default 1
        Odds ratio of the null hypothesis.
    cell : mapping, optional
        Label of each dimension: the cell that is x11, for example ``{"sex": "men", "admission": "admitted"}``. The first
        labels by default. The odds ratio is turned over if one label is exchanged.
    rng : int, numpy.random.Generator or None
        For the uniform; None takes the operating system's entropy.

    Returns
    -------
    OddsRatioResult
        With `cell`, `published`, `uniform` and the trade-off function in words.

    Raises
    ------
    TypeError, ValueError
        If the release is not of a 2 x 2 table with both margins exact, or has not one measurement of its cells, or a
        label is unknown.
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
    >>> release = mechanism.release(table, rng=np.random.default_rng(1973))
    >>> result = odds_ratio_test_from_release(release, rng=np.random.default_rng(1))
    >>> print(f"{result.cell}: p = {result.pvalue:.1e}, {result.tradeoff}, uniform {result.uniform:.3f}")
    sex=men, admission=admitted: p = 1.8e-22, (1, 0)-DP, uniform 0.012
    """
    corner = noisy_corner(release, cell)
    uniform = None
    if corner.noise.integer:
        uniform = float(generator_of(rng).random()) - 0.5
    return result_of(
        corner.published + (uniform or 0.0),
        corner.family,
        corner.noise.noise,
        corner.noise.tradeoff,
        alternative,
        null,
        canonical=corner.noise.canonical,
        cell=corner.cell,
        published=corner.published,
        uniform=uniform,
    )


def noisy_corner(release: Release, cell: Mapping[str, Any] | None = None) -> NoisyCorner:
    """Take the corner, its noise and the margins from a release; arguments and errors as `odds_ratio_test_from_release`."""
    check_table(release)
    measured = release.measurements[0] if len(release.measurements) == 1 else None
    alone = None if measured is None or measured.query.is_identity else _single_cell(measured.query)
    if measured is None or (alone is None and not measured.query.is_identity):
        found = shown(release.measurements) if release.measurements else "none"
        several = "; odds_ratio_test_from_releases takes several" if len(release.measurements) > 1 else ""
        raise ValueError(
            "the test needs a release with one noisy measurement, of the cells or of one cell alone, and this one has "
            f"{found}{several}"
        )
    if alone is not None:
        return corner_of_cell(release, cell_noise(measured.law), alone, float(measured.values.reshape(-1)[0]), cell)
    return corner_of_table(release, measured, cell)


def corner_of_table(release: Release, measured: Measured, cell: Mapping[str, Any] | None) -> NoisyCorner:
    """The noisy corner of a published table, whose noise changes no margin."""
    under = measured.invariants or release.invariants
    if not measured.law.independent and not _leaves_one_move(under):
        raise ValueError(
            f"the noise of {measured!r} was drawn under other invariants than both margins: the noisy cells break exact margins"
        )
    noise = corner_noise(measured.law, under)
    row, column = corner_position(release.frame, cell)
    family = _family(release.fiber.find_point(), row, column)
    return NoisyCorner(
        float(measured.values[row, column]), family, noise, release.frame.exact_cell_name(2 * row + column)
    )


def _family(point: Ints, row: int, column: int) -> Hypergeometric:
    """Law of the corner given the margins of a table that has them."""
    return margins((int(point[row].sum()), int(point[1 - row].sum())), int(point[:, column].sum()))


def _single_cell(query: Query) -> int | None:
    """The cell that a query of one answer consists of."""
    rows = query.matrix
    if rows.shape[0] != 1 or rows.nnz != 1 or rows.data[0] != 1:
        return None
    return int(rows.indices[0])


def corner_of_cell(
    release: Release, noise: CornerNoise, measured: int, value: float, cell: Mapping[str, Any] | None
) -> NoisyCorner:
    """The noisy corner worked out from one noisy cell.

    Two tables with the same margins differ by a multiple of (+1, -1, -1, +1), so that one cell gives the corner:
    ``x11 = p11 + s (x - p)``, with p a table of these margins, s the product of the signs of both cells. The noise is symmetric.
    """
    row, column = corner_position(release.frame, cell)
    point = release.fiber.find_point()
    sign = _MOVE[row, column] * int(_MOVE.reshape(-1)[measured])
    published = float(point[row, column] + sign * (value - point.reshape(-1)[measured]))
    return NoisyCorner(published, _family(point, row, column), noise, release.frame.exact_cell_name(2 * row + column))


def pvalue_limits(corner: NoisyCorner, alternative: str, null: float) -> tuple[float, float]:
    """Smallest and largest p-value that the uniform can lead to; equal where none is added.

    For reports, which must not draw: a report that is written twice would otherwise state two p-values.
    """
    half = 0.5 if corner.noise.integer else 0.0
    log_null = math.log(null)
    ends = [NoisyCount(corner.published + shift, corner.family, corner.noise.noise) for shift in (-half, half)]
    found = [own.pvalue(log_null, alternative) for own in ends]
    # Twice the smaller tail rises to 1 and falls again, where the uniform moves the statistic past the median.
    past_median = ends[1].greater(log_null) < 0.5 < ends[0].greater(log_null)
    return min(found), 1.0 if alternative == "two-sided" and past_median else max(found)


def is_two_by_two(release: Release) -> bool:
    """Whether a release is of a 2 x 2 table whose margins are exact and all that is."""
    square = release.frame.shape == (2, 2) and all(part.sign == "=" for part in release.exact)
    return square and _leaves_one_move(release.invariants)


def corner_position(frame: Frame, cell: Mapping[str, Any] | None) -> tuple[int, int]:
    """Row and column of the cell with the given labels."""
    if cell is None:
        return 0, 0
    given: Any = cell
    if not isinstance(given, Mapping) or set(given) != set(frame.dims):
        raise ValueError(f"cell must give a label for each of {shown(frame.dims)}, got {cell!r}")
    found = []
    for dim, labels in zip(frame.dims, frame.labels, strict=True):
        if cell[dim] not in labels:
            raise ValueError(f"cell has the label {cell[dim]!r} of {dim!r}, which has {shown(labels)}")
        found.append(labels.index(cell[dim]))
    return found[0], found[1]


def check_table(release: Any) -> None:
    """Refuse what is no release of a 2 x 2 table with both margins exact and no more."""
    if not isinstance(release, Release):
        raise TypeError(f"release must be a Release, got {type(release).__name__}")
    if release.frame.shape != (2, 2):
        sizes = " x ".join(str(length) for length in release.frame.shape)
        raise ValueError(
            f"the test is about a 2 x 2 table, and this release is about one of {sizes} ({printable(', '.join(release.frame.dims))}); "
            "release the 2 x 2 margin of interest, or fit a model"
        )
    bounds = [part for part in release.exact if part.sign != "="]
    if bounds:
        raise ValueError(f"the test needs exact margins and nothing else, and this release has bounds: {shown(bounds)}")
    if not _leaves_one_move(release.invariants):
        left = release.invariants.dimension
        raise ValueError(
            f"the test needs both margins ({printable(' and '.join(release.frame.dims))}) to be exact and no more: the exact part of "
            f"this release leaves {left} dimensions free, and it must leave one, (+1, -1, -1, +1)"
        )


def _leaves_one_move(invariants: Any) -> bool:
    return bool(invariants.dimension == 1 and invariants.is_null(_MOVE))
