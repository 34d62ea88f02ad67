"""The K-norm mechanism of Semi-DP with integer noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp.hulls import Hull, choose_lattice_sampler, sample_lattice
from bayesdp.lattices.samplers import Sampler
from bayesdp.mechanisms._shared import drawn_exactly
from bayesdp.mechanisms.semi.hulls import SemiHullMechanism
from bayesdp.noise import LatticeKNorm as Law
from bayesdp.privacy import EXACT_SAMPLER, FLOATING_POINT_CAVEAT
from bayesdp.privacy.caveats import Drawn
from bayesdp.privacy.words import SamplerStatement, Words


@dataclass(frozen=True)
class SemiLatticeKNorm(SemiHullMechanism):
    """Publish integer counts with noise in the norm whose unit ball is the hull of all that a few records can change.

    As `SemiKNorm`, on the integer tables that change no invariant: mass proportional to ``exp(-epsilon ||z||_K)``. Always drawn
    exactly, by rejection from l1 noise on the lattice; where that is not practical, `noise`, `release` and `guarantee` say so by a
    `NotImplementedError`, and `SemiLatticeLaplace` does with a Markov chain.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly. They must determine the number of records.
    epsilon : float
        Loss for the tables that are protected.
    adjacency : int, optional
        How many substituted records these may be apart; see `SemiGaussian` for the default.
    convention : {"definition", "paper"}
        ``"paper"``: the space that Proposition 32 prints, with the true epsilon stated in `guarantee`.

    Raises
    ------
    TypeError, ValueError
        As `SemiKNorm`.

    See Also
    --------
    SemiLatticeLaplace : noise of the l1 or l2 norm, for any size.
    bayesdp.noise.LatticeKNorm : the law of the noise.
    bayesdp.distributions.LatticeKNorm : that law as a PyMC distribution.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithm 2; on integers as in Dharangutte, Gao, Gong
    and Yu (2023), Integer Subspace Differential Privacy.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = SemiLatticeKNorm(Margins(table, ["county"], ["education"]), epsilon=1.0)
    >>> release = mechanism.release([[3, 0, 5], [2, 8, 1], [0, 4, 6]], rng=np.random.default_rng(1))
    >>> release.values.sum("education").values.tolist()
    [8, 11, 10]
    """

    name = "semi-lattice-k-norm"

    @cached_property
    def law(self) -> Law:
        """The law of the noise."""
        if self._known:
            return Law(self.epsilon, self._records)
        return Law(self.epsilon, vertices=self._listed)

    @property
    def hull(self) -> Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        return self.law.hull(self.invariants)

    def sampler(self) -> Sampler:
        """How noise is drawn, before any is."""
        return choose_lattice_sampler(self.hull, self.invariants, self.epsilon)

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Words, ...]]:
        drawn_exactly(method)
        return EXACT_SAMPLER, (Drawn(self.sampler().words), FLOATING_POINT_CAVEAT)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.int64]:
        self._how(method)  # refuses unknown methods
        generator = np.random.default_rng() if rng is None else rng
        return sample_lattice(self.hull, self.invariants, self.epsilon, generator, size)
