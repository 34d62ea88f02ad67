"""Links of README and of the pages as a code host follows them: relative to the file, to what is there, and to its headings."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *(path for path in (ROOT / "docs").rglob("*.md") if not {"made", "_build"} & set(path.parts)),
]
LINK = re.compile(r"(?<!`)\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\s*\[[^\]]+\]:\s+(\S+)", re.MULTILINE)


def prose(path):
    """The text without blocks and spans of code, in which nothing is a link."""
    text = re.sub(r"^(`{3,}|~{3,}).*?^\1\s*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda own: "x" * len(own[0]), text)


def links(path):
    return [one or other for one, other in LINK.findall(prose(path))]


@cache
def headings(path):
    """Anchors as a code host makes them of headings."""
    lines = re.sub(
        r"^(`{3,}).*?^\1\s*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    ).splitlines()
    titles = [line.lstrip("#").strip() for line in lines if re.match(r"#{1,6} ", line)]
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def wrong(path, link):
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    if link.startswith("/"):
        return "begins with /"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(ROOT) or not target.exists() or "made" in target.parts:
        return "leads nowhere"
    if parts.fragment and target.suffix == ".md" and parts.fragment not in headings(target):
        return "has no such heading"
    return None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path):
    dead = [f"{link} {why}" for link in links(path) if (why := wrong(path, link))]
    assert not dead, "\n".join(dead)


def test_links_are_found_and_dead_ones_are_seen():
    page = ROOT / "docs" / "how-to" / "not-converged.md"
    assert sum(len(links(path)) for path in PAGES) > 100
    assert wrong(page, "/CALIBRATION.md") == "begins with /"
    assert wrong(page, "../made/command-line.md") == "leads nowhere"
    assert wrong(page, "../FILES.md#no-such-heading") == "has no such heading"
    assert wrong(page, "../FILES.md#several-noisy-files") is None


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_link_to_notebooks_only(path):
    """The site has them in another folder than the repository, with no pages beside them but those of notebooks."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    inside = [one or other for one, other in LINK.findall(text) if not urlsplit(one or other).scheme]
    assert not [
        link for link in inside if link.startswith(("/", ".")) or not (path.parent / link.split("#")[0]).exists()
    ]
