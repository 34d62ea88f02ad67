"""Counts perturbed by a table that the office keeps to itself: its rows are unknown, with a prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from bayesdp import _validate
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.noise.perturbed.cell_key import CellKey, deviations_of
from bayesdp.noise.perturbed.max_entropy import feasible_variances
from bayesdp.noise.perturbed.transition_table import TransitionTable
from bayesdp.noise.perturbed.transitions import Transitions
from bayesdp.queries import Query

__all__ = ["UnknownPerturbation", "dirichlet_rows"]

_VARIANCES = 400
_MOST_ROWS = 1000


@dataclass(frozen=True, eq=False)
class UnknownPerturbation(PerturbedLaw):
    """Counts perturbed by cell keys with a perturbation table that is not published: it is learnt with the counts.

    The rows p(v | x) of the table are unknown, one for each true count x below `small` and one for all counts from there on. Published
    numbers that contradict one another tell of them: the males and females of an area, and its persons, all perturbed on their own.
    `bayesdp.observe` takes the law like any other; the rows are then a variable of the model, ``<measurement>_law``, with the
    dimensions ``count`` (the last one stands for all larger counts) and ``deviation``, and the posterior holds it beside the counts.
    All measurements of a model with an equal law of this kind have the same rows. Answers about the same records have the same
    deviation, as under `CellKey`.

    ========  ============================================================================================================
    Support   counts from x - D to x + D; none below 0 and none below `not_smaller_than` but 0
    Prior     "dirichlet": independent rows, each Dirichlet with `concentration` for every deviation that is possible
              "max-entropy": the rows of ``CellKey(max_deviation=D, variance_at_most=V)``, and V one of 400 equally likely
              values, evenly spaced (`variances`): above the least variances that rows can have, up to that which limits none
    ========  ============================================================================================================

    Prefer "max-entropy" where the office describes its design so, or where there are few answers: one number is learnt soon. Dirichlet
    rows have no shape, nor a mean of zero. Rows of small counts are told from the prior of small cells by little else than sums.

    Mass, mean, variance and `draw` are those of *one* number whose row is integrated out: what is expected before anything is
    learnt. Several numbers have one table: `log_marginal` is their log-mass together, `draw_answers` draws a table and then answers
    with it, and `drawn` gives such a table as a law. Not differentially private.

    Parameters
    ----------
    max_deviation : int
        D, from 1 to 100; deviations that do not occur get a small posterior probability, so that it may be more than enough.
    small : int, optional
        The count from which on all have one row; at least that from which on all deviations are possible, its default: D, plus
        `not_smaller_than` if that is 2 or more.
    not_smaller_than : int, default 0
        No smaller positive count is published.
    zeros : {"kept", "perturbed"}, default "kept"
        Whether a true 0 is always published as 0.
    prior : {"dirichlet", "max-entropy"}, default "dirichlet"
    concentration : float, default 0.5
        Of the Dirichlet rows; not used by "max-entropy".

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or no variance leaves every count its deviations.

    See Also
    --------
    bayesdp.noise.CellKey : a table that is known, or follows from a variance.
    bayesdp.steps.PerturbationGibbs : the step method that draws the rows.

    Examples
    --------
    >>> law = UnknownPerturbation(max_deviation=1, small=2)
    >>> np.exp(law.log_each([0, 1, 2, 3], 1)).round(4).tolist()
    [0.3333, 0.3333, 0.3333, 0.0]
    >>> round(law.log_marginal([4, 8], [5, 9]) - law.logp([4, 8], [5, 9]), 4)  # the second deviation is more likely to be the first one
    0.5878
    """

    max_deviation: int
    small: int | None = None
    not_smaller_than: int = 0
    zeros: str = "kept"
    prior: str = "dirichlet"
    concentration: float = 0.5

    name = "unknown-perturbation"
    relation = (
        "max_deviation=D, and small=X, not_smaller_than=N, zeros=kept or perturbed, prior=dirichlet or max-entropy, concentration=C"
    )

    def __post_init__(self) -> None:
        _validate.choice(self.zeros, ("kept", "perturbed"), "zeros")
        _validate.choice(self.prior, ("dirichlet", "max-entropy"), "prior")
        d = _validate.positive_integer(_whole(self.max_deviation), "max_deviation")
        least = _validate.nonnegative_integer(_whole(self.not_smaller_than), "not_smaller_than")
        if d > 100:
            raise ValueError(f"max_deviation must be at most 100 where the law is learnt, got {d}")
        first = d + (least if least > 1 else 0)
        small = first if self.small is None else _validate.nonnegative_integer(_whole(self.small), "small")
        if not first <= small <= _MOST_ROWS:
            raise ValueError(
                f"small must be from {first}, from which on all deviations are possible, to {_MOST_ROWS}, got {small}"
            )
        for name, value in (("max_deviation", d), ("small", small), ("not_smaller_than", least)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "concentration", _validate.positive_real(self.concentration, "concentration"))
        if self.prior == "max-entropy":
            _ = self.variances  # raises where there are none

    @property
    def same_cell_same_value(self) -> bool:
        """True, as of `CellKey`."""
        return True

    @property
    def counts(self) -> Ints:
        """The counts of the rows, from 0 to `small`."""
        assert self.small is not None
        return np.arange(self.small + 1, dtype=np.int64)

    @property
    def deviations(self) -> Ints:
        """The deviations of the columns, from -D to D."""
        return np.arange(-self.max_deviation, self.max_deviation + 1, dtype=np.int64)

    @cached_property
    def concentrations(self) -> Floats:
        """Parameters of the Dirichlet rows, shape (counts, deviations); 0 where a deviation is not possible."""
        found = np.zeros((len(self.counts), len(self.deviations)))
        for x in self.counts:
            own = deviations_of(int(x), self.max_deviation, self.not_smaller_than, self.zeros)
            found[x, own + self.max_deviation] = self.concentration
        return found

    @property
    def variances(self) -> Floats:
        """The values that V may have under the prior "max-entropy"; increasing."""
        return _by_variance(self.max_deviation, self.not_smaller_than, self.zeros)[0]

    @cached_property
    def rows_by_variance(self) -> Floats:
        """The rows for each of `variances`, shape (variances, counts, deviations)."""
        rows = _by_variance(self.max_deviation, self.not_smaller_than, self.zeros)[1]
        return rows[:, np.minimum(self.counts, rows.shape[1] - 1)]

    @cached_property
    def transitions(self) -> Transitions:
        """The prior mean of the rows."""
        if self.prior == "max-entropy":
            return Transitions(-self.max_deviation, self.rows_by_variance.mean(axis=0), 1)
        own = self.concentrations
        return Transitions(-self.max_deviation, own / own.sum(axis=1, keepdims=True), 1)

    def given(self, rows: npt.ArrayLike) -> CellKey:
        """The law with known rows, shape (counts, deviations): of a draw from the posterior, say."""
        return CellKey(TransitionTable(tuple(self.deviations.tolist()), rows, 1))  # type: ignore[arg-type]  # arrays are accepted

    def drawn(self, rng: _validate.Seed) -> CellKey:
        """A law with rows drawn from the prior.

        Examples
        --------
        >>> law = UnknownPerturbation(max_deviation=2, prior="max-entropy").drawn(1)
        >>> law.draw(2, (4,), location=30).tolist()
        [29, 29, 31, 29]
        """
        generator = _validate.generator_of(rng)
        if self.prior == "max-entropy":
            return self.given(self.rows_by_variance[generator.integers(len(self.variances))])
        return self.given(dirichlet_rows(generator, self.concentrations))

    def draw_answers(self, rng: _validate.Seed, queries: Sequence[Query], table: npt.ArrayLike) -> list[Floats | Ints]:
        """Draw rows from the prior, and then what is published with them. See `NoiseLaw.draw_answers`."""
        generator = _validate.generator_of(rng)
        return self.drawn(generator).draw_answers(generator, queries, table)

    def log_marginal(self, values: npt.ArrayLike, location: npt.ArrayLike) -> float:
        """Log-mass of published numbers about different records, all together: the rows are integrated out.

        Parameters
        ----------
        values, location : array_like
            Of shapes that broadcast.

        Returns
        -------
        float
            ``-inf`` if one cannot be.
        """
        y, x = (np.asarray(own).reshape(-1) for own in np.broadcast_arrays(values, location))
        if not np.isfinite(self.log_each(y, x)).all():
            return -np.inf
        counts = np.zeros(self.transitions.mass.shape)
        np.add.at(counts, (self.transitions.row_of(x), y - x + self.max_deviation), 1.0)
        if self.prior == "max-entropy":
            masses = np.einsum("krd,rd->k", np.log(np.where(counts > 0, self.rows_by_variance, 1.0)), counts)
            return float(np.logaddexp.reduce(masses) - np.log(len(masses)))
        own, possible = self.concentrations, self.concentrations > 0
        rows = gammaln(own.sum(axis=1)) - gammaln((own + counts).sum(axis=1))
        return float(rows.sum() + (gammaln((own + counts)[possible]) - gammaln(own[possible])).sum())


def dirichlet_rows(rng: np.random.Generator, concentrations: Floats) -> Floats:
    """Draw a row of each Dirichlet law, 0 where it has no concentration; in logarithms, as small ones underflow."""
    own = np.where(concentrations > 0, concentrations, 1.0)
    logs = np.log(rng.standard_gamma(own + 1.0)) + np.log1p(-rng.random(own.shape)) / own
    logs = np.where(concentrations > 0, logs, -np.inf)
    rows = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


@lru_cache(maxsize=8)
def _by_variance(d: int, least: int, zeros: str) -> tuple[Floats, Floats]:
    """Variances, evenly spaced, under which all rows differ and none is on two deviations only, and the rows of each."""
    free = CellKey(max_deviation=d, variance_at_most=d * d, not_smaller_than=least, zeros=zeros)
    ends = [
        feasible_variances(deviations_of(x, d, least, zeros)) or (0.0, 0.0) for x in range(1, len(free.row_variances))
    ]
    low = max((first for first, last in ends if first < last), default=0.0)
    high = float(free.row_variances.max())
    if high <= low * (1 + 1e-6):
        raise ValueError(
            f"prior 'max-entropy' has no variances for max_deviation {d} and not_smaller_than {least}: a small count needs one of "
            f"{low:g} at least, and no row has more; take a larger max_deviation, or the prior 'dirichlet'"
        )
    variances = low + (high - low) * np.arange(1, _VARIANCES + 1) / _VARIANCES
    rows = [
        CellKey(max_deviation=d, variance_at_most=v, not_smaller_than=least, zeros=zeros).transitions.mass
        for v in variances
    ]
    return variances, np.stack(rows)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
