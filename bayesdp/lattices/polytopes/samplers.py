"""Which sampler draws noise of the norm of a hull, on the space that invariants leave free: exactly, or by hit-and-run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from bayesdp._arrays import Floats
from bayesdp._docs import documented
from bayesdp._validate import Seed, choice, generator_of, positive_integer, positive_real
from bayesdp.invariants import Invariants
from bayesdp.lattices.polytopes.base import Hull, draw_cones, fill
from bayesdp.lattices.polytopes.sensitivity import Proposal, SensitivityHull, proposal_for
from bayesdp.lattices.samplers import METHODS, Sampler

LEAST = 0.003
"""Share of proposals that must be accepted, for this to count as a way to draw exactly."""

_PILOT = (
    64  # proposals, of a fixed seed, by which acceptance is estimated (8 of large hulls): the answer is always the same
)
_BATCH = 4096
_CELLS = 2e7  # cells times the shorter side of the tables of one call of compiled code, which cannot be interrupted: a second


@dataclass(frozen=True, eq=False)
class Envelope:
    """Rejection from l1 noise: ``||z||_1 <= D ||z||_K``, D the greatest l1 norm of a vertex."""

    hull: Hull  # in orthonormal coordinates of the invariants
    invariants: Invariants
    proposal: Proposal
    reach: float  # the greatest l1 norm D of a vertex as a table
    acceptance: float  # estimated share of proposals that are accepted
    batch: int  # number of proposals in one go

    def draw(self, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw points in coordinates, with density proportional to ``exp(-epsilon ||v||_K)``, shape (size, n)."""

        def accepted(missing: int) -> Floats:
            count = min(self.batch, int(missing / self.acceptance) + 1)
            points, sizes = _measured(self.proposal.draw(epsilon / self.reach, rng, count), self.invariants)
            limits = sizes / self.reach + rng.standard_exponential(count) / epsilon
            return points[self.hull.gauge(points, limits) <= limits]

        return fill(np.empty((size, self.hull.dimension)), accepted)


def _measured(tables: Floats, invariants: Invariants) -> tuple[Floats, Floats]:
    """Coordinates and l1 norms of flat tables."""
    return invariants.coordinates(tables.reshape(-1, *invariants.frame.shape)), np.sum(np.abs(tables), axis=1)


@lru_cache(maxsize=8)
def envelope_of(hull: Hull, invariants: Invariants) -> Envelope | None:
    """Set up the rejection sampler; None where there are no proposals, or too few of them would be accepted."""
    # The share is the volume of K as a share of that of the l1 ball: it depends on neither the rate nor any data. The l1 norm of a
    # proposal is independent of its direction, and is integrated over.
    proposal = proposal_for(invariants)
    if proposal is None:
        return None
    if isinstance(hull, SensitivityHull):
        reach = float(hull.reach)
    else:
        corners = invariants.from_coordinates(hull.vertices).reshape(len(hull.vertices), -1)
        reach = float(np.max(np.sum(np.abs(corners), axis=1)))
    few = max(8, min(_PILOT, int(4e9 / hull.dimension**3)))
    points, sizes = _measured(proposal.draw(1.0, np.random.default_rng(0), few), invariants)
    share = float(np.mean(np.minimum(1.0, sizes / (reach * hull.gauge(points))) ** hull.dimension))
    batch = max(1, min(_BATCH, int(_CELLS / (invariants.frame.size * min(proposal.table or (1,))))))
    return Envelope(hull, invariants, proposal, reach, share, batch) if share >= LEAST else None


def draw_hit_and_run(hull: Hull, epsilon: float, rng: np.random.Generator, size: int, sweeps: int) -> Floats:
    """Draw points with density about proportional to ``exp(-epsilon ||v||_K)``, shape (size, n)."""
    # A uniform point of K times a gamma variable of shape n + 1 and rate epsilon has this density. Each uniform point is the end of
    # a chain that starts at the centre: a step goes to a uniform point of the chord of K in a uniform direction, so that the uniform
    # law is the one stationary law (Smith, 1984). How close the end of a chain is to it is not known.
    # Directions of unit vectors in the coordinates in which the vertices have equal spread in all directions:
    # a linear map changes nothing about the stationary law, and a round hull is crossed in fewer steps.
    spread = np.linalg.cholesky(hull.vertices.T @ hull.vertices).T
    points = np.zeros((size, hull.dimension))
    for point in points:
        for _ in range(sweeps * hull.dimension):
            direction = rng.standard_normal(hull.dimension) @ spread
            direction /= hull.gauge(direction)
            low, high = -_end(hull, point, -direction), _end(hull, point, direction)
            point += rng.uniform(low, high) * direction
    return np.asarray(points * rng.gamma(hull.dimension + 1.0, 1.0 / epsilon, size)[:, None])


def _end(hull: Hull, point: Floats, direction: Floats) -> float:
    """How far one can go in a direction of norm 1: at most 2, and less by Newton's method, which never falls short."""
    far = 2.0
    for _ in range(1000):
        size, form = hull.subgradient(point + far * direction)
        slope = float(form @ direction)
        if size <= 1.0 + 1e-9 or slope <= 0.0:
            return far
        far -= (size - 1.0) / slope
    raise ArithmeticError(
        "the boundary of the polytope was not found along a direction; its vertices are too different in size"
    )


_CUBE_BATCH = 1024


