"""Step methods of latent noise: laws against enumeration and quadrature, what PyMC asks of them, and what they refuse."""

import math
import subprocess
import sys
from itertools import product

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import softmax
from scipy.stats import gamma, kstest, poisson

import bayesdp as bdp
from bayesdp._numba import seed_state
from bayesdp.distributions import LatticeGaussian, LatticeLaplace, ProjectedLaplaceGivenRows, RowSpaceNoise
from bayesdp.inference import FiberGibbs
from bayesdp.invariants import Invariants
from bayesdp.noise import UnknownPerturbation
from bayesdp.noise.subspace.projected_laplace import directions_of, row_basis, sweep
from bayesdp.queries import LinearQuery, Margins
from bayesdp.steps import LatticeNoiseGibbs, RowNoiseGibbs
from bayesdp.steps.noise_gibbs import PerturbationGibbs
from tests.comparison.variation import assert_close_in_variation
from tests.inference.oracle import begun, counts_model, sample
from tests.lattices.oracles import LEVEL, lattice_points, law_on, pvalue
from tests.noise.oracles import all_margins, frame_of
from tests.noise.perturbed.records import log_of_tallies

TABLE = {"county": ["p", "q"], "education": ["a", "b", "c"]}
MARGINS = bdp.Margins(TABLE, ["county"], ["education"])
BOTH = bdp.Invariants(MARGINS)
Y = np.array([[4, -1, 7], [2, 6, 3]])
"""A published table with a negative count: noise of zero is not a feasible start."""
START = np.array([[3, 0, 7], [3, 5, 3]])
"""A nonnegative table with the margins of Y."""
RATE = np.array([[3.0, 2.0, 5.0], [3.0, 4.0, 4.0]])
LAWS = {"l1": 0.4, "l2": 0.7, "gaussian": 1.8}


def noise_of(law, around=None, **more):
    mu = np.zeros_like(Y) if around is None else around
    if law == "gaussian":
        return LatticeGaussian("z", mu, LAWS[law], invariants=BOTH, **more)
    return LatticeLaplace("z", mu, LAWS[law], invariants=BOTH, norm=law, **more)


def model_of(law, later=False):
    with pm.Model() as model:
        z = noise_of(law)
        x = pm.Deterministic("x", Y - z)
        pm.Potential("prior", pm.logp(pm.Poisson.dist(RATE), x).sum())
        if later:
            pm.Normal("later")
    return model


def lattice_posterior(law):
    """Tables and their probabilities, by enumeration."""
    points = lattice_points(BOTH.matrix.toarray(), 25)
    with np.errstate(divide="ignore"):
        weight = np.log(law_on(points, law, LAWS[law])) + poisson.logpmf(Y.ravel() - points, RATE.ravel()).sum(axis=1)
    return Y.ravel() - points, softmax(weight)


def step_of(model, **options):
    with model:
        return begun(LatticeNoiseGibbs(**options))


def draws_of(model, draws, sweeps=2):
    """Noise of all cells, and the shares of accepted moves."""
    step = step_of(model, sweeps=sweeps)
    point, found, accepted = model.initial_point(), [], []
    for _ in range(draws):
        point, [stats] = step.step(point)
        found.append(point["z"].reshape(-1))
        accepted.append(stats["lattice_accepted"])
    return np.array(found), accepted


