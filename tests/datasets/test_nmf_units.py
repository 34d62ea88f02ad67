"""Two cells with an exact total: the posterior of vacant units is a discrete Gaussian with centre 25 and variance 12.5."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.datasets import code_query, published_codes, read_nmf, synthetic_spine, write_synthetic_nmf
from bayesdp.fibers import enumerate_fiber
from tests.datasets.nmf_files import minimal

TOTAL = 100
VACANT = np.arange(TOTAL + 1)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return read_nmf(minimal(tmp_path_factory.mktemp("units")), "50001", product="pl94-unit")


def exact_law():
    """Discrete Gaussian on the numbers 0 to 100, which cut nothing off that counts: 25 is seven standard deviations."""
    logs = -((VACANT - 25.0) ** 2) / (2 * 12.5)
    weight = np.exp(logs - logs.max())
    return weight / weight.sum()


def test_the_enumerated_posterior_is_the_closed_form(found):
    tables = enumerate_fiber(found.release.fiber, 1000)
    [measured] = found.release.measurements
    assert measured.values.reshape(-1).tolist() == [30, 80]
    assert float(measured.law.sigma) == 5.0
    flat = tables.reshape(len(tables), 2)
    logs = np.asarray([measured.law.log_mass([30, 80], own).sum() for own in flat])
    weight = np.exp(logs - logs.max())
    order = np.argsort(flat[:, 0])
    assert flat[order, 0].tolist() == VACANT.tolist()
    assert (weight / weight.sum())[order] == pytest.approx(exact_law(), abs=1e-14)
    mean = float(flat[:, 0] @ weight / weight.sum())
    assert mean == pytest.approx(25.0, abs=1e-9)
    assert float((flat[:, 0] - mean) ** 2 @ weight / weight.sum()) == pytest.approx(12.5, abs=1e-9)


def test_the_observed_posterior_has_that_law_and_published_codes(found):
    release = found.release
    with pm.Model(coords=release.coords) as model:
        x = bdp.FlatCounts("x", dims=release.dims)
        bdp.observe(release, x)
        logp = model.compile_logp()
        ends = model.initial_point()
        value = next(iter(ends))
        logs = np.asarray([logp(ends | {value: np.array([[v, TOTAL - v]])}) for v in VACANT], dtype=float)
        posterior = bdp.sample(draws=4000, tune=200, chains=2, cores=1, random_seed=5, progressbar=False, quiet=True)
    weight = np.exp(logs - logs.max())
    assert weight / weight.sum() == pytest.approx(exact_law(), abs=1e-12)
    draws = posterior["posterior"]["x"].sel(h1="vacant").values.reshape(-1)
    # A line of two cells is drawn exactly, so that draws are independent: five standard errors, one false alarm in a million.
    assert abs(draws.mean() - 25) < 5 * np.sqrt(12.5 / len(draws))
    table = bdp.published_table(posterior, "H1")
    assert table.index.tolist() == ["H1_001N", "H1_002N", "H1_003N"]
    assert table["label"].tolist() == ["Total", "Occupied", "Vacant"]
    assert table.loc["H1_001N", ["mean", "eti95_lower", "eti95_upper"]].tolist() == [100, 100, 100]
    assert table.loc["H1_003N", "mean"] == pytest.approx(draws.mean())
    assert table.loc["H1_003N", "mean"] + table.loc["H1_002N", "mean"] == pytest.approx(100)
    low, high = np.searchsorted(np.cumsum(exact_law()), [0.025, 0.975])
    assert abs(table.loc["H1_003N", "eti95_lower"] - low) <= 1
    assert abs(table.loc["H1_003N", "eti95_upper"] - high) <= 1
    by = bdp.published_table(posterior, "H1_003N", by="county", prob=0.5)
    assert by.index.tolist() == [("050100011", "H1_003N")]
    assert "eti50_lower" in by
    # The same from draws of answers that were recorded.
    answers = code_query(release.frame, "H1", by="county").apply(posterior["posterior"]["x"])
    recorded = bdp.published_table(answers, "H1_003N", by="county")
    for name in ("mean", "sd", "eti95_lower", "eti95_upper"):
        assert recorded[name].item() == table.loc["H1_003N", name]
    with pytest.raises(ValueError, match=r"the draws have no answers 'H1_003N'"):
        bdp.published_table(answers, "H1_003N")
    with pytest.raises(ValueError, match="P1 is a table of pl94-person"):
        bdp.published_table(posterior, "P1")
    assert published_codes("H1").shape == (3, 2)


@pytest.mark.parametrize("sigma", [0.1, 0.35, 0.8, 1.0, 30.0])
def test_the_variance_of_a_file_is_that_of_the_discrete_law(tmp_path, sigma):
    """As `computeDiscreteGaussianVariance` of the production code sums it; both ways, through the writer and the reader."""
    k = np.arange(-400.0, 401.0)
    mass = np.exp(-(k**2) / (2.0 * sigma**2))
    by_hand = float(k**2 @ mass / mass.sum())
    [block] = blocks = synthetic_spine("50", counties=1, tracts=1, groups=1, blocks=1)
    folder = write_synthetic_nmf(tmp_path / "f", {block: [3, 8]}, product="pl94-unit", variance=sigma**2, rng=1)
    [file] = (folder / "Block.parquet" / "DPQuery").rglob("*.parquet")
    stated = pq.read_table(file).column("variance").to_pylist()
    assert stated == pytest.approx([by_hand] * len(stated), rel=1e-7)
    found = read_nmf(folder, "50", product="pl94-unit", levels=["Block"])
    assert len(blocks) == len(found.release.measurements) == 1
    assert float(found.release.measurements[0].law.sigma) == pytest.approx(sigma, rel=1e-6)
