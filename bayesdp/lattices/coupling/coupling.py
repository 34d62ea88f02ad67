"""How far the noise of a chain is from its law after t sweeps, estimated from pairs of chains that meet.

One chain X is run L sweeps ahead of another chain Y with the same start; then both are moved together by a coupling
until ``X_t = Y_{t - L}``, at the time tau. Then (Biswas, Jacob and Vanetti, 2019, Theorem 2.5; X may meet Y as soon as
``t = L``)

    TV(law of X_t, target) <= E[max(0, ceil((tau - L - t) / L))] = sum over j >= 1 of P(tau > t + j L).

The average of the left hand side over independent pairs is an *estimate* of this bound, never a proof: no finite
number of pairs shows that longer meeting times do not occur.

Coupled steps of two chains on one lattice: each moves as it would alone, and both go to the same place if they can.

A coordinate of the two chains is updated by a maximal coupling of its two conditional laws, in basis coordinates, by
rejection: draw v from the first law p and keep it for both chains with probability ``min(1, q(v) / p(v))``; else draw w
from the second law q until ``U q(w) > p(w)`` (Jacob, O'Leary and Atchadé, 2020, Algorithm 2). Chains that agree in all
coordinates stay together from then on.

An upper confidence limit of the bound by coupled chains, although its summands have no largest value.

The bound at time t is ``sum over j >= 1 of P(tau > t + j L)``. Finitely many meeting times say nothing about how the
sum goes on, so something has to be assumed. This is what is done, and all that is assumed:

* **a time s**: one pair in five is used to choose it, so that about a tenth of all pairs are apart longer, and for
  nothing else;
* **assumption**: after s, no block of L sweeps is passed unmet with a larger probability than the first one, ``P(tau >
  u + L | tau > u) <= P(tau > s + L | tau > s) = r`` for u >= s. (Meeting times have geometric tails, and after s the
  tail should have set in; a slower rate that only one pair in thousands would show cannot be seen);
* then ``sum over j >= k of P(tau > t + j L) <= P(tau > t + k L) / (1 - r)`` for the first k with ``t + k L >= s``.

The remaining four pairs in five are independent of s. The probabilities before that k, that at k, and r have upper limits
by Clopper and Pearson, which hold at any number of pairs: r at half of ``1 - confidence``, the k others together at the
other half. A pair that was given up counts as one that never meets.

The largest value at this or a later time is reported, so that the curve never increases. That is what makes it safe to read
off the first time at which it is below a tolerance: for this to be too early, the curve must be below the truth at
one fixed time, the last one at which the truth is above the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from bayesdp._numba import nb
from bayesdp._random import seed_state, uniform
from bayesdp._validate import positive_integer, probability
from bayesdp.lattices.coupling.conditional import BasisLaw, describe, draw, gibbs_update, log_mass, new_pieces, shift

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_FIRST = 5
"""One pair in so many chooses the time s."""

_APART = 0.1
"""Share of pairs that are still apart after s."""

_BLOCKS = 50
"""Times that are more blocks before s get the trivial limit 1: the lag is too short to say more."""


def clopper_pearson(successes: npt.ArrayLike, trials: int, confidence: float) -> Floats:
    """One-sided upper confidence limit of a probability.

    Examples
    --------
    >>> round(float(clopper_pearson(0, 100, 0.95)), 5), round(1 - 0.05 ** (1 / 100), 5)
    (0.02951, 0.02951)
    """
    count = np.asarray(successes, dtype=np.float64)
    inner = np.minimum(count, trials - 1.0)
    if trials == 0:
        return np.ones_like(count)
    return np.where(count < trials, betaincinv(inner + 1.0, trials - inner, confidence), 1.0)


def least_limit(pairs: int, confidence: float) -> float:
    """What the limit would be if no pair were apart any longer, and all met at once: no run can show less.

    Examples
    --------
    >>> print(f"{least_limit(10_000, 0.99):.2e}")
    6.62e-04
    """
    return float(clopper_pearson(0, pairs - pairs // _FIRST, 1.0 - 0.5 * (1.0 - confidence)))


def upper_limits(meetings: Ints, lag: int, horizon: int, times: Ints, confidence: float) -> Floats:
    """Upper confidence limits of the bound, as this module describes.

    Parameters
    ----------
    meetings : int64 array, shape (pairs,)
        Meeting times of independent pairs; 0 for a pair that was given up.
    lag, horizon : int
        As in `CouplingBound`.
    times : int64 array, shape (times,)
        Ascending.
    confidence : float
        In (0, 1).

    Returns
    -------
    float64 array, shape (times,)
        Never increasing, at most 1; 1 where nothing better is known.

    Examples
    --------
    >>> meetings = 10 + np.random.default_rng(1).geometric(0.3, size=5000)
    >>> limits = upper_limits(meetings, 10, 1000, np.array([0, 10, 20]), 0.99)
    >>> bool((limits > [0.7**10 / (1 - 0.7**10), 0.7**20 / (1 - 0.7**10), 0.0]).all())
    True
    """
    alpha = 1.0 - probability(confidence, "confidence")
    last = np.where(meetings == 0, np.iinfo(np.int64).max, meetings)
    first = np.sort(last[: len(last) // _FIRST])
    rest = np.sort(last[len(first) :])
    if not len(first):
        return np.ones(len(times))
    # The latest time after which at least a tenth of the first pairs are apart.
    s = min(int(first[len(first) - max(1, math.ceil(_APART * len(first)))]) - 1, horizon)

    def apart(u: npt.ArrayLike) -> npt.NDArray[np.intp]:
        return len(rest) - np.searchsorted(rest, u, side="right")

    r = float(clopper_pearson(apart(s + lag), int(apart(s)), 1.0 - 0.5 * alpha))
    if r >= 1.0:
        return np.ones(len(times))
    limits = np.ones(len(times))
    for i, t in enumerate(times):
        k = max(1, -((int(t) - s) // lag))
        if k <= _BLOCKS:
            each = clopper_pearson(apart(t + lag * np.arange(1, k + 1)), len(rest), 1.0 - 0.5 * alpha / k)
            limits[i] = each[:-1].sum() + each[-1] / (1.0 - r)
    return np.minimum(np.maximum.accumulate(limits[::-1])[::-1], 1.0)


type Words = npt.NDArray[np.uint64]

TRIES = 1_000_000
"""Laws that are the same but for rounding leave nothing that only the second one has. To get there takes an event of
probability 1e-16, and the search for a remainder that does not exist must then end: any draw of the second law will do."""


@nb.njit(cache=True, error_model="numpy")
def sweep_alone(law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints, c: Ints,
                norm: int, pieces: Floats, generator: Words) -> int:  # fmt: skip
    """Sweep one chain with cells z and coordinates c; returns its squared norm."""
    for j in range(len(squares)):
        k, norm = gibbs_update(j, law, scale, pointers, cells, entries, squares, z, norm, pieces, generator)
        c[j] += k
    return norm


@nb.njit(cache=True, error_model="numpy")
def _pair(j: int, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints,
          gap: int, norms: Ints, pieces: Floats, generator: Words) -> tuple[int, int]:  # fmt: skip
    """Steps of both chains; `gap` is the coordinate of the first minus that of the second."""
    start, stop, square = pointers[j], pointers[j + 1], squares[j]
    describe(law, scale, z[0], norms[0], cells, entries, start, stop, square, pieces[0])
    describe(law, scale, z[1], norms[1], cells, entries, start, stop, square, pieces[1])
    first = draw(law, scale, square, pieces[0], generator)
    p = log_mass(first, law, scale, z[0], cells, entries, start, stop, square, pieces[0])
    q = log_mass(first + gap, law, scale, z[1], cells, entries, start, stop, square, pieces[1])
    if q >= p or uniform(generator) < math.exp(q - p):
        return first, first + gap
    second = 0
    for _ in range(TRIES):
        second = draw(law, scale, square, pieces[1], generator)
        q = log_mass(second, law, scale, z[1], cells, entries, start, stop, square, pieces[1])
        p = log_mass(second - gap, law, scale, z[0], cells, entries, start, stop, square, pieces[0])
        if p < q and uniform(generator) > math.exp(p - q):
            break
    return first, second


@nb.njit(cache=True, error_model="numpy")
def coupled_sweep(law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints, c: Ints,
                  norms: Ints, pieces: Floats, generator: Words) -> None:  # fmt: skip
    """Sweep both chains together."""
    # `law`, `scale`, `pointers`, `cells`, `entries`, `squares`: `BasisLaw.arrays`. `z`, shape (2, cells). `c`, shape (2, n).
    # `norms`, shape (2,). `pieces`, shape (2, ...): two of `bayesdp.lattices.coupling.conditional.new_pieces`. `generator`, shape
    # (4,).
    for j in range(len(squares)):
        gap = c[0, j] - c[1, j]
        first, second = _pair(j, law, scale, pointers, cells, entries, squares, z, gap, norms, pieces, generator)
        c[0, j] += first
        c[1, j] += second
        start, stop = pointers[j], pointers[j + 1]
        if first != 0:
            norms[0] = shift(first, z[0], norms[0], cells, entries, start, stop, squares[j])
        if second != 0:
            norms[1] = shift(second, z[1], norms[1], cells, entries, start, stop, squares[j])


@nb.njit(cache=True, error_model="numpy")
def count_apart(c: Ints) -> int:
    """Number of coordinates in which two chains differ; none if and only if they are at the same point."""
    apart = 0
    for j in range(c.shape[1]):
        if c[0, j] != c[1, j]:
            apart += 1
    return apart


type Meet = Callable[[Ints, int, int, BasisLaw, Words], None]
"""Runs pairs of chains that start at zero: fills an array with their meeting times, 0 for a pair that was given up. The
other arguments are the lag, the horizon, the law, and the state of the generator."""

_AT_ONCE = 50
"""Pairs in one call of the kernel, which cannot be interrupted."""

_SHOWN = 2000
"""Most times at which a bound is evaluated."""


@dataclass(frozen=True, eq=False)
class CouplingBound:
    """Estimated bound on the total variation distance between the noise after t sweeps and its law.

    Parameters
    ----------
    lag : int
        Sweeps that one chain is ahead.
    times : int64 array, shape (times,)
        Sweeps t, ascending from 0.
    bound : float64 array, shape (times,)
        Estimate of the bound; all nan (unknown) if a pair was still apart when it was given up.
    standard_error : float64 array, shape (times,)
        Of the estimate, by Monte Carlo; says nothing where few pairs are still apart. nan like `bound`.
    upper : float64 array, shape (times,)
        Upper confidence limit of the bound, never increasing, at most 1; see `bayesdp.lattices.coupling.coupling` for
        what it assumes. Pairs that were given up count as if they never met.
    meetings : int64 array, shape (pairs,)
        Meeting times tau, in sweeps of the leading chain; 0 for a pair that was given up.
    censored : int
        Number of pairs that were given up.
    horizon : int
        Sweeps after which a pair is given up.
    confidence : float
        Level of `upper`, which holds for the first time at which it falls below a given number as well.
    """

    lag: int
    times: Ints
    bound: Floats
    standard_error: Floats
    upper: Floats
    meetings: Ints
    censored: int
    horizon: int
    confidence: float

    def sweeps_to(self, tolerance: float, *, upper: bool = False) -> int | None:
        """First time at which the estimate (or its upper limit) is at most the tolerance; None if it never is."""
        curve = self.upper if upper else self.bound
        below = np.flatnonzero(curve <= tolerance)
        return int(self.times[below[0]]) if below.size else None


@nb.njit(cache=True, error_model="numpy")
def _meet(meetings: Ints, lag: int, horizon: int, pieces: Floats, law: int, scale: float, pointers: Ints, where: Ints,
          entries: Ints, squares: Ints, cells: int, generator: Words) -> None:  # fmt: skip
    n = len(squares)
    z, c, norms = np.empty((2, cells), np.int64), np.empty((2, n), np.int64), np.empty(2, np.int64)
    for r in range(len(meetings)):
        z[:], c[:], norms[:] = 0, 0, 0
        for _ in range(lag):
            norms[0] = sweep_alone(
                law, scale, pointers, where, entries, squares, z[0], c[0], norms[0], pieces[0], generator
            )
        t = lag
        while count_apart(c) > 0 and t < horizon:
            coupled_sweep(law, scale, pointers, where, entries, squares, z, c, norms, pieces, generator)
            t += 1
        meetings[r] = t if count_apart(c) == 0 else 0


def gibbs(meetings: Ints, lag: int, horizon: int, target: BasisLaw, generator: Words) -> None:
    """Pairs of chains that move by exact conditional steps along the vectors of the basis, see `Meet`."""
    pieces = np.stack([new_pieces(target.widest)] * 2)
    _meet(meetings, lag, horizon, pieces, *target.arrays, target.cells, generator)


def meeting_times(
    target: BasisLaw, rng: np.random.Generator, *, pairs: int, lag: int, meet: Meet = gibbs, horizon: int = 100_000
) -> Ints:
    """Times at which coupled chains that start at zero meet."""
    # `pairs`: independent pairs of chains. `lag`: sweeps that one chain is ahead. `meet`: runs pairs of chains, see `Meet`.
    # `horizon`: pairs that have not met when the leading chain has run so many sweeps are given up. Returns shape (pairs,): in
    # sweeps of the leading chain, at least `lag`; 0 for a pair that was given up.
    pairs, lag, horizon = (
        positive_integer(v, name) for v, name in ((pairs, "pairs"), (lag, "lag"), (horizon, "horizon"))
    )
    if horizon <= lag:
        raise ValueError(f"horizon must be more sweeps than the lag of {lag}, got {horizon}")
    generator, meetings = seed_state(rng), np.empty(pairs, dtype=np.int64)
    for done in range(0, pairs, _AT_ONCE):
        meet(meetings[done : done + _AT_ONCE], lag, horizon, target, generator)
    return meetings


def suggest_lag(target: BasisLaw, rng: np.random.Generator, *, meet: Meet = gibbs, horizon: int = 100_000) -> int:
    """A lag in which nearly all pairs meet, from 200 pairs with a growing lag that are used for nothing else."""
    lag = 1
    for _ in range(4):
        meetings = meeting_times(target, rng, pairs=200, lag=lag, meet=meet, horizon=horizon)
        if not meetings.all():
            raise ValueError(
                f"{np.count_nonzero(meetings == 0)} of 200 pairs of chains have not met within {horizon} sweeps, so that "
                "nothing is known of the convergence; raise the horizon, or draw exactly where that is practical"
            )
        apart = math.ceil(np.quantile(meetings - lag, 0.95))
        if apart <= lag:
            break
        lag = apart
    return max(lag, 1)


def couple(
    target: BasisLaw,
    rng: np.random.Generator,
    *,
    pairs: int = 1000,
    lag: int | None = None,
    meet: Meet = gibbs,
    horizon: int = 100_000,
    confidence: float = 0.99,
) -> CouplingBound:
    """Estimate how many sweeps a chain that starts at zero needs.

    Parameters
    ----------
    target : BasisLaw
    rng : numpy.random.Generator
    pairs : int, default 1000
        Independent pairs of coupled chains.
    lag : int, optional
        Sweeps that one chain is ahead; `suggest_lag` if not given. Any lag gives a bound, larger ones tighter bounds.
    meet, horizon
        See `meeting_times`.
    confidence : float, default 0.99

    Returns
    -------
    CouplingBound

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid, or, where the lag is to be found, pairs do not meet.

    References
    ----------
    Biswas, Jacob and Vanetti (2019), Estimating convergence of Markov chains with L-lag couplings, Theorem 2.5.
    Jacob, O'Leary and Atchadé (2020), Unbiased Markov chain Monte Carlo methods with couplings.

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> target = BasisLaw.of(Invariants(Margins(table, ["county"], ["education"])), "l1", 1.0)
    >>> found = couple(target, np.random.default_rng(1), pairs=2000, lag=10)
    >>> found.sweeps_to(0.01), found.sweeps_to(0.01, upper=True)
    (8, 11)
    """
    lag = suggest_lag(target, rng, meet=meet, horizon=horizon) if lag is None else lag
    meetings = meeting_times(target, rng, pairs=pairs, lag=lag, meet=meet, horizon=horizon)
    censored = int(np.count_nonzero(meetings == 0))
    last = int(meetings.max()) if not censored else horizon
    # From 0 to the first time at which no pair is apart a lag later: beyond it the curves do not change.
    times = np.unique(np.linspace(0, max(last - lag, 0), _SHOWN).astype(np.int64))
    if censored:
        bound = error = np.full(len(times), np.nan)
    else:
        terms = (_blocks(meetings, int(t), lag) for t in times)
        moments = np.array([(values.mean(), values.std()) for values in terms])
        bound, error = moments[:, 0], moments[:, 1] / math.sqrt(len(meetings))
    upper = upper_limits(meetings, lag, horizon, times, confidence)
    return CouplingBound(lag, times, bound, error, upper, meetings, censored, horizon, confidence)


def _blocks(meetings: Ints, t: int, lag: int) -> Ints:
    """``max(0, ceil((tau - L - t) / L))``."""
    return np.maximum(-((t + lag - meetings) // lag), 0)
