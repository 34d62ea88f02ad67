"""The vertex of a polytope at which a linear form is greatest, for the kinds of vertices that tables have.

A linear program over the vertices never needs their list: only, step by step, the vertex on which a form is greatest.
Vertices come as

- a list, and their negatives;
- all differences of two of some points;
- the tables with zero margins that a few records make by trading places. Two records exchange their columns, which
  changes four cells (a 2 x 2 move); three do so in turn, which changes six (a 3-cycle).

For a table of forms W, and with ``gain(i, k) = max_j (W_ij - W_kj)``, what k records gain at best is the heaviest
closed walk of k steps over the rows. So the 10^5 vertices of a 10 x 10 table are searched in a thousand additions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

LISTED, DIFFERENCES, CIRCUITS = 0, 1, 2


@nb.njit(cache=True, error_model="numpy")
def best_vertex(
    kind: int, vectors: Floats, shape: Ints, form: Floats, heights: Floats, gains: Floats, steps: Ints, column: Floats
) -> tuple[float, int, int]:
    """Find a vertex with the greatest value of a form."""
    # `kind`: `LISTED`, `DIFFERENCES` or `CIRCUITS`. `vectors`, shape (n, count): one in each column: vertices, points, or the
    # coordinates of the unit tables in C order. `shape`, shape (3,): for circuits: rows, columns, and how many records, 2 or 3.
    # `form`, shape (n,). `heights`, `gains`, `steps`: scratch, shapes (count,), (rows, rows), (rows, rows). `column`, shape (n,):
    # overwritten by the vertex. Returns its value; for differences, which two points.
    heights[:] = 0.0
    for t in range(len(form)):
        for i in range(len(heights)):  # along the memory, so that this is done several entries at a time
            heights[i] += form[t] * vectors[t, i]
    if kind == CIRCUITS:
        return _best_circuit(vectors, shape, heights, gains, steps, column), 0, 0
    if kind == DIFFERENCES:
        top, bottom = int(np.argmax(heights)), int(np.argmin(heights))
        for t in range(len(form)):
            column[t] = vectors[t, top] - vectors[t, bottom]
        return heights[top] - heights[bottom], top, bottom
    best = 0
    for i in range(len(heights)):
        if abs(heights[i]) > abs(heights[best]):
            best = i
    sign = 1.0 if heights[best] >= 0.0 else -1.0
    for t in range(len(form)):
        column[t] = sign * vectors[t, best]
    return abs(heights[best]), best, 0


@nb.njit(cache=True, error_model="numpy")
def _best_circuit(vectors: Floats, shape: Ints, heights: Floats, gains: Floats, steps: Ints, column: Floats) -> float:
    rows, columns, records = shape
    for i in range(rows):
        for k in range(rows):
            # Staying in the row gains nothing; so two records are among the choices of three.
            gains[i, k] = 0.0
            if i != k:
                gains[i, k] = -np.inf
                for j in range(columns):
                    gain = heights[i * columns + j] - heights[k * columns + j]
                    if gain > gains[i, k]:
                        gains[i, k], steps[i, k] = gain, j
    best, first, second, third = -1.0, 0, 0, 0
    for i in range(rows):
        for k in range(i + 1, rows):
            gain = gains[i, k] + gains[k, i]
            if gain > best:
                best, first, second, third = gain, i, k, k
            if records == 3:
                for m in range(i + 1, rows):
                    gain = gains[i, k] + gains[k, m] + gains[m, i]
                    if gain > best:
                        best, first, second, third = gain, i, k, m
    column[:] = 0.0
    for up, down in ((first, second), (second, third), (third, first)):
        if up != down:
            j = steps[up, down]
            for t in range(len(column)):
                column[t] += vectors[t, up * columns + j] - vectors[t, down * columns + j]
    return best
