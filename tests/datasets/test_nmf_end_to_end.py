"""From files with known truth to published tables with intervals: a county, a state whose spine has two branches, and two cells.

Of these, vacant and occupied units, the total is exact, and the posterior a discrete Gaussian with centre 25 and variance 12.5.
"""

import itertools

import numpy as np
import pyarrow.parquet as pq
import pymc as pm
import pytest
from scipy.stats import nbinom

import bayesdp as bdp
from bayesdp.datasets import code_query, published_codes, read_nmf, synthetic_spine, write_synthetic_nmf
from bayesdp.fibers import enumerate_fiber
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import structure_of
from tests.comparison.enumeration import probabilities
from tests.comparison.variation import assert_close_in_variation
from tests.datasets.nmf_files import minimal
from tests.noisy_sums import indices

SHAPE = 0.8


def test_lines_of_tracts_of_one_county_are_covered(tmp_path):
    """Of 142 + 71 lines, which hang together, 95 % intervals hold the truth in 93 to 99 %; errors are as wide as they say.

    A truth that is drawn from the prior: in 100 such counties, fewer than 88 % would be covered in less than one. Two tracts of two
    block groups, persons by kind of quarters and race: measured, limited, and zero where nobody can be.
    """
    rng = np.random.default_rng(7)
    mean = np.full((8, 2, 2, 63), 0.01)
    mean[0] = 0.4 * rng.gamma(2.0, 0.5, (2, 2, 63))
    mean[3, 0] = 0
    blocks = {}
    for block in synthetic_spine("50", counties=1, tracts=2, groups=2):
        table = rng.poisson(rng.gamma(SHAPE / 4, 4 / SHAPE, mean.shape) * mean)
        table[1:][rng.random(7) < 0.5] = 0
        blocks[block[:-16]] = table
    write_synthetic_nmf(tmp_path, blocks, level="Block_Group", rng=3)
    release = read_nmf(tmp_path, "50001", ["total", "cenrace", "hhgq"], levels=["Tract", "Block_Group"]).release
    # The kinds of quarters have more levels than the geounits of one county, and are cut by a recode: they are no leaves.
    structure = structure_of(target_of(release, "negbin"))
    assert structure.levels[:2] == ("block_group", "tract")
    assert structure.frame.dims[structure.axis] == "block_group"
    assert structure.limited
    with pytest.raises(ValueError, match="cut in different ways: by tract x hhgq and by block_group x hhgq"):
        structure_of(target_of(release, "negbin"), "hhgq")
    truth = np.stack([blocks[str(own)] for own in release.frame.labels_of("block_group")]).sum(axis=(2, 3))
    assert release.fiber.contains(truth)
    record = {"p1": code_query(release.frame, "P1"), "p1_tract": code_query(release.frame, "P1", by="tract")}
    prior = FixedNegativeBinomial(mean.sum(axis=(1, 2)), SHAPE)
    fitted = bdp.fit_hierarchy(release, prior, record=record, draws=200, tune=60, random_seed=1, quiet=True)
    for by in (None, "tract"):
        table = bdp.published_table(fitted, "P1", by=by)
        expected = code_query(release.frame, "P1", by=by).apply(truth)
        inside = (table["eti95_lower"] <= expected) & (expected <= table["eti95_upper"])
        assert inside.mean() > 0.88
        assert 0.6 < np.sqrt((((table["mean"] - expected) / table["sd"]) ** 2).mean()) < 1.4
    totals = bdp.published_table(fitted, "P1_001N", by="tract")
    assert totals.index.get_level_values("tract").tolist() == list(dict.fromkeys(release.frame.group("tract")[1]))
    expected = code_query(release.frame, "P1_001N", by="tract").apply(truth)
    assert np.abs((totals["mean"] - expected) / totals["sd"]).max() < 4.0


