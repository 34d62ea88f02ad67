"""How many sweeps a chain of lattice noise needs (Dharangutte, Gao, Gong and Yu, 2023, Integer Subspace Differential Privacy).

`certify` says it of a mechanism, with what it costs in privacy (Section 4, Algorithms 2 and 3).

**Noise by Gibbs steps** along the vectors of a basis, in a fixed order: each step draws one coordinate from its exact law given the
others. The order is fixed so that two chains can be coupled; `bayesdp.lattices.samplers` moves along more directions, in random
order, and mixes a little faster, but two such chains hardly meet. Along ``z + k b`` with integer entries of b the mass of k is

* l1: ``exp(-rate sum_i |z_i + k b_i|)``, whose logarithm is linear between knots: pieces of geometric laws, summed
  in closed form; energies are exact integers;
* Gaussian: a discrete Gaussian around ``-<z, b> / ||b||**2`` with scale ``sigma / ||b||``;
* l2: ``exp(-rate sqrt(||b||**2 (k - c)**2 + rest))``, tabulated outwards from its centre c by its values until the
  rest is below ``exp(-40)`` of the largest.

`describe` fills a small array with what `draw` and `log_mass` then read: a maximal coupling needs masses and not only draws.

**Coupled chains** bound the distance of such noise from its law (Biswas, Jacob and Vanetti, 2019, Theorem 2.5): one is L sweeps ahead
of the other, and they meet at the time tau;

    TV(law of X_t, target) <= E[max(0, ceil((tau - L - t) / L))] = sum over j >= 1 of P(tau > t + j L).

An estimate, never a proof: what it and its upper confidence limit assume is in docs/papers/integer-subspace-dp.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import betaincinv

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints, Words
from bayesdp._numba import nb, seed_state, uniform
from bayesdp.fibers.moves.basis import kernel_basis
from bayesdp.invariants import Invariants
from bayesdp.lattices.gram_schmidt import centred_gaussian, mass_ratio
from bayesdp.mechanisms.integers import LatticeGaussian, LatticeLaplace
from bayesdp.privacy import gaussian_rho, rho_to_epsilon

__all__ = ["Certificate", "certify"]


L1, L2, GAUSSIAN = 0, 1, 2
"""The laws, as the kernels know them."""

_CODES = {"l1": L1, "l2": L2, "gaussian": GAUSSIAN}

_REACH = 2.0**29  # noise beyond this could overflow 64-bit sums of squares
_LONGEST = 1e5  # lattice l2 noise: integers that one step would have to tabulate, at most
_NEGLIGIBLE = 40.0  # masses of exp(-40) of the largest are left out
_AT_ONCE = 50  # pairs in one call of the kernel


class Lines(NamedTuple):
    """What kernels know of a `BasisLaw`: law, scale, where each vector starts, its cells, its entries, squared lengths."""

    law: int
    scale: float
    starts: Ints
    cells: Ints
    entries: Ints
    squares: Ints


@dataclass(frozen=True, eq=False)
class BasisLaw:
    """Noise ``z = sum_j c_j b_j`` on a lattice with linearly independent basis vectors b_j, the rows of a sparse integer array.

    Its mass is proportional to ``exp(-scale ||z||_1)``, ``exp(-scale ||z||_2)`` or ``exp(-||z||_2**2 / (2 scale**2))``.
    """

    basis: sp.csr_array
    law: str
    scale: float

    def __post_init__(self) -> None:
        _validate.choice(self.law, tuple(_CODES), "law")
        object.__setattr__(self, "scale", _validate.positive_real(self.scale, "scale"))
        basis = sp.csr_array(self.basis, copy=True)
        if not np.issubdtype(basis.dtype, np.integer):
            raise TypeError(f"basis must hold integers, got {basis.dtype}")
        basis = sp.csr_array(basis.astype(np.int64))
        basis.eliminate_zeros()
        if not basis.shape[0] or not np.diff(basis.indptr).all():
            raise ValueError("basis must have at least one vector, and no vector that is zero")
        object.__setattr__(self, "basis", basis)
        wide = 40.0 * (self.scale if self.law == "gaussian" else (basis.shape[1] + 1) / self.scale)
        if wide > _REACH:
            raise ValueError(
                f"scale must keep the noise below 2**29, got {self.scale!r} for {self.law!r} noise on {basis.shape[1]} cells"
            )
        if self.law == "l2" and wide > _LONGEST:
            raise ValueError(
                f"scale must be at least {40.0 * (basis.shape[1] + 1) / _LONGEST:.2g} for 'l2' noise on "
                f"{basis.shape[1]} cells (a step tabulates its law), got {self.scale!r}"
            )

    @classmethod
    def of(cls, invariants: Invariants, law: str, scale: float) -> BasisLaw:
        """Take the basis that `kernel_basis` knows: sparse for margins and totals, else reduced."""
        return cls(kernel_basis(invariants), law, scale)

    @property
    def dimension(self) -> int:
        """Number of basis vectors; a sweep updates each of them once, in order."""
        return int(self.basis.shape[0])

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.basis.shape[1])

    @cached_property
    def arrays(self) -> Lines:
        """For the kernels."""
        basis = self.basis
        squares = np.add.reduceat(basis.data**2, basis.indptr[:-1])
        starts, cells = basis.indptr.astype(np.int64), basis.indices.astype(np.int64)
        return Lines(_CODES[self.law], self.scale, starts, cells, basis.data, squares)

    @property
    def widest(self) -> int:
        """Most cells in one basis vector."""
        return int(np.diff(self.basis.indptr).max())


@nb.njit(cache=True, error_model="numpy")
def shift(k: int, z: Ints, norm: int, cells: Ints, entries: Ints, start: int, stop: int, square: int) -> int:
    """Add k times a basis vector to z, and return the new ``||z||_2**2``."""
    along = 0
    for at in range(start, stop):
        along += z[cells[at]] * entries[at]
        z[cells[at]] += k * entries[at]
    return norm + k * (2 * along + k * square)


@nb.njit(cache=True, error_model="numpy")
def _moved(k: int, lines: Lines, j: int, z: Ints, norm: int) -> int:
    start, stop = lines.starts[j], lines.starts[j + 1]
    return shift(k, z, norm, lines.cells, lines.entries, start, stop, lines.squares[j])


# Row 0 describes the whole law; l1 laws have one piece in each of the rows after it.
TOTAL, LEAST, CENTRE, REST, PIECES = 0, 1, 2, 3, 4
WEIGHT, FROM, SIGN, SLOPE, COUNT, KNOT = 0, 1, 2, 3, 4, 5


def new_pieces(widest: int) -> Floats:
    """Room for the description of a law along vectors with at most so many entries."""
    return np.zeros((widest + 2, 6))


@nb.njit(cache=True, error_model="numpy")
def _energy(k: int, lines: Lines, j: int, z: Ints) -> int:
    total = 0
    for at in range(lines.starts[j], lines.starts[j + 1]):
        total += abs(z[lines.cells[at]] + k * lines.entries[at])
    return total


@nb.njit(cache=True, error_model="numpy")
def _describe_l1(lines: Lines, j: int, z: Ints, pieces: Floats) -> None:
    # Knots -z/b, by the integer at or below each: insertion sort, since vectors are short.
    start, weight, least = lines.starts[j], 0.0, math.inf
    count = lines.starts[j + 1] - start
    pieces[0, KNOT], pieces[count + 1, KNOT] = -math.inf, math.inf
    for i in range(count):
        knot = (-z[lines.cells[start + i]]) // lines.entries[start + i]
        weight += abs(lines.entries[start + i])
        place = i
        while pieces[place, KNOT] > knot:
            pieces[place + 1, KNOT] = pieces[place, KNOT]
            place -= 1
        pieces[place + 1, KNOT] = knot
    # The energy is linear in the integers after one knot up to the next; a piece is counted from its end of the least energy.
    made = 0
    for i in range(count + 1):
        first, last = pieces[i, KNOT] + 1.0, pieces[i + 1, KNOT]
        if first > last:
            continue
        falls, slope = i == 0, weight
        if 0 < i < count:
            rise = _energy(int(last), lines, j, z) - _energy(int(first), lines, j, z)
            falls, slope = rise < 0, abs(rise) / max(last - first, 1.0)
        end = last if falls else first
        energy = _energy(int(end), lines, j, z)
        least, made = min(least, energy), made + 1
        pieces[made, WEIGHT], pieces[made, FROM], pieces[made, SIGN] = energy, end, -1.0 if falls else 1.0
        pieces[made, SLOPE], pieces[made, COUNT] = lines.scale * slope, last - first + 1.0
    total = 0.0
    for p in range(1, made + 1):
        steepness, number = pieces[p, SLOPE], pieces[p, COUNT]
        share = number
        if steepness > 0.0 and number > 1.0:
            share = 1.0 / -math.expm1(-steepness)
            if number < math.inf:
                share *= -math.expm1(-steepness * number)
        pieces[p, WEIGHT] = math.exp(-lines.scale * (pieces[p, WEIGHT] - least)) * share
        total += pieces[p, WEIGHT]
    pieces[0, TOTAL], pieces[0, LEAST], pieces[0, PIECES] = total, least, made


@nb.njit(cache=True, error_model="numpy")
def _draw_l1(generator: Words, pieces: Floats) -> int:
    left = uniform(generator) * pieces[0, TOTAL]
    p, made = 1, int(pieces[0, PIECES])
    while p < made and left >= pieces[p, WEIGHT]:
        left -= pieces[p, WEIGHT]
        p += 1
    steepness, number = pieces[p, SLOPE], pieces[p, COUNT]
    if number == 1.0:
        return int(pieces[p, FROM])
    u = uniform(generator)
    if steepness == 0.0:
        step = math.floor(u * number)
    else:
        rest = -math.expm1(-steepness * number) if number < math.inf else 1.0
        step = math.floor(-math.log1p(-u * rest) / steepness)
    return int(pieces[p, FROM] + pieces[p, SIGN] * min(step, number - 1.0))


@nb.njit(cache=True, error_model="numpy")
def _l2_weight(k: float, rate: float, square: float, pieces: Floats) -> float:
    """Minus the logarithm of the mass of k over the largest one."""
    away = k - pieces[0, CENTRE]
    return float(rate * (math.sqrt(square * away * away + pieces[0, REST]) - pieces[0, LEAST]))


@nb.njit(cache=True, error_model="numpy")
def _describe_l2(rate: float, square: float, pieces: Floats) -> None:
    mode, total = math.floor(pieces[0, CENTRE] + 0.5), 1.0
    away = mode - pieces[0, CENTRE]
    pieces[0, LEAST] = math.sqrt(square * away * away + pieces[0, REST])
    for sign in (1.0, -1.0):
        k, minus = mode, 0.0
        while minus <= _NEGLIGIBLE:
            k += sign
            minus = _l2_weight(k, rate, square, pieces)
            total += math.exp(-minus) if minus <= _NEGLIGIBLE else 0.0
    pieces[0, TOTAL] = total


@nb.njit(cache=True, error_model="numpy")
def _draw_l2(generator: Words, rate: float, square: float, pieces: Floats) -> int:
    # In the order of the distance from the centre, so that most draws end soon.
    left, mode, step = uniform(generator) * pieces[0, TOTAL] - 1.0, math.floor(pieces[0, CENTRE] + 0.5), 1.0
    sign = 1.0 if pieces[0, CENTRE] >= mode else -1.0
    while left >= 0.0:
        for side in (sign, -sign):
            minus = _l2_weight(mode + side * step, rate, square, pieces)
            if side == sign and minus > _NEGLIGIBLE:
                return int(mode)  # rounding of the total: probability about 1e-16
            left -= math.exp(-minus)
            if left < 0.0:
                return int(mode + side * step)
        step += 1.0
    return int(mode)


@nb.njit(cache=True, error_model="numpy")
def describe(lines: Lines, j: int, z: Ints, norm: int, pieces: Floats) -> None:
    """Describe the law of k along ``z + k b_j`` in `pieces`, from `new_pieces`; `norm` is ``||z||_2**2``, which l1 does not read."""
    if lines.law == L1:
        _describe_l1(lines, j, z, pieces)
        return
    along, square = 0, lines.squares[j]
    for at in range(lines.starts[j], lines.starts[j + 1]):
        along += z[lines.cells[at]] * lines.entries[at]
    pieces[0, CENTRE] = -along / square
    if lines.law == GAUSSIAN:
        sigma = lines.scale / math.sqrt(square)
        # Up to the sum around zero, which is the same for all laws along b.
        pieces[0, TOTAL] = mass_ratio(pieces[0, CENTRE], sigma, math.exp(-2.0 * (math.pi * sigma) ** 2))
    else:
        pieces[0, REST] = max(norm - along * (along / square), 0.0)
        _describe_l2(lines.scale, float(square), pieces)


@nb.njit(cache=True, error_model="numpy")
def draw(lines: Lines, j: int, pieces: Floats, generator: Words) -> int:
    """Draw k from a law that `describe` described."""
    if lines.law == L1:
        return _draw_l1(generator, pieces)
    if lines.law == GAUSSIAN:
        return centred_gaussian(generator, pieces[0, CENTRE], lines.scale / math.sqrt(lines.squares[j]))
    return _draw_l2(generator, lines.scale, float(lines.squares[j]), pieces)


@nb.njit(cache=True, error_model="numpy")
def log_mass(k: int, lines: Lines, j: int, z: Ints, pieces: Floats) -> float:
    """Logarithm of the mass of k; for Gaussian laws up to a constant that all laws along b share."""
    minus = math.log(pieces[0, TOTAL])
    if lines.law == L1:
        minus += lines.scale * (_energy(k, lines, j, z) - pieces[0, LEAST])
    elif lines.law == GAUSSIAN:
        distance = (k - pieces[0, CENTRE]) / lines.scale
        minus += 0.5 * lines.squares[j] * distance * distance
    else:
        minus += _l2_weight(k, lines.scale, float(lines.squares[j]), pieces)
    return -minus


@nb.njit(cache=True, error_model="numpy")
def _sweep(lines: Lines, z: Ints, c: Ints, norm: int, pieces: Floats, generator: Words) -> int:
    """Draw each coordinate given the others, of a chain with cells z and coordinates c; returns its squared norm."""
    for j in range(len(lines.squares)):
        describe(lines, j, z, norm, pieces)
        k = draw(lines, j, pieces, generator)
        norm = _moved(k, lines, j, z, norm)
        c[j] += k
    return norm


@nb.njit(cache=True, error_model="numpy")
def _run(out: Ints, z: Ints, skip: int, thin: int, lines: Lines, pieces: Floats, generator: Words) -> None:
    norm, c = int((z * z).sum()), np.zeros_like(lines.squares)
    for sweep in range(skip + thin * len(out)):
        norm = _sweep(lines, z, c, norm, pieces, generator)
        done = sweep + 1 - skip
        if done > 0 and done % thin == 0:
            out[done // thin - 1] = z


def draw_basis_gibbs(
    target: BasisLaw, rng: np.random.Generator, chains: int = 1, draws: int = 1, *, burn_in: int = 0, thin: int = 1
) -> Ints:
    """Run chains that start at zero: an array of shape (chains, draws, cells).

    `burn_in` sweeps come before the first draw, and `thin` sweeps before each: independent noise is the end of many chains,
    ``chains=size, draws=1, thin=sweeps``.
    """
    shape = _validate.positive_integer(chains, "chains"), _validate.positive_integer(draws, "draws")
    out = np.empty((*shape, target.cells), dtype=np.int64)
    skip, thin = _validate.nonnegative_integer(burn_in, "burn_in"), _validate.positive_integer(thin, "thin")
    pieces, generator = new_pieces(target.widest), seed_state(rng)
    for chain in out:
        _run(chain, np.zeros(target.cells, dtype=np.int64), skip, thin, target.arrays, pieces, generator)
    return out


_FIRST = 5  # one pair in so many chooses the time s
_APART = 0.1  # share of pairs that are still apart after s
_BLOCKS = 50  # times that are more blocks before s get the trivial limit 1: the lag is too short to say more


def clopper_pearson(successes: npt.ArrayLike, trials: int, confidence: float) -> Floats:
    """One-sided upper confidence limit of a probability."""
    count = np.asarray(successes, dtype=np.float64)
    inner = np.minimum(count, trials - 1.0)
    if trials == 0:
        return np.ones_like(count)
    return np.where(count < trials, betaincinv(inner + 1.0, trials - inner, confidence), 1.0)


def least_limit(pairs: int, confidence: float) -> float:
    """What the limit would be if no pair were apart any longer, and all met at once: no run can show less."""
    return float(clopper_pearson(0, pairs - pairs // _FIRST, 1.0 - 0.5 * (1.0 - confidence)))


def upper_limits(meetings: Ints, lag: int, horizon: int, times: Ints, confidence: float) -> Floats:
    """Upper confidence limits of the bound at ascending times (docs/papers/integer-subspace-dp.md): never increasing, at most 1.

    `meetings` are the meeting times of independent pairs, 0 for a pair that was given up.
    """
    alpha = 1.0 - _validate.probability(confidence, "confidence")
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


TRIES = 1_000_000
"""Laws that are the same but for rounding leave nothing that only the second one has. To get there takes an event of
probability 1e-16, and the search for a remainder that does not exist must then end: any draw of the second law will do."""


@nb.njit(cache=True, error_model="numpy")
def _pair(lines: Lines, j: int, z: Ints, gap: int, norms: Ints, pieces: Floats, generator: Words) -> tuple[int, int]:
    """Steps of both chains; `gap` is the coordinate of the first minus that of the second."""
    for i in range(2):
        describe(lines, j, z[i], norms[i], pieces[i])
    first = draw(lines, j, pieces[0], generator)
    p, q = log_mass(first, lines, j, z[0], pieces[0]), log_mass(first + gap, lines, j, z[1], pieces[1])
    if q >= p or uniform(generator) < math.exp(q - p):
        return first, first + gap
    second = 0
    for _ in range(TRIES):
        second = draw(lines, j, pieces[1], generator)
        p, q = log_mass(second - gap, lines, j, z[0], pieces[0]), log_mass(second, lines, j, z[1], pieces[1])
        if p < q and uniform(generator) > math.exp(p - q):
            break
    return first, second


@nb.njit(cache=True, error_model="numpy")
def coupled_sweep(lines: Lines, z: Ints, c: Ints, norms: Ints, pieces: Floats, generator: Words) -> None:
    """Sweep both chains together: cells z, coordinates c, squared norms and `new_pieces` of each of the two."""
    for j in range(len(lines.squares)):
        steps = _pair(lines, j, z, c[0, j] - c[1, j], norms, pieces, generator)
        for i in range(2):
            c[i, j] += steps[i]
            norms[i] = _moved(steps[i], lines, j, z[i], norms[i])


@nb.njit(cache=True, error_model="numpy")
def count_apart(c: Ints) -> int:
    """Number of coordinates in which two chains differ; none if and only if they are at the same point."""
    return int(np.count_nonzero(c[0] != c[1]))


type Meet = Callable[[Ints, int, int, BasisLaw, Words], None]
"""Runs pairs of chains that start at zero: fills an array with their meeting times, 0 for a pair that was given up. The
other arguments are the lag, the horizon, the law, and the state of the generator."""

_SHOWN = 2000  # most times at which a bound is evaluated


@dataclass(frozen=True, eq=False)
class CouplingBound:
    """Estimated bound on the total variation distance between the noise after t sweeps and its law, by pairs of coupled chains.

    At `times`, ascending from 0: `bound` and its Monte Carlo `standard_error`, nan if one of the pairs, `censored` in all, was
    given up; `upper`, the confidence limit, never increasing, with pairs that were given up as if they never met. It holds for the
    first time at which it falls below a given number as well. One chain of a pair is `lag` sweeps ahead, and `meetings` are the
    times tau in its sweeps, 0 for a pair that was given up.
    """

    lag: int
    times: Ints
    bound: Floats
    standard_error: Floats
    upper: Floats
    meetings: Ints
    censored: int

    def sweeps_to(self, tolerance: float, *, upper: bool = False) -> int | None:
        """First time at which the estimate (or its upper limit) is at most the tolerance; None if it never is."""
        curve = self.upper if upper else self.bound
        below = np.flatnonzero(curve <= tolerance)
        return int(self.times[below[0]]) if below.size else None


@nb.njit(cache=True, error_model="numpy")
def _meet(meetings: Ints, lag: int, horizon: int, cells: int, lines: Lines, pieces: Floats, generator: Words) -> None:
    n = len(lines.squares)
    for r in range(len(meetings)):
        z, c, norms = np.zeros((2, cells), np.int64), np.zeros((2, n), np.int64), np.zeros(2, np.int64)
        for _ in range(lag):
            norms[0] = _sweep(lines, z[0], c[0], norms[0], pieces[0], generator)
        t = lag
        while count_apart(c) > 0 and t < horizon:
            coupled_sweep(lines, z, c, norms, pieces, generator)
            t += 1
        meetings[r] = t if count_apart(c) == 0 else 0


def gibbs(meetings: Ints, lag: int, horizon: int, target: BasisLaw, generator: Words) -> None:
    """Pairs of chains that move by exact conditional steps along the vectors of the basis, see `Meet`."""
    pieces = np.stack([new_pieces(target.widest)] * 2)
    _meet(meetings, lag, horizon, target.cells, target.arrays, pieces, generator)


def meeting_times(
    target: BasisLaw, rng: np.random.Generator, *, pairs: int, lag: int, meet: Meet = gibbs, horizon: int = 100_000
) -> Ints:
    """Times at which pairs of coupled chains that start at zero meet, in sweeps of the one that is `lag` ahead; 0 after `horizon`."""
    given = {"pairs": pairs, "lag": lag, "horizon": horizon}
    pairs, lag, horizon = (_validate.positive_integer(value, name) for name, value in given.items())
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


def couple(target: BasisLaw, rng: np.random.Generator, *, pairs: int = 1000, lag: int | None = None, meet: Meet = gibbs,
           horizon: int = 100_000, confidence: float = 0.99) -> CouplingBound:  # fmt: skip
    """Estimate how many sweeps a chain that starts at zero needs, from independent pairs of coupled chains.

    Any lag gives a bound, larger ones tighter bounds; `suggest_lag` if none is given.
    """
    lag = suggest_lag(target, rng, meet=meet, horizon=horizon) if lag is None else lag
    meetings = meeting_times(target, rng, pairs=pairs, lag=lag, meet=meet, horizon=horizon)
    censored = int(np.count_nonzero(meetings == 0))
    last = int(meetings.max()) if not censored else horizon
    # From 0 to the first time at which no pair is apart a lag later: beyond it the curves do not change.
    times = np.unique(np.linspace(0, max(last - lag, 0), _SHOWN).astype(np.int64))
    bound = error = np.full(len(times), np.nan)
    if not censored:
        terms = [np.maximum(-((t + lag - meetings) // lag), 0) for t in times]  # max(0, ceil((tau - L - t) / L))
        bound = np.array([values.mean() for values in terms])
        error = np.array([values.std() for values in terms]) / math.sqrt(len(meetings))
    upper = upper_limits(meetings, lag, horizon, times, confidence)
    return CouplingBound(lag, times, bound, error, upper, meetings, censored)


@dataclass(frozen=True, eq=False)
class Certificate:
    """An estimate of how far the noise of a chain is from its law, and a way to draw that noise.

    It is an estimate from coupled chains, never a proof; docs/papers/integer-subspace-dp.md has what it assumes. `sweeps` is the first
    number of sweeps at which `tv_upper`, the upper confidence limit of the bound on the total variation distance, is at most the
    tolerance, `tv_estimate` the estimate of that, and `bound` the whole curve. `largest` is the largest protected ``||u||``, in the
    mechanism's norm, `epsilon` the loss between two tables with that difference. `delta_charge`, ``(1 + exp(epsilon)) tv_upper``, is
    what not having converged adds to the mechanism's `delta`, zero for Laplace noise.
    """

    mechanism: LatticeLaplace | LatticeGaussian
    tolerance: float
    sweeps: int
    tv_estimate: float
    tv_upper: float
    largest: float
    epsilon: float
    delta_charge: float
    delta: float
    chains: int
    lag: int
    confidence: float
    bound: CouplingBound = field(repr=False)

    @property
    def text(self) -> str:
        """What is claimed, in words."""
        law, _ = _law(self.mechanism)
        norm = "l2" if law == "gaussian" else law
        vacuous = ", which protects nothing: ask for a smaller tolerance" if self.delta_charge >= 1.0 else ""
        return (
            f"Estimate, not a proof: after {self.sweeps} sweeps of Gibbs from zero the noise is within {self.tv_upper:.3g} of "
            f"its law in total variation (upper limit at {100 * self.confidence:g}% confidence; estimate "
            f"{self.tv_estimate:.2g}), from {self.chains} pairs of coupled chains with lag {self.lag}, if pairs that stay "
            f"apart long go on meeting at the rate seen. Charged to delta: (1 + exp({self.epsilon:.4g})) x "
            f"{self.tv_upper:.3g} = {self.delta_charge:.3g} on top of {self.delta:.3g}{vacuous}; for two tables at "
            f"{norm} distance {self.largest:.4g} or less."
        )

    def __str__(self) -> str:
        return self.text

    def noise(self, rng: _validate.Seed = None, size: int = 1) -> Ints:
        """Draw noise, shape ``(size, *table)``, each draw the end of a chain of its own of `sweeps` sweeps; see `Mechanism.noise`."""
        count, generator = _validate.nonnegative_integer(size, "size"), _validate.generator_of(rng)
        target = BasisLaw.of(self.mechanism.invariants, *_law(self.mechanism))
        if not count:
            return np.zeros((0, *self.mechanism.frame.shape), dtype=np.int64)
        draws = draw_basis_gibbs(target, generator, chains=count, thin=self.sweeps)
        return draws.reshape(count, *self.mechanism.frame.shape)


def certify(mechanism: LatticeLaplace | LatticeGaussian, tolerance: float, *, chains: int = 10_000,
            lag: int | None = None, confidence: float = 0.99, largest: float | None = None, delta: float | None = None,
            horizon: int = 100_000, rng: _validate.Seed = None) -> Certificate:  # fmt: skip
    """Find the number of sweeps after which noise by a chain is as close to its law as asked for.

    The number of sweeps is the first one at which an upper confidence limit of the estimated total variation distance is at most
    the tolerance. Noise that is within TV of its law is ``(epsilon, delta + (1 + exp(epsilon)) TV)``-private where the law is
    ``(epsilon, delta)``-private: an event is TV more likely under the one table, and ``exp(epsilon) TV`` under the other.

    Parameters
    ----------
    mechanism, tolerance : LatticeLaplace or LatticeGaussian, float
        Total variation distance, in (0, 1).
    chains : int, default 10000
        Pairs of coupled chains. A tolerance takes about ``1.25 log(2 / (1 - confidence)) / tolerance`` of them, or more.
    lag : int, optional
        Sweeps that one chain of a pair is ahead; found from other pairs if not given.
    largest : float, optional
        Largest protected difference ``||u||``, in the norm of the mechanism (l2 for Gaussian noise). By default the
        largest of the smallest kinds of difference that keep the invariants (`Mechanism.differences`).
    delta : float, optional
        Gaussian noise stated by rho: the delta at which the loss is converted to an epsilon, on top of which comes the charge.
    horizon, confidence, rng
        Sweeps after which a pair is given up; of the limit; without a generator, entropy of the operating system.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = LatticeLaplace(Margins(table, ["county"], ["education"]), epsilon=0.25)
    >>> certificate = certify(mechanism, 0.05, chains=1000, rng=np.random.default_rng(1))
    >>> certificate.noise(np.random.default_rng(2), size=5).shape
    (5, 3, 3)
    >>> print(certificate)
    Estimate, not a proof: after ... sweeps of Gibbs from zero ...
    """
    law, scale = _law(mechanism)
    tolerance = _validate.probability(tolerance, "tolerance")
    chains, confidence = _validate.positive_integer(chains, "chains"), _validate.probability(confidence, "confidence")
    if largest is None:
        norms = [kind.l1 if law == "l1" else kind.l2 for kind in mechanism.differences]
        if not norms:
            raise ValueError("largest must be given: no difference that keeps these invariants is known")
        largest = max(norms)
    size = _validate.positive_real(largest, "largest")
    epsilon, stated_delta = _loss(mechanism, size, delta)
    pairs = (
        f"tolerance={tolerance:g} cannot be supported by {chains} pairs of chains at {100 * confidence:g}% confidence"
    )
    least = least_limit(chains, confidence)
    if least > tolerance:  # no outcome could support it
        needed = math.ceil(1.25 * math.log(2.0 / (1.0 - confidence)) / -math.log1p(-tolerance)) + 1
        raise ValueError(
            f"{pairs}: even if none stayed apart, the upper limit would be {least:.3g}; use at least chains={needed}"
        )
    target = BasisLaw.of(mechanism.invariants, law, scale)
    bound = couple(target, _validate.generator_of(rng), pairs=chains, lag=lag, horizon=horizon, confidence=confidence)
    if bound.censored:
        raise ValueError(
            f"{bound.censored} of {chains} pairs of chains have not met within {horizon} sweeps: the bound is unknown, and "
            "nothing is certified; raise horizon, or draw exactly where that is practical"
        )
    at = np.flatnonzero((bound.upper <= tolerance) & (bound.times >= 1))
    if not at.size:
        least = float(bound.upper[-1])
        more = f"about {math.ceil(1.2 * chains * least / tolerance)} pairs could" if least < 1.0 else "try a longer lag"
        raise ValueError(f"{pairs}: the upper limit does not fall below {least:.3g}; {more}")
    sweeps, estimate, upper = (curve[at[0]].item() for curve in (bound.times, bound.bound, bound.upper))
    # exp overflows beyond 709; the charge is then vacuous anyway.
    charge = (1.0 + math.exp(epsilon)) * upper if epsilon < 700.0 else math.inf
    return Certificate(
        mechanism, tolerance, sweeps, estimate, upper, size, epsilon, charge, stated_delta, chains, bound.lag, confidence, bound,
    )  # fmt: skip


def _law(mechanism: LatticeLaplace | LatticeGaussian) -> tuple[str, float]:
    if isinstance(mechanism, LatticeLaplace):
        return mechanism.norm, mechanism.rate
    if isinstance(mechanism, LatticeGaussian):
        return "gaussian", mechanism.sigma
    raise TypeError(
        f"mechanism must be a LatticeLaplace or LatticeGaussian, whose chains can be coupled, got {type(mechanism).__name__}; "
        "noise by hit-and-run (k-norm) is certified by nothing here"
    )


def _loss(mechanism: LatticeLaplace | LatticeGaussian, size: float, delta: float | None) -> tuple[float, float]:
    """Epsilon and delta for two tables at the largest protected difference."""
    if isinstance(mechanism, LatticeLaplace):
        if delta is not None:
            raise ValueError(f"delta must not be given for Laplace noise, which has none, got {delta!r}")
        return mechanism.rate * size, 0.0
    if (delta is None) == (mechanism.delta is None):
        raise ValueError(
            "delta must be given for Gaussian noise that is stated by rho, and only for that: the charge is for a loss "
            f"epsilon at a delta; got delta={delta!r} for {mechanism.delta!r} of the mechanism"
        )
    stated = _validate.probability(delta if delta is not None else mechanism.delta, "delta")
    return rho_to_epsilon(gaussian_rho(mechanism.sigma, size), stated), stated