class TestLatticeNoise:
    """A right sampler fails one of these in ten thousand runs; 40 moves lie between two draws on a lattice of dimension 2."""

    @pytest.mark.parametrize("law", ["l1", *(pytest.param(o, marks=pytest.mark.system) for o in ("l2", "gaussian"))])
    def test_posterior_with_latent_noise(self, law):
        noise, accepted = draws_of(model_of(law), 300, sweeps=20)
        assert pvalue(Y.reshape(-1) - noise, *lattice_posterior(law)) > LEVEL
        assert 0.05 < np.mean(accepted) < 1.0

    @pytest.mark.parametrize("law", list(LAWS))
    def test_noise_alone_has_its_own_law_around_any_table(self, law):
        around = Y if law == "l1" else np.zeros_like(Y)
        with pm.Model() as model:
            noise_of(law, around)
        found, accepted = draws_of(model, 2000)
        assert set(accepted) == {1.0}
        points = lattice_points(BOTH.matrix.toarray(), 25)
        assert pvalue(found - around.reshape(-1), points, law_on(points, law, LAWS[law])) > LEVEL

    def test_the_rate_as_a_parameter(self):
        """Of a total over three cells, in closed form: 2 * ||z||_inf = ||z||_1, and 6 m tables have norm 2 m."""
        total = bdp.Invariants(bdp.Totals({"county": ["p", "q", "r"]}))
        with pm.Model() as model:
            LatticeLaplace("z", np.zeros(3, dtype=int), pm.Gamma("epsilon", 2.0, 2.0), invariants=total)
        density, m = model.compile_logp(jacobian=False), np.arange(1, 4000)
        found, exact = [], []
        for epsilon, z in product((0.3, 0.9, 2.0), ([0, 0, 0], [3, -1, -2])):
            found.append(float(density({"epsilon_log__": np.log(epsilon), "z": np.array(z)})))
            log_sum = np.log1p((6.0 * m * np.exp(-2.0 * epsilon * m)).sum())
            exact.append(gamma.logpdf(epsilon, 2.0, scale=0.5) - np.abs(z).sum() * epsilon - log_sum)
        assert found == pytest.approx(exact, rel=1e-8)
        five = bdp.Invariants(bdp.Margins({"a": range(5), "b": range(5)}, ["a"], ["b"]))
        for norm in ("l1", "l2"):
            with pm.Model():
                epsilon = pm.Gamma("epsilon", 2.0, 2.0)
                with pytest.raises(NotImplementedError, match="epsilon must be a constant here"):
                    LatticeLaplace("z", np.zeros((5, 5), dtype=int), epsilon, invariants=five, norm=norm)

    def test_starts_on_the_lattice_where_the_model_allows_it_and_data_may_be_replaced(self):
        plain = model_of("l1")
        step = step_of(plain)
        np.testing.assert_array_equal(plain.initial_point()["z"], np.zeros_like(Y))
        for start in (np.zeros_like(Y), np.full_like(Y, 50)):
            step.setup_chain(np.random.default_rng(3), 10, 10)
            new, _ = step.step({"z": start})
            assert new["z"].dtype == np.int64
            assert BOTH.is_null(new["z"])
            assert (Y - new["z"] >= 0).all()
            assert not np.shares_memory(step.step(new)[0]["z"], new["z"])
        with pm.Model() as model:
            centre = pm.Data("centre", Y.astype(float))
            LatticeLaplace("z", centre.astype("int64"), 0.4, invariants=BOTH)
            pm.set_data({"centre": Y + 5.0})
        assert step_of(model).step(model.initial_point())[0]["z"].sum() == Y.sum() + 30

    @pytest.mark.system
    def test_assigned_to_whoever_imports_the_distributions_alone(self):
        # PyMC's own choice would be Metropolis, which leaves the lattice.
        program = """
import numpy as np, pymc as pm
from bayesdp import Invariants, Totals
from bayesdp.distributions import LatticeGaussian, LatticeLaplace
for law in (LatticeGaussian, LatticeLaplace):
    with pm.Model() as model:
        law('z', np.zeros(3, dtype=int), 2.0, invariants=Invariants(Totals({'county': [1, 2, 3]})))
    print(*[c.__name__ for c in pm.sampling.mcmc.assign_step_methods(model)[1]])
"""
        found = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=120)
        assert found.split() == ["LatticeNoiseGibbs"] * 2

    def test_what_it_does_not_sample_and_a_model_that_allows_no_table(self):
        for build, error, words in (
            (lambda: pm.Poisson("y", 3.0), TypeError, "'y' is not one"),
            (lambda: noise_of("l1", pm.Poisson("x", RATE)), ValueError, "mu of the latent noise 'z' must be known"),
            (lambda: noise_of("l1", shape=(4, 2, 3)), ValueError, "not a batch"),
        ):
            with pm.Model():
                variable = build()
                with pytest.raises(error, match=words):
                    LatticeNoiseGibbs([variable])
        with pm.Model() as model:
            z = noise_of("l1")
            pm.Potential("never", pm.math.switch(z.sum() > 0, 0.0, -np.inf))
        with pytest.raises(ValueError, match="no noise 'z' was found that has positive density"):
            step_of(model).step(model.initial_point())


