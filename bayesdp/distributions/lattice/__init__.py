"""Noise on the lattice of the integer tables that change no invariant, as PyMC distributions."""
