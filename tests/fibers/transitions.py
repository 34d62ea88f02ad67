"""The transition matrix of a chain of tables, from the law of its directions and the law along each: no draws.

The kernel draws a direction, then a table of its line by its exact conditional law. Both are written here from what they are,
with the posterior of an enumeration, so that how long a chain takes to leave a mode is a number and not a simulation.
"""

from collections import defaultdict
from itertools import product

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from bayesdp.moves.moves import LISTED, PRODUCT


def directions(moves, cells):
    """Probability of each direction up to sign; only of families without cycles and random sums."""
    found = defaultdict(float)
    for row, share in zip(moves.meta, np.diff(moves.cumulative, prepend=0.0), strict=True):
        kind, factors, *numbers = (int(n) for n in row)
        for vector, probability in {PRODUCT: _products, LISTED: _lists}[kind](moves.pool, factors, numbers, cells):
            first = vector[np.flatnonzero(vector)[0]]
            found[tuple((vector * np.sign(first)).tolist())] += share * probability
    return dict(found)


def _products(pool, factors, numbers, cells):
    choices = []
    for i in range(factors):
        size, offsets, members, bounds = numbers[4 * i : 4 * i + 4]
        own = []
        for place in range(size):
            group = pool[members + place]
            start, end = pool[bounds + group], pool[bounds + group + 1]
            others = [other for other in range(start, end) if other != place]
            own += [(pool[offsets + place], pool[offsets + other], 1.0 / (size * len(others))) for other in others]
        choices.append(own)
    for pairs in product(*choices):
        vector = np.zeros(cells, dtype=np.int64)
        for signs in product((0, 1), repeat=factors):
            vector[sum(int(pair[sign]) for pair, sign in zip(pairs, signs, strict=True))] += (-1) ** sum(signs)
        yield vector, np.prod([pair[2] for pair in pairs])


def _lists(pool, factors, numbers, cells):
    count, starts, where, entries = numbers[:4]
    for i in range(count):
        vector = np.zeros(cells, dtype=np.int64)
        for at in range(pool[starts + i], pool[starts + i + 1]):
            vector[pool[where + at]] += pool[entries + at]
        yield vector, 1.0 / count


def transition_matrix(moves, tables, probability):
    """Of one move, between the tables of an enumeration."""
    n = len(tables)
    total = sp.csr_array((n, n))
    for direction, share in directions(moves, tables.shape[1]).items():
        u = np.array(direction)
        cell = int(np.flatnonzero(u)[0])
        bottom = tables - (tables[:, cell] // u[cell])[:, None] * u
        line = np.unique(bottom, axis=0, return_inverse=True)[1].reshape(-1)
        on = sp.csr_array((np.ones(n), (np.arange(n), line)))
        mass = np.bincount(line, weights=probability)
        total = total + share * (on @ sp.diags_array(1.0 / mass) @ on.T @ sp.diags_array(probability))
    return sp.csr_array(total)


def moves_to_reach(matrix, probability, start, goal):
    """Expected number of moves from the posterior within `start` until a table of `goal`."""
    others = np.flatnonzero(~goal)
    inner = sp.csc_array(sp.eye_array(len(others)) - matrix[others][:, others])
    times = np.zeros(len(probability))
    times[others] = spl.spsolve(inner, np.ones(len(others)))
    return times[start] @ probability[start] / probability[start].sum()
