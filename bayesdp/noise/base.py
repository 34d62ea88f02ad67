"""What a noise law says of itself: its name and parameters, its probability law and draws, and what the rest of the package asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._wiring import named, names
from bayesdp.fibers.windows import LogMassWindows
from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler
from bayesdp.noise.arrays import at_answers, located
from bayesdp.privacy import Difference, gaussian_pairs
from bayesdp.privacy.losses import Loss, PureDP
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.queries import Query, sets_of_records

type LossOfLength = Callable[[float, float | None], Loss]


@dataclass(frozen=True)
class KernelForm:
    """The form in which the kernel of the posterior takes a law (`bayesdp.fibers.NoiseTerm`).

    Parameters
    ----------
    kind : {"l1", "l2", "gaussian"}
        ``-rate |r|`` a row, ``-rate ||r||_2`` over all rows, or ``-r^2 / (2 scale^2)`` a row.
    of_scale : bool
        Whether the rate of an l1 or l2 law is one over its parameter, a scale such as b.
    coordinates : callable, optional
        Gives the real combinations of the answers, shape ``(n, *answers)``, in which the law is a product; the answers
        themselves if left out.
    """

    kind: str
    of_scale: bool = False
    coordinates: Callable[[], Floats] | None = None


@dataclass(frozen=True)
class LossByLength:
    """In which norm a law hides differences, and the loss at a length.

    Parameters
    ----------
    kinds : tuple of str
        Definitions of privacy (`Guarantee.kind`) in which the loss can be stated.
    norm : {"l1", "l2"}
        Of what a difference between two tables changes in the answers.
    loss : callable
        From a length, and a delta where the definition has one, to a loss as in the rows of a guarantee.
    coordinates : callable, optional
        From answers, shape ``(m, *answers)``, to what the norm is of, shape ``(m, n)``; the answers themselves if left out.
    tight : bool
        Whether the loss at a length is this one, and no less.
    """

    kinds: tuple[str, ...]
    norm: str
    loss: LossOfLength
    coordinates: Callable[[Floats], Floats] | None = None
    tight: bool = True


def exponential_loss(rate: float) -> LossOfLength:
    """Pure privacy of noise whose log-density is ``-rate`` times a norm: ``epsilon = rate * length``."""
    return lambda size, _: PureDP(rate * size)


def normal_loss(sigma: float, *, continuous: bool) -> LossOfLength:
    """What normal noise loses at an l2 length; on integers (`continuous` False) an upper bound."""

    def loss(size: float, delta: float | None) -> Loss:
        apart = Difference("kept", size, size)
        return gaussian_pairs(sigma, [apart], delta=delta, continuous=continuous)[0].loss

    return loss


def shared_laws(parts: Sequence[tuple[Any, Query]]) -> list[Ints]:
    """For each law and query, which answers may share a perturbation: equal numbers from 1 for equal laws, 0 for those that do not.

    Answers share where their law says so and they count records of cells once each, not weighted. An office of this kind gives each
    record a key, and perturbs an answer by the keys of its records: given a table x, the class of an answer is its set of cells that
    are not empty. The published numbers y have the probability ``prod over classes c of 1{all y of c are equal} p(y_c | x_c)``. An
    answer without records is a class by itself: what offices do with it (categories of the cell as keys, or no perturbation) differs.
    """
    numbers: dict[Any, int] = {}
    found = []
    for law, query in parts:
        shared = np.zeros(query.rows, dtype=np.int64)
        if law.same_cell_same_value and query.rows:
            sets = np.flatnonzero(sets_of_records(query))
            if law.of_answer(0, query.shape) is law:
                shared[sets] = numbers.setdefault(law, len(numbers) + 1)
            else:
                shared[sets] = [numbers.setdefault(law.of_answer(int(i), query.shape), len(numbers) + 1) for i in sets]
        found.append(shared)
    return found


def share_by_records(law: Any, queries: Sequence[Query], drawn: Sequence[npt.NDArray[Any]], table: Ints) -> None:
    """Give all answers about the same records the number of the first one, in place."""
    first: dict[Hashable, Any] = {}
    for query, shared, values in zip(queries, shared_laws([(law, query) for query in queries]), drawn, strict=True):
        flat, matrix = values.reshape(-1), query.matrix
        for place in np.flatnonzero(shared):
            cells = np.sort(matrix.indices[matrix.indptr[place] : matrix.indptr[place + 1]])
            held = cells[table[cells] != 0]
            if held.size:
                flat[place] = first.setdefault((int(shared[place]), held.tobytes()), flat[place])
        values[...] = flat.reshape(values.shape)


_REGISTRY: dict[str, type[Any]] = {}

_MOST_POINTS = 4096
"""Points at which a picture asks a law for its mass or density one by one."""


class NoiseLaw(ABC):
    """A probability law of noise, with a log-mass or log-density and a sampler.

    The log-mass is exact, or right up to a constant that depends on no value: laws on a lattice or a subspace whose sum or
    volume is not computed say so (`log_normaliser`). Where a log-density has no practical form at all, `logp` raises
    `NotImplementedError` (`ProjectedLaplace`). Samplers are exact but where `sampler` says otherwise.

    A law is a frozen dataclass whose fields are its parameters. Defining a subclass with a `name` registers
    it: release files and the command line then know it by that name.

    What the rest of the package asks of a law (its *verbs*: `sampler`, `pair_loss`, `kernel_form`, `picture`, `limits`,
    `at_scales`, `draw_by_integers`, `model_parameters`) has a default that is true of every law: unknown, simulated, left to
    the compiled log-density. A law that knows better overrides it.

    Attributes
    ----------
    name : str
        Name in files and on the command line.
    support : {"integers", "reals", "bounded", "counts", "simplex", "lattice", "subspace"}
        Where the noise lives: independent integers or real numbers, independent values within bounds, independent counts
        published for counts, vectors of shares that add up to 1, the integer points of the null space of the invariants, or that
        null space itself. The last two need the invariants.
    integer : bool
        Whether noisy values are integers.
    isotropic : bool
        Whether all coordinates of the space it lives on are treated alike, so that cells which the invariants treat alike
        have noise of one law.
    family : {"independent", "bounded", "perturbed", "lattice", "subspace", "polytope", "semi"}
        Which laws share its code. By default what follows from `support`.
    other_parameters : tuple of str
        Parameters that its constructor takes in place of its fields.
    kernel_parameters : tuple of str
        What `log_kernel` of laws of independent values takes after the value and its location.
    draw_one : callable, optional
        For laws of independent values, compiled by numba: ``draw_one(rng, mu, *parameters)`` draws one.
    relation : str
        What the law takes and how that is related to what else a methods note may state, for messages; may be empty.
    additive : bool
        Whether noisy values are the location plus noise whose law does not depend on it; not so within bounds.
    full_support : bool
        Whether its log-density is finite for every value of the support around every location, so that noise forbids no
        table. False, the default, where that is not known.
    normal : bool
        Whether differences are hidden by normal noise, whose losses add up exactly.
    same_cell_same_value : bool
        Whether one cell has one perturbation in all tables that it is published in, as under cell keys.
    kernel_form : KernelForm or None
        How the posterior kernel takes the law, where that does not depend on its parameters or the invariants; see
        `kernel_of`. None, the default, leaves it to the compiled log-density.
    """

    name: ClassVar[str]
    other_parameters: ClassVar[tuple[str, ...]] = ()
    relation: ClassVar[str] = ""
    family: ClassVar[str]
    support: ClassVar[Literal["integers", "reals", "bounded", "counts", "simplex", "lattice", "subspace"]]
    integer: ClassVar[bool]
    isotropic: ClassVar[bool] = True
    additive: ClassVar[bool] = True
    full_support: ClassVar[bool] = False
    normal: ClassVar[bool] = False
    same_cell_same_value: ClassVar[bool] = False
    kernel_form: ClassVar[KernelForm | None] = None
    kernel_parameters: ClassVar[tuple[str, ...]] = ()
    draw_one: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls
        if "support" in cls.__dict__ and "family" not in cls.__dict__:
            cls.family = "independent" if cls.support in ("integers", "reals") else cls.support

    _set = _validate.set_fields

    def describe(self) -> dict[str, Any]:
        """Describe the law by plain strings, numbers and lists: ``{"law": name, ...parameters}``."""
        return {"law": self.name, **{name: _described(value) for name, value in self._parameters().items()}}

    def _parameters(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def stated_parameters(cls) -> dict[str, Any]:
        """Parameters in a description with their defaults, by default the fields; `dataclasses.MISSING` for those without."""
        return {item.name: item.default for item in fields(cls)}  # type: ignore[arg-type]  # subclasses are dataclasses

    # Laws may hold arrays, which dataclasses cannot compare or hash; the description can do both.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoiseLaw) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(self.describe()))

    def __str__(self) -> str:
        shown = (f"{name}={self._shown(value)}" for name, value in self._parameters().items() if value is not None)
        return " ".join([self.name, *shown])

    @staticmethod
    def _shown(value: Any) -> str:
        """A parameter in one line; an array has one number for each cell."""
        if isinstance(value, np.ndarray):
            return f"<one per cell, from {value.min():.6g} to {value.max():.6g}>"
        return f"{value:.6g}" if isinstance(value, float) else str(value)

    @property
    def independent(self) -> bool:
        """Whether the answers have noise of their own each."""
        return self.support in ("integers", "reals", "bounded", "counts")

    @property
    def keeps_invariants(self) -> bool:
        """Whether noise of a whole table leaves its invariants as they are, so that it needs them."""
        return self.support in ("lattice", "subspace")

    @abstractmethod
    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Joint log-mass (log-density for a subspace) of noisy values around a location.

        Parameters
        ----------
        values : array_like, shape ``(*query)``
            Noisy values.
        location : array_like, shape ``(*query)``
            What the noise was added to.
        invariants : Invariants, optional
            Needed by laws on a lattice or a subspace, not used by the others.

        Returns
        -------
        float
            ``-inf`` off the support.
        """

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
        numpy.ndarray, shape ``(size, *shape)``
            int64 for integer laws, float64 for the others.
        """
        centre, count = (
            self._centre(location, shape, invariants),
            1 if size is None else _validate.nonnegative_integer(size, "size"),
        )
        drawn: Floats | Ints = self._drawn(_validate.generator_of(rng), centre, count, invariants)
        return drawn.reshape(centre.shape if size is None else (count, *centre.shape))

    def _centre(self, location: npt.ArrayLike | None, shape: tuple[int, ...], invariants: Invariants | None) -> Any:
        """What noise is added to, checked, in the shape of one answer."""
        return located(location, shape)

    def _drawn(self, rng: np.random.Generator, location: Any, count: int, invariants: Any = None) -> Any:
        """Noisy values around a location, shape ``(count, *location.shape)``; not needed where a law has its own `draw`."""
        raise NotImplementedError(f"the law {self.name!r} has no sampler")

    def draw_answers(self, rng: _validate.Seed, queries: Sequence[Query], table: npt.ArrayLike) -> list[Floats | Ints]:
        """Draw what is published of several queries about one table; answers about the same records share their perturbation.

        `draw` knows numbers and not records: it perturbs each of them on its own. Where the law gives the same records the same
        perturbation (`same_cell_same_value`), two sums of cells are about the same records where they differ in empty cells
        only; then they are published with one number. Sums without records have one of their own each.

        Parameters
        ----------
        rng
            As of `draw`.
        queries : sequence of Query
            The answers have their shapes.
        table : array_like, shape ``(*table)``
            The true counts.

        Examples
        --------
        >>> from bayesdp.noise import CellKey
        >>> from bayesdp.queries import Identity, Totals
        >>> sex = {"sex": ["F", "M"]}
        >>> law = CellKey(max_deviation=2, variance=1.0)
        >>> cells, total = law.draw_answers(1, [Identity(sex), Totals(sex)], [5, 0])
        >>> cells[0] == total
        np.True_
        """
        generator = _validate.generator_of(rng)
        counts = np.asarray(table)
        asked = list(queries)
        found: list[Any] = [np.asarray(self.draw(generator, one.shape, location=one.apply(counts))) for one in asked]
        if self.same_cell_same_value:
            share_by_records(self, asked, found, counts.reshape(-1))
        return found

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of the noise in each cell, shape `shape`, or None where no closed form is known."""
        return None

    @staticmethod
    def from_description(description: Mapping[str, Any]) -> NoiseLaw:
        """Rebuild a law from `describe`.

        Parameters
        ----------
        description : mapping
            ``law``, a registered name, and exactly the parameters of that law.

        Examples
        --------
        >>> from bayesdp.noise import DiscreteGaussian
        >>> NoiseLaw.from_description({"law": "discrete-gaussian", "sigma": 5.0})
        DiscreteGaussian(sigma=5.0)
        """
        _validate.instance(description, Mapping, "the description of a noise law must be a mapping", quoted=True)
        if "law" not in description:
            raise ValueError(f"the description of a noise law lacks 'law'; known laws are {law_names()}")
        law: NoiseLaw = made_law(description["law"], {key: value for key, value in description.items() if key != "law"})
        return law

    @property
    def limits(self) -> tuple[Any, Any]:
        """Lower and upper ends of noisy values, numbers or an array of one for each answer; infinite by default."""
        return -np.inf, np.inf

    def refusal(self, values: Floats | Ints) -> str:
        """Why the law cannot give published answers of shape ``(*query)`` together; "", the default, where it can.

        What each answer may be is in `limits`.
        """
        return ""

    @property
    def not_private(self) -> str:
        """Why no guarantee is claimed for the law itself, in a sentence; "", the default, of laws that mechanisms calibrate."""
        return ""

    def _least_losses(self, shape: tuple[int, ...]) -> Mapping[str, tuple[float, float]]:
        """By norm, what answers of this shape lose at least: ``min(distance, first) / second``, an epsilon; {} if not known."""
        return {}

    def refusals(self, values: Floats | Ints) -> dict[int, str]:
        """Why single answers cannot have been published, by their places in C order; none, the default, where `limits` says it all.

        Each reason goes on after "but <answer> is <value>, ".
        """
        return {}

    def sampler(self, invariants: Invariants) -> Sampler | None:
        """The method that `draw` uses under these invariants; None, the default, for laws that have one exact method."""
        return None

    def draw_by_integers(self, size: int, engine: str) -> list[int]:
        """Draw independent noise of one scale around zero with integer arithmetic only, by the engine "opendp" or "integers".

        See `noise.secure.draw_independent`. TypeError, the default, of laws for which no such sampler is known.
        """
        raise TypeError(
            f"law must be a DiscreteLaplace or a DiscreteGaussian, or another with a sampler by integers only, got {self!r}"
        )

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """What the noise of a query's answers loses at a difference between two tables that changes none of the invariants it keeps.

        None, the default, where it is not known: a composition then goes by what the release itself states.
        """
        return None

    def shift_tradeoff(self, by: float) -> TradeOff | None:
        """The trade-off function of the noise of one answer around a centre, and around one moved by that much.

        `by` is a whole number where the noise is. Only of independent noise whose best tests reject all values beyond one, as of every
        log-concave law. Then two moves add up to a group of two: no changes of several answers, of the same sum, are easier to tell
        apart. None, the default, where it is not known: a convolution then goes by the loss that the law has or the release states.
        """
        return None

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """How the posterior kernel takes this law under these invariants; None leaves it to the compiled log-density."""
        return self.kernel_form

    def windows(self, values: Floats | Ints) -> LogMassWindows | None:
        """The log-mass of published answers as functions of their true answers, in C order, tabulated in windows.

        A law that states it has an exact term in the posterior kernel, whatever its shape. None, the default, for laws with another
        form, or left to the compiled log-density.
        """
        return None

    def at_scales(self, scale: npt.ArrayLike) -> Any:
        """The law of another scale, or of one for each answer; None if it is not one of independent noise with a scale."""
        return None

    def model_parameters(self) -> dict[str, Any]:
        """The parameters of the law's PyMC distribution, by name: those of the law, unless it says otherwise.

        Those of laws of independent answers may be arrays, with one entry for each answer.
        """
        return self._parameters()

    def withheld(self, values: npt.ArrayLike) -> dict[str, Mask]:
        """Which values stand for answers that were not published, by why: ``{"under 90": mask}``; none unless the law says otherwise.

        All that is known of such an answer is that it would have been under, or over, a threshold.
        """
        return {}

    @property
    def uncensored(self) -> NoiseLaw:
        """The law of values before any of them were held back; the law itself unless it says otherwise."""
        return self

    def of_answer(self, answer: int | Ints, shape: tuple[int, ...]) -> NoiseLaw:
        """The law of one answer of a query of this shape, by its place: where parameters differ between answers, with its own.

        Of an array of places it is the law of these answers, whose parameters have the shape of that array.
        """
        parameters = self._parameters()
        arrays = {name: value for name, value in parameters.items() if isinstance(value, np.ndarray)}
        if not self.independent or not arrays:
            return self
        of_one = {name: at_answers(value, answer, shape) for name, value in arrays.items()}
        return type(self)(**(parameters | of_one))

    def picture(self, values: Floats, sd: float) -> Floats | None:
        """Mass (of an integer law) or density of the noise of one answer, of standard deviation `sd`, at a vector of values.

        By default that of independent noise by its log-mass, and the normal density where all noise is normal; None where
        there is no formula: pictures then simulate.
        """
        if self.independent and self.additive and hasattr(self, "log_each"):
            return np.asarray(np.exp(self.log_each(values)))
        if self.normal:
            return np.asarray(np.exp(-0.5 * (values / sd) ** 2) / (sd * np.sqrt(2 * np.pi)))
        if not (self.independent and self.additive) or len(values) > _MOST_POINTS:
            return None
        return np.exp([self.logp(one, np.zeros(1)) for one in values[:, None]])


