"""Tables and queries as ``noise.json`` has them: by labels, where release files have positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesdp._validate import nearest, shown
from bayesdp.frames import Frame, Label
from bayesdp.queries import MatrixPart, Query, SumPart
from bayesdp.storage.noise_schema import placed


def described_query(query: Query) -> dict[str, Any]:
    """A query as ``noise.json`` has it.

    Examples
    --------
    >>> from bayesdp.queries import LinearQuery, Margins
    >>> labels = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> described_query(Margins(labels, ["county"]))
    {'kind': 'margin', 'by': ['county']}
    >>> described_query(LinearQuery(labels, [[0, 1, 0, -1]], ["gap"]))["answers"][0]["terms"][1]
    {'cell': ['Beta', 'High'], 'weight': -1}
    """
    parts = [_described_sum(part) if isinstance(part, SumPart) else _described_matrix(part) for part in query.parts]
    return parts[0] if len(parts) == 1 else {"kind": "stack", "parts": parts}


def _described_sum(part: SumPart) -> dict[str, Any]:
    if part.keep == part.frame.dims:
        return {"kind": "cells"}
    return {"kind": "margin", "by": list(part.keep)} if part.keep else {"kind": "total"}


def _described_matrix(part: MatrixPart) -> dict[str, Any]:
    frame, matrix = part.frame, part.matrix
    answers = []
    for row, name in enumerate(part.names):
        entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
        terms = [
            {"cell": _cell(frame, int(cell)), "weight": int(weight)}
            for cell, weight in sorted(zip(matrix.indices[entries], matrix.data[entries], strict=True))
        ]
        answers.append({"name": name, "terms": terms})
    unit = {} if part.unit == 1 else {"unit": str(part.unit)}
    return {"kind": "linear", **unit, "answers": answers}


def _cell(frame: Frame, position: int) -> list[Label]:
    return [own[int(i)] for own, i in zip(frame.labels, np.unravel_index(position, frame.shape), strict=True)]


def table_description(table: dict[str, Any]) -> dict[str, Any]:
    """The table of a checked ``noise.json``, as `bayesdp.frames.Frame.describe` has it."""
    dims = table["dimensions"]
    return {
        "dims": [own["name"] for own in dims],
        "labels": [own["labels"] for own in dims],
        "groups": [[own["name"], own["dimension"], own["labels"]] for own in table.get("groups", [])],
    }


def query_description(query: dict[str, Any], frame: Frame, place: str) -> dict[str, Any]:
    """A query of a checked ``noise.json``, as `bayesdp.queries.Query.describe` has it."""
    if query["kind"] == "stack":
        parts = [_part(own, frame, f"{place}.parts[{i}]") for i, own in enumerate(query["parts"])]
        return {"parts": parts}
    return {"parts": [_part(query, frame, place)]}


def _part(part: dict[str, Any], frame: Frame, place: str) -> dict[str, Any]:
    if part["kind"] == "cells":
        return {"sum": list(frame.dims)}
    if part["kind"] == "total":
        return {"sum": []}
    if part["kind"] == "margin":
        with placed(f"{place}.by"):
            if len(set(part["by"])) < len(part["by"]):
                raise ValueError(f"names are given twice: {shown(part['by'])}")
            SumPart(frame, tuple(part["by"]))
        return {"sum": part["by"]}
    return _matrix(part, frame, place)


def _matrix(part: dict[str, Any], frame: Frame, place: str) -> dict[str, Any]:
    where = [{label: i for i, label in enumerate(own)} for own in frame.labels]
    rows: list[int] = []
    cells: list[int] = []
    entries: list[int] = []
    for row, answer in enumerate(part["answers"]):
        for i, term in enumerate(answer["terms"]):
            cell, at = 0, f"{place}.answers[{row}].terms[{i}]"
            if len(term["cell"]) != len(where):
                raise ValueError(
                    f"{at}.cell must have a label of each of {shown(frame.dims)}, got {shown(term['cell'])}"
                )
            for dim, known, size, label in zip(frame.dims, where, frame.shape, term["cell"], strict=True):
                if label not in known:
                    raise ValueError(f"{at}.cell: {label!r} is no label of {dim!r}; labels are {nearest(label, known)}")
                cell = cell * size + known[label]
            if abs(term["weight"]) >= 2**53:
                raise ValueError(f"{at}.weight must be below 2**53 in absolute value")
            rows.append(row)
            cells.append(cell)
            entries.append(int(term["weight"]))
    names = [own["name"] for own in part["answers"]]
    found: dict[str, Any] = {"rows": rows, "cells": cells, "entries": entries, "names": names}
    return {**found, "unit": part["unit"]} if "unit" in part else found
