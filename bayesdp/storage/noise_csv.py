"""A release as one CSV file, and beside it ``noise.json``, which says what its columns are: written, and read."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from bayesdp import _text
from bayesdp._arrays import Mask
from bayesdp._text import csv_label, printable
from bayesdp._validate import nearest, shown
from bayesdp.frames import Frame
from bayesdp.measurements import Exact, Measured
from bayesdp.measurements.consistency import warn_if_post_processed
from bayesdp.measurements.parts import refused
from bayesdp.queries import Query, SumPart
from bayesdp.release import Release
from bayesdp.storage.atomic import check_output, replacing, write_text
from bayesdp.storage.csv_file import CsvFile, Row, numbers, read_csv
from bayesdp.storage.guarded import cell_limit, damaged, read_plain
from bayesdp.storage.noise_json import (
    ANSWER,
    NOISE_SCHEMA,
    Key,
    Layout,
    check_noise_json,
    check_writable,
    described_query,
    described_table,
    keys_of,
    query_description,
    table_description,
    title_of,
)
from bayesdp.storage.schema import build, describe, planned

type _Parts = list[tuple[str, Measured | Exact]]

_NAMED = 10_000
"""If more lines than this are missing from a file, they are not named."""

_HOW = 'list it there as {"by": {...}} with its labels, or write "blank" for all empty fields; otherwise fill it in'


def noise_path(path: str | os.PathLike[str]) -> Path:
    """Where ``noise.json`` of a CSV file is if nothing else is said: beside it, as ``counties.noise.json``."""
    return Path(path).with_suffix(".noise.json")


def write_noise_csv(
    release: Release,
    path: str | os.PathLike[str],
    *,
    noise: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a release as a CSV file and its ``noise.json``; see `bayesdp.Release.to_csv`."""
    # Each file is there in full, or as it was, and where one cannot be written, both are. ``noise.json`` gets its name first, and has
    # a checksum of the CSV file: a pair of which only one was replaced, by a process that was killed, is noticed by whoever reads it.
    stored = describe(release)
    target, sidecar = Path(path), noise_path(path) if noise is None else Path(noise)
    if target.resolve() == sidecar.resolve():
        raise ValueError(f"noise must be another file than the table, got {str(sidecar)!r} for both")
    taken = {csv_label(name) for name in (*release.frame.dims, *(name for name, _, _ in release.frame.groups))}
    parts: _Parts = [(f"measured_{i}", part) for i, part in enumerate(release.measurements)]
    parts += [(f"exact_{i}", part) for i, part in enumerate(release.exact)]
    named = [(_fresh(name, taken), part) for name, part in parts]
    check_writable(release.frame, [part.query for _, part in named])
    asked = [query for _, part in named for query in part.query.parts]
    linear = any(not isinstance(query, SumPart) for query in asked)
    answers = _fresh("answer", {*taken, *(column for column, _ in named)}) if linear else None
    kept = {name for query in asked if isinstance(query, SumPart) for name in query.keep}
    labelled = [*release.frame.dims, *(name for name, _, _ in release.frame.groups if name in kept)]
    table = _table(labelled, named, answers)
    data = {"file": target.name, "sha256": hashlib.sha256(table.encode()).hexdigest(), "labels": "escaped"}
    description = {
        "noise_json": NOISE_SCHEMA,
        "data": data if answers is None else {**data, "answer_column": answers},
        "about": release.about,
        "table": described_table(release.frame, {name: csv_label(name) for name in labelled}),
        "measured": [_measured(column, part) for column, part in named if isinstance(part, Measured)],
        "exact": [_exact(column, part) for column, part in named if isinstance(part, Exact)],
        **{key: stored[key] for key in ("mechanism", "guarantee", "simulated", "writer")},
    }
    text = _text.dumps(description, "noise.json", indent=1)
    check_noise_json(_text.loads(text, "noise.json"))
    check_output(sidecar, overwrite=overwrite)
    with replacing(target, overwrite=overwrite) as temporary:
        write_text(temporary, table)
        if target.exists():  # who may read it stays as it is
            temporary.chmod(target.stat().st_mode & 0o666)
        write_text(sidecar, text + "\n", overwrite=overwrite)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _table(names: list[str], named: _Parts, answers: str | None) -> str:
    """The CSV file: columns of labels, then one for each part."""
    place = {name: i for i, name in enumerate(names)} | {ANSWER: len(names)}
    lead = len(names) + (answers is not None)
    rows: dict[Key, list[object]] = {}
    for i, (_, part) in enumerate(named):
        values: list[object] = [*part.values.reshape(-1).tolist()]
        for hidden in np.flatnonzero(part.unmeasured) if isinstance(part, Measured) else ():
            values[hidden] = ""
        for key, value in zip(keys_of(part.query, csv_label), values, strict=True):
            row = rows.get(key)
            if row is None:
                row = rows[key] = [""] * (lead + len(named))
                for name, label in zip(*key, strict=True):
                    row[place[name]] = label
            row[lead + i] = value
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*map(csv_label, names), *([] if answers is None else [answers]), *(column for column, _ in named)])
    writer.writerows(rows.values())
    return text.getvalue()


