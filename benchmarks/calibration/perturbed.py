"""Perturbed tables as cases of the calibration matrix: cells and margins, each perturbed on its own as offices do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.measurements import Exact, Measured
from bayesdp.noise import NoiseLaw, UnknownPerturbation
from bayesdp.queries import Identity, Margins
from bayesdp.release import Release

__all__ = ["Perturbation"]


@dataclass(frozen=True)
class Perturbation:
    """What an office does that perturbs counts by a law: cells and both margins, of which the margins do not add up the cells.

    Attributes
    ----------
    law : NoiseLaw
        Of answers given true ones.
    table : mapping
        Labels of the two dimensions.

    Examples
    --------
    >>> from bayesdp.noise import RandomRounding
    >>> own = Perturbation(RandomRounding(3), {"a": ["x", "y"], "b": ["u", "v"]})
    >>> [part.name for part in own.release(np.array([[4, 7], [2, 9]]), rng=np.random.default_rng(1)).measurements]
    ['cells', 'margins']
    """

    law: NoiseLaw
    table: dict[str, list[str]]

    def release(self, x: Any, *, rng: np.random.Generator, exact: tuple[Exact, ...] = (), rows: Any = None) -> Release:
        """Perturb a table, by given rows if the law is not known; with the exact answers beside it, if there are any."""
        first, second = self.table
        queries = {"cells": Identity(self.table), "margins": Margins(self.table, [first], [second])}
        used = self.law.given(rows) if isinstance(self.law, UnknownPerturbation) else self.law
        drawn = used.draw_answers(rng, list(queries.values()), x)
        measured = [
            Measured(query, y, self.law, name=name) for (name, query), y in zip(queries.items(), drawn, strict=True)
        ]
        return Release.from_published(self.table, measured=measured, exact=exact)
