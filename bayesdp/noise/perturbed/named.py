"""The laws of perturbed counts as functions, as users call what offices do.

Perturbed counts of which only those from a threshold on are published.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.noise.perturbed.cell_key import CellKey
from bayesdp.noise.perturbed.rounding import ConventionalRounding, RandomRounding
from bayesdp.noise.perturbed.transition_table import TransitionTable, read_ptable


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


def censored_counts(law: PerturbedLaw, below: Any) -> PerturbedLaw:
    """The law of perturbed counts of which those under a threshold were not published: they stand as ``below - 1``.

    The probabilities of all published numbers under `below` are added up, for each true count; `bayesdp.thresholded` writes the
    code where an answer could have been published and was not. Laws of noise have `Censored` for that.

    Parameters
    ----------
    law : PerturbedLaw
        `RandomRounding`, `ConventionalRounding`, `CellKey` or `TransitionTable`.
    below : int
        The smallest number that is published, at least 1; one for all answers.

    Returns
    -------
    TransitionTable or CellKey
        A `CellKey` with that table where one cell has one value in all tables (`NoiseLaw.same_cell_same_value`).

    Raises
    ------
    TypeError, ValueError
        If the law is none of perturbed counts, or the threshold is no positive whole number.

    Notes
    -----
    There is no upper threshold: counts without end would have one code. For true counts that are published as "100 or
    more" there is `bayesdp.top_coded`.

    Examples
    --------
    Rounded to base 3, and nothing under 6 published:

    >>> from bayesdp.noise import RandomRounding
    >>> law = censored_counts(RandomRounding(base=3), below=6)
    >>> np.exp(law.log_each([5, 5, 5, 6], [0, 4, 5, 5])).round(4).tolist()
    [1.0, 0.6667, 0.3333, 0.6667]
    """
    if not isinstance(law, PerturbedLaw):
        raise TypeError(f"law must be one of perturbed counts such as RandomRounding(base=3), got {law!r}")
    if np.ndim(below):
        raise ValueError("below must be one whole number for all answers under a law of perturbed counts")
    number = below.item() if isinstance(below, np.generic | np.ndarray) else below
    number = int(number) if isinstance(number, float) and number.is_integer() else number
    least = _validate.positive_integer(number, "below")
    coded = law.transitions.with_code(least)
    deviations = range(coded.lowest, coded.highest + 1)
    table = TransitionTable(tuple(deviations), coded.mass, coded.period, least)  # type: ignore[arg-type]  # arrays are accepted
    return CellKey(ptable=table) if law.same_cell_same_value else table
