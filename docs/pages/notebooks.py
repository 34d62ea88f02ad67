"""The notebooks as pages, with the outputs that are stored in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

__all__ = ["write"]

_NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
_TO_PAGE = re.compile(r"\]\(\.\./docs/")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def write(made: Path) -> None:
    """Write them to ``tutorials``: links to pages as the site has them, and a text alternative for every figure."""
    target = made / "tutorials"
    target.mkdir(parents=True)
    for path in sorted(_NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        heading = ""
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = _TO_PAGE.sub("](/", "".join(cell["source"]))
                heading = (_HEADING.findall(cell["source"]) or [heading])[-1]
            else:
                cell["metadata"]["mystnb"] = {"image": {"alt": f"Figure: {heading.replace('`', '')}"}}
        (target / path.name).write_text(json.dumps(notebook), encoding="utf-8")
