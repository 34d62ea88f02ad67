"""Priors without hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.priors.base import Floats, Hyper, Ints
from bayesdp.hierarchies.tree import Tree

type Numbers = float | npt.ArrayLike


class _Fixed:
    """What priors without hyperparameters share."""

    names: ClassVar[dict[str, tuple[str, ...]]] = {}

    def draw(self, tree: Tree, rng: np.random.Generator) -> dict[str, Floats]:
        """No hyperparameters."""
        return {}

    def start(self, tree: Tree, counts: Ints) -> dict[str, Floats]:
        """No hyperparameters."""
        return {}

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """The same hyperparameters: none."""
        return dict(hyper)


def _by_cell(value: Numbers, tree: Tree, name: str) -> Floats:
    """A number, or numbers in the order of the frame, as an array of shape (T, C), or (1, C) where leaves do not differ."""
    own = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(own) & (own > 0.0)).all():
        raise ValueError(f"{name} must be finite and greater than 0")
    frame, cells = tree.frame, tree.frame.size // len(tree.order)
    rest = tuple(n for axis, n in enumerate(frame.shape) if axis != tree.axis)
    if own.shape == ():
        return np.full((1, cells), float(own))
    if own.shape == rest:
        return own.reshape(1, cells).copy()
    if own.shape == frame.shape:
        return np.ascontiguousarray(np.asarray(tree.leaves_by_cells(own), dtype=np.float64))
    raise ValueError(
        f"{name} must be one number, numbers for the cells of a leaf (shape {rest}), or for all cells (shape {frame.shape}, "
        f"dimensions {', '.join(frame.dims)}), got shape {own.shape}"
    )


def _same_rows(theta: Floats, alpha: Floats) -> tuple[Floats, Floats]:
    """Arrays of their own for both, since a chain may keep them."""
    return np.ascontiguousarray(theta), np.ascontiguousarray(alpha)


def _stated(value: Numbers) -> str:
    own = np.asarray(value)
    return f"{float(own):.6g}" if own.shape == () else f"given for {own.size} cells"


@dataclass(frozen=True)
class Flat(_Fixed):
    """Every table alike. It has finite mass only where exact answers bound every cell from above.

    Examples
    --------
    >>> Flat().formula
    'x[t, c] flat on 0, 1, 2, ...'
    """

    family: ClassVar[str] = "flat"
    formula: ClassVar[str] = "x[t, c] flat on 0, 1, 2, ..."

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """No weights: shapes of 1."""
        cells = tree.frame.size // len(tree.order)
        return np.zeros((1, cells)), np.ones((1, cells))


@dataclass(frozen=True, eq=False)
class FixedPoisson(_Fixed):
    """Poisson counts with known means.

    Parameters
    ----------
    mean : float or array
        One for all cells, for the cells of a leaf (the frame's shape without its leaves), or for all cells (the frame's
        shape), in the order of the frame.


    Examples
    --------
    >>> FixedPoisson(3.5).formula
    'x[t, c] ~ Poisson(mean),  mean 3.5'
    """

    mean: Numbers
    family: ClassVar[str] = "poisson"

    @property
    def formula(self) -> str:
        """The model."""
        return f"x[t, c] ~ Poisson(mean),  mean {_stated(self.mean)}"

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """Logarithms of the means; shapes are not used."""
        theta = np.log(_by_cell(self.mean, tree, "mean"))
        return _same_rows(theta, np.ones((1, theta.shape[1])))


@dataclass(frozen=True, eq=False)
class FixedNegativeBinomial(_Fixed):
    """Negative binomial counts with known means and shapes: Poisson with gamma rates that are integrated out.

    Parameters
    ----------
    mean, shape : float or array
        One for all cells, for the cells of a leaf (the frame's shape without its leaves), or for all cells (the frame's
        shape), in the order of the frame. The variance of a cell is ``mean + mean**2 / shape``.


    Examples
    --------
    >>> FixedNegativeBinomial(mean=2.0, shape=0.1).formula
    'x[t, c] ~ NegativeBinomial(mean, shape),  mean 2, shape 0.1'
    """

    mean: Numbers
    shape: Numbers
    family: ClassVar[str] = "negbin"

    @property
    def formula(self) -> str:
        """The model."""
        return f"x[t, c] ~ NegativeBinomial(mean, shape),  mean {_stated(self.mean)}, shape {_stated(self.shape)}"

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """``theta = log(mean / (mean + shape))``, and the shapes."""
        mean, shape = _by_cell(self.mean, tree, "mean"), _by_cell(self.shape, tree, "shape")
        return _same_rows(-np.log1p(shape / mean), shape)
