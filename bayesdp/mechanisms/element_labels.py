"""Labels of the elements of a symmetric matrix, by which it is known again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bayesdp._validate import shown
from bayesdp.frames import Frame


def _labels(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{first}:{other}" for i, first in enumerate(names) for other in names[i:])


def element_frame(names: Sequence[str]) -> Frame:
    """The upper triangle, row by row, as one dimension: ``a:a``, ``a:b``, ``b:b`` for variables a and b."""
    labels = _labels(names)
    if len(set(labels)) < len(labels):
        twice = sorted({label for label in labels if labels.count(label) > 1})
        raise ValueError(f"names must give each pair of variables a label of its own, but two pairs are {shown(twice)}")
    return Frame.of({"element": labels})


def variables_of(frame: Frame) -> tuple[str, ...] | None:
    """The variables whose covariances a frame of `element_frame` labels; None for another frame."""
    size = (math.isqrt(8 * frame.size + 1) - 1) // 2
    if frame.dims != ("element",) or size * (size + 1) // 2 != frame.size:
        return None
    # The label of a variance is the name twice, with a colon in the middle; that of row i is at position i (2 size - i + 1) / 2.
    variances = [str(frame.labels[0][i * (2 * size - i + 1) // 2]) for i in range(size)]
    names = tuple(label[: len(label) // 2] for label in variances)
    return names if _labels(names) == frame.labels[0] else None
