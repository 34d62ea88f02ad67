"""The lattice Laplace law: integer noise that changes no invariant, with exponentially falling mass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp import _validate, lattices
from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler, sampler_for
from bayesdp.lattices.parts import Table, lattice_parts
from bayesdp.lattices.sums.normaliser import l1_log_sum
from bayesdp.noise._verbs import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.lattice._parts import Line, parts
from bayesdp.noise.lattice.base import LatticeLaw
from bayesdp.noise.lattice.radial_sum import radial_log_sum
from bayesdp.noise.lattice.sizes import cell_masses, size_masses
from bayesdp.noise.lattice.zero_sum import laplace_variance
from bayesdp.noise.tables import norm_of
from bayesdp.queries import Query

_NORMS = ("l1", "l2")

_REACH = 20_000
"""Counts from which the law of one cell is not worked out."""


@dataclass(frozen=True, eq=False)
class LatticeLaplace(LatticeLaw):
    r"""Noise with mass proportional to ``exp(-epsilon ||z||)`` on ``{z integer : A z = 0}``.

    Two tables x, x' with the same invariants are told apart with a loss of at most ``epsilon ||x - x'||``.

    ========  =====================================================================================
    Support   integer tables that change no invariant
    Mean      0
    Variance  in closed form for the l1 norm with disjoint totals, 2 x c tables and one free number
    ========  =====================================================================================

    Parameters
    ----------
    epsilon : float
        Rate per count (not the loss of one person: that is 2 epsilon for a substitution in l1).
    norm : {"l1", "l2"}, default "l1"

    Raises
    ------
    TypeError, ValueError
        If epsilon is not a positive finite number, or the norm is unknown.

    See Also
    --------
    bayesdp.distributions.LatticeLaplace : the same law as a PyMC distribution.
    bayesdp.LatticeLaplace : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Definition 9 and Algorithm 1.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = LatticeLaplace(epsilon=0.5)
    >>> print(f"{law.logp([4, 6], [5, 5], pair):.6f}")  # -0.5 * 2 - log coth(0.5)
    -1.771937
    >>> law.logp([4, 7], [5, 5], pair)
    -inf
    """

    epsilon: float
    norm: str = "l1"

    name = "lattice-laplace"
    everywhere = True
    kernel_form = KernelForm("l1")
    scale_name = "epsilon"
    relation = "epsilon, the rate per count in mass ~ exp(-epsilon norm): 1 / b for a scale b; and norm, l1 or l2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        _validate.choice(self.norm, _NORMS, "norm")

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """``-epsilon ||z||``; see `TableLaw.log_kernel`."""
        return -scale * norm_of(xp, measured, self.norm, invariants)

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the sum of ``exp(-epsilon ||z||)`` over the lattice, or None where it is not computed.

        For every epsilon where it is computed, to about 1e-14 of the sum. In the l1 norm, where each part of the
        lattice has a closed form (disjoint totals, free cells, 2 x c tables with both margins) or is small enough for
        its vectors to be counted up to the size from which the rest follows: 3 x c tables up to c = 6, 4 x 4 and 4 x 5
        tables, 2 x 3 x 2 tables with all one-way margins, a few overlapping totals (`bayesdp.lattices.sums.l1_series`). In the l2
        norm, as a mixture of Gaussian sums, wherever those are computed: see `LatticeGaussian.log_normaliser`.
        """
        if self.norm == "l1":
            return l1_log_sum(invariants, self.epsilon)
        return radial_log_sum(invariants, self.epsilon)

    def _rated(self) -> tuple[float, int, Callable[[float], LatticeLaw]]:
        return self.epsilon, 1, self.at

    def _sizes(self, invariants: Invariants, reach: float) -> tuple[Floats, Floats] | None:
        order = 1 if self.norm == "l1" else 2
        most = math.ceil(reach**order)
        tilt = self.epsilon if order == 1 else self.epsilon / max(reach, 1.0)
        masses = size_masses(invariants, order, tilt, most)
        whole = self.log_normaliser(invariants)
        if masses is None or whole is None:
            return None
        n = np.arange(masses.size, dtype=np.float64)
        sizes = n if order == 1 else np.sqrt(n)
        return sizes, masses * np.exp(tilt * n - self.epsilon * sizes - whole)

    def _cell_tail(self, t: float, invariants: Invariants, cell: int) -> tuple[float, float] | None:
        if self.norm != "l1":
            return None
        own = next((part for part in lattice_parts(invariants) if np.any(part.cells == cell)), None)
        if own is None or t <= 0.0:
            return (1.0, 1.0) if t <= 0.0 else (0.0, 0.0)
        if not (isinstance(own, Line) or (isinstance(own, Table) and len(own.shape) == 1)):
            return None
        entry = int(own.entries[own.cells == cell][0]) if isinstance(own, Line) else 1
        if not entry:
            return 0.0, 0.0
        # Beyond this the cell has less than exp(-60) of its mass at t: the mass falls by exp(-2 rate) a count or faster far out.
        reach = math.ceil(t + 80.0 / self.epsilon + 40.0 * math.sqrt(own.cells.size) / self.epsilon)
        if reach > _REACH:
            return None
        masses = cell_masses(own, entry, self.epsilon, reach)
        far = 2.0 * math.fsum(masses[math.ceil(t) :])
        found = far / (float(masses[0]) + 2.0 * math.fsum(masses[1:]))
        return found * (1.0 - 1e-11), min(1.0, found * (1.0 + 1e-11))

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Ints:
        """Draw noise; `bayesdp.lattices` chooses between exact sampling and a Gibbs chain, and says which."""
        return lattices.sample_noise(invariants, self.norm, self.epsilon, rng=rng, size=count)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where no closed form is known (see `log_normaliser`)."""
        invariants = self.needed(invariants, shape)
        found = parts(invariants)
        if found is None or (self.norm == "l2" and invariants.dimension > 1):
            return None
        variance = np.zeros(invariants.frame.size)
        for part in found:
            if isinstance(part, Line):
                rate = self.epsilon * self._length(part)
                # Of a two-sided geometric law: 2 q / (1 - q)**2 = 1 / (2 sinh(rate / 2)**2).
                variance[part.cells] = part.entries**2 * (0.5 / math.sinh(min(0.5 * rate, 350.0)) ** 2)
            else:
                variance[part.cells] = laplace_variance(part.count, self.epsilon * part.copies)
        return variance.reshape(shape)

    def _length(self, part: Line) -> float:
        return float(np.linalg.norm(part.entries.astype(np.float64), ord=1 if self.norm == "l1" else 2))

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn under these invariants, before any is."""
        return sampler_for(invariants, self.norm, self.epsilon)

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`."""
        return LossByLength(("pure",), self.norm, exponential_loss(self.epsilon))

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """The form of its norm. See `NoiseLaw.kernel_of`."""
        return KernelForm(self.norm)
