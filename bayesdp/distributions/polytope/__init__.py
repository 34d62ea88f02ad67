"""Noise in the norm of a given polytope, as PyMC distributions."""
