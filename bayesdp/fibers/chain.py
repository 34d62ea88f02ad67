"""Chains of tables, below PyMC: what all of them can do, and that of tables in general, which move along lines.

And a price on answers that laws forbid: starts where laws end or have gaps, and ways between tables that no line joins.

Starts: the price is raised until no forbidden answer is left. Neither the first table nor the walls between possible tables matter
much: chains end far apart. That nothing is found does not say that there is nothing.

Ways: from a possible table the price falls, from one that keeps nearly all tables possible to one that keeps few, and rises again.
The table at the end is taken or left so that the law of the table stays as it is (tempered transitions; Neal, Statistics and
Computing 6, 1996): lines are drawn without looking at the table, and steps along them from their law, which is reversible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, override

import numpy as np

from bayesdp._arrays import Floats, Ints, Mask, Words
from bayesdp._numba import compiled, exponential, seed_state, uniform
from bayesdp.fibers.kernel.classes import apart
from bayesdp.fibers.kernel.occupied_moves import take_occupied_moves
from bayesdp.fibers.kernel.state import (
    FAMILIES,
    IMPOSSIBLE,
    NOISY,
    ROW_LOWER,
    ROW_UPPER,
    SQUARED,
    UPPER,
    VALUE,
    WINDOW_ABOVE,
    WINDOW_BELOW,
    WINDOW_BENT,
    WINDOW_LENGTH,
    WINDOW_LOW,
    WINDOW_START,
    WINDOW_WEIGHT,
    State,
    occupied_moves_of,
)
from bayesdp.fibers.kernel.sweep import move_once, sweep, take_back
from bayesdp.fibers.moves.moves import SUMS
from bayesdp.fibers.target import Target

_FIRST, _LAST, _TIMES, _GAP, _DIFFERING = 0.1, 12.0, 120, 3.0, 0.25
"""The first and the last price, after how many steps this is reached, how many of it an answer costs that is in a gap, and one
with another number than others about the same records, at least: less than one, so that answers may get their first record."""

_MORE = 0.05
"""From then on answers that stay forbidden cost so much more at each step: a price that rises for all freezes the table."""

LONGEST_START = 4_000
"""Steps after which no more are taken."""

_ROOM = 12
"""How far beyond its law an answer may go: longer lines take longer to draw from."""

_FALLING = np.geomspace(6.0, 1.0, 25)
"""The prices of a way. Of the small tables of the tests that no lines join, a way changed one in 2 to one in 20."""

STAGES = 2 * len(_FALLING)
"""How often a way moves the table."""

_ENDS = (WINDOW_BELOW, WINDOW_ABOVE, WINDOW_BENT, ROW_LOWER, ROW_UPPER, WINDOW_WEIGHT)


class _Laws(NamedTuple):
    """What forbids answers: rows and weights of their windows, as arrays for compiled code."""

    rows: Ints  # with windows; others, and limits of single cells, have no price
    below: Mask  # whether a law ends below, and above, shape (rows,)
    above: Mask
    forbidden: Mask  # of each weight of the windows whether it is in a gap, shape (weights,)
    least: float  # the least weight that is in none


@contextmanager
def _priced(state: State) -> Iterator[_Laws]:
    """The laws of a state, within which forbidden answers have a price; afterwards they are as they were."""
    windows, differing = state.windows.copy(), state.differing.copy()
    rows = np.flatnonzero(state.rows[:, WINDOW_LENGTH] > 0.0)  # measured, by a law that is tabulated
    places = np.ix_(rows, _ENDS)
    ends = state.rows[places]
    forbidden = windows <= IMPOSSIBLE / 2.0
    below, above = np.isneginf(ends[:, :2]).T.copy()
    state.rows[places[0], _ENDS[2:5]] = [1.0, -np.inf, np.inf]
    try:
        yield _Laws(rows, below, above, forbidden, float(windows[~forbidden].min(initial=0.0)))
    finally:
        state.windows[:], state.differing[:] = windows, differing
        state.rows[places] = ends


def price_at(step: int) -> tuple[float, float]:
    """The price of a unit beyond the end of a law at a step, and how much more answers that stay forbidden cost after it."""
    return _FIRST * (_LAST / _FIRST) ** min(step / _TIMES, 1.0), _MORE if step >= _TIMES else 0.0


def raise_the_price(state: State, move: Callable[[], object]) -> Ints | None:
    """Move a table while the price rises; the rows that stay forbidden, dearest first; None if the laws allow the table at the end."""
    # `move`: a tenth of a sweep or so. At the end the state has its laws again.
    with _priced(state) as laws:
        for step in range(LONGEST_START):
            price, more = price_at(step)
            _set_price(price, laws, state)
            _set_room(laws, state)
            move()
            if _charge_more(more, laws, state) == 0.0:
                return None
        weights = state.rows[laws.rows, WINDOW_WEIGHT]
        return np.asarray(laws.rows[np.argsort(-weights, kind="stable")][: np.count_nonzero(weights > 1.0)])


def fall_and_rise(state: State, moves: int, family: int, concave: bool) -> bool:
    """Move a possible table, `moves` lines at each price, while it falls and rises again; whether to take the last table."""
    # If it is not to be taken, the caller puts the first one back. `family`, `concave`: see `sweep`.
    with _priced(state) as laws:
        none = np.empty((0, len(state.counts)), dtype=np.int64)
        log_ratio = _way(none, _FALLING, moves, family, concave, laws, state)
    return bool(-exponential(state.generator) < log_ratio)


@compiled
def _way(none: Ints, prices: Floats, moves: int, family: int, concave: bool, laws: _Laws, state: State) -> float:
    """Lines at each price, down and up; the logarithm of the ratio by which the last table is taken."""
    # At every change of the price the ratio of what the table weighs after and before. To the first price, from walls, it is 1.
    log_ratio, last = 0.0, prices[0]
    for stage in range(2 * len(prices)):
        price = prices[min(stage, 2 * len(prices) - 1 - stage)]
        log_ratio += (last - price) * _charge_more(0.0, laws, state)
        _set_price(price, laws, state)
        if sweep(none, moves, family, concave, state) < 0:
            return -np.inf
        last = price
    return log_ratio if _charge_more(0.0, laws, state) == 0.0 else -np.inf


@compiled
def _set_price(price: float, laws: _Laws, state: State) -> None:
    """Put a price on each unit beyond the end of a law, and on gaps."""
    state.differing[:] = -_DIFFERING * price
    for place in range(len(laws.forbidden)):
        if laws.forbidden[place]:
            state.windows[place] = laws.least - _GAP * price
    for i in range(len(laws.rows)):
        if laws.below[i]:
            state.rows[laws.rows[i], WINDOW_BELOW] = -price
        if laws.above[i]:
            state.rows[laws.rows[i], WINDOW_ABOVE] = -price


@compiled
def _set_room(laws: _Laws, state: State) -> None:
    """Limit how far beyond its law an answer may go, from where it is."""
    for i in range(len(laws.rows)):
        row = state.rows[laws.rows[i]]
        if laws.below[i]:
            row[ROW_LOWER] = min(row[WINDOW_LOW] - _ROOM, row[VALUE])
        if laws.above[i]:
            row[ROW_UPPER] = max(row[WINDOW_LOW] + row[WINDOW_LENGTH] - 1.0 + _ROOM, row[VALUE])


@compiled
def _charge_more(more: float, laws: _Laws, state: State) -> float:
    """Add to the weight of answers that are forbidden; how many units the table costs."""
    total = 0.0
    for i in range(len(laws.rows)):
        j = laws.rows[i]
        at, last = state.rows[j, VALUE] - state.rows[j, WINDOW_LOW], state.rows[j, WINDOW_LENGTH] - 1.0
        units = 0.0
        if at < 0.0 and laws.below[i]:
            units = -at
        elif at > last and laws.above[i]:
            units = at - last
        if len(state.laws) > 0:
            units += _DIFFERING * apart(state.classes[j], state.rows[j, NOISY], state.slots)
        if laws.forbidden[int(state.rows[j, WINDOW_START] + min(max(at, 0.0), last))]:
            units += _GAP
        if units > 0.0:
            state.rows[j, WINDOW_WEIGHT] += more
        total += units
    return total


_IMPROPER = (
    "the posterior of the counts is improper: a flat prior, and a direction that neither noise nor exact answers bound"
)

LEAST_MOVES = 100
"""Fewest exact moves of a draw, where nothing but the kernel's terms depends on the table: fewer cost more overhead than work."""

