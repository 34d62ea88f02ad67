"""What is published about statistics of a data set: values within bounds, their law, the guarantee; how mechanisms are described."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self, cast

import numpy as np
import xarray as xr

from bayesdp._validate import finite_array, instance, shown
from bayesdp._wiring import named, names
from bayesdp.frames import Frame
from bayesdp.noise import BoundedLaw
from bayesdp.noise.bounded.base import plain_bounds
from bayesdp.privacy import Guarantee, StatisticGuarantee
from bayesdp.queries import Identity
from bayesdp.release import Measured, Release

SINGLE = "single"
"""Label of a statistic that has no name, because it is the only one."""


_REGISTRY: dict[str, type[DescribedMechanism]] = {}


class DescribedMechanism(ABC):
    """A dataclass whose fields are its parameters, and which files know by its ``name``."""

    name: ClassVar[str]
    leaves_out: ClassVar[bool] = False
    """Whether it may publish fewer statistics than it has names for."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data: ``{"mechanism": name, "epsilon": ..., ...}``."""
        description: dict[str, Any] = {"mechanism": self.name}
        for item in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, item.name)
            if item.name == "bounds":
                value = plain_bounds(value)
            if value is not None:
                description[item.name] = list(value) if isinstance(value, tuple) else value
        return description

    @classmethod
    def _described(cls, description: Any) -> type[Self]:
        """The class of a description, whose name alone is looked at; ValueError if it is none of this kind."""
        name = description.get("mechanism") if isinstance(description, Mapping) else None
        found: type[Self] | None = named("mechanism", name, _REGISTRY)
        if found is None or not issubclass(found, cls):
            every = names("mechanism", _REGISTRY)
            known = ", ".join(name for name in every if issubclass(named("mechanism", name, _REGISTRY), cls))
            raise ValueError(
                f"a mechanism for statistics is described by a mapping with 'mechanism', one of {known}, got {description!r}"
            )
        return found

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Rebuild a mechanism from `describe`; ValueError for a name, a key or a value that is not known, or a key that is missing."""
        found = cls._described(description)
        given = {key: value for key, value in description.items() if key != "mechanism"}
        defaults = {item.name: item.default for item in fields(found)}  # type: ignore[arg-type]
        if odd := [key for key in given if key not in defaults]:
            raise ValueError(f"mechanism {found.name!r} has no parameter {shown(odd)}; it has {', '.join(defaults)}")
        if missing := [key for key, default in defaults.items() if default is MISSING and key not in given]:
            raise ValueError(f"mechanism {found.name!r} lacks {shown(missing)}")
        return found(**given)

    @classmethod
    def _that_published(cls, description: Mapping[str, Any], measured: Measured, stated: Guarantee | None) -> Any:
        """The mechanism of a release, with the names, query, law and guarantee that the release must have.

        `measured` and `stated` are what the release says, for mechanisms whose law depends on that.
        """
        return cls.from_description(description)

    # Parameters may be arrays, which dataclasses cannot compare or hash; the description can do both.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescribedMechanism) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(self.describe()))


@dataclass(frozen=True, eq=False, init=False, repr=False)
class StatisticRelease(Release):
    """A `Release` of noisy statistics: one number, or a vector of named ones, with the law that they follow.

    It is made from the numbers and their law. `bayesdp.observe` takes it together with the statistic, written as a function of
    the parameters of your model. There is no confidential value, no seed and no state of a generator in it.

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
    ValueError
        If the mechanism is unknown, or what it or the guarantee says contradicts the law. The message names both sides.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> from bayesdp.noise import TruncatedLaplace
    >>> release = StatisticRelease(0.37, TruncatedLaplace(0.04, (0.0, 1.0)))
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     successes = pm.BetaBinomial("successes", 1.0, 1.0, 50)
    ...     bdp.observe(release, successes / 50)
    >>> [variable.name for variable in model.observed_RVs]
    ['noisy']
    """

    def __init__(
        self,
        values: Any = None,
        law: Any = None,
        names: Sequence[str] | None = None,
        mechanism: Mapping[str, Any] | None = None,
        guarantee: StatisticGuarantee | None = None,
        simulated: bool = False,
        **fields: Any,
    ) -> None:
        # `dataclasses.replace` gives the fields of a Release in place of values, law and names.
        if set(fields) == {"frame", "measurements", "exact", "about"}:
            super().__init__(mechanism=mechanism, guarantee=guarantee, simulated=simulated, **fields)
        elif fields:
            raise TypeError(
                f"StatisticRelease takes values, law, names, mechanism, guarantee and simulated, not {shown(fields)}"
            )
        else:
            frame, measured = _one_vector(values, law, names)
            super().__init__(frame, (measured,), (), mechanism, guarantee, simulated, "statistics")
        self.check_stated()

    @property
    def law(self) -> BoundedLaw:
        """The law of the values around the confidential statistics."""
        return cast("BoundedLaw", self.measurements[0].law)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the statistics of a vector; None for a single one."""
        return names_of(self)

    @property
    def values(self) -> xr.DataArray:
        """The noisy values: a number, or a vector with the names of the statistics."""
        return super().values if self.names is not None else super().values[0].drop_vars("statistic")

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str], *, max_cells: int | None = None) -> StatisticRelease:
        """Read a release from a netCDF-4 file written by `to_netcdf`; see `bayesdp.Release.from_netcdf`."""
        release = Release.from_netcdf(path, max_cells=max_cells)
        parts = release.measurements
        alone = len(parts) == 1 and parts[0].query.is_identity and isinstance(parts[0].law, BoundedLaw)
        if release.about != "statistics" or not alone:
            raise ValueError(f"{str(path)!r} holds no release of statistics; for tables there is Release.from_netcdf")
        return cls(**release.__getstate__())


def _one_vector(values: Any, law: Any, names: Any) -> tuple[Frame, Measured]:
    """Labels and measurement of a number, or of a vector."""
    instance(law, BoundedLaw, "law must be a law within bounds such as TruncatedLaplace", quoted=True)
    array = np.asarray(finite_array(values, "values"), dtype=np.float64)
    if array.ndim > 1:
        raise ValueError(f"values must be one number or a vector of them, got an array of shape {array.shape}")
    labels = checked_names(names, array.shape)
    frame = frame_of(labels)
    return frame, Measured(Identity(frame), array.reshape(frame.shape), law)


def frame_of(names: Sequence[str] | None) -> Frame:
    """Labels of statistics; None for a single one without a name."""
    return Frame.of({"statistic": [SINGLE] if names is None else list(names)})


def names_of(release: Release) -> tuple[str, ...] | None:
    """Names of the statistics of a release; None for a single one without a name."""
    names = tuple(map(str, release.frame.labels[0]))
    return None if names == (SINGLE,) else names


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
    if SINGLE in listed:
        raise ValueError(
            f"{SINGLE!r} stands for a single statistic without a name; take another name for one of a vector"
        )
    if len(listed) != shape[0] or len(set(listed)) < len(listed):
        raise ValueError(f"names must be {shape[0]} different strings, one for each statistic, got {shown(listed)}")
    return listed
