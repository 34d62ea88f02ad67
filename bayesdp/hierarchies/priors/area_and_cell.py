"""Area and cell effects, with the rates that scatter around their product integrated out.

Sums of ``log(r + a b)`` over the free cells of a line, as functions of the effect a of the line and the effects b across.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp.hierarchies.priors.base import Hyper, check_counts, finite_number, free_cells
from bayesdp.hierarchies.priors.gamma_terms import gamma_terms, gather
from bayesdp.hierarchies.priors.slices import FREEDOM, draw_centre, draw_variance, slice_draws
from bayesdp.hierarchies.priors.unseen import move_centre, move_spread
from bayesdp.hierarchies.tree import Tree

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]


class Lines(NamedTuple):
    """The counts of n lines (leaves, or cells) across m others.

    Parameters
    ----------
    free : bool array, shape (n, m)
    start : int64 array, shape (n + 1,)
    place, value : int64 arrays
        Free counts that are not zero, and where they are across: ``start[i] .. start[i + 1] - 1`` for line i.
    """

    free: Mask
    start: Ints
    place: Ints
    value: Ints


def lines_of(counts: Ints, free: Mask) -> Lines:
    """The rows of a table as lines."""
    line, place = np.nonzero(counts * free)
    start = np.concatenate([[0], np.cumsum(np.bincount(line, minlength=len(counts)))]).astype(np.int64)
    return Lines(np.ascontiguousarray(free), start, place.astype(np.int64), counts[line, place])


@nb.njit(cache=True, error_model="numpy")
def cell_terms(log_effect: Floats, log_shape: Floats, which: Ints, across: Floats, lines: Lines) -> Floats:
    """``sum over free cells of (x + r) log(1 + a b / r)`` for lines numbered `which` that have a shape r each."""
    # `log_effect`, `log_shape`: logarithms of a and r, one for each of `which`. `across`, shape (m,): the effects b.
    free, start, place, value = lines
    out = np.empty(len(which))
    for j in range(len(which)):
        i, shape = which[j], math.exp(log_shape[j])
        a = math.exp(log_effect[j] - log_shape[j])
        logs, product = 0.0, 1.0
        for c in range(len(across)):
            # Logarithms of products: a logarithm costs as much as a dozen products.
            product *= 1.0 + a * across[c] if free[i, c] else 1.0
            if product > 1e150:
                logs += math.log(product)
                product = 1.0
        total = shape * (logs + math.log(product))
        for e in range(start[i], start[i + 1]):
            total += value[e] * math.log1p(a * across[place[e]])
        out[j] = total
    return out


@nb.njit(cache=True, error_model="numpy")
def area_terms(log_effect: Floats, which: Ints, across: Floats, shapes: Floats, lines: Lines) -> Floats:
    """The same sums for lines across which the shapes differ."""
    # `log_effect`: logarithms of a, one for each of `which`. `across`, `shapes`, shape (m,): the effects b, and the shapes.
    free, start, place, value = lines
    ratio = across / shapes
    out = np.empty(len(which))
    for j in range(len(which)):
        i, a = which[j], math.exp(log_effect[j])
        total = 0.0
        for c in range(len(across)):
            if free[i, c]:
                total += shapes[c] * math.log1p(a * ratio[c])
        for e in range(start[i], start[i + 1]):
            total += value[e] * math.log1p(a * ratio[place[e]])
        out[j] = total
    return out


_LEVEL = 2.0
"""Prior standard deviation of the mean of the area effects, and of the mean of the log shapes."""

_SHAPE_SPREAD = 1.0
"""Root of the prior mean of the variance of log shapes."""


@dataclass(frozen=True)
class AreaAndCell:
    r"""Negative binomial cells whose mean is the product of an effect of the leaf and one of the cell, with a shape for each cell.

    .. math:: x_{tc} \sim \text{Poisson}(e^{\alpha_t + \beta_c} g_{tc}), \quad g_{tc} \sim \text{Gamma}(r_c, r_c),

    with the rates g integrated out: x is negative binomial with mean :math:`e^{\alpha_t + \beta_c}` and shape :math:`r_c`, and
    scatters by :math:`1 / \sqrt{r_c}` relative to the mean, beyond Poisson. The hyperparameters have proper priors:

    .. math:: \alpha_t \sim \text{Normal}(\mu, \sigma_\alpha^2), \quad \mu \sim \text{Normal}(\texttt{log\_mean}, 2^2), \quad
        \beta_c \sim \text{Normal}(0, \sigma_\beta^2), \quad \log r_c \sim \text{Normal}(\rho, \sigma_r^2), \quad
        \rho \sim \text{Normal}(0, 2^2)

    .. math:: \sigma_\alpha^2 \sim \text{InverseGamma}(3, 2\,\texttt{area\_spread}^2), \quad
        \sigma_\beta^2 \sim \text{InverseGamma}(3, 2\,\texttt{cell\_spread}^2), \quad \sigma_r^2 \sim \text{InverseGamma}(3, 2)

    `VaryingShares` has one number in the place of the mean and the shape of a cell, costs less (of 16 leaves of 252 cells two
    thirds of this, of 400 a fifth), and fits worse where some shares differ much more between areas than others of the same size.
    Sizes of areas it leaves to the cells: where one cell is nearly all of an area, they scatter as that cell does, and more than
    in fact.

    Parameters
    ----------
    log_mean : float
        Prior mean of the logarithm of a typical count.
    area_spread, cell_spread : float
        Roots of the prior means of the variances of area and cell effects.

    Notes
    -----
    An update draws each area effect, each cell effect and each log shape by slice sampling of its density given the table and
    the others, and the rest exactly; then it moves the level from the areas to the cells, which the counts do not notice. What cells
    that are 0 everywhere share with the others (the level, the spread of the cell effects, centre and spread of the log shapes)
    moves once more, together with theirs. Only free cells count: see `CellPrior`.

    Where most cells are empty, hyperparameters move more slowly than cells: with 16 blocks of 252 cells, measured as in the
    redistricting file, the slowest of them had one effective draw for each 18 draws, so that 200 take two chains of 2,000. They are in
    the verdict of `bayesdp.fit_hierarchy` like everything else.

    Hyperparameters: ``area`` of each leaf, ``cell`` of each cell, ``area_mean`` (mu), ``area_variance``, ``cell_variance``,
    ``log_shape`` of each cell, ``shape_centre`` and ``shape_variance``.

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
            "log_shape": ("cell",),
            "shape_centre": (),
            "shape_variance": (),
        }

    @property
    def formula(self) -> str:
        """The model, line by line."""
        scales = [f"{(FREEDOM - 1.0) * own**2:.6g}" for own in (self.area_spread, self.cell_spread, _SHAPE_SPREAD)]
        return "\n".join(
            [
                "x[t, c] ~ Poisson(exp(area[t] + cell[c]) g[t, c]),  g[t, c] ~ Gamma(r[c], r[c]);  the g are integrated out",
                f"area[t] ~ Normal(mu, s),  mu ~ Normal({self.log_mean:.6g}, {_LEVEL:.6g}),  "
                f"s**2 ~ InverseGamma({FREEDOM:.6g}, {scales[0]})",
                f"cell[c] ~ Normal(0, v),  v**2 ~ InverseGamma({FREEDOM:.6g}, {scales[1]})",
                f"log r[c] ~ Normal(rho, w),  rho ~ Normal(0, {_LEVEL:.6g}),  w**2 ~ InverseGamma({FREEDOM:.6g}, {scales[2]})",
            ]
        )

    def draw(self, tree: Tree, rng: np.random.Generator) -> dict[str, Floats]:
        """Draw hyperparameters from their prior."""
        leaves, cells = free_cells(tree).shape
        mean, rho = np.asarray(rng.normal(self.log_mean, _LEVEL)), np.asarray(rng.normal(0.0, _LEVEL))
        shapes = draw_variance(np.zeros(0), _SHAPE_SPREAD, rng)
        areas = draw_variance(np.zeros(0), self.area_spread, rng)
        across = draw_variance(np.zeros(0), self.cell_spread, rng)
        return {
            "area": rng.normal(mean, np.sqrt(areas), leaves),
            "cell": rng.normal(0.0, np.sqrt(across), cells),
            "area_mean": mean,
            "area_variance": areas,
            "cell_variance": across,
            "log_shape": rng.normal(rho, np.sqrt(shapes), cells),
            "shape_centre": rho,
            "shape_variance": shapes,
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
            "log_shape": np.zeros(free.shape[1]),
            "shape_centre": np.asarray(0.0),
            "shape_variance": np.asarray(_SHAPE_SPREAD**2),
        }

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """One pass over the hyperparameters given the table, shape (T, C)."""
        counts, free = check_counts(tree, counts), free_cells(tree)
        mean, across = float(hyper["area_mean"]), np.exp(hyper["cell"])
        spread, cell_spread, shape_spread = (float(hyper[f"{own}_variance"]) for own in ("area", "cell", "shape"))
        shapes, sizes = np.exp(hyper["log_shape"]), [np.where(free, counts, 0).sum(axis=axis) for axis in (1, 0)]

        def of_area(effect: Floats, which: Ints) -> Floats:
            normal = -0.5 * np.square(effect - mean) / spread
            return np.asarray(normal + sizes[0][which] * effect - area_terms(effect, which, across, shapes, by_leaf))

        # The precision of an effect is at most the total of its line, and at most the sum of the shapes along it.
        by_leaf, by_cell = lines_of(counts, free), lines_of(counts.T, free.T)
        area = slice_draws(of_area, hyper["area"], _width(1.0 / spread + np.minimum(sizes[0], free @ shapes)), rng)
        areas, log_shape = np.exp(area), hyper["log_shape"]

        def of_cell(effect: Floats, which: Ints) -> Floats:
            normal = -0.5 * np.square(effect) / cell_spread
            scatter = cell_terms(effect, log_shape[which], which, areas, by_cell)
            return np.asarray(normal + sizes[1][which] * effect - scatter)

        width = _width(1.0 / cell_spread + np.minimum(sizes[1], free.sum(axis=0) * shapes))
        cell = slice_draws(of_cell, hyper["cell"], width, rng)
        terms = gather(counts, free, np.zeros(len(free), dtype=np.int64), np.arange(len(cell)), len(cell))
        centre = float(hyper["shape_centre"])

        def of_shape(eta: Floats, which: Ints) -> Floats:
            prior = -0.5 * np.square(eta - centre) / shape_spread - sizes[1][which] * eta
            return np.asarray(
                prior + gamma_terms(eta, which, terms) - cell_terms(cell[which], eta, which, areas, by_cell)
            )

        # A count that is not zero says something of the shape, about half a unit of precision.
        log_shape = slice_draws(of_shape, log_shape, _width(1.0 / shape_spread + 0.5 * terms.above[:, 0]), rng)
        rho = draw_centre(log_shape, shape_spread, 0.0, _LEVEL**2, rng)
        area_mean = draw_centre(area, spread, self.log_mean, _LEVEL**2, rng)
        # Along (area + d, mean + d, cell - d) the counts, and areas about their mean, are as likely as before.
        precision = len(cell) / cell_spread + 1.0 / _LEVEL**2
        pull = cell.sum() / cell_spread + (self.log_mean - area_mean) / _LEVEL**2
        shift = rng.normal(pull / precision, precision**-0.5)
        area, area_mean, cell = area + shift, np.asarray(area_mean + shift), cell - shift
        new = {
            "area": area,
            "cell": cell,
            "area_mean": area_mean,
            "area_variance": draw_variance(area - area_mean, self.area_spread, rng),
            "cell_variance": draw_variance(cell, self.cell_spread, rng),
            "log_shape": log_shape,
            "shape_centre": rho,
            "shape_variance": draw_variance(log_shape - rho, _SHAPE_SPREAD, rng),
        }
        return new | self._unseen(new, by_cell, sizes[1] > 0, rng)

    def _unseen(self, hyper: Hyper, by_cell: Lines, seen: Mask, rng: np.random.Generator) -> dict[str, Floats]:
        """Move what cells that are 0 in all leaves share with the others, and these or the others along with it."""
        area, cell, eta = hyper["area"], hyper["cell"], hyper["log_shape"]
        rho, area_mean = float(hyper["shape_centre"]), float(hyper["area_mean"])
        across, between = float(hyper["cell_variance"]), float(hyper["shape_variance"])
        which, areas = np.flatnonzero(~seen), np.exp(area)

        def away(effect: Floats, log_shape: Floats) -> float:
            return -float(cell_terms(effect[which], log_shape[which], which, areas, by_cell).sum())

        # The level moves from the cells that are seen to the areas; those that are not keep their effects, and so have larger means.
        prior = area_mean, self.log_mean, _LEVEL**2
        level = move_centre(area_mean + cell, lambda s: away(cell + s, eta), seen, prior, across, rng)
        area, area_mean, cell = area + level, area_mean + level, np.where(seen, cell - level, cell)
        areas = np.exp(area)
        r = move_spread(cell, lambda factor: away(cell * factor, eta), seen, across, self.cell_spread, rng)
        cell, across = np.where(seen, cell, cell * np.exp(r)), across * np.exp(2.0 * r)
        s = move_centre(eta, lambda s: away(cell, eta + s), seen, (rho, 0.0, _LEVEL**2), between, rng)
        rho, eta = rho + s, np.where(seen, eta, eta + s)
        off = eta - rho
        r = move_spread(off, lambda factor: away(cell, rho + off * factor), seen, between, _SHAPE_SPREAD, rng)
        return {
            "area": area,
            "cell": cell,
            "area_mean": np.asarray(area_mean),
            "cell_variance": np.asarray(across),
            "log_shape": np.where(seen, eta, rho + off * np.exp(r)),
            "shape_centre": np.asarray(rho),
            "shape_variance": np.asarray(between * np.exp(2.0 * r)),
        }

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """``theta = log(mean / (mean + r))``, shape (T, C), and the shapes r, shape (1, C)."""
        log_mean = hyper["area"][:, None] + hyper["cell"]
        return -np.logaddexp(0.0, hyper["log_shape"] - log_mean), np.exp(hyper["log_shape"])[None, :]


def _width(precision: npt.NDArray[np.floating[Any]]) -> Floats:
    """Widths for slice sampling, a little more than two standard deviations."""
    return np.asarray(2.5 / np.sqrt(precision))
