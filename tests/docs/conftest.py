"""The folder of the site's sources, from which its pages are imported as Sphinx does."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
if str(DOCS) not in sys.path:
    sys.path.insert(0, str(DOCS))
