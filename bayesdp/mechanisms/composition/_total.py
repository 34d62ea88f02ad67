"""The guarantee of several releases together, or why there is none: rows by sums of losses, and by their convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import islice

from bayesdp._validate import instance, probability
from bayesdp.invariants import Invariants
from bayesdp.measurements import Measured
from bayesdp.mechanisms.base import with_person
from bayesdp.noise import DiscreteGaussian, LatticeGaussian
from bayesdp.noise.lattice.linear import lattice_profiles
from bayesdp.privacy import (
    DIFFERENCES,
    EXACT_SAMPLER,
    Difference,
    Guarantee,
    PairLoss,
    StatisticGuarantee,
    gaussian_sigma,
)
from bayesdp.privacy.caveats import Composed, Convolution, Fixed, OfReleases, OtherSamplers
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, Loss, LossAt, PureDP
from bayesdp.privacy.sensitivities.kept import difference_lengths, kept_differences
from bayesdp.privacy.sensitivities.norms import NORMS, RECORDS, DifferenceNorm
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp
from bayesdp.privacy.tradeoffs.profile import convolved_epsilon
from bayesdp.privacy.words import (
    Conforming,
    Convolved,
    Neighbours,
    Relation,
    SemiAdjacent,
    SemiAdjacentWithin,
    Statement,
)
from bayesdp.queries import SumPart, Totals
from bayesdp.release import Release

_SHORTER = 1e-9
"""By how much an epsilon must be smaller, relatively, to be better: less is rounding."""
_LONGER = 1.0 + 1e-12
"""A length up to this is 1: more of it is rounding."""
_MOST = 200
"""Answers that change, beyond which the loss as a whole is taken."""

APART = {"substitution": DIFFERENCES["substitution"], "add-remove": Difference("one record", 1.0, 1.0)}
"""How far neighbouring tables are apart."""


@dataclass(frozen=True)
class ReleaseLoss:
    """What one release loses at a difference."""

    loss: Loss  # in the definition of privacy that its guarantee states
    normal: GaussianDP | None = None  # beside epsilon and delta, of normal noise: its mu adds up exactly
    exact: bool = False  # whether every pair of the kind has this loss, and no less

    @classmethod
    def of_row(cls, kind: str, row: Loss, *, exact: bool = False) -> ReleaseLoss:
        """The loss of a kind out of a row of a guarantee, which may state others beside it."""
        normal = row.stated("gdp") if kind == "approximate" else None
        return cls(row.to(kind), normal if isinstance(normal, GaussianDP) else None, exact)

    def group(self, k: int) -> ReleaseLoss:
        """The loss of two tables that are k neighbouring steps apart; of normal noise by its mu, at the delta of one step."""
        if self.normal is None or not isinstance(self.loss, ApproximateDP):
            return ReleaseLoss(self.loss.group(k))
        farther = self.normal.group(k)
        return ReleaseLoss(farther.at(self.loss.delta) if self.loss.delta < 1.0 else self.loss, farther)

    @property
    def size(self) -> tuple[float, ...]:
        """Orders losses of one kind: a smaller delta goes before a smaller epsilon."""
        loss = self.loss
        return (loss.delta, loss.epsilon) if isinstance(loss, ApproximateDP) else tuple(loss.parameters.values())


@dataclass(frozen=True)
class _Pair:
    """The two laws of one release, as the product of these trade-off functions, or something easier to tell apart."""

    factors: tuple[TradeOff, ...]
    exact: bool  # whether it is the product, for all pairs of tables of the row
    # Up to a factor from this to its inverse in every probability, the loss of an outcome being the product's.
    spread: float = 1.0


@dataclass(frozen=True, eq=False)
class Part:
    """One of several releases: one with noise and a guarantee, and the invariants that all releases keep together."""

    release: Release
    joint: Invariants
    total_is_exact: bool = False  # whether all tables that agree on the joint invariants have as many records

    @property
    def stated(self) -> Guarantee:
        """The guarantee of the release."""
        assert self.release.guarantee is not None  # parts are made of releases with one
        return self.release.guarantee

    @property
    def measured(self) -> Measured | None:
        """What is measured, if that is one thing."""
        found = self.release.measurements
        return found[0] if len(found) == 1 else None

    @cached_property
    def by_law(self) -> dict[Difference, ReleaseLoss]:
        """The loss at each kind of difference that keeps the joint invariants, where it follows from the law of the noise."""
        # For each kind of difference the largest length of what it changes in the answers, over all such differences, in the norm of
        # the noise. The invariants of the release follow from those that are kept together.
        measured, kind = self.measured, self.stated.kind
        if measured is None:
            return {}
        scale = measured.law.pair_loss(measured.query, measured.invariants or self.release.invariants)
        if scale is None or kind not in scale.kinds:
            return {}
        delta = self.stated.parameters.get("delta")
        # The length of a step is left open: a bound by steps is taken elsewhere, from the loss that the release states.
        norm = DifferenceNorm(measured.query, self.joint, "add-remove", math.inf, scale.norm, scale.coordinates)
        return {
            found.difference: ReleaseLoss.of_row(
                kind, scale.loss(found.size, delta), exact=not found.bound and scale.tight
            )
            for found in difference_lengths(norm)
            if math.isfinite(found.size)
        }

    @cached_property
    def neighbours(self) -> tuple[str, ReleaseLoss] | None:
        """The relation of neighbouring tables that the mechanism protects, and the loss; None where not stated."""
        relation = (self.release.mechanism or {}).get("neighbours")
        if not isinstance(relation, str):
            return None
        rows = (row.loss for row in self.stated.pairs if isinstance(row.about, Neighbours))
        return relation, self._with_mu(next(rows, self.stated.parameters.loss))

    @cached_property
    def adjacent(self) -> tuple[int, PairLoss] | None:
        """The adjacency of a Semi-DP release, and what it loses at worst between tables that far apart; None for others."""
        adjacency = (self.release.mechanism or {}).get("adjacency")
        if not isinstance(adjacency, int):
            return None
        about = SemiAdjacent(adjacency), SemiAdjacentWithin(adjacency)
        return next(((adjacency, row) for row in self.stated.pairs if row.about in about), None)

    def loss(self, difference: Difference) -> ReleaseLoss | None:
        """What the release loses at a difference that its invariants do not see; None if unknown."""
        # The least of three upper bounds, of which the first may be exact: what follows from the law of its noise; the row of its own
        # guarantee on this kind of difference; steps of one record, or the length of the difference in the norm of its guarantee.
        found = [self.by_law[difference]] if difference in self.by_law else []
        rows = (
            row.loss
            for row in self.stated.pairs
            if isinstance(row.about, Conforming) and row.about.difference == difference
        )
        # Another change may be the smallest of other invariants, if it was searched for.
        found += [] if difference.found else [self._with_mu(loss) for loss in islice(rows, 1)]
        if not found or not found[0].exact:
            steps = self._by_steps(difference)
            found += [] if steps is None else [steps]
        return min(found, key=lambda known: known.size, default=None)

    def _by_steps(self, difference: Difference) -> ReleaseLoss | None:
        """The loss of as many neighbouring steps as the difference takes, or of its length; None where neither is known."""
        stated = self.stated
        if self.neighbours is not None:
            relation, loss = self.neighbours
            steps = difference.l1 if relation == "add-remove" else difference.l1 / 2
            same_total = self.total_is_exact or difference in DIFFERENCES.values()
            if relation == "substitution" and not (same_total and steps == int(steps)):
                return None  # one of the two tables may have more records
            return loss.group(int(steps))
        if self.measured is None:
            return None  # the parameters of a composition are those of its first row, and of no other pair
        if stated.unit not in NORMS:
            # Semi-DP in a norm that a difference is not measured in: its worst loss, up to the number of records that it is for.
            # Under the published answers not all differences of the kind need occur.
            known = self.adjacent
            if known is None or difference.l1 > 2.0 * known[0] or isinstance(known[1].about, SemiAdjacentWithin):
                return None
            return ReleaseLoss.of_row(stated.kind, known[1].loss)
        size = difference.size(stated.unit) / stated.parameters.size
        whole = stated.loss
        if isinstance(whole, ApproximateDP):
            return ReleaseLoss.of_row(stated.kind, stated.parameters.loss) if size <= _LONGER else None
        # Noise of one norm: the loss follows the distance in it, also between whole numbers of steps.
        factor = size**2 if isinstance(whole, ZCDP) else size
        return ReleaseLoss(replace(whole, **{name: value * factor for name, value in whole.items()}))

    def _with_mu(self, row: Loss) -> ReleaseLoss:
        """A loss that the release states; for normal noise with epsilon and delta, the mu that has these: its own is no larger."""
        known = ReleaseLoss.of_row(self.stated.kind, row)
        loss, normal = known.loss, self.measured is not None and self.measured.law.normal
        if known.normal is None and normal and isinstance(loss, ApproximateDP) and 0.0 < loss.delta < 1.0:
            return ReleaseLoss(loss, GaussianDP(1.0 / gaussian_sigma(loss.epsilon, loss.delta, 1.0)))
        return known

    def laws(self, about: Relation, known: ReleaseLoss) -> _Pair | None:
        """The two laws for the tables of a row, or two that are as easy to tell apart; None where there are none that are known."""
        pair = None
        if isinstance(about, Neighbours):
            # Of sums: each cell counts towards at most one answer of a part.
            measured = self._independent
            if measured is not None and all(isinstance(part, SumPart) for part in measured.query.parts):
                pair = _repeated(measured, len(measured.query.parts) * round(RECORDS[about.change]), exact=False)
        elif isinstance(about, Conforming):
            pair = self._moved.get(about.difference)
        return self._of_loss(known) if pair is None else pair

    @property
    def _independent(self) -> Measured | None:
        """The measurement, if its noise is independent in each answer and of a known law."""
        measured = self.measured
        if measured is None or not measured.law.additive or not measured.law.independent:
            return None
        return None if measured.law.shift_tradeoff(1.0) is None else measured

    @cached_property
    def _moved(self) -> dict[Difference, _Pair]:
        """For each kind of difference that keeps the joint invariants the laws of the answers: independent or lattice normal noise."""
        measured = self._independent
        if measured is None:
            return self._by_profile()
        # The length of a step is left open, as in `by_law`.
        norm = DifferenceNorm(measured.query, self.joint, "add-remove", math.inf, "l1")
        found = {}
        for one in difference_lengths(norm):
            of, pair = one.difference, None
            if measured.query.is_identity and math.isclose(of.l2**2, of.l1):  # all cells that change do so by one
                pair = _repeated(measured, round(of.l1), exact=True)
            elif math.isfinite(one.size):
                length = math.floor(one.size + 1e-9)
                # One record counts once in a sum, and differences of nested sums are products of moves, which change sums by one; see
                # `DifferenceNorm.of_count`.
                if norm.sums and (self.joint.nested is not None or of.l1 <= RECORDS["substitution"]):
                    pair = _repeated(measured, length, exact=not one.bound)
                elif length == 0:
                    pair = _Pair((), True)
                else:
                    # However the changes are spread over the answers: `NoiseLaw.shift_tradeoff`.
                    moved = measured.law.shift_tradeoff(float(length))
                    pair = None if moved is None else _Pair((moved,), False)
            if pair is not None:
                found[of] = pair
        return found

    def _by_profile(self) -> dict[Difference, _Pair]:
        """The same of lattice normal noise, whose loss at a difference is that of a discrete normal law that is moved."""
        # Only where all differences of a kind have one profile: then it is that of each, whichever is the worst of another release.
        found: dict[Difference, _Pair] = {}
        measured = self.measured
        if measured is None or not isinstance(measured.law, LatticeGaussian) or measured.invariants is None:
            return found
        for difference in kept_differences(self.joint) if measured.query.is_identity else ():
            profiles = lattice_profiles(measured.invariants, difference, measured.law.sigma)
            for one in profiles if profiles is not None and len(profiles) == 1 else ():
                moved = DiscreteGaussian(one.scale).shift_tradeoff(float(one.shift)) if one.spread else None
                if moved is not None:
                    found[difference] = _Pair((moved,), exact=True, spread=one.spread)
        return found

    def _of_loss(self, known: ReleaseLoss) -> _Pair | None:
        """Two laws that are at least as easy to tell apart as all with the loss."""
        loss, normal = known.loss, known.normal
        if isinstance(loss, GaussianDP):
            normal = loss
        if isinstance(loss, ZCDP) and self.measured is not None and self.measured.law.normal:
            normal = GaussianDP(math.sqrt(2.0 * loss.rho))
        if normal is not None:
            return _Pair((gaussian_dp(normal.mu),) if normal.mu > 0.0 else (), known.exact)
        if isinstance(loss, PureDP):
            return _Pair((approximate_dp(loss.epsilon),) if loss.epsilon > 0.0 else (), loss.epsilon == 0.0)
        if isinstance(loss, ApproximateDP) and not loss.says_nothing:
            return _Pair((approximate_dp(loss.epsilon, loss.delta),), False)
        return None


def _repeated(measured: Measured, answers: int, *, exact: bool) -> _Pair | None:
    """So many answers changed by one, up or down."""
    one = measured.law.shift_tradeoff(1.0)
    return None if one is None or answers > _MOST else _Pair((one,) * answers, exact)


def common_kind(guarantees: Sequence[Guarantee], delta: float | None) -> str:
    """The definition of privacy in which the losses can be added, without giving any of them away."""
    # ValueError if there is none, or if a delta is needed and not given, or given and not needed.
    kinds = {stated.kind for stated in guarantees}
    listed = ", ".join(sorted(kinds))
    if delta is not None:
        probability(delta, "delta")
        if not needs_delta(kinds):
            raise ValueError(
                f"delta turns mu into epsilon where both are composed; these releases state {listed}, so leave it out"
            )
    if len(kinds) == 1:
        return kinds.pop()
    if "zcdp" in kinds:
        raise ValueError(
            f"the releases state {listed}, and zCDP has no exact conversion to or from the others; convert "
            "the losses yourself (bayesdp.privacy.rho_to_epsilon gives a bound) or release both by one definition"
        )
    if "gdp" in kinds and delta is None:
        raise ValueError(
            "the releases state mu in one place and epsilon in another: give delta, at which mu becomes epsilon exactly"
        )
    return "approximate"


def needs_delta(kinds: set[str]) -> bool:
    """Whether losses of these definitions are put together at a delta."""
    return "gdp" in kinds and bool(kinds & {"pure", "approximate"}) and "zcdp" not in kinds


def total(known: Sequence[ReleaseLoss], kind: str, delta: float | None) -> Loss:
    """The loss of all releases together, in the definition that `common_kind` has found."""
    # Normal noise adds up exactly by its mu: that of releases which state epsilon and delta first, at the sum of their deltas; then
    # that of releases which state mu, at the delta that was given to put mu and epsilon together.
    losses = [one.loss for one in known]
    if kind != "approximate":
        return _sum(losses)
    normal = [one for one in known if one.normal is not None]
    parts = [one.loss for one in known if one.normal is None and one.loss.kind != "gdp"]
    if len(normal) > 1:
        spent = math.fsum(one.loss.parameters["delta"] for one in normal)
        mu = _sum([one.normal for one in normal if one.normal is not None])
        parts.append(mu.at(spent) if spent < 1.0 else ApproximateDP(0.0, 1.0))
    else:
        parts += [one.loss for one in normal]
    by_mu = [loss for loss in losses if loss.kind == "gdp"]
    if by_mu:
        assert delta is not None  # `common_kind` has seen to it
        parts.append(_sum(by_mu).at(delta))
    together = _sum(parts)
    return ApproximateDP(together.epsilon, 0.0) if isinstance(together, PureDP) else together


def _sum(losses: Sequence[Loss]) -> Loss:
    return reduce(lambda one, other: one.compose(other), losses)


def is_nested(inner: Invariants, outer: Invariants) -> bool:
    """Whether what `inner` leaves free is left free by `outer` too: ``null(inner)`` lies in ``null(outer)``.

    Then every mechanism that is subspace differentially private for `outer` is so for `inner`, at the same loss.
    Decided by ranks in exact arithmetic: the rows of `outer` add nothing to those of `inner`.

    Parameters
    ----------
    inner, outer : Invariants
        Of one table. `inner` keeps more exact.

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
        instance(value, Invariants, f"{argument} must be an Invariants")
    if not inner.frame.same_cells(outer.frame):
        raise ValueError("inner and outer must be about one table (same dimensions and labels)")
    both = Invariants([inner.query, outer.query], inner.frame)
    return both.rank == inner.rank


