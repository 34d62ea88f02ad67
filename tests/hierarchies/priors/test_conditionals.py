"""Each step of an update by itself: the density along which it draws is that of the joint law, on the path on which it moves.

Exact steps around it could hide an error. So the steps before one return any numbers, and those after it stay where they are; that one
stays, or returns a number, and joint log-densities must differ, with the Jacobian, as its own says. Widths of slices stay.
"""

import re

import numpy as np
import pytest
from scipy import stats

from bayesdp.hierarchies.priors import AreaAndCell, VaryingShares, base, pooled
from bayesdp.hierarchies.priors.base import free_cells
from tests.hierarchies.priors.test_updates import TREES

SHARES = {"log_scale": 1.3, "scale_spread": 0.7, "log_shape": -0.4, "spread": 0.8}
PRIORS = {
    "varying shares": VaryingShares(**SHARES),
    "by county": VaryingShares("county", within=0.6, **SHARES),
    "area and cell": AreaAndCell(log_mean=0.7, area_spread=0.6, cell_spread=1.4),
}
STEPS_OF = {
    "varying shares": """log_scale, typical_scale, scale_shape, log_shape, shape_centre, shape_variance, centre of unseen,
        spread of unseen, rescaled""",
    "by county": """log_scale, typical_scale, scale_shape, log_shape, cell_centre, cells and nodes, within_variance, shape_centre,
        shape_variance, spread of unseen within, centre of unseen, spread of unseen, rescaled""",
    "area and cell": """area, cell, log_shape, shape_centre, area_mean, level, area_variance, cell_variance, shape_variance,
        level of seen, spread of unseen cells, centre of unseen shapes, spread of unseen shapes""",
}
"""In the order of an update. A hyperparameter by its name is drawn given all others."""
STEPS = {name: re.split(r",\s+", steps) for name, steps in STEPS_OF.items()}
COUNTS = {
    "counties": np.array([[3, 0, 0], [0, 0, 2], [0, 0, 1], [0, 0, 20]]),
    "structural zeros": np.array([[4, 0, 0, 0, 0, 0], [1, 17, 0, 0, 0, 0]]),
}
"""Some cells are 0 everywhere, and others in one county only."""
CHECKS = [(name, tree, step) for name in PRIORS for tree in TREES for step in STEPS[name]]
CHECKS = [own for own in CHECKS if own[:2] != ("by county", "structural zeros")]  # which has one county only


def normal(value, mean, variance):
    return float(stats.norm.logpdf(value, mean, np.sqrt(variance)).sum())


def variance_law(value, spread):
    return float(stats.invgamma.logpdf(value, 3.0, scale=2.0 * spread**2))


def joint(prior, tree, counts, hyper):
    """Log-density of table and hyperparameters, of positive ones but variances that of their logarithms, by the formulas."""
    free = free_cells(tree)
    h = {name: np.asarray(own, dtype=np.float64) for name, own in hyper.items()}
    if isinstance(prior, AreaAndCell):
        mean, shape = np.exp(h["area"][:, None] + h["cell"]), np.broadcast_to(np.exp(h["log_shape"]), free.shape)
        found = normal(h["area"], h["area_mean"], h["area_variance"]) + normal(h["area_mean"], prior.log_mean, 4.0)
        found += normal(h["cell"], 0.0, h["cell_variance"]) + normal(h["shape_centre"], 0.0, 4.0)
        found += normal(h["log_shape"], h["shape_centre"], h["shape_variance"])
        found += variance_law(h["area_variance"], prior.area_spread) + variance_law(h["shape_variance"], 1.0)
        found += variance_law(h["cell_variance"], prior.cell_spread)
        return found + float(stats.nbinom.logpmf(counts, shape, shape / (shape + mean))[free].sum())
    m, q, u = h["typical_scale"], h["scale_shape"], 1.0 / (1.0 + np.exp(-h["log_scale"]))
    found = normal(np.log(m), prior.log_scale, prior.scale_spread**2) + normal(np.log(q), np.log(2.0), 0.75**2)
    found += float((stats.beta.logpdf(u, m * q, q) + np.log(u) + np.log1p(-u)).sum())  # of log(u / (1 - u))
    cell, eta = h["log_shape"], h["log_shape"]
    if prior.level is not None:
        cell, eta = h["cell_centre"], h["log_shape"][[0, 0, 1, 1]]  # the county of each leaf, in the order of the tree
        found += normal(h["log_shape"], cell, h["within_variance"]) + variance_law(h["within_variance"], prior.within)
    found += normal(cell, h["shape_centre"], h["shape_variance"]) + normal(h["shape_centre"], prior.log_shape, 4.0)
    found += variance_law(h["shape_variance"], prior.spread)
    law = stats.nbinom.logpmf(counts, np.broadcast_to(np.exp(eta), free.shape), 1.0 - u[:, None])
    return found + float(law[free].sum())


