"""The check of numbers against their laws, `bayesdp.check_law`: differences of sums, and all linear contradictions at once.

The latter is the residual of generalised least squares of additive noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr
from scipy.special import chdtr, gammainc, gammaincc, ndtr

from bayesdp._nested import NestedSums
from bayesdp._wiring import connected
from bayesdp.measurements import Exact, Measured
from bayesdp.measurements.consistency.differences import Answers, Differences, Term, answers_of, differences_of
from bayesdp.measurements.consistency.exact import FALSE_ALARMS, PostProcessedWarning
from bayesdp.queries import SumPart

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_MOST_ENTRIES, _DENSE = 3_000_000, 500
"""Cells in answers, and answers whose rank is worked out from a matrix where labels cross or some answers are missing."""

_EXACTLY = 1e-3
"""Standard deviation of exact sums beside the smallest of the noise: changes the chi-square by one in a million at most."""

_SKEWEST = 0.5


class LeastSquares(NamedTuple):
    """``r' V^-1 r`` of the residuals r, its degrees of freedom, and its p-value on both sides; NaN where it is not known."""

    statistic: float
    df: int
    pvalue: float

    def __str__(self) -> str:
        return f"chi-square {self.statistic:.4g} on {self.df} degrees of freedom"


def least_squares(answers: Sequence[Answers]) -> LeastSquares | None:
    """The counts are free parameters, exact sums have no variance; None without contradictions, or where it is too large.

    Under (discrete) normal noise z of unit variance the statistic is ``z' M z`` with a projection M of rank df: chi-square.
    Otherwise it has mean df, variance ``2 df + k4 sum M_ii^2`` and third cumulant ``8 df + 12 k4 sum M_ii^2 + k6 sum M_ii^3``
    with the cumulants k4 and k6 of z. As M_ii is from 0 to 1, these sums are at most df. A gamma law with these largest moments
    stands for the upper tail and a normal one for the lower where they are nearly normal (skewness up to 0.5); else there is no
    p-value, and the exact laws of differences decide alone.
    """
    used = [each for each in answers if each.source < 0 or each.variance is not None]
    noisy = [each for each in used if each.variance is not None]
    if (
        not noisy
        or len(used) * used[0].part.frame.size > _MOST_ENTRIES
        or any((each.sure != each.counted).any() for each in used)
    ):
        return None
    rank, known = _rank(used), _rank([each for each in used if each.variance is None])
    df = sum(int(each.sure.sum()) for each in noisy) - (rank or 0) + (known or 0)
    if rank is None or known is None or df <= 0:
        return None
    least = _EXACTLY**2 * min(float(each.variance.min()) for each in noisy if each.variance is not None)
    sure = np.concatenate([each.sure for each in used])
    variance = [np.full(each.part.rows, least) if each.variance is None else each.variance for each in used]
    weight = 1.0 / np.sqrt(np.concatenate(variance)[sure])
    values = np.concatenate([each.values for each in used])[sure]
    rows = _rows(used)
    scaled = sp.diags_array(weight) @ rows
    # A residual below 1e-12 of matrix times solution (`lsqr` gives their norms) ends the search before it is the least one. It is not
    # that small once counts near by are taken away: whole ones, which leaves no rounding errors, and then what is left.
    for last in (False, False, False, True, True):
        found = lsqr(scaled, weight * values, atol=1e-12, btol=1e-12, conlim=0.0, iter_lim=4000)
        reached = 1e-12 * (float(np.linalg.norm(weight * values)) + found[5] * found[8]) < 1e-3 * found[3]
        if reached:
            break
        values = values - rows @ (found[0] if last else np.rint(found[0]))
    k4, k6 = np.max([_cumulants(term) for part in noisy for term in part.terms], axis=0)
    statistic, sd = float(found[3] ** 2), np.sqrt(df * (2.0 + k4))
    skew, z = df * (8.0 + 12.0 * k4 + k6) / sd**3, (statistic - df) / sd
    solved = found[1] in (0, 1, 2) and (reached or statistic < 1e-6 * df)
    if not solved or (k4 + k6 > 0.0 and skew > _SKEWEST):
        return LeastSquares(statistic if solved else np.nan, df, np.nan)
    # Numbers on a grid may come out closer than the law of real ones says: by a random vector of variance 1 / 12, here 1.
    coarse = max((each.grid or 1.0) / float(each.variance.min()) ** 0.5 for each in noisy if each.variance is not None)
    above = (statistic**0.5 + df**0.5 * coarse) ** 2
    low = ndtr((above - df) / sd) if k4 + k6 > 0.0 else chdtr(df, above)
    # Pearson's law of type III is a gamma law of that skewness, with mean 0 and variance 1; `scipy.stats` takes long to import.
    shape, side = 4.0 / max(skew**2, 1e-10), 1.0 if skew > 0.0 else -1.0
    high = (gammaincc if skew > 0.0 else gammainc)(shape, max(shape + side * z * shape**0.5, 0.0))
    return LeastSquares(statistic, df, min(1.0, 2.0 * float(min(low, high))))


