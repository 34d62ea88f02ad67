"""Hierarchies: tables of leaves by cells whose sums are published at every level of a tree of geography."""

from bayesdp.hierarchies.linear import LinearEstimate, gls
from bayesdp.hierarchies.released import split

__all__ = ["LinearEstimate", "gls", "split"]
