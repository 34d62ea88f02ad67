"""What `bayesdp fit` compiles, imports and leaves undone before its first draw: on a small table that is most of its time."""

from collections import Counter

import pymc as pm
import pytest
from pymc.model.core import ValueGradFunction
from pytensor.compile.maker import FunctionMaker
from pytensor.graph.traversal import ancestors

from bayesdp.inference.memory import memory_needed
from bayesdp.steps.base import depends, start_of
from tests.test_import import loaded_after

FEW = tuple("--chains 2 --draws 4 --tune 4 --seed 1 --cores 1 --quiet -o posterior.nc".split())


@pytest.mark.parametrize(
    ("prior", "most", "gradients"), [("independent", 10, 0), ("log-linear", 12, 1)], ids=["independent", "log-linear"]
)
def test_a_fit_compiles_no_more_than_it_needs(released, monkeypatch, prior, most, gradients):
    # A number, and no time: each function takes 20 to 100 ms, and what is compiled twice is seen at once.
    made = Counter()

    def counted(owner, name):
        original = getattr(owner, name)

        def method(self, *args, **kwargs):
            made[owner] += 1
            return original(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, method)

    counted(FunctionMaker, "create")
    counted(ValueGradFunction, "__init__")
    assert released("fit", "release.nc", "--prior", prior, *FEW).status in (0, 3)
    assert 5 <= made[FunctionMaker] <= most  # 5: the count sees them
    assert made[ValueGradFunction] == gradients  # where NUTS has nothing to do, none


def test_the_initial_point_is_computed_once_while_variables_and_data_are_the_same(monkeypatch):
    calls, computed = [], pm.Model.initial_point
    monkeypatch.setattr(pm.Model, "initial_point", lambda self, *given: calls.append(self) or computed(self, *given))
    with pm.Model(coords={"cell": list("abc")}) as model:
        mean = pm.Data("mean", [1.0, 2.0, 3.0], dims="cell")
        pm.Normal("level", mean, 1.0, dims="cell")
    first = start_of(model)
    assert list(start_of(model)) == list(first) == ["level"]
    memory_needed(model, {})
    assert len(calls) == 1
    with model:
        pm.set_data({"mean": [1.0, 2.0, 4.0, 5.0]}, coords={"cell": list("abcd")})
    assert start_of(model)["level"].tolist() == [1.0, 2.0, 4.0, 5.0]
    with model:
        pm.Normal("other")
    assert list(start_of(model)) == ["level", "other"]
    assert len(calls) == 3
    start_of(model)["level"][:] = 9.0  # the caller's own
    assert start_of(model)["level"].tolist() == computed(model)["level"].tolist()


def test_what_depends_on_a_variable_is_what_has_it_in_its_log_density():
    with pm.Model() as model:
        level = pm.Normal("level")
        spread = pm.HalfNormal("spread")
        inner = pm.Deterministic("inner", level + 1.0)
        pm.Normal("near", inner, spread)
        far = pm.Gamma("far", 2.0, 1.0)
        pm.Poisson("seen", far * pm.math.exp(level), observed=3)
        bounded = pm.Uniform("bounded", 0.0, pm.math.exp(level))  # through its transform too, and so is what uses it
        within = pm.Uniform("within", 0.0, bounded)
        pm.Normal("below", bounded, 1.0, observed=0.3)
        pm.Potential("penalty", -(far**2) - within)
        pm.Normal("cut", 0.0, 1.0, observed=1.0)
    for value in model.value_vars:
        for variable in [*model.basic_RVs, *model.potentials]:
            written = value in ancestors([model.logp(vars=[variable], sum=True)])
            assert depends(model, variable, value) == written, (variable, value)


def test_a_fit_does_not_import_what_it_has_no_use_for():
    heavy = ("scipy.stats", "scipy.optimize", "matplotlib", "arviz", "arviz_plots", "bayesdp.datasets", "pymc")
    statements = "import bayesdp.cli.fit, bayesdp.inference.sampling, bayesdp.posterior, bayesdp.storage"
    assert loaded_after(statements, heavy) == {"pymc"}  # the check sees it
