"""The model of two years is calibrated: truths of its prior, each year with a law of its own, one with an exact total."""

from functools import partial

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.calibration import sbc, verdict_of
from bayesdp.priors import build_change

TABLE = {"county": ["a", "b", "c"]}
CELLS, TOTAL = bdp.Identity(TABLE), bdp.Totals(TABLE)
LAWS = bdp.noise.DiscreteGaussian(3.0), bdp.noise.DiscreteLaplace(b=2.0)
HYPER = {"mean": 20.0, "centre_scale": 0.6, "level_spread": 0.4, "change_scale": 0.5, "scatter": 0.2}


def simulate(rng, halves=(-0.5, 0.5)):
    """The formula of the prior, with NumPy alone."""
    truth = {"log_mean": rng.normal(np.log(20.0), 0.6), "change": rng.normal(0.0, 0.5)}
    truth |= {"level_spread": 0.4 * np.exp(rng.normal(0.0, 0.75)), "cell_cv": 0.2 * np.exp(rng.normal(0.0, 0.75))}
    truth["level"] = rng.normal(truth["log_mean"], truth["level_spread"], 3)
    shape, tables = truth["cell_cv"] ** -2.0, []
    for name, half in zip(("before", "after"), halves, strict=True):
        rates = np.exp(truth["level"] + half * truth["change"])
        truth[name] = rng.poisson(rates * rng.gamma(shape, size=3) / shape)
        tables.append(truth[name])
    noisy = [bdp.Measured(CELLS, law.draw(rng, (3,), location=x), law) for law, x in zip(LAWS, tables, strict=True)]
    exact = [[], [bdp.Exact(TOTAL, tables[1].sum())]]
    return truth, tuple(bdp.Release.from_published(TABLE, [own], more) for own, more in zip(noisy, exact, strict=True))


def build(years):
    return build_change(*years, **HYPER)


def growth(values, release):
    return values["after"].sum("county") - values["before"].sum("county")


def calibrated(n, simulated=simulate):
    found = sbc(simulated, build, n=n, seed=5, also={"growth": growth}, draws=200, tune=300, progressbar=False)
    assert found["verdict"].attrs["failed"] == 0
    assert found.attrs["model_reused"] == "True"
    return verdict_of(found)


@pytest.mark.slow
@pytest.mark.compiled
def test_two_years_are_calibrated_and_a_change_of_the_second_year_alone_is_found():
    right = calibrated(40)
    assert right.calibrated, str(right)  # false alarm 0.01 for another seed
    assert {"change", "growth", "before[a]", "after[c]", "cell_cv"} <= {own.name for own in right.quantities}
    assert not calibrated(44, simulated=partial(simulate, halves=(0.0, 1.0))).calibrated
