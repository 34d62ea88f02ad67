"""Whether published numbers are compatible with the laws stated of them, without a model of the counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesdp._wiring import connected
from bayesdp.consistency._differences import Differences, answers_of, differences_of
from bayesdp.consistency._least_squares import LeastSquares, least_squares
from bayesdp.consistency.post_processed import FALSE_ALARMS, PostProcessedWarning
from bayesdp.measurements import Exact, Measured

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_INCOMPATIBLE = 1e-4
"""The p-value below which `observe`, fits, ``bayesdp import`` and reports say that numbers do not fit their law."""


@dataclass(frozen=True, eq=False)
class LawCheck:
    """What `bayesdp.check_law` found: the differences of published sums that are equal in every table, group by group.

    Attributes
    ----------
    groups : tuple
        Differences of two sets of sums each; see `table` for what is known of them.
    chi_square : tuple of (statistic, df, pvalue), or None
        Of the residual of generalised least squares over all additive noise at once, `df` the number of answers minus the rank. The
        p-value is NaN where the noise is far from normal for so few contradictions, and all is None where nothing contradicts.
    left_out : tuple of str
        What was not compared, and why.
    """

    groups: tuple[Differences, ...]
    chi_square: LeastSquares | None
    left_out: tuple[str, ...]

    @property
    def pvalue(self) -> float:
        """The smallest p-value times the number of groups, a bound whatever their dependence; NaN where nothing is compared."""
        chi = [] if self.chi_square is None or np.isnan(self.chi_square.pvalue) else [self.chi_square.pvalue]
        own = chi + [group.pvalue for group in self.groups]
        return min(1.0, min(own) * len(own)) if own else np.nan

    @property
    def table(self) -> pd.DataFrame:
        """One row a group: the number of differences, how many are impossible, p-values and that of all of them together.

        ``single`` is that of the largest difference, ``large`` of all sizes, ``shape`` of how many there are of each size, too few
        or too many (NaN where that is not used). ``spread``: the mean square of the differences over what the law says.
        """
        import pandas as pd

        columns = ["number", "impossible", "single", "large", "shape", "spread", "pvalue"]
        rows = {group.words: [getattr(group, name) for name in columns] for group in self.groups}
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    @property
    def worst(self) -> tuple[tuple[str, float, float, float], ...]:
        """The least likely differences of each group: the sum by name, what both sides say, and the probability of it alone."""
        return tuple(sorted((own for group in self.groups for own in group.worst), key=lambda own: own[3]))

    def plot(self, most: int = 4) -> Figure:
        """Draw how many differences there are of each size, of `most` groups, worst first, beside what the law says.

        In counts, or in standard deviations of each; the last bins hold all that is farther out. ValueError without differences.
        """
        figure: Figure = connected("draw a check of a law")(self, most)
        return figure

    def contradiction(self, apart: Callable[[int, int], bool]) -> Differences | None:
        """The worst of those groups whose two sources are apart, if it is too far for `FALSE_ALARMS`."""
        between = [group for group in self.groups if apart(*group.sources)]
        worst = min(between, key=lambda group: group.too_far, default=None)
        return worst if worst is not None and worst.too_far < FALSE_ALARMS / len(between) else None

    @property
    def found(self) -> tuple[str, str]:
        """What fits least, and what may be behind it."""
        chi, worst = self.chi_square, min(self.groups, key=lambda group: group.pvalue, default=None)
        named = worst is not None and worst.pvalue * len(self.groups) < _INCOMPATIBLE  # says more than a chi-square
        if chi is not None and (worst is None or (chi.pvalue < worst.pvalue and not named)):
            words, ratio = f"{self._chi} of all contradictions", chi.statistic / chi.df
        elif worst is None:
            return "no published sums have to agree", ""
        elif not worst.shape < 0.5 * worst.too_far:
            words, ratio = f"{worst.words}: {worst.told}", np.inf
        else:
            words, ratio = f"{worst.words}: mean square {worst.spread:.2g} of the law's in {worst.number}", worst.spread
        if ratio > 1.1:
            return (
                words,
                "The noise is larger than stated, or numbers are of different times or populations, or one is wrong",
            )
        if ratio > 0.9:
            return words, "Differences are spread otherwise than the law says"
        return words, (
            "They contradict one another less than noise of their own makes them: totals that are sums of published cells are no "
            "measurements of their own, leave them out; or the noise is smaller than stated"
        )

    @property
    def warning(self) -> str | None:
        """What does not fit, in words; None where the p-value is not below 1e-4."""
        if not self.pvalue < _INCOMPATIBLE:
            return None
        words, why = self.found
        return (
            f"the published numbers are not compatible with the stated law, whatever the true table (p = {self.pvalue:.2g}): "
            f"{words}. {why}. A posterior under this law would be wrong; look at bayesdp.check_law(release)"
        )

    @property
    def _chi(self) -> str:
        return (
            ""
            if self.chi_square is None
            else f"chi-square {self.chi_square[0]:.4g} on {self.chi_square[1]} degrees of freedom"
        )

    def __repr__(self) -> str:
        words, why = self.found
        number = sum(group.number for group in self.groups)
        first = f"p = {self.pvalue:.2g}, {len(self.groups)} groups of sums that have to agree, {number:,} differences"
        lines = [f"<LawCheck: {words if np.isnan(self.pvalue) else first}"]
        lines += (
            [f"fits least: {words}"] * bool(why) + [why] * (self.pvalue < _INCOMPATIBLE) + [self._chi] * bool(self._chi)
        )
        return "\n  ".join([*lines, *(f"not compared: {own}" for own in self.left_out)]) + ">"


def law_check(measurements: Iterable[Measured], exact: Iterable[Exact]) -> LawCheck:
    """The check of measurements and exact parts of one table."""
    answers, left_out = answers_of(measurements, exact)
    groups, more = differences_of(answers)
    return LawCheck(tuple(groups), least_squares(answers) if answers else None, tuple(left_out + more))


def warn_of_law(check: LawCheck, stacklevel: int = 2) -> None:
    """Warn where numbers are not compatible with their law, with a `PostProcessedWarning`."""
    if check.warning is not None:
        warnings.warn(check.warning, PostProcessedWarning, stacklevel=stacklevel + 1)
