"""Sums over a lattice: what normalises the laws of noise on it.

- `sums`: what is known for each part of a lattice; `normaliser`: sums of ``exp(-rate ||z||_1)``;
- `l1_series`: the sum as a rational function, from vectors counted by size (`shell_counts`, `four_rows`, `circuits`);
- `theta_series`: Gaussian sums, from vectors counted by length (`short_vectors`).
"""
