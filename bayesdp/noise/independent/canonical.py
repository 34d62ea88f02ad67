"""Canonical noise as laws of releases: of any symmetric trade-off function, and Tulap noise, that of (epsilon, delta)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats
from bayesdp._validate import positive_number
from bayesdp.invariants import Invariants
from bayesdp.noise import kernels
from bayesdp.noise.arrays import values_and_location
from bayesdp.noise.base import IndependentLaw
from bayesdp.privacy import canonical
from bayesdp.privacy.canonical import CanonicalNoise
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import describe_tradeoff, tradeoff_from_description


def symmetric_tradeoff(given: Any) -> TradeOff:
    """Accept a trade-off function, or its description, that has canonical noise."""
    f = tradeoff_from_description(given) if isinstance(given, Mapping) else given
    describe_tradeoff(f)  # TypeError if it is none
    f.canonical_noise()  # refused if there is none
    return f


class StandardLaw(IndependentLaw):
    """Independent noise of each answer: `unit` times that of the `standard` law, one of `bayesdp.privacy.canonical`."""

    support = "reals"
    integer = False

    @property
    @abstractmethod
    def standard(self) -> CanonicalNoise:
        """The law for sensitivity 1, around zero."""

    @property
    def unit(self) -> float:
        """The sensitivity, in counts."""
        return 1.0

    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density of each value, elementwise; ``-inf`` off the support. Values and locations are of shapes that broadcast."""
        y, mu = values_and_location(values, location)
        return np.asarray(self.standard.logpdf((y - mu) / self.unit)) - math.log(self.unit)

    log_density = log_each

    def _drawn(self, rng: np.random.Generator, location: Floats, count: int, invariants: Any = None) -> Floats:
        noise = np.asarray(self.standard.rvs((count, *location.shape), rng), dtype=np.float64)
        return np.asarray(location + self.unit * noise, dtype=np.float64)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats:
        """Variance of each answer, shape `shape`."""
        return np.full(shape, self.unit**2 * self.standard.var())


@dataclass(frozen=True, eq=False)
class Tulap(StandardLaw):
    """Independent truncated uniform-Laplace noise of each answer: the noise that wastes nothing of (epsilon, delta).

    Telling two answers apart that differ by `sensitivity` is exactly as hard as (epsilon, delta)-differential privacy says, at
    every level; so tests and intervals from it are optimal (Awan and Slavkovic, 2018). With delta = 0 and sensitivity 1 it is
    discrete Laplace noise of scale ``1/epsilon`` plus a uniform number between -1/2 and 1/2; delta > 0 cuts off the tails.

    ========  ======================================================================
    Support   real numbers; within a bounded distance of the answer if delta > 0
    Mean      the answer
    Variance  ``sensitivity**2 (2 b / (1 - b)**2 + 1/12)``, b = exp(-epsilon), delta = 0
    ========  ======================================================================

    Parameters
    ----------
    epsilon : float
        Greater than zero.
    delta : float, default 0
        At least 0 and less than 1.
    sensitivity : float, default 1
        Largest change of one answer, in counts.

    See Also
    --------
    bayesdp.privacy.canonical.Tulap : the same law with the methods of a SciPy law.
    bayesdp.mechanisms.CanonicalNoise : the mechanism that adds this noise.

    References
    ----------
    Awan and Slavkovic (2018), Differentially Private Uniformly Most Powerful Tests for Binomial Data, Definition 2.

    Examples
    --------
    >>> law = Tulap(epsilon=1.0, delta=0.01)
    >>> print(f"{law.logp([10.3, 3.9], [10, 4]):.6f}")
    -1.520729
    >>> law.draw(np.random.default_rng(1), shape=(3,)).shape
    (3,)
    """

    epsilon: float
    delta: float = 0.0
    sensitivity: float = 1.0

    name = "tulap"
    kernel_parameters = ("epsilon", "delta")
    draw_one = staticmethod(kernels.tulap)

    def __post_init__(self) -> None:
        epsilon = positive_number(self.epsilon, "epsilon")
        delta = canonical.Tulap(epsilon, self.delta).delta
        self._set(epsilon=epsilon, delta=delta, sensitivity=positive_number(self.sensitivity, "sensitivity"))

    @property
    def standard(self) -> canonical.Tulap:
        """The law for sensitivity 1, around zero."""
        return canonical.Tulap(self.epsilon, self.delta)

    @property
    def unit(self) -> float:
        """The sensitivity, in counts."""
        return self.sensitivity

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:
        """Log-density for sensitivity 1, elementwise; ``-inf`` beyond the ends."""
        return canonical.tulap_logs(xp, -xp.abs(value - mu), epsilon, delta)[1]

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:
        """Logarithm of the probability of at most `value` for sensitivity 1, elementwise."""
        tail = canonical.tulap_logs(xp, -xp.abs(value - mu), epsilon, delta)[0]
        return xp.where(value <= mu, tail, xp.log1p(-xp.exp(xp.minimum(tail, -math.log(2.0)))))

    @staticmethod
    def fill(rng: np.random.Generator, mu: Floats, epsilon: Floats, delta: Floats, out: Floats) -> None:
        """Write draws for sensitivity 1 into ``out``, shape (draws, cells)."""
        for law in set(zip(epsilon.tolist(), delta.tolist(), strict=True)):
            cells = (epsilon == law[0]) & (delta == law[1])
            out[:, cells] = mu[cells] + np.asarray(canonical.Tulap(*law).rvs((len(out), int(cells.sum())), rng))


@dataclass(frozen=True, eq=False)
class Canonical(StandardLaw):
    """Independent canonical noise of each answer: two answers that differ by one are as hard to tell apart as f says, at every level.

    For (epsilon, delta) that is `Tulap`, for mu-GDP normal noise of standard deviation ``1 / mu``: those laws are faster. This one
    is for any other symmetric f.

    ========  ====================================================================
    Support   real numbers; within a bounded distance of the answer if f(0) < 1
    Mean      the answer
    Variance  by quadrature
    ========  ====================================================================

    Parameters
    ----------
    tradeoff : TradeOff, or its description
        Symmetric, and other than ``1 - alpha``.

    Raises
    ------
    TypeError, ValueError
        If there is no canonical noise for it.

    See Also
    --------
    bayesdp.mechanisms.SemiCanonical : the mechanism that adds this noise under invariants.

    References
    ----------
    Awan and Vadhan (2023), Canonical Noise Distributions and Private Hypothesis Tests; Cho and Awan, Definition 35 and Lemma 36.

    Examples
    --------
    >>> from bayesdp.privacy import tradeoff
    >>> law = Canonical(tradeoff([0.75, 0.25], [0.25, 0.75]))
    >>> print(f"{law.logp([10.3], [10]):.6f}")
    -0.693147
    >>> bool(abs(law.draw(1, shape=(3,))).max() < 5)
    True
    """

    tradeoff: TradeOff

    name = "canonical"

    def __post_init__(self) -> None:
        self._set(tradeoff=symmetric_tradeoff(self.tradeoff))

    @property
    def standard(self) -> CanonicalNoise:
        """The law around zero."""
        return self.tradeoff.canonical_noise()

    def describe(self) -> dict[str, Any]:
        """Describe the law, see `NoiseLaw.describe`."""
        return {"law": self.name, "tradeoff": describe_tradeoff(self.tradeoff)}
