"""What every mechanism does: it makes a law of privacy parameters, says what that protects (also one person), and publishes a release.

Which tables are protected, and how far they are apart, is said in `protects`; which noise hides that, and what it loses at a distance,
by the families beside it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp._arrays import Ints
from bayesdp._docs import with_shared_parameters
from bayesdp._text import printable
from bayesdp._validate import positive_number, positive_rate
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler
from bayesdp.noise import NoiseLaw
from bayesdp.privacy import (
    DIFFERENCES,
    EXACT_SAMPLER,
    FLOATING_POINT_CAVEAT,
    Difference,
    Guarantee,
    PairLoss,
    gaussian_sigma_for_rho,
    rho_within,
)
from bayesdp.privacy.caveats import GENERATOR_CAVEAT, Fixed, IntegersOnly
from bayesdp.privacy.losses import Loss, LossAt, stated_loss
from bayesdp.privacy.sensitivities.kept import ADDED, kept_differences
from bayesdp.privacy.sensitivities.norms import DifferenceLength, column_groups
from bayesdp.privacy.words import Conforming, Neighbours, OnePerson, SamplerStatement, SemiAdjacent, Statement
from bayesdp.queries import Identity, Query, SumPart
from bayesdp.queries.query import checked_query
from bayesdp.release import Exact, Measured, Release

_REGISTRY: dict[str, type[Mechanism]] = {}


def confidential_counts(table: Any, frame: Frame) -> Ints:
    """The counts of a confidential table in the order of its frame; messages name cells and rules, and no value."""
    given = frame.align(table, "table")
    counts = _validate.integer_array(given, "table", frame.cell_name, minimum=0, confidential=True)
    if _validate.exact_total(counts) >= _validate.MAX_COUNT:
        raise ValueError("table must have counts that add up to less than 2**53, but they do not")
    return counts


def answers_of(query: Query, counts: Ints) -> Ints:
    """The answers of a query to confidential counts; ValueError for those of 2**53 or more, which are not exact in float64."""
    return _validate.integer_array(query.apply(counts), "answers of the table", query.answer_name, confidential=True)


def add_noise(answers: Ints, noise: npt.NDArray[Any], step: float, name_of: Callable[[int], str]) -> npt.NDArray[Any]:
    """Answers with noise of the same shape, added without any rounding."""
    # The noise is a multiple of `step`, a power of two of at most 1: multiples of it are exact in float64 below 2**53 steps, sums
    # of them included. What is larger would be rounded by an amount that depends on the answer.
    limit = _validate.MAX_COUNT * step
    bound = "2**53" if step == 1.0 else f"{limit:.6g}, which is 2**53 steps of the grid of the noise"
    if np.any((noise >= limit) | (noise <= -limit)):
        raise ValueError(f"the noise must be smaller than {bound}, but it is not: take a smaller scale (a larger loss)")
    noisy = answers + noise
    over = np.flatnonzero((answers >= limit) | (answers <= -limit) | (noisy >= limit) | (noisy <= -limit))
    if over.size:
        raise ValueError(
            f"answers of the table must be smaller than {bound}, with their noise, but {name_of(int(over[0]))} is not: they could "
            "not be added exactly"
        )
    return np.asarray(_validate.finite_array(noisy, "noisy answers", name_of, confidential=True))


def alone(invariants: Invariants) -> tuple[int, int, int, bool]:
    """In how many cells one record can change without any invariant: the first four fields of `OnePerson`.

    A record moves from cell i to cell j without changing an exact value just when the invariants treat the two cells alike (equal
    columns), and comes or goes unnoticed just when no invariant counts its cell (a column of zeros).
    """
    parts = [part for part in invariants.query.parts if isinstance(part, SumPart)]
    if parts and len(parts) == len(invariants.query.parts):
        group = np.zeros(invariants.frame.size, dtype=np.int64)
        for part in parts:
            group = np.unique(group * part.rows + part.row_of_cell, return_inverse=True)[1].astype(np.int64)
        uncounted = 0  # a set of sums counts every cell
    else:
        group = column_groups(invariants.matrix)
        uncounted = int(np.sum(group == 0))
    sizes = np.bincount(group)
    return len(group), int(sizes[sizes > 1].sum()), uncounted, int(sizes.max()) == len(group) > 1


def with_person(
    stated: Guarantee, invariants: Invariants, neighbours: str | None = None, adjacency: int | None = None
) -> Guarantee:
    """The guarantee, complete but for this, with what it means for one person's record: whether it can change alone, at what loss.

    `neighbours` is the relation that ``stated.parameters`` are for, if they are for neighbouring tables; `adjacency`, of Semi-DP,
    the largest number of records that may change together.
    """
    cells, movable, uncounted, alike = alone(invariants)

    def loss_of(holds: Callable[[Any], bool]) -> Loss | None:
        return next((row.loss for row in stated.pairs if holds(row.about)), None)

    def of_difference(difference: Difference) -> Loss | None:
        return loss_of(lambda about: isinstance(about, Conforming) and about.difference == difference)

    of_one = loss_of(lambda about: isinstance(about, Neighbours)) or stated.parameters.loss
    move = addition = least = None
    if movable:
        move = of_difference(DIFFERENCES["substitution"]) or loss_of(lambda about: isinstance(about, SemiAdjacent))
        if move is None and neighbours is not None:
            # A record that moves is one that is removed and one that is added.
            move = of_one.group(1 if neighbours == "substitution" else 2)
    if uncounted:
        addition = of_difference(ADDED) or (of_one if neighbours == "add-remove" else None)
    if not movable and not uncounted and invariants.nested is not None:
        # Nested sums keep the number of records, so that as many come to a cell as leave one.
        least = round(min(difference.l1 for difference in kept_differences(invariants)) / 2.0)
    # In the definition that the guarantee is stated in; a row may give others too.
    move, addition = (None if loss is None else loss.to(stated.kind) for loss in (move, addition))
    told = OnePerson(cells, movable, uncounted, alike, move, addition, least, adjacency, stated.sampler)
    return replace(stated, person=told)


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
    _former: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Parameters of earlier versions, and the only value that files may have for them now."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls
            cls.__doc__ = with_shared_parameters(cls)

    def __post_init__(self) -> None:
        given: Any = self.invariants
        if not isinstance(given, Invariants):
            if not isinstance(given, (Query, Iterable)) or isinstance(given, (str, Mapping)):
                raise TypeError(
                    "invariants must be a query such as Margins(table, ['county']) or Totals(table), or an "
                    f"Invariants, got {type(given).__name__}"
                )
            given = Invariants(given)
            self._set(invariants=given)
        if not given.dimension:
            raise ValueError(
                f"invariants determine every cell of the table, so that there is nothing left to protect: {given!r}"
            )

    _set = _validate.set_fields

    def _take_query(self) -> None:
        """Check the field `query`, and refuse answers that are all determined."""
        asked = checked_query(self.released_query, self.frame)
        self._set(query=asked)
        if not self.answer_invariants.dimension:
            raise ValueError(
                "the invariants determine every answer of the query, so that there is nothing left to add noise to: "
                f"{', '.join(map(printable, asked.names[:3]))} ..."
            )

    @property
    @abstractmethod
    def law(self) -> NoiseLaw:
        """The law of the noise."""

    @abstractmethod
    def _noisy(self, answers: npt.NDArray[Any], rng: np.random.Generator | None, method: str) -> npt.NDArray[Any]:
        """Noisy answers, of the same shape."""

    def _guarantee(self, method: str) -> Guarantee:
        """What is protected when the noise is drawn by the given method."""
        stated = self._stated
        how, caveats = self._sampler(method), self._caveats(method)
        return Guarantee(stated.loss.kind, stated, self._unit, self._pairs(), sampler=how, caveats=caveats)

    @property
    def _unit(self) -> str:
        """The norm in which the noise hides differences, as a guarantee names it."""
        return "l1"

    @property
    def _loss(self) -> Loss:
        """The loss that the fields state."""
        given = {name: getattr(self, name, None) for name in ("epsilon", "delta", "rho", "mu")}
        return stated_loss({name: value for name, value in given.items() if value is not None})

    @property
    def _stated_size(self) -> float:
        """The difference that the loss is stated for, in the norm of the noise."""
        size: float = getattr(self, "sensitivity", 1.0)
        return size

    @property
    def _stated(self) -> LossAt:
        """The loss that is stated, and the size of the difference that it is for."""
        return LossAt(self._loss, self._stated_size)

    def _loss_at(self, size: float) -> Loss:
        """The loss for two tables whose answers are so far apart, in the norm of the noise: what the law says of itself."""
        known = self.law.pair_loss(self.released_query, self.invariants)
        if known is None:
            raise NotImplementedError(f"the law {self.law.name!r} does not say what it loses: override _loss_at")
        return known.loss(size, getattr(self, "delta", None))

    @cached_property
    def _lengths(self) -> tuple[DifferenceLength, ...]:
        """How far tables with the same invariants are apart, by the smallest kinds of difference."""
        return tuple(DifferenceLength(kind, getattr(kind, self._unit), "") for kind in self.differences)

    def _relation_rows(self) -> tuple[PairLoss, ...]:
        """The row on the tables that the mechanism is made to protect."""
        return ()

    def _pairs(self) -> tuple[PairLoss, ...]:
        conforming = (
            PairLoss(Conforming(kept.difference, kept.bound), kept.size, self._unit, self._loss_at(kept.size))
            for kept in self._lengths
        )
        return (*self._relation_rows(), *conforming)

    def _drawn_by(self, method: str) -> Sampler | None:
        """The sampler, of laws that have several; ValueError for a method that there is not."""
        if _validate.choice(method, ("auto", "exact", "mcmc"), "method") == "mcmc":
            raise ValueError("method must be 'auto' or 'exact': the noise of this mechanism is always drawn exactly")
        return self.law.sampler(self.invariants if self.law.independent else self.answer_invariants)

    def _sampler(self, method: str) -> SamplerStatement:
        """How noise is drawn, for the guarantee."""
        self._drawn_by(method)
        return EXACT_SAMPLER

    def _caveats(self, method: str) -> tuple[Statement, ...]:
        return (*self._law_caveats, *self._drawing_caveats)

    @property
    def _law_caveats(self) -> tuple[Statement, ...]:
        return ()

    @property
    def _drawing_caveats(self) -> tuple[Statement, ...]:
        return (FLOATING_POINT_CAVEAT,)

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

    @property
    def _exact_queries(self) -> list[Query]:
        """What is published exactly, one query for each part of the invariants."""
        return [Query(self.frame, (part,)) for part in self.invariants.query.parts]

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The smallest kinds of difference between two tables that the invariants do not tell apart."""
        return kept_differences(self.invariants)

    @property
    def released_query(self) -> Query:
        """The query whose answers get the noise: the cells themselves, unless a mechanism says otherwise."""
        query: Query | None = getattr(self, "query", None)
        return Identity(self.frame) if query is None else query

    @cached_property
    def answer_invariants(self) -> Invariants:
        """What the invariants determine of the answers: the noise lives on the null space of these relations."""
        relations: Invariants = self.invariants.through(self.released_query)
        return relations

    @property
    def guarantee(self) -> Guarantee:
        """What the mechanism protects, for which pairs of tables, and with what reservations."""
        stated = self._for_one_person(self._published("auto"))
        determined = (Fixed("determined cells"),) if self.invariants.query.parts else ()
        return replace(stated, caveats=(*stated.caveats, *determined))

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
            normalised (else the result is right up to a constant that depends on no count), and for where it has no practical
            log-density (`ProjectedLaplace`), which is a NotImplementedError.
        """
        query, relations = self.released_query, self.answer_invariants
        noisy = query.align(values, "values").reshape(relations.frame.shape)
        answers = answers_of(query, confidential_counts(table, self.frame)).reshape(relations.frame.shape)
        return self.law.logp(noisy, answers, relations)

    def release(self, table: Any, rng: _validate.Seed = None, method: str = "auto") -> Release:
        """Publish a table: noisy counts, exact invariants, the law of the noise and the guarantee.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or array_like
            Confidential counts. Labelled values are matched by label.
        rng : int, numpy.random.Generator or None
            Without one the noise is made of the operating system's entropy with integer arithmetic only, where the law allows
            it (slower); other laws, those of real noise among them, take NumPy's PCG64 generator, seeded from that entropy, which is
            no cryptographic one. The guarantee says which it was. Do that to publish. With one the release is marked as simulated,
            because whoever knows the seed can subtract the noise.
        method : {"auto", "exact", "mcmc"}
            How the noise is drawn: ``auto`` is exact where an exact sampler is known. NotImplementedError if exact draws are asked
            for and there is none.

        Returns
        -------
        Release

        Raises
        ------
        ValueError
            Also if an answer is so large that noise could not be added to it exactly: 2**53, or 2**53 steps of the grid of real
            noise. Messages name the cell or the answer, and show no confidential number.
        """
        rng = _validate.random_generator(rng)
        counts = self._conforming(confidential_counts(table, self.frame))
        # Before any noise is drawn: what is refused here is refused whatever the noise.
        exact = tuple(Exact(query, answers_of(query, counts)) for query in self._exact_queries)
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
        # By the contract of the mechanisms of this package, what they state now they state again when it is read.
        if type(self).__module__.startswith("bayesdp."):
            release.__dict__["_stated"] = True
        return release

    def _conforming(self, counts: Ints) -> Ints:
        """The counts of a table; ValueError for one that the noise is not made for."""
        return counts

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data, without its frame: ``{"mechanism": name, "invariants": ..., ...}``."""
        description: dict[str, Any] = {"mechanism": self.name, "invariants": self.invariants.describe()}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Query):
                if value != Identity(self.frame):
                    description[item.name] = value.describe()
            elif item.name != "invariants" and value is not None:
                description[item.name] = _as_lists(value)
        return description

    @classmethod
    def described(cls, description: Mapping[str, Any]) -> type[Self]:
        """The class of a description, whose keys are looked at, and not its values."""
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
        accepted = [key for key, value in found._former if description.get(key) == value]
        unknown = [key for key in description if key not in ("mechanism", "invariants", *known, *accepted)]
        if unknown:
            for key, value in found._former:
                if key in unknown:
                    raise ValueError(
                        f"{key} of the mechanism {name!r} must be {value!r}, the only one now, got {description[key]!r}"
                    )
            raise ValueError(
                f"mechanism {name!r} has no parameter {_validate.shown(unknown)}; it has {', '.join(known)}"
            )
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
        """
        found = cls.described(description)
        parameters = {
            k: v for k, v in description.items() if k not in ("mechanism", "invariants", *dict(found._former))
        }
        labels = Frame.of(frame)
        if "query" in parameters:
            parameters["query"] = Query.from_description(parameters["query"], labels)
        return found(Invariants.from_description(description["invariants"], labels), **parameters)


def _as_lists(value: Any) -> Any:
    return [_as_lists(item) for item in value] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class AdditiveMechanism(Mechanism):
    """A `Mechanism` that publishes answer + noise, where the law of the noise is the same for all answers."""

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[Any]:
        """Noise of shape ``(size, *answers)``, in the shape of `answer_invariants`."""
        self._drawn_by(method)  # refuses unknown methods
        relations = self.answer_invariants
        return np.asarray(self.law.draw(rng, relations.frame.shape, size, relations))

    def noise(self, rng: _validate.Seed = None, size: int = 1, method: str = "auto") -> npt.NDArray[Any]:
        """Draw noise, as a release adds it.

        Parameters
        ----------
        rng, method
            As for `release`.
        size : int
            Number of independent draws.

        Returns
        -------
        numpy.ndarray, shape ``(size, *query.shape)``
            For noise on the cells, the shape of the table.
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


