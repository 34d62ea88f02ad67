"""Sums of a table with whole noise, as tests of hierarchies publish them, and which of the listed tables draws are."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

import bayesdp as bdp
from bayesdp.queries import Query


def noisy_sums(
    labels: Any,
    truth: npt.NDArray[np.int64],
    noise: Iterable[tuple[Any, float]],
    rng: np.random.Generator,
    law: Any = bdp.noise.DiscreteGaussian,
) -> list[bdp.Measured]:
    """Each query, or each margin by the named dimensions, with noise of the standard deviation beside it."""
    measured = []
    for keep, sigma in noise:
        query = keep if isinstance(keep, Query) else bdp.Margins(labels, list(keep))
        noisy = np.rint(query.apply(truth) + rng.normal(0.0, sigma, query.shape)).astype(int)
        measured.append(bdp.Measured(query, noisy, law(sigma)))
    return measured


def indices(tables: npt.ArrayLike, drawn: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Places of draws (chain, draw, ...) among listed tables; a draw that is not listed is a KeyError."""
    number = {table.tobytes(): i for i, table in enumerate(np.ascontiguousarray(tables, dtype=np.int64))}
    return np.array([[number[own.tobytes()] for own in chain] for chain in np.ascontiguousarray(drawn, dtype=np.int64)])
