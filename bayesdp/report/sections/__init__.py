"""The sections of the page, one a module: each has a title and writes its content from the context."""

from __future__ import annotations

from bayesdp.report.sections import convergence, methods, noise, prior, provenance, release, results, sensitivity

__all__ = ["SECTIONS"]

SECTIONS = (release, prior, convergence, results, noise, sensitivity, methods, provenance)
"""In the order of the page. Each has ``ANCHOR``, ``TITLE`` and ``write(context) -> Html``."""
