"""Noise whose mass or density falls in the norm that has a given polytope as its unit ball."""
