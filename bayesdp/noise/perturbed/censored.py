"""A law of which only values within thresholds are published: of the others it is known on which side they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp.fibers.windows import LogMassWindows
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import Limit, at_answers, broadcast_scale, checked_limit, finite, values_and_location
from bayesdp.noise.base import IndependentLaw, LossByLength, NoiseLaw
from bayesdp.noise.bounded.base import check_sides, plain_bounds
from bayesdp.noise.independent.laws import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from bayesdp.queries import Query


def check_order(sides: Sequence[Limit], *, integer: bool) -> None:
    """Check that something is published: ``below <= above`` for integers, ``below < above`` for reals."""
    most = "at most" if integer else "smaller than"
    words = f"must be in order: below must be {most} above, or nothing is ever published; they are not"
    check_sides(
        "below and above", sides[0], sides[1], lambda low, high: [((low > high) if integer else (low >= high), words)]
    )


_FLAT_LAPLACE = 36.0
"""Scales beyond which the tail on the side where nothing is lost is below 1e-15."""
_FLAT_NORMAL = 8.5
"""The same in standard deviations."""
_FAR_NORMAL = 40.0
"""Standard deviations beyond which a normal log-mass, below -800 there, is taken for its tangent."""
_MORE = 64
"""Counts that a normal window reaches farther: nothing for large scales, a lot for small ones."""
_MOST = 4_000_000
"""Entries of all windows together; where more would be needed, the compiled log-density is used."""

_PUBLISHED, _UNDER, _OVER = 0, 1, 2
_VERBS = ("log_each", "log_cdf", "log_sf")


def censored_windows(
    law: NoiseLaw,
    values: Floats,
    low: Floats,
    high: Floats,
    *,
    family: Callable[[Any], Any] | None = None,
    reach: int = 0,
) -> LogMassWindows | None:
    """Windows of published answers, `low - 1` and `high + 1` standing for those held back; None for laws without, or too long ones."""
    # `family`: the law of a scale, where it is made of `law` by rounding; `reach`: how far around mu it then is of another form.
    # The law is that of the values without thresholds: discrete or continuous Laplace or Gaussian. Around whole numbers the law of
    # value minus location is one law: answers with the same scale, and the same distance from a whole number, share a window.
    laplace = isinstance(law, DiscreteLaplace | Laplace)
    if not laplace and not isinstance(law, DiscreteGaussian | Gaussian):
        return None
    y, low, high = (np.asarray(array, dtype=np.float64).reshape(-1) for array in (values, low, high))
    scale = np.broadcast_to(law.scale, values.shape).reshape(-1)  # type: ignore[attr-defined]  # all four have one
    kind = np.where(y < low, _UNDER, np.where(y > high, _OVER, _PUBLISHED))
    step = 1.0 if law.integer else 0.0
    # The probability is that of values up to `at`, or above it.
    at = np.where(kind == _UNDER, low - step, np.where(kind == _OVER, high, y))
    anchor = np.floor(at)
    shapes, which = np.unique(np.stack([kind, scale, at - anchor], axis=1), axis=0, return_inverse=True)
    which = which.reshape(-1)
    ends = [_ends(int(side), width, fraction, laplace, int(step), reach) for side, width, fraction in shapes]
    if sum(up - down + 1 for down, up in ends) > _MOST:
        return None
    tables, slopes = [], []
    for (side, width, fraction), (down, up) in zip(shapes, ends, strict=True):
        answers = np.arange(down, up + 1.0)
        verb = getattr((family or law.at_scales)(width), _VERBS[int(side)])
        table = np.asarray(verb(np.full(answers.shape, fraction), answers), dtype=np.float64)
        falls = (-1.0 / width, -1.0 / width) if laplace else np.minimum(table[[0, -1]] - table[[1, -2]], 0.0)
        slopes.append((0.0 if side == _UNDER else falls[0], 0.0 if side == _OVER else falls[1]))
        tables.append(table)
    lengths = np.array([len(table) for table in tables], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    downs = np.array([down for down, _ in ends], dtype=np.int64)
    sides = np.array(slopes, dtype=np.float64)
    low_ends = anchor.astype(np.int64) + downs[which]
    return LogMassWindows(low_ends, starts[which], lengths[which], np.concatenate(tables), *sides[which].T.copy())


def _ends(kind: int, scale: float, fraction: float, laplace: bool, step: int, reach: int) -> tuple[int, int]:
    """First and last true answer of a window, less the anchor."""
    near = int(np.ceil(fraction))
    flat = int(np.ceil((_FLAT_LAPLACE if laplace else _FLAT_NORMAL) * scale)) + 2
    far = near + step if laplace else int(np.ceil(_FAR_NORMAL * scale)) + _MORE + reach
    steep = -step if laplace else -far
    if kind == _PUBLISHED:
        return (-reach, near + reach) if laplace else (-far, far)
    return (-flat, far) if kind == _UNDER else (steep, flat)


@dataclass(frozen=True, eq=False, init=False)
class MadeOfAnother(IndependentLaw):
    """A law of what is published of the values of another one, `noise`; its other fields say what that is."""

    noise: Any

    other_parameters = ("law",)

    @staticmethod
    def _given(law: Any, noise: Any) -> Any:
        """The other law, by one of its two names, a law or its description."""
        if (law is None) == (noise is None):
            raise TypeError("law must be the noise law of the values before anything was done to them, given once")
        given = noise if law is None else law
        if isinstance(given, Mapping):
            given = NoiseLaw.from_description(given)
        if not isinstance(given, NoiseLaw):
            raise TypeError(
                f"law must be a noise law such as DiscreteGaussian(sigma=10) or Laplace(b=2), got {given!r}"
            )
        return given

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """At most that of the other law: what is done to its values is post-processing. See `NoiseLaw.pair_loss`."""
        found: LossByLength | None = self.noise.pair_loss(query, invariants)
        return None if found is None else replace(found, tight=False)

    def model_parameters(self) -> dict[str, Any]:
        """The type of the other law, its parameters, and the other fields."""
        own = {name: value for name, value in self._parameters().items() if name != "noise"}
        return {"law": type(self.noise), **self.noise.model_parameters(), **own}


@dataclass(frozen=True, eq=False, init=False)
class Censored(MadeOfAnother):
    r"""Values of a law that are published from ``below`` to ``above`` only; of the others it is known on which side they were.

    With Y of the law that was censored, around mu:

    .. math:: p(y \mid \mu) = \begin{cases} P(Y < below \mid \mu) & y = below - 1 \\ p_Y(y \mid \mu) & below \le y \le above \\
        P(Y > above \mid \mu) & y = above + 1 \end{cases}

    A value that was held back stands as ``below - 1`` ("under the threshold") or ``above + 1`` ("over it"), for real laws too:
    a code, and no value. `bayesdp.thresholded` writes it where an answer could have been published and was not. An answer of which
    nothing is known, because it was not asked for, is no censored one: it is unmeasured. Numbers of a real law between
    the code and the threshold are refused.

    ========  =============================================================================
    Support   ``below`` to ``above``, and the codes; its mass is with respect to both
    Mean      not stated: codes are no values
    Variance  likewise
    ========  =============================================================================

    Parameters
    ----------
    law : NoiseLaw, or its description
        Of independent noise, integers or reals, with tails that it knows: `DiscreteLaplace`, `DiscreteGaussian`, `Laplace`,
        `Gaussian`, and others with ``log_each``, ``log_cdf`` and ``log_sf``.
    below : float or array_like, optional
        Smallest value that is published; a whole number for integers. None or minus infinity where there is no such threshold.
    above : float or array_like, optional
        Largest value that is published; None or infinity where there is none.
    noise : NoiseLaw, or its description, optional
        The same as `law`, by the name that files have.

    See Also
    --------
    bayesdp.thresholded : a measurement with a threshold, from the answers that were published.
    bayesdp.suppressed : answers whose true value was under a threshold.
    bayesdp.distributions.Censored : the same law as a PyMC distribution.

    Notes
    -----
    Censoring is post-processing: what the law hides without it, it hides with it. For integers the likelihood is that of values
    clipped to ``below - 1`` and ``above + 1``.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteLaplace
    >>> law = Censored(DiscreteLaplace(b=2.0), below=3)
    >>> np.round(np.exp(law.log_each([2, 3, 4, 5], 1)), 4)
    array([0.771 , 0.0901, 0.0546, 0.0331])
    >>> print(law)
    censored law=(discrete-laplace b=2) below=3
    """

    below: Limit = -np.inf
    above: Limit = np.inf

    name = "censored"
    support = "bounded"
    family = "perturbed"
    has_atoms = True
    additive = False
    relation = "law=(NAME PARAMETER=VALUE ...), the law without thresholds, and below=LOW, above=HIGH or both"

    def __init__(self, law: Any = None, below: Any = None, above: Any = None, *, noise: Any = None) -> None:
        inner = self._given(law, noise)
        _checked(inner)
        low = checked_limit(below, -np.inf, "below", integer=inner.integer)
        self._set(noise=inner, below=low, above=checked_limit(above, np.inf, "above", integer=inner.integer))
        check_order((self.below, self.above), integer=inner.integer)

    @property
    def uncensored(self) -> NoiseLaw:
        """The law whose values were censored. See `NoiseLaw.uncensored`."""
        law: NoiseLaw = self.noise
        return law

    @property
    def integer(self) -> bool:  # type: ignore[override]  # a class variable of other laws; here it is that of the law inside
        """Whether values are integers."""
        return bool(self.noise.integer)

    @property
    def full_support(self) -> bool:  # type: ignore[override]  # as above
        """Whether no value is impossible around any location."""
        return bool(self.noise.full_support)

    @property
    def limits(self) -> tuple[Any, Any]:
        """The codes of what was held back; infinite where there is no threshold."""
        return self.below - 1.0, self.above + 1.0

    def refusals(self, values: Floats | Ints) -> dict[int, str]:
        """Numbers of real laws between a code and its threshold. See `NoiseLaw.refusals`."""
        y = np.asarray(values, dtype=np.float64)
        low, high = self._thresholds(y.shape)
        odd = np.flatnonzero(((y < low) & (y > low - 1.0)) | ((y > high) & (y < high + 1.0)))
        low, high = low.reshape(-1), high.reshape(-1)
        return {
            int(i): f"and numbers from {low[i]:.17g} to {high[i]:.17g} are published; those held back stand as 1 beyond"
            for i in odd
        }

    def withheld(self, values: npt.ArrayLike) -> dict[str, Mask]:
        """Which values stand for answers under or over a threshold. See `NoiseLaw.withheld`."""
        y, found = np.asarray(values, dtype=np.float64), {}
        low, high = self._thresholds(y.shape)
        for which, side, word in zip((y < low, y > high), (self.below, self.above), ("under", "over"), strict=True):
            if which.any():
                found[f"{word} {side:.17g}" if np.ndim(side) == 0 else f"{word} a threshold of their own"] = which
        return found

    def coded(self, values: npt.ArrayLike) -> Floats | Ints:
        """Values of the law with the code in place of each that is held back.

        Examples
        --------
        >>> from bayesdp.noise import Gaussian
        >>> Censored(Gaussian(2.0), below=10.0).coded([3.5, 12.25])
        array([ 9.  , 12.25])
        """
        y = np.asarray(values, dtype=np.float64)
        low, high = self._thresholds(y.shape)
        coded = np.where(y < low, low - 1.0, np.where(y > high, high + 1.0, y))
        return coded.astype(np.int64) if self.integer else coded

    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass or log-density of each published value, log-probability of each code, elementwise; ``-inf`` elsewhere."""
        y, mu = values_and_location(values, location)
        low, high = self._thresholds(y.shape)
        found = np.where((y >= low) & (y <= high), self.noise.log_each(y, mu), -np.inf)
        under = self.noise.log_cdf(finite(np, low, 0.0) - float(self.integer), mu)
        found = np.where(y == low - 1.0, under, found)
        return np.where(y == high + 1.0, self.noise.log_sf(finite(np, high, 0.0), mu), found)

    def _drawn(self, rng: np.random.Generator, location: Floats, count: int, invariants: Any = None) -> Floats | Ints:
        self._thresholds(location.shape)
        return self.coded(self.noise.draw(rng, location.shape, count, location=location))

    @property
    def same_cell_same_value(self) -> bool:  # type: ignore[override]  # as above
        """As the inner law."""
        return bool(self.noise.same_cell_same_value)

    def variance(
        self, shape: tuple[int, ...], invariants: Invariants | None = None, location: npt.ArrayLike | None = None
    ) -> Floats | None:
        """None: not computed. See `NoiseLaw.variance`."""
        return None

    def windows(self, values: npt.NDArray[Any]) -> LogMassWindows | None:
        """See `NoiseLaw.windows`: tails are exact lines of Laplace laws; of Gaussian laws tangents, from 40 sigma on."""
        y = np.asarray(values, dtype=np.float64)
        return censored_windows(self.noise, y, *self._thresholds(y.shape))

    def of_answer(self, answer: int | Ints, shape: tuple[int, ...]) -> NoiseLaw:
        """The law of one answer, or of some, with its thresholds. See `NoiseLaw.of_answer`."""
        low, high = (at_answers(side, answer, shape) for side in (self.below, self.above))
        return Censored(self.noise.of_answer(answer, shape), low, high)

    def describe(self) -> dict[str, Any]:
        """Describe the law by plain data; a threshold that is not there is None. See `NoiseLaw.describe`."""
        below, above = plain_bounds((self.below, self.above))
        return {"law": self.name, "noise": self.noise.describe(), "below": below, "above": above}

    def __str__(self) -> str:
        sides = (("below", self.below), ("above", self.above))
        shown = [f"{name}={self._shown(side)}" for name, side in sides if np.any(np.isfinite(side))]
        return " ".join([f"{self.name} law=({self.noise})", *shown])

    def _thresholds(self, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        return broadcast_scale(self.below, shape, "below"), broadcast_scale(self.above, shape, "above")


def _checked(given: NoiseLaw) -> None:
    """Insist on independent noise that knows its tails."""
    if isinstance(given, Censored):
        raise ValueError("law must not be a censored one: state both thresholds at once, below= and above=")
    if given.support == "counts":
        raise TypeError(
            f"law must be of noise; of perturbed counts, as {given}, bayesdp.noise.censored_counts(law, below) has the law with a "
            "threshold, and bayesdp.thresholded makes the measurement"
        )
    known = all(hasattr(given, verb) for verb in ("log_each", "log_cdf", "log_sf"))
    if not (given.independent and given.additive and known):
        raise TypeError(
            f"law must be of independent noise and know its tails (log_each, log_cdf and log_sf), as DiscreteLaplace, "
            f"DiscreteGaussian, Laplace and Gaussian do, got {given}"
        )
