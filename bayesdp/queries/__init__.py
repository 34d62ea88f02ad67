"""Linear queries of a table, with labelled answers.

A query is built from parts. Two kinds of part are enough: sums of the cells that share labels (`SumPart`, which
covers the identity, margins and totals, and never needs a matrix), and an explicit sparse integer matrix
(`MatrixPart`). `Identity`, `Margins`, `Totals` and `LinearQuery` are the names that users meet.
"""

from bayesdp.queries.parts import MatrixPart, SumPart, combined_answers, rows_of, shown_unit
from bayesdp.queries.query import (
    CellNames,
    Identity,
    LinearQuery,
    Margins,
    Query,
    Totals,
    answer_labels,
    cell_list,
    sets_of_records,
)

__all__ = [
    "CellNames", "Identity", "LinearQuery", "Margins", "MatrixPart", "Query", "SumPart", "Totals", "answer_labels", "cell_list",
    "combined_answers", "rows_of", "sets_of_records", "shown_unit",
]  # fmt: skip
