"""Writing a release as one CSV file with ``noise.json`` beside it."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import bayesdp
from bayesdp import _text
from bayesdp._text import csv_label
from bayesdp.measurements import Exact, Measured
from bayesdp.queries import SumPart
from bayesdp.release import Release
from bayesdp.storage.atomic import check_output, write_text
from bayesdp.storage.noise_queries import described_query
from bayesdp.storage.noise_rows import ANSWER, Key, check_writable, keys_of
from bayesdp.storage.noise_schema import NOISE_SCHEMA, check_noise_json

type _Parts = list[tuple[str, Measured | Exact]]


def noise_path(path: str | os.PathLike[str]) -> Path:
    """Where ``noise.json`` of a CSV file is if nothing else is said: beside it.

    Examples
    --------
    >>> noise_path("tables/counties.csv").name
    'counties.noise.json'
    """
    return Path(path).with_suffix(".noise.json")


def write_noise_csv(
    release: Release,
    path: str | os.PathLike[str],
    *,
    noise: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a release as one CSV file, and beside it ``noise.json``, which says what its columns are.

    Each file is there in full, or as it was. The second has a checksum of the first, so that a pair of which only one was
    replaced is noticed by whoever reads it.

    Parameters
    ----------
    release : Release
    path : path
        The CSV file.
    noise : path, optional
        Where ``noise.json`` goes; see `noise_path`.
    overwrite : bool
        Whether existing files are replaced.
    """
    release.check_stated()
    target, sidecar = Path(path), noise_path(path) if noise is None else Path(noise)
    if target.resolve() == sidecar.resolve():
        raise ValueError(f"noise must be another file than the table, got {str(sidecar)!r} for both")
    named = _named(release)
    check_writable(release.frame, [part.query for _, part in named])
    taken = {csv_label(name) for name in (*release.frame.dims, *(name for name, _, _ in release.frame.groups))}
    linear = any(not isinstance(own, SumPart) for _, part in named for own in part.query.parts)
    answers = _fresh("answer", {*taken, *(column for column, _ in named)}) if linear else None
    table = _table(release, named, answers)
    description = _description(release, named, answers, target.name, table)
    text = _text.dumps(description, "noise.json", indent=1)
    check_noise_json(_text.loads(text, "noise.json"))
    for file in (target, sidecar):
        if check_output(file, overwrite=overwrite).is_dir():
            raise IsADirectoryError(f"{str(file)!r} is a folder; name a file")
    write_text(target, table, overwrite=overwrite)
    try:
        write_text(sidecar, text + "\n", overwrite=overwrite)
    except BaseException:
        if not overwrite:  # it was not there before
            target.unlink(missing_ok=True)
        raise


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _named(release: Release) -> _Parts:
    """All parts with the columns that they stand in, noisy parts first."""
    taken = {csv_label(name) for name in (*release.frame.dims, *(name for name, _, _ in release.frame.groups))}
    parts: list[tuple[str, Measured | Exact]] = [(f"measured_{i}", own) for i, own in enumerate(release.measurements)]
    parts += [(f"exact_{i}", own) for i, own in enumerate(release.exact)]
    return [(_fresh(name, taken), own) for name, own in parts]


def _grouped(release: Release, named: _Parts) -> list[str]:
    """Groups that some answer is labelled by, in the order of the frame."""
    kept = {name for _, part in named for own in part.query.parts if isinstance(own, SumPart) for name in own.keep}
    return [name for name, _, _ in release.frame.groups if name in kept]


def _table(release: Release, named: _Parts, answers: str | None) -> str:
    """The CSV file: columns of labels, then one for each part."""
    names = [*release.frame.dims, *_grouped(release, named)]
    place = {name: i for i, name in enumerate(names)} | {ANSWER: len(names)}
    lead = len(names) + (answers is not None)
    rows: dict[Key, list[object]] = {}
    for i, (_, part) in enumerate(named):
        for key, value in zip(keys_of(part.query, escaped=True), _values(part), strict=True):
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


def _values(part: Measured | Exact) -> Iterator[object]:
    hidden = part.unmeasured.reshape(-1) if isinstance(part, Measured) else np.zeros(part.values.size, np.bool_)
    for value, blank in zip(part.values.reshape(-1).tolist(), hidden.tolist(), strict=True):
        yield "" if blank else value


def _description(release: Release, named: _Parts, answers: str | None, name: str, table: str) -> dict[str, Any]:
    frame = release.frame
    kept = _grouped(release, named)
    groups = [
        {"name": own, "dimension": dim, **({"column": csv_label(own)} if own in kept else {}), "labels": list(labels)}
        for own, dim, labels in frame.groups
    ]
    dimensions = [
        {"name": dim, "column": csv_label(dim), "labels": list(labels)}
        for dim, labels in zip(frame.dims, frame.labels, strict=True)
    ]
    data = {"file": name, "sha256": hashlib.sha256(table.encode()).hexdigest(), "labels": "escaped"}
    return {
        "noise_json": NOISE_SCHEMA,
        "data": data if answers is None else {**data, "answer_column": answers},
        "about": release.about,
        "table": {"dimensions": dimensions, **({"groups": groups} if groups else {})},
        "measured": [_measured(column, part) for column, part in named if isinstance(part, Measured)],
        "exact": [
            {"column": column, "query": described_query(part.query), "sign": part.sign}
            for column, part in named
            if isinstance(part, Exact)
        ],
        "mechanism": release.mechanism,
        "guarantee": None if release.guarantee is None else release.guarantee.to_dict(),
        "simulated": release.simulated,
        "writer": f"bayesdp {bayesdp.__version__}",
    }


def _measured(column: str, part: Measured) -> dict[str, Any]:
    """The entry of a noisy part."""
    hidden = [
        {"answer": labels[0]} if keep == (ANSWER,) else {"by": dict(zip(keep, labels, strict=True))}
        for (keep, labels), blank in zip(_labels(part), part.unmeasured.reshape(-1).tolist(), strict=True)
        if blank
    ]
    return {
        "column": column,
        "name": part.name,
        "query": described_query(part.query),
        "law": part.law.describe(),
        **({} if part.invariants is None else {"invariants": described_query(part.invariants.query)}),
        **({"not_published": hidden} if hidden else {}),
    }


def _labels(part: Measured) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...]]]:
    """What each answer is labelled by and its labels, not as text."""
    for own in part.query.parts:
        keep = own.keep if isinstance(own, SumPart) else (ANSWER,)
        for labels in product(*own.answer_labels):
            yield keep, labels
