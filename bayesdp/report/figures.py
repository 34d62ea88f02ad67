"""Pictures inside the page."""

from __future__ import annotations

import base64
import io

import matplotlib as mpl
from matplotlib.figure import Figure

from bayesdp.report.html import Html, element


def embedded(picture: Figure, text: str) -> Html:
    """A picture with its caption, as SVG in a data URI: sharp at any size, and nothing in it can run."""
    # `text`: what it shows; the caption, and the alternative text for those who cannot see it.
    file = io.BytesIO()
    # Letters become outlines, so that the page looks the same where a font is missing; ids and dates do not vary.
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "bayesdp"}):
        picture.savefig(file, format="svg", metadata={"Date": None})
    source = "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    return element("figure", element("img", src=source, alt=text), element("figcaption", text))
