"""A check for missed modes: chains that start at random tables far apart must come to agree.

Several modes are possible wherever the prior of a cell is not log-concave (`several_modes`): log-concave weights and normal noise
have a single one. Where a precise answer knows the sum of a few cells of a leaf, say, one cell has nearly all of the sum, or another
one has it. Chains that start in the same mode and cannot leave it look good by R-hat and effective sample sizes, and are wrong
together. Chains that start on either side (`bayesdp.hierarchies.ends`) and cannot cross end in different places, which is seen. So
it is with modes that no single answer explains, as far as random starts fall on both of them: that a mode was not found never
shows that there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from bayesdp._chains import FEWEST_DRAWS, ess_mean
from bayesdp.hierarchies.ends import Groups, entries_of
from bayesdp.hierarchies.missed import ENOUGH, Disagreement, MissedModes
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import Structure

__all__ = [
    "ENOUGH",
    "Disagreement",
    "MissedModes",
    "TiedGroups",
    "compare_entries",
    "missed_modes",
    "missed_modes_of_draws",
    "several_modes",
]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

FALSE_ALARMS = 0.01
"""Share of runs of chains that agree in which some group is reported, where their effective sample sizes are right."""


def several_modes(prior: CellPrior) -> bool:
    """Whether a posterior may have several modes: with hyperparameters, or a shape below 1, with which a prior is not log-concave."""
    shape = np.asarray(getattr(prior, "shape", 0.0), dtype=np.float64)
    return bool(prior.names) or (prior.family == "negbin" and not (shape >= 1.0).all())


_NAMED = 100
"""Groups that a result names at most, the worst first."""


@dataclass(frozen=True, eq=False)
class TiedGroups:
    """The tied groups of a table whose chains are to be compared.

    Attributes
    ----------
    structure : Structure
    groups : tuple of int64 arrays
        ``(state.group_start, state.group_cell)`` of a chain of the table.
    apart : bool array, shape (T, C)
        Cells at which some chains began with most of the counts of the group, and others did not (`ends_of`).
    """

    structure: Structure
    groups: Groups
    apart: Mask


def missed_modes(
    structure: Structure,
    groups: Groups,
    means: Floats,
    sds: Floats,
    ess: Floats,
    apart: Mask,
    rate: float = FALSE_ALARMS,
) -> MissedModes:
    """Compare the means of chains that started at different ends, cell by cell of every tied group.

    Parameters
    ----------
    structure : Structure
    groups : tuple of int64 arrays
        ``(state.group_start, state.group_cell)``.
    means, sds, ess : float arrays, shape (chains, T, C)
        Mean and standard deviation of the draws of each chain, and its effective sample size for the mean, worked out from this chain
        alone. From b batch means, the effective sample size is that by batches, and at most 4 (b - 1).
    apart : bool array, shape (T, C)
        Cells at which some chains began with most of the counts of the group, and others did not (`ends_of`). Groups without such
        a cell are compared too, but are not counted as tested.
    rate : float
        False alarms: the share of runs, of chains that agree, in which any group is reported, at most. It rests on `ess`: where these
        are too large, as those of short chains can be, there are more.


    Notes
    -----
    For each cell and pair of chains the difference of their means is divided by its standard error ``sqrt(sd^2 / ess + sd'^2 / ess')``
    and compared with Student's law, with Welch's degrees of freedom from a quarter of each effective sample size: a
    variance of a mean by autocovariances up to lag m has relative variance 4 m / n (Anderson, The statistical analysis of time series,
    1971, chapter 8), which is that of n / (2 m) degrees of freedom, and Geyer's rule stops at about twice the autocorrelation
    time n / ess.
    The rate is divided equally among all cells and pairs of chains (Bonferroni).
    """
    leaf, cell, _ = entries_of(groups)
    own = [np.asarray(array, dtype=np.float64)[:, leaf, cell] for array in (means, sds, ess)]
    return compare_entries(structure, groups, own[0], own[1], own[2], apart, rate)


def compare_entries(
    structure: Structure,
    groups: Groups,
    means: Floats,
    sds: Floats,
    ess: Floats,
    apart: Mask,
    rate: float = FALSE_ALARMS,
    *,
    several: bool = True,
) -> MissedModes:
    """`missed_modes` of the cells of the groups alone: `means`, `sds` and `ess` of shape (chains, entries of `groups`)."""
    leaf, cell, group = entries_of(groups)
    mean, sd, ess = (np.asarray(array, dtype=np.float64) for array in (means, sds, ess))
    chains = len(mean)
    moved = sd > 0.0
    effective = np.where(moved, ess, np.inf)
    pairs = max(chains * (chains - 1) // 2, 1)
    level = rate / max(len(leaf) * pairs, 1)
    bad, errors = np.zeros(len(leaf), dtype=np.bool_), np.zeros(len(leaf))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(moved, np.square(sd) / effective, 0.0)
        parts = np.square(variance) / np.maximum(effective / 4.0, 1.0)
        for one in range(chains):
            for other in range(one):
                difference = np.abs(mean[one] - mean[other])
                spread = variance[one] + variance[other]
                size = np.where(difference > 0.0, difference / np.sqrt(spread), 0.0)
                freedom = np.where(spread > 0.0, np.square(spread) / (parts[one] + parts[other]), 1.0)
                bad |= 2.0 * student.sf(size, freedom) <= level
                errors = np.fmax(errors, size)
    count = int(group.max(initial=-1)) + 1
    is_group = np.bincount(group, minlength=count) > 0
    disagree = np.bincount(group, weights=bad, minlength=count) > 0
    began = np.bincount(group, weights=apart[leaf, cell], minlength=count) > 0
    few = ~(effective >= ENOUGH).all(axis=0)
    short = (np.bincount(group, weights=few, minlength=count) > 0) & began & ~disagree
    worst = np.zeros(count)
    np.maximum.at(worst, group[bad], errors[bad])
    order = np.argsort(-worst, kind="stable")[: min(int(disagree.sum()), _NAMED)]
    named = tuple(
        _named(structure, np.flatnonzero(group == number), leaf, cell, mean, float(worst[number])) for number in order
    )
    return MissedModes(
        chains=chains,
        tested=int((began & ~short).sum()),
        alike=int((is_group & ~began & ~disagree).sum()),
        short=int(short.sum()),
        disagreeing=int(disagree.sum()),
        groups=named,
        rate=rate,
        several=several,
    )


def missed_modes_of_draws(draws: npt.NDArray[np.generic], tied: TiedGroups, rate: float = FALSE_ALARMS) -> MissedModes:
    """`missed_modes` of kept draws."""
    # `draws`, shape `(chains, draws, *frame)`: tables in the order of the frame, also with flat tables.
    structure = tied.structure
    flat = draws.reshape(*draws.shape[:2], -1)
    place = structure.leaves_by_cells(np.arange(flat.shape[2]))
    leaf, cell, _ = entries_of(tied.groups)
    own = place[leaf, cell]
    found = np.full((3, len(flat), len(own)), np.nan)
    for chain, mine in enumerate(flat):
        part = mine[:, own].astype(np.float64)
        found[:, chain] = part.mean(axis=0), part.std(axis=0), ess_mean(part[None])
    if flat.shape[1] < FEWEST_DRAWS:
        found[2] = 0.0
    means, sds, ess = found
    return compare_entries(structure, tied.groups, means, sds, ess, tied.apart, rate)


def _named(structure: Structure, own: Ints, leaf: Ints, cell: Ints, mean: Floats, errors: float) -> Disagreement:
    means = mean[:, own].T
    leaf_name, cells = _labels(structure, int(leaf[own[0]]), cell[own])
    apart = float((means.max(axis=1) - means.min(axis=1)).max())
    return Disagreement(leaf_name, cells, tuple(tuple(map(float, row)) for row in means), apart, float(errors))


def _labels(structure: Structure, leaf: int, cells: Sequence[int] | Ints) -> tuple[str, tuple[str, ...]]:
    frame, axis = structure.frame, structure.axis
    others = [labels for i, labels in enumerate(frame.labels) if i != axis]
    places = np.unravel_index(np.asarray(cells), tuple(map(len, others))) if others else ()
    names = [
        ", ".join(str(labels[i]) for labels, i in zip(others, row, strict=True)) for row in zip(*places, strict=True)
    ]
    return str(frame.labels[axis][structure.order[leaf]]), tuple(names or [""] * len(cells))
