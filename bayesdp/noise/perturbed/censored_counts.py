"""Perturbed counts of which only those from a threshold on are published."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.noise.perturbed.cell_key import CellKey
from bayesdp.noise.perturbed.transition_table import TransitionTable


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
