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
"""Share of tries that must be kept, for a sampler to count as practical."""

_PILOT = 200_000
"""Tries of the pilot, or as many as it takes to keep 20."""

_ENTRIES = 2_000_000
"""Numbers in one batch of tries, and in the matrix of a pivot sampler."""


@dataclass(frozen=True, eq=False)
class NormSampler(ABC):
    """A sampler for one norm and some invariants.

    Parameters
    ----------
    invariants : Invariants
    """

    invariants: Invariants

    name = ""
    words = ""

    @abstractmethod
    def tried(self, rng: np.random.Generator, tries: int) -> Floats:
        """What is kept of so many tries: flat tables at rate 1 (``size`` of them where nothing is rejected)."""

    @cached_property
    def acceptance(self) -> float:
        """Estimated share of tries that is kept; from a fixed seed, so that the answer is always the same."""
        rng, kept, tried = np.random.default_rng(0), 0, 0
        while kept < 20 and tried < _PILOT:
            kept += len(self.tried(rng, self._batch))
            tried += self._batch
        return kept / tried

    @property
    def _batch(self) -> int:
        return max(1, min(10_000, _ENTRIES // self.invariants.frame.size))

    def draw(self, rate: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw tables, shape (size, *table)."""
        kept = np.empty((size, self.invariants.frame.size))
        found = 0
        while found < size:
            wanted = int((size - found) / max(self.acceptance, LEAST)) + 1
            own = self.tried(rng, min(self._batch, wanted))[: size - found]
            kept[found : found + len(own)] = own
            found += len(own)
        # On the space exactly, whatever roundings the rejection steps have left.
        return self.invariants.project(kept.reshape(size, *self.invariants.frame.shape) / rate)


class _Radial(NormSampler):
    name = "radial"
    words = "a gamma radius times a uniform direction (Algorithm 5 of Cho and Awan, within the space)"
    acceptance = 1.0

    def tried(self, rng: np.random.Generator, tries: int) -> Floats:
        n = self.invariants.dimension
        points = rng.normal(size=(tries, n))
        points *= (rng.gamma(float(n), 1.0, tries) / np.linalg.norm(points, axis=1))[:, None]
        return self.invariants.from_coordinates(points).reshape(tries, -1)


@dataclass(frozen=True, eq=False)
class _Proposed(NormSampler):
    """The l1 noise that other noise is made from by rejection."""

    proposal: Proposal

    name = "l1"

    @property
    def words(self) -> str:  # type: ignore[override]  # computed here
        """What is drawn."""
        return self.proposal.words

    def tried(self, rng: np.random.Generator, tries: int) -> Floats:
        return self.proposal.draw(1.0, rng, tries, tries)


class _CubeOfTotals(NormSampler):
    """Disjoint totals: the section of the cube is a product."""

    name = "cube"
    words = (
        "gamma times a uniform point of the cube (Algorithm 6 of Cho and Awan, within the space): all cells of a total but "
        "one, until the last one is in the cube"
    )
    acceptance = 1.0  # each total is drawn until it is kept

    def tried(self, rng: np.random.Generator, tries: int) -> Floats:
        blocks = np.asarray(self.invariants.blocks)
        out = rng.uniform(-1.0, 1.0, (tries, len(blocks)))
        for block in range(int(blocks.max(initial=-1)) + 1):
            cells = np.flatnonzero(blocks == block)
            out[:, cells] = _zero_sums(rng, tries, len(cells))
        return out * rng.gamma(self.invariants.dimension + 1.0, 1.0, tries)[:, None]


@dataclass(frozen=True, eq=False)
class _CubeOfTable(NormSampler):
    """Both margins of a table: rows with sum zero, until the column sums leave a last row that is in the cube."""

    table: tuple[int, int]

    name = "cube"
    words = (
        "gamma times a uniform point of the cube (Algorithm 6 of Cho and Awan, within the space): rows but one, until the "
        "last one is in the cube"
    )

    def tried(self, rng: np.random.Generator, tries: int) -> Floats:
        short, long = sorted(self.table)
        rows = _zero_sums(rng, tries * (long - 1), short).reshape(tries, long - 1, short)
        last = -rows.sum(axis=1, keepdims=True)
        kept = np.all(np.abs(last) <= 1.0, axis=(1, 2))
        tables = np.concatenate([rows[kept], last[kept]], axis=1)
        tables *= rng.gamma(self.invariants.dimension + 1.0, 1.0, len(tables))[:, None, None]
        return (tables if self.table == (long, short) else tables.swapaxes(1, 2)).reshape(
            -1, self.invariants.frame.size
        )


@dataclass(frozen=True, eq=False)
class _Pivots(NormSampler):
    """Any invariants: as many cells as there are dimensions are free, and determine the others."""

    norm: str

    name = "pivots"

    @property
    def words(self) -> str:  # type: ignore[override]  # depends on the norm
        """What is drawn."""
        if self.norm == "l1":
            return "independent Laplace noise in as many cells as are free, and rejection on those that they determine"
        return (
            "gamma times a uniform point of the cube (Algorithm 6 of Cho and Awan, within the space): as many cells as are "
            "free, until those that they determine are in the cube"
        )

    @cached_property
    def _map(self) -> tuple[Floats, Floats]:
        """From free cells to all cells, and whether each cell is free."""
        n = self.invariants.dimension
        basis = self.invariants.from_coordinates(np.eye(n)).reshape(n, -1)
        order = scipy.linalg.qr(basis, mode="r", pivoting=True)[1]
        chosen = np.sort(order[:n])
        free = np.zeros(basis.shape[1])
        free[chosen] = 1.0
        return np.linalg.solve(basis[:, chosen], basis), free

    def tried(self, rng: np.random.Generator, tries: int) -> Floats:
        spread, free = self._map
        n = self.invariants.dimension
        if self.norm == "l1":
            tables = rng.laplace(size=(tries, n)) @ spread
            dependent = np.sum(np.abs(tables) * (1.0 - free), axis=1)
            return tables[rng.standard_exponential(tries) >= dependent]
        tables = rng.uniform(-1.0, 1.0, (tries, n)) @ spread
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
    """The exact sampler for a norm.

    Parameters
    ----------
    invariants : Invariants
    norm : {"l1", "l2", "linf"}

    Raises
    ------
    NotImplementedError
        If none is practical.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> norm_sampler(Invariants(Margins(table, ["county"], ["education"])), "linf").name
    'cube'
    """
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
            f"no exact sampler of {norm} noise is practical for {invariants!r}: {sampler.words}; fewer than one in "
            f"{round(1 / LEAST):,} tries is kept. The l2 norm has one for any invariants"
        )
    return sampler
