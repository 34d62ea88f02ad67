"""What the mechanisms for proportions that add up to 1 share: parameters, noise, releases, likelihoods of counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp._validate import (
    Seed,
    boolean,
    choice,
    exact_total,
    finite_array,
    integer_array,
    positive_integer,
    positive_real,
    shown,
)
from bayesdp._wiring import connected
from bayesdp.mechanisms.bounded.laplace import BoundaryInflatedLaplace, TruncatedLaplace
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease, checked_names
from bayesdp.mechanisms.bounded.statistics import CONVENTIONS, StatisticMechanism
from bayesdp.noise.bounded.rescaled_laplace import RULES
from bayesdp.privacy import StatisticGuarantee
from bayesdp.privacy.caveats import Fixed

__all__ = ["ProportionMechanism", "ProportionRelease"]

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProportionRelease:
    """Noisy proportions that add up to 1, and the noisy values they come from where those are published.

    There is no confidential value, no seed and no state of a generator in it.

    Parameters
    ----------
    shares : array_like, shape (categories,)
        They add up to 1.
    names : sequence of str
        Names of the categories.
    noisy : StatisticRelease, optional
        The noisy values with their law, on which inference conditions; None where only the shares are published.
    mechanism : mapping, optional
        Description of the mechanism.
    guarantee : StatisticGuarantee, optional
    simulated : bool
        Whether the noise came from a generator whose seed somebody may know.

    Raises
    ------
    ValueError
        If shares do not add up to 1 (to 1e-9), or there are not as many names; if they are not those of the noisy values, or the
        mechanism is unknown, or what it or the guarantee says contradicts the law. The message names both sides.
    """

    shares: Floats
    names: tuple[str, ...]
    noisy: StatisticRelease | None = None
    mechanism: Any = None
    guarantee: StatisticGuarantee | None = None
    simulated: bool = False

    def __post_init__(self) -> None:
        array = np.array(finite_array(self.shares, "shares"), dtype=np.float64)
        if array.ndim != 1 or array.size < 2:
            raise ValueError(f"shares must be a vector of two or more, got an array of shape {array.shape}")
        if abs(float(array.sum()) - 1.0) > 1e-9:
            raise ValueError(f"shares must add up to 1, got {float(array.sum())!r}")
        array.flags.writeable = False
        object.__setattr__(self, "shares", array)
        object.__setattr__(self, "names", checked_names(self.names, array.shape))
        boolean(self.simulated, "simulated")
        connected("check proportions")(self)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ProportionRelease)
            and np.array_equal(self.shares, other.shares)
            and (self.names, self.noisy, self.mechanism, self.guarantee, self.simulated)
            == (other.names, other.noisy, other.mechanism, other.guarantee, other.simulated)
        )

    def __hash__(self) -> int:
        return hash((self.shares.tobytes(), self.names))

    def __repr__(self) -> str:
        more = ", SIMULATED" if self.simulated else ""
        return f"<ProportionRelease: {len(self.names)} shares ({shown(self.names, 3)}){more}>"


@dataclass(frozen=True, eq=False)
class ProportionMechanism(ABC):
    """Publish the proportions of n records in disjoint categories; see the subclasses."""

    epsilon: float
    n: int
    names: Any
    rule: str = field(default="boundary-inflated", kw_only=True)
    convention: str = field(default="exact", kw_only=True)

    name: ClassVar[str]

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        put(self, "n", positive_integer(self.n, "n"))
        choice(self.rule, RULES, "rule")
        choice(self.convention, CONVENTIONS, "convention")
        if isinstance(self.names, str) or not hasattr(self.names, "__len__") or len(self.names) < 2:
            raise ValueError(f"names must be those of two categories or more, got {self.names!r}")
        put(self, "names", checked_names(self.names, (len(self.names),)))

    @property
    @abstractmethod
    def noise(self) -> StatisticMechanism:
        """The mechanism that publishes the noisy values, before they are made to add up."""

    @abstractmethod
    def statistics(self, counts: npt.ArrayLike) -> Floats:
        """The values that noise is put on, for counts of shape (..., categories)."""

    @abstractmethod
    def shares(self, noisy: npt.ArrayLike) -> Floats:
        """Shares that add up to 1, from noisy values along the last axis: post-processing."""

    @abstractmethod
    def log_likelihood(self, release: ProportionRelease, counts: npt.ArrayLike) -> Floats:
        """Log-density of what was published given counts.

        Parameters
        ----------
        release : ProportionRelease
        counts : array_like, shape (..., categories)
            Confidential counts of n records.

        Returns
        -------
        numpy.ndarray, shape (...)
        """

    _KEEPS_NOISY: ClassVar[bool] = True
    _STATED: ClassVar[Fixed]

    def _noise(self, **parameters: Any) -> StatisticMechanism:
        kind = TruncatedLaplace if self.rule == "truncated" else BoundaryInflatedLaplace
        return kind(self.epsilon, bounds=(0.0, 1.0), convention=self.convention, **parameters)

    @property
    def true_epsilon(self) -> float:
        """What a release costs: that of the noise, which making the values add up does not change."""
        return self.noise.true_epsilon

    @property
    def guarantee(self) -> StatisticGuarantee:
        """What the mechanism protects, in words and numbers, and with what reservations."""
        return self._extended(self.noise.guarantee)

    def _extended(self, stated: StatisticGuarantee) -> StatisticGuarantee:
        return replace(stated, caveats=(*stated.caveats, self._STATED))

    def release(self, counts: npt.ArrayLike, rng: Seed = None) -> ProportionRelease:
        """Publish shares of confidential counts.

        Parameters
        ----------
        counts : array_like of int, shape (categories,)
            They add up to n.
        rng : int, numpy.random.Generator or None
            Without one, a generator as in `TruncatedLaplace.release`: do that to publish. With one the release is marked as simulated.

        Returns
        -------
        ProportionRelease

        Raises
        ------
        ValueError
            If a count is negative or not whole, or they do not add up to n.
        """
        table = integer_array(counts, "counts", lambda i: str(self.names[i % len(self.names)]), confidential=True)
        if table.shape != (len(self.names),):
            raise ValueError(f"counts must be one for each of {len(self.names)} categories, got shape {table.shape}")
        if np.any(table < 0):
            raise ValueError(f"counts must be at least 0, but that of {self.names[int(table.argmin())]} is not")
        if exact_total(table) != self.n:
            raise ValueError(f"counts must add up to the public n = {self.n}, but they do not")
        noisy = self.noise.release(self.statistics(table), rng)
        if not isinstance(noisy.guarantee, StatisticGuarantee):
            raise RuntimeError("a release of a mechanism of statistics has a guarantee of them")
        return ProportionRelease(
            self.shares(noisy.values),
            self.names,
            noisy if self._KEEPS_NOISY else None,
            self.describe(),
            self._extended(noisy.guarantee),
            noisy.simulated,
        )

    def _counts(self, counts: npt.ArrayLike) -> Floats:
        table = np.asarray(finite_array(counts, "counts", confidential=True), dtype=np.float64)
        if table.ndim < 1 or table.shape[-1] != len(self.names):
            raise ValueError(f"counts must have {len(self.names)} categories last, got shape {table.shape}")
        return table

    def _of_noisy(self, release: ProportionRelease, counts: npt.ArrayLike) -> Floats:
        """Log-density of published noisy values."""
        if release.noisy is None:
            raise NotImplementedError(
                f"the law of the shares of {self.name!r} alone is not known here: they are published with the noisy values "
                "they come from, and this release has none"
            )
        location = self.statistics(counts)
        values = np.broadcast_to(release.noisy.values, location.shape)
        return np.asarray(self.noise.law.log_each(values, location).sum(axis=-1))

    def _checked(self, release: Any) -> ProportionRelease:
        if not isinstance(release, ProportionRelease):
            raise TypeError(f"release must be a ProportionRelease, got {release!r}")
        if release.names != self.names or (release.mechanism is not None and release.mechanism != self.describe()):
            raise ValueError(
                f"release must come from this mechanism, {self.describe()!r}, got one of {release.mechanism!r}"
            )
        return release

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data: ``{"mechanism": name, "epsilon": ..., ...}``."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {"mechanism": self.name} | {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProportionMechanism) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(self.describe()))
