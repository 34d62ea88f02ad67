"""The lattice Gaussian mechanism: integer noise that keeps the invariants, with concentrated privacy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._validate import positive_integer, positive_real
from bayesdp.lattices import DEFAULT_SWEEPS, sample_noise, sampler_for
from bayesdp.lattices.secure.secure import draw_secure
from bayesdp.mechanisms._parameters import one_statement
from bayesdp.mechanisms._secure import secure_statement
from bayesdp.mechanisms.additive import AdditiveMechanism
from bayesdp.noise import LatticeGaussian as Law
from bayesdp.privacy import (
    EXACT_SAMPLER,
    FLOATING_POINT_CAVEAT,
    Guarantee,
    gaussian_pairs,
    gaussian_sigma_for_rho,
    gibbs_sampler,
    rho_within,
)
from bayesdp.privacy.caveats import IntegersOnly
from bayesdp.privacy.stated_losses import LossAt, stated_loss

__all__ = ["LatticeGaussian"]


@dataclass(frozen=True)
class LatticeGaussian(AdditiveMechanism):
    """Publish integer counts with Gaussian integer noise that changes no invariant.

    The noise has mass proportional to ``exp(-||z||_2**2 / (2 sigma**2))``. Two tables with the same
    invariants are told apart with a loss of at most ``||x - x'||_2**2 / (2 sigma**2)`` in zero-concentrated
    differential privacy, in every dimension. State the loss by `rho`, or by `epsilon` and `delta`, which is
    converted to the largest rho within it.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    rho : float, optional
        zCDP loss for two tables whose difference has the l2 norm `sensitivity`.
    epsilon, delta : float, optional
        The same by approximate differential privacy.
    sensitivity : float, default 1
        The difference, in counts, that the loss refers to. A substitution has the root of 2, a 2x2 move 2. It is no unit:
        rho grows with the square of the difference, and epsilon with delta is not in proportion to it either.
    sweeps : int, default 1000
        Sweeps of the Gibbs sampler for each draw, where no exact sampler is practical (see `guarantee`).

    Raises
    ------
    TypeError, ValueError
        If the loss is not stated in exactly one way, a parameter is not valid, or the invariants determine
        the whole table.

    See Also
    --------
    bayesdp.noise.LatticeGaussian : the law of the noise.
    bayesdp.distributions.LatticeGaussian : that law as a PyMC distribution; it takes sigma.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Definition 13. The scale is
    not theirs: see docs/CORRECTIONS.md.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> mechanism = LatticeGaussian(Margins(table, ["county"], ["education"]), rho=0.125)
    >>> mechanism.sigma
    2.0
    >>> [row.loss["rho"] for row in mechanism.guarantee.pairs]  # a 2x2 move
    [0.5]
    """

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    sensitivity: float = 1.0
    sweeps: int = DEFAULT_SWEEPS

    name = "lattice-gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._stated()
        object.__setattr__(self, "sensitivity", positive_real(self.sensitivity, "sensitivity"))
        object.__setattr__(self, "sweeps", positive_integer(self.sweeps, "sweeps"))
        _ = self.law  # refused here if there is no noise of such a scale

    def _stated(self) -> tuple[str, ...]:
        given = {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}
        return one_statement(given, (("rho",), ("epsilon", "delta")))

    @property
    def sigma(self) -> float:
        """The scale of the noise, in counts."""
        if self.epsilon is None or self.delta is None:
            assert self.rho is not None  # one of the two ways was taken
            return gaussian_sigma_for_rho(self.rho, self.sensitivity)
        return gaussian_sigma_for_rho(rho_within(self.epsilon, self.delta), self.sensitivity)

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return Law(self.sigma)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.int64]:
        if rng is None and self._integers_only(method) is not None:
            return draw_secure(self.invariants, "gaussian", self.sigma, size)
        return sample_noise(self.invariants, "gaussian", self.sigma, rng, size, method, self.sweeps)

    def _integers_only(self, method: str) -> IntegersOnly | None:
        return secure_statement(self.invariants, "gaussian", method)

    def _guarantee(self, method: str) -> Guarantee:
        sampler = sampler_for(self.invariants, "gaussian", self.sigma, method, self.sweeps)
        stated = stated_loss({name: getattr(self, name) for name in self._stated()})
        return Guarantee(
            stated.kind,
            LossAt(stated, None if self.sensitivity == 1.0 else self.sensitivity),
            "l2",
            gaussian_pairs(self.sigma, self.differences, delta=self.delta),
            sampler=EXACT_SAMPLER if sampler.exact else gibbs_sampler(self.sweeps),
            caveats=(FLOATING_POINT_CAVEAT,),
        )
