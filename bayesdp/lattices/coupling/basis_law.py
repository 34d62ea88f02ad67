"""A law of noise in the coordinates of a lattice basis: what the chains that move along basis vectors are handed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._numba import nb
from bayesdp._validate import choice, positive_real
from bayesdp.invariants import Invariants
from bayesdp.moves.basis import kernel_basis

type Ints = npt.NDArray[np.int64]

L1, L2, GAUSSIAN = 0, 1, 2
"""The laws, as the kernels know them."""

_CODES = {"l1": L1, "l2": L2, "gaussian": GAUSSIAN}

_REACH = 2.0**29
"""Noise beyond this could overflow 64-bit sums of squares."""

_LONGEST = 1e5
"""Lattice l2 noise: integers that one step would have to tabulate, at most."""


@dataclass(frozen=True, eq=False)
class BasisLaw:
    """Noise ``z = sum_j c_j b_j`` on a lattice with basis vectors b_j, of mass that depends on a norm of z.

    Parameters
    ----------
    basis : sparse integer array, shape (n, cells)
        Linearly independent vectors of the lattice, one a row.
    law : {"l1", "l2", "gaussian"}
        Mass proportional to ``exp(-scale ||z||_1)``, ``exp(-scale ||z||_2)`` or ``exp(-||z||_2**2 / (2 scale**2))``.
    scale : float

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid, a basis vector is zero, or the noise is so wide that its sums of squares could
        overflow (or, for l2, that a single step would take longer than a tenth of a second).

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> target = BasisLaw.of(Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]})), "l1", 0.5)
    >>> target.basis.toarray()
    array([[ 1, -1,  0],
           [ 0,  1, -1]])
    """

    basis: sp.csr_array
    law: str
    scale: float

    def __post_init__(self) -> None:
        choice(self.law, tuple(_CODES), "law")
        object.__setattr__(self, "scale", positive_real(self.scale, "scale"))
        basis = sp.csr_array(self.basis, copy=True)
        if not np.issubdtype(basis.dtype, np.integer):
            raise TypeError(f"basis must hold integers, got {basis.dtype}")
        basis = sp.csr_array(basis.astype(np.int64))
        basis.eliminate_zeros()
        if not basis.shape[0] or not np.diff(basis.indptr).all():
            raise ValueError("basis must have at least one vector, and no vector that is zero")
        object.__setattr__(self, "basis", basis)
        wide = 40.0 * (self.scale if self.law == "gaussian" else (basis.shape[1] + 1) / self.scale)
        if wide > _REACH:
            raise ValueError(
                f"scale must keep the noise below 2**29, got {self.scale!r} for {self.law!r} noise on {basis.shape[1]} cells"
            )
        if self.law == "l2" and wide > _LONGEST:
            raise ValueError(
                f"scale must be at least {40.0 * (basis.shape[1] + 1) / _LONGEST:.2g} for 'l2' noise on "
                f"{basis.shape[1]} cells (a step tabulates its law), got {self.scale!r}"
            )

    @classmethod
    def of(cls, invariants: Invariants, law: str, scale: float) -> BasisLaw:
        """Take the basis that `kernel_basis` knows: sparse for margins and totals, else reduced."""
        return cls(kernel_basis(invariants), law, scale)

    @property
    def dimension(self) -> int:
        """Number of basis vectors; a sweep updates each of them once, in order."""
        return int(self.basis.shape[0])

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.basis.shape[1])

    @cached_property
    def arrays(self) -> tuple[int, float, Ints, Ints, Ints, Ints]:
        """For the kernels: law, scale, where each vector starts, its cells, its entries, squared lengths."""
        basis = self.basis
        squares = np.add.reduceat(basis.data**2, basis.indptr[:-1])
        pointers, cells = basis.indptr.astype(np.int64), basis.indices.astype(np.int64)
        return _CODES[self.law], self.scale, pointers, cells, basis.data, squares

    @property
    def widest(self) -> int:
        """Most cells in one basis vector."""
        return int(np.diff(self.basis.indptr).max())


@nb.njit(cache=True, error_model="numpy")
def shift(k: int, z: Ints, norm: int, cells: Ints, entries: Ints, start: int, stop: int, square: int) -> int:
    """Add k times a basis vector to z, and return the new ``||z||_2**2``."""
    along = 0
    for at in range(start, stop):
        along += z[cells[at]] * entries[at]
        z[cells[at]] += k * entries[at]
    return norm + k * (2 * along + k * square)
