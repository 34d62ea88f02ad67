"""Exact samplers of noise on a lattice.

- `exact` says which sampler a lattice gets, and with what acceptance, also for the parts of a lattice;
- l1 noise: `fixed_sum`, `two_way`, `groups`; l2 and Gaussian noise on any lattice: `gram_schmidt`.
"""
