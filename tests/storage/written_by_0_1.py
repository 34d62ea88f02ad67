"""What the files of ``tests/data/written_by_0_1`` were made from: small ones of every kind that lasts.

``python -m tests.storage.written_by_0_1`` wrote them, once, while 0.1.0 was made (they say of which version they are). They
are not to be written again: that later versions read *these* is what they are for. A later version that writes other files gets
a folder of its own.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pymc as pm
import xarray as xr

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease
from bayesdp.noise import TruncatedLaplace
from bayesdp.storage import write_draws
from tests.storage.examples import EXAMPLES, lattice
from tests.streaming.cases import FRAME, PRIOR, small_release

FOLDER = Path(__file__).parents[1] / "data" / "written_by_0_1"

GIVEN = {"draws": 40, "tune": 20, "chains": 2, "random_seed": 7, "quiet": True, "progressbar": False,
         "record": {"x": bdp.Identity(FRAME)}}  # fmt: skip
"""Arguments of the run whose folder is stored."""

STATISTICS = StatisticRelease([0.37, 0.9], TruncatedLaplace(0.04, (0.0, 1.0)), ("share", "other"))


def name_of(example: str) -> str:
    """The name of an example of a release, without a suffix."""
    return example.replace(" ", "_")


def fitted(folder: Path, *, resume: bool) -> xr.DataTree:
    """The run of a hierarchy whose folder is stored."""
    return bdp.fit_hierarchy(small_release(), PRIOR, **GIVEN, journal=folder, resume=resume)


def summarised(path: Path) -> str:
    """What ``bayesdp summary`` says of a posterior, as JSON."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        main(["summary", str(path), "--format", "json"])
    return shown.getvalue()


def _write() -> None:
    for example, make in EXAMPLES.items():
        make().to_netcdf(FOLDER / f"{name_of(example)}.nc")
    STATISTICS.to_netcdf(FOLDER / "statistics.nc")
    release = lattice()
    with pm.Model(coords=release.coords):
        bdp.observe(release, bdp.FlatCounts("x", dims=release.dims))
        sampled = bdp.sample(
            draws=50, tune=20, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True, nuts_sampler="pymc"
        )
    for name, tree in {"sampled": sampled, "streamed": fitted(FOLDER / "run", resume=False)}.items():
        path = FOLDER / f"{name}.nc"
        write_draws(tree, path)
        (FOLDER / f"{name}.json").write_text(summarised(path), encoding="utf-8")


if __name__ == "__main__":
    if FOLDER.exists():
        raise SystemExit(f"{FOLDER} is there: files of a version are written once")
    FOLDER.mkdir()
    _write()
