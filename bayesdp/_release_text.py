"""How a release shows itself in a console and in a notebook."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from bayesdp._text import printable
from bayesdp.measurements import Exact, described, held_back
from bayesdp.privacy.guarantee import KINDS

if TYPE_CHECKING:
    from bayesdp.release import Release

_SIMULATED = "simulated: the noise came from a seeded generator; this protects nobody"


def _exact(part: Exact) -> str:
    return repr(part).removeprefix("<Exact: ").removesuffix(">")


def _lines(release: Release) -> list[tuple[str, str]]:
    """Headings and sentences: measurements, exact parts, the kind of guarantee."""
    lines = []
    for part in release.measurements:
        hidden = int(part.unmeasured.sum())
        missing = "".join(f", {words}" for words in held_back(part))
        missing += f", {hidden} unmeasured" if hidden else ""
        what = described(part.query) if release.about == "counts" else printable(", ".join(part.query.names[:3]))
        more = f" and {part.query.rows - 3} more" if release.about != "counts" and part.query.rows > 3 else ""
        lines.append(("measured", f"{what}{more}{missing}, law {part.law}"))
    lines += [("exact", _exact(part)) for part in release.exact]
    lines += [
        ("protection", why) for why in dict.fromkeys(part.law.not_private for part in release.measurements) if why
    ]
    if release.guarantee is not None:
        lines.append(("guarantee", KINDS[release.guarantee.kind]))
    return lines


def _title(release: Release) -> str:
    if release.about == "statistics":
        return "Release of 1 statistic" if release.frame.size == 1 else f"Release of {release.frame.size} statistics"
    sizes = " × ".join(map(str, release.frame.shape))
    return f"Release of a table {printable(' × '.join(release.dims))} ({sizes} cells)"


def as_text(release: Release) -> str:
    """A few lines: what is measured under which law, what is exact, whether the noise was simulated."""
    rows = [f"  {heading}: {text}" for heading, text in _lines(release)]
    rows += [f"  {_SIMULATED}"] if release.simulated else []
    return "\n".join([f"<{_title(release)}", *rows]) + ">"


def as_html(release: Release) -> str:
    """The lines of `as_text` as a small HTML table; labels are escaped."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(heading)}</th>"
        f"<td style='text-align:left'>{html.escape(printable(text))}</td></tr>"
        for heading, text in _lines(release)
    )
    remark = f"<p><strong>{html.escape(_SIMULATED)}</strong></p>" if release.simulated else ""
    return f"<p><strong>{html.escape(_title(release))}</strong></p><table>{rows}</table>{remark}"
