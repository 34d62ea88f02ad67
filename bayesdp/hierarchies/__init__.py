"""Hierarchies: tables of leaves by cells whose sums are published at every level of a tree of geography."""
