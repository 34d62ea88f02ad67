"""The sources of the site, without building it: every name has a page, every link and every See Also leads somewhere."""

import inspect
import json
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from numpydoc.docscrape import NumpyDocString

import bayesdp
from bayesdp.cli import parser
from bayesdp.noise.base import law_names, registered_law

from pages import command_line, examples, formulas, law_pictures, laws, mechanisms, notebooks, publishers, reference  # isort: skip  # from docs/
from tests.noise.contract.examples import example_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All pages that follow from the package, with empty pictures."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(law_pictures, "draw", lambda example, path: "a picture")
        for part in (formulas, notebooks, command_line, laws, mechanisms, reference):
            part.write(folder)
    return folder


def test_what_is_in_it_can_be_scanned():
    """Short sections of short lines, all of which are read at a glance."""
    _, *sections = re.split(
        r"^## ", (DOCS / "reference" / "overview.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert len(sections) > 8
    for title, *lines in (section.splitlines() for section in sections):
        assert 2 <= sum(line.startswith("- ") for line in lines) <= 7, title
        assert all(len(line) < 170 for line in (title, *lines)), title


PUBLIC_LAWS = [name for name in law_names().split(", ") if laws.full_name(registered_law(name))]


def test_every_public_name_has_a_page(made):
    entries = "".join(path.read_text() for path in (made / "reference").glob("*.rst"))
    documented = set(re.findall(r"^\.\. auto(?:class|function|data|exception|module):: (\S+)$", entries, re.MULTILINE))
    owners = reference.owners() | {f"bayesdp.{name}": f"bayesdp.{name}" for name in reference.PUBLIC}
    packages = ["bayesdp", *(f"bayesdp.{own}" for own in (*reference.PUBLIC, *reference.BLOCKS))]
    names = [f"{package}.{name}" for package in packages for name in import_module(package).__all__]
    assert not [name for name in names if owners[name] not in documented]
    index = (DOCS / "reference/index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^/made/reference/(\S+)$", index, re.MULTILINE))
    assert listed == {own for own in packages if (made / f"reference/{own}.rst").exists()}


def test_every_law_and_every_mechanism_has_its_page_and_laws_draw_themselves(made, tmp_path):
    for name in ("discrete-laplace", "truncated-laplace", "lattice-laplace", "cell-key"):
        assert name in law_pictures.draw(example_of(name), tmp_path / "law.svg")
        assert "<svg" in (tmp_path / "law.svg").read_text()
    for name in PUBLIC_LAWS:
        law = registered_law(name)
        text = (made / f"reference/{laws.page(law)}.rst").read_text()
        assert f"_static/laws/{name}.svg" in text, name
        assert ":alt: a picture" in text
        for searched in (name, name.replace("-", " ")):  # what a reader types into the search
            assert f"   ! single: {searched}\n" in text, name
        assert re.search(r"PyMC distribution: :py:obj:`bayesdp\.(distributions|papers\.models)\.", text), name
        missing = [fact for fact in ("support", "mean", "variance") if fact not in law.__doc__.lower()]
        assert not missing, f"the docstring of {law.__name__} does not say its {missing}"
    assert set(publishers.PUBLISHERS) == set(PUBLIC_LAWS)  # who publishes data with each law
    for name in mechanisms.public():
        assert name in examples.instances(), f"docs/pages/examples.py has no example of the mechanism {name}"
        text = (made / f"{examples.page(name).removeprefix('/made/')}.rst").read_text()
        assert "What an example protects" in text
        assert examples.guarantee_text(examples.instances()[name]).splitlines()[0].strip() in text


def test_the_front_page_and_the_command_line_are_complete(made):
    text = (made / "command-line.md").read_text()
    [commands] = [own for own in parser()._actions if own.dest == "command"]
    for name in commands.choices:
        assert f"## `bayesdp {name}`" in text
        assert f"usage: bayesdp {name}" in text
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    [picture] = re.findall(r"```\{image\} /(\S+)\n:alt: (.{40,})", text)
    assert (DOCS / picture[0]).exists()
    assert text.count("{grid-item-card}") == 6


PAGES = [*ROOT.glob("*.md"), *(path for path in DOCS.rglob("*.md") if not {"made", "_build"} & set(path.parts))]
LINK = re.compile(r"(?<!`)\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\s*\[[^\]]+\]:\s+(\S+)", re.MULTILINE)


def without_code(path):
    """The text without blocks of code, but with the directives of the site."""
    return re.sub(r"^(`{3,}|~{3,})(?!\{).*?^\1", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(text):
    return [one or other for one, other in LINK.findall(re.sub(r"`[^`\n]*`", lambda own: "x" * len(own[0]), text))]


@cache
def anchors(path):
    """Headings as code hosts and MyST make anchors of them, and anchors that were set."""
    text = without_code(path)
    heads = re.findall(r"^#+ +(.*?)\s*$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head).lower() for head in heads)
    own = {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in plain}
    return own | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def wrong(page, link):
    """What is wrong with a link as a code host follows it: relative to the file, to what is there, and to its headings."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    if link.startswith("/"):
        return "begins with /"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_relative_to(ROOT) or not target.exists() or "made" in target.parts:
        return "leads nowhere"
    if parts.fragment and target.suffix == ".md" and parts.fragment not in anchors(target):
        return "has no such heading"
    return ""


def test_every_link_leads_somewhere_and_notebooks_link_to_notebooks_and_pages_only():
    """The site has notebooks in another folder than the repository: `pages.notebooks` changes links to ``../docs/``."""
    found = [(page, link) for page in PAGES for link in links(without_code(page))]
    linked = re.compile(r"^:link: (how\S+)$", re.MULTILINE)
    cards = [(page, f"{link}.md") for page in PAGES for link in linked.findall(page.read_text())]
    assert len(found) > 100
    assert len(cards) == 5
    assert not [f"{page}: {link} {why}" for page, link in found + cards if (why := wrong(page, link))]
    page = DOCS / "how-to" / "not-converged.md"
    assert wrong(page, "/CALIBRATION.md") == "begins with /"
    assert wrong(page, "../made/command-line.md") == "leads nowhere"
    assert wrong(page, "../FILES.md#no-such-heading") == "has no such heading"
    assert wrong(page, "../FILES.md#several-noisy-files") == ""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        inside = [link for link in links(text) if not urlsplit(link).scheme]
        assert not [link for link in inside if wrong(path, link)], path
        assert all(re.match(r"[\w-]+\.ipynb|\.\./docs/[\w/-]+\.md", link) for link in inside), path


def objects():
    """Public names and the documented members of public classes, each with the object in whose module it is written."""
    for full in sorted(set(reference.owners().values())):
        package, _, name = full.rpartition(".")
        value = getattr(import_module(package), name)
        if not (isinstance(value, type) or inspect.isroutine(value)) or not value.__module__.startswith("bayesdp"):
            continue
        yield full, value, value
        for member, raw in vars(value).items() if isinstance(value, type) else ():
            if not member.startswith("_") and not isinstance(raw, (int, str, float)):
                yield f"{full}.{member}", value, raw


PACKAGES = ("bayesdp", "pymc", "arviz", "numpy", "scipy", "xarray", "pandas", "multiprocessing")


def is_there(name, home):
    """Whether a name means something: in full, in the module it is written in, in a class, or in a public package."""
    first, *parts = name.split(".")
    if first in PACKAGES:
        starts = [import_module(first)]
    else:
        starts = [sys.modules[home.__module__], home, *map(import_module, reference._packages())]
        parts = name.split(".")
    for value in starts:
        for part in parts:
            inside = sys.modules.get(f"{value.__name__}.{part}") if inspect.ismodule(value) else None
            value = getattr(value, part, inside)
        if value is not None:
            return True
    return False


def test_every_see_also_is_there():
    looked_at = []
    for full, home, value in objects():
        if "See Also" in (text := inspect.getdoc(value) or ""):
            looked_at += [(full, name, home) for names, _ in NumpyDocString(text)["See Also"] for name, _ in names]
    assert len(looked_at) > 100
    assert not [f"{full}: {name}" for full, name, home in looked_at if not is_there(name, home)]
    assert not is_there("bayesdp.noise.NoSuchLaw", bayesdp.Release)
    assert not is_there("NoSuchName", bayesdp.Release)
