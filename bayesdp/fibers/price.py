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

type Ints = npt.NDArray[np.int64]

_LAST, _RAISE, _GAP = 100.0, 1.05, 3.0
"""The last price, by how much it is raised, and how many of it an answer in a gap costs at least."""

_PATIENCE = (1, 2, 4, 8, 16, 32)
"""The price is raised in steps that are so many times smaller, if the steps before did not lead to a table."""

_LOOK = 5
"""Whether the table is possible is looked at after so many steps."""

_ENDS = (columns.WINDOW_BELOW, columns.WINDOW_ABOVE, columns.WINDOW_BENT, columns.ROW_LOWER, columns.ROW_UPPER)


def raise_the_price(state: State, move: Callable[[], object], first: float = 0.1) -> bool:
    """Move a table while the price rises; whether the laws allow the one that it ends at. The state has its laws again."""
    # `move`: a tenth of a sweep or so. `first`: the first price of a unit beyond the end of a law. Rows without windows, and
    # limits of single cells, stay as they are.
    rows = np.flatnonzero(state.rows[:, columns.WINDOW_LENGTH] > 0.0)
    laws, ends = state.windows.copy(), state.rows[np.ix_(rows, _ENDS)]
    forbidden = laws <= IMPOSSIBLE / 2.0
    least = float(laws[~forbidden].min(initial=0.0))
    try:
        state.rows[np.ix_(rows, _ENDS[2:])] = [1.0, -np.inf, np.inf]
        for patience in _PATIENCE:
            times = int(np.log(_LAST / first) / np.log(_RAISE) * patience)
            for tried, price in enumerate(np.geomspace(first, _LAST, times)):
                state.windows[forbidden] = least - _GAP * price
                for column, own in zip(_ENDS[:2], ends.T[:2], strict=True):
                    state.rows[rows, column] = np.where(np.isneginf(own), -price, own)
                move()
                if tried % _LOOK == 0 and _possible(state, rows, ends, forbidden):
                    return True
        return False
    finally:
        state.windows[:] = laws
        state.rows[np.ix_(rows, _ENDS)] = ends


def _possible(state: State, rows: Ints, ends: npt.NDArray[np.float64], forbidden: npt.NDArray[np.bool_]) -> bool:
    """Whether no answer is beyond an end of its law, or in a gap of it."""
    own = state.rows[rows]
    value, low = own[:, columns.VALUE], own[:, columns.WINDOW_LOW]
    length = own[:, columns.WINDOW_LENGTH]
    below, above = value < low, value >= low + length
    if np.any(below & np.isneginf(ends[:, 0])) or np.any(above & np.isneginf(ends[:, 1])):
        return False
    inside = ~(below | above)
    place = (own[:, columns.WINDOW_START] + value - low)[inside].astype(np.int64)
    return not forbidden[place].any()