CORNERS = np.array([[5.0, 3.0], [2.0, 7.0]])
MOVE = np.array([[1.0, -1.0], [-1.0, 1.0]])
PAIR = all_margins(2, 2)
WEIGHTED = Invariants(LinearQuery(frame_of(4), [[1, 2, 0, 0], [0, 1, -1, 3]], ["a", "b"]))


def row_noise(invariants, u, b, draws, thin=1):
    """Draws of w given u."""
    own, state = directions_of(invariants), seed_state(np.random.default_rng(7))
    w, out = np.zeros(invariants.rank), []
    e = u.reshape(-1).astype(np.float64)
    for _ in range(draws):
        sweep(e, w, b, own, thin, state)
        out.append(w.copy())
    assert e == pytest.approx(u.reshape(-1) + row_basis(invariants).T @ w, abs=1e-9)
    return np.array(out)


def grid_law(invariants, u, b, grid):
    """Cumulative marginal laws of each w on a grid, by summing the joint density over all of them."""
    rows = row_basis(invariants).toarray()
    axes = np.meshgrid(*[grid] * len(rows), indexing="ij", sparse=True)
    exponent = sum(
        np.abs(value + sum(r * w for r, w in zip(column, axes, strict=True) if r))
        for value, column in zip(u.reshape(-1), rows.T, strict=True)
    )
    mass = np.exp(-(exponent - exponent.min()) / b)
    laws = []
    for k in range(len(rows)):
        own = mass.sum(axis=tuple(a for a in range(len(rows)) if a != k))
        laws.append(np.cumsum(own / own.sum()) - 0.5 * own / own.sum())
    return laws


def row_model():
    """One real unknown along the only free direction, and latent row-space noise."""
    with pm.Model() as model:
        s = pm.Normal("s", 0.0, 2.0)
        w = RowSpaceNoise("w", 1.5, invariants=PAIR)
        ProjectedLaplaceGivenRows("y", CORNERS - MOVE + s * MOVE, w, 1.5, invariants=PAIR, observed=CORNERS)
    return model


class TestRowNoise:
    def test_row_noise_given_the_projected_noise(self):
        # Against numerical integration over all w; false-alarm rate 1e-4 for each of nine comparisons.
        for invariants, u, points in (
            (PAIR, 1.2 * MOVE, 160),
            (all_margins(2, 3), np.array([[1.0, -3.0, 2.0], [-1.0, 3.0, -2.0]]), 48),
            (WEIGHTED, np.array([2.0, -1, -1, 0]), 400),
        ):
            grid = np.linspace(-11.0, 11.0, points)
            draws = row_noise(invariants, u, 1.5, 3000, thin=4)
            for own, law in zip(draws.T, grid_law(invariants, u, 1.5, grid), strict=True):
                assert kstest(own, np.interp, args=(grid, law)).pvalue > 1e-4

    def test_mixing(self):
        # Redundant rows are among the directions. Without them rows and columns rise and fall against each other, and the
        # smallest of these numbers of effective draws would be 0.22 a sweep.
        invariants = all_margins(4, 4)
        u = invariants.project(np.random.default_rng(1).laplace(size=(4, 4)))
        fitted = row_noise(invariants, u, 1.0, 4000) @ row_basis(invariants).toarray()
        assert min(float(az.ess(fitted[None, :, cell])) for cell in range(16)) > 0.4 * 4000

    @pytest.mark.system
    def test_of_a_continuous_table_against_quadrature(self):
        # NUTS for the table given w and exact draws of w: the posterior of the table must be that of the projected law.
        # False-alarm rate 1e-4.
        tree = sample(row_model(), 2500, tune=300, seed=5)
        grid = np.linspace(-9.0, 11.0, 161)
        z = 4 * np.abs(1 - grid) / 1.5  # half a sum of four Laplace variables
        logs = np.log(15 + 15 * z + 6 * z**2 + z**3) - z - grid**2 / 8
        mass = np.exp(logs - logs.max())
        cdf = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
        draws = tree.posterior["s"].values
        thin = math.ceil(draws.size / float(az.ess(draws)))
        assert thin < 12
        assert kstest(draws[:, ::thin].reshape(-1), np.interp, args=(grid, cdf)).pvalue > 1e-4

    def test_other_variables_and_noise_that_stands_nowhere_or_elsewhere(self):
        with row_model() as model:
            with pytest.raises(TypeError, match="'s' is not one"):
                RowNoiseGibbs([model["s"]])
            with pytest.raises(ValueError, match="sweeps"):
                RowNoiseGibbs(sweeps=0)
        with pm.Model() as alone:
            RowSpaceNoise("w", 1.0, invariants=PAIR)
        with row_model() as used:
            pm.Potential("again", -used["w"].sum())
        other = Invariants(LinearQuery(frame_of(2, 4), np.eye(2, 8, dtype=int), ["a", "b"]))
        with pm.Model() as mixed:
            w = RowSpaceNoise("w", 1.0, invariants=Invariants(Margins(frame_of(2, 4), ["d0"])))
            ProjectedLaplaceGivenRows("y", np.zeros((2, 4)), w, 1.0, invariants=other, observed=np.zeros((2, 4)))
        for model, words in (
            (alone, "what depends on it is: nothing"),
            (used, "what depends on it is: 'y', 'again'"),
            (mixed, "'w' and 'y' must have the same invariants"),
        ):
            with model, pytest.raises(ValueError, match=words):
                RowNoiseGibbs()