class IndependentLaw(NoiseLaw):
    """Answers that have noise of their own each: a law states the log-mass of each value, and draws (`_drawn`)."""

    log_each: Any  # of values and their locations, elementwise

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum of the log-masses or log-densities of all answers. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_each(values, location)))


def _described(value: Any) -> Any:
    """A parameter by plain strings, numbers and lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_described(item) for item in value]
    return value.describe() if isinstance(value, NoiseLaw) else value


_COMMON = (
    "discrete-laplace", "discrete-gaussian", "laplace", "gaussian", "rounded", "random-rounding", "conventional-rounding", "cell-key",
    "censored",
)  # fmt: skip
"""What offices publish with most, listed first."""


def _known() -> list[str]:
    """The registered names, the common ones first."""
    return sorted(names("law", _REGISTRY), key=lambda name: _COMMON.index(name) if name in _COMMON else len(_COMMON))


def law_names() -> str:
    """List the registered names for a message, the common ones first."""
    return ", ".join(_known())


def registered_law(name: Any) -> type[Any]:
    """The law of a registered name; ValueError for other names."""
    found: type[Any] | None = named("law", name, _REGISTRY)
    if found is None:
        raise ValueError(f"unknown noise law {name!r}; known laws are {_validate.nearest(name, _known())}")
    return found


def made_law(name: Any, parameters: Mapping[str, Any], others: tuple[str, ...] = ()) -> Any:
    """Make a law of a registered name."""
    # `others`: parameters that are accepted in place of fields of the law.
    law = registered_law(name)
    stated = law.stated_parameters()
    known = list(stated)
    unknown = [key for key in parameters if key not in known and key not in others]
    if unknown:
        valid = f"it takes {law.relation}" if law.relation else f"it has {', '.join(known)}"
        raise ValueError(
            f"noise law {name!r} has no parameter {_validate.shown(unknown)}; {valid}{_validate.meant(unknown[0], known)}"
        )
    missing = [key for key, default in stated.items() if default is MISSING and key not in parameters]
    if missing and not any(key in parameters for key in others):
        raise ValueError(f"noise law {name!r} lacks parameter {_validate.shown(missing)}")
    try:
        return law(**parameters)
    except (TypeError, ValueError) as error:
        raise type(error)(f"noise law {name!r}: {error}") from None
