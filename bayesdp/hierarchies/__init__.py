"""Hierarchies: tables of leaves by cells whose sums are published at every level of a tree of geography."""

from __future__ import annotations

from bayesdp.hierarchies.linear import LinearEstimate, gls
from bayesdp.hierarchies.released import split
from bayesdp.hierarchies.topdown import topdown_like

__all__ = ["LinearEstimate", "gls", "split", "topdown_like"]
