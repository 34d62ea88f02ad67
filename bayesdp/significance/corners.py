"""What a release of a 2 x 2 table with both margins exact says of the corner x11, and with which noise.

Noise that changes no margin is ``j (1, -1, -1, 1)``: a law of tables becomes the law of one number j. It is whole-number noise plus a
U(-1/2, 1/2), normal, a sum of Laplace variables of one scale, or something else with a distribution function. Sums of the first kind
are convolutions of masses, all terms positive, so that tails keep their digits; normal and Laplace variables have closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc

from bayesdp import noise as laws
from bayesdp._arrays import Floats, Ints
from bayesdp._text import printable
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements import Measured
from bayesdp.mechanisms.canonical import place_of
from bayesdp.mechanisms.composition import joint_release
from bayesdp.privacy.canonical import GaussianNoise, Tulap
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import ApproximateTradeOff, GaussianTradeOff, approximate_dp, gaussian_dp
from bayesdp.release import Release
from bayesdp.significance._families import Hypergeometric, Noise, NoisyCount, margins

MOVE = np.array([[1, -1], [-1, 1]])

_MAX_SCALE = 1e5  # of a discrete Gaussian: its table of tails then has four million entries
_FAR = 1e300
_REACH = 39.0  # exp(-39**2 / 2) is below the smallest double
_TAILS = (1e-100, 1e-30)
"""Masses of whole-number noise below the first share of the largest are left out; below the second, where the sum is long."""
_MOST_PRODUCTS = 2e9
"""Of a convolution: about two seconds."""


@dataclass(frozen=True)
class LaplaceNoise:
    """Sum of `terms` independent Laplace variables of scale b. Not canonical, not for one either: that is Tulap noise.

    With m = terms - 1 the density is ``exp(-s) sum_k (m + k)! / (k! (m - k)! 2**k) s**(m - k) / (m! 2**(m + 1) b)``,
    ``s = |x| / b``: a Bessel function of half-integer order. The tail adds up incomplete gamma functions, all positive.
    """

    b: float
    terms: int = 1

    def cdf(self, x: npt.ArrayLike) -> Any:
        """See `Noise`."""
        at = np.asarray(x, dtype=np.float64) / self.b
        s, m = np.abs(at), self.terms - 1
        low = np.zeros_like(s)
        for k in range(m + 1):
            # The integral of s**(m - k) exp(-s) from s on is (m - k)! times gammaincc, which cancels the (m - k)! above.
            log_weight = math.lgamma(m + k + 1) - math.lgamma(k + 1) - math.lgamma(m + 1) - (m + 1 + k) * math.log(2.0)
            low = low + math.exp(log_weight) * gammaincc(m - k + 1, s)
        return np.where(at <= 0.0, low, 1.0 - low)


@dataclass(frozen=True)
class WiderNoise:
    """Noise times a number."""

    noise: Noise
    factor: float

    def cdf(self, x: npt.ArrayLike) -> Any:
        """See `Noise`."""
        return self.noise.cdf(np.asarray(x, dtype=np.float64) / self.factor)


@dataclass(frozen=True, eq=False)
class WholeNoise:
    """Symmetric whole-number noise J plus an independent U(-1/2, 1/2).

    For log-concave masses it is canonical for the trade-off f of J and J shifted by 1: the sum has ``F(-1/2) = P(J < 0) = c``,
    ``f(c) = c`` in the convention of Dong, Roth and Su, is linear between -1/2 and 1/2, and ``F(x - 1) = f(1 - F(x))``, because
    the likelihood ratio is monotone: randomised tests that reject for large J are the best ones, and the uniform is their
    randomisation. That is Lemma 36 of paper 003. Tulap noise is the case of geometric masses.
    """

    mass: Floats = field(repr=False)  # P(j) for j = 0, 1, ...; what is beyond is negligible

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WholeNoise) and np.array_equal(self.mass, other.mass)

    def __hash__(self) -> int:
        return hash(self.mass.tobytes())

    @cached_property
    def _tail(self) -> Floats:
        """``P(J > j)``, added up from the far end: small terms first."""
        return np.append(np.cumsum(self.mass[::-1])[::-1][1:], 0.0)

    def cdf(self, x: npt.ArrayLike) -> Any:
        """See `Noise`."""
        at = np.clip(np.asarray(x, dtype=np.float64), -_FAR, _FAR)  # infinities have no cell
        z = -np.abs(at)
        steps = np.ceil(-z - 0.5)  # z lies in the unit cell around -steps
        j = np.minimum(steps, self.mass.size - 1.0).astype(np.int64)
        low = np.where(steps > j, 0.0, self._tail[j] + self.mass[j] * np.clip(z + steps + 0.5, 0.0, 1.0))
        return np.where(at <= 0.0, low, 1.0 - low)


def discrete_gaussian(scale: float) -> WholeNoise:
    """The discrete Gaussian plus a uniform."""
    if scale > _MAX_SCALE:
        raise NotImplementedError(
            f"a discrete Gaussian corner of scale {scale:g} is above {_MAX_SCALE:g}, for which tails are not tabulated"
        )
    law = laws.DiscreteGaussian(scale)
    with np.errstate(over="ignore"):
        return WholeNoise(np.exp(law.log_mass(np.arange(math.ceil(_REACH * scale) + 2))))


def is_whole(noise: Noise) -> bool:
    """Whether noise is whole-number noise plus an independent U(-1/2, 1/2): discrete noise, and Tulap noise with delta = 0."""
    # Tulap noise with delta > 0 ends within a unit cell, where it is no such sum.
    return isinstance(noise, WholeNoise) or (isinstance(noise, Tulap) and noise.delta == 0.0)


def noise_of_sum(noises: Sequence[Noise], weights: Sequence[float]) -> Noise:
    """The law of `sum w_k N_k` of independent noise; whole-number noise, to whole weights, with one uniform in place of all."""
    if all(map(is_whole, noises)):
        mass = _convolved([(noise, round(weight)) for noise, weight in zip(noises, weights, strict=True)])
        return WholeNoise(mass[mass.size // 2 :])
    parts = list(zip(noises, weights, strict=True))
    if len(parts) == 1:
        return noises[0] if weights[0] == 1.0 else WiderNoise(noises[0], weights[0])
    normal = [weight / noise.mu for noise, weight in parts if isinstance(noise, GaussianNoise)]
    if len(normal) == len(parts):
        return GaussianNoise(1.0 / math.hypot(*normal))
    laplace = [(noise.b * weight, noise.terms) for noise, weight in parts if isinstance(noise, LaplaceNoise)]
    if len(laplace) == len(parts) and all(math.isclose(b, laplace[0][0], rel_tol=1e-12) for b, _ in laplace):
        return LaplaceNoise(laplace[0][0], sum(terms for _, terms in laplace))
    names = ", ".join(f"{noise!r} times {weight:.6g}" for noise, weight in parts)
    raise NotImplementedError(
        f"no exact law is known here of the sum of {names}: noise adds up if it is all of whole numbers, all normal, or Laplace noise "
        "of one scale. Fit a model of all releases instead and look at the posterior"
    )


def _convolved(parts: Sequence[tuple[Noise, int]]) -> Floats:
    """Masses of ``sum a_k J_k`` at -k, ..., k."""
    for negligible in _TAILS:
        spread = [_spread(_whole_masses(noise, negligible), weight) for noise, weight in parts]
        lengths = np.cumsum([masses.size for masses in spread])
        if float(np.dot(lengths[:-1], [masses.size for masses in spread[1:]])) <= _MOST_PRODUCTS:
            return reduce(np.convolve, spread)
    raise NotImplementedError(
        f"the sum of noise so wide ({', '.join(repr(noise) for noise, _ in parts)}) is over more than {_MOST_PRODUCTS:.0e} pairs of "
        "whole numbers, which takes too long. Fit a model of all releases instead and look at the posterior"
    )


def _whole_masses(noise: Any, negligible: float) -> Floats:
    """``P(j)`` for j = 0, 1, ... without the uniform."""
    if isinstance(noise, WholeNoise):
        mass = noise.mass
    else:
        steps = np.arange(math.ceil(-math.log(negligible) / noise.epsilon) + 1)
        mass = math.tanh(0.5 * noise.epsilon) * np.exp(-noise.epsilon * steps)
    return np.asarray(mass[mass > negligible * mass[0]], dtype=np.float64)


def _spread(half: Floats, weight: int) -> Floats:
    """Masses of ``weight J`` at every whole number, from those of J = 0, 1, ..."""
    whole = np.concatenate([half[:0:-1], half])
    found = np.zeros(weight * (whole.size - 1) + 1)
    found[::weight] = whole
    return found


def whole_variance(noise: Noise) -> float:
    """Variance of whole-number noise without its uniform."""
    mass = _whole_masses(noise, _TAILS[0])
    return max(2.0 * float(mass @ np.arange(mass.size) ** 2.0), 1e-300)


def in_words(tradeoff: TradeOff) -> str:
    """Name a trade-off function: (1, 0.01)-DP."""
    if isinstance(tradeoff, ApproximateTradeOff):
        return f"({tradeoff.epsilon:.10g}, {tradeoff.delta:.10g})-DP"
    if isinstance(tradeoff, GaussianTradeOff):
        return f"{tradeoff.mu:.10g}-GDP"
    return repr(tradeoff)


@dataclass(frozen=True)
class CornerNoise:
    """Noise of the corner."""

    noise: Noise  # for an integer law, that of its sum with an independent U(-1/2, 1/2)
    tradeoff: str  # between two tables that differ by one move (+1, -1, -1, +1), in words
    canonical: bool  # whether the noise is canonical for it
    integer: bool = False  # whether the uniform has to be added


def canonical(tradeoff: TradeOff, *, integer: bool = False) -> CornerNoise:
    """Noise that is canonical for a trade-off function."""
    return CornerNoise(tradeoff.canonical_noise(), in_words(tradeoff), True, integer)


def _geometric(rate: float) -> CornerNoise:
    """``P(j)`` falls by ``exp(-rate)`` a step; with the uniform that is Tulap noise."""
    return canonical(approximate_dp(rate), integer=True)


def _normal(sigma: float) -> CornerNoise:
    return canonical(gaussian_dp(1.0 / sigma))


def _integer_gaussian(scale: float) -> CornerNoise:
    words = f"the trade-off between a discrete Gaussian of scale {scale:.10g} and the same shifted by 1"
    return CornerNoise(discrete_gaussian(scale), words, True, integer=True)


def _laplace(scale: float, terms: int = 1) -> CornerNoise:
    words = (
        f"Laplace noise of scale {scale:.10g} on the corner, which satisfies {in_words(approximate_dp(1.0 / scale))}"
    )
    if terms > 1:
        words = f"the sum of four Laplace variables of scale {scale:.10g} on the corner"
    return CornerNoise(LaplaceNoise(scale, terms), words, canonical=False)


def _tulap(law: laws.Tulap) -> CornerNoise:
    """Canonical for what one record changes: with another sensitivity the noise is too wide or too narrow for a move."""
    f = approximate_dp(law.epsilon, law.delta)
    if law.sensitivity == 1.0:
        return canonical(f)
    words = f"{law.sensitivity:.10g} times noise that is canonical for {in_words(f)}"
    return CornerNoise(WiderNoise(f.canonical_noise(), law.sensitivity), words, canonical=False)


def _norm(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """Density ``exp(-epsilon ||u (1, -1, -1, 1)||)`` of the corner u: every norm is linear along a line, whatever its unit ball."""
    zero = np.zeros((2, 2), dtype=np.int64)
    return _laplace(1.0 / (law.logp(zero, zero, invariants) - law.logp(MOVE, zero, invariants)))


def _table_gaussian(law: Any, invariants: Invariants) -> CornerNoise:
    return _normal(math.sqrt(law.variance((2, 2), invariants).flat[0]))


_OF_TABLE: dict[type[laws.NoiseLaw], Callable[[Any, Invariants], CornerNoise]] = {
    laws.LatticeLaplace: lambda law, _: _geometric((4.0 if law.norm == "l1" else 2.0) * law.epsilon),
    # exp(-||z||**2 / 2 sigma**2) = exp(-j**2 / (2 (sigma / 2)**2))
    laws.LatticeGaussian: lambda law, _: _integer_gaussian(0.5 * law.sigma),
    laws.ProjectedGaussian: _table_gaussian,
    laws.CorrelatedGaussian: _table_gaussian,
    laws.ExtendedLaplace: _norm,
    laws.KNorm: _norm,
    laws.SemiKNorm: _norm,
    laws.SubspaceNorm: _norm,
    # The corner of the projection is (e11 - e12 - e21 + e22) / 4.
    laws.ProjectedLaplace: lambda law, _: _laplace(0.25 * law.b, terms=4),
}
"""The noise of the corner of a published table, both margins being exact."""

_OF_CELL: dict[type[laws.NoiseLaw], Callable[[Any], CornerNoise]] = {
    laws.Tulap: _tulap,
    laws.Canonical: lambda law: canonical(law.tradeoff),
    laws.Laplace: lambda law: _laplace(law.b),
    laws.Gaussian: lambda law: _normal(law.sigma),
    laws.DiscreteLaplace: lambda law: _geometric(1.0 / law.b),
    laws.DiscreteGaussian: lambda law: _integer_gaussian(law.sigma),
    laws.ProjectedGaussian: lambda law: _normal(law.sigma),  # one answer has one dimension: nothing is projected away
}
"""The noise of one cell that was published alone, the margins being exact (paper 003, Theorem 37)."""


def _known(table: dict[type[laws.NoiseLaw], Any], law: laws.NoiseLaw, what: str) -> Any:
    """What a table has for a law."""
    for kind, made in table.items():
        if isinstance(law, kind):
            return made
    raise NotImplementedError(
        f"there is no test of {what} released with the law {law.name!r}; laws with one are "
        f"{', '.join(kind.name for kind in table)}. Fit a model instead and look at the posterior odds ratio"
    )


def noise_of_table(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """The noise of the corner of a table that was published with both margins."""
    made: CornerNoise = _known(_OF_TABLE, law, "a table")(law, invariants)
    return made


@dataclass(frozen=True)
class NoisyCorner:
    """The noisy corner, the law of the corner given the exact margins, the noise, and its labels."""

    published: float
    family: Hypergeometric
    noise: CornerNoise
    cell: str


def joined(releases: Release | Iterable[Release]) -> Release:
    """One release of all measurements."""
    given = [releases] if isinstance(releases, Release) else list(releases)
    if not given:
        raise ValueError("releases must be at least one release, got none")
    return joint_release(given)


def noisy_corner(release: Release, cell: Mapping[str, Any] | None = None) -> NoisyCorner:
    """Take the corner, its noise and the margins from a release; arguments and errors as `odds_ratio_test_from_release`."""
    found = noisy_corners(release, cell)
    if len(found) > 1:
        named = ", ".join(dict.fromkeys(repr(measured.law.name) for measured in release.measurements))
        raise NotImplementedError(
            f"there is no test of one corner in a release with the law {named} that has {len(found)}, as noise that is independent in "
            "each cell leaves: a release of one cell alone has a test, and odds_ratio_test_from_releases combines several corners"
        )
    return found[0]


def noisy_corners(release: Release, cell: Mapping[str, Any] | None) -> list[NoisyCorner]:
    """The noisy corners that all measurements of a release amount to.

    Two tables with the same margins differ by a multiple of (+1, -1, -1, +1), so that one cell gives the corner:
    ``x11 = p11 + s (x - p)``, with p a table of these margins, s the product of the signs of both cells. The noise is symmetric.
    """
    check_table(release)
    row, column = corner_position(release.frame, cell)
    corner, point, signs = 2 * row + column, release.fiber.find_point(), MOVE.reshape(-1)
    family, label = family_of(point, row, column), release.frame.exact_cell_name(corner)
    found: list[NoisyCorner] = []
    for measured in release.measurements:
        for place, value, noise in _noisy_cells(measured, release, corner):
            moved = signs[corner] * signs[place] * (value - float(point.flat[place]))
            published = value if place == corner else float(point.flat[corner] + moved)
            found.append(NoisyCorner(published, family, noise, label))
    if not found:
        raise ValueError("the test needs noisy measurements of the cells, and the release has none")
    return found


def _noisy_cells(measured: Measured, release: Release, corner: int) -> list[tuple[int, float, CornerNoise]]:
    """Place, value and noise of cells that carry the noise of a measurement: one of a table whose noise changes no margin."""
    law, values = measured.law, measured.values.reshape(-1)
    if measured.query.is_identity and not law.independent:
        under = measured.invariants or release.invariants
        if not leaves_only(under, [MOVE]):
            raise ValueError(
                f"the noise of {measured!r} was drawn under other invariants than both margins: the noisy cells break exact margins"
            )
        return [(corner, float(values[corner]), noise_of_table(law, under))]
    rows = measured.query.matrix
    if not (np.all(np.diff(rows.indptr) == 1) and np.all(rows.data == 1)) or (
        rows.shape[0] > 1 and not law.independent
    ):
        raise ValueError(
            f"the test needs noisy measurements of the cells or of single cells, and one is {measured!r}: fit a model instead"
        )
    made = _known(_OF_CELL, law, "a cell")
    published = np.flatnonzero(~measured.unmeasured.reshape(-1)).tolist()
    return [(int(rows.indices[k]), float(values[k]), made(law.of_answer(k, measured.values.shape))) for k in published]


def family_of(point: Ints, row: int, column: int) -> Hypergeometric:
    """Law of the corner given the margins of a table that has them."""
    return margins((int(point[row].sum()), int(point[1 - row].sum())), int(point[:, column].sum()))


def pvalue_limits(corner: NoisyCorner, alternative: str, null: float) -> tuple[float, float]:
    """Smallest and largest p-value that the uniform can lead to; equal where none is added.

    For reports, which must not draw: a report that is written twice would otherwise state two p-values.
    """
    half = 0.5 if corner.noise.integer else 0.0
    log_null = math.log(null)
    ends = [NoisyCount(corner.published + shift, corner.family, corner.noise.noise) for shift in (-half, half)]
    found = [end.pvalue(log_null, alternative) for end in ends]
    # Twice the smaller tail rises to 1 and falls again, where the uniform moves the statistic past the median.
    past_median = ends[1].greater(log_null) < 0.5 < ends[0].greater(log_null)
    return min(found), 1.0 if alternative == "two-sided" and past_median else max(found)


def is_two_by_two(release: Release) -> bool:
    """Whether a release is of a 2 x 2 table whose margins are exact and all that is."""
    try:
        check_table(release)
    except ValueError:
        return False
    return True


def corner_position(frame: Frame, cell: Mapping[str, Any] | None) -> tuple[int, int]:
    """Row and column of the cell with the given labels."""
    row, column = (0, 0) if cell is None else place_of(frame, cell)
    return row, column


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
    check_margins(release, release.frame.dims, [MOVE])


def check_margins(release: Release, dims: Sequence[str], moves: Sequence[Ints] | Ints) -> None:
    """Refuse a release whose exact part is anything but both margins, under which these moves are free."""
    bounds = any(part.sign != "=" for part in release.exact)
    if bounds or not leaves_only(release.invariants, moves):
        raise ValueError(
            f"the test needs both margins ({printable(' and '.join(dims))}) to be exact and no more: the exact part of this release "
            f"leaves {release.invariants.dimension} dimensions free{' and has bounds' * bounds}, and margins leave {len(moves)}"
        )


def leaves_only(invariants: Invariants, moves: Sequence[Ints] | Ints) -> bool:
    """Whether tables with these exact answers differ by independent moves, and by nothing else."""
    return bool(invariants.dimension == len(moves) and all(invariants.is_null(move) for move in moves))
