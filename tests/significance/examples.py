"""Tables of two dimensions, what is known of them, and laws of their corner: what several files of this folder use."""

import math

import numpy as np

import bayesdp as bdp

SQUARE = np.array([[1, -1], [-1, 1]])


def both_margins(table):
    """The exact margins of a table of two dimensions."""
    return [bdp.Exact(bdp.Margins(table, [dim]), table.sum(list({*table.dims} - {dim}))) for dim in table.dims]


def corners(margins):
    """Of totals of the first row, the second row and the first column."""
    r1, r2, c1 = margins
    return np.arange(max(0, c1 - r2), min(r1, c1) + 1)


def masses(margins, odds_ratio):
    """Fisher's noncentral hypergeometric law of the corner from binomial coefficients: another way than the library's."""
    r1, r2, c1 = margins
    x = corners(margins)
    weights = np.array([math.comb(r1, int(k)) * math.comb(r2, c1 - int(k)) for k in x]) * odds_ratio ** x.astype(float)
    return np.asarray(weights / weights.sum())


def geometric(epsilon, reach=150):
    """Masses of two-sided geometric noise."""
    mass = np.exp(-epsilon * np.abs(np.arange(-reach, reach + 1)))
    return np.asarray(mass / mass.sum())
