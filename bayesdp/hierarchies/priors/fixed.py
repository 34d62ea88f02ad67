"""Priors without hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.priors.base import Floats, Hyper, Ints
from bayesdp.hierarchies.tree import Tree

__all__ = ["FixedNegativeBinomial"]


@dataclass(frozen=True, eq=False)
class FixedNegativeBinomial:
    """Negative binomial counts with known means and shapes: one number each, or one a cell of a leaf."""

    mean: float | npt.ArrayLike
    shape: float | npt.ArrayLike
    family: ClassVar[str] = "negbin"
    names: ClassVar[dict[str, tuple[str, ...]]] = {}

    @property
    def formula(self) -> str:
        """The model."""
        return f"x[t, c] ~ NegativeBinomial(mean, shape),  mean {np.asarray(self.mean).tolist()}, shape {np.asarray(self.shape).tolist()}"

    def start(self, tree: Tree, counts: Ints) -> dict[str, Floats]:
        """No hyperparameters."""
        return {}

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """The same hyperparameters: none."""
        return dict(hyper)

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """``theta = log(mean / (mean + shape))``, and the shapes."""
        cells = tree.frame.size // len(tree.order)
        mean, shape = (
            np.broadcast_to(np.asarray(own, dtype=np.float64).reshape(1, -1), (1, cells))
            for own in (self.mean, self.shape)
        )
        return -np.log1p(shape / mean), shape.copy()
