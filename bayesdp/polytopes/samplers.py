"""Which sampler draws noise of the norm of a hull, on the space that invariants leave free or on its integer points.

By rejection from l1 noise (`Envelope`): in any dimension, for totals and for both margins of a table.

Exact draws for the hull of all substitutions (`Lift`): l1 noise on the cells, with rejection on the part that is not seen.
Let p_i be the coordinates of cell i, and K the hull of all ``p_i - p_j``. Then ``||v||_K`` is half the least l1 norm of a
table w with sum zero and coordinates v: half the sum of absolute residuals R(v) of a fit to v by what the invariants see,
least in that sense (for both margins, a fit by row and column effects: Tukey's median polish, to the end).

So draw w with sum zero and density proportional to ``exp(-epsilon ||w||_1 / 2)``, let v be its coordinates, and accept v with
probability ``exp(-epsilon (||R(v)||_1 + ||w - R(v)||_1 - ||w||_1) / 2)``. This is a probability by the triangle inequality;
and since ``u = w - R(v)`` runs through one and the same space whatever v is, the accepted pairs (v, u) have density
proportional to ``exp(-epsilon ||v||_K) exp(-epsilon ||u||_1 / 2)``. So v has the density that is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from bayesdp._docs import documented
from bayesdp._numba import nb
from bayesdp._random import seed_state, uniform
from bayesdp._validate import Seed, choice, generator_of, positive_integer, positive_real
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import METHODS, Exact, Sampler, exact_sampler
from bayesdp.polytopes.base import Boundary, Hull, draw_cones, fill
from bayesdp.polytopes.generators import SOLVED, WORK, Basis, Generators, Vertices, copied, differences, solve
from bayesdp.polytopes.sensitivity import Proposal, SensitivityHull, proposal_for

type Floats = npt.NDArray[np.float64]

LEAST = 0.003
"""Share of proposals that must be accepted, for this to count as a way to draw exactly."""

_PILOT = 64  # proposals, of a fixed seed, by which acceptance is estimated: the answer is always the same
_TRIES = 1_000_000  # tables that are tried to get the proposals of the pilot
_BATCH = 4096
_CELLS = 2e7  # cells of tables that are tried in one call of compiled code, which cannot be interrupted: a second
_PROPOSALS_TRIED = 20_000  # of the l1 sampler for the proposals of one batch
# Tries for a proposal. More than for l1 noise itself, which has a Markov chain to fall back on: seconds for 10 x 10.
_MOST_TRIES = 200_000


@dataclass(frozen=True, eq=False)
class Envelope:
    """Rejection from l1 noise: ``||z||_1 <= D ||z||_K``, D the greatest l1 norm of a vertex."""

    # Whether a proposal is accepted is settled without its norm wherever bounds suffice (`Hull.below`).

    hull: Hull  # in orthonormal coordinates of the invariants
    invariants: Invariants
    propose: Callable[[float, np.random.Generator, int], npt.NDArray[Any]]  # tables of l1 noise, flat, by its rate
    reach: float  # the greatest l1 norm D of a vertex as a table
    acceptance: float  # estimated share of proposals that are accepted
    batch: int  # number of proposals in one go

    def accepted(self, epsilon: float, rng: np.random.Generator, missing: int) -> tuple[npt.NDArray[Any], Floats]:
        """Tables of the noise, and their coordinates: at least as many as should be enough, in pieces that fit in memory."""
        count = min(self.batch, int(missing / self.acceptance) + 1)
        tables = self.propose(epsilon / self.reach, rng, count)
        points, sizes = _measured(tables, self.invariants)
        good = self.hull.below(points, sizes / self.reach + rng.standard_exponential(count) / epsilon)
        return tables[good], points[good]

    def draw(self, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw points in coordinates, with density proportional to ``exp(-epsilon ||v||_K)``, shape (size, n)."""
        return fill(np.empty((size, self.hull.dimension)), lambda missing: self.accepted(epsilon, rng, missing)[1])


def _measured(tables: npt.NDArray[Any], invariants: Invariants) -> tuple[Floats, Floats]:
    """Coordinates and l1 norms of flat tables."""
    points = invariants.coordinates(tables.reshape(-1, *invariants.frame.shape))
    return points, np.sum(np.abs(tables), axis=1).astype(np.float64)


def _reach_of(hull: Hull, invariants: Invariants) -> float:
    """The greatest l1 norm of a vertex, as a table."""
    if isinstance(hull, SensitivityHull):
        return float(hull.reach)
    tables = invariants.from_coordinates(hull.vertices).reshape(len(hull.vertices), -1)
    return float(np.max(np.sum(np.abs(tables), axis=1)))