OCCUPIED_SHARE = 0.5
"""Share of the steps along directions drawn by looking at which cells are not 0, where noisy answers are precise."""

TEMPERED = 128
"""Up to so many degrees of freedom, tables with walls are also moved by ways through softer ones. Of larger ones few are taken."""

_FIRST_TABLES = 8
"""Tables of the tuning after which a chain learns from them: before, little is known of them."""

_EVEN = 0.2
"""What all families have in common of the moves, in even parts, however far their steps go: some cells may be moved by few of them."""

_ROUNDS = 300
"""In search of the best shares: they change by less than a thousandth at the end."""


def is_time_to_choose(seen: int) -> bool:
    """Whether a chain that is tuned chooses its moves anew, after so many tables: after 8, 16, 32, ... of them."""
    return seen >= _FIRST_TABLES and seen & (seen - 1) == 0


class CountChain(ABC):
    """A table that moves, and what all chains can do, whatever their kernel.

    A chain is made for a target; prior and noise may be set anew before every move. It begins at a table, is tuned by moving and
    learning in turns until it settles, and moves on.
    """

    target: Target
    state: Any

    def __init__(self, target: Target, state: Any, rng: np.random.Generator) -> None:
        self.target, self.state = target, state
        self._scales: Sequence[Floats] = [term.scale for term in target.terms]
        self._values: Sequence[Floats] = [term.values for term in target.terms]
        self.reseed(rng)

    @property
    def generator(self) -> Words:
        """State of the kernel's generator, in place."""
        return self.state.generator  # type: ignore[no-any-return]

    def reseed(self, rng: np.random.Generator) -> None:
        """Start a fresh stream of random numbers."""
        self.generator[:] = seed_state(rng)

    @property
    @abstractmethod
    def upper(self) -> Ints:
        """The largest count of each cell that the exact answers and the prior allow."""

    @property
    @abstractmethod
    def counts(self) -> Ints:
        """The table as it stands, flat."""

    @abstractmethod
    def set_prior(self, theta: Floats, shape: Floats) -> None:
        """Set prior weights (log scale) and shapes, one a cell."""

    @abstractmethod
    def set_scales(self, scales: Sequence[Floats], values: Sequence[Floats] | None = None) -> None:
        """Set the scale of every noisy term, and its noisy answers; load the table again afterwards."""

    @abstractmethod
    def load(self, counts: Ints) -> None:
        """Put a flat table into the chain."""

    @abstractmethod
    def ready(self) -> None:
        """Have the kernel compiled."""

    @abstractmethod
    def begin(self, counts: Ints) -> None:
        """Begin at a flat table, with nothing learnt."""

    @abstractmethod
    def move(self, sweeps: float) -> float:
        """Move by exact steps; the share of them that changed the table."""

    @abstractmethod
    def learn(self) -> None:
        """Note the table, while tuning; now and then moves are chosen by what was noted (`is_time_to_choose`)."""

    @abstractmethod
    def settle(self) -> None:
        """End the tuning: moves are chosen for the last time."""

    @property
    @abstractmethod
    def memory(self) -> Floats:
        """What the kernel has besides table, parameters and generator, as numbers, always as many."""

    @abstractmethod
    def remember(self, memory: Floats, *, same: bool) -> None:
        """Restore it; `same`: table and noise are those that it belongs to. What was learnt is the chain's, whatever these are."""


