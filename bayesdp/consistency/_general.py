"""General integer matrices: exact values against the left kernel, by exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

import numpy as np
import scipy.sparse as sp
from flint import fmpz_mat

from bayesdp._text import printable
from bayesdp.consistency._sums import Ints, meet, summed
from bayesdp.measurements import Exact
from bayesdp.queries import MatrixPart, SumPart

type ExactPart = tuple[SumPart | MatrixPart, Ints]

_LARGEST_KERNEL = 4_000_000
"""Matrices with more entries than this, equal columns merged, are left to the fiber's own check."""

_MOST_NAMED = 600
"""Matrices with more rows than this: a contradiction is found, but naming its rows would take too long."""


def equalities(exact: Iterable[Exact]) -> list[ExactPart]:
    """The parts of all equalities, each with its own values."""
    found: list[ExactPart] = []
    for item in exact:
        if item.sign == "=":
            start, values = 0, item.values.reshape(-1)
            for part in item.query.parts:
                found.append((part, values[start : start + part.rows]))
                start += part.rows
    return found


def distinct_columns(matrix: sp.csr_array) -> Ints:
    """The different columns of a sparse matrix, dense; equal columns say the same thing once."""
    columns = sp.csc_array(matrix)
    columns.sort_indices()
    found: dict[bytes, int] = {}
    for j in range(columns.shape[1]):
        own = slice(columns.indptr[j], columns.indptr[j + 1])
        found.setdefault(columns.indices[own].tobytes() + b"|" + columns.data[own].tobytes(), j)
    if len(found) * columns.shape[0] > _LARGEST_KERNEL:
        return np.zeros((0, 0), dtype=np.int64)
    return np.asarray(columns[:, list(found.values())].toarray(), dtype=np.int64)


def left_kernel(columns: Ints) -> list[list[int]]:
    """Short integer vectors ``y`` that span ``{y : y^T columns = 0}``, by exact arithmetic."""
    vectors, nullity = fmpz_mat(columns.T.tolist()).nullspace()
    if not nullity:
        return []
    basis = [_primitive([int(vectors[i, j]) for i in range(columns.shape[0])]) for j in range(nullity)]
    # LLL makes the vectors short, so that a message names few rows.
    return [_primitive([int(v) for v in row]) for row in fmpz_mat(basis).lll().tolist()]


def _primitive(vector: list[int]) -> list[int]:
    """The shortest integer vector in the same direction."""
    divisor = gcd(*vector)
    return [v // divisor for v in vector]


def check_kernel(parts: Sequence[ExactPart]) -> None:
    """General matrices: ``A x = t`` has a solution just when ``y^T A = 0`` implies ``y^T t = 0``."""
    matrix = sp.csr_array(sp.vstack([part.matrix for part, _ in parts], format="csr"))
    columns = distinct_columns(matrix)
    if not columns.size:
        return
    values = np.concatenate([own for _, own in parts])
    augmented = np.column_stack([columns, values]).tolist()
    if fmpz_mat(columns.tolist()).rank() == fmpz_mat(augmented).rank():
        return
    if len(values) > _MOST_NAMED:
        raise ValueError("exact values contradict one another: no table, even of negative counts, has all of them")
    names = [printable(name) for part, _ in parts for name in part.names]
    broken = [y for y in left_kernel(columns) if sum(c * int(t) for c, t in zip(y, values, strict=True))]
    rows = min(broken, key=lambda y: sum(c != 0 for c in y))
    terms = [(c, names[i], int(values[i])) for i, c in enumerate(rows) if c]
    # Written as (what is added) = (what is taken away), both with their published numbers.
    sides = [[(abs(c), name, t) for c, name, t in terms if c * sign > 0] for sign in (1, -1)]
    texts = [" + ".join(name if c == 1 else f"{c} {name}" for c, name, _ in side) or "0" for side in sides]
    first, second = (sum(c * t for c, _, t in side) for side in sides)
    raise ValueError(
        f"exact values contradict one another: {texts[0]} must equal {texts[1]} in every table, but the "
        f"published values give {first} and {second}"
    )


def implied(part: SumPart | MatrixPart, known: Sequence[ExactPart], *, combine: bool = True) -> Ints | None:
    """The exact answers of a part as they follow from the exact values, or None where they do not."""
    # Without `combine`, only from a single exact part: quick, and enough for display.
    for own, values in known:
        if own == part:
            return values
        if isinstance(own, SumPart) and isinstance(part, SumPart):
            common = meet(own, part)
            if common is not None and common.rows == part.rows:
                return summed(own, values, part)
    return _combined(part, known) if combine else None


def _combined(part: SumPart | MatrixPart, known: Sequence[ExactPart]) -> Ints | None:
    """The exact answers of a part as they follow from several exact parts together, by exact linear algebra; None if not."""
    if not part.matrix.count_nonzero():  # a relation that the answers of a query have in every table
        return np.zeros(part.rows, dtype=np.int64)
    if not known:
        return None
    own = sp.csr_array(sp.vstack([p.matrix for p, _ in known], format="csr"))
    values = np.concatenate([t for _, t in known])
    answers = []
    for row in range(part.rows):
        columns = distinct_columns(sp.csr_array(sp.vstack([own, part.matrix[[row]]], format="csr")))
        y = next((y for y in left_kernel(columns) if y[-1]), None) if columns.size else None
        if y is None:
            return None
        answer, rest = divmod(-sum(c * int(t) for c, t in zip(y[:-1], values, strict=True)), y[-1])
        if rest:
            return None
        if abs(answer) >= 2**63:
            raise ValueError(f"the exact values imply {part.names[row]}, a number of 2**63 or more in absolute value")
        answers.append(answer)
    return np.array(answers, dtype=np.int64)
