"""Which sampler draws noise on a lattice, and noise drawn by it.

Noise on any lattice by a Gibbs sampler: approximate, and nobody certifies its convergence.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._random import seed_state
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
from bayesdp.invariants import Invariants
from bayesdp.lattices.exact.exact import Exact, exact_sampler
from bayesdp.moves.choosing import moves_for
from bayesdp.moves.moves import Moves


def noise_state(cells: int, moves: Moves, law: str) -> State:
    """Noise as the kernel sees it: a table with a flat prior and no bounds, whose cells have been measured."""
    if law != "l2":
        return new_state(cells, moves, None, 0)
    # One group: the length of all cells together.
    state = new_state(cells, moves, sp.csr_array(sp.eye_array(cells, dtype=np.int64, format="csr")), 1)
    state.rows[:, GROUP] = 0
    return state


def set_law(state: State, law: str, scale: float, location: npt.ArrayLike) -> None:
    """Write the law of the noise, see `draw_gibbs`, around a location of shape () or (cells,)."""
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
) -> npt.NDArray[np.int64]:
    """Draw noise that changes no invariant, each draw the end of a chain of its own that starts at zero."""
    # A step draws a direction of the lattice at random and then the multiple of it from its exact conditional law, so that the law
    # of the noise is the one stationary law. Any lattice is connected by steps of its moves: there are no bounds here that could
    # block one. How close the end of a chain is to that law is not known. `law`: mass proportional to `exp(-scale ||z||_1)`,
    # `exp(-scale ||z||_2)` or `exp(-||z||_2**2 / (2 scale**2))`. `sweeps`: length of each chain; a sweep has as many steps as the
    # lattice has dimensions. Returns shape (size, cells).
    moves = moves_for(invariants, compute=False)
    state = noise_state(invariants.frame.size, moves, law)
    set_law(state, law, scale, 0.0)
    state.generator[:] = seed_state(rng)
    draws = np.empty((size, invariants.frame.size), dtype=np.int64)
    for i in range(size):
        set_counts(state, 0)
        sweep(draws[i : i + 1], sweeps * invariants.dimension, FLAT, True, state)
    return draws


LAWS = ("l1", "l2", "gaussian")
"""Mass ``exp(-scale ||z||_1)``, ``exp(-scale ||z||_2)``, ``exp(-||z||_2**2 / (2 scale**2))``."""

METHODS = ("auto", "exact", "mcmc")
"""``auto``: exact where there is an exact sampler whose acceptance rate is high enough, else mcmc."""

DEFAULT_SWEEPS = 1000
"""Sweeps of the Gibbs sampler for each draw; a sweep has as many steps as the lattice has dimensions."""

MOST_TRIES = 10_000
"""Exact samplers that are expected to need more tries a draw are not used. With so many, a draw for a 10 x 10 table
takes a tenth of a second, about as long as a chain of the default length."""

_LARGEST = 2.0**52
"""Noise beyond this would not be safe to add to a count in float64 later on."""


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
    """Say how noise would be drawn.

    An exact sampler is used wherever it is expected to need no more than `MOST_TRIES` tries a draw. Nothing that
    decides this depends on data.

    Parameters
    ----------
    invariants : Invariants
        What the noise must not change.
    law : {"l1", "l2", "gaussian"}
    scale : float
        Rate per count (l1, l2), or scale in counts (gaussian).
    method : {"auto", "exact", "mcmc"}
    sweeps : int
        Length of the chain behind each draw where it is MCMC.


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
        words = found.words
        if found.acceptance < 1.0:
            words += f" (about {1.0 / found.acceptance:.3g} tries a draw)"
        return Sampler(True, found.name, None, words, found.acceptance), found
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
) -> npt.NDArray[np.int64]:
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