class Chain(CountChain):
    """A table in general: a sweep is `dimension` random lines, by default as many as it has degrees of freedom."""

    # Where some families of directions keep noisy answers, how often each is taken is learnt while tuning. For the cells and for the
    # sums of each published kind, how far a step of a family moves them is measured: the mean of squares in units of their
    # variances, whose inverse is a time. The shares are those with the least sum of these times. Random sums keep their share.

    state: State

    def __init__(self, target: Target, rng: np.random.Generator, dimension: int | None = None) -> None:
        super().__init__(target, target.new_state(), rng)
        self.concave = True
        # Rows with real entries: their values gather rounding errors, and are worked out anew at every sweep.
        self._real_rows = any(term.coordinates is not None for term in target.terms)
        self._family = FAMILIES[target.family]
        self._occupied_moves = occupied_moves_of(target.moves, target.fiber.frame.size)
        self._none = np.empty((0, target.fiber.frame.size), dtype=np.int64)
        self.forbidden: Ints = np.zeros(0, dtype=np.int64)
        """Rows of answers that laws forbade all along where `disperse` failed last, the longest first."""
        self._dimension = max(target.fiber.invariants.dimension, 1) if dimension is None else dimension
        self._ways = self._dimension <= TEMPERED and self.walled
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
    @override
    def upper(self) -> Ints:
        return np.asarray(self.state.cells_int[:, UPPER])

    @property
    @override
    def counts(self) -> Ints:
        return self.state.counts

    @override
    def set_prior(self, theta: Floats, shape: Floats) -> None:
        self.concave = self.target.set_prior(self.state, theta, shape)

    @override
    def set_scales(self, scales: Sequence[Floats], values: Sequence[Floats] | None = None) -> None:
        self._scales = list(scales)
        self._values = self._values if values is None else list(values)
        self.target.set_noise(self.state, self._scales, self._values)

    @override
    def load(self, counts: Ints) -> None:
        self.target.load(self.state, counts)

    @override
    def ready(self) -> None:
        self.sweep(0)
        if self._ways:
            self.temper(0)

    @override
    def begin(self, counts: Ints) -> None:
        if self._learns:
            self.state.cumulative[:] = self.target.moves.cumulative
            self._tuned[:] = 0.0
        self.load(counts)

    @override
    def move(self, sweeps: float) -> float:
        moves = max(int(sweeps * self._dimension), LEAST_MOVES)
        way = 2 * self._dimension
        if self._ways and uniform(self.generator) * STAGES * way < moves:  # as many lines on ways as within the walls
            self.temper(way)
        return self.sweep(moves) / moves

    @override
    def learn(self) -> None:
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
        if is_time_to_choose(seen):
            self._share_out()

    @override
    def settle(self) -> None:
        if self._learns and self._tuned[0] >= _FIRST_TABLES:
            self._share_out()
            self._tuned[:] = 0.0

    @property
    @override
    def memory(self) -> Floats:
        # The sums over the table that moves keep up to date by differences, and what the tuning has learnt.
        learnt = self.state.cumulative if self._learns else self._tuned
        return np.concatenate([self.state.rows[:, VALUE], self.state.groups[:, SQUARED], learnt, self._tuned])

    @override
    def remember(self, memory: Floats, *, same: bool) -> None:
        rows, groups = len(self.state.rows), len(self.state.groups)
        if same:
            self.state.rows[:, VALUE], self.state.groups[:, SQUARED] = np.split(memory[: rows + groups], [rows])
        if self._learns:
            families = len(self.state.cumulative)
            self.state.cumulative[:] = memory[rows + groups : rows + groups + families]
            self._tuned = memory[rows + groups + families :].copy()

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

    @property
    def differing(self) -> bool:
        """Whether answers about the same records have different published numbers, so that the table is impossible."""
        rows = np.flatnonzero(self.state.classes)
        order = rows[np.argsort(self.state.classes[rows])]
        classes, numbers = self.state.classes[order], self.state.rows[order, NOISY]
        return bool(np.any((classes[1:] == classes[:-1]) & (numbers[1:] != numbers[:-1])))

    def sweep(self, moves: int) -> int:
        """Take `moves` steps; returns how many changed the table."""
        if self._real_rows:
            self.load(self.counts.copy())
        # Where a family of them keeps precise answers, a share looks at the table.
        looking = int(moves * OCCUPIED_SHARE) if self.target.moves.whole else 0
        changed = int(sweep(self._none, moves - looking, self._family, self.concave, self.state))
        if changed >= 0 and looking:
            more = int(take_occupied_moves(looking, self._family, self.concave, self.state, self._occupied_moves))
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
        """Look for a table behind walls, by lines within softer ones (`fall_and_rise`); whether one was taken."""
        start = self.counts.copy()
        taken = fall_and_rise(self.state, moves, self._family, self.concave)
        if not taken:
            self.load(start)
        return taken

    def disperse(self, sweeps: int = 5) -> bool:
        """Scatter a start, so that chains begin apart; whether the laws of the noise allow the table that it ends at."""
        # Where they forbid answers, these cost a price, which rises; so do answers about the same records with different numbers.
        # Elsewhere, or if that fails (`forbidden`), the noise is flattened for a few sweeps.
        moves = max(self.target.fiber.invariants.dimension, 1)
        walls = any(term.windows is not None for term in self.target.terms)
        if walls:
            start = self.counts.copy()
            self.load(start)
            forbidden = raise_the_price(self.state, lambda: self.sweep(max(moves // 10, 10)))
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
