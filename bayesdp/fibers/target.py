"""The posterior of a table on its fiber, packed for the kernel.

A target is the fiber, the noisy terms (query, noisy answers, law) and a prior family. Its parameters (prior weights,
noise scales) may change from step to step; its structure does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import choice
from bayesdp.fibers.fiber import Fiber
from bayesdp.fibers.gaps import Gaps
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
from bayesdp.fibers.noise_term import NoiseTerm
from bayesdp.fibers.precise import LARGEST, precise_sets
from bayesdp.fibers.windows import bent, without_infinities
from bayesdp.moves.choosing import has_families, moves_keeping
from bayesdp.moves.moves import Kept, Moves

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Target:
    """Prior family, noisy terms and fiber.

    Parameters
    ----------
    fiber : Fiber
    terms : tuple of NoiseTerm
    family : {"flat", "poisson", "negbin", "binomial"}
        Prior of a cell (see `bayesdp.fibers.kernel.state.FAMILIES`); multinomial cells are Poisson cells and
        Dirichlet-multinomial cells negative binomial cells, given the totals.
    bounded : bool
        Whether the prior bounds cells from above (weights of zero); binomial cells have bounds in any case. Markov
        bases need not connect tables with such bounds, so other moves are taken.
    open : bool
        Whether other parts of the posterior may forbid tables in ways that are not known: random sums of moves are mixed
        in, so that every table can be reached from every other.
    spread : float
        Variance of a cell under the prior, as far as it is known; decides with the scales of the terms which noisy answers
        are precise (see `bayesdp.fibers.precise`).
    """

    fiber: Fiber
    terms: tuple[NoiseTerm, ...]
    family: str
    bounded: bool = False
    open: bool = False
    spread: float = np.inf

    def __post_init__(self) -> None:
        choice(self.family, tuple(FAMILIES), "family")

    @property
    def fiber_moves(self) -> Moves:
        """Directions that the exact answers ask for: upper bounds of cells need more moves to connect.

        What is proved of `moves` is what is proved of these, since none is taken away.
        """
        if self.open:
            return self.fiber.open_moves
        return self.fiber.bounded_moves if self._bounded else self.fiber.moves

    @property
    def _bounded(self) -> bool:
        return self.bounded or self.family == "binomial"

    @cached_property
    def moves(self) -> Moves:
        """Directions for this target: those of the exact answers, and a share that keeps precise noisy answers besides.

        Chosen once, by the scales that the terms have here: scales that change later change no direction, so that every step
        of a chain leaves its posterior invariant. Without precise answers these are `fiber_moves`.
        """
        kept = precise_sets(self.fiber, self.terms, self.spread)
        if not kept:
            return self.fiber_moves
        moves = self.fiber.moves_beside(kept, bounded=self._bounded, unknown=self.open)
        # Within walls families of lines get about; looking at which cells are not 0 takes half of the moves, and adds little.
        walls = any(term.windows is not None for term in self.terms)
        return replace(moves, looking=moves.looking[:0], whole=0) if walls else moves

    @cached_property
    def moves_keeping(self) -> Moves | None:
        """Directions that keep the exact answers and precise ones, all or some, for a table that has other moves; None if too large.

        Chosen once, as `moves` are, but without regard to how widely cells vary: it costs little to keep too much.
        """
        exact = self.fiber.moving_invariants
        if self.fiber.frame.size > LARGEST or not has_families(exact):
            return None
        allowed = ~self.fiber.system.fixed
        return moves_keeping((Kept(exact, ~allowed), *precise_sets(self.fiber, self.terms)), allowed)

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
        noisy = [term.matrix for simple, term in zip(self.cell_terms, self.terms, strict=True) if not simple]
        stacked = [*noisy, *([limits] if limits.shape[0] else [])]
        return sp.csr_array(sp.vstack(stacked, format="csr")) if stacked else None

    @property
    def has_real_rows(self) -> bool:
        """Whether rows have real entries: their values gather rounding errors, and are worked out anew at every sweep."""
        return any(term.coordinates is not None for term in self.terms)

    def new_state(self) -> State:
        """A state with bounds, rows and noise filled in; counts zero, prior weights one."""
        groups = sum(term.kind == "l2" for term in self.terms)
        state = new_state(self.fiber.frame.size, self.moves, self.matrix, groups, self._windows.copy(), self._laws)
        state.cells_int[:, columns.LOWER] = self.fiber.system.lower
        state.cells_int[:, columns.UPPER] = self.fiber.system.upper
        start = self._row_starts[-1]
        _, state.rows[start:, columns.ROW_LOWER], state.rows[start:, columns.ROW_UPPER] = self._limits
        self._set_windows(state)
        scales = [term.windows.log_mass if term.windows and term.changing else term.scale for term in self.terms]
        self.set_noise(state, scales, [term.values for term in self.terms])
        return state

    @cached_property
    def _windows(self) -> Floats:
        """The tabulated log-masses of all terms, one after the other."""
        parts = [without_infinities(term.windows.log_mass) for term in self.terms if term.windows is not None]
        return np.concatenate(parts) if parts else columns.NO_WINDOWS

    @cached_property
    def _laws(self) -> Ints:
        """By which law each row shares its perturbation; nothing where none does."""
        if self.matrix is None or all(term.laws is None for term in self.terms):
            return columns.NO_LAWS
        found = np.zeros(self.matrix.shape[0], dtype=np.int64)
        for start, term in zip(self._row_starts[:-1], self.terms, strict=True):
            if term.laws is not None:
                found[start : start + term.rows] = term.laws
        return found

    def _set_windows(self, state: State) -> None:
        """Write where the tabulated log-mass of each row stands, which nothing changes."""
        before = 0
        for start, term in zip(self._row_starts[:-1], self.terms, strict=True):
            windows = term.windows
            if windows is None:
                continue
            rows = start + np.flatnonzero(term.measured)
            state.rows[rows, columns.WINDOW_LOW] = windows.low
            state.rows[rows, columns.WINDOW_LENGTH] = windows.length
            state.rows[rows, columns.WINDOW_START] = windows.start + before
            state.rows[rows, columns.WINDOW_BELOW] = windows.below
            state.rows[rows, columns.WINDOW_ABOVE] = windows.above
            state.rows[rows, columns.WINDOW_BENT] = term.changing | bent(windows)
            ends_below, ends_above = np.isneginf(windows.below), np.isneginf(windows.above)
            state.rows[rows, columns.ROW_LOWER] = np.where(ends_below, windows.low, -np.inf)
            state.rows[rows, columns.ROW_UPPER] = np.where(ends_above, windows.low + windows.length - 1, np.inf)
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
            own = term.matrix[np.flatnonzero(term.measured)]
            least = np.where(np.isneginf(term.windows.below), term.windows.low, -np.inf)
            most = np.where(np.isneginf(term.windows.above), term.windows.low + term.windows.length - 1, np.inf)
            for key, low, high in zip(_row_keys(own), least, most, strict=True):
                known = ends.setdefault(key, [-np.inf, np.inf])
                known[0], known[1] = max(known[0], low), min(known[1], high)
        if not ends:
            return matrix, lower, upper
        found = [ends.get(key, [-np.inf, np.inf]) for key in _row_keys(matrix)]
        keep = np.flatnonzero((lower > [low for low, _ in found]) | (upper < [high for _, high in found]))
        return matrix[keep], lower[keep], upper[keep]

    def set_noise(self, state: State, scales: Sequence[Floats], values: Sequence[Floats], temper: float = 1.0) -> None:
        """Write the noise of every term with the given scales and noisy answers; ``temper`` below 1 flattens it.

        A term with windows that change (`NoiseTerm.changing`) has their log-masses as its scale.
        """
        clear_noise(state)
        group = before = 0
        for simple, start, term, scale, noisy in zip(
            self.cell_terms, self._row_starts[:-1], self.terms, scales, values, strict=True
        ):
            measured = term.measured
            if term.windows is not None:
                rows = state.rows[start : start + len(noisy)]
                rows[:, columns.NOISY] = np.where(measured, noisy, 0.0)
                rows[:, columns.WINDOW_WEIGHT] = np.where(measured, temper, 0.0)
                entries = len(term.windows.log_mass)
                if term.changing:
                    state.windows[before : before + entries] = without_infinities(np.asarray(scale))
                before += entries
                continue
            weight = np.broadcast_to(np.asarray(scale, dtype=np.float64), measured.shape)
            weight = np.where(measured, 1.0 / np.square(weight) if term.kind == "gaussian" else weight, 0.0) * temper
            published = np.where(measured, noisy, 0.0)
            if simple and term.kind == "l1":
                set_laplace(state, weight, published)
            elif simple:
                add_gaussian(state, weight, published)
            else:
                rows = state.rows[start : start + len(published)]
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

    def unsupported_cells(self) -> npt.NDArray[np.bool_]:
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


def _row_keys(matrix: sp.csr_array) -> list[bytes]:
    """A key for each row, the same for the same row."""
    rows = sp.csr_array(matrix, copy=True)
    rows.sort_indices()
    indices, data, ends = rows.indices.astype(np.int64), rows.data.astype(np.float64), rows.indptr
    return [indices[first:last].tobytes() + data[first:last].tobytes() for first, last in pairwise(ends)]
