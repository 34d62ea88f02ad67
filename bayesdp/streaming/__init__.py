"""Posteriors of hierarchies whose draws do not fit in memory: what is asked for is computed while the chains run."""

from bayesdp.streaming.by_cell import fit_cells
from bayesdp.streaming.fitting import fit_hierarchy
from bayesdp.streaming.parts import fit_parts

__all__ = ["fit_cells", "fit_hierarchy", "fit_parts"]
