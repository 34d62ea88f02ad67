"""Priors of the cells of a hierarchy, with the rates integrated out."""

from __future__ import annotations

from bayesdp.hierarchies.priors.base import CellPrior
from bayesdp.hierarchies.priors.fixed import FixedNegativeBinomial

__all__ = ["CellPrior", "FixedNegativeBinomial"]
