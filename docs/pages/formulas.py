"""MathJax's files, from a package, as far as the pages need them: formulas show without a network."""

from __future__ import annotations

import shutil
from pathlib import Path

import mathjax

__all__ = ["write"]

_NEEDED = ("tex-mml-chtml.js", "output/chtml/fonts/woff-v2", "LICENSE")


def write(made: Path) -> None:
    """Copy the program and its fonts to ``_static/mathjax``."""
    source = Path(mathjax.__file__).parent / "static/mathjax"
    target = made / "_static/mathjax"
    for name in _NEEDED:
        found = source / name if name == "LICENSE" else source / "es5" / name
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, target / name)
        else:
            shutil.copy(found, target / name)