def laplace_scale(sensitivity: float, epsilon: float, name: str = "sensitivity / epsilon") -> float:
    """The scale `sensitivity / epsilon`, rounded up: exact noise of one rounded down would cost a little more than epsilon."""
    b = positive_number(sensitivity / epsilon, name)
    return b if Fraction(b) * Fraction(epsilon) >= Fraction(sensitivity) else math.nextafter(b, math.inf)


def one_statement(given: Mapping[str, Any], ways: tuple[tuple[str, ...], ...]) -> dict[str, float]:
    """The numbers that state a loss, checked: of those given, None where one was left out, in exactly one of the `ways`."""
    stated = tuple(name for name, value in given.items() if value is not None)
    if stated not in ways:
        known = " or ".join(" and ".join(f"{name}=" for name in way) for way in ways)
        raise ValueError(f"state the loss by {known}, and by one of these only; got {', '.join(stated) or 'none'}")
    checks = ((_validate.probability if name == "delta" else _validate.positive_real) for name in stated)
    return {name: check(given[name], name) for name, check in zip(stated, checks, strict=True)}


def stated_loss_of(mechanism: Any, ways: tuple[tuple[str, ...], ...]) -> dict[str, float]:
    """The fields that state the loss, which must be in exactly one of the `ways`."""
    return one_statement({name: getattr(mechanism, name) for way in ways for name in way}, ways)


@dataclass(frozen=True)
class PureStatement(AdditiveMechanism):
    """Pure differential privacy at epsilon.

    Parameters
    ----------
    epsilon : float
        Loss for the tables that are protected.
    """

    epsilon: float

    def __post_init__(self) -> None:
        self._set(epsilon=positive_rate(self.epsilon, "epsilon"))
        super().__post_init__()


@dataclass(frozen=True)
class GaussianStatement(AdditiveMechanism):
    """A loss that is stated for Gaussian noise on integers.

    Parameters
    ----------
    rho : float, optional
        zCDP loss for the tables that are protected.
    epsilon, delta : float, optional
        The same by approximate differential privacy.
    """

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    _ways: ClassVar[tuple[tuple[str, ...], ...]] = (("rho",), ("epsilon", "delta"))
    _unit = "l2"

    def __post_init__(self) -> None:
        self._set(**stated_loss_of(self, self._ways))
        super().__post_init__()

    def _scale_for(self, size: float) -> float:
        """The scale of noise that has the stated loss at a difference of this l2 size."""
        stated: Any = self
        rho = rho_within(stated.epsilon, stated.delta) if self.rho is None else self.rho
        return gaussian_sigma_for_rho(rho, size)
