"""Posteriors that contradict the releases in them, or themselves: refused by whoever reads them."""

from __future__ import annotations

from collections.abc import Callable

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
def made() -> xr.DataTree:
    """Two tables: whole numbers with both margins, and real numbers with a total."""
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
def tree(made) -> xr.DataTree:
    return made.copy(deep=True)


def test_what_was_sampled_is_fine(tree, tmp_path):
    check_posterior(tree)
    write_draws(tree, tmp_path / "p.nc")
    read_posterior(str(tmp_path / "p.nc"))


def changed(name: str, index: tuple, by: float) -> Callable[[xr.DataTree], None]:
    def change(tree: xr.DataTree) -> None:
        values = tree["posterior"][name].values.copy()
        values[index] += by
        tree["posterior"][name] = tree["posterior"][name].copy(data=values)

    return change


def moved(tree: xr.DataTree) -> None:
    """Both margins stay, and a cell becomes negative."""
    values = tree["posterior"]["x"].values.copy()
    values[1, 3] += 20 * np.array([[-1, 1], [1, -1], [0, 0]])
    tree["posterior"]["x"] = tree["posterior"]["x"].copy(data=values)


def attribute(group: str, key: str, value: object) -> Callable[[xr.DataTree], None]:
    return lambda tree: tree[group].attrs.__setitem__(key, value)


def diagnosed(key: str, value: object) -> Callable[[xr.DataTree], None]:
    return attribute("diagnostics", key, value)


def interrupted(tree: xr.DataTree) -> None:
    tree.attrs["interrupted"] = "no"


def variable(group: str, key: str, value: object) -> Callable[[xr.DataTree], None]:
    def change(tree: xr.DataTree) -> None:
        tree[group][key] = tree[group][key].copy(data=np.full(tree[group][key].shape, value))

    return change


def relabelled(tree: xr.DataTree) -> None:
    own = tree["posterior"].to_dataset()
    tree["posterior"] = xr.DataTree(own.assign_coords(county=["Beta", "Alpha", "Gamma"]))


def other_guarantee(tree: xr.DataTree) -> None:
    text = tree["guarantee"].attrs["guarantee"]
    tree["guarantee"].attrs["guarantee"] = text.replace('"epsilon": 0.5', '"epsilon": 0.1', 1)


def only(dim: str, n: int) -> Callable[[xr.DataTree], None]:
    def change(tree: xr.DataTree) -> None:
        tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().isel({dim: slice(n)}))

    return change


def good_diagnostics(tree: xr.DataTree) -> None:
    tree["diagnostics"].attrs.update(verdict="converged", converged=1)


WRONG = {
    "negative": (moved, "x in chain 1, draw 3: county=Alpha, sex=m is -.*at least 0"),
    "off the fiber": (changed("x", (0, 2, 1, 0), 1), r"x in chain 0, draw 2: county=Beta is 31, but .* exactly 30"),
    "real, off the fiber": (changed("z", (0, 2, 1), 1.0), r"z in chain 0, draw 2: total is 160.*exactly 1600"),
    "real and negative": (changed("z", (0, 2, 1), -5000.0), "z in chain 0, draw 2: k=b is -.*at least 0"),
    "not finite": (changed("z", (1, 0, 0), np.nan), "z in chain 1, draw 0: k=a is nan"),
    "no draws": (only("draw", 0), "holds no draws: its dimension 'draw'"),
    "no chains": (only("chain", 0), "holds no draws: its dimension 'chain'"),
    "labels": (relabelled, "x has the labels 'Beta', 'Alpha', 'Gamma' of 'county', but its release has 'Alpha'"),
    "converged = no": (diagnosed("converged", "no"), "converged of the group 'diagnostics' must be 0 or 1, got 'no'"),
    "converged = 2": (diagnosed("converged", 2), "must be 0 or 1, got 2"),
    "converged = [1]": (diagnosed("converged", np.array([1, 0])), "must be 0 or 1"),
    "converged, verdict": (diagnosed("converged", 1), "converged = 1, but the verdict 'not"),
    "verdict": (diagnosed("verdict", "converged"), "converged = 0, but the verdict 'converged'"),
    "verdict unknown": (diagnosed("verdict", "fine"), "verdict of the group 'diagnostics' must be one of"),
    "converged, ess": (good_diagnostics, "converged = 1, but worst_.* is beyond"),
    "worst_ess": (diagnosed("worst_ess", "many"), "worst_ess of the group 'diagnostics' must be a number"),
    "message": (diagnosed("message", 3), "message of the group 'diagnostics' must be text"),
    "unknown attribute": (diagnosed("extra", 1), "unknown attribute 'extra'"),
    "proved": (attribute("fiber", "proved", "yes"), "proved of the group 'fiber' must be 0 or 1"),
    "bounds_exact": (attribute("fiber_z", "bounds_exact", -1), "bounds_exact of the group 'fiber_z' must be 0 or 1"),
    "variable": (attribute("fiber", "variable", 7), "variable of the group 'fiber' must be text"),
    "interrupted": (interrupted, "interrupted.*must be 0 or 1"),
    "determined": (variable("fiber", "determined", True), "says that county=Alpha, sex=m is determined, but the draws"),
    "lower": (variable("fiber", "lower", 10**6), "has the lower limit 1000000, but the draws of x"),
    "upper": (variable("fiber_z", "upper", 0), "has the upper limit 0, but the draws of z"),
    "guarantee": (other_guarantee, "'guarantee' states pure with epsilon = 0.1.*'release' holds pure with epsilon = 0.5"),
}  # fmt: skip


# All are refused by the same check, wherever the posterior comes from: of files, which take a second each, one of each sort.
IN_FILES = {"negative", "converged = [1]", "labels", "guarantee", "not finite"}


@pytest.mark.parametrize("kind", WRONG)
def test_a_posterior_that_cannot_be_is_refused_wherever_it_is_read(kind, tree, tmp_path):
    change, message = WRONG[kind]
    change(tree)
    readers: list[Callable[[], object]] = [lambda: check_posterior(tree), lambda: bdp.summary(tree)]
    if kind in ("negative", "converged = no", "determined"):
        readers.append(lambda: report(tree, tmp_path / "r.html"))
    if kind in IN_FILES:
        write_draws(tree, tmp_path / "p.nc")
        readers.append(lambda: read_posterior(str(tmp_path / "p.nc")))
    for read in readers:
        with pytest.raises(ValueError, match=message):
            read()


def test_the_verdict_is_read_strictly():
    tree = xr.DataTree.from_dict({"diagnostics": xr.Dataset(attrs={"converged": "no"})})
    with pytest.raises(ValueError, match="must be 0 or 1, got 'no'"):
        converged_of(tree)


@pytest.mark.parametrize("gone", ["determined", "lower", "upper"])
def test_files_of_earlier_versions_lack_what_was_not_written_then(tree, tmp_path, gone):
    # Before: KeyError 'determined'.
    whole = bdp.summary(tree)
    tree["fiber"] = xr.DataTree(tree["fiber"].to_dataset().drop_vars(gone))
    for key in ("bounds_exact", "determined_complete", "connectivity", "proved"):
        del tree["fiber"].attrs[key]
    for key in ("verdict", "rhat_limit", "ess_limit"):
        del tree["diagnostics"].attrs[key]
    assert bdp.summary(tree)["status"].tolist() == whole["status"].tolist()
    report(tree, tmp_path / "r.html")


def test_of_a_table_that_was_not_recorded_nothing_is_asked(tree):
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().drop_vars("x"))
    check_posterior(tree)
    assert "half" in " ".join(bdp.summary(tree).index.get_level_values("part"))
