"""The result of `sample`: groups, dims, diagnostics, what is saved, and what is not."""

import json

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp import noise
from bayesdp.inference import annotate, diagnose, releases_of
from bayesdp.steps import FiberGibbs
from tests.inference.oracle import counts_model, noisy_cells, sample

TABLE = bdp.datasets.delinquent_children()


@pytest.fixture(scope="module")
def release():
    margins = bdp.Margins(TABLE, ["county"], ["education"])
    return bdp.LatticeLaplace(margins, epsilon=0.25).release(TABLE, rng=np.random.default_rng(123_454_321))


def model_of(release, base=None):
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", base(), dims=release.dims) if base else bdp.FlatCounts("x", dims=release.dims)
        bdp.observe(release, x)
    return model


def quick(model, draws=500, tune=20, chains=2):
    with model:
        return bdp.sample(draws, tune=tune, chains=chains, cores=1, random_seed=4, progressbar=False, quiet=True)


@pytest.fixture(scope="module")
def model(release):
    return model_of(release, lambda: pm.Poisson.dist(pm.Gamma("rate", 2.0, 0.1, dims=release.dims)))


@pytest.fixture(scope="module")
def tree(model):
    return quick(model, 60, tune=40)


def test_groups_dimensions_labels_and_limits(tree, release):
    groups = set(tree.children)
    assert {"posterior", "sample_stats", "observed_data", "release", "guarantee", "fiber", "diagnostics"} <= groups
    x = tree.posterior["x"]
    assert x.dims == ("chain", "draw", "county", "education")
    assert x.dtype == np.int64
    for dim in ("county", "education"):
        assert list(x[dim].values) == list(TABLE[dim].values)
        np.testing.assert_array_equal(x.sum(dim), TABLE.sum(dim).broadcast_like(x.sum(dim)).transpose(*x.sum(dim).dims))
    np.testing.assert_array_equal(tree.observed_data["noisy"], release.values)
    assert bdp.Release.from_dataset(tree["release"].to_dataset()) == release
    assert json.loads(tree["guarantee"].attrs["guarantee"]) == json.loads(json.dumps(release.guarantee.to_dict()))
    assert "0.25" in tree["guarantee"].attrs["text"]
    assert tree.attrs["seed"] == "4"
    assert {"bayesdp_version", "pymc_version", "numpy_version", "created"} <= set(tree.attrs)
    fiber, rows, columns = tree["fiber"], TABLE.sum("education"), TABLE.sum("county")
    xr.testing.assert_equal(fiber["upper"], np.minimum(rows, columns).transpose("county", "education").rename("upper"))
    assert (x >= fiber["lower"]).all()
    assert (x <= fiber["upper"]).all()
    assert not fiber["determined"].any()
    assert fiber.attrs["proved"] == 1
    assert "2x2 moves" in fiber.attrs["connectivity"]


@pytest.mark.parametrize("computed", ["", "by a bounded prior", "by bounded noise"])
def test_what_is_said_of_connectivity_is_true_of_the_moves_that_were_taken(computed):
    """Margins of a three-way table whose moves are known in closed form, and computed where cells have upper bounds besides."""
    labels = {"a": [0, 1], "b": [0, 1], "c": [0, 1]}
    margins, table = bdp.Margins(labels, ["a", "b"], ["b", "c"]), np.arange(2, 10).reshape(2, 2, 2)
    law, more = (noise.Tulap(1.0, 0.05), 0.25) if "noise" in computed else (noise.DiscreteLaplace(2.0), 0)
    base = pm.Binomial.dist(12, 0.5, shape=(2, 2, 2)) if "prior" in computed else pm.Poisson.dist(5.0, shape=(2, 2, 2))
    model = counts_model(noisy_cells(labels, table + more, law, bdp.Exact(margins, margins.apply(table))), base)
    found = quick(model, 10, tune=5, chains=1)
    with model:
        [(_, claim)] = FiberGibbs().connectivity.items()
    attributes = found["fiber"].attrs
    assert (attributes["proved"], attributes["connectivity"]) == (1, claim["claim"])
    assert claim["proved"]
    assert ("was computed" in attributes["connectivity"]) == bool(computed)


def test_diagnostics_of_every_free_quantity_and_a_feasible_point(tree, release):
    diagnostics = tree["diagnostics"]
    for name in ("x", "rate"):
        assert diagnostics[f"{name}_ess_bulk"].dims == ("county", "education")
        assert np.isfinite(diagnostics[f"{name}_rhat"]).all()
    np.testing.assert_allclose(diagnostics["x_ess_bulk"], az.ess(tree.posterior["x"]), rtol=1e-9)
    assert diagnostics.attrs["worst_ess"] > 0
    assert str(round(diagnostics.attrs["worst_rhat"], 3)) in diagnostics.attrs["message"]
    point = bdp.feasible_point(release)
    assert point.dims == TABLE.dims
    for dim in TABLE.dims:
        np.testing.assert_array_equal(point.sum(dim), TABLE.sum(dim))
    assert int(abs(point - release.values).max()) <= 2 + int(-release.values.min().clip(max=0)) * 2


