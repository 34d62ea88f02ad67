"""Rows of a total by convolution: for the pairs of tables of a row, the two laws of each release, and their losses put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bayesdp.composition._lengths import Known
from bayesdp.invariants import Invariants
from bayesdp.measurements import Measured
from bayesdp.noise import DiscreteGaussian, LatticeGaussian
from bayesdp.noise.lattice.profile import lattice_profiles
from bayesdp.privacy import Difference, PairLoss
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, Loss, PureDP
from bayesdp.privacy.relations import Convolved, Kept, Neighbours, Relation
from bayesdp.privacy.tradeoffs import TradeOff, approximate_dp, gaussian_dp
from bayesdp.privacy.tradeoffs.convolution import convolved_epsilon
from bayesdp.queries import SumPart
from bayesdp.release import Release
from bayesdp.sensitivities.difference_lengths import difference_lengths
from bayesdp.sensitivities.kept import kept_differences
from bayesdp.sensitivities.norms import RECORDS, DifferenceNorm

_SHORTER = 1e-9
"""By how much an epsilon must be smaller, relatively, to be better: less is rounding."""
_MOST = 200
"""Answers that change, beyond which the loss as a whole is taken."""


@dataclass(frozen=True)
class Row:
    """A row of a total by sums, and what each release with noise is known to lose there."""

    pairs: PairLoss
    known: tuple[Known, ...]


@dataclass(frozen=True)
class _Pair:
    """The two laws of one release, as the product of these trade-off functions, or something easier to tell apart."""

    # `exact`: whether it is the product, for all pairs of tables of the row. `spread`: up to a factor between it and `1 / spread`
    # in every probability, the loss of an outcome being that of the product.

    factors: tuple[TradeOff, ...]
    exact: bool
    spread: float = 1.0


def convolved_rows(
    noisy: Sequence[Release], rows: Sequence[Row], joint: Invariants, delta: float, *, all_rows: bool
) -> list[PairLoss]:
    """Rows at a delta for those pairs of which enough is known of each release, and epsilon is smaller than by sums."""
    # `all_rows`: also where it is not smaller.
    found = []
    by_law = [_by_law(own, joint) for own in noisy]
    for row in rows:
        about = row.pairs.about
        pairs = [
            _of_neighbours(own, about.change)
            if isinstance(about, Neighbours)
            else law.get(about.difference)
            if isinstance(about, Kept)
            else None
            for own, law in zip(noisy, by_law, strict=True)
        ]
        all_pairs = [pair or _of_loss(own, known) for pair, own, known in zip(pairs, noisy, row.known, strict=True)]
        of_all = [own for own in all_pairs if own is not None]
        if len(of_all) < len(all_pairs):
            continue
        factors = [f for own in of_all for f in own.factors]
        # delta is the mean of a function of the total loss, so that it is off by the factors of the probabilities at most.
        spread = math.prod(own.spread for own in of_all)
        bounds = convolved_epsilon(factors, delta * spread)
        if not math.isfinite(bounds.upper):
            continue
        if not all_rows and bounds.upper >= _by_sums(row.pairs.loss, delta) * (1.0 - _SHORTER):
            continue
        exact = all(own.exact for own in of_all) and not isinstance(about, Neighbours)
        if isinstance(about, Kept):
            about = Kept(about.difference, "" if exact else "upper")
        least = bounds.lower if exact else 0.0
        if exact and spread < 1.0:
            least = convolved_epsilon(factors, delta / spread).lower if delta < spread else 0.0
        relation: Relation = Convolved(about, least)
        found.append(PairLoss(relation, row.pairs.size, row.pairs.norm, ApproximateDP(bounds.upper, delta)))
    return found


def _by_sums(loss: Loss, delta: float) -> float:
    """The epsilon that follows from a row at a delta; infinite if none does."""
    if loss.says_nothing or (isinstance(loss, ApproximateDP) and loss.delta > delta):
        return math.inf
    return float(loss.at(delta)["epsilon"])


def _independent(release: Release) -> Measured | None:
    """The measurement of a release with one, whose noise is independent in each answer and of a known law."""
    if len(release.measurements) != 1:
        return None
    [measured] = release.measurements
    law = measured.law
    return measured if law.additive and law.independent and law.moved(1.0) is not None else None


def _repeated(measured: Measured, answers: int, *, exact: bool) -> _Pair | None:
    """So many answers changed by one, up or down."""
    one = measured.law.moved(1.0)
    return None if one is None or answers > _MOST else _Pair((one,) * answers, exact)


def _by_law(release: Release, joint: Invariants) -> dict[Difference, _Pair]:
    """For each kind of difference that keeps the joint invariants, the laws of its answers: independent or lattice normal noise."""
    measured = _independent(release)
    if measured is None:
        return _by_profile(release, joint)
    # The length of a step is left open, as in `known_losses`.
    norm = DifferenceNorm(measured.query, joint, "add-remove", math.inf, "l1")
    found = {}
    for own in difference_lengths(norm):
        of = own.difference
        if measured.query.is_identity and math.isclose(of.l2**2, of.l1):  # all cells that change do so by one
            pair = _repeated(measured, round(of.l1), exact=True)
            if pair is not None:
                found[of] = pair
            continue
        if not math.isfinite(own.size):
            continue
        length = math.floor(own.size + 1e-9)
        # One record counts once in a sum, and differences of nested sums are products of moves, which change sums by one; see
        # `DifferenceNorm.of_count`.
        if norm.sums and (joint.nested is not None or of.l1 <= RECORDS["substitution"]):
            pair = _repeated(measured, length, exact=not own.bound)
        elif length == 0:
            pair = _Pair((), True)
        else:
            # However the changes are spread over the answers: `NoiseLaw.moved`.
            moved = measured.law.moved(float(length))
            pair = None if moved is None else _Pair((moved,), False)
        if pair is not None:
            found[of] = pair
    return found


def _by_profile(release: Release, joint: Invariants) -> dict[Difference, _Pair]:
    """The same of lattice normal noise, whose loss at a difference is that of a discrete normal law that is moved."""
    # Only where all differences of a kind have one profile: then it is that of each, whichever is the worst of another release.
    found: dict[Difference, _Pair] = {}
    if len(release.measurements) != 1:
        return found
    [measured] = release.measurements
    law, own = measured.law, measured.invariants
    if not isinstance(law, LatticeGaussian) or own is None or not measured.query.is_identity:
        return found
    for difference in kept_differences(joint):
        profiles = lattice_profiles(own, difference, law.sigma)
        if profiles is None or len(profiles) != 1 or not profiles[0].spread:
            continue
        moved = DiscreteGaussian(profiles[0].scale).moved(float(profiles[0].shift))
        if moved is not None:
            found[difference] = _Pair((moved,), exact=True, spread=profiles[0].spread)
    return found


def _of_neighbours(release: Release, change: str) -> _Pair | None:
    """Neighbouring tables, of sums: each cell counts towards at most one answer of a part."""
    measured = _independent(release)
    if measured is None or not all(isinstance(part, SumPart) for part in measured.query.parts):
        return None
    return _repeated(measured, len(measured.query.parts) * round(RECORDS[change]), exact=False)


def _of_loss(release: Release, known: Known) -> _Pair | None:
    """Two laws that are at least as easy to tell apart as all with the loss; None where there are none that are known."""
    loss = known.loss
    normal = known.normal
    if isinstance(loss, GaussianDP):
        normal = loss
    if isinstance(loss, ZCDP) and len(release.measurements) == 1 and release.measurements[0].law.normal:
        normal = GaussianDP(math.sqrt(2.0 * loss.rho))
    if normal is not None:
        return _Pair((gaussian_dp(normal.mu),) if normal.mu > 0.0 else (), known.exact)
    if isinstance(loss, PureDP):
        return _Pair((approximate_dp(loss.epsilon),) if loss.epsilon > 0.0 else (), loss.epsilon == 0.0)
    if isinstance(loss, ApproximateDP) and not loss.says_nothing:
        return _Pair((approximate_dp(loss.epsilon, loss.delta),), False)
    return None
