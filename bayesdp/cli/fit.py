"""``bayesdp fit``: a release in, a posterior out."""

from __future__ import annotations

import argparse
from typing import Any

from bayesdp.cli.arguments import add_command

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the subcommand."""
    add_command(commands, "fit", run, title="draw from the posterior", text="", example="")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    return 0
