"""What every mechanism offers, and the registry of their names.

Mechanisms whose noise is added to the answers, and does not depend on them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.mechanisms._shared import add_noise, answers_of, confidential_counts, grid_caveat, one_statement
from bayesdp.mechanisms.one_person import with_person
from bayesdp.noise import NoiseLaw
from bayesdp.privacy import EXACT_SAMPLER, FLOATING_POINT_CAVEAT, Difference, Guarantee, PairLoss
from bayesdp.privacy.caveats import GENERATOR_CAVEAT, Fixed, IntegersOnly
from bayesdp.queries import Identity, Query
from bayesdp.release import Exact, Measured, Release
from bayesdp.sensitivities.kept import kept_differences

__all__ = [
    "GENERATOR_CAVEAT", "Mechanism", "add_noise", "answers_of", "confidential_counts", "grid_caveat", "mechanism_names",
    "one_statement",
]  # fmt: skip

_REGISTRY: dict[str, type[Mechanism]] = {}


@dataclass(frozen=True)
class Mechanism(ABC):
    """Publishes noisy answers of a known law about a table, and the invariants exactly.

    A mechanism is a frozen dataclass of labels and privacy parameters; it never holds a count. Defining a
    subclass with a `name` registers it, so that descriptions in files can be read back.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.

    Attributes
    ----------
    name : str
        Name in files and on the command line.
    """

    invariants: Any  # an Invariants once made; type checkers know no field that converts what it is given

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls

    def __post_init__(self) -> None:
        given: Any = self.invariants
        if not isinstance(given, Invariants):
            if not isinstance(given, (Query, Iterable)) or isinstance(given, (str, Mapping)):
                raise TypeError(
                    "invariants must be a query such as Margins(table, ['county']) or Totals(table), or an "
                    f"Invariants, got {type(given).__name__}"
                )
            given = Invariants(given)
            object.__setattr__(self, "invariants", given)
        if not given.dimension:
            raise ValueError(
                f"invariants determine every cell of the table, so that there is nothing left to protect: {given!r}"
            )

    @property
    @abstractmethod
    def law(self) -> NoiseLaw:
        """The law of the noise."""

    @abstractmethod
    def _noisy(self, answers: npt.NDArray[Any], rng: np.random.Generator | None, method: str) -> npt.NDArray[Any]:
        """Noisy answers, of the same shape."""

    @abstractmethod
    def _guarantee(self, method: str) -> Guarantee:
        """What is protected when the noise is drawn by the given method."""

    def _integers_only(self, method: str) -> IntegersOnly | None:
        """How noise is drawn without a generator, if that is with integer arithmetic only; None if it is not."""
        return None

    def _earlier_rows(self) -> tuple[PairLoss, ...]:
        """Rows as earlier versions stated them, with larger losses, which are true too: their files must stay readable."""
        return ()

    def _published(self, method: str) -> Guarantee:
        """The guarantee of a release whose noise comes from the operating system's entropy."""
        stated = self._guarantee(method)
        drawn = self._integers_only(method)
        if drawn is None:
            return replace(stated, caveats=(*stated.caveats, GENERATOR_CAVEAT))
        others = tuple(caveat for caveat in stated.caveats if caveat != FLOATING_POINT_CAVEAT)
        return replace(stated, sampler=EXACT_SAMPLER, caveats=(*others, drawn))

    def _for_one_person(self, stated: Guarantee) -> Guarantee:
        """The guarantee with what it means for one person's record; the last thing to be added, as it shows losses."""
        return with_person(stated, self.invariants, getattr(self, "neighbours", None), getattr(self, "adjacency", None))

    @property
    def frame(self) -> Frame:
        """Labels of the table."""
        frame: Frame = self.invariants.frame
        return frame

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The smallest kinds of difference between two tables that the invariants do not tell apart."""
        return kept_differences(self.invariants)

    @property
    def released_query(self) -> Query:
        """The query whose answers get the noise: the cells themselves, unless a mechanism says otherwise."""
        return Identity(self.frame)

    @cached_property
    def answer_invariants(self) -> Invariants:
        """What the invariants determine of the answers: the noise lives on the null space of these relations."""
        relations: Invariants = self.invariants.through(self.released_query)
        return relations

    @property
    def guarantee(self) -> Guarantee:
        """What the mechanism protects, for which pairs of tables, and with what reservations."""
        stated = self._for_one_person(self._published("auto"))
        return replace(
            stated, caveats=(*stated.caveats, *((Fixed("determined cells"),) if self.invariants.query.parts else ()))
        )

    def logp(self, values: Any, table: Any) -> float:
        """Log-mass, or log-density in orthonormal coordinates, of noisy values given a table of counts.

        Parameters
        ----------
        values : xarray.DataArray, pandas object or array_like
            Noisy answers: a table for noise on the cells. Labelled values are matched by label.
        table : xarray.DataArray, pandas object or array_like
            Table of counts.

        Returns
        -------
        float
            ``-inf`` for values that the noise cannot lead to. See `law` for when a law on a lattice or a subspace is
            normalised; else the result is right up to a constant that depends on no count.

        Raises
        ------
        NotImplementedError
            If the law has no practical log-density for these invariants (`ProjectedLaplace`).
        """
        shape = self.answer_invariants.frame.shape
        noisy = self.released_query.align(values, "values").reshape(shape)
        return self.law.logp(
            noisy, answers_of(self.released_query, self._counts(table)).reshape(shape), self.answer_invariants
        )

    def release(self, table: Any, rng: _validate.Seed = None, method: str = "auto") -> Release:
        """Publish a table: noisy counts, exact invariants, the law of the noise and the guarantee.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or array_like
            Confidential counts. Labelled values are matched by label.
        rng : int, numpy.random.Generator or None
            Without one the noise is made of the operating system's entropy with integer arithmetic only, where the law allows
            it; other laws, those of real noise among them, take NumPy's PCG64 generator, seeded from that entropy, which is no
            cryptographic one. The guarantee says which it was. Do that to publish. With one the release is marked as simulated,
            because whoever knows the seed can subtract the noise.
        method : {"auto", "exact", "mcmc"}
            How the noise is drawn: ``auto`` is exact where an exact sampler is known.

        Returns
        -------
        Release

        Raises
        ------
        ValueError
            If labels do not match, a count is missing, negative, fractional or too large, counts add up to 2**53 or more, or an
            answer is so large that noise could not be added to it exactly: 2**53, or 2**53 steps of the grid of real noise. The
            message names the cell or the answer, and shows no confidential number.
        """
        rng = _validate.random_generator(rng)
        counts = self._counts(table)
        parts = [Query(self.frame, (part,)) for part in self.invariants.query.parts]
        # Before any noise is drawn: what is refused here is refused whatever the noise.
        exact = (*(Exact(query, answers_of(query, counts)) for query in parts), *self._public())
        drawn = self._noisy(answers_of(self.released_query, counts), rng, method)
        noisy = _validate.finite_array(drawn, "noisy answers", self.released_query.answer_name, confidential=True)
        fiber = Fiber.of(exact, self.frame)
        guarantee = replace(
            self._for_one_person(self._guarantee(method) if rng is not None else self._published(method)),
            determined_cells=fiber.determined_names(),
            determined_complete=fiber.determined_is_complete,
            simulated=rng is not None,
        )
        release = Release(
            self.frame,
            (Measured(self.released_query, noisy, self.law, self.invariants if self.law.keeps_invariants else None),),
            exact,
            mechanism=self.describe(),
            guarantee=guarantee,
            simulated=rng is not None,
        )
        _ = release.fiber  # this fiber: the release keeps it, so that a model of the release need not find it again
        return release

    def _public(self) -> tuple[Exact, ...]:
        """Limits of the answers that are public before anything is released."""
        return ()

    def _counts(self, table: Any) -> npt.NDArray[np.int64]:
        return confidential_counts(table, self.frame)

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data, without its frame: ``{"mechanism": name, "invariants": ..., ...}``."""
        description: dict[str, Any] = {"mechanism": self.name, "invariants": self.invariants.describe()}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Query):
                if value != Identity(self.frame):
                    description[item.name] = value.describe()
            elif item.name != "invariants" and value is not None:
                description[item.name] = value
        return description

    @classmethod
    def described(cls, description: Mapping[str, Any]) -> type[Self]:
        """The class of a description, whose keys are looked at, and not its values.

        Raises
        ------
        ValueError
            If the name is not registered or is that of another mechanism, or a key is unknown.
        """
        given: Any = description
        if not isinstance(given, Mapping) or not {"mechanism", "invariants"} <= set(given):
            raise ValueError(
                f"a mechanism is described by a mapping with 'mechanism', 'invariants', got {description!r}"
            )
        name: Any = description["mechanism"]
        if not isinstance(name, str) or name not in _REGISTRY:
            raise ValueError(
                f"unknown mechanism {name!r}; known mechanisms are {_validate.nearest(name, sorted(_REGISTRY))}"
            )
        found = _REGISTRY[name]
        if not issubclass(found, cls):
            raise ValueError(f"the description is of the mechanism {name!r}, not of {cls.name!r}")
        known = [item.name for item in fields(found) if item.name != "invariants"]
        unknown = [key for key in description if key not in ("mechanism", "invariants", *known)]
        if unknown:
            shown = _validate.shown(unknown)
            raise ValueError(f"mechanism {name!r} has no parameter {shown}; it has {', '.join(known)}")
        return found

    @classmethod
    def from_description(cls, description: Mapping[str, Any], frame: Any) -> Self:
        """Rebuild a mechanism from `describe`.

        Parameters
        ----------
        description : mapping
            ``mechanism``, a registered name, ``invariants``, and parameters of that mechanism.
        frame : object
            Labels of the table, as for queries.

        Raises
        ------
        TypeError, ValueError
            If the name is not registered or is that of another mechanism, a key is unknown or missing, or a
            value is not valid.
        """
        found = cls.described(description)
        parameters = {k: v for k, v in description.items() if k not in ("mechanism", "invariants")}
        own = Frame.of(frame)
        if "query" in parameters:
            parameters["query"] = Query.from_description(parameters["query"], own)
        return found(Invariants.from_description(description["invariants"], own), **parameters)


