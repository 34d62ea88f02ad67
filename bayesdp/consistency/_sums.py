"""Exact sums: pairs of parts must agree on what both are sums of.

General integer matrices: exact values against the left kernel, by exact arithmetic.

Answers that exact values leave no choice: those that no random table which the exact values do not see can move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import gcd

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpz_mat
from scipy.sparse.linalg import lsqr

from bayesdp._nested import NestedSums
from bayesdp._text import printable
from bayesdp._validate import MAX_COUNT
from bayesdp.frames import Frame
from bayesdp.measurements import Exact
from bayesdp.queries import MatrixPart, Query, SumPart

type Ints = npt.NDArray[np.int64]


def meet(one: SumPart, other: SumPart) -> SumPart | None:
    """The finest sums that are sums of both parts' answers; None where their group labels cross."""
    keep = []
    for axis, (a, b) in enumerate(zip(one.levels, other.levels, strict=True)):
        if a is None or b is None:
            continue
        codes_a, codes_b = one.codes[axis], other.codes[axis]
        coarse, fine, name = (codes_a, codes_b, a) if codes_a.max() <= codes_b.max() else (codes_b, codes_a, b)
        if np.unique(np.stack([coarse, fine]), axis=1).shape[1] > int(fine.max()) + 1:
            return None
        keep.append(name)
    return SumPart(one.frame, tuple(keep))


def row_map(part: SumPart, coarse: SumPart) -> Ints:
    """For each answer of a part, the answer of a coarser part that it is summed into."""
    # Dimension by dimension, without the cells: there may be thousands of them to an answer.
    kept = [axis for axis, level in enumerate(part.levels) if level is not None]
    sizes = [int(part.codes[axis].max()) + 1 for axis in kept]
    target = np.zeros(sizes, dtype=np.int64)
    for place, axis in enumerate(kept):
        if coarse.levels[axis] is not None:
            labels = np.empty(sizes[place], dtype=np.int64)
            labels[part.codes[axis]] = coarse.codes[axis]
            target *= int(coarse.codes[axis].max()) + 1
            target += labels.reshape([-1 if other == axis else 1 for other in kept])
    return target.reshape(-1)


def summed(part: SumPart, values: Ints, coarse: SumPart) -> Ints:
    """Add up the answers of a part to those of a coarser one."""
    if float(np.abs(values).astype(np.float64).sum()) >= MAX_COUNT:
        raise ValueError(f"the exact values by {_kept(part)} add up to 2**53 or more; counts must be smaller")
    sums = np.zeros(coarse.rows, dtype=np.int64)
    np.add.at(sums, row_map(part, coarse), values)
    return sums


def _kept(part: SumPart) -> str:
    return printable(" × ".join(part.keep)) if part.keep else "grand total"


def _told(part: SumPart, common: SumPart, row: int, value: int) -> str:
    """One side of a contradiction in words: which published rows, and what they come to."""
    if part.rows == common.rows:
        return f"the published {printable(common.names[row])} is {value}"
    terms = [printable(part.names[int(i)]) for i in np.flatnonzero(row_map(part, common) == row)]
    more = f" + ... ({len(terms) - 3} more)" if len(terms) > 3 else ""
    return f"by {_kept(part)}, {' + '.join(terms[:3])}{more} is {value}"


def check_pair(one: SumPart, ours: Ints, other: SumPart, theirs: Ints) -> None:
    """Check that two parts agree on what both are sums of; labels that cross are not compared."""
    common = meet(one, other)
    if common is None:
        return
    first, second = summed(one, ours, common), summed(other, theirs, common)
    wrong = np.flatnonzero(first != second)
    if wrong.size:
        row = int(wrong[0])
        more = f" ({wrong.size - 1} more such rows)" if wrong.size > 1 else ""
        raise ValueError(
            f"exact values contradict one another at {printable(common.names[row])}: "
            f"{_told(one, common, row, int(first[row]))}, but "
            f"{_told(other, common, row, int(second[row]))}{more}"
        )


type ExactPart = tuple[SumPart | MatrixPart, Ints]

_LARGEST_KERNEL = 4_000_000
"""Matrices with more entries than this, equal columns merged, are left to the fiber's own check."""

_MOST_NAMED = 600
"""Matrices with more rows than this: a contradiction is found, but naming its rows would take too long."""


def equalities(exact: Iterable[Exact]) -> list[ExactPart]:
    """The parts of all equalities, each with its own values."""
    equal = [item for item in exact if item.sign == "="]
    return [(part, item.values.reshape(-1)[rows]) for item in equal for part, rows in item.query.placed_parts]


def distinct_columns(matrix: sp.csr_array) -> Ints:
    """The different columns of a sparse matrix, dense; equal columns say the same thing once."""
    columns = sp.csc_array(matrix)
    columns.sort_indices()
    found: dict[bytes, int] = {}
    for j in range(columns.shape[1]):
        entries = slice(columns.indptr[j], columns.indptr[j + 1])
        found.setdefault(columns.indices[entries].tobytes() + b"|" + columns.data[entries].tobytes(), j)
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
    values = np.concatenate([answers for _, answers in parts])
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
    for stated, values in known:
        if stated == part:
            return values
        if isinstance(stated, SumPart) and isinstance(part, SumPart):
            common = meet(stated, part)
            if common is not None and common.rows == part.rows:
                return summed(stated, values, part)
    return _combined(part, known) if combine else None


