"""Which sampler draws noise of the norm of a hull, and noise drawn by it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, positive_integer, positive_real
from bayesdp.hulls.cones import draw_cones
from bayesdp.hulls.envelope import envelope_of
from bayesdp.hulls.hit_and_run import draw_hit_and_run
from bayesdp.hulls.hull import SymmetricHull
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import METHODS, Sampler

__all__ = ["DEFAULT_SWEEPS", "choose_hull_sampler", "sample_hull"]

DEFAULT_SWEEPS = 50
"""Sweeps of hit-and-run for each draw; a sweep has as many steps as there are dimensions."""

_CONES = Sampler(True, "cones", None, "exponential weights on the corners of a random simplex of the boundary")
_ENVELOPE = Sampler(True, "envelope", None, "rejection from l1 noise that keeps the invariants")


def choose_hull_sampler(
    hull: SymmetricHull, invariants: Invariants | None = None, method: str = "auto", sweeps: int = DEFAULT_SWEEPS
) -> Sampler:
    """Say how noise would be drawn.

    Parameters
    ----------
    hull : SymmetricHull
        In orthonormal coordinates of the invariants.
    invariants : Invariants, optional
        Where there is no triangulation, exact draws need to know that the subspace is that of disjoint totals
        or of both margins of a table.
    method : {"auto", "exact", "mcmc"}
        ``auto`` is exact where an exact sampler is known.
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
    >>> choose_hull_sampler(SymmetricHull(np.eye(3))).name
    'cones'
    """
    choice(method, METHODS, "method")
    count = positive_integer(sweeps, "sweeps")
    if invariants is not None and invariants.dimension != hull.dimension:
        raise ValueError(
            f"the hull must be in the coordinates of the invariants, of dimension {invariants.dimension}, "
            f"but it has dimension {hull.dimension}"
        )
    if method != "mcmc":
        if hull.boundary is not None:
            return _CONES
        if invariants is not None and envelope_of(hull, invariants) is not None:
            return _ENVELOPE
    if method == "exact":
        raise NotImplementedError(
            f"no exact sampler is known for {hull!r}: it is too large for its boundary to be triangulated, and "
            "rejection from l1 noise is not to be had for these invariants (it is for disjoint totals and for "
            "both margins of a table) or accepts too little. method='mcmc' draws approximately"
        )
    return Sampler(False, "hit-and-run", count, f"hit-and-run: approximate, {count} sweeps, convergence not certified")


def sample_hull(
    hull: SymmetricHull,
    epsilon: float,
    rng: np.random.Generator,
    size: int,
    invariants: Invariants | None = None,
    method: str = "auto",
    sweeps: int = DEFAULT_SWEEPS,
) -> npt.NDArray[np.float64]:
    """Draw noise with density proportional to ``exp(-epsilon ||v||_K)``.

    Parameters
    ----------
    hull : SymmetricHull
    epsilon : float
        Rate.
    rng : numpy.random.Generator
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
    >>> square = SymmetricHull([[1, 1], [1, -1]])
    >>> draws = sample_hull(square, 0.5, np.random.default_rng(1), 10_000)
    >>> print(f"{square.gauge(draws).mean():.1f}")  # dimension / epsilon
    4.0
    """
    rate = positive_real(epsilon, "epsilon")
    sampler = choose_hull_sampler(hull, invariants, method, sweeps)
    if sampler.name == "cones":
        assert hull.boundary is not None  # or another sampler had been chosen
        return draw_cones(hull.vertices, hull.boundary, rate, rng, size)
    if sampler.name == "envelope":
        assert invariants is not None  # likewise
        envelope = envelope_of(hull, invariants)
        assert envelope is not None
        return envelope.draw(rate, rng, size)
    return draw_hit_and_run(hull, rate, rng, size, sweeps)