AREAS = {"area": ["a", "b", "c"]}
RATES = np.array([1.0, 2.0, 3.0])
TABLES = np.array(list(product(range(13), repeat=3)))


def perturbed_model(law, values, total):
    measured = [bdp.Measured(bdp.Identity(AREAS), values, law)]
    if total is not None:
        measured.append(bdp.Measured(bdp.Totals(AREAS), total, law, name="sum"))
    return counts_model(bdp.Release.from_published(AREAS, measured), pm.Poisson.dist(RATES))


def tallies(law, values, total):
    """How often each deviation of each row occurs in each of `TABLES`, by hand; and whether the table is possible."""
    rows, d = len(law.counts), law.max_deviation
    counts, possible = np.zeros((len(TABLES), rows, 2 * d + 1)), np.ones(len(TABLES), dtype=bool)
    for k, table in enumerate(TABLES):
        answers = [(frozenset([i] if table[i] else []), table[i], y, i) for i, y in enumerate(values)]
        if total is not None:
            answers.append((frozenset(np.flatnonzero(table).tolist()), table.sum(), total, 9))
        seen: dict = {}
        for records, x, y, place in answers:
            key = records or place  # answers about nobody have a perturbation of their own
            if key in seen:
                possible[k] &= seen[key] == y
                continue
            seen[key] = y
            row, column = min(x, rows - 1), y - x + d
            if not 0 <= column <= 2 * d or law.concentrations[row, column] == 0:
                possible[k] = False
            else:
                counts[k, row, column] += 1
    return counts, possible


def enumerated(law, values, total):
    """Posterior of `TABLES`, and posterior means of the rows: the Dirichlet (or the variance) is integrated out for each table."""
    counts, possible = tallies(law, values, total)
    log = poisson.logpmf(TABLES, RATES).sum(axis=1) + log_of_tallies(law, counts)
    if law.prior == "dirichlet":
        after = law.concentrations + np.where(law.concentrations > 0, counts, 0.0)
        rows = after / after.sum(axis=2, keepdims=True)
    else:
        each = np.einsum("trd,krd->tk", counts, np.log(np.where(law.tables > 0, law.tables, 1.0)))
        rows = np.einsum("tk,krd->trd", np.exp(each - np.logaddexp.reduce(each, axis=1, keepdims=True)), law.tables)
    log = np.where(possible, log, -np.inf)
    posterior = np.exp(log - log.max())
    posterior /= posterior.sum()
    return posterior, np.einsum("t,trd->rd", posterior, rows)


