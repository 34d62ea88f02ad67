"""One small release for every noise law, by its name; a law from elsewhere brings its own by `register_example`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from doctest import DocTestParser
from typing import Any

import numpy as np
import numpy.typing as npt

import bayesdp as bdp
from bayesdp import mechanisms, noise
from bayesdp.noise.base import registered_law
from bayesdp.papers import bounded_statistics
from bayesdp.privacy import approximate_dp
from tests.comparison.enumeration import Ints

type Secure = Callable[[], tuple[noise.NoiseLaw, Ints]]

LINE = {"county": ["p", "q", "r"]}
TABLE = np.array([3, 1, 3])
"""The confidential counts of `LINE`; their sum, 7, is exact: 36 tables."""

# Orthonormal coordinates of three cells with a known sum, by the rule helmert-1.
HELMERT = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])

SECURE_DRAWS = 1000


@dataclass(frozen=True, eq=False)
class Example:
    """A law with what the contract cannot find out by itself."""

    law: noise.NoiseLaw  # for the three cells of `LINE`; with the sum kept if it is not independent
    reach: float  # noise is further out, in an answer or in a coordinate, with a probability below 1e-5
    secure: Secure | None = None  # by integers only: the law, and noisy values around 3 or noise of tables
    sampled: bool = False  # whether the step method makes a short run: once for each family is enough
    tolerance: float = 2e-5  # how far the quadrature of the line may be from 1: more where a density jumps
    variant: str = ""  # in one word, of a second example of a law whose parameters choose between formulas
    outcomes: int = 1_000_000  # how many values an answer may have, where there are few

    @property
    def kept(self) -> bdp.Invariants | None:
        """What the noise of the three cells leaves as it is."""
        return bdp.Invariants(bdp.Totals(LINE)) if self.law.keeps_invariants else None

    def around(self, table: Any) -> npt.NDArray[Any]:
        """What the noise of a table with the sum of `TABLE` is put around: its counts, or their shares."""
        return np.asarray(table) / TABLE.sum() if self.law.support == "simplex" else np.asarray(table)

    @property
    def location(self) -> npt.NDArray[Any]:
        """What the noise of `TABLE` is put around."""
        return self.around(TABLE)

    @property
    def values(self) -> npt.NDArray[Any]:
        """Noisy answers around `TABLE`."""
        return self.law.draw(2, (3,), invariants=self.kept, location=self.location)


def _by_mechanism(mechanism: Any) -> Secure:
    """Noise of whole tables, from the operating system's entropy."""
    return lambda: (mechanism.law, mechanism.noise(size=SECURE_DRAWS).reshape(SECURE_DRAWS, -1))


def _of_counts(make: Callable[[Any], Any]) -> Secure:
    """A release of a long list of equal counts, from the operating system's entropy."""

    def draws() -> tuple[noise.NoiseLaw, Ints]:
        mechanism = make({"cell": list(range(SECURE_DRAWS))})
        released = mechanism.release(np.full(SECURE_DRAWS, TABLE[0])).measurements[0]
        return released.law, np.asarray(released.values, dtype=np.int64)

    return draws


_TOTAL, _BOUNDS, _FAR = bdp.Totals(LINE), (0, 9), np.array([[1.0], [2.0], [1.0]])

_ROWS = [  # deviations of -3 to 5 for the counts 0 to 3 and beyond; none leads below zero
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.3, 0.1, 0.2, 0.1, 0.1, 0.1, 0.1],
    [0.0, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
    [0.1, 0.15, 0.2, 0.05, 0.15, 0.1, 0.1, 0.05, 0.1],
]

_EXAMPLES: dict[str, Example] = {}


def register_example(example: Example) -> None:
    """Put a law under the contract, by its name, and by its variant where there are several examples."""
    _EXAMPLES[f"{example.law.name} {example.variant}".strip()] = example


def example_of(name: str) -> Example:
    """The example of a law, or one of its variants; AssertionError with what to do if there is none."""
    if name not in _EXAMPLES and name in noise.law_names().split(", "):
        own = _documented(registered_law(name))
        if own is not None:
            _EXAMPLES[name] = own
    assert name in _EXAMPLES, (
        f"the noise law {name!r} is registered, but has no example for the contract of all laws: make one for three cells first in "
        "the examples of its docstring, or add an Example to tests/noise/contract/examples.py if that is not enough"
    )
    return _EXAMPLES[name]


def _documented(kind: type[noise.NoiseLaw]) -> Example | None:
    """The first law in the examples of the docstring of its class, which reaches twice as far as many draws; None if there is none."""
    names = dict(vars(sys.modules[kind.__module__]))
    for line in DocTestParser().get_examples(kind.__doc__ or ""):
        try:
            made = eval(line.source, names)
        except SyntaxError:
            exec(line.source, names)
            made = next((own for own in names.values() if type(own) is kind), None)
        if type(made) is kind:
            break
    else:
        return None
    own = Example(made, 1.0)
    drawn = made.draw(1, (3,), 20_000, own.kept, own.location)
    return replace(own, reach=float(np.ceil(2.0 * np.abs(drawn - own.location).max())))


