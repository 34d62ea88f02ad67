"""What the README tells a reader to type, works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bayesdp as bdp

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for own, text in fenced if own == language]


def test_the_ten_lines_run(capsys):
    [block] = blocks("python")
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert "[18. 24. 13.]" in capsys.readouterr().out  # the exact rows, kept by every draw
    assert names["posterior"]["diagnostics"].attrs["converged"] == 1
    assert isinstance(names["release"], bdp.Release)


def test_it_is_short_and_links_to_pages_that_exist():
    assert len(README) < 5000
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(targets) >= 12
    for target in targets:
        assert target.startswith("https://") or (ROOT / target).is_file(), (
            f"README.md links to {target}, which is not there"
        )


def test_the_example_of_the_page_on_calibration_runs(capsys):
    [block] = blocks("python", (ROOT / "docs" / "CALIBRATION.md").read_text(encoding="utf-8"))
    exec(compile(block, "CALIBRATION.md", "exec"), {})
    assert capsys.readouterr().out == "True\n"


def test_the_example_of_the_page_on_designs_runs(capsys):
    [block] = blocks("python", (ROOT / "docs" / "how-to" / "design-a-release.md").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    exec(compile(block, "design-a-release.md", "exec"), names)
    result = names["result"]
    # One record that moves within a county is 2 in l1, for every candidate.
    assert result.data["loss"].values.tolist() == [0.5, 2.0, 0.5]
    widths = result.data["width"].sel(probability=0.95, question="people in Alpha").values
    assert widths[0] > widths[1] > widths[2] == 0.0  # exact counties leave nothing to ask
    assert "counties exact, 0.25" in capsys.readouterr().out


@pytest.mark.parametrize("target", re.findall(r"^make ([a-z-]+)", "\n".join(blocks("")), re.MULTILINE))
def test_the_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_epsilon_of_ten_releases_by_convolution():
    text = " ".join((ROOT / "docs/reference/overview.md").read_text(encoding="utf-8").split())
    assert "(ten discrete Laplace releases of epsilon 0.2 have epsilon 1.789 at delta 1e-6, not 2)" in text
    own = bdp.mechanisms.DiscreteLaplace(bdp.Invariants((), {"cell": list("abcd")}), epsilon=0.2)
    both = bdp.compose(*[own.release([3, 1, 4, 1], rng=k) for k in range(10)], at_delta=1e-6)
    rows = [row for row in both.guarantee.pairs if "convolution" in row.relation and "neighbour" in row.relation]
    assert [round(row.loss["epsilon"], 3) for row in rows] == [1.789]
    assert both.guarantee.pairs[0].loss["epsilon"] == pytest.approx(2.0)


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(own.relative_to(ROOT)) for own in sorted((ROOT / "docs" / "how-to").glob("*.md"))),
]


def test_the_files_that_pages_name_exist():
    named = {
        (page, path)
        for page in PAGES
        for path in re.findall(
            r"`((?:docs|models|notebooks|tests|benchmarks)/[\w./-]*)`", (ROOT / page).read_text("utf-8")
        )
    }
    assert len(named) > 10
    assert not [own for own in sorted(named) if not (ROOT / own[1]).exists()]
