"""Noise on the subspace of the real tables that change no invariant, as PyMC distributions."""

from bayesdp.distributions.subspace import _coordinates as _coordinates  # registers its graphs
