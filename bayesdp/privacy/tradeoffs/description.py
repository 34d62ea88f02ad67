"""Trade-off functions as plain data, for the files of releases whose noise is canonical for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.privacy.tradeoffs.base import Bracketed, DiscretePair, Grouped, Symmetrised, TradeOff
from bayesdp.privacy.tradeoffs.laws import (
    ApproximateTradeOff,
    GaussianTradeOff,
    approximate_dp,
    gaussian_dp,
)
from bayesdp.privacy.tradeoffs.noise import levels

_DEPTH = 8
"""Largest depth of nested functions (a group of a symmetrised ...) in a description that is read."""
_MOST_STEPS = 10_000
"""Largest group that is read."""
_KEYS = {
    "approximate-dp": ("epsilon", "delta"),
    "gaussian-dp": ("mu",),
    "pair": ("start", "p", "q"),
    "symmetrised": ("one", "other"),
    "group": ("base", "k"),
    "between": ("low", "high"),
}
_SLACK = 1e-9
"""Rounding of masses that is accepted."""


def describe_tradeoff(tradeoff: TradeOff) -> dict[str, Any]:
    """Describe a trade-off function by plain strings, numbers, lists and dictionaries (JSON).

    Parameters
    ----------
    tradeoff : TradeOff

    Returns
    -------
    dict
        ``{"tradeoff": kind, ...}``, kind one of approximate-dp, gaussian-dp, pair (masses of two discrete laws), symmetrised, group
        and between (bounds).

    Raises
    ------
    TypeError
        If it is no trade-off function.
    NotImplementedError
        If it holds continuous laws of SciPy, which no file can name.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import approximate_dp
    >>> describe_tradeoff(approximate_dp(1.0).group(2))
    {'tradeoff': 'group', 'base': {'tradeoff': 'approximate-dp', 'epsilon': 1.0, 'delta': 0.0}, 'k': 2}
    """
    if not isinstance(tradeoff, TradeOff):
        raise TypeError(f"tradeoff must be a trade-off function, got {type(tradeoff).__name__}")
    if isinstance(tradeoff, ApproximateTradeOff):
        return {"tradeoff": "approximate-dp", "epsilon": tradeoff.epsilon, "delta": tradeoff.delta}
    if isinstance(tradeoff, GaussianTradeOff):
        return {"tradeoff": "gaussian-dp", "mu": tradeoff.mu}
    if isinstance(tradeoff, DiscretePair):
        return {"tradeoff": "pair", "start": tradeoff.start, "p": list(tradeoff.p), "q": list(tradeoff.q)}
    if isinstance(tradeoff, Symmetrised):
        parts = {"one": tradeoff.one, "other": tradeoff.other}
        return {"tradeoff": "symmetrised", **{name: describe_tradeoff(own) for name, own in parts.items()}}
    if isinstance(tradeoff, Grouped):
        return {"tradeoff": "group", "base": describe_tradeoff(tradeoff.base), "k": tradeoff.k}
    if isinstance(tradeoff, Bracketed):
        bounds = {"low": tradeoff.low, "high": tradeoff.high}
        return {"tradeoff": "between", **{name: describe_tradeoff(own) for name, own in bounds.items()}}
    raise NotImplementedError(
        f"{tradeoff!r} holds continuous laws that a file cannot name; state it by the masses of two discrete laws "
        "(bayesdp.privacy.tradeoff of two vectors), or by approximate_dp or gaussian_dp"
    )


def tradeoff_from_description(description: Mapping[str, Any]) -> TradeOff:
    """Read what `describe_tradeoff` wrote.

    Examples
    --------
    >>> tradeoff_from_description({"tradeoff": "gaussian-dp", "mu": 0.5})
    GaussianTradeOff(mu=0.5)
    """
    return _read(description, _DEPTH)


def _read(description: Any, depth: int) -> TradeOff:
    if not depth:
        raise ValueError(f"the description of a trade-off function is nested more than {_DEPTH} deep")
    if not isinstance(description, Mapping):
        raise TypeError(f"the description of a trade-off function must be a mapping, got {description!r}")
    kind = description.get("tradeoff")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise ValueError(f"unknown trade-off function {kind!r}; known are {', '.join(_KEYS)}")
    given = {key: value for key, value in description.items() if key != "tradeoff"}
    if set(given) != set(_KEYS[kind]):
        raise ValueError(f"the trade-off function {kind!r} has {', '.join(_KEYS[kind])}, got {_validate.shown(given)}")
    if kind == "approximate-dp":
        return approximate_dp(given["epsilon"], given["delta"])
    if kind == "gaussian-dp":
        return gaussian_dp(given["mu"])
    if kind == "pair":
        return _pair(given)
    if kind == "group":
        steps = _validate.positive_integer(given["k"], "k")
        if steps > _MOST_STEPS:
            raise ValueError(f"k must be at most {_MOST_STEPS}, got {steps}")
        return Grouped(_read(given["base"], depth - 1), steps)
    first, second = (_read(given[key], depth - 1) for key in _KEYS[kind])
    if kind == "symmetrised":
        return Symmetrised(first, second)
    return Bracketed(first, second)


def _pair(given: Mapping[str, Any]) -> DiscretePair:
    """Masses in falling order of their ratio, as Neyman and Pearson reject them."""
    start = _validate.nonnegative_real(given["start"], "start")
    p, q = levels(given["p"], "p"), levels(given["q"], "q")
    if p.ndim != 1 or not p.size or p.shape != q.shape:
        raise ValueError(f"p and q must be lists of as many masses, got shapes {p.shape} and {q.shape}")
    if abs(p.sum() - 1.0) > _SLACK or abs(start + q.sum() - 1.0) > _SLACK or not np.all(p > 0.0):
        raise ValueError("p must be positive masses that add up to 1, and so must start and q together")
    if np.any(q[1:] * p[:-1] > q[:-1] * p[1:] * (1.0 + _SLACK)):
        raise ValueError("p and q must be in falling order of q / p")
    return DiscretePair(start, tuple(p.tolist()), tuple(q.tolist()))