def draw_cube(hull: Hull, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
    """Draw points with density proportional to ``exp(-epsilon ||v||_K)`` by Algorithm 3 of Cho and Awan: for comparison."""
    # Uniform points of the smallest box around K with sides along the coordinates, until one is in K; times a gamma variable
    # of shape n + 1 and rate epsilon. With both margins and 2 x 2 moves, a point is in K with probability 0.17 for 3 x 3
    # tables, 3.7e-4 for 4 x 4 tables and about 2e-9 for 5 x 5 tables.
    n = hull.dimension
    half = np.max(np.abs(hull.vertices), axis=0)

    def accepted(_: int) -> Floats:
        points = rng.uniform(-half, half, size=(_CUBE_BATCH, n))
        return points[hull.gauge(points) <= 1.0]

    return fill(np.empty((size, n)), accepted) * rng.gamma(n + 1.0, 1.0 / epsilon, size)[:, None]


type _Draw = Callable[[float, np.random.Generator, int], Floats]
"""From epsilon, a generator and a number of draws, points of shape (size, n)."""

_METHODS = (*METHODS, "algorithm-3")
"""``auto``: exact where an exact sampler is known, else mcmc. ``algorithm-3``: exact too, by rejection from a cube."""

DEFAULT_SWEEPS = 50
"""Sweeps of hit-and-run for each draw; a sweep has as many steps as there are dimensions."""

_CONES = Sampler(True, "cones", None, "exponential weights on the corners of a random simplex of the boundary")
_CUBE = Sampler(True, "algorithm-3", None, "rejection from uniform points of a cube around the hull")


_SECTIONS = {
    "Parameters": """
hull : Hull
    In orthonormal coordinates of the invariants.
invariants : Invariants, optional
    Where there is no triangulation, exact draws need to know that the subspace is that of disjoint totals or of both margins of a
    table.
epsilon : float
    Rate.
rng : int, numpy.random.Generator or None
size : int
    Number of draws.
method : {"auto", "exact", "mcmc", "algorithm-3"}
    ``auto`` is exact where an exact sampler is known; ``algorithm-3`` is that of the third paper, for comparison.
sweeps : int
    Length of the chain behind each draw where it is MCMC."""
}


@documented(_SECTIONS)
def choose_hull_sampler(
    hull: Hull, invariants: Invariants | None = None, method: str = "auto", sweeps: int = DEFAULT_SWEEPS
) -> Sampler:
    """Say how noise would be drawn.

    Examples
    --------
    >>> from bayesdp.lattices.polytopes import SymmetricHull
    >>> choose_hull_sampler(SymmetricHull(np.eye(3))).name
    'cones'
    """
    return _choose(hull, invariants, method, sweeps)[0]


def _choose(hull: Hull, invariants: Invariants | None, method: str, sweeps: int) -> tuple[Sampler, _Draw]:
    """The sampler, and what draws with it."""
    choice(method, _METHODS, "method")
    count = positive_integer(sweeps, "sweeps")
    if invariants is not None and invariants.dimension != hull.dimension:
        raise ValueError(
            f"the hull must be in the coordinates of the invariants, of dimension {invariants.dimension}, "
            f"but it has dimension {hull.dimension}"
        )
    if method == "algorithm-3":
        return _CUBE, partial(draw_cube, hull)
    if method != "mcmc":
        # What takes least to set up comes first: triangulating a large boundary takes half a minute.
        if hull.facets is not None:
            return _CONES, partial(draw_cones, hull.vertices, hull.facets)
        envelope = None if invariants is None else envelope_of(hull, invariants)
        if envelope is not None:
            words = f"rejection from l1 noise that keeps the invariants, about {1.0 / envelope.acceptance:.3g} proposals a draw"
            return Sampler(True, "envelope", None, words, envelope.acceptance), envelope.draw
        if hull.boundary is not None:
            return _CONES, partial(draw_cones, hull.vertices, hull.boundary)
    if method == "exact":
        raise NotImplementedError(
            f"no exact sampler is known for {hull!r}: it is too large for its boundary to be triangulated, and "
            "rejection from l1 noise is not to be had for these invariants (it is for disjoint totals and for "
            "both margins of a table) or accepts too little. method='mcmc' draws approximately"
        )
    words = f"hit-and-run: approximate, {count} sweeps, convergence not certified"
    return Sampler(False, "hit-and-run", count, words), partial(draw_hit_and_run, hull, sweeps=count)


@documented(_SECTIONS)
def sample_hull(
    hull: Hull,
    epsilon: float,
    rng: Seed,
    size: int,
    invariants: Invariants | None = None,
    method: str = "auto",
    sweeps: int = DEFAULT_SWEEPS,
) -> Floats:
    """Draw noise with density proportional to ``exp(-epsilon ||v||_K)``.

    Returns
    -------
    float array, shape (size, n)
        In the coordinates of the hull.

    Examples
    --------
    >>> from bayesdp.lattices.polytopes import SymmetricHull
    >>> square = SymmetricHull([[1, 1], [1, -1]])
    >>> draws = sample_hull(square, 0.5, np.random.default_rng(1), 10_000)
    >>> print(f"{square.gauge(draws).mean():.1f}")  # dimension / epsilon
    4.0
    """
    rate, generator = positive_real(epsilon, "epsilon"), generator_of(rng)
    return _choose(hull, invariants, method, sweeps)[1](rate, generator, size)
