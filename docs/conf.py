"""How Sphinx builds the site: ``make docs``. Pages that follow from the package are written by `site` first."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

from pages import write_pages  # noqa: E402
from pages.lighter import lighten  # noqa: E402

import bayesdp  # noqa: E402

project = "bayesdp"
author = "The bayesdp developers"
copyright = "2026, the bayesdp developers"
version = release = bayesdp.__version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "made/_parts/**", "made/_static/**", "pages/**", "pictures/**"]
default_role = "py:obj"  # `name` in docstrings is a link where there is a page, and code where there is none

# Notebooks show the outputs that are stored in them.
nb_execution_mode = "off"
nb_merge_streams = True  # or what one cell prints stands in several boxes
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = False  # `pages.reference` writes what it would
autodoc_typehints = "none"  # numpydoc's sections say them
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"bayesdp {release}"
html_static_path = ["_static", "made/_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "search_scorer.js")
mathjax_path = "mathjax/tex-mml-chtml.js"
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "collapse_navigation": True,
    "navigation_depth": 2,
}
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"made/reference/**": [], "made/laws": [], "made/mechanisms": []}  # lists of 400 pages, 400 times


_TO_NOTEBOOK = re.compile(r"\]\((?:\.\./)+notebooks/(?=[\w-]+\.ipynb\))")


def setup(app: Any) -> None:
    """Write the pages that follow from the package, when Sphinx builds, and not when a test imports this file.

    What is built is made lighter at the end, if nothing failed.
    """
    # A code host shows the notebooks where they are, and the site has its own pages of them.
    app.connect(
        "source-read", lambda _, name, text: text.__setitem__(0, _TO_NOTEBOOK.sub(r"](/made/tutorials/", text[0]))
    )
    # A default that is made anew has no name that a reader could write; before numpydoc's own handler.
    app.connect(
        "autodoc-process-signature",
        lambda *own: (own[5].replace("<factory>", "..."), own[6]) if own[5] and "<factory>" in own[5] else None,
        priority=100,
    )
    # Before Sphinx looks whether the folders of `html_static_path` exist.
    app.connect("config-inited", lambda *_: write_pages(HERE / "made"), priority=100)
    app.connect(
        "build-finished",
        lambda built, failure: (
            lighten(Path(built.outdir)) if failure is None and built.builder.format == "html" else None
        ),
    )
