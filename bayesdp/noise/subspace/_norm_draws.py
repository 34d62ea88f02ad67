"""Exact draws of noise with density proportional to ``exp(-rate ||z||)``, in l1, l2 or l-infinity, that changes no invariant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp.hulls.proposals import Proposal, proposal_for
from bayesdp.invariants import Invariants

__all__ = ["NormSampler", "norm_sampler"]

type Floats = npt.NDArray[np.float64]

LEAST = 1e-5
"""Smallest acceptance rate with which a rejection sampler counts as practical."""

_PILOT = 200_000
"""Proposals by which the acceptance rate is estimated, or fewer if 20 are accepted before."""

_ENTRIES = 2_000_000
"""Numbers in one batch of proposals, and in the matrix of a pivot sampler."""


@dataclass(frozen=True, eq=False)
class NormSampler(ABC):
    """A rejection sampler for one norm and some invariants."""

    invariants: Invariants

    name = ""
    method = ""
    """How it draws, in a sentence."""

    @abstractmethod
    def accepted(self, rng: np.random.Generator, proposals: int) -> Floats:
        """Make that many proposals and return those accepted: tables of rate 1, shape (accepted, cells)."""

    @cached_property
    def acceptance(self) -> float:
        """Estimated acceptance rate; from a fixed seed, so that it is the same in every process."""
        rng, accepted, proposed = np.random.default_rng(0), 0, 0
        while accepted < 20 and proposed < _PILOT:
            accepted += len(self.accepted(rng, self._batch))
            proposed += self._batch
        return accepted / proposed

    @property
    def _batch(self) -> int:
        return max(1, min(10_000, _ENTRIES // self.invariants.frame.size))

    def draw(self, rate: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw tables, shape ``(size, *table)``."""
        tables = np.empty((size, self.invariants.frame.size))
        found = 0
        while found < size:
            needed = int((size - found) / max(self.acceptance, LEAST)) + 1
            new = self.accepted(rng, min(self._batch, needed))[: size - found]
            tables[found : found + len(new)] = new
            found += len(new)
        # Projected, because rounding has left the tables slightly off the subspace.
        return self.invariants.project(tables.reshape(size, *self.invariants.frame.shape) / rate)


class _Radial(NormSampler):
    name = "radial"
    method = "a gamma radius times a uniform direction (Algorithm 5 of Cho and Awan, within the space)"
    acceptance = 1.0

    def accepted(self, rng: np.random.Generator, proposals: int) -> Floats:
        n = self.invariants.dimension
        points = rng.normal(size=(proposals, n))
        points *= (rng.gamma(float(n), 1.0, proposals) / np.linalg.norm(points, axis=1))[:, None]
        return self.invariants.from_coordinates(points).reshape(proposals, -1)


@dataclass(frozen=True, eq=False)
class _Proposed(NormSampler):
    """The l1 noise from which the lattice samplers propose, for totals and tables with both margins."""

    proposal: Proposal

    name = "l1"

    @property
    def method(self) -> str:  # type: ignore[override]  # computed here
        """See `NormSampler.method`."""
        return self.proposal.words

    def accepted(self, rng: np.random.Generator, proposals: int) -> Floats:
        return self.proposal.draw(1.0, rng, proposals, proposals)


class _CubeOfTotals(NormSampler):
    """Disjoint totals: the cube, cut with the subspace, is a product over the totals."""

    name = "cube"
    method = (
        "gamma times a uniform point of the cube (Algorithm 6 of Cho and Awan, within the space): all cells of a total but "
        "one, until the last one is in the cube"
    )
    acceptance = 1.0  # each total is drawn until it is kept

    def accepted(self, rng: np.random.Generator, proposals: int) -> Floats:
        blocks = np.asarray(self.invariants.blocks)
        out = rng.uniform(-1.0, 1.0, (proposals, len(blocks)))
        for block in range(int(blocks.max(initial=-1)) + 1):
            cells = np.flatnonzero(blocks == block)
            out[:, cells] = _zero_sums(rng, proposals, len(cells))
        return out * rng.gamma(self.invariants.dimension + 1.0, 1.0, proposals)[:, None]


