"""A table of a hierarchy that moves: the other implementation of `bayesdp.fibers.chain.CountChain`, by whole sweeps.

And which precise answers of a leaf cut its cells across each other, so that moves must keep them. Along a direction that changes the
sums of a query with precision P by +-1 in n places, the noise contributes n P to the curvature of the log-density: steps are about
as long as one over its root. A difference along the axes F of a leaf has 2^|F| cells, and changes a query only if that tells the
labels of every one of these axes apart; the same difference taken across two leaves has twice as many, and changes nothing at the
node where they meet, and above. So the curvature of each kind of move follows from the published variances alone. Pairs of cells,
and exchanges between leaves, are moves of every hierarchy (`bayesdp.hierarchies.kernel.sweeps`). Others are taken where they are far
less held than these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import Any, override

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp.fibers import NoiseTerm, Target
from bayesdp.fibers.chain import CountChain, is_time_to_choose
from bayesdp.hierarchies.kernel.crossing import LABELS, LAYERS, LEAVES, RECTANGLE, Directions, cross, keep
from bayesdp.hierarchies.kernel.moves import PRECISION, RESIDUAL, ROOM, State
from bayesdp.hierarchies.kernel.sweeps import (
    CROSS_CELLS,
    CROSSING,
    KEEPING,
    MIX,
    NEAR,
    SINGLE,
    SQUARES,
    SUMS,
    add_lines,
    sweep,
)
from bayesdp.hierarchies.modes import (
    chain_number,
    donors_of,
    paired,
    ragged,
    tied_groups,
    tied_siblings,
    to_ends,
    tying_query,
    visits_of,
)
from bayesdp.hierarchies.start import start_table
from bayesdp.hierarchies.structure import Structure, effective_levels, sum_parts

_FAMILIES = {"flat": 1.0, "poisson": 0.0, "negbin": 1.0}
"""Prior family to beta of `kernel.moves`."""

_NEAR = 100
"""Exchanges of a cell with a leaf under the same node, in percent of its visits, where `tied_siblings` says so."""

EXCHANGES = 0.25
"""Share of exchanges among the steps along directions that keep precise answers."""

_SMALL = 1_000
"""Up to so many free cells directions that keep precise answers are always taken, if only a tenth as often."""

_FEWEST = 50
"""Steps of a sweep along directions that keep precise answers, at least, of up to 40 free cells: they cost such tables little."""

_BLOCK = 256
"""Leaves whose means are brought up to date at a time."""

_FIXED = ("answer_of", "path", "free", "exact_class", "limited", "sum_class", "sum_lower", "sum_upper", "pair_class")
"""Arrays of `State` that are those of the structure."""

_MOVING = ("generator", "counts", "donor_start", "donor_cell", "visits", "tried")
"""Arrays of `State` that say where a chain is; all others follow from the target, the hyperparameters or the counts."""

_NEVER = -1e6
"""Stands for a log weight of minus infinity, of cells that must be 0: e to its power is 0, and differences of two are numbers."""


def moves_of(structure: Structure) -> Ints:
    """The moves of a sweep for a hierarchy: those that its exact sums allow, and sums of lines."""
    mix = np.array(MIX, dtype=np.int64)
    levels = effective_levels(structure.exact_class)
    if not levels:
        mix[SINGLE] = 100
    if not levels or levels[0] > 0:  # one cell, between leaves that no exact sum tells apart
        mix[CROSS_CELLS] = 10
    if levels and levels[0] < len(structure.levels) - 1:
        mix[SQUARES] = 100
    if not structure.proved:
        mix[SUMS] = 2
    return mix


class TreeChain(CountChain):
    """A table that moves by whole sweeps; while it is tuned, donors are chosen anew now and then: a first table tells little."""

    state: State

    def __init__(self, target: Target, structure: Structure, rng: np.random.Generator) -> None:
        self.structure = structure
        self.mix = moves_of(structure)
        # The query of a leaf whose sums tie cells together, None if none does; -1: not chosen yet.
        self.tying: int | None = -1
        self.crossing = Crossing(structure)
        self.families = np.zeros((0, 8), dtype=np.int64)
        self.keeping: Directions | None = None
        self._labels = np.zeros(LABELS, dtype=np.int64)
        # Rows in half of the memory: there are as many as noisy answers.
        self._places: list[tuple[NoiseTerm, list[tuple[int, int, npt.NDArray[np.int32]]]]] = []
        for term in target.terms:
            parts = map(structure.where, sum_parts([term.query]))
            self._places.append((term, [(level, q, rows.astype(np.int32)) for level, q, rows in parts]))
        # While tuning, the mean of the tables, in which later ones weigh more, and how many there were.
        self._mean: Floats = np.zeros((0, 0))
        self._seen = 0
        leaves, cells = structure.free.shape
        answers = np.zeros((structure.nodes, int(structure.query_start[-1]), 2))
        self._noisy = np.zeros(answers.shape[:2])
        first, last = structure.node_range
        free_start, free_cell = ragged(structure.free, np.zeros(cells, dtype=np.int64))
        state = State(
            **{name: getattr(structure, name) for name in _FIXED},
            generator=np.zeros(4, dtype=np.uint64),
            counts=np.zeros((leaves, cells), dtype=np.int64),
            answers=answers,
            first=first,
            last=last,
            theta=np.zeros((leaves, cells)),
            theta_row=np.arange(leaves),
            alpha=np.ones((1, cells)),
            alpha_row=np.zeros(leaves, dtype=np.int64),
            beta=_FAMILIES[target.family],
            sums=np.zeros(structure.sum_lower.shape, dtype=np.int64),
            group_start=np.zeros((leaves, 1), dtype=np.int64),
            group_cell=np.zeros(0, dtype=np.int64),
            free_start=np.append(free_start[:, 0], len(free_cell)),
            free_cell=free_cell,
            visits=np.ones(len(free_cell), dtype=np.int64),
            donor_start=np.zeros((leaves, int(structure.pair_class.max()) + 2), dtype=np.int64),
            donor_cell=np.zeros(0, dtype=np.int64),
            weights=np.zeros(ROOM),
            scratch=np.zeros((4, 64), dtype=np.int64),
            alphas=np.zeros(64),
            occupied=np.zeros(cells, dtype=np.int64),
            tried=np.zeros(1, dtype=np.int64),
        )
        super().__init__(target, state, rng)
        self.set_scales(self._scales)
        precision = self.state.answers[:, :, PRECISION]
        if self.mix[CROSS_CELLS] and tied_siblings(structure, precision):
            self.mix[NEAR] = _NEAR
        # Squares of two leaves and two cells make up every closed walk through leaves and cells where one cell is free in all
        # leaves, or one leaf has all cells free.
        free = structure.free[structure.free.any(axis=1)][:, structure.free.any(axis=0)]
        asked = bool(self.missed or not (free.all(axis=0).any() or free.all(axis=1).any()))
        keeping = target.moves_keeping if asked or structure.free.sum() <= _SMALL else None
        if keeping is not None:
            width = max(64, 4 * keeping.longest)
            place = np.divmod(structure.in_frame(np.arange(structure.frame.size)).astype(np.int64), cells)
            work = (np.zeros(size, dtype=np.int64) for size in (width, width, width, structure.frame.size))
            self.keeping = Directions(keeping.meta, keeping.cumulative, keeping.pool, *place, *work)
            self.state = self.state._replace(scratch=np.zeros((4, width), dtype=np.int64), alphas=np.zeros(width))
            self.mix[KEEPING] //= 1 if asked else 10

    @property
    @override
    def upper(self) -> Ints:
        return np.asarray(self.target.fiber.system.upper)

    @override
    def set_prior(self, theta: Floats, shape: Floats) -> None:
        structure = self.structure
        every = (np.broadcast_to(np.asarray(own, dtype=np.float64), structure.frame.size) for own in (theta, shape))
        weights, shapes = (np.asarray(structure.leaves_by_cells(own), dtype=np.float64) for own in every)
        self.set_cells(weights, shapes if self.target.family == "negbin" else np.ones((1, structure.cells)))

    def set_cells(self, theta: Floats, alpha: Floats) -> None:
        """Set log weights and alphas of the prior (see `kernel.moves`) in the order of the tree."""
        # `theta`, `alpha`, shape (T, C) or (1, C): one row holds for all leaves. The arrays are not copied where they are
        # contiguous and may be written to.
        leaves = np.arange(len(self.state.counts))
        self.state = self.state._replace(
            theta=np.require(np.maximum(theta, _NEVER) if np.isneginf(theta).any() else theta, np.float64, ["C", "W"]),
            theta_row=leaves if len(theta) > 1 else np.zeros_like(leaves),
            alpha=np.require(alpha, np.float64, ["C", "W"]),
            alpha_row=leaves if len(alpha) > 1 else np.zeros_like(leaves),
        )

    @override
    def set_scales(self, scales: Sequence[Floats], values: Sequence[Floats] | None = None) -> None:
        structure, answers = self.structure, self.state.answers
        self._scales = list(scales)
        self._values = self._values if values is None else list(values)
        answers[:] = 0.0
        weighted = np.zeros(answers.shape[:2])
        for (term, places), scale, noisy in zip(self._places, self._scales, self._values, strict=True):
            own = np.where(term.measured, 1.0 / np.square(np.broadcast_to(scale, term.measured.shape)), 0.0)
            centre = np.where(term.measured, noisy, 0.0)
            start = 0
            for level, q, rows in places:
                columns = np.arange(structure.query_start[q], structure.query_start[q + 1])
                where = np.ix_(structure.nodes_of(level), columns)
                precision = own[start + rows]
                answers[:, :, PRECISION][where] += precision
                weighted[where] += precision * centre[start + rows]
                start += int(rows.max()) + 1
        precision = answers[:, :, PRECISION]
        self._noisy = np.divide(weighted, precision, out=np.zeros_like(weighted), where=precision > 0.0)
        leaves = structure.path[:, 0]
        mean = [float(precision[leaves, start:end].mean()) for start, end in pairwise(structure.query_start)]
        tying = tying_query(structure, np.array(mean))
        if tying != self.tying:
            self.tying = tying
            start_of, cell_of = tied_groups(structure, tying)
            self.state = self.state._replace(group_start=start_of, group_cell=cell_of)
        if self.crossing.possible:
            self.families = self.crossing.families(*self._held_by(precision))

    @property
    def table(self) -> Ints:
        """The table as it stands, leaves by cells."""
        return self.state.counts

    @property
    def groups(self) -> tuple[Ints, Ints]:
        """The groups of tied cells: where those of each leaf begin, and their cells."""
        return self.state.group_start, self.state.group_cell

    @override
    def ready(self) -> None:
        self.sweep(0)

    @override
    def begin(self, counts: Ints) -> None:
        # Donors are chosen by this table until the tuning knows better.
        self._mean, self._seen = np.zeros((0, 0)), 0
        self.choose_donors(self.structure.leaves_by_cells(counts))
        self.load(counts)

    def near(self, rng: np.random.Generator | int, scatter: float = 1.0, *, opposite: bool = False) -> Ints:
        """A flat table of the frame near the linear estimate of the answers as they stand; see `start_table`."""
        every = zip(self.target.terms, self._scales, self._values, strict=True)
        terms = tuple(replace(term, scale=scale, values=values) for term, scale, values in every)
        table = start_table(replace(self.target, terms=terms), self.structure, rng, scatter, opposite=opposite)
        return np.asarray(self.structure.in_frame(table), dtype=np.int64)

    def begin_apart(self, rng: np.random.Generator) -> None:
        """Begin at a random table near the linear estimate, opposite to the other chain of its pair (`modes`)."""
        # Donors are chosen by the table before its groups are put to their ends.
        pair, second = paired(rng, chain_number(rng))
        self.begin(self.near(pair, opposite=second))
        to_ends(self, pair, int(second))

    @override
    def move(self, sweeps: float) -> float:
        self.state.tried[0] = 0
        changed = self.sweep(int(sweeps))
        return changed / max(int(self.state.tried[0]), 1)

    @override
    def learn(self) -> None:
        if not self._seen:
            self._mean = np.zeros(self.structure.free.shape)
        self._seen += 1
        weight = 2.0 / (self._seen + 1.0)
        for start in range(0, len(self._mean), _BLOCK):  # a large table has no room for another one
            mean = self._mean[start : start + _BLOCK]
            mean += (self.state.counts[start : start + _BLOCK] - mean) * weight
        if is_time_to_choose(self._seen):
            self.choose_donors(self._mean)

    @override
    def settle(self) -> None:
        if self._seen:
            self.choose_donors(self._mean)
            self._mean, self._seen = np.zeros((0, 0)), 0

    @property
    @override
    def memory(self) -> Floats:
        # Residuals are worked out at every sweep. How many donors a leaf has does not depend on which they are.
        mean = self._mean if self._seen else np.zeros(self.structure.free.shape)
        return np.concatenate([self.state.donor_cell, self.state.visits, [self._seen], mean.reshape(-1)])

    @override
    def remember(self, memory: Floats, *, same: bool) -> None:
        donors, visits = len(self.state.donor_cell), len(self.state.visits)
        donor_cell, often, (seen,), mean = np.split(memory, [donors, donors + visits, donors + visits + 1])
        self.state = self.state._replace(donor_cell=donor_cell.astype(np.int64), visits=often.astype(np.int64))
        self._seen = int(seen)
        self._mean = np.array(mean.reshape(self.structure.free.shape)) if self._seen else np.zeros((0, 0))

    def saved(self) -> dict[str, npt.NDArray[Any]]:
        """What a chain goes on from."""
        tuning = {"mean": self._mean, "seen": np.array(self._seen)}
        return tuning | {name: getattr(self.state, name) for name in _MOVING}

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Put a chain where it was."""
        moving: dict[str, Any] = {name: saved[name] for name in _MOVING}
        self.state = self.state._replace(**moving)
        # A copy: it is changed in place, and what was saved may wait for its turn.
        self._mean, self._seen = saved["mean"].copy(), int(saved["seen"])

    def _held_by(self, precision: Floats) -> tuple[Floats, float]:
        """What `Crossing` chooses by: mean precisions, and how widely a cell varies."""
        structure = self.structure
        return mean_precisions(structure, precision), spread_of_cells(structure, self._noisy, precision)

    @property
    def missed(self) -> tuple[str, ...]:
        """Queries that are far more precise than others, and that no move keeps all at once; see `Crossing.missed`."""
        if not self.crossing.possible or self.keeping is not None:
            return ()
        return self.crossing.missed(*self._held_by(self.state.answers[:, :, PRECISION]))

    def choose_donors(self, counts: npt.NDArray[np.generic]) -> None:
        """Choose donors, and how often cells are visited, by typical counts, leaves by cells; not while draws are kept."""
        start, cell = donors_of(self.structure, counts)
        self.state = self.state._replace(donor_start=start, donor_cell=cell, visits=visits_of(self.structure, counts))

    @override
    def load(self, counts: Ints) -> None:
        self.state.counts[:] = self.structure.leaves_by_cells(counts)
        self.renew()
        if not len(self.state.donor_cell):
            self.choose_donors(self.state.counts)

    def renew(self) -> None:
        """Work out residuals and sums from the counts: moves update residuals by differences, which gathers rounding errors."""
        structure = self.structure
        for nodes, tables in structure.tables_by_level(self.state.counts):
            self.state.answers[nodes, :, RESIDUAL] = self._noisy[nodes] - tables @ structure.sums_of_cells
            for own in range(self.state.sums.shape[1]):
                self.state.sums[nodes, own] = tables[:, structure.sum_class == own].sum(axis=1)

    @property
    @override
    def counts(self) -> Ints:
        return np.asarray(self.structure.in_frame(self.state.counts), dtype=np.int64)

    def sweep(self, sweeps: int = 1) -> int:
        """Sweep; how many moves changed the table."""
        self.renew()
        if not sweeps:  # all that is needed is compiled
            return int(sweep(self.state, self.mix, 0)) + self._more(0)
        return sum(int(sweep(self.state, self.mix, 1)) + self._more(1) for _ in range(sweeps))

    def _more(self, times: int) -> int:
        """The moves of a sweep that few tables need, so many times: they are compiled only where they are needed."""
        changed, mix, free = 0, self.mix.tolist(), len(self.state.free_cell)
        if mix[SUMS]:
            changed += int(add_lines(self.state, times * mix[SUMS]))
        if len(self.families) and mix[CROSSING]:
            changed += int(cross(self.state, self.families, times * mix[CROSSING], self._labels))
        if self.keeping is not None and mix[KEEPING]:
            steps = max(free * mix[KEEPING] // 100, min(_FEWEST, 40 * _FEWEST // max(free, 1)))
            changed += int(keep(self.state, self.keeping, times * steps, EXCHANGES))
        return changed


FREER = 10.0
"""Moves are taken, or missed, whose curvature is smaller than that of all others by this factor: they go three times as far."""

WIDE = 4.0
"""Noise holds a move whose steps are at most half as long as a cell varies."""


def mean_precisions(structure: Structure, precision: Floats) -> Floats:
    """The mean precision of the sums of each query at each level, shape (levels, queries)."""
    starts, levels = structure.query_start, range(len(structure.levels))
    means = np.array([precision[structure.nodes_of(level)].mean(axis=0) for level in levels])
    return np.asarray(np.add.reduceat(means, starts[:-1], axis=1) / np.diff(starts))


def spread_of_cells(structure: Structure, noisy: Floats, precision: Floats) -> float:
    """How widely a cell varies if its law is about geometric, with the mean that noisy answers show, and 1 for what they hide."""
    # `noisy`, `precision`, shape (nodes, A). Taken is the coarsest query that was published of every node of a level, of the lowest
    # level that has one; if there is none, the mean is 0.
    for level in range(len(structure.levels)):
        nodes = structure.nodes_of(level)
        for start, end in pairwise(structure.query_start):
            if (precision[nodes, start:end] > 0.0).all():
                mean = max(float(noisy[nodes, start:end].sum()) / structure.free.size, 0.0)
                return 1.0 + mean + mean * mean
    return 1.0


@dataclass(frozen=True, eq=False)
class Crossing:
    """The differences along axes of a leaf, and which queries tell their cells apart."""

    structure: Structure

    @cached_property
    def axes(self) -> list[tuple[int, int]]:
        """Of each axis of a leaf with several labels: how far apart cells of two labels in turn are, and how many labels there are."""
        shape = self.structure.cell_shape
        return [(int(np.prod(shape[i + 1 :])), n) for i, n in enumerate(shape) if n > 1]

    @property
    def possible(self) -> bool:
        """Whether there may be anything to choose: two axes, and two queries that each tell some cells apart, and not all."""
        sums = np.diff(self.structure.query_start)
        return len(self.axes) > 1 and int(((sums > 1) & (sums < len(self.structure.answer_of))).sum()) > 1

    @cached_property
    def _told(self) -> list[Mask]:
        """Of each axis, which queries tell two of its labels apart, shape (kinds of pairs of labels, queries)."""
        return [_told_of(self.structure.answer_of, *axis) for axis in self.axes]

    @cached_property
    def _exact(self) -> list[Mask]:
        """Of each axis, at which levels some of its labels are in different classes of exact sums, shape (levels,)."""
        return [_told_of(self.structure.exact_class.T, *axis).any(axis=0) for axis in self.axes]

    @cached_property
    def _meeting(self) -> int:
        """The lowest level at which any two leaves meet; the number of levels where there is one leaf."""
        first, last = self.structure.node_range
        several = (last - first)[self.structure.path].max(axis=0) > 1
        return int(several.argmax()) if several.any() else len(several)

    def _may(self, factors: Sequence[int], levels: int) -> bool:
        """Whether a difference along these axes keeps the exact sums of the levels below `levels`."""
        exact = np.flatnonzero(self.structure.exact_class[:levels, 0] >= 0)
        return not any(all(self._exact[factor][level] for factor in factors) for level in exact)

    def _curvatures(self, precision: Floats, most: int) -> Iterator[float]:
        """Curvatures of moves along so many axes at most, between two labels of each, in a leaf and across leaves that meet low."""
        for across in (False, True):
            below = self._meeting if across else len(precision)
            if across and below == len(precision):
                continue
            total = precision[:below].sum(axis=0)
            for size in range(0 if across else 1, most + 1):
                for factors in combinations(range(len(self.axes)), size):
                    if not self._may(factors, below):
                        continue
                    for told in product(*(self._told[factor] for factor in factors)):
                        yield 2.0 ** (size + across) * float((total * np.all(told, axis=0)).sum())

    def _candidates(self, precision: Floats) -> list[tuple[tuple[int, ...], int, float]]:
        """Moves along several axes: the axes, the level at which leaves meet at most (0 within a leaf), and the curvature."""
        found = []
        levels = len(precision)
        for size in (2, 3):
            for factors in combinations(range(len(self.axes)), size):
                told = np.all([self._told[factor].any(axis=0) for factor in factors], axis=0)
                for meeting in (0, *range(self._meeting, levels)) if size == 2 else (0,):
                    below = meeting or levels
                    if self._may(factors, below):
                        cells = 2.0 ** (size + (meeting > 0))
                        found.append((factors, meeting, cells * float(precision[:below, told].sum())))
        return found

    def families(self, precision: Floats, spread: float) -> Ints:
        """The moves along several axes that are far less held than others, where noise is what holds these."""
        # `precision`: `mean_precisions`. `spread`: `spread_of_cells`. Returns shape (families, 8): see `kernel.crossing.cross`. Of
        # directions that are as free as one along some of their axes, none.
        held = min(self._curvatures(precision, 1), default=np.inf)  # of the moves that every hierarchy has
        free: dict[tuple[tuple[int, ...], bool], int] = {}
        for factors, meeting, curvature in self._candidates(precision) if held * spread >= WIDE else ():
            inside = [own for own, across in free if not across and set(own) <= set(factors)]
            if curvature * FREER < held and not inside:
                free[factors, meeting > 0] = meeting  # the last is the highest
        rows: list[list[int]] = []
        for (factors, _), meeting in free.items():
            axes = [self.axes[factor] for factor in factors]
            if len(axes) == 2:
                rows.append([LEAVES if meeting else RECTANGLE, meeting, *axes[0], *axes[1], 0, 1])
            else:
                rows += [[LAYERS, 0, *axes[i - 2], *axes[i - 1], *axes[i]] for i in range(3)]
        return np.array(rows, dtype=np.int64).reshape(-1, 8)

    def missed(self, precision: Floats, spread: float) -> tuple[str, ...]:
        """Queries that the moves do not keep all at once, though differences along axes of a leaf do; the most precise ones."""
        held = min(self._curvatures(precision, 1), default=np.inf)
        held = min([held, *(own for _, _, own in self._candidates(precision) if own * FREER < held)])
        if held * spread < WIDE:
            return ()
        if min(self._curvatures(precision, len(self.axes)), default=np.inf) * FREER >= held:
            return ()
        precise = zip(*np.nonzero(precision * FREER >= precision.max()), strict=True)
        return tuple(self._name(level, query) for level, query in precise)

    def _name(self, level: int, query: int) -> str:
        """Such as ``"age x race by tract"``."""
        structure = self.structure
        sizes = zip(structure.frame.dims, structure.frame.shape, strict=True)
        several = [dim for axis, (dim, n) in enumerate(sizes) if axis != structure.axis and n > 1]
        told = [dim for dim, own in zip(several, self._told, strict=True) if own[:, query].any()]
        return f"{' x '.join(told) or 'total'} by {structure.levels[level]}"


def _told_of(codes: Ints, stride: int, labels: int) -> Mask:
    """Which columns of `codes`, shape (C, n), differ between two labels of an axis: all kinds of pairs of labels there are."""
    cells = codes.reshape(-1, labels, stride, codes.shape[1])
    pairs = np.zeros((0, codes.shape[1]), dtype=np.bool_)
    for label in range(1, labels):
        differ = (cells[:, :label] != cells[:, [label]]).any(axis=(0, 2))
        pairs = np.unique(np.concatenate([pairs, differ]), axis=0)
    return pairs
