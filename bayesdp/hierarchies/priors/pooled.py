"""Priors whose hyperparameters are drawn given the table, with the rates that scatter around them integrated out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import betaln

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._numba import nb
from bayesdp._validate import finite_real, instance, positive_real
from bayesdp.hierarchies.priors.base import (
    FREEDOM,
    GammaTerms,
    Hyper,
    draw_centre,
    draw_variance,
    free_cells,
    free_counts,
    gamma_terms,
    gather,
    move_centre,
    move_spread,
    slice_draw,
    slice_draws,
    slice_width,
    zeros_away,
)
from bayesdp.hierarchies.structure import Tree


class Lines(NamedTuple):
    """The counts of n lines (leaves, or cells) across m others."""

    free: Mask  # shape (n, m)
    start: Ints  # shape (n + 1,)
    place: Ints  # where free counts that are not zero are across: ``start[i] .. start[i + 1] - 1`` for line i
    value: Ints  # these counts


def _lines_of(counts: Ints, free: Mask) -> Lines:
    """The rows of a table, 0 where cells are not free, as lines."""
    line, place = np.nonzero(counts)
    start = np.concatenate([[0], np.cumsum(np.bincount(line, minlength=len(counts)))]).astype(np.int64)
    return Lines(np.ascontiguousarray(free), start, place.astype(np.int64), counts[line, place])


@nb.njit(cache=True, error_model="numpy")
def cell_terms(log_effect: Floats, log_shape: Floats, which: Ints, across: Floats, lines: Lines) -> Floats:
    """``sum over free cells of (x + r) log(1 + a b / r)`` for lines numbered `which` that have a shape r each."""
    # `log_effect`, `log_shape`: of a and r, one for each of `which`. `across`, shape (m,): the effects b.
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

    `VaryingShares` has one number in the place of the mean and the shape of a cell, costs less, and fits worse where some shares
    differ much more between areas than others of the same size. `AreaAndCell` leaves sizes of areas to the cells: where one cell is
    nearly all of an area, they scatter as that cell does, and more than in fact.

    Parameters
    ----------
    log_mean : float
        Prior mean of the logarithm of a typical count.
    area_spread, cell_spread : float
        Roots of the prior means of the variances of area and cell effects.

    Notes
    -----
    Where most cells are empty, hyperparameters move more slowly than cells. Only free cells count: see `CellPrior`.

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
        finite_real(self.log_mean, "log_mean")
        positive_real(self.area_spread, "area_spread")
        positive_real(self.cell_spread, "cell_spread")

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Each hyperparameter with its dimensions."""
        own: dict[str, tuple[str, ...]] = {"area": ("leaf",), "cell": ("cell",), "area_mean": (), "area_variance": ()}
        return own | {"cell_variance": (), "log_shape": ("cell",), "shape_centre": (), "shape_variance": ()}

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
        area, cell = rng.normal(mean, np.sqrt(areas), leaves), rng.normal(0.0, np.sqrt(across), cells)
        return self._hyper(area, cell, mean, areas, across, rng.normal(rho, np.sqrt(shapes), cells), rho, shapes)

    def _hyper(self, *values: Floats | float) -> dict[str, Floats]:
        """All hyperparameters, in the order of `names`."""
        return dict(zip(self.names, map(np.asarray, values), strict=True))

    def start(self, tree: Tree, counts: Ints) -> dict[str, Floats]:
        """Effects that go with the averages of leaves and cells."""
        counts, free = free_counts(tree, counts)
        own = counts + np.where(free, 0.1, 0.0)
        level = np.log(max(float(own.sum()) / max(int(free.sum()), 1), 0.1))
        area = np.log((own.sum(axis=1) + 0.1) / (free.sum(axis=1) + 1))
        cell = np.log((own.sum(axis=0) + 0.1) / (free.sum(axis=0) + 1)) - level
        variances, log_shape = (self.area_spread**2, self.cell_spread**2), np.zeros(free.shape[1])
        return self._hyper(area, cell, area.mean(), *variances, log_shape, 0.0, _SHAPE_SPREAD**2)

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """One pass over the hyperparameters given the table, shape (T, C)."""
        counts, free = free_counts(tree, counts)
        mean, across = float(hyper["area_mean"]), np.exp(hyper["cell"])
        spread, cell_spread, shape_spread = (float(hyper[f"{own}_variance"]) for own in ("area", "cell", "shape"))
        shapes, sizes = np.exp(hyper["log_shape"]), [counts.sum(axis=axis) for axis in (1, 0)]

        def of_area(effect: Floats, which: Ints) -> Floats:
            normal = -0.5 * np.square(effect - mean) / spread
            return np.asarray(normal + sizes[0][which] * effect - area_terms(effect, which, across, shapes, by_leaf))

        # The precision of an effect is at most the total of its line, and at most the sum of the shapes along it.
        by_leaf, by_cell = _lines_of(counts, free), _lines_of(counts.T, free.T)
        width = slice_width(1.0 / spread + np.minimum(sizes[0], free @ shapes))
        area = slice_draws(of_area, hyper["area"], width, rng)
        areas, log_shape = np.exp(area), hyper["log_shape"]

        def of_cell(effect: Floats, which: Ints) -> Floats:
            normal = -0.5 * np.square(effect) / cell_spread
            scatter = cell_terms(effect, log_shape[which], which, areas, by_cell)
            return np.asarray(normal + sizes[1][which] * effect - scatter)

        width = slice_width(1.0 / cell_spread + np.minimum(sizes[1], free.sum(axis=0) * shapes))
        cell = slice_draws(of_cell, hyper["cell"], width, rng)
        terms = gather(counts, np.zeros(len(free), dtype=np.int64), np.arange(len(cell)), len(cell))
        centre = float(hyper["shape_centre"])

        def of_shape(eta: Floats, which: Ints) -> Floats:
            prior = -0.5 * np.square(eta - centre) / shape_spread - sizes[1][which] * eta
            scatter = cell_terms(cell[which], eta, which, areas, by_cell)
            return np.asarray(prior + gamma_terms(eta, which, terms) - scatter)

        # A count that is not zero says something of the shape, about half a unit of precision.
        log_shape = slice_draws(of_shape, log_shape, slice_width(1.0 / shape_spread + 0.5 * terms.above[:, 0]), rng)
        rho = draw_centre(log_shape, shape_spread, 0.0, _LEVEL**2, rng)
        area_mean = draw_centre(area, spread, self.log_mean, _LEVEL**2, rng)
        # Along (area + d, mean + d, cell - d) the counts, and areas about their mean, are as likely as before.
        precision = len(cell) / cell_spread + 1.0 / _LEVEL**2
        pull = cell.sum() / cell_spread + (self.log_mean - area_mean) / _LEVEL**2
        shift = rng.normal(pull / precision, precision**-0.5)
        area, area_mean, cell = area + shift, np.asarray(area_mean + shift), cell - shift
        area_variance = draw_variance(area - area_mean, self.area_spread, rng)
        cell_variance = draw_variance(cell, self.cell_spread, rng)
        shape_variance = draw_variance(log_shape - rho, _SHAPE_SPREAD, rng)
        new = self._hyper(area, cell, area_mean, area_variance, cell_variance, log_shape, rho, shape_variance)
        return self._unseen(new, by_cell, sizes[1] > 0, rng)

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
        grown = move_spread(cell, 0.0, lambda factor: away(cell * factor, eta), seen, across, self.cell_spread, rng)
        cell, across = grown
        s = move_centre(eta, lambda s: away(cell, eta + s), seen, (rho, 0.0, _LEVEL**2), between, rng)
        rho, eta = rho + s, np.where(seen, eta, eta + s)
        off = eta - rho
        eta, between = move_spread(
            eta, rho, lambda factor: away(cell, rho + off * factor), seen, between, _SHAPE_SPREAD, rng
        )
        return self._hyper(area, cell, area_mean, hyper["area_variance"], across, eta, rho, between)

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """``theta = log(mean / (mean + r))``, shape (T, C), and the shapes r, shape (1, C)."""
        log_mean = hyper["area"][:, None] + hyper["cell"]
        return -np.logaddexp(0.0, hyper["log_shape"] - log_mean), np.exp(hyper["log_shape"])[None, :]


