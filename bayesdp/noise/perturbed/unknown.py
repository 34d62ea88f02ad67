"""Counts perturbed by a table that the office keeps to itself: its rows are unknown, with a prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.perturbed.base import PerturbedLaw, Transitions, whole
from bayesdp.noise.perturbed.cell_key import CellKey, deviations_of, feasible_variances
from bayesdp.noise.perturbed.transition_table import TransitionTable
from bayesdp.queries import Query

_VARIANCES = 400


@dataclass(frozen=True, eq=False)
class UnknownPerturbation(PerturbedLaw):
    """Counts perturbed by cell keys with a perturbation table that is not published: it is learnt with the counts.

    Unknown are the rows p(v | x) of the table: one for each true count x below `small`, and one for all counts from there on.
    Published numbers that contradict one another tell of them: males, females and persons, each perturbed on its own. Under
    `bayesdp.observe` the rows are a variable, ``<measurement>_law`` with dimensions ``count`` (the last one stands for all larger
    counts) and ``deviation``; all measurements with an equal law have the same. Answers about the same records have one deviation.

    The prior "dirichlet" has independent Dirichlet rows, with `concentration` for each deviation that is possible. "max-entropy" has
    the rows of ``CellKey(max_deviation=D, variance_at_most=V)``, V one of 400 equally likely values, evenly spaced (`variances`):
    from the least variances that rows can have to that which limits none. That is one number, learnt from fewer answers. Rows
    of small counts are told from the prior of small cells by little else than sums.

    Support, mass, mean, variance and `draw` are those of *one* number, its row integrated out: whole numbers x + v, with the prior
    means of the row of x. To simulate several, `draw_answers` draws a table and then all answers with it; `drawn` gives a table as a
    law. Not differentially private.

    Parameters
    ----------
    max_deviation : int
        D, from 1 to 100. Deviations that do not occur get a small posterior probability: it may be more than enough.
    small : int, optional
        The count from which on all have one row; at least that from which on all deviations are possible, its default: D, plus
        `not_smaller_than` if that is 2 or more.
    not_smaller_than : int, default 0
        No smaller positive count is published.
    zeros : {"kept", "perturbed"}, default "kept"
    prior : {"dirichlet", "max-entropy"}, default "dirichlet"
    concentration : float, default 0.5

    Examples
    --------
    >>> law = UnknownPerturbation(max_deviation=1, small=2)
    >>> np.exp(law.log_each([0, 1, 2, 3], 1)).round(4).tolist()
    [0.3333, 0.3333, 0.3333, 0.0]
    >>> law.drawn(1).draw(2, (4,), location=30).tolist()
    [31, 31, 31, 30]
    """

    max_deviation: int
    small: int | None = None
    not_smaller_than: int = 0
    zeros: str = "kept"
    prior: str = "dirichlet"
    concentration: float = 0.5

    name = "unknown-perturbation"
    relation = "max_deviation=D, small=X, not_smaller_than=N, zeros=kept or perturbed, prior=dirichlet or max-entropy, concentration=C"

    def __post_init__(self) -> None:
        _validate.choice(self.zeros, ("kept", "perturbed"), "zeros")
        _validate.choice(self.prior, ("dirichlet", "max-entropy"), "prior")
        d = _validate.positive_integer(whole(self.max_deviation), "max_deviation")
        least = _validate.nonnegative_integer(whole(self.not_smaller_than), "not_smaller_than")
        first = d + (least if least > 1 else 0)
        small = first if self.small is None else _validate.nonnegative_integer(whole(self.small), "small")
        if d > 100:
            raise ValueError(f"max_deviation must be at most 100 where the law is learnt, got {d}")
        if not first <= small <= 1000:
            raise ValueError(f"small must be from {first}, where all deviations are possible, to 1000, got {small}")
        concentration = _validate.positive_real(self.concentration, "concentration")
        self._set(max_deviation=d, small=small, not_smaller_than=least, concentration=concentration)
        if self.prior == "max-entropy":
            _ = self.variances  # raises where a count has no law with mean zero

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
        own = [deviations_of(x, self.max_deviation, self.not_smaller_than, self.zeros) for x in self.counts.tolist()]
        return np.asarray(self.concentration * np.stack([np.isin(self.deviations, possible) for possible in own]))

    @property
    def variances(self) -> Floats:
        """The values that V may have under the prior "max-entropy"; increasing."""
        return _by_variance(self.max_deviation, self.not_smaller_than, self.zeros)[0]

    @cached_property
    def tables(self) -> Floats:
        """The rows for each of `variances`, shape (variances, counts, deviations)."""
        rows = _by_variance(self.max_deviation, self.not_smaller_than, self.zeros)[1]
        return rows[:, np.minimum(self.counts, rows.shape[1] - 1)]

    @cached_property
    def transitions(self) -> Transitions:
        """The prior means of the rows."""
        own = self.concentrations if self.prior == "dirichlet" else self.tables.mean(axis=0)
        return Transitions(-self.max_deviation, own / own.sum(axis=1, keepdims=True), 1)

    def given(self, rows: npt.ArrayLike) -> CellKey:
        """The law with known rows, shape (counts, deviations): those of a draw from the posterior, say."""
        return CellKey(TransitionTable(tuple(self.deviations.tolist()), rows, 1))  # type: ignore[arg-type]  # arrays are accepted

    def drawn(self, rng: _validate.Seed) -> CellKey:
        """A law with rows drawn from the prior."""
        return self.given(self.drawn_rows(_validate.generator_of(rng)))

    def drawn_rows(self, rng: np.random.Generator, occurring: npt.ArrayLike = 0.0) -> Floats:
        """Rows from the prior, or from their law given how often each deviation of each row occurs, shape (counts, deviations)."""
        counts = np.broadcast_to(np.asarray(occurring, dtype=np.float64), self.concentrations.shape)
        if self.prior == "dirichlet":
            # A gamma variable of shape a is one of a + 1 times U**(1 / a): in logarithms, as those of small shapes underflow.
            own = np.where(self.concentrations > 0, self.concentrations + counts, 1.0)
            logs = np.log(rng.standard_gamma(own + 1.0)) + np.log1p(-rng.random(own.shape)) / own
            rows = np.exp(np.where(self.concentrations > 0, logs - logs.max(axis=1, keepdims=True), -np.inf))
            return np.asarray(rows / rows.sum(axis=1, keepdims=True))
        seen = np.nonzero(counts)
        masses = np.log(self.tables[:, seen[0], seen[1]]) @ counts[seen]
        return np.asarray(self.tables[np.argmax(masses + rng.gumbel(size=len(masses)))])

    def draw_answers(self, rng: _validate.Seed, queries: Sequence[Query], table: npt.ArrayLike) -> list[Floats | Ints]:
        """Draw rows from the prior, and then what is published with them. See `NoiseLaw.draw_answers`."""
        generator = _validate.generator_of(rng)
        return self.drawn(generator).draw_answers(generator, queries, table)


@lru_cache(maxsize=8)
def _by_variance(d: int, least: int, zeros: str) -> tuple[Floats, Floats]:
    """Variances, evenly spaced, under which all rows differ and none is on two deviations only, and the rows of each."""
    free = CellKey(max_deviation=d, variance_at_most=d * d, not_smaller_than=least, zeros=zeros)
    ends = [feasible_variances(deviations_of(x, d, least, zeros)) or (0, 0) for x in range(1, len(free.row_variances))]
    low, high = max((first for first, last in ends if first < last), default=0.0), float(free.row_variances.max())
    variances = low + (high - low) * np.arange(1, _VARIANCES + 1) / _VARIANCES
    laws = [CellKey(max_deviation=d, variance_at_most=v, not_smaller_than=least, zeros=zeros) for v in variances]
    return variances, np.stack([law.transitions.mass for law in laws])