class Steps:
    """Stands for all that draws: every step stays where it is, but for those of which `values` says what they return."""

    def __init__(self, names, hyper, values):
        self.names, self.hyper, self.values = names, hyper, values
        self.log_densities, self.starts, self.widths = {}, {}, {}

    def _step(self, log_density, start=None):
        name = self.names[len(self.log_densities)]
        start = np.asarray(self.hyper[name] if start is None else start, dtype=np.float64)
        self.log_densities[name], self.starts[name] = log_density, start
        return self.values.get(name, start)

    def slice_draws(self, log_density, start, width, rng):
        self.widths[self.names[len(self.log_densities)]] = width
        return self._step(lambda value: float(log_density(value, np.arange(len(value))).sum()), start)

    def draw_centre(self, effects, variance, mean, prior_variance, rng):
        return self._step(lambda value: normal(effects, value, variance) + normal(value, mean, prior_variance))

    def draw_variance(self, deviations, spread, rng):
        return self._step(lambda value: normal(deviations, 0.0, value) + variance_law(value, spread))

    def log_odds(self, p, q, rng):
        return self._step(lambda value: float((-p * np.logaddexp(0.0, -value) - q * np.logaddexp(0.0, value)).sum()))

    def normal(self, mean, sd):
        return self._step(lambda value: normal(value, mean, sd**2), 0.0)


def _jacobian(step, value, counts, free):
    """Of the logarithm of a factor of deviations and of their spread, in terms of the deviations and the variance."""
    if not step.startswith("spread"):
        return 0.0
    seen = np.where(free, counts, 0) > 0
    seen = seen.reshape(2, 2, -1).any(axis=1) if step.endswith("within") else seen.any(axis=0)
    return float(value[0]) * (int((~seen).sum()) + 2.0)


@pytest.mark.parametrize(("name", "tree", "step"), CHECKS)
def test_a_step_draws_from_the_joint_law(monkeypatch, name, tree, step):
    prior, rng = PRIORS[name], np.random.default_rng(8)
    counts, tree = COUNTS[tree], TREES[tree]
    free = free_cells(tree)
    hyper = prior.draw(tree, rng)

    def update(values, hyper=hyper):
        steps = Steps(STEPS[name], hyper, values)
        for module in (pooled, base):
            for own in ("slice_draws", "draw_centre", "draw_variance", "log_odds"):
                if hasattr(module, own):
                    monkeypatch.setattr(module, own, getattr(steps, own))
        after = prior.update(tree, counts, hyper, steps)
        return after, joint(prior, tree, counts, after), steps

    def moved(step, size):
        start = steps.starts[step]
        return start * np.exp(size) if step.endswith("variance") else start + size * rng.uniform(0.5, 1.0, start.shape)

    _, same, steps = update({})
    assert list(steps.log_densities) == STEPS[name]
    assert same == pytest.approx(joint(prior, tree, counts, hyper), abs=1e-9)
    values = {own: moved(own, 0.5) for own in STEPS[name][: STEPS[name].index(step)]}
    _, before, own = update(values)
    start, log_density = own.starts[step], own.log_densities[step]
    for size in (-0.7, 0.4):
        value = moved(step, size)
        after, density, own = update(values | {step: value})
        expected = density - before + _jacobian(step, value, counts, free)
        assert abs(expected) > 1e-3
        assert log_density(value) - log_density(start) == pytest.approx(expected, rel=1e-8, abs=1e-8)
        if step in own.widths:
            np.testing.assert_allclose(update({}, after)[2].widths[step], own.widths[step], rtol=1e-12)
