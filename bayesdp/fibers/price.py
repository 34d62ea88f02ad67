"""A price on answers that laws forbid: starts where laws end or have gaps, and ways between tables that no line joins.

Starts: the price is raised until no forbidden answer is left. Neither the table that such a run begins with nor the walls between
possible tables matter much: chains end far apart. What is found is possible by the tabulated laws; that nothing is found does not
say that there is nothing.

Ways: from a possible table the price falls, from one that keeps nearly all tables possible to one that keeps few, and rises again.
The table at the end is taken or left so that the law of the table stays as it is (tempered transitions; Neal, Statistics and
Computing 6, 1996): lines are drawn without looking at the table, and steps along them from their law, which is reversible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._jit import compiled, inside
from bayesdp._random import exponential
from bayesdp.fibers.kernel.classes import apart
from bayesdp.fibers.kernel.state import (
    IMPOSSIBLE,
    NOISY,
    ROW_LOWER,
    ROW_UPPER,
    VALUE,
    WINDOW_ABOVE,
    WINDOW_BELOW,
    WINDOW_BENT,
    WINDOW_LENGTH,
    WINDOW_LOW,
    WINDOW_START,
    WINDOW_WEIGHT,
    State,
)
from bayesdp.fibers.kernel.sweep import sweep

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_FIRST, _LAST, _TIMES, _GAP, _DIFFERING = 0.1, 12.0, 120, 3.0, 0.25
"""The first and the last price, after how many steps this is reached, how many of it an answer costs that is in a gap, and one
with another number than others about the same records, at least. The last is less than one: an answer that must not be empty gets a
first record although it then is about the same one as some other answer, until a second comes."""

_MORE = 0.05
"""From then on answers that stay forbidden cost so much more at each step. A price that rises for all freezes the table while a few
answers in 100,000 are forbidden; one that rises for these moves what is wrong about until it meets its like."""

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
    below: npt.NDArray[np.bool_]  # whether a law ends below, and above, shape (rows,)
    above: npt.NDArray[np.bool_]
    forbidden: npt.NDArray[np.bool_]  # of each weight of the windows whether it is in a gap, shape (weights,)
    least: float  # the least weight that is in none


class _Priced:
    """The laws of a state, within which forbidden answers have a price; afterwards they are as they were."""

    def __init__(self, state: State) -> None:
        self._state, self._windows, self._differing = state, state.windows.copy(), state.differing.copy()
        rows = np.flatnonzero(state.rows[:, WINDOW_LENGTH] > 0.0)  # measured, by a law that is tabulated
        self._places = np.ix_(rows, _ENDS)
        self._ends = state.rows[self._places]
        forbidden = self._windows <= IMPOSSIBLE / 2.0
        least = float(self._windows[~forbidden].min(initial=0.0))
        below, above = np.isneginf(self._ends[:, :2]).T.copy()
        self.laws = _Laws(rows, below, above, forbidden, least)

    def __enter__(self) -> _Laws:
        self._state.rows[self._places[0], _ENDS[2:5]] = [1.0, -np.inf, np.inf]
        return self.laws

    def __exit__(self, *_: object) -> None:
        self._state.windows[:] = self._windows
        self._state.differing[:] = self._differing
        self._state.rows[self._places] = self._ends


def price_at(step: int) -> tuple[float, float]:
    """The price of a unit beyond the end of a law at a step, and how much more answers that stay forbidden cost after it."""
    return _FIRST * (_LAST / _FIRST) ** min(step / _TIMES, 1.0), _MORE if step >= _TIMES else 0.0


def raise_the_price(state: State, move: Callable[[], object]) -> Ints | None:
    """Move a table while the price rises; the rows that stay forbidden, dearest first; None if the laws allow the table at the end."""
    # `move`: a tenth of a sweep or so. At the end the state has its laws again.
    with _Priced(state) as laws:
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
    with _Priced(state) as laws:
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
        units = _units_of(i, laws, state)
        if units > 0.0:
            state.rows[laws.rows[i], WINDOW_WEIGHT] += more
        total += units
    return total


@inside
def _units_of(i: int, laws: _Laws, state: State) -> float:
    """How many times the price an answer costs."""
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
    return units
