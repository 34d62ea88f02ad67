"""Which noisy answers are precise beside the others, so that some directions should keep them.

A direction that changes an answer moves about as far as the noise of the answer is wide. Where an answer is much more
precise than what else is known of the cells, such directions creep; directions that keep it go the whole way, and may be the
only ones that lead from one mode to another (two cells whose sum is known to +-1, one of them 20 and the other 0).

The rule. The variances of all noisy answers, and the spread of a cell, are sorted into levels: a level begins with the
smallest variance that is left and takes all below four times that. The last level, which holds the spread of a cell and what is
no more precise than that, is dropped. For each of the others there is a set of directions that keep the exact answers, the
answers of the level and all more precise ones. A set that keeps no more sums than the one before it, or that leaves
no direction, is dropped too: precise cells by themselves ask for no directions of their own.

Some directions besides are drawn by looking at which cells are not 0 (`bayesdp.fibers.kernel.donors`): those of each set, of the
exact answers, and of up to three sums of a set some at a time. The last change a few precise sums by a little, which the next
may change back: where many cells are 0 few directions keep them all.

The rule looks at the release, and at the parameters with which a chain starts, and never at the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from bayesdp.fibers.fiber import Fiber
from bayesdp.fibers.noise_term import NoiseTerm
from bayesdp.invariants import Invariants
from bayesdp.moves.choosing import has_families
from bayesdp.moves.moves import Kept
from bayesdp.queries import LinearQuery, MatrixPart, Query, SumPart

__all__ = ["APART", "LARGEST", "precise_sets", "spread_of"]

_MOST_SUMS = 3
"""Sums of more queries are kept all or not at all."""

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]
type Part = SumPart | MatrixPart

APART = 4.0
"""A level ends where the variance is this many times that of its most precise answer."""

LARGEST = 100_000
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
    variances = _variances(terms)
    kept: list[Kept] = []
    rank: int | None = None
    for end in _levels(variances, spread):
        own = _kept(fiber, variances, end)
        if not has_families(own.invariants):
            continue
        rank = fiber.moving_invariants.rank if rank is None else rank
        if own.invariants.rank > rank and own.invariants.dimension and not np.all(own.fixed | fiber.system.fixed):
            kept.append(own)
            rank = own.invariants.rank
    return tuple(kept)


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
        start = 0
        for part in term.query.parts:
            found[part] = found.get(part, 0.0) + precision[start : start + part.rows]
            start += part.rows
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


def _kept(fiber: Fiber, variances: dict[Part, Floats], end: float) -> Kept:
    """Exact answers and all noisy ones with variances below `end`."""
    # Sums are kept whole where all of them that were published are that precise, and at least half were; single cells are held
    # fixed; other rows are a matrix. In a large table only what has a closed form is kept.
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
    exact = fiber.moving_invariants.query
    invariants = Invariants([exact, *sums, *rows], frame)
    if rows and not has_families(invariants):
        invariants = Invariants([exact, *sums], frame)
    chosen = (
        [own for size in range(1, len(sums)) for own in combinations(sums, size)] if len(sums) <= _MOST_SUMS else []
    )
    return Kept(invariants, fixed, tuple(Kept(Invariants([exact, *own], frame), fixed) for own in chosen))