def mechanism_names() -> str:
    """List the registered names for a message."""
    return ", ".join(sorted(_REGISTRY))


@dataclass(frozen=True)
class AdditiveMechanism(Mechanism):
    """A mechanism that publishes answer + noise, where the law of the noise is the same for all answers.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    """

    @abstractmethod
    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[Any]:
        """Noise of shape ``(size, *answers)``, in the shape of `answer_invariants`."""

    def noise(self, rng: _validate.Seed = None, size: int = 1, method: str = "auto") -> npt.NDArray[Any]:
        """Draw noise, as a release adds it.

        Parameters
        ----------
        rng : int, numpy.random.Generator or None
            Without one, integer arithmetic and the operating system's entropy only, where the law allows it: slower, and as a
            release is drawn. Other laws take NumPy's PCG64 generator, seeded from that entropy; it is no cryptographic one.
        size : int
            Number of independent draws.
        method : {"auto", "exact", "mcmc"}
            ``auto`` is exact where an exact sampler is known.

        Returns
        -------
        numpy.ndarray, shape ``(size, *query.shape)``
            For noise on the cells, the shape of the table.

        Raises
        ------
        NotImplementedError
            If exact draws are asked for and no exact sampler is known.
        """
        return self._draw(_validate.random_generator(rng), size, method).reshape(-1, *self.released_query.shape)

    def _noisy(self, answers: npt.NDArray[Any], rng: np.random.Generator | None, method: str) -> npt.NDArray[Any]:
        """Noisy answers, of the same shape."""
        noise = self._draw(rng, 1, method)[0].reshape(answers.shape)
        return add_noise(answers, noise, self._noise_step, self.released_query.answer_name)

    @property
    def _noise_step(self) -> float:
        """The power of two, at most 1, that noise is a multiple of."""
        return 1.0
