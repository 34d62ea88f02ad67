"""Noise in the norm of a given polytope, as PyMC distributions."""

from bayesdp.distributions.polytope import _gauge as _gauge  # registers its graphs
