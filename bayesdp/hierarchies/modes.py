"""Tied groups of cells, and the check for missed modes: chains that start at random tables far apart must come to agree.

A sum that is known to within a few counts ties its cells: one can only grow when another shrinks. Which sums these are follows from
the published variances alone; they say which cells of a leaf are moved against which.

Several modes are possible wherever the prior of a cell is not log-concave (`several_modes`): where a precise answer knows the sum of
a few cells of a leaf, say, one cell has nearly all of the sum, or another one has it. Chains that start in the same mode and cannot
leave it look good by R-hat and effective sample sizes, and are wrong together. Chains that start on either side and cannot cross end
in different places, which is seen. That a mode was not found never shows that there is none.

So chains begin at random tables far apart, in pairs that are independent of one another. The two of a pair are opposite: the random
errors of their starts have opposite signs (`bayesdp.hierarchies.start`), and the counts of every tied group of cells are in one cell
of it, drawn at random, or in the next one. Where they began, at which cell of every group, travels with the draws as small numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._chains import FEWEST_DRAWS, ess_mean
from bayesdp._text import printable
from bayesdp.hierarchies.kernel.moves import PRECISION, RESIDUAL, UNBOUNDED
from bayesdp.hierarchies.kernel.sweeps import gather
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import Structure, refines

if TYPE_CHECKING:
    from bayesdp.hierarchies.chain import TreeChain


DONORS = 8
"""Donors of a leaf in each pair class."""

_MIDDLING = (0.5, 50.0)
_VISITS = 3
"""Cells with typical counts in this range are visited more often than others: they, and sums with them, mix worst."""

_TIES = 0.25
"""A sum ties its cells if its precision is at least this share of the precision of all finer sums together."""


def tying_query(structure: Structure, precision: Floats) -> int | None:
    """The sums of a leaf that tie their cells; None where every sum is a single cell."""
    # `precision`, shape (queries,): averaged over leaves. The finest query, of those with sums of several cells, whose precision is at
    # least a quarter of that of all that tell cells of one of its sums apart; if there is none, the one with the largest share.
    answer_of, sums = structure.answer_of, np.diff(structure.query_start)
    coarse = [q for q in range(len(sums)) if sums[q] < len(answer_of)]
    if not coarse:
        return None
    share = np.zeros(len(sums))
    for q in coarse:
        finer = [o for o in range(len(sums)) if o != q and not refines(answer_of[:, q], answer_of[:, o])]
        below = float(precision[finer].sum())
        share[q] = precision[q] / below if below > 0.0 else np.inf if precision[q] > 0.0 else 0.0
    ties = [q for q in coarse if share[q] >= _TIES]
    return max(ties, key=lambda q: (sums[q], share[q])) if ties else max(coarse, key=lambda q: (share[q], sums[q]))


def tied_groups(structure: Structure, query: int | None) -> tuple[Ints, Ints]:
    """Free cells of each leaf by the sums of a query and by pair class, as `State.group_start` and `State.group_cell`."""
    sums = np.zeros(len(structure.answer_of), dtype=np.int64) if query is None else structure.answer_of[:, query]
    group = np.unique(np.stack([sums, structure.pair_class]), axis=1, return_inverse=True)[1].reshape(-1)
    return ragged(structure.free, group)


def tied_siblings(structure: Structure, precision: Floats) -> bool:
    """Whether the nodes right above the leaves are known better than the leaves, as block groups are when blocks are leaves."""
    # What is exchanged within a leaf then changes sums that are known well, and a count in the wrong leaf mostly leaves it for a
    # sibling. With fewer than two levels above the leaves all exchanges are between siblings. Totals do not count, which exchanges
    # within a leaf do not change. `precision`, shape (nodes, A).
    if len(structure.levels) < 3:
        return False
    columns = np.repeat(np.diff(structure.query_start) > 1, np.diff(structure.query_start))
    means = ((precision[structure.nodes_of(level)] * columns).mean(axis=0) for level in (0, 1))
    own, above = (float(mean[structure.answer_of].sum(axis=1).mean()) for mean in means)
    return above > own


def donors_of(structure: Structure, counts: npt.NDArray[np.generic]) -> tuple[Ints, Ints]:
    """The free cells with the largest typical counts, shape (T, C), of each leaf and pair class: donors of `State`."""
    kind = structure.pair_class
    chosen = np.zeros(structure.free.shape, dtype=np.bool_)
    size = np.where(structure.free, counts, -np.inf)
    for own in range(int(kind.max()) + 1):
        cells = np.flatnonzero(kind == own)
        most = cells[np.argsort(-size[:, cells], axis=1, kind="stable")[:, :DONORS]]
        np.put_along_axis(chosen, most, True, axis=1)
    return ragged(chosen & structure.free, kind)


def visits_of(structure: Structure, counts: npt.NDArray[np.generic]) -> Ints:
    """How often free cells with these typical counts, shape (T, C), are visited in a sweep, as `State.visits`."""
    # Cells that are nearly always 0 are not visited less than once: in trials sums over cells mixed worse then.
    typical = np.asarray(counts, dtype=np.float64)[structure.free]
    low, high = _MIDDLING
    return np.where((typical >= low) & (typical < high), _VISITS, 1).astype(np.int64)


def ragged(chosen: Mask, group: Ints) -> tuple[Ints, Ints]:
    """The chosen cells of each leaf, group by group: where each group starts, and the cells."""
    groups = int(group.max()) + 1
    leaf, cell = np.nonzero(chosen)
    key = leaf * groups + group[cell]
    order = np.argsort(key, kind="stable")
    size = np.bincount(key, minlength=len(chosen) * groups)
    starts = np.concatenate([[0], np.cumsum(size)])
    table = starts[np.arange(len(chosen))[:, None] * groups + np.arange(groups + 1)]
    return table, cell[order].astype(np.int64)


FALSE_ALARMS = 0.01
"""Share of runs of chains that agree in which some group is reported, where their effective sample sizes are right."""


def several_modes(prior: CellPrior) -> bool:
    """Whether a posterior may have several modes: with hyperparameters, or a shape below 1, with which a prior is not log-concave."""
    shape = np.asarray(getattr(prior, "shape", 0.0), dtype=np.float64)
    return bool(prior.names) or (prior.family == "negbin" and not (shape >= 1.0).all())


_NAMED = 100
"""Groups that a result names at most, the worst first."""


@dataclass(frozen=True, eq=False)
class TiedGroups:
    """The tied groups of a table whose chains are to be compared."""

    structure: Structure
    groups: Groups  # `(state.group_start, state.group_cell)` of a chain of the table
    apart: Mask  # cells at which some chains began with most of the group's counts, and others did not, shape (T, C)


def compare_entries(
    tied: TiedGroups, means: Floats, sds: Floats, ess: Floats, rate: float = FALSE_ALARMS, *, several: bool = True
) -> MissedModes:
    """Compare the means of chains that started at different ends, cell by cell of every tied group."""
    # `means`, `sds`, `ess`, shape (chains, entries of the groups): of the draws of each chain alone; a sample size from b batch means
    # is at most 4 (b - 1). Groups without a cell at which chains began apart are compared, but not counted as tested.
    #
    # For each cell and pair of chains the difference of their means is divided by its standard error sqrt(sd^2 / ess + sd'^2 / ess')
    # and compared with Student's law, with Welch's degrees of freedom from a quarter of each effective sample size: a variance of a
    # mean by autocovariances up to lag m has relative variance 4 m / n (Anderson, The statistical analysis of time series, 1971,
    # chapter 8), which is that of n / (2 m) degrees of freedom, and Geyer's rule stops at about twice the autocorrelation time
    # n / ess. The rate is divided equally among all cells and pairs of chains (Bonferroni), and holds if `ess` is right.
    leaf, cell, group = entries_of(tied.groups)
    mean, sd, ess = (np.asarray(array, dtype=np.float64) for array in (means, sds, ess))
    chains = len(mean)
    moved = sd > 0.0
    effective = np.where(moved, ess, np.inf)
    pairs = max(chains * (chains - 1) // 2, 1)
    level = rate / max(len(leaf) * pairs, 1)
    bad, errors = np.zeros(len(leaf), dtype=np.bool_), np.zeros(len(leaf))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(moved, np.square(sd) / effective, 0.0)
        parts = np.square(variance) / np.maximum(effective / 4.0, 1.0)
        for one in range(chains):
            for other in range(one):
                difference = np.abs(mean[one] - mean[other])
                spread = variance[one] + variance[other]
                size = np.where(difference > 0.0, difference / np.sqrt(spread), 0.0)
                freedom = np.where(spread > 0.0, np.square(spread) / (parts[one] + parts[other]), 1.0)
                bad |= 2.0 * stdtr(freedom, -size) <= level
                errors = np.fmax(errors, size)
    count = int(group.max(initial=-1)) + 1
    every = np.ones(len(group), dtype=np.bool_), bad, tied.apart[leaf, cell], ~(effective >= ENOUGH).all(axis=0)
    is_group, disagree, began, few = (np.bincount(group[some], minlength=count) > 0 for some in every)
    short = few & began & ~disagree
    worst = np.zeros(count)
    np.maximum.at(worst, group[bad], errors[bad])
    order = np.argsort(-worst, kind="stable")[: min(int(disagree.sum()), _NAMED)]
    named = tuple(
        _named(tied.structure, np.flatnonzero(group == number), leaf, cell, mean, float(worst[number]))
        for number in order
    )
    return MissedModes(
        chains=chains,
        tested=int((began & ~short).sum()),
        alike=int((is_group & ~began & ~disagree).sum()),
        short=int(short.sum()),
        disagreeing=int(disagree.sum()),
        groups=named,
        rate=rate,
        several=several,
    )


def missed_modes_of_draws(draws: npt.NDArray[np.generic], tied: TiedGroups, rate: float = FALSE_ALARMS) -> MissedModes:
    """The same of kept draws, tables in the order of the frame, shape `(chains, draws, *frame)`, flat or not."""
    flat = draws.reshape(*draws.shape[:2], -1)
    leaf, cell, _ = entries_of(tied.groups)
    place = tied.structure.leaves_by_cells(np.arange(flat.shape[2]))[leaf, cell]
    found = np.full((3, len(flat), len(place)), np.nan)
    for chain, tables in enumerate(flat):
        part = tables[:, place].astype(np.float64)
        found[:, chain] = part.mean(axis=0), part.std(axis=0), ess_mean(part[None])
    if flat.shape[1] < FEWEST_DRAWS:
        found[2] = 0.0
    means, sds, ess = found
    return compare_entries(tied, means, sds, ess, rate)


def _named(structure: Structure, own: Ints, leaf: Ints, cell: Ints, mean: Floats, errors: float) -> Disagreement:
    """The cells of one group, entries `own`, with their labels."""
    means, frame = mean[:, own].T, structure.frame
    others = [labels for axis, labels in enumerate(frame.labels) if axis != structure.axis]
    places = np.unravel_index(cell[own], structure.cell_shape) if others else ()
    names = [
        ", ".join(str(labels[i]) for labels, i in zip(others, row, strict=True)) for row in zip(*places, strict=True)
    ]
    return Disagreement(
        str(frame.labels[structure.axis][structure.order[leaf[own[0]]]]),
        tuple(names or [""] * len(own)),
        tuple(tuple(map(float, row)) for row in means),
        errors,
    )


ENOUGH = 40
"""Effective draws of a chain for the mean of a cell, from which on the check can tell modes that are a few deviations apart."""


@dataclass(frozen=True)
class Disagreement:
    """A group of tied cells of which chains tell different things."""

    leaf: str
    cells: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]  # of each cell, chain by chain
    errors: float  # the largest in Monte Carlo standard errors of its own; infinite where two chains do not move at all

    def __str__(self) -> str:
        # The cell that differs most, in the chains that differ most.
        worst = max(range(len(self.cells)), key=lambda i: max(self.means[i]) - min(self.means[i]))
        low, high = min(self.means[worst]), max(self.means[worst])
        return (
            f"{printable(self.leaf)}, {printable(self.cells[worst])}: mean {low:.3g} in one chain and {high:.3g} in another, "
            f"{self.errors:.1f} standard errors apart"
        )


@dataclass(frozen=True)
class MissedModes:
    """What the check found."""

    chains: int
    tested: int  # groups in which chains began apart and of which something can be said
    alike: int  # groups in which all chains began with the same counts, so that this check says nothing
    short: int  # groups in which chains began apart and do not disagree, but have fewer than `ENOUGH` effective draws for a mean
    disagreeing: int
    groups: tuple[Disagreement, ...]  # the worst of them, at most a hundred
    rate: float  # share of runs in which chains that agree are said to disagree somewhere, where effective sample sizes are right
    several: bool = True  # whether the posterior may have several modes (`several_modes`)

    @property
    def verdict(self) -> str:
        """``"agree"``, ``"none found"``, ``"disagree"``, or ``"not judged"``.

        Chains agree where there cannot be several modes, and all groups were compared from different starts. Elsewhere a mode that no
        chain began near may be missed, and what can be said is that none was found.
        """
        if self.disagreeing:
            return "disagree"
        if self.chains < 2 or self.short or not self.tested:
            return "not judged"
        return "none found" if self.several or self.alike else "agree"

    @property
    def message(self) -> str:
        """The result in words."""
        if self.chains < 2:
            return "The check for missed modes needs two chains or more."
        if self.disagreeing:
            some = "; ".join(str(group) for group in self.groups[:3])
            more = self.disagreeing - min(len(self.groups), 3)
            rest = f"; and {more} more" if more else ""
            return (
                f"Chains disagree in {self.disagreeing:,} group{'s' * (self.disagreeing > 1)} of tied cells: {some}{rest}. "
                "At least one of the chains has missed a mode, or has not been run for long enough. (Of chains that agree this is "
                f"said in {self.rate:.2%} of runs at most, if their effective sample sizes are right; where chains stayed in one "
                "place for much of the run those are too large, and it is said more often.)"
            )
        if not self.tested and not self.short:
            return "The check for missed modes says nothing: in no group of tied cells did chains begin with different counts."
        told = [
            f"{self.chains} chains began at random tables far apart, with other counts in {self.tested + self.short:,} groups of tied "
            "cells, and no group was found in which they disagree"
        ]
        if self.short:
            told.append(
                f"in {self.short:,} of them there are fewer than {ENOUGH} effective draws a chain, too few to tell"
            )
        if self.alike:
            told.append(f"in {self.alike:,} others they began with the same counts, which says nothing")
        result = {
            "agree": "chains agree, and the posterior has a single mode",
            "none found": "none found, which does not exclude any",
        }.get(self.verdict, "not judged")
        return f"Check for missed modes: {result}; {'; '.join(told)}."

    @property
    def attributes(self) -> dict[str, Any]:
        """For the attributes of a result."""
        found = {"message": self.message, "tested": self.tested, "alike": self.alike, "short": self.short}
        found |= {"disagreeing": self.disagreeing, "rate": self.rate}
        return {"missed_modes": self.verdict} | {f"missed_modes_{name}": own for name, own in found.items()}


type Groups = tuple[Ints, Ints]

FAR = 6.0
"""Standard deviations of its own noise that a cell is put away from its own noisy answer at most."""

_PAIRS = 17
"""Marks the seeds of pairs of chains, which nothing else is drawn from."""


def paired(rng: np.random.Generator, number: int | None) -> tuple[np.random.Generator, bool]:
    """A generator for the start of a chain, the same for both of its pair, and whether it is the second of them."""
    # That of the chain itself was spawned as those of the others were; without a number it is alone.
    if number is None:
        return rng, False
    seeds: Any = rng.bit_generator.seed_seq
    place = (_PAIRS, number // 2, abs(sum(seeds.spawn_key) - number))
    return np.random.default_rng(np.random.SeedSequence(seeds.entropy, spawn_key=place)), bool(number % 2)


def to_ends(chain: TreeChain, rng: np.random.Generator, number: int | None = None) -> None:
    """Move the counts of every tied group of a chain's table to one of its cells."""
    # Exact answers, limits of sums and every sum that ties a group stay what they are. A cell with its own noisy answer is not put
    # further than six standard deviations from it: no mode is there, and the way back would be long. With generators in the same
    # state (`paired`), chains with consecutive numbers have different ends in every group of two or more cells.
    state, structure = chain.state, chain.structure
    room = np.maximum(np.diff(state.group_start, axis=1), 1)
    end = (rng.integers(0, 2**31, size=room.shape) + (number or 0)) % room
    chain.renew()
    lower, upper = _own_limits(structure, state.answers, state.counts)
    gather(state, end.astype(np.int64), lower, upper)
    chain.renew()


