"""What a release takes: counts and answers so small that everything about them is exact. Messages show no confidential number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import MAX_COUNT, exact_total, finite_array, integer_array
from bayesdp.frames import Frame
from bayesdp.queries import Query

__all__ = ["add_noise", "answers_of", "confidential_counts"]

type Ints = npt.NDArray[np.int64]


def confidential_counts(table: Any, frame: Frame) -> Ints:
    """The counts of a confidential table in the order of its frame; labelled values are matched by label."""
    # ValueError if labels do not match, a count is missing, negative, fractional or too large, or the counts add up to 2**53 or
    # more. The message names the cell and the rule, and no value.
    counts = integer_array(frame.align(table, "table"), "table", frame.cell_name, minimum=0, confidential=True)
    if exact_total(counts) >= MAX_COUNT:
        raise ValueError("table must have counts that add up to less than 2**53, but they do not")
    return counts


def answers_of(query: Query, counts: Ints) -> Ints:
    """The answers of a query to confidential counts."""
    # ValueError if one is 2**53 or more in absolute value: such numbers could not be published, nor have noise added to them,
    # exactly. The message names the answer, and no value.
    return integer_array(query.apply(counts), "answers of the table", query.answer_name, confidential=True)


def add_noise(answers: Ints, noise: npt.NDArray[Any], step: float, name_of: Callable[[int], str]) -> npt.NDArray[Any]:
    """Answers with noise of the same shape, added without any rounding."""
    # The noise is a multiple of `step`, a power of two of at most 1: multiples of it are exact in float64 below 2**53 steps, sums
    # of them included. ValueError if an answer, the noise or their sum is larger: float64 would round it by an amount that depends
    # on the answer, and the release would no longer have its exact values. The message names the answer and shows no value.
    limit = MAX_COUNT * step
    bound = "2**53" if step == 1.0 else f"{limit:.6g}, which is 2**53 steps of the grid of the noise"
    if np.any((noise >= limit) | (noise <= -limit)):
        raise ValueError(f"the noise must be smaller than {bound}, but it is not: take a smaller scale (a larger loss)")
    noisy = answers + noise
    over = np.flatnonzero((answers >= limit) | (answers <= -limit) | (noisy >= limit) | (noisy <= -limit))
    if over.size:
        raise ValueError(
            f"answers of the table must be smaller than {bound}, with their noise, but {name_of(int(over[0]))} is not: they could "
            "not be added exactly"
        )
    return np.asarray(finite_array(noisy, "noisy answers", name_of, confidential=True))
