"""Counts with public bounds: discrete Laplace or Gaussian noise on the answers of a query, truncated or clipped (Liu 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bayesdp import noise
from bayesdp._validate import choice
from bayesdp.mechanisms.bounded.statistics import CONVENTIONS, documented
from bayesdp.mechanisms.integers import DiscreteGaussian, DiscreteLaplace
from bayesdp.mechanisms.protects import AnswersMechanism
from bayesdp.noise.base import Floats
from bayesdp.noise.bounded.base import checked_bounds, plain_bounds
from bayesdp.noise.bounded.laws import BoundedDiscrete, draw_bounded
from bayesdp.noise.secure import statement
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    Guarantee,
    query_sensitivity,
    truncated_epsilon,
    truncated_gaussian_delta,
    truncated_gaussian_epsilon,
    truncated_scale,
)
from bayesdp.privacy.caveats import Fixed, IntegersOnly, PaperScale
from bayesdp.privacy.losses import ApproximateDP, LossAt
from bayesdp.queries import Query, SumPart
from bayesdp.release import Exact

PUBLIC_BOUNDS = Fixed("public bounds of counts")


def _of_sums(query: Query) -> bool:
    """Whether answers are sums of cells."""
    return all(isinstance(part, SumPart) for part in query.parts)


@dataclass(frozen=True, init=False, eq=False)
class BoundedCounts(AnswersMechanism):
    """Publish integer answers within public bounds; see the subclasses.

    Parameters
    ----------
    table : Query, or labels of a table
        What is published: a query, or the cells of a table.
    bounds : pair of int or array_like
        Lower and upper bound of each answer, for example 0 and the public number of records; None where there is none. They
        must hold for all neighbours too: a table beyond them is refused, which tells it apart.
    rho : float
        zCDP loss for neighbouring tables, in place of epsilon and delta.
    epsilon : float
        Loss for neighbouring tables.
    delta : float
        With epsilon, of approximate differential privacy.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.
    query : Query, optional
        The query, where `table` is the labels.
    convention : {"exact", "paper"}
        ``"paper"`` keeps the scale ``sensitivity / epsilon``; the guarantee states the true epsilon.
    """

    _bounded_law: ClassVar[Any]
    _free: ClassVar[Any]
    """The mechanism without bounds, which each one has of its own."""
    bounds: Any = field(default=(0, None), kw_only=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            cls.__doc__ = documented(cls, BoundedCounts)

    def _bound(
        self, kind: type[DiscreteLaplace | DiscreteGaussian], table: Any, bounds: Any, how: dict[str, Any], **more: Any
    ) -> None:
        """Take the fields of the mechanism without bounds, of a kind, which checks them, and `more`."""
        try:
            free = kind(table, **how)
        except (TypeError, ValueError) as error:  # a message names the mechanism that is made
            raise type(error)(str(error).replace(kind.__name__, type(self).__name__)) from None
        found = {"bounds": checked_bounds(bounds, integer=True), "_free": free, **more}
        shared = {item.name: getattr(free, item.name) for item in fields(self) if hasattr(free, item.name)}
        for name, value in {**shared, **found}.items():
            object.__setattr__(self, name, value)
        try:
            _ = self._sides
        except ValueError:
            low, high = map(np.shape, self.bounds)
            raise ValueError(
                f"bounds must be one number, or one for each answer, of shape {self.released_query.shape}, got {low} and {high}"
            ) from None

    # As clipping has it, which is post-processing; truncating has a scale and a guarantee of its own.
    @property
    def _scale(self) -> float:
        """Scale of the law without bounds, in counts."""
        return float(self._free.law.scale)

    def _guarantee(self, method: str) -> Guarantee:
        stated: Guarantee = self._free._guarantee(method)
        return replace(stated, caveats=(*stated.caveats, PUBLIC_BOUNDS))

    @property
    def law(self) -> BoundedDiscrete:
        """The law of the released values."""
        made: BoundedDiscrete = self._bounded_law(self._scale, self.bounds)
        return made

    @property
    def sensitivity(self) -> float:
        """The largest change of the answers between neighbouring tables, in the norm of the mechanism without bounds."""
        sensitivity: float = self._free.sensitivity
        return sensitivity

    @property
    def _sides(self) -> list[Floats]:
        return [np.broadcast_to(np.asarray(side, dtype=np.float64), self.released_query.shape) for side in self.bounds]

    @property
    def _widths(self) -> Floats:
        low, high = self._sides
        return high - low

    if not TYPE_CHECKING:  # type checkers are to refuse `noise` as they refuse any other attribute that is not there

        def __getattr__(self, name: str) -> Any:
            """Say why there is no `noise`; Python asks here for attributes that are not there."""
            if name == "noise":
                raise AttributeError(
                    f"{type(self).__name__} does not add noise that is independent of the answers: its law depends on how far "
                    "an answer is from its bounds; draw around answers with mechanism.law.draw(rng, shape, size, "
                    "location=answers)"
                )
            return object.__getattribute__(self, name)

    def _integers_only(self, method: str) -> IntegersOnly:
        return replace(statement(), redrawn=not self.law.has_atoms)

    def _noisy(self, answers: npt.NDArray[Any], rng: np.random.Generator | None, method: str) -> npt.NDArray[Any]:
        choice(method, ("auto", "exact"), "method")
        outside = np.flatnonzero(self.law.outside(answers).reshape(-1))
        if outside.size:
            where = int(outside[0])
            low, high = (side.reshape(-1)[where] for side in self._sides)
            raise ValueError(
                f"table must have answers within the bounds, {low:.17g} to {high:.17g}, but "
                f"{self.released_query.answer_name(where)} does not: the bounds are wrong, or it is another table"
            )
        if rng is None:
            return draw_bounded(self.law, answers)
        return np.asarray(self.law.draw(rng, answers.shape, location=answers))

    def _public(self) -> tuple[Exact, ...]:
        low, high = self._sides
        found = []
        if np.all(np.isfinite(high)):
            found.append(Exact(self.released_query, high.astype(np.int64), "<="))
        if np.all(np.isfinite(low)) and np.any(low > 0):
            found.append(Exact(self.released_query, low.astype(np.int64), ">="))
        return tuple(found)

    # Bounds may be arrays, which dataclasses cannot compare or hash; the description can do both.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundedCounts) and (self.frame, self.describe()) == (other.frame, other.describe())

    def __hash__(self) -> int:
        return hash(repr(self.describe()))

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data; see `Mechanism.describe`."""
        return {**super().describe(), "bounds": plain_bounds(self.bounds)}


