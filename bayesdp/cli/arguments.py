"""Arguments that several subcommands share, and queries as text, such as ``margins:county``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesdp.frames import Frame
    from bayesdp.queries import Query


def add_command(commands: Any, name: str, run: Any, *, title: str, text: str, example: str) -> Any:
    """Add a subcommand with its description and an example; `run` does the work."""
    command = commands.add_parser(
        name,
        help=title,
        description=f"{title[0].upper()}{title[1:]}.\n\n{text}",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    return command


def add_repeatable(command: Any, option: str, metavar: str, what: str, *, required: bool = False) -> None:
    """Add an option that may be given several times; its values are a list."""
    default: list[str] | None = None if required else []
    text = f"{what}; may be repeated"
    command.add_argument(option, action="append", required=required, default=default, metavar=metavar, help=text)


def check_output_file(path: str, suffixes: tuple[str, ...], what: str, *, force: bool) -> None:
    """Refuse an output of another kind, or that cannot be written, before any work."""
    from bayesdp.storage import check_output

    if Path(path).suffix.lower() not in suffixes:
        raise ValueError(f"{what}, got {path!r}")
    check_output(path, overwrite=force)


def add_output(command: Any, what: str, *, required: bool = True) -> None:
    """Add -o and --force."""
    command.add_argument("-o", "--output", required=required, metavar="PATH", help=what)
    command.add_argument("--force", action="store_true", help="replace the output if it exists (atomically)")


def add_table_options(command: Any) -> None:
    """Add what describes the form of a table's file."""
    dims = "names of the dimensions; a wide CSV file needs them"
    command.add_argument("--dims", type=lambda text: text.split(","), metavar="NAME,NAME", help=dims)
    command.add_argument("--value", metavar="NAME", help="column (or netCDF variable) of the values")
    add_repeatable(command, "--group", "GROUP=DIM", "a column of group labels and its dimension, like state=county")
    add_repeatable(command, "--ignore", "COLUMN", "a column of a CSV file that is neither labels nor values")
    total = "a label that stands for the sum over a dimension, like county=Total; 'county=' says that none does"
    add_repeatable(command, "--total", "DIM=LABEL", total)
    layouts = ("auto", "long", "wide")
    command.add_argument("--layout", choices=layouts, default="auto", help="form of a CSV file (default: auto)")
    declared = """how an office writes a CSV file, as bayesdp.tables.read_office_csv takes it, such as
        '{"delimiter": ";", "thousands": ".", "symbols": {"..": "suppressed"}}'"""
    command.add_argument("--declare", default="{}", metavar="JSON", help=declared)


def pairs(items: list[str], option: str) -> dict[str, str]:
    """Read ``NAME=VALUE`` arguments."""
    found: dict[str, str] = {}
    for item in items:
        name, separator, value = item.partition("=")
        if not (name and separator and value):
            raise ValueError(f"{option} must be written as NAME=VALUE, got {item!r}")
        if name in found:
            raise ValueError(f"{option} {name} is given twice")
        found[name] = value
    return found


def table_options(args: argparse.Namespace) -> dict[str, Any]:
    """The same as keywords of `bayesdp.tables.read_table`: the one way in which files of tables are described."""
    from bayesdp import _text

    totals: dict[str, list[str]] = {}  # by dimension; no label where there is no total
    for item in args.total:
        dim, separator, label = item.partition("=")
        if not (dim and separator):
            raise ValueError(f"--total must be written as DIM=LABEL, or as DIM= where there is no total, got {item!r}")
        totals.setdefault(dim, []).extend([label] if label else [])
    declared: dict[str, Any] = _text.expect(_text.loads(args.declare, "--declare"), dict, "--declare")
    options = {name: getattr(args, name) for name in ("dims", "value", "layout", "ignore")}
    return options | {"groups": pairs(args.group, "--group"), "totals": totals} | declared


FORMS = "margins:DIM, margins:DIM*DIM, totals:GROUP, total, cells"
"""How queries can be written."""


def parse_query(text: str, frame: Frame) -> Query:
    """Read a query: `FORMS`, with names of dimensions or group labels; ``total`` for the grand total, ``cells`` for the table itself.

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
