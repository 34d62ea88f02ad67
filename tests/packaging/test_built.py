"""The sdist and the wheel, installed as users install them, without and with each extra; and a source tree that is not installed.

What is installed comes from the package index, or a cache of uv, at the versions of the lock: no other use of the network.
"""

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from functools import partial
from pathlib import Path

import pytest

import bayesdp

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
HEAD = """
import pymc as pm, bayesdp as bdp
table = {"county": ["Alpha", "Beta", "Gamma"]}"""
FIT = f"""{HEAD}
release = bdp.LatticeLaplace(bdp.Invariants(bdp.Totals(table)), epsilon=1.0).release([30, 8, 3], rng=1)
with pm.Model(coords=table):
    bdp.observe(release, bdp.FlatCounts("x", dims="county"))
    tree = bdp.sample(draws=100, tune=20, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
assert tree.posterior["x"].shape == (2, 100, 3)
assert (tree.posterior["x"].sum("county") == 41).all()
"""
"""The total is exact, so that every draw has it."""
WITH = {
    "nutpie": ("nutpie", f"""{HEAD}
measured = [bdp.Measured(bdp.Identity(table), [0.2, 0.5, 0.3], bdp.noise.Laplace(0.1))]
release = bdp.Release.from_published(table, measured, about="statistics")
with pm.Model(coords=table):
    bdp.observe(release, pm.Beta("x", 2.0, 2.0, dims="county"))
    tree = bdp.sample(draws=100, tune=200, chains=2, random_seed=1, progressbar=False, quiet=True, nuts_sampler="nutpie")
assert "nutpie" in str(tree.posterior.attrs) + str(tree.attrs) + str(tree.sample_stats.attrs)
"""),
    "secure": ("opendp", """
from bayesdp.noise import DiscreteLaplace
from bayesdp.noise.secure import draw_independent, statement
assert "OpenDP" in str(statement("opendp"))
noise = draw_independent(DiscreteLaplace(2.5), 2000, "opendp")
assert noise.dtype == int and 0 < abs(noise).mean() < 10
"""),
    "cluster": ("distributed", """
import distributed
from bayesdp.calibration.runs import on_dask
def square(number):
    return {"number": number, "square": number**2}
options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
    assert sorted(own["square"] for own in on_dask(client)(square, [1, 2, 3])) == [1, 4, 9]
"""),
    "covariance": ("statsmodels", """
import numpy as np
from bayesdp.papers.covariance_cone import CovarianceRelease
matrix = np.array([[1.0, 0.9, -0.9], [0.9, 2.0, 0.9], [-0.9, 0.9, 1.0]])
release = CovarianceRelease(matrix, np.ones((3, 3)), [9.0] * 3, 50, ("x", "y", "z"))
assert not release.is_positive_definite
assert np.linalg.eigvalsh(release.repaired())[0] > 0
"""),
    "census": ("pyarrow", f"""{HEAD}
import pyarrow.parquet as parquet
from bayesdp.hierarchies.priors import FixedNegativeBinomial
measured = [bdp.Measured(bdp.Identity(table), [3, 8, 5], bdp.noise.DiscreteGaussian(sigma=2.0))]
release = bdp.Release.from_published(table, measured, [bdp.Exact(bdp.Totals(table), 15)])
prior = FixedNegativeBinomial(mean=4.0, shape=1.0)
bdp.fit_hierarchy(release, prior, draws=200, tables=10, tables_path="tables.parquet", random_seed=1, quiet=True)
assert set(parquet.read_table("tables.parquet").to_pandas().groupby("table")["count"].sum()) == {{15}}
"""),
}  # fmt: skip
"""The module that each extra brings in, and a program that needs it."""


LEFT_OUT = ("PYTHONPATH", "NUMBA_CACHE_DIR", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}


