"""Arguments of `bdp.fit_parts`, checked: parts, what is above them, phases, and where a run is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bayesdp._validate import positive_integer, shown
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.inference.runs.fingerprint import difference
from bayesdp.inference.runs.journal_file import locked
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.streaming.arguments import check_prior
from bayesdp.streaming.parts import work
from bayesdp.streaming.parts.checkpoint import NAME, Standing, load
from bayesdp.streaming.parts.top import KnownAbove, NoisyAbove, above, cell_dims, parts_axis
from bayesdp.streaming.recording import named_queries

type Source = Release | Callable[[], Release]

_PHASE, _ALONE = 10, 100
"""Draws of a phase at most, where something couples the parts and where nothing does."""


def parts_of(parts: Any, prior: Any) -> tuple[list[Any], list[Source], list[CellPrior]]:
    """The labels of the parts, where each comes from, and its prior."""
    if not isinstance(parts, Mapping) or not parts:
        raise TypeError(f"parts must be releases by label, such as those of bdp.hierarchies.split, got {parts!r}")
    labels = list(parts)
    names = [str(label) for label in labels]
    wrong = [name for name in names if not name or "/" in name or name == "."]
    if wrong:
        raise ValueError(
            f"parts: labels name groups of the result, and {shown(wrong)} cannot (empty, '.', or with a slash)"
        )
    if len(set(names)) < len(names):
        raise ValueError("parts: two labels are the same in words; labels must differ as strings")
    for label, own in parts.items():
        if not isinstance(own, Release) and not callable(own):
            raise TypeError(f"parts: {label!r} must be a release, or a function that gives one, got {own!r}")
    if isinstance(prior, Mapping):
        lacking = [label for label in labels if label not in prior]
        if lacking:
            raise ValueError(f"prior: there is none for the parts {shown(lacking)}")
        priors = [prior[label] for label in labels]
    else:
        priors = [prior] * len(labels)
    for own in priors:
        check_prior(own)
    return labels, list(parts.values()), priors


def top_of(top: Any, labels: list[Any]) -> tuple[list[NoisyAbove], list[KnownAbove]]:
    """The noisy and the exact sums above the parts."""
    if top is None:
        return [], []
    if not isinstance(top, Release):
        raise TypeError(f"top must be a bayesdp.Release, got {type(top).__name__}")
    if top.about != "counts":
        raise ValueError("top is about statistics, which are real numbers; a hierarchy has counts in its cells")
    return above(top, labels)


def phase_of(phase: int | None, draws: int, *, coupled: bool) -> int:
    """Draws of a phase."""
    if phase is None:
        most = _PHASE if coupled else _ALONE
        return max(own for own in range(1, most + 1) if draws % own == 0)
    if draws % positive_integer(phase, "phase"):
        raise ValueError(f"draws must be a multiple of phase, got {draws} and {phase}")
    return phase


def recorded_of(record: Any, labels: list[Any]) -> tuple[dict[str, Query], int]:
    """The queries of parts by cells, and the dimension of the parts."""
    given = [record] if isinstance(record, Query) else list(record.values() if isinstance(record, Mapping) else record)
    frames = [own.frame for own in given if isinstance(own, Query)]
    if not given:
        return {}, 0
    if not frames:
        raise TypeError(f"record must hold queries (bdp.Margins, bdp.Totals, bdp.Identity), got {given[0]!r}")
    return named_queries(record, frames[0], ()), parts_axis(frames[0], labels, "record")


def dims_of_cells(
    labels: list[Any], top: Release | None, queries: dict[str, Query], axis: int
) -> tuple[str, ...] | None:
    """The dimensions of the cells, where something above the parts has them."""
    if top is not None:
        frame, axis = top.frame, parts_axis(top.frame, labels, "top")
    elif queries:
        frame = next(iter(queries.values())).frame
    else:
        return None
    return tuple(dim for i, dim in enumerate(frame.dims) if i != axis)


@contextmanager
def folder_of(folder: Any, *, resume: bool) -> Iterator[Path | None]:
    """Where the run is saved, made if there is none; no other process gets it meanwhile."""
    if folder is None:
        if resume:
            raise ValueError("resume needs the folder that the run was saved in")
        yield None
        return
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with locked(place / "lock"):
        if (place / NAME).exists() and not resume:
            raise FileExistsError(
                f"a run is saved in {str(place / NAME)!r}: go on with it by resume=True, or name another folder"
            )
        yield place


def check_dims(
    looks: list[work.Look], labels: list[Any], top: Release | None, queries: dict[str, Query], axis: int
) -> None:
    """Check that the tables of all parts, of what is above them and of what is recorded have the same cells."""
    first = looks[0].dims
    for own, label in zip(looks, labels, strict=True):
        if own.dims != first:
            raise ValueError(
                f"parts: the cells of {label!r} are not those of {labels[0]!r}; all parts need the same dimensions with the same "
                "labels in the same order, other than that of their leaves (which `leaves` can name)"
            )
    frames = {} if top is None else {"top": top.frame}
    if queries:
        frames["record"] = next(iter(queries.values())).frame
    for name, frame in frames.items():
        if cell_dims(frame, parts_axis(frame, labels, name)) != first:
            raise ValueError(
                f"{name}: its cells are not those of the parts; it needs the dimensions "
                f"{shown([dim for dim, _ in first])} with the same labels in the same order"
            )


def entropy_of(seed: Any) -> int:
    """A seed as one number."""
    if isinstance(seed, np.random.Generator):
        return int.from_bytes(seed.bytes(16))
    if seed is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    return int.from_bytes(np.random.default_rng(seed).bytes(16))


def going_on(place: Path, run: dict[str, Any], seed: Any) -> tuple[Standing, int]:
    """Where a saved run of the same arguments stands, and its seed; without `seed` it goes on with the one that it has."""
    standing, saved = load(place)
    differs = difference(saved, run | ({"seed": saved.get("seed")} if seed is None else {}))
    if differs:
        raise ValueError(f"the run in {str(place)!r} is another one: {differs}; name another folder")
    return standing, int(saved["seed"])
