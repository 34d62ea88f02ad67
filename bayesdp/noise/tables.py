"""What the laws share that respect invariants: noise is a table, and so are its location and the noisy values."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints
from bayesdp._docs import with_sections
from bayesdp._validate import positive_number, positive_rate
from bayesdp.invariants import Invariants
from bayesdp.noise.base import NoiseLaw

_FACTS = "Support   {support} that change no invariant\nMean      0\nVariance  {variance}"

_SEE_ALSO = """bayesdp.distributions.{name} : the same law as a PyMC distribution.
bayesdp.mechanisms.{name} : the mechanism that adds this noise; it takes privacy parameters."""

_RAISES = """TypeError, ValueError
    If the scale is no positive finite number (below 2**46 where it is no epsilon), or another parameter none that the law takes."""


class TableLaw(NoiseLaw):
    """Noise that is a whole table, and changes no invariant.

    A law states its kernel, once for NumPy and PyTensor, and how noise is drawn; its family says where the noise lives. Its docstring
    gets a table of facts, and *See Also* unless it has that.

    Attributes
    ----------
    scale_name : str
        What PyMC may leave unknown: a field of the law, or else the name of a factor of the noise (see `at`).
    """

    scale_name: ClassVar[str]
    _variance_words: ClassVar[str] = ""  # for the table of facts

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_variance_words" in cls.__dict__:
            support = "integer tables" if cls.integer else "tables of real numbers"
            facts = _FACTS.format(support=support, variance=cls._variance_words)
            rule = f"========  {'=' * max(len(line) - 10 for line in facts.splitlines())}"
            shared = {
                "": f"{rule}\n{facts}\n{rule}",
                "Raises": _RAISES,
                "See Also": _SEE_ALSO.format(name=cls.__name__),
            }
            cls.__doc__ = with_sections(cls.__doc__, shared)

    def __post_init__(self) -> None:
        if self.scale_name in (item.name for item in fields(self)):  # type: ignore[arg-type]  # laws are dataclasses
            check = positive_rate if self.scale_name == "epsilon" else positive_number
            self._set(**{self.scale_name: check(self.scale, self.scale_name)})

    @abstractmethod
    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Logarithm of the mass or density at noise of one scale.

        Parameters
        ----------
        xp : module
            ``numpy`` or ``pytensor.tensor``: the formula is for both.
        measured : array or tensor variable
            What `measured` gives: of most laws the noise itself, shape ``(..., *table)``.
        scale : float or tensor variable, shape (...)
        invariants : Invariants

        Returns
        -------
        float, array or tensor variable, shape (...)
            Of a law on a lattice without its normaliser; of others the density, but for a constant that is not known.
        """

    @abstractmethod
    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats | Ints:
        """Draw noise around zero, shape ``(count, *table)``."""

    @abstractmethod
    def noise_between(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants) -> Floats | None:
        """Values minus location as float64, shape ``(*table)``, or None if the law has no such noise."""

    def measured(self, noise: Floats, invariants: Invariants) -> Any:
        """The statistic of a table of noise that the kernel is a function of, such as its norm; by default the table itself."""
        return noise

    @property
    def scale(self) -> float:
        """The parameter `scale_name`."""
        scale: float = getattr(self, self.scale_name)
        return scale

    def at(self, scale: float) -> Self:
        """The law with another scale, and its other parameters."""
        return replace(self, **{self.scale_name: scale})  # type: ignore[type-var]  # laws are dataclasses

    @classmethod
    def unit(cls, invariants: Invariants, **parameters: Any) -> Self:
        """The law of scale 1, for invariants that the parameters must fit."""
        known = {item.name for item in fields(cls)}  # type: ignore[arg-type]  # laws are dataclasses
        law = cls(**parameters, **({cls.scale_name: 1.0} if cls.scale_name in known else {}))
        law.check_fit(invariants)
        return law

    def check_fit(self, invariants: Invariants) -> None:
        """Raise ValueError where the parameters do not fit the invariants."""

    def needed(self, invariants: Invariants | None, shape: tuple[int, ...] | None = None) -> Invariants:
        """Insist on invariants that the parameters fit, and on the shape of their table where one is given."""
        if not isinstance(invariants, Invariants):
            raise TypeError(f"the law {self.name!r} needs invariants (bayesdp.Invariants), got {invariants!r}")
        if shape is not None and tuple(shape) != invariants.frame.shape:
            raise ValueError(
                f"shape must be that of the table of the invariants, {invariants.frame.shape}, got {shape}"
            )
        self.check_fit(invariants)
        return invariants

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Log-mass, or log-density in orthonormal coordinates, of a noisy table. See `NoiseLaw.logp`.

        It is ``-inf`` for tables that break the invariants: of laws of real numbers by more than 1e-6 times the largest entry
        of values and location (at least 1), as published tables are rounded. Where the normaliser is not known, it is
        right up to a constant.
        """
        invariants = self.needed(invariants)
        noise = self.noise_between(values, location, invariants)
        return -math.inf if noise is None else self.log_mass(noise, invariants)

    def log_mass(self, noise: Floats, invariants: Invariants) -> float:
        """Log-mass or log-density at a table of noise that `noise_between` has accepted."""
        return float(self.log_kernel(np, self.measured(noise, invariants), self.scale, invariants))

    def _centre(self, location: npt.ArrayLike | None, shape: tuple[int, ...], invariants: Invariants | None) -> Any:
        kept = self.needed(invariants, shape)
        centre = table_of(np.zeros(shape, dtype=np.int64) if location is None else location, "location", kept)
        return _validate.integer_array(centre, "location", kept.frame.cell_name) if self.integer else centre

    def _drawn(self, rng: np.random.Generator, location: Any, count: int, invariants: Any = None) -> Any:
        drawn = location + self.noise(rng, count, invariants)
        return np.asarray(drawn, dtype=np.int64 if self.integer else np.float64)

    @staticmethod
    def _shown(value: Any) -> str:
        """A parameter in one line; an array by its shape: those of these laws are matrices or lists of tables."""
        return (
            f"<{' × '.join(map(str, value.shape))} array>" if isinstance(value, np.ndarray) else NoiseLaw._shown(value)
        )

    # Laws may hold large arrays: compared and hashed are the numbers, and not the description with all of them as text.
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((self.name, *self._content()))

    def _content(self) -> list[Any]:
        values = self._parameters().values()
        return [(item.shape, item.tobytes()) if isinstance(item, np.ndarray) else item for item in values]


def table_of(values: Any, argument: str, invariants: Invariants) -> Floats | Ints:
    """Accept a table of finite numbers, of the shape of the invariants' table."""
    array = _validate.finite_array(values, argument, invariants.frame.cell_name)
    if array.shape != invariants.frame.shape:
        raise ValueError(f"{argument} must have the shape of the table, {invariants.frame.shape}, got {array.shape}")
    return array


def difference_of(values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants) -> Floats:
    """Values minus location, both of the shape of the table."""
    difference = table_of(values, "values", invariants) - table_of(location, "location", invariants)
    return np.asarray(difference, dtype=np.float64)


def squared_norm(xp: Any, noise: Any, invariants: Invariants) -> Any:
    """Sums of squares of tables, shape ``(..., *table)``."""
    return xp.sum(xp.square(noise), axis=tuple(range(-len(invariants.frame.shape), 0)))


def norm_of(xp: Any, noise: Any, norm: str, invariants: Invariants) -> Any:
    """The l1, l2 or l-infinity norm of tables, shape ``(..., *table)``; its gradient at zero is 0 and not NaN."""
    cells = tuple(range(-len(invariants.frame.shape), 0))
    if norm == "l1":
        return xp.sum(xp.abs(noise), axis=cells)
    if norm == "linf":
        return xp.max(xp.abs(noise), axis=cells)
    square = squared_norm(xp, noise, invariants)
    return xp.where(square > 0, xp.sqrt(xp.where(square > 0, square, 1.0)), 0.0)
