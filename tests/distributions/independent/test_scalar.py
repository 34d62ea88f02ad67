"""The discrete Laplace and discrete Gaussian as PyMC distributions, against `bayesdp.noise`.

`bayesdp.noise` itself is compared with exact sums in tests/noise. False-alarm rate of the tests with draws:
1e-4 each, with fixed seeds.
"""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pymc.testing as pmt
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from bayesdp import noise
from bayesdp.distributions import DiscreteGaussian, DiscreteLaplace
from tests.noise.oracles import DecimalLaw, chi_square_pvalue

KINDS = {
    "laplace": (DiscreteLaplace, noise.DiscreteLaplace, "b"),
    "gaussian": (DiscreteGaussian, noise.DiscreteGaussian, "sigma"),
}
# The same graphs without numba's seconds of compilation.
PYTHON = Mode(linker="py", optimizer="fast_compile")
MUS = {"float64": [0.3, -4.2, 1e6 + 0.5, 0.499, 0.0], "int64": [0, -4, 10**6, 3, 7]}


@pytest.fixture(scope="module", params=[(kind, dtype) for kind in KINDS for dtype in MUS], ids="-".join)
def compiled(request: pytest.FixtureRequest) -> tuple[str, str, Any, Any]:
    """Log-mass and log-cdf of one vector, and the gradient of the sum of the log-mass."""
    kind, dtype = request.param
    value, mu, scale = pt.vector("value"), pt.vector("mu", dtype=dtype), pt.vector("scale")
    variable = KINDS[kind][0].dist(mu, scale)
    logp, logcdf = pm.logp(variable, value), pm.logcdf(variable, value)
    parameters = [mu, scale] if dtype == "float64" else [scale]
    # As users have it; one type of location is enough for that.
    mode = Mode(linker="numba") if dtype == "float64" else PYTHON
    values = pytensor.function([value, mu, scale], [logp, logcdf], mode=mode)
    slopes = pytensor.function(
        [value, mu, scale],
        [*pt.grad(logp.sum(), parameters), *pt.grad(logcdf.sum(), parameters)],
        mode=PYTHON,
    )
    return kind, dtype, values, slopes


@pytest.mark.parametrize("scale", [0.01, 0.3, 0.4999, 0.5, 1.0, 6.0, 15.99, 16.0, 40.0, 1e5])
def test_mass_and_cdf(compiled: tuple[str, str, Any, Any], scale: float) -> None:
    kind, dtype, values, _ = compiled
    mu, law = np.array(MUS[dtype], dtype=dtype), KINDS[kind][1](scale)
    for steps in [-12 * scale, -3, -1, 0, 1, 2, 5 * scale]:
        value = np.floor(mu + steps)
        logp, logcdf = values(value, mu, np.full(len(mu), scale))
        assert logp == pytest.approx(law.log_mass(value, mu), rel=1e-13, abs=1e-13)
        assert logcdf == pytest.approx(law.log_cdf(value, mu), rel=1e-11, abs=1e-14)


def test_gradients(compiled: tuple[str, str, Any, Any]) -> None:
    kind, dtype, values, slopes = compiled
    step = 1e-6
    for scale in [0.3, 0.45, 0.7, 3.0, 20.0]:
        mu = np.array([0.3, -4.2, 2.7, 1.45] if dtype == "float64" else [0, -4, 2, 1], dtype=dtype)
        value, scales = np.array([2.0, -5.0, 2.0, 1.0]), np.full(4, scale)
        found = slopes(value, mu, scales)

        def differences(change: str, mu: Any = mu, value: Any = value, scales: Any = scales) -> list[Any]:
            ends = []
            for sign in (1.0, -1.0):
                moved = (mu + sign * step, scales) if change == "mu" else (mu, scales + sign * step)
                ends.append(values(value, *moved))
            return [(up - down) / (2 * step) for up, down in zip(*ends, strict=True)]

        changes = ["mu", "scale"] if dtype == "float64" else ["scale"]
        expected = [*(differences(c)[0] for c in changes), *(differences(c)[1] for c in changes)]
        for ours, numeric in zip(found, expected, strict=True):
            assert ours == pytest.approx(numeric, rel=1e-6, abs=1e-6), (kind, scale)


def test_gradients_are_finite_everywhere(compiled: tuple[str, str, Any, Any]) -> None:
    _, dtype, _, slopes = compiled
    mu = np.array([0.35, 1.45, 2.0] if dtype == "float64" else [0, 1, 2], dtype=dtype)
    for scale in [1e-3, 0.5, 16.0, 1e6]:
        for value in [-3.0, 0.0, 1.0, 50.0]:
            assert all(np.all(np.isfinite(g)) for g in slopes(np.full(3, value), mu, np.full(3, scale)))