def assert_enumerated(posterior, law, exact):
    """Cells in total variation (false alarms 1e-7 each), rows in their means (5.5 standard errors, 4e-8 each)."""
    probability, rows = exact
    cells = posterior["x"]
    for i in range(3):
        expected = np.bincount(TABLES[:, i], probability, minlength=13)
        assert_close_in_variation(cells[..., i], expected, rate=1e-7, largest=0.3, what=f"cell {i}")
    found = posterior["noisy_law"]
    assert found.shape[2:] == law.concentrations.shape
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-9)
    assert np.all(found[..., law.transitions.mass == 0] == 0)
    for place in zip(*np.nonzero((law.transitions.mass > 0) & (law.transitions.mass < 1)), strict=True):
        own = found[..., *place]
        error = own.std() / np.sqrt(float(az.ess(own, method="mean")))
        assert abs(own.mean() - rows[place]) < 5.5 * error, (place, own.mean(), rows[place], error)


CASES = {
    "one": (UnknownPerturbation(1, small=1, concentration=1.5), [1, 3, 4], None),
    "total": (UnknownPerturbation(1, small=2), [0, 2, 3], 6),
    "shared": (UnknownPerturbation(2, small=2, concentration=0.7), [0, 0, 4], 4),
    "zeros": (UnknownPerturbation(1, small=1, zeros="perturbed"), [1, 1, 3], 4),
    "gaps": (UnknownPerturbation(2, not_smaller_than=2), [0, 2, 4], 7),
    "entropy": (UnknownPerturbation(2, prior="max-entropy"), [0, 2, 4], 8),
}


@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.system] * (c != "shared")) for c in CASES])
def test_counts_and_law_in_turns(case):
    """The step of the counts alone draws both: the rows are those of its last turn."""
    model, law, chains = perturbed_model(*CASES[case]), CASES[case][0], []
    step = FiberGibbs(sweeps=1, rng=np.random.default_rng(1), model=model)
    assert [own.name for own in step.tables[0]._laws] == ["noisy_law"]
    for seed in range(2):
        step.setup_chain(np.random.default_rng(seed), 0, 1000)
        point = model.initial_point()
        chains.append([point := step.step(point)[0] for _ in range(1000)])
    drawn = {name: np.array([[one[name] for one in own] for own in chains]) for name in ("x", "noisy_law")}
    assert_enumerated(drawn, law, enumerated(*CASES[case]))


def test_counts_and_a_law_that_has_its_own_step_whose_tally_counts_shared_records_once():
    """`pm.sample` with a potential of the law, which the step of the counts therefore leaves alone. The tally by hand."""
    with perturbed_model(*CASES["shared"]) as model:
        pm.Potential("nothing", 0.0 * model["noisy_law"][-1, 1])
        [table] = FiberGibbs(rng=np.random.default_rng(1)).tables
    assert table._rest is None
    assert not table._laws
    own = sample(model, 1000, tune=50, seed=11).posterior
    drawn = {name: own[name].values for name in ("x", "noisy_law")}
    assert_enumerated(drawn, CASES["shared"][0], enumerated(*CASES["shared"]))
    table = PerturbationGibbs(rng=np.random.default_rng(1), model=model).tables[0]
    counts, possible = tallies(*CASES["shared"])
    assert 3 < possible.sum() < len(TABLES)
    for place in np.flatnonzero(possible):
        counted, repeated = (table.tally(at) for at in table.occurring(*([TABLES[place]] * len(table.inputs))))
        np.testing.assert_array_equal(counted - repeated, counts[place])


def test_nothing_is_said_of_numbers_that_contradict_one_another_little():
    """A law that is not known may hardly perturb: its prior mean is nothing that numbers have to agree with (warnings are errors)."""
    table = {"area": [f"a{i}" for i in range(60)], "sex": ["m", "f"]}
    truth = np.random.default_rng(1).poisson(40.0, (60, 2))
    for law in (UnknownPerturbation(3), UnknownPerturbation(3, prior="max-entropy")):
        queries = [bdp.Identity(table), bdp.Margins(table, ["area"]), bdp.Margins(table, ["sex"])]
        release = bdp.Release.from_published(table, [bdp.Measured(q, q.apply(truth), law) for q in queries])
        counts_model(release, pm.Poisson.dist(40.0))
        check = bdp.check_law(release)
        assert not check.groups
        assert "nothing is worked out" in " ".join(check.left_out)
