"""The lattice Gaussian law: integer noise that changes no invariant, with Gaussian mass.

The normaliser of lattice Gaussian noise, part by part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp import lattices
from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler, sampler_for
from bayesdp.lattices.sums.sums import Multiples, ZeroSum, added, l2_sums
from bayesdp.noise import theta
from bayesdp.noise.arrays import positive_number
from bayesdp.noise.base import Floats, Ints, KernelForm, LossByLength, normal_loss
from bayesdp.noise.lattice.base import LatticeLaw, Line, gaussian_log_sum, gaussian_variance, parts
from bayesdp.noise.lattice.linear import linear_law, size_masses
from bayesdp.noise.tables import squared_norm
from bayesdp.queries import Query


def l2_log_sum(invariants: Invariants, sigma: Any, xp: Any = np) -> Any | None:
    """Logarithm of the sum of `exp(-||z||_2**2 / (2 sigma**2))` over the lattice; None where it is not computed."""
    sums = l2_sums(invariants)
    if sums is None:
        return None
    terms = []
    for part, number in sums.items():
        if isinstance(part, Multiples):
            one = theta.log_sum(0.0 if xp is np else None, sigma / part.length, xp)
        elif isinstance(part, ZeroSum):
            one = gaussian_log_sum(part.count, sigma / math.sqrt(part.copies), xp)
        else:
            one = part.series.log_sum(sigma / math.sqrt(part.copies), xp)
        terms.append(number * one)
    return added(xp, terms, sigma)


@dataclass(frozen=True, eq=False)
class LatticeGaussian(LatticeLaw):
    r"""Noise with mass proportional to ``exp(-||z||_2**2 / (2 sigma**2))`` on ``{z integer : A z = 0}``.

    By Poisson summation, two tables x, x' with the same invariants are told apart with a loss of at most
    ``||x - x'||_2**2 / (2 sigma**2)`` in zero-concentrated differential privacy, whatever the dimension.

    ========  =================================================================================
    Support   integer tables that change no invariant
    Mean      0
    Variance  in closed form for disjoint totals, 2 x c tables and one free number
    ========  =================================================================================

    Parameters
    ----------
    sigma : float
        Scale in counts.

    Raises
    ------
    TypeError, ValueError
        If sigma is not a positive finite number below 2**46.

    See Also
    --------
    bayesdp.distributions.LatticeGaussian : the same law as a PyMC distribution.
    bayesdp.LatticeGaussian : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Definition 13.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "Mid", "High"]}
    >>> both = Invariants(Margins(table, ["county"], ["education"]))
    >>> zero = np.zeros((2, 3), dtype=int)
    >>> print(f"{np.exp(LatticeGaussian(sigma=1.0).logp(zero, zero, both)):.10f}")
    0.5467746409
    """

    sigma: float

    name = "lattice-gaussian"
    everywhere = True
    kernel_form = KernelForm("gaussian")
    scale_name = "sigma"
    relation = (
        "sigma, as in mass ~ exp(-norm**2 / (2 sigma**2)): length / sqrt(2 rho) for tables that "
        "far apart (l2), if rho is their loss"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive_number(self.sigma, "sigma"))

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """``-||z||_2**2 / (2 sigma**2)``; see `TableLaw.log_kernel`."""
        return -0.5 * squared_norm(xp, measured, invariants) / scale**2

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the Gaussian sum over the lattice, or None where it is not computed.

        For every sigma where it is computed, to about 1e-14 of the sum: disjoint totals, free cells, 2 x 2 and 2 x c
        tables with both margins, and other lattices whose parts have up to ten dimensions or so (two-way tables up to 4
        x 4 and 3 x 6, 3 x 3 x 3 tables with all two-way margins, a few overlapping totals), whose short vectors are
        counted (`bayesdp.lattices.sums.sums`).
        """
        return super().log_normaliser(invariants)

    def _log_sum(self, xp: Any, scale: Any, invariants: Invariants) -> Any | None:
        return l2_log_sum(invariants, scale, xp)

    def _rated(self) -> tuple[float, int, Callable[[float], LatticeLaw]]:
        return 0.5 / self.sigma**2, 2, lambda rate: self.at(math.sqrt(0.5 / rate))

    def _sizes(self, invariants: Invariants, reach: float) -> tuple[Floats, Floats] | None:
        masses, whole = (
            size_masses(invariants, 2, 0.5 / self.sigma**2, math.ceil(reach**2)),
            self.log_normaliser(invariants),
        )
        if masses is None or whole is None:
            return None
        return np.sqrt(np.arange(masses.size, dtype=np.float64)), masses * math.exp(-whole)

    def _cell_tail(self, t: float, invariants: Invariants, cell: int) -> tuple[float, float] | None:
        vector = np.zeros(invariants.frame.size, dtype=np.int64)
        vector[cell] = 1
        law = linear_law(invariants, vector, self.sigma)
        return None if law is None else law.tail(t)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Ints:
        """Draw noise; `bayesdp.lattices` chooses between exact sampling and a Gibbs chain, and says which."""
        return lattices.sample_noise(invariants, "gaussian", self.sigma, rng=rng, size=count)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where no closed form is known (see `log_normaliser`)."""
        invariants = self.needed(invariants, shape)
        found = parts(invariants)
        if found is None:
            return None
        variance = np.zeros(invariants.frame.size)
        for part in found:
            if isinstance(part, Line):
                steps = theta.moments(np.zeros(1), np.array([self._line_scale(part)]))[1]
                variance[part.cells] = part.entries**2 * steps[0]
            else:
                variance[part.cells] = gaussian_variance(part.count, self.sigma / math.sqrt(part.copies))
        return variance.reshape(shape)

    def _line_scale(self, part: Line) -> float:
        return self.sigma / float(np.linalg.norm(part.entries.astype(np.float64)))

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn under these invariants, before any is."""
        return sampler_for(invariants, "gaussian", self.sigma)

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`."""
        return LossByLength(("zcdp", "approximate"), "l2", normal_loss(self.sigma, continuous=False), tight=False)
