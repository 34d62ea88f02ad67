"""One release counts once, another takes its place with checks, and what was never observed is said."""

import inspect
import warnings
from dataclasses import dataclass

import arviz as az
import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.distributions import scalar_distribution
from bayesdp.inference import add_log_likelihood, annotate, releases_of
from bayesdp.measurements.consistency import CountedOnceWarning
from bayesdp.storage.posteriors import releases_of_tables
from tests.inference.oracle import counts_model, noisy_cells
from tests.registering import only_here

COUNTY = {"county": ["p", "q", "r"], "state": ("county", ["A", "A", "B"])}
LAW = bdp.noise.DiscreteGaussian(sigma=3.0)
SHORT = {"draws": 50, "tune": 20, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}


def published(values=(11, 29, 23), total=60, law=LAW):
    return noisy_cells(COUNTY, list(values), law, bdp.Exact(bdp.Totals(COUNTY), total))


def build(*releases):
    with pm.Model(coords=releases[0].coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist([10.0, 30.0, 20.0]), dims="county")
        for release in releases:
            bdp.observe(release, x)
    return model


def line(sigma):
    return noisy_cells({"county": list("pqrs")}, [11, 29, 23, 4], bdp.noise.DiscreteGaussian(sigma=sigma))


FIRST = published().measurements
EXACT = bdp.Release.from_published(COUNTY, exact=[bdp.Exact(bdp.Totals(COUNTY), 60)])
MORE = bdp.Release.from_published(COUNTY, [*FIRST, bdp.Measured(bdp.Totals(COUNTY, "state"), [41, 19], LAW)])


class TestTwice:
    def test_is_refused(self):
        for first, again, words in (
            (published(), published(), r": its noisy numbers .* would count twice"),  # not the same object
            (line(3.0), line(4.0), ": its noisy numbers"),
            (published(), MORE, ""),
            (EXACT, EXACT, ": its exact answers"),
        ):
            model = counts_model(first, pm.Poisson.dist(20.0))
            observed = len(model.observed_RVs)
            with model, pytest.raises(ValueError, match=f"observed already{words}"):
                bdp.observe(again, model["x"])
            assert len(model.observed_RVs) == observed

    def test_other_draws_of_the_same_table_are_welcome_and_equal_ones_in_one_release_are_two(self):
        model = build(published(), published((12, 29, 23)))
        assert [rv.name for rv in model.observed_RVs] == ["noisy", "exact", "noisy_2", "exact_2"]
        model = build(bdp.Release.from_published(COUNTY, measured=[FIRST[0], FIRST[0]]))
        assert [rv.name for rv in model.observed_RVs] == ["noisy", "noisy_2"]


@pytest.mark.parametrize("data", [False, True])
def test_counts_of_which_nothing_was_observed(data):
    with pm.Model(coords={"county": COUNTY["county"]}):
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(3.0), dims="county")
        if data:  # of another kind: nothing is said
            pm.Binomial("sampled", x, 0.5, observed=[1, 0, 2])
            bdp.sample(**{**SHORT, "draws": 5})
            return
        for sample in (bdp.sample, pm.sample):
            with pytest.warns(UserWarning, match=r"nothing was observed of x.*bayesdp.observe\(release, x\)"):
                sample(**{**SHORT, "draws": 5})


