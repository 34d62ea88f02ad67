"""Versions, seed, command and date."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import bayesdp
from bayesdp.release import Release
from bayesdp.report.context import Whole
from bayesdp.report.html import Html, element, items, joined, paragraph
from bayesdp.report.tables import facts

ANCHOR = "provenance"
TITLE = "Versions, seed, command"


def write(whole: Whole) -> Html:
    """The section."""
    attrs = whole.tree.attrs
    unknown = "not recorded"
    rows = [
        ("Posterior drawn", str(attrs.get("created", unknown))),
        ("with bayesdp", str(attrs.get("bayesdp_version", unknown))),
        ("PyMC, NumPy", f"{attrs.get('pymc_version', unknown)}, {attrs.get('numpy_version', unknown)}"),
        ("Seed of the sampler", str(attrs.get("seed", unknown))),
        ("Command", element("code", whole.tables[0].command) if whole.tables[0].command else unknown),
        ("Mechanism", _mechanism(whole)),
        ("Report written", datetime.now(UTC).isoformat(timespec="seconds")),
        (
            "with",
            f"bayesdp {bayesdp.__version__}, ArviZ {version('arviz')}, Matplotlib {version('matplotlib')}",
        ),
    ]
    note = paragraph(
        "The seed is that of the MCMC sampler. No seed and no state of the noise is stored anywhere.", class_="note"
    )
    described = whole.described
    if described.text and described.model:
        model = element("details", element("summary", "The model as PyMC prints it"), element("pre", described.model))
        return joined([facts(rows), note, model])
    return joined([facts(rows), note])


def _mechanism(whole: Whole) -> Any:
    stated = []
    for context in whole.tables:
        for i, release in enumerate(context.fit.releases):
            number = [f"release {i + 1}"] if len(context.fit.releases) > 1 else []
            named = [context.fit.name] if context.several else []
            which = ", ".join([*named, *number])
            stated.append(f"{which}: {_of_release(release)}" if which else _of_release(release))
    return stated[0] if len(stated) == 1 else items(stated)


def _of_release(release: Release) -> str:
    if release.mechanism is None:
        return "not stated by the release"
    shown = {key: value for key, value in release.mechanism.items() if isinstance(value, str | int | float)}
    return ", ".join(f"{key}: {value}" for key, value in shown.items()) or "stated by the release"
