"""Noise in the norm of Semi-DP, as a PyMC distribution."""
