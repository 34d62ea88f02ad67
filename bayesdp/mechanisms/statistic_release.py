"""What is published about statistics of a data set: values within bounds, their law, the guarantee."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import boolean, finite_array, shown
from bayesdp.noise import BoundedLaw, NoiseLaw
from bayesdp.privacy import Guarantee, PairLoss
from bayesdp.privacy.relations import Neighbours
from bayesdp.storage import strict_json
from bayesdp.storage.hdf5 import damaged
from bayesdp.storage.netcdf import load_dataset, write_dataset

__all__ = ["StatisticGuarantee", "StatisticRelease", "checked_names"]

_VERSION = 1
_KEYS = {"version", "law", "mechanism", "guarantee", "simulated"}


@dataclass(frozen=True)
class StatisticGuarantee(Guarantee):
    """A `Guarantee` about neighbouring data sets; its first pair says what neighbours are."""

    def _protected(self) -> list[tuple[str, list[str]]]:
        size = self.parameters.size
        shown = self.shown_loss(self.parameters.loss)
        return [
            *((sentence, []) for sentence in (_one_person(self.pairs, shown),) if sentence),
            ("Neighbouring data sets are protected against being told apart.", []),
            (f"Loss for neighbours, whose statistics are up to {size:.6g} apart in {self.unit} norm: {shown}", []),
            *((("Loss for particular pairs:", self._rows(self.pairs)),) if self.pairs else ()),
        ]


def _one_person(pairs: tuple[PairLoss, ...], shown: str) -> str:
    """What the guarantee means for one person, by the relation of neighbours that the first row names; "" if it is another."""
    about = pairs[0].about if pairs else None
    if not isinstance(about, Neighbours):
        return ""
    if about.change == "add-remove":
        return f"Adding or removing one person's record costs at most {shown}."
    return (
        f"Changing one person's record costs at most {shown}. Nothing is stated about adding or removing one: the number of "
        "records is public."
    )


@dataclass(frozen=True, eq=False)
class StatisticRelease:
    """Noisy statistics, with the law that they follow around the confidential ones.

    There is no confidential value, no seed and no state of a generator in it. For inference write the statistic as a
    function of the parameters of your model, and give it to the PyMC distribution of the law: see the example.

    Parameters
    ----------
    values : array_like, shape () or (statistics,)
        Within the bounds of the law.
    law : BoundedLaw
    names : sequence of str, optional
        Names of the statistics of a vector; None for a single one.
    mechanism : mapping, optional
        Description of the mechanism.
    guarantee : StatisticGuarantee, optional
    simulated : bool
        Whether the noise came from a generator whose seed somebody may know.

    Raises
    ------
    TypeError, ValueError
        If a value is outside its bounds (it is named), or a field is not valid.

    Examples
    --------
    >>> from bayesdp.noise import TruncatedLaplace
    >>> release = StatisticRelease(0.37, TruncatedLaplace(0.04, (0.0, 1.0)))
    >>> import pymc as pm
    >>> from bayesdp import distributions
    >>> with pm.Model():
    ...     successes = pm.BetaBinomial("successes", 1.0, 1.0, 50)
    ...     noisy = distributions.TruncatedLaplace(
    ...         "noisy", mu=successes / 50, b=release.law.b, lower=0.0, upper=1.0, observed=release.values
    ...     )
    """

    values: npt.NDArray[np.float64]
    law: BoundedLaw
    names: tuple[str, ...] | None = None
    mechanism: Mapping[str, Any] | None = None
    guarantee: StatisticGuarantee | None = None
    simulated: bool = False

    def __post_init__(self) -> None:
        law: Any = self.law
        if not isinstance(law, BoundedLaw):
            raise TypeError(f"law must be a law within bounds such as TruncatedLaplace, got {law!r}")
        array = np.array(finite_array(self.values, "values", self._name), dtype=np.float64)
        if array.ndim > 1:
            raise ValueError(f"values must be one number or a vector of them, got an array of shape {array.shape}")
        names = checked_names(self.names, array.shape)
        boolean(self.simulated, "simulated")
        object.__setattr__(self, "names", names)
        outside = np.flatnonzero(law.outside(array))
        if outside.size:
            where = int(outside[0])
            low, high = (np.broadcast_to(side, array.shape).reshape(-1)[where] for side in law.bounds)
            raise ValueError(
                f"values must lie within the bounds of the law, {low:.17g} to {high:.17g}, but {self._name(where)} is "
                f"{array.reshape(-1)[where]!r}"
            )
        array.flags.writeable = False
        object.__setattr__(self, "values", array)

    def _name(self, where: int) -> str:
        return "the statistic" if self.names is None else printable(self.names[where])

    @property
    def labelled(self) -> xr.DataArray:
        """The values with the names of the statistics."""
        if self.names is None:
            return xr.DataArray(self.values, name="noisy")
        return xr.DataArray(self.values, dims="statistic", coords={"statistic": list(self.names)}, name="noisy")

    def to_netcdf(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the release to a netCDF-4 file, atomically.

        Raises
        ------
        FileExistsError
            If the file exists and `overwrite` is False.
        """
        description = {
            "version": _VERSION,
            "law": self.law.describe(),
            "mechanism": None if self.mechanism is None else dict(self.mechanism),
            "guarantee": None if self.guarantee is None else self.guarantee.to_dict(),
            "simulated": self.simulated,
        }
        dataset = self.labelled.to_dataset()
        dataset.attrs["bayesdp_statistics"] = strict_json.dumps(description, "a release of statistics")
        write_dataset(dataset, path, overwrite=overwrite)

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str]) -> StatisticRelease:
        """Read a release from a netCDF-4 file written by `to_netcdf`; nothing in the file is trusted.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is damaged, of a newer version, or no release of statistics.
        """
        dataset = load_dataset(path)
        with damaged(path):
            if "bayesdp_statistics" not in dataset.attrs or "noisy" not in dataset:
                raise ValueError("it holds no release of statistics; for tables there is Release.from_netcdf")
            text = strict_json.expect(dataset.attrs["bayesdp_statistics"], str, "bayesdp_statistics")
            known = strict_json.expect(strict_json.loads(text, "bayesdp_statistics"), dict, "its description", _KEYS)
            if strict_json.expect(known["version"], int, "version") != _VERSION:
                raise ValueError(f"it is of version {known['version']}, and this bayesdp reads version {_VERSION}")
            law: Any = NoiseLaw.from_description(known["law"])
            noisy = dataset["noisy"]
            names = tuple(str(name) for name in noisy["statistic"].values) if noisy.ndim else None
            guarantee: Any = None if known["guarantee"] is None else StatisticGuarantee.from_dict(known["guarantee"])
            if known["mechanism"] is not None:
                strict_json.expect(known["mechanism"], dict, "mechanism")
            return cls(noisy.values, law, names, known["mechanism"], guarantee, known["simulated"])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StatisticRelease)
            and np.array_equal(self.values, other.values)
            and (self.law, self.names, self.mechanism, self.guarantee, self.simulated)
            == (other.law, other.names, other.mechanism, other.guarantee, other.simulated)
        )

    def __hash__(self) -> int:
        return hash((self.values.tobytes(), self.law, self.names))

    def __repr__(self) -> str:
        what = "1 statistic" if self.names is None else f"{len(self.names)} statistics ({shown(self.names, 3)})"
        return f"<StatisticRelease: {what}, law {self.law}{', SIMULATED' if self.simulated else ''}>"


def checked_names(names: Any, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    """Names of the entries of a vector, made up where there are none; None for a single number."""
    if not shape:
        if names is not None:
            raise ValueError(f"names are for vectors of statistics, but this is a single one: {names!r}")
        return None
    if names is None:
        return tuple(f"statistic {i + 1}" for i in range(shape[0]))
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise TypeError(f"names must be a list of non-empty strings, got {names!r}")
    listed = tuple(names)
    if len(listed) != shape[0] or len(set(listed)) < len(listed):
        raise ValueError(f"names must be {shape[0]} different strings, one for each statistic, got {shown(listed)}")
    return listed
