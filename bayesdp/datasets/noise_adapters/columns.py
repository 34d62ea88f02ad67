"""Columns with their queries and laws as ``noise.json``: what the adapters share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bayesdp import _text
from bayesdp._validate import positive_real, shown
from bayesdp.frames import Frame
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import Query, SumPart
from bayesdp.storage.noise_json import NOISE_SCHEMA, check_noise_json, described_query


def checked_columns(columns: Any) -> dict[str, Query]:
    """Accept a mapping of the names of columns to queries of one table."""
    if not isinstance(columns, Mapping) or not all(isinstance(own, str) for own in columns):
        raise TypeError(f"columns must map the name of each published column to its query, got {columns!r}")
    for name, query in columns.items():
        if not isinstance(query, Query):
            raise TypeError(f"columns[{name!r}] must be a query such as Identity(table), got {type(query).__name__}")
    if not columns:
        raise ValueError("columns must name at least one published column")
    queries = list(columns.values())
    for name, query in columns.items():
        if not query.frame.same_cells(queries[0].frame):
            raise ValueError(f"columns[{name!r}] is about another table than {next(iter(columns))!r}")
    return dict(columns)


def parameter(value: Any, where: str) -> float:
    """Accept a scale in metadata: a finite number above zero.

    Raises
    ------
    TypeError, ValueError
        If it is something else; zero is no noise, which belongs under ``exact``.
    """
    if not isinstance(value, bool) and isinstance(value, (int, float)) and value == 0:
        raise ValueError(
            f"{where} is 0: no noise was added, so the column is exact; state it as an Exact part of a release"
        )
    return positive_real(value, where)


def columns_json(columns: Mapping[str, Query], laws: Sequence[NoiseLaw], notes: Iterable[str]) -> dict[str, Any]:
    """``noise.json`` of columns that stand in one CSV file, each with a law of its own."""
    queries = list(columns.values())
    frame: Frame = queries[0].frame
    linear = any(not isinstance(part, SumPart) for query in queries for part in query.parts)
    dimensions = [{"name": dim, "labels": list(own)} for dim, own in zip(frame.dims, frame.labels, strict=True)]
    groups = [{"name": name, "dimension": dim, "labels": list(own)} for name, dim, own in frame.groups]
    taken = {*columns, *frame.dims, *(name for name, _, _ in frame.groups)}
    if linear and "answer" in taken:
        raise ValueError(
            f"a column or dimension is called 'answer', the column of the names of linear combinations; got {shown(taken)}"
        )
    made = {
        "noise_json": NOISE_SCHEMA,
        **({"data": {"answer_column": "answer"}} if linear else {}),
        "table": {"dimensions": dimensions, **({"groups": groups} if groups else {})},
        "measured": [
            {"column": name, "query": described_query(query), "law": law.describe()}
            for (name, query), law in zip(columns.items(), laws, strict=True)
        ],
        "notes": list(notes),
    }
    plain: dict[str, Any] = _text.loads(_text.dumps(made, "noise.json"), "noise.json")
    check_noise_json(plain)
    return plain
