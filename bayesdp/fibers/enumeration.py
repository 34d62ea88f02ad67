"""List a small fiber, table by table: the oracle that every sampler is compared with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bayesdp.fibers.fiber import Fiber

type Ints = npt.NDArray[np.int64]


def enumerate_fiber(fiber: Fiber, limit: int = 1_000_000, *, work: int | None = None) -> Ints:
    """All tables of a fiber.

    Cells are filled one after the other; a partial table is dropped as soon as a row can no longer reach its value
    with what the remaining cells allow. Independent of moves and lattice bases, so it can judge them.

    Parameters
    ----------
    fiber : Fiber
        Every cell must be bounded.
    limit : int
        Largest number of tables.
    work : int, optional
        Largest number of partial tables looked at, many of which may lead nowhere; no limit if left out.

    Returns
    -------
    int64 array, shape ``(tables, *table)``


    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Totals
    >>> fiber = Fiber.of([Exact(Totals({"county": ["Alpha", "Beta"]}), 2)])
    >>> enumerate_fiber(fiber).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    lower, upper = (bound.reshape(-1) for bound in fiber.bounds())
    if np.any(upper < 0):
        cell = int(np.flatnonzero(upper < 0)[0])
        raise ValueError(f"cell {fiber.frame.cell_name(cell)} is unbounded: the fiber is infinite")
    rows, low, high = fiber.system.limited_rows()
    matrix = rows.toarray()
    least = np.where(matrix > 0, matrix * lower, matrix * upper)
    most = np.where(matrix > 0, matrix * upper, matrix * lower)
    # What the cells from position i on can still contribute to each row.
    rest_least = np.concatenate([np.cumsum(least[:, ::-1], axis=1)[:, ::-1], np.zeros((len(matrix), 1))], axis=1)
    rest_most = np.concatenate([np.cumsum(most[:, ::-1], axis=1)[:, ::-1], np.zeros((len(matrix), 1))], axis=1)
    looked_at = 0

    def fill(position: int, partial: npt.NDArray[np.float64], table: list[int]) -> Iterator[list[int]]:
        nonlocal looked_at
        looked_at += 1
        if work is not None and looked_at > work:
            raise ValueError(f"listing the fiber takes more than {work} partial tables")
        if np.any(partial + rest_least[:, position] > high + 1e-9) or np.any(
            partial + rest_most[:, position] < low - 1e-9
        ):
            return
        if position == len(lower):
            yield table
            return
        for value in range(int(lower[position]), int(upper[position]) + 1):
            yield from fill(position + 1, partial + matrix[:, position] * value, [*table, value])

    tables = []
    for table in fill(0, np.zeros(len(matrix)), []):
        tables.append(table)
        if len(tables) > limit:
            raise ValueError(f"the fiber has more than {limit} tables")
    return np.array(tables, dtype=np.int64).reshape(len(tables), *fiber.frame.shape)
