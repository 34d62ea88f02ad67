"""Laws of perturbed counts as PyMC distributions: log-mass, draws, starts, pickles, and locations that are no counts."""

from __future__ import annotations

import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from bayesdp import distributions, noise
from bayesdp.distributions import distribution_of
from tests.noise.contract.mass_checks import PYTHON

LAWS = {
    "unbiased": noise.RandomRounding(3),
    "given": noise.RandomRounding(4, [0.1, 0.6, 1.0]),
    "even": noise.ConventionalRounding(4, "even"),
    "capped": noise.TransitionTable([-1, 0, 2], [[0, 1, 0], [0.25, 0.5, 0.25], [0.5, 0, 0.5]]),
    "mixed": noise.TransitionTable([-1, 0, 2], [[0, 0, 1], [0.25, 0.5, 0.25], [0, 1, 0], [0.5, 0, 0.5]], 2),
    "odd": noise.TransitionTable([-1, 0, 2], [[0, 0, 1], [0.25, 0.5, 0.25], [0, 0.3, 0.7]], 2),
    "full": noise.TransitionTable.by_count(
        {0: {-2: 0.5, 0: 0.5}, 1: {4: 1.0}, 2: {-4: 0.1, -2: 0.2, 3: 0.7}}, period=0
    ),
}
BY_NAME = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def variable(law, mu):
    return distribution_of(type(law)).dist(mu, **law.model_parameters())


@BY_NAME
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_log_mass_is_that_of_the_law_wherever_values_and_counts_are(law, dtype) -> None:
    """Negative counts, counts beyond the table, fractions and values out of reach included."""
    value, mu = pt.tensor("value", shape=(None,), dtype=dtype), pt.lvector("mu")
    evaluate = pytensor.function([value, mu], pm.logp(variable(law, mu), value), mode=PYTHON)
    grid = np.arange(-4, 20, 1 if dtype == "int64" else 0.5)
    y, x = (own.reshape(-1) for own in np.meshgrid(grid, np.arange(-3, 18)))
    np.testing.assert_array_equal(evaluate(y.astype(dtype), x), law.log_each(y, x))
    assert np.isfinite(law.log_each(y, x)).sum() > 3


def test_log_mass_is_that_of_the_law_in_compiled_code() -> None:
    law = LAWS["mixed"]
    mu = pt.lmatrix("mu")
    evaluate = pytensor.function([mu], pm.logp(variable(law, mu), np.array([[1, 5, 6], [4, 3, 2]])))
    x = np.array([[1, 3, 6], [5, 1, 0]])
    np.testing.assert_allclose(evaluate(x), law.log_each([[1, 5, 6], [4, 3, 2]], x))


@BY_NAME
def test_draws_and_starts_are_possible(law) -> None:
    counts = np.array([[0, 1, 2], [2, 1, 0]]) if law is LAWS["full"] else np.array([[0, 1, 2], [3, 17, 1000]])
    own = variable(law, counts)
    drawn = pm.draw(own, 50, random_seed=1, mode=PYTHON)
    assert drawn.shape == (50, 2, 3)
    assert np.isfinite(law.log_each(drawn, counts)).all()
    np.testing.assert_array_equal(drawn, pm.draw(own, 50, random_seed=1, mode=PYTHON))
    start = pm.distributions.distribution.support_point(own).eval(mode=PYTHON)
    assert np.isfinite(law.log_each(start, counts)).all()


def test_a_model_is_pickled_and_its_random_variable_compared_by_the_law() -> None:
    with pm.Model() as model:
        count = pm.Poisson("count", 9.0)
        distributions.RandomRounding("published", count, base=3, observed=12)
    again = pickle.loads(cloudpickle.dumps(model))
    point = {"count": np.array(11)}
    assert again.compile_logp(mode=PYTHON)(point) == model.compile_logp(mode=PYTHON)(point)
    one, other, third = (variable(noise.RandomRounding(base), 4).owner.op for base in (3, 3, 5))
    assert one == other
    assert one != third


def test_real_locations_are_refused() -> None:
    with pytest.raises(TypeError, match="mu must hold counts, whole numbers, under the law 'random-rounding'"):
        distributions.RandomRounding.dist(pt.dvector("mu"), 3)
    with pytest.raises(TypeError, match="mu must hold counts"):
        distributions.RandomRounding.dist(2.5, 3)
    with pytest.raises(ValueError, match="base must be a whole number from 2"):
        distributions.RandomRounding.dist(2, 1)
