"""What a prior of the cells of a hierarchy does, priors without hyperparameters, and what others draw theirs with.

That is slice sampling of many numbers at once, exact draws of the centre and spread of normal effects, and sums of
``log Gamma(x + a) - log Gamma(a)`` over the counts that share a shape a, as functions of a.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._numba import nb
from bayesdp.hierarchies.structure import Structure, Tree

type Hyper = Mapping[str, Floats]


class CellPrior(Protocol):
    """A prior of the counts of T leaves by C cells, given hyperparameters that have a prior themselves.

    Leaves are in the order of the tree, cells in the order of the frame. Given the hyperparameters, cells are independent,
    and a cell with count x has the weight ``exp(theta x) h(x)``, with h of `bayesdp.hierarchies.kernel.moves`. Cells that a
    `Structure` says are not free (zeros by definition, counts that exact answers determine) are outside of the prior: they say
    nothing about the hyperparameters. A prior that has none states its family, its formula and its weights.
    """

    @property
    def family(self) -> str:
        """``"poisson"`` or ``"negbin"``."""

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Each hyperparameter with its dimensions: ``"leaf"`` and ``"cell"`` are the tree's, others are levels of it."""
        return {}

    @property
    def formula(self) -> str:
        """The model, line by line, with its numbers."""

    def draw(self, tree: Tree, rng: np.random.Generator) -> dict[str, Floats]:
        """Draw hyperparameters from their prior."""
        return {}

    def start(self, tree: Tree, counts: Ints) -> dict[str, Floats]:
        """Hyperparameters that suit a table, shape (T, C), to start from."""
        return {}

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """Hyperparameters after one pass that leaves their law given the table, shape (T, C), as it is."""
        return dict(hyper)

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """Log weight theta and shape alpha of the cells, each of shape (T, C), or (1, C) where leaves do not differ."""


def free_cells(tree: Tree) -> Mask:
    """Cells that the prior is about, shape (T, C): those that may move, all where the tree does not say."""
    return tree.free if isinstance(tree, Structure) else np.ones((len(tree.order), tree.cells), dtype=np.bool_)


def free_counts(tree: Tree, counts: Ints) -> tuple[Ints, Mask]:
    """Counts of the free cells, leaves by cells, 0 in the others, and which these are; or an error."""
    free = free_cells(tree)
    if counts.shape != free.shape:
        raise ValueError(f"counts must be leaves by cells, of shape {free.shape}, got shape {counts.shape}")
    if counts.dtype.kind not in "iu":
        raise TypeError(f"counts must be whole numbers of an integer type, got {counts.dtype}")
    if counts.size and counts.min() < 0:
        raise ValueError("counts must not be negative")
    return np.where(free, counts, 0).astype(np.int64), free


def simulate_counts(prior: CellPrior, tree: Tree, hyper: Hyper, rng: np.random.Generator) -> Ints:
    """Draw the counts of the free cells from a prior, given its hyperparameters, shape (T, C); other cells are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.frames import Frame
    >>> from bayesdp.hierarchies.structure import levels_of, tree_of
    >>> frame = Frame.of({"tract": ["t1", "t2"], "age": ["young", "old"]})
    >>> tree = tree_of(frame, 0, levels_of(frame, 0, []))
    >>> from bayesdp.hierarchies.priors import VaryingShares
    >>> prior, rng = VaryingShares(), np.random.default_rng(1)
    >>> simulate_counts(prior, tree, prior.draw(tree, rng), rng).shape
    (2, 2)
    """
    free = free_cells(tree)
    theta, alpha = (np.broadcast_to(own, free.shape) for own in prior.weights(tree, hyper))
    rate = np.exp(theta) if prior.family == "poisson" else rng.standard_gamma(alpha) / np.expm1(-theta)
    rate = np.where(free, rate, 0.0)
    if rate.max(initial=0.0) >= 2.0**53:
        raise ValueError("the hyperparameters give a count of 2**53 or more, which no table has: narrow their prior")
    return np.asarray(rng.poisson(rate), dtype=np.int64)


type Numbers = float | npt.ArrayLike


def _by_cell(value: Numbers, tree: Tree, name: str) -> Floats:
    """A number, or numbers in the order of the frame, as an array of shape (T, C), or (1, C) where leaves do not differ."""
    own = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(own) & (own > 0.0)).all():
        raise ValueError(f"{name} must be finite and greater than 0")
    frame, rest = tree.frame, tree.cell_shape
    if own.shape == ():
        return np.full((1, tree.cells), float(own))
    if own.shape == rest:
        return own.reshape(1, tree.cells).copy()
    if own.shape == frame.shape:
        return np.ascontiguousarray(np.asarray(tree.leaves_by_cells(own), dtype=np.float64))
    raise ValueError(
        f"{name} must be one number, numbers for the cells of a leaf (shape {rest}), or for all cells (shape {frame.shape}, "
        f"dimensions {', '.join(frame.dims)}), got shape {own.shape}"
    )


