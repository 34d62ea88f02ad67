"""Colours, sizes and labels that all pictures share."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from bayesdp._text import printable
from bayesdp.frames import Frame

COLOURS = {
    "posterior": "#0072B2",
    "release": "#D55E00",
    "truth": "#000000",
    "determined": "#767676",
    "prior": "#009E73",
    "grid": "#DDDDDD",
}
"""The palette of Okabe and Ito, safe for colour-blind readers; every kind also has a shape of its own."""

PUBLISHED: dict[str, Any] = {
    "color": COLOURS["release"],
    "markersize": 6,
    "markerfacecolor": "none",
    "markeredgewidth": 1.4,
}
"""How markers of published numbers look."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""The colours of Okabe and Ito one after another, for lines and for what is compared."""

MARKERS = "osD^vP*Xph<>"
"""A shape for each thing that is compared."""

WIDTH = 6.0
"""Inches: letters stay legible on a phone, where a picture is as wide as the screen."""

_LONGEST_LABEL = 34
_SHORTEST_LABEL = 8


def style() -> AbstractContextManager[None]:
    """Matplotlib's settings for these pictures; the user's own come back afterwards."""
    settings: dict[Any, Any] = {
        "font.size": 10.5,
        "axes.titlesize": 11,
        "axes.labelsize": 10.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=PALETTE),
        "legend.frameon": False,
        "legend.fontsize": 9.5,
        "figure.constrained_layout.use": True,
    }
    return mpl.rc_context(settings)


class Picture(Figure):
    """A figure that a notebook shows by itself, also where pyplot has not yet told it how to."""

    def _repr_png_(self) -> bytes:
        with BytesIO() as buffer:
            self.savefig(buffer, format="png")
            return buffer.getvalue()


def figure(height: float) -> Figure:
    """A figure without pyplot: nothing is left open, and no display is needed."""
    return Picture(figsize=(WIDTH, height), layout="constrained")


def panels(number: int, columns: int, margin: float, height: float, **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, each so high, beside `margin` for what is around them; places that stay empty are removed."""
    rows = -(-number // columns)
    drawn = figure(margin + height * rows)
    places = list(drawn.subplots(rows, columns, squeeze=False, **shared).reshape(-1))
    for axes in places[number:]:
        axes.remove()
    return drawn, places[:number]


def rows_of(axes: Axes, labels: Sequence[str]) -> None:
    """One row of the picture for each label, from the top down."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=COLOURS["grid"])


def percent(prob: float) -> str:
    """A probability as it is written in front of an interval.

    Examples
    --------
    >>> percent(0.95)
    '95%'
    """
    return f"{100 * prob:.10g}%"


def plain(text: Any, longest: int = _LONGEST_LABEL) -> str:
    r"""A label as Matplotlib shall draw it: no formulas, no line breaks, not too long.

    Examples
    --------
    >>> print(plain("5$ or more"))
    5\$ or more
    """
    shown = printable(text)
    if len(shown) > longest:
        shown = shown[: longest - 1] + "…"
    return shown.replace("$", "\\$")


def together(labels: Sequence[Any]) -> str:
    """Some labels side by side, each shortened on its own if they are too long together, so that none is lost.

    Examples
    --------
    >>> together(["Neoplasms, malignant, of the bronchus and lung", "0, 1"])
    'Neoplasms, malignant, of t… · 0, 1'
    """
    texts, spare = [str(own) for own in labels], _LONGEST_LABEL - 3 * (len(labels) - 1)
    share = spare
    # What short labels leave of their share is for the long ones.
    for taken, length in enumerate(sorted(len(text) for text in texts)):
        share = max(spare // (len(texts) - taken), _SHORTEST_LABEL)
        if length > share:
            break
        spare -= length
    shown = [plain(text, share) for text in texts]
    if any(unicodedata.bidirectional(character) in ("R", "AL") for text in texts for character in text):
        # Isolates: labels that are written from right to left turn no other label around.
        shown = [f"\u2068{text}\u2069" for text in shown]
    return " · ".join(shown)


def cell_labels(frame: Frame, cells: Iterable[int]) -> list[str]:
    """Short labels of some cells: their labels along each dimension."""
    places = [np.unravel_index(int(cell), frame.shape) for cell in cells]
    return [together([str(named[i]) for named, i in zip(frame.labels, place, strict=True)]) for place in places]
