"""Which sampler draws noise of the norm of a hull, and noise drawn by it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bayesdp._validate import Seed, choice, generator_of, positive_integer, positive_real
from bayesdp.hulls.base import Hull
from bayesdp.hulls.boundary import Boundary
from bayesdp.hulls.cones import draw_cones
from bayesdp.hulls.cube import draw_cube
from bayesdp.hulls.envelope import envelope_of
from bayesdp.hulls.hit_and_run import draw_hit_and_run
from bayesdp.hulls.lift import lift_of, substitutions_of
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import METHODS, Sampler

type _Draw = Callable[[float, np.random.Generator, int], npt.NDArray[np.float64]]
"""From epsilon, a generator and a number of draws, points of shape (size, n)."""

HULL_METHODS = (*METHODS, "algorithm-3")
"""``auto``: exact where an exact sampler is known, else mcmc. ``algorithm-3``: exact too, by rejection from a cube."""

DEFAULT_SWEEPS = 50
"""Sweeps of hit-and-run for each draw; a sweep has as many steps as there are dimensions."""

_CONES = Sampler(True, "cones", None, "exponential weights on the corners of a random simplex of the boundary")
_CUBE = Sampler(True, "algorithm-3", None, "rejection from uniform points of a cube around the hull")


def choose_hull_sampler(
    hull: Hull, invariants: Invariants | None = None, method: str = "auto", sweeps: int = DEFAULT_SWEEPS
) -> Sampler:
    """Say how noise would be drawn.

    Parameters
    ----------
    hull : Hull
        In orthonormal coordinates of the invariants.
    invariants : Invariants, optional
        Where there is no triangulation, exact draws need to know that the subspace is that of disjoint totals
        or of both margins of a table.
    method : {"auto", "exact", "mcmc", "algorithm-3"}
        ``auto`` is exact where an exact sampler is known; ``algorithm-3`` is that of the third paper, for comparison.
    sweeps : int
        Length of the chain behind each draw where it is MCMC.

    Returns
    -------
    Sampler

    Raises
    ------
    NotImplementedError
        If exact draws are asked for and no exact sampler is known.

    Examples
    --------
    >>> from bayesdp.hulls import SymmetricHull
    >>> choose_hull_sampler(SymmetricHull(np.eye(3))).name
    'cones'
    """
    return _choose(hull, invariants, method, sweeps)[0]


def _choose(hull: Hull, invariants: Invariants | None, method: str, sweeps: int) -> tuple[Sampler, _Draw]:
    """The sampler, and what draws with it."""
    choice(method, HULL_METHODS, "method")
    count = positive_integer(sweeps, "sweeps")
    if invariants is not None:
        hull.check_coordinates(invariants)
    if method == "algorithm-3":
        return _CUBE, lambda epsilon, rng, size: draw_cube(hull, epsilon, rng, size)
    if method != "mcmc":
        # What takes least to set up comes first: triangulating a large boundary takes half a minute.
        if hull.facets is not None:
            return _by_cones(hull, hull.facets)
        envelope = None if invariants is None else envelope_of(hull, invariants)
        if envelope is not None:
            words = f"rejection from l1 noise that keeps the invariants, about {1.0 / envelope.acceptance:.3g} proposals a draw"
            return Sampler(True, "envelope", None, words, envelope.acceptance), envelope.draw
        lift = None if invariants is None else lift_of(hull, invariants)
        if lift is not None:
            words = f"rejection from l1 noise on the cells, about {1.0 / lift.acceptance:.3g} proposals a draw"
            return Sampler(True, "lift", None, words, lift.acceptance), lift.draw
        if hull.boundary is not None:
            return _by_cones(hull, hull.boundary)
    if method == "exact":
        raise NotImplementedError(
            f"no exact sampler is known for {hull!r}: it is too large for its boundary to be triangulated, and "
            "rejection from l1 noise is not to be had for these invariants (it is for disjoint totals, for "
            "both margins of a table, and for all substitutions) or accepts too little. method='mcmc' draws approximately"
        )
    faster = None if invariants is None else substitutions_of(hull, invariants)
    words = f"hit-and-run: approximate, {count} sweeps, convergence not certified"
    return Sampler(False, "hit-and-run", count, words), lambda epsilon, rng, size: draw_hit_and_run(
        hull, epsilon, rng, size, count, faster
    )


def _by_cones(hull: Hull, boundary: Boundary) -> tuple[Sampler, _Draw]:
    return _CONES, lambda epsilon, rng, size: draw_cones(hull.vertices, boundary, epsilon, rng, size)


def sample_hull(
    hull: Hull,
    epsilon: float,
    rng: Seed,
    size: int,
    invariants: Invariants | None = None,
    method: str = "auto",
    sweeps: int = DEFAULT_SWEEPS,
) -> npt.NDArray[np.float64]:
    """Draw noise with density proportional to ``exp(-epsilon ||v||_K)``.

    Parameters
    ----------
    hull : Hull
    epsilon : float
        Rate.
    rng : int, numpy.random.Generator or None
    size : int
        Number of draws.
    invariants, method, sweeps
        As in `choose_hull_sampler`.

    Returns
    -------
    float array, shape (size, n)
        In the coordinates of the hull.

    Examples
    --------
    >>> from bayesdp.hulls import SymmetricHull
    >>> square = SymmetricHull([[1, 1], [1, -1]])
    >>> draws = sample_hull(square, 0.5, np.random.default_rng(1), 10_000)
    >>> print(f"{square.gauge(draws).mean():.1f}")  # dimension / epsilon
    4.0
    """
    rate, generator = positive_real(epsilon, "epsilon"), generator_of(rng)
    return _choose(hull, invariants, method, sweeps)[1](rate, generator, size)
