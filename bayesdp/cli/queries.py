"""Queries as text: ``margins:county``, ``margins:a*b``, ``totals:state``, ``total``, ``cells``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayesdp.frames import Frame
    from bayesdp.queries import Query

FORMS = "margins:DIM, margins:DIM*DIM, totals:GROUP, total, cells"
"""How queries can be written."""


def parse_query(text: str, frame: Frame) -> Query:
    """Read a query.

    Parameters
    ----------
    text : str
        ``margins:`` or ``totals:`` and names of dimensions or group labels, joined by ``*``; ``total`` for
        the grand total; ``cells`` for the table itself.
    frame : Frame
        Labels of the table.


    Examples
    --------
    >>> from bayesdp.frames import Frame
    >>> parse_query("totals:state", Frame.of({"county": ["a", "b"], "state": ("county", ["IL", "IN"])})).names
    ['state=IL', 'state=IN']
    """
    from bayesdp.queries import Identity, Margins, Totals

    kind, separator, rest = text.partition(":")
    names = rest.split("*") if rest else []
    if text == "total":
        return Totals(frame)
    if text == "cells":
        return Identity(frame)
    if not separator or kind not in ("margins", "totals") or not all(names) or not names:
        raise ValueError(f"a query is written as one of {FORMS}; got {text!r}")
    return Margins(frame, names) if kind == "margins" else Totals(frame, names)