def parts_of(releases: Sequence[Release], joint: Invariants) -> list[Part]:
    """The releases with noise, each of which has a guarantee."""
    same_total = is_nested(joint, Invariants(Totals(joint.frame)))
    return [Part(release, joint, same_total) for release in releases if release.measurements]


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
    if joint.about == "statistics":
        return _of_statistics(releases)
    silent = [str(k) for k, one in enumerate(releases, start=1) if one.measurements and one.guarantee is None]
    if silent:
        return None, f"unknown, because no loss is stated by release {', '.join(silent)}"
    if not joint.invariants.dimension:
        return None, "none can be stated, because no two tables agree on all invariants"
    parts = parts_of(releases, joint.invariants)
    if not parts:
        return None, "none, because nothing is released but exact values"
    stated = [part.stated for part in parts]
    kind = common_kind(stated, delta)
    by_sums = _rows(parts, differences, kind, delta)
    if not by_sums:
        return None, "unknown, because the losses of the releases refer to differences that cannot be compared"
    convolved = [] if at_delta is None else _convolved_rows(parts, by_sums, at_delta, all_rows=all_rows)
    samplers = list(dict.fromkeys(one.sampler for one in stated if not one.sampler.exact))
    caveats: list[Statement] = [Composed(len(releases)), *_caveats(releases)]
    if at_delta is not None and convolved:
        caveats.insert(1, Convolution(at_delta))
    if len(samplers) > 1:
        caveats.append(OtherSamplers(tuple(map(str, samplers[1:]))))
    first = by_sums[0][0]
    whole = Guarantee(
        kind,
        LossAt(first.loss, first.size),
        first.norm,
        (*(row for row, _ in by_sums), *convolved),
        determined_cells=joint.fiber.determined_names() if cells else (),
        determined_complete=joint.fiber.determined_is_complete if cells else None,
        sampler=samplers[0] if samplers else EXACT_SAMPLER,
        simulated=joint.simulated,
        caveats=tuple(dict.fromkeys(caveats)),
    )
    return with_total_person(whole, joint.invariants), None