@lru_cache(maxsize=8)
def envelope_of(hull: Hull, invariants: Invariants) -> Envelope | None:
    """Set up the rejection sampler; None where there are no proposals, or too few of them would be accepted."""
    # The share is the volume of K as a share of that of the l1 ball: it depends on neither the rate nor any data. The l1 norm of a
    # proposal is independent of its direction, and is integrated over.
    proposal = proposal_for(invariants)
    if proposal is None:
        return None
    reach = _reach_of(hull, invariants)
    tables, tried = proposal.tried(1.0, np.random.default_rng(0), _PILOT, _TRIES)
    if len(tables) < _PILOT:
        return None
    points, sizes = _measured(tables, invariants)
    share = float(np.mean(np.minimum(1.0, sizes / (reach * hull.gauge(points))) ** hull.dimension))
    batch = max(1, min(_BATCH, int(_CELLS * _PILOT / (tried * tables.shape[1]))))
    return Envelope(hull, invariants, proposal.draw, reach, share, batch) if share >= LEAST else None


@lru_cache(maxsize=16)
def _plan(hull: Hull, invariants: Invariants, epsilon: float) -> tuple[Envelope, Exact] | str:
    """The same on the lattice, and the sampler of its proposals; or why there is nothing."""
    hull.check_coordinates(invariants)
    reach = _reach_of(hull, invariants)
    proposals = exact_sampler(invariants, "l1", epsilon / reach)
    if proposals is None or proposals.acceptance * _MOST_TRIES < 1.0:
        return f"l1 noise of rate {epsilon / reach:.3g} with these invariants has no practical exact sampler"
    points, sizes = _measured(proposals.in_pieces(np.random.default_rng(0), _PILOT), invariants)
    share = float(np.mean(np.minimum(1.0, np.exp(sizes * (epsilon / reach) - epsilon * hull.gauge(points)))))
    if share < LEAST:
        return f"only {share:.2g} of the l1 noise would be accepted, less than {LEAST}"
    batch = max(1, min(_BATCH, int(_PROPOSALS_TRIED * proposals.acceptance)))
    return Envelope(
        hull, invariants, lambda _, rng, count: proposals.in_pieces(rng, count), reach, share, batch
    ), proposals


def _practical(hull: Hull, invariants: Invariants, epsilon: float) -> tuple[Envelope, Exact]:
    """The plan, or NotImplementedError where there is none."""
    plan = _plan(hull, invariants, epsilon)
    if isinstance(plan, str):
        raise NotImplementedError(f"no exact sampler is known for integer noise of {hull!r}: {plan}")
    return plan


_SECTIONS = {
    "Parameters": """
hull : Hull
    In orthonormal coordinates of the invariants.
invariants : Invariants, optional
    Where there is no triangulation, exact draws need to know that the subspace is that of disjoint totals or of both margins of a
    table. Needed on a lattice.
epsilon : float
    Rate. On a lattice, the share of proposals that is accepted depends on it; not on any data.
rng : int, numpy.random.Generator or None
size : int
    Number of draws.
method : {"auto", "exact", "mcmc", "algorithm-3"}
    ``auto`` is exact where an exact sampler is known; ``algorithm-3`` is that of the third paper, for comparison.
sweeps : int
    Length of the chain behind each draw where it is MCMC."""
}


@documented(_SECTIONS)
def choose_lattice_sampler(hull: Hull, invariants: Invariants, epsilon: float) -> Sampler:
    """Say how integer noise would be drawn.

    Examples
    --------
    >>> from bayesdp.polytopes import sensitivity_hull
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Invariants(Margins(table, ["county"], ["education"]))
    >>> choose_lattice_sampler(sensitivity_hull(margins, 3), margins, 1.0).name
    'envelope of two-way'
    """
    envelope, proposals = _practical(hull, invariants, positive_real(epsilon, "epsilon"))
    words = (
        f"rejection from l1 noise on the lattice, about {1.0 / envelope.acceptance:.3g} proposals a draw; these by: "
    )
    return Sampler(True, f"envelope of {proposals.name}", None, words + proposals.words, envelope.acceptance)


