"""A chain of tables: a target, and its state in the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bayesdp._random import seed_state
from bayesdp.fibers.kernel.donors import move_donors
from bayesdp.fibers.kernel.occupied import donors_of
from bayesdp.fibers.kernel.state import FAMILIES, IMPOSSIBLE, NOISY, WINDOW_ABOVE, WINDOW_BELOW, WINDOW_LENGTH
from bayesdp.fibers.kernel.sweep import move_once, sweep, take_back
from bayesdp.fibers.price import fall_and_rise, raise_the_price
from bayesdp.fibers.target import Target

__all__ = ["Chain"]

_IMPROPER = (
    "the posterior of the counts is improper: a flat prior, and a direction that neither noise nor exact answers bound"
)

DONOR_SHARE = 0.5
"""Share of the steps along directions drawn by looking at which cells are not 0, where noisy answers are precise."""

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


class Chain:
    """A table that moves: a target, and its state in the kernel.

    Parameters
    ----------
    target : Target
    rng : numpy.random.Generator
        Seeds the kernel's own generator.
    """

    def __init__(self, target: Target, rng: np.random.Generator) -> None:
        self.target = target
        self.state = target.new_state()
        self.concave = True
        self._scales: Sequence[Floats] = [term.scale for term in target.terms]
        self._values: Sequence[Floats] = [term.values for term in target.terms]
        self._real_rows = target.has_real_rows
        self._family = FAMILIES[target.family]
        self._donors = donors_of(target.moves, target.fiber.frame.size)
        self._none = np.empty((0, target.fiber.frame.size), dtype=np.int64)
        self.forbidden: Ints = np.zeros(0, dtype=np.int64)
        """Rows of answers that laws forbade all along where `disperse` failed last, the longest first."""
        self.reseed(rng)

    def reseed(self, rng: np.random.Generator) -> None:
        """Start a fresh stream of random numbers."""
        self.state.generator[:] = seed_state(rng)

    def set_prior(self, theta: Floats, shape: Floats) -> None:
        """Set prior weights and shapes, one a cell."""
        self.concave = self.target.set_prior(self.state, theta, shape)

    def set_scales(self, scales: Sequence[Floats], values: Sequence[Floats] | None = None) -> None:
        """Set the scale of every noisy term, and its noisy answers, in place of those of the target.

        Load the table again afterwards.
        """
        self._scales = list(scales)
        self._values = self._values if values is None else list(values)
        self.target.set_noise(self.state, self._scales, self._values)

    def load(self, counts: Ints) -> None:
        """Put a table into the chain."""
        self.target.load(self.state, counts)

    @property
    def counts(self) -> Ints:
        """The table as it stands, flat; a view."""
        return self.state.counts

    @property
    def differing(self) -> bool:
        """Whether answers about the same records have different published numbers, so that the table is impossible."""
        rows = np.flatnonzero(self.state.classes)
        order = rows[np.argsort(self.state.classes[rows])]
        classes, numbers = self.state.classes[order], self.state.rows[order, NOISY]
        return bool(np.any((classes[1:] == classes[:-1]) & (numbers[1:] != numbers[:-1])))

    def sweep(self, moves: int) -> int:
        """Take `moves` steps; returns how many changed the table.

        Steps along random directions are exact-conditional. Where noisy answers are precise, a share of the steps
        (`DONOR_SHARE`) looks at the table and is accepted or rejected (`kernel.donors`).
        """
        if self._real_rows:
            self.load(self.counts.copy())
        looking = self._looking(moves)
        changed = int(sweep(self._none, moves - looking, self._family, self.concave, self.state))
        if changed >= 0 and looking:
            more = int(move_donors(looking, self._family, self.concave, self.state, self._donors))
            changed = changed + more if more >= 0 else more
        if changed < 0:
            raise ValueError(_IMPROPER)
        return changed

    def sweep_of(self, family: int, moves: int) -> None:
        """Take `moves` steps along directions of one family."""
        shares = np.zeros(len(self.state.cumulative))
        shares[family:] = 1.0
        if sweep(self._none, moves, self._family, self.concave, self.state._replace(cumulative=shares)) < 0:
            raise ValueError(_IMPROPER)

    @property
    def looks(self) -> bool:
        """Whether some steps look at the table: if a family of them keeps precise answers (`Moves.whole`)."""
        return bool(self._donors.whole[0])

    def _looking(self, moves: int) -> int:
        """How many of some moves look at the table."""
        return int(moves * DONOR_SHARE) if self.looks else 0

    def draw(self, draws: int, moves: int) -> Ints:
        """Draw many tables, `moves` exact-conditional steps apart, in one kernel call.

        Parameters
        ----------
        draws : int
            Number of tables.
        moves : int
            Steps between one table and the next.

        Returns
        -------
        int64 array, shape (draws, cells)

        Raises
        ------
        ValueError
            If the posterior is improper along a direction.
        """
        tables = np.empty((draws, len(self.counts)), dtype=np.int64)
        if self.looks:
            for table in tables:
                self.sweep(moves)
                table[:] = self.counts
        elif draws and sweep(tables, moves, self._family, self.concave, self.state) < 0:
            raise ValueError(_IMPROPER)
        return tables

    def propose(self) -> tuple[int, int]:
        """Take one step and return its number of cells and its length, for `take_back`."""
        count, step = move_once(self._family, self.concave, self.state)
        return int(count), int(step)

    def take_back(self, count: int, step: int) -> None:
        """Undo the last `propose`."""
        take_back(count, step, self.state)

    @property
    def walled(self) -> bool:
        """Whether laws of the noise forbid values of sums of cells, each of which counts for itself."""
        state = self.state
        sums = np.bincount(state.indices, minlength=len(state.rows)) > 1
        rows = state.rows[sums & (state.rows[:, WINDOW_LENGTH] > 0.0)]
        ends = bool(np.isneginf(rows[:, [WINDOW_BELOW, WINDOW_ABOVE]]).any())
        return not len(state.laws) and len(rows) > 0 and (ends or bool((state.windows <= IMPOSSIBLE / 2.0).any()))

    def temper(self, moves: int) -> bool:
        """Look for a table behind walls, by lines within softer ones (`bayesdp.fibers.price`); whether one was taken."""
        start = self.counts.copy()
        taken = fall_and_rise(self.state, moves, self._family, self.concave)
        if not taken:
            self.load(start)
        return taken

    def disperse(self, sweeps: int = 5) -> bool:
        """Scatter a start, so that chains begin apart; whether the laws of the noise allow the table that it ends at.

        Where they forbid answers, these cost a price, which rises (`bayesdp.fibers.price`); so do answers about the same records with
        different numbers. Elsewhere, or if that fails (`forbidden`), the noise is flattened for a few sweeps.
        """
        moves = max(self.target.fiber.invariants.dimension, 1)
        walls = any(term.windows is not None for term in self.target.terms)
        if walls:
            start = self.counts.copy()
            tenth = max(moves // 10, 10)
            self.load(self.counts.copy())
            forbidden = raise_the_price(self.state, lambda: self.sweep(tenth))
            if forbidden is None:
                return True
            self.forbidden = forbidden
            self.load(start)
        self.target.set_noise(self.state, self._scales, self._values, temper=0.25)
        self.load(self.counts.copy())
        self.sweep(sweeps * moves)
        self.target.set_noise(self.state, self._scales, self._values)
        self.load(self.counts.copy())
        return not walls