def _combined(part: SumPart | MatrixPart, known: Sequence[ExactPart]) -> Ints | None:
    """The exact answers of a part as they follow from several exact parts together, by exact linear algebra; None if not."""
    if not part.matrix.count_nonzero():  # a relation that the answers of a query have in every table
        return np.zeros(part.rows, dtype=np.int64)
    if not known:
        return None
    stated = sp.csr_array(sp.vstack([p.matrix for p, _ in known], format="csr"))
    values = np.concatenate([t for _, t in known])
    answers = []
    for row in range(part.rows):
        columns = distinct_columns(sp.csr_array(sp.vstack([stated, part.matrix[[row]]], format="csr")))
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


type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]

_MOST_ENTRIES = 2 * 10**7
"""Of larger matrices of exact values, only sums over nested labels are looked at, without cells that are known besides."""

_ZERO = 1e-8
"""Of the length of an answer's weights: three random tables of normal numbers move one that varies by less once in 1e12 times."""


def determined_answers(query: Query, exact: Iterable[Exact], known: Mask | None = None) -> Mask:
    """Which answers follow from equal exact ones by adding and subtracting, and from cells that are known for whatever reason."""
    # All are found; of exact values with more than 20 million terms, those that follow from nested sums, or from known cells.
    listed = tuple(exact)
    if known is None and not any(True for _ in equalities(listed)):
        return np.zeros(query.rows, dtype=np.bool_)
    return unmoved(query, *unseen_tables(query.frame, listed, known))


def unseen_tables(frame: Frame, exact: Iterable[Exact], known: Mask | None = None) -> tuple[Floats, Mask]:
    """Three random tables that equal exact answers do not see, shape (3, cells), and the cells that are known, shape (cells,)."""
    cells = np.zeros(frame.size, dtype=np.bool_) if known is None else np.array(known, dtype=np.bool_).reshape(-1)
    parts = list(dict.fromkeys(part for part, _ in equalities(exact)))
    for part in [part for part in parts if isinstance(part, MatrixPart)]:
        alone = (
            np.diff(part.matrix.indptr) == 1
        )  # what only says what single cells are leaves the structure of sums as it is
        cells[part.matrix[np.flatnonzero(alone)].indices] = True
        if alone.all():
            parts.remove(part)
    make = _unseen if frame.size <= 10**6 else _unseen.__wrapped__  # kept, as one summary asks about many queries
    return make(Query(frame, tuple(parts)), np.packbits(cells).tobytes()), cells


def unmoved(query: Query, tables: Floats, cells: Mask) -> Mask:
    """Which answers random tables do not move, or are about known cells only."""
    found = [np.zeros(0, dtype=np.bool_)]
    for part in query.parts:
        moved = np.abs(_answers(part, tables)).max(axis=1)
        squares = _answers(part, np.stack([np.ones(cells.size), ~cells]), 2)
        found.append((moved <= _ZERO * np.sqrt(squares[:, 0])) | (squares[:, 1] == 0.0))
    return np.concatenate(found)


def _answers(part: SumPart | MatrixPart, tables: Floats, power: int = 1) -> Floats:
    """Answers about tables, shape (tables, cells), by the weights or a power of them: shape (rows, tables)."""
    if isinstance(part, SumPart):
        return (
            np.asarray(part.apply(tables.reshape(-1, *part.frame.shape)), dtype=np.float64).reshape(len(tables), -1).T
        )
    return np.asarray(part.matrix.astype(np.float64).power(power) @ tables.T)


@lru_cache(maxsize=4)
def _unseen(stated: Query, known: bytes) -> Floats:
    """Three random tables that the stated sums do not see and that are 0 in known cells, shape (3, cells)."""
    frame = stated.frame
    open_ = np.unpackbits(np.frombuffer(known, np.uint8), count=frame.size) == 0
    tables = np.random.default_rng(0).standard_normal((3, *frame.shape))
    sums = [part for part in stated.parts if isinstance(part, SumPart)]
    nested = NestedSums.of(sums) if sums else None
    large = frame.size * len(stated.parts) > _MOST_ENTRIES
    if nested is not None and (large or (open_.all() and len(sums) == len(stated.parts))):
        return nested.project_null(tables).reshape(3, -1)
    flat = tables.reshape(3, -1)
    if stated.parts and not large:
        coarse = [part for part in sums if nested is not None and nested.level_of(part) not in nested.generators]
        parts = tuple(part for part in stated.parts if part not in coarse)  # sums of other sums say nothing new
        matrix = Query(frame, parts).matrix.astype(np.float64)
        pattern = abs(matrix).sign()
        while (alone := pattern @ open_ == 1.0).any():  # a cell that is alone in a sum is known with it
            open_ &= alone.astype(np.float64) @ pattern == 0.0
        lengths = np.sqrt(matrix.multiply(matrix).sum(axis=1))
        back = sp.csr_array((sp.diags_array(1.0 / np.where(lengths > 0.0, lengths, 1.0)) @ matrix[:, open_]).T)
        for _ in range(2):  # the second time takes away what rounding left
            seen = [lsqr(back, table, atol=1e-13, btol=1e-13)[0] for table in flat[:, open_]]
            flat[:, open_] -= (back @ np.stack(seen, axis=1)).T
    return np.where(open_, flat, 0.0)
