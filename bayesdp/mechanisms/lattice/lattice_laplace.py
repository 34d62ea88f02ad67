"""The lattice Laplace mechanism: integer noise that keeps the invariants, with pure differential privacy.

The lattice Gaussian mechanism: integer noise that keeps the invariants, with concentrated privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, positive_integer, positive_real
from bayesdp.lattices import DEFAULT_SWEEPS, sample_noise, sampler_for
from bayesdp.lattices.secure import draw_secure
from bayesdp.mechanisms._shared import one_statement, secure_statement
from bayesdp.mechanisms.base import AdditiveMechanism
from bayesdp.noise import LatticeGaussian as LatticeGaussianLaw
from bayesdp.noise import LatticeLaplace as LatticeLaplaceLaw
from bayesdp.noise.lattice.linear import LatticeProfile, lattice_pairs, lattice_profiles
from bayesdp.privacy import (
    DIFFERENCES,
    EXACT_SAMPLER,
    FLOATING_POINT_CAVEAT,
    Guarantee,
    PairLoss,
    gaussian_pairs,
    gaussian_sigma_for_rho,
    gibbs_sampler,
    pure_pairs,
    rho_within,
)
from bayesdp.privacy.caveats import IntegersOnly, Smooth
from bayesdp.privacy.losses import LossAt, PureDP, stated_loss
from bayesdp.privacy.smooth import SmoothDP, smooth_gaussian_delta
from bayesdp.privacy.words import Statement


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
    def law(self) -> LatticeGaussianLaw:
        """The law of the noise."""
        return LatticeGaussianLaw(self.sigma)

    def smooth(self, epsilon: float) -> SmoothDP | None:
        """The loss at every distance (Definition 2 of the paper), at an epsilon for each unit of l2 distance.

        Its delta is an upper bound that holds on every lattice: see `bayesdp.privacy.smooth_gaussian_delta`. None where that is 1.
        """
        delta = smooth_gaussian_delta(epsilon, self.sigma)
        return SmoothDP(epsilon, delta, "l2") if delta < 1.0 else None

    def profiles(self, difference: str) -> tuple[LatticeProfile, ...]:
        """The exact (epsilon, delta) profiles of a kind of difference, each with bounds on both sides.

        Parameters
        ----------
        difference : str
            A name in `bayesdp.privacy.DIFFERENCES`.

        Returns
        -------
        tuple of LatticeProfile
            One for each part of the table in which the kind is a lattice of its own; the loss is the largest of them.

        Raises
        ------
        ValueError
            If the name is unknown, or the invariants leave no such difference.
        NotImplementedError
            If the profile is not known: for totals that overlap, or where such a difference reaches into several parts.

        Examples
        --------
        >>> from bayesdp.queries import Totals
        >>> [profile] = LatticeGaussian(Totals({"county": list("abc")}), rho=0.0125).profiles("substitution")
        >>> print("{:.10f} {:.10f}".format(*profile.delta(0.5)))
        0.0012495180 0.0012495180
        """
        kind = DIFFERENCES[choice(difference, tuple(DIFFERENCES), "difference")]
        found = lattice_profiles(self.invariants, kind, self.sigma)
        if found is None:
            raise NotImplementedError(
                f"the exact profile of a {difference} is known for disjoint totals, and for tables with all sums over one way: "
                f"under {self.invariants!r} the loss is bounded by zCDP"
            )
        if not found:
            raise ValueError(f"difference {difference!r} does not occur under {self.invariants!r}")
        return found

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.int64]:
        if rng is None and self._integers_only(method) is not None:
            return draw_secure(self.invariants, "gaussian", self.sigma, size)
        return sample_noise(self.invariants, "gaussian", self.sigma, rng, size, method, self.sweeps)

    def _integers_only(self, method: str) -> IntegersOnly | None:
        return secure_statement(self.invariants, "gaussian", method)

    def _guarantee(self, method: str) -> Guarantee:
        sampler = sampler_for(self.invariants, "gaussian", self.sigma, method, self.sweeps)
        stated = stated_loss({name: getattr(self, name) for name in self._stated()})
        grows: tuple[Statement, ...] = ()
        if self.epsilon is not None:
            smooth = self.smooth(self.epsilon / self.sensitivity)
            grows = (Smooth(smooth.epsilon, smooth.delta, "l2"),) if smooth is not None else ()
        return Guarantee(
            stated.kind,
            LossAt(stated, None if self.sensitivity == 1.0 else self.sensitivity),
            "l2",
            lattice_pairs(self.invariants, self.sigma, self.differences, self.delta),
            sampler=EXACT_SAMPLER if sampler.exact else gibbs_sampler(self.sweeps),
            caveats=(FLOATING_POINT_CAVEAT, *grows),
        )

    def _earlier_rows(self) -> tuple[PairLoss, ...]:
        return gaussian_pairs(self.sigma, self.differences, delta=self.delta)


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
    def law(self) -> LatticeLaplaceLaw:
        """The law of the noise."""
        return LatticeLaplaceLaw(self.rate, self.norm)

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
