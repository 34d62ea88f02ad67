"""The command line, from its parsers: what ``--help`` says, a section for each command."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from bayesdp.cli import parser

__all__ = ["write"]

_WIDTH = "100"


def write(made: Path) -> None:
    """Write ``command-line.md``."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDTH
    try:
        top = parser()
        text = f"# The command line\n\n```text\n{top.format_help()}```\n"
        [commands] = [own for own in top._actions if isinstance(own, argparse._SubParsersAction)]
        for name, own in commands.choices.items():
            text += f"\n## `bayesdp {name}`\n\n```text\n{own.format_help()}```\n"
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    made.mkdir(parents=True, exist_ok=True)
    (made / "command-line.md").write_text(text, encoding="utf-8")
