"""Which tables of 100 cells or more are moved as hierarchies: not those whose precise answers overlap in three ways."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp._chains import chain_statistics
from bayesdp.distributions.answers import answers
from bayesdp.fibers.precise import overlap_three_ways
from bayesdp.inference import FiberGibbs
from bayesdp.steps import movement
from bayesdp.steps.count_chains import LineChain, SweepChain
from tests.fibers.precise_cases import CASES
from tests.hierarchies.cases import CASES as HIERARCHIES


def _model(
    shape: tuple[int, ...], margins: float | None = 0.5, prior: Any = None, keep: int = 2, rest: bool = False
) -> pm.Model:
    """A sparse table, noisy cells, and its margins of `keep` dimensions with noise, of a scale in the model if it is None."""
    dims: dict[str, Any] = {"abc"[i]: range(n) for i, n in enumerate(shape)}
    truth = np.random.default_rng(1).negative_binomial(0.1, 0.02, shape)
    rng = np.random.default_rng(2)
    measured = []
    sums = bdp.Margins(dims, *(list(own) for own in combinations(dims, keep)))
    for query, sd in ((bdp.Identity(dims), 16.0), (sums, margins or 0.5)):
        noisy = query.apply(truth) + np.rint(rng.normal(0.0, sd, query.shape)).astype(int)
        measured.append(bdp.Measured(query, noisy, bdp.noise.DiscreteGaussian(sigma=sd)))
    exact = [bdp.Exact(bdp.Totals(dims), int(truth.sum()))]
    with pm.Model(coords=dims) as model:
        base = pm.NegativeBinomial.dist(mu=5.0, alpha=0.1, shape=shape) if prior is None else prior(shape)
        x = bdp.ConfidentialCounts("x", base, dims=tuple(dims))
        if margins is not None:
            bdp.observe(bdp.Release.from_published(dims, measured=measured, exact=exact), x)
        else:
            bdp.observe(bdp.Release.from_published(dims, measured=measured[:1], exact=exact), x)
            sigma = pm.LogNormal("sigma", np.log(0.5), 0.2)
            bdp.distributions.DiscreteGaussian("y", mu=answers(sums, x), sigma=sigma, observed=measured[1].values)
    return model


def _chain_and_claim(model: pm.Model) -> tuple[Any, bool]:
    """The kernel that is taken, and whether a hierarchy is said to be moved; what is said must be the same on both sides."""
    step = FiberGibbs([model["x"]], model=model)
    said = movement.movement(model, model.rvs_to_values[model["x"]])
    assert step.connectivity["x"] == {"proved": said.proved, "claim": said.claim}
    return type(step.tables[0].chain), said.structure is not None


def _random_prior(shape: tuple[int, ...]) -> Any:
    return pm.NegativeBinomial.dist(
        mu=pm.LogNormal("mu", 1.6, 0.2), alpha=pm.LogNormal("alpha", -2.3, 0.2), shape=shape
    )


@pytest.mark.parametrize("prior", [None, _random_prior], ids=["fixed prior", "random prior"])
def test_three_precise_margins_that_overlap_take_single_lines(prior):
    assert _chain_and_claim(_model((10, 4, 6), prior=prior)) == (LineChain, False)


@pytest.mark.parametrize(
    "given",
    [
        {"shape": (5, 4, 5), "margins": 16.0},  # not precise
        {"shape": (5, 4, 5), "margins": None},  # the scale is a variable
        {"shape": (12, 12), "keep": 1},  # two margins: squares keep both
        {"shape": (5, 4, 5), "keep": 1},  # three margins that squares keep
    ],
    ids=lambda own: str(own),
)
def test_other_tables_stay_hierarchies(given):
    assert _chain_and_claim(_model(**given)) == (SweepChain, True)


def test_larger_tables_stay_hierarchies(monkeypatch):
    monkeypatch.setattr(movement, "LINE_CELLS", 99)
    assert _chain_and_claim(_model((5, 4, 5))) == (SweepChain, True)


@pytest.mark.parametrize("spread", [3.0, np.inf])
def test_ordinary_hierarchies_do_not_overlap(spread):
    for case in HIERARCHIES.values():
        assert not overlap_three_ways(case.target.fiber, case.target.terms, spread)


@pytest.mark.parametrize(("name", "overlap"), [("one", False), ("two", False), ("three", True)])
def test_two_way_margins_of_a_cube(name, overlap):
    [case] = [own for key, own in CASES.items() if key.startswith(f"2x2x2, {name} ")]
    assert overlap_three_ways(case.target.fiber, case.target.terms, np.inf) == overlap


@pytest.mark.slow
def test_a_run_of_a_sparse_three_way_table_agrees_with_itself():
    """10 x 4 x 6 cells; by the moves of hierarchies R-hat was 3.3 after longer runs."""
    with _model((10, 4, 6)):
        tree = bdp.sample(
            draws=800, tune=200, chains=4, cores=1, random_seed=3, progressbar=False, fiber_gibbs={"sweeps": 20}
        )
    x = tree["posterior"]["x"].values.reshape(4, 800, -1)
    moved = np.ptp(x, axis=(0, 1)) > 0  # of cells that are 0 in every draw there is nothing to compare
    assert moved.sum() > 100
    statistics = chain_statistics(x[..., moved])
    assert statistics.rhat.max() < 1.1, (statistics.rhat.max(), statistics.ess_bulk.min())