def _move_cells(
    eta: Floats, misses: Floats, centre: tuple[Floats, float, float], terms: GammaTerms, rng: np.random.Generator
) -> Floats:
    """Draw a shift of each cell, shape (C,): of its centre, and of its log shapes in all nodes."""
    # In turn they move little: the nodes' log shapes and their centre hold one another. `eta`, `misses`, shape (nodes, C): log shapes,
    # and sums of `log(1 - u)` over the leaves of a node in which the cell is free. `centre`: of each cell what its log shapes scatter
    # around, shape (C,), and mean and variance of its normal prior. `terms`: the shape of node n and cell c is number `n C + c`.
    nodes, cells = eta.shape
    (own, mean, variance), first = centre, np.arange(nodes)[:, None] * cells

    def log_density(shift: Floats, which: Ints) -> Floats:
        moved = eta[:, which] + shift
        gammas = gamma_terms(moved.reshape(-1), (first + which).reshape(-1), terms).reshape(nodes, -1)
        prior = -0.5 * np.square(own[which] + shift - mean) / variance
        return np.asarray(prior + (gammas + np.exp(moved) * misses[:, which]).sum(axis=0))

    above = terms.above[:, 0].reshape(nodes, cells).sum(axis=0)
    return slice_draws(log_density, np.zeros(cells), slice_width(1.0 / variance + 0.5 * above), rng)