def _exact(column: str, part: Exact) -> dict[str, Any]:
    """The entry of an exact part."""
    assumed = {} if part.assumption is None else {"assumption": part.assumption}
    return {"column": column, "query": described_query(part.query), "sign": part.sign, **assumed}


def _measured(column: str, part: Measured) -> dict[str, Any]:
    """The entry of a noisy part."""
    named = zip(_answers(part.query), part.unmeasured.reshape(-1).tolist(), strict=True)
    hidden = [answer for answer, blank in named if blank]
    return {
        "column": column,
        "name": part.name,
        "query": described_query(part.query),
        "law": part.law.describe(),
        **({} if part.invariants is None else {"invariants": described_query(part.invariants.query)}),
        **({"not_published": hidden} if hidden else {}),
    }


def _answers(query: Query) -> Iterator[dict[str, Any]]:
    """The answers of a query, in order, as ``not_published`` lists them."""
    for keep, labels in keys_of(query, lambda label: label):
        yield {"answer": labels[0]} if keep == (ANSWER,) else {"by": dict(zip(keep, labels, strict=True))}


def read_noise_csv(
    path: str | os.PathLike[str],
    *,
    noise: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    max_cells: int | None = None,
) -> Release:
    """Read a release from a CSV file and its ``noise.json``; see `bayesdp.Release.from_csv`."""
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {str(target)!r}")
    if isinstance(noise, Mapping):
        name, size = "noise", target.stat().st_size
        text = _text.dumps(dict(noise), name)  # a private copy, and a proof that it is plain data
        description = _text.loads(text, name)
    else:
        sidecar = noise_path(target) if noise is None else Path(noise)
        if not sidecar.is_file():
            raise FileNotFoundError(
                f"there is no file {str(sidecar)!r}, which would say what the columns of {str(target)!r} are; name it with "
                "noise= (--noise)"
            )
        name, size = str(sidecar), target.stat().st_size + sidecar.stat().st_size
        raw = sidecar.read_bytes()
        with damaged(name):
            description = read_plain(lambda: _text.loads(raw.decode("utf-8-sig"), "the file"), sidecar)
    limit = cell_limit(size, max_cells)
    with damaged(name):
        check_noise_json(description)
        stored = _as_stored(description, limit)
        planned(stored, limit)  # before the CSV file is read
    data = description.get("data", {})
    if "sha256" in data and hashlib.sha256(target.read_bytes()).hexdigest() != data["sha256"]:
        raise ValueError(
            f"{printable(target)}: it is not the file that {printable(name)} is about, whose checksum is $.data.sha256; take the two "
            "files that belong together, or remove the checksum if only the form of the file was changed"
        )
    file = read_csv(target, data.get("ignored", ()), sums=True)
    columns = _Columns(description, file, name)
    release = build(stored, columns, limit)
    columns.check_all_used()
    if release.about == "counts":
        warn_if_post_processed(release.measurements, release.exact, release.law_check.groups)
    return release