@dataclass(frozen=True, eq=False)
class _CubeOfTable(NormSampler):
    """Both margins of a table: all rows but one sum to zero, and the last one, minus their sum, must be in the cube."""

    table: tuple[int, int]

    name = "cube"
    method = (
        "gamma times a uniform point of the cube (Algorithm 6 of Cho and Awan, within the space): rows but one, until the "
        "last one is in the cube"
    )

    def accepted(self, rng: np.random.Generator, proposals: int) -> Floats:
        short, long = sorted(self.table)
        rows = _zero_sums(rng, proposals * (long - 1), short).reshape(proposals, long - 1, short)
        last = -rows.sum(axis=1, keepdims=True)
        kept = np.all(np.abs(last) <= 1.0, axis=(1, 2))
        tables = np.concatenate([rows[kept], last[kept]], axis=1)
        tables *= rng.gamma(self.invariants.dimension + 1.0, 1.0, len(tables))[:, None, None]
        return (tables if self.table == (long, short) else tables.swapaxes(1, 2)).reshape(
            -1, self.invariants.frame.size
        )


@dataclass(frozen=True, eq=False)
class _Pivots(NormSampler):
    """Any invariants of n free dimensions: n cells are drawn freely and determine the others, by which they are rejected."""

    norm: str

    name = "pivots"

    @property
    def method(self) -> str:  # type: ignore[override]  # depends on the norm
        """See `NormSampler.method`."""
        if self.norm == "l1":
            return "independent Laplace noise in as many cells as are free, and rejection on those that they determine"
        return (
            "gamma times a uniform point of the cube (Algorithm 6 of Cho and Awan, within the space): as many cells as are "
            "free, until those that they determine are in the cube"
        )

    @cached_property
    def _map(self) -> tuple[Floats, Floats]:
        """A matrix that gives all cells from the free ones, shape (n, cells), and 1.0 for each free cell, else 0.0."""
        n = self.invariants.dimension
        basis = self.invariants.from_coordinates(np.eye(n)).reshape(n, -1)
        order = scipy.linalg.qr(basis, mode="r", pivoting=True)[1]
        chosen = np.sort(order[:n])
        free = np.zeros(basis.shape[1])
        free[chosen] = 1.0
        return np.linalg.solve(basis[:, chosen], basis), free

    def accepted(self, rng: np.random.Generator, proposals: int) -> Floats:
        spread, free = self._map
        n = self.invariants.dimension
        if self.norm == "l1":
            tables = rng.laplace(size=(proposals, n)) @ spread
            dependent = np.sum(np.abs(tables) * (1.0 - free), axis=1)
            return tables[rng.standard_exponential(proposals) >= dependent]
        tables = rng.uniform(-1.0, 1.0, (proposals, n)) @ spread
        tables = tables[np.all(np.abs(tables) <= 1.0 + free * 1e-9, axis=1)]  # free cells are in, up to rounding
        return tables * rng.gamma(n + 1.0, 1.0, len(tables))[:, None]


def _zero_sums(rng: np.random.Generator, count: int, m: int) -> Floats:
    """Uniform points of ``{z : |z_i| <= 1, sum z = 0}``, shape (count, m)."""
    out = np.empty((count, m))
    missing = np.arange(count)
    while len(missing):
        rest = rng.uniform(-1.0, 1.0, (len(missing), m - 1))
        last = -rest.sum(axis=1)
        good = np.abs(last) <= 1.0
        out[missing[good]] = np.column_stack([rest[good], last[good]])
        missing = missing[~good]
    return out


@lru_cache(maxsize=32)
def norm_sampler(invariants: Invariants, norm: str) -> NormSampler:
    """The exact sampler for a norm, ``"l1"``, ``"l2"`` or ``"linf"``; NotImplementedError if none is practical."""
    if not invariants.dimension:
        raise ValueError(f"nothing is left free for noise: {invariants!r}")
    if norm == "l2":
        return _Radial(invariants)
    proposal = proposal_for(invariants)
    sampler: NormSampler
    if proposal is not None:
        if norm == "l1":
            sampler = _Proposed(invariants, proposal)
        elif proposal.blocks is not None:
            sampler = _CubeOfTotals(invariants)
        else:
            assert proposal.table is not None  # one of the two kinds
            sampler = _CubeOfTable(invariants, proposal.table)
    elif invariants.dimension * invariants.frame.size <= _ENTRIES:
        sampler = _Pivots(invariants, norm)
    else:
        raise NotImplementedError(
            f"no exact sampler of {norm} noise is known for {invariants!r}: there is one for totals and for both margins of a "
            "table, and a general one for smaller tables. The l2 norm has one for any invariants"
        )
    if sampler.acceptance < LEAST:
        raise NotImplementedError(
            f"no exact sampler of {norm} noise is practical for {invariants!r}: {sampler.method}; fewer than one in "
            f"{round(1 / LEAST):,} tries is kept. The l2 norm has one for any invariants"
        )
    return sampler