SCALE_SHAPE = (math.log(2.0), 0.75)
"""Mean and standard deviation of log q: sizes of areas then scatter by a factor between 1.4 (q of 9) and 10 (q of 0.45)."""


def _draw_typical(hyper: Hyper, prior: tuple[float, float], rng: np.random.Generator) -> dict[str, Floats]:
    """Draw what scales b scatter around, m and q of ``b / (1 + b) ~ Beta(m q, q)``, one after the other."""
    # `prior`: mean and standard deviation of log m; those of log q are `SCALE_SHAPE`.
    log_scale, (mean, spread) = hyper["log_scale"], prior
    leaves = len(log_scale)
    ups, downs = -np.logaddexp(0.0, -log_scale).sum(), -np.logaddexp(0.0, log_scale).sum()
    log_m, log_q = np.log(hyper["typical_scale"]).reshape(1), np.log(hyper["scale_shape"]).reshape(1)

    def log_density(log_m: Floats, log_q: Floats) -> Floats:
        p, q = np.exp(log_m + log_q), np.exp(log_q)
        normal = -0.5 * ((log_m - mean) / spread) ** 2 - 0.5 * ((log_q - SCALE_SHAPE[0]) / SCALE_SHAPE[1]) ** 2
        return np.asarray(normal + p * ups + q * downs - leaves * betaln(p, q))

    log_m = slice_draws(lambda value, _: log_density(value, log_q), log_m, np.ones(1), rng)
    log_q = slice_draws(lambda value, _: log_density(log_m, value), log_q, np.ones(1), rng)
    return {"typical_scale": np.exp(log_m[0]), "scale_shape": np.exp(log_q[0])}


def log_odds(p: Floats, q: Floats, rng: np.random.Generator) -> Floats:
    """Draw ``log(u / (1 - u))`` for u ~ Beta(p, q), shape of p and q."""

    def log_gamma(shape: Floats) -> Floats:
        # Gamma(a) is Gamma(a + 1) times the a-th root of a uniform number: also where it is zero in floating point.
        return np.log(rng.standard_gamma(shape + 1.0)) - rng.exponential(size=shape.shape) / shape

    return log_gamma(p) - log_gamma(q)


