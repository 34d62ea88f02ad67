"""Compiled moves of a table of leaves by cells, and the arrays that they work on; without queries and releases."""
