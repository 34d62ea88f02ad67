"""Small tables at random, with groups of labels, and sums of them."""

from __future__ import annotations

import numpy as np

from bayesdp.frames import Frame
from bayesdp.queries import Query, SumPart


def random_table(rng: np.random.Generator, *, nested: bool) -> tuple[Frame, list[list[str | None]]]:
    """A small table, and for each dimension the names that a sum may keep of it; groups of unequal sizes."""
    dims = int(rng.integers(1, 4))
    labels: dict[str, object] = {}
    names: list[list[str | None]] = []
    for d in range(dims):
        size = int(rng.integers(1, (9, 6, 4)[dims - 1]))
        labels[f"d{d}"] = list(range(size))
        own: list[str | None] = [f"d{d}", None]
        code = np.arange(size)
        for g in range(int(rng.integers(0, 3))):
            code = rng.integers(0, size // 2 + 1, size=size)[code] if nested else rng.integers(0, 3, size=size)
            labels[f"g{d}{g}"] = (f"d{d}", [f"x{c}" for c in code])
            own.append(f"g{d}{g}")
        names.append(own)
    return Frame.of(labels), names


def random_sums(rng: np.random.Generator, frame: Frame, names: list[list[str | None]], most: int) -> Query:
    """One sum or several, each with labels of a dimension, of a group of them, or none."""
    kept = {
        tuple(name for own in names if (name := own[rng.integers(len(own))]) is not None)
        for _ in range(rng.integers(1, most + 1))
    }
    return Query(frame, tuple(SumPart(frame, own) for own in sorted(kept)))
