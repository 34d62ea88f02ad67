"""How many sweeps of a chain a lattice mechanism needs, estimated by coupled chains, and what that costs in privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bayesdp._validate import Seed, generator_of, positive_integer, positive_real, probability
from bayesdp.lattices.coupling.conditional import BasisLaw, draw_basis_gibbs
from bayesdp.lattices.coupling.coupling import CouplingBound, couple, least_limit
from bayesdp.mechanisms.lattice.lattice_laplace import LatticeGaussian, LatticeLaplace
from bayesdp.noise.arrays import count_of
from bayesdp.privacy import gaussian_rho, rho_to_epsilon


@dataclass(frozen=True, eq=False)
class Certificate:
    """An estimate of how far the noise of a chain is from its law, and a way to draw that noise.

    It is an estimate from coupled chains, never a proof; see `bayesdp.lattices.coupling.coupling` for what it assumes.

    Parameters
    ----------
    mechanism : LatticeLaplace or LatticeGaussian
    tolerance : float
        The total variation distance that was asked for.
    sweeps : int
        First number of sweeps at which `tv_upper` is at most the tolerance.
    tv_estimate : float
        Estimate of the bound on the total variation distance after so many sweeps.
    tv_upper : float
        Its upper confidence limit.
    largest : float
        Largest protected ``||u||``, in the mechanism's norm.
    epsilon : float
        Loss between two tables with that difference.
    delta_charge : float
        ``(1 + exp(epsilon)) tv_upper``: what not having converged adds to delta.
    delta : float
        The mechanism's own delta, to which the charge is added; zero for Laplace noise.
    chains, lag : int
        Pairs of coupled chains, and the sweeps that one of a pair is ahead.
    confidence : float
    bound : CouplingBound
        The whole curve.
    """

    mechanism: LatticeLaplace | LatticeGaussian
    tolerance: float
    sweeps: int
    tv_estimate: float
    tv_upper: float
    largest: float
    epsilon: float
    delta_charge: float
    delta: float
    chains: int
    lag: int
    confidence: float
    bound: CouplingBound = field(repr=False)

    @property
    def text(self) -> str:
        """What is claimed, in words."""
        kind, _ = _law(self.mechanism)
        norm = "l2" if kind == "gaussian" else kind
        vacuous = ", which protects nothing: ask for a smaller tolerance" if self.delta_charge >= 1.0 else ""
        return (
            f"Estimate, not a proof: after {self.sweeps} sweeps of Gibbs from zero the noise is within {self.tv_upper:.3g} of "
            f"its law in total variation (upper limit at {100 * self.confidence:g}% confidence; estimate "
            f"{self.tv_estimate:.2g}), from {self.chains} pairs of coupled chains with lag {self.lag}, if pairs that stay "
            f"apart long go on meeting at the rate seen. Charged to delta: (1 + exp({self.epsilon:.4g})) x "
            f"{self.tv_upper:.3g} = {self.delta_charge:.3g} on top of {self.delta:.3g}{vacuous}; for two tables at "
            f"{norm} distance {self.largest:.4g} or less."
        )

    def __str__(self) -> str:
        return self.text

    def noise(self, rng: Seed = None, size: int = 1) -> npt.NDArray[np.int64]:
        """Draw noise, each draw the end of a chain of its own of `sweeps` sweeps.

        Parameters
        ----------
        rng : int, numpy.random.Generator or None
            Without one, entropy of the operating system.
        size : int

        Returns
        -------
        int64 array, shape ``(size, *table)``
        """
        count, shape = count_of(size), self.mechanism.frame.shape
        generator = generator_of(rng)
        if not count:
            return np.zeros((0, *shape), dtype=np.int64)
        target = BasisLaw.of(self.mechanism.invariants, *_law(self.mechanism))
        draws = draw_basis_gibbs(target, generator, chains=count, thin=self.sweeps)
        return draws.reshape(count, *shape)


def certify(
    mechanism: LatticeLaplace | LatticeGaussian,
    tolerance: float,
    *,
    chains: int = 10_000,
    lag: int | None = None,
    confidence: float = 0.99,
    largest: float | None = None,
    delta: float | None = None,
    horizon: int = 100_000,
    rng: Seed = None,
) -> Certificate:
    """Find the number of sweeps after which noise by a chain is as close to its law as asked for.

    Pairs of chains are coupled; the number of sweeps is the first one at which an upper confidence limit of the
    estimated total variation distance is at most the tolerance. Noise that is within TV of its law is ``(epsilon, delta +
    (1 + exp(epsilon)) TV)``-private where the law is ``(epsilon, delta)``-private: an event is TV more likely under the
    one table, and ``exp(epsilon) TV`` under the other.

    Parameters
    ----------
    mechanism : LatticeLaplace or LatticeGaussian
    tolerance : float
        Total variation distance, in (0, 1).
    chains : int, default 10000
        Pairs of coupled chains. A tolerance takes about ``1.25 log(2 / (1 - confidence)) / tolerance`` of them, or more.
    lag : int, optional
        Sweeps that one chain of a pair is ahead; found from other pairs if not given.
    confidence : float, default 0.99
    largest : float, optional
        Largest protected difference ``||u||``, in the norm of the mechanism (l2 for Gaussian noise). By default the
        largest of the smallest kinds of difference that keep the invariants (`Mechanism.differences`).
    delta : float, optional
        Gaussian noise stated by rho: the delta at which the loss is converted to an epsilon, on top of which comes the
        charge.
    horizon : int, default 100000
        Sweeps after which a pair is given up.
    rng : int, numpy.random.Generator or None
        Without one, entropy of the operating system.

    Returns
    -------
    Certificate

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid, or the pairs cannot support the tolerance: there are too few of them, some of them
        never met, or too many met too late. The message says which.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Section 4; Biswas, Jacob and Vanetti
    (2019), Theorem 2.5.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = LatticeLaplace(Margins(table, ["county"], ["education"]), epsilon=0.25)
    >>> certificate = certify(mechanism, 0.05, chains=1000, rng=np.random.default_rng(1))
    >>> certificate.tv_upper <= 0.05
    True
    >>> certificate.noise(np.random.default_rng(2), size=5).shape
    (5, 3, 3)
    >>> print(certificate)
    Estimate, not a proof: after ... sweeps of Gibbs from zero ...
    """
    law, scale = _law(mechanism)
    tolerance = probability(tolerance, "tolerance")
    chains, confidence = positive_integer(chains, "chains"), probability(confidence, "confidence")
    size = _largest(mechanism, largest, law)
    epsilon, own = _loss(mechanism, size, delta)
    _enough(chains, tolerance, confidence)
    target = BasisLaw.of(mechanism.invariants, law, scale)
    bound = couple(target, generator_of(rng), pairs=chains, lag=lag, horizon=horizon, confidence=confidence)
    if bound.censored:
        raise ValueError(
            f"{bound.censored} of {chains} pairs of chains have not met within {horizon} sweeps: the bound is unknown, and "
            "nothing is certified; raise horizon, or draw exactly where that is practical"
        )
    at = np.flatnonzero((bound.upper <= tolerance) & (bound.times >= 1))
    if not at.size:
        least = float(bound.upper[-1])
        raise ValueError(
            f"tolerance={tolerance:g} cannot be supported by {chains} pairs of chains at {100 * confidence:g}% confidence: the "
            f"upper limit does not fall below {least:.3g}"
            + (
                f"; about {math.ceil(1.2 * chains * least / tolerance)} pairs could"
                if least < 1.0
                else "; try a longer lag"
            )
        )
    found = int(at[0])
    upper = float(bound.upper[found])
    return Certificate(
        mechanism, tolerance, int(bound.times[found]), float(bound.bound[found]), upper, size, epsilon,
        _charge(epsilon, upper), own, chains, bound.lag, confidence, bound,
    )  # fmt: skip


def _law(mechanism: LatticeLaplace | LatticeGaussian) -> tuple[str, float]:
    if isinstance(mechanism, LatticeLaplace):
        return mechanism.norm, mechanism.rate
    if isinstance(mechanism, LatticeGaussian):
        return "gaussian", mechanism.sigma
    raise TypeError(
        f"mechanism must be a LatticeLaplace or LatticeGaussian, whose chains can be coupled, got {type(mechanism).__name__}; "
        "noise by hit-and-run (k-norm) is certified by nothing here"
    )


def _largest(mechanism: LatticeLaplace | LatticeGaussian, largest: float | None, law: str) -> float:
    if largest is not None:
        return positive_real(largest, "largest")
    known = [difference.l1 if law == "l1" else difference.l2 for difference in mechanism.differences]
    if not known:
        raise ValueError("largest must be given: no difference that keeps these invariants is known")
    return max(known)


def _loss(mechanism: LatticeLaplace | LatticeGaussian, size: float, delta: float | None) -> tuple[float, float]:
    """Epsilon and delta for two tables at the largest protected difference."""
    if isinstance(mechanism, LatticeLaplace):
        if delta is not None:
            raise ValueError(f"delta must not be given for Laplace noise, which has none, got {delta!r}")
        return mechanism.rate * size, 0.0
    if (delta is None) == (mechanism.delta is None):
        raise ValueError(
            "delta must be given for Gaussian noise that is stated by rho, and only for that: the charge is for a loss "
            f"epsilon at a delta; got delta={delta!r} for {mechanism.delta!r} of the mechanism"
        )
    own = probability(delta if delta is not None else mechanism.delta, "delta")
    return rho_to_epsilon(gaussian_rho(mechanism.sigma, size), own), own


def _enough(chains: int, tolerance: float, confidence: float) -> None:
    """Refuse before any work what no outcome could support."""
    least = least_limit(chains, confidence)
    if least > tolerance:
        needed = math.ceil(1.25 * math.log(2.0 / (1.0 - confidence)) / -math.log1p(-tolerance)) + 1
        raise ValueError(
            f"tolerance={tolerance:g} cannot be supported by {chains} pairs of chains at {100 * confidence:g}% confidence: "
            f"even if none stayed apart, the upper limit would be {least:.3g}; use at least chains={needed}"
        )


def _charge(epsilon: float, tv: float) -> float:
    # exp overflows beyond 709; the charge is then vacuous anyway.
    return (1.0 + math.exp(epsilon)) * tv if epsilon < 700.0 else math.inf
