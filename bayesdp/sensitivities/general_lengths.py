"""The lengths of differences that keep general invariants, which are known by their matrix only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.sensitivities.differences import DIFFERENCES, Difference, DifferenceLength
from bayesdp.sensitivities.farthest import distinct_columns, largest_distance
from bayesdp.sensitivities.kept import column_groups, found_changes, kept_differences
from bayesdp.sensitivities.norms import MOST_CELLS, MOST_NUMBERS, MOST_PRODUCTS, DifferenceNorm

type Ints = npt.NDArray[np.int64]


def general_lengths(norm: DifferenceNorm) -> tuple[DifferenceLength, ...]:
    """The lengths of one record that changes its cell, or comes or goes; without these, of the smallest change that was found."""
    found = []
    for difference in kept_differences(norm.invariants):
        if difference == DIFFERENCES["substitution"]:
            size = substituted_length(norm)
        elif difference.l1 == 1.0:
            size = _added(norm)
        else:
            found.append(_smallest(norm, difference))
            continue
        if size is None:
            found.append(DifferenceLength(difference, norm.upper_length(difference.l1), "upper"))
        else:
            found.append(DifferenceLength(difference, size, "largest"))
    if found and not any(own.size for own in found):
        found += _smallest_that_shows(norm)
    return tuple(found)


def substituted_length(norm: DifferenceNorm) -> float | None:
    """One record changes between two cells that all invariants treat alike."""
    if len(norm.sums) == 1:
        [part] = norm.sums
        group, answer = column_groups(norm.invariants.matrix), part.row_of_cell
        apart = len(np.unique(group * part.rows + answer)) > len(np.unique(group))
        return norm.of_count(2) if apart else 0.0
    columns = sp.csc_array(norm.query.matrix)
    reps = distinct_columns(sp.csc_array(sp.vstack([norm.invariants.matrix, columns])))
    group = column_groups(sp.csr_array(norm.invariants.matrix[:, reps]))
    order = np.argsort(group, kind="stable")
    groups = [reps[own] for own in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if own.size > 1]
    pairs = sum(own.size * (own.size - 1) // 2 for own in groups)
    wide = max((own.size for own in groups), default=0)
    if wide > MOST_CELLS or wide * norm.query.rows > MOST_NUMBERS or pairs * norm.query.rows > MOST_PRODUCTS:
        return None
    if norm.kind == "K" and pairs > norm.most:
        return None
    best = 0.0
    for own in groups:
        images = norm.images(sp.csc_array(columns[:, own]))
        if norm.kind == "K":
            i, j = np.triu_indices(own.size, 1)
            best = max(best, float(norm.lengths(images[i] - images[j]).max()))
        else:
            best = max(best, largest_distance(images, norm.kind, "cells"))
    return best


def _added(norm: DifferenceNorm) -> float | None:
    """One record in a cell that no invariant counts."""
    if len(norm.sums) == 1 and (norm.kind != "K" or norm.neighbours == "add-remove"):
        return norm.of_count(1)
    columns = sp.csc_array(norm.query.matrix)[:, column_groups(norm.invariants.matrix) == 0]
    columns = sp.csc_array(columns[:, distinct_columns(columns)])
    if norm.kind == "K" and norm.neighbours == "add-remove" and columns.shape[1] > norm.most:
        return None  # it is a neighbouring step
    step = max(4_000_000 // norm.query.rows, 1)
    points = (norm.images(columns[:, start : start + step]) for start in range(0, columns.shape[1], step))
    return max(float(norm.lengths(own).max()) for own in points)


def _changed(norm: DifferenceNorm, changes: Ints) -> sp.csc_array:
    """The answers to changes of a table, shape (m, cells), as the m columns of a sparse matrix."""
    return sp.csc_array(norm.query.matrix @ sp.csc_array(changes.T))


def _smallest(norm: DifferenceNorm, difference: Difference) -> DifferenceLength:
    """The longest of the smallest changes that were found."""
    changes = found_changes(norm.invariants)
    changes = changes[np.abs(changes).sum(axis=1) == round(difference.l1)]
    return DifferenceLength(difference, float(norm.lengths(norm.images(_changed(norm, changes))).max()), "")


def _smallest_that_shows(norm: DifferenceNorm) -> list[DifferenceLength]:
    """Where no listed difference changes an answer: the smallest change found that does."""
    changes = found_changes(norm.invariants)
    shows = np.abs(_changed(norm, changes).toarray()).any(axis=0)
    changes = changes[shows]
    if not len(changes):
        return []
    sizes = np.abs(changes).sum(axis=1)
    changes = changes[sizes == sizes.min()]
    difference = Difference(
        "the smallest change found that keeps every invariant and changes an answer (there may be smaller ones)",
        float(sizes.min()),
        float(np.linalg.norm(changes[0])),
        found=True,
    )
    return [_smallest(norm, difference)]
