"""The site as it is built: no warning, no dead link, nothing from another machine, a text for every picture, and its search.

``BAYESDP_SITE=folder`` names a site that has been built (`make docs` does that); without it the site is built here.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow  # a minute of a processor


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.sources, self.without_text = [], set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.anchors |= {own.get("id"), own.get("name")} - {None, ""}
        loads = tag == "link" and own.get("rel") in ("stylesheet", "preload", "icon", "preconnect")
        if tag in ("script", "img", "iframe", "source"):
            self.sources.append(own.get("src") or "")
        elif own.get("href") and (tag == "a" or loads):
            (self.sources if loads else self.links).append(own["href"])
        if tag == "img" and not (own.get("alt") or "").strip() and own.get("role") != "presentation":
            self.without_text.append(own.get("src", "?"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if given := os.environ.get("BAYESDP_SITE"):
        assert (ROOT / given / "index.html").is_file(), f"{given} has no site: make docs"
        return (ROOT / given).resolve()
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, *"-m sphinx -q -W --keep-going -b html -d".split(), folder / "trees", ROOT / "docs"]
    built = subprocess.run([*command, folder / "html"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    return folder / "html"


@cache
def page_of(path):
    return Page(path.read_text(encoding="utf-8"))


def test_every_link_and_anchor_is_there(site):
    for path in site.rglob("*.html"):
        for link in page_of(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path}: {link}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in page_of(target).anchors, f"{path}: {link}"


def test_nothing_is_loaded_from_elsewhere_every_picture_has_a_text_and_it_is_not_heavy(site):
    for path in site.rglob("*.html"):
        page = page_of(path)
        assert not [source for source in page.sources if urlsplit(source).netloc], path
        assert not page.without_text, path
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert "url(http" not in text.replace('"', "").replace("'", ""), sheet
        assert "@import" not in text or "//" not in text.split("@import", 1)[1].split(";", 1)[0], sheet
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 20e6


_SEARCH = """
const fs = require("fs"), vm = require("vm"), [folder, ...queries] = process.argv.slice(1);
const page = { documentElement: { dataset: {} }, getElementById: () => null };
const world = { document: page, SPHINX_HIGHLIGHT_ENABLED: false, _ready: () => null, _: (text) => text, queries };
vm.createContext(Object.assign(world, { window: world }));
const static = ["base-stemmer", "english-stemmer", "documentation_options", "language_data", "searchtools"];
for (const name of [...static.map((name) => "_static/" + name), "searchindex"])
  vm.runInContext(fs.readFileSync(`${folder}/${name}.js`, "utf8"), world);
const found = "queries.map((query) => Search._performSearch(...Search._parseQuery(query)).reverse().map((own) => own[5]))";
console.log(vm.runInContext(`JSON.stringify(${found})`, world));
"""
"""Sphinx's own search, without a browser: the files that each query finds, the best first (5 is the place of a result's file)."""


@pytest.mark.skipif(shutil.which("node") is None, reason="node, which runs the site's search, is not here")
def test_the_search_leads_to_the_pages(site):
    derived = ["ratio", "rank", "ranks", "share", "compare", "share of women"]
    agencies = ["Australia", "Canada", "New Zealand", "Scotland", "England", "United Kingdom", "Germany", "Census", "ACS",
                "American Community Survey", "DHC-A", "Statistics Canada", "Stats NZ", "Destatis", "Wikimedia"]  # fmt: skip
    wanted = dict.fromkeys(derived, "how-to/derived-quantities.md") | dict.fromkeys(agencies, "how-to/by-agency.md")
    command = ["node", "-e", _SEARCH, str(site), *wanted]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert told.returncode == 0, told.stderr
    for (query, page), files in zip(wanted.items(), json.loads(told.stdout), strict=True):
        assert page in files[:5], f"{query}: {files[:8]}"
