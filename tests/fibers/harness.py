"""The enumeration harness: every kernel, law and prior is held against the exact posterior of a small fiber.

The exact law is written with SciPy's log-gamma over an enumeration that knows nothing of moves; the chain is thinned until its draws
are nearly independent, and its tables are compared with the law by a chi-square test.
"""

import numpy as np
from scipy import special

from bayesdp.fibers import Chain, enumerate_fiber
from tests.comparison.chi_square import chi_square_pvalue, elsewhere_pvalue

LEVEL = 1e-5
"""False alarms of every single test of a law; there are fewer than 1000 under tests/fibers and tests/inference: all together below 1%.
Seeds are fixed: what passes once goes on passing until the stream of random numbers changes."""


def log_prior(family, theta, shape, tables):
    """Log prior of tables (tables, cells), up to a constant, written with SciPy and not with the kernel."""
    total = tables @ theta
    if family != "flat":
        total = total - special.gammaln(tables + 1.0).sum(axis=1)
    if family == "negbin":
        total = total + special.gammaln(tables + shape).sum(axis=1)
    if family == "binomial":
        inside = tables <= shape
        total = total - np.where(inside, special.gammaln(np.where(inside, shape - tables, 0) + 1.0), np.inf).sum(axis=1)
    return total


def log_noise(target, tables):
    """Log noise law of tables (tables, cells), up to a constant."""
    total = np.zeros(len(tables))
    for term in target.terms:
        if term.windows is not None:
            for i, own in enumerate((tables @ term.query.matrix.toarray().T)[:, term.measured].T):
                values, where = np.unique(own, return_inverse=True)
                total += np.array([tabulated(term.windows, i, int(value)) for value in values])[where]
            continue
        combined = term.query.matrix.toarray() if term.coordinates is None else term.coordinates
        residual = (term.values - tables @ combined.T) * term.measured
        scale = np.broadcast_to(term.scale, residual.shape[1:])
        if term.kind == "l1":
            total -= (np.abs(residual) * scale).sum(axis=1)
        elif term.kind == "l2":
            total -= np.max(term.scale) * np.sqrt((residual**2).sum(axis=1))
        else:
            total -= (residual**2 / (2.0 * scale**2)).sum(axis=1)
    return total


def tabulated(windows, answer, value):
    """The log-mass of an answer at a true value, as the docstring of `LogMassWindows` says, one number at a time."""
    first, n = int(windows.low[answer]), int(windows.length[answer])
    own = windows.log_mass[windows.start[answer] : windows.start[answer] + n]
    if value < first:
        return own[0] + windows.below[answer] * (first - value)
    if value >= first + n:
        return own[-1] + windows.above[answer] * (value - first - n + 1)
    return own[value - first]


def exact_posterior(target, theta, shape, window=None):
    """The tables and the posterior probability of each; `window`: a finite part of an infinite fiber, with nearly all of the mass."""
    tables = enumerate_fiber(window or target.fiber).reshape(-1, target.fiber.frame.size)
    return tables, special.softmax(log_prior(target.family, theta, shape, tables) + log_noise(target, tables))


def run(target, theta, shape, draws, thin, seed, start=None):
    """Tables (draws, cells) of a chain, `thin` moves apart."""
    chain = Chain(target, np.random.default_rng(seed))
    chain.set_prior(theta, shape)
    chain.load(target.fiber.find_point().reshape(-1) if start is None else start)
    chain.sweep(200 * thin)
    kept = np.empty((draws, target.fiber.frame.size), dtype=np.int64)
    for i in range(draws):
        chain.sweep(thin)
        kept[i] = chain.counts
    return kept


def p_values(draws, tables, probability):
    """Of whole tables, and of a weighted sum of cells (which pools differently and adds power); (0, 0) if a draw is none of them."""
    where = {tuple(table): i for i, table in enumerate(tables.tolist())}
    try:
        index = np.array([where[tuple(draw)] for draw in draws.tolist()])
    except KeyError:
        return 0.0, 0.0
    whole = law_pvalue(index, probability)
    _, bins = np.unique(tables @ (1 + np.arange(tables.shape[1]) ** 2), return_inverse=True)
    if not bins.any():  # all tables have the same sum: there is no second comparison
        return whole, whole
    return whole, law_pvalue(bins[index], np.bincount(bins, weights=probability))


def law_pvalue(index, probability):
    """Chi-square, neighbouring rare bins pooled until each is expected 10 times; or exactly, where one is nearly certain."""
    common = np.argmax(probability)
    others = np.delete(probability, common).sum()
    if others * len(index) < 10.0:
        return elsewhere_pvalue(index, common, others)
    observed = np.bincount(index, minlength=len(probability))
    return chi_square_pvalue(observed, probability * len(index), pool="neighbours")
