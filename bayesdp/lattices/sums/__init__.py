"""Sums over a lattice: what normalises the laws of noise on it.

- `sums`: what is known for each part of a lattice; Gaussian sums, from vectors counted by length;
- `l1_series`: the sum of ``exp(-rate ||z||_1)`` as a rational function, from vectors counted by size.
"""
