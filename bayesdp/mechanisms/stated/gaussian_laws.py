"""Guarantees of Gaussian noise within bounds whose mechanism is not described: what the law loses at any rate."""

from __future__ import annotations

import numpy as np

from bayesdp.mechanisms.stated.agreement import alike, words
from bayesdp.noise import BoundaryInflatedGaussian, TruncatedGaussian
from bayesdp.privacy import Guarantee
from bayesdp.privacy.loss import Loss

__all__ = ["check_gaussian_law"]

_REACH = 12.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def check_gaussian_law(
    law: TruncatedGaussian | BoundaryInflatedGaussian, shape: tuple[int, ...], stated: Guarantee
) -> None:
    """Refuse a guarantee that states less than the law loses for two values of one statistic that are as far apart as it says."""
    # The values lie symmetrically about the middle of the bounds, or 12 standard deviations from the only bound. What they lose is
    # compared by the divergence of order 1, which rho and half of the square of mu are not below, and by delta at the stated
    # epsilon. For vectors nothing is known of the single statistics.
    if shape:
        return
    claims: list[tuple[float, Loss]] = [(stated.parameters.size, stated.parameters.loss)]
    claims += [(row.size, row.loss) for row in stated.pairs if row.norm in ("l1", "l2", "linf")]
    for size, loss in claims:
        divergence, first, second = _of_pair(law, size)
        for kind, name in (("zcdp", "rho"), ("gdp", "mu")):
            part = loss.stated(kind)
            least = divergence if kind == "zcdp" else float(np.sqrt(2.0 * divergence))
            if part is not None and part[name] < least and not alike(part[name], least):
                raise ValueError(_message(law, size, f"{name} = {part[name]!r}", f"{name} = {least!r}"))
        for kind in ("pure", "approximate"):
            part = loss.stated(kind)
            if part is None:
                continue
            epsilon, delta = part["epsilon"], part.get("delta", 0.0)
            least = float(np.sum(np.maximum(first - np.exp(np.minimum(epsilon, 700.0)) * second, 0.0)))
            if delta < least - 1e-12 and not alike(delta, least):
                raise ValueError(
                    _message(
                        law, size, f"delta = {delta!r} at epsilon = {epsilon!r}", f"delta = {least!r} at this epsilon"
                    )
                )


def _message(law: TruncatedGaussian | BoundaryInflatedGaussian, size: float, said: str, least: str) -> str:
    return (
        f"the guarantee states {said} for statistics that are {size!r} apart, but noise of the law {words(law.describe())} "
        f"loses at least {least} there"
    )


def _of_pair(law: TruncatedGaussian | BoundaryInflatedGaussian, size: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Divergence of order 1 of two laws `size` apart, and their masses by quadrature; the atoms come first."""
    low, high, sigma = float(np.max(law.lower)), float(np.min(law.upper)), float(np.max(law.scale))
    t = min(size, high - low)
    if np.isinf(high) or np.isinf(low):
        middle = low + _REACH * sigma + t if np.isinf(high) else high - _REACH * sigma - t
    else:
        middle = 0.5 * (low + high)
    one, two = middle - 0.5 * t, middle + 0.5 * t
    start, end = max(low, one - _REACH * sigma), min(high, two + _REACH * sigma)
    y = start + 0.5 * (end - start) * (1.0 + _NODES)
    weights = np.log(0.5 * (end - start) * _WEIGHTS)
    edges = np.array([side for side in (low, high) if law.has_atoms and np.isfinite(side)])
    logs = [
        np.concatenate([law.log_each(edges, np.full(edges.shape, s)), law.log_each(y, np.full(y.shape, s)) + weights])
        for s in (one, two)
    ]
    first, second = np.exp(logs[0]), np.exp(logs[1])
    return float(np.sum(first * np.where(first > 0.0, logs[0] - logs[1], 0.0))), first, second