class TestSetRelease:
    def test_the_posterior_and_its_groups_are_those_of_the_new_release(self):
        model, new = build(published()), published((30, 20, 25), total=75)
        bdp.set_release(model, new)
        assert [own for _, own in releases_of(model)] == [new]
        with model:
            tree = bdp.sample(**SHORT)
        assert (tree["posterior"]["x"].sum("county") == 75).all()
        assert bdp.Release.from_dataset(tree["release"].to_dataset()) == new
        with build(new):
            np.testing.assert_array_equal(bdp.sample(**SHORT)["posterior"]["x"], tree["posterior"]["x"])

    def test_the_guarantee_comes_along(self):
        table = bdp.datasets.delinquent_children()
        mechanism = bdp.LatticeLaplace(bdp.Totals(table), epsilon=0.25)
        first, second = (mechanism.release(table, rng=np.random.default_rng(seed)) for seed in (1, 2))
        model = counts_model(first, pm.Poisson.dist(8.0))
        bdp.set_release(model, second)
        with model:
            tree = bdp.sample(**{**SHORT, "draws": 5})
        assert {"release", "guarantee"} <= set(tree.children)
        assert bdp.Release.from_dataset(tree["release"].to_dataset()) == second

    def test_other_kinds_of_release(self):
        states, total = bdp.Totals(COUNTY, "state"), published().exact
        for measured, exact, reason in (
            (published(law=bdp.noise.DiscreteGaussian(sigma=2.0)).measurements, total, "noise law of"),
            (published(law=bdp.noise.DiscreteLaplace(b=3.0)).measurements, total, "noise law of"),
            (FIRST, (), "1 noisy and 0 exact parts"),
            (FIRST, [bdp.Exact(states, [40, 20])], "exactly"),
            ([bdp.Measured(states, [40, 20], LAW)], total, "it measures"),
        ):
            with pytest.raises(ValueError, match=f"must be of the kind that the model has observed, but .*{reason}"):
                bdp.set_release(build(published()), bdp.Release.from_published(COUNTY, measured, exact))

        def missing(k):
            values = [np.nan if own == k else 20.0 for own in COUNTY["county"]]
            own = bdp.Measured(bdp.Identity(COUNTY), values, LAW, unmeasured=[f"county={k}"])
            return bdp.Release.from_published(COUNTY, [own])

        with pytest.raises(ValueError, match=r"other answers of .* were not published"):
            bdp.set_release(build(missing("p")), missing("q"))  # as many numbers, of other cells

    def test_an_impossible_total_copies_and_models_without_a_release(self):
        model = build(published(), published((10, 30, 21)))
        with pytest.raises(ValueError, match="2 releases of this kind"):
            bdp.set_release(model, published((5, 5, 5)))
        with pytest.raises(ValueError, match=r"contradict|no .*table|empty"):
            bdp.set_release(model, published((5, 5, 5), total=61), replaces=published())  # the other says 60
        bdp.set_release(model, published((5, 5, 5)), replaces=published())
        np.testing.assert_array_equal(model["noisy_published"].get_value(), [5, 5, 5])
        np.testing.assert_array_equal(model["noisy_2_published"].get_value(), [10, 30, 21])
        with pytest.raises(ValueError, match=r"has observed no release that it knows of"):
            bdp.set_release(build(published()).copy(), published((1, 2, 3)))
        with pytest.raises(TypeError, match=r"must be a bayesdp\.Release"):
            bdp.set_release(build(published()), 3)


class TestSetData:
    @pytest.mark.parametrize("name", ["noisy_published", "exact_published"])
    def test_fractions(self, name):
        model = build(published())
        with model:
            pm.set_data({name: np.asarray(model[name].get_value()) + 0.5})
            for copy in (model, model.copy()):
                with copy, pytest.raises(ValueError, match=f"{name} must hold whole numbers"):
                    pm.sample(**SHORT)

    def test_fractions_where_nuts_samples_alone(self):
        release = bdp.Release.from_published(COUNTY, FIRST, about="statistics")
        with pm.Model(coords=release.coords) as model:
            bdp.observe(release, pm.Normal("x", 20.0, 10.0, dims="county"))
        logp = model.compile_logp()
        assert np.isfinite(logp(model.initial_point()))
        with model:
            pm.set_data({"noisy_published": np.array([11.5, 29.0, 23.0])})
        with pytest.raises(ValueError, match="noisy_published must hold whole numbers"):
            logp(model.initial_point())


class TestResult:
    def test_group_labels_and_loo_without_arguments(self, tmp_path):
        with build(published()) as model:
            tree = bdp.sample(**{**SHORT, "draws": 400})
        x = tree["posterior"]["x"]
        sums = x.groupby("state").sum()
        np.testing.assert_array_equal(sums.sel(state="A").transpose("chain", "draw"), x[..., 0] + x[..., 1])
        np.testing.assert_array_equal(sums.sel(state="B").transpose("chain", "draw"), x[..., 2])
        assert list(annotate(tree.copy(), model)["posterior"]["state"].values) == ["A", "A", "B"]  # annotated again
        tree.to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
        assert list(az.from_netcdf(tmp_path / "posterior.nc")["posterior"]["state"].values) == ["A", "A", "B"]
        both = pm.compute_log_likelihood(tree.copy(), model=model, progressbar=False)
        with pytest.raises(TypeError, match="Found several"):
            az.loo(both)
        own = add_log_likelihood(tree.copy(), model, progressbar=False)
        assert list(own["log_likelihood"].data_vars) == ["noisy"]
        assert np.isfinite(az.loo(own).elpd) == np.isfinite(az.loo(both, var_name="noisy").elpd)
        compared = az.compare({"one": own, "again": own})
        assert list(compared.index.sort_values()) == ["again", "one"]


def test_the_signature_of_sample_is_that_of_pymc():
    own, theirs = (inspect.signature(function).parameters for function in (bdp.sample, pm.sample))
    ours = {"memory_check", "journal", "resume"}  # what PyMC does not have
    stated = [name for name, kind in own.items() if kind.kind is not kind.VAR_KEYWORD and name not in ours]
    assert {"draws", "tune", "chains", "cores", "random_seed", "progressbar"} <= set(stated)
    assert all(own[name].default == theirs[name].default and own[name].kind == theirs[name].kind for name in stated)