def test_the_total_of_a_state_is_that_of_both_branches_and_gls_estimates_codes(tmp_path):
    """Against the enumeration of all tables: an exact total of the sum of two geounits, with noise at both levels.

    Two counties are in one branch of the spine and an area in the other, with four persons, by age.
    """
    blocks = [*synthetic_spine("30", counties=2), *synthetic_spine("30", counties=1, aian=True)]
    truth = {block[:8]: np.zeros((8, 2, 2, 63), dtype=np.int64) for block in blocks}
    for own, ages in zip(truth.values(), ((1, 2), (0, 0), (0, 1)), strict=True):
        own[0, :, 0, 0] = ages
    queries, levels = ["total", "votingage"], ["State", "County"]
    write_synthetic_nmf(tmp_path, truth, level="County", variance=1.5, queries=queries, constraints=False, rng=2)
    state = read_nmf(tmp_path, "30", queries, levels=levels, totals={"30": 4}).release
    assert state.frame.shape == (3, 2)
    assert [(part.query.dims, part.values.tolist()) for part in state.exact] == [((), 4)]
    record = {"x": bdp.Identity(state.frame), "p1": code_query(state.frame, "P1_001N", "P3_001N")}
    prior = FixedNegativeBinomial(1.5, 0.6)
    tree = bdp.fit_hierarchy(state, prior, record=record, draws=1500, tune=100, random_seed=3, quiet=True)
    tables = np.array([t for t in itertools.product(range(5), repeat=6) if sum(t) == 4]).reshape(-1, 3, 2)
    logs = nbinom.logpmf(tables, 0.6, 0.6 / 2.1).sum(axis=(1, 2))
    for measured in state.measurements:
        residuals = (measured.values - measured.query.apply(tables)).reshape(len(tables), -1)
        spread = np.broadcast_to(measured.law.sigma, measured.query.shape).reshape(-1)
        logs = logs - (residuals**2 / (2.0 * spread**2)).sum(axis=1)
    draws = tree["posterior"]["x"].values
    assert_close_in_variation(indices(tables, draws), probabilities(logs), rate=1e-6, largest=0.3)
    expected = np.stack([draws.sum(axis=(-2, -1)), draws[..., 1].sum(axis=-1)], axis=-1)
    np.testing.assert_array_equal(tree["posterior"]["p1"].values, expected)
    found = bdp.gls(state)
    by, cells = code_query(state.frame, "P1_001N", "P3_001N", by="county"), bdp.Identity(state.frame)
    totals, adults = found.mean(by).reshape(3, 2).T
    np.testing.assert_allclose(totals, found.mean(bdp.Margins(state.frame, ["county"]))[:3], atol=1e-10)
    np.testing.assert_allclose(adults, found.mean(cells)[:, 1], atol=1e-10)
    np.testing.assert_allclose(found.sd(by).reshape(3, 2)[:, 1], found.sd(cells)[:, 1], atol=1e-10)
    total = code_query(state.frame, "P1_001N")
    assert found.mean(total).item() == pytest.approx(4.0)
    assert found.sd(total).item() == pytest.approx(0.0, abs=1e-6)


VACANT = np.arange(101)
VACANT_LAW = probabilities(-((VACANT - 25.0) ** 2) / (2 * 12.5))
"""The discrete Gaussian on the numbers 0 to 100, which cut nothing off that counts: 25 is seven standard deviations."""


