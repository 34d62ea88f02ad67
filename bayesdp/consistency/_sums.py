"""Exact sums: pairs of parts must agree on what both are sums of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import MAX_COUNT
from bayesdp.queries import SumPart

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
            own = np.empty(sizes[place], dtype=np.int64)
            own[part.codes[axis]] = coarse.codes[axis]
            target *= int(coarse.codes[axis].max()) + 1
            target += own.reshape([-1 if other == axis else 1 for other in kept])
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


def check_pair(one: SumPart, own: Ints, other: SumPart, theirs: Ints) -> None:
    """Check that two parts agree on what both are sums of; labels that cross are not compared."""
    common = meet(one, other)
    if common is None:
        return
    first, second = summed(one, own, common), summed(other, theirs, common)
    wrong = np.flatnonzero(first != second)
    if wrong.size:
        row = int(wrong[0])
        more = f" ({wrong.size - 1} more such rows)" if wrong.size > 1 else ""
        raise ValueError(
            f"exact values contradict one another at {printable(common.names[row])}: "
            f"{_told(one, common, row, int(first[row]))}, but "
            f"{_told(other, common, row, int(second[row]))}{more}"
        )
