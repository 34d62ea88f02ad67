"""What a prior of the cells of a hierarchy does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.tree import Tree

__all__ = ["CellPrior"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Hyper = Mapping[str, Floats]


class CellPrior(Protocol):
    """A prior of the counts of T leaves by C cells, given hyperparameters that have a prior themselves."""

    @property
    def family(self) -> str:
        """``"flat"``, ``"poisson"`` or ``"negbin"``."""

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Each hyperparameter with its dimensions: ``"leaf"`` and ``"cell"`` are the tree's, others are levels of it."""

    @property
    def formula(self) -> str:
        """The model, line by line."""

    def start(self, tree: Tree, counts: Ints) -> dict[str, Floats]:
        """Hyperparameters that suit a table, shape (T, C), to start from."""

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """Hyperparameters after one pass that leaves their law given the table, shape (T, C), as it is."""

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """Log weight theta and shape alpha of the cells, each of shape (T, C), or (1, C) where leaves do not differ."""
