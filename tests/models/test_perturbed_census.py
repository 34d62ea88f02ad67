"""The lessons on rounded and perturbed censuses: what is published follows the stated law, and every draw could have led to it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import bayesdp as bdp

MODELS = Path(__file__).resolve().parents[2] / "models"


def load(name):
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rounded():
    return load("rounded_census")


@pytest.fixture(scope="module")
def keyed():
    return load("cell_key_census")


def test_every_number_is_rounded_on_its_own(rounded):
    release, table = rounded.make_release(), rounded.true_table()
    assert table.shape == (72, 5)
    assert int(table.sum()) == 4_891_769  # Wisconsin in 1990
    sums = [table.values, table.sum("race").values, table.sum("county").values, table.sum().values]
    for measured, true in zip(release.measurements, sums, strict=True):
        values = np.asarray(measured.values)
        assert (values % 3 == 0).all()
        assert (np.abs(values.reshape(true.shape) - true) < 3).all()
    cells, counties = (np.asarray(own.values) for own in release.measurements[:2])
    off = rounded.disagreements(release)
    assert (off == cells.sum(axis=1) - counties).all()
    assert 0.5 < float((off != 0).mean()) < 0.95  # they agree by chance only
    simple = rounded.summed_cells(release)
    np.testing.assert_allclose(simple["upper"] - simple["lower"], 2 * 1.6449 * np.sqrt(5 * 2.25), rtol=1e-12)


def test_questions_of_a_table_typed_in(rounded):
    counts = bdp.Frame.of({"county": ["p", "q"], "race": ["u", "v"]}).data_array(np.array([[1, 2], [3, 4]]))
    found = rounded.questions(counts)
    assert found["counties"].values.tolist() == [3, 7]
    assert found["races"].values.tolist() == [4, 6]
    assert found["share"].values.tolist() == [0.4, 0.6]
    assert int(found["total"]) == 10


def test_cell_keys_leave_zeros_and_publish_no_1_and_2(keyed):
    release, table = keyed.make_release(), keyed.true_table()
    assert table.shape == (30, 5)
    cells = np.asarray(release.measurements[0].values)
    assert not np.isin(cells, [1, 2]).any()
    assert (cells[table.values == 0] == 0).all()
    assert np.abs(cells - table.values).max() <= 4
    states = np.asarray(release.measurements[1].values)
    true = table.groupby("state").sum().transpose("state", "race").values
    assert np.abs(states - true).max() <= 4
    assert (keyed.disagreements(release) != 0).any()


@pytest.mark.system
def test_every_draw_could_have_led_to_what_was_published(rounded):
    """Under every law of the release, and with cells that a rounded number leaves open visited."""
    whole = rounded.true_table()
    table = whole.isel(county=np.argsort(whole.sum("race").values)[:3], race=slice(1, 5))
    labels = {
        "county": [str(own) for own in table["county"].values],
        "race": [str(own) for own in table["race"].values],
    }
    law, rng = bdp.noise.RandomRounding(3), np.random.default_rng(5)
    parts = []
    for query in (bdp.Identity(labels), bdp.Margins(labels, ["county"]), bdp.Margins(labels, ["race"])):
        parts.append(bdp.Measured(query, law.draw(rng, query.shape, location=query.apply(table.values)), law))
    release = bdp.Release.from_published(labels, measured=parts)
    with rounded.build_model(release):
        tree = bdp.sample(150, tune=150, chains=2, cores=1, random_seed=1, quiet=True, progressbar=False)
    draws = tree["posterior"]["x"].to_numpy().reshape(-1, *table.shape)
    for measured in release.measurements:
        answers = measured.query.apply(draws)
        assert np.isfinite(law.log_each(np.asarray(measured.values), answers)).all()
    # Each mean is within the reach of rounding; all tables that were drawn are whole and not negative.
    assert (draws >= 0).all()
    assert (np.abs(draws.mean(axis=0) - table.values) < 3).all()
    assert (draws.std(axis=0) > 0).mean() > 0.5
