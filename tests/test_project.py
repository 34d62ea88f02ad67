"""The project: its interface, versions, licences, map, golden numbers, lists of slow tests and of faults."""

import ast
import difflib
import json
import re
import tomllib
from pathlib import Path

import pytest

import bayesdp
from bayesdp.noise import law_names
from tests import api_snapshot, golden
from tests.mutations import mutations
from tests.slow_ids import SLOW, is_slow

ROOT = Path(__file__).resolve().parents[1]


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_versions_are_those_of_the_package_and_of_the_bounds_and_licences_of_data_are_shipped():
    assert re.search(r"^version: (.+)$", _text("CITATION.cff"), re.MULTILINE)[1] == bayesdp.__version__
    heading = "Unreleased" if ".dev" in bayesdp.__version__ else bayesdp.__version__
    assert f"## [{heading}]" in _text("CHANGELOG.md")
    notice = _text("NOTICE")
    for name, holder, terms in (
        ("midwest_counties", "Copyright (c) 2022 Hassan Kibirige", "MIT License"),
        ("morocco_2024", "Haut-Commissariat au Plan", "CC BY 4.0"),
        ("abs_2016", "Source: Australian Bureau of Statistics", "CC BY 2.5 AU"),
        ("statsnz_2013", "Stats NZ", "CC BY 4.0"),
    ):
        assert all(own in _text(f"bayesdp/datasets/{name}.LICENSE") for own in (holder, terms))
        assert holder in notice
        assert terms in notice or not terms.startswith("CC")
        assert f"bayesdp/datasets/{name}.LICENSE" in notice or name in ("midwest_counties", "morocco_2024")
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    required = sum(project["optional-dependencies"].values(), project["dependencies"])
    bounds = dict(re.match(r"([\w-]+)>=([\d.]+)", own).groups() for own in required)
    page = _text("docs/VERSIONS.md").partition("## Lowest versions")[2]
    assert dict(re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| .+ \|$", page, re.MULTILINE)) == bounds


def test_the_map_has_every_package_in_the_order_of_imports_and_fits_on_one_screen():
    rows = re.findall(r"^\| `(\w+)/` \|", _text("CONTRIBUTING.md"), flags=re.M)
    assert len(rows) <= 22
    assert sorted(rows) == sorted(own.parent.name for own in (ROOT / "bayesdp").glob("*/__init__.py"))
    contracts = tomllib.loads(_text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    [layers] = [own["layers"] for own in contracts if own["id"] == "layers"]
    order = [own.strip("()") for own in reversed(layers)]
    assert rows == sorted(rows, key=order.index)


def test_contributors_are_told_about_targets_that_exist_and_of_every_package_and_ci_runs_them():
    makefile, contributing = _text("Makefile"), _text("CONTRIBUTING.md")
    targets = "install demo dist test test-system test-full test-lowest fuzz lint bench notebooks lock".split()
    missing = [own for own in targets if not re.search(rf"^{own}:", makefile, re.MULTILINE)]
    missing += [own for own in targets if f"make {own}" not in contributing]
    for path in (ROOT / "bayesdp").iterdir():
        name = f"`{path.name}/`" if path.is_dir() else f"`{path.name}`"
        if not path.name.startswith("__") and path.name != "py.typed" and name not in contributing:
            missing.append(name)
    assert not missing
    run = _text(".ci/run")  # continuous integration leaves out slow tests only
    for target, marks in (("test", "not slow and not system"), ("test-system", "system and not slow")):
        assert re.search(rf'^{target}: .*\n.* -m "{marks}"', makefile, re.MULTILINE)
        assert re.search(rf"^step {target} run_tests {target}$", run, re.MULTILINE)
    assert re.search(
        r"^docs: .*\n(\t.*\n)*\t@echo \"the site is at .*/build/site/index.html\"\n\n", makefile, re.MULTILINE
    )


def _laws_by_name(source, names):
    """Comparisons of something's name, or of a choice, with the name of a law: what the law should be asked instead."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith((".name", "['law']", '["law"]')):
            texts = {own.value for own in ast.walk(node) if isinstance(own, ast.Constant)}
            found += [ast.unparse(node)] if texts & names else []
    return found


def test_no_law_is_told_by_its_name():
    names = set(law_names().split(", "))
    assert "laplace" in names
    for path in (ROOT / "bayesdp").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert not any(name in source for name in names) or not _laws_by_name(source, names), path
    assert _laws_by_name("if law.name == 'laplace' or part['law'] in ('tulap',): pass", names) != []


ADVICE = (
    "The public interface is not the stored one. If that is meant: follow docs/POLICY.md (what was there goes on working, with a "
    "FutureWarning), write `python -m tests.api_snapshot`, look at the change of tests/data/api.txt, and name it in CHANGELOG.md.\n"
)


def _difference(stored, now):
    lines = difflib.unified_diff(stored.splitlines(), now.splitlines(), "stored", "now", n=0, lineterm="")
    return "\n".join(lines)


def test_the_public_interface_is_the_stored_one_and_every_public_name_has_a_line():
    stored = api_snapshot.PATH.read_text(encoding="utf-8")
    found = _difference(stored, api_snapshot.text())
    assert not found, ADVICE + found
    named = {line.partition(":")[0] for line in stored.splitlines()}
    assert {f"bayesdp.{name}" for name in bayesdp.__all__} <= named
    for package in api_snapshot.PUBLIC:
        assert {f"bayesdp.{package}.{name}" for name in getattr(bayesdp, package).__all__} <= named


class _Before:
    def method(self, table, /, *, rng=None, **options): ...

    @classmethod
    def made(cls, size=(3, "a")): ...

    @property
    def answer(self): ...


def test_the_text_has_what_callers_depend_on_and_shows_a_changed_default(monkeypatch):
    monkeypatch.setattr(_Before, "__module__", "bayesdp.somewhere")
    assert list(api_snapshot._lines("Before", _Before)) == [
        "Before: class",
        "Before.answer: property",
        "Before.made: class method(cls, size=(3, 'a'))",
        "Before.method: method(self, table, /, *, rng=None, **options)",
    ]
    stored = api_snapshot.text()
    monkeypatch.setattr(bayesdp.Frame, "__doc__", "another text is no change")
    assert api_snapshot.text() == stored
    monkeypatch.setattr(bayesdp, "compose", lambda *releases, more=1: None)
    assert "+bayesdp.compose: function(*releases, more=1)" in _difference(stored, api_snapshot.text())


THEN = golden.stored()
NAMES = [*(("laws", name) for name in golden.law_names()), *(("mechanisms", name) for name in golden.mechanism_names())]


@pytest.mark.parametrize(("kind", "name"), NAMES, ids=lambda own: own)
def test_as_written_down(kind, name):
    make = golden.law_golden if kind == "laws" else golden.mechanism_golden
    now = json.loads(json.dumps(make(name)))
    assert not list(golden.differences(now, THEN[kind][name], name, rtol=1e-9))


def test_all_that_was_written_down_is_there_and_a_difference_is_told():
    assert {(kind, name) for kind, made in THEN.items() for name in made} == set(NAMES)
    then = {"a": [1.0, {"b": "c"}], "d": 2}
    assert not list(golden.differences({"a": [1.0 + 1e-12, {"b": "c"}], "d": 2}, then, rtol=1e-9))
    assert list(golden.differences({"a": [1.0 + 1e-12, {"b": "x"}], "e": 2}, then)) == [
        "/a/0: 1.000000000001 now, 1.0 before",
        "/a/1/b: 'x' now, 'c' before",
        "/d: only before",
        "/e: only now",
    ]


def test_each_line_of_the_slow_ids_has_a_test_and_each_fault_of_the_list_can_be_made():
    assert len(set(SLOW)) == len(SLOW)
    missing = []
    for name in SLOW:
        path, _, test = name.partition("::")
        function, _, parameter = test.partition("[")
        source = _text(path)
        found = re.search(rf"^( *)def {re.escape(function)}\(", source, flags=re.MULTILINE)
        if not found or (parameter and "parametrize" not in source[: found.start()]):
            missing.append(name)
    assert not missing
    assert is_slow(SLOW[0])
    assert not is_slow("docs/how-to/comparing-priors.md::comparing-priors.md")
    every = mutations()
    assert len(every) >= 60
    assert len({mutation.old for mutation in every}) == len(every)
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "bayesdp").rglob("*.py")}
    for mutation in every:
        assert mutation.new != mutation.old
        assert any((ROOT / name).exists() for name in mutation.tests), f"none of {mutation.tests} is there"
        [place] = [path for path, text in texts.items() if mutation.old in text]
        assert texts[place].count(mutation.old) == 1
        compile(texts[place].replace(mutation.old, mutation.new), str(place), "exec")