@dataclass(frozen=True, init=False, eq=False)
class BoundaryInflatedDiscreteGaussian(BoundedCounts):
    """Publish answers with discrete Gaussian noise, moved to the nearer public bound where the result is outside (BIT).

    Clipping is post-processing: the loss, and the scale, are those of `DiscreteGaussian`.

    Examples
    --------
    >>> counties = {"county": ["Alpha", "Beta"]}
    >>> BoundaryInflatedDiscreteGaussian(counties, (0, 50), rho=0.125, neighbours="add-remove").law
    BoundaryInflatedDiscreteGaussian(sigma=2.0, bounds=(0.0, 50.0))
    """

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    name = "boundary-inflated-discrete-gaussian"
    _bounded_law = noise.BoundaryInflatedDiscreteGaussian

    def __init__(
        self,
        table: Any,
        bounds: Any,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        neighbours: str = "substitution",
        query: Any = None,
    ) -> None:
        loss = {"rho": rho, "epsilon": epsilon, "delta": delta}
        self._bound(DiscreteGaussian, table, bounds, {**loss, "neighbours": neighbours, "query": query})


@dataclass(frozen=True, init=False, eq=False)
class TruncatedDiscreteGaussian(BoundedCounts):
    """Publish answers with discrete Gaussian noise given that the results are within public bounds.

    The loss is exact: all pairs of neighbouring answers and all outputs between the bounds are enumerated. For that
    neighbours must differ in one answer, by one (add-remove, and the cells or one set of sums), and both bounds be finite.

    Raises
    ------
    NotImplementedError
        If neighbours differ in several answers, or the bounds are too far apart to enumerate. Clipping has no such
        limits: `BoundaryInflatedDiscreteGaussian`.

    Examples
    --------
    >>> counties = {"county": ["Alpha", "Beta"]}
    >>> mechanism = TruncatedDiscreteGaussian(counties, (0, 20), 1.0, 1e-6, neighbours="add-remove")
    >>> print(f"{mechanism.law.sigma:.3f}")
    3.844
    """

    epsilon: float
    delta: float

    name = "truncated-discrete-gaussian"
    _bounded_law = noise.TruncatedDiscreteGaussian

    def __init__(
        self,
        table: Any,
        bounds: Any,
        epsilon: float,
        delta: float,
        *,
        neighbours: str = "substitution",
        query: Any = None,
    ) -> None:
        loss = {"epsilon": epsilon, "delta": delta}
        self._bound(DiscreteGaussian, table, bounds, {**loss, "neighbours": neighbours, "query": query})
        l1 = query_sensitivity(self.query, "l1", self.neighbours)
        if l1 != 1.0 or not _of_sums(self.query):
            raise NotImplementedError(
                "the exact loss of truncated discrete Gaussian noise is known where neighbours differ by one in one answer "
                f"(neighbours='add-remove' and one set of sums); here the answers differ by {l1:g} in l1 norm. "
                "BoundaryInflatedDiscreteGaussian clips instead, and costs what the noise costs"
            )
        _ = self._scale  # refuses now where it cannot be found

    @cached_property
    def _scale(self) -> float:
        """The smallest scale that has the stated loss, on the safe side of the root."""

        def excess(sigma: float) -> float:
            worst = max(truncated_gaussian_delta(self.epsilon, sigma, (0.0, width)) for width in widths)
            return worst - self.delta

        widths = np.unique(self._widths)
        high = 1.0
        while excess(high) > 0.0:
            high *= 2.0
        low = high
        while excess(low) <= 0.0:
            low *= 0.5
            if low < 1e-3:  # all the mass is at the answer: delta is close to 1
                return high
        sigma = float(brentq(excess, low, high, rtol=1e-12))
        while excess(sigma) > 0.0:
            sigma *= 1.0 + 1e-12
        return sigma

    def _guarantee(self, method: str) -> Guarantee:
        choice(method, ("auto", "exact"), "method")
        true = max(
            truncated_gaussian_epsilon(self.delta, self._scale, (0.0, width)) for width in np.unique(self._widths)
        )
        return Guarantee(
            "approximate",
            LossAt(ApproximateDP(self.epsilon, self.delta), self.sensitivity),
            "l1",
            self._neighbouring("l1", ApproximateDP(min(true, self.epsilon), self.delta)),
            caveats=(FLOATING_POINT_CAVEAT, PUBLIC_BOUNDS),
        )


