"""Reading a CSV file with the ``noise.json`` that says what its columns are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _text
from bayesdp._text import printable
from bayesdp._validate import nearest, shown
from bayesdp.consistency import warn_if_post_processed
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise.base import NoiseLaw
from bayesdp.privacy import Guarantee, StatisticGuarantee
from bayesdp.queries import Query, SumPart
from bayesdp.release import Release
from bayesdp.storage.csv_file import CsvFile, numbers, read_csv
from bayesdp.storage.guarded import cell_limit, damaged
from bayesdp.storage.noise_queries import query_description, table_description
from bayesdp.storage.noise_rows import ANSWER, Key, Layout, keys_of, title_of
from bayesdp.storage.noise_schema import check_noise_json, placed, read_noise_json
from bayesdp.storage.noise_writing import noise_path
from bayesdp.storage.schema import planned

type Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]
type Lines = dict[Key, tuple[int, tuple[str, ...]]]

_HOW = 'list it there as {"by": {...}} with its labels, or write "blank" for all empty fields; otherwise fill it in'


def read_noise_csv(
    path: str | os.PathLike[str],
    *,
    noise: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    max_cells: int | None = None,
) -> Release:
    """Read a release from a CSV file and its ``noise.json``.

    Parameters
    ----------
    path : path
        The CSV file.
    noise : path or mapping, optional
        The file that says what the columns are, or what it holds as plain data; by default that beside the CSV file, see
        `noise_path`.
    max_cells : int, optional
        As for `bayesdp.Release.from_netcdf`.


    Warns
    -----
    PostProcessedWarning
        As `bayesdp.Release.from_published`.
    """
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {str(target)!r}")
    if isinstance(noise, Mapping):
        name, size = "noise", target.stat().st_size
        text = _text.dumps(dict(noise), name)  # a private copy, and a proof that it is plain data
        description = _text.loads(text, name)
        with damaged(name):
            check_noise_json(description)
    else:
        sidecar = noise_path(target) if noise is None else Path(noise)
        if not sidecar.is_file():
            raise FileNotFoundError(
                f"there is no file {str(sidecar)!r}, which would say what the columns of {str(target)!r} are; name it with "
                "noise= (--noise)"
            )
        name, size = str(sidecar), target.stat().st_size + sidecar.stat().st_size
        with damaged(sidecar):
            description = read_noise_json(sidecar.read_text(encoding="utf-8-sig"), "the file")
    with damaged(name):
        plan = _planned(description, cell_limit(size, max_cells))
    _check_sum(target, description, name)
    release = _release(description, plan, target, name)
    if release.about == "counts":
        warn_if_post_processed(release.measurements, release.exact, release.law_check.groups)
    return release


@dataclass(frozen=True)
class _Plan:
    """The table, and the query of each part; of each noisy part its law, and the query of its invariants or None."""

    frame: Frame
    measured: list[Query]
    exact: list[Query]
    laws: list[NoiseLaw]
    invariants: list[Query | None]


def _planned(description: dict[str, Any], limit: int) -> _Plan:
    """Everything that the file says without a look at numbers; sizes are compared before anything large is made."""
    table = table_description(description["table"])
    with placed("$.table"):
        planned(_as_stored(table, [], []), limit)  # the size of the table alone
        frame = Frame.from_description(table)
    measured, exact = description.get("measured", []), description.get("exact", [])
    if not measured and not exact:
        raise ValueError("$ has neither 'measured' nor 'exact': nothing is published")
    queries: dict[str, dict[str, Any]] = {}
    for kind, entries in (("measured", measured), ("exact", exact)):
        for i, entry in enumerate(entries):
            queries[f"{kind}_{i}"] = query_description(entry["query"], frame, f"$.{kind}[{i}].query")
            if not queries[f"{kind}_{i}"]["parts"]:
                raise ValueError(f"$.{kind}[{i}].query.parts is empty: there is no query")
    kept = [
        None
        if entry.get("invariants") is None
        else query_description(entry["invariants"], frame, f"$.measured[{i}].invariants")
        for i, entry in enumerate(measured)
    ]
    stored_measured = [
        {"variable": f"measured_{i}", "name": None, "query": queries[f"measured_{i}"], "law": None, "invariants": own}
        for i, own in enumerate(kept)
    ]
    stored_exact = [{"variable": f"exact_{i}", "query": queries[f"exact_{i}"], "sign": "="} for i in range(len(exact))]
    plan = planned(_as_stored(table, stored_measured, stored_exact), limit)
    laws = []
    for i, entry in enumerate(measured):
        with placed(f"$.measured[{i}].law"):
            laws.append(NoiseLaw.from_description(entry["law"]))
    return _Plan(
        plan.frame,
        [plan.queries[f"measured_{i}"] for i in range(len(measured))],
        [plan.queries[f"exact_{i}"] for i in range(len(exact))],
        laws,
        [plan.invariants.get(f"measured_{i}") for i in range(len(measured))],
    )


def _as_stored(table: dict[str, Any], measured: list[dict[str, Any]], exact: list[dict[str, Any]]) -> dict[str, Any]:
    """What `bayesdp.storage.schema` plans by."""
    return {
        "about": "counts", "frame": table, "measurements": measured, "exact": exact, "mechanism": None, "guarantee": None,
        "simulated": False, "writer": "",
    }  # fmt: skip


def _check_sum(path: Path, description: dict[str, Any], name: str) -> None:
    stated = description.get("data", {}).get("sha256")
    if stated is not None and hashlib.sha256(path.read_bytes()).hexdigest() != stated:
        raise ValueError(
            f"{printable(path)}: it is not the file that {printable(name)} is about, whose checksum is $.data.sha256; take the two "
            "files that belong together, or remove the checksum if only the form of the file was changed"
        )


def _release(description: dict[str, Any], plan: _Plan, path: Path, name: str) -> Release:
    data = description.get("data", {})
    file = read_csv(path, data.get("ignored", ()))
    with damaged(name):
        layout = _layout(description, plan, file)
    table = _Values(file, layout, layout.lines(file))
    measurements, exact = [], []
    for i, (query, law, kept) in enumerate(zip(plan.measured, plan.laws, plan.invariants, strict=True)):
        entry, place = description["measured"][i], f"{name}: $.measured[{i}]"
        values, hidden = table.noisy(query, entry, place)
        with placed(place):
            invariants = None if kept is None else Invariants(kept, plan.frame)
            stated = entry.get("postprocessing")
            measurements.append(
                Measured(query, values, law, invariants, entry.get("name"), unmeasured=hidden, postprocessing=stated)
            )
    for i, query in enumerate(plan.exact):
        entry, place = description["exact"][i], f"{name}: $.exact[{i}]"
        values = table.exact(query, entry["column"], place)
        with placed(place):
            exact.append(Exact(query, values, entry.get("sign", "=")))
    table.check_all_used(name)
    return _made(description, plan.frame, measurements, exact, name)


def _made(
    description: dict[str, Any], frame: Frame, measurements: list[Measured], exact: list[Exact], name: str
) -> Release:
    about = description.get("about", "counts")
    guarantee, mechanism = description.get("guarantee"), description.get("mechanism")
    kind: type[Guarantee] = StatisticGuarantee if about == "statistics" else Guarantee
    with damaged(f"{name}: $.guarantee"):
        protects = None if guarantee is None else kind.from_dict(guarantee)
    with damaged(name):
        simulated = description.get("simulated", False)
        release = Release(frame, tuple(measurements), tuple(exact), mechanism, protects, simulated, about)
        release.check_feasible()
        release.check_stated()
    return release


def _layout(description: dict[str, Any], plan: _Plan, file: CsvFile) -> Layout:
    """Which column holds what; ValueError for columns that are missing, unknown or said to be two things."""
    table, data = description["table"], description.get("data", {})
    labelled: dict[str, str] = {}
    for kind, entries in (("dimensions", table["dimensions"]), ("groups", table.get("groups", []))):
        for i, entry in enumerate(entries):
            column = entry.get("column", entry["name"])
            if column in file.header:
                labelled[entry["name"]] = column
            elif "column" in entry:
                raise ValueError(f"$.table.{kind}[{i}].column: {_no_column(file, column)}")
    answers = data.get("answer_column")
    if answers is not None and answers not in file.header:
        raise ValueError(f"$.data.answer_column: {_no_column(file, answers)}")
    values = []
    for kind in ("measured", "exact"):
        for i, entry in enumerate(description.get(kind, [])):
            if entry["column"] not in file.header:
                raise ValueError(f"$.{kind}[{i}].column: {_no_column(file, entry['column'])}")
            values.append(entry["column"])
    single = [*labelled.values(), *([] if answers is None else [answers]), *dict.fromkeys(values)]
    twice = sorted({own for own in single if single.count(own) > 1})
    if twice:
        raise ValueError(f"$: the columns {shown(twice)} are said to hold several kinds of things; each holds one")
    unknown = [own for own in file.header if own not in single]
    if unknown:
        raise ValueError(
            f"$ says nothing of the columns {shown(unknown)} of {file.path.name}; if they are neither labels nor values, list them "
            "in $.data.ignored"
        )
    for kind, queries in (("measured", plan.measured), ("exact", plan.exact)):
        for i, query in enumerate(queries):
            _check_labelled(query, labelled, answers, f"$.{kind}[{i}].query", file)
    totals = {entry["name"]: entry["total"] for entry in table["dimensions"] if "total" in entry}
    made = Layout(plan.frame, labelled, totals, answers, data.get("labels", "plain") == "escaped")
    with placed("$.table"):
        made.known()
    return made


def _check_labelled(query: Query, labelled: dict[str, str], answers: str | None, place: str, file: CsvFile) -> None:
    """Each answer must be known by its labels."""
    keys = {keep for keep, _ in keys_of(query, escaped=False)}
    for keep in keys:
        if keep == (ANSWER,):
            if answers is None:
                raise ValueError(
                    f"{place} has linear combinations, and $.data.answer_column does not say where their names are"
                )
            continue
        missing = [name for name in keep if name not in labelled]
        if missing:
            raise ValueError(f"{place} is by {shown(missing)}: {_no_column(file, missing[0])}")


def _no_column(file: CsvFile, column: str) -> str:
    return f"there is no column {column!r} in {file.path.name}; its columns are {nearest(column, file.header)}"


class _Values:
    """The numbers of a CSV file by column and answer, each of which is used once."""

    def __init__(self, file: CsvFile, layout: Layout, lines: Lines) -> None:
        self.file, self.layout, self.lines = file, layout, lines
        self.used: dict[tuple[str, int], str] = {}

    def _fields(self, query: Query, column: str, place: str) -> list[tuple[int, str, str]]:
        """Line, name and text of each answer."""
        at, found, missing = self.file.column(column), [], []
        for key in keys_of(query, escaped=self.layout.escaped):
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

    def exact(self, query: Query, column: str, place: str) -> Values:
        """The exact answers."""
        cells = self._fields(query, column, place)
        for line, title, text in cells:
            if not text:
                raise ValueError(
                    f"{self.file.at(line, column)}: {title} has no value; what is exact needs one ({place})"
                )
        return numbers(self.file, cells, column).reshape(query.shape)

    def noisy(self, query: Query, entry: dict[str, Any], place: str) -> tuple[Values, npt.NDArray[np.bool_]]:
        """The noisy answers, NaN where there is none, and which of them were not published."""
        column, stated = entry["column"], entry.get("not_published", [])
        cells = self._fields(query, column, place)
        values = numbers(self.file, cells, column)
        blank = np.array([not text for _, _, text in cells], dtype=np.bool_)
        hidden = blank if stated == "blank" else self._stated(query, stated, f"{place}.not_published")
        for i in np.flatnonzero(blank & ~hidden)[:1]:
            line, title, _ = cells[i]
            raise ValueError(
                f"{self.file.at(line, column)}: {title} has no value, and {place}.not_published does not say that it was not "
                f"published: {_HOW}"
            )
        for i in np.flatnonzero(hidden & ~blank)[:1]:
            line, title, text = cells[i]
            raise ValueError(
                f"{self.file.at(line, column)}: {title} is {text!r}, and {place}.not_published says that it was not published"
            )
        return values.reshape(query.shape), hidden.reshape(query.shape)

    def _stated(self, query: Query, stated: list[dict[str, Any]], place: str) -> npt.NDArray[np.bool_]:
        """Which answers are listed as not published."""
        hidden = np.zeros(query.rows, dtype=np.bool_)
        if not stated:
            return hidden
        where: dict[Any, int] = {}
        for part, rows in query.placed_parts:
            if isinstance(part, SumPart):
                names = [frozenset(zip(part.keep, labels, strict=True)) for labels in product(*part.answer_labels)]
                where |= {labels: rows.start + i for i, labels in enumerate(names)}
            else:
                where |= {name: rows.start + i for i, name in enumerate(part.names)}
        for i, own in enumerate(stated):
            key = own["answer"] if "answer" in own else frozenset(own["by"].items())
            if key not in where:
                raise ValueError(f"{place}[{i}] is no answer of the query: {shown([own])}")
            if hidden[where[key]]:
                raise ValueError(f"{place}[{i}] is listed twice: {shown([own])}")
            hidden[where[key]] = True
        return hidden

    def check_all_used(self, name: str) -> None:
        """Refuse numbers, and lines, that belong to no query."""
        columns = {column: self.file.column(column) for column, _ in self.used}
        lines = {line for _, line in self.used}
        for key, (line, fields) in self.lines.items():
            if line not in lines:
                raise ValueError(f"{self.file.at(line)}: {printable(name)} has no query that asks for {title_of(key)}")
            for column, at in columns.items():
                if fields[at] and (column, line) not in self.used:
                    raise ValueError(
                        f"{self.file.at(line, column)}: no query of that column in {printable(name)} asks for {title_of(key)}, but "
                        f"there is {fields[at]!r}"
                    )
