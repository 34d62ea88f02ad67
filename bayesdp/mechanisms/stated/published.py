"""Whether the exact answers that a mechanism's noise is made for are those that the release publishes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.queries import Query
from bayesdp.release import Release

__all__ = ["check_published"]


def check_published(description: Mapping[str, Any], release: Release) -> None:
    """Hold the key ``published`` of a mechanism, if it has one, against the exact parts of the release."""
    given = description.get("published")
    if given is None:
        return
    whole = {"invariants": release.invariants.describe(), **description}
    parts = Invariants.from_description(whole["invariants"], release.frame).query.parts
    exact: dict[Any, list[int]] = {}
    for own in release.exact:
        if own.sign == "=":
            flat, start = np.asarray(own.values).reshape(-1).tolist(), 0
            for part in own.query.parts:
                exact[part] = flat[start : start + part.rows]
                start += part.rows
    if not isinstance(given, list) or len(given) != len(parts):
        raise ValueError(
            f"published of a mechanism must have a list of answers for each of its {len(parts)} invariants"
        )
    for part, answers in zip(parts, given, strict=True):
        if part not in exact or answers != exact[part]:
            raise ValueError(
                f"the noise of the mechanism is made for published answers to {Query(release.frame, (part,))!r} that are not "
                "those among the exact parts of the release"
            )
