"""Many fits through one door: files, going on after a stop, failures, dead workers; a model that is fitted again and again."""

import os
import signal
from functools import partial

import h5py
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.calibration import fit_many
from bayesdp.calibration.fits import SAMPLER, Fits, Refit, _Fit, quiet_sample
from bayesdp.calibration.runs import DIED, followed
from bayesdp.steps.base import _COMPILED, compiled
from benchmarks.calibration.cases import SHAPE, TABLE, Case
from tests.calibration import models

QUICK = {"seed": 3, "draws": 60, "tune": 10, "chains": 2, "progressbar": False}
RNG = np.random.default_rng(0)
RELEASES = {f"State {k}": models.simulate_pair(RNG)[1] for k in range(3)}
TOTALS = [int(release.exact[0].values) for release in RELEASES.values()]


@pytest.fixture(scope="module")
def fits():
    return fit_many(RELEASES, models.build_pair, **QUICK)


def _same(found, fits, names=tuple(RELEASES)):
    assert list(found) == list(names)
    assert all(found[name]["posterior"]["x"].equals(fits[name]["posterior"]["x"]) for name in names)


TREE = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 500)))})})


def test_a_damaged_posterior_is_refused_by_name_and_its_folder_left_as_it_was(tmp_path, monkeypatch):
    """It was a KeyError of the HDF5 library, which in a mapping means that there is no such fit."""
    path = tmp_path / "000000.nc"
    TREE.to_netcdf(path, engine="h5netcdf")
    found = Fits({"one": path}, {})
    assert found["one"].identical(TREE)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"000000\.nc: the file is truncated"):
        found["one"]
    path.write_bytes(whole)
    with h5py.File(path, "r+") as file:
        file["posterior/y"] = h5py.ExternalLink("/etc/passwd", "/")
    with pytest.raises(ValueError, match=r"000000\.nc: /posterior/y is a link to somewhere else"):
        found["one"]
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no file.*000000\.nc"):
        found["one"]

    def made(self, number):
        return {"number": number, "name": self.names[number], "tree": TREE}

    monkeypatch.setattr(_Fit, "__call__", made)
    folder = tmp_path / "fits"
    run = partial(fit_many, RELEASES, models.build_pair, path=folder, **QUICK)
    run()
    first = folder / "000000.nc"
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    (folder / "000001.nc").unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=r"000000\.nc: the file is truncated.*remove this file"):
        run()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    first.unlink()
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write('{"number": 0, "name": "State 0", "file": "000000.nc"}\n{"number": 1, "na')
    assert len(run()) == 3
    assert (folder / "journal.jsonl").read_text().endswith('"file": "000000.nc"}\n')


@pytest.mark.system
def test_posteriors_by_name_are_those_of_their_releases_in_files_and_after_a_stop(fits, tmp_path):
    for name, release in RELEASES.items():
        draws = fits[name]["posterior"]["x"].values
        assert draws.shape == (2, 60, 2)
        assert np.all(draws.sum(axis=-1) == release.exact[0].values)
        stored = bdp.Release.from_dataset(fits[name]["release"].to_dataset())
        assert np.array_equal(stored.measurements[0].values, release.measurements[0].values)
        assert "converged" in fits[name]["diagnostics"].attrs
    with pytest.raises(KeyError):
        fits["State 9"]
    folder = tmp_path / "fits"
    _same(fit_many(RELEASES, models.build_pair, path=folder, **QUICK), fits)
    assert sorted(p.name for p in folder.iterdir()) == ["000000.nc", "000001.nc", "000002.nc", "journal.jsonl"]
    (folder / "000001.nc").unlink()
    times = {p: p.stat().st_mtime_ns for p in folder.glob("*.nc")}
    _same(fit_many(RELEASES, models.build_pair, path=folder, **QUICK), fits)
    assert {p: p.stat().st_mtime_ns for p in times} == times  # only the one that was missing is made
    two = {name: RELEASES[name] for name in ("State 0", "State 1")}
    with pytest.raises(ValueError, match="is of another run: its names"):
        fit_many(two, models.build_pair, path=folder, **QUICK)


def picky(flag, kill, release):
    """As long as there is a flag, the second release fails, or kills its process."""
    if flag.exists() and int(release.exact[0].values) == TOTALS[1]:
        flag.unlink()
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("not today")
    return models.build_pair(release)


@pytest.mark.system
@pytest.mark.parametrize(("kill", "failure"), [(False, "RuntimeError: not today"), (True, DIED)])
def test_failures_and_killed_workers_are_listed_and_tried_again(fits, tmp_path, kill, failure):
    assert len(set(TOTALS)) == 3
    flag = tmp_path / "flag"
    flag.touch()
    run = partial(fit_many, RELEASES, partial(picky, flag, kill), path=tmp_path / "fits", workers=1 + kill, **QUICK)
    found = run()
    assert found.failures == {"State 1": failure}
    _same(found, fits, ["State 0", "State 2"])
    with pytest.raises(KeyError, match=f"the fit of 'State 1' failed: {failure}"):
        found["State 1"]
    found = run()
    assert found.failures == {}
    _same(found, fits)