def chain_number(rng: np.random.Generator) -> int | None:
    """A number that grows by one from chain to chain, where a generator tells: those of chains were spawned from one, in order."""
    # Samplers spawn again for the parts of a chain, equally often in each, so the sum of the spawn key is taken.
    seeds = getattr(rng.bit_generator, "seed_seq", None)
    key = tuple(getattr(seeds, "spawn_key", ()))
    return sum(key) if key else None


def ends_of(groups: Groups, counts: Ints) -> Mask:
    """The cell of each tied group that has most of its counts, shape (T, C), the first of several; none where all are 0."""
    leaf, cell, group = entries_of(groups)
    own = counts[leaf, cell]
    order = np.lexsort((-own, group))
    first = order[np.unique(group[order], return_index=True)[1]]
    first = first[own[first] > 0]
    found = np.zeros(counts.shape, dtype=np.bool_)
    found[leaf[first], cell[first]] = True
    return found


def entries_of(groups: Groups) -> tuple[Ints, Ints, Ints]:
    """Leaf, cell and number of the group of every entry of ``(state.group_start, state.group_cell)``."""
    start, cell = groups
    size = np.diff(start, axis=1)
    number = np.repeat(np.arange(size.size), size.reshape(-1))
    return number // max(size.shape[1], 1), cell, number


