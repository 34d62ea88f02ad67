"""The learnt law of notebook helpers: its picture, and what is learnt from Australian tables where they are there."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdp as bdp
from benchmarks.learnt_law import LAWS, recovered, synthetic
from notebooks.real_tables_law import learnt_law, parted, with_law

STORED = Path(__file__).parents[2] / "notebooks/data/learnt_laws.csv"


def test_picture_of_a_learnt_law_the_same_numbers_under_another_law_and_numbers_that_are_left_out():
    law = bdp.noise.UnknownPerturbation(3, not_smaller_than=3)
    rng = np.random.default_rng(1)
    rows = np.array([[law.drawn_rows(rng) for _ in range(50)] for _ in range(2)])
    coords = {"count": law.counts, "deviation": law.deviations}
    data = xr.Dataset({"cells_law": (("chain", "draw", "count", "deviation"), rows)}, coords=coords)
    drawn = learnt_law(xr.DataTree.from_dict({"posterior": data}), np.full(7, 1 / 7))
    assert [axes.get_ylabel() for axes in drawn.axes] == [*(f"count {x}" for x in range(1, 6)), "count 6 or more"]
    heights = [bar.get_height() for bar in drawn.axes[-1].patches]
    np.testing.assert_allclose(heights, rows[:, :, -1].mean(axis=(0, 1)))
    [supposed] = [line for line in drawn.axes[-1].lines if line.get_label() == "supposed"]
    np.testing.assert_allclose(supposed.get_ydata(), 1 / 7)
    release, rows, truth = synthetic(2, "dirichlet")
    assert [own.query.rows for own in release.measurements] == [208, 52, 16, 104, 4, 26, 8, 2]
    other = with_law(release, LAWS["dirichlet"].given(rows))
    for one, two in zip(release.measurements, other.measurements, strict=True):
        np.testing.assert_array_equal(one.values, two.values)
        assert np.isfinite(two.law.logp(two.values, two.query.apply(truth)))
    law = LAWS["max-entropy"]
    release = parted(bdp.datasets.working_population(law, within="8"))
    first = [(own.query.dims[0], own.unmeasured.reshape(len(own.values), -1)[:, 0]) for own in release.measurements]
    there = {(dim, *np.flatnonzero(~unmeasured)) for dim, unmeasured in first}
    # 897 and 899 have one part
    assert there == {("SA3_CODE_2016", *range(12)), ("SA4_CODE_2016", 0), ("STE_CODE_2016", 0)}
    large = {own.query.dims: own.unmeasured for own in with_law(release, law, above=20).measurements}
    for own in release.measurements:
        left_out = own.unmeasured | (own.values <= 20)
        np.testing.assert_array_equal(large.get(own.query.dims, True), left_out)


@pytest.mark.system
@pytest.mark.parametrize("prior", ["dirichlet", pytest.param("max-entropy", marks=pytest.mark.slow)])
def test_a_small_law_is_recovered(prior):
    """From 2,080 cells; within 5 standard deviations of its posterior."""
    lines = recovered(20, prior, draws=60, tune=30, sweeps=2)
    names = ["variance"] if prior != "dirichlet" else ["p(-2)", "p(-1)", "p(+0)", "p(+1)", "p(+2)"]
    assert [line["quantity"] for line in lines] == names
    for line in lines:
        assert (line["cells"], line["answers"], line["draws"]) == (2080, 4200, 120)
        assert abs(float(line["mean"]) - float(line["true"])) < 5.0 * float(line["sd"]), line
        assert float(line["low"]) < float(line["mean"]) < float(line["high"])


def test_what_is_stored_is_what_the_guide_says():
    """Chains agree on probabilities of states, if not yet below 1.05, not on those of the country; synthetic truths within 3.5 sd."""
    stored = pd.read_csv(STORED)
    australian = stored[stored["tables"] == "Australian, SA3 of states 678"]
    assert 1.05 < australian["rhat"].max() < 1.1
    assert australian["mean"].sum() == pytest.approx(1.0, abs=0.005)
    guide = (STORED.parents[2] / "docs/how-to/unknown-noise.md").read_text(encoding="utf-8")
    rhat, ess = australian["rhat"], australian["ess"]
    assert f"R-hat of at most {rhat.max():.2f} and {ess.min():.0f} to {ess.max():.0f} effective" in guide
    country = stored[stored["tables"].str.startswith("Australian, states 123456789")]
    free = country[country["prior"] == "dirichlet"]
    assert 1.5 < free["rhat"].max() < 2.0
    large, every = (country[country["quantity"] == "variance"].set_index("answers").loc[n] for n in (78_056, 95_550))
    assert large["low"] >= 4.0
    assert max(large["rhat"], every["rhat"]) < 1.045
    assert every["low"] < 4.0 < every["high"]  # that of uniform deviations
    assert f"{every['mean']:.2f} ± {every['sd']:.2f}" in guide.replace("\n", " ")
    assert "78,056 numbers above 20 alone not below 4" in guide
    known = stored[stored["tables"] == "synthetic"]
    assert (known["cells"] >= 100_000).all()
    assert (np.abs(known["mean"] - known["true"]) < 3.5 * known["sd"]).all()
