"""The files around the package agree with it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import bayesdp
from bayesdp.noise import law_names

ROOT = Path(__file__).resolve().parents[1]


def test_the_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == bayesdp.__version__


def test_the_changelog_has_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = "Unreleased" if ".dev" in bayesdp.__version__ else bayesdp.__version__
    assert f"## [{heading}]" in changelog


def test_the_licence_of_the_shipped_data_is_shipped():
    licence = (ROOT / "bayesdp/datasets/midwest_counties.LICENSE").read_text(encoding="utf-8")
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    holder = "Copyright (c) 2022 Hassan Kibirige"
    assert "MIT License" in licence
    assert holder in licence
    assert holder in notice
    for text in ((ROOT / "bayesdp/datasets/morocco_2024.LICENSE").read_text(encoding="utf-8"), notice):
        assert "Haut-Commissariat au Plan" in text
        assert "CC BY 4.0" in text
    for name, holder, terms in (
        ("abs_2016", "Source: Australian Bureau of Statistics", "CC BY 2.5 AU"),
        ("statsnz_2013", "Stats NZ", "CC BY 4.0"),
    ):
        for text in ((ROOT / f"bayesdp/datasets/{name}.LICENSE").read_text(encoding="utf-8"), notice):
            assert holder in text
            assert terms in text
        assert f"bayesdp/datasets/{name}.LICENSE" in notice


@pytest.mark.parametrize(
    "target",
    [
        *("install", "demo", "dist", "test", "test-system", "test-full", "test-lowest"),
        *("fuzz", "lint", "bench", "notebooks", "lock"),
    ],
)
def test_contributors_are_told_about_targets_that_exist(target):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert f"make {target}" in contributing


def test_continuous_integration_leaves_out_slow_tests_only():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for target, marks in (("test", "not slow and not system"), ("test-system", "system and not slow")):
        assert re.search(rf'^{target}: .*\n.* -m "{marks}"', makefile, re.MULTILINE)
        assert re.search(rf"^step {target} run_tests {target}$", run, re.MULTILINE)


@pytest.mark.parametrize("path", sorted((ROOT / "bayesdp").iterdir()), ids=lambda path: path.name)
def test_the_map_of_the_house_is_complete(path):
    if path.name.startswith("__") or path.name == "py.typed":
        return
    name = f"`{path.name}/`" if path.is_dir() else f"`{path.name}`"
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert name in contributing, f"CONTRIBUTING.md does not say what {name} is for"


def _laws_by_name(source: str, names: set[str]) -> list[str]:
    """Comparisons of something's name, or of a choice, with the name of a law: what the law should be asked instead."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith((".name", "['law']", '["law"]')):
            texts = {
                own.value for own in ast.walk(node) if isinstance(own, ast.Constant) and isinstance(own.value, str)
            }
            found += [ast.unparse(node)] if texts & names else []
    return found


def test_no_law_is_told_by_its_name() -> None:
    names = set(law_names().split(", "))
    assert "laplace" in names
    found = {
        path.name: _laws_by_name(path.read_text(encoding="utf-8"), names) for path in (ROOT / "bayesdp").rglob("*.py")
    }
    assert not {name: own for name, own in found.items() if own}
    assert _laws_by_name("if law.name == 'laplace' or part['law'] in ('tulap',): pass", names) != []


def test_the_lowest_versions_that_are_stated_are_those_of_the_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [
        *project["dependencies"],
        *(own for extra in project["optional-dependencies"].values() for own in extra),
    ]
    bounds = dict(re.match(r"([\w-]+)>=([\d.]+)", own).groups() for own in required)
    page = (ROOT / "docs/VERSIONS.md").read_text(encoding="utf-8").partition("## Lowest versions")[2]
    stated = {
        name: version for name, version, _ in re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| (.+) \|$", page, re.MULTILINE)
    }
    assert stated == bounds
