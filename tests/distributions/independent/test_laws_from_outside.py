"""Laws that the package does not have: what a file of a law and a decorated class give without any other change.

The oracle is SciPy's logistic law, and its integral over a unit interval for the law on the integers. False-alarm rate of the tests
with draws: 1e-4 each, with fixed seeds.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy import stats

from bayesdp.distributions import distribution_of, scalar_distribution
from bayesdp.noise import IntegerLaw, NoiseLaw, RealLaw, parse_law
from bayesdp.noise.base import _REGISTRY
from tests.noise.oracles import chi_square_pvalue

PYTHON = Mode(linker="py", optimizer="fast_compile")


@dataclass(frozen=True, eq=False)
class RoundedLogistic(IntegerLaw):
    """Logistic noise around mu, rounded to the nearest integer."""

    s: Any

    name = "rounded-logistic"
    scale_name = "s"

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """F(u) - F(l) = F(u) F(-l) (1 - exp(l - u))."""
        u, low = (value + 0.5 - mu) / scale, (value - 0.5 - mu) / scale
        return xp.log(-xp.expm1(-1.0 / scale)) - xp.logaddexp(0.0, -u) - xp.logaddexp(0.0, low)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        return -xp.logaddexp(0.0, -(value + 0.5 - mu) / scale)

    @staticmethod
    def fill(rng: np.random.Generator, mu: Any, scale: Any, out: Any) -> None:
        out[...] = np.rint(rng.logistic(mu, scale, out.shape))

    @staticmethod
    def _moments(mu: Any, scale: Any) -> tuple[Any, Any]:
        k = np.arange(-2000.0, 2001.0).reshape(-1, *[1] * np.ndim(mu)) + np.rint(mu)
        mass = np.exp(RoundedLogistic.log_kernel(np, k, mu, scale))
        mean = np.sum(k * mass, axis=0)
        return mean, np.sum((k - mean) ** 2 * mass, axis=0)


@dataclass(frozen=True, eq=False)
class Logistic(RealLaw):
    """Logistic noise."""

    s: Any

    name = "logistic"
    scale_name = "s"

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        z = xp.abs((value - mu) / scale)
        return -z - 2.0 * xp.log1p(xp.exp(-z)) - xp.log(scale)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        return -xp.logaddexp(0.0, (mu - value) / scale)

    @staticmethod
    def fill(rng: np.random.Generator, mu: Any, scale: Any, out: Any) -> None:
        out[...] = mu + scale * rng.logistic(size=out.shape)

    @staticmethod
    def _moments(mu: Any, scale: Any) -> tuple[Any, Any]:
        return mu, (np.pi * scale) ** 2 / 3.0


@scalar_distribution(RoundedLogistic)
class RoundedLogisticNoise(pm.Discrete):
    """Logistic numbers around mu, rounded to the nearest integer."""


@scalar_distribution(Logistic)
class LogisticNoise(pm.Continuous):
    """Logistic numbers around mu."""


KINDS = [(RoundedLogistic, RoundedLogisticNoise), (Logistic, LogisticNoise)]
# Defining a law registers its name. Other tests look at all names: these two are there in this module's tests only.
assert [_REGISTRY.pop(law.name) for law, _ in KINDS] == [RoundedLogistic, Logistic]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for law, _ in KINDS:
        monkeypatch.setitem(_REGISTRY, law.name, law)


@pytest.mark.parametrize(("law", "own"), KINDS)
def test_found_by_name_and_by_law(law: Any, own: Any) -> None:
    assert distribution_of(law) is own
    assert own.law_type is law
    assert parse_law(f"{law.name} s=2.5") == law(2.5)
    assert NoiseLaw.from_description(law([1.0, 2.0]).describe()) == law([1.0, 2.0])
    assert law(1.0).family == "independent"
    assert own.__doc__.startswith("Logistic numbers")
    with pytest.raises(ValueError, match="s must be a finite number greater than 0"):
        law(-1.0)


@pytest.mark.parametrize(("law", "own"), KINDS)
def test_both_forms_of_the_kernel_against_scipy(law: Any, own: Any) -> None:
    y, mu, scale = np.arange(-6.0, 7.0), 0.3, 1.7
    free = stats.logistic(mu, scale)
    mass = free.cdf(y + 0.5) - free.cdf(y - 0.5) if law.integer else free.pdf(y)
    below = free.cdf(y + 0.5) if law.integer else free.cdf(y)
    np.testing.assert_allclose(np.exp(law(scale).log_each(y, mu)), mass, rtol=1e-13)
    np.testing.assert_allclose(law(scale).cdf(y, mu), below, rtol=1e-13)
    np.testing.assert_allclose(np.exp(law(scale).log_sf(y, mu)), 1.0 - below, rtol=1e-12)
    value = pt.vector("value")
    variable = own.dist(mu, s=scale)
    found = pytensor.function([value], [pm.logp(variable, value), pm.logcdf(variable, value)], mode=PYTHON)
    logp, logcdf = found(y)
    np.testing.assert_allclose(logp, law(scale).log_each(y, mu), rtol=1e-13)
    np.testing.assert_allclose(logcdf, law(scale).log_cdf(y, mu), rtol=1e-13)
    if law.integer:
        assert found([0.5])[0] == -np.inf
    assert float(law(scale).variance(())) == pytest.approx(np.pi**2 * scale**2 / 3, rel=0.02)


@pytest.mark.parametrize("mode", ["NUMBA", "FAST_COMPILE"])
@pytest.mark.parametrize(("law", "own"), KINDS)
def test_draws(law: Any, own: Any, mode: str) -> None:
    count, k = 20_000, np.arange(-80, 81)
    drawn = [
        law(1.7).draw(5, (count,), location=0.3),
        pytensor.function(
            [], own.dist(0.3, 1.7, size=count, rng=pytensor.shared(np.random.default_rng(6))), mode=mode
        )(),
    ]
    for one in drawn:
        assert one.dtype == (np.int64 if law.integer else np.float64)
        if law.integer:
            assert chi_square_pvalue(one, k, np.exp(law(1.7).log_mass(k, 0.3))) > 1e-4
        else:
            assert stats.kstest(one, stats.logistic(0.3, 1.7).cdf).pvalue > 1e-4


@pytest.mark.parametrize(("law", "own"), KINDS)
def test_in_a_model_that_goes_through_pickle(law: Any, own: Any) -> None:
    with pm.Model() as model:
        level = pm.Normal("level", 3.0, 2.0)
        own("noisy", mu=level, s=1.5, observed=[2, 5])
        own("free", 4, 2.0, shape=2)
    assert f"{own.__name__}(level, 1.5)" in model.str_repr()
    point = model.initial_point()
    assert np.array_equal(point["free"], [4, 4])
    again = pickle.loads(cloudpickle.dumps(model))
    assert type(again["noisy"].owner.op) is own.rv_type
    for one in (model, again):
        [term] = one.compile_fn(one.logp(vars=[one["noisy"]], sum=False), mode=PYTHON)({"level": 3.0})
        assert float(np.sum(term)) == pytest.approx(law(1.5).logp([2, 5], [3.0, 3.0]), rel=1e-13)


class Unnamed(RoundedLogistic):
    """Nobody wrote a distribution of it."""


def test_a_law_needs_no_distribution_of_its_own() -> None:
    made = distribution_of(Unnamed)
    assert made is distribution_of(Unnamed) is pickle.loads(pickle.dumps(made))
    y, variable = np.arange(-4, 5), made.dist(0.3, s=1.7)
    assert pickle.loads(pickle.dumps(variable.owner.op)) == variable.owner.op
    np.testing.assert_allclose(pm.logp(variable, y).eval(mode=PYTHON), Unnamed(1.7).log_each(y, 0.3), rtol=1e-13)
    assert made.__doc__.startswith("Nobody wrote a distribution of it.")
    assert made.__name__ == "Unnamed"


def test_a_law_without_a_kernel_has_none() -> None:
    class Silent(NoiseLaw):
        name = "silent"

    assert _REGISTRY.pop("silent") is Silent
    with pytest.raises(NotImplementedError, match=r"no PyMC distribution is registered for the noise law 'silent'"):
        distribution_of(Silent)


@pytest.mark.parametrize(("law", "own"), KINDS)
def test_arguments_of_a_distribution(law: Any, own: Any) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 's'"):
        own.dist(0.0)
    with pytest.raises(ValueError, match=r"s must be finite and greater than 0, got -1\.0"):
        own.dist(0.0, -1.0)


def test_the_kind_of_a_distribution_is_that_of_its_law() -> None:
    with pytest.raises(
        TypeError, match=r"Wrong must be a subclass of pymc\.Discrete, as the law 'rounded-logistic' is"
    ):

        @scalar_distribution(RoundedLogistic)
        class Wrong(pm.Continuous):
            """Of real numbers."""
