"""What a prior of the cells of a hierarchy does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bayesdp._validate import positive_real
from bayesdp.hierarchies.structure import Structure
from bayesdp.hierarchies.tree import Tree

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]
type Hyper = Mapping[str, Floats]


class CellPrior(Protocol):
    """A prior of the counts of T leaves by C cells, given hyperparameters that have a prior themselves.

    Leaves are in the order of the tree, cells in the order of the frame. Given the hyperparameters, cells are independent,
    and a cell with count x has the weight ``exp(theta x) h(x)``, with h of `bayesdp.hierarchies.kernel.state`. Cells that a
    `Structure` says are not free (zeros by definition, counts that exact answers determine) are outside of the prior: they say
    nothing about the hyperparameters.
    """

    @property
    def family(self) -> str:
        """``"flat"``, ``"poisson"`` or ``"negbin"``."""

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Each hyperparameter with its dimensions: ``"leaf"`` and ``"cell"`` are the tree's, others are levels of it."""

    @property
    def formula(self) -> str:
        """The model, line by line, with its numbers."""

    def draw(self, tree: Tree, rng: np.random.Generator) -> dict[str, Floats]:
        """Draw hyperparameters from their prior."""

    def start(self, tree: Tree, counts: Ints) -> dict[str, Floats]:
        """Hyperparameters that suit a table, shape (T, C), to start from."""

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """Hyperparameters after one pass that leaves their law given the table, shape (T, C), as it is."""

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """Log weight theta and shape alpha of the cells, each of shape (T, C), or (1, C) where leaves do not differ."""


def finite_number(value: object, name: str, *, positive: bool = False) -> float:
    """A finite number that a prior was given, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r} of type {type(value).__name__}")
    if positive:
        return positive_real(value, name)
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return float(value)


def free_cells(tree: Tree) -> Mask:
    """Cells that the prior is about, shape (T, C): those that may move, all where the tree does not say."""
    if isinstance(tree, Structure):
        return tree.free
    leaves = len(tree.order)
    return np.ones((leaves, tree.frame.size // leaves), dtype=np.bool_)


def check_counts(tree: Tree, counts: Ints) -> Ints:
    """Counts of the leaves by cells of a tree, or an error."""
    free = free_cells(tree)
    if counts.shape != free.shape:
        raise ValueError(f"counts must be leaves by cells, of shape {free.shape}, got shape {counts.shape}")
    if counts.dtype.kind not in "iu":
        raise TypeError(f"counts must be whole numbers of an integer type, got {counts.dtype}")
    if counts.size and counts.min() < 0:
        raise ValueError("counts must not be negative")
    return np.ascontiguousarray(counts, dtype=np.int64)


def simulate_counts(prior: CellPrior, tree: Tree, hyper: Hyper, rng: np.random.Generator) -> Ints:
    """Draw the counts of the free cells from a prior, given its hyperparameters; other cells are 0.

    Parameters
    ----------
    prior : CellPrior
        Of family ``"poisson"`` or ``"negbin"``; a flat prior has no draws.
    tree : Tree
    hyper : mapping of arrays
    rng : numpy.random.Generator

    Returns
    -------
    int64 array, shape (T, C)


    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.frames import Frame
    >>> from bayesdp.hierarchies.tree import levels_of, tree_of
    >>> frame = Frame.of({"tract": ["t1", "t2"], "age": ["young", "old"]})
    >>> tree = tree_of(frame, 0, levels_of(frame, 0, []))
    >>> from bayesdp.hierarchies.priors import VaryingShares
    >>> prior, rng = VaryingShares(), np.random.default_rng(1)
    >>> simulate_counts(prior, tree, prior.draw(tree, rng), rng).shape
    (2, 2)
    """
    free = free_cells(tree)
    theta, alpha = (np.broadcast_to(own, free.shape) for own in prior.weights(tree, hyper))
    if prior.family == "poisson":
        rate = np.exp(theta)
    elif prior.family == "negbin":
        rate = rng.standard_gamma(alpha) / np.expm1(-theta)
    else:
        raise ValueError(f"a {prior.family} prior has infinite mass: it cannot be drawn from")
    rate = np.where(free, rate, 0.0)
    if rate.max(initial=0.0) >= 2.0**53:
        raise ValueError("the hyperparameters give a count of 2**53 or more, which no table has: narrow their prior")
    return np.asarray(rng.poisson(rate), dtype=np.int64)
