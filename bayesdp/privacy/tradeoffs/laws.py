"""The trade-off functions of (epsilon, delta), of mu, of Laplace noise, and of two discrete laws; and in files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp.privacy.canonical import CanonicalNoise, GaussianNoise, Tulap, checked_delta, levels
from bayesdp.privacy.tradeoffs.base import DiscretePair, Grouped, SymmetricTradeOff, TradeOff, ordered_pair

_MASS_SLACK = 1e-9
"""Rounding of masses that is accepted."""
_SAME = 1e-12  # losses this close to the largest one, relative to it, are the largest: more is rounding


@dataclass(frozen=True)
class ApproximateTradeOff(SymmetricTradeOff):
    """Trade-off function of (epsilon, delta)-DP; `approximate_dp` checks the parameters."""

    epsilon: float
    delta: float

    def canonical_noise(self) -> CanonicalNoise:
        """Give Tulap noise, the only canonical noise of (epsilon, delta)-DP (Awan and Dong, 2022)."""
        return Tulap(self.epsilon, self.delta)

    _piecewise_linear = True

    def _pair(self) -> DiscretePair:
        return self._laws

    @cached_property
    def _laws(self) -> DiscretePair:
        shrink = math.exp(-self.epsilon)
        small, large = (1.0 - self.delta) * shrink / (1.0 + shrink), (1.0 - self.delta) / (1.0 + shrink)
        p, q = [small, large], [large, small]
        if self.delta:
            p, q = [*p, self.delta], [*q, 0.0]
        if small == 0.0:  # exp(-epsilon) underflows: the mass of an outcome that tells the tables apart
            return DiscretePair(self.delta + large, tuple(p[1:]), (0.0,) * len(p[1:]))
        return DiscretePair(self.delta, tuple(p), tuple(q))

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        type_two, power = self._laws._errors(a, s)
        # exp(-epsilon) may underflow: the laws then begin with a power of 1.
        return np.where(a == 0.0, 1.0 - self.delta, type_two), np.where(a == 0.0, self.delta, power)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        return self._laws._slope(a, s)


@dataclass(frozen=True)
class GaussianTradeOff(SymmetricTradeOff):
    """Trade-off function of mu-GDP; `gaussian_dp` checks the parameter."""

    mu: float

    def group(self, k: int) -> TradeOff:
        """Give ``G_{k mu}`` (Dong, Roth and Su, 2022, Section 2.5)."""
        return GaussianTradeOff(self.mu * _validate.positive_integer(k, "k"))

    def canonical_noise(self) -> CanonicalNoise:
        """Give ``N(0, 1 / mu**2)``, the log-concave canonical noise of mu-GDP (Awan and Dong, 2022)."""
        return GaussianNoise(self.mu)

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        threshold = _upper_quantile(a, s)
        return ndtr(threshold - self.mu), ndtr(self.mu - threshold)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.mu * _upper_quantile(a, s) - 0.5 * self.mu**2))

    def _at_losses(self, losses: Floats) -> tuple[Floats, Floats]:
        return ndtr(-losses / self.mu - 0.5 * self.mu), ndtr(0.5 * self.mu - losses / self.mu)

    def _with(self, others: Sequence[TradeOff]) -> GaussianTradeOff:
        return GaussianTradeOff(math.hypot(self.mu, *(f.mu for f in others if isinstance(f, GaussianTradeOff))))


def _upper_quantile(a: Floats, s: Floats) -> Floats:
    return np.asarray(np.where(a <= 0.5, -ndtri(a), ndtri(s)))


def approximate_dp(epsilon: float, delta: float = 0.0) -> ApproximateTradeOff:
    """Give ``max(0, 1 - delta - exp(epsilon) alpha, exp(-epsilon) (1 - delta - alpha))``.

    Source: Wasserman and Zhou (2010); Dong, Roth and Su (2022, Proposition 2.5).

    Parameters
    ----------
    epsilon : float
        Zero or greater.
    delta : float, default 0
        At least 0 and less than 1.

    Examples
    --------
    >>> f = approximate_dp(1.0)
    >>> print(f"{f(0.05):.6f} {f.group(2)(0.05):.6f}")
    0.864086 0.630547
    """
    return ApproximateTradeOff(_validate.nonnegative_real(epsilon, "epsilon"), checked_delta(delta))


def gaussian_dp(mu: float) -> GaussianTradeOff:
    """Give ``G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu)``, the trade-off of N(0, 1) and N(mu, 1).

    Source: Dong, Roth and Su (2022, Definition 2.6).

    Parameters
    ----------
    mu : float
        Greater than zero.

    Examples
    --------
    >>> print(f"{gaussian_dp(0.5).group(2)(0.05):.6f}")
    0.740489
    """
    return GaussianTradeOff(_validate.positive_real(mu, "mu"))


@dataclass(frozen=True)
class LaplaceTradeOff(SymmetricTradeOff):
    """Trade-off function of standard Laplace noise around 0 and around a positive `shift` (Dong, Roth and Su, 2022, Section A.6).

    The best tests reject large values: ``f(alpha) = F(F^-1(1 - alpha) - shift)``, F the distribution function.
    """

    shift: float

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        moved = _laplace_quantile(a, s) - self.shift
        tail = 0.5 * np.exp(-np.abs(moved))
        return np.where(moved <= 0.0, tail, 1.0 - tail), np.where(moved <= 0.0, 1.0 - tail, tail)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        return np.asarray(np.exp(np.clip(2.0 * _laplace_quantile(a, s) - self.shift, -self.shift, self.shift)))

    def _at_losses(self, losses: Floats) -> tuple[Floats, Floats]:
        x = 0.5 * (losses + self.shift)
        a, power = 0.5 * np.exp(-np.abs(x)), 1.0 - 0.5 * np.exp(-np.abs(self.shift - x))
        all_of_it = losses < -self.shift * (1.0 - _SAME)
        none_of_it = losses >= self.shift * (1.0 - _SAME)
        one, other = (np.where(all_of_it, 1.0, np.where(none_of_it, 0.0, error)) for error in (a, power))
        return one, other


def _laplace_quantile(a: Floats, s: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.where(a <= 0.5, -np.log(2.0 * np.minimum(a, 0.5)), np.log(2.0 * np.minimum(s, 0.5)))


def laplace_dp(shift: float) -> LaplaceTradeOff:
    """Give the trade-off function of standard Laplace noise around 0 and around `shift`, which is greater than zero.

    Noise of scale b on two answers d apart has ``shift = d / b``. It is above that of pure epsilon = `shift`, and not canonical.

    Examples
    --------
    >>> print(f"{laplace_dp(1.0)(0.3):.6f} {approximate_dp(1.0)(0.3):.6f}")
    0.306566 0.257516
    """
    return LaplaceTradeOff(_validate.positive_real(shift, "shift"))


def tradeoff(p: npt.ArrayLike, q: npt.ArrayLike) -> TradeOff:
    """Give the trade-off function of two laws, by the lemma of Neyman and Pearson.

    Vectors of probabilities give a piecewise linear function, exactly; they are taken for *all* that is seen: do not give the
    probabilities of bins of continuous laws, which loses what tells them apart within a bin.

    Parameters
    ----------
    p, q : array_like
        The laws under the null hypothesis and under the alternative: probabilities of the same outcomes, one axis. Each must add up
        to 1 within 1e-9, and is divided by its sum.

    Examples
    --------
    >>> randomised_response = tradeoff([0.75, 0.25], [0.25, 0.75])
    >>> randomised_response([0.0, 0.25, 1.0])
    array([1.  , 0.25, 0.  ])
    """
    null, other = _law(p, "p"), _law(q, "q")
    if null.shape != other.shape:
        raise ValueError(f"p and q must list the same outcomes, but p has {null.size} and q has {other.size}")
    kept = null > 0.0
    return ordered_pair(math.fsum(other[~kept]), null[kept], other[kept])


def _law(values: npt.ArrayLike, argument: str) -> Floats:
    masses = levels(values, argument)
    if masses.ndim != 1 or masses.size == 0:
        raise ValueError(f"{argument} must be a vector of at least one probability, got shape {masses.shape}")
    total = math.fsum(masses)
    if abs(total - 1.0) > _MASS_SLACK:
        raise ValueError(f"{argument} must add up to 1 within {_MASS_SLACK}, but adds up to {total!r}")
    return masses / total


_MOST_STEPS = 10_000
"""Largest group that is read."""


def describe_tradeoff(tradeoff: TradeOff) -> dict[str, Any]:
    """Describe a trade-off function by plain strings, numbers, lists and dictionaries (JSON).

    Returns
    -------
    dict
        ``{"tradeoff": kind, ...}``, kind one of approximate-dp, gaussian-dp, laplace, pair (masses of two discrete laws) and group.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import approximate_dp
    >>> describe_tradeoff(approximate_dp(1.0).group(2))
    {'tradeoff': 'group', 'base': {'tradeoff': 'approximate-dp', 'epsilon': 1.0, 'delta': 0.0}, 'k': 2}
    """
    for kind, (known, _) in _KINDS.items():
        if isinstance(tradeoff, known):
            values = {item.name: getattr(tradeoff, item.name) for item in fields(known)}
            if isinstance(tradeoff, Grouped):
                values["base"] = describe_tradeoff(tradeoff.base)
            return {"tradeoff": kind, **{name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}}
    raise TypeError(f"tradeoff must be a trade-off function of bayesdp.privacy, got {type(tradeoff).__name__}")


def tradeoff_from_description(description: Mapping[str, Any]) -> TradeOff:
    """Read what `describe_tradeoff` wrote.

    Examples
    --------
    >>> tradeoff_from_description({"tradeoff": "gaussian-dp", "mu": 0.5})
    GaussianTradeOff(mu=0.5)
    """
    _validate.instance(description, Mapping, "the description of a trade-off function must be a mapping", quoted=True)
    kind = description.get("tradeoff")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"unknown trade-off function {kind!r}; known are {', '.join(_KINDS)}")
    known, made = _KINDS[kind]
    names = [item.name for item in fields(known)]
    given = {key: value for key, value in description.items() if key != "tradeoff"}
    if set(given) != set(names):
        raise ValueError(f"the trade-off function {kind!r} has {', '.join(names)}, got {_validate.shown(given)}")
    return made(**given)


def _read_group(base: Any, k: Any) -> Grouped:
    steps = _validate.positive_integer(k, "k")
    if steps > _MOST_STEPS:
        raise ValueError(f"k must be at most {_MOST_STEPS}, got {steps}")
    if isinstance(base, Mapping) and base.get("tradeoff") == "group":
        raise ValueError("base of a group must not be a group itself: the numbers of steps multiply")
    return Grouped(tradeoff_from_description(base), steps)


def _read_pair(start: Any, p: Any, q: Any) -> DiscretePair:
    """Masses in falling order of their ratio, as Neyman and Pearson reject them."""
    start = _validate.nonnegative_real(start, "start")
    p, q = levels(p, "p"), levels(q, "q")
    if p.ndim != 1 or not p.size or p.shape != q.shape:
        raise ValueError(f"p and q must be lists of as many masses, got shapes {p.shape} and {q.shape}")
    if abs(p.sum() - 1.0) > _MASS_SLACK or abs(start + q.sum() - 1.0) > _MASS_SLACK or not np.all(p > 0.0):
        raise ValueError("p must be positive masses that add up to 1, and so must start and q together")
    if np.any(q[1:] * p[:-1] > q[:-1] * p[1:] * (1.0 + _MASS_SLACK)):
        raise ValueError("p and q must be in falling order of q / p")
    return DiscretePair(start, tuple(p.tolist()), tuple(q.tolist()))


_KINDS: Mapping[str, tuple[type[Any], Callable[..., TradeOff]]] = {
    "approximate-dp": (ApproximateTradeOff, approximate_dp),
    "gaussian-dp": (GaussianTradeOff, gaussian_dp),
    "laplace": (LaplaceTradeOff, laplace_dp),
    "pair": (DiscretePair, _read_pair),
    "group": (Grouped, _read_group),
}
"""Names in files, with the class whose fields are written, and what makes one of them."""
