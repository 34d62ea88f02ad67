"""Chains along basis vectors as matrices, by plain NumPy on an enumerated piece of the lattice: no code of the package."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tests.lattices.oracles import law_on

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


class Plane:
    """Three cells with a fixed sum, coordinates c in a square, basis (1, -1, 0), (0, 1, -1)."""

    def __init__(self, law: str, scale: float, reach: int) -> None:
        side = np.arange(-reach, reach + 1)
        self.side = len(side)
        self.coordinates = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
        self.basis = sp.csr_array(np.array([[1, -1, 0], [0, 1, -1]]))
        self.points: Ints = self.coordinates @ self.basis.toarray()
        self.stationary: Floats = law_on(self.points, law, scale)
        self.zero = int(np.flatnonzero(~self.points.any(axis=1))[0])

    def sweep(self, a: float | None = None) -> Floats:
        """Transition matrix of one sweep: Gibbs, or Metropolis with jump parameter a."""
        return self._step(0, a) @ self._step(1, a)

    def _step(self, j: int, a: float | None) -> Floats:
        size = len(self.points)
        line = self.coordinates[:, 1 - j]
        same = line[:, None] == line[None, :]
        if a is None:
            weights = np.where(same, self.stationary[None, :], 0.0)
            return np.asarray(weights / weights.sum(axis=1, keepdims=True))
        jump = np.abs(self.coordinates[:, None, j] - self.coordinates[None, :, j])
        accept = np.minimum(1.0, self.stationary[None, :] / self.stationary[:, None])
        moved = np.where(same & (jump > 0), (1 - a) / (1 + a) * a**jump * accept, 0.0)
        return np.asarray(moved + np.eye(size) * (1.0 - moved.sum(axis=1, keepdims=True)))

    def distances(self, sweep: Floats, times: int) -> Floats:
        """Total variation distance from the stationary law after 0, 1, ... sweeps from zero."""
        law = np.zeros(len(self.points))
        law[self.zero] = 1.0
        found = []
        for _ in range(times):
            found.append(0.5 * np.abs(law - self.stationary).sum())
            law = law @ sweep
        return np.array(found)
