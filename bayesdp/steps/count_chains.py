"""The kernels that move a table of counts: single lines for tables in general, sweeps for hierarchies.

Both have the same methods. `upper` is the largest count of each cell that the exact answers and the prior allow; `memory` is what
a kernel has besides table, parameters and generator, as numbers, always as many, and `remember` restores it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._random import uniform
from bayesdp.fibers import Chain, Target
from bayesdp.fibers.chain import STAGES
from bayesdp.fibers.kernel.state import SQUARED, UPPER, VALUE
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.modes import chain_number, numbered, paired, start_codes, to_ends
from bayesdp.hierarchies.start import start_table
from bayesdp.hierarchies.structure import Structure
from bayesdp.moves.moves import SUMS
from bayesdp.steps.base import LEAST_MOVES

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_FIRST_TABLES = 8
"""Tables of the tuning after which steps are measured: before, little is known of how widely cells vary."""

_EVEN = 0.2
"""What all families have in common of the moves, in even parts, however far their steps go: some cells may be moved by few of them."""

TEMPERED = 128
"""Up to so many degrees of freedom, tables with walls are also moved by ways through softer ones. Of larger ones few are taken."""

_ROUNDS = 300
"""In search of the best shares: they change by less than a thousandth at the end."""


class LineChain(Chain):
    """A table in general: a sweep is as many random lines as it has degrees of freedom."""

    # `dimension`: degrees of freedom. Where some families of directions keep noisy answers, how often each is taken is learnt while
    # tuning. For the cells and for the sums of each published kind, how far a step of a family moves them is measured: the mean of
    # squares in units of their variances, whose inverse is a time. The shares are those with the least sum of these times, so that
    # totals, which few steps change, get their due, but for a part that all families have in common. Steps that measure this begin at
    # the table as it stands, which is put back. Random sums keep their share. Where laws forbid answers, tables may be possible that
    # no line leads to; small ones are tempered now and then, by chance and whatever the table is.

    def __init__(self, target: Target, rng: np.random.Generator, dimension: int) -> None:
        super().__init__(target, rng)
        self._dimension = dimension
        self._ways = self.walled and dimension <= TEMPERED
        families = len(target.moves.cumulative)
        self._learns = families > len(target.fiber_moves.cumulative)
        self._measured = families - (target.moves.meta[-1, 0] == SUMS) if self._learns else 0
        if self._learns:
            self.state = self.state._replace(cumulative=target.moves.cumulative.copy())
        # The kind of each cell and row: 0 for cells; rows that only limit the table have none.
        kinds = [np.zeros(target.fiber.frame.size, dtype=np.int64)]
        for simple, term in zip(target.cell_terms, target.terms, strict=True):
            if not simple:
                sizes = [part.rows for part in term.query.parts] if term.coordinates is None else [term.rows]
                kinds.append(np.repeat(np.arange(len(sizes)), sizes) + kinds[-1].max() + 1)
        self._kinds = np.concatenate(kinds)
        self._sizes = np.bincount(self._kinds)
        # How many tables were seen, their mean and squared deviations from it, and how far each family has moved each kind.
        self._tuned = np.zeros(1 + 2 * len(self._kinds) + self._measured * len(self._sizes) if self._learns else 0)

    @property
    def upper(self) -> Ints:
        """The largest count of each cell."""
        return np.asarray(self.state.cells_int[:, UPPER])

    @property
    def generator(self) -> npt.NDArray[np.uint64]:
        """State of the kernel's generator, in place."""
        return self.state.generator

    @property
    def shares(self) -> Floats:
        """How often each family of directions is taken."""
        return np.diff(self.state.cumulative, prepend=0.0)

    @property
    def memory(self) -> Floats:
        """The sums over the table that moves keep up to date by differences, and what the tuning has learnt."""
        learnt = self.state.cumulative if self._learns else self._tuned
        return np.concatenate([self.state.rows[:, VALUE], self.state.groups[:, SQUARED], learnt, self._tuned])

    def remember(self, memory: Floats, *, same: bool) -> None:
        """Restore it; how often families are taken belongs to the chain, also where table or noise are not the `same`."""
        rows, groups = len(self.state.rows), len(self.state.groups)
        if same:
            self.state.rows[:, VALUE], self.state.groups[:, SQUARED] = np.split(memory[: rows + groups], [rows])
        if self._learns:
            families = len(self.state.cumulative)
            self.state.cumulative[:] = memory[rows + groups : rows + groups + families]
            self._tuned = memory[rows + groups + families :].copy()

    def ready(self) -> None:
        """Have the kernel compiled."""
        self.sweep(0)
        if self._ways:
            self.temper(0)

    def begin(self, counts: Ints, *, scatter: bool) -> None:
        """Put the start of a chain into the kernel, and move it about where chains are to begin apart."""
        if self._learns:
            self.state.cumulative[:] = self.target.moves.cumulative
            self._tuned[:] = 0.0
        self.load(counts)
        if scatter:
            self.disperse()

    def move(self, sweeps: float) -> float:
        """Move by exact steps; the share of them that changed the table. A sweep may be moved in parts."""
        moves = max(int(sweeps * self._dimension), LEAST_MOVES)
        way = 2 * self._dimension
        if self._ways and uniform(self.generator) * STAGES * way < moves:  # as many lines on ways as within the walls
            self.temper(way)
        return self.sweep(moves) / moves

    def learn(self) -> None:
        """Measure how far steps of each family go; shares by it after 8, 16, 32, ... tables."""
        if not self._learns:
            return
        start, now = self.counts.copy(), self._numbers
        mean, spread = self._tuned[1 : 1 + 2 * len(now)].reshape(2, -1)
        self._tuned[0] += 1.0
        seen, before = int(self._tuned[0]), now - mean
        mean += before / seen
        spread += before * (now - mean)
        if seen < _FIRST_TABLES:
            return
        moves = max(self._dimension // (4 * self._measured), 16)
        known = spread > 0.0
        units = np.where(known, seen / np.where(known, spread, 1.0), 0.0)
        for family, rates in enumerate(self._rates):
            at = self._numbers
            self.sweep_of(family, moves)
            rates += np.bincount(self._kinds, units * np.square(self._numbers - at)) / (self._sizes * moves)
        self.load(start)
        if seen & (seen - 1) == 0:
            self._share_out()

    def settle(self) -> None:
        """Take each family as often as was learnt, from now on."""
        if self._learns and self._tuned[0] >= _FIRST_TABLES:
            self._share_out()
            self._tuned[:] = 0.0

    @property
    def _numbers(self) -> Floats:
        """Cells and rows as they stand."""
        rows = self.state.rows[: len(self._kinds) - len(self.counts), VALUE]
        return np.concatenate([self.counts.astype(np.float64), rows])

    @property
    def _rates(self) -> Floats:
        """How far each family has moved each kind, a view."""
        return self._tuned[1 + 2 * len(self._kinds) :].reshape(self._measured, -1)

    def _share_out(self) -> None:
        """The shares with the least sum of times, but for what all families have in common."""
        rates = self._rates[:, self._rates.any(axis=0)]
        if not rates.size:
            return
        best = np.full(self._measured, 1.0 / self._measured)
        for _ in range(_ROUNDS):  # each round lessens the sum: the multiplicative rule for designs (Torsney, 1983)
            best *= np.sqrt(rates @ (best @ rates) ** -2.0)
            best /= best.sum()
        shares = np.diff(self.target.moves.cumulative, prepend=0.0)
        shares[: self._measured] = shares[: self._measured].sum() * (_EVEN / self._measured + (1.0 - _EVEN) * best)
        self.state.cumulative[:] = np.cumsum(shares) / shares.sum()


class SweepChain(TreeChain):
    """A hierarchy. While a chain is tuned, donors are chosen anew now and then; with its end they stay."""

    # They are chosen more than once for the starts that a user gives, of which the first table tells little. With all counts of
    # five tracts of 252 cells in one cell, the squared residuals were 6.5e4 a noisy answer after 1,000 sweeps, against 1.8e5 with
    # donors chosen at the start. From the linear estimate it makes no difference: 1.04 either way, and the medians of effective
    # draws are within a tenth. Chains begin at random tables far apart (`bayesdp.hierarchies.modes`). Where they began is told with
    # the draws, so that a check for missed modes can compare them.

    def __init__(self, target: Target, structure: Structure, rng: np.random.Generator) -> None:
        super().__init__(target, structure, rng)
        self._typical, self._mean = np.zeros(structure.free.shape), np.zeros(structure.free.shape)
        self._learned = np.zeros(1)
        self._began = np.zeros_like(start_codes(self))
        self._told = 0

    @property
    def upper(self) -> Ints:
        """The largest count of each cell."""
        return np.asarray(self.target.fiber.system.upper)

    @property
    def generator(self) -> npt.NDArray[np.uint64]:
        """State of the kernel's generator, in place."""
        return self.state.generator

    @property
    def memory(self) -> Floats:
        """The counts by which donors were chosen, what the tuning has gathered, and where the chain began.

        Residuals are worked out at every sweep.
        """
        return np.concatenate([self._typical.reshape(-1), self._mean.reshape(-1), self._began, self._learned])

    def remember(self, memory: Floats, *, same: bool) -> None:
        """Restore it; donors belong to the chain, whatever its table is."""
        size = self._mean.size
        self._mean = memory[size : 2 * size].reshape(self._mean.shape).copy()
        self._began = memory[2 * size : -1].astype(np.int64)
        self._learned = memory[-1:].copy()
        self._choose(memory[:size].reshape(self._mean.shape))

    def ready(self) -> None:
        """Have the kernel compiled."""
        self.sweep(0)

    def begin(self, counts: Ints, *, scatter: bool) -> None:
        """Put the start of a chain into the kernel; donors are chosen by it until the tuning knows better."""
        self._mean, self._learned = np.zeros_like(self._mean), np.zeros(1)
        self._choose(self.structure.leaves_by_cells(counts))
        self.load(counts)
        if scatter:
            self.disperse()
            self._choose(self.state.counts)
        self._began = start_codes(self)

    def near(self, rng: np.random.Generator | int, scatter: float, *, opposite: bool = False) -> Ints:
        """A flat table of the frame near the linear estimate of the answers as they stand; see `start_table`."""
        given = self.target, self.structure, rng, scatter, self._scales, self._values
        found = start_table(*given, opposite=opposite)
        return np.asarray(self.structure.in_frame(found), dtype=np.int64)

    def begin_apart(self, rng: np.random.Generator) -> None:
        """Begin at a random table, opposite to the other chain of its pair (`bayesdp.hierarchies.modes`).

        Donors are chosen by the table before its groups are put to their ends, which is more typical.
        """
        pair, second = paired(rng, chain_number(rng))
        self.begin(self.near(pair, 1.0, opposite=second), scatter=False)
        to_ends(self, pair, int(second))
        self._began = start_codes(self)

    def tell(self) -> int:
        """The next word about where the chain began."""
        self._told = (self._told + 1) % len(self._began)
        return numbered(self._began, self._told)

    def move(self, sweeps: float) -> float:
        """Move by exact steps; the share of them that changed the table."""
        self.state.tried[0] = 0
        changed = self.sweep(int(sweeps))
        return changed / max(int(self.state.tried[0]), 1)

    def learn(self) -> None:
        """A running mean in which later tables weigh more; donors by it after 8, 16, 32, ... tables."""
        self._learned = self._learned + 1.0
        self._mean = self._mean + (self.state.counts - self._mean) * (2.0 / (self._learned[0] + 1.0))
        seen = int(self._learned[0])
        if seen >= 8 and seen & (seen - 1) == 0:
            self._choose(self._mean)

    def settle(self) -> None:
        """End the tuning."""
        if self._learned[0] > 0.0:
            self._choose(self._mean)
            self._mean, self._learned = np.zeros_like(self._mean), np.zeros(1)

    def _choose(self, typical: npt.NDArray[np.generic]) -> None:
        self._typical = np.array(typical, dtype=np.float64)
        self.choose_donors(self._typical)
