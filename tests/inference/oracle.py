"""Exact posteriors of small tables and one parameter: enumeration of the fiber times quadrature.

Nothing here uses the kernel, the step method or PyMC's log-densities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr
from scipy import special

import bayesdp as bdp
from bayesdp import noise
from bayesdp.fibers import Fiber, enumerate_fiber
from bayesdp.inference import FiberGibbs
from tests.comparison.enumeration import probabilities as posterior_of
from tests.comparison.means import STANDARD_ERRORS, assert_mean

__all__ = ["STANDARD_ERRORS", "assert_mean", "posterior_of"]

type Floats = npt.NDArray[np.float64]

# A mean fails beyond `STANDARD_ERRORS`: 6e-7 for one of them, about 25 in a model, fewer than 40 models: below 0.1% together.

LINE = {"county": ["p", "q", "r"]}
GRID = {"county": ["p", "q"], "education": ["low", "mid", "high"]}


def tables_of(release: bdp.Release, *more: bdp.Exact) -> npt.NDArray[np.int64]:
    """All tables (tables, *shape) that agree with the exact parts; `more` are bounds that make the list finite."""
    return enumerate_fiber(Fiber.of([*release.exact, *more], release.frame))


def counts_model(release: bdp.Release, base: Any) -> pm.Model:
    """Counts x under a base without parameters of its own in the model, and a release of them."""
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.ConfidentialCounts("x", base, dims=release.dims))
    return model


def sample(model: pm.Model, draws: int = 2000, tune: int = 500, seed: int = 1, **kwargs) -> xr.DataTree:
    """Two short chains, quietly, one after the other."""
    with model:
        return pm.sample(
            draws=draws,
            tune=tune,
            chains=2,
            cores=1,
            random_seed=seed,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            nuts_sampler="pymc",
            **kwargs,
        )


def assert_posterior(
    tree: xr.DataTree,
    tables: npt.NDArray[np.int64],
    probability: Floats,
    *,
    name: str = "x",
    theta: str | None = None,
    grid: Floats | None = None,
) -> None:
    """Compare draws with an exact law over tables, or over tables and a grid of one parameter (tables, grid).

    Means and second moments of the cells and of the parameter, the probabilities of the likeliest tables, and how the
    first cell varies with the parameter.
    """
    x = tree.posterior[name].values.reshape(*tree.posterior[name].shape[:2], -1)
    flat = tables.reshape(len(tables), -1)
    joint = probability if probability.ndim == 2 else probability[:, None]
    values = np.zeros(1) if grid is None else grid

    def check(draws: Floats, function: Floats, what: str) -> None:
        exact = float((joint * function).sum())
        sd = np.sqrt(max(float((joint * function**2).sum()) - exact**2, 0.0))
        assert_mean(draws, exact, sd, what)

    for i in range(flat.shape[1]):
        cell = flat[:, i, None].astype(float)
        check(x[..., i], cell, f"{name}[{i}]")
        check(x[..., i] ** 2.0, cell**2, f"{name}[{i}] squared")
    for k in np.argsort(-joint.sum(axis=1))[:6]:
        check((x == flat[k]).all(axis=-1).astype(float), (np.arange(len(flat)) == k)[:, None] + 0.0, f"table {flat[k]}")
    if theta is not None:
        parameter = tree.posterior[theta].values
        check(parameter, values[None, :] + 0 * joint, theta)
        check(parameter**2, values[None, :] ** 2 + 0 * joint, f"{theta} squared")
        check(parameter * x[..., 0], values[None, :] * flat[:, 0, None], f"{theta} times {name}[0]")


def log_poisson(tables: Floats, rate: Floats) -> Floats:
    return tables * np.log(rate) - rate - special.gammaln(tables + 1.0)


def log_negative_binomial(tables: Floats, mu: Floats, alpha: Floats) -> Floats:
    return (
        special.gammaln(tables + alpha)
        - special.gammaln(alpha)
        - special.gammaln(tables + 1.0)
        + tables * np.log(mu / (mu + alpha))
        + alpha * np.log(alpha / (mu + alpha))
    )


def log_binomial(tables: Floats, n: Floats, p: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = (
            special.gammaln(n + 1.0)
            - special.gammaln(tables + 1.0)
            - special.gammaln(n - tables + 1.0)
            + tables * np.log(p)
            + (n - tables) * np.log1p(-p)
        )
    return np.where(tables <= n, logs, -np.inf)


NOISY = np.array([4, 0, 3])


def three_counties(total: int = 7, law: noise.NoiseLaw | None = None, values=NOISY) -> bdp.Release:
    """Three cells, their sum exact (36 tables), and noisy counts."""
    return bdp.Release.from_published(
        LINE,
        measured=[bdp.Measured(bdp.Identity(LINE), values, law or noise.DiscreteLaplace(b=2.0))],
        exact=[bdp.Exact(bdp.Totals(LINE), total)],
    )


def laplace(tables, values=NOISY, b=2.0):
    return -(np.abs(tables - values) / b).reshape(len(tables), -1).sum(axis=1)


def is_exact_conditional(model: pm.Model) -> bool:
    """Whether the kernel knows every term (no accepting or rejecting)."""
    with model:
        step = FiberGibbs()
    return all(table.exact_conditional for table in step.tables)
