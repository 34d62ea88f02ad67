"""``noise.json``: its schema, its tables and queries by labels, and how the answers of many queries stand in one CSV file.

The JSON Schema file ``noise_schema_1.json`` beside this module is what others may validate with. It is checked by fastjsonschema,
which makes a function of it: a file of a megabyte takes half a second, and other libraries take several.

A line of the CSV file is known by its labels: an empty field means that the answer adds up over that dimension. So a line without
labels is the grand total; and a linear combination has its name in a column of its own. One line may hold several answers, one in
each column, and one column may hold several queries, as cells and margins, where each has lines of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

import numpy as np

from bayesdp import _text
from bayesdp._text import csv_label, printable
from bayesdp._validate import nearest, shown
from bayesdp.frames import Frame, Label
from bayesdp.queries import MatrixPart, Query, SumPart
from bayesdp.storage.csv_file import CsvFile, Row
from bayesdp.storage.guarded import damaged

NOISE_SCHEMA = 1
"""Version of the schema of ``noise.json`` that this version of bayesdp writes, the only one so far."""


def noise_json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 7) of ``noise.json``."""
    text = files("bayesdp.storage").joinpath(f"noise_schema_{NOISE_SCHEMA}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = _text.loads(text, "the schema of noise.json")
    return found


@cache
def _validator() -> Callable[[Any], Any]:
    import fastjsonschema

    made: Callable[[Any], Any] = fastjsonschema.compile(noise_json_schema(), use_default=False)
    return made


def check_noise_json(description: Any) -> None:
    """Check that plain data follow the schema of ``noise.json``; ValueError that names the place, as ``$.measured[0].law``."""
    from fastjsonschema import JsonSchemaValueException

    if not isinstance(description, dict):
        raise ValueError(f"$ must be an object, got {type(description).__name__}")
    version = description.get("noise_json")
    if version is None:
        raise ValueError("$ lacks 'noise_json', the version of the schema: this is no noise.json")
    if isinstance(version, int) and not isinstance(version, bool) and version > NOISE_SCHEMA:
        raise ValueError(
            f"$.noise_json is {version!r}, and this bayesdp reads version {NOISE_SCHEMA} only; upgrade bayesdp to read it"
        )
    if isinstance(version, bool) or version != NOISE_SCHEMA:
        raise ValueError(f"$.noise_json must be {NOISE_SCHEMA}, the version of the schema, got {shown([version])}")
    wrong = ""
    try:
        _validator()(description)
    except JsonSchemaValueException as error:
        wrong = printable(f"${str(error.message).removeprefix('data')}")[:_LONGEST]
    if wrong:
        raise ValueError(wrong)


_LONGEST = 400
"""Characters of what is said of one place."""


def described_query(query: Query) -> dict[str, Any]:
    """A query as ``noise.json`` has it."""
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
        terms = []
        for cell, weight in sorted(zip(matrix.indices[entries], matrix.data[entries], strict=True)):
            places = zip(frame.labels, np.unravel_index(cell, frame.shape), strict=True)
            terms.append({"cell": [labels[int(i)] for labels, i in places], "weight": int(weight)})
        answers.append({"name": name, "terms": terms})
    unit = {} if part.unit == 1 else {"unit": str(part.unit)}
    return {"kind": "linear", **unit, "answers": answers}


def described_table(frame: Frame, columns: Mapping[str, str]) -> dict[str, Any]:
    """A table as ``noise.json`` has it; `columns` are those of dimensions and groups in the CSV file, where they are stated."""

    def entry(name: str, labels: Sequence[Label], **dimension: str) -> dict[str, Any]:
        column = {"column": columns[name]} if name in columns else {}
        return {"name": name, **dimension, **column, "labels": list(labels)}

    dims = [entry(dim, labels) for dim, labels in zip(frame.dims, frame.labels, strict=True)]
    groups = [entry(name, labels, dimension=dim) for name, dim, labels in frame.groups]
    return {"dimensions": dims, **({"groups": groups} if groups else {})}


def table_description(table: dict[str, Any]) -> dict[str, Any]:
    """The table of a checked ``noise.json``, as `bayesdp.frames.Frame.describe` has it."""
    dims = table["dimensions"]
    return {
        "dims": [dim["name"] for dim in dims],
        "labels": [dim["labels"] for dim in dims],
        "groups": [[group["name"], group["dimension"], group["labels"]] for group in table.get("groups", [])],
    }


def query_description(query: dict[str, Any], frame: Frame, place: str) -> dict[str, Any]:
    """A query of a checked ``noise.json``, as `bayesdp.queries.Query.describe` has it."""
    if query["kind"] != "stack":
        return {"parts": [_part(query, frame, place)]}
    return {"parts": [_part(part, frame, f"{place}.parts[{i}]") for i, part in enumerate(query["parts"])]}


def _part(part: dict[str, Any], frame: Frame, place: str) -> dict[str, Any]:
    if part["kind"] == "cells":
        return {"sum": list(frame.dims)}
    if part["kind"] == "total":
        return {"sum": []}
    if part["kind"] == "margin":
        with damaged(f"{place}.by"):
            if len(set(part["by"])) < len(part["by"]):
                raise ValueError(f"names are given twice: {shown(part['by'])}")
            SumPart(frame, tuple(part["by"]))
        return {"sum": part["by"]}
    return _matrix(part, frame, place)


def _matrix(part: dict[str, Any], frame: Frame, place: str) -> dict[str, Any]:
    where = [{label: i for i, label in enumerate(labels)} for labels in frame.labels]
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
    names = [answer["name"] for answer in part["answers"]]
    found: dict[str, Any] = {"rows": rows, "cells": cells, "entries": entries, "names": names}
    return {**found, "unit": part["unit"]} if "unit" in part else found


type Key = tuple[tuple[str, ...], tuple[str, ...]]
"""What an answer is labelled by, and its labels as text; the name of a linear combination is labelled by `ANSWER`."""

ANSWER = ""
"""Stands for the name of a linear combination: dimensions have no empty names."""


def keys_of(query: Query, written: Callable[[Any], Any] = str) -> Iterator[Key]:
    """The keys of the answers of a query, in order, such as ``("county",), ("Alpha",)``, with labels as they are written."""
    for part in query.parts:
        keep = part.keep if isinstance(part, SumPart) else (ANSWER,)
        for labels in product(*part.answer_labels):
            yield keep, tuple(map(written, labels))


def title_of(key: Key) -> str:
    """An answer for messages."""
    keep, labels = key
    if keep == (ANSWER,):
        return printable(labels[0])
    return (
        printable(", ".join(f"{name}={label}" for name, label in zip(keep, labels, strict=True))) or "the grand total"
    )


def check_writable(frame: Frame, queries: Sequence[Query]) -> None:
    """Refuse labels that text in one CSV file would not tell apart; ValueError names them."""
    named = [name for query in queries for part in query.parts if not isinstance(part, SumPart) for name in part.names]
    for dim, labels in _labels(frame).items():
        different = set(labels)
        texts = {csv_label(label) for label in different}
        if len(texts) < len(different) or any(text != text.strip() or not text for text in texts):
            raise ValueError(
                f"labels of {dim!r} differ only by type, are empty or have blanks around them, which one CSV file does not keep; "
                "use to_netcdf"
            )
    for name in named:
        if not name or csv_label(name) != csv_label(name).strip():
            raise ValueError(
                f"the answer {name!r} is empty or has blanks around it, which a CSV file does not keep; use to_netcdf"
            )
    for query in queries:
        keys = list(keys_of(query, csv_label))
        if len(set(keys)) < len(keys):
            raise ValueError("a query asks twice for the same sum, which one column cannot hold; use to_netcdf")


def _labels(frame: Frame) -> dict[str, tuple[Label, ...]]:
    """The labels of each dimension and group."""
    return {**dict(zip(frame.dims, frame.labels, strict=True)), **{name: labels for name, _, labels in frame.groups}}


@dataclass(frozen=True)
class Layout:
    """The columns of labels of a CSV file."""

    frame: Frame
    columns: dict[str, str]  # the column of each dimension and group that has one
    # What stands in the column of a dimension, beside an empty field, where all labels are added up.
    totals: dict[str, str]
    answers: str | None  # the column of the names of linear combinations
    written: Callable[[Any], str]  # how labels are written

    def known(self) -> dict[str, dict[str, None]]:
        """The labels of each dimension and group with a column as text; ValueError if text does not tell them apart."""
        labels = _labels(self.frame)
        found = {}
        for name in self.columns:
            different = dict.fromkeys(labels[name])
            found[name] = dict.fromkeys(map(self.written, different))
            if len(found[name]) < len(different) or {"", self.totals.get(name, "")} & set(found[name]):
                raise ValueError(
                    f"labels of {name!r} differ only by type, are empty or stand for the sum, which a CSV file does not keep"
                )
        return found

    def lines(self, file: CsvFile) -> dict[Key, Row]:
        """Line number and fields of each answer."""
        known = self.known()
        follows: dict[str, tuple[str, dict[str, str]]] = {}
        for name, dim, uppers in self.frame.groups:
            texts = map(self.written, self.frame.labels_of(dim))
            follows[name] = dim, dict(zip(texts, map(self.written, uppers), strict=True))
        places = {name: file.column(column) for name, column in self.columns.items()}
        answers = None if self.answers is None else file.column(self.answers)
        found: dict[Key, Row] = {}
        for line, fields in file.rows:
            labels = {
                name: fields[at] for name, at in places.items() if fields[at] and fields[at] != self.totals.get(name)
            }
            for name, text in labels.items():
                if text not in known[name]:
                    raise ValueError(
                        f"{file.at(line, self.columns[name])}: {shown([text])} is no label of {name!r}; labels are "
                        f"{nearest(text, known[name])}"
                    )
            for name, (dim, group) in follows.items():
                if name in labels and dim in labels:
                    if group[labels[dim]] != labels[name]:
                        raise ValueError(
                            f"{file.at(line, self.columns[name])}: {name} of {dim}={printable(labels[dim])} is "
                            f"{group[labels[dim]]!r}, got {labels[name]!r}"
                        )
                    del labels[name]
            key = self._key(file, line, labels, "" if answers is None else fields[answers])
            if key in found:
                raise ValueError(f"{file.at(line)}: {title_of(key)} is there already, in line {found[key][0]}")
            found[key] = line, fields
        return found

    def _key(self, file: CsvFile, line: int, labels: dict[str, str], answer: str) -> Key:
        if answer:
            if labels:
                raise ValueError(
                    f"{file.at(line, self.answers)}: {answer!r} is a linear combination, which has no other labels"
                )
            return (ANSWER,), (answer,)
        by_dim = {name if name in self.frame.dims else self.frame.group(name)[0]: name for name in labels}
        if len(by_dim) < len(labels):
            raise ValueError(f"{file.at(line)}: of {shown(labels)} one line can have one only, or the dimension itself")
        keep = tuple(by_dim[dim] for dim in self.frame.dims if dim in by_dim)
        return keep, tuple(labels[name] for name in keep)
