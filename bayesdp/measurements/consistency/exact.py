"""Exact values: whether they agree with one another and with noisy tables, and what follows from them.

Sums of cells that share labels are compared in pairs, at the finest labels that both add up to; general integer matrices by their left
kernel, in exact arithmetic. Answers that exact values leave no choice are those that no random table which the exact values do not see
can move. Cells that were published in several tables under a law that gives one cell one value are counted once, and never have two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import gcd

import numpy as np
import scipy.sparse as sp
from flint import fmpz_mat
from scipy.sparse.linalg import lsqr

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._nested import NestedSums
from bayesdp._text import printable
from bayesdp._validate import MAX_COUNT, shown
from bayesdp.frames import Frame
from bayesdp.measurements import Exact, Measured, described
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import LinearQuery, MatrixPart, Query, SumPart, rows_of
from bayesdp.queries.parts import ONE
from bayesdp.queries.query import has_negative_entry

type ExactPart = tuple[SumPart | MatrixPart, Ints]


def check_consistent(exact: Iterable[Exact]) -> None:
    """Check that no exact values about one table contradict one another, as linear equations; the rows are named.

    That counts are at least zero, and bounds, is for the fiber to check.
    """
    parts = equalities(exact)
    sums = [(part, values) for part, values in parts if isinstance(part, SumPart)]
    for (one, ours), (other, theirs) in combinations(sums, 2):
        check_pair(one, ours, other, theirs)
    # Nested sums that agree in pairs have a table. The space of tables is the orthogonal sum of one component
    # for each combination of levels (see NestedSums); the sums at levels g determine exactly the components
    # s <= g. Two parts both determine s just when s <= meet(g, h), so agreement of their sums at the meet is
    # agreement on all components that they share, and a table is put together component by component.
    nested = NestedSums.of([part for part, _ in sums]) if sums else None
    if parts and (nested is None or len(sums) < len(parts)):
        check_kernel(parts)


def check_noisy_keeps_invariants(measured: Measured, exact: Iterable[Exact]) -> None:
    """Check that a noisy table has the exact values that its noise, by its law, cannot have changed."""
    # `measured`: under a lattice or projected law, with its invariants. `exact`: what the release publishes exactly.
    kept = measured.noise_invariants
    if kept is None:
        return
    known = equalities(exact)
    # Binary64 projections are good to 1e-15 of the sizes summed; tables printed with six decimals pass too.
    size = float(np.abs(measured.values).sum())
    slack = 0.0 if measured.law.integer else min(1e-9 * size + 1e-6 * measured.values.size, 0.25)
    answers = np.asarray(measured.values).reshape(kept.frame.shape)
    for part in kept.query.parts:
        values = implied(_of_table(part, measured.query), known)
        if values is None:
            raise ValueError(
                f"the noise of the law {measured.law.name!r} keeps {part.names[0]!r}, but the release "
                "publishes no exact value that it follows from; add it as an Exact part (for lattice noise "
                "the noisy table has it: Exact(query, query.apply(noisy)))"
            )
        noisy = part.apply(answers).reshape(-1)
        wrong = np.flatnonzero(np.abs(noisy - values) > slack)
        if wrong.size:
            row = int(wrong[0])
            more = f" ({wrong.size - 1} more such rows)" if wrong.size > 1 else ""
            raise ValueError(
                f"a table under the law {measured.law.name!r} keeps its invariants, but at "
                f"{printable(part.names[row])} the published exact total is {values[row]} and the noisy total is "
                f"{noisy[row].item()!r}{more}; the noisy table was changed after the noise was added, or "
                "another law applies"
            )


def _of_table(part: SumPart | MatrixPart, query: Query) -> SumPart | MatrixPart:
    """A combination of the answers of a query as a combination of the cells of its table."""
    if query.is_identity:
        return part
    if isinstance(part, SumPart):
        return SumPart(query.frame, part.keep)
    largest = (abs(part.matrix).astype(np.float64) @ abs(query.matrix).astype(np.float64)).max()
    if largest >= 2.0**53:
        raise ValueError(
            f"the weights of the exact values ({shown(part.names, 3)}) times those of the query that they are about are 2**53 or "
            "more, which are not held exactly: state the exact values with smaller weights"
        )
    [combination] = LinearQuery(query.frame, part.matrix @ query.matrix, part.names).parts
    return combination


def implied_answers(query: Query, exact: Iterable[Exact]) -> Mask:
    """Which answers of a query are published, or sums of published answers of one part; linear combinations row by row.

    For others that follow from exact values see `determined_answers`.
    """
    known = equalities(exact)
    found = [np.full(part.rows, implied(part, known, combine=False) is not None) for part in query.parts]
    open_parts = [
        (part, answers)
        for part, answers in zip(query.parts, found, strict=True)
        if isinstance(part, MatrixPart) and not answers.all()
    ]
    wanted = {row for part, _ in open_parts for row in rows_of(part.matrix)}
    if wanted:
        published = {row for stated, _ in known for row in rows_of(stated.matrix) if row in wanted}
        for part, answers in open_parts:
            answers |= np.array([row in published for row in rows_of(part.matrix)], dtype=np.bool_)
    return np.concatenate(found)


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
        # What only says what single cells are leaves the structure of sums as it is.
        alone = np.diff(part.matrix.indptr) == 1
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


type Key = tuple[bytes, bytes, Fraction, NoiseLaw]
"""Cells and weights of an answer, its unit, and its law."""

_NAMED = 3


FALSE_ALARMS = 1e-6
"""Probability, at most, that a release whose numbers do follow their law is warned about, whatever the true table."""


class PostProcessedWarning(UserWarning):
    """The published numbers look clipped, rounded or made consistent after the noise was added, or as if they were of two tables."""


class CountedOnceWarning(UserWarning):
    """A cell was published several times with one perturbation, and is counted once."""


def counted_once(
    measurements: Iterable[Measured], earlier: Iterable[Measured] = (), exact: Iterable[Exact] = ()
) -> tuple[tuple[Measured, ...], str | None]:
    """Measurements in which no cell counts twice that has one perturbation; and which cells are counted once, or None.

    Offices that perturb by cell keys give the same records the same perturbation in each table (`NoiseLaw.same_cell_same_value`):
    the second time it says nothing new. Two answers are the same cell if they are the same linear combination: a margin of an axis
    with one label, a table or total published twice, a total whose other cells are known by `exact` to be empty. Answers that are
    there before, or in `earlier`, come back as unmeasured. Independent noise is left as it is: these are two measurements.
    """
    first: dict[Key, tuple[float, Measured]] = {}
    measurements, earlier = list(measurements), list(earlier)
    keyed = any(measured.law.same_cell_same_value for measured in (*measurements, *earlier))
    empty = _known_empty(exact if keyed else ())
    for known in earlier:
        for _, key, value in _keyed_answers(known, empty):
            first.setdefault(key, (value, known))
    kept, said = list[Measured](), list[str]()
    for measured in measurements:
        copies = []
        for place, key, value in _keyed_answers(measured, empty):
            if key not in first:
                first[key] = value, measured
                continue
            before, where = first[key]
            if before != value:
                raise ValueError(
                    f"{measured.query.answer_name(place)} is published with two values, {before} in the {_table(where)} and {value} "
                    f"in the {_table(measured)}; but by the law {measured.law.name!r} one cell has one perturbation in all tables. "
                    "Either a number is wrong, the tables are of different versions, or they are about different records (another "
                    "population, another date): then they are no answers about one table"
                )
            copies.append(place)
        kept += [measured] if not copies else _without(measured, copies)
        said += [] if not copies else [_words(measured, copies)]
    if not said:
        return tuple(kept), None
    return tuple(kept), (
        f"{'; '.join(said)}. By the law one cell has one perturbation in all tables that it is published in, so that a second "
        "table with the same number says nothing new: it is counted once"
    )


def _known_empty(exact: Iterable[Exact]) -> Ints:
    """Cells of sums of counts that are exactly 0, or at most."""
    found = [np.zeros(0, dtype=np.int64)]
    for part in exact:
        if part.sign != ">=":
            none = (part.values.reshape(-1) == 0) & ~has_negative_entry(part.query)
            if none.any():
                found.append(part.query.matrix[np.flatnonzero(none)].nonzero()[1].astype(np.int64))
    return np.unique(np.concatenate(found))


def _keyed_answers(measured: Measured, empty: Ints) -> Iterator[tuple[int, Key, float]]:
    """Place, key and value of the published answers of a measurement whose law gives one cell one value."""
    if not measured.law.same_cell_same_value:
        return
    query, law = measured.query, measured.law
    published, values = ~measured.unmeasured.reshape(-1), measured.values.reshape(-1)
    place = 0
    for part in query.parts:
        unit = part.unit if isinstance(part, MatrixPart) else ONE
        held = part.matrix
        if empty.size:
            others = held.copy()
            others.data[np.isin(others.indices, empty)] = 0
            alone = abs(others).sum(axis=1) == 0  # about nobody: told apart by their cells
            held = others + held.multiply(np.asarray(alone).reshape(-1, 1)).tocsr()
        for row in rows_of(sp.csr_array(held)):
            if published[place]:
                yield place, (*row, unit, law.of_answer(place, query.shape)), values[place].item()
            place += 1


def _without(measured: Measured, places: Sequence[int]) -> list[Measured]:
    """The measurement with some answers unmeasured; nothing where none is left."""
    hidden = measured.unmeasured.reshape(-1).copy()
    hidden[list(places)] = True
    if hidden.all():
        return []
    mask = hidden.reshape(measured.unmeasured.shape)
    values = np.where(mask, np.nan, measured.values)
    return [Measured(measured.query, values, measured.law, measured.invariants, measured.name, unmeasured=mask)]


def _words(measured: Measured, places: Sequence[int]) -> str:
    named = ", ".join(measured.query.answer_name(place) for place in places[:_NAMED])
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return f"{len(places)} of the {_table(measured)} published before with the same value ({named}{more})"


def _table(measured: Measured) -> str:
    return described(measured.query) + ("" if measured.name is None else f" named {measured.name!r}")