def test_saved_and_loaded_without_the_table_or_the_seed_of_the_noise(tree, tmp_path):
    tree.to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    again = xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf").load()
    for group in ("posterior", "sample_stats", "observed_data", "fiber", "diagnostics", "release"):
        xr.testing.assert_identical(again[group].to_dataset(), tree[group].to_dataset())
    assert again.attrs == tree.attrs
    assert again.posterior["x"].dtype == np.int64
    assert again.posterior["x"].encoding["zlib"]
    assert again["fiber"]["determined"].dtype == bool
    # What is computed from such draws is written as ever.
    (again.posterior["x"].isel(draw=slice(0, 3), county=0) * 2.5).to_netcdf(tmp_path / "part.nc", engine="h5netcdf")
    # The seed of the release is nowhere. The confidential table as an array is nowhere outside of the draws (which may
    # pass through it).
    apart = tree.copy()
    del apart["posterior"]
    apart.to_netcdf(tmp_path / "apart.nc", engine="h5netcdf")
    content = (tmp_path / "apart.nc").read_bytes()
    assert b"123454321" not in content
    for dtype in ("<i8", "<f8", "<i4"):
        assert np.asarray(123_454_321, dtype=dtype).tobytes() not in content
        assert TABLE.values.astype(dtype).tobytes() not in content


def test_replaced_numbers_take_the_release_away():
    """The release beside a posterior is the one that the posterior is of."""
    county = {"county": ["p", "q"]}
    model = model_of(noisy_cells(county, [4, 7], noise.DiscreteLaplace(b=2.0), bdp.Exact(bdp.Totals(county), 10)))
    assert "release" in quick(model).children
    with model:
        pm.set_data({"exact_published": np.float64(14)})
    with pytest.warns(UserWarning, match=r"replaced by pm.set_data: the result has no group.*bayesdp.set_release"):
        tree = quick(model)
    assert "release" not in tree.children
    assert (tree["fiber"]["upper"] == 14).all()
    assert releases_of(model) == ()
    with model:
        pm.set_data({"exact_published": np.float64(10)})
    assert len(releases_of(model)) == 1


FRAME = {"a": ["u", "v"], "b": ["r", "s", "t"]}


class TestDeterminedAndStuckCells:
    def release(self, *exact):
        law, rows = noise.DiscreteLaplace(b=2.0), bdp.Exact(bdp.Margins(FRAME, ["a"]), [8, 12])
        return noisy_cells(FRAME, [[3, 4, 0], [5, 6, 1]], law, rows, *exact)

    def test_determined_cells_are_marked_and_left_out_and_cells_that_the_prior_empties_too(self):
        tree = quick(model_of(self.release(bdp.Exact(bdp.Margins(FRAME, ["b"]), [9, 11, 0]))))
        np.testing.assert_array_equal(tree["fiber"]["determined"], [[False, False, True]] * 2)
        np.testing.assert_array_equal(np.isnan(tree["diagnostics"]["x_ess_bulk"]), tree["fiber"]["determined"])
        assert tree["diagnostics"].attrs["converged"] == 1
        tree = quick(model_of(self.release(), lambda: pm.Poisson.dist([[2.0, 5.0, 1.0], [5.0, 6.0, 0.0]])))
        assert (tree.posterior["x"].sel(a="v", b="t") == 0).all()
        assert tree["diagnostics"].attrs["converged"] == 1
        assert not tree["fiber"]["determined"].any()  # the exact answers alone do not say so
        law = noise.Tulap(1.0, 0.2)  # which determines a cell
        assert law.standard.support()[1] < 2.0
        release = noisy_cells({"county": ["Alpha", "Beta"]}, [-1.1, 6.0], law)
        found = quick(model_of(release, lambda: pm.Poisson.dist(5.0)))
        assert (found.posterior["x"].sel(county="Alpha") == 0).all()
        assert found.posterior["x"].sel(county="Beta").std() > 0
        assert found["diagnostics"].attrs["converged"] == 1, found["diagnostics"].attrs["message"]

    def test_a_free_cell_that_never_moves_is_not_converged_and_cells_that_cannot_are(self):
        draws = np.random.default_rng(1).integers(0, 9, (4, 500, 3))
        draws[..., 1] = 7
        data = xr.Dataset({"x": (("chain", "draw", "c"), draws)})
        stuck = diagnose(data, {"x": np.array([False, False, False])})
        assert stuck.attrs["converged"] == 0
        assert "x: a quantity that could move never did" in stuck.attrs["message"]
        fine = diagnose(data, {"x": np.array([False, True, False])})
        assert fine.attrs["converged"] == 1
        assert np.isnan(fine["x_rhat"].values).tolist() == [False, True, False]
        data = xr.Dataset({"x": (("chain", "draw", "c"), np.full((2, 100, 2), 3))})
        found = diagnose(data, {"x": np.array([True, True])})
        assert found.attrs["converged"] == 1
        assert "Nothing can move" in found.attrs["message"]


def test_what_is_wrong_is_logged_unless_quiet_and_copies_of_a_model_have_limits_but_no_release(model, caplog):
    quick(model, 10, tune=5, chains=1)
    assert "judge convergence" not in caplog.text
    with model:
        bdp.sample(draws=10, tune=5, chains=1, cores=1, random_seed=1, progressbar=False)
    assert "Too little to judge convergence, and nothing that speaks against it" in caplog.text
    assert "NOT converged" not in caplog.text
    copy = model.copy()
    tree = annotate(sample(copy, 5, 5, chains=1), copy)
    assert "release" not in tree.children
    assert (tree["fiber"]["upper"] <= 50).all()
