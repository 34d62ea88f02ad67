"""The enumeration harness: every kernel, law and prior is held against the exact posterior of a small fiber."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.special as special

from bayesdp.fibers import Chain, Fiber, Target, enumerate_fiber

type Floats = npt.NDArray[np.float64]


def log_prior(family: str, theta: Floats, shape: Floats, tables: npt.NDArray[np.int64]) -> Floats:
    """Log prior of tables (tables, cells), up to a constant, written with SciPy and not with the kernel."""
    total = tables @ theta
    if family != "flat":
        total = total - special.gammaln(tables + 1.0).sum(axis=1)
    if family == "negbin":
        total = total + special.gammaln(tables + shape).sum(axis=1)
    if family == "binomial":
        with np.errstate(invalid="ignore"):
            total = total - np.where(
                tables <= shape, special.gammaln(np.maximum(shape - tables, 0) + 1.0), np.inf
            ).sum(axis=1)
    return np.asarray(total)


def log_noise(target: Target, tables: npt.NDArray[np.int64]) -> Floats:
    """Log noise law of tables (tables, cells), up to a constant."""
    total = np.zeros(len(tables))
    for term in target.terms:
        residual = (term.values - tables @ term.query.matrix.toarray().T) * term.measured
        scale = np.broadcast_to(term.scale, residual.shape[1:])
        if term.kind == "l1":
            total -= (np.abs(residual) * scale).sum(axis=1)
        elif term.kind == "l2":
            total -= float(np.max(term.scale)) * np.sqrt((residual**2).sum(axis=1))
        else:
            total -= (residual**2 / (2.0 * scale**2)).sum(axis=1)
    return total


def exact_posterior(target: Target, theta: Floats, shape: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """The fiber and the posterior probability of each of its tables."""
    tables = enumerate_fiber(target.fiber).reshape(-1, target.fiber.frame.size)
    logs = log_prior(target.family, theta, shape, tables) + log_noise(target, tables)
    return tables, special.softmax(logs)


def chi_square(
    target: Target, theta: Floats, shape: Floats, draws: int, thin: int, seed: int
) -> tuple[float, int]:
    """Run a chain on a target; return the chi-square statistic of its tables against the exact law, and its bins.

    Draws are thinned until they are nearly independent; tables with fewer than ten expected draws are pooled.
    """
    tables, probability = exact_posterior(target, theta, shape)
    where = {tuple(table): i for i, table in enumerate(tables.tolist())}
    rng = np.random.default_rng(seed)
    chain = Chain(target, rng)
    chain.set_prior(theta, shape)
    chain.load(target.fiber.find_point().reshape(-1))
    chain.sweep(200 * thin)
    counts = np.zeros(len(tables))
    for _ in range(draws):
        chain.sweep(thin)
        counts[where[tuple(chain.counts.tolist())]] += 1
    return pooled_chi_square(counts, probability * draws)


def pooled_chi_square(observed: Floats, expected: Floats, least: float = 10.0) -> tuple[float, int]:
    """Chi-square statistic with the rare bins pooled into one, and the number of bins."""
    rare = expected < least
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] < least and len(expected) > 1:
            observed = np.append(observed[:-2], observed[-2:].sum())
            expected = np.append(expected[:-2], expected[-2:].sum())
    return float(((observed - expected) ** 2 / expected).sum()), len(expected)


def fiber_of(frame: object, *parts: object) -> Fiber:
    """Short for `Fiber.of`."""
    return Fiber.of(parts, frame)  # type: ignore[arg-type]
