"""Which noisy answers are precise beside the others, so that some directions should keep them.

A direction that changes an answer moves about as far as the noise of the answer is wide. Where an answer is much more
precise than what else is known of the cells, such directions creep; directions that keep it go the whole way, and may be the
only ones that lead from one mode to another (two cells whose sum is known to +-1, one of them 20 and the other 0).

The rule. The variances of all noisy answers, and the spread of a cell, are sorted into levels: a level begins with the
smallest variance that is left and takes all below four times that. The last level, which holds the spread of a cell and what is
no more precise than that, is dropped. For each of the others there is a set of directions that keep the exact answers, the
answers of the level and all more precise ones, if that leaves any.

Where three or more sums of a level nest or cross, each cell is in many, and a step has the room that is left to it by the narrowest.
A difference of two labels of some dimension changes no sum over that dimension; products of differences along several
dimensions leave more sums alone, but change more cells. So for every set of dimensions, and levels of the labels in them (groups
that are published), there is a set of directions that keep the sums which such differences leave alone. Where all margins of
a table and its cells are perturbed by little, these are the only ones that get about; how often each is taken is
learnt (`bayesdp.steps.count_chains`).

Some directions besides are drawn by looking at which cells are not 0 (`bayesdp.fibers.kernel.donors`), where a level as a whole
leaves directions: those of each set, of the sets of some of its sums, and of the exact answers. The last two change a few precise
sums by a little, which the next may change back: where many cells are 0 few directions keep them all.

The rule looks at the release, and at the parameters with which a chain starts, and never at the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from bayesdp.fibers.fiber import Fiber
from bayesdp.fibers.noise_term import NoiseTerm
from bayesdp.invariants import Invariants
from bayesdp.moves.choosing import has_families
from bayesdp.moves.moves import Kept
from bayesdp.queries import LinearQuery, MatrixPart, Query, SumPart

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]
type Part = SumPart | MatrixPart

APART = 4.0
"""A level ends where the variance is this many times that of its most precise answer."""

_OVERLAPPING = 3
"""Of fewer sums none are kept without the others: a cell that moves on its own changes no more answers than that."""

LARGEST = 200_000
"""Tables of more cells get no directions for precise answers: the lists of these would be as long as the table, for each
family."""


def spread_of(family: str, theta: Floats, shape: Floats, terms: Sequence[NoiseTerm]) -> float:
    """How widely a cell varies: its variance under the prior, or the mean count that the noisy answers show, if larger.

    Parameters
    ----------
    family : {"flat", "poisson", "negbin", "binomial"}
        Prior of a cell (see `bayesdp.fibers.kernel.state.FAMILIES`).
    theta, shape : float64 arrays, shape (cells,)
        Log weights and shapes with which a chain starts.
    terms : sequence of NoiseTerm

    Returns
    -------
    float
        The variance averaged over cells; infinite for a flat prior. Prior weights may be far from the posterior's where they
        are variables of the model, and have no scale where a total is exact. So the variance of a cell with the mean count of
        the answers counts too: that of a Poisson cell, or a negative binomial one with the shape of the prior.

    Examples
    --------
    >>> spread_of("poisson", np.log([2.0, 6.0]), np.ones(2), ())
    4.0
    """
    weight = np.exp(np.minimum(theta, 700.0))
    mean = max((_mean_count(term) for term in terms), default=0.0)
    if family == "flat":
        proper = weight < 1.0
        return float(np.mean(_geometric(weight))) if proper.all() else np.inf
    if family == "poisson":
        return max(float(np.mean(weight)), mean)
    if family == "binomial":
        return max(float(np.mean(shape * weight / np.square(1.0 + weight))), mean)
    known = np.where(weight < 1.0, shape * _geometric(np.minimum(weight, np.nextafter(1.0, 0.0))), 0.0)
    return max(float(np.mean(known)), mean + mean * mean * float(np.mean(1.0 / shape)))


def _geometric(weight: Floats) -> Floats:
    """Variance of a geometric count whose weights fall by the factor `weight`, below 1."""
    return weight / np.square(1.0 - weight)


def _mean_count(term: NoiseTerm) -> float:
    """The sum of the answers by the number of cells that are added up in them."""
    added = np.abs(term.matrix).sum(axis=1)[term.measured].sum()
    return float(term.values[term.measured].sum() / added) if added > 0.0 else 0.0


def precise_sets(fiber: Fiber, terms: Sequence[NoiseTerm], spread: float = np.inf) -> tuple[Kept, ...]:
    """What directions for precise noisy answers keep, the most precise answers first."""
    # `fiber`: the exact answers, which all sets keep. `terms`: terms in real coordinates are left out. `spread` is the variance of
    # a cell by anything but the noisy answers. Empty where no answer is precise beside the others, and for tables of more than
    # `LARGEST` cells.
    if fiber.frame.size > LARGEST:
        return ()
    exact, variances = fiber.moving_invariants, _variances(terms)
    kept: list[Kept] = []
    before: list[Query] = []
    for end in _levels(variances, spread):
        fixed, sums, rows = _precise(fiber, variances, end)
        if np.all(fixed | fiber.system.fixed):
            break
        new = [own for own in sums if own not in before]
        for chosen in (new + rows, new, *_left_alone(new)):
            invariants = Invariants([exact.query, *before, *chosen], fiber.frame)
            if not has_families(invariants) or invariants.rank == exact.rank or not invariants.dimension:
                continue
            if not any(_spans(own.invariants, invariants) for own in kept):
                kept.append(Kept(invariants, fixed, whole=len(chosen) >= len(new)))
        before = sums
    return tuple(kept)


def _spans(invariants: Invariants, others: Invariants) -> bool:
    """Whether some sums determine others, all of which are among them or sums of them."""
    both = Invariants([invariants.query, others.query], invariants.frame)
    return invariants.rank == others.rank == both.rank


def _left_alone(sums: Sequence[Query]) -> list[list[Query]]:
    """Some of the sums that differences along some dimensions leave alone, for every set of dimensions and levels of these."""
    # A rule gives each dimension a level: labels that agree at that level are exchanged, at the top none. It leaves alone
    # the sums that are no finer than that in a dimension where labels are exchanged.
    nested = Invariants(sums).nested if len(sums) >= _OVERLAPPING else None
    if nested is None:
        return []
    levels = [nested.level_of(part) for part in nested.parts]
    tops = [len(axis.codes) - 1 for axis in nested.axes]
    found: dict[tuple[int, ...], list[Query]] = {}
    for rule in product(*(range(top + 1) for top in tops)):
        moved = [axis for axis, top in enumerate(tops) if rule[axis] < top]
        alone = tuple(i for i, own in enumerate(levels) if any(own[axis] <= rule[axis] for axis in moved))
        if 0 < len(alone) < len(sums):
            found.setdefault(alone, [sums[i] for i in alone])
    return list(found.values())


def _variances(terms: Sequence[NoiseTerm]) -> dict[Part, Floats]:
    """Variances of the answers of each part, infinite where nothing was published; of answers published twice, the joint one."""
    found: dict[Part, Floats] = {}
    for term in terms:
        if term.coordinates is not None:
            continue
        scale = np.broadcast_to(term.scale, term.measured.shape).astype(np.float64)
        if term.kind == "gaussian":
            precision = 1.0 / np.square(scale)
        elif term.kind == "l1":
            precision = np.square(scale) / 2.0
        elif term.kind == "windows":
            precision = 1.0 / np.square(scale)
        else:
            # The length of d residuals with density exp(-rate r) is Gamma(d) distributed: d (d + 1) / rate^2 on average.
            precision = np.square(scale) / (int(term.measured.sum()) + 1)
        precision = np.where(term.measured, precision, 0.0)
        for part, rows in term.query.placed_parts:
            found[part] = found.get(part, 0.0) + precision[rows]
    return {part: np.divide(1.0, own, out=np.full(len(own), np.inf), where=own > 0.0) for part, own in found.items()}


def _levels(variances: dict[Part, Floats], spread: float) -> list[float]:
    """Where each level ends but the last."""
    values = np.concatenate([np.zeros(0), *variances.values()])
    left = np.unique(values[np.isfinite(values)])
    ends: list[float] = []
    while len(left) and APART * left[0] <= spread:
        ends.append(APART * float(left[0]))
        left = left[left >= ends[-1]]
    return ends


def _precise(fiber: Fiber, variances: dict[Part, Floats], end: float) -> tuple[Mask, list[Query], list[Query]]:
    """All noisy answers with variances below `end`: single cells, which are held fixed, sums, and other rows."""
    # Sums are kept whole where all of them that were published are that precise, and at least half were; other rows are a matrix.
    frame = fiber.frame
    fixed = np.zeros(frame.size, dtype=np.bool_)
    sums: list[Query] = []
    rows: list[Query] = []
    for part, variance in variances.items():
        precise = variance < end
        if not precise.any():
            continue
        if (
            isinstance(part, SumPart)
            and np.array_equal(precise, np.isfinite(variance))
            and 2 * precise.sum() >= len(precise)
        ):
            sums.append(Query(frame, (part,)))
            continue
        matrix = part.matrix[np.flatnonzero(precise)]
        alone = np.diff(matrix.indptr) == 1
        fixed[matrix[alone].indices] = True
        if not alone.all():
            rows.append(LinearQuery(frame, matrix[~alone], [str(i) for i in range(int((~alone).sum()))]))
    return fixed, sums, rows
