"""Noise on a lattice by the Metropolis sampler of paper 002: double-geometric jumps of one basis coordinate at a time.

Dharangutte, Gao, Gong and Yu (2023), Section 4 and Algorithm 1: coordinate j gets a jump e of mass ``(1 - a) / (1 + a)
a**|e|``, which is symmetric, and the jump is taken with probability ``min(1, q(z + e b_j) / q(z))``. A sweep does so
for each coordinate in turn. Here the basis is a reduced or sparse one, which the last columns of V of a Smith form
need not be; the law is the same.

The paper fixes a: exp(-1) for l1, exp(-1.5) for l2, exp(-2.5) for 102 counties. The natural scale of jumps is that
of the noise, which `tune_jumps` finds: during a burn-in every coordinate tries a fixed list of jump laws in turn, and
then keeps the one with the largest expected squared jump (Pasarica and Gelman, 2010). Nothing is adapted afterwards.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from bayesdp._numba import seed_state, uniform
from bayesdp._validate import nonnegative_integer, positive_integer
from bayesdp.lattices.integers import discrete_laplace
from bayesdp.papers.integer_subspace import GAUSSIAN, L1, BasisLaw, shift

__all__ = ["draw_double_geometric", "jump_rates", "log_ratio", "metropolis_update", "tune_jumps"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

_UPDATES = 10_000_000
"""Steps in one call of the kernel, about a second, which cannot be interrupted."""

_TRIED = 2.0 ** np.arange(-6.0, 3.0)
"""Rates that are tried, relative to the rate of the noise along the basis vector."""


def jump_rates(target: BasisLaw, a: float | Floats) -> Floats:
    """Rates ``-log a`` of the jumps, one for each basis vector.

    Raises
    ------
    TypeError, ValueError
        If there is not one parameter, or one for each basis vector, all strictly between 0 and 1.

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Totals
    >>> target = BasisLaw.of(Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]})), "l1", 0.5)
    >>> jump_rates(target, math.exp(-1))
    array([1., 1.])
    """
    given = np.asarray(a, dtype=np.float64)
    if given.shape not in ((), (target.dimension,)):
        raise ValueError(
            f"a must be one number or one for each of the {target.dimension} basis vectors, got shape {given.shape}"
        )
    wrong = given[~((given > 0.0) & (given < 1.0))]
    if wrong.size:
        raise ValueError(f"a must lie strictly between 0 and 1, got {wrong.flat[0]}")
    return np.broadcast_to(-np.log(given), (target.dimension,)).copy()


@nb.njit(cache=True, error_model="numpy", inline="always")
def log_ratio(k: int, law: int, scale: float, z: Ints, norm: int, cells: Ints, entries: Ints, start: int, stop: int,
              square: int) -> float:  # fmt: skip
    """Log of the mass of ``z + k b`` over that of z."""
    if law == L1:
        more = 0
        for at in range(start, stop):
            value = z[cells[at]]
            more += abs(value + k * entries[at]) - abs(value)
        return -scale * more
    along = 0
    for at in range(start, stop):
        along += z[cells[at]] * entries[at]
    more = k * (2 * along + k * square)
    if law == GAUSSIAN:
        return -0.5 * more / (scale * scale)
    return -scale * (math.sqrt(norm + more) - math.sqrt(norm))


@nb.njit(cache=True, error_model="numpy")
def metropolis_update(j: int, rate: float, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints,
                      squares: Ints, z: Ints, norm: int, generator: Words) -> tuple[int, int, float]:  # fmt: skip
    """Propose a jump of coordinate j and take it or not: the step taken, the new squared norm, the expected square."""
    start, stop, square = pointers[j], pointers[j + 1], squares[j]
    k = discrete_laplace(generator, rate)
    if k == 0:
        return 0, norm, 0.0
    ratio = log_ratio(k, law, scale, z, norm, cells, entries, start, stop, square)
    expected = float(k) * k * math.exp(min(ratio, 0.0))
    if ratio < 0.0 and uniform(generator) >= math.exp(ratio):
        return 0, norm, expected
    return k, shift(k, z, norm, cells, entries, start, stop, square), expected


@nb.njit(cache=True, error_model="numpy")
def _run(out: Ints, z: Ints, skip: int, thin: int, rates: Floats, jumped: Floats, law: int, scale: float, pointers: Ints,
         cells: Ints, entries: Ints, squares: Ints, generator: Words) -> None:  # fmt: skip
    # rates, jumped: (kinds, coordinates); sweep s uses the kind s modulo their number.
    norm = 0
    for value in z:
        norm += value * value
    for sweep in range(skip + thin * len(out)):
        kind = sweep % len(rates)
        for j in range(len(squares)):
            _, norm, square = metropolis_update(
                j, rates[kind, j], law, scale, pointers, cells, entries, squares, z, norm, generator
            )
            jumped[kind, j] += square
        done = sweep + 1 - skip
        if done > 0 and done % thin == 0:
            out[done // thin - 1] = z


def tune_jumps(target: BasisLaw, rng: np.random.Generator, burn_in: int = 10_000) -> Floats:
    """Find the jump parameter a of each coordinate, in a chain of its own that is then thrown away.

    Parameters
    ----------
    target : BasisLaw
    rng : numpy.random.Generator
    burn_in : int, default 10000
        Sweeps; the first fifth leaves the start, the rest is tallied.

    Returns
    -------
    float64 array, shape (n,)

    Raises
    ------
    TypeError, ValueError
        If `burn_in` is not an integer of at least 100.

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Totals
    >>> target = BasisLaw.of(Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]})), "l1", 0.01)
    >>> bool((tune_jumps(target, np.random.default_rng(1)) > 0.98).all())  # jumps of the order of 1 / 0.01
    True
    """
    if positive_integer(burn_in, "burn_in") < 100:
        raise ValueError(f"burn_in must be at least 100 sweeps, got {burn_in}")
    law, scale, pointers, _, entries, squares = target.arrays
    lengths = np.add.reduceat(np.abs(entries), pointers[:-1]) if law == L1 else np.sqrt(squares)
    natural = lengths / scale if law == GAUSSIAN else scale * lengths
    rates = _TRIED[:, None] * natural
    state, z, nothing = seed_state(rng), np.zeros(target.cells, dtype=np.int64), np.zeros((0, target.cells), np.int64)
    first = burn_in // 5
    _run(nothing, z, first, 1, rates, np.zeros_like(rates), *target.arrays, state)
    jumped, sweeps = np.zeros_like(rates), max(1, _UPDATES // target.dimension)
    for done in range(0, burn_in - first, sweeps):
        _run(nothing, z, min(sweeps, burn_in - first - done), 1, rates, jumped, *target.arrays, state)
    best = np.take_along_axis(rates, jumped.argmax(axis=0)[None], axis=0)[0]
    return np.asarray(np.exp(-best))


def draw_double_geometric(
    target: BasisLaw, a: float | Floats, rng: np.random.Generator, chains: int = 1, draws: int = 1, *,
    burn_in: int = 0, thin: int = 1,
) -> Ints:  # fmt: skip
    """Run chains that start at zero.

    Parameters
    ----------
    target : BasisLaw
    a : float, or float64 array, shape (n,)
        Parameter of the jumps, fixed or from `tune_jumps`.
    rng : numpy.random.Generator
        Seeds the generator of the kernel.
    chains, draws : int
    burn_in : int
        Sweeps before the first draw.
    thin : int
        Sweeps for each draw.

    Returns
    -------
    int64 array, shape (chains, draws, cells)

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> target = BasisLaw.of(Invariants(Margins(table, ["county"], ["education"])), "l1", 1.0)
    >>> noise = draw_double_geometric(target, math.exp(-1), np.random.default_rng(1), chains=5000, thin=200)
    >>> round(float((noise[:, 0, 0] ** 2).mean()), 1)  # enumeration: 0.156
    0.2
    """
    rates = jump_rates(target, a)[None]
    out = np.empty((positive_integer(chains, "chains"), positive_integer(draws, "draws"), target.cells), dtype=np.int64)
    skip, thin = nonnegative_integer(burn_in, "burn_in"), positive_integer(thin, "thin")
    unread, generator = np.zeros_like(rates), seed_state(rng)
    sweeps = max(1, _UPDATES // target.dimension)
    for chain in out:
        z = np.zeros(target.cells, dtype=np.int64)
        for done in range(0, skip, sweeps):
            _run(chain[:0], z, min(sweeps, skip - done), 1, rates, unread, *target.arrays, generator)
        at_once = max(1, sweeps // thin)
        for done in range(0, len(chain), at_once):
            _run(chain[done : done + at_once], z, 0, thin, rates, unread, *target.arrays, generator)
    return out
