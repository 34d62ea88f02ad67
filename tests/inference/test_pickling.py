"""Models and steps through `cloudpickle`, `copy.deepcopy` and other ways of starting processes.

The oracle is the model itself, which did not go through anything: the same log-density, term by term, at the same point, and
the same draws from the same seed.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode

import bayesdp as bdp
from bayesdp import distributions, noise, steps
from bayesdp.noise.base import law_names
from bayesdp.papers import bounded_statistics
from bayesdp.privacy import tradeoff
from tests.inference.oracle import GRID, LINE
from tests.noise.contract.examples import example_of

pytestmark = pytest.mark.system

HELMERT = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
PLAIN = Mode(linker="py", optimizer=None)
"""Nothing is compiled: most of these models are asked for their log-density once."""

TRIPLE = {
    "discrete-laplace": (noise.DiscreteLaplace(b=np.array([1.0, 2.0, 3.0])), [3, 2, 4]),
    "discrete-gaussian": (noise.DiscreteGaussian(sigma=2.0), [3, 2, 4]),
    "laplace": (noise.Laplace(b=2.0), [3.5, 2.0, 4.0]),
    "gaussian": (noise.Gaussian(sigma=2.0), [3.5, 2.0, 4.0]),
    "tulap": (noise.Tulap(1.0), [3.5, 2.0, 4.0]),
    "tulap of counts": (noise.Tulap(1.0, 0.1), [3.5, 1.5, 2.5]),
    "canonical": (noise.Canonical(tradeoff([0.75, 0.25], [0.25, 0.75])), [3.5, 2.0, 4.0]),
    "canonical of counts": (noise.Canonical(tradeoff([0.8, 0.2, 0.0], [0.0, 0.2, 0.8])), [3.5, 1.5, 2.5]),
    "truncated-laplace": (noise.TruncatedLaplace(2.0, (0.0, 9.0)), [0.4, 8.6, 3.3]),
    "boundary-inflated-laplace": (noise.BoundaryInflatedLaplace(2.0, (0.0, 9.0)), [0.0, 9.0, 3.3]),
    "truncated-gaussian": (noise.TruncatedGaussian(2.5, (0.0, 9.0)), [0.4, 8.6, 3.3]),
    "boundary-inflated-gaussian": (noise.BoundaryInflatedGaussian(2.5, (0.0, 9.0)), [0.0, 9.0, 3.3]),
    "truncated-discrete-laplace": (noise.TruncatedDiscreteLaplace(2.0, (0, 9)), [0, 8, 4]),
    "boundary-inflated-discrete-laplace": (noise.BoundaryInflatedDiscreteLaplace(2.0, (0, 9)), [0, 9, 4]),
    "boundary-inflated-discrete-gaussian": (noise.BoundaryInflatedDiscreteGaussian(2.5, (0, 9)), [0, 9, 4]),
    "lattice-laplace": (noise.LatticeLaplace(0.5), [4, -1, 5]),
    "lattice-gaussian": (noise.LatticeGaussian(2.0), [4, -1, 5]),
    "projected-gaussian": (noise.ProjectedGaussian(2.0), [4.5, -0.75, 4.25]),
    "projected-laplace": (noise.ProjectedLaplace(1.5), [4.5, -0.75, 4.25]),
    "extended-laplace": (noise.ExtendedLaplace(1.5), [4.5, -0.75, 4.25]),
    "correlated-gaussian": (noise.CorrelatedGaussian(np.array([[6.0, 2.0], [2.0, 3.0]])), [4.5, -0.75, 4.25]),
    "random-rounding": (noise.RandomRounding(3), [3, 3, 3]),
    "conventional-rounding": (noise.ConventionalRounding(5), [5, 0, 5]),
    "cell-key": (noise.CellKey(max_deviation=3, variance=2.0), [3, 2, 4]),
    "transition-table": (noise.TransitionTable([-1, 0, 1], [[0, 1, 0], [0.25, 0.5, 0.25]]), [3, 2, 4]),
    "unknown-perturbation": (noise.UnknownPerturbation(1), [3, 2, 4]),
    "censored": (noise.Censored(noise.DiscreteGaussian(2.0), below=3), [2, 4, 3]),
    "k-norm": (noise.KNorm(0.8, HELMERT.T[[0, 0, 1]] - HELMERT.T[[1, 2, 2]]), [4.5, -0.75, 4.25]),
}
"""Every law that is defined on three cells with a known total of 8, with what it published."""

PAIRED = {
    "semi-k-norm": (noise.SemiKNorm(1.2, 3), [[3.5, 0.5, 4.0], [1.5, 5.5, 0.0]]),
    "subspace-norm": (noise.SubspaceNorm(1.2, "l2"), [[3.5, 0.5, 4.0], [1.5, 5.5, 0.0]]),
}
"""The laws for two margins that are known."""


def published(name: str) -> bdp.Release:
    if name in PAIRED:
        law, values = PAIRED[name]
        both = bdp.Margins(GRID, ["county"], ["education"])
        return bdp.Release.from_published(
            GRID, [bdp.Measured(bdp.Identity(GRID), values, law)], [bdp.Exact(both, both.apply([[3, 1, 4], [2, 5, 0]]))]
        )
    law, values = TRIPLE[name]
    return bdp.Release.from_published(
        LINE, [bdp.Measured(bdp.Identity(LINE), values, law)], [bdp.Exact(bdp.Totals(LINE), 8)]
    )


def counts(name: str) -> pm.Model:
    release = published(name)
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2.0, 1.0, dims=release.dims)
        pm.Deterministic("share", rate / rate.sum())
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims))
    return model


SHARES = bounded_statistics.RescaledLaplace(0.1, "truncated")

for _name in set(law_names().split(", ")) - {type(law).name for law, _ in (TRIPLE | PAIRED).values()} - {SHARES.name}:
    _law = example_of(_name).law
    TRIPLE[_name] = _law, _law.draw(1, (3,), None, bdp.Invariants(bdp.Totals(LINE)), [3, 2, 3])


def shares(name: str) -> pm.Model:
    """The law of shares that add up to 1, of which counts know nothing."""
    release = bdp.Release.from_published(
        LINE, [bdp.Measured(bdp.Identity(LINE), [0.2, 0.3, 0.5], SHARES)], about="statistics"
    )
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, pm.Dirichlet("x", np.ones(3), dims=release.dims))
    return model


def flat(name: str) -> pm.Model:
    release = published(name)
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.FlatCounts("x", dims=release.dims))
    return model


def latent_lattice(name: str) -> pm.Model:
    """Noise that is a variable of the model, with a step of its own."""
    margins = bdp.Invariants(bdp.Margins(GRID, ["county"], ["education"]))
    with pm.Model() as model:
        z = distributions.LatticeLaplace("z", np.zeros((2, 3), dtype=int), 0.5, invariants=margins, norm=name)
        pm.Potential("prior", pm.logp(pm.Poisson.dist(3.0), np.array([[4, 1, 7], [2, 6, 3]]) - z).sum())
    return model


def through_pickle(own: Any) -> Any:
    return pickle.loads(cloudpickle.dumps(own))


def terms(model: pm.Model) -> list[float]:
    """The log-density of every variable and potential at a point."""
    point = model.initial_point(random_seed=1)
    return [float(np.sum(own)) for own in model.compile_fn(model.logp(sum=False), mode=PLAIN)(point)]


@pytest.mark.parametrize(
    ("build", "name"),
    [
        *((counts, name) for name in TRIPLE | PAIRED),
        (shares, "rescaled-laplace"),
        (flat, "discrete-gaussian"),
        (latent_lattice, "l1"),
    ],
)
def test_models(build: Callable[[str], pm.Model], name: str):
    model = build(name)
    again = through_pickle(model)
    assert list(again.named_vars) == list(model.named_vars)
    assert {dim: list(own or ()) for dim, own in again.coords.items()} == {
        dim: list(own or ()) for dim, own in model.coords.items()
    }
    expected = terms(model)
    assert all(np.isfinite(expected))
    np.testing.assert_array_equal(terms(again), expected)
    # What PyMC hangs on models and variables, and pickle could not write.
    assert again.str_repr() == model.str_repr()
    assert again._repr_latex_() == model._repr_latex_()
    assert again["x" if "x" in again.named_vars else "z"]._repr_latex_() is not None


def drawn(step: Any, point: dict[str, Any]) -> list[Any]:
    """What a step does to a point, three times over, from a generator of its own."""
    step.setup_chain(np.random.default_rng(5), 5, 5)
    found = []
    for _ in range(3):
        point, _ = step.step(point)
        found += [np.array(value) for value in point.values()]
    return found


@pytest.fixture(scope="module")
def mixed() -> pm.Model:
    """NUTS for the rates, a step for the counts, and one for the row-space noise."""
    model = counts("projected-laplace")
    assert [rv.name for rv in model.free_RVs] == ["rate", "x", "noisy_rows"]
    return model


class TestSteps:
    @pytest.mark.parametrize(
        ("build", "name"),
        [
            *((flat, name) for name in ("discrete-gaussian", "tulap of counts", "canonical of counts", "k-norm")),
            (flat, "boundary-inflated-discrete-laplace"),
            (counts, "discrete-laplace"),
            (latent_lattice, "l2"),
        ],
    )
    def test_chosen_by_pymc(self, build: Callable[[str], pm.Model], name: str):
        model = build(name)
        own = steps.LatticeNoiseGibbs if build is latent_lattice else steps.FiberGibbs
        with model:
            step = own()
        point = model.initial_point(random_seed=1)
        again = through_pickle(step)
        for one, other in zip(drawn(step, point), drawn(again, point), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_nuts_keeps_one_mass_matrix(self, mixed: pm.Model):
        # It is tuned in one place, and used in another.
        with mixed:
            step = through_pickle(pm.NUTS([mixed["rate"]]))
        assert step.integrator._potential is step.potential


class TestModels:
    def draws(self, model: pm.Model, **own: Any) -> Any:
        with model:
            return bdp.sample(
                draws=20, tune=20, chains=2, random_seed=3, progressbar=False, quiet=True, nuts_sampler="pymc", **own
            )["posterior"].to_dataset()

    def test_the_same_seed_gives_the_same_draws(self, mixed: pm.Model):
        expected = self.draws(mixed, cores=1)
        assert float(expected["rate"].std()) > 0
        found = self.draws(through_pickle(mixed), cores=1)
        assert list(found) == list(expected)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])

    @pytest.mark.parametrize(
        "context", ["fork", *(pytest.param(own, marks=pytest.mark.slow) for own in ("spawn", "forkserver"))]
    )
    def test_the_other_ways_of_starting_processes(self, context: str):
        model = flat("discrete-gaussian")
        expected = self.draws(model, cores=1)
        found = self.draws(through_pickle(model), cores=2, mp_ctx=context)
        np.testing.assert_array_equal(found["x"], expected["x"])

    def test_deep_copies(self, mixed: pm.Model):
        # PyMC's copy has its observed variables in another order.
        np.testing.assert_array_equal(sorted(terms(copy.deepcopy(mixed))), sorted(terms(mixed)))
        again = copy.deepcopy(mixed)
        assert {rv.name for rv in again.free_RVs} == {rv.name for rv in mixed.free_RVs}
        with again:
            assert copy.deepcopy(steps.FiberGibbs()).vars[0].name == "x"
