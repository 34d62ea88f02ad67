"""HTML that is safe by construction: text is escaped unless this module made it.

Characters of direction, which would turn around what follows, and control characters, which HTML does not allow, are shown as
escapes. Labels have a direction of their own, that of their letters.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bayesdp._text import printable, printable_lines

_VOID = frozenset({"br", "img", "meta"})


class Html(str):
    """Text that is HTML already; only `element` and `joined` should make it."""

    __slots__ = ()


def joined(parts: Iterable[Any], separator: str = "") -> Html:
    """Put parts after one another: HTML as it is, anything else as escaped text.

    Examples
    --------
    >>> joined(["a < b", element("br")])
    'a &lt; b<br>'
    """
    return Html(separator.join(p if isinstance(p, Html) else html.escape(printable_lines(str(p))) for p in parts))


def element(tag: str, /, *content: Any, **attributes: Any) -> Html:
    """An element; content that is not `Html`, and values of attributes, are escaped.

    ``class_`` is written ``class`` and ``data_x`` ``data-x``; None leaves an attribute out, True gives it no value.

    Examples
    --------
    >>> element("td", "<script>", class_="label")
    '<td class="label">&lt;script&gt;</td>'
    """
    written = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        written.append(name if value is True else f'{name}="{html.escape(printable_lines(str(value)))}"')
    start = f"<{' '.join(written)}>"
    return Html(start if tag in _VOID else f"{start}{joined(content)}</{tag}>")


def paragraph(*content: Any, class_: str | None = None) -> Html:
    """A paragraph."""
    return element("p", *content, class_=class_)


def boxed(kind: str, heading: str, *content: Any) -> Html:
    """A coloured box with a heading in bold; `kind` is "good", "warn" or "bad"."""
    return element("p", element("strong", heading), *content, class_=f"banner {kind}")


def items(entries: Iterable[Any], *, limit: int = 12, what: str = "entries") -> Html:
    """A list; a long one is folded away after a few entries."""
    listed = [element("li", entry) for entry in entries]
    if len(listed) <= limit:
        return element("ul", *listed)
    rest = element("details", element("summary", f"{len(listed) - limit} more {what}"), element("ul", *listed[limit:]))
    return joined([element("ul", *listed[:limit]), rest])


def label(*names: Any) -> Html:
    """Labels of a user, side by side: each has a direction of its own, so that none turns what is around it.

    Examples
    --------
    >>> label("a < b", 3)
    '<bdi>a &lt; b</bdi> · <bdi>3</bdi>'
    """
    return joined([element("bdi", printable(name)) for name in names], " · ")


def embedded(picture: Figure, text: str) -> Html:
    """A picture with its caption, as SVG in a data URI: sharp at any size, and nothing in it can run."""
    # `text`: what it shows; the caption, and the alternative text for those who cannot see it.
    file = io.BytesIO()
    # Letters become outlines, so that the page looks the same where a font is missing; ids and dates do not vary.
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "bayesdp"}):
        picture.savefig(file, format="svg", metadata={"Date": None})
    source = "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    return element("figure", element("img", src=source, alt=text), element("figcaption", text))
