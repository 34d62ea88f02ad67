"""Models whose counts are a hierarchy: drawn by its own kernel, with the same law and the same contract."""

import sys
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numba as nb
import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln

import bayesdp as bdp
from bayesdp._numba import told_while_compiling
from bayesdp.fibers import Chain, enumerate_fiber
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.inference import FiberGibbs
from bayesdp.steps import reading
from tests.comparison.enumeration import probabilities
from tests.comparison.variation import assert_close_in_variation
from tests.inference.oracle import Exactly, begun, counts_model, sample
from tests.noisy_sums import indices, noisy_sums

RATE = 1e-5
"""False alarms of each comparison."""

DIMS: dict[str, Any] = {"tract": ["t", "u", "v"], "race": ["a", "b"], "county": ("tract", ["p", "p", "q"])}
NOISE = ((("tract", "race"), 2.0), (("tract",), 0.4), (("county", "race"), 1.0))
SHAPES = np.array([[0.4, 0.9], [0.5, 0.3], [1.2, 0.6]])


@pytest.fixture(autouse=True)
def _every_size(monkeypatch):
    monkeypatch.setattr(reading, "HIERARCHY_CELLS", 0)


def query(*keep):
    return bdp.Margins(DIMS, list(keep)) if keep else bdp.Totals(DIMS)


@dataclass(frozen=True)
class Case:
    """Tracts by race in two counties, with precise totals of tracts."""

    family: str = "negbin"
    exact: tuple[tuple[str, ...], ...] = ((),)
    total: int = 4
    zero: bool = False
    most: int | None = None
    shapes: Any = field(default_factory=lambda: SHAPES)

    def release(self):
        rng = np.random.default_rng(3)
        truth = rng.multinomial(self.total, np.full(6, 1.0 / 6.0)).reshape(3, 2)
        known = []
        if self.zero:
            truth[1, 0], truth[0, 0] = truth[1, 0] + truth[0, 0], 0
            known.append(bdp.Exact(bdp.LinearQuery(DIMS, [[1, 0, 0, 0, 0, 0]], ["none"]), [0]))
        if self.most is not None:
            known.append(bdp.Exact(query("tract"), query("tract").apply(truth) + self.most, sign="<="))
        known += [bdp.Exact(query(*keep), query(*keep).apply(truth)) for keep in self.exact]
        return bdp.Release.from_published(DIMS, noisy_sums(DIMS, truth, NOISE, rng), known)

    def model(self):
        release, a = self.release(), self.shapes
        if self.family == "negbin":
            base = pm.NegativeBinomial.dist(mu=1.3 * a, alpha=a)
        elif self.family == "poisson":
            base = pm.Poisson.dist(a)
        else:
            [n] = [part.values for part in release.exact if part.query.shape == (3,)]
            dirichlet, p = self.family == "dirichlet", a / a.sum(axis=1)[:, None]
            base = pm.DirichletMultinomial.dist(n=n, a=a) if dirichlet else pm.Multinomial.dist(n=n, p=p)
        return counts_model(release, base)

    def logs(self, x):
        """Of tables, up to a constant."""
        a = self.shapes
        logs = -gammaln(x + 1) + (x * np.log(a) if self.family in ("poisson", "multinomial") else gammaln(x + a))
        if self.family == "negbin":
            logs = logs + x * np.log(1.3 / 2.3)
        logs = logs.sum(axis=(1, 2))
        for part, (_, sigma) in zip(self.release().measurements, NOISE, strict=True):
            logs = logs - 0.5 * np.square((part.query.apply(x) - part.values) / sigma).reshape(len(x), -1).sum(axis=1)
        return logs

    def tables(self):
        return enumerate_fiber(self.release().fiber, 10**5)


CASES = {
    "two exact levels": Case(exact=(("county",), ()), total=5),
    "a zero, Poisson": Case(family="poisson", zero=True),
    "limits of tracts": Case(most=1),
    "sparse": Case(shapes=np.linspace(0.05, 0.08, 6).reshape(3, 2)),
    "Dirichlet multinomial": Case(family="dirichlet", exact=(("tract",),), total=8),
    "multinomial": Case(family="multinomial", exact=(("tract",),), total=8),
}


@pytest.mark.parametrize("name", CASES)
def test_densities(name):
    """What the kernel of hierarchies is given; the law of its draws: `tests/hierarchies/test_law.py`."""
    case = CASES[name]
    model = case.model()
    assert isinstance(FiberGibbs(model=model).tables[0].chain, TreeChain)
    Exactly(model, case.tables(), case.logs).check_densities()


def test_draws_of_pymc_have_the_posterior_law():
    case = CASES["two exact levels"]
    tables = case.tables()
    drawn = sample(case.model(), 800, tune=40, fiber_gibbs={"sweeps": 4}).posterior["x"]
    assert_close_in_variation(indices(tables, drawn), probabilities(case.logs(tables)), rate=RATE)


@pytest.fixture(scope="module")
def shared():
    """Counts alone."""
    return Case().model()


@pytest.fixture
def step(shared):
    return begun(FiberGibbs(model=shared))