@pytest.mark.parametrize("kind", KINDS)
def test_pymc_checks_of_mass_and_parameters(kind: str) -> None:
    distribution, law, scale = KINDS[kind]
    domains = {"mu": pmt.R, scale: pmt.Rplusbig}
    pmt.check_logp(distribution, pmt.I, domains, lambda value, mu, **s: law(float(s[scale])).log_mass(value, mu))
    pmt.check_logcdf(distribution, pmt.I, domains, lambda value, mu, **s: law(float(s[scale])).log_cdf(value, mu))


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_constants_do_not_cost_digits(kind: str) -> None:
    # PyTensor stores 2.0 and 5 as float32 and int8 constants.
    distribution, law, _ = KINDS[kind]
    for scale in (2.0, 5, np.float32(2.5)):
        logp = pm.logp(distribution.dist(0.5, scale), 3).eval()
        assert logp == pytest.approx(law(float(scale)).logp(3, 0.5), rel=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_no_integers_have_no_mass(kind: str) -> None:
    # A symbolic value; PyMC itself casts constants to the type of the variable.
    value = pt.vector("value")
    logp = pm.logp(KINDS[kind][0].dist(0.5, 2.5), value).eval({value: [1.0, 1.5]}, mode=PYTHON)
    assert np.isfinite(logp[0])
    assert logp[1] == -np.inf


class TestDiscreteLaplaceRandom(pmt.BaseTestDistributionRandom):
    """PyMC's own checks of sampling: parameters arrive in order, draws, sizes."""

    pymc_dist = DiscreteLaplace
    pymc_dist_params = {"mu": 0.5, "b": 2.5}  # noqa: RUF012  # as PyMC's base class has it
    expected_rv_op_params = {"mu": 0.5, "b": 2.5}  # noqa: RUF012
    reference_dist_params = {"mu": 0.5, "b": 2.5}  # noqa: RUF012
    checks_to_run = [  # noqa: RUF012
        "check_pymc_params_match_rv_op",
        "check_pymc_draws_match_reference",
        "check_rv_size",
    ]

    def reference_dist(self) -> Any:
        rng = self.get_random_state()
        return lambda size, mu, b: noise.DiscreteLaplace(b).draw(rng, (), size, location=mu)


class TestDiscreteGaussianRandom(pmt.BaseTestDistributionRandom):
    """PyMC's own checks of sampling: parameters arrive in order, draws, sizes."""

    pymc_dist = DiscreteGaussian
    pymc_dist_params = {"mu": 0.5, "sigma": 2.5}  # noqa: RUF012
    expected_rv_op_params = {"mu": 0.5, "sigma": 2.5}  # noqa: RUF012
    reference_dist_params = {"mu": 0.5, "sigma": 2.5}  # noqa: RUF012
    checks_to_run = [  # noqa: RUF012
        "check_pymc_params_match_rv_op",
        "check_pymc_draws_match_reference",
        "check_rv_size",
    ]

    def reference_dist(self) -> Any:
        rng = self.get_random_state()
        return lambda size, mu, sigma: noise.DiscreteGaussian(sigma).draw(rng, (), size, location=mu)


@pytest.mark.parametrize("mode", ["NUMBA", "FAST_COMPILE"])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_law_in_both_modes(kind: str, mode: str) -> None:
    rng = pytensor.shared(np.random.default_rng(11))
    variable = KINDS[kind][0].dist(-3.2, 1.5, size=100_000, rng=rng)
    draws = pytensor.function([], variable, mode=mode)()
    assert draws.dtype == np.int64
    exact = DecimalLaw(kind, -3.2, 1.5)  # type: ignore[arg-type]
    assert chi_square_pvalue(draws, exact.k, np.exp(exact.log_mass)) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_model(kind: str) -> None:
    distribution, law, scale = KINDS[kind]
    counts = np.array([[4, 7, 2], [3, 3, 9]])
    with pm.Model(coords={"county": ["a", "b"], "age": [1, 2, 3]}) as model:
        x = pm.Poisson("x", 5.0, dims=("county", "age"))
        free = distribution("free", pt.as_tensor(np.array([0.2, 5.7])), **{scale: 2.0}, shape=(3, 2))
        distribution("noisy", x, **{scale: np.array([1.0, 2.0, 3.0])}, observed=counts, dims=("county", "age"))
    point = model.initial_point()
    assert np.array_equal(point["free"], [[0, 6]] * 3)
    total = model.compile_logp(vars=[model["noisy"]])({**point, "x": counts + 1})
    assert total == pytest.approx(law(np.array([1.0, 2.0, 3.0])).logp(counts, counts + 1), rel=1e-12)
    predictive = pm.sample_prior_predictive(5, model=model, random_seed=1)
    assert predictive.prior_predictive["noisy"].dims == ("chain", "draw", "county", "age")
    assert predictive.prior_predictive["noisy"].dtype == np.int64
    assert f"{distribution.__name__}(x, " in model.str_repr()
    again = cloudpickle.loads(cloudpickle.dumps(model))  # as pm.sample does for its processes
    assert again.compile_logp()(point) == pytest.approx(model.compile_logp()(point), rel=1e-14)
    assert free.type.ndim == 2


@pytest.mark.parametrize("kind", KINDS)
def test_bad_constants_are_refused_at_once(kind: str) -> None:
    distribution, _, scale = KINDS[kind]
    with pytest.raises(ValueError, match=rf"{scale} must be finite and greater than 0, got -1\.0"):
        distribution.dist(0, -1.0)
    with pytest.raises(ValueError, match=f"{scale} must be finite and greater than 0, got nan"):
        distribution.dist(0, np.nan)


@pytest.mark.parametrize("kind", KINDS)
def test_free_noise_around_a_whole_number(kind: str) -> None:
    distribution, law, scale = KINDS[kind]
    with pm.Model() as model:
        distribution("z", 4, **{scale: 2.0})
    assert model.initial_point() == {"z": 4}
    assert float(model.compile_logp(mode=PYTHON)({"z": 7})) == pytest.approx(law(2.0).logp([7], [4]), rel=1e-13)
