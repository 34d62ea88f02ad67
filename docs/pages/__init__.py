"""Pages of the site that follow from the package: written anew by every build, into a folder that git ignores."""

from __future__ import annotations

import shutil
from pathlib import Path

from pages import command_line, formulas, laws, mechanisms, notebooks, reference

__all__ = ["write_pages"]


def write_pages(made: Path) -> None:
    """Write all generated sources into the folder `made`, which is emptied first."""
    shutil.rmtree(made, ignore_errors=True)
    for part in (formulas, notebooks, command_line, laws, mechanisms, reference):
        part.write(made)
