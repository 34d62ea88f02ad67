"""Every inference function of PyMC, and ArviZ on leaving out one noisy number: what docs/ENTRIES.md says of it is what it does."""

import re
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.optimization import freeze_model
from pymc.step_methods import STEP_METHODS
from scipy import stats
from scipy.special import logsumexp

import bayesdp as bdp
from tests.inference.oracle import noisy_cells

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ENTRIES.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(.*?)` \| (works|refuses) \|$", PAGE, re.MULTILINE))

COUNTY = {"county": ["p", "q", "r"]}
TOTAL = 60
QUIET = {"progressbar": False, "random_seed": 1}
SHORT = {"draws": 10, "tune": 10, "chains": 1, "cores": 1, "quiet": True, "compute_convergence_checks": False, **QUIET}


@pytest.fixture(scope="module")
def counts():
    """Model, the variable that holds the table, a posterior."""
    law = bdp.noise.DiscreteGaussian(sigma=3.0)
    release = noisy_cells(COUNTY, [11, 29, 23], law, bdp.Exact(bdp.Totals(COUNTY), TOTAL))
    with pm.Model(coords=COUNTY) as model:
        rate = pm.Gamma("rate", 2.0, 0.1)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims="county")
        bdp.observe(release, x)
        return model, x, pm.sample(**SHORT)


def sampled(**own):
    return lambda model, x, tree: pm.sample(**{**SHORT, **own})


def stepped(name, variable=None):
    def call(model, x, tree):
        step = getattr(pm, name)
        given = () if variable == "" else ([model[variable] if variable else x],)
        chains = {"chains": 7} if name == "DEMetropolis" else {}  # it needs a population
        return pm.sample(**{**SHORT, **chains}, step=step(*given))

    return call


def fitted(method):
    return lambda model, x, tree: pm.fit(n=5, method=method, progressbar=False, random_seed=1)


STEPS = ["Metropolis", "DEMetropolis", "DEMetropolisZ", "Slice", "NUTS", "HamiltonianMC"]
STEPS += ["BinaryMetropolis", "BinaryGibbsMetropolis", "CategoricalGibbsMetropolis"]
OTHERS = ("nutpie", "numpyro", "blackjax")
CALLS = {
    "bdp.sample()": lambda model, x, tree: bdp.sample(**SHORT),
    "pm.sample()": sampled(),
    'pm.sample(nuts_sampler="pymc")': sampled(nuts_sampler="pymc"),
    **{f'pm.sample(nuts_sampler="{name}")': sampled(nuts_sampler=name) for name in OTHERS},
    "pm.sample(step=pm.Metropolis())": stepped("Metropolis", ""),
    **{f"pm.sample(step=pm.{name}([x]))": stepped(name) for name in STEPS},
    "pm.sample(step=pm.Slice([rate]))": stepped("Slice", "rate"),
    "pm.sample_smc()": lambda model, x, tree: pm.sample_smc(draws=20, chains=1, cores=1, **QUIET),
    "pm.find_MAP()": lambda model, x, tree: mode(),
    "pm.find_MAP(vars=[x])": lambda model, x, tree: mode(vars=[x]),
    **{f'pm.fit(method="{method}")': fitted(method) for method in ("advi", "fullrank_advi", "svgd", "asvgd")},
    "pm.sample_prior_predictive()": lambda model, x, tree: pm.sample_prior_predictive(draws=5, random_seed=1),
    "pm.sample_posterior_predictive()": lambda model, x, tree: pm.sample_posterior_predictive(tree.copy(), **QUIET),
    "pm.compute_log_likelihood()": lambda model, x, tree: pm.compute_log_likelihood(tree.copy(), progressbar=False),
    "pm.compute_log_prior()": lambda model, x, tree: pm.compute_log_prior(tree.copy(), progressbar=False),
    "pm.compute_deterministics()": lambda model, x, tree: pm.compute_deterministics(
        tree["posterior"].to_dataset(), progressbar=False
    ),
    "pm.draw(x)": lambda model, x, tree: pm.draw(x, 3, random_seed=1),
}


def mode(**own):
    return pm.find_MAP(progressbar=False, jitter=False, return_inferencedata=True, **own)


def outcome(call, model, x, tree):
    """Whether a call works; a refusal is an error that says which of the model's variables or what kind is meant."""
    try:
        with model:
            result = call(model, x, tree)
    except (ValueError, TypeError, NotImplementedError) as error:
        return "refuses", str(error)
    return "works", result


def test_the_page_has_every_entry():
    assert list(ROWS) == list(CALLS)
    assert {name for name in dir(pm) if re.match(r"sample|fit$|find_MAP|compute_|draw$", name)} <= {
        "sample_approx",  # of what pm.fit has returned
        *(re.match(r"pm\.(\w+)", entry).group(1) for entry in CALLS if entry.startswith("pm.")),
    }
    public = {kind.__name__ for kind in STEP_METHODS if kind.__module__.startswith("pymc.")}
    assert public <= set(STEPS)


@pytest.mark.filterwarnings("ignore")  # PyMC's own, of short chains and hard starts
@pytest.mark.parametrize("entry", CALLS)
@pytest.mark.system
def test_counts(entry, counts):
    found, result = outcome(CALLS[entry], *counts)
    assert found == ROWS[entry], result
    if found == "works" and "pm.sample(" in entry:
        assert (result["posterior"]["x"].sum("county") == TOTAL).all()
    if found == "refuses" and "nuts_sampler" in entry:  # whether that package is installed or not
        assert "leave nuts_sampler out, or name 'pymc'. FiberGibbs then moves it" in result


@pytest.mark.filterwarnings("ignore")  # of JAX, and PyMC's own of a short run
@pytest.mark.parametrize("name", ["nutpie", "numpyro"])
@pytest.mark.system
def test_models_without_counts_have_samplers_of_other_packages_where_these_are_installed(name):
    pytest.importorskip(name)
    with pm.Model():
        mean = pm.Normal("mean", 10.0, 10.0)
        bdp.distributions.Gaussian("y", mean, sigma=3.0, observed=14.0)
        tree = bdp.sample(1000, tune=500, chains=2, nuts_sampler=name, quiet=True, **QUIET)
    found = tree["posterior"]["mean"]
    assert isinstance(found.data, np.ndarray)
    exact = (14.0 / 9.0 + 10.0 / 100.0) / (1.0 / 9.0 + 1.0 / 100.0)
    error = 9.0**0.5 / np.sqrt(tree["diagnostics"]["mean_ess_bulk"].item())
    assert abs(found.mean().item() - exact) < 5.0 * error  # false alarms below 1e-6
    assert tree["diagnostics"].attrs["verdict"]


def test_who_compiles_is_seen_whatever_its_name_and_latent_lattice_noise_is_left_to_its_step(counts):
    for module in ("pymc_extras.inference.laplace_approx.find_map", "pymc.tuning.starting", "pymc.smc.kernels"):
        caller = {"__name__": module, "compiled": counts[0].compile_logp}
        exec("def ask():\n    return compiled()", caller)
        with pytest.raises(ValueError, match=r"bayesdp.sample or pm.sample, and leave the counts out of `step`"):
            caller["ask"]()
    counts[0].compile_logp()  # anybody else may
    # Graphs that a frozen model keeps are refused too.
    frozen = freeze_model(counts[0])
    frozen.logp()
    with frozen, pytest.raises(ValueError, match="Metropolis for x"):
        pm.Metropolis([frozen["x"]])
    total = bdp.Invariants(bdp.Totals(COUNTY))
    with pm.Model() as model:
        bdp.distributions.LatticeLaplace("z", np.zeros(3, dtype=np.int64), 0.5, invariants=total)
        with pytest.raises(ValueError, match="Metropolis for z"):
            pm.Metropolis([model["z"]])
        assert (pm.sample(**SHORT)["posterior"]["z"].sum("z_dim_0") == 0).all()


PERSONS, NOISY, RATE = 60, np.array([11, 29, 23]), np.array([10.0, 30.0, 20.0])


def tables_and_terms(sigma, first=None):
    tables = np.array([(a, b, PERSONS - a - b) for a in range(PERSONS + 1) for b in range(PERSONS + 1 - a)])
    if first is not None:
        tables = tables[tables[:, 0] == first]
    far = np.arange(-400, 401)
    own = -((NOISY - tables) ** 2) / (2 * sigma**2) - logsumexp(-(far**2) / (2 * sigma**2))
    return tables, stats.poisson.logpmf(tables, RATE).sum(axis=1), own


def tree_of(tables, prior, own):
    weights = np.exp(prior + own.sum(axis=1) - logsumexp(prior + own.sum(axis=1)))
    chosen = np.random.default_rng(1).choice(len(tables), (4, 1000), p=weights)
    return az.from_dict({"posterior": {"x": tables[chosen]}, "log_likelihood": {"noisy": own[chosen]}})


@pytest.mark.filterwarnings("ignore")  # of ArviZ, about k
def test_ties_leave_k_undefined_and_the_error_unsaid_and_determined_cells_stop_loo():
    for sigma, least, most in ((1.0, 0.1, 0.13), (3.0, 0.0, 0.03)):
        tables, prior, own = tables_and_terms(sigma)
        without = prior[:, None] + own.sum(axis=1, keepdims=True) - own
        exact = logsumexp(without + own, axis=0) - logsumexp(without, axis=0)
        found = az.loo(tree_of(tables, prior, own), pointwise=True)
        assert least < np.abs(found.elpd_i.values - exact).max() < most
        assert np.isnan(found.pareto_k.values).any()
        assert not found.warning
    with pytest.raises(ValueError, match="All tail values are the same"):
        az.loo(tree_of(*tables_and_terms(3.0, first=12)))