@dataclass(frozen=True)
class VaryingShares:
    r"""Poisson cells with gamma rates whose shares vary by area; the rates, one for each cell of each leaf, are integrated out.

    For leaf t and cell c, with rates g and the scale b of a leaf,

    .. math:: x_{tc} \sim \text{Poisson}(b_t g_{tc}), \quad g_{tc} \sim \text{Gamma}(a_c)
        \quad\Rightarrow\quad P(x_{tc}) = \frac{\Gamma(x + a_c)}{\Gamma(a_c)\, x!} u_t^x (1 - u_t)^{a_c},
        \quad u_t = \frac{b_t}{1 + b_t},

    so that the shares of the cells in a leaf are Dirichlet with parameters a, and its expected size is :math:`b_t \sum_c a_c`. Small
    shapes are rare cells, or cells that are many in few leaves. Within this family the size of a leaf scatters by at least
    :math:`1 / \sqrt{\sum_c a_c}`, relative to its expectation.

    The hyperparameters have proper priors:

    .. math:: u_t \sim \text{Beta}(m q, q), \quad \log m \sim \text{Normal}(\texttt{log\_scale}, \texttt{scale\_spread}^2), \quad
        \log q \sim \text{Normal}(\log 2, 0.75^2)

    .. math:: \log a_c \sim \text{Normal}(\mu, \sigma^2), \quad \mu \sim \text{Normal}(\texttt{log\_shape}, 2^2), \quad
        \sigma^2 \sim \text{InverseGamma}(3, 2\,\texttt{spread}^2)

    and with a `level`, whose nodes n have shapes of their own, :math:`\log a_{nc} \sim \text{Normal}(\log a_c, \tau^2)` with
    :math:`\tau^2 \sim \text{InverseGamma}(3, 2\,\texttt{within}^2)` in the place of :math:`a_c`.

    Parameters
    ----------
    level : str, optional
        A level of the tree, such as ``"county"``: each of its nodes has shapes of its own, partially pooled.
    log_scale, scale_spread : float
        Prior of the logarithm of the typical scale of a leaf, its expected size over the sum of shapes.
    log_shape : float
        Prior mean of the log shapes.
    spread : float
        Root of the prior mean of the variance of log shapes between cells.
    within : float
        Root of the prior mean of the variance of log shapes between nodes of the level.

    Notes
    -----
    Only free cells count, for sizes and sums of shapes too: see `CellPrior`. Where most cells are empty, hyperparameters move more
    slowly than cells.

    Hyperparameters: ``log_scale`` of each leaf (log b), ``log_shape`` of each cell, or of each node and cell; ``typical_scale`` (m)
    and ``scale_shape`` (q); ``shape_centre`` and ``shape_variance``; with a level ``cell_centre`` of each cell and
    ``within_variance``.

    Examples
    --------
    >>> VaryingShares().names["log_shape"], VaryingShares("county").names["log_shape"]
    (('cell',), ('county', 'cell'))
    """

    level: str | None = None
    log_scale: float = 2.3
    scale_spread: float = 3.0
    log_shape: float = -2.0
    spread: float = 1.5
    within: float = 0.5

    family: ClassVar[str] = "negbin"

    def __post_init__(self) -> None:
        instance(self.level, str | None, "level must be the name of a level of the tree", quoted=True)
        finite_real(self.log_scale, "log_scale")
        finite_real(self.log_shape, "log_shape")
        for name in ("scale_spread", "spread", "within"):
            positive_real(getattr(self, name), name)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Each hyperparameter with its dimensions."""
        shapes = ("cell",) if self.level is None else (self.level, "cell")
        own: dict[str, tuple[str, ...]] = {"log_scale": ("leaf",), "log_shape": shapes}
        own |= {"typical_scale": (), "scale_shape": (), "shape_centre": (), "shape_variance": ()}
        return own if self.level is None else own | {"cell_centre": ("cell",), "within_variance": ()}

    @property
    def formula(self) -> str:
        """The model, line by line."""
        lines = [
            "x[t, c] ~ Poisson(b[t] g[t, c]),  g[t, c] ~ Gamma(a[c]);  the g are integrated out (x negative binomial)",
            f"b[t] / (1 + b[t]) ~ Beta(m q, q),  log q ~ Normal({SCALE_SHAPE[0]:.6g}, {SCALE_SHAPE[1]:.6g})",
            f"log m ~ Normal({self.log_scale:.6g}, {self.scale_spread:.6g})",
            f"log a[c] ~ Normal(mu, sigma),  mu ~ Normal({self.log_shape:.6g}, 2)",
            f"sigma**2 ~ InverseGamma({FREEDOM:.6g}, {(FREEDOM - 1.0) * self.spread**2:.6g})",
        ]
        if self.level is not None:
            lines[0] = lines[0].replace("a[c]", f"a[{self.level} of t, c]")
            scale = f"tau**2 ~ InverseGamma({FREEDOM:.6g}, {(FREEDOM - 1.0) * self.within**2:.6g})"
            lines.append(f"log a[{self.level}, c] ~ Normal(log a[c], tau),  {scale}")
        return "\n".join(lines)

    def _groups(self, tree: Tree) -> tuple[Ints, int]:
        """The place of each leaf's node in the level, and how many nodes that has."""
        if self.level is None:
            return np.zeros(len(tree.order), dtype=np.int64), 1
        if self.level not in tree.levels:
            raise ValueError(f"level must be one of {', '.join(map(repr, tree.levels))}, got {self.level!r}")
        nodes = tree.path[:, tree.levels.index(self.level)]
        return np.asarray(nodes - nodes[0]), int(nodes[-1] - nodes[0]) + 1

    def draw(self, tree: Tree, rng: np.random.Generator) -> dict[str, Floats]:
        """Draw hyperparameters from their prior."""
        leaves, cells = free_cells(tree).shape
        q = np.exp(rng.normal(*SCALE_SHAPE))
        m = np.exp(rng.normal(self.log_scale, self.scale_spread))
        centre, variance = np.asarray(rng.normal(self.log_shape, 2.0)), draw_variance(np.zeros(0), self.spread, rng)
        eta = rng.normal(centre, np.sqrt(variance), cells)
        hyper = {"typical_scale": np.asarray(m), "scale_shape": np.asarray(q), "shape_centre": centre}
        hyper |= {"shape_variance": variance, "log_shape": eta}
        if self.level is not None:
            tau2 = draw_variance(np.zeros(0), self.within, rng)
            within = rng.normal(eta, np.sqrt(tau2), (self._groups(tree)[1], cells))
            hyper |= {"cell_centre": eta, "within_variance": tau2, "log_shape": within}
        return hyper | {"log_scale": log_odds(np.full(leaves, m * q), np.full(leaves, q), rng)}

    def start(self, tree: Tree, counts: Ints) -> dict[str, Floats]:
        """Shapes that go with the average counts of cells, and scales that go with the sizes of leaves."""
        counts, free = free_counts(tree, counts)
        # Half a count for every cell, so that nothing is zero; a concentration of a quarter of the cells in use.
        averages = (counts.sum(axis=0) + 0.5) / np.maximum(free.sum(axis=0), 1)
        shapes = averages / averages.sum() * max(1.0, 0.25 * float((averages > averages.mean() * 0.1).sum()))
        eta = np.clip(np.log(shapes), -8.0, 8.0)
        log_scale = np.log(counts.sum(axis=1) + 0.5) - np.log(np.where(free, np.exp(eta), 0.0).sum(axis=1) + 0.5)
        hyper = {"typical_scale": np.asarray(np.exp(np.median(log_scale))), "scale_shape": np.asarray(2.0)}
        hyper |= {"shape_centre": np.asarray(eta.mean()), "shape_variance": np.asarray(self.spread**2)}
        hyper |= {"log_scale": log_scale, "log_shape": eta}
        if self.level is not None:
            own = np.tile(eta, (self._groups(tree)[1], 1))
            hyper |= {"cell_centre": eta, "within_variance": np.asarray(self.within**2), "log_shape": own}
        return hyper

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """One pass over the hyperparameters given the table, shape (T, C)."""
        counts, free = free_counts(tree, counts)
        group, groups = self._groups(tree)
        new = dict(hyper)
        p, q = float(hyper["typical_scale"] * hyper["scale_shape"]), float(hyper["scale_shape"])
        shapes = np.exp(hyper["log_shape"]).reshape(groups, -1)
        sums = np.einsum("tc,tc->t", free, shapes[group])
        sizes = counts.sum(axis=1)
        new["log_scale"] = log_odds(np.asarray(p + sizes, dtype=np.float64), q + sums, rng)
        new |= _draw_typical(new, (self.log_scale, self.scale_spread), rng)
        cells = counts.shape[1]
        terms = gather(counts, group * cells, np.arange(cells), groups * cells)
        new |= self._shapes(new, terms, free, (group, groups), rng)
        sums = np.einsum("tc,tc->t", free, np.exp(new["log_shape"]).reshape(groups, -1)[group])
        return new | self._rescaled(new, terms, sizes, sums, rng)

    def _shapes(
        self, hyper: Hyper, terms: GammaTerms, free: Mask, nodes: tuple[Ints, int], rng: np.random.Generator
    ) -> dict[str, Floats]:
        """Draw the shapes given the scales, and then what they are pooled by."""
        (group, groups), cells = nodes, free.shape[1]
        # Sums over the leaves of a node of log(1 - u); the leaves of a node follow one another.
        first = np.flatnonzero(np.diff(group, prepend=-1))
        misses = np.add.reduceat(free * -np.logaddexp(0.0, hyper["log_scale"])[:, None], first).reshape(-1)
        pooled = self.level is None
        centre = np.broadcast_to(hyper["shape_centre"] if pooled else hyper["cell_centre"], (groups, cells)).reshape(-1)
        variance = float(hyper["shape_variance"] if pooled else hyper["within_variance"])

        def log_density(eta: Floats, which: Ints) -> Floats:
            prior = -0.5 * np.square(eta - centre[which]) / variance
            return np.asarray(prior + gamma_terms(eta, which, terms) + np.exp(eta) * misses[which])

        # A count above zero is worth about half a unit of precision of its log shape.
        width = slice_width(1.0 / variance + 0.5 * terms.above[:, 0])
        eta = slice_draws(log_density, hyper["log_shape"].reshape(-1).astype(np.float64), width, rng)
        new: dict[str, Floats] = {"log_shape": eta.reshape(hyper["log_shape"].shape)}
        cell = eta
        if not pooled:
            own, between = eta.reshape(groups, cells), float(hyper["shape_variance"])
            cell = draw_centre(own, variance, hyper["shape_centre"], between, rng)
            centres = cell, float(hyper["shape_centre"]), between
            shift = _move_cells(own, misses.reshape(groups, cells), centres, terms, rng)
            cell, own = cell + shift, own + shift
            new |= {"log_shape": own.reshape(hyper["log_shape"].shape), "cell_centre": cell}
            new["within_variance"] = draw_variance(own - cell, self.within, rng)
        new["shape_centre"] = draw_centre(cell, float(hyper["shape_variance"]), self.log_shape, 4.0, rng)
        new["shape_variance"] = draw_variance(cell - new["shape_centre"], self.spread, rng)
        return self._unseen(new, terms.above[:, 0].reshape(groups, cells) > 0, misses.reshape(groups, cells), rng)

    def _unseen(self, hyper: Hyper, seen: Mask, misses: Floats, rng: np.random.Generator) -> dict[str, Floats]:
        """Move what log shapes are pooled by together with those of cells that are 0 in all leaves (of a node)."""
        new, eta = dict(hyper), hyper["log_shape"].reshape(seen.shape)
        if self.level is not None:
            centre, within = hyper["cell_centre"], float(hyper["within_variance"])
            away = zeros_away(np.broadcast_to(centre, eta.shape)[~seen], (eta - centre)[~seen], misses[~seen])
            eta, within = move_spread(eta, centre, away, seen, within, self.within, rng)
            new["within_variance"] = np.asarray(within)
        cell = eta[0] if self.level is None else hyper["cell_centre"]
        known, mean, variance = seen.any(axis=0), float(hyper["shape_centre"]), float(hyper["shape_variance"])
        # All nodes' shapes of a cell move along with the cell's.
        weight = float((np.exp(eta) * misses).sum(axis=0)[~known].sum())
        s = move_centre(cell, lambda s: float(np.exp(s)) * weight, known, (mean, self.log_shape, 4.0), variance, rng)
        moved, mean = np.where(known, cell, cell + s), mean + s
        per_unit = (np.exp(eta - cell) * misses).sum(axis=0)
        away = zeros_away(np.asarray(mean), (moved - mean)[~known], per_unit[~known])
        moved, variance = move_spread(moved, mean, away, known, variance, self.spread, rng)
        new |= {"shape_centre": np.asarray(mean), "shape_variance": np.asarray(variance)}
        if self.level is not None:
            new["cell_centre"] = moved
        return new | {"log_shape": (eta + (moved - cell)).reshape(hyper["log_shape"].shape)}

    def _rescaled(
        self, hyper: Hyper, terms: GammaTerms, sizes: Ints, sums: Floats, rng: np.random.Generator
    ) -> dict[str, Floats]:
        """Move all shapes up and all scales down by one factor, which leaves expected counts as they are."""
        # Large shapes and scales know one another nearly exactly, so that in turn they would move little.
        eta, which = hyper["log_shape"].reshape(-1), np.arange(hyper["log_shape"].size)
        log_m, q, leaves = float(np.log(hyper["typical_scale"])), float(hyper["scale_shape"]), len(sizes)

        def log_density(s: float) -> float:
            p, log_scale = np.exp(log_m - s) * q, hyper["log_scale"] - s
            up, down = -np.logaddexp(0.0, -log_scale), -np.logaddexp(0.0, log_scale)
            found = gamma_terms(eta + s, which, terms).sum() + ((p + sizes) * up + (q + np.exp(s) * sums) * down).sum()
            found -= leaves * betaln(p, q) + 0.5 * ((log_m - s - self.log_scale) / self.scale_spread) ** 2
            return float(found - 0.125 * (float(hyper["shape_centre"]) + s - self.log_shape) ** 2)

        s = slice_draw(log_density, 0.25 + 0.5 * float(terms.above[:, 0].sum()), rng)
        moved = {name: hyper[name] + s for name in ("log_shape", "shape_centre", "cell_centre") if name in hyper}
        return moved | {"log_scale": hyper["log_scale"] - s, "typical_scale": hyper["typical_scale"] * np.exp(-s)}

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """``theta = log u``, the same for all cells of a leaf, shape (T, C); shapes (1, C), or (T, C) with a level."""
        theta = np.repeat(-np.logaddexp(0.0, -hyper["log_scale"]), tree.cells).reshape(-1, tree.cells)
        shapes = np.exp(hyper["log_shape"])
        return theta, shapes.reshape(1, tree.cells) if self.level is None else shapes[self._groups(tree)[0]]
