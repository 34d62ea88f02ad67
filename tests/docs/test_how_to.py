"""The how-to guides: each is listed, has an example (a doctest, collected from ``docs/*.md``), and commands that work."""

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest

import bayesdp as bdp
from bayesdp.cli import main, parser

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "how-to"
PAGES = sorted(set(GUIDES.glob("*.md")) - {GUIDES / "index.md"})


def fenced(page, language):
    """The code of a page in a language ("" for what has none)."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for own, text in found if own == language]


def commands(page):
    """The ``bayesdp`` commands of a page, without continuation lines."""
    lines = "\n".join(fenced(page, "")).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("bayesdp ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_guide_is_listed_has_an_example_and_tells_commands_that_there_are(page):
    text, index = page.read_text(encoding="utf-8"), (GUIDES / "index.md").read_text(encoding="utf-8")
    [tree] = re.findall(r"^```\{toctree\}\n(.*?)^```$", index, re.MULTILINE | re.DOTALL)
    assert f"]({page.name})" in index, f"{page.name} answers no question of the index"
    assert page.stem in tree.splitlines(), f"{page.name} is not in the toctree of the index"
    assert doctest.DocTestParser().get_examples(text) or fenced(page, "python"), f"{page.name} has no example"
    for arguments in commands(page):
        parser().parse_args(arguments)
    [subcommands] = [own for own in parser()._actions if own.dest == "command"]
    for told in re.findall(r"`bayesdp ([^`]+)`", text):
        name, *rest = told.split()
        known = subcommands.choices[name].format_help()
        for option in (own for own in rest if own.startswith("-")):
            assert re.search(rf"(?<![\w-]){re.escape(option)}\b", known), f"{page.name}: bayesdp {name} has no {option}"


@pytest.mark.system
def test_the_commands_from_published_files_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "notebooks" / "data", "notebooks/data")
    own = commands(GUIDES / "published-files.md")
    assert [arguments[0] for arguments in own] == ["import", "fit", "summary", "report"]
    own[1] += ["--cores", "1", "--quiet", "--draws", "1000", "--tune", "500"]  # fewer than the page says, and enough
    assert [main(arguments) for arguments in own] == [0, 0, 0, 0]
    assert "95% equal-tailed interval" in capsys.readouterr().out
    assert "<html" in Path("report.html").read_text(encoding="utf-8")


def test_the_command_that_makes_a_release_runs_and_the_noise_json_written_by_hand_is_complete(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bdp.datasets.delinquent_children().rename("count").to_dataframe().to_csv("table.csv")
    [arguments] = commands(GUIDES / "make-a-release.md")
    assert main(arguments) == 0
    assert bdp.Release.from_netcdf("published.nc").invariants.rank == 7
    page = GUIDES / "share-noise.md"
    [noise] = fenced(page, "json")
    [table] = [own for own in fenced(page, "") if not own.startswith("bayesdp")]
    Path("DATA.csv").write_text(table)
    Path("DATA.noise.json").write_text(noise)
    cells, total = bdp.Release.from_csv("DATA.csv").measurements
    assert cells.labelled.sel(county="Beta", education="Low") == 20
    assert total.labelled == 37
