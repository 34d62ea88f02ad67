"""What releases of a covariance matrix have in common: records, variables, reading from files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bayesdp.mechanisms.bounded.covariance_elements import variables_of
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class MatrixRelease(Release):
    """A `Release` of the elements of the upper triangle of a noisy covariance matrix, labelled ``a:a``, ``a:b`` and so on.

    Attributes
    ----------
    of_mechanism : str
        Name of the mechanism in descriptions and files.
    """

    of_mechanism: ClassVar[str]

    def _check_mechanism(self) -> None:
        """Check that this is what the mechanism publishes, and that what is stated is true of the noise; ValueError otherwise."""
        known = (self.mechanism or {}).get("mechanism")
        if known != self.of_mechanism or self.about != "statistics":
            kind = type(self).__name__
            raise ValueError(
                f"a {kind} needs a mechanism {self.of_mechanism!r}, got {known!r}: it says of how many records the matrix is; "
                "for others there is Release"
            )
        self.check_stated()

    @property
    def n(self) -> int:
        """Number of records."""
        return int((self.mechanism or {})["n"])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables."""
        return variables_of(self.frame) or ()

    @property
    def _law(self) -> Any:
        return self.measurements[0].law

    @cached_property
    def matrix(self) -> Floats:
        """The released matrix, shape (variables, variables)."""
        raise NotImplementedError("each kind of release says which of its elements are known without noise")

    @classmethod
    def of(cls, release: Release) -> Self:
        """A release of a covariance matrix, as files give it, with what this class offers.

        Raises
        ------
        ValueError
            If it is about something else.
        """
        return cls(**release.__getstate__())

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str], *, max_cells: int | None = None) -> Self:
        """Read a release from a netCDF-4 file written by `to_netcdf`; see `bayesdp.Release.from_netcdf`."""
        return cls.of(Release.from_netcdf(path, max_cells=max_cells))

    @classmethod
    def from_csv(
        cls,
        folder: str | os.PathLike[str],
        *,
        noise: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        max_cells: int | None = None,
    ) -> Self:
        """Read a release from a folder or a CSV file written by `to_csv`; see `bayesdp.Release.from_csv`."""
        return cls.of(Release.from_csv(folder, noise=noise, max_cells=max_cells))

    @property
    def is_positive_definite(self) -> bool:
        """Whether all eigenvalues are positive, to rounding."""
        values = np.linalg.eigvalsh(self.matrix)
        return bool(values[0] > 1e-14 * max(values[-1], 0.0) and values[-1] > 0.0)


def read_only(array: Floats) -> Floats:
    """The same array, which nobody can write to from here on."""
    array.flags.writeable = False
    return array
