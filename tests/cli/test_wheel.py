"""What an installed wheel can do without the source tree beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with what the wheel has: a wheel of pure Python is installed by taking it out of its archive."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("bayesdp-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(installed: Path, folder: Path, *arguments: str) -> str:
    """Standard output of Python with the installed package, in a folder of its own."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_file_that_the_demonstration_reads_is_in_the_wheel(installed, tmp_path):
    script = (
        "import pathlib, bayesdp; from bayesdp.cli import demo; print(bayesdp.__file__, demo._MODELS);"
        "demo._publish(pathlib.Path('.')); demo.load_file(str(demo._MODELS / 'county_populations.py')).make_release;"
        "print(*demo._PUBLISHED)"
    )
    lines = run(installed, tmp_path, "-c", script).splitlines()
    assert all(place.startswith(str(installed)) for place in lines[0].split())
    assert {path.name for path in tmp_path.iterdir()} == set(lines[1].split())


def test_the_wheel_has_the_package_and_nothing_else(installed):
    top = {path.name for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert top == {"bayesdp"}
    ours = {path.relative_to(ROOT) for path in (ROOT / "bayesdp").rglob("*.py")}
    shipped = {path.relative_to(installed) for path in installed.rglob("*.py")}
    assert shipped == ours | {Path("bayesdp/cli/models/county_populations.py")}


@pytest.mark.slow
def test_the_demonstration_runs_from_the_wheel(installed, tmp_path):
    shown = run(installed, tmp_path, "-m", "bayesdp", "demo", "--output", "shown")
    for part in ("berkeley", "illinois"):
        page = tmp_path / "shown" / part / "report.html"
        assert str(page) in shown
        assert page.read_text().startswith("<!DOCTYPE html>")
