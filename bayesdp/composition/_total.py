"""The guarantee of several releases together, or why there is none.

How far the smallest differences that keep the joint invariants move the answers of one release, by the law of its noise.

Rows of a total by convolution: for the pairs of tables of a row, the two laws of each release, and their losses put together.

What several releases reveal together about a difference between two tables that agree on all their invariants.

Whether the invariants of one release follow from those of another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from bayesdp._validate import probability
from bayesdp.invariants import Invariants
from bayesdp.measurements import Measured
from bayesdp.mechanisms.one_person import with_person
from bayesdp.noise import DiscreteGaussian, LatticeGaussian
from bayesdp.noise.lattice.linear import lattice_profiles
from bayesdp.privacy import DIFFERENCES, EXACT_SAMPLER, Difference, Guarantee, PairLoss, gaussian_sigma
from bayesdp.privacy.caveats import Composed, Convolution, Fixed, OfReleases, OtherSamplers
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, LossAt, PureDP, loss_from
from bayesdp.privacy.pairs import Convolved, Kept, Neighbours, Relation, SemiAdjacent, SemiAdjacentWithin
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp
from bayesdp.privacy.tradeoffs.profile import convolved_epsilon
from bayesdp.privacy.words import Statement
from bayesdp.queries import SumPart, Totals
from bayesdp.release import Release
from bayesdp.sensitivities.differences import NORMS
from bayesdp.sensitivities.kept import difference_lengths, kept_differences
from bayesdp.sensitivities.norms import RECORDS, DifferenceNorm


@dataclass(frozen=True)
class Known:
    """What one release loses at a difference."""

    loss: Loss  # in the definition of privacy that its guarantee states
    normal: GaussianDP | None = None  # beside epsilon and delta, of normal noise: its mu adds up exactly
    exact: bool = False  # whether every pair of the kind has this loss, and no less

    @classmethod
    def of_row(cls, kind: str, row: Loss, *, exact: bool = False) -> Known:
        """The loss of a kind out of a row of a guarantee, which may state others beside it."""
        normal = row.stated("gdp") if kind == "approximate" else None
        return cls(row.to(kind), normal if isinstance(normal, GaussianDP) else None, exact)

    def group(self, k: int) -> Known:
        """The loss of two tables that are k neighbouring steps apart; of normal noise by its mu, at the delta of one step."""
        if self.normal is None or not isinstance(self.loss, ApproximateDP):
            return Known(self.loss.group(k))
        farther = self.normal.group(k)
        return Known(farther.at(self.loss.delta) if self.loss.delta < 1.0 else self.loss, farther)


def known_losses(release: Release, joint: Invariants) -> dict[Difference, Known]:
    """The loss of a release with one noisy part at each kind of difference that keeps the joint invariants."""
    # Only where it follows from the law of the noise: for each kind of difference the largest length of what it changes in the
    # answers, over all such differences, in the norm of the noise. The invariants of the release follow from `joint`.
    stated = release.guarantee
    if stated is None or len(release.measurements) != 1:
        return {}
    [measured] = release.measurements
    scale = measured.law.pair_loss(measured.query, measured.invariants or release.invariants)
    if scale is None or stated.kind not in scale.kinds:
        return {}
    delta = stated.parameters.get("delta")
    # The length of a step is left open: a bound by steps is taken elsewhere, from the loss that the release states.
    norm = DifferenceNorm(measured.query, joint, "add-remove", math.inf, scale.norm, scale.coordinates)
    found = {}
    for own in difference_lengths(norm):
        if math.isfinite(own.size):
            exact = not own.bound and scale.tight
            found[own.difference] = Known.of_row(stated.kind, scale.loss(own.size, delta), exact=exact)
    return found


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


_LONGER = 1.0 + 1e-12
"""A length up to this is 1: more of it is rounding."""


def common_kind(guarantees: Sequence[Guarantee], delta: float | None) -> str:
    """The definition of privacy in which the losses can be added, without giving any of them away."""
    # ValueError if there is none, or if a delta is needed and not given, or given and not needed.
    kinds = {own.kind for own in guarantees}
    needs_delta = "gdp" in kinds and bool(kinds & {"pure", "approximate"}) and "zcdp" not in kinds
    if delta is not None:
        probability(delta, "delta")
        if not needs_delta:
            raise ValueError(
                f"delta turns mu into epsilon where both are composed; these releases state {', '.join(sorted(kinds))}, "
                "so leave it out"
            )
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= {"pure", "approximate"}:
        return "approximate"
    if "zcdp" in kinds:
        raise ValueError(
            f"the releases state {', '.join(sorted(kinds))}, and zCDP has no exact conversion to or from the others; convert "
            "the losses yourself (bayesdp.privacy.rho_to_epsilon gives a bound) or release both by one definition"
        )
    if delta is None:
        raise ValueError(
            "the releases state mu in one place and epsilon in another: give delta, at which mu becomes epsilon exactly"
        )
    return "approximate"


def total(known: Sequence[Known], kind: str, delta: float | None) -> Loss:
    """The loss of all releases together, in the definition that `common_kind` has found."""
    # Normal noise adds up exactly by its mu: that of releases which state epsilon and delta first, at the sum of their deltas; then
    # that of releases which state mu, at the delta that was given to put mu and epsilon together.
    losses = [own.loss for own in known]
    if kind != "approximate":
        return _sum(losses)
    normal = [own for own in known if own.normal is not None]
    parts = [own.loss for own in known if own.normal is None and own.loss.kind != "gdp"]
    if len(normal) > 1:
        spent = math.fsum(own.loss.parameters["delta"] for own in normal)
        mu = _sum([own.normal for own in normal if own.normal is not None])
        parts.append(mu.at(spent) if spent < 1.0 else ApproximateDP(0.0, 1.0))
    else:
        parts += [own.loss for own in normal]
    by_mu = [own for own in losses if own.kind == "gdp"]
    if by_mu:
        assert delta is not None  # `common_kind` has seen to it
        parts.append(_sum(by_mu).at(delta))
    together = _sum(parts)
    return ApproximateDP(together.epsilon, 0.0) if isinstance(together, PureDP) else together


def _sum(losses: Sequence[Loss]) -> Loss:
    return reduce(lambda one, other: one.compose(other), losses)


def neighbour_loss(release: Release) -> tuple[str, Known] | None:
    """The relation of neighbouring tables that a release's mechanism protects, and the loss; None where not stated."""
    relation = (release.mechanism or {}).get("neighbours")
    if release.guarantee is None or not isinstance(relation, str):
        return None
    row = next((own.loss for own in release.guarantee.pairs if isinstance(own.about, Neighbours)), None)
    stated = release.guarantee.parameters.loss if row is None else row
    return relation, _with_mu(release, stated)


