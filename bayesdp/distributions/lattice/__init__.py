"""Noise on the lattice of the integer tables that change no invariant, as PyMC distributions."""

from bayesdp.distributions.lattice import _normaliser as _normaliser  # registers its graphs
