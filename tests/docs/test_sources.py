"""The sources of the site, without building it: every name has a page, every link of a text leads somewhere."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

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


def public_laws():
    return [name for name in law_names().split(", ") if laws.full_name(registered_law(name))]


@pytest.mark.parametrize("package", ["bayesdp", *(f"bayesdp.{own}" for own in (*reference.PUBLIC, *reference.BLOCKS))])
def test_every_public_name_has_a_page(made, package):
    entries = "".join(path.read_text() for path in (made / "reference").glob("*.rst"))
    documented = set(re.findall(r"^\.\. auto(?:class|function|data|exception|module):: (\S+)$", entries, re.MULTILINE))
    owners = reference.owners()
    for name in import_module(package).__all__:
        if package == "bayesdp" and name in reference.PUBLIC:
            assert f"bayesdp.{name}" in documented, name
        else:
            assert owners[f"{package}.{name}"] in documented, f"{package}.{name} has no page"


def test_the_reference_lists_every_package(made):
    index = (DOCS / "reference/index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^/made/reference/(\S+)$", index, re.MULTILINE))
    assert listed == {path.stem for path in (made / "reference").glob("*.rst") if path.stem.removeprefix("bayesdp.") in (
        "bayesdp", *reference.PUBLIC, *reference.BLOCKS
    )}  # fmt: skip


@pytest.mark.parametrize("name", public_laws())
def test_every_law_has_its_page(made, name):
    law = registered_law(name)
    text = (made / f"reference/{laws.page(law)}.rst").read_text()
    assert f"_static/laws/{name}.svg" in text
    assert ":alt: a picture" in text
    assert f"   ! single: {name}\n" in text
    assert f"   ! single: {name.replace('-', ' ')}\n" in text  # what a reader types into the search
    assert re.search(r"PyMC distribution: :py:obj:`bayesdp\.(distributions|papers\.models)\.", text)
    assert name in publishers.PUBLISHERS, (
        f"docs/pages/publishers.py says nothing of who publishes data with the law {name!r}"
    )
    for fact in ("Support", "Mean", "Variance"):
        assert fact.lower() in law.__doc__.lower(), f"the docstring of {law.__name__} does not say its {fact.lower()}"


def test_nothing_is_said_of_laws_that_are_not_there():
    assert set(publishers.PUBLISHERS) <= set(public_laws())


@pytest.mark.parametrize("name", mechanisms.public())
def test_every_mechanism_has_its_page_with_a_guarantee(made, name):
    assert name in examples.instances(), f"docs/pages/examples.py has no example of the mechanism {name}"
    text = (made / f"{examples.page(name).removeprefix('/made/')}.rst").read_text()
    assert "What an example protects" in text
    first = examples.guarantee_text(examples.instances()[name]).splitlines()[0].strip()
    assert first in text


def test_the_command_line_is_the_parsers(made):
    text = (made / "command-line.md").read_text()
    [commands] = [own for own in parser()._actions if own.dest == "command"]
    for name in commands.choices:
        assert f"## `bayesdp {name}`" in text
        assert f"usage: bayesdp {name}" in text


@pytest.mark.parametrize(
    "name", ["discrete-laplace", "truncated-laplace", "lattice-laplace", "rescaled-laplace", "cell-key"]
)
def test_laws_draw_themselves(tmp_path, name):
    alt = law_pictures.draw(example_of(name), tmp_path / "law.svg")
    assert name in alt
    assert "<svg" in (tmp_path / "law.svg").read_text()


def anchors(path: Path) -> set[str]:
    """Headings as GitHub and MyST make anchors of them, and anchors that were set."""
    text = re.sub(r"^(```+|~~~+).*?^\1", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ +(.*?)\s*$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head).lower() for head in heads)
    return {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in plain} | set(
        re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)
    )


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(p for p in DOCS.rglob("*.md") if "made" not in p.parts)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_texts_lead_somewhere(made, page):
    text = re.sub(r"^(```+)(?!\{).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)", text) + re.findall(r"^:link: (\S+)$", text, re.MULTILINE)
    for link in links:
        if re.match(r"(https?|mailto):", link):
            continue
        path, _, anchor = link.partition("#")
        start = DOCS if path.startswith("/") else page.parent
        target = page if not path else start / path.lstrip("/")
        if "made" in target.parts:
            target = made / target.relative_to(DOCS / "made")
        there = [
            own
            for own in (target, *(target.with_name(target.name + end) for end in (".md", ".rst", ".ipynb")))
            if own.exists()
        ]
        assert there, f"{page.relative_to(ROOT)}: {link} leads nowhere"
        if anchor and there[0].suffix == ".md":
            assert anchor in anchors(there[0]), f"{page.relative_to(ROOT)}: {link} has no such heading"


def test_the_front_page_is_complete():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    [picture] = re.findall(r"```\{image\} /(\S+)\n:alt: (.{40,})", text)
    assert (DOCS / picture[0]).exists()
    assert text.count("{grid-item-card}") == 6