def variants() -> list[str]:
    """Names of laws with a variant, for `example_of`: examples beside the one that every law has."""
    return [name for name, example in _EXAMPLES.items() if example.variant]


for _example in (
    Example(noise.DiscreteLaplace(2.0), 26, _of_counts(lambda own: mechanisms.DiscreteLaplace(own, epsilon=1.0)), True),
    Example(noise.DiscreteGaussian(2.0), 10, _of_counts(lambda own: mechanisms.DiscreteGaussian(own, rho=0.25))),
    Example(noise.Laplace(1.5), 20),
    Example(noise.Gaussian(2.0), 11),
    Example(noise.Tulap(0.8, 0.01), 20, tolerance=2e-4),
    Example(noise.Canonical(approximate_dp(0.8, 0.01)), 20, tolerance=2e-4),
    Example(noise.TruncatedLaplace(2.0, _BOUNDS), 9, sampled=True),
    Example(noise.BoundaryInflatedLaplace(2.0, _BOUNDS), 9),
    Example(noise.TruncatedGaussian(2.5, _BOUNDS), 9),
    Example(noise.BoundaryInflatedGaussian(2.5, _BOUNDS), 9),
    Example(bounded_statistics.RescaledLaplace(0.3, "boundary-inflated"), 1, tolerance=1e-3),
    Example(bounded_statistics.RescaledLaplace(0.3, "truncated"), 1, tolerance=1e-3, variant="truncated"),
    Example(noise.TruncatedDiscreteLaplace(2.0, _BOUNDS), 9),
    Example(noise.BoundaryInflatedDiscreteLaplace(2.0, _BOUNDS), 9),
    Example(noise.BoundaryInflatedDiscreteGaussian(2.5, _BOUNDS), 9),
    Example(noise.LatticeLaplace(0.8), 10, _by_mechanism(mechanisms.LatticeLaplace(_TOTAL, 0.8)), True),
    Example(noise.LatticeLaplace(1.5, "l2"), 10, _by_mechanism(mechanisms.LatticeLaplace(_TOTAL, 1.5, "l2")), variant="l2"),
    Example(noise.LatticeGaussian(1.5), 8, _by_mechanism(mechanisms.LatticeGaussian(_TOTAL, rho=0.25))),
    Example(noise.ProjectedGaussian(1.5), 7.5),
    Example(noise.ProjectedLaplace(1.0), 12, sampled=True),
    Example(noise.ExtendedLaplace(1.0), 12),
    Example(noise.CorrelatedGaussian([[3.0, 1.0], [1.0, 2.0]]), 8.5),
    Example(noise.SubspaceNorm(1.2), 11),
    Example(noise.SubspaceNorm(1.2, "l2"), 14, variant="l2"),
    Example(noise.SubspaceNorm(1.0, "linf"), 20, variant="linf"),
    # The hull of the differences of two unit vectors, one of them twice as far.
    Example(noise.KNorm(1.5, _FAR * (HELMERT.T[[0, 0, 1]] - HELMERT.T[[1, 2, 2]])), 20, sampled=True),
    Example(noise.SemiKNorm(1.5, 2), 24, sampled=True),
    Example(noise.Censored(noise.DiscreteLaplace(2.0), below=2), 26, sampled=True),
    Example(noise.Censored(noise.DiscreteGaussian(2.5), below=-1, above=6), 12, variant="discrete-gaussian"),
    Example(noise.Censored(noise.Laplace(1.5), 0, 5), 20, variant="laplace"),
    Example(noise.Censored(noise.Gaussian(2.0), below=-1, above=6), 11, variant="gaussian"),
    Example(noise.Rounded(noise.Laplace(2.0), 1), 28),
    Example(noise.Rounded(noise.Gaussian(2.0), 1), 10, variant="gaussian"),
    Example(noise.Rounded(noise.Laplace([3.0]), 5), 42, variant="fives"),
    Example(noise.Rounded(noise.Gaussian(1.5), 0.5), 8, variant="halves"),
    Example(noise.RandomRounding(5), 6, sampled=True, outcomes=2),
    Example(noise.ConventionalRounding(5), 6, outcomes=1),
    Example(noise.CellKey(max_deviation=4, variance=3.5), 6),
    Example(noise.CellKey(noise.TransitionTable([-1, 0, 1], [[0, 1, 0], [0.3, 0.4, 0.3]])), 6, outcomes=3, variant="ptable"),
    Example(noise.CellKey(max_deviation=3, variance=(0, 3, 4, 4, 3, 4), not_smaller_than=3), 6, outcomes=5, variant="gaps"),
    Example(noise.TransitionTable([-3, -2, -1, 0, 1, 2, 3, 4, 5], _ROWS), 6),
    Example(noise.UnknownPerturbation(2, small=3), 6, sampled=True, outcomes=5),
    Example(noise.UnknownPerturbation(2, prior="max-entropy"), 6, sampled=True, outcomes=5, variant="entropy"),
):  # fmt: skip
    register_example(_example)