@documented(_SECTIONS)
def sample_lattice(hull: Hull, invariants: Invariants, epsilon: float, rng: Seed, size: int) -> npt.NDArray[np.int64]:
    """Draw integer tables that change no invariant, with mass proportional to ``exp(-epsilon ||z||_K)``.

    l1 noise of rate ``epsilon / D`` is accepted with probability ``exp(-epsilon (||z||_K - ||z||_1 / D))``, D the greatest l1
    norm of a vertex. Whether it is accepted is settled without the norm wherever bounds suffice (`Hull.below`).

    Returns
    -------
    int64 array, shape ``(size, *table)``
    """
    rate, generator = positive_real(epsilon, "epsilon"), generator_of(rng)
    envelope, _ = _practical(hull, invariants, rate)
    tables = np.zeros((size, invariants.frame.size), dtype=np.int64)
    fill(tables, lambda missing: envelope.accepted(rate, generator, missing)[0])
    return tables.reshape(size, *invariants.frame.shape)


type Ints = npt.NDArray[np.int64]

LEAST_LIFTED = 3e-5
"""Share of proposals that must be accepted; a proposal takes some tens of microseconds."""

_LIFT_PILOT = 2000
_SAME = 1e-9
_LIFT_CELLS = 200  # of which there are 19,900 pairs


