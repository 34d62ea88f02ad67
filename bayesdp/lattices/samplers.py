"""Noise on a lattice: exact samplers, each with its acceptance rate, a Gibbs sampler, and which of them draws.

The Gibbs sampler serves any lattice. It is approximate, and nobody certifies its convergence.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._arrays import Ints, Words
from bayesdp._numba import nb, seed_state
from bayesdp._validate import Seed, choice, generator_of, positive_integer, positive_real
from bayesdp.fibers.kernel.state import (
    FLAT,
    GROUP,
    GROUP_RATE,
    NOISY,
    State,
    add_gaussian,
    clear_noise,
    new_state,
    set_counts,
    set_laplace,
)
from bayesdp.fibers.kernel.sweep import sweep
from bayesdp.fibers.moves.basis import kernel_basis
from bayesdp.fibers.moves.moves import Moves, moves_for
from bayesdp.invariants import Invariants
from bayesdp.lattices.fixed_sum import draw_fixed_sums, draw_groups, exchangeable_groups, groups_acceptance
from bayesdp.lattices.gram_schmidt import (
    draw_klein,
    draw_nearest_plane,
    gram_schmidt,
    klein_acceptance,
    nearest_plane_acceptance,
)
from bayesdp.lattices.integers import discrete_gaussian
from bayesdp.lattices.parts import General, Line, Table, lattice_parts
from bayesdp.lattices.two_way import draw_three_way, draw_two_way, three_way_acceptance, two_way, two_way_acceptance

type Draw = Callable[[np.random.Generator, int], Ints]
"""From a generator and a number of draws to an array, shape (draws, ...)."""


def noise_state(cells: int, moves: Moves, law: str) -> State:
    """Noise as the kernel sees it: a table with a flat prior and no bounds, whose cells have been measured."""
    if law != "l2":
        return new_state(cells, moves, None, 0)
    # One group: the length of all cells together.
    state = new_state(cells, moves, sp.csr_array(sp.eye_array(cells, dtype=np.int64, format="csr")), 1)
    state.rows[:, GROUP] = 0
    return state


def set_law(state: State, law: str, scale: float, location: npt.ArrayLike) -> None:
    """Write the law of the noise, see `sample_noise`, around a location of shape () or (cells,)."""
    if law == "l2":
        state.rows[:, NOISY] = location
        state.groups[:, GROUP_RATE] = scale
    elif law == "l1":
        set_laplace(state, scale, location)
    else:
        clear_noise(state)
        add_gaussian(state, 1.0 / scale**2, location)


def draw_gibbs(
    invariants: Invariants, law: str, scale: float, rng: np.random.Generator, size: int, sweeps: int
) -> Ints:
    """Draw noise, shape (size, cells), each draw the end of a chain of its own that starts at zero."""
    # A step draws a direction of the lattice at random and then the multiple of it from its exact conditional law, so that the law
    # of the noise is the one stationary law. Any lattice is connected by steps of its moves: there are no bounds here that could
    # block one. How close the end of a chain is to that law is not known.
    moves = moves_for(invariants, compute=False)
    state = noise_state(invariants.frame.size, moves, law)
    set_law(state, law, scale, 0.0)
    state.generator[:] = seed_state(rng)
    draws = np.empty((size, invariants.frame.size), dtype=np.int64)
    for i in range(size):
        set_counts(state, 0)
        sweep(draws[i : i + 1], sweeps * invariants.dimension, FLAT, True, state)
    return draws


def draw_lines(invariants: Invariants, law: str, scale: float, rng: np.random.Generator, size: int) -> Ints:
    """Draw noise ``z = j u`` along every line u, shape (size, cells): j is discrete Laplace or discrete Gaussian noise."""
    basis = kernel_basis(invariants)
    steps = np.empty((size, basis.shape[0]), dtype=np.int64)
    if steps.size:
        # All vectors have the same length: they are unit vectors, or there is only one.
        first = basis[[0]].data.astype(np.float64)
        length = float(np.abs(first).sum()) if law == "l1" else math.sqrt(float(np.square(first).sum()))
        if law == "gaussian":
            _fill_gaussian(seed_state(rng), scale / length, steps)
        else:
            steps = draw_fixed_sums(np.full(steps.shape[1], -1), scale * length, rng, size)
    return np.asarray((basis.T @ steps.T).T, dtype=np.int64)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_gaussian(state: Words, sigma: float, out: Ints) -> None:
    for row in out:
        for j in range(len(row)):
            row[j] = discrete_gaussian(state, sigma)


_TRIAL_CELLS = 400_000  # cells drawn to estimate an acceptance rate
_TRIALS = (64, 4000)  # fewest and most proposals that an acceptance rate is estimated from
_SEED = 20231  # estimates always see the same random numbers, so that the choice of a sampler is the same every time
_WIDEST = 2.0**62  # sums of noise times entries of the invariants must be integers of 64 bits
_TRIES_A_CALL = 100_000  # expected proposals in one call of a kernel, which cannot be interrupted
_LARGEST_MATRIX = 4_000_000  # general parts whose matrix has more entries are not tried

WORDS = {
    "lines": "independent discrete noise along orthogonal directions of the lattice",
    "fixed-sum": "difference of two uniform compositions of a random common mass in each block",
    "two-way": "exact rows of a table, rejection on their column sums, and the last two rows given these",
    "three-way": "exact slices of a table, and rejection on the last one",
    "groups": "independent cells, and rejection on the sums of exchangeable cells that they leave",
    "nearest-plane": "real noise rounded to nearest planes, with rejection",
    "klein": "randomised nearest planes, with rejection",
}
"""What each sampler does."""


@dataclass(frozen=True, eq=False)
class Exact:
    """An exact sampler: a name of `WORDS`, or several of them joined by " + " where the lattice falls into parts."""

    name: str
    acceptance: float  # acceptance rate in the worst part of the lattice: computed (a lower bound) or estimated
    draw: Draw  # shape (draws, cells)

    @property
    def words(self) -> str:
        """What is done, in a sentence."""
        return "; ".join(WORDS[name] for name in self.name.split(" + "))

    def in_pieces(self, rng: np.random.Generator, size: int) -> Ints:
        """Draw with many short calls of the kernel, between which the work can be interrupted."""
        most = max(1, math.ceil(_TRIES_A_CALL * self.acceptance))
        if size <= most:
            return self.draw(rng, size)
        return np.concatenate([self.draw(rng, min(most, size - done)) for done in range(0, size, most)])


@lru_cache(maxsize=256)
def exact_sampler(invariants: Invariants, law: str, scale: float) -> Exact | None:
    """The exact sampler for a law, however low its acceptance rate; None where there is none."""
    # A product of laws of single integers: at most one is free (a 2x2 table with its margins), or no invariant sees any cell.
    if invariants.dimension <= 1 or (invariants.rank == 0 and law != "l2"):
        return Exact("lines", 1.0, partial(draw_lines, invariants, law, scale))
    if law == "l1":
        return _laplace(invariants, scale)
    lattice = gram_schmidt(invariants)
    if lattice is None:
        return None
    if law == "l2":
        share = nearest_plane_acceptance(lattice, scale)
        return Exact("nearest-plane", share, lambda rng, size: draw_nearest_plane(lattice, scale, rng, size)[0])
    return Exact("klein", klein_acceptance(lattice, scale), lambda rng, size: draw_klein(lattice, scale, rng, size)[0])


def _laplace(invariants: Invariants, epsilon: float) -> Exact | None:
    if invariants.blocks is not None:
        return Exact("fixed-sum", 1.0, partial(draw_fixed_sums, invariants.blocks, epsilon))
    parts = lattice_parts(invariants)
    if any(isinstance(part, General) and math.prod(part.matrix.shape) > _LARGEST_MATRIX for part in parts):
        return None
    sums = [part for part in parts if isinstance(part, Line) or (isinstance(part, Table) and len(part.shape) == 1)]
    pieces = list(_sums(sums, epsilon))
    for part in parts:
        if isinstance(part, General):
            pieces.append(_groups(part, epsilon))
        elif isinstance(part, Table) and len(part.shape) > 1:
            pieces.append(_two_way(part, epsilon) if len(part.shape) == 2 else _three_way(part, epsilon))

    def draw(rng: np.random.Generator, size: int) -> Ints:
        out = np.zeros((size, invariants.frame.size), dtype=np.int64)
        for piece in pieces:
            drawn = piece.draw(rng, size)
            out[:, piece.cells] = drawn.reshape(size, math.prod(drawn.shape[1:]))[:, piece.sources] * piece.factors
        return out

    # Lines are named only where there is nothing else.
    names = [name for name in WORDS if any(piece.name == name for piece in pieces)]
    names = [name for name in names if name != "lines"] or ["lines"]
    return Exact(" + ".join(names), min(piece.acceptance for piece in pieces), draw)


@dataclass(frozen=True, eq=False)
class _Piece:
    """A sampler of l1 noise on some cells."""

    name: str
    acceptance: float  # 1 without rejection, 0 where no proposal of the trial had a positive probability of acceptance
    cells: Ints  # flat cells of the table, shape (n,)
    sources: Ints  # which number of a draw is written into each cell, shape (n,)
    factors: Ints  # and what it is multiplied by
    draw: Draw


def _sums(parts: Sequence[Line | Table], epsilon: float) -> Iterator[_Piece]:
    """Multiples of vectors, one piece for each l1 length; then fixed totals, one for each number of copies."""
    alike: dict[tuple[bool, int], list[Line | Table]] = {}
    for part in parts:
        multiple = int(np.abs(part.entries).sum()) if isinstance(part, Line) else part.copies
        alike.setdefault((isinstance(part, Table), multiple), []).append(part)
    for (total, multiple), same in sorted(alike.items(), key=lambda item: item[0]):
        # A line is one number, written into as many cells as it has.
        cells = [part.cells if isinstance(part, Table) else part.cells[:, None] for part in same]
        factors = [part.signs if isinstance(part, Table) else part.entries for part in same]
        sizes = [each.shape[1] for each in cells]
        firsts = np.cumsum([0, *sizes[:-1]])
        sources = [
            np.tile(np.arange(first, first + n), len(each)) for first, n, each in zip(firsts, sizes, cells, strict=True)
        ]
        blocks = np.repeat(np.arange(len(same)), sizes) if total else np.full(len(same), -1)
        yield _Piece(
            "fixed-sum" if total else "lines",
            1.0,
            np.concatenate([each.ravel() for each in cells]),
            np.concatenate(sources),
            np.concatenate([each.ravel() for each in factors]),
            partial(draw_fixed_sums, blocks, epsilon * multiple),
        )


def _trials(cells: float) -> int:
    """Number of proposals that an acceptance rate is estimated from, if each has so many cells."""
    return int(np.clip(_TRIAL_CELLS / cells, *_TRIALS))


@lru_cache(maxsize=256)
def _two_way_share(rows: int, columns: int, epsilon: float) -> float:
    trials = _trials(rows * columns)
    return two_way_acceptance(two_way(rows, columns, epsilon), np.random.default_rng(_SEED), trials)


def _two_way(part: Table, epsilon: float) -> _Piece:
    rate = epsilon * part.copies
    order = (0, 1) if part.shape[0] >= part.shape[1] else (1, 0)
    rows, columns = (part.shape[way] for way in order)
    plan = two_way(rows, columns, rate)
    share = _two_way_share(rows, columns, rate)
    return _Piece("two-way", share, *_written(part, order), lambda rng, size: draw_two_way(plan, rng, size)[0])


def _written(part: Table, order: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """Cells, sources and factors of a table that is drawn with its ways in another order."""
    axes = (0, *(way + 1 for way in order))
    cells, signs = np.transpose(part.cells, axes).ravel(), np.transpose(part.signs, axes).ravel()
    return cells, np.tile(np.arange(cells.size // part.copies), part.copies), signs


@lru_cache(maxsize=256)
def _three_way_share(slices: int, rows: int, columns: int, epsilon: float) -> float:
    """Acceptance rate of one slice times that of the last slice."""
    inner = _two_way_share(rows, columns, epsilon)
    cells = slices * rows * columns / max(inner, 1e-9)
    if cells > _TRIAL_CELLS:
        return 0.0  # the slices alone take too long
    plan, rng = two_way(rows, columns, epsilon), np.random.default_rng(_SEED)
    return inner * three_way_acceptance(plan, slices, rng, _trials(cells))


def _three_way(part: Table, epsilon: float) -> _Piece:
    """Draw slices along the way that gives the highest acceptance rate."""
    rate, sizes = epsilon * part.copies, part.shape
    orders = [(way, *sorted((k for k in range(3) if k != way), key=lambda k: -sizes[k])) for way in range(3)]
    shares = [_three_way_share(*(sizes[way] for way in order), rate) for order in orders]
    order = orders[int(np.argmax(shares))]
    slices, rows, columns = (sizes[way] for way in order)
    plan = two_way(rows, columns, rate)
    return _Piece(
        "three-way", max(shares), *_written(part, order), lambda rng, size: draw_three_way(plan, slices, rng, size)[0]
    )


def _groups(part: General, epsilon: float) -> _Piece:
    written = part.cells, np.arange(part.cells.size), np.ones_like(part.cells)
    groups = exchangeable_groups(part)
    widest = 40.0 * (part.cells.size + 1) / epsilon
    if groups is None or widest * float(np.abs(groups.relation).sum(axis=1).max(initial=1)) > _WIDEST:
        return _Piece("groups", 0.0, *written, _never)
    share = groups_acceptance(groups, epsilon, np.random.default_rng(_SEED), _trials(part.cells.size))
    return _Piece("groups", share, *written, lambda rng, size: draw_groups(groups, epsilon, rng, size)[0])


def _never(rng: np.random.Generator, size: int) -> Ints:
    raise NotImplementedError("the invariants have entries that are too large for this sampler")


LAWS = ("l1", "l2", "gaussian")
"""Mass ``exp(-scale ||z||_1)``, ``exp(-scale ||z||_2)``, ``exp(-||z||_2**2 / (2 scale**2))``."""

METHODS = ("auto", "exact", "mcmc")
"""``auto``: exact where there is an exact sampler whose acceptance rate is high enough, else mcmc."""

DEFAULT_SWEEPS = 1000
"""Sweeps of the Gibbs sampler for each draw; a sweep has as many steps as the lattice has dimensions."""

MOST_TRIES = 10_000
"""Exact samplers that are expected to need more tries a draw are not used. With so many, a draw for a 10 x 10 table
takes a tenth of a second, about as long as a chain of the default length."""

_LARGEST = 2.0**52  # noise beyond this would not be safe to add to a count in float64 later on


@dataclass(frozen=True)
class Sampler:
    """How noise on a lattice is drawn.

    Parameters
    ----------
    exact : bool
        Whether every draw has exactly the stated law, up to floating point.
    name : str
        ``gibbs``, or an exact sampler: ``lines``, ``fixed-sum``, ``two-way``, ``three-way``, ``groups``
        (several of these, joined by " + ", where the lattice falls into parts), ``nearest-plane``, ``klein``.
    sweeps : int or None
        Length of the chain behind each draw; None for exact samplers.
    words : str
        One sentence that says how the noise is drawn.
    acceptance : float or None
        Exact samplers: the acceptance rate in the worst part of the lattice. 1 where nothing is rejected, a computed lower
        bound for ``nearest-plane`` and ``klein``, else an estimate from a trial.
    """

    exact: bool
    name: str
    sweeps: int | None
    words: str
    acceptance: float | None = None


def sampler_for(
    invariants: Invariants, law: str, scale: float, method: str = "auto", sweeps: int = DEFAULT_SWEEPS
) -> Sampler:
    """Say how `sample_noise`, whose parameters these are, would draw noise.

    An exact sampler is used wherever it is expected to need no more than 10,000 tries a draw. Nothing that
    decides this depends on data.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "Mid", "High"]}
    >>> sampler_for(Invariants(Margins(table, ["county"])), "l1", 0.5).name
    'fixed-sum'
    >>> sampler_for(Invariants(Margins(table, ["county"], ["education"])), "gaussian", 2.0).name
    'klein'
    >>> sampler_for(Invariants(Margins(table, ["county"], ["education"])), "l1", 0.5, "mcmc").words
    'Gibbs sampler, 1000 sweeps from zero for each draw'
    """
    return _choose(invariants, law, scale, method, sweeps)[0]


def _choose(invariants: Invariants, law: str, scale: float, method: str, sweeps: int) -> tuple[Sampler, Exact | None]:
    choice(law, LAWS, "law")
    choice(method, METHODS, "method")
    positive_integer(sweeps, "sweeps")
    scale = positive_real(scale, "scale")
    # Exponential tails: a sum of as many as there are cells, each below exp(-37) of its mass.
    cells = invariants.frame.size
    reach = 40.0 * scale if law == "gaussian" else 40.0 * (cells + 1) / scale
    if reach > _LARGEST:
        raise ValueError(f"scale must keep the noise below 2**52; {scale!r} does not for {cells} cells")
    found = exact_sampler(invariants, law, scale) if method != "mcmc" else None
    if found is not None and found.acceptance * MOST_TRIES >= 1.0:
        tries = f" (about {1.0 / found.acceptance:.3g} tries a draw)" if found.acceptance < 1.0 else ""
        return Sampler(True, found.name, None, found.words + tries, found.acceptance), found
    if method == "exact":
        why = (
            "its lattice is too large for the exact samplers that are known here"
            if found is None
            else f"the expected acceptance of {found.name!r} is {found.acceptance:.2g}, below 1 in {MOST_TRIES}"
        )
        raise NotImplementedError(
            f"no exact sampler of {law} noise with scale {scale:g} under {invariants!r} is practical: {why}; use "
            "method='auto' or 'mcmc'"
        )
    return Sampler(False, "gibbs", sweeps, f"Gibbs sampler, {sweeps} sweeps from zero for each draw"), None


def sample_noise(
    invariants: Invariants,
    law: str,
    scale: float,
    rng: Seed = None,
    size: int = 1,
    method: str = "auto",
    sweeps: int = DEFAULT_SWEEPS,
) -> Ints:
    """Draw integer noise that changes no invariant.

    Parameters
    ----------
    invariants : Invariants
        What the noise must not change.
    law : {"l1", "l2", "gaussian"}
        Mass proportional to ``exp(-scale ||z||_1)``, ``exp(-scale ||z||_2)`` or
        ``exp(-||z||_2**2 / (2 scale**2))``.
    scale : float
        Rate per count (l1, l2), or scale in counts (gaussian).
    rng : int, numpy.random.Generator or None
        Without one, entropy of the operating system.
    size : int
        Number of independent draws.
    method : {"auto", "exact", "mcmc"}
        See `sampler_for`, which says what is used.
    sweeps : int
        Length of the chain behind each draw where it is MCMC.

    Returns
    -------
    int64 array, shape ``(size, *table)``

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> fixed = Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]}))
    >>> noise = sample_noise(fixed, "l1", 0.1, np.random.default_rng(1), size=1000)
    >>> noise.shape, int(abs(noise.sum(axis=1)).max())
    ((1000, 3), 0)
    """
    _, exact = _choose(invariants, law, scale, method, sweeps)
    count = operator.index(size)
    if count < 0:
        raise ValueError(f"size must be an integer of at least 0, got {size!r}")
    generator = generator_of(rng)
    if exact is not None:
        draws = exact.in_pieces(generator, count)
    else:
        draws = draw_gibbs(invariants, law, float(scale), generator, count, sweeps)
    return draws.reshape(count, *invariants.frame.shape)
