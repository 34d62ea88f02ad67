"""Differences of answers without a list of all differences of tables: cells that nothing tells apart count as one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.moves.bounded import bounded_kernel
from bayesdp.moves.listed import distinct_up_to_sign
from bayesdp.queries import Query, SumPart

type Ints = npt.NDArray[np.int64]

_MOST_NUMBERS = 30_000_000
"""Entries of the stacked matrix whose columns are compared."""


def answers_alone(query: Query, invariants: Invariants) -> bool:
    """Whether the differences of the answers are all those of a table of answers that keeps what the invariants say of it.

    So it is for one margin W if every exact sum is a sum of its answers, or is by dimensions that W sums over. A difference
    z of tables then gives W z, which is no longer and keeps the sums of answers. And every difference of answers that keeps
    them, and the number of records, is W z for a z of the same length: all records that leave or come have the same labels in
    the dimensions that W sums over, whose sums cancel.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"sex": ["F", "M"], "age": ["young", "old"], "county": ["Alpha", "Beta"]}
    >>> invariants = Invariants(Margins(table, ["sex"], ["county"]))
    >>> answers_alone(Margins(table, ["sex", "age"]), invariants)
    True
    >>> answers_alone(Margins(table, ["sex", "age"]), Invariants(Margins(table, ["sex", "county"])))
    False
    """
    if len(query.parts) != 1 or not isinstance(query.parts[0], SumPart):
        return False
    asked = query.parts[0].levels
    return all(
        isinstance(part, SumPart) and _inside_or_outside(part.levels, asked, query.frame)
        for part in invariants.query.parts
    )


def _inside_or_outside(exact: tuple[str | None, ...], asked: tuple[str | None, ...], frame: Frame) -> bool:
    """Whether each label kept by an exact sum is known from the answers, or all of them are of dimensions summed over."""
    pairs = [(dim, own, wide) for dim, own, wide in zip(frame.dims, exact, asked, strict=True) if own is not None]
    return all(wide in (own, dim) for dim, own, wide in pairs) or all(wide is None for _, _, wide in pairs)


def listed_answer_differences(query: Query, invariants: Invariants, radius: int, *, balanced: bool) -> Ints:
    """All differences ``W z`` with ``A z = 0`` of tables z up to a length, one of each pair u, -u, without zero.

    Cells with equal columns in A and in W are one cell: records that move between them change nothing, and a sum over them
    has at most the length of its terms. `radius` and `balanced` are as in `bayesdp.moves.bounded.bounded_kernel`.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"sex": ["F", "M"], "age": ["young", "middle", "old"]}
    >>> invariants = Invariants(Margins(table, ["sex"]))
    >>> listed_answer_differences(Margins(table, ["age"]), invariants, 1, balanced=True)
    array([[ 0,  1, -1],
           [ 1, -1,  0],
           [ 1,  0, -1]])
    """
    kept, asked = sp.csr_array(invariants.matrix), sp.csr_array(query.matrix)
    if (kept.shape[0] + asked.shape[0]) * invariants.frame.size <= _MOST_NUMBERS:
        columns = sp.vstack([kept, asked]).toarray().T
        chosen = np.sort(np.unique(columns, axis=0, return_index=True)[1])
        kept, asked = kept[:, chosen], asked[:, chosen]
    moved = bounded_kernel(kept, radius, balanced=balanced)
    found: Ints = distinct_up_to_sign(np.asarray((asked @ moved.T).T, dtype=np.int64))
    return found
