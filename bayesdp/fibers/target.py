"""The posterior of a table on its fiber, packed for the kernel; and with which noisy answers are precise, which moves it has.

A target is the fiber, the noisy terms (query, noisy answers, law) and a prior family. Its parameters (prior weights,
noise scales) may change from step to step; its structure does not.

Precise answers. A direction that changes an answer moves about as far as the noise of the answer is wide. Where an answer is much
more precise than what else is known of the cells, such directions creep; those that keep it go the whole way, and may be the only
ones that lead from one mode to another (two cells whose sum is known to +-1, one of them 20 and the other 0). So the variances of all
noisy answers, and the spread of a cell, are sorted into levels: a level begins with the smallest variance that is left and takes all
below four times that. For each level but the last, which holds the spread of a cell, there is a set of directions that keep the exact
answers, those of the level and all more precise ones, if that leaves any.

Where three or more sums of a level nest or cross, a step has the room that the narrowest leaves. Products of differences of labels
along several dimensions leave more sums alone, but change more cells. So for every set of dimensions, and levels of the labels in
them, there is a set of directions that keep the sums which such differences leave alone. How often each is taken is learnt.

Some directions besides are drawn by looking at which cells are not 0 (`kernel.occupied_moves`), where a level as a whole leaves
directions: those of each set, of the sets of some of its sums, and of the exact answers. The rule looks at the release, and at the
parameters with which a chain starts, and never at the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._validate import choice
from bayesdp.fibers.fiber import Fiber
from bayesdp.fibers.kernel import state as columns
from bayesdp.fibers.kernel.classes import gather_classes
from bayesdp.fibers.kernel.state import (
    FAMILIES,
    State,
    add_gaussian,
    clear_noise,
    new_state,
    set_counts,
    set_laplace,
    set_prior,
)
from bayesdp.fibers.moves.moves import Moves, Preserved, has_families, moves_keeping
from bayesdp.fibers.windows import Gaps, NoiseTerm, bent, without_infinities
from bayesdp.invariants import Invariants, row_keys
from bayesdp.queries import LinearQuery, Query, SumPart
from bayesdp.queries.query import Part

APART = 4.0
"""A level ends where the variance is this many times that of its most precise answer."""

_OVERLAPPING = 3
"""Of fewer sums none are kept without the others: a cell that moves on its own changes no more answers than that."""

LARGEST = 200_000
"""Tables of more cells get no directions for precise answers: their lists would be as long as the table, for each family."""


def spread_of(family: str, theta: Floats, shape: Floats, terms: Sequence[NoiseTerm]) -> float:
    """How widely a cell varies: its variance under the prior, or the mean count that the noisy answers show, if larger."""
    # The variance is averaged over cells, infinite for a flat prior. Prior weights may be far from the posterior's where they are
    # variables, and have no scale where a total is exact. So the variance of a cell with the mean count of the answers counts too.
    weight = np.exp(np.minimum(theta, 700.0))
    mean = max((_mean_count(term) for term in terms), default=0.0)
    if family == "flat":
        proper = weight < 1.0
        return float(np.mean(_geometric(weight))) if proper.all() else np.inf
    if family == "poisson":
        return max(float(np.mean(weight)), mean)
    if family == "binomial":
        return max(float(np.mean(shape * weight / np.square(1.0 + weight))), mean)
    proper_part = np.where(weight < 1.0, shape * _geometric(np.minimum(weight, np.nextafter(1.0, 0.0))), 0.0)
    return max(float(np.mean(proper_part)), mean + mean * mean * float(np.mean(1.0 / shape)))


def _geometric(weight: Floats) -> Floats:
    """Variance of a geometric count whose weights fall by the factor `weight`, below 1."""
    return weight / np.square(1.0 - weight)


def _mean_count(term: NoiseTerm) -> float:
    """The sum of the answers by the number of cells that are added up in them."""
    added = np.abs(term.matrix).sum(axis=1)[term.measured].sum()
    return float(term.values[term.measured].sum() / added) if added > 0.0 else 0.0


def precise_sets(fiber: Fiber, terms: Sequence[NoiseTerm], spread: float = np.inf) -> tuple[Preserved, ...]:
    """What directions for precise noisy answers keep, the most precise answers first."""
    # All sets keep the exact answers. Terms in real coordinates are left out. `spread` is the variance of a cell by anything but the
    # noisy answers. Empty where no answer is precise beside the others, and for tables of more than `LARGEST` cells.
    if fiber.frame.size > LARGEST:
        return ()
    exact, variances = fiber.moving_invariants, _variances(terms)
    kept: list[Preserved] = []
    before: list[Query] = []
    for end in _levels(variances, spread):
        fixed, sums, rows = _precise(fiber, variances, end)
        if np.all(fixed | fiber.system.fixed):
            break
        new = [query for query in sums if query not in before]
        for chosen in (new + rows, new, *_left_alone(new)):
            invariants = Invariants([exact.query, *before, *chosen], fiber.frame)
            if not has_families(invariants) or invariants.rank == exact.rank or not invariants.dimension:
                continue
            if not any(_spans(other.invariants, invariants) for other in kept):
                kept.append(Preserved(invariants, fixed, whole=len(chosen) >= len(new)))
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
        alone = tuple(i for i, level in enumerate(levels) if any(level[axis] <= rule[axis] for axis in moved))
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
        if term.kind in ("gaussian", "windows"):
            precision = 1.0 / np.square(scale)
        elif term.kind == "l1":
            precision = np.square(scale) / 2.0
        else:
            # The length of d residuals with density exp(-rate r) is Gamma(d) distributed: d (d + 1) / rate^2 on average.
            precision = np.square(scale) / (int(term.measured.sum()) + 1)
        precision = np.where(term.measured, precision, 0.0)
        for part, rows in term.query.placed_parts:
            found[part] = found.get(part, 0.0) + precision[rows]
    with np.errstate(divide="ignore"):
        return {part: 1.0 / precision for part, precision in found.items()}


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
        whole = np.array_equal(precise, np.isfinite(variance)) and 2 * precise.sum() >= len(precise)
        if isinstance(part, SumPart) and whole:
            sums.append(Query(frame, (part,)))
            continue
        matrix = part.matrix[np.flatnonzero(precise)]
        alone = np.diff(matrix.indptr) == 1
        fixed[matrix[alone].indices] = True
        if not alone.all():
            rows.append(LinearQuery(frame, matrix[~alone], [str(i) for i in range(np.count_nonzero(~alone))]))
    return fixed, sums, rows


@dataclass(frozen=True, eq=False)
class Target:
    """Prior family, noisy terms and fiber."""

    fiber: Fiber
    terms: tuple[NoiseTerm, ...]
    family: str  # one of `FAMILIES`, of a cell; given the totals, multinomial cells are Poisson, Dirichlet-multinomial ones negbin
    bounded: bool = False  # whether the prior bounds cells from above, with which Markov bases need not connect
    open: bool = False  # whether other parts of the posterior may forbid tables in unknown ways: random sums of moves are mixed in
    spread: float = np.inf  # variance of a cell under the prior, as far as known, beside which answers are precise

    def __post_init__(self) -> None:
        choice(self.family, tuple(FAMILIES), "family")

    @property
    def fiber_moves(self) -> Moves:
        """Directions that the exact answers ask for; what is proved of them is proved of `moves`, since none is taken away."""
        if self.open:
            return self.fiber.open_moves
        return self.fiber.bounded_moves if self._bounded else self.fiber.moves

    @property
    def _bounded(self) -> bool:
        return self.bounded or self.family == "binomial"

    @cached_property
    def moves(self) -> Moves:
        """Directions for this target: those of the exact answers, and a share that keeps precise noisy answers besides."""
        # Chosen once, by the scales that the terms have here: scales that change later change no direction, so that every step of a
        # chain leaves its posterior invariant. Without precise answers these are `fiber_moves`.
        kept = precise_sets(self.fiber, self.terms, self.spread)
        if not kept:
            return self.fiber_moves
        moves = self.fiber.moves_beside(kept, bounded=self._bounded, unknown=self.open)
        # Within walls families of lines get about; looking at which cells are not 0 takes half of the moves, and adds little.
        walls = any(term.windows is not None for term in self.terms)
        return replace(moves, looking=moves.looking[:0], whole=0) if walls else moves

    @cached_property
    def moves_keeping(self) -> Moves | None:
        """Directions that keep the exact answers and (some) precise ones, for a table that has other moves; None if too large."""
        # Without regard to how widely cells vary: it costs little to keep too much.
        exact = self.fiber.moving_invariants
        if self.fiber.frame.size > LARGEST or not has_families(exact):
            return None
        allowed = ~self.fiber.system.fixed
        return moves_keeping((Preserved(exact, ~allowed), *precise_sets(self.fiber, self.terms)), allowed)

    @cached_property
    def cell_terms(self) -> tuple[bool, ...]:
        """Which terms act on single cells, in the columns of the cells; the others have rows."""
        # Gaussian terms add up. There is room for one Laplace term a cell: the first that asks for the table itself.
        laplace = next((term for term in self.terms if term.on_cells and term.kind == "l1"), None)
        return tuple(term is laplace or (term.on_cells and term.kind == "gaussian") for term in self.terms)

    @cached_property
    def _row_starts(self) -> tuple[int, ...]:
        sizes = [0 if simple else term.rows for simple, term in zip(self.cell_terms, self.terms, strict=True)]
        return tuple(int(n) for n in np.concatenate([[0], np.cumsum(sizes)]))

    def rows_of(self, term: int) -> slice:
        """The general rows of a term."""
        return slice(*self._row_starts[term : term + 2])

    @cached_property
    def matrix(self) -> sp.csr_array | None:
        """General rows: noisy answers that are not single cells, or have a tabulated log-mass, then limits."""
        limits = self._limits[0]
        stacked = [term.matrix for simple, term in zip(self.cell_terms, self.terms, strict=True) if not simple]
        stacked += [limits] if limits.shape[0] else []
        return sp.csr_array(sp.vstack(stacked, format="csr")) if stacked else None

    def new_state(self) -> State:
        """A state with bounds, rows and noise filled in; counts zero, prior weights one."""
        system, (limits, *ends), start = self.fiber.system, self._limits, self._row_starts[-1]
        sharing = any(term.laws is not None for term in self.terms)
        laws = np.zeros(start + limits.shape[0], dtype=np.int64) if sharing else columns.NO_LAWS
        masses = [without_infinities(term.windows.log_mass) for term in self.terms if term.windows is not None]
        groups = sum(term.kind == "l2" for term in self.terms)
        windows = np.concatenate([columns.NO_WINDOWS, *masses])
        state = new_state(self.fiber.frame.size, self.moves, self.matrix, groups, windows, laws)
        state.cells_int[:, columns.LOWER], state.cells_int[:, columns.UPPER] = system.lower, system.upper
        state.rows[start:, columns.ROW_LOWER], state.rows[start:, columns.ROW_UPPER] = ends
        self._place_windows(state)
        scales = [term.windows.log_mass if term.windows and term.changing else term.scale for term in self.terms]
        self.set_noise(state, scales, [term.values for term in self.terms])
        return state

    def _place_windows(self, state: State) -> None:
        """Write where the tabulated log-mass of each row stands, and its law, which nothing changes."""
        before = 0
        for start, term in zip(self._row_starts[:-1], self.terms, strict=True):
            windows = term.windows
            if term.laws is not None:
                state.laws[start : start + term.rows] = term.laws
            if windows is None:
                continue
            rows = start + np.flatnonzero(term.measured)
            state.rows[rows, columns.WINDOW_LOW] = windows.low
            state.rows[rows, columns.WINDOW_LENGTH] = windows.length
            state.rows[rows, columns.WINDOW_START] = windows.start + before
            state.rows[rows, columns.WINDOW_BELOW] = windows.below
            state.rows[rows, columns.WINDOW_ABOVE] = windows.above
            state.rows[rows, columns.WINDOW_BENT] = term.changing | bent(windows)
            state.rows[rows, columns.ROW_LOWER], state.rows[rows, columns.ROW_UPPER] = windows.ends
            before += len(windows.log_mass)

    @cached_property
    def gaps(self) -> Gaps | None:
        """What the tabulated log-masses forbid between their ends, which are limits of the fiber; None where they have no gaps."""
        return Gaps.of(self.terms)

    @property
    def walls_alone(self) -> bool:
        """Whether nothing but noise and limits of single cells forbids a table."""
        return not len(self.fiber.system.names) and not self._limits[0].shape[0]

    @cached_property
    def _limits(self) -> tuple[sp.csr_array, Floats, Floats]:
        """Rows with limits, and these, but those that rows with windows that end say already."""
        system = self.fiber.system
        matrix, lower, upper = system.limit_matrix, system.limit_lower, system.limit_upper
        ends: dict[bytes, list[float]] = {}
        for term in self.terms:
            if term.windows is None or not matrix.shape[0]:
                continue
            published = term.matrix[np.flatnonzero(term.measured)]
            for key, low, high in zip(row_keys(published), *term.windows.ends, strict=True):
                before = ends.setdefault(key, [-np.inf, np.inf])
                before[0], before[1] = max(before[0], low), min(before[1], high)
        if not ends:
            return matrix, lower, upper
        found = [ends.get(key, [-np.inf, np.inf]) for key in row_keys(matrix)]
        keep = np.flatnonzero((lower > [low for low, _ in found]) | (upper < [high for _, high in found]))
        return matrix[keep], lower[keep], upper[keep]

    def set_noise(self, state: State, scales: Sequence[Floats], values: Sequence[Floats], temper: float = 1.0) -> None:
        """Write the noise of every term; changing windows have log-masses as their scale; ``temper`` below 1 flattens it."""
        clear_noise(state)
        group = before = 0
        given = zip(self.cell_terms, self._row_starts[:-1], self.terms, scales, values, strict=True)
        for simple, start, term, scale, noisy in given:
            measured, rows = term.measured, state.rows[start : start + len(noisy)]
            published = np.where(measured, noisy, 0.0)
            if term.windows is not None:
                # Less the residual it is the true answer, the place in a window: whole, which decimals are not to the last bit.
                rows[:, columns.NOISY] = np.rint(published)
                rows[:, columns.WINDOW_WEIGHT] = np.where(measured, temper, 0.0)
                entries = len(term.windows.log_mass)
                if term.changing:
                    state.windows[before : before + entries] = without_infinities(np.asarray(scale))
                before += entries
                continue
            weight = np.broadcast_to(np.asarray(scale, dtype=np.float64), measured.shape)
            weight = np.where(measured, 1.0 / np.square(weight) if term.kind == "gaussian" else weight, 0.0) * temper
            if simple and term.kind == "l1":
                set_laplace(state, weight, published)
            elif simple:
                add_gaussian(state, weight, published)
            else:
                rows[:, columns.NOISY] = published
                rows[:, columns.ROW_RATE] = weight if term.kind == "l1" else 0.0
                rows[:, columns.ROW_PRECISION] = weight if term.kind == "gaussian" else 0.0
                if term.kind == "l2":
                    rows[:, columns.GROUP] = np.where(measured, group, -1)
                    state.groups[group, columns.GROUP_RATE] = float(np.max(weight, initial=0.0))
                    group += 1

    def set_prior(self, state: State, theta: Floats, shape: Floats) -> bool:
        """Write prior weights (log scale) and shapes, one a cell; returns whether the target is log-concave."""
        upper = self.fiber.system.upper
        if self.family == "binomial":
            upper = np.minimum(upper, np.floor(shape).astype(np.int64))
        # A weight of zero means that the cell is empty; a bound says so without infinities in the arithmetic.
        empty = np.isneginf(theta)
        state.cells_int[:, columns.UPPER] = np.where(empty, 0, upper)
        return set_prior(state, self.family, np.where(empty, 0.0, theta), shape)

    def load(self, state: State, counts: Ints) -> None:
        """Put a table into the state, and bring the rows and l2 residuals up to date."""
        if self.matrix is None:
            state.counts[:] = counts
            return
        set_counts(state, counts)
        if len(state.laws):
            gather_classes(state.cells_int, state.rows, state.indptr, state.indices, state.codes, state.laws, state.classes,
                           state.slots)  # fmt: skip

    def unsupported_cells(self) -> Mask:
        """Cells that nothing bounds: no exact answer, no noise, and a flat prior. Their posterior would be improper."""
        if self.family != "flat":
            return np.zeros(self.fiber.frame.size, dtype=np.bool_)
        _, upper = self.fiber.bounds()
        seen = upper.reshape(-1) >= 0
        for term in self.terms:
            seen |= np.asarray(np.abs(term.matrix).T @ term.measured.astype(np.int64) > 0)
        return np.asarray(~seen)

    def guide(self) -> Floats:
        """Real numbers near which to look for a first table: a noisy table where there is one, else zeros."""
        for term in self.terms:
            if term.on_cells and term.measured.any():
                return np.where(term.measured, term.values, 0.0)
        return np.zeros(self.fiber.frame.size)
