"""Supports of bases, and what is said of moves within them: nothing is proved of what is not known."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import bayesdp as bdp
from bayesdp import noise
from bayesdp.fibers import enumerate_fiber
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.steps import FiberGibbs
from bayesdp.steps.reading import exact_fiber, movement
from bayesdp.steps.supports import at_random_points, support_of
from tests.inference.oracle import noisy_cells

LABELS = {"a": [0, 1, 2], "b": [0, 1, 2]}
MARGINS = bdp.Margins(LABELS, ["a"], ["b"])
OFF_DIAGONAL = 1 - np.eye(3, dtype=np.int64)
NEVER = np.full(3, np.inf)


def release_of(table):
    return noisy_cells(LABELS, table, noise.DiscreteLaplace(20.0), bdp.Exact(MARGINS, MARGINS.apply(table)))


ONE_CYCLE = release_of(3 * np.roll(np.eye(3, dtype=np.int64), 1, axis=1))
"""Without counts on the diagonal: four tables, each pair a 6-cycle apart."""


def model_of(release, base, more=id):
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", base(), dims=release.dims)
        more(x)
        bdp.observe(release, x)
    return model


def moved(model):
    return movement(model, model.rvs_to_values[model["x"]])


def visited(model, draws=500):
    with model:
        found = bdp.sample(draws=draws, tune=100, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    return found, [{tuple(x.reshape(-1)) for x in chain} for chain in found.posterior["x"].values]


def test_limits_of_a_base_without_fast_steps_reach_the_moves_and_the_posterior():
    model = model_of(ONE_CYCLE, lambda: pm.DiscreteUniform.dist(0, 6 * OFF_DIAGONAL))
    found, chains = visited(model, draws=2000)
    tables = enumerate_fiber(ONE_CYCLE.fiber.with_cells_between(0, np.where(OFF_DIAGONAL.reshape(-1), 6, 0)))
    assert len(tables) == 4
    assert chains == [{tuple(table.reshape(-1)) for table in tables}] * 2
    assert found["fiber"].attrs["proved"] == 1
    assert "cycles" in found["fiber"].attrs["connectivity"]
    assert found["diagnostics"].attrs["converged"] == 1, found["diagnostics"].attrs["message"]
    with model:
        assert FiberGibbs().connectivity == {"x": {"proved": True, "claim": found["fiber"].attrs["connectivity"]}}
    weights = np.exp(-np.abs(tables - ONE_CYCLE.values.values).sum(axis=(1, 2)) / 20.0)
    weights /= weights.sum()
    draws = found.posterior["x"].values.reshape(-1, 9)
    shares = [(draws == table.reshape(-1)).all(axis=1).mean() for table in tables]
    # Thousands of steps a draw leave draws all but independent: four standard errors, false alarms below 3e-4.
    np.testing.assert_array_less(np.abs(shares - weights), 4.0 * np.sqrt(weights * (1 - weights) / len(draws)))
    none = model_of(release_of(np.full((3, 3), 2)), lambda: pm.DiscreteUniform.dist(0, 1, shape=(3, 3)))
    assert exact_fiber(none, none.rvs_to_values[none["x"]]).contains(np.full((3, 3), 2))
    with pytest.raises(ValueError, match="no table is left for x, with the limits of its prior"):
        visited(none)


def test_zeros_under_a_random_multiplier_are_zeros_and_nothing_is_proved_of_a_support_that_is_not_known():
    said = moved(model_of(ONE_CYCLE, lambda: pm.Poisson.dist(pm.Gamma("rate", 2.0, 1.0) * OFF_DIAGONAL)))
    assert said.proved
    assert "cycles" in said.claim

    def forbid(x):
        pm.Potential("forbidden", pt.switch(pt.eq(pt.sum(x * np.eye(3, dtype=np.int64)), 0), 0.0, -np.inf))

    def logp(value, top):
        return pt.switch(pt.le(value, top) & (OFF_DIAGONAL > 0) | pt.eq(value, 0), 0.0, -np.inf)

    def custom():
        return pm.CustomDist.dist(pm.Gamma("top", 100.0, 10.0), logp=logp, dtype="int64", shape=(3, 3))

    by_potential = model_of(ONE_CYCLE, lambda: pm.Poisson.dist(2.0), forbid)
    base = "base of the table (CustomDist"
    for model, reason in ((by_potential, "potential forbidden"), (model_of(ONE_CYCLE, custom), base)):
        said = moved(model)
        assert not said.proved
        assert all(words in said.claim for words in (reason, "nothing is proved", "random sums"))
    # What is said of the moves is true: chains are not shut up in one table.
    found, chains = visited(by_potential)
    assert all(len(chain) > 1 for chain in chains)
    assert found["fiber"].attrs["proved"] == 0


def ends(one, other):
    return pm.Mixture.dist([0.5, 0.5], [pm.DiracDelta.dist(np.full(3, own)) for own in (one, other)])


@pytest.mark.parametrize(
    ("base", "lower", "upper", "unknown"),
    [
        (lambda: pm.DiscreteUniform.dist(-2, [3, 0, 7]), [0, 0, 0], [3, 0, 7], ""),
        (lambda: pm.BetaBinomial.dist(1.0, 2.0, [4, 5, 6]), [0, 0, 0], [4, 5, 6], ""),
        (lambda: pm.Binomial.dist([4, 5, 6], [0.5, 0.0, 0.2]), [0, 0, 0], [4, 0, 6], ""),
        (lambda: pm.Geometric.dist(0.3, shape=3), [1, 1, 1], [UNBOUNDED] * 3, ""),
        (lambda: pm.NegativeBinomial.dist(mu=[1.0, 0.0, 2.0], alpha=2.0), [0, 0, 0], [UNBOUNDED, 0, UNBOUNDED], ""),
        (lambda: pm.ZeroInflatedPoisson.dist(0.3, 2.0, shape=3), [0, 0, 0], [UNBOUNDED] * 3, ""),
        (lambda: pm.ZeroInflatedBinomial.dist(0.3, 6, 0.5, shape=3), [0, 0, 0], [6, 6, 6], ""),
        (lambda: pm.HurdlePoisson.dist(0.3, 2.0, shape=3), [0, 0, 0], [UNBOUNDED] * 3, ""),
        (lambda: pm.Truncated.dist(pm.Poisson.dist([2.0, 3.0, 4.0]), 1, 5), [1, 1, 1], [5, 5, 5], ""),
        (lambda: pm.HyperGeometric.dist(10, 8, 5, shape=3), [3, 3, 3], [5, 5, 5], ""),
        (lambda: ends(1, 4), [1, 1, 1], [4, 4, 4], "gaps"),
        (lambda: ends(1, 3), [1, 1, 1], [3, 3, 3], "gaps"),
    ],
)
def test_supports_against_the_densities_themselves(base, lower, upper, unknown):
    most = np.full(3, 12.0)
    with pm.Model() as model:
        made = base()
        found = support_of(model, made, most)
        logp = model.compile_fn(pm.logp(made, value := pt.lvector("value")), inputs=[value], point_fn=False)
        possible = np.array([np.broadcast_to(logp(np.full(3, k)), 3) > -np.inf for k in range(13)])
    assert found.lower.tolist() == lower
    assert found.upper.tolist() == upper
    assert unknown in found.unknown
    assert bool(found.unknown) == bool(unknown)
    counts = np.arange(13)[:, None]
    between = (counts >= found.lower) & (counts <= found.upper)
    assert not np.any(possible & ~between)
    assert bool((possible == between).all()) == (not found.unknown)


def test_supports_with_random_parameters():
    with pm.Model() as model:
        rate, share, top = pm.Gamma("rate", 2.0, 1.0), pm.Beta("share", 1.0, 1.0), pm.DiscreteUniform("top", 4, 9)
        level = pm.Normal("level")
        mask = np.array([1.0, 0.0, 2.0])
        known = {
            "poisson": pm.Poisson.dist(rate * mask),
            "log-linear": pm.Poisson.dist(pt.exp(level + np.arange(3.0)) * mask),
            "negbin": pm.NegativeBinomial.dist(mu=rate * mask, alpha=rate + 1.0),
            "binomial": pm.Binomial.dist(7, share * (mask > 0)),
            "inflated": pm.ZeroInflatedPoisson.dist(share, rate * mask),
            "where": pm.Poisson.dist(pt.switch(mask > 0, rate, 0.0)),
            "offset": pm.Poisson.dist(pt.exp(level + pt.log(mask))),
            "sigmoid": pm.Binomial.dist(5, pm.math.invlogit(level + pt.log(rate * mask))),
            "set": pm.Poisson.dist(pt.set_subtensor(pt.ones(3)[1], 0.0) * rate),
        }
        for name, base in known.items():
            found = support_of(model, base, NEVER)
            assert not found.unknown, name
            assert (found.upper == 0).tolist() == [False, True, False], name
        open_ones = {
            "signed": pm.Poisson.dist(level * mask),
            "multiple": pm.Poisson.dist(rate * top * mask),
            "level": pm.Poisson.dist(pt.maximum(level, 0.0) * mask),
            "threshold": pm.Poisson.dist(pt.switch(level > 0, rate, 0.0) * mask),
            "trials": pm.BetaBinomial.dist(1.0, 1.0, top, shape=3),
            "ends": pm.DiscreteUniform.dist(0, top, shape=3),
            "truncated": pm.Truncated.dist(pm.Poisson.dist(rate * mask), upper=top),
        }
        for name, base in open_ones.items():
            found = support_of(model, base, NEVER)
            assert found.unknown, name
            assert found.only_limits == (name not in ("ends", "truncated")), name


def test_zeros_that_come_and_go_keep_what_is_proved_of_any_limits_and_further_likelihoods_may_not():
    # Cycles connect two-way tables whatever the limits of cells; for three-way margins nothing is known then.
    # The Graver basis does where it can be computed.
    three = {"a": [0, 1], "b": [0, 1], "c": [0, 1]}
    large = {"a": range(4), "b": range(4), "c": range(4)}
    for labels, margins, said in (
        (LABELS, MARGINS, "cycles"),
        (three, bdp.Margins(three, ["a", "b"], ["b", "c"]), "a Markov basis was computed"),
        (large, bdp.Margins(large, ["a", "b"], ["b", "c"]), "rate of the Poisson base"),
    ):
        table = np.arange(2, 2 + bdp.Identity(labels).rows).reshape([len(own) for own in labels.values()])
        noisy = table + np.arange(table.size).reshape(table.shape) % 5 - 2
        release = noisy_cells(labels, noisy, noise.DiscreteLaplace(2.0), bdp.Exact(margins, margins.apply(table)))
        found = moved(model_of(release, lambda: pm.Poisson.dist(pt.maximum(pm.Normal("level", 3.0), 0.0))))
        assert found.proved is (labels is not large)
        assert said in found.claim
    for likelihood, proved in (
        (lambda x: pm.Normal("mean", x.sum() / 3.0, 1.0, observed=2.0), True),
        (lambda x: pm.StudentT("third", 4.0, mu=x[0, 0] - 2.0, sigma=1.0, observed=2.0), True),
        (lambda x: pm.Normal("spread", 0.0, 0.1 + x[0, 0], observed=2.0), False),
        (lambda x: pm.Normal("log", pt.log(x[0, 0]), 1.0, observed=2.0), False),
        (lambda x: pm.Poisson("later", 0.5 * x[0, 0], observed=1), False),
        (lambda x: pm.Binomial("sample", x[0, 0], 0.5, observed=1), False),
    ):
        model = model_of(release_of(np.full((3, 3), 2)), lambda: pm.Poisson.dist(2.0), likelihood)
        found = moved(model)
        assert found.proved is proved
        assert (f"law of {model.observed_RVs[0].name} allows" in found.claim) is not proved


def test_what_is_zero_at_random_points_is_zero_in_every_draw():
    with pm.Model() as model:
        rate, share = pm.Gamma("rate", 2.0, 1.0, shape=3), pm.Beta("share", 1.0, 1.0)
        simplex, level = pm.Dirichlet("simplex", np.ones(3)), pm.Normal("level", shape=3)
        top, wide = pm.DiscreteUniform("top", 0, 1), pm.Uniform("wide", 0.0, 5.0)
        mask = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
        expressions = {
            "matrix": pt.dot(mask, rate),
            "matrices": pt.matmul(np.stack([mask, 0.0 * mask]), rate[:, None]),
            "sum": (mask * rate).sum(axis=1),
            "product": pt.prod(mask * rate, axis=1),
            "softmax": pm.math.softmax(level) * mask,
            "difference": (1.0 - share) * mask,
            "signed": level * mask,
            "power": (rate * mask) ** 2.0,
            "quotient": mask * rate / (rate + wide),
            "simplex": simplex[None, :] * mask,
            "stacked": pt.stack([rate, rate * mask[0]]),
            "joined": pt.concatenate([simplex, pt.zeros(2)]),
            "root": pt.sqrt(mask * rate),
            "indexed": (rate * mask)[1, [0, 2]],
            "mixed": rate * mask + level,
            "logistic": pm.math.invlogit(level - 800.0),
            "whole": pt.cast(rate * mask, "int64"),
            "maximum": pt.maximum(level, 8.0) - 8.0,
            "minimum": pt.minimum(rate * mask, 1.0),
            "far": pt.switch(level > 8.0, rate, 0.0),
            "multiple": top * rate,
            "not a number": pt.sqrt(level),
        }
    drawn = pm.draw([*expressions.values()], draws=20, random_seed=5)
    undecided = set()
    for (name, expression), values in zip(expressions.items(), drawn, strict=True):
        found = at_random_points(model, expression)
        if found is None:
            undecided.add(name)
            continue
        for over in (np.any, np.all):
            np.testing.assert_array_equal(
                over(found == 0.0, axis=0), over(values == 0.0, axis=0), strict=True, err_msg=name
            )
    assert undecided == {"whole", "maximum", "minimum", "far", "multiple", "not a number"}
