"""What every noise law offers, the registry of their names, and reading them from files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants

__all__ = ["Floats", "Ints", "NoiseLaw", "law_names", "made_law", "registered_law"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_REGISTRY: dict[str, type[NoiseLaw]] = {}


class NoiseLaw(ABC):
    """A probability law of noise, with a log-mass or log-density and a sampler.

    The log-mass is exact, or right up to a constant that depends on no value: laws on a lattice or a subspace whose sum or
    volume is not computed say so (`log_normaliser`). Where a log-density has no practical form at all, `logp` raises
    `NotImplementedError` (`ProjectedLaplace`). Samplers are exact but where `sampler` says otherwise.

    A law is a frozen dataclass whose fields are its parameters. Defining a subclass with a `name` registers
    it: release files and the command line then know it by that name.

    Attributes
    ----------
    name : str
        Name in files and on the command line.
    family : {"independent", "bounded", "lattice", "subspace", "polytope", "semi"}
        Which laws share its code: a folder here and in `bayesdp.distributions`.
    support : {"integers", "reals", "bounded", "lattice", "subspace"}
        Where the noise lives: independent integers or real numbers, independent values within bounds, the integer points
        of the null space of the invariants, or that null space itself. The last two need the invariants.
    integer : bool
        Whether noisy values are integers.
    isotropic : bool
        Whether all coordinates of the space it lives on are treated alike, so that cells which the invariants treat alike
        have noise of one law.
    other_parameters : tuple of str
        Parameters that its constructor takes in place of its fields.
    kernel_parameters : tuple of str
        What `log_kernel` of laws of independent values takes after the value and its location.
    sampler : callable, optional
        For laws of independent values, compiled by numba: ``sampler(rng, mu, *parameters)`` draws one.
    relation : str
        What the law takes and how that is related to what else a methods note may state, for messages; may be empty.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    support: ClassVar[Literal["integers", "reals", "bounded", "lattice", "subspace"]]
    integer: ClassVar[bool]
    isotropic: ClassVar[bool] = True
    other_parameters: ClassVar[tuple[str, ...]] = ()
    relation: ClassVar[str] = ""
    kernel_parameters: ClassVar[tuple[str, ...]] = ()
    sampler: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls

    @property
    def independent(self) -> bool:
        """Whether the answers have noise of their own each, so that it needs no invariants."""
        return self.support in ("integers", "reals", "bounded")

    @abstractmethod
    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Joint log-mass (log-density for a subspace) of noisy values around a location.

        Parameters
        ----------
        values : array_like, shape (*query)
            Noisy values.
        location : array_like, shape (*query)
            What the noise was added to.
        invariants : Invariants, optional
            Needed by laws on a lattice or a subspace, not used by the others.

        Returns
        -------
        float
            ``-inf`` off the support.
        """

    @abstractmethod
    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats | Ints:
        """Draw noise, or noisy values around a location.

        Parameters
        ----------
        rng : int, numpy.random.Generator or None
            None takes fresh entropy from the operating system.
        shape : tuple of int
            Shape of one answer of the query.
        size : int, optional
            Number of draws; without it one draw, with no axis for it.
        invariants : Invariants, optional
            Needed by laws on a lattice or a subspace, not used by the others.
        location : array_like, optional
            What to add the noise to; zero by default.

        Returns
        -------
        numpy.ndarray, shape (size, *shape)
            int64 for integer laws, float64 for the others.
        """

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of the noise in each cell, shape `shape`, or None where no closed form is known."""
        return None

    def describe(self) -> dict[str, Any]:
        """Describe the law by plain strings, numbers and lists: ``{"law": name, ...parameters}``."""
        description: dict[str, Any] = {"law": self.name}
        for name, value in self._parameters().items():
            description[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return description

    @staticmethod
    def from_description(description: Mapping[str, Any]) -> NoiseLaw:
        """Rebuild a law from `describe`.

        Parameters
        ----------
        description : mapping
            ``law``, a registered name, and exactly the parameters of that law.

        Returns
        -------
        NoiseLaw

        Raises
        ------
        TypeError, ValueError
            If the name is not registered, a key is unknown or missing, or a value is not valid.

        Examples
        --------
        >>> from bayesdp.noise import DiscreteGaussian
        >>> NoiseLaw.from_description({"law": "discrete-gaussian", "sigma": 5.0})
        DiscreteGaussian(sigma=5.0)
        """
        if not isinstance(description, Mapping):
            raise TypeError(f"the description of a noise law must be a mapping, got {description!r}")
        if "law" not in description:
            raise ValueError(f"the description of a noise law lacks 'law'; known laws are {law_names()}")
        name = description["law"]
        return made_law(name, {key: value for key, value in description.items() if key != "law"})

    def _parameters(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]

    # Laws may hold arrays, which dataclasses cannot compare or hash; the description can do both.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoiseLaw) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(self.describe()))

    def __str__(self) -> str:
        shown = []
        for name, value in self._parameters().items():
            if isinstance(value, np.ndarray) and value.ndim == 2 and self.support == "subspace":
                shown.append(f"{name}=<{value.shape[0]} × {value.shape[1]} matrix>")
            elif isinstance(value, np.ndarray):
                shown.append(f"{name}=<one per cell, from {value.min():.6g} to {value.max():.6g}>")
            else:
                shown.append(f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}")
        return " ".join([self.name, *shown])


def law_names() -> str:
    """List the registered names for a message."""
    return ", ".join(sorted(_REGISTRY))


def registered_law(name: Any) -> type[NoiseLaw]:
    """The law of a registered name; ValueError for other names."""
    if not isinstance(name, str) or name not in _REGISTRY:
        raise ValueError(f"unknown noise law {name!r}; known laws are {law_names()}")
    return _REGISTRY[name]


def made_law(name: Any, parameters: Mapping[str, Any], others: tuple[str, ...] = ()) -> NoiseLaw:
    """Make a law of a registered name.

    Parameters
    ----------
    name : str
    parameters : mapping
    others : tuple of str
        Parameters to accept beside the fields of the law, in place of some of these.

    Raises
    ------
    TypeError, ValueError
        If the name is not registered, a parameter is unknown or missing, or a value is not valid.
    """
    law = registered_law(name)
    own = fields(law)  # type: ignore[arg-type]  # subclasses are dataclasses
    known = [item.name for item in own]
    unknown = [key for key in parameters if key not in known and key not in others]
    if unknown:
        told = f"it takes {law.relation}" if law.relation else f"it has {', '.join(known)}"
        raise ValueError(f"noise law {name!r} has no parameter {_validate.shown(unknown)}; {told}")
    needed = [item.name for item in own if item.default is MISSING and item.default_factory is MISSING]
    missing = [key for key in needed if key not in parameters]
    if missing and not any(key in parameters for key in others):
        raise ValueError(f"noise law {name!r} lacks parameter {_validate.shown(missing)}")
    try:
        return law(**parameters)
    except (TypeError, ValueError) as error:
        raise type(error)(f"noise law {name!r}: {error}") from None
