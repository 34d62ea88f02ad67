"""The worked example of CONTRIBUTING, a noise law from outside of the package, does what is said of it."""

import math
import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy.stats import logistic, poisson

import bayesdp as bdp
from bayesdp.calibration import verdict_of
from bayesdp.distributions import distribution_of
from bayesdp.mechanisms import base as mechanisms
from bayesdp.mechanisms.composition._total import Part
from bayesdp.noise import base as laws
from bayesdp.noise.secure import draw_independent
from bayesdp.plots.noise import noise_scale
from bayesdp.privacy import DIFFERENCES
from bayesdp.significance import odds_ratio_test_from_release
from tests.inference.oracle import assert_mean
from tests.noise.contract.examples import Example, example_of, register_example
from tests.noise.contract.mass_checks import MASS_CHECKS
from tests.noise.contract.masses import mass_of
from tests.noise.contract.use_checks import USE_CHECKS, fitted

GUIDE = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = GUIDE.split("\n## A noise law from outside\n")[1].split("\n## ")[0]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
SHORTER = {"bdp.sample(1000, tune=100": "bdp.sample(800, tune=60", "n=24": "n=6", "draws=200": "draws=150"}
GRID = {"row": ["a", "b"], "column": ["u", "v"]}


@pytest.fixture(scope="module")
def names():
    """What the example defines, with shorter runs; what it registers is taken back, for tests that go through all laws."""
    kept = [dict(registry) for registry in (laws._REGISTRY, mechanisms._REGISTRY)]
    own = {"__name__": __name__}
    assert all("".join(BLOCKS).count(long) == 1 for long in SHORTER)
    for block in BLOCKS:
        for long, short in SHORTER.items():
            block = block.replace(long, short)
        exec(compile(block, "CONTRIBUTING.md", "exec"), own)
    yield own
    for registry, before in zip((laws._REGISTRY, mechanisms._REGISTRY), kept, strict=True):
        for name in set(registry) - set(before):
            del registry[name]


def test_the_loss_is_the_largest_log_ratio_of_the_mass_and_releases_are_composed(names):
    law, epsilon = names["mechanism"].law, names["mechanism"].epsilon
    k = np.arange(-60, 61)
    logs = np.array([law.logp([own], [0]) for own in k])
    assert 0.9999 * epsilon / 2.0 < np.max(np.diff(logs)) <= epsilon / 2.0
    found = Part(names["release"], names["release"].invariants).by_law[DIFFERENCES["substitution"]]
    assert found.loss.parameters == {"epsilon": pytest.approx(epsilon)}
    composed = names["both"]
    assert composed.loss_unknown is None
    substitution = next(own for own in composed.guarantee.pairs if own.size == 2.0)
    assert substitution.loss["epsilon"] == pytest.approx(2.0 * names["mechanism"].epsilon)


def test_the_posterior_is_that_of_enumeration_and_the_picture_shows_the_mass(names):
    release, tree = names["release"], names["posterior"]
    x, law = np.arange(60), names["mechanism"].law
    for cell, y in enumerate(release.measurements[0].values):
        likelihood = logistic.cdf((y - x + 0.5) / law.s) - logistic.cdf((y - x - 0.5) / law.s)
        probability = poisson.pmf(x, 4.0) * likelihood
        probability /= probability.sum()
        mean = float(probability @ x)
        draws = tree["posterior"]["x"].values[..., cell]
        assert_mean(draws, mean, math.sqrt(float(probability @ (x - mean) ** 2)), f"cell {cell}")
    assert tree["fiber"].attrs["proved"] == 1  # `full_support`: the noise forbids no table
    axes = names["picture"].axes[0]
    assert axes.get_ylabel() == "probability"
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axes.patches}
    assert heights[0] == pytest.approx(1.0 - 2.0 * logistic.cdf(-0.5 / names["mechanism"].law.s))
    scale = noise_scale(names["release"].measurements[0])
    assert "4000 simulated draws" in scale.words
    exact = math.pi * names["mechanism"].law.s / math.sqrt(3.0)  # of logistic noise; rounding adds about 1/12
    assert scale.sd[0] == pytest.approx(math.sqrt(exact**2 + 1.0 / 12.0), rel=0.06)


def test_it_keeps_the_contract_of_all_laws_and_is_calibrated(names):
    example = Example(names["Logistic"](1.5), reach=20)
    register_example(example)
    assert example_of("logistic-with-loss") is example
    mass, used = mass_of(example), fitted(example)
    for check in MASS_CHECKS:
        check(example, mass)
    for check in USE_CHECKS:
        check(example, used)
    assert verdict_of(names["calibrated"]).calibrated


def test_a_law_that_says_nothing_of_itself_is_not_made_up_for(names):
    """The defaults of the verbs, by a law that overrides none of them."""
    plain = names["DiscreteLogistic"](1.0)
    cells = bdp.Identity(GRID)
    measured = bdp.Measured(cells, [[3, 4], [5, 1]], plain)
    guarantee = names["mechanism"].guarantee
    own = bdp.Release.from_published(GRID, [measured], guarantee=guarantee)
    assert Part(own, own.invariants).by_law == {}  # the stated loss stays, and nothing is computed from the law
    assert (plain.family, plain.limits, plain.normal) == ("independent", (-np.inf, np.inf), False)
    with pytest.raises(TypeError, match="a sampler by integers only"):
        draw_independent(plain, 3)
    margins = bdp.Margins(GRID, ["row"], ["column"])
    tested = bdp.Release.from_published(GRID, [measured], [bdp.Exact(margins, margins.apply([[3, 4], [5, 1]]))])
    with pytest.raises(NotImplementedError, match="no test of a cell released with the law 'discrete-logistic'"):
        odds_ratio_test_from_release(tested)
    with pm.Model(coords=tested.coords) as model:
        bdp.observe(tested, bdp.FlatCounts("x", dims=tested.dims))
    [own] = [rv for rv in model.observed_RVs if getattr(rv.owner.op, "law_type", None) is names["DiscreteLogistic"]]
    assert distribution_of(names["DiscreteLogistic"]).rv_type is type(own.owner.op)  # made from its kernel
