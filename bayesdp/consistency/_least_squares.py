"""The chi-square of all linear contradictions at once: the residual of generalised least squares of additive noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy import stats
from scipy.sparse.linalg import lsqr

from bayesdp._nested import NestedSums
from bayesdp.consistency._differences import Answers, Term
from bayesdp.queries import SumPart

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


def least_squares(answers: Sequence[Answers]) -> LeastSquares | None:
    """The counts are free parameters, exact sums have no variance; None without contradictions, or where it is too large.

    Under (discrete) normal noise z of unit variance the statistic is ``z' M z`` with a projection M of rank df: chi-square.
    Otherwise it has mean df, variance ``2 df + k4 sum M_ii^2`` and third cumulant ``8 df + 12 k4 sum M_ii^2 + k6 sum M_ii^3``
    with the cumulants k4 and k6 of z. As M_ii is from 0 to 1, these sums are at most df. A gamma law with these largest moments
    stands for the upper tail and a normal one for the lower where they are nearly normal (skewness up to 0.5); else there is no
    p-value, and the exact laws of differences decide alone.
    """
    used = [own for own in answers if own.source < 0 or own.variance is not None]
    noisy = [own for own in used if own.variance is not None]
    if (
        not noisy
        or len(used) * used[0].part.frame.size > _MOST_ENTRIES
        or any((own.sure != own.counted).any() for own in used)
    ):
        return None
    rank, known = _rank(used), _rank([own for own in used if own.variance is None])
    df = sum(int(own.sure.sum()) for own in noisy) - (rank or 0) + (known or 0)
    if rank is None or known is None or df <= 0:
        return None
    least = _EXACTLY**2 * min(float(own.variance.min()) for own in noisy if own.variance is not None)
    sure = np.concatenate([own.sure for own in used])
    variance = [np.full(own.part.rows, least) if own.variance is None else own.variance for own in used]
    weight = 1.0 / np.sqrt(np.concatenate(variance)[sure])
    values = np.concatenate([own.values for own in used])[sure]
    rows = _rows(used)
    for _ in range(
        3
    ):  # of large counts little is left of the residual but rounding: whole counts near by are taken away first
        found = lsqr(sp.diags_array(weight) @ rows, weight * values, atol=1e-9, btol=1e-9, iter_lim=2000)
        if np.abs(near := np.rint(found[0])).max() < 1e6:
            break
        values = values - rows @ near
    k4, k6 = np.max([_cumulants(term) for part in noisy for term in part.terms], axis=0)
    statistic, sd = float(found[3] ** 2), np.sqrt(df * (2.0 + k4))
    skew, z = df * (8.0 + 12.0 * k4 + k6) / sd**3, (statistic - df) / sd
    if found[1] not in (0, 1, 2) or (k4 + k6 > 0.0 and skew > _SKEWEST):
        return LeastSquares(statistic if found[1] in (0, 1, 2) else np.nan, df, np.nan)
    # Numbers on a grid may come out closer than the law of real ones says: by a random vector of variance 1 / 12, here 1.
    coarse = max((own.grid or 1.0) / float(own.variance.min()) ** 0.5 for own in noisy if own.variance is not None)
    above = (statistic**0.5 + df**0.5 * coarse) ** 2
    low = stats.norm.cdf((above - df) / sd) if k4 + k6 > 0.0 else stats.chi2.cdf(above, df)
    return LeastSquares(statistic, df, min(1.0, 2.0 * float(min(low, stats.pearson3.sf(z, skew)))))


def _rows(used: Sequence[Answers]) -> sp.csr_array:
    """The published sums as rows of a matrix."""
    stacked = sp.csr_array(sp.vstack([own.part.matrix for own in used], format="csr"))
    return stacked[np.flatnonzero(np.concatenate([own.sure for own in used]))].astype(np.float64)


def _rank(used: Sequence[Answers]) -> int | None:
    """The number of independent sums among those published; None where it is not worked out."""
    sums = [own.part for own in used if isinstance(own.part, SumPart) and own.sure.all()]
    if used and len(sums) == len(used) and (nested := NestedSums.of(sums)) is not None:
        return nested.rank
    if sum(own.part.rows for own in used) > _DENSE:
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
