"""Starts where laws end or have gaps: a forbidden answer costs a price, which is raised until none is left.

Neither the table that such a run begins with nor the walls between possible tables matter much: chains end far apart. What is found
is possible by the tabulated laws; that nothing is found does not say that there is nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bayesdp.fibers.kernel import state as columns
from bayesdp.fibers.kernel.state import IMPOSSIBLE, State

__all__ = ["raise_the_price"]

type Ints = npt.NDArray[np.int64]

_LAST, _TIMES, _GAP = 12.0, 120, 3.0
"""The last price, after how many steps it is reached, and how many of it an answer in a gap costs at least."""

_MORE = 0.05
"""From then on answers that stay forbidden cost so much more at each step. A price that rises for all freezes the table while a few
answers in 100,000 are forbidden; one that rises for these moves what is wrong about until it meets its like."""

_LONGEST = 3_000
"""Steps after which no more are taken."""

_ROOM = 12
"""How far beyond its law an answer may go: longer lines take longer to draw from."""

_ENDS = (
    columns.WINDOW_BELOW,
    columns.WINDOW_ABOVE,
    columns.ROW_LOWER,
    columns.ROW_UPPER,
    columns.WINDOW_BENT,
    columns.WINDOW_WEIGHT,
)


def raise_the_price(state: State, move: Callable[[], object], first: float = 0.1) -> bool:
    """Move a table while the price rises; whether the laws allow the one that it ends at. The state has its laws again."""
    # `move`: a tenth of a sweep or so. `first`: the first price of a unit beyond the end of a law. Rows without windows, and
    # limits of single cells, stay as they are.
    rows = np.flatnonzero(state.rows[:, columns.WINDOW_LENGTH] > 0.0)
    places = np.ix_(rows, _ENDS)
    laws, ends, costs = state.windows.copy(), state.rows[places], state.rows[places]
    below, above = np.isneginf(ends[:, :2]).T
    low = state.rows[rows, columns.WINDOW_LOW]
    high = low + state.rows[rows, columns.WINDOW_LENGTH] - 1.0
    forbidden = laws <= IMPOSSIBLE / 2.0
    least = float(laws[~forbidden].min(initial=0.0))
    costs[:, 4] = 1.0
    try:
        for tried in range(_LONGEST):
            price = first * (_LAST / first) ** min(tried / _TIMES, 1.0)
            value = state.rows[rows, columns.VALUE]
            state.windows[forbidden] = least - _GAP * price
            costs[below, 0], costs[above, 1] = -price, -price
            costs[below, 2] = np.minimum(low - _ROOM, value)[below]
            costs[above, 3] = np.maximum(high + _ROOM, value)[above]
            state.rows[places] = costs
            move()
            value = state.rows[rows, columns.VALUE]
            gap = forbidden[
                state.rows[rows, columns.WINDOW_START].astype(np.int64)
                + (np.clip(value, low, high) - low).astype(np.int64)
            ]
            wrong = (below & (value < low)) | (above & (value > high)) | gap
            if not wrong.any():
                return True
            if tried >= _TIMES:
                costs[wrong, 5] += _MORE
        return False
    finally:
        state.windows[:] = laws
        state.rows[places] = ends
