"""Area and cell effects, with the rates that scatter around their product integrated out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesdp.hierarchies.priors.base import Floats, Hyper, Ints, check_counts, finite_number, free_cells
from bayesdp.hierarchies.priors.gamma_terms import gamma_terms, gather
from bayesdp.hierarchies.priors.product_terms import Lines, lines_of, product_terms
from bayesdp.hierarchies.priors.slices import FREEDOM, draw_centre, draw_variance, slice_draws
from bayesdp.hierarchies.tree import Tree

__all__ = ["AreaAndCell"]

_SHAPE = (0.0, 2.0)
"""Mean and standard deviation of the log shape."""


@dataclass(frozen=True)
class AreaAndCell:
    r"""Negative binomial cells whose mean is the product of an effect of the leaf and one of the cell, with one shape for all.

    .. math:: x_{tc} \sim \text{Poisson}(e^{\alpha_t + \beta_c} g_{tc}), \quad g_{tc} \sim \text{Gamma}(r, r),

    with the rates g integrated out: x is negative binomial with mean :math:`e^{\alpha_t + \beta_c}` and shape r. The
    hyperparameters have proper priors:

    .. math:: \alpha_t \sim \text{Normal}(\mu, \sigma_\alpha^2), \quad \mu \sim \text{Normal}(\texttt{log\_mean}, 2^2), \quad
        \beta_c \sim \text{Normal}(0, \sigma_\beta^2), \quad \log r \sim \text{Normal}(0, 2^2)

    .. math:: \sigma_\alpha^2 \sim \text{InverseGamma}(3, 2\,\texttt{area\_spread}^2), \quad
        \sigma_\beta^2 \sim \text{InverseGamma}(3, 2\,\texttt{cell\_spread}^2)

    All cells scatter alike around the product, relative to it. Where rare cells scatter more, `VaryingShares` fits better, and
    costs less.

    Parameters
    ----------
    log_mean : float
        Prior mean of the logarithm of a typical count.
    area_spread, cell_spread : float
        Roots of the prior means of the variances of area and cell effects.

    Notes
    -----
    An update draws each area effect, each cell effect and the log shape by slice sampling of its density given the table and the
    others, and the rest exactly; then it moves the level from the areas to the cells, which the counts do not notice. Only
    free cells count: see `CellPrior`.

    Hyperparameters: ``area`` of each leaf, ``cell`` of each cell, ``area_mean`` (mu), ``area_variance``, ``cell_variance`` and
    ``shape`` (r).

    Examples
    --------
    >>> AreaAndCell().names["area"]
    ('leaf',)
    """

    log_mean: float = 0.0
    area_spread: float = 1.0
    cell_spread: float = 2.0

    family: ClassVar[str] = "negbin"

    def __post_init__(self) -> None:
        finite_number(self.log_mean, "log_mean")
        finite_number(self.area_spread, "area_spread", positive=True)
        finite_number(self.cell_spread, "cell_spread", positive=True)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Each hyperparameter with its dimensions."""
        return {
            "area": ("leaf",),
            "cell": ("cell",),
            "area_mean": (),
            "area_variance": (),
            "cell_variance": (),
            "shape": (),
        }

    @property
    def formula(self) -> str:
        """The model, line by line."""
        scales = [f"{(FREEDOM - 1.0) * own**2:.6g}" for own in (self.area_spread, self.cell_spread)]
        return "\n".join(
            [
                "x[t, c] ~ Poisson(exp(area[t] + cell[c]) g[t, c]),  g[t, c] ~ Gamma(r, r);  the g are integrated out",
                f"area[t] ~ Normal(mu, s),  mu ~ Normal({self.log_mean:.6g}, 2),  s**2 ~ InverseGamma({FREEDOM:.6g}, {scales[0]})",
                f"cell[c] ~ Normal(0, v),  v**2 ~ InverseGamma({FREEDOM:.6g}, {scales[1]})",
                f"log r ~ Normal({_SHAPE[0]:.6g}, {_SHAPE[1]:.6g})",
            ]
        )

    def draw(self, tree: Tree, rng: np.random.Generator) -> dict[str, Floats]:
        """Draw hyperparameters from their prior."""
        leaves, cells = free_cells(tree).shape
        mean = np.asarray(rng.normal(self.log_mean, 2.0))
        areas = draw_variance(np.zeros(0), self.area_spread, rng)
        across = draw_variance(np.zeros(0), self.cell_spread, rng)
        return {
            "area": rng.normal(mean, np.sqrt(areas), leaves),
            "cell": rng.normal(0.0, np.sqrt(across), cells),
            "area_mean": mean,
            "area_variance": areas,
            "cell_variance": across,
            "shape": np.asarray(np.exp(rng.normal(*_SHAPE))),
        }

    def start(self, tree: Tree, counts: Ints) -> dict[str, Floats]:
        """Effects that go with the averages of leaves and cells."""
        counts, free = check_counts(tree, counts), free_cells(tree)
        own = np.where(free, counts, 0) + np.where(free, 0.1, 0.0)
        level = np.log(max(float(own.sum()) / max(int(free.sum()), 1), 0.1))
        area = np.log((own.sum(axis=1) + 0.1) / (free.sum(axis=1) + 1))
        cell = np.log((own.sum(axis=0) + 0.1) / (free.sum(axis=0) + 1)) - level
        return {
            "area": area,
            "cell": cell,
            "area_mean": np.asarray(area.mean()),
            "area_variance": np.asarray(self.area_spread**2),
            "cell_variance": np.asarray(self.cell_spread**2),
            "shape": np.asarray(1.0),
        }

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """One pass over the hyperparameters given the table, shape (T, C)."""
        counts, free = check_counts(tree, counts), free_cells(tree)
        shape, mean = float(hyper["shape"]), float(hyper["area_mean"])
        variances = [float(hyper[name]) for name in ("area_variance", "cell_variance")]
        by_leaf = lines_of(counts, free)
        area = _effects(by_leaf, hyper["area"], hyper["cell"], (mean, variances[0]), shape, rng)
        cell = _effects(lines_of(counts.T, free.T), hyper["cell"], area, (0.0, variances[1]), shape, rng)
        shape = _shape(by_leaf, counts, area, cell, shape, rng)
        area_mean = draw_centre(area, variances[0], self.log_mean, 4.0, rng)
        # Along (area + d, mean + d, cell - d) the counts, and areas about their mean, are as likely as before.
        precision = len(cell) / variances[1] + 0.25
        shift = rng.normal(
            (cell.sum() / variances[1] + 0.25 * (self.log_mean - area_mean)) / precision, precision**-0.5
        )
        area, area_mean, cell = area + shift, np.asarray(area_mean + shift), cell - shift
        return {
            "area": area,
            "cell": cell,
            "area_mean": area_mean,
            "area_variance": draw_variance(area - area_mean, self.area_spread, rng),
            "cell_variance": draw_variance(cell, self.cell_spread, rng),
            "shape": np.asarray(shape),
        }

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """``theta = log(mean / (mean + r))``, shape (T, C), and r for every cell, shape (1, C)."""
        log_mean = hyper["area"][:, None] + hyper["cell"]
        return -np.logaddexp(0.0, np.log(hyper["shape"]) - log_mean), np.full(
            (1, log_mean.shape[1]), float(hyper["shape"])
        )


