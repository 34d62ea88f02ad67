"""Noise by integer arithmetic only, for releases.

- `coins`: random integers from random bits; `rational`: discrete Laplace and Gaussian noise with exact fractions;
- `secure`: noise on a lattice whose parts allow it.
"""
