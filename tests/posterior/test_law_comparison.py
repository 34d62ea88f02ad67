"""One model under two laws, against enumeration of a small table."""

from unittest.mock import Mock

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, LatticeLaplace

TABLE = {"area": ["a", "b", "c"]}
PUBLISHED, TOTAL = np.array([9, -1, 5]), 12
LAWS = {"V = 1": DiscreteGaussian(sigma=1.0), "V = 16": DiscreteGaussian(sigma=4.0)}
SAMPLING = {"draws": 2500, "tune": 100, "chains": 2, "cores": 1, "random_seed": 5, "quiet": True, "progressbar": False}


def release(law=LAWS["V = 1"]):
    measured = bdp.Measured(bdp.Identity(TABLE), PUBLISHED, law, name="cells")
    return bdp.Release.from_published(TABLE, [measured], [bdp.Exact(bdp.Totals(TABLE), TOTAL)])


def model(own):
    with pm.Model(coords=own.coords) as made:
        bdp.observe(own, bdp.FlatCounts("x", dims="area"))
        pm.Deterministic("share of a", made["x"][0] / made["x"].sum())
    return made


def enumerated(sigma):
    tables = np.array([(i, j, TOTAL - i - j) for i in range(TOTAL + 1) for j in range(TOTAL + 1 - i)])
    log = -((tables - PUBLISHED) ** 2).sum(axis=1) / (2 * sigma**2)
    weights = np.exp(log - log.max())
    return tables, weights / weights.sum()


@pytest.fixture(scope="module")
def cells():
    return bdp.compare_laws(release(), LAWS, model, "x", **SAMPLING)


def test_each_law_has_its_own_posterior_and_the_spread_holds_all(cells):
    # Means of 5000 draws; 6 comparisons at 5 standard errors of 1000 draws: a false alarm is below 1e-5.
    for name, law in LAWS.items():
        tables, weights = enumerated(law.sigma)
        mean = weights @ tables
        sd = np.sqrt(weights @ (tables - mean) ** 2)
        found = cells.table.xs(name, level="law")
        assert np.all(np.abs(found["mean"].to_numpy() - mean) < 5 * sd / np.sqrt(1000))
        np.testing.assert_allclose(found["sd"], sd, rtol=0.1)
    low, high = (enumerated(law.sigma) for law in LAWS.values())
    apart = np.abs(low[1] @ low[0] - high[1] @ high[0])
    np.testing.assert_allclose(cells.spread["spread"], apart, atol=0.35)
    assert apart.max() > 0.9  # the law matters in this table
    assert cells.table.index.names == ["part", "label", "law"]
    assert cells.table.loc[("x", "area=a")].index.tolist() == list(LAWS)
    for key, row in cells.spread.iterrows():
        own = cells.table.loc[key]
        assert (row["lower"], row["upper"]) == (own["lower"].min(), own["upper"].max())
        assert row["spread_in_sd"] == pytest.approx((own["mean"].max() - own["mean"].min()) / own["sd"].min())
    assert "none of them weighed" in repr(cells)
    assert set(cells.converged) == set(LAWS)


def test_other_quantities_exact_ones_and_the_picture(cells):
    few = SAMPLING | {"draws": 20, "tune": 10}
    shares = bdp.compare_laws(release(), LAWS, model, "share of a", **few)
    for name in LAWS:
        mean = float(shares.posteriors[name]["posterior"]["share of a"].mean())
        assert shares.table.xs(name, level="law")["mean"].item() == pytest.approx(mean, rel=1e-12)
    everything = bdp.posterior.law_comparison._rows(cells.posteriors["V = 1"], None, 0.95, "V = 1")
    exact = everything.loc[("x: grand total", "total", "V = 1")]
    assert (exact["mean"], exact["sd"], exact["lower"]) == (TOTAL, 0.0, TOTAL)
    drawn = bdp.plots.law_comparison(cells)
    labels = [text.get_text() for text in drawn.axes[0].get_yticklabels()]
    assert labels == ["x: area=a", "x: area=b", "x: area=c"]
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == list(LAWS)
    assert "none is weighed" in drawn.get_suptitle()
    assert len(bdp.plots.law_comparison(cells, most=1).axes[0].get_yticklabels()) == 1
    with pytest.raises(TypeError, match="what bayesdp"):
        bdp.plots.law_comparison(cells.table)


def asked(release, laws, **options):
    stop = Mock(side_effect=InterruptedError)
    with pytest.raises(InterruptedError):
        bdp.compare_laws(release, laws, stop, **options)
    return stop.call_args.args[0].measurements


def test_which_measurements_get_the_law_and_lattice_laws_keep_their_invariants():
    total = bdp.Measured(bdp.Totals(TABLE), 13, DiscreteGaussian(sigma=3.0))
    two = bdp.Release.from_published(TABLE, [*release().measurements, total])
    for chosen in (None, ["cells"]):
        cells, other = asked(two, [DiscreteLaplace(b=2.0), DiscreteLaplace(b=4.0)], measurements=chosen)
        assert (cells.law, other.law) == (DiscreteLaplace(b=2.0), total.law if chosen else cells.law)
    cells = bdp.Measured(bdp.Identity(TABLE), [9, -1, 4], LatticeLaplace(0.5))
    lattice = bdp.Release.from_published(TABLE, [cells], [bdp.Exact(bdp.Totals(TABLE), TOTAL)])
    assert asked(lattice, [LatticeLaplace(0.5), LatticeLaplace(1.0)])[0].noise_invariants is not None


def test_arguments_that_are_not_right():
    one, bounded = LAWS["V = 1"], bdp.noise.TruncatedLaplace(1.0, (0.0, 20.0))
    outside = "the law bounded cannot be that of 3 answers by area: values must lie within"
    for given, error, message in (
        ({"laws": [one]}, ValueError, "at least two"),
        ({"laws": one}, TypeError, "a mapping from names"),
        ({"laws": [one, one]}, ValueError, "distinct names"),
        ({"laws": {"a": 1, "b": 2}}, TypeError, "laws must hold noise laws"),
        ({"measurements": ["other"]}, ValueError, r"places from 0 to 0 or names \('cells'\), got 'other'"),
        ({"measurements": "cells"}, TypeError, "a list of places"),
        ({"measurements": []}, ValueError, "names none"),
        ({"laws": {"good": one, "bounded": bounded}}, ValueError, outside),
        ({"model": lambda own: own}, TypeError, "model must give a pymc.Model"),
        ({"prob": 2.0}, ValueError, "prob"),
    ):
        with pytest.raises(error, match=message):
            bdp.compare_laws(**({"release": release(), "laws": LAWS, "model": model} | given), **SAMPLING)