@dataclass(frozen=True, init=False, eq=False)
class TruncatedDiscreteLaplace(BoundedCounts):
    """Publish answers with discrete Laplace noise given that the results are within public bounds.

    The scale is solved for, so that epsilon is the largest loss over all changes of the answers that one record can make: for
    cells it is attained, for other queries it may be an upper bound. The scale is more than the ``sensitivity / epsilon`` of
    noise without bounds, because the normaliser tells something about the answer.

    See Also
    --------
    BoundaryInflatedDiscreteLaplace : clipping, which costs no more than the noise.

    References
    ----------
    Liu (2019), Definition 2(a), for integers.

    Examples
    --------
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> mechanism = TruncatedDiscreteLaplace(counties, epsilon=0.5, bounds=(0, 50))
    >>> print(f"{mechanism.law.b:.4f} {mechanism.true_epsilon:.6f}")
    7.0644 0.500000
    >>> release = mechanism.release([0, 12, 38])  # from the operating system's entropy, with integers only
    >>> bool(release.values.min() >= 0 and release.values.max() <= 50)
    True
    """

    epsilon: float
    convention: str = field(default="exact", kw_only=True)

    name = "truncated-discrete-laplace"
    _bounded_law = noise.TruncatedDiscreteLaplace

    def __init__(
        self,
        table: Any,
        epsilon: float,
        bounds: Any,
        *,
        neighbours: str = "substitution",
        query: Any = None,
        convention: str = "exact",
    ) -> None:
        how = {"epsilon": epsilon, "neighbours": neighbours, "query": query}
        self._bound(DiscreteLaplace, table, bounds, how, convention=choice(convention, CONVENTIONS, "convention"))

    @property
    def _changes(self) -> dict[str, Any]:
        """What `truncated_epsilon` asks of the answers of neighbours."""
        # Each record is in one answer of each set of sums, and counts once.
        largest, changed = (1.0, round(self.sensitivity)) if _of_sums(self.query) else (self.sensitivity, None)
        return {"sensitivity": self.sensitivity, "largest": largest, "changed": changed, "discrete": True}

    @cached_property
    def _scale(self) -> float:
        if self.convention == "paper":
            return float(self.sensitivity / self.epsilon)
        return truncated_scale(self.epsilon, self._widths, **self._changes)

    @cached_property
    def true_epsilon(self) -> float:
        """The largest loss over all changes of the answers that one record can make: never too small."""
        return truncated_epsilon(np.full(self.query.shape, self._scale), self._widths, **self._changes)

    def _guarantee(self, method: str) -> Guarantee:
        # It costs what noise without bounds costs at the true epsilon.
        stated = DiscreteLaplace(self.query, self.true_epsilon, neighbours=self.neighbours)._guarantee(method)
        paper = PaperScale(self._scale, self.epsilon, self.true_epsilon, counts=True)
        first = (paper,) if self.convention == "paper" else ()
        return replace(stated, caveats=(*first, *stated.caveats, PUBLIC_BOUNDS))


@dataclass(frozen=True, init=False, eq=False)
class BoundaryInflatedDiscreteLaplace(BoundedCounts):
    """Publish answers with discrete Laplace noise, moved to the nearer public bound where the result is outside (BIT).

    Clipping is post-processing: epsilon, and the scale, are those of `DiscreteLaplace`.

    References
    ----------
    Liu (2019), Definition 2(b), for integers.

    Examples
    --------
    >>> mechanism = BoundaryInflatedDiscreteLaplace({"county": ["Alpha", "Beta"]}, epsilon=0.5, bounds=(0, 50))
    >>> mechanism.law
    BoundaryInflatedDiscreteLaplace(b=4.0, bounds=(0.0, 50.0))
    """

    epsilon: float

    name = "boundary-inflated-discrete-laplace"
    _bounded_law = noise.BoundaryInflatedDiscreteLaplace

    def __init__(
        self, table: Any, epsilon: float, bounds: Any, *, neighbours: str = "substitution", query: Any = None
    ) -> None:
        self._bound(DiscreteLaplace, table, bounds, {"epsilon": epsilon, "neighbours": neighbours, "query": query})