def _stated(value: Numbers) -> str:
    own = np.asarray(value)
    return f"{float(own):.6g}" if own.shape == () else f"given for {own.size} cells"


@dataclass(frozen=True, eq=False)
class FixedPoisson(CellPrior):
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
        return np.log(_by_cell(self.mean, tree, "mean")), np.ones((1, tree.cells))


@dataclass(frozen=True, eq=False)
class FixedNegativeBinomial(CellPrior):
    """Negative binomial counts with known means and shapes: Poisson with gamma rates that are integrated out.

    Parameters
    ----------
    mean, shape : float or array
        As in `FixedPoisson`. The variance of a cell is ``mean + mean**2 / shape``.

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
        return -np.log1p(shape / mean), shape


_SMALL = 16
"""So many factors of ``Gamma(x + a) / Gamma(a) = a (a + 1) ... (a + x - 1)`` are counted, the others are one Stirling series, whose
argument is then at least this, which makes its error below 1e-11."""


class GammaTerms(NamedTuple):
    """Counts by the shape that they have, n shapes."""

    above: Ints  # how many counts are above 0, 1, ..., 15, shape (n, 16)
    start: Ints  # shape (n + 1,)
    large: Floats  # counts above 16 of shape i: ``large[start[i]:start[i + 1]]``


def gather(counts: Ints, row: Ints, column: Ints, n: int) -> GammaTerms:
    """Sort counts, shape (T, C), by shape: that of leaf t and cell c is number ``row[t] + column[c]`` of n."""
    leaf, cell = np.nonzero(counts)
    x, shape = counts[leaf, cell], row[leaf] + column[cell]
    most = np.bincount(shape * _SMALL + np.minimum(x, _SMALL) - 1, minlength=n * _SMALL).reshape(n, _SMALL)
    above = np.ascontiguousarray(most[:, ::-1].cumsum(axis=1)[:, ::-1])
    large, of = x[x > _SMALL], shape[x > _SMALL]
    start = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=n))])
    return GammaTerms(above, start, large[np.argsort(of, kind="stable")].astype(np.float64))


@nb.njit(cache=True, error_model="numpy")
def _stirling(z: float) -> float:
    """``log Gamma(z)`` up to a constant, for z of 16 and more (Abramowitz and Stegun, 6.1.40)."""
    w = 1.0 / z
    w2 = w * w
    return (z - 0.5) * math.log(z) - z + w * (1.0 / 12.0 - w2 * (1.0 / 360.0 - w2 * (1.0 / 1260.0 - w2 / 1680.0)))


@nb.njit(cache=True, error_model="numpy")
def gamma_terms(log_shape: Floats, which: Ints, terms: GammaTerms) -> Floats:
    """``log Gamma(x + a) - log Gamma(a)``, summed over the counts of the shapes numbered `which`, for ``a = exp(log_shape)``."""
    above, start, large = terms
    out = np.zeros(len(which))
    for j in range(len(which)):
        i = which[j]
        if above[i, 0] == 0:
            continue
        a = math.exp(log_shape[j])
        total = above[i, 0] * log_shape[j]  # log a, also where a is too small for a float
        for k in range(1, _SMALL):
            if above[i, k] == 0:
                break
            total += above[i, k] * math.log(a + k)
        many = start[i + 1] - start[i]
        if many:
            for e in range(start[i], start[i + 1]):
                total += _stirling(large[e] + a)
            total -= many * _stirling(_SMALL + a)
        out[j] = total
    return out


_STEPS = 100
"""Widths that an interval may grow to at most."""

FREEDOM = 3.0
"""Shape of the inverse gamma prior of a variance; its scale is twice the square of the spread that is stated, its mean."""


def slice_draws(
    log_density: Callable[[Floats, Ints], Floats], start: Floats, width: Floats, rng: np.random.Generator
) -> Floats:
    """One slice sampling update of each of n numbers that are independent given everything else."""
    # `log_density`: of values and of their places in 0 .. n - 1, up to a constant a place. Stepping out and shrinkage of Neal (2003,
    # Annals of Statistics 31, 705-767, figures 3 and 5): right if the width does not depend on the number itself.
    n = len(start)
    level = log_density(start, np.arange(n)) - rng.exponential(size=n)
    left = start - width * rng.random(n)
    right = left + width
    # The steps are shared out between the two ends at random, or a limit would favour one side.
    steps_left = np.floor(_STEPS * rng.random(n))
    for end, sign, steps in ((left, -1.0, steps_left), (right, 1.0, _STEPS - 1 - steps_left)):
        open_ = np.arange(n)
        while len(open_ := open_[steps[open_] > 0]):
            open_ = open_[log_density(end[open_], open_) > level[open_]]
            end[open_] += sign * width[open_]
            steps[open_] -= 1
    drawn = start.copy()
    open_ = np.arange(n)
    while len(open_):
        tried = left[open_] + (right[open_] - left[open_]) * rng.random(len(open_))
        # Where rounding has closed the interval, the number stays.
        inside = (log_density(tried, open_) >= level[open_]) | (tried == start[open_])
        drawn[open_[inside]] = tried[inside]
        open_, tried = open_[~inside], tried[~inside]
        below = tried < start[open_]
        left[open_[below]] = tried[below]
        right[open_[~below]] = tried[~below]
    return drawn


def slice_draw(log_density: Callable[[float], float], precision: float, rng: np.random.Generator) -> float:
    """The same of one number, from 0, by about the precision of its density."""

    def densities(values: Floats, _: Ints) -> Floats:
        return np.asarray([log_density(float(values[0]))])

    return float(slice_draws(densities, np.zeros(1), slice_width(np.array([precision])), rng)[0])


def slice_width(precision: npt.NDArray[np.floating[Any]]) -> Floats:
    """Widths for slice sampling, a little more than two standard deviations."""
    return np.asarray(2.5 / np.sqrt(precision))


def draw_centre(
    effects: Floats, variance: float | Floats, mean: float | Floats, prior_variance: float, rng: np.random.Generator
) -> Floats:
    """Draw the centre of normal effects along axis 0, which is ``Normal(mean, prior_variance)`` itself."""
    precision = len(effects) / np.asarray(variance) + 1.0 / np.asarray(prior_variance)
    weighted = effects.sum(axis=0) / variance + np.asarray(mean) / prior_variance
    return np.asarray(rng.normal(weighted / precision, 1.0 / np.sqrt(precision)))


def draw_variance(deviations: Floats, spread: float, rng: np.random.Generator) -> Floats:
    """Draw the variance of normal deviations from 0, which is inverse gamma with mean ``spread**2``."""
    shape = FREEDOM + 0.5 * deviations.size
    scale = (FREEDOM - 1.0) * spread**2 + 0.5 * float(np.square(deviations).sum())
    return np.asarray(scale / rng.standard_gamma(shape))


def move_centre(
    effects: Floats,
    away: Callable[[float], float],
    seen: Mask,
    centre: tuple[float, float, float],
    variance: float,
    rng: np.random.Generator,
) -> float:
    """Draw a shift of the centre of normal effects, along with which all effects that are not seen move."""
    # Effects of cells that are 0 everywhere, which the prior alone places, and their centre and spread hold one another. `away`: the
    # log likelihood of these effects plus a shift. `centre`: the centre, and mean and variance of its normal prior.
    (mean, prior_mean, prior_variance), known = centre, effects[seen] - centre[0]
    total = known.sum()
    precision = len(known) / variance + 1.0 / prior_variance
    pull = total / variance - (mean - prior_mean) / prior_variance
    return slice_draw(lambda s: pull * s - 0.5 * precision * s**2 + away(s), precision, rng)


def move_spread(
    effects: Floats,
    centre: float | Floats,
    away: Callable[[float], float],
    seen: Mask,
    variance: float,
    spread: float,
    rng: np.random.Generator,
) -> tuple[Floats, float]:
    """Draw a factor by which the spread of normal effects grows, and those that are not seen; effects and variance after it."""
    # `away`: the log likelihood of these effects where their deviations are so many times as large. `spread`: the root of the prior
    # mean of the variance, which is inverse gamma.
    deviations = effects - centre
    known = 0.5 * float(np.square(deviations[seen]).sum()) + (FREEDOM - 1.0) * spread**2
    number = int(seen.sum()) + 2.0 * FREEDOM  # the density of the log variance has the power FREEDOM

    def log_density(r: float) -> float:
        return float(-number * r - known / variance * np.exp(-2.0 * r) + away(float(np.exp(r))))

    r = slice_draw(log_density, 2.0 * number, rng)
    return np.where(seen, effects, centre + deviations * np.exp(r)), variance * np.exp(2.0 * r)


def zeros_away(place: Floats, deviations: Floats, misses: Floats) -> Callable[[float], float]:
    """The log likelihood of shapes whose counts are all 0, as a function of a factor of the deviations of their logarithms."""
    # `place`, `deviations`: logarithms of the shapes are their sums. `misses`: sums of `log(1 - u)` over the leaves of a shape.

    def away(factor: float) -> float:
        with np.errstate(over="ignore"):
            return float(np.where(misses < 0.0, np.exp(place + deviations * factor) * misses, 0.0).sum())

    return away
