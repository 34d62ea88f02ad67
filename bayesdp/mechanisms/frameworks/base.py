"""What the projection and the extension framework share: a mechanism that somebody else wrote, and its release.

The guarantee of a mechanism that somebody else wrote: its loss for neighbouring tables is taken on their word.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _validate
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.lattices.integers import round_to_lattice
from bayesdp.mechanisms._shared import add_noise, answers_of, confidential_counts, one_statement
from bayesdp.mechanisms.one_person import with_person
from bayesdp.noise import NoiseLaw
from bayesdp.privacy import DIFFERENCES, FLOATING_POINT_CAVEAT, Guarantee, PairLoss
from bayesdp.privacy.caveats import Fixed, Rounded
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import LossAt, stated_loss
from bayesdp.privacy.pairs import Apart, Kept, Neighbours
from bayesdp.privacy.words import Words
from bayesdp.queries import Query
from bayesdp.release import Exact
from bayesdp.sensitivities.differences import NEIGHBOURS
from bayesdp.sensitivities.kept import kept_differences
from bayesdp.sensitivities.norms import RECORDS

_WAYS = (("epsilon",), ("epsilon", "delta"), ("rho",), ("mu",))

_OWN_SAMPLER = "drawn by the function that was handed in; that it has the stated loss is not checked here"


@dataclass(frozen=True)
class GivenGuarantee(Guarantee):
    """A guarantee whose loss and sampler are as the author of the mechanism states them; nothing here has checked them."""

    def _noise(self) -> str:
        """Nothing is said about a law: none is known."""
        return _OWN_SAMPLER


def checked_loss(loss: Any) -> Loss:
    """Accept a loss: epsilon, epsilon and delta, rho, or mu.

    Examples
    --------
    >>> checked_loss({"epsilon": 1})
    PureDP(epsilon=1.0)
    """
    named = dict(loss) if isinstance(loss, Mapping) else {}
    if "sensitivity" not in named:  # which is that of the neighbours
        named = stated_loss(loss).parameters
    one_statement({name: named.get(name) for name in ("epsilon", "delta", "rho", "mu", "sensitivity")}, _WAYS)
    return stated_loss(loss)


def given_guarantee(
    loss: Loss,
    neighbours: str,
    invariants: Invariants,
    caveats: tuple[Words, ...],
    determined_cells: tuple[str, ...] = (),
    *,
    trusted_sampler: bool,
    simulated: bool = False,
) -> Guarantee:
    """The guarantee that follows from a stated loss for neighbouring tables, with a row for each smallest kept difference.

    A difference that takes k neighbouring steps has the loss of a group of k. `trusted_sampler`: whether the noise is drawn by this
    package from a law of its own.
    """
    size = RECORDS[neighbours]
    rows = [PairLoss(Neighbours(neighbours, "all"), size, "l1", loss)]
    for difference in kept_differences(invariants):
        # Substitution leads from one table to the other only if as many records are added as are removed.
        if neighbours == "substitution" and invariants.nested is None and difference not in DIFFERENCES.values():
            continue
        steps = round(difference.l1 / size)
        if steps > 1:
            rows.append(PairLoss(Kept(difference), difference.l1, "l1", loss.group(steps)))
    kind = GivenGuarantee if not trusted_sampler else Guarantee
    stated = kind(
        loss.kind,
        LossAt(loss, size),
        "l1",
        tuple(rows),
        determined_cells=determined_cells,
        simulated=simulated,
        caveats=caveats,
    )
    return with_person(stated, invariants, neighbours)


def semi_given_guarantee(
    loss: Loss,
    adjacency: int,
    invariants: Invariants,
    caveats: tuple[Words, ...],
    determined_cells: tuple[str, ...] = (),
    *,
    trusted_sampler: bool,
    simulated: bool = False,
) -> Guarantee:
    """The guarantee of Semi-DP that is a stated loss for tables at most `adjacency` substituted records apart."""
    kind = GivenGuarantee if not trusted_sampler else Guarantee
    size = 2.0 * adjacency
    stated = kind(
        loss.kind,
        LossAt(loss, size),
        "l1",
        (PairLoss(Apart(adjacency), size, "l1", loss),),
        determined_cells=determined_cells,
        simulated=simulated,
        caveats=caveats,
    )
    return with_person(stated, invariants, adjacency=adjacency)


type Floats = npt.NDArray[np.float64]

GRID = 2.0**-20
"""Released values are multiples of this, unless another power of two is asked for: a millionth of a count."""

_LARGEST = 2.0**52
"""Noise of more grid steps than this could not be added to a count in float64 without an error."""


@dataclass(frozen=True)
class ReleasedValues:
    """What a framework publishes: noisy answers and exact ones, as values without a likelihood.

    Attributes
    ----------
    values : xarray.DataArray
        Noisy answers, labelled as the query's. They have the exact answers exactly.
    exact : tuple of Exact
        The invariants.
    guarantee : Guarantee
        What is protected.
    """

    values: xr.DataArray
    exact: tuple[Exact, ...]
    guarantee: Guarantee

    @property
    def simulated(self) -> bool:
        """Whether the noise came from a generator handed in by the user."""
        return self.guarantee.simulated


@dataclass(frozen=True, eq=False)
class FrameworkMechanism(ABC):
    """A private mechanism that was made to keep the invariants; build one with `project` or `extend`.

    Attributes
    ----------
    mechanism : callable or NoiseLaw
        What was handed in. Mind that a function can hold anything; hand in none that holds confidential data.
    query : Query
        What is answered with noise.
    invariants : Invariants
        What is published exactly, of the same table.
    loss : Loss
        The loss of `mechanism` for neighbouring tables.
    additive : bool
        Whether `mechanism` is noise that does not depend on the table.
    unbiased : bool or None
        Whether the noise has mean zero whatever the table; None where nobody said so.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables that the loss is for.
    grid : float
        Power of two: released values are multiples of it.
    """

    mechanism: Any
    query: Query
    invariants: Invariants
    loss: Loss
    additive: bool = field(default=False, kw_only=True)
    unbiased: bool | None = field(default=None, kw_only=True)
    neighbours: str = field(default="substitution", kw_only=True)
    grid: float = field(default=GRID, kw_only=True)

    def __post_init__(self) -> None:
        asked: Any = self.query
        if not isinstance(asked, Query):
            raise TypeError(f"query must be Identity, Margins, Totals or LinearQuery, got {type(asked).__name__}")
        given: Any = self.invariants
        own = given if isinstance(given, Invariants) else Invariants(given, asked.frame)
        object.__setattr__(self, "invariants", own)
        object.__setattr__(self, "loss", checked_loss(self.loss))
        _validate.boolean(self.additive, "additive")
        if self.unbiased is not None:
            _validate.boolean(self.unbiased, "unbiased")
        _validate.choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")
        grid = _validate.positive_real(self.grid, "grid")
        if grid > 1.0 or math.frexp(grid)[0] != 0.5:
            raise ValueError(f"grid must be a power of two of at most 1, such as 2**-20, got {self.grid!r}")
        if not self.answer_invariants.dimension:
            raise ValueError(
                "the invariants determine every answer of the query, so that there is nothing left to add noise to: "
                f"{_validate.shown(asked.names, 3)}"
            )
        self._check_mechanism()

    def _check_mechanism(self) -> None:
        law: Any = self.mechanism
        if isinstance(law, NoiseLaw):
            if not self.additive:
                raise ValueError(f"{law!r} is a noise law, not a function of answers: hand it in with additive=True")
            if law.support in ("bounded", "simplex"):
                raise ValueError(f"{law!r} is a law of bounded values, not of noise that is added to any answer")
            if law.support == "vectors":
                raise ValueError(
                    f"{law!r} is noise of a vector of statistics; hand in a function rng, size -> noise that draws it"
                )
            if not law.independent:
                raise ValueError(
                    f"{law!r} keeps invariants already; to {self._verb}, hand in noise that is independent in each answer, "
                    "or a function rng, size -> noise"
                )
            if self.unbiased is None:
                object.__setattr__(self, "unbiased", True)  # its laws are symmetric about zero
        elif not callable(law):
            raise TypeError(f"mechanism must be a function or a noise law, got {type(law).__name__}")

    @property
    @abstractmethod
    def _verb(self) -> str:
        """What the framework does."""

    @property
    @abstractmethod
    def _noise_shape(self) -> tuple[int, ...]:
        """Shape of what the mechanism returns."""

    @abstractmethod
    def _noise_name(self, position: int) -> str:
        """What one number that the mechanism returns stands for."""

    @abstractmethod
    def _to_answers(self, noise: Floats) -> Floats:
        """Noise of the mechanism, of shape ``(..., *noise_shape)``, as noise on the answers that keeps the invariants."""

    @abstractmethod
    def _input(self, counts: npt.NDArray[np.int64], answers: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """What a mechanism that is not additive is handed, and what its output is compared with."""

    @cached_property
    def answer_invariants(self) -> Invariants:
        """What the invariants determine of the answers."""
        return self.invariants.through(self.query)

    if not TYPE_CHECKING:  # type checkers are to refuse `law` as they refuse any other attribute that is not there

        def __getattr__(self, name: str) -> Any:
            """Say why there is no `law`: a framework knows the numbers that a mechanism returns, and not how they are distributed."""
            if name == "law" and self.additive:
                raise AttributeError(
                    "the law of the noise within the null space is not known for noise that is handed in as it is: use "
                    "ProjectedGaussian, ExtendedGaussian, ProjectedLaplace, ExtendedLaplace, CorrelatedGaussian or KNorm, "
                    "which have an exact likelihood and make a Release"
                )
            if name == "law":
                raise AttributeError(
                    "the mechanism is not additive: its noise may depend on the confidential table, and no likelihood is "
                    "known. It gives release_values, and no Release that a posterior could be made from"
                )
            return object.__getattribute__(self, name)

    @property
    def guarantee(self) -> Guarantee:
        """What is protected, for which pairs of tables, and with what reservations."""
        return self._guarantee()

    def _guarantee(self, determined: tuple[str, ...] = (), *, simulated: bool = False) -> Guarantee:
        depends = () if self.additive else (Fixed("depends on the table"),)
        rounded = Rounded(round(math.log2(self.grid)))
        caveats = (Fixed("stated by the author"), *depends, FLOATING_POINT_CAVEAT, rounded, Fixed("subspace"))
        return given_guarantee(
            self.loss,
            self.neighbours,
            self.invariants,
            caveats,
            determined,
            trusted_sampler=isinstance(self.mechanism, NoiseLaw),
            simulated=simulated,
        )

    def noise(self, rng: _validate.Seed = None, size: int = 1) -> Floats:
        """Draw noise, as a release adds it; for additive mechanisms.

        Parameters
        ----------
        rng : int, numpy.random.Generator or None
            Without one, entropy of the operating system.
        size : int
            Number of independent draws.

        Returns
        -------
        numpy.ndarray, shape ``(size, *query.shape)``

        Raises
        ------
        NotImplementedError
            If the mechanism is not additive.
        """
        if not self.additive:
            raise NotImplementedError(
                "the mechanism is not additive: its noise may depend on the table; see release_values"
            )
        generator, size = _validate.generator_of(rng), _validate.positive_integer(size, "size")
        if isinstance(self.mechanism, NoiseLaw):
            drawn: Any = self.mechanism.draw(generator, self._noise_shape, size)
        else:
            drawn = self.mechanism(generator, size)
        given = self._numbers(drawn, (size, *self._noise_shape), "the noise that mechanism(rng, size) returns")
        return self._rounded(self._to_answers(given))

    def release_values(self, table: Any, rng: _validate.Seed = None) -> ReleasedValues:
        """Publish noisy answers that keep the invariants, and the invariants.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or array_like
            Confidential counts. Labelled values are matched by label.
        rng : int, numpy.random.Generator or None
            Without one, NumPy's PCG64 generator, seeded from the operating system's entropy, which is no cryptographic one: do that
            to publish. With one the values are marked as simulated.

        Returns
        -------
        ReleasedValues

        Raises
        ------
        ValueError
            If labels do not match, a count is not valid, an answer is 2**53 steps of the grid or more (the message names the cell or
            the answer, and shows no value), or the mechanism returns something else than finite numbers of the right shape.
        """
        frame: Frame = self.query.frame
        counts = confidential_counts(table, frame)
        answers = answers_of(self.query, counts)
        parts = [Query(frame, (part,)) for part in self.invariants.query.parts]
        exact = tuple(Exact(query, answers_of(query, counts)) for query in parts)
        if self.additive:
            noise = self.noise(rng)[0]
        else:
            handed, reference = self._input(counts, answers)
            output = self.mechanism(
                handed.copy(), _validate.generator_of(rng)
            )  # a copy: it may not change what is published
            noisy = self._numbers(output, self._noise_shape, "the output of mechanism")
            noise = self._rounded(self._to_answers((noisy - reference)[None]))[0]
        fiber = Fiber.of(exact, frame)
        stated = self._guarantee(fiber.determined_names(), simulated=rng is not None)
        stated = replace(stated, determined_complete=fiber.determined_is_complete)
        noisy_answers = add_noise(answers, noise, self.grid, self.query.answer_name)
        values = xr.DataArray(noisy_answers, dims=self.query.dims, coords=self.query.coords, name="noisy")
        return ReleasedValues(values, exact, stated)

    def _rounded(self, noise: Floats) -> Floats:
        """Noise that keeps the invariants, moved to nearby grid points that keep them exactly."""
        relations = self.answer_invariants
        steps = noise.reshape(-1, *relations.frame.shape) / self.grid
        if np.max(np.abs(steps), initial=0.0) >= _LARGEST:
            raise ValueError(
                f"grid must be larger for noise as wide as that of mechanism: at {self.grid!r} it has 2**52 steps or more"
            )
        return np.asarray(self.grid * round_to_lattice(steps, relations)).reshape(noise.shape)

    def _numbers(self, given: Any, shape: tuple[int, ...], what: str) -> Floats:
        """What a user's function returned, if it is finite numbers of this shape."""
        array = np.asarray(given)
        if array.shape != shape:
            raise ValueError(f"{what} must have shape {shape}, got {array.shape}")
        answers = math.prod(self._noise_shape)
        # What a mechanism returns may be the confidential answer itself, when it is broken.
        return _validate.finite_array(array, what, lambda i: self._noise_name(i % answers), confidential=True).astype(
            np.float64
        )
