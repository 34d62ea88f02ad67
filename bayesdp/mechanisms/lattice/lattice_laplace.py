"""The lattice Laplace mechanism: integer noise that keeps the invariants, with pure differential privacy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, positive_integer, positive_real
from bayesdp.lattices import DEFAULT_SWEEPS, sample_noise, sampler_for
from bayesdp.lattices.secure.secure import draw_secure
from bayesdp.mechanisms._shared import secure_statement
from bayesdp.mechanisms.additive import AdditiveMechanism
from bayesdp.noise import LatticeLaplace as Law
from bayesdp.privacy import EXACT_SAMPLER, FLOATING_POINT_CAVEAT, Guarantee, gibbs_sampler, pure_pairs
from bayesdp.privacy.caveats import IntegersOnly, Smooth
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.smooth import SmoothDP
from bayesdp.privacy.stated_losses import LossAt


@dataclass(frozen=True)
class LatticeLaplace(AdditiveMechanism):
    """Publish integer counts with noise that changes no invariant, of mass ``exp(-rate ||z||)``.

    The rate is ``epsilon / sensitivity``: two tables with the same invariants are told apart with a loss of
    at most ``epsilon ||x - x'|| / sensitivity``. A record that moves between two cells is a difference of 2
    in l1 and of the root of 2 in l2; with both margins of a two-way table fixed the smallest difference is 4
    and 2. The guarantee prints the loss of each.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    epsilon : float
        Loss for two tables whose difference has the norm `sensitivity`.
    norm : {"l1", "l2"}, default "l1"
    sensitivity : float, default 1
        The difference, in counts, that `epsilon` refers to.
    sweeps : int, default 1000
        Sweeps of the Gibbs sampler for each draw, where no exact sampler is practical (see `guarantee`).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid, or the invariants determine the whole table.

    See Also
    --------
    bayesdp.noise.LatticeLaplace : the law of the noise.
    bayesdp.distributions.LatticeLaplace : that law as a PyMC distribution; it takes the noise's own rate.

    Notes
    -----
    Whatever is computed from a release alone costs nothing more (post-processing, Proposition 7). Several releases of one
    table add up, for pairs of tables that agree on all their invariants (Proposition 6): see `bayesdp.compose`.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Definition 9 and Theorem 10.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> mechanism = LatticeLaplace(Totals(counties), epsilon=0.5)
    >>> release = mechanism.release([20, 10, 5], rng=np.random.default_rng(1))
    >>> int(release.values.sum())
    35
    >>> print(mechanism.guarantee)
    Privacy guarantee: pure differential privacy (epsilon)
    ...
    """

    epsilon: float
    norm: str = "l1"
    sensitivity: float = 1.0
    sweeps: int = DEFAULT_SWEEPS

    name = "lattice-laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        choice(self.norm, ("l1", "l2"), "norm")
        object.__setattr__(self, "sensitivity", positive_real(self.sensitivity, "sensitivity"))
        object.__setattr__(self, "sweeps", positive_integer(self.sweeps, "sweeps"))
        _ = self.law  # refused here if there is no noise of such a rate

    @property
    def rate(self) -> float:
        """The rate of the noise per count, ``epsilon / sensitivity``."""
        return self.epsilon / self.sensitivity

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return Law(self.rate, self.norm)

    @property
    def smooth(self) -> SmoothDP:
        """The loss at every distance (Definition 2 of the paper); the guarantee prints it as it grows."""
        return SmoothDP(self.rate, 0.0, self.norm)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.int64]:
        if rng is None and self._integers_only(method) is not None:
            return draw_secure(self.invariants, self.norm, self.rate, size)
        return sample_noise(self.invariants, self.norm, self.rate, rng, size, method, self.sweeps)

    def _integers_only(self, method: str) -> IntegersOnly | None:
        return secure_statement(self.invariants, self.norm, method)

    def _guarantee(self, method: str) -> Guarantee:
        sampler = sampler_for(self.invariants, self.norm, self.rate, method, self.sweeps)
        return Guarantee(
            "pure",
            LossAt(PureDP(self.epsilon), None if self.sensitivity == 1.0 else self.sensitivity),
            self.norm,
            pure_pairs(self.rate, self.norm, self.differences),
            sampler=EXACT_SAMPLER if sampler.exact else gibbs_sampler(self.sweeps),
            caveats=(FLOATING_POINT_CAVEAT, Smooth(self.rate, 0.0, self.norm)),
        )
