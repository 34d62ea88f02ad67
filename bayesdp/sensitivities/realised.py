"""Which differences occur between two tables of a fiber."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.fibers import Fiber
from bayesdp.fibers.enumeration import enumerate_fiber
from bayesdp.sensitivities.features import Features

type Ints = npt.NDArray[np.int64]

LIMIT = 5000
"""Fibers of more tables are not listed."""

_WORK = 200_000
_CELLS = 100


def realised(fiber: Fiber, differences: Ints) -> npt.NDArray[np.bool_]:
    """For each difference z with ``A z = 0``, a row of `differences`, whether the fiber has tables x and x + z.

    One-way margins: x must hold the records that z takes away, and the other records can be arranged as one likes, so
    that their number for each label has to be >= 0, and nothing else. Other fibers: by listing the tables;
    NotImplementedError if they are too many.
    """
    taken = np.maximum(-differences, 0)
    features = Features.of(fiber)
    if features is not None:
        good = np.ones(len(differences), dtype=np.bool_)
        for codes, margin in zip(features.codes, features.margins, strict=True):
            counts = np.zeros((len(taken), len(margin)), dtype=np.int64)
            np.add.at(counts.T, codes, taken.T)
            good &= np.all(counts <= margin, axis=1)
        return good
    if fiber.frame.size > _CELLS:
        raise NotImplementedError(
            f"which differences two tables of the fiber have is known for one-way margins, or by listing the fiber; a table of "
            f"{fiber.frame.size} cells is too large for that (the limit is {_CELLS}). Leave out realised_in"
        )
    try:
        tables = enumerate_fiber(fiber, LIMIT, work=_WORK).reshape(-1, fiber.frame.size)
    except ValueError as error:
        raise NotImplementedError(
            f"which differences two tables of the fiber have is known for one-way margins, or by listing the fiber: {error}. "
            "Leave out realised_in"
        ) from error
    if not fiber.bounds_below and not fiber.bounds_above:
        # x >= what z takes away is enough: x + z has the same exact answers.
        return np.array([bool(np.any(np.all(tables >= own, axis=1))) for own in taken], dtype=np.bool_)
    present = {own.tobytes() for own in tables}
    return np.array([any((x + z).tobytes() in present for x in tables) for z in differences], dtype=np.bool_)
