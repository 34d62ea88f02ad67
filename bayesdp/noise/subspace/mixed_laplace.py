"""The mixed Laplace law: extended Laplace noise whose scale is drawn first, and is not published."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import positive_number
from bayesdp.noise.base import Floats, LossByLength
from bayesdp.noise.subspace.base import CoordinateLaw, share_of_projection
from bayesdp.privacy.losses import PureDP
from bayesdp.queries import Query

_TOTAL = 1e-9
"""How far probabilities may be from adding up to 1: files and users round them."""


def public_probabilities(values: npt.ArrayLike, name: str) -> Floats:
    """Accept two or more positive numbers that add up to 1, up to 1e-9; they are divided by their sum."""
    array = np.asarray(_validate.finite_array(values, name), dtype=np.float64)
    if array.ndim != 1 or len(array) < 2:
        raise ValueError(f"{name} must be a list of two or more numbers, got an array of shape {array.shape}")
    if np.any(array <= 0.0) or abs(math.fsum(array.tolist()) - 1.0) > _TOTAL:
        raise ValueError(f"{name} must be positive and add up to 1, got {array.tolist()}")
    array = array / math.fsum(array.tolist())
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class MixedLaplace(CoordinateLaw):
    r"""Extended Laplace noise of scale ``b * ratios[k]``, k drawn once for all answers with probability ``weights[k]``.

    The log-density of noise z is ``log sum_k weights[k] exp(-||Q^T z||_1 / b_k) / (2 b_k)**n`` with ``b_k = b * ratios[k]`` and n
    the dimension. The answers are not independent given the counts, even in coordinates: they share the scale.

    ========  ==================================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  ``2 sum_k weights[k] b_k**2`` times the diagonal of the projection
    ========  ==================================================================

    Parameters
    ----------
    b : float
        Scale in counts.
    ratios : array_like, shape (m,)
        The scales divided by b.
    weights : array_like, shape (m,)
        Public probabilities of the scales.
    coordinates : {"helmert-1", "echelon-1"}
        How the coordinates are chosen, see `Invariants.coordinate_rule`.

    Raises
    ------
    TypeError, ValueError
        If a scale is not a positive finite number below 2**46, the weights are not positive or do not add up to 1, there are not as
        many of them as of ratios, or the rule is not known.

    See Also
    --------
    bayesdp.distributions.MixedLaplace : the same law as a PyMC distribution.
    bayesdp.mechanisms.MixedLaplace : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, end of Section 2.3 ("axiom of choice").

    Examples
    --------
    Of two counts with a fixed total, the only coordinate is their difference over the root of 2.

    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = MixedLaplace(b=2.0, ratios=[1.0, 3.0], weights=[0.75, 0.25])
    >>> d = math.sqrt(8)
    >>> print(f"{law.logp([9, 1], [7, 3], pair):.6f} {math.log(0.75 * math.exp(-d / 2) / 4 + 0.25 * math.exp(-d / 6) / 12):.6f}")
    -2.837243 -2.837243
    """

    b: float
    ratios: Floats
    weights: Floats
    coordinates: str = "helmert-1"

    name = "mixed-laplace"
    everywhere = True
    scale_name = "b"

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_number(self.b, "b"))
        object.__setattr__(self, "weights", public_probabilities(self.weights, "weights"))
        ratios = np.array(_validate.finite_array(self.ratios, "ratios"), dtype=np.float64)
        if ratios.shape != self.weights.shape:
            raise ValueError(
                f"ratios must be as many as weights, {len(self.weights)}, got an array of shape {ratios.shape}"
            )
        for scale in ratios.tolist():
            positive_number(scale, "ratios")
            positive_number(self.b * scale, "b times ratios")
        ratios.flags.writeable = False
        object.__setattr__(self, "ratios", ratios)
        self._check_rule()

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density at coordinates; see `TableLaw.log_kernel`."""
        length, n = xp.sum(xp.abs(measured), axis=-1), invariants.dimension
        parts = [
            math.log(weight) - length / (scale * ratio) - n * xp.log(2.0 * scale * ratio)
            for ratio, weight in zip(self.ratios.tolist(), self.weights.tolist(), strict=True)
        ]
        return reduce(xp.logaddexp, parts)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw the scale of each table, then independent coordinates."""
        scales = self.b * self.ratios[rng.choice(len(self.weights), size=count, p=self.weights)]
        return invariants.from_coordinates(scales[:, None] * rng.laplace(size=(count, invariants.dimension)))

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell; None for more than 2048 cells, unless the invariants are disjoint totals."""
        kept = share_of_projection(self.needed(invariants, shape))
        return None if kept is None else 2.0 * self.b**2 * float(self.weights @ self.ratios**2) * kept

    def loss(self, length: float, dimension: int) -> float:
        """The epsilon of two tables whose answers are so far apart in the l1 norm of coordinates; exact.

        The density is a function h of the norm, and log h is convex and falls, as a mixture of exponentials does. So it falls fastest
        from 0 on, and the largest log-ratio of the densities at two points whose norms differ by at most the length is
        ``log h(0) - log h(length)``. That is less than the length over the smallest scale.

        Examples
        --------
        >>> law = MixedLaplace(1.0, [1.0, 2.0], [0.5, 0.5])
        >>> print(f"{law.loss(1.0, 1):.4f} {law.loss(1.0, 20):.4f}")
        0.8042 1.0000
        """
        scales = self.b * self.ratios
        # Relative to the largest scale, so that no power of a scale overflows.
        heights = np.log(self.weights) - dimension * np.log(scales / scales.max())
        return max(0.0, float(logsumexp(heights) - logsumexp(heights - length / scales)))

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length in coordinates. See `NoiseLaw.pair_loss`."""
        free = invariants.through(query)
        if self.coordinates != free.coordinate_rule:
            return None
        coordinates = free.coordinates if free.rank else None
        return LossByLength(("pure",), "l1", lambda size, _: PureDP(self.loss(size, free.dimension)), coordinates)
