"""Integer noise: independent in each answer, without invariants, or on the lattice of the tables that keep them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from bayesdp import noise
from bayesdp._arrays import Ints
from bayesdp._validate import choice, positive_integer, positive_real
from bayesdp.lattices import DEFAULT_SWEEPS, Sampler, sample_noise, sampler_for
from bayesdp.lattices.secure import draw_secure, has_secure
from bayesdp.mechanisms.base import AdditiveMechanism, GaussianStatement, PureStatement, laplace_scale
from bayesdp.mechanisms.protects import AnswersMechanism, SemiAdjacentTables
from bayesdp.noise.lattice.linear import lattice_pairs
from bayesdp.noise.secure import draw_independent, statement
from bayesdp.privacy import (
    EXACT_SAMPLER,
    FLOATING_POINT_CAVEAT,
    PairLoss,
    discrete_gaussian_epsilon,
    gaussian_pairs,
    gaussian_rho,
    rho_to_epsilon,
)
from bayesdp.privacy.caveats import IntegersOnly, Smooth
from bayesdp.privacy.losses import ZCDP, ApproximateDP, Loss, LossAt, all_of
from bayesdp.privacy.smooth import smooth_gaussian_delta
from bayesdp.privacy.words import SamplerStatement, Statement
from bayesdp.queries import SumPart


@dataclass(frozen=True)
class IndependentIntegers(AdditiveMechanism):
    """Independent integer noise, drawn with integer arithmetic only where no generator is given."""

    def _integers_only(self, method: str) -> IntegersOnly:
        return statement()

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> Ints:
        self._sampler(method)  # refuses unknown methods
        law: Any = self.law
        query = self.released_query
        drawn = draw_independent(law, size * query.rows) if rng is None else law.draw(rng, query.shape, size)
        return np.asarray(drawn.reshape(size, *query.shape))


@dataclass(frozen=True, init=False)
class DiscreteLaplace(PureStatement, IndependentIntegers, AnswersMechanism):
    """Publish answers with discrete Laplace noise, of mass ``exp(-|k| / b)``: pure differential privacy.

    The scale is ``b = sensitivity / epsilon``, with the largest l1 change of the answers between neighbouring tables.

    See Also
    --------
    bayesdp.noise.DiscreteLaplace : the law of the noise.
    LatticeLaplace : the same with invariants.

    References
    ----------
    Ghosh, Roughgarden and Sundararajan (2009), Universally Utility-Maximizing Privacy Mechanisms (the geometric mechanism).

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> mechanism = DiscreteLaplace(Margins(table, ["county"]), epsilon=0.5)
    >>> mechanism.law
    DiscreteLaplace(b=4.0)
    >>> release = mechanism.release([[20, 10], [5, 1]])  # from the operating system's entropy, with integers only
    >>> release.measurements[0].values.dtype
    dtype('int64')
    """

    name = "discrete-laplace"

    def __init__(self, table: Any, epsilon: float, *, neighbours: str = "substitution", query: Any = None) -> None:
        self._prepare(table, query, neighbours, epsilon=epsilon)

    @property
    def law(self) -> noise.DiscreteLaplace:
        """The law of the noise."""
        return noise.DiscreteLaplace(laplace_scale(self.sensitivity, self.epsilon))


@dataclass(frozen=True, init=False)
class DiscreteGaussian(GaussianStatement, IndependentIntegers, AnswersMechanism):
    """Publish answers with discrete Gaussian noise, of mass ``exp(-k**2 / (2 sigma**2))``.

    State the loss for neighbouring tables by `rho` (concentrated), or by `epsilon` and `delta`. Where a neighbour changes
    one answer by one (add-remove, a single set of sums), epsilon and delta are those of the exact profile of the law, and
    sigma is the smallest that has them; elsewhere the bound of concentrated privacy is converted: safe, but not tight.

    See Also
    --------
    bayesdp.noise.DiscreteGaussian : the law of the noise.
    LatticeGaussian : the same with invariants.

    References
    ----------
    Canonne, Kamath and Steinke (2020), The Discrete Gaussian for Differential Privacy, Theorems 4 and 7.

    Examples
    --------
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> DiscreteGaussian(counties, rho=0.125, neighbours="add-remove").sigma
    2.0
    >>> print(f"{DiscreteGaussian(counties, epsilon=1.0, delta=0.0072487768, neighbours='add-remove').sigma:.6f}")
    2.000000
    """

    name = "discrete-gaussian"
    _for_invariants = "LatticeGaussian"

    def __init__(
        self,
        table: Any,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        neighbours: str = "substitution",
        query: Any = None,
    ) -> None:
        self._prepare(table, query, neighbours, rho=rho, epsilon=epsilon, delta=delta)

    @property
    def _single(self) -> bool:
        """Whether neighbouring tables differ by one in one answer."""
        parts = self.released_query.parts
        return self.neighbours == "add-remove" and len(parts) == 1 and isinstance(parts[0], SumPart)

    @property
    def sigma(self) -> float:
        """The scale of the noise, in counts."""
        safe = self._scale_for(self.sensitivity)
        if self.epsilon is None or self.delta is None or not self._single:
            return safe
        return _smallest_sigma(self.epsilon, self.delta, safe)

    @property
    def law(self) -> noise.DiscreteGaussian:
        """The law of the noise."""
        return noise.DiscreteGaussian(self.sigma)

    @property
    def _loss(self) -> Loss:
        return self._neighbours_loss if self.delta is None else super()._loss

    @property
    def _neighbours_loss(self) -> Loss:
        rho = gaussian_rho(self.sigma, self.sensitivity)
        if self.delta is None:
            return ZCDP(rho)
        epsilon = discrete_gaussian_epsilon(self.delta, self.sigma) if self._single else rho_to_epsilon(rho, self.delta)
        return all_of([ZCDP(rho), ApproximateDP(epsilon, self.delta)])


def _smallest_sigma(epsilon: float, delta: float, safe: float) -> float:
    """The scale at which the exact profile of a shift of one count goes through (epsilon, delta), on the safe side; at most `safe`."""

    def excess(sigma: float) -> float:
        return discrete_gaussian_epsilon(delta, sigma) - epsilon

    low = safe
    while excess(low) <= 0.0:
        low *= 0.5
        if low < 1e-3:  # all the mass is at zero: delta is close to 1
            return safe
    sigma = float(scipy.optimize.brentq(excess, low, safe, rtol=1e-14))
    while excess(sigma) > 0.0 and sigma < safe:
        sigma *= 1.0 + 1e-13
    return min(sigma, safe)


@dataclass(frozen=True)
class LatticeNoise(AdditiveMechanism):
    """Integer noise on the tables that change no invariant.

    Parameters
    ----------
    sweeps : int, default 1000
        Sweeps of the Gibbs sampler for each draw, where no exact sampler is practical (see `guarantee`).
    """

    @property
    @abstractmethod
    def sweeps(self) -> int:
        """Sweeps of the Gibbs sampler for each draw."""

    def __post_init__(self) -> None:
        self._set(sweeps=positive_integer(self.sweeps, "sweeps"))
        super().__post_init__()

    @property
    def _form(self) -> tuple[str, float]:
        """The norm of the noise and its rate, or "gaussian" and its scale."""
        law: Any = self.law
        form: tuple[str, float] = law._form
        return form

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> Ints:
        if rng is None and self._integers_only(method) is not None:
            return draw_secure(self.invariants, *self._form, size)
        return sample_noise(self.invariants, *self._form, rng, size, method, self.sweeps)

    def _integers_only(self, method: str) -> IntegersOnly | None:
        secure = method != "mcmc" and has_secure(self.invariants, self._form[0])
        return statement("integers", extra=False) if secure else None

    def _drawn_by(self, method: str) -> Sampler:
        return sampler_for(self.invariants, *self._form, method, self.sweeps)

    def _sampler(self, method: str) -> SamplerStatement:
        return EXACT_SAMPLER if self._drawn_by(method).exact else SamplerStatement("Gibbs", self.sweeps)


@dataclass(frozen=True)
class AtDistance(LatticeNoise):
    """The same with a loss that is stated for two tables with the same invariants at some distance.

    Parameters
    ----------
    sensitivity : float, default 1
        The difference, in counts, that the loss refers to. A substitution has 2 in l1 and the root of 2 in l2, a 2x2 move 4 and 2.
        It is no unit: rho grows with the square of the difference, and epsilon with delta is not in proportion to it either.
    """

    sensitivity: float = 1.0
    sweeps: int = DEFAULT_SWEEPS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(sensitivity=positive_real(self.sensitivity, "sensitivity"))
        _ = self.law  # refused here if there is no noise of such a scale

    @property
    def _stated(self) -> LossAt:
        return LossAt(self._loss, None if self.sensitivity == 1.0 else self.sensitivity)


@dataclass(frozen=True)
class LatticeGaussian(AtDistance, GaussianStatement):
    """Publish integer counts with Gaussian integer noise that changes no invariant.

    The noise has mass proportional to ``exp(-||z||_2**2 / (2 sigma**2))``. Two tables with the same invariants are told apart with a
    loss of at most ``||x - x'||_2**2 / (2 sigma**2)`` in zero-concentrated differential privacy, in every dimension. State the loss by
    `rho`, or by `epsilon` and `delta`, which is converted to the largest rho within it.

    See Also
    --------
    bayesdp.noise.LatticeGaussian, bayesdp.distributions.LatticeGaussian : the law, also for PyMC; it takes sigma.

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

    name = "lattice-gaussian"

    @property
    def sigma(self) -> float:
        """The scale of the noise, in counts."""
        return self._scale_for(self.sensitivity)

    @property
    def law(self) -> noise.LatticeGaussian:
        """The law of the noise."""
        return noise.LatticeGaussian(self.sigma)

    def _pairs(self) -> tuple[PairLoss, ...]:
        return lattice_pairs(self.invariants, self.sigma, self.differences, self.delta)

    @property
    def _drawing_caveats(self) -> tuple[Statement, ...]:
        if self.epsilon is None:
            return (FLOATING_POINT_CAVEAT,)
        rate = self.epsilon / self.sensitivity
        delta = smooth_gaussian_delta(rate, self.sigma)
        return (FLOATING_POINT_CAVEAT, Smooth(rate, delta, "l2")) if delta < 1.0 else (FLOATING_POINT_CAVEAT,)

    def _earlier_rows(self) -> tuple[PairLoss, ...]:
        return gaussian_pairs(self.sigma, self.differences, delta=self.delta)


