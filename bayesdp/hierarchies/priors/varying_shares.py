"""Shares of cells that vary by area, and sizes of areas, with all rates integrated out.

A cell's log shape in all nodes of a level, moved together with what these scatter around.

In turn they move little: the nodes' log shapes hold their centre, which is a spread between nodes wide, and it holds them,
also where the counts leave both free by much more.

Scales of leaves whose odds are beta distributed, and what they scatter around.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import betaln

from bayesdp.hierarchies.priors.base import Hyper, Mask, check_counts, finite_number, free_cells
from bayesdp.hierarchies.priors.gamma_terms import GammaTerms, gamma_terms, gather
from bayesdp.hierarchies.priors.slices import FREEDOM, draw_centre, draw_variance, slice_draws
from bayesdp.hierarchies.priors.unseen import move_centre, move_spread, zeros_away
from bayesdp.hierarchies.tree import Tree

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


def move_cells(
    eta: Floats,
    misses: Floats,
    centre: tuple[Floats, float, float],
    terms: GammaTerms,
    rng: np.random.Generator,
) -> Floats:
    """Draw a shift of each cell: of its centre, and of its log shapes in all nodes."""
    # `eta`, shape (nodes, C): log shapes. `misses`, shape (nodes, C): sums of `log(1 - u)` over the leaves of a node in which the
    # cell is free. `centre`: of each cell what its log shapes scatter around, shape (C,), and mean and variance of its normal
    # prior. `terms`: of the counts; the shape of node n and cell c is number `n C + c`. Returns shape (C,).
    nodes, cells = eta.shape
    (own, mean, variance), first = centre, np.arange(nodes)[:, None] * cells

    def log_density(shift: Floats, which: Ints) -> Floats:
        moved = eta[:, which] + shift
        gammas = gamma_terms(moved.reshape(-1), (first + which).reshape(-1), terms).reshape(nodes, -1)
        prior = -0.5 * np.square(own[which] + shift - mean) / variance
        return np.asarray(prior + (gammas + np.exp(moved) * misses[:, which]).sum(axis=0))

    above = terms.above[:, 0].reshape(nodes, cells).sum(axis=0)
    return slice_draws(log_density, np.zeros(cells), 2.5 / np.sqrt(1.0 / variance + 0.5 * above), rng)


SCALE_SHAPE = (math.log(2.0), 0.75)
"""Mean and standard deviation of log q: sizes of areas then scatter by a factor between 1.4 (q of 9) and 10 (q of 0.45)."""


def draw_typical(hyper: Hyper, prior: tuple[float, float], rng: np.random.Generator) -> dict[str, Floats]:
    """Draw what scales b scatter around, m and q of ``b / (1 + b) ~ Beta(m q, q)``, one after the other."""
    # `hyper` has `log_scale` (log b), shape (T,), `typical_scale` (m) and `scale_shape` (q). `prior`: mean and standard deviation
    # of log m; those of log q are `SCALE_SHAPE`. Returns new `typical_scale` and `scale_shape`.
    log_scale, (mean, spread) = hyper["log_scale"], prior
    leaves = len(log_scale)
    ups, downs = -np.logaddexp(0.0, -log_scale).sum(), -np.logaddexp(0.0, log_scale).sum()
    log_m, log_q = np.log(hyper["typical_scale"]).reshape(1), np.log(hyper["scale_shape"]).reshape(1)

    def log_density(log_m: Floats, log_q: Floats) -> Floats:
        p, q = np.exp(log_m + log_q), np.exp(log_q)
        normal = -0.5 * ((log_m - mean) / spread) ** 2 - 0.5 * ((log_q - SCALE_SHAPE[0]) / SCALE_SHAPE[1]) ** 2
        return np.asarray(normal + p * ups + q * downs - leaves * betaln(p, q))

    def of_m(value: Floats, _: Ints) -> Floats:
        return log_density(value, log_q)

    log_m = slice_draws(of_m, log_m, np.ones(1), rng)

    def of_q(value: Floats, _: Ints) -> Floats:
        return log_density(log_m, value)

    log_q = slice_draws(of_q, log_q, np.ones(1), rng)
    return {"typical_scale": np.exp(log_m[0]), "scale_shape": np.exp(log_q[0])}


def log_odds(p: Floats, q: Floats, rng: np.random.Generator) -> Floats:
    """Draw ``log(u / (1 - u))`` for u ~ Beta(p, q), shape of p and q."""
    return np.asarray(_log_gamma(p, rng) - _log_gamma(q, rng))


def _log_gamma(shape: Floats, rng: np.random.Generator) -> Floats:
    """Logarithms of gamma draws, also for shapes so small that the draws themselves are zero in floating point."""
    # Gamma(a) is Gamma(a + 1) times the a-th root of a uniform number.
    return np.asarray(np.log(rng.standard_gamma(shape + 1.0)) - rng.exponential(size=shape.shape) / shape)


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
    An update draws the scales from their beta law given the table and the shapes, exactly; each log shape, and log m and log q, by
    slice sampling of its density; the normal centres and variances exactly; and a factor by which all shapes grow and all scales
    shrink, again by slice sampling. Only free cells count, for sizes and sums of
    shapes too: see `CellPrior`. With a level each cell's centre also moves together with its log shapes in all nodes.

    Where most cells are empty, hyperparameters move more slowly than cells: with 16 blocks of 252 cells, measured as in the
    redistricting file, the slowest of them had one effective draw for each 13 draws, one for each 23 with tracts as the `level`, of
    which there are two, and one for each 30 with their four block groups. There 200 effective draws take two chains of 1,500 draws, of
    2,500, or of 3,500 (R-hat of the two chains of 1,500 with tracts: 1.025). They are in the verdict of `bayesdp.fit_hierarchy` like
    everything else.

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
        if self.level is not None and not isinstance(self.level, str):
            raise TypeError(f"level must be the name of a level of the tree, got {self.level!r}")
        finite_number(self.log_scale, "log_scale")
        finite_number(self.log_shape, "log_shape")
        for name in ("scale_spread", "spread", "within"):
            finite_number(getattr(self, name), name, positive=True)

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
            lines += [
                f"log a[{self.level}, c] ~ Normal(log a[c], tau),  "
                f"tau**2 ~ InverseGamma({FREEDOM:.6g}, {(FREEDOM - 1.0) * self.within**2:.6g})"
            ]
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
        counts, free = check_counts(tree, counts), free_cells(tree)
        sizes = np.where(free, counts, 0).sum(axis=1)
        # Half a count for every cell, so that nothing is zero; a concentration of a quarter of the cells in use.
        averages = (np.where(free, counts, 0).sum(axis=0) + 0.5) / np.maximum(free.sum(axis=0), 1)
        shapes = averages / averages.sum() * max(1.0, 0.25 * float((averages > averages.mean() * 0.1).sum()))
        eta = np.clip(np.log(shapes), -8.0, 8.0)
        log_scale = np.log(sizes + 0.5) - np.log(np.where(free, np.exp(eta), 0.0).sum(axis=1) + 0.5)
        hyper = {"typical_scale": np.asarray(np.exp(np.median(log_scale))), "scale_shape": np.asarray(2.0)}
        hyper |= {"shape_centre": np.asarray(eta.mean()), "shape_variance": np.asarray(self.spread**2)}
        hyper |= {"log_scale": log_scale, "log_shape": eta}
        if self.level is not None:
            own = np.tile(eta, (self._groups(tree)[1], 1))
            hyper |= {"cell_centre": eta, "within_variance": np.asarray(self.within**2), "log_shape": own}
        return hyper

    def update(self, tree: Tree, counts: Ints, hyper: Hyper, rng: np.random.Generator) -> dict[str, Floats]:
        """One pass over the hyperparameters given the table, shape (T, C)."""
        counts, free = check_counts(tree, counts), free_cells(tree)
        group, groups = self._groups(tree)
        new = dict(hyper)
        p, q = float(hyper["typical_scale"] * hyper["scale_shape"]), float(hyper["scale_shape"])
        shapes = np.exp(hyper["log_shape"]).reshape(groups, -1)
        sums = np.einsum("tc,tc->t", free, shapes[group])
        sizes = np.einsum("tc,tc->t", free, counts)
        new["log_scale"] = log_odds(p + sizes, q + sums, rng)
        new |= draw_typical(new, (self.log_scale, self.scale_spread), rng)
        cells = counts.shape[1]
        terms = gather(counts, free, group * cells, np.arange(cells), groups * cells)
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
        width = 2.5 / np.sqrt(1.0 / variance + 0.5 * terms.above[:, 0])
        eta = slice_draws(log_density, hyper["log_shape"].reshape(-1).astype(np.float64), width, rng)
        new: dict[str, Floats] = {"log_shape": eta.reshape(hyper["log_shape"].shape)}
        cell = eta
        if not pooled:
            own, between = eta.reshape(groups, cells), float(hyper["shape_variance"])
            cell = draw_centre(own, variance, hyper["shape_centre"], between, rng)
            shift = move_cells(
                own, misses.reshape(groups, cells), (cell, float(hyper["shape_centre"]), between), terms, rng
            )
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
            deviation = eta - centre
            away = zeros_away(np.broadcast_to(centre, eta.shape)[~seen], deviation[~seen], misses[~seen])
            r = move_spread(deviation.reshape(-1), away, seen.reshape(-1), within, self.within, rng)
            eta = np.where(seen, eta, centre + deviation * np.exp(r))
            new["within_variance"] = np.asarray(within * np.exp(2.0 * r))
        cell = eta[0] if self.level is None else hyper["cell_centre"]
        known, mean, variance = seen.any(axis=0), float(hyper["shape_centre"]), float(hyper["shape_variance"])
        # All nodes' shapes of a cell move along with the cell's.
        weight = float((np.exp(eta) * misses).sum(axis=0)[~known].sum())
        s = move_centre(cell, lambda s: float(np.exp(s)) * weight, known, (mean, self.log_shape, 4.0), variance, rng)
        moved, mean = np.where(known, cell, cell + s), mean + s
        per_unit = (np.exp(eta - cell) * misses).sum(axis=0)
        away = zeros_away(np.asarray(mean), (moved - mean)[~known], per_unit[~known])
        r = move_spread(moved - mean, away, known, variance, self.spread, rng)
        moved = np.where(known, moved, mean + (moved - mean) * np.exp(r))
        new |= {"shape_centre": np.asarray(mean), "shape_variance": np.asarray(variance * np.exp(2.0 * r))}
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

        def log_density(shift: Floats, _: Ints) -> Floats:
            s = float(shift[0])
            p, log_scale = np.exp(log_m - s) * q, hyper["log_scale"] - s
            up, down = -np.logaddexp(0.0, -log_scale), -np.logaddexp(0.0, log_scale)
            found = gamma_terms(eta + s, which, terms).sum() + ((p + sizes) * up + (q + np.exp(s) * sums) * down).sum()
            found -= leaves * betaln(p, q) + 0.5 * ((log_m - s - self.log_scale) / self.scale_spread) ** 2
            return np.asarray([found - 0.125 * (float(hyper["shape_centre"]) + s - self.log_shape) ** 2])

        width = np.asarray([2.5 / np.sqrt(0.25 + 0.5 * float(terms.above[:, 0].sum()))])
        s = slice_draws(log_density, np.zeros(1), width, rng)[0]
        moved = {name: hyper[name] + s for name in ("log_shape", "shape_centre", "cell_centre") if name in hyper}
        return moved | {"log_scale": hyper["log_scale"] - s, "typical_scale": hyper["typical_scale"] * np.exp(-s)}

    def weights(self, tree: Tree, hyper: Hyper) -> tuple[Floats, Floats]:
        """``theta = log u``, the same for all cells of a leaf, shape (T, C); shapes (1, C), or (T, C) with a level."""
        leaves, cells = len(tree.order), tree.frame.size // len(tree.order)
        theta = np.repeat(-np.logaddexp(0.0, -hyper["log_scale"]), cells).reshape(leaves, cells)
        shapes = np.exp(hyper["log_shape"])
        return theta, shapes.reshape(1, cells) if self.level is None else shapes[self._groups(tree)[0]]
