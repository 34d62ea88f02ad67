"""Unknown perturbation tables: posteriors against enumeration with the rows integrated out, shared records, other terms."""

from itertools import product

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.inference import FiberGibbs
from bayesdp.noise import UnknownPerturbation
from bayesdp.steps.noise_gibbs import PerturbationGibbs
from tests.comparison.variation import assert_close_in_variation
from tests.inference.oracle import counts_model, sample
from tests.noise.perturbed.records import log_of_tallies

AREAS = {"area": ["a", "b", "c"]}
RATE = np.array([1.0, 2.0, 3.0])
TABLES = np.array(list(product(range(13), repeat=3)))


def model_of(law, values, total):
    measured = [bdp.Measured(bdp.Identity(AREAS), values, law)]
    if total is not None:
        measured.append(bdp.Measured(bdp.Totals(AREAS), total, law, name="sum"))
    return counts_model(bdp.Release.from_published(AREAS, measured), pm.Poisson.dist(RATE))


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
    log = stats.poisson.logpmf(TABLES, RATE).sum(axis=1) + log_of_tallies(law, counts)
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
    model, law, chains = model_of(*CASES[case]), CASES[case][0], []
    step = FiberGibbs(sweeps=1, rng=np.random.default_rng(1), model=model)
    assert [own.name for own in step.tables[0]._laws] == ["noisy_law"]
    for seed in range(2):
        step.setup_chain(np.random.default_rng(seed), 0, 1000)
        point = model.initial_point()
        chains.append([point := step.step(point)[0] for _ in range(1000)])
    drawn = {name: np.array([[one[name] for one in own] for own in chains]) for name in ("x", "noisy_law")}
    assert_enumerated(drawn, law, enumerated(*CASES[case]))


def test_counts_and_a_law_that_has_its_own_step():
    """`pm.sample` with a potential of the law, which the step of the counts therefore leaves alone."""
    with model_of(*CASES["shared"]) as model:
        pm.Potential("nothing", 0.0 * model["noisy_law"][-1, 1])
        [table] = FiberGibbs(rng=np.random.default_rng(1)).tables
    assert table.exact_conditional
    assert not table._laws
    own = sample(model, 1000, tune=50, seed=11).posterior
    drawn = {name: own[name].values for name in ("x", "noisy_law")}
    assert_enumerated(drawn, CASES["shared"][0], enumerated(*CASES["shared"]))


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


def test_the_tally_counts_shared_records_once():
    """By hand, at tables where answers share records and where a number cannot have come from its count."""
    with model_of(*CASES["shared"]):
        table = PerturbationGibbs(rng=np.random.default_rng(1)).tables[0]
    counts, possible = tallies(*CASES["shared"])
    assert 3 < possible.sum() < len(TABLES)
    for place in np.flatnonzero(possible):
        counted, repeated = (table.tally(at) for at in table.occurring(*([TABLES[place]] * len(table.inputs))))
        np.testing.assert_array_equal(counted - repeated, counts[place])
