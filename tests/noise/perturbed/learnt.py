"""The log-mass of numbers perturbed by a table that is not known, its rows integrated out: by formulas, apart from the package."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from bayesdp.noise import UnknownPerturbation

__all__ = ["log_marginal", "log_of_tallies"]

type Floats = npt.NDArray[np.float64]


def log_of_tallies(law: UnknownPerturbation, counts: Floats) -> Floats:
    """From how often each deviation of each row occurs, shape (..., counts, deviations): Dirichlet-multinomial, or a sum over V."""
    if law.prior == "dirichlet":
        prior = law.concentrations
        after = np.where(prior > 0, prior + counts, 1.0)
        each = gammaln(after) - gammaln(np.where(prior > 0, prior, 1.0))
        totals = prior.sum(axis=-1)
        rows = gammaln(totals) - gammaln(totals + counts.sum(axis=-1))
        return np.asarray(each.sum(axis=(-1, -2)) + rows.sum(axis=-1))
    masses = np.einsum("...rd,krd->...k", counts, np.log(np.where(law.tables > 0, law.tables, 1.0)))
    return np.asarray(np.logaddexp.reduce(masses, axis=-1) - np.log(len(law.tables)))


def log_marginal(law: UnknownPerturbation, values: npt.ArrayLike, location: npt.ArrayLike) -> float:
    """Of numbers about different records."""
    y, x = (np.asarray(own, dtype=np.int64).reshape(-1) for own in (values, location))
    rows, columns = np.minimum(x, len(law.counts) - 1), y - x + law.max_deviation
    inside = (columns >= 0) & (columns < len(law.deviations))
    if not inside.all() or np.any(law.concentrations[rows, columns] == 0):
        return -np.inf
    counts = np.zeros(law.concentrations.shape)
    np.add.at(counts, (rows, columns), 1.0)
    return float(log_of_tallies(law, counts))
