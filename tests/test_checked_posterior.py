"""Posteriors that contradict the releases in them, or themselves: refused by whoever reads them."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.cli.files import read_posterior
from bayesdp.posterior import check_posterior, converged_of
from bayesdp.report import report
from bayesdp.storage import write_draws
from tests.plots.trees import relaxation

pytestmark = pytest.mark.system

TABLE = {"county": ["Alpha", "Beta", "Gamma"], "sex": ["m", "w"]}
COUNTS = np.array([[15, 1], [20, 10], [3, 0]])
OTHER = {"k": ["a", "b", "c"]}
QUICK = {"draws": 30, "tune": 30, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}


@pytest.fixture(scope="module")
def made():
    margins = bdp.Margins(TABLE, ["county"], ["sex"])
    release = bdp.LatticeLaplace(margins, epsilon=0.5).release(COUNTS, rng=1)
    real = bdp.Release.from_published(
        OTHER,
        [bdp.Measured(bdp.Identity(OTHER), [1100, 200, 305], bdp.noise.DiscreteGaussian(sigma=5.0))],
        [bdp.Exact(bdp.Totals(OTHER), 1600)],
    )
    with pm.Model(coords={**release.coords, **real.coords}):
        x = bdp.FlatCounts("x", dims=release.dims)
        bdp.observe(release, x)
        pm.Deterministic("half", x / 2)
        z = bdp.ConfidentialCounts("z", pm.Poisson.dist(pm.Gamma("rate", 2.0, 0.01)), dims=real.dims)
        bdp.observe(real, z)
        tree = bdp.sample(**QUICK)
    tree["posterior"]["z"] = tree["posterior"]["z"].astype(float)  # as files of version 0.1 may have them
    tree["relaxation_z"] = xr.DataTree(relaxation("z"))
    return tree


@pytest.fixture
def tree(made):
    return made.copy(deep=True)


def test_what_was_sampled_is_fine_also_without_a_table_that_was_not_recorded(tree, tmp_path):
    check_posterior(tree)
    write_draws(tree, tmp_path / "p.nc")
    read_posterior(str(tmp_path / "p.nc"))
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().drop_vars("x"))
    check_posterior(tree)
    assert "half" in " ".join(bdp.summary(tree).index.get_level_values("part"))


def changed(name, index, by):
    def change(tree):
        values = tree["posterior"][name].values.copy()
        values[index] += by
        tree["posterior"][name] = tree["posterior"][name].copy(data=values)

    return change


def attribute(group, key, value):
    return lambda tree: tree[group].attrs.__setitem__(key, value)


def diagnosed(**attrs):
    return lambda tree: tree["diagnostics"].attrs.update(attrs)


def variable(group, key, value):
    return lambda tree: tree[group].__setitem__(key, xr.full_like(tree[group][key], value))


def posterior(change):
    return lambda tree: tree.__setitem__("posterior", xr.DataTree(change(tree["posterior"].to_dataset())))


def other_guarantee(tree):
    text = tree["guarantee"].attrs["guarantee"]
    tree["guarantee"].attrs["guarantee"] = text.replace('"epsilon": 0.5', '"epsilon": 0.1', 1)


MOVE = 20 * np.array([[-1, 1], [1, -1], [0, 0]])  # both margins stay
WRONG = {
    "negative": (changed("x", (1, 3), MOVE), "x in chain 1, draw 3: county=Alpha, sex=m is -.*at least 0"),
    "off the fiber": (changed("x", (0, 2, 1, 0), 1), r"x in chain 0, draw 2: county=Beta is 31, but .* exactly 30"),
    "real, off the fiber": (changed("z", (0, 2, 1), 1.0), r"z in chain 0, draw 2: total is 160.*exactly 1600"),
    "real and negative": (changed("z", (0, 2, 1), -5000.0), "z in chain 0, draw 2: k=b is -.*at least 0"),
    "not finite": (changed("z", (1, 0, 0), np.nan), "z in chain 1, draw 0: k=a is nan"),
    "no draws": (posterior(lambda own: own.isel(draw=slice(0))), "holds no draws: its dimension 'draw'"),
    "no chains": (posterior(lambda own: own.isel(chain=slice(0))), "holds no draws: its dimension 'chain'"),
    "labels": (
        posterior(lambda own: own.assign_coords(county=["Beta", "Alpha", "Gamma"])),
        "x has the labels 'Beta', 'Alpha', 'Gamma' of 'county', but its release has 'Alpha'",
    ),
    "converged = no": (diagnosed(converged="no"), "converged of the group 'diagnostics' must be 0 or 1, got 'no'"),
    "converged = 2": (diagnosed(converged=2), "must be 0 or 1, got 2"),
    "converged = [1]": (diagnosed(converged=np.array([1, 0])), "must be 0 or 1"),
    "converged, verdict": (diagnosed(converged=1), "converged = 1, but the verdict 'not"),
    "verdict": (diagnosed(verdict="converged"), "converged = 0, but the verdict 'converged'"),
    "verdict unknown": (diagnosed(verdict="fine"), "verdict of the group 'diagnostics' must be one of"),
    "converged, ess": (diagnosed(verdict="converged", converged=1), "converged = 1, but worst_.* is beyond"),
    "worst_ess": (diagnosed(worst_ess="many"), "worst_ess of the group 'diagnostics' must be a number"),
    "message": (diagnosed(message=3), "message of the group 'diagnostics' must be text"),
    "unknown attribute": (diagnosed(extra=1), "unknown attribute 'extra'"),
    "proved": (attribute("fiber", "proved", "yes"), "proved of the group 'fiber' must be 0 or 1"),
    "bounds_exact": (attribute("fiber_z", "bounds_exact", -1), "bounds_exact of the group 'fiber_z' must be 0 or 1"),
    "variable": (attribute("fiber", "variable", 7), "variable of the group 'fiber' must be text"),
    "interrupted": (lambda tree: tree.attrs.update(interrupted="no"), "interrupted.*must be 0 or 1"),
    "determined": (variable("fiber", "determined", True), "says that county=Alpha, sex=m is determined, but the draws"),
    "lower": (variable("fiber", "lower", 10**6), "has the lower limit 1000000, but the draws of x"),
    "upper": (variable("fiber_z", "upper", 0), "has the upper limit 0, but the draws of z"),
    "guarantee": (other_guarantee, "'guarantee' states pure with epsilon = 0.1.*'release' holds pure with epsilon = 0.5"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_posterior_that_cannot_be_is_refused_wherever_it_is_read(kind, tree, tmp_path):
    change, message = WRONG[kind]
    change(tree)
    readers = [lambda: check_posterior(tree), lambda: bdp.summary(tree)]
    if kind in ("negative", "converged = no", "determined"):
        readers.append(lambda: report(tree, tmp_path / "r.html"))
    if kind in ("negative", "converged = [1]", "labels", "guarantee", "not finite"):  # one of each sort: a second each
        write_draws(tree, tmp_path / "p.nc")
        readers.append(lambda: read_posterior(str(tmp_path / "p.nc")))
    if kind == "converged = no":
        readers.append(lambda: converged_of(tree))
    for read in readers:
        with pytest.raises(ValueError, match=message):
            read()


def test_files_of_earlier_versions_lack_what_was_not_written_then(tree, tmp_path):
    whole, fiber = bdp.summary(tree), tree["fiber"].to_dataset()
    for gone in ("determined", "lower", "upper"):
        tree["fiber"] = xr.DataTree(fiber.drop_vars(gone))
        assert bdp.summary(tree)["status"].tolist() == whole["status"].tolist()
    for key in ("bounds_exact", "determined_complete", "connectivity", "proved"):
        del tree["fiber"].attrs[key]
    for key in ("verdict", "rhat_limit", "ess_limit"):
        del tree["diagnostics"].attrs[key]
    assert bdp.summary(tree)["status"].tolist() == whole["status"].tolist()
    report(tree, tmp_path / "r.html")
