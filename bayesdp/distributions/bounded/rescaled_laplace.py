"""The log-density of published shares that add up to 1, as a term of a PyMC model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytensor.tensor as pt

from bayesdp.noise.bounded.rescaled_laplace import _FAR, _NODES, _TIE, _WEIGHTS, RescaledLaplace, _proportions

__all__ = ["rescaled_logp"]


def rescaled_logp(law: RescaledLaplace, shares: npt.ArrayLike, mu: Any) -> Any:
    """Log-density of published shares given confidential proportions, for `pymc.Potential`.

    Parameters
    ----------
    law : bayesdp.noise.RescaledLaplace
    shares : array_like, shape (categories,)
        Published: numbers. They decide on which face of the simplex the density is.
    mu : tensor, shape (categories,)
        Confidential proportions, for example counts divided by n.

    Returns
    -------
    tensor, scalar
        See `bayesdp.noise.RescaledLaplace`, whose quadrature it repeats.

    Raises
    ------
    ValueError
        If the shares are not possible under the law.

    Examples
    --------
    >>> import pymc as pm
    >>> law = RescaledLaplace(0.1, "boundary-inflated")
    >>> with pm.Model():
    ...     p = pm.Dirichlet("p", np.ones(3))
    ...     shares = pm.Potential("shares", rescaled_logp(law, [0.0, 0.4, 0.6], p))
    """
    r = _proportions(shares, "shares")
    if r.ndim != 1 or not np.isfinite(law.log_density(r, r)):
        raise ValueError(
            f"shares must be a vector that the law can give, at least 0 and adding up to 1, got {shares!r}"
        )
    mu, b = pt.as_tensor_variable(mu), np.broadcast_to(np.asarray(law.b), r.shape)
    positive, top = r > 0.0, r >= r.max() * _TIE
    own, largest = np.flatnonzero(positive), float(r.max())
    if law.rule == "truncated":
        near = pt.clip(mu, 0.0, 1.0)
        normaliser = pt.log(-pt.expm1(-near / b) - pt.expm1(-(1.0 - near) / b)) + np.log(b)
        return _smooth(r[own], mu[own], b[own]) - pt.sum(normaliser - np.log(2.0 * b))
    zero, one = _log_below(-mu / b), _log_below((mu - 1.0) / b)
    zeros = pt.sum(zero[np.flatnonzero(~positive)])
    free = np.flatnonzero(positive & ~top)
    inner = -pt.abs(r[free] / largest - mu[free]) / b[free] - np.log(2.0 * b[free])
    bound = pt.sum(one[np.flatnonzero(top)]) + pt.sum(inner) - (len(free) + 1) * np.log(largest) - np.log(top.sum())
    if top.sum() == 1:
        return zeros + pt.logaddexp(bound, _smooth(r[own], mu[own], b[own]))
    return pt.logaddexp(bound, pt.sum(zero)) if np.all(top) else zeros + bound


def _smooth(r: Any, mu: Any, b: Any) -> Any:
    """Logarithm of the integral over the sum of the values, with Laplace densities without bounds; positive shares."""
    power, most, slope = len(r) - 1.0, 1.0 / float(r.max()), r / b
    kinks = pt.sort(pt.clip(mu / r, 0.0, most))
    edges = pt.concatenate([np.zeros(1), kinks, np.full(1, most)])
    low, high = edges[:-1], edges[1:]
    middle = 0.5 * (low + high)
    c = pt.sum(pt.switch(middle[:, None] * r < mu, 1.0, -1.0) * slope, axis=1)
    # The part that matters, as in bayesdp.noise.rescaled_laplace; divisors are kept off 0.
    falls, rises = (power / pt.maximum(end, 1e-200) + c for end in (low, high))
    steep, spread = pt.maximum(pt.abs(c), 1e-200), np.sqrt(2.0 * _FAR * power)
    peak = pt.switch(pt.ge(rises, 0.0), high, pt.switch(pt.le(falls, 0.0), low, power / steep))
    left = pt.switch(pt.ge(rises, 0.0), _FAR / pt.maximum(rises, 1e-200), spread / steep)
    right = pt.switch(pt.le(falls, 0.0), _FAR / pt.maximum(-falls, 1e-200), (spread + _FAR) / steep)
    start, end = pt.maximum(low, peak - left), pt.minimum(high, peak + right)
    half = pt.maximum(0.5 * (end - start), 1e-300)
    s = start[:, None] + half[:, None] * (1.0 + _NODES)
    terms = pt.log(half)[:, None] + np.log(_WEIGHTS) + power * pt.log(pt.maximum(s, 1e-300))
    terms = terms - pt.sum(pt.abs(slope * s[:, :, None] - mu / b), axis=-1)
    peak_term = pt.max(terms)
    return peak_term + pt.log(pt.sum(pt.exp(terms - peak_term))) - float(np.log(2.0 * b).sum())


def _log_below(x: Any) -> Any:
    """Logarithm of the probability that Laplace noise of scale 1 is at most x."""
    return pt.switch(x < 0, x - np.log(2.0), pt.log1p(-0.5 * pt.exp(-pt.abs(x))))