type _Row = tuple[PairLoss, Sequence[ReleaseLoss]]
"""A row of a total by sums, and what each release with noise is known to lose there."""


def _rows(parts: Sequence[Part], differences: Sequence[Difference], kind: str, delta: float | None) -> list[_Row]:
    """Neighbouring tables, tables of Semi-DP, and the smallest differences, as far as something is known of each release."""
    found: list[_Row] = []
    units = {part.stated.unit for part in parts}
    unit = units.pop() if len(units) == 1 and units <= set(NORMS) else "l1"
    neighbours = [part.neighbours for part in parts if part.neighbours is not None]
    if len(neighbours) == len(parts) and len({relation for relation, _ in neighbours}) == 1:
        relation = neighbours[0][0]
        losses = [known for _, known in neighbours]
        row = PairLoss(Neighbours(relation, "joint"), APART[relation].size(unit), unit, total(losses, kind, delta))
        found.append((row, losses))
    adjacent = [part.adjacent for part in parts if part.adjacent is not None]
    if len(adjacent) == len(parts):
        nearest, row = min(adjacent, key=lambda one: one[0])
        worst = [ReleaseLoss.of_row(part.stated.kind, one.loss) for part, (_, one) in zip(parts, adjacent, strict=True)]
        # One norm, or the number of records, of which each is at most 2 in l1.
        same = len({one.norm for _, one in adjacent}) == 1
        size, norm = (row.size, row.norm) if same else (2.0 * nearest, "l1")
        within = any(isinstance(one.about, SemiAdjacentWithin) for _, one in adjacent)
        about = (SemiAdjacentWithin if within else SemiAdjacent)(nearest, joint=True)
        found.append((PairLoss(about, size, norm, total(worst, kind, delta)), worst))
    for difference in differences:
        known = [one for part in parts if (one := part.loss(difference)) is not None]
        if len(known) == len(parts):
            normal = all(one.normal is not None for one in known)
            exact = all(one.exact for one in known) and (kind != "approximate" or normal or len(known) == 1)
            kept = Conforming(difference, "" if exact else "upper")
            found.append((PairLoss(kept, difference.size(unit), unit, total(known, kind, delta)), known))
    return found


