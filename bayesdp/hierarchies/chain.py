"""A table of a hierarchy that moves: what `bayesdp.fibers.Chain` is for tables in general."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._random import seed_state
from bayesdp.fibers import NoiseTerm, Target
from bayesdp.hierarchies.connectivity import effective_levels
from bayesdp.hierarchies.crossing import Crossing, mean_precisions, spread_of_cells
from bayesdp.hierarchies.ends import chain_number, paired, to_ends
from bayesdp.hierarchies.groups import donors_of, tied_groups, tied_siblings, tying_query, visits_of
from bayesdp.hierarchies.kernel.crossing import LABELS, cross
from bayesdp.hierarchies.kernel.keeping import Directions, keep
from bayesdp.hierarchies.kernel.state import PRECISION, RESIDUAL, ROOM, State
from bayesdp.hierarchies.kernel.sums import add_lines
from bayesdp.hierarchies.kernel.sweeps import CROSS_CELLS, CROSSING, KEEPING, MIX, NEAR, SINGLE, SQUARES, SUMS, sweep
from bayesdp.hierarchies.start import start_table
from bayesdp.hierarchies.structure import Structure, sum_parts
from bayesdp.moves.moves import Moves

__all__ = ["TreeChain", "moves_of"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_FAMILIES = {"flat": 1.0, "poisson": 0.0, "negbin": 1.0}
"""Prior family to beta of `kernel.state`."""

_NEAR = 100
"""Exchanges of a cell with a leaf under the same node, in percent of its visits, where `tied_siblings` says so."""

EXCHANGES = 0.25
"""Share of exchanges among the steps along directions that keep precise answers."""

_SMALL = 1_000
"""Up to so many free cells directions that keep precise answers are always taken, if only a tenth as often."""

_FEWEST = 50
"""Steps of a sweep along directions that keep precise answers, at least, of up to 40 free cells: they cost such tables little."""

_MOVING = ("generator", "counts", "group_start", "group_cell", "donor_start", "donor_cell", "visits", "tried")
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


class TreeChain:
    """A table that moves by whole sweeps.

    Parameters
    ----------
    target : Target
    structure : Structure
        Of the same target.
    rng : numpy.random.Generator
        Seeds the generator of the moves.
    """

    def __init__(self, target: Target, structure: Structure, rng: np.random.Generator) -> None:
        self.target, self.structure = target, structure
        self.mix = moves_of(structure)
        self._tying: int | None = -1  # none chosen yet
        self.crossing = Crossing(structure)
        self.families = np.zeros((0, 8), dtype=np.int64)
        self.keeping: Directions | None = None
        self._labels = np.zeros(LABELS, dtype=np.int64)
        self._places = [
            (term, [_short(term, *structure.where(part)) for part in sum_parts([term.query])]) for term in target.terms
        ]
        self._scales: Sequence[Floats] = [term.scale for term in target.terms]
        self._values: Sequence[Floats] = [term.values for term in target.terms]
        leaves, cells = structure.free.shape
        answers = np.zeros((structure.nodes, int(structure.query_start[-1]), 2))
        self._noisy = np.zeros(answers.shape[:2])
        first, last = structure.node_range
        free_start, free_cell = _free_cells(structure)
        self.state = State(
            generator=seed_state(rng),
            counts=np.zeros((leaves, cells), dtype=np.int64),
            answers=answers,
            answer_of=structure.answer_of,
            path=structure.path,
            first=first,
            last=last,
            theta=np.zeros((leaves, cells)),
            theta_row=np.arange(leaves),
            alpha=np.ones((1, cells)),
            alpha_row=np.zeros(leaves, dtype=np.int64),
            beta=_FAMILIES[target.family],
            free=structure.free,
            exact_class=structure.exact_class,
            limited=structure.limited,
            sum_class=structure.sum_class,
            sums=np.zeros(structure.sum_lower.shape, dtype=np.int64),
            sum_lower=structure.sum_lower,
            sum_upper=structure.sum_upper,
            group_start=np.zeros((leaves, 1), dtype=np.int64),
            group_cell=np.zeros(0, dtype=np.int64),
            free_start=free_start,
            free_cell=free_cell,
            visits=np.ones(len(free_cell), dtype=np.int64),
            donor_start=np.zeros((leaves, int(structure.pair_class.max()) + 2), dtype=np.int64),
            donor_cell=np.zeros(0, dtype=np.int64),
            pair_class=structure.pair_class,
            weights=np.zeros(ROOM),
            scratch=np.zeros((4, 64), dtype=np.int64),
            alphas=np.zeros(64),
            occupied=np.zeros(cells, dtype=np.int64),
            tried=np.zeros(1, dtype=np.int64),
        )
        self.set_scales(self._scales)
        precision = self.state.answers[:, :, PRECISION]
        if self.mix[CROSS_CELLS] and tied_siblings(structure, precision):
            self.mix[NEAR] = _NEAR
        asked = self._asks_for_keeping()
        keeping = target.moves_keeping if asked or structure.free.sum() <= _SMALL else None
        if keeping is not None:
            width = max(64, 4 * keeping.longest)
            self.keeping = _placed(keeping, structure, width)
            self.state = self.state._replace(scratch=np.zeros((4, width), dtype=np.int64), alphas=np.zeros(width))
            self.mix[KEEPING] //= 1 if asked else 10

    def set_prior(self, theta: Floats, shape: Floats) -> None:
        """Set log weights and shapes of the prior, one a cell of the frame."""
        structure = self.structure
        size = structure.frame.size
        weights = structure.leaves_by_cells(np.broadcast_to(np.asarray(theta, dtype=np.float64), size))
        rates = np.ones((1, weights.shape[1]))
        if self.target.family == "negbin":
            shapes = structure.leaves_by_cells(np.broadcast_to(np.asarray(shape, dtype=np.float64), size))
            rates = np.asarray(shapes, dtype=np.float64)
        self.set_cells(np.asarray(weights, dtype=np.float64), rates)

    def set_cells(self, theta: Floats, alpha: Floats) -> None:
        """Set log weights and alphas of the prior (see `kernel.state`) in the order of the tree."""
        # `theta`, `alpha`, shape (T, C) or (1, C): one row holds for all leaves. The arrays are not copied where they are
        # contiguous and may be written to.
        leaves = np.arange(len(self.state.counts))
        self.state = self.state._replace(
            theta=np.require(np.maximum(theta, _NEVER) if np.isneginf(theta).any() else theta, np.float64, ["C", "W"]),
            theta_row=leaves if len(theta) > 1 else np.zeros_like(leaves),
            alpha=np.require(alpha, np.float64, ["C", "W"]),
            alpha_row=leaves if len(alpha) > 1 else np.zeros_like(leaves),
        )

    def set_scales(self, scales: Sequence[Floats], values: Sequence[Floats] | None = None, temper: float = 1.0) -> None:
        """Set the scale of every noisy term, and its noisy answers; load the table again afterwards."""
        structure, answers = self.structure, self.state.answers
        self._scales = list(scales)
        self._values = self._values if values is None else list(values)
        answers[:] = 0.0
        weighted = np.zeros(answers.shape[:2])
        for (term, places), scale, noisy in zip(self._places, self._scales, self._values, strict=True):
            own = np.where(term.measured, 1.0 / np.square(np.broadcast_to(scale, term.measured.shape)), 0.0) * temper
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
        mean = [
            float(precision[leaves, a:b].mean())
            for a, b in zip(structure.query_start[:-1], structure.query_start[1:], strict=True)
        ]
        tying = tying_query(structure, np.array(mean))
        if tying != self._tying:
            self._tying = tying
            start_of, cell_of = tied_groups(structure, tying)
            self.state = self.state._replace(group_start=start_of, group_cell=cell_of)
        if self.crossing.possible:
            self.families = self.crossing.families(*self._held_by(precision))

    def _asks_for_keeping(self) -> bool:
        """Whether precise answers, or cells that are known, leave something to do for directions that keep them."""
        # Squares of two leaves and two cells make up every closed walk through leaves and cells where one cell is free in all
        # leaves, or one leaf has all cells free.
        free = self.structure.free
        own = free[free.any(axis=1)][:, free.any(axis=0)]
        return bool(self.missed or not (own.all(axis=0).any() or own.all(axis=1).any()))

    @property
    def table(self) -> Ints:
        """The table as it stands, leaves by cells."""
        return self.state.counts

    @property
    def groups(self) -> tuple[Ints, Ints]:
        """The groups of tied cells: where those of each leaf begin, and their cells."""
        return self.state.group_start, self.state.group_cell

    def begin_apart(self, rng: np.random.Generator) -> None:
        """Start at a random table near the linear estimate, opposite to the other chain of its pair (`bayesdp.hierarchies.ends`)."""
        pair, second = paired(rng, chain_number(rng))
        start = start_table(self.target, self.structure, pair, opposite=second)
        self.load(np.asarray(self.structure.in_frame(start), dtype=np.int64))
        to_ends(self, pair, int(second))

    def learn(self) -> None:
        """Nothing: donors are chosen by means over many sweeps (`choose_donors`)."""

    def saved(self) -> dict[str, npt.NDArray[Any]]:
        """What a chain goes on from."""
        return {"mix": self.mix, **{name: getattr(self.state, name) for name in _MOVING}}

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Put a chain where it was."""
        self.mix = np.zeros_like(self.mix)  # a run of an earlier version goes on without the moves that it did not have
        self.mix[: len(saved["mix"])] = saved["mix"]
        moving: dict[str, Any] = {name: saved[name] for name in _MOVING}
        self.state = self.state._replace(**moving)

    @property
    def tying(self) -> int | None:
        """The query of a leaf whose sums tie cells together; None if there is none."""
        return self._tying

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

    def reseed(self, rng: np.random.Generator) -> None:
        """Start a fresh stream of random numbers."""
        self.state.generator[:] = seed_state(rng)

    def disperse(self, sweeps: int = 5) -> None:
        """Scatter a start: a few sweeps with the noise flattened, so that chains begin apart."""
        scales, values = self._scales, self._values
        self.set_scales(scales, values, temper=0.25)
        self.sweep(sweeps)
        self.set_scales(scales, values)
        self.renew()

    def choose_donors(self, counts: npt.NDArray[np.generic]) -> None:
        """Choose donors, and how often cells are visited, by typical counts, leaves by cells.

        While draws are kept they must not change.
        """
        start, cell = donors_of(self.structure, counts)
        visits = visits_of(self.structure, counts)
        self.state = self.state._replace(donor_start=start, donor_cell=cell, visits=visits)

    def load(self, counts: Ints) -> None:
        """Put a flat table of the frame into the chain."""
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
    def counts(self) -> Ints:
        """The table as it stands, flat, in the order of the frame; a copy."""
        return np.asarray(self.structure.in_frame(self.state.counts), dtype=np.int64)

    def sweep(self, sweeps: int = 1) -> int:
        """Sweep; how many moves changed the table."""
        self.renew()
        return self._swept(sweeps, np.empty((0, *self.state.counts.shape), dtype=np.int64))

    def draw(self, draws: int, sweeps: int = 1) -> Ints:
        """Draw tables, leaves by cells in the order of the tree, `sweeps` sweeps apart: shape (draws, T, C)."""
        kept = np.empty((draws, *self.state.counts.shape), dtype=np.int64)
        if draws:
            self.renew()
            self._swept(sweeps, kept)
        return kept

    def _swept(self, sweeps: int, kept: Ints) -> int:
        """Sweep, and keep tables; moves that few tables need are compiled, and taken, only where they are needed."""
        crosses = bool(len(self.families) and self.mix[CROSSING])
        keeping, free, percent = self.keeping, len(self.state.free_cell), int(self.mix[KEEPING])
        times = max(free * percent // 100, min(_FEWEST, 40 * _FEWEST // max(free, 1)))
        keeping = keeping if percent else None
        if not crosses and keeping is None and not self.mix[SUMS]:
            return int(sweep(self.state, self.mix, sweeps, kept))
        changed, nothing = 0, kept[:0]
        if not sweeps:  # asked for to have all that is needed compiled
            sweep(self.state, self.mix, 0, nothing)
            add_lines(self.state, 0)
            if crosses:
                cross(self.state, self.families, 0, self._labels)
            if keeping is not None:
                keep(self.state, keeping, 0, EXCHANGES)
        for draw in range(max(len(kept), 1)):
            for _ in range(sweeps):
                changed += int(sweep(self.state, self.mix, 1, nothing))
                if self.mix[SUMS]:
                    changed += int(add_lines(self.state, self.mix[SUMS]))
                if crosses:
                    changed += int(cross(self.state, self.families, self.mix[CROSSING], self._labels))
                if keeping is not None:
                    changed += int(keep(self.state, keeping, times, EXCHANGES))
            if len(kept):
                kept[draw] = self.state.counts
        return changed


def _placed(moves: Moves, structure: Structure, width: int) -> Directions:
    """Directions of the frame for the kernel, with work space."""
    cells = structure.frame.size
    leaf, cell = np.divmod(structure.in_frame(np.arange(cells)).astype(np.int64), structure.free.shape[1])
    one, two, three, whole = (np.zeros(size, dtype=np.int64) for size in (width, width, width, cells))
    return Directions(moves.meta, moves.cumulative, moves.pool, leaf, cell, one, two, three, whole)


def _short(term: NoiseTerm, level: int, q: int, rows: Ints) -> tuple[int, int, npt.NDArray[np.integer]]:
    """Rows of a term in half of the memory where they fit: there are as many as noisy answers."""
    return level, q, rows.astype(np.int32) if len(term.measured) < 2**31 else rows


def _free_cells(structure: Structure) -> tuple[Ints, Ints]:
    leaf, cell = np.nonzero(structure.free)
    starts = np.concatenate([[0], np.cumsum(np.bincount(leaf, minlength=len(structure.free)))])
    return starts.astype(np.int64), cell.astype(np.int64)
