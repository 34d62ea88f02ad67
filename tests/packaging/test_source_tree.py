"""A source tree that is not installed: `PYTHONPATH` names it, and there is no metadata of a package bayesdp."""

import os
import re
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest

import bayesdp
from tests.packaging.test_built import FIT, ROOT, _run

pytestmark = pytest.mark.system

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
    asked = re.compile(r"\b(?:version|metadata|distribution|files|requires)\(\s*([^)]*)\)")
    named = {
        (path.relative_to(ROOT).as_posix(), own)
        for folder in ("bayesdp", "benchmarks", "models", "notebooks", "docs")
        for path in (ROOT / folder).rglob("*.py")
        if "importlib.metadata" in (text := path.read_text(encoding="utf-8"))
        for own in asked.findall(text)
    }
    assert named  # the pattern finds something
    assert not [(path, own) for path, own in named if re.search(r"bayesdp|__package__|__name__", own)]
