"""The l1 and l2 mechanisms of Semi-DP on integers: lattice Laplace noise, calibrated to the sensitivity space."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, positive_integer, positive_real
from bayesdp.lattices import DEFAULT_SWEEPS, sampler_for
from bayesdp.mechanisms.lattice.lattice_laplace import LatticeLaplace
from bayesdp.mechanisms.semi.base import SemiMechanism
from bayesdp.noise import LatticeLaplace as Law
from bayesdp.privacy.caveats import Drawn, IntegersOnly
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.words import SamplerStatement, Statement


@dataclass(frozen=True)
class SemiLatticeLaplace(SemiMechanism):
    """Publish integer counts with noise of mass ``exp(-epsilon ||z|| / Delta(S_Semi))`` that changes no invariant.

    The noise is that of `LatticeLaplace` with ``sensitivity = Delta(S_Semi)``; the guarantee is stated for tables with the same
    invariants, at most `adjacency` substituted records apart: a loss of at most epsilon.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly. They must determine the number of records.
    epsilon : float
        Loss for the tables that are protected.
    norm : {"l1", "l2"}, default "l1"
    adjacency : int, optional
        How many substituted records these may be apart; see `SemiGaussian` for the default.
    convention : {"definition", "paper"}
        ``"paper"``: the sensitivities that Proposition 32 prints, with the true epsilon stated in `guarantee`.
    sweeps : int, default 1000
        Sweeps of the Gibbs sampler for each draw, where no exact sampler is practical (see `guarantee`).

    See Also
    --------
    SemiNorm : the same on real numbers.
    SemiLatticeKNorm : the norm of the smallest ball, where it can be drawn.
    bayesdp.distributions.LatticeLaplace : the law as a PyMC distribution.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithms 4 and 5; on integers as in Dharangutte, Gao,
    Gong and Yu (2023), Integer Subspace Differential Privacy.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = SemiLatticeLaplace(Margins(table, ["county"], ["education"]), epsilon=1.2)
    >>> mechanism.adjacency, mechanism.sensitivity, round(mechanism.law.epsilon, 6)
    (3, 6.0, 0.2)
    """

    epsilon: float
    norm: str = field(default="l1")
    sweeps: int = field(default=DEFAULT_SWEEPS, kw_only=True)

    name = "semi-lattice-laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        choice(self.norm, ("l1", "l2"), "norm")
        positive_integer(self.sweeps, "sweeps")
        super().__post_init__()

    @cached_property
    def _plain(self) -> LatticeLaplace:
        return LatticeLaplace(self.invariants, self.epsilon, self.norm, self.sensitivity, self.sweeps)

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return self._plain.law

    @property
    def _unit(self) -> str:
        return self.norm

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(self._plain.rate * size)

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Statement, ...]]:
        plain = self._plain._guarantee(method)
        words = sampler_for(self.invariants, self.norm, self._plain.rate, method, self.sweeps).words
        return plain.sampler, (Drawn(words), *plain.caveats)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.int64]:
        return self._plain._draw(rng, size, method)

    def _integers_only(self, method: str) -> IntegersOnly | None:
        return self._plain._integers_only(method)