def _own_limits(structure: Structure, answers: Floats, counts: Ints) -> tuple[Ints, Ints]:
    """The counts of each cell within `FAR` standard deviations of its own noisy answer in its leaf; all where it has none."""
    lower, upper = np.zeros(counts.shape, dtype=np.int64), np.full(counts.shape, UNBOUNDED, dtype=np.int64)
    leaves = structure.path[:, 0]
    for q in np.flatnonzero(np.diff(structure.query_start) == counts.shape[1]):
        own = answers[leaves][:, structure.answer_of[:, q]]
        known = own[..., PRECISION] > 0.0
        noisy = counts + own[..., RESIDUAL]
        away = FAR / np.sqrt(np.where(known, own[..., PRECISION], 1.0))
        lower = np.where(known, np.maximum(lower, np.ceil(noisy - away)), lower).astype(np.int64)
        upper = np.where(known, np.minimum(upper, np.floor(noisy + away)), upper).astype(np.int64)
    return lower, upper


_BITS = 48
"""Bits of a word: with its number above them it is a whole number of 63 bits, and alone one that a float64 holds exactly."""


def start_codes(chain: TreeChain) -> Ints:
    """Which query ties the groups of a chain's table, in a word, and where they have most of their counts, in words of 48 bits."""
    bits = ends_of((chain.state.group_start, chain.state.group_cell), chain.state.counts).reshape(-1)
    whole = np.zeros((-(-bits.size // _BITS), _BITS), dtype=np.int64)
    whole.reshape(-1)[: bits.size] = bits
    query = 0 if chain.tying is None else chain.tying + 1
    words = np.concatenate([[query], whole @ (np.int64(1) << np.arange(_BITS))])
    return np.asarray(words, dtype=np.int64)


def numbered(words: Ints, number: int) -> int:
    """A word with its number."""
    # A step method of PyMC can tell one number a draw: words may be told in any order, and again.
    return (number << _BITS) + int(words[number])


def read_codes(told: Ints, structure: Structure) -> TiedGroups | None:
    """The tied groups, and where chains began at different ends of them."""
    # `told`, shape (chains, draws): numbered words; None where none says which query ties. Cells of which some chain has not told
    # enough, because there were fewer draws than words, count as not apart.
    number, word = told >> _BITS, told & ((1 << _BITS) - 1)
    queries = word[0][number[0] == 0]
    if not queries.size:
        return None
    size = -(-structure.free.size // _BITS)
    words = np.zeros((len(told), 1 + size), dtype=np.int64)
    known = np.zeros(words.shape, dtype=np.bool_)
    chain = np.broadcast_to(np.arange(len(told))[:, None], told.shape)
    words[chain, number], known[chain, number] = word, True
    bits = (words[:, 1:, None] >> np.arange(_BITS)) & 1
    apart = (bits != bits[:1]).any(axis=0) & known[:, 1:].all(axis=0)[:, None]
    query = int(queries[0])
    return TiedGroups(
        structure,
        tied_groups(structure, query - 1 if query else None),
        apart.reshape(-1)[: structure.free.size].reshape(structure.free.shape),
    )