@dataclass(frozen=True, eq=False)
class Lift:
    """Rejection from l1 noise on the cells, for the hull of all differences of their coordinates."""

    invariants: Invariants
    generators: Generators  # the differences
    acceptance: float  # estimated share of proposals that are accepted. It depends on neither the rate nor any data

    def draw(self, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw points in coordinates, with density proportional to ``exp(-epsilon ||v||_K)``, shape (size, n)."""
        n = self.generators.dimension
        batch = max(1, int(WORK / n**3))

        def accepted(missing: int) -> Floats:
            points, excess, _ = _propose(self.invariants, self.generators, 0.5 * epsilon, rng, batch)
            return np.asarray(points[rng.standard_exponential(batch) >= 0.5 * epsilon * excess])

        return fill(np.empty((size, n)), accepted)


@lru_cache(maxsize=8)
def lift_of(hull: Hull, invariants: Invariants) -> Lift | None:
    """Set up the sampler; None for other hulls, and where too few proposals would be accepted."""
    # The l1 norm of a proposal is integrated over, as in `envelope_of`.
    generators = substitutions_of(hull, invariants)
    if generators is None:
        return None
    cells = invariants.frame.size
    _, excess, sizes = _propose(invariants, generators, 1.0, np.random.default_rng(0), _LIFT_PILOT)
    share = float(np.mean((1.0 + excess / sizes) ** (1.0 - cells)))
    return Lift(invariants, generators, share) if share >= LEAST_LIFTED else None


@lru_cache(maxsize=8)
def substitutions_of(hull: Hull, invariants: Invariants) -> Generators | None:
    """The vertices as differences of the coordinates of two cells, which linear programs search faster; None if they are not."""
    cells = invariants.frame.size
    if cells > _LIFT_CELLS or hull.dimension != invariants.dimension:
        return None
    units = invariants.coordinates(np.eye(cells).reshape(cells, *invariants.frame.shape))
    first, second = np.triu_indices(cells, 1)
    expected, vertices = units[first] - units[second], hull.vertices
    near = _SAME * float(np.max(np.abs(vertices)))
    for these, those in ((vertices, expected), (expected, vertices)):
        distance, _ = cKDTree(np.concatenate([those, -those])).query(these[np.max(np.abs(these), axis=1) > near])
        if np.any(distance > near):
            return None
    return differences(units)


def _propose(
    invariants: Invariants, generators: Generators, rate: float, rng: np.random.Generator, size: int
) -> tuple[Floats, Floats, Floats]:
    """Coordinates of tables w of l1 noise, their ``||R(v)||_1 + ||w - R(v)||_1 - ||w||_1``, and their ``||w||_1``."""
    cells = invariants.frame.size
    tables = Proposal(np.zeros(cells, dtype=np.int64), None, "").draw(rate, rng, size)
    points = invariants.coordinates(tables.reshape(-1, *invariants.frame.shape))
    excess = np.empty(size)
    if not _excess(generators.vertices, generators.start, points / generators.scale, tables, excess):
        raise ArithmeticError("a least absolute fit was not found: rounding errors took over (not seen so far)")
    return points, excess, np.sum(np.abs(tables), axis=1)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _excess(vertices: Vertices, start: Basis, points: Floats, tables: Floats, excess: Floats) -> bool:
    """Fill `excess`: the l1 norms of residual and fit, less that of the table."""
    n = points.shape[1]
    weights, form, residual = np.empty(n), np.empty(n), np.empty(tables.shape[1])
    for i in range(len(points)):
        basis = copied(start)
        state, _, _, _ = solve(vertices, basis, points[i], np.nan, weights, form)
        if state != SOLVED:
            return False
        residual[:] = 0.0
        for k in range(n):
            residual[basis.ends[k, 0]] += weights[k]
            residual[basis.ends[k, 1]] -= weights[k]
        total = 0.0
        for j in range(len(residual)):
            total += abs(residual[j]) + abs(tables[i, j] - residual[j]) - abs(tables[i, j])
        excess[i] = total
    return True


type Words = npt.NDArray[np.uint64]

_STEPS = 20  # of a chain in one call of compiled code, which cannot be interrupted


def draw_hit_and_run(
    hull: Hull, epsilon: float, rng: np.random.Generator, size: int, sweeps: int, generators: Generators | None = None
) -> npt.NDArray[np.float64]:
    """Draw points with density about proportional to ``exp(-epsilon ||v||_K)``, shape (size, n)."""
    # A uniform point of K times a gamma variable of shape n + 1 and rate epsilon has this density. Each uniform point is the end of
    # a chain that starts at the centre: a step goes to a uniform point of the chord of K in a uniform direction, so that the uniform
    # law is the one stationary law (Smith, 1984). How close the end of a chain is to it is not known. Without facets, the ends of a
    # chord are found by Newton's method on the norm, with linear programs that begin where the last one ended. `generators`: the
    # same vertices, as linear programs search them faster.
    n = hull.dimension
    # Directions of unit vectors in the coordinates in which the vertices have equal spread in all directions:
    # a linear map changes nothing about the stationary law, and a round hull is crossed in fewer steps.
    spread = np.linalg.cholesky(hull.vertices.T @ hull.vertices).T
    if hull.facets is None:
        vertices = hull.generators if generators is None else generators
        points = np.array([_chain(vertices, spread, rng, sweeps * n) for _ in range(size)]).reshape(size, n)
    else:
        points = np.zeros((size, n))
        for _ in range(sweeps * n):
            directions = rng.standard_normal((size, n)) @ spread
            low, high = _chords(hull.facets, points, directions)
            points += (low + (high - low) * rng.random(size))[:, None] * directions
    return np.asarray(points * rng.gamma(n + 1.0, 1.0 / epsilon, size)[:, None])


def _chords(boundary: Boundary, points: Floats, directions: Floats) -> tuple[Floats, Floats]:
    """The interval of t with ``points + t directions`` in K, row by row."""
    heights, slopes = points @ boundary.forms.T, directions @ boundary.forms.T
    # |height + t slope| <= 1 for all forms; a form that does not change along the line bounds nothing.
    with np.errstate(divide="ignore"):
        inverse = 1.0 / np.abs(slopes)
    ahead = heights * np.sign(slopes)
    return np.max((-1.0 - ahead) * inverse, axis=1), np.min((1.0 - ahead) * inverse, axis=1)


def _chain(generators: Generators, spread: Floats, rng: np.random.Generator, steps: int) -> Floats:
    """The last point of a chain from the centre."""
    basis, state, point = copied(generators.start), seed_state(rng), np.zeros(generators.dimension)
    for done in range(0, steps, _STEPS):
        count = min(_STEPS, steps - done)
        if not _walk(state, generators.vertices, basis, np.ascontiguousarray(spread), point, count):
            raise ArithmeticError("the end of a chord was not found: rounding errors took over (not seen so far)")
    return point * generators.scale


@nb.njit(cache=True, error_model="numpy")
def _normal(state: Words) -> float:
    """A standard normal variable, by Box and Muller's formula."""
    return math.sqrt(-2.0 * math.log1p(-uniform(state))) * math.cos(2.0 * math.pi * uniform(state))


@nb.njit(cache=True, error_model="numpy")
def _end(vertices: Vertices, basis: Basis, point: Floats, direction: Floats, weights: Floats, form: Floats) -> float:
    """How far one can go in a direction of norm 1: at most 2, and less by Newton's method, which never falls short."""
    far = 2.0
    for _ in range(1000):
        there = point + far * direction
        state, _, size, _ = solve(vertices, basis, there, np.nan, weights, form)
        if state != SOLVED:
            return -1.0
        slope = np.sum(form * direction)
        if size <= 1.0 + 1e-9 or slope <= 0.0:
            return far
        far -= (size - 1.0) / slope
    return -1.0


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _walk(state: Words, vertices: Vertices, basis: Basis, spread: Floats, point: Floats, steps: int) -> bool:
    """Move a point so many steps; False if a linear program is not solved."""
    n = len(point)
    weights, form, direction = np.empty(n), np.empty(n), np.empty(n)
    for _ in range(steps):
        direction[:] = 0.0
        for i in range(n):
            normal = _normal(state)
            for t in range(n):
                direction[t] += normal * spread[i, t]
        solved, _, size, _ = solve(vertices, basis, direction, np.nan, weights, form)
        if solved != SOLVED:
            return False
        direction /= size
        high = _end(vertices, basis, point, direction, weights, form)
        low = _end(vertices, basis, point, -direction, weights, form)
        if high < 0.0 or low < 0.0:
            return False
        point += (uniform(state) * (high + low) - low) * direction
    return True


_CUBE_BATCH = 1024


def draw_cube(hull: Hull, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
    """Draw points with density proportional to ``exp(-epsilon ||v||_K)`` by Algorithm 3 of Cho and Awan: for comparison."""
    # Uniform points of the smallest box around K with sides along the coordinates, until one is in K; times a gamma variable
    # of shape n + 1 and rate epsilon. With both margins and 2 x 2 moves, a point is in K with probability 0.17 for 3 x 3
    # tables, 3.7e-4 for 4 x 4 tables and about 2e-9 for 5 x 5 tables. Whether it is, is asked here of bounds in compiled code
    # (`Hull.below`), and would take a linear program each otherwise.
    n = hull.dimension
    half = np.array([hull.generators.support(unit) for unit in np.eye(n)])

    def accepted(_: int) -> Floats:
        points = rng.uniform(-half, half, size=(_CUBE_BATCH, n))
        return points[hull.below(points, np.ones(_CUBE_BATCH))]

    return fill(np.empty((size, n)), accepted) * rng.gamma(n + 1.0, 1.0 / epsilon, size)[:, None]


type _Draw = Callable[[float, np.random.Generator, int], Floats]
"""From epsilon, a generator and a number of draws, points of shape (size, n)."""

HULL_METHODS = (*METHODS, "algorithm-3")
"""``auto``: exact where an exact sampler is known, else mcmc. ``algorithm-3``: exact too, by rejection from a cube."""

DEFAULT_SWEEPS = 50
"""Sweeps of hit-and-run for each draw; a sweep has as many steps as there are dimensions."""

_CONES = Sampler(True, "cones", None, "exponential weights on the corners of a random simplex of the boundary")
_CUBE = Sampler(True, "algorithm-3", None, "rejection from uniform points of a cube around the hull")


@documented(_SECTIONS)
def choose_hull_sampler(
    hull: Hull, invariants: Invariants | None = None, method: str = "auto", sweeps: int = DEFAULT_SWEEPS
) -> Sampler:
    """Say how noise would be drawn.

    Examples
    --------
    >>> from bayesdp.polytopes import SymmetricHull
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
        return _CUBE, partial(draw_cube, hull)
    if method != "mcmc":
        # What takes least to set up comes first: triangulating a large boundary takes half a minute.
        if hull.facets is not None:
            return _CONES, partial(draw_cones, hull.vertices, hull.facets)
        envelope = None if invariants is None else envelope_of(hull, invariants)
        if envelope is not None:
            words = f"rejection from l1 noise that keeps the invariants, about {1.0 / envelope.acceptance:.3g} proposals a draw"
            return Sampler(True, "envelope", None, words, envelope.acceptance), envelope.draw
        lift = None if invariants is None else lift_of(hull, invariants)
        if lift is not None:
            words = f"rejection from l1 noise on the cells, about {1.0 / lift.acceptance:.3g} proposals a draw"
            return Sampler(True, "lift", None, words, lift.acceptance), lift.draw
        if hull.boundary is not None:
            return _CONES, partial(draw_cones, hull.vertices, hull.boundary)
    if method == "exact":
        raise NotImplementedError(
            f"no exact sampler is known for {hull!r}: it is too large for its boundary to be triangulated, and "
            "rejection from l1 noise is not to be had for these invariants (it is for disjoint totals, for "
            "both margins of a table, and for all substitutions) or accepts too little. method='mcmc' draws approximately"
        )
    faster = None if invariants is None else substitutions_of(hull, invariants)
    words = f"hit-and-run: approximate, {count} sweeps, convergence not certified"
    return Sampler(False, "hit-and-run", count, words), partial(draw_hit_and_run, hull, sweeps=count, generators=faster)


@documented(_SECTIONS)
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

    Returns
    -------
    float array, shape (size, n)
        In the coordinates of the hull.

    Examples
    --------
    >>> from bayesdp.polytopes import SymmetricHull
    >>> square = SymmetricHull([[1, 1], [1, -1]])
    >>> draws = sample_hull(square, 0.5, np.random.default_rng(1), 10_000)
    >>> print(f"{square.gauge(draws).mean():.1f}")  # dimension / epsilon
    4.0
    """
    rate, generator = positive_real(epsilon, "epsilon"), generator_of(rng)
    return _choose(hull, invariants, method, sweeps)[1](rate, generator, size)