def test_what_is_refused_and_progress_counts_what_came_and_what_failed(tmp_path, unwritable, monkeypatch, capsys):
    (tmp_path / "file").touch()
    for given, more, error, message in (
        ({}, {}, ValueError, "releases must be a mapping"),
        (list(RELEASES.values()), {}, ValueError, "releases must be a mapping"),
        (RELEASES, {"seed": -1}, ValueError, "seed"),
        (RELEASES, {"path": unwritable / "fits"}, PermissionError, None),
        (RELEASES, {"path": tmp_path / "file"}, FileExistsError, None),
        (RELEASES, {"path": tmp_path / "no" / "where"}, FileNotFoundError, None),
    ):
        with pytest.raises(error, match=message):
            fit_many(given, models.build_pair, **{**QUICK, **more})
    monkeypatch.setattr("bayesdp.inference.runs.running._FIRST", 0.0)
    records = [{"number": 0, "error": "no"}, {"number": 1}, {"number": 2}]
    for show, said in ((True, "fits: 3 of 5 done (60%), 0:00:00 passed, 1 failed\n"), (False, "")):
        assert list(followed(records, total=5, done=2, words="fits", show=show)) == records
        assert capsys.readouterr().err[: len(said) or None] == said


class Clipped(Case):
    def simulate(self, rng):
        x = rng.negative_binomial(3.0, 3.0 / 11.0, size=SHAPE)
        law = bdp.noise.BoundaryInflatedDiscreteGaussian(3.5, (0, 60))
        noisy = bdp.Measured(bdp.Identity(TABLE), law.draw(rng, SHAPE, location=x), law)
        return {"x": x}, bdp.Release.from_published(TABLE, [noisy], [bdp.Exact(bdp.Totals(TABLE), x.sum())])


CASES = [
    # Part of the likelihood is left to a compiled rest, and which answers are in it changes with the release.
    Clipped("clipped discrete Gaussian", "negative binomial", "total"),
    # Two releases: exact totals of counts, and a noisy share of them.
    Case("boundary-inflated Laplace", "negative binomial", "total"),
    # NUTS draws the rate, and the scale of the noise is constant beside it.
    pytest.param(Case("discrete Laplace", "Poisson, gamma rate", "both margins"), marks=pytest.mark.slow),
]


@pytest.mark.system
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_draws_are_those_of_a_new_model_and_nothing_is_compiled_anew(case):
    releases = [case.simulate(np.random.default_rng(seed))[1] for seed in range(3)]
    refit, settings = Refit(case.build_model, releases[0]), SAMPLER | {"draws": 60, "tune": 20}
    kept = []
    for seed, release in enumerate(releases):
        again = quiet_sample(refit.model(release), settings, seed)["posterior"]
        new = quiet_sample(case.build_model(release), settings, seed)["posterior"]
        for name in new.data_vars:
            np.testing.assert_allclose(again[name].values, new[name].values, rtol=1e-9, err_msg=name)
        kept.append(len(_COMPILED[refit.model(release)]))
    assert refit.reused
    assert kept == [kept[0]] * 3  # nothing was compiled after the first


@pytest.mark.system
def test_two_releases_of_one_kind_do_not_change_places_and_functions_of_the_same_inputs_are_told_apart():
    mechanism = bdp.mechanisms.TruncatedLaplace(1.0, 0.1, (0.0, 1.0))
    pairs = [tuple(mechanism.release(value, rng=seed) for value in (0.1, 0.9)) for seed in (1, 2)]

    def model_of(pair, order):
        with pm.Model() as model:
            for k in order:
                bdp.observe(pair[k], pm.Beta(f"share_{k}", 1.0, 1.0))
        return model

    for order, reused in (((0, 1), True), ((1, 0), None)):
        refit = Refit(lambda pair, order=order: model_of(pair, order), pairs[0])
        model = refit.model(pairs[1])
        assert refit.reused is reused
        for k, name in zip(order, ("noisy", "noisy_2"), strict=True):
            assert model[f"{name}_published"].get_value().item() == float(pairs[1][k].values)
    case = Case("lattice Laplace, l1", "Poisson, gamma rate", "total")
    one, other = (case.simulate(np.random.default_rng(seed))[1] for seed in (1, 2))
    frozen = Refit(case.build_model, one).model(other)
    [rate] = [value for value in frozen.value_vars if value.name.startswith("rate")]
    values = [compiled(frozen, [factor * rate], {})[0](np.array(1.5))[0] for factor in (2.0, 3.0, 2.0)]
    assert [float(value) for value in values] == [3.0, 4.5, 3.0]
    both = compiled(frozen, [2.0 * rate, 3.0 * rate], {})[0](np.array(1.5))
    assert [float(value) for value in both] == [3.0, 4.5]


def test_a_model_that_depends_on_the_numbers_is_built_each_time():
    def centred(release):
        return models.counts_model(release, pm.Poisson.dist(float(release.exact[0].values) / 3))

    rng = np.random.default_rng(1)
    first, second = (models.simulate(rng)[1] for _ in range(2))
    for build, reused in ((centred, False), (models.build, True)):
        refit = Refit(build, first)
        model = refit.model(second)
        assert refit.reused is reused
        assert np.array_equal(model["noisy_published"].get_value(), second.measurements[0].values)
        assert np.all(model["exact_published"].get_value() == second.exact[0].values)
