"""From ranks to a verdict: p-values of every quantity, corrected for their number, and the power of the tests.

Are posteriors as wide as they should be? The test of squared standardised errors, and what it can detect.

A band for a distribution function has its power in the middle; an error in scale moves the tails. The squared
standardised error ``((theta - mean) / sd)^2``, with the posterior's own mean and standard deviation, is a test quantity
of its own (Modrák et al., 2025, "Simulation-based calibration checking for Bayesian computation: the choice of test
quantities shapes sensitivity", Bayesian Analysis): the rank of the true one among those of the posterior's draws is
uniform too. Its rank u is turned into the quantile of a chi-squared law with one degree of freedom, and the sum of n of
them has n. For normal posteriors whose errors are s times as large as stated, the sum is s^2 times that: this is the
best test of scale there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from bayesdp import _validate
from bayesdp._text import printable
from bayesdp.calibration.uniformity import detection_probability, uniformity_pvalue


def _quantiles(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1 or given.size == 0 or not np.all((given >= 0.0) & (given <= 1.0)):
        raise ValueError(f"values must be a vector of numbers between 0 and 1, got {values!r}")
    return np.asarray(stats.chi2.ppf(given, 1))


def dispersion_ratio(values: npt.ArrayLike) -> float:
    """Ratio of the errors to what the posteriors state, root mean square: above 1 if posteriors are too narrow.

    Parameters
    ----------
    values : array_like, shape (n,)
        Ranks of squared standardised errors, between 0 and 1.

    Returns
    -------
    float
        Exact for normal posteriors, a summary for others.


    Examples
    --------
    >>> even = (np.arange(1000) + 0.5) / 1000
    >>> print(f"{dispersion_ratio(even):.3f}")
    1.000
    """
    return float(np.sqrt(np.mean(_quantiles(values))))


def dispersion_pvalue(values: npt.ArrayLike) -> float:
    """Two-sided p-value of the hypothesis that the posteriors are as wide as they should be.

    Parameters, errors as in `dispersion_ratio`.

    Examples
    --------
    >>> even = (np.arange(300) + 0.5) / 300
    >>> print(f"{dispersion_pvalue(even):.2f} {dispersion_pvalue(even**0.75):.4f}")
    1.00 0.0065
    """
    squares = _quantiles(values)
    total, n = float(squares.sum()), squares.size
    return float(min(1.0, 2.0 * min(stats.chi2.cdf(total, n), stats.chi2.sf(total, n))))


def dispersion_power(n: int, scale: float, false_alarm: float = 0.05) -> float:
    """Probability that the test notices errors which are `scale` times as large as the posteriors state.

    Parameters
    ----------
    n : int
        Number of simulations.
    scale : float
        For instance 1.2 for posteriors whose standard deviation is 20% too small in proportion (1 / 1.2).
    false_alarm : float
        Level of the test.

    Returns
    -------
    float
        For normal posteriors.


    Examples
    --------
    >>> print(f"{dispersion_power(300, 1.2):.4f} {dispersion_power(50, 1.2):.3f}")
    0.9932 0.490
    """
    count = _validate.positive_integer(n, "n")
    ratio, level = _validate.positive_real(scale, "scale"), _validate.positive_real(false_alarm, "false_alarm")
    if level >= 1.0:
        raise ValueError(f"false_alarm must be between 0 and 1, got {false_alarm!r}")
    low, high = stats.chi2.ppf(level / 2, count), stats.chi2.isf(level / 2, count)
    return float(stats.chi2.cdf(low / ratio**2, count) + stats.chi2.sf(high / ratio**2, count))


type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Power:
    """Probability that a named error would have been noticed in one quantity with a normal posterior.

    Attributes
    ----------
    alternative : {"scale", "shift"}
        Errors `size` times as large as stated, or off by `size` posterior standard deviations.
    size : float
    n : int
        Simulations.
    false_alarm : float
        Level of each test.
    ranks, dispersion : float
        Power of the band for ranks, and of the test of squared errors.
    """

    alternative: str
    size: float
    n: int
    false_alarm: float
    ranks: float
    dispersion: float

    def __str__(self) -> str:
        what = (
            f"errors {self.size:g} times as large as stated"
            if self.alternative == "scale"
            else f"posteriors off by {self.size:g} standard deviations"
        )
        return (
            f"{what} would be noticed with probability {self.ranks:.2f} by ranks and {self.dispersion:.2f} by squared errors "
            f"({self.n} simulations, level {self.false_alarm:.2g}, normal posteriors)"
        )


def power(n: int, alternative: str = "scale", size: float = 1.2, false_alarm: float = 0.05) -> Power:
    """Say what n simulations can notice in one quantity.

    Parameters
    ----------
    n : int
        Simulations.
    alternative : {"scale", "shift"}
    size : float
        See `Power`.
    false_alarm : float
        Level of each test.

    Returns
    -------
    Power

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of those above.

    Examples
    --------
    >>> print(power(300, "scale", 1.2, 0.001))
    errors 1.2 times as large as stated would be noticed with probability 0.31 by ranks
    and 0.90 by squared errors (300 simulations, level 0.001, normal posteriors)
    """
    kind = _validate.choice(alternative, ("scale", "shift"), "alternative")
    amount = _validate.positive_real(size, "size")

    def law(z: Floats) -> Floats:
        normal = stats.norm.ppf(z)
        return np.asarray(stats.norm.cdf(normal / amount if kind == "scale" else normal - amount))

    ranks = detection_probability(n, law, false_alarm)
    if kind == "scale":
        squares = dispersion_power(n, amount, false_alarm)
    else:  # a sum of n squares of normal variables with mean `amount`
        low, high = stats.chi2.ppf(false_alarm / 2, n), stats.chi2.isf(false_alarm / 2, n)
        squares = float(stats.ncx2.cdf(low, n, n * amount**2) + stats.ncx2.sf(high, n, n * amount**2))
    return Power(str(kind), amount, n, false_alarm, ranks, squares)


def holm(pvalues: Sequence[float]) -> Floats:
    """Adjust p-values for their number (Holm, 1979): the chance of any false alarm is held, however they depend.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    given = np.asarray(pvalues, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    steps = np.minimum(1.0, given[order] * np.arange(given.size, 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


@dataclass(frozen=True)
class QuantityVerdict:
    """What the ranks of one quantity say.

    Attributes
    ----------
    name : str
    n : int
        Ranks.
    p_ranks, p_dispersion : float
        P-values of uniform ranks, and of squared errors as large as stated; NaN for the latter if the quantity is
        determined in every simulation, or is itself about errors.
    ratio : float
        Root mean square of the errors over what the posteriors state.
    p_adjusted : float
        The smaller p-value, adjusted for all tests of all quantities.
    """

    name: str
    n: int
    p_ranks: float
    p_dispersion: float
    ratio: float
    p_adjusted: float


@dataclass(frozen=True)
class Verdict:
    """Calibrated as far as n simulations can tell, or not.

    Attributes
    ----------
    quantities : tuple of QuantityVerdict
    false_alarm : float
        Chance that a right posterior is called wrong, over all quantities together.
    power : Power
        What could have been noticed in one quantity, at the level that is left to each test.
    """

    quantities: tuple[QuantityVerdict, ...]
    false_alarm: float
    power: Power

    @property
    def worst(self) -> QuantityVerdict:
        """The quantity with the smallest adjusted p-value."""
        return min(self.quantities, key=lambda q: q.p_adjusted)

    @property
    def calibrated(self) -> bool:
        """Whether no quantity is rejected."""
        return self.worst.p_adjusted > self.false_alarm

    def __str__(self) -> str:
        worst = self.worst
        count = len(self.quantities)
        tests = f"{count} quantities" if count > 1 else "1 quantity"
        name = printable(worst.name)
        if self.calibrated:
            first = f"No sign of miscalibration in {tests} (smallest adjusted p-value {worst.p_adjusted:.3g}, {name})."
        else:
            rejected = [printable(q.name) for q in self.quantities if q.p_adjusted <= self.false_alarm]
            shown = ", ".join(rejected[:5]) + (f" and {len(rejected) - 5} more" if len(rejected) > 5 else "")
            first = (
                f"NOT calibrated: {len(rejected)} of {tests} rejected ({shown}); worst {name}, adjusted p-value "
                f"{worst.p_adjusted:.3g}, errors {worst.ratio:.2f} times as large as stated."
            )
        return f"{first} Chance of a false alarm over all of them: {self.false_alarm:g}. Power: {self.power}."


def judge(
    ranks: Mapping[str, Sequence[float]],
    dispersion: Mapping[str, Sequence[float]],
    false_alarm: float = 0.01,
    alternative: str = "scale",
    size: float = 1.2,
) -> Verdict:
    """Test all quantities together.

    Parameters
    ----------
    ranks, dispersion : mapping from name to sequence of float
        Ranks of the truth, and of its squared error (NaN where the posterior was one point, left out where there is none).
    false_alarm : float
        Chance of any rejection if all posteriors are right.
    alternative, size
        Of the power that is stated, see `power`.


    Examples
    --------
    >>> even = list((np.arange(200) + 0.5) / 200)
    >>> judge({"rate": even}, {"rate": even}).calibrated
    True
    """
    if not ranks:
        raise ValueError("ranks must hold at least one quantity, got none")
    tests: list[tuple[str, float]] = []
    found: dict[str, tuple[int, float, float, float]] = {}
    for name, values in ranks.items():
        squares = [value for value in dispersion.get(name, ()) if not np.isnan(value)]
        first = uniformity_pvalue(values)
        second = dispersion_pvalue(squares) if squares else float("nan")
        ratio = dispersion_ratio(squares) if squares else float("nan")
        found[name] = (len(values), first, second, ratio)
        tests += [(name, p) for p in (first, second) if not np.isnan(p)]
    adjusted = holm([p for _, p in tests])
    smallest = {
        name: min(p for (quantity, _), p in zip(tests, adjusted, strict=True) if quantity == name) for name in found
    }
    level = false_alarm / len(tests)
    n = max(count for count, *_ in found.values())
    return Verdict(
        tuple(
            QuantityVerdict(name, count, first, second, ratio, float(smallest[name]))
            for name, (count, first, second, ratio) in found.items()
        ),
        false_alarm,
        power(n, alternative, size, level),
    )