TABLE = {"area": ["a", "b", "c"], "kind": ["only"]}
VALUES, TOTAL, SIGMA, MEAN = np.array([3, 0, 9]), 11, 1.5, 4.0


@dataclass(frozen=True, eq=False, init=False)
class KeyedHere(bdp.noise.DiscreteGaussian):
    """Noise that belongs to the records of a cell."""

    name = "keyed-counted-once"
    same_cell_same_value = True


@scalar_distribution(KeyedHere)
class KeyedHereVariable(pm.Discrete):
    """Noise that belongs to the records of a cell, around mu."""


registered = only_here(KeyedHere)


def release(law, values=VALUES):
    """The same numbers three times."""
    again = [bdp.Measured(bdp.Margins(TABLE, ["area"]), values, law) for _ in range(2)]
    parts = (bdp.Measured(bdp.Identity(TABLE), values[:, None], law), *again)
    return bdp.Release(bdp.Frame.of(TABLE), parts, (bdp.Exact(bdp.Totals(TABLE), TOTAL),))


def model_of(first):
    model = counts_model(first, pm.Poisson.dist(MEAN))
    return model, model["x"]


def enumerated(copies):
    """Means of the cells: Poisson counts given their total are multinomial; each noisy number counts `copies` times."""
    tables = np.array([(i, j, TOTAL - i - j) for i in range(TOTAL + 1) for j in range(TOTAL + 1 - i)])
    factorials = np.array([np.sum(np.log(np.arange(1, n + 1))) for n in range(TOTAL + 1)])
    log = -factorials[tables].sum(1) - copies * ((tables - VALUES) ** 2).sum(1) / (2 * SIGMA**2)
    weights = np.exp(log - log.max())
    return weights @ tables / weights.sum(), np.sqrt(np.diag(np.cov(tables.T, aweights=weights, ddof=0)))


@pytest.mark.parametrize(("law", "copies"), [(KeyedHere(sigma=SIGMA), 1), (bdp.noise.DiscreteGaussian(sigma=SIGMA), 3)])
def test_duplicates_count_once_under_keys_and_three_times_when_independent(law, copies):
    # 2000 draws that are nearly independent, 6 comparisons: 5 standard errors of 1000 draws is beyond a false alarm of 1e-5.
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model, _ = model_of(release(law))
        with model:
            posterior = bdp.sample(1000, tune=100, chains=2, cores=1, random_seed=3, quiet=True, progressbar=False)
    said = [str(own.message) for own in told if own.category is CountedOnceWarning]
    assert len(said) == (copies == 1)
    mean, sd = enumerated(copies)
    other, _ = enumerated(4 - copies)
    found = posterior["posterior"]["x"].mean(("chain", "draw")).values.reshape(-1)
    assert np.all(np.abs(found - mean) < 5 * sd / np.sqrt(1000))
    assert np.max(np.abs(other - mean) * np.sqrt(1000) / sd) > 10  # the two are told apart
    if copies == 1:
        assert said[0].startswith("3 of the 3 answers by area published before with the same value")
        [(_, again)] = releases_of_tables(posterior)
        assert sum(len(release.measurements) for release in again) == 1


def test_a_second_release_says_only_what_is_new_and_other_numbers_can_be_set():
    law = KeyedHere(sigma=SIGMA)
    first = noisy_cells(TABLE, VALUES[:, None], law)
    second = bdp.Release.from_published(
        TABLE, [bdp.Measured(bdp.Margins(TABLE, ["area"], ["kind"]), [3, 0, 9, 13], law)]
    )
    model, x = model_of(first)
    with model, pytest.warns(CountedOnceWarning, match="3 of the 3 answers by area and 1 answer by kind"):
        bdp.observe(second, x)
    assert model["noisy_2_published"].get_value().tolist() == [13.0]
    third = bdp.Release.from_published(TABLE, [bdp.Measured(bdp.Margins(TABLE, ["area"]), VALUES, law)])
    with model, pytest.raises(ValueError, match="release says nothing that was not observed before"):
        bdp.observe(third, x)
    wrong = bdp.Release.from_published(TABLE, [bdp.Measured(bdp.Margins(TABLE, ["area"]), [3, 1, 9], law)])
    with model, pytest.raises(ValueError, match=r"area=b is published with two values, 0 in the .* and 1 in the"):
        bdp.observe(wrong, x)
    # Other numbers can be set in its place.
    with pytest.warns(CountedOnceWarning):
        model, _ = model_of(release(KeyedHere(sigma=SIGMA)))
    new = release(KeyedHere(sigma=SIGMA), np.array([5, 1, 7]))
    numbers = bdp.inference.observed.numbers_of(model, [new])
    assert numbers["noisy_published"].reshape(-1).tolist() == [5, 1, 7]
    bdp.set_release(model, new)
    assert model["noisy_published"].get_value().reshape(-1).tolist() == [5, 1, 7]
