"""Likelihoods of published answers by sets of records, written out: nothing here uses what the package knows of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import bayesdp as bdp
from bayesdp.noise import NoiseLaw

__all__ = ["log_by_records"]


def log_by_records(law: NoiseLaw, measured: Sequence[bdp.Measured], tables: np.ndarray) -> np.ndarray:
    """The log-likelihood of each table: records are in cells, and answers with the same set of them share their perturbation."""
    matrix = np.concatenate([own.query.matrix.toarray() for own in measured])
    values = np.concatenate([own.values.reshape(-1) for own in measured])
    known = np.concatenate([~own.unmeasured.reshape(-1) for own in measured])
    flat = tables.reshape(len(tables), -1)
    found = np.zeros(len(tables))
    for held in np.unique(flat > 0, axis=0):
        which = np.flatnonzero(((flat > 0) == held).all(axis=1))
        first: dict[frozenset[int], float] = {}
        for row, y, published in zip(matrix, values, known, strict=True):
            if not published:
                continue
            people = frozenset(np.flatnonzero((row != 0) & held).tolist())
            if people in first:
                found[which] += 0.0 if first[people] == y else -np.inf
                continue
            if people:  # without records there is no key to share
                first[people] = y
            found[which] += law.log_each(np.full(len(which), y), flat[which] @ row)
    return found
