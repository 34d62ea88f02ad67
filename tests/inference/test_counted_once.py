"""Under a law that gives one cell one value, duplicates leave the posterior as it is: against enumeration."""

import warnings
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.consistency import CountedOnceWarning
from bayesdp.distributions import scalar_distribution
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.posterior.groups import releases_of_tables
from bayesdp.queries import Identity, Margins, Totals
from bayesdp.release import Release
from tests.inference.oracle import counts_model, noisy_cells
from tests.registering import only_here

TABLE = {"area": ["a", "b", "c"], "kind": ["only"]}
VALUES, TOTAL, SIGMA, MEAN = np.array([3, 0, 9]), 11, 1.5, 4.0


@dataclass(frozen=True, eq=False, init=False)
class KeyedHere(DiscreteGaussian):
    """Noise that belongs to the records of a cell."""

    name = "keyed-counted-once"
    same_cell_same_value = True


@scalar_distribution(KeyedHere)
class KeyedHereVariable(pm.Discrete):
    """Noise that belongs to the records of a cell, around mu."""


registered = only_here(KeyedHere)


def release(law, values=VALUES):
    """The same numbers three times."""
    again = [Measured(Margins(TABLE, ["area"]), values, law) for _ in range(2)]
    parts = (Measured(Identity(TABLE), values[:, None], law), *again)
    return Release(bdp.Frame.of(TABLE), parts, (Exact(Totals(TABLE), TOTAL),))


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


@pytest.mark.parametrize(("law", "copies"), [(KeyedHere(sigma=SIGMA), 1), (DiscreteGaussian(sigma=SIGMA), 3)])
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
    second = Release.from_published(TABLE, [Measured(Margins(TABLE, ["area"], ["kind"]), [3, 0, 9, 13], law)])
    model, x = model_of(first)
    with model, pytest.warns(CountedOnceWarning, match="3 of the 3 answers by area and 1 answer by kind"):
        bdp.observe(second, x)
    assert model["noisy_2_published"].get_value().tolist() == [13.0]
    third = Release.from_published(TABLE, [Measured(Margins(TABLE, ["area"]), VALUES, law)])
    with model, pytest.raises(ValueError, match="release says nothing that was not observed before"):
        bdp.observe(third, x)
    wrong = Release.from_published(TABLE, [Measured(Margins(TABLE, ["area"]), [3, 1, 9], law)])
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