def loss_of(
    release: Release, difference: Difference, by_law: Mapping[Difference, Known], *, total_is_exact: bool
) -> Known | None:
    """What one release loses at a difference that its invariants do not see; None if unknown."""
    # The least of: what follows from the law of its noise (`by_law`, of `known_losses`); the row of its own guarantee on this kind
    # of difference; as many steps of one record as the difference takes, at the loss that it states for neighbouring tables, or the
    # difference in the norm of its guarantee. All are upper bounds, and the first may be exact. `total_is_exact`: whether all
    # tables that agree on the joint invariants have as many records.
    stated = release.guarantee
    if stated is None:
        return None
    found = [by_law[difference]] if difference in by_law else []
    row = _own_row(stated, difference)
    if row is not None:
        found.append(_with_mu(release, row))
    if not found or not found[0].exact:
        steps = _by_steps(release, difference, stated, total_is_exact=total_is_exact)
        if steps is not None:
            found.append(steps)
    return min(found, key=_size, default=None)


def _size(known: Known) -> tuple[float, ...]:
    """Order losses of one kind: a smaller delta goes before a smaller epsilon."""
    loss = known.loss
    return (loss.delta, loss.epsilon) if isinstance(loss, ApproximateDP) else tuple(loss.parameters.values())


def _own_row(stated: Guarantee, difference: Difference) -> Loss | None:
    """The loss that the release states for all differences of the kind."""
    if difference.found:
        return None  # another change may be the smallest of other invariants
    kept = ((own.about, own.loss) for own in stated.pairs)
    return next((loss for about, loss in kept if isinstance(about, Kept) and about.difference == difference), None)


def _by_steps(release: Release, difference: Difference, stated: Guarantee, *, total_is_exact: bool) -> Known | None:
    """The loss of as many neighbouring steps as the difference takes, or of its length; None where neither is known."""
    neighbours = neighbour_loss(release)
    if neighbours is not None:
        relation, loss = neighbours
        steps = difference.l1 if relation == "add-remove" else difference.l1 / 2
        same_total = total_is_exact or difference in DIFFERENCES.values()
        if relation == "substitution" and not (same_total and steps == int(steps)):
            return None  # one of the two tables may have more records
        return loss.group(int(steps))
    if len(release.measurements) != 1:
        return None  # the parameters of a composition are those of its first row, and of no other pair
    if stated.unit not in NORMS:
        return _within_adjacency(release, difference)
    size = difference.size(stated.unit) / stated.parameters.size
    whole = stated.loss
    if isinstance(whole, ApproximateDP):
        return Known.of_row(stated.kind, stated.parameters.loss) if size <= _LONGER else None
    # Noise of one norm: the loss follows the distance in it, also between whole numbers of steps.
    return Known(ZCDP(whole.rho * size**2) if isinstance(whole, ZCDP) else _times(whole, size))


