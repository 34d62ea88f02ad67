"""Integer vectors that change no invariant: bases, moves, and noise on the lattice that they form. No PyMC.

- the lattice: `kernel_basis` of invariants, `integer_kernel` of a matrix;
- directions to move in, with what is known of their connectivity: `moves_for`, `Moves`;
- noise on the lattice: `sample_noise`, and how it is drawn: `sampler_for`, `Sampler`.
"""

from bayesdp.fibers.moves.basis import integer_kernel, kernel_basis
from bayesdp.fibers.moves.moves import Moves, moves_for
from bayesdp.lattices.samplers import DEFAULT_SWEEPS, Sampler, sample_noise, sampler_for

__all__ = [
    "DEFAULT_SWEEPS", "Moves", "Sampler", "integer_kernel", "kernel_basis", "moves_for", "sample_noise", "sampler_for",
]  # fmt: skip
