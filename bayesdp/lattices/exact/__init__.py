"""Exact samplers of noise on a lattice.

- `exact` says which sampler a lattice gets, and with what acceptance; `pieces` does so for the parts of a lattice;
- l1 noise: `lines`, `fixed_sum`, `two_way` (with `two_row`), `three_way`, `groups` (with `group_sums`);
- l2 and Gaussian noise on any lattice: `nearest_plane`, `klein`, with `gram_schmidt` and `centred`.
"""