def _times(loss: Loss, size: float) -> Loss:
    return loss_from(loss.kind, {name: value * size for name, value in loss.parameters.items()})


def _with_mu(release: Release, row: Loss) -> Known:
    """A loss that a release states; for normal noise with epsilon and delta, the mu that has these: its own is no larger."""
    assert release.guarantee is not None  # the row is one of its rows
    known = Known.of_row(release.guarantee.kind, row)
    normal = all(own.law.normal for own in release.measurements)
    loss = known.loss
    if known.normal is not None or not normal or len(release.measurements) != 1 or not isinstance(loss, ApproximateDP):
        return known
    if not 0.0 < loss.delta < 1.0:
        return known
    return Known(loss, GaussianDP(1.0 / gaussian_sigma(loss.epsilon, loss.delta, 1.0)))


def adjacent_row(release: Release) -> tuple[int, PairLoss] | None:
    """The adjacency of a Semi-DP release, and what it loses at worst between tables that far apart; None for others."""
    adjacency = (release.mechanism or {}).get("adjacency")
    if release.guarantee is None or not isinstance(adjacency, int):
        return None
    about = SemiAdjacent(adjacency), SemiAdjacentWithin(adjacency)
    return next(((adjacency, row) for row in release.guarantee.pairs if row.about in about), None)


def _within_adjacency(release: Release, difference: Difference) -> Known | None:
    """Semi-DP in a norm that a difference is not measured in: its worst loss, up to the number of records that it is for."""
    found = adjacent_row(release)
    if found is None or difference.l1 > 2.0 * found[0] or isinstance(found[1].about, SemiAdjacentWithin):
        return None  # under the published answers not all differences of the kind need occur
    assert release.guarantee is not None  # `adjacent_row` found a row of it
    return Known.of_row(release.guarantee.kind, found[1].loss)


def is_nested(inner: Invariants, outer: Invariants) -> bool:
    """Whether what `inner` leaves free is left free by `outer` too: ``null(inner)`` lies in ``null(outer)``.

    Then every mechanism that is subspace differentially private for `outer` is so for `inner`, at the same loss.
    Decided by ranks in exact arithmetic: the rows of `outer` add nothing to those of `inner`.

    Parameters
    ----------
    inner, outer : Invariants
        Of one table. `inner` keeps more exact.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        If they are about different tables.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Proposition 2.7.

    Examples
    --------
    >>> from bayesdp.queries import Margins, Totals
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> margin, total = Invariants(Margins(table, ["county"])), Invariants(Totals(table))
    >>> is_nested(margin, total), is_nested(total, margin)
    (True, False)
    """
    for value, argument in ((inner, "inner"), (outer, "outer")):
        if not isinstance(value, Invariants):
            raise TypeError(f"{argument} must be an Invariants, got {type(value).__name__}")
    if not inner.frame.same_cells(outer.frame):
        raise ValueError("inner and outer must be about one table (same dimensions and labels)")
    both = Invariants([inner.query, outer.query], inner.frame)
    return both.rank == inner.rank


NEIGHBOURS_APART = {"substitution": DIFFERENCES["substitution"], "add-remove": Difference("one record", 1.0, 1.0)}
"""How far neighbouring tables are apart."""