def _as_stored(description: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """A checked ``noise.json`` as `bayesdp.storage.schema` describes a release; sizes are compared before anything large is made."""
    table = table_description(description["table"])
    measured, exact = description.get("measured", []), description.get("exact", [])
    stored: dict[str, Any] = {
        "about": description.get("about", "counts"), "frame": table, "measurements": [], "exact": [],
        "mechanism": description.get("mechanism"), "guarantee": description.get("guarantee"),
        "simulated": description.get("simulated", False), "writer": "",
    }  # fmt: skip
    with damaged("$.table"):
        planned(stored, limit)  # the size of the table alone
        frame = Frame.from_description(table)
    if not measured and not exact:
        raise ValueError("$ has neither 'measured' nor 'exact': nothing is published")

    def asked(entry: Mapping[str, Any], place: str) -> dict[str, Any]:
        query = query_description(entry["query"], frame, f"{place}.query")
        if not query["parts"]:
            raise ValueError(f"{place}.query.parts is empty: there is no query")
        return query

    for i, entry in enumerate(measured):
        kept, query = entry.get("invariants"), asked(entry, f"$.measured[{i}]")
        stored["measurements"].append({
            "variable": f"measured_{i}", "name": entry.get("name"), "query": query, "law": entry["law"],
            "invariants": None if kept is None else query_description(kept, frame, f"$.measured[{i}].invariants"),
        })  # fmt: skip
    for i, entry in enumerate(exact):
        assumed = {"assumption": entry["assumption"]} if "assumption" in entry else {}
        query = asked(entry, f"$.exact[{i}]")
        stored["exact"].append({"variable": f"exact_{i}", "query": query, "sign": entry.get("sign", "="), **assumed})
    return stored


class _Columns:
    """The numbers of a CSV file by column and answer, each of which is used once; a `Numbers`."""

    def __init__(self, description: dict[str, Any], file: CsvFile, name: str) -> None:
        self.description, self.file, self.name = description, file, name
        self.written = csv_label if description.get("data", {}).get("labels", "plain") == "escaped" else str
        self.lines: dict[Key, Row] = {}
        self.used: dict[tuple[str, int], str] = {}

    def place(self, variable: str) -> tuple[dict[str, Any], str]:
        """The entry of a part, and its place for messages."""
        kind, _, number = variable.partition("_")
        return self.description[kind][int(number)], f"{self.name}: $.{kind}[{number}]"

    def naming(self, variable: str, what: str = "") -> AbstractContextManager[None]:
        return damaged(f"{self.place(variable)[1]}{what}" if variable else f"{self.name}{': $.' if what else ''}{what}")

    def check(self, frame: Frame, parts: Mapping[str, Query]) -> None:
        with damaged(self.name):
            layout = self._layout(frame, parts)
        self.lines = layout.lines(self.file)

    def _layout(self, frame: Frame, parts: Mapping[str, Query]) -> Layout:
        """Which column holds what; ValueError for columns that are missing, unknown or said to be two things."""
        table, header = self.description["table"], self.file.header
        of_labels = [(f"$.table.{kind}", table.get(kind, [])) for kind in ("dimensions", "groups")]
        of_values = [(f"$.{kind}", self.description.get(kind, [])) for kind in ("measured", "exact")]
        for place, entries in [*of_labels, *of_values]:
            for i, entry in enumerate(entries):
                if "column" in entry and entry["column"] not in header:
                    raise ValueError(f"{place}[{i}].column: {self._no_column(entry['column'])}")
        answers = self.description.get("data", {}).get("answer_column")
        if answers is not None and answers not in header:
            raise ValueError(f"$.data.answer_column: {self._no_column(answers)}")
        columns = {entry["name"]: entry.get("column", entry["name"]) for _, entries in of_labels for entry in entries}
        labelled = {name: column for name, column in columns.items() if column in header}
        values = {entry["column"]: None for _, entries in of_values for entry in entries}
        single = [*labelled.values(), *([] if answers is None else [answers]), *values]
        twice = sorted({column for column in single if single.count(column) > 1})
        if twice:
            raise ValueError(f"$: the columns {shown(twice)} are said to hold several kinds of things; each holds one")
        unknown = [column for column in header if column not in single]
        if unknown:
            raise ValueError(
                f"$ says nothing of the columns {shown(unknown)} of {self.file.path.name}; if they are neither labels nor values, "
                "list them in $.data.ignored"
            )
        for variable, query in parts.items():
            place = self.place(variable)[1].removeprefix(f"{self.name}: ") + ".query"
            for part in query.parts:
                if not isinstance(part, SumPart) and answers is None:
                    raise ValueError(
                        f"{place} has linear combinations, and $.data.answer_column does not say where their names are"
                    )
                missing = [name for name in part.keep if name not in labelled] if isinstance(part, SumPart) else []
                if missing:
                    raise ValueError(f"{place} is by {shown(missing)}: {self._no_column(missing[0])}")
        totals = {entry["name"]: entry["total"] for entry in table["dimensions"] if "total" in entry}
        made = Layout(frame, labelled, totals, answers, self.written)
        with damaged("$.table"):
            made.known()
        return made

    def _no_column(self, column: str) -> str:
        return f"there is no column {column!r} in {self.file.path.name}; its columns are {nearest(column, self.file.header)}"

    def values(self, variable: str, query: Query) -> tuple[Any, Any]:
        """The answers of a part, NaN where there is none, and which of them were not published."""
        entry, place = self.place(variable)
        column, processed = entry["column"], entry.get("postprocessing", "none")
        if processed != "none":
            raise ValueError(printable(f"{place}: {refused(processed, entry['law']['law'])}"))
        cells = self._fields(query, column, place)
        values = numbers(self.file, cells, column)
        blank = np.array([not text for _, _, text in cells], dtype=np.bool_)
        if variable.startswith("exact"):
            for i in np.flatnonzero(blank)[:1]:
                raise ValueError(
                    f"{self.file.at(cells[i][0], column)}: {cells[i][1]} has no value; what is exact needs one ({place})"
                )
            return values.reshape(query.shape), None
        stated = entry.get("not_published", [])
        hidden = blank if stated == "blank" else _stated(query, stated, f"{place}.not_published")
        for i in np.flatnonzero(blank != hidden)[:1]:
            line, title, text = cells[i]
            if blank[i]:
                raise ValueError(
                    f"{self.file.at(line, column)}: {title} has no value, and {place}.not_published does not say that it was not "
                    f"published: {_HOW}"
                )
            raise ValueError(
                f"{self.file.at(line, column)}: {title} is {shown([text])}, and {place}.not_published says that it was not published"
            )
        return values.reshape(query.shape), hidden.reshape(query.shape)

    def _fields(self, query: Query, column: str, place: str) -> list[tuple[int, str, str]]:
        """Line, name and text of each answer."""
        at, found, missing = self.file.column(column), [], []
        if query.rows > len(self.lines) + _NAMED:  # before they are all written down to see which ones
            raise ValueError(
                f"{printable(self.file.path)}: {place} has {query.rows} lines, of which {query.rows - len(self.lines)} are missing"
            )
        for key in keys_of(query, self.written):
            if key not in self.lines:
                missing.append(title_of(key))
                continue
            line, fields = self.lines[key]
            before = self.used.setdefault((column, line), place)
            if before != place:
                raise ValueError(
                    f"{self.file.at(line, column)}: {title_of(key)} is said to be a number of {before} and of {place}; a field is one"
                )
            found.append((line, title_of(key), fields[at]))
        if missing:
            raise ValueError(
                f"{printable(self.file.path)}: {place} has lines for {shown(missing, 3)}, which are missing; a number that was not "
                "published needs its line, with an empty field"
            )
        if len({line for line, _, _ in found}) < len(found):
            raise ValueError(f"{place}.query asks twice for the same sum, which one column cannot hold")
        return found

    def check_all_used(self) -> None:
        """Refuse numbers, and lines, that belong to no query."""
        name, columns = printable(self.name), {column: self.file.column(column) for column, _ in self.used}
        lines = {line for _, line in self.used}
        for key, (line, fields) in self.lines.items():
            if line not in lines:
                raise ValueError(f"{self.file.at(line)}: {name} has no query that asks for {title_of(key)}")
            for column, at in columns.items():
                if fields[at] and (column, line) not in self.used:
                    raise ValueError(
                        f"{self.file.at(line, column)}: no query of that column in {name} asks for {title_of(key)}, but "
                        f"there is {shown([fields[at]])}"
                    )


def _stated(query: Query, stated: list[dict[str, Any]], place: str) -> Mask:
    """Which answers are listed as not published."""
    hidden = np.zeros(query.rows, dtype=np.bool_)
    if not stated:
        return hidden

    def key_of(answer: dict[str, Any]) -> Any:
        return answer["answer"] if "answer" in answer else frozenset(answer["by"].items())

    where = {key_of(answer): i for i, answer in enumerate(_answers(query))}
    for i, answer in enumerate(stated):
        key = key_of(answer)
        if key not in where:
            raise ValueError(f"{place}[{i}] is no answer of the query: {shown([answer])}")
        if hidden[where[key]]:
            raise ValueError(f"{place}[{i}] is listed twice: {shown([answer])}")
        hidden[where[key]] = True
    return hidden
