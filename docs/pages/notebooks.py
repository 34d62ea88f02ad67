"""The notebooks as pages, with the outputs that are stored in them."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["write"]

_NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def write(made: Path) -> None:
    """Copy them to ``tutorials``."""
    target = made / "tutorials"
    target.mkdir(parents=True)
    for path in sorted(_NOTEBOOKS.glob("*.ipynb")):
        shutil.copy(path, target / path.name)