def _rows(used: Sequence[Answers]) -> sp.csr_array:
    """The published sums as rows of a matrix."""
    stacked = sp.csr_array(sp.vstack([each.part.matrix for each in used], format="csr"))
    return stacked[np.flatnonzero(np.concatenate([each.sure for each in used]))].astype(np.float64)


def _rank(used: Sequence[Answers]) -> int | None:
    """The number of independent sums among those published; None where it is not worked out."""
    sums = [each.part for each in used if isinstance(each.part, SumPart) and each.sure.all()]
    if used and len(sums) == len(used) and (nested := NestedSums.of(sums)) is not None:
        return nested.rank
    if sum(each.part.rows for each in used) > _DENSE:
        return None
    return int(np.linalg.matrix_rank((_rows(used) @ _rows(used).T).toarray(), hermitian=True)) if used else 0


@lru_cache(maxsize=128)
def _cumulants(term: Term) -> tuple[float, float]:
    """The fourth and sixth cumulants of noise of unit variance; 0 where they are below those of the normal law, or all but."""
    scale = term.moments[0] ** 0.5
    step = 1.0 if term.law.integer and scale < 64.0 else 2.0 ** np.floor(np.log2(scale / 64.0))
    mass, z = term.on_grid(True, step, 2**14), (np.arange(2**14) - 2**13) * step / scale
    second, fourth, sixth = (float(mass @ z**k) for k in (2, 4, 6))
    k4, k6 = fourth / second**2 - 3.0, sixth / second**3 - 15.0 * fourth / second**2 + 30.0
    return (max(k4, 0.0), max(k6, 0.0)) if abs(k4) + abs(k6) > 1e-3 else (0.0, 0.0)


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
        p-value is NaN where the noise is far from normal for so few contradictions, or the search did not end, and all is None
        where nothing contradicts.
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
        pvalues = chi + [group.pvalue for group in self.groups]
        return min(1.0, min(pvalues) * len(pvalues)) if pvalues else np.nan

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
        return tuple(sorted((each for group in self.groups for each in group.worst), key=lambda each: each[3]))

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
        if (
            chi is not None
            and not np.isnan(chi.statistic)
            and (worst is None or (chi.pvalue < worst.pvalue and not named))
        ):
            words, ratio = f"{chi} of all contradictions", chi.statistic / chi.df
        elif worst is None:
            return "no published sums have to agree", ""
        elif not worst.shape < 0.5 * worst.too_far:
            words, ratio = f"{worst.words}: {worst.told}", np.inf
        else:
            words, ratio = f"{worst.words}: mean square {worst.spread:.2g} of the law's in {worst.number}", worst.spread
        if ratio > 1.1:
            why = "The noise is larger than stated, or numbers are of different times or populations, or one is wrong"
            return words, why
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

    def __repr__(self) -> str:
        words, why = self.found
        number = sum(group.number for group in self.groups)
        first = f"p = {self.pvalue:.2g}, {len(self.groups)} groups of sums that have to agree, {number:,} differences"
        lines = [f"<LawCheck: {words if np.isnan(self.pvalue) else first}"]
        lines += [f"fits least: {words}"] * bool(why) + [why] * (self.pvalue < _INCOMPATIBLE)
        lines += [] if self.chi_square is None else [str(self.chi_square)]
        return "\n  ".join([*lines, *(f"not compared: {measurement}" for measurement in self.left_out)]) + ">"


def law_check(measurements: Iterable[Measured], exact: Iterable[Exact]) -> LawCheck:
    """The check of measurements and exact parts of one table."""
    answers, left_out = answers_of(measurements, exact)
    groups, more = differences_of(answers)
    return LawCheck(tuple(groups), least_squares(answers) if answers else None, tuple(left_out + more))


def warn_of_law(check: LawCheck) -> None:
    """Warn where numbers are not compatible with their law, at the line that called the caller."""
    if check.warning is not None:
        warnings.warn(check.warning, PostProcessedWarning, stacklevel=3)
