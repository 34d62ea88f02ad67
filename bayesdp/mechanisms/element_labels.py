"""Labels of the elements of a symmetric matrix, by which it is known again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bayesdp._validate import shown
from bayesdp.frames import Frame

_DIM = "element"


def element_frame(names: Sequence[str]) -> Frame:
    """The upper triangle, row by row, as one dimension: ``a:a``, ``a:b``, ``b:b`` for variables a and b."""
    labels = _labels(names)
    twice = sorted({own for own in labels if labels.count(own) > 1}) if len(set(labels)) < len(labels) else []
    if twice:
        raise ValueError(f"names must give each pair of variables a label of its own, but two pairs are {shown(twice)}")
    return Frame.of({_DIM: labels})


def _labels(names: Sequence[str]) -> list[str]:
    return [f"{first}:{other}" for i, first in enumerate(names) for other in names[i:]]


def variables_of(frame: Frame) -> tuple[str, ...] | None:
    """The variables whose covariances a frame of `element_frame` labels; None for another frame."""
    size = (math.isqrt(8 * frame.size + 1) - 1) // 2
    labels = tuple(map(str, frame.labels[0]))
    if frame.dims != (_DIM,) or size * (size + 1) // 2 != frame.size:
        return None
    # The label of a variance is the name twice, with a colon in the middle; that of row i is at position i (2 size - i + 1) / 2.
    variances = [labels[i * (2 * size - i + 1) // 2] for i in range(size)]
    names = tuple(own[: len(own) // 2] for own in variances)
    return names if tuple(_labels(names)) == frame.labels[0] else None