def total_guarantee(
    releases: Sequence[Release],
    joint: Release,
    differences: Sequence[Difference],
    delta: float | None,
    *,
    cells: bool = True,
    at_delta: float | None = None,
    all_rows: bool = False,
) -> tuple[Guarantee | None, str | None]:
    """The total guarantee of the releases, or why there is none: one of the two."""
    # `joint` has all their measurements and exact parts, `differences` are the smallest that keep all invariants; `delta` is only
    # to put mu and epsilon together. `cells`: whether to work out which cells are determined. With `at_delta` there are rows by
    # convolution at that delta, where they are better than sums or, with `all_rows`, wherever they can be worked out.
    noisy = [own for own in releases if own.measurements]
    silent = [str(k) for k, own in enumerate(releases, start=1) if own.measurements and own.guarantee is None]
    if silent:
        return None, f"unknown, because no loss is stated by release {', '.join(silent)}"
    if not joint.invariants.dimension:
        return None, "none can be stated, because no two tables agree on all invariants"
    if not noisy:
        return None, "none, because nothing is released but exact values"
    stated = [own.guarantee for own in noisy if own.guarantee is not None]
    kind = common_kind(stated, delta)
    unit = stated[0].unit if len({own.unit for own in stated}) == 1 and stated[0].unit in NORMS else "l1"
    by_sums: list[Row] = []

    def add(row: PairLoss, known: Sequence[Known]) -> None:
        by_sums.append(Row(row, tuple(known)))

    neighbours = [neighbour_loss(own) for own in noisy]
    relation: str | None = None
    relations = {found[0] for found in neighbours if found is not None}
    if None not in neighbours and len(relations) == 1:
        relation = relations.pop()
        apart = NEIGHBOURS_APART[relation]
        losses = [found[1] for found in neighbours if found is not None]
        add(PairLoss(Neighbours(relation, "joint"), apart.size(unit), unit, total(losses, kind, delta)), losses)
    adjacent, reach = [adjacent_row(own) for own in noisy], None
    if None not in adjacent:
        apart_by = [found for found in adjacent if found is not None]
        nearest, row = min(apart_by, key=lambda found: found[0])
        reach = nearest
        worst = [Known.of_row(g.kind, found[1].loss) for g, found in zip(stated, apart_by, strict=True)]
        # One norm, or the number of records, of which each is at most 2 in l1.
        one = len({found[1].norm for found in apart_by}) == 1
        size, norm = (row.size, row.norm) if one else (2.0 * nearest, "l1")
        within = any(isinstance(found[1].about, SemiAdjacentWithin) for found in apart_by)
        add(
            PairLoss(
                (SemiAdjacentWithin if within else SemiAdjacent)(nearest, joint=True),
                size,
                norm,
                total(worst, kind, delta),
            ),
            worst,
        )
    sums = is_nested(joint.invariants, Invariants(Totals(joint.frame)))
    by_law = [known_losses(own, joint.invariants) for own in noisy]
    for difference in differences:
        found = [loss_of(own, difference, law, total_is_exact=sums) for own, law in zip(noisy, by_law, strict=True)]
        known = [own for own in found if own is not None]
        if len(known) == len(found):
            normal = all(own.normal is not None for own in known)
            exact = all(own.exact for own in known) and (kind != "approximate" or normal or len(known) == 1)
            lost = total(known, kind, delta)
            add(PairLoss(Kept(difference, "" if exact else "upper"), difference.size(unit), unit, lost), known)
    rows = [own.pairs for own in by_sums]
    if not rows:
        return None, "unknown, because the losses of the releases refer to differences that cannot be compared"
    convolved: list[PairLoss] = []
    if at_delta is not None:
        convolved = convolved_rows(noisy, by_sums, joint.invariants, at_delta, all_rows=all_rows)
    samplers = list(dict.fromkeys(own.sampler for own in stated if not own.sampler.exact))
    caveats: list[Statement] = [Composed(len(releases)), *_caveats(releases)]
    if at_delta is not None and convolved:
        caveats.insert(1, Convolution(at_delta))
    if len(samplers) > 1:
        caveats.append(OtherSamplers(tuple(map(str, samplers[1:]))))
    whole = Guarantee(
        kind,
        LossAt(rows[0].loss, rows[0].size),
        rows[0].norm,
        (*rows, *convolved),
        determined_cells=joint.fiber.determined_names() if cells else (),
        determined_complete=joint.fiber.determined_is_complete if cells else None,
        sampler=samplers[0] if samplers else EXACT_SAMPLER,
        simulated=joint.simulated,
        caveats=tuple(dict.fromkeys(caveats)),
    )
    return with_person(whole, joint.invariants, relation, reach), None


def _caveats(releases: Sequence[Release]) -> list[Statement]:
    """The caveats of all releases, each with the numbers of those that have it; caveats on arithmetic that all have stand alone."""
    of = {k: own.guarantee.caveats for k, own in enumerate(releases, start=1) if own.guarantee is not None}
    lines = dict.fromkeys(line for own in of.values() for line in own)
    holders = {line: tuple(k for k, own in of.items() if line in own) for line in lines}
    common = [own for own in lines if isinstance(own, Fixed) and own.of_all_noise and len(holders[own]) == len(of)]
    own = [OfReleases(holders[line], line) for line in lines if line not in common]
    return [*common, *((Fixed("of a release by itself"), *own) if own else ())]