def _effects(
    lines: Lines, start: Floats, across: Floats, prior: tuple[float, float], shape: float, rng: np.random.Generator
) -> Floats:
    """Draw the log effects of lines, given the log effects across and the mean and variance of the prior."""
    (mean, variance), effects = prior, np.exp(across)
    totals = np.add.reduceat(np.append(lines.value, 0), lines.start[:-1]) * (np.diff(lines.start) > 0)

    def log_density(effect: Floats, which: Ints) -> Floats:
        normal = -0.5 * np.square(effect - mean) / variance
        return np.asarray(normal + totals[which] * effect - product_terms(effect, which, effects, lines, shape))

    # The precision of an effect is at most the total of its line, and at most r for each of its cells.
    width = 2.5 / np.sqrt(1.0 / variance + np.minimum(totals, shape * lines.free.sum(axis=1)))
    return slice_draws(log_density, start.astype(np.float64), width, rng)


def _shape(lines: Lines, counts: Ints, area: Floats, cell: Floats, start: float, rng: np.random.Generator) -> float:
    """Draw the shape that all cells have."""
    leaves, cells = lines.free.shape
    zeros, effects, every = np.zeros(max(leaves, cells), dtype=np.int64), np.exp(cell), np.arange(leaves)
    terms = gather(counts, lines.free, zeros[:leaves], zeros[:cells], 1)
    total = int(lines.value.sum())

    def log_density(log_shape: Floats, which: Ints) -> Floats:
        scatter = product_terms(area, every, effects, lines, float(np.exp(log_shape[0]))).sum()
        prior = -0.5 * np.square((log_shape - _SHAPE[0]) / _SHAPE[1])
        return np.asarray(prior + gamma_terms(log_shape, which, terms) - total * log_shape - scatter)

    # Non-zero counts say something of the shape, about half a unit of precision each.
    width = 2.5 / np.sqrt(0.25 + 0.25 * terms.above[:, 0])
    return float(np.exp(slice_draws(log_density, np.log([start]), width, rng)[0]))
