"""Exact posteriors of small tables and one parameter: enumeration of the fiber times quadrature.

Nothing here uses the kernel, the step method or PyMC's log-densities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr

import bayesdp as bdp
from bayesdp import noise
from bayesdp.fibers import Fiber, enumerate_fiber
from bayesdp.inference import FiberGibbs
from tests.comparison.enumeration import probabilities as posterior_of
from tests.comparison.means import STANDARD_ERRORS, assert_mean
from tests.fibers.harness import log_noise, log_prior

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


QUIET = {"chains": 2, "cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}


def sample(model: pm.Model, draws: int = 2000, tune: int = 500, seed: Any = 1, **more: Any) -> xr.DataTree:
    """Two short chains by PyMC, quietly, one after the other, where nothing else is asked for."""
    with model:
        return pm.sample(draws, tune=tune, random_seed=seed, **QUIET | {"nuts_sampler": "pymc"} | more)


def begun(step: Any) -> Any:
    """A step method, as a chain gets it."""
    step.setup_chain(np.random.default_rng(3), 10, 10)
    return step


def assert_posterior(tree, tables, probability, *, name="x", theta=None, grid=None) -> None:
    """Compare draws with an exact law over tables, or over tables and a grid of one parameter (tables, grid).

    Means and second moments of the cells and of the parameter, the likeliest tables, the first cell times the parameter.
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


def _assert_same_up_to_a_constant(found: Floats, exact: Floats, what: str) -> None:
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(found), finite, err_msg=what)
    assert np.count_nonzero(finite) > 2
    apart = found[finite] - exact[finite]
    np.testing.assert_allclose(apart, apart[0], rtol=0.0, atol=1e-6, err_msg=what)


def kernel_logs(step: FiberGibbs, point: dict[str, Any], tables: npt.NDArray[np.int64]) -> Floats:
    """Log-densities of tables by what a step method gives its kernel, written with SciPy, and by what it leaves to acceptance."""
    [own] = step.tables
    theta, shape, *others = own._parameters(*[point[name] for name in own._inputs])
    terms = [
        replace(term, windows=replace(term.windows, log_mass=scale)) if term.changing else replace(term, scale=scale)
        for term, scale in zip(own.target.terms, others, strict=False)
    ]
    for i, answers in zip(own._moving, others[len(terms) :], strict=True):
        terms[i] = replace(terms[i], values=answers)
    flat = tables.reshape(len(tables), -1)
    found = log_prior(own.target.family, theta, shape, flat) + log_noise(SimpleNamespace(terms=terms), flat)
    if own._rest is not None:
        found = found + [own._rest(point, table) for table in tables]
    return np.where([own.target.fiber.contains(table) for table in tables], found, -np.inf)


@dataclass(frozen=True, eq=False)
class Exactly:
    """A model of counts x, all its tables, and their log-density beside one parameter, written by hand up to a constant."""

    model: pm.Model
    tables: npt.NDArray[np.int64]
    logs: Callable[..., Floats]
    """Of tables, and of a value of the parameter."""
    theta: str | None = None
    grid: Floats | None = None
    known: bool = True
    """Whether the kernel knows every term (no accepting or rejecting)."""

    def point(self, value: float | None) -> dict[str, Any]:
        """The first point of the model, with a value of the parameter."""
        point = self.model.initial_point()
        if self.theta is not None:
            rv = self.model[self.theta]
            transform = self.model.rvs_to_transforms[rv]
            moved = np.asarray(value) if transform is None else transform.forward(value, *rv.owner.inputs).eval()
            point[self.model.rvs_to_values[rv].name] = moved
        return point

    def check_densities(self, most: int = 24) -> None:
        """The model's density of tables and parameter, and the kernel's of tables given it, are those written by hand."""
        tables = self.tables[np.unique(np.linspace(0, len(self.tables) - 1, most).astype(int))]
        values = [None] if self.grid is None else [float(self.grid[len(self.grid) * i // 10]) for i in (3, 6)]
        exact = [self.logs(tables) if value is None else self.logs(tables, value) for value in values]
        density = self.model.compile_logp(jacobian=False)
        with self.model:
            step = FiberGibbs()
        assert all(own._rest is None for own in step.tables) == self.known
        found = []
        for value, own in zip(values, exact, strict=True):
            point = self.point(value)
            logs = np.array([float(density({**point, "x": table})) for table in tables])
            found.append(np.where(logs < -1e5, -np.inf, logs))  # a large negative number while counts are free
            _assert_same_up_to_a_constant(kernel_logs(step, point, tables), own, f"the kernel, {self.theta}={value}")
        _assert_same_up_to_a_constant(np.ravel(found), np.ravel(exact), "the model")

    def check_draws(self, **options: Any) -> None:
        """Of `pm.sample`, against enumeration and quadrature by trapezoids."""
        logs = self.logs(self.tables) if self.grid is None else [self.logs(self.tables, own) for own in self.grid]
        if self.grid is not None:
            width = np.gradient(self.grid)
            width[[0, -1]] /= 2.0
            logs = np.stack(logs, axis=1) + np.log(width)
        assert_posterior(
            sample(self.model, **options), self.tables, posterior_of(logs), theta=self.theta, grid=self.grid
        )


NOISY = np.array([4, 0, 3])


def noisy_cells(labels: Any, values: Any, law: noise.NoiseLaw, *exact: bdp.Exact) -> bdp.Release:
    """Noisy counts of all cells, and what is exact."""
    return bdp.Release.from_published(labels, [bdp.Measured(bdp.Identity(labels), values, law)], exact)


def three_counties(total: int = 7, law: noise.NoiseLaw | None = None, values=NOISY) -> bdp.Release:
    """Three cells, their sum exact (36 tables), and noisy counts."""
    return noisy_cells(LINE, values, law or noise.DiscreteLaplace(b=2.0), bdp.Exact(bdp.Totals(LINE), total))


def laplace(tables, values=NOISY, b=2.0):
    return -(np.abs(tables - values) / b).reshape(len(tables), -1).sum(axis=1)
