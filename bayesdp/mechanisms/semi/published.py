"""Exact answers that a mechanism of Semi-DP is made for: they are public before the release, and part of its description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import integer_array
from bayesdp.fibers import Fiber
from bayesdp.invariants import Invariants
from bayesdp.queries import Query
from bayesdp.release import Exact
from bayesdp.sensitivities.spans import determine_the_same

type Answers = tuple[tuple[int, ...], ...]
"""For each part of the invariants its answers, in the order of the query."""


def published_answers(invariants: Invariants, given: Any) -> Answers:
    """The answers to the invariants out of a fiber, exact answers, or one list of numbers for each part."""
    if isinstance(given, (str, Mapping, Exact)) or not isinstance(given, (Fiber, Iterable)):
        raise TypeError(f"published must be a list of Exact answers, or a Fiber, got {type(given).__name__}")
    parts = [Query(invariants.frame, (part,)) for part in invariants.query.parts]
    listed = given if isinstance(given, Fiber) else list(given)
    if isinstance(listed, list) and not all(isinstance(own, Exact) for own in listed):
        if len(listed) != len(parts):
            raise ValueError(
                f"published must have one list of answers for each of the {len(parts)} parts of the invariants, got {len(listed)}"
            )
        listed = [
            Exact(query, np.reshape(integer_array(own, "published", query.answer_name), query.shape))
            if np.size(own) == query.rows
            else _wrong_size(query, own)
            for query, own in zip(parts, listed, strict=True)
        ]
    fiber = listed if isinstance(listed, Fiber) else Fiber.of(listed, invariants.frame)
    if not fiber.frame.same_cells(invariants.frame):  # a fiber that was given
        raise ValueError("published must be about the same table as the invariants (same dimensions and labels)")
    if fiber.bounds_below or fiber.bounds_above:
        raise ValueError("published must be exact answers, but some of them are bounds (>= or <=)")
    if not fiber.equalities or not determine_the_same(invariants, fiber.invariants):
        raise ValueError(
            f"published must be the answers to the invariants, {invariants!r}, neither fewer nor more, got answers to "
            f"{fiber.invariants!r}"
        )
    point = fiber.find_point()
    return tuple(tuple(np.asarray(query.apply(point)).reshape(-1).tolist()) for query in parts)


def _wrong_size(query: Query, own: Any) -> Exact:
    raise ValueError(f"published must have {query.rows} answers to {query!r}, got {np.size(own)}")


def published_fiber(invariants: Invariants, answers: Answers) -> Fiber:
    """The tables with these answers."""
    parts = [Query(invariants.frame, (part,)) for part in invariants.query.parts]
    exact = [Exact(query, np.reshape(own, query.shape)) for query, own in zip(parts, answers, strict=True)]
    return Fiber.of(exact, invariants.frame)


def refuse_other(invariants: Invariants, answers: Answers, counts: npt.NDArray[np.int64]) -> None:
    """ValueError if a confidential table has other answers than those published; only what is public is shown."""
    for part, own in zip(invariants.query.parts, answers, strict=True):
        query = Query(invariants.frame, (part,))
        other = np.flatnonzero(np.asarray(query.apply(counts)).reshape(-1) != np.asarray(own))
        if other.size:
            row = int(other[0])
            raise ValueError(
                f"table must have the published answers that the noise is made for, but {query.answer_name(row)} is not "
                f"{own[row]}: give the mechanism the answers of this table"
            )
