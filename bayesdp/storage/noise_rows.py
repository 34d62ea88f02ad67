"""How the answers of many queries stand in one CSV file: a line has the labels of an answer, and one column for each part.

A line is known by its labels: an empty field means that the answer adds up over that dimension. So a line without labels is the grand
total; and a linear combination has its name in a column of its own. One line may hold several answers, one in each column, and
one column may hold several queries, as cells and margins, where each has lines of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from bayesdp._text import csv_label, printable
from bayesdp._validate import nearest, shown
from bayesdp.frames import Frame
from bayesdp.queries import Query, SumPart
from bayesdp.storage.csv_file import CsvFile

type Key = tuple[tuple[str, ...], tuple[str, ...]]
"""What an answer is labelled by, and its labels as text; the name of a linear combination is labelled by `ANSWER`."""

ANSWER = ""
"""Stands for the name of a linear combination: dimensions have no empty names."""


def keys_of(query: Query, *, escaped: bool) -> Iterator[Key]:
    """The keys of the answers of a query, in order.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> list(keys_of(Margins({"county": ["Alpha", "Beta"], "year": [1990]}, ["county"], []), escaped=False))
    [(('county',), ('Alpha',)), (('county',), ('Beta',)), ((), ())]
    """
    written = csv_label if escaped else str
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
    labels = [*zip(frame.dims, frame.labels, strict=True), *((name, own) for name, _, own in frame.groups)]
    named = [
        (query, name)
        for query in queries
        for part in query.parts
        if not isinstance(part, SumPart)
        for name in part.names
    ]
    for dim, own in labels:
        different = set(own)
        texts = {csv_label(label) for label in different}
        if len(texts) < len(different) or any(text != text.strip() or not text for text in texts):
            raise ValueError(
                f"labels of {dim!r} differ only by type, are empty or have blanks around them, which one CSV file does not keep; "
                "use to_netcdf"
            )
    for _, name in named:
        if not name or csv_label(name) != csv_label(name).strip():
            raise ValueError(
                f"the answer {name!r} is empty or has blanks around it, which a CSV file does not keep; use to_netcdf"
            )
    for query in queries:
        keys = list(keys_of(query, escaped=True))
        if len(set(keys)) < len(keys):
            raise ValueError("a query asks twice for the same sum, which one column cannot hold; use to_netcdf")


@dataclass(frozen=True)
class Layout:
    """The columns of labels of a CSV file."""

    frame: Frame
    columns: dict[str, str]  # the column of each dimension and group that has one
    # What stands in the column of a dimension, beside an empty field, where all labels are added up.
    totals: dict[str, str]
    answers: str | None  # the column of the names of linear combinations
    escaped: bool  # whether labels are written by `csv_label`

    def _written(self, label: Any) -> str:
        return csv_label(label) if self.escaped else str(label)

    def known(self) -> dict[str, dict[str, None]]:
        """The labels of each dimension and group as text; ValueError if text does not tell them apart."""
        labels = [
            *zip(self.frame.dims, self.frame.labels, strict=True),
            *((name, own) for name, _, own in self.frame.groups),
        ]
        return {name: self._texts(name, own) for name, own in labels}

    def lines(self, file: CsvFile) -> dict[Key, tuple[int, tuple[str, ...]]]:
        """Line number and fields of each answer."""
        known = self.known()
        follows: dict[str, tuple[str, dict[str, str]]] = {}
        for name, dim, own in self.frame.groups:
            texts = map(self._written, self.frame.labels_of(dim))
            follows[name] = dim, dict(zip(texts, map(self._written, own), strict=True))
        places = {name: file.column(column) for name, column in self.columns.items()}
        answers = None if self.answers is None else file.column(self.answers)
        found: dict[Key, tuple[int, tuple[str, ...]]] = {}
        for line, fields in file.rows:
            labels = {
                name: fields[at] for name, at in places.items() if fields[at] and fields[at] != self.totals.get(name)
            }
            for name, text in labels.items():
                if text not in known[name]:
                    raise ValueError(
                        f"{file.at(line, self.columns[name])}: {text!r} is no label of {name!r}; labels are "
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

    def _texts(self, name: str, labels: Sequence[Any]) -> dict[str, None]:
        different = dict.fromkeys(labels)
        texts = dict.fromkeys(map(self._written, different))
        marks = {"", self.totals.get(name, "")}
        if len(texts) < len(different) or marks & set(texts):
            raise ValueError(
                f"labels of {name!r} differ only by type, are empty or stand for the sum, which a CSV file does not keep"
            )
        return texts

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
