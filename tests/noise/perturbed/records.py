"""Likelihoods of published answers by sets of records, written out: nothing here uses what the package knows of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

import bayesdp as bdp
from bayesdp.noise import CellKey, NoiseLaw, TransitionTable, UnknownPerturbation
from tests.comparison.enumeration import Floats


def log_by_records(law: NoiseLaw, measured: Sequence[bdp.Measured], tables: np.ndarray) -> np.ndarray:
    """The log-likelihood of each table: records are in cells, and answers with the same set of them share their perturbation."""
    matrix = np.concatenate([own.query.matrix.toarray() for own in measured])
    values = np.concatenate([own.values.reshape(-1) for own in measured])
    known, flat = np.concatenate([~own.unmeasured.reshape(-1) for own in measured]), tables.reshape(len(tables), -1)
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


def log_of_tallies(law: UnknownPerturbation, counts: Floats) -> Floats:
    """From how often each deviation of each row occurs, shape (..., counts, deviations): Dirichlet-multinomial, or a sum over V."""
    if law.prior == "dirichlet":
        prior = law.concentrations
        after = np.where(prior > 0, prior + counts, 1.0)
        each, totals = gammaln(after) - gammaln(np.where(prior > 0, prior, 1.0)), prior.sum(axis=-1)
        rows = gammaln(totals) - gammaln(totals + counts.sum(axis=-1))
        return np.asarray(each.sum(axis=(-1, -2)) + rows.sum(axis=-1))
    masses = np.einsum("...rd,krd->...k", counts, np.log(np.where(law.tables > 0, law.tables, 1.0)))
    return np.asarray(np.logaddexp.reduce(masses, axis=-1) - np.log(len(law.tables)))


def log_marginal(law: UnknownPerturbation, values: npt.ArrayLike, location: npt.ArrayLike) -> float:
    """Of numbers about different records."""
    y, x = (np.asarray(own, dtype=np.int64).reshape(-1) for own in (values, location))
    rows, columns = np.minimum(x, len(law.counts) - 1), y - x + law.max_deviation
    inside = (columns >= 0) & (columns < len(law.deviations))
    if not inside.all() or np.any(law.concentrations[rows, columns] == 0):
        return -np.inf
    counts = np.zeros(law.concentrations.shape)
    np.add.at(counts, (rows, columns), 1.0)
    return float(log_of_tallies(law, counts))


FULL = TransitionTable.by_count({0: {-2: 0.5, 0: 0.5}, 1: {4: 1.0}, 2: {-4: 0.1, -2: 0.2, 3: 0.7}}, period=0)
"""Deviations of the counts 0 to 2; no other count is possible."""


def ten_five_rule() -> CellKey:
    """The "10-5 rule" of the package cell-key-perturbation: counts below 10 become 0, others the nearest multiple of 5."""
    rest = {10 + r: {d: 1.0} for r, d in enumerate((0, -1, -2, 2, 1))}
    return CellKey(TransitionTable.by_count({x: {-x: 1.0} for x in range(10)} | rest, period=5))
