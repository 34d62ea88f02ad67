"""Noisy answers of a query, in the forms that the kernel knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import choice
from bayesdp.fibers.windows import LogMassWindows
from bayesdp.queries import Query

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoiseTerm:
    """Noisy answers of a query and the shape of their law.

    Parameters
    ----------
    query : Query
    values : float64 array, shape (rows,)
        Noisy answers.
    kind : {"l1", "l2", "gaussian", "windows"}
        ``-rate |r|`` a row, ``-rate ||r||_2`` over all rows, ``-r^2 / (2 scale^2)`` a row, or tabulated functions of the rows.
    scale : float64 array, shape () or (rows,)
        Rate for ``l1`` and ``l2`` (one number), standard deviation parameter for ``gaussian``; for ``windows`` how widely a row
        varies by its own answer, which decides about directions only.
    measured : bool array, shape (rows,)
        Which answers were published.
    coordinates : float64 array, shape (rows, cells), optional
        Real combinations of the cells that take the place of the query: laws that are products in coordinates of their
        own. A move then costs as much as all their rows.
    windows : LogMassWindows, optional
        Of the published rows, in their order, for ``windows``.
    laws : int64 array, shape (rows,), optional
        By which law a row shares its perturbation with rows about the same records, of any term; 0: it does not. For ``windows``.
    changing : bool
        Whether the log-masses of the windows are parameters, which `Target.set_noise` takes in the place of a scale.
    by_law : callable, optional
        For ``windows``, the log-likelihood of the true answers of these rows by the law itself.
    """

    query: Query
    values: Floats
    kind: str
    scale: Floats
    measured: npt.NDArray[np.bool_]
    coordinates: Floats | None = None
    windows: LogMassWindows | None = None
    laws: npt.NDArray[np.int64] | None = None
    changing: bool = False
    by_law: Callable[[npt.NDArray[np.int64]], float] | None = None

    def __post_init__(self) -> None:
        choice(self.kind, ("l1", "l2", "gaussian", "windows"), "kind")

    @property
    def on_cells(self) -> bool:
        """Whether the noise is on the cells themselves."""
        return self.coordinates is None and self.query.is_identity

    @property
    def matrix(self) -> sp.csr_array:
        """What is measured, as a matrix of rows by cells."""
        return self.query.matrix if self.coordinates is None else sp.csr_array(self.coordinates)

    @property
    def rows(self) -> int:
        """Number of noisy answers."""
        return self.query.rows if self.coordinates is None else len(self.coordinates)
