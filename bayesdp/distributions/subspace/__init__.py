"""Noise on the subspace of the real tables that change no invariant, as PyMC distributions."""