def _convolved_rows(parts: Sequence[Part], rows: Sequence[_Row], delta: float, *, all_rows: bool) -> list[PairLoss]:
    """Rows at a delta for those pairs of which enough is known of each release, and epsilon is smaller than by sums."""
    # `all_rows`: also where it is not smaller.
    found = []
    for row, known in rows:
        about = row.about
        pairs = [pair for part, one in zip(parts, known, strict=True) if (pair := part.laws(about, one)) is not None]
        if len(pairs) < len(parts):
            continue
        factors = [f for pair in pairs for f in pair.factors]
        # delta is the mean of a function of the total loss, so that it is off by the factors of the probabilities at most.
        spread = math.prod(pair.spread for pair in pairs)
        bounds = convolved_epsilon(factors, delta * spread)
        if not math.isfinite(bounds.upper):
            continue
        if not all_rows and bounds.upper >= _epsilon_at(row.loss, delta) * (1.0 - _SHORTER):
            continue
        exact = all(pair.exact for pair in pairs) and not isinstance(about, Neighbours)
        if isinstance(about, Conforming):
            about = Conforming(about.difference, "" if exact else "upper")
        least = bounds.lower if exact else 0.0
        if exact and spread < 1.0:
            least = convolved_epsilon(factors, delta / spread).lower if delta < spread else 0.0
        found.append(PairLoss(Convolved(about, least), row.size, row.norm, ApproximateDP(bounds.upper, delta)))
    return found


