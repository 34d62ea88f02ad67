"""What the pages of noise laws have beside their docstrings, and the page that shows all of them.

The registry says which laws there are: a law has all of this by existing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bayesdp import noise
from bayesdp.distributions import distribution_of
from bayesdp.noise.base import law_names, registered_law
from pages import calibrated, examples, law_pictures
from pages.publishers import PUBLISHERS
from tests.noise.contract.examples import example_of

__all__ = ["after", "before", "full_name", "page", "write"]

_ALT: dict[str, str] = {}
"""Text alternatives of the pictures that were drawn, by the law's name."""


def _laws() -> dict[str, type[Any]]:
    """Public laws by their names in files."""
    found = {name: registered_law(name) for name in law_names().split(", ")}
    return {name: law for name, law in found.items() if full_name(law)}


def full_name(law: type[Any]) -> str:
    """The public name of a law, of `bayesdp.noise` or of a paper; "" where it has none."""
    if law.__module__.startswith("bayesdp.papers."):
        return f"{law.__module__}.{law.__name__}"
    return f"bayesdp.noise.{law.__name__}" if getattr(noise, law.__name__, None) is law else ""


def page(law: type[Any]) -> str:
    """The page of the reference that has the law: its own, or that of its paper."""
    name = full_name(law)
    return name.rpartition(".")[0] if name.startswith("bayesdp.papers.") else name


def _is_law(value: Any) -> bool:
    return isinstance(value, type) and value in _laws().values()


def write(made: Path) -> None:
    """Draw all laws, and write ``laws.rst``; before the pages of the reference."""
    pictures = made / "_static/laws"
    pictures.mkdir(parents=True, exist_ok=True)
    cards = ""
    for name, law in _laws().items():
        _ALT[name] = law_pictures.draw(example_of(name), pictures / f"{name}.svg")
        cards += (
            f"   .. grid-item-card:: {law.__name__}\n      :link: reference/{page(law)}\n"
            f"      :link-type: doc\n      :img-top: /made/_static/laws/{name}.svg\n      :img-alt: {_ALT[name]}\n\n"
            f"      ``{name}``\n\n"
        )
    text = "Noise laws\n==========\n\nEach law has a page with its formula, moments and support, its PyMC distribution and the\n"
    text += "mechanisms that add it; `bayesdp.noise.parse_law` reads the names. The common ones come first; what offices say that\n"
    text += "they do is in :doc:`Laws by country and agency </how-to/by-agency>`.\n\n"
    text += f".. grid:: 1 2 3 3\n   :gutter: 2\n\n{cards}"
    text += _publishers()
    (made / "laws.rst").write_text(text, encoding="utf-8")


def _publishers() -> str:
    text = "Who publishes data with which noise\n-----------------------------------\n\n"
    text += "As far as public documents say. Tell us of others.\n\n.. list-table::\n   :widths: 30 70\n\n"
    for name, law in _laws().items():
        text += f"   * - :py:obj:`{name} <{full_name(law)}>`\n     - {PUBLISHERS.get(name, '')}\n"
    return text + "\n"


def before(value: Any) -> str:
    """What the site's search finds the law by, and the picture, above the docstring."""
    if not _is_law(value):
        return ""
    # The main entry of the index comes first among what a search finds (!): the name in files, and the same in words.
    text = (
        ".. index::\n"
        + "".join(f"   ! single: {own}\n" for own in {value.name: 0, value.name.replace("-", " "): 0})
        + "\n"
    )
    text += f".. image:: /made/_static/laws/{value.name}.svg\n   :alt: {_ALT.get(value.name, '')}\n   :class: law\n\n"
    return text + f"The picture is of ``{example_of(value.name).law}``.\n\n"


def _stated(guarantee: Any) -> str:
    """Definition of privacy, and the loss for the first pair of tables that a guarantee names; its parameters if it names none."""
    pairs = getattr(guarantee, "pairs", ())
    loss = dict(pairs[0].loss) if pairs else guarantee.parameters
    numbers = ", ".join(f"{name} = {value:.4g}" for name, value in loss.items() if isinstance(value, (int, float)))
    return f"``{guarantee.kind}``, {numbers}" + (f", for {pairs[0].relation}" if pairs else "")


def after(value: Any) -> str:
    """Distribution, mechanisms, publishers, calibration."""
    if not _is_law(value):
        return ""
    distribution = distribution_of(value)
    place = distribution.__module__ if distribution.__module__.startswith("bayesdp.papers") else "bayesdp.distributions"
    adding = {kind: made for kind, made in examples.instances().items() if type(getattr(made, "law", None)) is value}
    text = f".. rubric:: In models, files and releases\n\nIn files and on the command line: ``{value.name}``.\n\n"
    text += f"PyMC distribution: :py:obj:`{place}.{distribution.__name__}`.\n\n"
    if adding:
        text += "Mechanisms that add this noise, and what they then protect (each page has an example in full):\n\n"
        for kind, made in adding.items():
            text += f"* :doc:`{kind} <{examples.page(kind)}>`: {_stated(made.guarantee)}\n"
        text += "\n"
    text += f"Who publishes such data: {PUBLISHERS.get(value.name, 'we do not know.')}\n\n"
    rows = calibrated.rows(frozenset(type(made) for made in adding.values()), value)
    if rows:
        text += (
            ".. rubric:: Are the posteriors right?\n\nFrom :doc:`the calibration </explanations/calibration-table>`:\n\n"
            + rows
        )
    return text