class TestContract:
    def test_outside_points_are_taken_up_and_state_and_donors_belong_to_the_sampling_state(self, step, shared):
        point, _ = step.step(shared.initial_point())
        step.tables[0].chain.load(np.array([0, 0, 0, 0, 0, 99]))
        assert step.step(point)[0]["x"].sum() == 4
        for _ in range(5):
            point, _ = step.step(point)
        state = step.sampling_state
        first = [step.step(point)[0]["x"].copy() for _ in range(3)]
        chain = step.tables[0].chain
        chain.choose_donors(-np.asarray(chain.state.counts))
        step.sampling_state = state
        np.testing.assert_array_equal([step.step(point)[0]["x"] for _ in range(3)], first)

    def test_donors_are_chosen_while_tuning_and_then_stay(self, step, shared):
        chain, seen, point = step.tables[0].chain, [], shared.initial_point()
        for i in range(20):
            if i == 10:
                step.stop_tuning()
            point, _ = step.step(point)
            groups = np.concatenate([chain.state.group_start.reshape(-1), chain.state.group_cell])
            seen.append(np.concatenate([chain.memory, groups]))
        size = len(chain.state.donor_cell) + len(chain.state.visits)
        for later in seen[11:]:
            np.testing.assert_array_equal(later, seen[10])  # donors, and nothing is gathered
        assert not np.array_equal(seen[0][:size], seen[10][:size])
        assert seen[9][size] == 10.0


def test_the_result_says_what_is_proved_and_the_rest_of_a_model_and_small_tables_take_single_lines(shared, monkeypatch):
    with shared:
        tree = bdp.sample(draws=20, tune=5, chains=2, random_seed=1, progressbar=False)
    assert tree["fiber"].attrs["proved"] == 1
    assert "exchanges of counts within leaves" in tree["fiber"].attrs["connectivity"]
    with Case().model() as model:
        pm.Potential("more", -0.1 * model["x"].sum() ** 2)
    assert isinstance(FiberGibbs(model=model).tables[0].chain, Chain)
    monkeypatch.setattr(reading, "HIERARCHY_CELLS", 500)
    assert isinstance(FiberGibbs(model=shared).tables[0].chain, Chain)


def test_parameters_of_noise_and_prior_may_change_from_step_to_step_and_are_read_at_every_point():
    release = Case().release()
    with pm.Model(coords=release.coords) as model:
        base = pm.NegativeBinomial.dist(mu=pm.LogNormal("mean", 0.0, 0.3) * SHAPES, alpha=SHAPES)
        x = bdp.ConfidentialCounts("x", base, dims=("tract", "race"))
        bdp.observe(release, x)
        step = begun(FiberGibbs([x]))
    chain = step.tables[0].chain
    assert isinstance(chain, TreeChain)
    for log_mean in (-0.5, 0.7):
        step.step(model.initial_point() | {"mean_log__": np.array(log_mean)})
        # Of a negative binomial of mean m and shape a, the log weight is log(m / (m + a)).
        weight = np.log(np.exp(log_mean) / (np.exp(log_mean) + 1.0))
        np.testing.assert_allclose(chain.state.theta[chain.structure.order], weight)
    # Noise of cells of which the model does not know how large it is.
    case, extra = Case(), np.array([[1, 0], [2, 1], [0, 2]])
    with case.model() as model:
        sigma = pm.Uniform("sigma", 0.5, 3.0)
        bdp.distributions.DiscreteGaussian("extra", mu=model["x"], sigma=sigma, observed=extra)
        assert isinstance(FiberGibbs([model["x"]]).tables[0].chain, TreeChain)

    def logs(tables, sigma):
        norm = np.exp(-(np.arange(-200, 201) ** 2) / (2.0 * sigma**2)).sum()
        own = -((extra - tables) ** 2).sum(axis=(1, 2)) / (2.0 * sigma**2) - extra.size * np.log(norm)
        return case.logs(tables) + own

    Exactly(model, case.tables(), logs, "sigma", np.linspace(0.6, 2.9, 21)).check_densities()


def test_flat_counts_and_three_levels_are_hierarchies():
    """The law of such tables is that of `tests/hierarchies/test_law.py`."""
    labels = {"block": ["1", "2", "3", "4"], "race": ["a", "b"], "tract": ("block", ["t", "t", "u", "v"])}
    labels["county"] = ("block", ["p", "p", "p", "q"])
    parts = [bdp.Margins(labels, keep) for keep in (["block", "race"], ["tract"], ["county", "race"])]
    law = bdp.noise.DiscreteGaussian(sigma=1.5)
    measured = [bdp.Measured(part, np.ones(part.shape, dtype=int), law) for part in parts]
    with pm.Model(coords={"block": labels["block"], "race": labels["race"]}):
        x = bdp.FlatCounts("x", dims=("block", "race"))
        bdp.observe(bdp.Release.from_published(labels, measured, [bdp.Exact(bdp.Totals(labels), 4)]), x)
        chain = FiberGibbs().tables[0].chain
    assert isinstance(chain, TreeChain)
    assert chain.structure.levels == ("block", "tract", "county", "all")
    assert chain.target.family == "flat"


def test_a_first_compilation_is_told_on_standard_error_once_and_moves_on_a_terminal(capfd, monkeypatch):
    def small(x):
        return x + 1

    def made(module):
        function = FunctionType(small.__code__, small.__globals__, "small", None, None)
        function.__module__ = module
        return nb.njit(function)

    with told_while_compiling():
        made("numpy.kernel.pretended")(1)
    assert capfd.readouterr().err == ""
    with told_while_compiling():
        made("bayesdp.hierarchies.kernel.pretended")(1)
        made("bayesdp.fibers.kernel.pretended")(1)
    assert capfd.readouterr().err.count("compiling the moves of tables") == 1
    made("bayesdp.hierarchies.kernel.pretended")(1)
    assert capfd.readouterr().err == ""
    with monkeypatch.context() as patched, told_while_compiling():
        patched.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        made("numpy.kernel.pretended")(1)  # not one of ours
        made("bayesdp.hierarchies.kernel.pretended")(1)
        made("numpy.kernel.pretended")(1)
    assert capfd.readouterr().err.splitlines()[1:] == [".."]
