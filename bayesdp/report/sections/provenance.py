"""Versions, seed, command and date."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version

import bayesdp
from bayesdp.report.context import Context
from bayesdp.report.html import Html, element, paragraph
from bayesdp.report.tables import facts

__all__ = ["ANCHOR", "TITLE", "write"]

ANCHOR = "provenance"
TITLE = "Versions, seed, command"


def write(context: Context) -> Html:
    """The section."""
    attrs = context.tree.attrs
    unknown = "not recorded"
    rows = [
        ("Posterior drawn", str(attrs.get("created", unknown))),
        ("with bayesdp", str(attrs.get("bayesdp_version", unknown))),
        ("PyMC, NumPy", f"{attrs.get('pymc_version', unknown)}, {attrs.get('numpy_version', unknown)}"),
        ("Seed of the sampler", str(attrs.get("seed", unknown))),
        ("Command", element("code", context.command) if context.command else unknown),
        ("Mechanism", _mechanism(context)),
        ("Report written", datetime.now(UTC).isoformat(timespec="seconds")),
        (
            "with",
            f"bayesdp {bayesdp.__version__}, ArviZ {version('arviz')}, Matplotlib {version('matplotlib')}",
        ),
    ]
    note = paragraph(
        "The seed is that of the MCMC sampler. No seed and no state of the noise is stored anywhere.", class_="note"
    )
    return Html(facts(rows) + note)


def _mechanism(context: Context) -> str:
    if context.release.mechanism is None:
        return "not stated by the release"
    shown = {key: value for key, value in context.release.mechanism.items() if isinstance(value, str | int | float)}
    return ", ".join(f"{key}: {value}" for key, value in shown.items()) or "stated by the release"
