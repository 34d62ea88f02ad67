"""Tables of 100 cells or more whose precise answers overlap in three ways are moved as hierarchies, by moves that keep these."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.distributions.confidential_counts import answers
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.inference import FiberGibbs
from bayesdp.steps import reading
from tests.noisy_sums import noisy_sums


def _model(
    shape: tuple[int, ...], margins: float | None = 0.5, prior: Any = None, keep: int = 2, rest: bool = False
) -> pm.Model:
    """A sparse table, noisy cells, and its margins of `keep` dimensions with noise, of a scale in the model if it is None."""
    dims: dict[str, Any] = {"abc"[i]: range(n) for i, n in enumerate(shape)}
    truth = np.random.default_rng(1).negative_binomial(0.1, 0.02, shape)
    rng = np.random.default_rng(2)
    sums = bdp.Margins(dims, *(list(own) for own in combinations(dims, keep)))
    measured = noisy_sums(dims, truth, ((bdp.Identity(dims), 16.0), (sums, margins or 0.5)), rng)
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


def _random_prior(shape: tuple[int, ...]) -> Any:
    return pm.NegativeBinomial.dist(
        mu=pm.LogNormal("mu", 1.6, 0.2), alpha=pm.LogNormal("alpha", -2.3, 0.2), shape=shape
    )


@pytest.mark.parametrize(
    ("given", "crosses"),
    [
        ({"shape": (10, 4, 6)}, True),
        ({"shape": (10, 4, 6), "prior": _random_prior}, True),
        ({"shape": (5, 4, 5), "margins": None}, True),  # the scale is a variable
        ({"shape": (5, 4, 5), "margins": 16.0}, False),  # not precise
        ({"shape": (12, 12), "keep": 1}, False),  # two margins: squares keep both
        ({"shape": (5, 4, 5), "keep": 1}, False),  # three margins that squares keep
    ],
)
@pytest.mark.system
def test_moves_along_several_axes_where_precise_margins_overlap_in_three_ways(given, crosses):
    model = _model(**given)
    step = FiberGibbs([model["x"]], model=model)
    said = reading.movement(model, model.rvs_to_values[model["x"]])
    assert step.connectivity["x"] == {"proved": said.proved, "claim": said.claim}
    chain = step.tables[0].chain
    assert isinstance(chain, TreeChain)
    assert bool(len(chain.families)) == crosses
