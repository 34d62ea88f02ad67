"""A law of which only values within thresholds are published: of the others it is known on which side they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise._verbs import LogMassWindows, LossByLength
from bayesdp.noise.arrays import broadcast_scale, located, values_and_location
from bayesdp.noise.base import Floats, Ints, NoiseLaw
from bayesdp.noise.bounded.bounds import plain_bounds
from bayesdp.noise.limits import Limit, checked_limit
from bayesdp.noise.namespace import finite
from bayesdp.noise.perturbed._censored_moments import inner_moments
from bayesdp.noise.perturbed._censored_windows import censored_windows
from bayesdp.noise.perturbed.thresholds import check_order
from bayesdp.queries import Query


@dataclass(frozen=True, eq=False, init=False)
class Censored(NoiseLaw):
    r"""Values of a law that are published from ``below`` to ``above`` only; of the others it is known on which side they were.

    With Y of the law that was censored, around mu:

    .. math:: p(y \mid \mu) = \begin{cases} P(Y < below \mid \mu) & y = below - 1 \\ p_Y(y \mid \mu) & below \le y \le above \\
        P(Y > above \mid \mu) & y = above + 1 \end{cases}

    A value that was held back stands as ``below - 1`` ("under the threshold") or ``above + 1`` ("over it"), for real laws too:
    a code, and no value. `bayesdp.thresholded` writes it where an answer could have been published and was not. An answer of which
    nothing is known, because it was not asked for, is no censored one: it is unmeasured. Numbers of a real law between
    the code and the threshold are refused.

    ========  =============================================================================
    Support   ``below`` to ``above``, and the codes; its mass is with respect to both
    Mean      of values with their codes, see `mean`; it depends on the location
    Variance  likewise
    ========  =============================================================================

    Parameters
    ----------
    law : NoiseLaw, or its description
        Of independent noise, integers or reals, with tails that it knows: `DiscreteLaplace`, `DiscreteGaussian`, `Laplace`,
        `Gaussian`, and others with ``log_each``, ``log_cdf`` and ``log_sf``.
    below : float or array_like, optional
        Smallest value that is published; a whole number for integers. None or minus infinity where there is no such threshold.
    above : float or array_like, optional
        Largest value that is published; None or infinity where there is none.
    noise : NoiseLaw, or its description, optional
        The same as `law`, by the name that files have.

    Raises
    ------
    TypeError, ValueError
        If the law has no such tails, or the thresholds are no numbers, fractional for integers, or ``below > above``.

    See Also
    --------
    bayesdp.thresholded : a measurement with a threshold, from the answers that were published.
    bayesdp.suppressed : answers whose true value was under a threshold.
    bayesdp.distributions.Censored : the same law as a PyMC distribution.

    Notes
    -----
    Censoring is post-processing: what the law hides without it, it hides with it. For integers the likelihood is that of values
    clipped to ``below - 1`` and ``above + 1``.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteLaplace
    >>> law = Censored(DiscreteLaplace(b=2.0), below=3)
    >>> np.round(np.exp(law.log_each([2, 3, 4, 5], 1)), 4)
    array([0.771 , 0.0901, 0.0546, 0.0331])
    >>> print(law)
    censored law=(discrete-laplace b=2) below=3
    """

    noise: Any
    below: Limit = -np.inf
    above: Limit = np.inf

    name = "censored"
    support = "bounded"
    family = "perturbed"
    has_atoms = True
    additive = False
    other_parameters = ("law",)
    relation = "law=(NAME PARAMETER=VALUE ...), the law without thresholds, and below=LOW, above=HIGH or both"

    def __init__(
        self,
        law: NoiseLaw | Mapping[str, Any] | None = None,
        below: Any = None,
        above: Any = None,
        *,
        noise: NoiseLaw | Mapping[str, Any] | None = None,
    ) -> None:
        if (law is None) == (noise is None):
            raise TypeError("law must be the noise law whose values were censored, given once")
        inner = _inner(noise if law is None else law)
        object.__setattr__(self, "noise", inner)
        object.__setattr__(self, "below", checked_limit(below, -np.inf, "below", integer=inner.integer))
        object.__setattr__(self, "above", checked_limit(above, np.inf, "above", integer=inner.integer))
        check_order(self.below, self.above, integer=inner.integer)

    @property
    def law(self) -> NoiseLaw:
        """The law whose values were censored."""
        law: NoiseLaw = self.noise
        return law

    @property
    def uncensored(self) -> NoiseLaw:
        """The law whose values were censored. See `NoiseLaw.uncensored`."""
        return self.law

    @property
    def integer(self) -> bool:  # type: ignore[override]  # a class variable of other laws; here it is that of the law inside
        """Whether values are integers."""
        return self.law.integer

    @property
    def everywhere(self) -> bool:  # type: ignore[override]  # as above
        """Whether no value is impossible around any location."""
        return self.law.everywhere

    @property
    def limits(self) -> tuple[Any, Any]:
        """The codes of what was held back; infinite where there is no threshold."""
        return self.below - 1.0, self.above + 1.0

    def refusals(self, values: Floats | Ints) -> dict[int, str]:
        """Numbers of real laws between a code and its threshold. See `NoiseLaw.refusals`."""
        y = np.asarray(values, dtype=np.float64)
        low, high = self._thresholds(y.shape)
        odd = np.flatnonzero(((y < low) & (y > low - 1.0)) | ((y > high) & (y < high + 1.0)))
        low, high = low.reshape(-1), high.reshape(-1)
        return {
            int(i): f"and numbers from {low[i]:.17g} to {high[i]:.17g} are published; those held back stand as 1 beyond"
            for i in odd
        }

    def censored(self, values: npt.ArrayLike) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which values stand for one under ``below``, and which for one over ``above``, elementwise."""
        y = np.asarray(values, dtype=np.float64)
        low, high = self._thresholds(y.shape)
        return y < low, y > high

    def withheld(self, values: npt.ArrayLike) -> dict[str, npt.NDArray[np.bool_]]:
        """Which values stand for answers under or over a threshold. See `NoiseLaw.withheld`."""
        found = {}
        for which, side, word in zip(self.censored(values), (self.below, self.above), ("under", "over"), strict=True):
            if which.any():
                found[f"{word} {side:.17g}" if np.ndim(side) == 0 else f"{word} a threshold of their own"] = which
        return found

    def coded(self, values: npt.ArrayLike) -> Floats | Ints:
        """Values of the law with the code in place of each that is held back.

        Examples
        --------
        >>> from bayesdp.noise import Gaussian
        >>> Censored(Gaussian(2.0), below=10.0).coded([3.5, 12.25])
        array([ 9.  , 12.25])
        """
        under, over = self.censored(values)
        low, high = self._thresholds(under.shape)
        y = np.where(under, low - 1.0, np.where(over, high + 1.0, values))
        return np.asarray(y, dtype=np.int64) if self.integer else np.asarray(y, dtype=np.float64)

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum of the log-masses of all values. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_each(values, location)))

    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass or log-density of each published value, log-probability of each code, elementwise; ``-inf`` elsewhere."""
        y, mu = values_and_location(values, location)
        low, high = self._thresholds(y.shape)
        inner: Any = self.law
        found = np.where((y >= low) & (y <= high), inner.log_each(y, mu), -np.inf)
        found = np.where(y == low - 1.0, inner.log_cdf(finite(np, low, 0.0) - self._step, mu), found)
        return np.where(y == high + 1.0, inner.log_sf(finite(np, high, 0.0), mu), found)

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), codes included, elementwise."""
        y, mu = values_and_location(values, location)
        low, high = self._thresholds(y.shape)
        # From the code up to the threshold nothing is added, nor from the upper threshold up to its code.
        at = np.clip(y, np.where(np.isinf(low), y, low - self._step), high)
        found: Floats = np.asarray(self.noise.log_cdf(at, mu))
        return np.where(y < low - 1.0, -np.inf, np.where(y >= high + 1.0, 0.0, found))

    def cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Probability of at most each value (any real number), codes included, elementwise."""
        return np.exp(self.log_cdf(values, location))

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats | Ints:
        """Draw independent values around a location (zero by default), with codes for those held back. See `NoiseLaw.draw`."""
        self._thresholds(shape)
        drawn = self.law.draw(rng, shape, size, location=located(location, shape))
        return self.coded(drawn)

    def mean(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean of values with their codes around each location, elementwise.

        Raises
        ------
        NotImplementedError
            If nothing is known of the moments of the law between the thresholds.
        """
        found = self._moments(np.asarray(_validate.finite_array(location, "location"), dtype=np.float64))
        if found is None:
            raise NotImplementedError(f"the mean of {self} has no formula here")
        return found[0]

    def variance(
        self, shape: tuple[int, ...], invariants: Invariants | None = None, location: npt.ArrayLike | None = None
    ) -> Floats | None:
        """Variance of values with their codes; None without a location, on which it depends, or where nothing is known of it."""
        found = None if location is None else self._moments(located(location, shape))
        return None if found is None else found[1]

    def _moments(self, mu: Floats) -> tuple[Floats, Floats] | None:
        low, high = self._thresholds(mu.shape)
        inside = inner_moments(self.law, mu, low, high)
        if inside is None:
            return None
        inner: Any = self.law
        under = np.where(np.isinf(low), 0.0, np.exp(inner.log_cdf(finite(np, low, 0.0) - self._step, mu)))
        over = np.where(np.isinf(high), 0.0, np.exp(inner.log_sf(finite(np, high, 0.0), mu)))
        mean, variance = inside
        within = np.maximum(1.0 - under - over, 0.0)
        down, up = finite(np, low, 0.0) - 1.0 - mean, finite(np, high, 0.0) + 1.0 - mean
        shift = under * down + over * up
        return mean + shift, within * variance + under * down**2 + over * up**2 - shift**2

    @property
    def same_cell_same_value(self) -> bool:
        """As the inner law."""
        return self.law.same_cell_same_value

    def windows(self, values: npt.NDArray[Any]) -> LogMassWindows | None:
        """See `NoiseLaw.windows`: tails are exact lines of Laplace laws; of Gaussian laws tangents, from 40 sigma on."""
        y = np.asarray(values, dtype=np.float64)
        return censored_windows(self.law, y, *self._thresholds(y.shape))

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """That of the law that was censored, which its values that are published lose; at most that. See `NoiseLaw.pair_loss`."""
        found = self.law.pair_loss(query, invariants)
        return None if found is None else replace(found, tight=False)

    def of_answer(self, answer: int, shape: tuple[int, ...]) -> NoiseLaw:
        """The law of one answer, with its thresholds. See `NoiseLaw.of_answer`."""
        low, high = (side.reshape(-1)[answer].item() for side in self._thresholds(shape))
        return Censored(self.law.of_answer(answer, shape), low, high)

    def model_parameters(self) -> dict[str, Any]:
        """The type of the law that was censored, its parameters, and the thresholds."""
        return {"law": type(self.law), **self.law.model_parameters(), "below": self.below, "above": self.above}

    def describe(self) -> dict[str, Any]:
        """Describe the law by plain data; a threshold that is not there is None. See `NoiseLaw.describe`."""
        below, above = plain_bounds((self.below, self.above))
        return {"law": self.name, "noise": self.law.describe(), "below": below, "above": above}

    def __str__(self) -> str:
        sides = (("below", self.below), ("above", self.above))
        shown = [f"{name}={self._shown(side)}" for name, side in sides if np.any(np.isfinite(side))]
        return " ".join([f"{self.name} law=({self.law})", *shown])

    @property
    def _step(self) -> float:
        """From a threshold to the largest value under it: 1 for integers."""
        return 1.0 if self.integer else 0.0

    def _thresholds(self, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        return broadcast_scale(self.below, shape, "below"), broadcast_scale(self.above, shape, "above")


def _inner(given: Any) -> NoiseLaw:
    """The law to be censored, checked."""
    if isinstance(given, Mapping):
        if given.get("law") == Censored.name:
            raise ValueError("law must not be a censored one: state both thresholds at once, below= and above=")
        given = NoiseLaw.from_description(given)
    if not isinstance(given, NoiseLaw):
        raise TypeError(f"law must be a noise law such as DiscreteGaussian(sigma=10), got {given!r}")
    if isinstance(given, Censored):
        raise ValueError("law must not be a censored one: state both thresholds at once, below= and above=")
    if given.support == "counts":
        raise TypeError(
            f"law must be of noise; of perturbed counts, as {given}, bayesdp.noise.censored_counts(law, below) has the law with a "
            "threshold, and bayesdp.thresholded makes the measurement"
        )
    known = all(hasattr(given, verb) for verb in ("log_each", "log_cdf", "log_sf"))
    if not (given.independent and given.additive and known):
        raise TypeError(
            f"law must be of independent noise and know its tails (log_each, log_cdf and log_sf), as DiscreteLaplace, "
            f"DiscreteGaussian, Laplace and Gaussian do, got {given}"
        )
    return given
