"""The K-norm law on a lattice: integer noise that changes no invariant, with mass falling in the norm of a polytope."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import Sampler
from bayesdp.lattices.sums.sums import l1_log_sum
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.base import Ints
from bayesdp.noise.lattice.base import LatticeLaw
from bayesdp.noise.polytope.k_norm import HullLaw, adjacency_of
from bayesdp.polytopes import (
    Hull,
    SensitivityHull,
    SymmetricHull,
    choose_lattice_sampler,
    sample_lattice,
    sensitivity_hull,
    shared,
)


@dataclass(frozen=True, eq=False)
class LatticeKNorm(HullLaw, LatticeLaw):
    r"""Noise with mass proportional to ``exp(-epsilon ||z||_K)`` on ``{z integer : A z = 0}``, K a polytope.

    Either K is the hull of all that a number of records can change without changing an invariant, as for `SemiKNorm`, and
    the adjacency says all; or its vertices are listed, as tables of integers. Tables that differ by a vertex are told apart
    with a loss of at most epsilon.

    ========  =============================================
    Support   integer tables that change no invariant
    Mean      0
    Variance  not in closed form
    ========  =============================================

    Parameters
    ----------
    epsilon : float
        Rate for each unit of the norm.
    adjacency : int, optional
        Number of records; 2 or 3 for both margins of a table.
    vertices : array_like of int, shape ``(m, *table)``, optional
        Instead: one of each pair v, -v, each of which changes no invariant. They must span all that changes none.

    Raises
    ------
    TypeError, ValueError
        If epsilon is not a positive finite number, if not exactly one of adjacency and vertices is given, or it is not
        what it should be.

    See Also
    --------
    bayesdp.distributions.LatticeKNorm : the same law as a PyMC distribution.
    SemiKNorm, KNorm : the same norms on real numbers.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithm 2; on integers as in Dharangutte, Gao, Gong
    and Yu (2023), Integer Subspace Differential Privacy.

    Examples
    --------
    Two cells with a fixed total: one record that changes its cell is one unit.

    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = LatticeKNorm(epsilon=0.5, adjacency=1)
    >>> print(f"{law.logp([4, 6], [5, 5], pair):.6f}")  # -0.5 - log coth(0.25)
    -1.906829
    """

    epsilon: float
    adjacency: int | None = None
    vertices: Ints | None = None

    name = "lattice-k-norm"
    everywhere = True
    isotropic = False
    unknown_sum = "it is computed only where the norm is a multiple of the l1 norm and that sum is known"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        if (self.adjacency is None) == (self.vertices is None):
            raise ValueError("K needs either adjacency or vertices, and not both")
        if self.adjacency is not None:
            object.__setattr__(self, "adjacency", adjacency_of(self.adjacency))
        else:
            array = np.array(_validate.integer_array(self.vertices, "vertices"), dtype=np.int64)
            if array.ndim < 2 or not array.size:
                raise ValueError(f"vertices must be tables, shape (m, *table), got an array of shape {array.shape}")
            array.flags.writeable = False
            object.__setattr__(self, "vertices", array)

    def describe(self) -> dict[str, Any]:
        """Describe the law, see `NoiseLaw.describe`; what does not fix K is left out."""
        return {key: value for key, value in super().describe().items() if value is not None}

    def hull(self, invariants: Invariants) -> Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        if self.adjacency is not None:
            return sensitivity_hull(invariants, self.adjacency)
        assert self.vertices is not None  # one of the two is given
        return _listed(self.vertices.tobytes(), self.vertices.shape, invariants)

    ball = hull

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the sum of ``exp(-epsilon ||z||_K)`` over the lattice, or None where it is not known.

        Known where the norm is a multiple of the l1 norm (see `bayesdp.polytopes.SensitivityHull`).
        """
        return super().log_normaliser(invariants)

    def _log_sum(self, xp: Any, scale: Any, invariants: Invariants) -> Any | None:
        multiple = self.l1_multiple(invariants)
        return None if multiple is None else l1_log_sum(invariants, scale * multiple, xp)

    def l1_multiple(self, invariants: Invariants) -> float | None:
        """How many times the l1 norm the norm is; None if it is another norm."""
        hull = self.hull(invariants)
        return 1.0 / hull.reach if isinstance(hull, SensitivityHull) and hull.is_l1 else None

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn, before any is: see `bayesdp.polytopes.choose_lattice_sampler`."""
        return choose_lattice_sampler(self.hull(invariants), invariants, self.epsilon)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Ints:
        """Draw noise, always exactly or not at all: `sampler` says how, or why not."""
        return sample_lattice(self.hull(invariants), invariants, self.epsilon, rng, count)


@lru_cache(maxsize=16)
def _listed(content: bytes, shape: tuple[int, ...], invariants: Invariants) -> SymmetricHull:
    """The hull of listed vertices, made once a process."""
    tables = np.frombuffer(content, dtype=np.int64).reshape(shape)
    if shape[1:] != invariants.frame.shape:
        raise ValueError(f"vertices must have shape (m, *{invariants.frame.shape}), got {shape}")
    for number, table in enumerate(tables):
        if not invariants.is_null(table):
            raise ValueError(f"vertices must change no invariant, but vertex {number} does")
    return shared(SymmetricHull(invariants.coordinates(tables)))
