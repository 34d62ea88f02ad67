"""What the pages of mechanisms have beside their docstrings, and the page that lists them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from bayesdp import mechanisms
from bayesdp.papers import bounded_statistics, covariance_cone
from pages import calibrated, examples, laws

__all__ = ["after", "public", "write"]


def public() -> dict[str, type[Any]]:
    """Public mechanisms by the names of their classes: what can release, and is not a release."""
    found = {}
    listed = [(own, name) for own in (mechanisms, bounded_statistics, covariance_cone) for name in own.__all__]
    for module, name in listed:
        value = getattr(module, name)
        if (
            isinstance(value, type)
            and inspect.isroutine(getattr(value, "release", None))
            and name not in examples.WITHOUT
        ):
            found[name] = value
    return found


def write(made: Path) -> None:
    """Write ``mechanisms.rst``."""
    text = "Mechanisms\n==========\n\nEach page has an example, its guarantee in full, and how its posteriors were checked.\n\n"
    text += ".. list-table::\n   :header-rows: 1\n\n   * - mechanism\n     - definition of privacy\n     - law of the noise\n"
    for name in public():
        own = examples.instances().get(name)
        definition = getattr(getattr(own, "guarantee", None), "kind", "see its page")
        law = getattr(own, "law", None)
        shown = "see its page" if law is None else f":py:obj:`{law.name} <{laws.full_name(type(law))}>`"
        text += f"   * - :doc:`{name} <{examples.page(name)}>`\n     - {definition}\n     - {shown}\n"
    (made / "mechanisms.rst").write_text(text + "\n", encoding="utf-8")
    table = calibrated.front_table() + "\n"
    (made / "_parts").mkdir(parents=True, exist_ok=True)
    (made / "_parts/calibration.md").write_text(table, encoding="utf-8")


def after(value: Any) -> str:
    """The guarantee of an example, and the calibration."""
    if not isinstance(value, type) or public().get(value.__name__) is not value:
        return ""
    text = ""
    made = examples.instances().get(value.__name__)
    if made is not None:
        stated = "\n".join("   " + line if line else "" for line in examples.guarantee_text(made).splitlines())
        text += ".. rubric:: What an example protects\n\nIts guarantee for a small example, in its own words:\n\n"
        text += f".. code-block:: text\n   :class: guarantee\n\n{stated}\n\n"
        law = getattr(made, "law", None)
        if law is not None:
            text += f"Its noise: :py:obj:`{law.name} <{laws.full_name(type(law))}>`.\n\n"
    rows = calibrated.rows(frozenset({value}))
    if rows:
        text += (
            ".. rubric:: Are the posteriors right?\n\nFrom :doc:`the calibration </explanations/calibration-table>`:\n\n"
            + rows
        )
    return text