@dataclass(frozen=True)
class LatticeNormNoise(PureStatement, LatticeNoise):
    """Integer noise of mass ``exp(-epsilon ||z|| / sensitivity)``.

    Parameters
    ----------
    norm : {"l1", "l2"}, default "l1"
    """

    norm: str = "l1"

    def __post_init__(self) -> None:
        choice(self.norm, ("l1", "l2"), "norm")
        super().__post_init__()

    @property
    def law(self) -> noise.LatticeLaplace:
        """The law of the noise."""
        return noise.LatticeLaplace(self.epsilon / self._stated_size, self.norm)

    @property
    def _unit(self) -> str:
        return self.norm

    @property
    def _drawing_caveats(self) -> tuple[Statement, ...]:
        return (FLOATING_POINT_CAVEAT, Smooth(self.law.epsilon, 0.0, self.norm))


@dataclass(frozen=True)
class LatticeLaplace(AtDistance, LatticeNormNoise):
    """Publish integer counts with noise that changes no invariant, of mass ``exp(-rate ||z||)``.

    The rate is ``epsilon / sensitivity``: two tables with the same invariants are told apart with a loss of at most
    ``epsilon ||x - x'|| / sensitivity``. The guarantee prints that of the smallest differences.

    Parameters
    ----------
    epsilon : float
        Loss for two tables whose difference has the norm `sensitivity`.

    See Also
    --------
    bayesdp.noise.LatticeLaplace, bayesdp.distributions.LatticeLaplace : the law, also for PyMC; it takes the noise's rate.

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

    name = "lattice-laplace"

    @property
    def rate(self) -> float:
        """The rate of the noise per count, ``epsilon / sensitivity``."""
        return self.epsilon / self.sensitivity


@dataclass(frozen=True)
class SemiLatticeLaplace(LatticeNormNoise, SemiAdjacentTables):
    """Publish integer counts with noise of mass ``exp(-epsilon ||z|| / Delta(S_Semi))`` that changes no invariant.

    The noise is that of `LatticeLaplace` with ``sensitivity = Delta(S_Semi)``.

    See Also
    --------
    SemiNorm : the same on real numbers.
    SemiKNorm : real noise in the norm of the smallest ball.
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

    sweeps: int = field(default=DEFAULT_SWEEPS, kw_only=True)

    name = "semi-lattice-laplace"
