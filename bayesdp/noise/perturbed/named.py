"""The laws of perturbed counts as functions, as users call what offices do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayesdp.noise.perturbed.cell_key import CellKey
from bayesdp.noise.perturbed.ptable_file import read_ptable
from bayesdp.noise.perturbed.rounding import ConventionalRounding, RandomRounding
from bayesdp.noise.perturbed.transition_table import TransitionTable


def random_rounding(base: int, probabilities: str | Sequence[float] | None = None) -> RandomRounding:
    """Counts rounded at random to a base; see `RandomRounding`.

    Parameters
    ----------
    base : int
        3 at Stats NZ, 5 at Statistics Canada.
    probabilities : {"unbiased", "nearest"} or sequence of float, optional
        Of rounding up, by remainder; unbiased by default.

    Returns
    -------
    RandomRounding

    Examples
    --------
    >>> print(random_rounding(3))
    random-rounding base=3
    """
    return RandomRounding(base, probabilities)


def conventional_rounding(base: int, ties: str = "up") -> ConventionalRounding:
    """Counts rounded to the nearest multiple of a base; see `ConventionalRounding`.

    Parameters
    ----------
    base : int
    ties : {"up", "down", "even"}, default "up"
        Where counts in the middle go.

    Returns
    -------
    ConventionalRounding

    Examples
    --------
    >>> print(conventional_rounding(10))
    conventional-rounding base=10 ties=up
    """
    return ConventionalRounding(base, ties)


def cell_key(
    ptable: TransitionTable | str | Path | None = None,
    *,
    max_deviation: int | None = None,
    variance: float | Sequence[float] | None = None,
    not_smaller_than: int = 0,
    zeros: str = "kept",
    variance_at_most: float | None = None,
) -> CellKey:
    """Counts perturbed by cell keys, by a table or the path of its file, or by maximum entropy; see `CellKey`.

    Parameters
    ----------
    ptable : TransitionTable, str or Path, optional
        A path is read by `read_ptable`.
    max_deviation : int, optional
    variance : float or sequence of float, optional
    not_smaller_than : int, default 0
    zeros : {"kept", "perturbed"}, default "kept"
    variance_at_most : float, optional

    Returns
    -------
    CellKey

    Examples
    --------
    >>> print(cell_key(max_deviation=5, variance=3.0, not_smaller_than=3))
    cell-key max_deviation=5 variance=3.0 not_smaller_than=3 zeros=kept
    """
    table = read_ptable(ptable) if isinstance(ptable, (str, Path)) else ptable
    return CellKey(table, max_deviation, variance, not_smaller_than, zeros, variance_at_most)