def _run(*command, cwd, env=ENVIRONMENT):
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _build(source, target, kind):
    """Build with the backend that is installed beside the tests: nothing is fetched."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", target, cwd=source)
    (built,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return _build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def _contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_sdist_builds_a_wheel_with_the_same_files_that_says_what_it_is(wheel, tmp_path):
    with tarfile.open(_build(ROOT, tmp_path, "sdist")) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert source.name == f"bayesdp-{bayesdp.__version__}"
    assert _contents(_build(source, tmp_path / "dist", "wheel")) == _contents(wheel)
    # What somebody needs who goes on from the sdist alone: to install from the lock, to test, to build the site.
    needed = ("Makefile", "requirements.lock", "conftest.py", "tests/packaging/test_built.py", "docs/conf.py", "NOTICE")
    assert not [kept for kept in needed if not (source / kept).is_file()]
    assert not (source / "docs" / "made").exists()
    named = {Path(name).name: content for name, content in _contents(wheel).items() if ".dist-info/" in name}
    about = email.message_from_bytes(named["METADATA"])
    assert about["Version"] == bayesdp.__version__
    assert about["Requires-Python"] == ">=3.12"
    assert set(about.get_all("Provides-Extra")) == set(EXTRAS) == set(WITH)
    assert {"LICENSE", "NOTICE"} <= named.keys()
    file = "bayesdp/storage/noise_schema_1.json"
    assert _contents(wheel)[file] == (ROOT / file).read_bytes()


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """Make an environment with the wheel and one extra, or none, and nothing else; give its folder of programs."""
    if not UV.is_file():
        pytest.skip("needs uv beside the tests' Python; `make install` puts it there")

    def make(extra):
        folder = tmp_path_factory.mktemp("environment")
        _run(UV, "venv", "--quiet", "--python", sys.executable, folder / "env", cwd=folder)
        python = folder / "env" / "bin" / "python"
        options = ("--quiet", "--only-binary", ":all:", "--constraint", ROOT / "requirements.lock")
        _run(UV, "pip", "install", "--python", python, *options, f"{wheel}[{extra}]" if extra else wheel, cwd=folder)
        return python.parent

    return make


def _extras_in(programs, folder):
    modules = {extra: module for extra, (module, _) in WITH.items()}
    asked = f"from importlib.util import find_spec; print(*[n for n, m in {modules!r}.items() if find_spec(m)])"
    return set(_run(programs / "python", "-c", asked, cwd=folder).split())


@pytest.mark.slow
def test_without_extras_it_imports_helps_fits_and_demonstrates(environment, tmp_path):
    programs = environment("")
    assert _extras_in(programs, tmp_path) == set()
    where = _run(programs / "python", "-c", "import bayesdp; print(bayesdp.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(programs.parent)
    assert "usage: bayesdp" in _run(programs / "bayesdp", "--help", cwd=tmp_path)
    assert _run(programs / "bayesdp", "--version", cwd=tmp_path) == f"bayesdp {bayesdp.__version__}\n"
    _run(programs / "python", "-c", FIT, cwd=tmp_path)
    _run(programs / "bayesdp", "demo", "--output", "shown", cwd=tmp_path)
    for part in ("berkeley", "illinois"):
        assert (tmp_path / "shown" / part / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_with_an_extra_what_needs_it_runs(environment, tmp_path, extra):
    programs = environment(extra)
    assert extra in _extras_in(programs, tmp_path)
    _run(programs / "python", "-W", "error::UserWarning:bayesdp", "-c", WITH[extra][1], cwd=tmp_path)


# The dependencies are found as they are installed; whatever makes bayesdp importable from there (an editable install,
# with its metadata) is left out, by -S and by a folder of links to everything else.
SAMPLE = f"""{FIT}
import importlib.metadata
assert "bayesdp" not in [own.name for own in importlib.metadata.distributions()], "bayesdp is installed: nothing is shown"
assert tree.attrs["bayesdp_version"] == bdp.__version__
release.to_netcdf("release.nc")
assert bdp.Release.from_netcdf("release.nc") == release
bdp.report.report(tree, "report.html")
print(bdp.__file__)
"""


def test_sampling_files_and_the_report_need_no_installed_package(tmp_path):
    (others := tmp_path / "dependencies").mkdir()
    for found in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.match(r"_*(editable.*)?bayesdp", found.name, re.IGNORECASE) and found.suffix != ".pth":
            (others / found.name).symlink_to(found)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(others)]), "PYTHONSAFEPATH": "1"}
    python = partial(_run, sys.executable, "-S", cwd=tmp_path, env=environment)
    assert Path(python("-c", SAMPLE).strip()) == Path(bayesdp.__file__)
    assert f"bayesdp {bayesdp.__version__}" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert python("-m", "bayesdp", "--version") == f"bayesdp {bayesdp.__version__}\n"


def test_nothing_asks_for_the_metadata_of_bayesdp():
    """The package asks for the versions of its dependencies by name, and says its own by `__version__`."""
    asked, named = re.compile(r"\b(?:version|metadata|distribution|files|requires)\(\s*([^)]*)\)"), []
    for path in (
        own for folder in "bayesdp benchmarks models notebooks docs".split() for own in (ROOT / folder).rglob("*.py")
    ):
        if "importlib.metadata" in (text := path.read_text(encoding="utf-8")):
            named += [(path, own) for own in asked.findall(text)]
    assert named  # the pattern finds something
    assert not [own for own in named if re.search(r"bayesdp|__package__|__name__", own[1])]