def _epsilon_at(loss: Loss, delta: float) -> float:
    """The epsilon that follows from a row at a delta; infinite if none does."""
    if loss.says_nothing or (isinstance(loss, ApproximateDP) and loss.delta > delta):
        return math.inf
    return float(loss.at(delta)["epsilon"])


def with_total_person(whole: Guarantee, invariants: Invariants) -> Guarantee:
    """A total with what its rows mean for one person's record."""
    relation = next((row.about.change for row in whole.pairs if isinstance(row.about, Neighbours)), None)
    reach = next((row.about.adjacency for row in whole.pairs if isinstance(row.about, SemiAdjacent)), None)
    return with_person(whole, invariants, relation, reach)


def _of_statistics(releases: Sequence[Release]) -> tuple[StatisticGuarantee | None, str | None]:
    """The total loss of releases of statistics for neighbouring data sets, by basic composition, or why there is none."""
    known = [release.guarantee for release in releases if release.guarantee is not None]
    if len(known) < len(releases):
        return None, "a release states no loss"
    about = {stated.pairs[0].about if stated.pairs else None for stated in known}
    if len({stated.kind for stated in known}) != 1 or len(about) != 1 or None in about:
        return (
            None,
            "the releases state different definitions of privacy, or are about different neighbouring data sets",
        )
    first = known[0]
    size = max(stated.parameters.size for stated in known)
    row = replace(first.pairs[0], size=size, loss=_sum([stated.pairs[0].loss for stated in known]))
    guarantee = StatisticGuarantee(
        first.kind,
        LossAt(_sum([stated.parameters.loss for stated in known]), size),
        first.unit,
        (row,),
        simulated=any(stated.simulated for stated in known),
        caveats=tuple(dict.fromkeys(caveat for stated in known for caveat in stated.caveats)),
    )
    return guarantee, None


def _caveats(releases: Sequence[Release]) -> list[Statement]:
    """The caveats of all releases, each with the numbers of those that have it; caveats on arithmetic that all have stand alone."""
    said = {k: one.guarantee.caveats for k, one in enumerate(releases, start=1) if one.guarantee is not None}
    holders = {
        line: tuple(k for k, those in said.items() if line in those) for lines in said.values() for line in lines
    }
    of_all_noise = (Fixed("floating point"), Fixed("generator"))  # true of all noise together if true of each
    common = [line for line, of in holders.items() if line in of_all_noise and len(of) == len(said)]
    others = [OfReleases(of, line) for line, of in holders.items() if line not in common]
    return [*common, *((Fixed("of a release by itself"), *others) if others else ())]