def test_the_posterior_is_the_closed_form_enumerated_observed_and_in_published_codes(tmp_path):
    vacant = read_nmf(minimal(tmp_path), "50001", product="pl94-unit").release
    [measured] = vacant.measurements
    assert (measured.values.reshape(-1).tolist(), float(measured.law.sigma)) == ([30, 80], 5.0)
    flat = enumerate_fiber(vacant.fiber, 1000).reshape(-1, 2)
    flat = flat[np.argsort(flat[:, 0])]
    assert flat[:, 0].tolist() == VACANT.tolist()
    mass = probabilities(np.asarray([measured.law.log_mass([30, 80], own).sum() for own in flat]))
    assert mass == pytest.approx(VACANT_LAW, abs=1e-14)
    assert (VACANT @ mass, (VACANT - 25.0) ** 2 @ mass) == pytest.approx((25.0, 12.5), abs=1e-9)
    with pm.Model(coords=vacant.coords) as model:
        bdp.observe(vacant, bdp.FlatCounts("x", dims=vacant.dims))
        logp = model.compile_logp()
        ends = model.initial_point()
        value = next(iter(ends))
        logs = np.asarray([logp(ends | {value: np.array([[v, 100 - v]])}) for v in VACANT], dtype=float)
        posterior = bdp.sample(draws=4000, tune=50, chains=2, cores=1, random_seed=5, progressbar=False, quiet=True)
    assert probabilities(logs) == pytest.approx(VACANT_LAW, abs=1e-12)
    draws = posterior["posterior"]["x"].sel(h1="vacant").values.reshape(-1)
    # A line of two cells is drawn exactly, so that draws are independent: five standard errors, one false alarm in a million.
    assert abs(draws.mean() - 25) < 5 * np.sqrt(12.5 / len(draws))
    table = bdp.published_table(posterior, "H1")
    assert table.index.tolist() == ["H1_001N", "H1_002N", "H1_003N"]
    assert table["label"].tolist() == ["Total", "Occupied", "Vacant"]
    assert table.loc["H1_001N", ["mean", "eti95_lower", "eti95_upper"]].tolist() == [100, 100, 100]
    assert table.loc["H1_003N", "mean"] == pytest.approx(draws.mean())
    assert table.loc["H1_003N", "mean"] + table.loc["H1_002N", "mean"] == pytest.approx(100)
    low, high = np.searchsorted(np.cumsum(VACANT_LAW), [0.025, 0.975])
    assert table.loc["H1_003N", ["eti95_lower", "eti95_upper"]].tolist() == pytest.approx([low, high], abs=1)
    by = bdp.published_table(posterior, "H1_003N", by="county", prob=0.5)
    assert by.index.tolist() == [("050100011", "H1_003N")]
    assert "eti50_lower" in by
    # The same from draws of answers that were recorded.
    answers = code_query(vacant.frame, "H1", by="county").apply(posterior["posterior"]["x"])
    recorded = bdp.published_table(answers, "H1_003N", by="county")
    for name in ("mean", "sd", "eti95_lower", "eti95_upper"):
        assert recorded[name].item() == table.loc["H1_003N", name]
    with pytest.raises(ValueError, match=r"the draws have no answers 'H1_003N'"):
        bdp.published_table(answers, "H1_003N")
    with pytest.raises(ValueError, match="P1 is a table of pl94-person"):
        bdp.published_table(posterior, "P1")
    assert published_codes("H1").shape == (3, 2)


def test_the_variance_of_a_file_is_that_of_the_discrete_law(tmp_path):
    """As `computeDiscreteGaussianVariance` of the production code sums it; both ways, through the writer and the reader."""
    sigmas = {"State": 0.1, "County": 0.35, "Tract": 0.8, "Block_Group": 1.0, "Block": 30.0}
    given = {"product": "pl94-unit", "constraints": False, "rng": 1}
    given["variance"] = lambda level, _: sigmas.get(level, 1.0) ** 2
    [block] = synthetic_spine("50", counties=1)
    folder = write_synthetic_nmf(tmp_path, {block: [3, 8]}, **given)
    for level, sigma in sigmas.items():
        k = np.arange(-400.0, 401.0)
        mass = np.exp(-(k**2) / (2.0 * sigma**2))
        [file] = (folder / f"{level}.parquet").rglob("*.parquet")
        [stated] = pq.read_table(file).column("variance").to_pylist()
        assert stated == pytest.approx(k**2 @ mass / mass.sum(), rel=1e-7)
    parts = read_nmf(folder, "50", product="pl94-unit", levels=sigmas).release.measurements
    found = {part.name.removesuffix("_detailed"): float(part.law.sigma) for part in parts}
    assert found == pytest.approx({level.lower(): sigma for level, sigma in sigmas.items()}, rel=1e-6)
