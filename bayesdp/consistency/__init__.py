"""Whether exact values agree with one another, and noisy tables with them and with the law of their noise."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np
import numpy.typing as npt

from bayesdp._nested import NestedSums
from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.consistency._sums import (
    check_kernel,
    check_pair,
    determined_answers,
    equalities,
    implied,
    unmoved,
    unseen_tables,
)
from bayesdp.consistency.law_check import LawCheck, law_check, warn_of_law
from bayesdp.consistency.post_processed import (
    FALSE_ALARMS,
    PostProcessedWarning,
    check_not_made_consistent,
    made_consistent,
    signs_of_post_processing,
    warn_if_post_processed,
)
from bayesdp.consistency.same_cells import CountedOnceWarning, check_one_value, counted_once
from bayesdp.measurements import Exact, Measured
from bayesdp.queries import LinearQuery, MatrixPart, Query, SumPart, rows_of

__all__ = [
    "FALSE_ALARMS", "CountedOnceWarning", "LawCheck", "PostProcessedWarning", "check_consistent", "check_noisy_keeps_invariants",
    "check_not_made_consistent", "check_one_value", "counted_once", "determined_answers", "implied_answers", "law_check",
    "made_consistent", "signs_of_post_processing", "unmoved", "unseen_tables", "warn_if_post_processed", "warn_of_law",
]  # fmt: skip


def check_consistent(exact: Iterable[Exact]) -> None:
    """Check that no exact values contradict one another.

    Only equalities are looked at, and only as linear equations: that counts are at least zero, and bounds, is
    for the fiber to check.

    Parameters
    ----------
    exact : iterable of Exact
        About one table.


    Examples
    --------
    >>> from bayesdp.queries import Margins, Totals
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> check_consistent([Exact(Margins(table, ["county"]), [20, 30]), Exact(Totals(table), 51)])
    Traceback (most recent call last):
        ...
    ValueError: exact values contradict one another at total: by county, county=Alpha + county=Beta is 50, but
    the published total is 51
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


def implied_answers(query: Query, exact: Iterable[Exact]) -> npt.NDArray[np.bool_]:
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
